//! `pinch migrate minion`: shows what Pinch's minion takes over from the Salt minion of this machine
//! and what will differ. With `--apply`, it replaces Salt's minion, and `--undo` brings it back.
//!
//! Both read the same files, so nothing is converted: the configuration, the keys, the grains and
//! the caches remain. What is changed is a run of states with a record. If the power fails during
//! it, the same command continues, and `--undo` undoes what was done.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::minion::Takeover;
use cli::binary;
use cli::config::{self, Loaded};
use cli::failure::{Exit, Failure};
use cli::options::Parsed;
use machine::fs;
use render::yaml::SaltYaml;
use state::exec::Exec;
use state::opts::Opts;
use state::record::{self, Recorded};
use value::json::{self, Layout};
use value::{Map, PushFmt, Value};

use crate::{call, setup, undo};

/// The service of Salt's minion.
const SALTS: &str = "salt-minion";
/// The service of Pinch's minion.
const OURS: &str = "pinch-minion";
/// The file in the folder `minion.d` that a migration writes, and its contents.
const PROTOCOL: &str = "pinch-master-protocol.conf";
const PROTOCOL_TEXT: &str = "# Written by `pinch migrate minion`. Salt's minion does not read this option.\nmaster_protocol: salt\n";
/// The id of the state that writes it, by which `--undo` finds the run.
const KEEP_PROTOCOL: &str = "keep the protocol of the Salt master";
/// The maximum number of custom modules.
const MODULES_MAX: usize = 100_000;

/// Prints the report. With `--apply`, migrates the minion after it; with `--undo`, undoes that.
pub(super) fn run(parsed: &Parsed, words: &[String]) -> Result<ExitCode, Failure> {
    if let Some(word) = words.first() {
        let error = format!("migrate minion takes no argument, but {word} is given");
        return Err(Failure::new(Exit::Usage, error));
    }
    let dir = setup::config_dir(parsed);
    let loaded = setup::loaded(parsed, false)?;
    if parsed.has("undo") {
        return go_back(&dir, &Opts::new(loaded.opts), parsed.has("yes"));
    }
    let report = Report::collect(&dir, &loaded)?;
    binary::put(&match parsed.text("format") {
        Some("json") => report.to_json(),
        _ => report.to_markdown(),
    });
    match (report.problems.is_empty(), parsed.has("apply")) {
        (true, true) => apply(&dir, &Opts::new(loaded.opts), &report),
        (true, false) => Ok(Exit::Ok.into()),
        (false, _) => Ok(Exit::Generic.into()),
    }
}

/// The result of the examination.
struct Report {
    /// The things that are taken over: name and description.
    kept: Vec<(&'static str, String)>,
    /// The reasons why this minion cannot be migrated.
    problems: Vec<String>,
    differences: Vec<String>,
    /// The changes of `--apply`.
    changes: Vec<String>,
    /// True if the services are replaced.
    has_services: bool,
}

impl Report {
    fn collect(dir: &Path, loaded: &Loaded) -> Result<Self, Failure> {
        let opts = Opts::new(loaded.opts.clone());
        let failed = |error: String| Failure::new(Exit::Generic, error);
        let grains = config::static_grains(dir, &SaltYaml);
        let grains = grains.map_err(|error| failed(error.to_string()))?;
        let modules = modules(&opts.path("extension_modules")).map_err(failed)?;
        let cx = super::context(opts.clone());
        let (jobs, found) = (jobs(&opts), Takeover::examine(&opts));
        let services = Services::find(&cx, dir);
        let or_none = |found: Option<String>| found.unwrap_or_else(|| "none yet".to_owned());
        let kept = vec![
            ("id", opts.id().to_owned()),
            ("configuration", paths(&loaded.files)),
            ("master", found.masters.join(", ")),
            ("key", or_none(found.key)),
            ("key of the master", or_none(found.master_key)),
            ("static grains", grains.len().to_string()),
            ("custom modules", modules.to_string()),
            ("scheduled jobs", jobs.len().to_string()),
            ("cache", opts.cachedir().display().to_string()),
            ("services", services.to_string()),
        ];
        let mut problems = found.problems;
        problems.extend(services.problem());
        let mut differences = loaded.warnings.clone();
        differences.extend(absent(&cx, &jobs));
        if modules > 0 && machine::process::which("python3").is_none() {
            differences.push("custom modules need python3, which is not installed".to_owned());
        }
        Ok(Self {
            kept,
            problems,
            differences,
            changes: services.changes(dir),
            has_services: services.salts,
        })
    }

    fn to_markdown(&self) -> String {
        let mut out = "# From Salt's minion to Pinch's\n\n| | |\n|---|---|\n".to_owned();
        for (name, what) in &self.kept {
            out.push_fmt(format_args!("| {name} | {what} |\n"));
        }
        let parts = [
            ("What prevents it", &self.problems),
            ("What will differ", &self.differences),
            ("What --apply changes", &self.changes),
        ];
        for (title, lines) in parts {
            if !lines.is_empty() {
                out.push_fmt(format_args!("\n## {title}\n\n"));
            }
            for line in lines {
                out.push_fmt(format_args!("- {line}\n"));
            }
        }
        out
    }

