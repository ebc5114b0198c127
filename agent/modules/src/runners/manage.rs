//! The `manage` runner. Without a master the only minion is this one, and it is up.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Show the state of minions.
    mod manage;

    /// Return the minions that answer and those that do not.
    ///
    ///     salt-run manage.status
    fn status(Status {
        /// Accepted for compatibility with Salt.
        output: bool = true,
        /// The target: the minions to check.
        tgt: Value = "*".into(),
        /// The type of `tgt`, such as `glob`, `list` or `compound`.
        tgt_type: String = "glob".into(),
        /// The seconds to wait. Accepted for compatibility with Salt: this machine answers at once.
        timeout: Value = Value::Null,
        /// Accepted for compatibility with Salt.
        gather_job_timeout: Value = Value::Null,
    });

    /// Return the minions that answer.
    ///
    ///     salt-run manage.up
    fn up(Up {
        /// The target: the minions to check.
        tgt: Value = "*".into(),
        /// The type of `tgt`, such as `glob`, `list` or `compound`.
        tgt_type: String = "glob".into(),
        /// The seconds to wait. Accepted for compatibility with Salt: this machine answers at once.
        timeout: Value = Value::Null,
        /// Accepted for compatibility with Salt.
        gather_job_timeout: Value = Value::Null,
    });

    /// Return the minions that do not answer: none.
    ///
    ///     salt-run manage.down
    fn down(Down {
        /// Remove the keys of these minions. Accepted for compatibility with Salt: no key is
        /// removed.
        removekeys: bool = false,
        /// The target: the minions to check.
        tgt: Value = "*".into(),
        /// The type of `tgt`, such as `glob`, `list` or `compound`.
        tgt_type: String = "glob".into(),
        /// The seconds to wait. Accepted for compatibility with Salt: this machine answers at once.
        timeout: Value = Value::Null,
        /// Accepted for compatibility with Salt.
        gather_job_timeout: Value = Value::Null,
    });

    /// Return the version of each minion that answers.
    ///
    ///     salt-run manage.versions
    fn versions(Versions {});

    /// Return the connected minions.
    ///
    ///     salt-run manage.list_state
    fn list_state(ListState {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_state`.
    ///
    ///     salt-run manage.present
    fn present(Present {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_state`.
    ///
    ///     salt-run manage.joined
    fn joined(Joined {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_state`.
    ///
    ///     salt-run manage.allowed
    fn allowed(Allowed {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_state`.
    ///
    ///     salt-run manage.alived
    fn alived(Alived {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_state`.
    ///
    ///     salt-run manage.reaped
    fn reaped(Reaped {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the minions that are known and not connected: none.
    ///
    ///     salt-run manage.list_not_state
    fn list_not_state(ListNotState {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_present
    fn not_present(NotPresent {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_joined
    fn not_joined(NotJoined {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_allowed
    fn not_allowed(NotAllowed {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_alived
    fn not_alived(NotAlived {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
        show_ip: bool = false,
    });

    /// Return the same as `manage.list_not_state`.
    ///
    ///     salt-run manage.not_reaped
    fn not_reaped(NotReaped {
        /// A list of minions. Only these are returned; by default all.
        subset: Option<Vec<Value>> = None,
        /// Return the address of each minion too. It is always the loopback address.
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

/// Returns this minion if the list contains it, with `show_ip` together with the loopback address.
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
