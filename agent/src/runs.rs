//! `pinch runs`: lists runs, shows the returns of one, compares two, deletes old ones, and
//! continues runs after a reboot.

use std::io::{ErrorKind, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;

use cli::binary;
use cli::config;
use cli::failure::{Exit, Failure};
use cli::options::{Parsed, RUNS};
use cli::output::{Output, Return, display, print_return};
use machine::accounts::users;
use modules::loader::call::outputter;
use render::yaml::SaltYaml;
use state::opts::Opts;
use state::record::{self, Recorded};
use state::resume::{function_of, id_of};
use value::json::{self, Layout};
use value::{Map, Value, jid};

use crate::setup;

mod continued;

/// The number of microseconds in a day.
const DAY: u64 = 86_400_000_000;

/// Runs `pinch runs` with the arguments `words`.
///
/// # Errors
/// If the command line is wrong, or a record cannot be read.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&RUNS, words, answered)
}

fn answered(parsed: &Parsed) -> Result<ExitCode, Failure> {
    let runs = Runs::from_parsed(parsed)?;
    let words: Vec<&str> = parsed.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => runs.list(),
        ["show", jid] => runs.show(jid),
        ["diff", before, after] => runs.diff(before, after),
        ["prune"] => runs.prune(parsed),
        ["continue"] => continued::all(&runs.opts, parsed),
        _ => Err(Failure::new(
            Exit::Usage,
            "runs needs a command: list, show JID, diff JID JID, prune or continue",
        )),
    }
}

/// Returns the options of the configuration in a folder.
pub(crate) fn configured(dir: Option<&str>) -> Result<Map, Failure> {
    let env = std::env::var("SALT_CONFIG_DIR").ok();
    let dir = dir.or(env.as_deref()).unwrap_or(config::DEFAULT_DIR);
    let loaded = config::load(Path::new(dir), Map::new(), &SaltYaml)?;
    config::obeyed(&loaded, Path::new(dir))?;
    Ok(loaded.opts)
}

/// Returns the job id of the recorded run that a word names: its whole id, or the beginning of
/// exactly one, or `last`.
pub(crate) fn jid_of(opts: &Opts, word: &str) -> Result<String, Failure> {
    let all = record::jids(opts);
    let hint = || match all.last() {
        Some(last) => format!("the last recorded run is {last}; `pinch runs list` shows all"),
        None => format!("no run is recorded in {}", record::folder(opts).display()),
    };
    let failed = |error: String| Failure::new(Exit::Generic, error).hints([hint()]);
    if word == LAST {
        let last = all.last().cloned();
        return last.ok_or_else(|| Failure::new(Exit::Generic, "no run is recorded"));
    }
    if all.iter().any(|jid| jid == word) {
        return Ok(word.to_owned());
    }
    let mut named = all.iter().filter(|jid| jid.starts_with(word));
    match (named.next(), named.count()) {
        (Some(jid), 0) if !word.is_empty() => Ok(jid.clone()),
        (Some(_), more) if !word.is_empty() => Err(failed(format!(
            "{} recorded runs begin with {word}",
            more + 1
        ))),
        _ => Err(failed(format!("no record of run {word}"))),
    }
}

/// The word for the last recorded run.
pub(crate) const LAST: &str = "last";

/// Returns the job id that a word names, and its record; see [`jid_of`].
pub(crate) fn recorded(opts: &Opts, word: &str) -> Result<(String, Recorded), Failure> {
    let jid = jid_of(opts, word)?;
    let read = record::read(&record::folder(opts).join(&jid));
    let recorded = read.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok((jid, recorded))
}

struct Runs {
    opts: Opts,
    how: Output,
}

impl Runs {
    fn from_parsed(parsed: &Parsed) -> Result<Self, Failure> {
        let mut opts = configured(parsed.text("config_dir"))?;
        for (flag, value) in &parsed.given {
            opts.insert(flag.dest, value.clone());
        }
        Ok(Self {
            how: Output::from_opts(&opts, std::io::stdout().is_terminal()),
            opts: Opts::new(opts),
        })
    }

    /// Prints the text, or the data if the options name an outputter.
    fn put(&self, data: Value, text: &str) -> ExitCode {
        match self.how.outputter {
            None => binary::put(text),
            Some(_) => binary::put(&(display(&data, None, &self.how, 0, &SaltYaml) + "\n")),
        }
    }