    fn to_json(&self) -> String {
        let kept = self.kept.iter();
        let kept: Map = kept
            .map(|(name, what)| (Value::from(*name), Value::from(what.as_str())))
            .collect();
        let list = |lines: &[String]| Value::list(lines.iter().map(|line| line.as_str().into()));
        let all = Map::new()
            .with("version", 1)
            .with("kept", kept)
            .with("problems", list(&self.problems))
            .with("differences", list(&self.differences))
            .with("changes", list(&self.changes));
        let layout = Layout {
            indent: Some(4),
            ..Layout::default()
        };
        format!("{}\n", json::write(&all.into(), layout))
    }
}

fn paths(files: &[PathBuf]) -> String {
    let shown: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    match shown.is_empty() {
        true => "none".to_owned(),
        false => shown.join(", "),
    }
}

/// Counts the Python files of synchronized custom modules.
fn modules(folder: &Path) -> Result<usize, String> {
    let kinds = fs::list_or_none(folder).map_err(|error| error.to_string())?;
    let mut count = 0;
    for kind in kinds.unwrap_or_default() {
        // A link is not followed.
        if !kind.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let names = fs::names(kind.path()).map_err(|error| error.to_string())?;
        let is_python = |name: &&std::ffi::OsString| {
            let extension = Path::new(name).extension();
            extension.is_some_and(|extension| extension == "py")
        };
        count += names.iter().filter(is_python).count();
        if count > MODULES_MAX {
            return Err(format!("{} has too many files", folder.display()));
        }
    }
    Ok(count)
}

/// Returns the scheduled jobs with their functions.
fn jobs(opts: &Opts) -> Vec<(String, String)> {
    let schedule = opts.get("schedule").and_then(Value::as_map);
    let jobs = schedule.into_iter().flatten().filter_map(|(name, job)| {
        let function = job.get("function").or_else(|| job.get("func"))?;
        Some((name.to_text(), function.to_text()))
    });
    jobs.collect()
}

/// Names the scheduled functions that this program or machine does not have.
fn absent(cx: &Exec, jobs: &[(String, String)]) -> Vec<String> {
    let listed = cx.call("sys.list_functions", Vec::new(), Map::new());
    let known: BTreeSet<String> = match &listed {
        Ok(names) => names.texts().into_iter().collect(),
        Err(error) => return vec![format!("cannot list the functions: {error}")],
    };
    let absent = jobs
        .iter()
        .filter(|(_, function)| !known.contains(function));
    absent
        .map(|(name, function)| format!("the scheduled job {name}: {function} is not available"))
        .collect()
}

/// The services of both minions. They belong to the default folder of the configuration only.
struct Services {
    /// True if Salt's minion is a service.
    salts: bool,
    /// True if Pinch's minion is one.
    ours: bool,
    is_default: bool,
}

impl Services {
    fn find(cx: &Exec, dir: &Path) -> Self {
        let is_default = dir == Path::new(config::DEFAULT_DIR);
        let is_available = |name: &str| {
            let answer = cx.call("service.available", vec![name.into()], Map::new());
            is_default && answer.is_ok_and(|answer| answer.is_true())
        };
        Self {
            salts: is_available(SALTS),
            ours: is_available(OURS),
            is_default,
        }
    }

    fn problem(&self) -> Option<String> {
        (self.salts && !self.ours)
            .then(|| format!("{SALTS} is a service, but {OURS} is not installed as one"))
    }

    fn changes(&self, dir: &Path) -> Vec<String> {
        let file = dir.join("minion.d").join(PROTOCOL);
        let mut all = vec![format!("{}: master_protocol: salt", file.display())];
        match self.salts {
            true => all.push(format!(
                "{OURS} is enabled and started, and {SALTS} is stopped and disabled"
            )),
            false => all.push(format!(
                "no service: stop Salt's minion yourself, then start `pinch salt-minion -c {}`",
                dir.display()
            )),
        }
        all
    }
}

impl std::fmt::Display for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is = |is_installed| match is_installed {
            true => "installed",
            false => "not installed",
        };
        match self.is_default {
            true => write!(f, "{SALTS} {}, {OURS} {}", is(self.salts), is(self.ours)),
            false => write!(f, "none for this configuration"),
        }
    }
}

