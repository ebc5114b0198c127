//! The calls of `salt-ssh`: one job or shell command for several hosts, and their outcomes as they
//! come.

use std::sync::Arc;
use std::time::Duration;

use cli::binary;
use cli::failure::{Exit, Failure};
use cli::options::{SaltSsh, SaltSshOptions, Target, parse_input};
use cli::output::Screen;
use modules::loader::call::joined;
use render::yaml::SaltYaml;
use smol::channel::{Receiver, unbounded};
use smol::lock::Semaphore;
use state::exec::Exec;
use value::{Map, Value, channel, jid, json, log, random};
use wire::Job;

use crate::authorize;
use crate::fault::Fault;
use crate::login::Login;
use crate::output::reason;
use crate::place::Placing;
use crate::roster::Host;
use crate::session::{Caller, Nobody, Work};
use crate::settings;

/// Salt's exit code when a host has failed.
const FAILED: u8 = 20;
/// The maximum time of a shell command.
const RAW_MAX: Duration = Duration::from_secs(24 * 3600);

/// The message of the ssh program about a host whose key it does not know.
const UNKNOWN_KEY: &str = "Host key verification failed.";
/// Salt's sentence about it.
const ACCEPT_KEY: &str =
    "\nThe host key needs to be accepted, to auto accept run salt-ssh with the -i flag";

/// A job for several hosts.
pub(crate) struct Asked {
    pub(crate) job: Job,
    /// The words of a command of the program on the hosts, if it is not a function.
    command: Vec<String>,
    /// The shell command, if it is one.
    raw: Option<String>,
}

/// The outcome of one host: the data to print, the outputter, and the exit code.
struct Outcome {
    id: String,
    data: Value,
    out: Option<String>,
    code: u8,
}

impl Outcome {
    fn failed(host: &Host, fault: Fault) -> Self {
        let mut text = fault.text;
        // The message about a key that has changed is longer.
        if text == UNKNOWN_KEY {
            text += ACCEPT_KEY;
        }
        Self {
            id: host.id.to_string(),
            data: text.into(),
            out: None,
            code: fault.code,
        }
    }
}

impl Asked {
    /// Reads the request of a command line.
    pub(crate) fn new(line: &SaltSsh, target: &Target) -> Self {
        let (mut command, mut raw) = (Vec::new(), None);
        let (fun, arg) = match &line.request {
            SaltSshOptions::Call { fun, words, .. } => {
                let input = parse_input(words, &line.no_parse, &SaltYaml);
                (fun.clone(), joined(input.args, input.kwargs))
            }
            SaltSshOptions::Raw { line, .. } => {
                raw = Some(line.clone());
                (String::new(), Vec::new())
            }
            SaltSshOptions::Command { words, .. } => {
                command.clone_from(words);
                (String::new(), Vec::new())
            }
            SaltSshOptions::About(_) | SaltSshOptions::Hosts => (String::new(), Vec::new()),
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
            command,
            raw,
        }
    }

    fn work(&self) -> Work {
        Work {
            job: self.job.clone(),
            command: self.command.clone(),
        }
    }
}

async fn outcome(caller: &Caller, host: &Host, work: Work) -> Outcome {
    match caller.run(host, work, Vec::new(), Arc::new(Nobody)).await {
        Ok(mut data) => {
            let code = data.get("retcode").and_then(Value::as_int);
            let returned = data.remove("return").unwrap_or_default();
            // Salt's `salt-ssh` shows the errors of a compiler, which are a list, as any other list.
            let out = data.get("out").filter(|_| returned.as_list().is_none());
            Outcome {
                id: host.id.to_string(),
                out: out.map(Value::to_text),
                data: returned,
                code: if code == Some(0) { 0 } else { FAILED },
            }
        }
        Err(fault) => Outcome::failed(host, fault),
    }
}

/// Runs a shell command, and returns Salt's dictionary of its result.
async fn raw_outcome(caller: &Caller, host: &Host, line: &str) -> Outcome {
    let failed = |text: String| Outcome::failed(host, Fault::connection(text));
    let done = match caller.raw(host, line, RAW_MAX).await {
        Ok(done) => done,
        Err(error) => return Outcome::failed(host, Fault::program(&error)),
    };
    if caller.settings().is_lost(done.code, &done.err) {
        return failed(reason(&done));
    }
    let code = done.code.map_or(-1, i64::from);
    let parsed = parsed(&done.out);
    let mut data = Map::new()
        .with("stdout", done.out)
        .with("stderr", done.err.lines().collect::<Vec<_>>().join("\n"))
        .with("retcode", code)
        .with("parsed", parsed);
    if code != 0 {
        data.insert("_error", "The command resulted in a non-zero exit code");
    }
    Outcome {
        id: host.id.to_string(),
        data: data.into(),
        out: None,
        code: if code == 0 { 0 } else { FAILED },
    }
}

