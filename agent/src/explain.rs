//! `pinch explain`: a lint code, or a state of a run.
//!
//! `pinch explain run` shows why a state of a run ran or did not run, and in which file and line
//! its arguments are written.
//!
//! The record of the run contains returns and guards. Requisites and places come from the tree in
//! its current state. If the tree has changed since the run, the output has a note about it.

use std::process::ExitCode;
use std::sync::Arc;

use cli::binary;
use cli::failure::{Exit, Failure};
use cli::options::{EXPLAIN, Parsed};
use modules::state_run::Request;
use state::compile::{self, Plan};
use state::exec::Exec;
use state::low::{LowChunk, RequisiteKind};
use state::opts::Opts;
use state::record::Recorded;
use state::resume::{self, function_of, id_of, means};
use value::json::{self, Layout};
use value::{PushFmt, Value, secret};

use crate::runs::{configured, outcome, recorded};
use crate::setup;

/// The maximum depth to which requisites of requisites are shown.
const DEPTH_MAX: usize = 20;

/// The maximum number of characters shown of an argument's value.
const VALUE_MAX: usize = 60;

/// Runs `pinch explain` with the arguments `words`.
///
/// # Errors
/// If the code or the run does not exist, or the run has no state of that name.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&EXPLAIN, words, explained)
}

fn explained(parsed: &Parsed) -> Result<ExitCode, Failure> {
    match parsed.words.as_slice() {
        [word, jid, state] if word == "run" => run_state(parsed, jid, state),
        [word, ..] if word == "run" => {
            let error = "explain run needs a job id and a state: pinch explain run JID STATE";
            Err(Failure::new(Exit::Usage, error))
        }
        #[cfg(feature = "tree-tools")]
        [word] => crate::lint::explain(word),
        _ => Err(Failure::new(Exit::Usage, USAGE)),
    }
}

#[cfg(feature = "tree-tools")]
const USAGE: &str = "explain needs a lint code, or a run and a state: pinch explain E301, pinch explain run JID STATE";
#[cfg(not(feature = "tree-tools"))]
const USAGE: &str =
    "explain needs a run and a state: pinch explain run JID STATE (this build has no lint codes)";

/// Runs `pinch explain run`.
fn run_state(parsed: &Parsed, jid: &str, state: &str) -> Result<ExitCode, Failure> {
    let mut opts = configured(parsed.text("config_dir"))?;
    opts.insert("file_client", "local");
    let opts = Opts::new(opts);
    let (jid, recorded) = recorded(&opts, jid)?;
    let (cx, _) =
        crate::call::context(opts, true).map_err(|error| Failure::new(Exit::Generic, error))?;
    let plan = plan(&cx, &recorded);
    let recorded = match &plan {
        Ok(plan) => recorded.of_plan(plan),
        Err(_) => recorded,
    };
    let tags = tags(&recorded, plan.as_ref().ok(), state);
    if tags.is_empty() {
        let error = format!("run {jid} has no state {state}");
        let hint = format!("pinch runs show {jid} lists its states");
        return Err(Failure::new(Exit::Generic, error).hints([hint]));
    }
    let explained = Explained {
        recorded: &recorded,
        plan: plan.as_ref().ok(),
    };
    let mut out = String::new();
    for tag in tags {
        explained.state(&mut out, &tag);
    }
    out += &match &plan {
        Ok(plan) => resume::changes(plan, &recorded)
            .iter()
            .map(|note| format!("Note: {note}\n"))
            .collect(),
        Err(why) => format!("Note: cannot show requisites and source lines: {why}\n"),
    };
    Ok(binary::put(&out))
}

