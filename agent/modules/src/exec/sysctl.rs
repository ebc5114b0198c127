//! The `sysctl` execution module: reads and changes kernel parameters, at runtime and in a
//! configuration file.

use std::path::Path;

use machine::fs;
use machine::process::{Output, Process, which};
use machine::systemd::booted;
use python::text;
use state::exec::Exec;
use state::facts::Inverse;
use state::module::Error;
use value::{Map, Value, log};

use crate::exec::service::providers::systemd;

/// The first version of systemd that does not read `/etc/sysctl.conf`.
const READS_FOLDER: i64 = 207;
/// The first lines of a new file.
const HEAD: &str = "#\n# Kernel sysctl configuration\n#\n";

state::exec_module! {
    /// Manage kernel parameters.
    #[module(inverses = [&SYSCTL])]
    mod sysctl;

    /// Return the default path of the configuration file.
    ///
    ///     salt-call sysctl.default_config
    fn default_config(DefaultConfig {});

    /// Return all parameters, or those of a configuration file.
    ///
    ///     salt-call sysctl.show
    fn show(Show {
        /// The path of the file. The result is an empty list if it does not exist, and None if it
        /// cannot be read.
        config_file: Value = false.into(),
    });

    /// Return the value of a parameter.
    ///
    ///     salt-call sysctl.get vm.swappiness
    fn get(Get {
        /// The name of the parameter.
        name: String,
    });

    /// Set a parameter until the next reboot.
    ///
    ///     salt-call sysctl.assign vm.swappiness 10
    fn assign(Assign {
        /// The name of the parameter.
        name: String,
        /// The value of the parameter.
        value: Value,
    });

    /// Set a parameter now and in the configuration file. Return `Updated` or `Already set`.
    ///
    ///     salt-call sysctl.persist vm.swappiness 10
    fn persist(Persist {
        /// The name of the parameter.
        name: String,
        /// The value of the parameter.
        value: Value,
        /// The path of the configuration file.
        config: Option<String> = None,
    });
}

/// The value of a kernel setting.
static SYSCTL: Inverse = Inverse {
    word: "sysctl",
    owns_files: false,
    now: |cx, name| cx.call_internal("sysctl.get", vec![name.into()], Map::new()),
    can: Inverse::always,
    make: |cx, name, value| {
        let value = Map::new().with("value", value.clone());
        let assigned = cx.call_internal("sysctl.assign", vec![name.into()], value);
        assigned.map(drop)
    },
};

fn default_file(cx: &Exec) -> Result<&'static str, Error> {
    let is_new = booted() && systemd::version(cx)?.is_some_and(|version| version >= READS_FOLDER);
    Ok(match is_new {
        true => "/etc/sysctl.d/99-salt.conf",
        false => "/etc/sysctl.conf",
    })
}

fn default_config(cx: &Exec, _args: DefaultConfig) -> Result<Value, Error> {
    default_file(cx).map(Value::from)
}

fn program() -> Result<String, Error> {
    which("sysctl").ok_or_else(|| "Command 'sysctl' cannot be found".into())
}

fn show(cx: &Exec, args: Show) -> Result<Value, Error> {
    if args.config_file.is_true() {
        return Ok(of_file(&args.config_file.to_text()));
    }
    let all = Process::words([program()?, "-a".into()]).quiet().run(cx)?;
    let pairs = all
        .stdout_regardless()
        .lines()
        .filter_map(|line| line.split_once(" = "));
    Ok(pairs.collect())
}

fn of_file(path: &str) -> Value {
    if !Path::new(path).exists() {
        return Value::list([]);
    }
    let Ok(bytes) = fs::read(path) else {
        log::error("Could not open sysctl file");
        return Value::Null;
    };
    let contents = text::decoded(&bytes);
    contents.lines().filter_map(setting).collect()
}

/// Parses a line of a configuration file into name and value.
fn setting(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.trim().split_once('=')?;
    (!name.starts_with('#')).then(|| (name.trim_end(), value.trim_start()))
}

fn check_name(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.starts_with('-') {
        return Err(Error::refused(format!("sysctl {name} does not exist")));
    }
    Ok(())
}

fn query(cx: &Exec, name: &str) -> Result<Output, Error> {
    check_name(name)?;
    Process::words([program()?, "-n".into(), name.to_owned()]).run(cx)
}