/// Replaces the minion, in a run with a record.
fn apply(dir: &Path, opts: &Opts, report: &Report) -> Result<ExitCode, Failure> {
    let mut words = vec![
        "--local".to_owned(),
        format!("--config-dir={}", dir.display()),
        "--retcode-passthrough".to_owned(),
        "--out=highstate".to_owned(),
        "state.high".to_owned(),
        json::write(&states(dir, report.has_services).into(), Layout::default()),
    ];
    // The run that was cut short keeps its job id, so that one undo is enough.
    if last(opts).is_some_and(|jid| is_cut_short(opts, &jid)) {
        words.push("resume=True".to_owned());
    }
    let done = call::run(words)?;
    binary::put("\nTo go back to Salt's minion: pinch migrate minion --undo\n");
    Ok(done)
}

/// Returns the states of a migration as high data. Pinch's minion is enabled first, so that after a
/// power failure at any time at least one minion starts.
fn states(dir: &Path, has_services: bool) -> Map {
    let file = dir.join("minion.d").join(PROTOCOL);
    let file = Map::new()
        .with("name", file.display().to_string())
        .with("contents", PROTOCOL_TEXT)
        .with("makedirs", true)
        .with("follow_symlinks", false);
    let mut all = Map::new().with(KEEP_PROTOCOL, state("file", "managed", file));
    if !has_services {
        return all;
    }
    let name = |name: &str| Map::new().with("name", name);
    let (enable, stop, start) = (
        "enable the minion of Pinch",
        "stop the minion of Salt",
        "start the minion of Pinch",
    );
    let after = |module: &str, id: &str| Value::list([Map::new().with(module, id).into()]);
    let enabled = name(OURS).with("require", after("file", KEEP_PROTOCOL));
    all.insert(enable, state("service", "enabled", enabled));
    let mut dead = name(SALTS)
        .with("enable", false)
        .with("require", after("service", enable));
    // Salt's default for its own service is not to wait, and both minions would run for a while.
    if machine::systemd::booted() {
        dead.insert("no_block", false);
    }
    all.insert(stop, state("service", "dead", dead));
    let running = name(OURS).with("require", after("service", stop));
    all.insert(start, state("service", "running", running));
    all
}

/// Returns the body of a state with its arguments, in Salt's high data.
fn state(module: &str, function: &str, arguments: Map) -> Value {
    let arguments = arguments.iter();
    let one = |(name, value): (&Value, &Value)| -> Value {
        Map::from_iter([(name.clone(), value.clone())]).into()
    };
    let body = std::iter::once(function.into()).chain(arguments.map(one));
    Map::new().with(module, Value::list(body)).into()
}

/// Returns the job id of the last migration that has changed something.
fn last(opts: &Opts) -> Option<String> {
    let folder = record::folder(opts);
    let is_migration = |jid: &String| {
        let path = folder.join(jid);
        let start = record::start_of(&path);
        let is_high = start.is_some_and(|start| {
            let fun = start.get("fun").and_then(Value::as_str);
            fun == Some("state.high") && !start.contains("test")
        });
        is_high && record::read(&path).is_ok_and(|recorded| has_migrated(&recorded))
    };
    record::jids(opts).into_iter().rev().find(is_migration)
}

/// Returns whether a run is a migration that has changed something.
fn has_migrated(recorded: &Recorded) -> bool {
    let names = |text: String| text.contains(KEEP_PROTOCOL);
    let by = |change: &Map| change.get("by").is_some_and(|by| names(by.to_text()));
    let has_state = || recorded.returns.keys().any(|tag| names(tag.to_text()));
    !recorded.changes.is_empty() && (recorded.changes.iter().any(by) || has_state())
}

/// Returns whether a run was interrupted before its end.
fn is_cut_short(opts: &Opts, jid: &str) -> bool {
    let path = record::folder(opts).join(jid);
    let recorded = record::read(&path);
    recorded.is_ok_and(|recorded| recorded.end.is_none()) && !record::is_alive(&path)
}

/// Undoes the last migration.
fn go_back(dir: &Path, opts: &Opts, is_confirmed: bool) -> Result<ExitCode, Failure> {
    let Some(jid) = last(opts) else {
        let folder = record::folder(opts);
        let error = format!("no migration is recorded in {}", folder.display());
        return Err(Failure::new(Exit::Generic, error));
    };
    let mut words = vec![format!("--config-dir={}", dir.display()), jid];
    if is_confirmed {
        words.push("--yes".to_owned());
    }
    undo::run(&words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_never_without_an_enabled_minion() {
        let all = states(Path::new("/etc/salt"), true);
        let ids: Vec<String> = all.keys().map(Value::to_text).collect();
        let at = |word: &str| ids.iter().position(|id| id.starts_with(word)).unwrap();
        assert!(at("keep") < at("enable") && at("enable") < at("stop") && at("stop") < at("start"));
        let stop = all.get("stop the minion of Salt").unwrap();
        let text = json::write(stop, Layout::default());
        assert!(text.contains("enable the minion of Pinch"), "{text}");
    }

    #[test]
    fn without_services_only_the_protocol_is_written() {
        assert_eq!(states(Path::new("/srv/etc"), false).len(), 1);
    }
}
