//! The `manage` runner. Without a master the only minion is this one, and it is up.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Which minions are up.
    mod manage;

    /// The minions that answer and those that do not.
    fn status(Status {
        /// Accepted for Salt's sake.
        output: bool = true,
        /// Which minions.
        tgt: Value = "*".into(),
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// Accepted: this machine answers at once.
        timeout: Value = Value::Null,
        /// Accepted.
        gather_job_timeout: Value = Value::Null,
    });

    /// The minions that answer.
    fn up(Up {
        /// Which minions.
        tgt: Value = "*".into(),
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// Accepted: this machine answers at once.
        timeout: Value = Value::Null,
        /// Accepted.
        gather_job_timeout: Value = Value::Null,
    });

    /// The minions that do not answer: none.
    fn down(Down {
        /// Accepted: no key is removed.
        removekeys: bool = false,
        /// Which minions.
        tgt: Value = "*".into(),
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// Accepted: this machine answers at once.
        timeout: Value = Value::Null,
        /// Accepted.
        gather_job_timeout: Value = Value::Null,
    });

    /// The version of each minion that answers.
    fn versions(Versions {});

    /// The minions that are connected.
    fn list_state(ListState {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    fn present(Present {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    fn joined(Joined {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    fn allowed(Allowed {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    fn alived(Alived {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_state`.
    fn reaped(Reaped {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The minions that are known and not connected: none.
    fn list_not_state(ListNotState {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    fn not_present(NotPresent {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    fn not_joined(NotJoined {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    fn not_allowed(NotAllowed {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    fn not_alived(NotAlived {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });

    /// The same as `manage.list_not_state`.
    fn not_reaped(NotReaped {
        /// Only those in this list.
        subset: Option<Vec<Value>> = None,
        /// Accepted: no minion is connected over a network.
        show_ip: bool = false,
    });
}

fn matched(cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Value, Error> {
    let ids = cx.shared.targets.resolve(cx, tgt, tgt_type)?;
    Ok(ids.into())
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    Ok(Map::new()
        .with("up", matched(cx, &args.tgt, &args.tgt_type)?)
        .with("down", Value::list([]))
        .into())
}

fn up(cx: &Exec, args: Up) -> Result<Value, Error> {
    matched(cx, &args.tgt, &args.tgt_type)
}

fn down(_cx: &Exec, _args: Down) -> Result<Value, Error> {
    Ok(Value::list([]))
}

fn versions(cx: &Exec, _args: Versions) -> Result<Value, Error> {
    let version = cx.call_internal("test.version", Vec::new(), Map::new())?;
    Ok(Map::new()
        .with("Master", version.clone())
        .with("Up to date", Map::new().with(cx.opts().id(), version))
        .into())
}

/// This minion, where the list names it; with the address of this machine to itself when asked.
fn connected(cx: &Exec, subset: Option<&[Value]>, show_ip: bool) -> Result<Value, Error> {
    let id = cx.opts().id();
    if subset.is_some_and(|subset| !subset.contains(&id.into())) {
        return Ok(if show_ip {
            Map::new().into()
        } else {
            Value::list([])
        });
    }
    Ok(if show_ip {
        Map::new().with(id, "127.0.0.1").into()
    } else {
        Value::list([id.into()])
    })
}

fn list_state(cx: &Exec, args: ListState) -> Result<Value, Error> {
    connected(cx, args.subset.as_deref(), args.show_ip)
}

fn present(cx: &Exec, args: Present) -> Result<Value, Error> {
    connected(cx, args.subset.as_deref(), args.show_ip)
}

fn joined(cx: &Exec, args: Joined) -> Result<Value, Error> {
    connected(cx, args.subset.as_deref(), args.show_ip)
}

fn allowed(cx: &Exec, args: Allowed) -> Result<Value, Error> {
    connected(cx, args.subset.as_deref(), args.show_ip)
}

fn alived(cx: &Exec, args: Alived) -> Result<Value, Error> {
    connected(cx, args.subset.as_deref(), args.show_ip)
}

fn reaped(cx: &Exec, args: Reaped) -> Result<Value, Error> {
    connected(cx, args.subset.as_deref(), args.show_ip)
}

fn list_not_state(_cx: &Exec, _args: ListNotState) -> Result<Value, Error> {
    Ok(Value::list([]))
}

fn not_present(_cx: &Exec, _args: NotPresent) -> Result<Value, Error> {
    Ok(Value::list([]))
}

fn not_joined(_cx: &Exec, _args: NotJoined) -> Result<Value, Error> {
    Ok(Value::list([]))
}

fn not_allowed(_cx: &Exec, _args: NotAllowed) -> Result<Value, Error> {
    Ok(Value::list([]))
}

fn not_alived(_cx: &Exec, _args: NotAlived) -> Result<Value, Error> {
    Ok(Value::list([]))
}

fn not_reaped(_cx: &Exec, _args: NotReaped) -> Result<Value, Error> {
    Ok(Value::list([]))
}
