//! The `selinux` execution module.

pub(crate) mod policy;

use std::path::Path;

use machine::fs::{self, Owner};
use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

state::exec_module! {
    /// Manage the mode, the booleans and the modules of SELinux.
    #[needs("semanage", "semanage is not in the path", "policycoreutils-python-utils")]
    #[needs("setsebool", "setsebool is not in the path", "policycoreutils")]
    #[needs("semodule", "semodule is not in the path", "policycoreutils")]
    mod selinux;

    /// Return the path of the kernel's SELinux file system, or None if there is none.
    ///
    ///     salt-call selinux.selinux_fs_path
    fn selinux_fs_path(SelinuxFsPath {});

    /// Return the current mode of SELinux.
    ///
    ///     salt-call selinux.getenforce
    fn getenforce(Getenforce {});

    /// Return the mode that SELinux starts in.
    ///
    ///     salt-call selinux.getconfig
    fn getconfig(Getconfig {});

    /// Set the mode, now and after the next reboot.
    ///
    ///     salt-call selinux.setenforce enforcing
    fn setenforce(Setenforce {
        /// The mode: `enforcing`, `permissive` or `disabled`.
        mode: String,
    });

    /// Return the current value and the default of a boolean.
    ///
    ///     salt-call selinux.getsebool httpd_can_network_connect
    fn getsebool(Getsebool {
        /// The name of the boolean.
        boolean: String,
    });

    /// Set a boolean.
    ///
    ///     salt-call selinux.setsebool httpd_can_network_connect on persist=True
    fn setsebool(Setsebool {
        /// The name of the boolean.
        boolean: String,
        /// The value of the boolean.
        value: Value,
        /// True to keep the value after a reboot.
        persist: bool = false,
    });

    /// Set several booleans.
    ///
    ///     salt-call selinux.setsebools '{httpd_can_network_connect: "on"}'
    fn setsebools(Setsebools {
        /// A dictionary of names and values.
        pairs: Map,
        /// True to keep the values after a reboot.
        persist: bool = false,
    });

    /// Return all booleans.
    ///
    ///     salt-call selinux.list_sebool
    fn list_sebool(ListSebool {});

    /// Return the state of a module.
    ///
    ///     salt-call selinux.getsemod app
    fn getsemod(Getsemod {
        /// The name of the module.
        module: String,
    });

    /// Enable or disable a module.
    ///
    ///     salt-call selinux.setsemod app enabled
    fn setsemod(Setsemod {
        /// The name of the module.
        module: String,
        /// The state: `enabled` or `disabled`.
        state: String,
    });

    /// Install a module.
    ///
    ///     salt-call selinux.install_semod /srv/app.pp
    fn install_semod(InstallSemod {
        /// The path or URL of the module's file.
        module_path: String,
    });

    /// Remove a module.
    ///
    ///     salt-call selinux.remove_semod app
    fn remove_semod(RemoveSemod {
        /// The name of the module.
        module: String,
    });

    /// Return all modules.
    ///
    ///     salt-call selinux.list_semod
    fn list_semod(ListSemod {});
}

/// The file with the mode that SELinux starts in.
const CONFIG: &str = "/etc/selinux/config";

/// Runs a program of SELinux. A word in `names` that would be read as an option is an error.
pub(crate) fn run(cx: &Exec, words: &[&str], names: &[&str]) -> Result<Output, Error> {
    if let Some(name) = names.iter().find(|name| name.starts_with('-')) {
        return Err(format!("invalid SELinux name '{name}': it starts with `-`").into());
    }
    Process::words(words.iter().chain(names).copied()).run(cx)
}

fn place() -> Option<&'static str> {
    let mut places = ["/sys/fs/selinux", "/selinux"].into_iter();
    places.find(|place| Path::new(place).join("enforce").is_file())
}

fn selinux_fs_path(_: &Exec, _: SelinuxFsPath) -> Result<Value, Error> {
    Ok(place().into())
}

/// Returns the current mode of SELinux.
pub(crate) fn mode() -> &'static str {
    let read =
        place().and_then(|place| machine::procfs::text_or_none(Path::new(place).join("enforce")));
    match read {
        Some(text) if text.trim() == "0" => "Permissive",
        Some(_) => "Enforcing",
        _ => "Disabled",
    }
}

/// Returns the mode that SELinux starts in, or `None` if the configuration is missing or names no
/// mode.
///
/// # Errors
/// When the configuration cannot be read.
pub(crate) fn configured() -> Result<Option<String>, Error> {
    Ok(fs::text_or_none(CONFIG)?.as_deref().and_then(mode_in))
}

fn mode_in(config: &str) -> Option<String> {
    let mode = config
        .lines()
        .find_map(|line| line.trim().strip_prefix("SELINUX="))?;
    let mode = mode.trim_start().to_lowercase();
    let first = mode.chars().next()?;
    Some(mode.replacen(first, &first.to_uppercase().to_string(), 1))
}

fn getenforce(_: &Exec, _: Getenforce) -> Result<Value, Error> {
    Ok(mode().into())
}

fn getconfig(_: &Exec, _: Getconfig) -> Result<Value, Error> {
    configured().map(Value::from)
}

