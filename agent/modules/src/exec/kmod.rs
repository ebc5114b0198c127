//! The `kmod` execution module: kernel modules.

use std::path::Path;

use machine::process::{Process, which};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Manage kernel modules.
    mod kmod;

    /// Return the names of the modules that are available for the running kernel.
    ///
    ///     salt-call kmod.available
    fn available(Available {});

    /// Return True if a module is available for the running kernel.
    ///
    ///     salt-call kmod.check_available br_netfilter
    fn check_available(CheckAvailable {
        /// The name of the module.
        r#mod: String,
    });

    /// Return the loaded modules: name, size, number of users, and the modules that use it.
    ///
    ///     salt-call kmod.lsmod
    fn lsmod(Lsmod {});

    /// Return the names of the loaded modules.
    ///
    ///     salt-call kmod.mod_list
    fn mod_list(ModList {
        /// Whether to return the modules that a file loads when the system starts, instead of the
        /// loaded ones.
        only_persist: bool = false,
    });

    /// Return True if a module is loaded.
    ///
    ///     salt-call kmod.is_loaded br_netfilter
    fn is_loaded(IsLoaded {
        /// The name of the module.
        r#mod: String,
    });

    /// Load a module. Return the names of the modules that were loaded, or a message that says why
    /// it failed.
    ///
    ///     salt-call kmod.load br_netfilter persist=True
    fn load(Load {
        /// The name of the module, followed by its options.
        r#mod: String,
        /// Whether to load the module whenever the system starts.
        persist: bool = false,
    });

    /// Unload a module. Return the names of the modules that were unloaded, or a message that says
    /// why it failed.
    ///
    ///     salt-call kmod.remove pcspkr
    fn remove(Remove {
        /// The name of the module.
        r#mod: String,
        /// Whether the system no longer loads the module when it starts.
        persist: bool = false,
        /// Whether to turn the module's line in the file into a comment instead of removing it.
        comment: bool = true,
    });
}

/// A loaded module.
struct Loaded {
    name: String,
    size: String,
    users: String,
    by: Vec<String>,
}

/// Parses the output of `lsmod`, or `/proc/modules`.
fn parsed(text: &str) -> Vec<Loaded> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, size, users, rest @ ..] = words.as_slice() else {
            return None;
        };
        let by = rest.first().filter(|by| **by != "-").unwrap_or(&"");
        let by = by.split(',').filter(|by| !by.is_empty());
        (*name != "Module").then(|| Loaded {
            name: (*name).to_owned(),
            size: (*size).to_owned(),
            users: (*users).to_owned(),
            by: by.map(str::to_owned).collect(),
        })
    };
    text.lines().filter_map(line).collect()
}

/// Returns the loaded modules. They are read from the kernel if `lsmod` is not installed.
fn loaded(cx: &Exec) -> Result<Vec<Loaded>, Error> {
    let text = match which("lsmod") {
        Some(lsmod) => Process::words([lsmod])
            .quiet()
            .run(cx)?
            .stdout_of_success("lsmod")?,
        None => machine::fs::text("/proc/modules")?,
    };
    Ok(parsed(&text))
}

fn names(cx: &Exec) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = loaded(cx)?.into_iter().map(|each| each.name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the path of the file with the modules that are loaded when the system starts.
fn file(cx: &Exec) -> &'static str {
    match cx.grains().contains("systemd") {
        true => "/etc/modules-load.d/salt_managed.conf",
        false => "/etc/modules",
    }
}

fn first_word(text: &str) -> Option<&str> {
    text.split_whitespace().next()
}

fn persistent(cx: &Exec) -> Result<Vec<String>, Error> {
    let text = machine::fs::text_or_none(file(cx))?.unwrap_or_default();
    let names = text.lines().filter(|line| !line.trim().starts_with('#'));
    let mut names: Vec<String> = names.filter_map(first_word).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

fn found() -> Result<Vec<String>, Error> {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let folder = Path::new("/lib/modules").join(release);
    let built_in = machine::fs::text_or_none(folder.join("modules.builtin"))?.unwrap_or_default();
    let built_in = built_in.lines().filter_map(|line| {
        let (_, name) = line.rsplit_once('/')?;
        name.strip_suffix(".ko").map(str::to_owned)
    });
    let mut names: Vec<String> = built_in.collect();
    collect(&folder, &mut names)?;
    names.sort();
    Ok(names)
}

/// Collects the names of the modules that have a file in a folder or below it.
fn collect(folder: &Path, names: &mut Vec<String>) -> Result<(), Error> {
    for entry in machine::fs::list_or_none(folder)?.unwrap_or_default() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), names)?;
        }
        let file = entry.file_name();
        if let Some((name, _)) = file.to_string_lossy().split_once(".ko") {
            names.push(name.replace('-', "_"));
        }
    }
    Ok(())
}

fn available(_cx: &Exec, _args: Available) -> Result<Value, Error> {
    Ok(found()?.into())
}