/// Compiles the recorded call again from the tree in its current state.
fn plan(cx: &Exec, recorded: &Recorded) -> Result<Plan, String> {
    let start = |key: &str| recorded.start.get(key).cloned().unwrap_or_default();
    let args = start("args").as_map().cloned().unwrap_or_default();
    let fun = start("fun").to_text();
    let request = Request::from_kwargs("state.sls", &args);
    let cx = request.context(cx).map_err(|error| error.to_string())?;
    let mods = args.get("mods").map(Value::split_input);
    let high = match (fun.as_str(), mods) {
        ("state.apply" | "state.highstate", None) => compile::highstate(&cx),
        ("state.apply" | "state.sls" | "state.orchestrate", Some(mods)) => {
            compile::sls(&cx, &mods, &cx.saltenv)
        }
        _ => return Err(format!("{fun} does not run SLS files")),
    };
    let planned = high.and_then(|high| request.without_excluded(high).plan(&cx));
    planned.map_err(|faults| {
        let faults: Vec<&str> = faults.iter().map(|fault| fault.text.as_str()).collect();
        faults.join("; ")
    })
}

/// Returns the tags of the states that match `word`: first those with a return, then those of the
/// plan without one.
fn tags(recorded: &Recorded, plan: Option<&Plan>, word: &str) -> Vec<String> {
    let returns = recorded.returns.keys().map(Value::to_text);
    let mut tags: Vec<String> = returns.filter(|tag| means(word, tag)).collect();
    let chunks = plan.map(Plan::chunks).unwrap_or_default().iter();
    let planned = chunks.map(|low| low.tag()).filter(|tag| means(word, tag));
    tags.extend(planned.filter(|tag| !recorded.returns.contains(tag)));
    tags
}

struct Explained<'a> {
    recorded: &'a Recorded,
    plan: Option<&'a Plan>,
}

impl Explained<'_> {
    fn ret(&self, tag: &str) -> Option<&Value> {
        self.recorded.returns.get(tag)
    }

    fn low(&self, tag: &str) -> Option<&LowChunk> {
        let mut chunks = self.plan?.chunks().iter();
        chunks.find(|low| low.tag() == tag).map(|low| &**low)
    }

    /// Returns the outcome of a state in a few words.
    fn outcome(&self, tag: &str) -> &'static str {
        let begun = || self.recorded.begun.iter().any(|one| one.tag == tag);
        match self.ret(tag) {
            Some(ret) => outcome(ret),
            None if begun() => "was running when the run was cut short",
            None => "has no return",
        }
    }

    fn state(&self, out: &mut String, tag: &str) {
        let (id, fun) = (id_of(tag), function_of(tag));
        out.push_fmt(format_args!("{id} ({fun}): {}\n", self.outcome(tag)));
        let comment = self.ret(tag).and_then(|ret| ret.get("comment"));
        for line in comment.map(Value::to_text).unwrap_or_default().lines() {
            out.push_fmt(format_args!("  {line}\n"));
        }
        self.guard(out, tag);
        let (Some(plan), Some(low)) = (self.plan, self.low(tag)) else {
            return;
        };
        if !low.requisites.is_empty() {
            out.push_str("Requisites:\n");
            self.requisites(out, plan, low, 1);
        }
        let undoes = |other: &&Arc<LowChunk>| {
            let all = other.requisites.iter();
            let mut all = all.filter(|one| one.kind == RequisiteKind::Compensate);
            all.any(|one| {
                let mut chunks = one.chunks.iter().filter_map(|at| plan.chunks().get(*at));
                chunks.any(|target| target.tag() == tag)
            })
        };
        for (at, other) in plan.chunks().iter().filter(undoes).enumerate() {
            let (head, tag) = (if at == 0 { "Compensates:\n" } else { "" }, other.tag());
            let (id, fun, outcome) = (id_of(&tag), function_of(&tag), self.outcome(&tag));
            out.push_fmt(format_args!("{head}  {id} ({fun}): {outcome}\n"));
        }
        out.push_str("Arguments:\n");
        for (key, value) in &low.arguments(|key| key == "name") {
            self.argument(out, plan, low, &key.to_text(), value);
        }
    }

    /// Prints the guard that kept the state from running.
    fn guard(&self, out: &mut String, tag: &str) {
        let Some(guard) = self.recorded.guards.get(tag) else {
            return;
        };
        let text = |key| guard.get(key).map(Value::to_text).unwrap_or_default();
        let entry = guard.get("entry").map(short_text).unwrap_or_default();
        let status = guard.get("status").and_then(Value::as_int);
        let status = status.map(|status| format!(" exited {status}"));
        out.push_fmt(format_args!(
            "Guard:\n  {}: {entry}{}\n",
            text("guard"),
            status.unwrap_or_default()
        ));
    }

    /// Prints the requisites of a state and their outcomes. For each requisite that did not
    /// succeed, it also prints that one's own requisites.
    fn requisites(&self, out: &mut String, plan: &Plan, low: &LowChunk, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        let indent = "  ".repeat(depth);
        for requisite in &low.requisites {
            let targets = requisite
                .chunks
                .iter()
                .filter_map(|at| plan.chunks().get(*at));
            for target in targets {
                let tag = target.tag();
                let outcome = self.outcome(&tag);
                let (word, id, fun) = (requisite.kind.word(), id_of(&tag), function_of(&tag));
                out.push_fmt(format_args!("{indent}{word} {id} ({fun}): {outcome}\n"));
                if !matches!(outcome, "changed" | "unchanged") {
                    self.requisites(out, plan, target, depth + 1);
                }
            }
        }
    }

    /// Prints an argument, the file and line where it is written, and the pillar keys and grains
    /// that this line reads.
    fn argument(&self, out: &mut String, plan: &Plan, low: &LowChunk, key: &str, value: &Value) {
        out.push_fmt(format_args!(
            "  {key}: {}",
            short_text(&secret::at(&[key], value))
        ));
        // If the line does not contain the key, the value is the state's id or comes from another
        // place.
        let place = plan.place(low, Some(key));
        if let Some(place) = place.filter(|place| place.source.contains(key)) {
            out.push_fmt(format_args!("  {}:{}", place.file, place.line));
            for read in reads(&place.source) {
                out.push_fmt(format_args!(", reads {read}"));
            }
        }
        out.push('\n');
    }
}

