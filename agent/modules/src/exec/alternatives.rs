//! The `alternatives` execution module: the alternatives of commands (`update-alternatives`).

use std::path::Path;

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Value, log};

/// The folder with the links to the alternatives in use.
const LINKS: &str = "/etc/alternatives";

state::exec_module! {
    /// Manage the alternatives of commands (`update-alternatives`).
    #[needs(
        "/etc/alternatives",
        "Cannot load alternatives module: /etc/alternatives dir not found"
    )]
    mod alternatives;

    /// Return the alternatives of a name as the program displays them.
    ///
    ///     salt-call alternatives.display editor
    #[facts(outputter = "txt")]
    fn display(Display {
        /// The name of the alternative, such as `editor`.
        name: String,
    });

    /// Return the link of an alternative, or False if there is no alternative of that name.
    ///
    ///     salt-call alternatives.show_link editor
    fn show_link(ShowLink {
        /// The name of the alternative, such as `editor`.
        name: String,
    });

    /// Return the current target of an alternative, or False if there is no alternative of that
    /// name.
    ///
    ///     salt-call alternatives.show_current editor
    fn show_current(ShowCurrent {
        /// The name of the alternative, such as `editor`.
        name: String,
    });

    /// Return whether a path is one of the alternatives of a name.
    ///
    ///     salt-call alternatives.check_exists editor /usr/bin/vim.basic
    fn check_exists(CheckExists {
        /// The name of the alternative, such as `editor`.
        name: String,
        /// The path to look for.
        path: String,
    });

    /// Return whether an alternative currently points to a path.
    ///
    ///     salt-call alternatives.check_installed editor /usr/bin/vim.basic
    fn check_installed(CheckInstalled {
        /// The name of the alternative, such as `editor`.
        name: String,
        /// The expected path.
        path: String,
    });

    /// Add an alternative.
    ///
    ///     salt-call alternatives.install editor /usr/bin/editor /usr/bin/vim.basic 60
    #[facts(outputter = "txt")]
    fn install(Install {
        /// The name of the alternative, such as `editor`.
        name: String,
        /// The path of the generic link, such as `/usr/bin/editor`.
        link: String,
        /// The path of the program to add as an alternative.
        path: String,
        /// The priority. In automatic mode, the alternative with the highest priority is used.
        priority: i64,
    });

    /// Remove an alternative.
    ///
    ///     salt-call alternatives.remove editor /usr/bin/vim.tiny
    #[facts(outputter = "txt")]
    fn remove(Remove {
        /// The name of the alternative, such as `editor`.
        name: String,
        /// The path of the program to remove from the alternatives.
        path: String,
    });

    /// Switch an alternative to automatic mode: the priorities decide what it points to.
    ///
    ///     salt-call alternatives.auto editor
    fn auto(Auto {
        /// The name of the alternative, such as `editor`.
        name: String,
    });

    /// Set what an alternative points to.
    ///
    ///     salt-call alternatives.set editor /usr/bin/vim.basic
    fn set(Set {
        /// The name of the alternative, such as `editor`.
        name: String,
        /// The path that the alternative is to point to.
        path: String,
    });
}

/// Runs the program of this distribution. Refuses a name or a path that begins with `-`, since the
/// program would read it as an option. A negative priority is allowed.
fn run(cx: &Exec, words: &[&str], asks: bool) -> Result<Output, Error> {
    let is_option = |word: &&&str| word.starts_with('-') && word.parse::<i64>().is_err();
    if let Some(word) = words.iter().skip(1).find(is_option) {
        return Err(Error::refused(format!(
            "{word} is not a valid name or path of an alternative: it starts with `-`"
        )));
    }
    let program = match cx.grain("os_family").as_str() {
        "RedHat" => "alternatives",
        _ => "update-alternatives",
    };
    let process = Process::words([program].iter().chain(words).copied());
    let process = Process {
        ignore_retcode: asks,
        ..process
    };
    process.run(cx)
}

fn failed(output: &Output) -> bool {
    !output.success() && !output.stderr.is_empty()
}

/// Returns the output of the program, or its error output if it failed.
fn stdout_or_stderr(output: Output) -> String {
    match failed(&output) {
        true => output.stderr,
        false => output.into_stdout_regardless(),
    }
}

/// Returns what the program displays about an alternative (`--display`).
///
/// # Errors
/// When the program is missing.
pub(crate) fn display_text(cx: &Exec, name: &str) -> Result<String, Error> {
    Ok(stdout_or_stderr(run(cx, &["--display", name], true)?))
}