fn current(cx: &Exec, name: &str) -> Result<String, Error> {
    let out = query(cx, name)?;
    let said = [out.stdout_regardless(), &out.stderr];
    Ok(said.join("\n").trim_matches('\n').to_owned())
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    current(cx, &args.name).map(Value::from)
}

fn assign(cx: &Exec, args: Assign) -> Result<Value, Error> {
    set(cx, &args.name, &args.value.to_text()).map(Value::from)
}

fn set(cx: &Exec, name: &str, value: &str) -> Result<Map, Error> {
    check_name(name)?;
    let swapped = |sign: char| match sign {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    let path: String = name.chars().map(swapped).collect();
    if !Path::new("/proc/sys").join(path).exists() {
        return Err(Error::refused(format!("sysctl {name} does not exist")));
    }
    if fs::is_noted(cx)
        && let Ok(was) = query(cx, name)?.into_success()
    {
        fs::inverse(cx, &SYSCTL, name, was.trim_matches('\n'), words(value));
    }
    let words = [program()?, "-w".into(), format!("{name}={value}")];
    let out = Process::words(words).run(cx)?;
    let is_said = |(left, right): (&str, &str)| left.trim_end() == name && right.trim() == value;
    let said = out.stdout_regardless().split_once('=').is_some_and(is_said);
    if !said || out.stderr.contains("Invalid argument") {
        let failed = !out.success() && !out.stderr.is_empty();
        let why = match failed {
            true => &out.stderr,
            false => out.stdout_regardless(),
        };
        return Err(Error::refused(format!("sysctl -w failed: {why}")));
    }
    Ok(out
        .stdout_regardless()
        .split_once(" = ")
        .into_iter()
        .collect())
}

/// Returns a value with each run of white space replaced by one tab.
fn words(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join("\t")
}

fn persist(cx: &Exec, args: Persist) -> Result<Value, Error> {
    let (name, value) = (&args.name, args.value.to_text());
    check_name(name)?;
    let config = match args.config {
        Some(config) => config,
        None => default_file(cx)?.to_owned(),
    };
    let path = Path::new(&config);
    let before = match path.is_file() {
        true => fs::read(path)
            .map_err(|_| Error::refused(format!("Could not read from file: {config}")))?,
        false => HEAD.into(),
    };
    let before = text::decoded(&before);
    let held = before.lines().filter_map(setting);
    let is_held = held
        .filter(|(held, _)| held == name)
        .any(|(_, held)| words(held) == words(&value));
    if is_held {
        if words(&current(cx, name)?) == words(&value) {
            return Ok("Already set".into());
        }
        set(cx, name, &value)?;
        return Ok("Updated".into());
    }
    if !path.is_file() {
        cx.call_internal("file.makedirs", vec![config.as_str().into()], Map::new())?;
    }
    let after = edited(&before, name, &value);
    fs::write(cx, path, after.as_bytes(), fs::Owner::default())
        .map_err(|_| Error::refused(format!("Could not write to file: {config}")))?;
    set(cx, name, &value)?;
    Ok("Updated".into())
}

/// Returns the contents of the file with each line of the parameter replaced, or with the parameter
/// added at the end.
fn edited(before: &str, name: &str, value: &str) -> String {
    let line = format!("{name} = {value}\n");
    let is_its = |each: &&str| setting(each).is_some_and(|(found, _)| found == name);
    let mut after: String = text::lines(before)
        .into_iter()
        .map(|each| if is_its(&each) { &line } else { each })
        .collect();
    if !text::lines(before).iter().any(is_its) {
        if !after.is_empty() && !after.ends_with('\n') {
            after.push('\n');
        }
        after.push_str(&line);
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_replaces_its_line_or_goes_to_the_end() {
        let file = "# vm.swappiness = 1\nvm.swappiness=60\nother = 1";
        assert_eq!(
            edited(file, "vm.swappiness", "10"),
            "# vm.swappiness = 1\nvm.swappiness = 10\nother = 1"
        );
        assert_eq!(edited("a = 1", "b", "1 2"), "a = 1\nb = 1 2\n");
        assert_eq!(words("4096  87380\t16"), "4096\t87380\t16");
    }
}