    fn list(&self) -> Result<ExitCode, Failure> {
        let folder = record::folder(&self.opts);
        if let Err(error) = std::fs::read_dir(&folder)
            && error.kind() == ErrorKind::PermissionDenied
        {
            let error = format!("cannot read {}: {error}", folder.display());
            return Err(Failure::new(Exit::Generic, error).hints(setup::as_root()));
        }
        let mut all = Vec::new();
        for jid in record::jids(&self.opts) {
            // A record that is just being written, or was cut off in its first line, is not listed.
            if let Ok(recorded) = record::read(&record::folder(&self.opts).join(&jid)) {
                all.push(self.summary(&jid, &recorded));
            }
        }
        let lines: String = all.iter().map(line).collect();
        Ok(self.put(Value::list(all.into_iter().map(Value::Map)), &lines))
    }

    /// Returns a summary of a run.
    fn summary(&self, jid: &str, recorded: &Recorded) -> Map {
        let start = |key: &str| recorded.start.get(key).cloned();
        let end = recorded.end.as_ref();
        let code = end.and_then(|end| end.get("retcode").cloned());
        let alive = || record::is_alive(&record::folder(&self.opts).join(jid));
        let result = match code.as_ref().and_then(Value::as_int) {
            Some(0) => "succeeded",
            Some(_) => "failed",
            None if alive() => "under way",
            None if recorded.waits_for_boot() => "waits for a reboot",
            None => "cut short",
        };
        let count = |wanted: &str| {
            let outcomes = recorded.returns.values().map(outcome);
            outcomes.filter(|outcome| *outcome == wanted).count()
        };
        let ended = end.and_then(|end| end.get("time")).and_then(Value::as_str);
        let times = (ended.and_then(jid::to_micros), jid::to_micros(jid));
        let seconds = match times {
            (Some(ended), Some(began)) => Some(ended.saturating_sub(began) as f64 / 1e6),
            _ => None,
        };
        let user = start("user").or_else(|| {
            let uid = start("uid")?.as_int()?;
            Some(users::of_uid(u32::try_from(uid).ok()?))
        });
        Map::new()
            .with("jid", jid)
            .with("started", jid::to_time(jid))
            .with("user", user)
            .with("fun", start("fun"))
            .with("args", start("args"))
            .with("test", start("test").is_some_and(|test| test.is_true()))
            .with("result", result)
            .with("retcode", code)
            .with("states", recorded.returns.len() as i64)
            .with("changed", count("changed") as i64)
            .with("failed", count("failed") as i64)
            .with("seconds", seconds)
            .with("resumed", recorded.resumed.len() as i64)
    }

    fn show(&self, word: &str) -> Result<ExitCode, Failure> {
        let (jid, recorded) = recorded(&self.opts, word)?;
        let summary = self.summary(&jid, &recorded);
        let text = |key| summary.get(key).map(Value::to_text).unwrap_or_default();
        if self.how.outputter.is_none() {
            binary::put(&line(&summary));
            if !recorded.changes.is_empty() {
                let path = record::folder(&self.opts).join(&jid);
                let bytes = record::kept_bytes(&path).unwrap_or(0);
                let told =
                    format!("undo with `pinch undo {jid}` ({bytes} bytes of old contents kept)\n");
                binary::put(&told);
            }
        }
        if matches!(text("result").as_str(), "cut short" | "waits for a reboot") {
            for one in &recorded.begun {
                let said = format!("running when it was cut short: {}\n", id_of(&one.tag));
                binary::put(&said);
            }
            if let Some(why) = &recorded.left {
                binary::put(&format!("not continued after the reboot: {why}\n"));
            }
        }
        let code = summary.get("retcode").and_then(Value::as_int).unwrap_or(1);
        let returns = Value::Map(recorded.returns);
        let ret = match text("fun").as_str() {
            "state.orchestrate" => Return {
                value: Map::new()
                    .with("data", Map::new().with(self.opts.id(), returns))
                    .with("outputter", "highstate")
                    .with("retcode", code)
                    .into(),
                ..Return::default()
            },
            fun => Return {
                value: returns,
                out: Some(outputter(fun).unwrap_or("highstate").to_owned()),
                ..Return::default()
            },
        };
        let ret = Return {
            retcode: code,
            ..ret
        };
        print_return(&ret, &self.how, None, &SaltYaml)
            .map_err(|error| Failure::new(Exit::CantCreate, error))?;
        Ok(Exit::Ok.into())
    }