fn check_available(_cx: &Exec, args: CheckAvailable) -> Result<Value, Error> {
    Ok(found()?.contains(&args.r#mod).into())
}

fn lsmod(cx: &Exec, _args: Lsmod) -> Result<Value, Error> {
    let shown = |each: Loaded| {
        Map::new()
            .with("size", each.size)
            .with("module", each.name)
            .with("depcount", each.users)
            .with("deps", each.by)
            .into()
    };
    Ok(Value::list(loaded(cx)?.into_iter().map(shown)))
}

fn mod_list(cx: &Exec, args: ModList) -> Result<Value, Error> {
    Ok(match args.only_persist {
        true => persistent(cx)?.into(),
        false => names(cx)?.into(),
    })
}

fn is_loaded(cx: &Exec, args: IsLoaded) -> Result<Value, Error> {
    Ok(names(cx)?.contains(&args.r#mod).into())
}

/// Runs a program with a module and its options. The inner error is the message of the program.
fn change(cx: &Exec, program: &str, module: &str) -> Result<Result<(), String>, Error> {
    if module.trim().is_empty() || module.trim().starts_with('-') {
        return Err(Error::refused(format!(
            "invalid kernel module name '{module}'"
        )));
    }
    let program = which(program)
        .ok_or_else(|| Error::refused(format!("Command '{program}' cannot be found")))?;
    let words = std::iter::once(program.as_str()).chain(module.split_whitespace());
    let out = Process::words(words).run(cx)?;
    Ok(if out.success() {
        Ok(())
    } else {
        Err(out.stderr)
    })
}

fn joined(mut names: Vec<String>, more: Option<String>) -> Value {
    names.extend(more);
    names.sort();
    names.dedup();
    names.into()
}

fn load(cx: &Exec, args: Load) -> Result<Value, Error> {
    let module = &args.r#mod;
    let before = names(cx)?;
    if let Err(why) = change(cx, "modprobe", module)? {
        return Ok(format!("Error loading module {module}: {why}").into());
    }
    let mut new = names(cx)?;
    new.retain(|name| !before.contains(name));
    let kept = args.persist.then(|| keep(cx, module)).transpose()?;
    Ok(joined(new, kept.flatten()))
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    let module = &args.r#mod;
    let mut gone = names(cx)?;
    if let Err(why) = change(cx, "rmmod", module)? {
        return Ok(format!("Error removing module {module}: {why}").into());
    }
    let after = names(cx)?;
    gone.retain(|name| !after.contains(name));
    let dropped = args
        .persist
        .then(|| unkeep(cx, module, args.comment))
        .transpose()?;
    Ok(joined(gone, dropped.flatten()))
}

fn call(cx: &Exec, function: &str, args: &[&str]) -> Result<Value, Error> {
    let args = args.iter().map(|arg| Value::from(*arg)).collect();
    cx.call_internal(function, args, Map::new())
}

/// Adds a module to the file. Returns its name if it was not in the file yet.
fn keep(cx: &Exec, module: &str) -> Result<Option<String>, Error> {
    let file = file(cx);
    if !Path::new(file).exists() {
        call(cx, "file.touch", &[file])?;
    }
    let name = first_word(module).map(str::to_owned);
    let (kept, found) = (persistent(cx)?, found()?);
    let is_new = |name: &String| !kept.contains(name) && found.contains(name);
    let Some(name) = name.filter(is_new) else {
        return Ok(None);
    };
    let pattern = value::pyre::escape(module);
    let commented = format!("^#[\t ]*{pattern}[\t ]*$");
    let multiline = Map::new().with("multiline", true);
    let given = vec![file.into(), commented.into()];
    if cx.call_internal("file.search", given, multiline)?.is_true() {
        call(cx, "file.uncomment", &[file, &pattern])?;
    } else {
        call(cx, "file.append", &[file, module])?;
    }
    Ok(Some(name))
}

/// Removes a module from the file. Returns its name if it was in the file.
fn unkeep(cx: &Exec, module: &str, comment: bool) -> Result<Option<String>, Error> {
    let name = first_word(module).map(str::to_owned);
    let kept = persistent(cx)?;
    let Some(name) = name.filter(|name| kept.contains(name)) else {
        return Ok(None);
    };
    let pattern = format!("^[\t ]*{}[\t ]?", value::pyre::escape(module));
    match comment {
        true => call(cx, "file.comment", &[file(cx), &pattern])?,
        false => call(cx, "file.sed", &[file(cx), &pattern, ""])?,
    };
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lsmod_and_the_kernel_say_the_same() {
        let text = "Module                  Size  Used by\nbridge                299008  1 br_netfilter\nfuse 176128 3\n";
        let kernel = "bridge 299008 1 br_netfilter, Live 0x0\nfuse 176128 3 - Live 0x0\n";
        for text in [text, kernel] {
            let found = parsed(text);
            assert_eq!(found[0].by, ["br_netfilter"]);
            assert!(found[1].by.is_empty() && found[1].name == "fuse");
        }
    }
}
