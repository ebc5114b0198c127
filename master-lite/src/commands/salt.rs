//! `salt`: publishes jobs, and prints the returns as they arrive.

use std::ops::ControlFlow;

use cli::failure::{Exit, Failure};
use cli::options::{Job, Salt, SaltOptions, Target, parse_input, yamlify_arg};
use render::yaml::SaltYaml;
use value::{Map, Value, yaml::Yaml, yaml::YamlLayout};
use wire::Publish;

use crate::commands::command::{flag, near_function, number, refused};
use crate::commands::local_client::{AskError, Master};
use cli::output::Screen;
use modules::loader::call::joined;

mod answer;
mod batch;
mod docs;
mod progress;
mod subset;
mod summary;

use answer::{Answer, Sent};

pub(super) use answer::Reply;
use summary::Summary;

/// The exit code of a command line with missing words.
pub(crate) const INCOMPLETE: u8 = 42;

/// The exit code when there is nothing to print, or the master reports an error.
pub(super) const NOTHING: u8 = 2;

pub(super) const NO_MATCH: &str =
    "No minions matched the target. No command was sent, no jid was assigned.";

/// Runs the command, and returns its exit code.
pub(crate) fn run(salt: &Salt, opts: &Map, master: &dyn Master, screen: &mut Screen<'_>) -> u8 {
    if let Err(invalid) = checked(salt, opts) {
        screen.complain(&Failure::new(Exit::Usage, invalid).text());
        return Exit::Usage as u8;
    }
    let done = match &salt.request {
        SaltOptions::ConfigDump => {
            screen.put(&SaltYaml.dump(&Value::Map(opts.clone()), YamlLayout::default()));
            Ok(0)
        }
        SaltOptions::Preview(target) => preview(&Asker::new(opts, master, target), screen),
        SaltOptions::Job(target, job) => {
            let asker = Asker::new(opts, master, target);
            if let Some(code) = refused_job(job, &salt.no_parse, screen) {
                return code;
            }
            let (fun, arg) = called(job, &salt.no_parse);
            dispatched(&asker, &fun, arg, screen)
        }
        SaltOptions::About(_) | SaltOptions::Incomplete { .. } => Ok(0),
    };
    done.unwrap_or_else(|error| {
        screen.show(&Value::from(error.to_string()), Some(""), 1);
        match error {
            AskError::JobContinues { .. } => 1,
            _ => NOTHING,
        }
    })
}

/// Checks the target of the command line. One that is not well formed matches no minion.
fn checked(salt: &Salt, opts: &Map) -> Result<(), String> {
    let (SaltOptions::Job(target, _) | SaltOptions::Preview(target)) = &salt.request else {
        return Ok(());
    };
    let groups = opts.get("nodegroups").and_then(Value::as_map);
    let groups = groups.cloned().unwrap_or_default();
    value::target::check(&target.tgt, target.tgt_type, &groups)
}

/// Refuses keyword arguments of `state.*` that one of the job's functions does not take; returns the
/// exit code if there is one.
fn refused_job(job: &Job, no_parse: &[String], screen: &mut Screen<'_>) -> Option<u8> {
    let functions = crate::runners::REGISTRY.functions;
    job.funs.iter().zip(&job.words).find_map(|(fun, words)| {
        let kwargs = parse_input(words, no_parse, &SaltYaml).kwargs;
        refused(functions, fun, &kwargs, screen)
    })
}

/// Returns the function and arguments of a job. Several functions are sent as one, separated by
/// commas, with a list of arguments each.
fn called(job: &Job, no_parse: &[String]) -> (String, Vec<Value>) {
    let read = |words: &Vec<String>| {
        let input = parse_input(words, no_parse, &SaltYaml);
        joined(input.args, input.kwargs)
    };
    let fun = job.funs.join(",");
    let mut arg = job.words.iter().map(read);
    if job.several {
        (fun, arg.map(Value::list).collect())
    } else {
        (fun, arg.next().unwrap_or_default())
    }
}

/// The target of the command line, and the options with which jobs are sent to it.
pub(super) struct Asker<'a> {
    pub(super) opts: &'a Map,
    master: &'a dyn Master,
    target: &'a Target,
}

impl<'a> Asker<'a> {
    pub(super) fn new(opts: &'a Map, master: &'a dyn Master, target: &'a Target) -> Self {
        Self {
            opts,
            master,
            target,
        }
    }