    fn diff(&self, before: &str, after: &str) -> Result<ExitCode, Failure> {
        let (_, a) = recorded(&self.opts, before)?;
        let (_, b) = recorded(&self.opts, after)?;
        let mut tags: Vec<&Value> = a.returns.keys().collect();
        tags.extend(
            b.returns
                .keys()
                .filter(|tag| !a.returns.contains_value(tag)),
        );
        let of = |recorded: &Recorded, tag: &Value| {
            let ret = recorded.returns.get_value(tag);
            ret.map_or("not run", outcome)
        };
        let mut all = Vec::new();
        for tag in tags {
            let (was, is) = (of(&a, tag), of(&b, tag));
            if was != is {
                let entry = Map::new().with("state", tag.clone());
                all.push(entry.with("before", was).with("after", is));
            }
        }
        let text = |entry: &Map, key| entry.get(key).map(Value::to_text).unwrap_or_default();
        let shown = |entry: &Map| {
            let tag = text(entry, "state");
            let (id, fun) = (id_of(&tag), function_of(&tag));
            format!(
                "{id} ({fun}): {} -> {}\n",
                text(entry, "before"),
                text(entry, "after")
            )
        };
        let lines: String = all.iter().map(shown).collect();
        let same = all.is_empty();
        self.put(Value::list(all.into_iter().map(Value::Map)), &lines);
        Ok(if same { Exit::Ok } else { Exit::StateFailure }.into())
    }

    fn prune(&self, parsed: &Parsed) -> Result<ExitCode, Failure> {
        let number = |key| parsed.get(key).and_then(Value::as_int);
        let (keep, days) = (number("keep"), number("days"));
        if keep.is_none() && days.is_none() {
            let error = "prune needs --keep COUNT or --days DAYS";
            return Err(Failure::new(Exit::Usage, error));
        }
        let jids = record::jids(&self.opts);
        let first_kept = keep.map(|keep| {
            jids.len()
                .saturating_sub(usize::try_from(keep).unwrap_or(0))
        });
        let now = jid::to_micros(&jid::new()).unwrap_or_default();
        let before = days.map(|days| now.saturating_sub(DAY * u64::try_from(days).unwrap_or(0)));
        let folder = record::folder(&self.opts);
        let mut gone = Vec::new();
        for (at, jid) in jids.iter().enumerate() {
            let many = first_kept.is_some_and(|first| at < first);
            let old =
                before.is_some_and(|before| jid::to_micros(jid).is_some_and(|at| at < before));
            let path = folder.join(jid);
            let finished = record::is_finished(&path) || parsed.has("force");
            if (many || old) && finished && !record::is_alive(&path) {
                record::remove(&path).map_err(|error| Failure::new(Exit::CantCreate, error))?;
                gone.push(jid.as_str());
            }
        }
        let text = format!("deleted {} of {} runs\n", gone.len(), jids.len());
        Ok(self.put(Value::list(gone.into_iter().map(Value::from)), &text))
    }
}

/// Returns the outcome of a state in a word or two.
pub(crate) fn outcome(ret: &Value) -> &'static str {
    let changed = ret.get("changes").is_some_and(Value::is_true);
    let ran = ret.get("__state_ran__").is_none_or(Value::is_true);
    match ret.get("result") {
        Some(Value::Bool(false)) => "failed",
        Some(Value::Null) => "would change",
        _ if changed => "changed",
        _ if !ran => "skipped",
        _ => "unchanged",
    }
}

/// Returns a line that describes a run.
fn line(run: &Map) -> String {
    let text = |key| run.get(key).map(Value::to_text).unwrap_or_default();
    let args = run
        .get("args")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    let word = |(key, value): (&Value, &Value)| match (key.as_str(), value.as_list()) {
        (Some("mods"), Some(items)) => format!(
            " {}",
            items
                .iter()
                .map(Value::to_text)
                .collect::<Vec<_>>()
                .join(",")
        ),
        (Some("mods"), None) => format!(" {}", value.to_text()),
        (_, _) if value.as_map().is_none() && value.as_list().is_none() => {
            format!(" {}={}", key.to_text(), value.to_text())
        }
        _ => format!(
            " {}={}",
            key.to_text(),
            json::write(value, Layout::default())
        ),
    };
    // The SLS names come first, as on a command line.
    let (mods, rest): (Vec<_>, Vec<_>) = args
        .iter()
        .partition(|(key, _)| key.as_str() == Some("mods"));
    let words: String = mods.into_iter().chain(rest).map(word).collect();
    let seconds = run.get("seconds").filter(|seconds| !seconds.is_null());
    let seconds = seconds
        .map(|seconds| format!(" in {} s", seconds.to_text()))
        .unwrap_or_default();
    format!(
        "{}  {}  {}  {}{words}: {}{seconds}, {} states, {} changed, {} failed\n",
        text("jid"),
        text("started"),
        text("user"),
        text("fun"),
        text("result"),
        text("states"),
        text("changed"),
        text("failed")
    )
}
