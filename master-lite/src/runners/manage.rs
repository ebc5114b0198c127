//! The `manage` runner: reports which minions are up or connected.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};
use wire::{Id, Publish};

use super::{matching, runs};
use crate::jobs::JobEvent;

/// The Salt version that this master behaves like. Minions' versions are compared to it.
const VERSION: &str = "3008.5";

state::exec_module! {
    /// Find the minions that answer, or that are connected.
    mod manage;

    /// Return the minions that answer and those that do not.
    ///
    ///     salt-run manage.status
    fn status(Status {
        /// Accepted for compatibility with Salt.
        output: bool = true,
        /// The target.
        tgt: Value = "*".into(),
        /// The type of the target.
        tgt_type: String = "glob".into(),
        /// The seconds to wait for a return.
        timeout: Option<f64> = None,
        /// Accepted for compatibility with Salt: the configuration sets it.
        gather_job_timeout: Value = Value::Null,
    });

    /// Return the minions that answer.
    ///
    ///     salt-run manage.up
    fn up(Up {
        /// The target.
        tgt: Value = "*".into(),
        /// The type of the target.
        tgt_type: String = "glob".into(),
        /// The seconds to wait for a return.
        timeout: Option<f64> = None,
        /// Accepted for compatibility with Salt: the configuration sets it.
        gather_job_timeout: Value = Value::Null,
    });

    /// Return the minions that do not answer.
    ///
    ///     salt-run manage.down
    fn down(Down {
        /// Delete their keys.
        removekeys: bool = false,
        /// The target.
        tgt: Value = "*".into(),
        /// The type of the target.
        tgt_type: String = "glob".into(),
        /// The seconds to wait for a return.
        timeout: Option<f64> = None,
        /// Accepted for compatibility with Salt: the configuration sets it.
        gather_job_timeout: Value = Value::Null,
    });

    /// Return the versions of the minions, grouped by comparison with the master's version, and the
    /// master's version.
    ///
    ///     salt-run manage.versions
    fn versions(Versions {});

    /// Return the minions that are connected.
    ///
    ///     salt-run manage.list_state
    fn list_state(ListState {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// Return the accepted minions that are not connected.
    ///
    ///     salt-run manage.list_not_state
    fn list_not_state(ListNotState {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    ///
    ///     salt-run manage.present
    fn present(Present {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_present
    fn not_present(NotPresent {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    ///
    ///     salt-run manage.joined
    fn joined(Joined {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_joined
    fn not_joined(NotJoined {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    ///
    ///     salt-run manage.allowed
    fn allowed(Allowed {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_allowed
    fn not_allowed(NotAllowed {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    ///
    ///     salt-run manage.alived
    fn alived(Alived {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_alived
    fn not_alived(NotAlived {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    ///
    ///     salt-run manage.reaped
    fn reaped(Reaped {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_reaped
    fn not_reaped(NotReaped {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Not supported: addresses are not stored.
        show_ip: bool = false,
    });
}

/// The result of a function call: the returns by minion id, and the minions that did not return.
/// Both are sorted.
struct Answers {
    up: Vec<(String, Value)>,
    down: Vec<String>,
}

fn publish(
    cx: &Exec,
    fun: &str,
    tgt: Value,
    tgt_type: String,
    timeout_s: Option<f64>,
) -> Result<Answers, Error> {
    let job = Publish {
        tgt,
        tgt_type,
        fun: fun.to_owned(),
        arg: Vec::new(),
        ret: String::new(),
        jid: None,
        // Without a wait, no minion could return: the minimum is one second, whatever the number.
        timeout_s: timeout_s.map(|seconds| seconds.max(1.0)),
        options: Map::new(),
    };
    let user = cx.opts().text("user").unwrap_or("root");
    let runs = runs(cx)?;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    smol::block_on(async {
        let mut published = runs.jobs.publish(job, user).await?;
        // No deadline: the wait for each minion ends (`timeout`, `gather_job_timeout`).
        while let Some(came) = published.next().await {
            match came {
                JobEvent::Return(mut data) => {
                    let id = data.get("id").map(Value::to_text).unwrap_or_default();
                    up.push((id, data.remove("return").unwrap_or_default()));
                }
                JobEvent::NoReturn(id, _) => down.push(id.to_string()),
            }
        }
        Ok(())
    })
    .map_err(Error::refused)?;
    value::sorted::sort_by_key(&mut up, |(id, _)| id.clone());
    value::sorted::sort(&mut down);
    Ok(Answers { up, down })
}

fn names(ids: impl IntoIterator<Item = String>) -> Value {
    Value::list(ids.into_iter().map(Value::from))
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let answers = publish(cx, "test.ping", args.tgt, args.tgt_type, args.timeout)?;
    Ok(Map::new()
        .with("up", names(answers.up.into_iter().map(|(id, _)| id)))
        .with("down", names(answers.down))
        .into())
}

fn up(cx: &Exec, args: Up) -> Result<Value, Error> {
    let answers = publish(cx, "test.ping", args.tgt, args.tgt_type, args.timeout)?;
    Ok(names(answers.up.into_iter().map(|(id, _)| id)))
}

fn down(cx: &Exec, args: Down) -> Result<Value, Error> {
    let answers = publish(cx, "test.ping", args.tgt, args.tgt_type, args.timeout)?;
    if args.removekeys {
        let runs = runs(cx)?;
        for id in &answers.down {
            let glob = Map::new()
                .with("match", id.as_str())
                .with("__kwarg__", true);
            let deleted = smol::block_on(runs.wheel.key("key.delete", vec![glob.into()]));
            deleted.map_err(Error::refused)?;
        }
    }
    Ok(names(answers.down))
}

fn versions(cx: &Exec, _args: Versions) -> Result<Value, Error> {
    let answers = publish(cx, "test.version", "*".into(), "glob".into(), None)?;
    let kinds = [
        "Minion requires update",
        "Up to date",
        "Minion newer than master",
        "Minion offline",
    ];
    let mut by_kind = kinds.map(|_| Map::new());
    let [older, same, newer, offline] = &mut by_kind;
    for (id, version) in answers.up {
        let group = match parts(&version.to_text()).cmp(&parts(VERSION)) {
            std::cmp::Ordering::Less => &mut *older,
            std::cmp::Ordering::Equal => &mut *same,
            std::cmp::Ordering::Greater => &mut *newer,
        };
        group.insert(id, version);
    }
    for id in answers.down {
        offline.insert(id, false);
    }
    let groups = kinds.into_iter().zip(by_kind);
    let shown: Map = groups.filter(|(_, group)| !group.is_empty()).collect();
    Ok(shown.with("Master", VERSION).into())
}

/// Returns the numbers of a version.
fn parts(version: &str) -> Vec<u64> {
    let numbers = version.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

fn is_listed(id: &Id, subset: Option<&Vec<Value>>) -> bool {
    subset.is_none_or(|subset| subset.iter().any(|name| name.as_str() == Some(id.as_str())))
}

/// Returns the accepted minions that are connected, or those that are not.
fn by_presence(
    cx: &Exec,
    there: bool,
    subset: Option<&Vec<Value>>,
    show_ip: bool,
) -> Result<Value, Error> {
    if show_ip {
        let problem = "the addresses of minions are not stored".to_owned();
        return Err(Error::argument("show_ip", problem));
    }
    let runs = runs(cx)?;
    let ids = matching(runs, &"*".into(), "glob")?;
    let found = ids
        .into_iter()
        .filter(|id| runs.jobs.minions.get(id).is_some() == there && is_listed(id, subset));
    Ok(names(found.map(|id| id.to_string())))
}

fn list_state(cx: &Exec, args: ListState) -> Result<Value, Error> {
    by_presence(cx, true, args.subset.as_ref(), args.show_ip)
}

fn list_not_state(cx: &Exec, args: ListNotState) -> Result<Value, Error> {
    by_presence(cx, false, args.subset.as_ref(), args.show_ip)
}

fn present(cx: &Exec, args: Present) -> Result<Value, Error> {
    by_presence(cx, true, args.subset.as_ref(), args.show_ip)
}

fn not_present(cx: &Exec, args: NotPresent) -> Result<Value, Error> {
    by_presence(cx, false, args.subset.as_ref(), args.show_ip)
}

fn joined(cx: &Exec, args: Joined) -> Result<Value, Error> {
    by_presence(cx, true, args.subset.as_ref(), args.show_ip)
}

fn not_joined(cx: &Exec, args: NotJoined) -> Result<Value, Error> {
    by_presence(cx, false, args.subset.as_ref(), args.show_ip)
}

fn allowed(cx: &Exec, args: Allowed) -> Result<Value, Error> {
    by_presence(cx, true, args.subset.as_ref(), args.show_ip)
}

fn not_allowed(cx: &Exec, args: NotAllowed) -> Result<Value, Error> {
    by_presence(cx, false, args.subset.as_ref(), args.show_ip)
}

fn alived(cx: &Exec, args: Alived) -> Result<Value, Error> {
    by_presence(cx, true, args.subset.as_ref(), args.show_ip)
}

fn not_alived(cx: &Exec, args: NotAlived) -> Result<Value, Error> {
    by_presence(cx, false, args.subset.as_ref(), args.show_ip)
}

fn reaped(cx: &Exec, args: Reaped) -> Result<Value, Error> {
    by_presence(cx, true, args.subset.as_ref(), args.show_ip)
}

fn not_reaped(cx: &Exec, args: NotReaped) -> Result<Value, Error> {
    by_presence(cx, false, args.subset.as_ref(), args.show_ip)
}
