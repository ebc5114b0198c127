//! Resumes orchestrations of other masters of the cluster that have ended.

use std::convert::Infallible;
use std::time::Duration;

use link::wait::pause;
use state::opts::Opts;
use state::record::{self, Recorded};
use value::{Map, Value, log, secret};
use wire::Runner;

use super::Runners;
use crate::cluster::Cluster;

/// The interval between two looks for orchestrations that this master has taken over.
const LOOK: Duration = Duration::from_millis(500);

/// Resumes the orchestrations that this master takes over, for as long as it runs.
pub(crate) async fn follow(runners: Runners, cluster: Cluster) -> Infallible {
    loop {
        pause(LOOK).await;
        let reader = cluster.clone();
        match smol::unblock(move || reader.claimed()).await {
            Ok(claimed) => {
                for jid in claimed {
                    let (runners, cluster) = (runners.clone(), cluster.clone());
                    smol::spawn(async move { take_over(&runners, &cluster, &jid).await }).detach();
                }
            }
            Err(error) => log::error(format_args!(
                "cannot read the orchestrations of other masters: {error}"
            )),
        }
    }
}

async fn take_over(runners: &Runners, cluster: &Cluster, jid: &str) {
    match adopted(runners, jid).await {
        Ok(asked) => {
            log::warning(format_args!(
                "Resuming the orchestration {jid} of another master"
            ));
            let ret = runners.run(asked, None).await;
            if !ret.get("success").is_some_and(Value::is_true) {
                let text = ret.get("return").map(Value::to_text).unwrap_or_default();
                log::error(format_args!(
                    "The orchestration {jid} of another master did not succeed: {text}"
                ));
            }
        }
        Err(why) => log::error(format_args!(
            "The orchestration {jid} of another master is held here: {why}"
        )),
    }
    cluster.end_run(jid).await;
}

/// Writes the record of an orchestration, and returns the call that resumes it.
async fn adopted(runners: &Runners, jid: &str) -> Result<Runner, String> {
    let (store, opts, of) = (
        runners.runs.store.clone(),
        runners.runs.opts.clone(),
        jid.to_owned(),
    );
    let recorded = smol::unblock(move || {
        let lines = store.run_lines(&of).map_err(|error| error.to_string())?;
        adopt(&opts, &of, &lines)
    });
    let recorded = recorded.await?;
    let opts = &runners.runs.opts;
    if opts.text("cluster_orchestrate") == Some("hold") {
        return Err(format!(
            "cluster_orchestrate is hold; resume it with {}",
            command(jid, &recorded)
        ));
    }
    call(jid, &recorded)
}

/// Writes a record in place of any earlier one.
fn adopt(opts: &Opts, jid: &str, lines: &str) -> Result<Recorded, String> {
    let folder = record::folder(opts);
    let recorded = record::parse(lines.as_bytes(), &folder.join(jid));
    let recorded = recorded.map_err(|error| error.to_string())?;
    let written = machine::durable::write(&folder, jid, lines.as_bytes());
    written.map_err(|error| format!("cannot write {}: {error}", folder.join(jid).display()))?;
    Ok(recorded)
}

fn fun(recorded: &Recorded) -> String {
    let fun = recorded.start.get("fun");
    fun.map(Value::to_text).unwrap_or_default()
}

fn arg<'a>(recorded: &'a Recorded, name: &str) -> Option<&'a Value> {
    recorded.start.get("args")?.get(name)
}

/// Returns the command by which an administrator resumes the run.
fn command(jid: &str, recorded: &Recorded) -> String {
    let mods = arg(recorded, "mods").map(Value::split_input);
    let mods = mods.unwrap_or_default().join(",");
    format!("`salt-run {} {mods} resume={jid}`", fun(recorded))
}

/// Returns the call that resumes a run.
fn call(jid: &str, recorded: &Recorded) -> Result<Runner, String> {
    let hidden = ["pillar", "exclude"]
        .into_iter()
        .find(|name| arg(recorded, name).is_some_and(secret::is_masked));
    if let Some(name) = hidden {
        return Err(format!(
            "{name}= contained secrets, which are not recorded: resume it with {} and {name}= again",
            command(jid, recorded)
        ));
    }
    if arg(recorded, "mods").is_none() {
        return Err(format!("a run of {} cannot be resumed", fun(recorded)));
    }
    let mut named = Map::new().with("__kwarg__", true).with("resume", jid);
    for name in ["mods", "saltenv", "pillarenv"] {
        if let Some(value) = arg(recorded, name) {
            named.insert(name, value.clone());
        }
    }
    Ok(Runner {
        fun: fun(recorded),
        arg: vec![named.into()],
        jid: Some(jid.to_owned()),
        asynchronous: false,
        watched: false,
    })
}
