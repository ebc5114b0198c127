//! The `keyboard` execution module: the keyboard layouts of the console and of X.

use std::path::Path;

use machine::fs::{self, Owner};
use machine::process::{Output, Process, which};
use state::exec::Exec;
use state::module::Error;
use value::{Value, log};

state::exec_module! {
    /// Manage the keyboard layout.
    mod keyboard;

    /// Return the layout of the console.
    ///
    ///     salt-call keyboard.get_sys
    fn get_sys(GetSys {});

    /// Set the layout of the console.
    ///
    ///     salt-call keyboard.set_sys us
    fn set_sys(SetSys {
        /// The layout.
        layout: String,
    });

    /// Return the layout of X.
    ///
    ///     salt-call keyboard.get_x
    fn get_x(GetX {});

    /// Set the layout of X.
    ///
    ///     salt-call keyboard.set_x us
    fn set_x(SetX {
        /// The layout.
        layout: String,
    });
}

/// Returns the file that stores the layout if `localectl` is missing, and the text before the
/// layout in its line.
fn file(cx: &Exec) -> (&'static Path, &'static str) {
    let (path, word) = match cx.grain("os_family").as_str() {
        "RedHat" => ("/etc/sysconfig/keyboard", "LAYOUT="),
        "Gentoo" => ("/etc/conf.d/keymaps", "keymap="),
        _ => ("/etc/default/keyboard", "XKBLAYOUT="),
    };
    (Path::new(path), word)
}

fn plain(layout: &str) -> Result<&str, Error> {
    match layout.starts_with('-') || layout.contains(['\n', '"']) {
        true => Err(format!("invalid keyboard layout '{layout}'").into()),
        false => Ok(layout),
    }
}

fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    Process::words(words.iter().copied()).run(cx)
}

fn get_sys(cx: &Exec, _: GetSys) -> Result<Value, Error> {
    if which("localectl").is_some() {
        let done = run(cx, &["localectl"])?;
        let found = done
            .stdout_regardless()
            .lines()
            .find_map(|line| line.split_once("Keymap: "));
        return match found {
            Some((_, layout)) => Ok(layout.trim().into()),
            None => Err(format!(
                "no keymap in the output of localectl: {}{}",
                done.stdout_regardless(),
                done.stderr
            )
            .into()),
        };
    }
    let (path, word) = file(cx);
    let text = fs::text(path)?;
    let layout = text.lines().find_map(|line| line.strip_prefix(word));
    let layout = layout.ok_or_else(|| format!("{} has no line {word}", path.display()))?;
    Ok(layout.replace('"', "").into())
}

fn set_sys(cx: &Exec, args: SetSys) -> Result<Value, Error> {
    let layout = plain(&args.layout)?;
    if which("localectl").is_some() {
        let done = run(cx, &["localectl", "set-keymap", layout])?;
        if !done.success() {
            log::error(format_args!(
                "cannot set the keymap {layout} with localectl: {}",
                done.stderr
            ));
        }
        return Ok(layout.into());
    }
    let (path, word) = file(cx);
    let text = fs::text(path)?;
    let lines = text
        .split_inclusive('\n')
        .map(|line| match line.starts_with(word) {
            true => format!("{word}{layout}\n"),
            false => line.to_owned(),
        });
    fs::write(
        cx,
        path,
        lines.collect::<String>().as_bytes(),
        Owner::default(),
    )?;
    Ok(layout.into())
}

fn get_x(cx: &Exec, _: GetX) -> Result<Value, Error> {
    let done = run(cx, &["setxkbmap", "-query"])?;
    let found = done
        .stdout_regardless()
        .lines()
        .find_map(|line| line.strip_prefix("layout:"));
    match found {
        Some(layout) => Ok(layout.trim().into()),
        None => Err(format!("no layout in the output of setxkbmap: {}", done.stderr).into()),
    }
}

fn set_x(cx: &Exec, args: SetX) -> Result<Value, Error> {
    run(cx, &["setxkbmap", plain(&args.layout)?])?;
    Ok(args.layout.into())
}