    /// Returns a job for the target of the command line.
    pub(super) fn job(&self, fun: &str, arg: Vec<Value>) -> Publish {
        Publish {
            tgt: self.target.tgt.clone(),
            tgt_type: self.target.tgt_type.to_owned(),
            fun: fun.to_owned(),
            arg,
            ret: self.text("return"),
            jid: None,
            timeout_s: number(self.opts, "timeout"),
            options: self.options(),
        }
    }

    /// Like [`Asker::job`], but for these minions.
    pub(super) fn job_for(&self, ids: &[String], fun: &str, arg: Vec<Value>) -> Publish {
        Publish {
            tgt: Value::list(ids.iter().map(|id| Value::from(id.as_str()))),
            tgt_type: "list".to_owned(),
            ..self.job(fun, arg)
        }
    }

    /// Returns the minions that match, and those of them that are not connected. Nothing is sent to
    /// minions.
    fn matching(&self) -> Result<Sent, AskError> {
        let mut job = self.job("test.ping", Vec::new());
        job.timeout_s = Some(0.0);
        job.options = self.options().with("preview", true);
        let mut found = Sent::default();
        self.publish(job, &mut |said| {
            if let Reply::Sent(sent) = said {
                found = sent;
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// Publishes a job, and passes each part of the answer to `each`. If a minion matches, the
    /// unknown names of the target are reported as silent at the end.
    pub(super) fn publish(
        &self,
        job: Publish,
        each: &mut dyn FnMut(Reply) -> ControlFlow<()>,
    ) -> Result<(), AskError> {
        let mut jid = String::new();
        let mut silent = Vec::new();
        let mut part = |value: Value| {
            let Some(said) = Reply::read(&value, &mut jid) else {
                return ControlFlow::Continue(());
            };
            match &said {
                Reply::Sent(sent) if !sent.minions.is_empty() => silent.clone_from(&sent.missing),
                Reply::Sent(_) => {}
                Reply::Answered(answer) => silent.retain(|id| *id != answer.id),
            }
            each(said)
        };
        let asked = self.master.ask(job.into(), &mut part);
        asked.map_err(|error| match error {
            AskError::Link(error) if !jid.is_empty() => AskError::JobContinues {
                jid: jid.clone(),
                error: Box::new(error),
            },
            error => error,
        })?;
        for id in silent {
            let said = Reply::Answered(Answer::no_response(id, &jid));
            if each(said).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn text(&self, name: &str) -> String {
        let value = self.opts.get(name).filter(|value| value.is_true());
        value.map(Value::to_text).unwrap_or_default()
    }

    /// Returns the options that are sent with a job.
    fn options(&self) -> Map {
        const READ: [(&str, &str); 4] = [
            ("metadata", "metadata"),
            ("return_kwargs", "ret_kwargs"),
            ("module_executors", "module_executors"),
            ("executor_opts", "executor_opts"),
        ];
        let mut options = Map::new();
        for (name, key) in READ {
            match self.opts.get(name).filter(|value| value.is_true()) {
                Some(Value::Str(text)) => options.insert(key, yamlify_arg(text, &SaltYaml)),
                Some(other) => options.insert(key, other.clone()),
                None => None,
            };
        }
        let config = self.text("return_config");
        if !config.is_empty() {
            options.insert("ret_config", config);
        }
        if flag(self.opts, "start_event") {
            options.insert("start_event", true);
        }
        if self.target.delimiter != ":" {
            options.insert("delimiter", self.target.delimiter.as_str());
        }
        options
    }
}

fn preview(asker: &Asker<'_>, screen: &mut Screen<'_>) -> Result<u8, AskError> {
    let found = asker.matching()?;
    let ids = Value::list(found.minions.iter().map(|id| Value::from(id.as_str())));
    screen.show(&ids, Some("nested"), 0);
    Ok(received(!found.minions.is_empty(), screen))
}

/// Returns the exit code, and prints Salt's error if there was no return.
fn received(anything: bool, screen: &mut Screen<'_>) -> u8 {
    if anything {
        return 0;
    }
    screen.complain("ERROR: No return received\n");
    NOTHING
}

fn dispatched(
    asker: &Asker<'_>,
    fun: &str,
    arg: Vec<Value>,
    screen: &mut Screen<'_>,
) -> Result<u8, AskError> {
    let opts = asker.opts;
    let batch = asker.text("batch");
    let later = flag(opts, "async");
    if !batch.is_empty() && later {
        return batch::start(asker, fun, arg, &batch, screen);
    }
    if !batch.is_empty() || flag(opts, "static") {
        return batch::run(asker, fun, arg, &batch, screen);
    }
    let limit = number(opts, "batch_safe_limit").unwrap_or_default();
    if limit > 1.0 && asker.matching()?.minions.len() as f64 >= limit {
        screen.say("\nNOTICE: Too many minions targeted, switching to batch execution.");
        let size = asker.text("batch_safe_size");
        let size = if size.is_empty() { "8" } else { &size };
        return match later {
            true => batch::start(asker, fun, arg, size, screen),
            false => batch::run(asker, fun, arg, size, screen),
        };
    }
    if later {
        return started(asker, asker.job(fun, arg), screen);
    }
    let subset = number(opts, "subset").unwrap_or_default();
    let job = if subset > 0.0 {
        let ids = subset::chosen(asker, fun, subset as usize, screen)?;
        asker.job_for(&ids, fun, arg)
    } else {
        asker.job(fun, arg)
    };
    if flag(opts, "progress") {
        return progress::run(asker, job, screen);
    }
    if fun == "sys.doc" {
        return docs::run(asker, job, screen);
    }
    waited(asker, job, screen)
}

/// Implements `--async`: prints the job id, and does not wait for returns.
fn started(asker: &Asker<'_>, mut job: Publish, screen: &mut Screen<'_>) -> Result<u8, AskError> {
    job.timeout_s = Some(0.0);
    let mut jid = String::new();
    asker.publish(job, &mut |said| {
        match said {
            Reply::Sent(sent) if sent.minions.is_empty() => screen.say(NO_MATCH),
            Reply::Sent(sent) => jid = sent.jid,
            Reply::Answered(_) => {}
        }
        ControlFlow::Continue(())
    })?;
    let jid = if jid.is_empty() { "0" } else { &jid };
    screen.say(&format!("Executed command with job ID: {jid}"));
    Ok(0)
}

/// Prints each return as it arrives, and at the end the minions without one.
fn waited(asker: &Asker<'_>, job: Publish, screen: &mut Screen<'_>) -> Result<u8, AskError> {
    let mut summary = Summary::default();
    let mut matched = false;
    let mut silent = Vec::new();
    asker.publish(job, &mut |said| {
        match said {
            Reply::Sent(sent) => matched = announced(asker.opts, &sent, screen),
            Reply::Answered(answer) if answer.given_up.is_some() => silent.push(answer),
            Reply::Answered(answer) => print_answer(&answer, &mut summary, screen),
        }
        if screen.is_closed() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    for answer in silent {
        print_answer(&answer, &mut summary, screen);
    }
    if let Some(hint) = summary.hinted() {
        screen.complain(&format!("Hint: {hint}\n"));
    }
    if !matched {
        screen.show(&Map::new().into(), Some(""), 0);
        return Ok(received(false, screen));
    }
    if flag(asker.opts, "cli_summary") && !screen.has_outputter() {
        summary.print(flag(asker.opts, "verbose"), screen);
    }
    if summary.has_failed() {
        screen.complain("ERROR: Minions returned with non-zero exit code\n");
        return Ok(1);
    }
    Ok(0)
}

fn print_answer(answer: &Answer, summary: &mut Summary, screen: &mut Screen<'_>) {
    let functions = crate::runners::REGISTRY.functions;
    if let Some(hint) = answer
        .value
        .as_str()
        .and_then(|text| near_function(functions, text))
    {
        summary.hint(hint);
    }
    let data = Map::new().with(&answer.id, answer.value.clone());
    let out = Some(answer.out.as_deref().unwrap_or_default());
    screen.show(&data.into(), out, answer.retcode);
    summary.add(answer);
}

/// Prints the lines that precede the first return. Returns false if no minion matches.
fn announced(opts: &Map, sent: &Sent, screen: &mut Screen<'_>) -> bool {
    if sent.minions.is_empty() {
        screen.say(NO_MATCH);
        return false;
    }
    if flag(opts, "verbose") {
        let line = format!("Executing job with jid {}", sent.jid);
        screen.say(&format!("{line}\n{}\n", "-".repeat(line.len())));
    } else if flag(opts, "show_jid") {
        screen.say(&format!("jid: {}", sent.jid));
    }
    true
}