/// Returns the output of a shell command as data, if all of it is a dictionary or a list in JSON.
fn parsed(out: &str) -> Value {
    let out = out.trim();
    match out.starts_with(['{', '[']).then(|| json::read(out)) {
        Some(Ok(data)) => data,
        _ => Value::Null,
    }
}

/// A request, and the context in which it is carried out.
pub(crate) struct Calls<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) asked: &'a Asked,
    pub(crate) login: &'a Login,
}

impl Calls<'_> {
    /// Carries out the request on hosts, prints the outcomes, and returns the exit code.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn run(&self, hosts: Vec<Host>, screen: &mut Screen<'_>) -> Result<u8, Failure> {
        let known = hosts.clone();
        let outcomes = self.started(hosts)?;
        let (mut code, mut all, mut last) = (0, Map::new(), None);
        let is_static = self.cx.opts().flag("static");
        // No deadline: each host has limits.
        while let Ok(mut outcome) = smol::block_on(outcomes.recv()) {
            let host = known.iter().find(|host| host.id.as_str() == outcome.id);
            if let Some(host) = host.filter(|_| outcome.is_denied()) {
                outcome = self.denied(host, outcome)?;
            }
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
        Ok(code)
    }

    /// Starts the request on the hosts, a limited number at a time. Returns the outcomes as they
    /// come.
    fn started(&self, hosts: Vec<Host>) -> Result<Receiver<Outcome>, Failure> {
        let caller = self.caller()?;
        let turns = Arc::new(Semaphore::new(settings::at_once(self.cx)));
        let (send, outcomes) = unbounded();
        let wipes = self.wipes();
        let key = self.login.deploys.clone();
        for host in hosts {
            let (caller, work, raw) = (caller.clone(), self.asked.work(), self.asked.raw.clone());
            let (turns, send, key) = (turns.clone(), send.clone(), key.clone());
            let run = async move {
                // No deadline: each host before it has limits.
                let _turn = turns.acquire().await;
                let deployed = match &key {
                    Some(key) => authorize::deploy(caller.settings(), &host, key).await,
                    None => Ok(()),
                };
                let outcome = match (deployed, raw) {
                    (Err(fault), _) => Outcome::failed(&host, fault),
                    (Ok(()), Some(line)) => raw_outcome(&caller, &host, &line).await,
                    (Ok(()), None) => outcome(&caller, &host, work).await,
                };
                if wipes && let Err(fault) = caller.wipe(&host).await {
                    log::error(format_args!("{}: {}", host.id, fault.text));
                }
                channel::if_open(send.send(outcome).await);
            };
            smol::spawn(run).detach();
        }
        Ok(outcomes)
    }

    fn wipes(&self) -> bool {
        let opts = self.cx.opts();
        opts.flag("ssh_wipe") || opts.flag("rand_thin_dir")
    }

    fn caller(&self) -> Result<Caller, Failure> {
        let own = binary::own_program().map_err(|error| Failure::new(Exit::Software, error))?;
        let opts = self.cx.opts();
        let failed = |error: String| Failure::new(Exit::Generic, error);
        let placing = Placing {
            suffix: match opts.flag("rand_thin_dir") {
                true => {
                    let number = random::array().map_err(|error| failed(error.to_string()))?;
                    format!("-{:016x}", u64::from_ne_bytes(number))
                }
                false => String::new(),
            },
            refreshes: opts.flag("regen_thin"),
            always_pre_flight: opts.flag("ssh_run_pre_flight"),
        };
        Caller::new(opts.clone(), settings::of(self.cx), placing, own).map_err(failed)
    }

    /// Offers to deploy the key to a host that has refused it, and repeats the request then. Without
    /// a terminal the outcome says how to do it.
    fn denied(&self, host: &Host, outcome: Outcome) -> Result<Outcome, Failure> {
        let Some(host) = self.login.offered(host) else {
            let hint =
                "to deploy the key of salt-ssh, call salt-ssh with --key-deploy and --askpass";
            let text = format!("{}\n{hint}", outcome.data.to_text());
            return Ok(Outcome {
                data: text.into(),
                ..outcome
            });
        };
        let login = Login {
            deploys: Some(settings::own_key(self.cx.opts())),
        };
        login
            .make_key()
            .map_err(|error| Failure::new(Exit::Generic, error))?;
        let again = Calls {
            login: &login,
            ..*self
        };
        let outcomes = again.started(vec![host])?;
        // No deadline: the host has limits.
        Ok(smol::block_on(outcomes.recv()).unwrap_or(outcome))
    }
}

impl Outcome {
    /// Returns whether the host has refused the login.
    fn is_denied(&self) -> bool {
        let text = self.data.as_str().unwrap_or_default();
        self.code == FAILED && text.contains("Permission denied (")
    }
}