/// Returns a value as one short line of text.
fn short_text(value: &Value) -> String {
    let text = match value {
        Value::Str(text) => text.to_string(),
        other => json::write(other, Layout::default()),
    };
    let mut text: String = text.replace('\n', "\\n");
    if let Some((at, _)) = text.char_indices().nth(VALUE_MAX) {
        text.truncate(at);
        text.push('…');
    }
    text
}

/// Returns the pillar keys and grains that a line of a template names: `pillar.a.b`, `pillar['a']`,
/// `pillar.get('a:b')`, `salt['grains.get']('os')`.
fn reads(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for word in ["pillar", "grains"] {
        for (at, _) in line.match_indices(word) {
            let before = line.get(..at).and_then(|text| text.chars().next_back());
            let inside =
                before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '/' | '.'));
            let rest = line.get(at + word.len()..).unwrap_or_default();
            let read = (!inside).then(|| key(rest)).flatten();
            let kind = if word == "grains" { "grain" } else { word };
            found.extend(read.map(|key| format!("{kind} {key}")));
        }
    }
    found
}

/// Returns the key that follows `pillar` or `grains` in an expression, or `None` if the key is not
/// a literal.
fn key(rest: &str) -> Option<String> {
    let rest = rest
        .strip_prefix(".get")
        .map_or(rest, |rest| rest.trim_start_matches(['\'', '"', ']']));
    let quoted = rest.strip_prefix(['(', '[']).and_then(|inner| {
        let mark = inner.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        inner
            .get(1..)?
            .split_once(mark)
            .map(|(key, _)| key.to_owned())
    });
    quoted.or_else(|| {
        let name = rest.strip_prefix('.')?;
        let end = name.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '.'));
        let name = name.get(..end.unwrap_or(name.len()))?;
        // The name of a method is not a key.
        let called = end.is_some_and(|end| {
            rest.get(1 + end..)
                .is_some_and(|after| after.starts_with('('))
        });
        (!called && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_reads_is_named_where_it_is_written_out() {
        let line = "- name: {{ pillar['a'] }} {{ pillar.get('b:c', 1) }} {{ salt['grains.get'](\"os\") }} {{ grains.id }}";
        assert_eq!(
            reads(line),
            ["pillar a", "pillar b:c", "grain os", "grain id"]
        );
        assert!(
            reads("- source: salt://pillar/x {{ pillar[name] }} {{ pillar.items() }}").is_empty()
        );
    }
}
