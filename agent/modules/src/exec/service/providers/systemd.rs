//! systemd. All actions use `systemctl`, which can also change the files of a system that systemd
//! has not started.

use std::path::{Path, PathBuf};

use machine::fs;
use machine::process::{Output, Process, Stderr, which};
use machine::systemd::booted;
use rustix::fs::Access;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{Boot, Provider, Units, Which, folder, runlevel, runnable};

/// systemd.
pub(crate) struct Systemd;

/// The folders of unit files.
const UNITS: [&str; 3] = [
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/etc/systemd/system",
];
/// The kinds of units.
const KINDS: [&str; 9] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
];
/// The first version whose `systemctl status` reports a missing unit by its exit status.
const TELLS_MISSING: i64 = 231;
/// The first version with scopes.
const HAS_SCOPES: i64 = 205;

/// One call of `systemctl`.
#[derive(Default)]
struct Call<'a> {
    /// The words of the action, such as `mask --runtime`.
    action: &'a [&'a str],
    /// The full name of the unit.
    unit: Option<&'a str>,
    /// The words after the unit.
    behind: &'a [&'a str],
    no_block: bool,
    /// The root folder in which units are enabled and masked.
    root: Option<&'a str>,
}

impl Call<'_> {
    fn words(&self) -> Result<Vec<String>, Error> {
        let systemctl = which("systemctl").ok_or("systemctl is not installed")?;
        let mut words = vec![systemctl];
        words.extend(self.no_block.then(|| "--no-block".to_owned()));
        if let Some(root) = self.root {
            words.extend(["--root".to_owned(), root.to_owned()]);
        }
        words.extend(self.action.iter().map(|word| (*word).to_owned()));
        if let Some(unit) = self.unit {
            let unit = full_name(unit);
            // `-.mount` is a unit, not an option.
            words.extend(unit.starts_with('-').then(|| "--".to_owned()));
            words.push(unit);
        }
        words.extend(self.behind.iter().map(|word| (*word).to_owned()));
        Ok(words)
    }

    /// Runs a query. A failure is an answer. The text of both outputs counts.
    fn ask(&self, cx: &Exec, stderr: Stderr) -> Result<Output, Error> {
        let process = Process::words(self.words()?).quiet();
        Process { stderr, ..process }.run(cx)
    }

    /// Runs a change in a scope outside of the control group of this program's caller.
    fn change(&self, cx: &Exec, stderr: Stderr) -> Result<Output, Error> {
        let mut words = scope(cx)?;
        words.extend(self.words()?);
        let process = Process::words(words);
        Process { stderr, ..process }.run(cx)
    }
}

/// Returns the words that run a change in a separate scope.
fn scope(cx: &Exec) -> Result<Vec<String>, Error> {
    let wanted = |value: &Value| value.is_true();
    if !booted() || !cx.opts().get("systemd.scope").is_none_or(wanted) {
        return Ok(Vec::new());
    }
    if version(cx)?.is_none_or(|version| version < HAS_SCOPES) {
        return Ok(Vec::new());
    }
    let run = which("systemd-run").ok_or(
        "systemd-run is required for running systemctl with --scope, but it was not found on the system. Make sure systemd-run is installed and in the system's PATH or disable it using the 'systemd.scope' config option.",
    )?;
    Ok(vec![run, "--scope".to_owned()])
}

/// Returns systemd's version. It is determined once in a run.
pub(crate) fn version(cx: &Exec) -> Result<Option<i64>, Error> {
    const KEY: &str = "systemd.version";
    if let Some(known) = cx.context(|context| context.get(KEY).and_then(Value::as_int)) {
        return Ok(Some(known));
    }
    let call = Call {
        action: &["--version"],
        ..Call::default()
    };
    let out = call.ask(cx, Stderr::Merged)?.into_stdout_regardless();
    let first = out.lines().next().unwrap_or_default();
    let number = first.split_whitespace().nth(1).unwrap_or_default();
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    let version = digits.parse::<i64>().ok();
    match version {
        Some(version) => cx.context(|context| context.insert(KEY, version)),
        None => {
            log::error(format_args!(
                "Unable to determine systemd version from systemctl --version, output follows:\n{out}"
            ));
            None
        }
    };
    Ok(version)
}

/// Returns the name of a unit with its type, which is `.service` by default.
fn full_name(name: &str) -> String {
    let named = name
        .rsplit_once('.')
        .is_some_and(|(_, kind)| KINDS.contains(&kind));
    if named {
        name.to_owned()
    } else {
        format!("{name}.service")
    }
}

