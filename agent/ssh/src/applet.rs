//! `salt-ssh`: runs a function or a shell command on hosts of the roster, and prints the returns as
//! they arrive.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cli::binary::{self, PINCH};
use cli::config;
use cli::failure::{Exit, Failure};
use cli::log::Logger;
use cli::options::{
    SALT_SSH, SaltSsh, SaltSshOptions, Target, parse_input, read_saltfile, saltfile_path,
};
use cli::output::{Screen, heed_no_color};
use modules::fileserver::roots::Roots;
use modules::loader::call::joined;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate::ThisMachine;
use render::yaml::SaltYaml;
use smol::channel::{Receiver, unbounded};
use smol::lock::Semaphore;
use state::exec::Exec;
use state::opts::Opts;
use value::{Map, Value, channel, jid, log};
use wire::Job;

use crate::program::CONNECTION_FAILED;
use crate::roster::{Host, Roster};
use crate::session::{Caller, Nobody};
use crate::settings;

/// Salt's exit code when a host has failed.
const FAILED: u8 = 20;
/// The maximum time of a shell command without `timeout`.
const RAW_MAX: Duration = Duration::from_secs(24 * 3600);
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs `salt-ssh` with the arguments `words`.
///
/// # Errors
/// When the command line, the configuration or the roster is wrong, or no host matches.
pub fn run(words: Vec<String>) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT_SSH, error);
    let mut line = SaltSsh::parse(words, env).map_err(usage)?;
    if let SaltSshOptions::About(about) = line.request {
        return Ok(PINCH.tell(&SALT_SSH, about));
    }
    if let Some(path) = saltfile_path(&line.settings.overrides, env) {
        let saltfile = read_saltfile(&path, &SaltYaml);
        line.settings.merge_saltfile(&saltfile.map_err(usage)?);
    }
    let cx = context(&line)?;
    let mut how = cx.opts().map.clone();
    heed_no_color(&mut how, env);
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let file = line.settings.output_file.as_ref();
    let mut screen = Screen::new(&mut out, &mut err, &how, file, &SaltYaml)
        .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    let failed = |error: String| Failure::new(Exit::Generic, error);
    let roster = Roster::load(&cx).map_err(failed)?;
    let target = match &line.request {
        SaltSshOptions::About(_) | SaltSshOptions::Hosts => {
            let hosts = roster.by_source().map_err(failed)?;
            screen.show(&hosts.into(), Some("nested"), 0);
            return Ok(Exit::Ok.into());
        }
        SaltSshOptions::Call { target, .. } | SaltSshOptions::Raw { target, .. } => target,
    };
    let matched = roster.matched(&cx, &target.tgt, target.tgt_type, None);
    let mut hosts = matched.map_err(failed)?;
    if hosts.is_empty() && matches!(target.tgt_type, "glob" | "list") {
        hosts = Roster::by_hand(&cx, &target.tgt).map_err(failed)?;
    }
    if hosts.is_empty() {
        return Err(failed("No matching targets found in roster.".to_owned()));
    }
    let asked = Asked::new(&line, target);
    if cx.opts().flag("verbose") {
        let line = format!("Executing job with jid {}", asked.job.jid);
        screen.say(&format!("{line}\n{}\n", "-".repeat(line.len())));
    }
    let caller = caller(&cx)?;
    Ok(ExitCode::from(shown(
        &cx,
        &asked.started(&cx, &caller, hosts),
        &mut screen,
    )))
}

/// Returns the context with the configuration of the master, whose trees the hosts get.
fn context(line: &SaltSsh) -> Result<Exec, Failure> {
    let settings = &line.settings;
    let overrides = settings.overrides.clone();
    let loaded = config::load_master(&settings.config_dir, settings.program, overrides, &SaltYaml)
        .map_err(|error| Failure::new(Exit::Generic, error))?;
    config::obeyed(&loaded, &settings.config_dir)?;
    let _first = Logger::from_opts(&loaded.opts).install();
    loaded.warnings.iter().for_each(log::warning);
    let opts = Opts::new(loaded.opts);
    Ok(Exec::with_custom(
        opts.clone(),
        &modules::REGISTRY,
        Box::new(Roots::states(&opts)),
        Box::new(ThisMachine),
        Box::new(CustomModules::new(&opts)),
    ))
}

/// Returns the machine that runs jobs on hosts: this one.
fn caller(cx: &Exec) -> Result<Caller, Failure> {
    let own = binary::own_program().map_err(|error| Failure::new(Exit::Software, error))?;
    let caller = Caller::new(cx.opts().clone(), settings::of(cx), own);
    caller.map_err(|error| Failure::new(Exit::Generic, error))
}

/// A job for several hosts.
struct Asked {
    job: Job,
    /// The command, if it is not a function.
    raw: Option<String>,
}

/// The outcome of one host: the data to print, the outputter, and the exit code.
struct Outcome {
    id: String,
    data: Value,
    out: Option<String>,
    code: u8,
}