/// Reports whether a path is one of the alternatives of a name.
///
/// # Errors
/// When the program is missing.
pub(crate) fn exists(cx: &Exec, name: &str, path: &str) -> Result<bool, Error> {
    let output = run(cx, &["--display", name], true)?;
    Ok(!failed(&output) && is_listed(output.stdout_regardless(), path))
}

/// Reports whether the output of `--display` lists a path among the alternatives.
pub(crate) fn is_listed(output: &str, path: &str) -> bool {
    let listed = |line: &str| {
        let rest = line.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    output.lines().any(listed)
}

/// Returns the current target of an alternative, or `None` if it has no link.
pub(crate) fn current_of(name: &str) -> Result<Option<String>, Error> {
    current(Path::new(LINKS), name)
}

/// Runs the program to change something, and returns its output, or its error output if it failed.
///
/// # Errors
/// When the program is missing.
pub(crate) fn change(cx: &Exec, words: &[&str]) -> Result<String, Error> {
    Ok(stdout_or_stderr(run(cx, words, false)?))
}

fn display(cx: &Exec, args: Display) -> Result<Value, Error> {
    Ok(display_text(cx, &args.name)?.into())
}

fn show_link(cx: &Exec, args: ShowLink) -> Result<Value, Error> {
    let folder = match cx.grain("os_family").as_str() {
        "RedHat" => "/var/lib/alternatives",
        "Suse" => "/var/lib/rpm/alternatives",
        _ => {
            let output = run(cx, &["--query", &args.name], true)?;
            let link = match failed(&output) {
                true => None,
                false => queried(output.stdout_regardless()),
            };
            return Ok(link.map_or(Value::Bool(false), Value::from));
        }
    };
    let text = machine::fs::text_or_none(Path::new(folder).join(&args.name))?;
    if text.is_none() {
        log::error(format_args!("alternatives: {} does not exist", args.name));
    }
    let link = text.and_then(|text| text.lines().nth(1).map(str::to_owned));
    Ok(link.map_or(Value::Bool(false), Value::from))
}

/// Returns the link in the first block of the output of `--query`.
fn queried(text: &str) -> Option<String> {
    let block = text.split("\n\n").next()?;
    let link = block.lines().find_map(|line| line.strip_prefix("Link:"))?;
    Some(link.trim().to_owned())
}

fn show_current(_: &Exec, args: ShowCurrent) -> Result<Value, Error> {
    let current = current_of(&args.name)?;
    if current.is_none() {
        log::error(format_args!("alternative: {} does not exist", args.name));
    }
    Ok(current.map_or(Value::Bool(false), Value::from))
}

fn check_exists(cx: &Exec, args: CheckExists) -> Result<Value, Error> {
    Ok(exists(cx, &args.name, &args.path)?.into())
}

fn check_installed(_: &Exec, args: CheckInstalled) -> Result<Value, Error> {
    Ok((current_of(&args.name)?.as_deref() == Some(&args.path)).into())
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let priority = args.priority.to_string();
    let words = ["--install", &args.link, &args.name, &args.path, &priority];
    Ok(change(cx, &words)?.into())
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    Ok(change(cx, &["--remove", &args.name, &args.path])?.into())
}

fn auto(cx: &Exec, args: Auto) -> Result<Value, Error> {
    Ok(change(cx, &["--auto", &args.name])?.into())
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    Ok(change(cx, &["--set", &args.name, &args.path])?.into())
}

fn current(links: &Path, name: &str) -> Result<Option<String>, Error> {
    let target = machine::fs::link_target_or_none(links.join(name))?;
    Ok(target.map(|target| target.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alternative_is_what_its_link_says() {
        let links = std::env::temp_dir().join(format!("alternatives-{}", std::process::id()));
        std::fs::create_dir_all(&links).unwrap();
        std::os::unix::fs::symlink("/usr/bin/vim.tiny", links.join("editor")).unwrap();
        let found = ["editor", "pager"].map(|name| current(&links, name).unwrap());
        std::fs::remove_dir_all(&links).unwrap();
        assert_eq!(found, [Some("/usr/bin/vim.tiny".to_owned()), None]);
    }

    #[test]
    fn the_answers_of_the_program_are_read() {
        let output =
            "editor - auto mode\n  link best version is /bin/nano\n/bin/nano - priority 40\n";
        assert!(is_listed(output, "/bin/nano") && !is_listed(output, "/bin/nan"));
        let query = "Name: editor\nLink: /usr/bin/editor\nStatus: auto\n\nAlternative: /bin/nano\n";
        assert_eq!(queried(query).as_deref(), Some("/usr/bin/editor"));
    }

    #[test]
    fn an_option_is_no_name() {
        let error = run(&crate::testing::exec(), &["--auto", "--all"], true).unwrap_err();
        assert!(error.to_string().starts_with("--all is not a valid name"));
    }
}