/// Returns the name under which Salt lists a unit: services without their type. Returns `None` for
/// other files.
fn listed_name(file: &str) -> Option<String> {
    let (name, kind) = file.rsplit_once('.')?;
    match kind {
        "service" => Some(name.to_owned()),
        kind if KINDS.contains(&kind) => Some(file.to_owned()),
        _ => None,
    }
}

fn relocated(path: &str, root: Option<&str>) -> PathBuf {
    match root {
        Some(root) => Path::new(root).join(path.trim_start_matches('/')),
        None => PathBuf::from(path),
    }
}

fn root_of(options: &Map) -> Option<String> {
    options
        .get("root")
        .filter(|root| root.is_true())
        .map(Value::to_text)
}

fn flag(options: &Map, name: &str) -> bool {
    options.get(name).is_some_and(Value::is_true)
}

/// Returns the output of `systemctl status` for a unit.
fn status(cx: &Exec, name: &str) -> Result<Output, Error> {
    let call = Call {
        action: &["status"],
        unit: Some(name),
        behind: &["-n", "0"],
        ..Call::default()
    };
    call.ask(cx, Stderr::Merged)
}

/// Returns true if the status shows that the unit exists.
fn is_known(cx: &Exec, name: &str, status: &Output) -> Result<bool, Error> {
    let failed = || Error::refused(format!("Failed to get information on unit '{name}'"));
    if is_offline() {
        return Err(Error::refused(format!(
            "Cannot run in offline mode. Failed to get information on unit '{name}'"
        )));
    }
    if version(cx)?.is_some_and(|version| version >= TELLS_MISSING) {
        return Ok(status.retcode.is_some_and(|code| (0..4).contains(&code)));
    }
    loaded(&status.stdout_regardless().to_lowercase()).ok_or_else(failed)
}

/// Returns true if the text of a status is that of a loaded unit. This is for versions whose exit
/// status does not show it.
fn loaded(text: &str) -> Option<bool> {
    if text.contains("could not be found") {
        return Some(false);
    }
    let word = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("loaded:"))?;
    Some(word.split_whitespace().next() != Some("not-found"))
}

/// Returns true if systemd is installed and has not started this system.
fn is_offline() -> bool {
    !booted() && which("systemctl").is_some()
}

/// Returns the status of a unit, after systemd has read new or changed unit files.
fn settled(cx: &Exec, name: &str) -> Result<Output, Error> {
    let seen = status(cx, name)?;
    let file = Path::new("/etc/systemd/system").join(full_name(name));
    let is_new = || Ok::<_, Error>(readable(&file) && !is_known(cx, name, &seen)?);
    let is_changed = seen
        .stdout_regardless()
        .to_lowercase()
        .contains("'systemctl daemon-reload'");
    if is_changed || is_new()? {
        reload_units(cx)?;
        return status(cx, name);
    }
    Ok(seen)
}

fn readable(path: &Path) -> bool {
    rustix::fs::access(path, Access::READ_OK).is_ok()
}

/// Runs `systemctl daemon-reload`.
fn reload_units(cx: &Exec) -> Result<(), Error> {
    let call = Call {
        action: &["--system", "daemon-reload"],
        ..Call::default()
    };
    let process = Process::words(call.words()?);
    let stderr = Stderr::Merged;
    let out = Process { stderr, ..process }.run(cx)?;
    if out.success() {
        return Ok(());
    }
    Err(Error::refused(format!(
        "Problem performing systemctl daemon-reload: {}",
        out.stdout_regardless()
    )))
}

/// Returns the error text of a failed change, without the line about its scope.
fn error_text(stderr: &str) -> String {
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| !line.ends_with(".scope"))
        .collect();
    lines.join("\n").trim().to_owned()
}

fn done(out: &Output) -> Result<bool, Error> {
    if out.success() {
        Ok(true)
    } else {
        Err(Error::refused(error_text(&out.stderr)))
    }
}

/// Returns whether a unit is masked.
fn is_masked(cx: &Exec, name: &str, runtime: bool, root: Option<&str>) -> Result<bool, Error> {
    settled(cx, name)?;
    let folder = if runtime { "/run" } else { "/etc" };
    let link = relocated(folder, root)
        .join("systemd/system")
        .join(full_name(name));
    Ok(fs::link_target_or_none(link)?.is_some_and(|target| target == Path::new("/dev/null")))
}