impl Asked {
    fn new(line: &SaltSsh, target: &Target) -> Self {
        let (fun, arg, raw) = match &line.request {
            SaltSshOptions::Call { fun, words, .. } => {
                let input = parse_input(words, &line.no_parse, &SaltYaml);
                (fun.clone(), joined(input.args, input.kwargs), None)
            }
            SaltSshOptions::Raw { line, .. } => (String::new(), Vec::new(), Some(line.clone())),
            SaltSshOptions::About(_) | SaltSshOptions::Hosts => (String::new(), Vec::new(), None),
        };
        let jid = match &line.jid {
            Some(jid) => jid.clone(),
            None => jid::new(),
        };
        Self {
            job: Job {
                jid,
                fun: fun.into(),
                arg,
                tgt: target.tgt.clone(),
                tgt_type: target.tgt_type.to_owned(),
                ret: String::new(),
                user: "root".to_owned(),
                options: Map::new(),
            },
            raw,
        }
    }

    /// Starts the job on the hosts, a limited number at a time. Returns the outcomes as they come.
    fn started(&self, cx: &Exec, caller: &Caller, hosts: Vec<Host>) -> Receiver<Outcome> {
        let turns = Arc::new(Semaphore::new(settings::at_once(cx)));
        let (send, outcomes) = unbounded();
        for host in hosts {
            let (caller, job, raw) = (caller.clone(), self.job.clone(), self.raw.clone());
            let (turns, send) = (turns.clone(), send.clone());
            let run = async move {
                // No deadline: each host before it has limits.
                let _turn = turns.acquire().await;
                let outcome = match raw {
                    Some(line) => raw_outcome(&caller, &host, &line).await,
                    None => outcome(&caller, &host, job).await,
                };
                channel::if_open(send.send(outcome).await);
            };
            smol::spawn(run).detach();
        }
        outcomes
    }
}

async fn outcome(caller: &Caller, host: &Host, job: Job) -> Outcome {
    let id = host.id.to_string();
    match caller.run(host, job, Vec::new(), Arc::new(Nobody)).await {
        Ok(mut data) => {
            let code = data
                .get("retcode")
                .and_then(Value::as_int)
                .unwrap_or_default();
            Outcome {
                id,
                out: data.get("out").map(Value::to_text),
                data: data.remove("return").unwrap_or_default(),
                code: if code == 0 { 0 } else { FAILED },
            }
        }
        Err(fault) => Outcome {
            id,
            data: fault.text.into(),
            out: None,
            code: fault.code,
        },
    }
}

/// Runs a shell command, and returns Salt's dictionary of its result.
async fn raw_outcome(caller: &Caller, host: &Host, line: &str) -> Outcome {
    let id = host.id.to_string();
    let failed = |text: String| Outcome {
        id: id.clone(),
        data: text.into(),
        out: None,
        code: FAILED,
    };
    let done = match caller.raw(host, line, RAW_MAX).await {
        Ok(done) => done,
        Err(error) => return failed(format!("cannot run ssh: {error}")),
    };
    if done.code == Some(CONNECTION_FAILED) {
        return failed(crate::place::reason(&done));
    }
    let code = done.code.map_or(-1, i64::from);
    let mut data = Map::new();
    if code != 0 {
        data.insert("_error", "The command resulted in a non-zero exit code");
        data.insert("parsed", Value::Null);
    }
    data.insert("retcode", code);
    data.insert("stderr", done.err);
    data.insert("stdout", done.out);
    Outcome {
        id,
        data: data.into(),
        out: None,
        code: if code == 0 { 0 } else { FAILED },
    }
}

/// Prints the outcomes, and returns the exit code.
fn shown(cx: &Exec, outcomes: &Receiver<Outcome>, screen: &mut Screen<'_>) -> u8 {
    let (mut code, mut all, mut last) = (0, Map::new(), None);
    let is_static = cx.opts().flag("static");
    // No deadline: each host has limits.
    while let Ok(outcome) = smol::block_on(outcomes.recv()) {
        code = code.max(outcome.code);
        if is_static {
            all.insert(outcome.id.as_str(), outcome.data);
            last = outcome.out;
            continue;
        }
        let data = Map::new().with(&outcome.id, outcome.data);
        let out = outcome.out.unwrap_or_default();
        screen.show(&data.into(), Some(&out), outcome.code.into());
        if screen.is_closed() {
            break;
        }
    }
    if is_static {
        screen.show(&all.into(), Some(&last.unwrap_or_default()), code.into());
    }
    code
}

/// Runs the job of a connection on a host: `pinch ssh-job DIR`. `job` is the word that starts a
/// job's process.
///
/// # Errors
/// When no `salt-ssh` of another machine started this process.
pub fn job(words: &[String], job: &str) -> Result<ExitCode, Failure> {
    let [folder] = words else {
        return Err(Failure::new(
            Exit::Usage,
            "`ssh-job` is internal: only salt-ssh starts it",
        ));
    };
    let own = binary::own_program().map_err(|error| Failure::new(Exit::Software, error))?;
    let code = crate::on_host::run(Path::new(folder), vec![own.into(), job.into()]);
    let code = code.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