fn setenforce(cx: &Exec, args: Setenforce) -> Result<Value, Error> {
    let wanted = args.mode.to_lowercase();
    let number = match wanted.as_str() {
        "enforcing" => "1",
        "permissive" | "disabled" => "0",
        _ => return Err(format!("Invalid mode {}", args.mode).into()),
    };
    if let Some(place) = place() {
        let file = Path::new(place).join("enforce");
        let written = std::fs::OpenOptions::new().write(true).open(&file);
        let written =
            written.and_then(|mut file| std::io::Write::write_all(&mut file, number.as_bytes()));
        written.map_err(|problem| format!("Could not write SELinux enforce file: {problem}"))?;
    }
    let old = fs::text(CONFIG);
    let old = old.map_err(|problem| format!("Could not read SELinux config file: {problem}"))?;
    let lines = old
        .split_inclusive('\n')
        .map(|line| match line.starts_with("SELINUX=") {
            true => format!("SELINUX={wanted}\n"),
            false => line.to_owned(),
        });
    fs::write(
        cx,
        Path::new(CONFIG),
        lines.collect::<String>().as_bytes(),
        Owner::default(),
    )?;
    Ok(mode().into())
}

/// Returns all booleans with their current values and defaults.
///
/// # Errors
/// When they cannot be listed.
pub(crate) fn booleans(cx: &Exec) -> Result<Map, Error> {
    let done = run(cx, &["semanage", "boolean", "--list"], &[])?;
    if !done.success() {
        return Err(done.stderr.into());
    }
    let boolean = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, state, _, default, about @ ..] = words.as_slice() else {
            return None;
        };
        let shown = Map::new().with("State", state.trim_start_matches('('));
        let shown = shown.with("Default", default.trim_end_matches(')'));
        Some((
            Value::from(*name),
            Value::from(shown.with("Description", about.join(" "))),
        ))
    };
    Ok(done
        .stdout_regardless()
        .lines()
        .skip(1)
        .filter_map(boolean)
        .collect())
}

fn list_sebool(cx: &Exec, _: ListSebool) -> Result<Value, Error> {
    Ok(booleans(cx)?.into())
}

fn getsebool(cx: &Exec, args: Getsebool) -> Result<Value, Error> {
    let found = booleans(cx)?.remove(&args.boolean);
    Ok(found.unwrap_or_else(|| Map::new().into()))
}

fn setsebool(cx: &Exec, args: Setsebool) -> Result<Value, Error> {
    let value = python::str(&args.value);
    set_booleans(cx, &[args.boolean, value], args.persist)
}

fn setsebools(cx: &Exec, args: Setsebools) -> Result<Value, Error> {
    let pair =
        |(name, value): (&Value, &Value)| format!("{}={}", name.to_text(), python::str(value));
    let pairs: Vec<String> = args.pairs.iter().map(pair).collect();
    set_booleans(cx, &pairs, args.persist)
}

fn set_booleans(cx: &Exec, names: &[String], persist: bool) -> Result<Value, Error> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let words: &[&str] = if persist {
        &["setsebool", "-P"]
    } else {
        &["setsebool"]
    };
    Ok(run(cx, words, &names)?.success().into())
}

/// Returns all modules and whether they are enabled.
///
/// # Errors
/// When they cannot be listed.
pub(crate) fn modules(cx: &Exec) -> Result<Map, Error> {
    let done = run(cx, &["semodule", "--list-modules=full"], &[])?;
    if !done.success() {
        return Err(done.stderr.into());
    }
    let module = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let about = Map::new().with("Enabled", words.len() != 4);
        Some((
            Value::from(*words.get(1)?),
            Value::from(about.with("Version", Value::Null)),
        ))
    };
    Ok(done
        .stdout_regardless()
        .lines()
        .filter_map(module)
        .collect())
}

fn list_semod(cx: &Exec, _: ListSemod) -> Result<Value, Error> {
    Ok(modules(cx)?.into())
}

fn getsemod(cx: &Exec, args: Getsemod) -> Result<Value, Error> {
    let found = modules(cx)?.remove(&args.module);
    Ok(found.unwrap_or_else(|| Map::new().into()))
}

fn semodule(cx: &Exec, option: &str, name: &str) -> Result<Value, Error> {
    Ok(run(cx, &["semodule", option], &[name])?.success().into())
}

fn setsemod(cx: &Exec, args: Setsemod) -> Result<Value, Error> {
    match args.state.to_lowercase().as_str() {
        "enabled" => semodule(cx, "--enable", &args.module),
        "disabled" => semodule(cx, "--disable", &args.module),
        _ => Err(format!("Invalid state {}", args.state).into()),
    }
}

fn install_semod(cx: &Exec, args: InstallSemod) -> Result<Value, Error> {
    let path = match args.module_path.starts_with("salt://") {
        true => cx.call_internal("cp.cache_file", vec![args.module_path.into()], Map::new())?,
        false => args.module_path.into(),
    };
    semodule(cx, "--install", &path.to_text())
}

fn remove_semod(cx: &Exec, args: RemoveSemod) -> Result<Value, Error> {
    semodule(cx, "--remove", &args.module)
}