/// Masks or unmasks a unit.
fn mask(cx: &Exec, name: &str, on: bool, runtime: bool, root: Option<&str>) -> Result<(), Error> {
    if on {
        settled(cx, name)?;
    } else if !is_masked(cx, name, runtime, root)? {
        return Ok(());
    }
    let verb = if on { "mask" } else { "unmask" };
    let words = [verb, "--runtime"];
    let call = Call {
        action: if runtime { &words } else { words.split_at(1).0 },
        unit: Some(name),
        root,
        ..Call::default()
    };
    let out = call.change(cx, Stderr::Merged)?;
    if out.success() {
        return Ok(());
    }
    let mut why = format!("Failed to {verb} service '{name}'");
    if on {
        why = format!(
            "{why}. Additional info follows:\n\n{}",
            out.stdout_regardless()
        );
    }
    Err(why.into())
}

/// Removes the masks that the options select.
fn unmasked(cx: &Exec, name: &str, options: &Map) -> Result<(), Error> {
    let root = root_of(options);
    for (option, runtime) in [("unmask", false), ("unmask_runtime", true)] {
        if flag(options, option) {
            mask(cx, name, false, runtime, root.as_deref())?;
        }
    }
    Ok(())
}

/// Returns the names of units that have a file.
fn unit_files(root: Option<&str>) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for path in UNITS {
        let path = relocated(path, root);
        // A link leads to another one of these folders.
        if !path.is_symlink() {
            let files = folder(&path.to_string_lossy())?;
            names.extend(files.iter().filter_map(|file| listed_name(file)));
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Returns the init scripts without a unit of the same name.
fn scripts(root: Option<&str>, units: &[String]) -> Result<Vec<String>, Error> {
    let path = relocated("/etc/init.d", root);
    let mut names = folder(&path.to_string_lossy())?;
    names.retain(|name| runnable(&path.join(name)) && !units.contains(name));
    Ok(names)
}

fn is_script(name: &str, root: Option<&str>) -> Result<bool, Error> {
    let scripts = scripts(root, &unit_files(root)?)?;
    Ok(scripts.iter().any(|each| each == name))
}

/// Returns whether an init script is linked into the current runlevel.
fn script_starts(cx: &Exec, name: &str, root: Option<&str>) -> Result<bool, Error> {
    let level = runlevel(cx).unwrap_or_else(|| "2".to_owned());
    let folder = relocated(&format!("/etc/rc{level}.d"), root);
    let started = super::started_by(&[&folder.to_string_lossy()])?;
    Ok(started.iter().any(|each| each == name))
}

/// Returns the command that links init scripts into runlevels.
fn script_words(name: &str, on: bool) -> Result<Vec<String>, Error> {
    super::script_name(name)?;
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if let Some(program) = which("update-rc.d") {
        let words: &[&str] = match on {
            true => &[&program, "-f", name, "defaults", "99"],
            false => &[&program, "-f", name, "remove"],
        };
        return Ok(owned(words));
    }
    let program = which("chkconfig")
        .ok_or("Unable to find sysv service manager (tried update-rc.d, chkconfig)")?;
    Ok(owned(&[&program, name, if on { "on" } else { "off" }]))
}

/// Returns the lines of a list of units, split into words.
fn table(cx: &Exec, action: &[&str], root: Option<&str>) -> Result<Vec<Vec<String>>, Error> {
    let mut words = vec!["--full", "--no-legend", "--no-pager"];
    words.extend(action);
    let call = Call {
        action: &words,
        root,
        ..Call::default()
    };
    let out = call.ask(cx, Stderr::Apart)?.into_stdout_regardless();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    Ok(out.lines().map(words).collect())
}

/// Returns the units with this word in a column of a table, by Salt's names.
fn units_with(table: &[Vec<String>], column: usize, word: &str) -> Vec<String> {
    let rows = table
        .iter()
        .filter(|row| row.get(column).is_some_and(|found| found == word));
    let mut names: Vec<String> = rows.filter_map(|row| listed_name(row.first()?)).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the units whose files are in a state such as `static`.
fn unit_files_that_are(cx: &Exec, state: &str, root: Option<&str>) -> Result<Vec<String>, Error> {
    Ok(units_with(
        &table(cx, &["list-unit-files"], root)?,
        1,
        state,
    ))
}

/// Parses one line of `systemctl show`: text, the parts of a command, or a list of units.
fn property(line: &str) -> (String, Value) {
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    let value: Value = if value.starts_with('{') {
        let parts = value.replace(['{', '}'], "");
        let part = |part: &str| {
            let mut sides = part.split('=').map(|side| side.trim().to_owned());
            Some((sides.next()?, sides.next().unwrap_or_default()))
        };
        parts.split(" ; ").filter_map(part).collect()
    } else if ["Before", "After", "Wants"].contains(&name) {
        Value::list(value.split_whitespace().map(Value::from))
    } else {
        value.into()
    };
    (name.to_owned(), value)
}

impl Systemd {
    /// Returns the names of all services.
    fn all(root: Option<&str>) -> Result<Vec<String>, Error> {
        let mut names = unit_files(root)?;
        names.extend(scripts(root, &names)?);
        names.sort();
        Ok(names)
    }
}

/// Returns whether to use `--no-block`. A restart of the service that may contain this program must
/// not wait for itself.
fn no_block(name: &str, verb: &str, options: &Map) -> bool {
    match options.get("no_block").filter(|given| !given.is_null()) {
        Some(given) => given.is_true(),
        None if verb == "force-reload" => true,
        None => matches!(verb, "stop" | "restart") && full_name(name) == "salt-minion.service",
    }
}

impl Provider for Systemd {
    fn name(&self) -> &'static str {
        "systemd_service"
    }

    fn act(&self, cx: &Exec, verb: &str, name: &str, options: &Map) -> Result<bool, Error> {
        settled(cx, name)?;
        unmasked(cx, name, options)?;
        let call = Call {
            action: &[verb],
            unit: Some(name),
            no_block: no_block(name, verb, options),
            ..Call::default()
        };
        let out = call.change(cx, Stderr::Apart)?;
        if verb == "stop" {
            return Ok(out.success());
        }
        done(&out)
    }

    fn runs(&self, cx: &Exec, name: &str) -> Result<Value, Error> {
        settled(cx, name)?;
        let call = Call {
            action: &["is-active"],
            unit: Some(name),
            ..Call::default()
        };
        Ok(call.ask(cx, Stderr::Apart)?.success().into())
    }

    fn list(&self, cx: &Exec, which: Which, options: &Map) -> Result<Value, Error> {
        let root = root_of(options);
        let root = root.as_deref();
        let state = match which {
            Which::All => return Self::all(root).map(Value::from),
            Which::Enabled => "enabled",
            Which::Disabled => "disabled",
        };
        let mut names = unit_files_that_are(cx, state, root)?;
        for name in scripts(root, &unit_files(root)?)? {
            if script_starts(cx, &name, root)? == (which == Which::Enabled) {
                names.push(name);
            }
        }
        names.sort();
        names.dedup();
        Ok(names.into())
    }

    fn available(&self, cx: &Exec, name: &str) -> Result<bool, Error> {
        let seen = settled(cx, name)?;
        is_known(cx, name, &seen)
    }

    fn actions(&self) -> &'static [&'static str] {
        &["force_reload"]
    }

    fn boot(&self) -> Option<&dyn Boot> {
        Some(self)
    }

    fn units(&self) -> Option<&dyn Units> {
        Some(self)
    }
}

impl Boot for Systemd {
    fn enable(&self, cx: &Exec, name: &str, on: bool, options: &Map) -> Result<bool, Error> {
        let root = root_of(options);
        let root = root.as_deref();
        settled(cx, name)?;
        if on {
            unmasked(cx, name, options)?;
        }
        if is_script(name, root)? {
            let mut words = scope(cx)?;
            words.extend(script_words(name, on)?);
            return Ok(Process::words(words).quiet().run(cx)?.success());
        }
        let call = Call {
            action: &[if on { "enable" } else { "disable" }],
            unit: Some(name),
            no_block: flag(options, "no_block"),
            root,
            ..Call::default()
        };
        let out = call.change(cx, Stderr::Apart)?;
        if on { done(&out) } else { Ok(out.success()) }
    }

    fn enabled(&self, cx: &Exec, name: &str, options: &Map) -> Result<bool, Error> {
        let root = root_of(options);
        let root = root.as_deref();
        let is_enabled = |unit: &str| {
            let call = Call {
                action: &["is-enabled"],
                unit: Some(unit),
                root,
                ..Call::default()
            };
            call.ask(cx, Stderr::Apart)
        };
        let out = is_enabled(name)?;
        if out.stdout_regardless() == "alias" {
            let call = Call {
                action: &["show"],
                unit: Some(name),
                behind: &["-P", "Id"],
                root,
                ..Call::default()
            };
            let real = call.ask(cx, Stderr::Apart)?.into_stdout_regardless();
            return Ok(!real.is_empty() && is_enabled(&real)?.success());
        }
        if out.success() {
            return Ok(true);
        }
        if name.contains('@') {
            return has_link(Path::new("/etc/systemd/system"), name);
        }
        Ok(is_script(name, root)? && script_starts(cx, name, root)?)
    }
}

impl Units for Systemd {
    fn running(&self, cx: &Exec) -> Result<Vec<String>, Error> {
        Ok(units_with(&table(cx, &[], None)?, 3, "running"))
    }

    fn in_state(&self, cx: &Exec, state: &str, root: Option<&str>) -> Result<Vec<String>, Error> {
        unit_files_that_are(cx, state, root)
    }

    fn show(&self, cx: &Exec, name: &str, root: Option<&str>) -> Result<Map, Error> {
        let call = Call {
            action: &["show"],
            unit: Some(name),
            root,
            ..Call::default()
        };
        let out = Process::words(call.words()?)
            .run(cx)?
            .into_stdout_regardless();
        Ok(out.split('\n').map(property).collect())
    }

    fn mask(
        &self,
        cx: &Exec,
        name: &str,
        on: bool,
        runtime: bool,
        root: Option<&str>,
    ) -> Result<(), Error> {
        mask(cx, name, on, runtime, root)
    }

    fn is_masked(
        &self,
        cx: &Exec,
        name: &str,
        runtime: bool,
        root: Option<&str>,
    ) -> Result<bool, Error> {
        is_masked(cx, name, runtime, root)
    }

    fn reload(&self, cx: &Exec) -> Result<(), Error> {
        reload_units(cx)
    }

    fn is_offline(&self) -> bool {
        is_offline()
    }
}

/// Returns true if the folder, or one below it, has the link that enables an instance of a
/// template. Older releases do not report this.
fn has_link(folder: &Path, name: &str) -> Result<bool, Error> {
    for entry in fs::list_or_none(folder)?.unwrap_or_default() {
        let kind = entry.file_type().map_err(Error::io(entry.path()))?;
        if (kind.is_symlink() && entry.file_name() == *name)
            || (kind.is_dir() && has_link(&entry.path(), name)?)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_without_a_kind_is_a_service() {
        assert_eq!(full_name("ssh"), "ssh.service");
        assert_eq!(full_name("ssh.socket"), "ssh.socket");
        assert_eq!(full_name("myservice"), "myservice.service");
        assert_eq!(listed_name("cron.service").as_deref(), Some("cron"));
        assert_eq!(listed_name("a.timer").as_deref(), Some("a.timer"));
        assert_eq!(listed_name("multi-user.target.wants"), None);
    }

    #[test]
    fn old_releases_tell_a_missing_unit_in_words() {
        assert_eq!(loaded("unit x.service could not be found."), Some(false));
        let text = "x.service\n   loaded: not-found (reason: no such file)\n";
        assert_eq!(loaded(text), Some(false));
        assert_eq!(loaded("a\n   loaded: loaded (/lib/x)\n"), Some(true));
        assert_eq!(loaded("failed to connect to bus"), None);
    }

    #[test]
    fn properties_are_text_lists_and_parts() {
        let shown = |line: &str| value::python::repr(&property(line).1);
        assert_eq!(shown("Id=cron.service"), "'cron.service'");
        assert_eq!(shown("After=a.target b.target"), "['a.target', 'b.target']");
        assert_eq!(
            shown("ExecStart={ path=/usr/sbin/cron ; argv[]=/usr/sbin/cron -f ; pid=0 }"),
            "{'path': '/usr/sbin/cron', 'argv[]': '/usr/sbin/cron -f', 'pid': '0'}"
        );
    }

    #[test]
    fn the_line_that_names_the_scope_is_no_complaint() {
        let said = "Running scope as unit: run-r1.scope\nFailed to start x.service: Unit x.service is masked.\n";
        assert_eq!(
            error_text(said),
            "Failed to start x.service: Unit x.service is masked."
        );
    }
}
