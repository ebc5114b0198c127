//! The part of the `state` execution module that pauses or ends a run in progress.

use ::state::exec::Exec;
use ::state::lock;
use ::state::module::Error;
use ::state::run::pause;
use value::{Map, Value};

use super::data;

::state::exec_module! {
    /// Apply states to this machine, and show their data.
    mod state;

    /// Pause a run before one of its states, or before its next state.
    ///
    ///     salt-call state.pause 20260102030405678901 'start nginx'
    fn pause(Pause {
        /// The job ID of the run, as `state.running` reports it.
        jid: Value,
        /// The ID of the state to pause before.
        state_id: Option<String> = None,
        /// The length of the pause in seconds; until `state.resume` if not given.
        duration: Value = Value::Null,
    });

    /// Resume a run that is paused.
    ///
    ///     salt-call state.resume 20260102030405678901
    fn resume(Resume {
        /// The job ID of the run, as `state.running` reports it.
        jid: Value,
        /// The ID of the state that the run is paused before.
        state_id: Option<String> = None,
    });

    /// End a run before one of its states, or before its next state.
    ///
    ///     salt-call state.soft_kill 20260102030405678901
    fn soft_kill(SoftKill {
        /// The job ID of the run, as `state.running` reports it.
        jid: Value,
        /// The ID of the state to end before.
        state_id: Option<String> = None,
    });

    /// Return the pending requests to pause or end runs, for each job ID.
    ///
    ///     salt-call state.get_pauses
    fn get_pauses(GetPauses {
        /// The job ID of a run, or a list of job IDs; all runs if not given.
        jid: Value = Value::Null,
    });
}

fn pause(cx: &Exec, args: Pause) -> Result<Value, Error> {
    let seconds = match &args.duration {
        given if given.is_true() => Some(
            given
                .to_text()
                .trim()
                .parse::<i64>()
                .map_err(|_| Error::refused(format!("duration is not a number: {given:?}")))?,
        ),
        _ => None,
    };
    let longest = seconds.map(|seconds| ("duration", seconds.into()));
    ask(cx, &args.jid, args.state_id.as_deref(), longest)
}

fn soft_kill(cx: &Exec, args: SoftKill) -> Result<Value, Error> {
    let kill = Some(("kill", true.into()));
    ask(cx, &args.jid, args.state_id.as_deref(), kill)
}

fn resume(cx: &Exec, args: Resume) -> Result<Value, Error> {
    let jid = checked(&args.jid)?;
    let mut asked = pause::read_requests(cx.opts(), &jid).unwrap_or_default();
    match &args.state_id {
        Some(id) => drop(asked.remove(id.as_str())),
        None => asked = Map::new(),
    }
    keep(cx, &jid, asked)
}

/// Stores a request to a run that applies before the state with an ID.
fn ask(
    cx: &Exec,
    jid: &Value,
    id: Option<&str>,
    what: Option<(&str, Value)>,
) -> Result<Value, Error> {
    let jid = checked(jid)?;
    let id = id.unwrap_or(pause::ALL);
    let mut asked = pause::read_requests(cx.opts(), &jid).unwrap_or_default();
    let mut one = asked
        .get(id)
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    one.extend(what);
    asked.insert(id, one);
    keep(cx, &jid, asked)
}

/// Returns a job ID as text, or an error if it cannot be the name of a file.
fn checked(jid: &Value) -> Result<String, Error> {
    let jid = jid.to_text();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if jid.is_empty() || !jid.chars().all(is_word) {
        return Err(Error::refused(format!("invalid job id '{jid}'")));
    }
    Ok(jid)
}

fn keep(cx: &Exec, jid: &str, asked: Map) -> Result<Value, Error> {
    let path = pause::path(cx.opts(), jid);
    if let Some(folder) = path.parent() {
        value::trust::folder(folder).map_err(Error::io(folder))?;
    }
    data::write(cx, &path, asked)?;
    pause::notice(cx);
    Ok(Value::Null)
}

fn get_pauses(cx: &Exec, args: GetPauses) -> Result<Value, Error> {
    let Some(holder) = lock::holder(cx.opts())? else {
        return Ok(Map::new().into());
    };
    let one = [args.jid.clone()];
    let wanted = args.jid.as_list().unwrap_or(&one);
    let is_wanted = args.jid.is_null() || wanted.iter().any(|jid| jid.to_text() == holder.jid);
    let asked = pause::read_requests(cx.opts(), &holder.jid).filter(|_| is_wanted);
    Ok(asked.map(|asked| (holder.jid, asked)).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const JID: &str = "20170101000000000001";

    /// Returns the IDs of the states that ran.
    fn ids_of_a_run(cx: &Exec) -> Vec<String> {
        let nop = || Value::from(Map::new().with("test", Value::list(["nop".into()])));
        let high = Map::new()
            .with("a", nop())
            .with("b", nop())
            .with("c", nop());
        let kwargs = Map::new().with("__pub_jid", JID);
        let ret = cx.call("state.high", vec![high.into()], kwargs).unwrap();
        let returns = ret.as_map().unwrap().iter();
        returns
            .map(|(_, ret)| ret.get("__id__").unwrap().to_text())
            .collect()
    }

    #[test]
    fn a_run_ends_where_it_is_asked_to_and_is_not_asked_twice() {
        let folder = tempfile::tempdir().unwrap();
        let opts = Map::new()
            .with("id", "m1")
            .with("cachedir", folder.path().to_string_lossy().as_ref());
        let cx = testing::exec_with(opts, Map::new());
        let call = |fun: &str, args: &[&str]| {
            let args = args.iter().map(|arg| Value::from(*arg)).collect();
            cx.call(fun, args, Map::new())
        };
        assert!(call("state.soft_kill", &["../x"]).is_err());
        call("state.soft_kill", &[JID, "b"]).unwrap();
        assert_eq!(ids_of_a_run(&cx), ["a"]);
        let cx = &cx;
        let all = |cx: &Exec| {
            std::fs::remove_dir_all(folder.path().join("runs")).unwrap();
            ids_of_a_run(cx)
        };
        assert_eq!(all(cx), ["a", "b", "c"]);
        call("state.soft_kill", &[JID]).unwrap();
        call("state.resume", &[JID]).unwrap();
        assert_eq!(all(cx), ["a", "b", "c"]);
        call("state.pause", &[JID, "c", "1"]).unwrap();
        let started = std::time::Instant::now();
        assert_eq!(all(cx), ["a", "b", "c"]);
        assert!(started.elapsed().as_secs_f64() >= 1.0);
    }
}
