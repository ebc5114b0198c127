//! The `quota` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Manage disk quotas of users and groups.
    #[needs("setquota", "quota module could not be loaded", "quota")]
    mod quota;

    /// Make sure that the quotas of a file system are enabled or disabled.
    ///
    ///     /home:
    ///       quota.mode:
    ///         - mode: 'on'
    ///         - quotatype: user
    fn mode(Mode {
        /// The file system.
        name: String,
        /// True if they must be enabled.
        mode: Value,
        /// `user` or `group`.
        quotatype: String,
    });
}

fn mode(cx: &Exec, args: Mode) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let fun = if args.mode == true.into() {
        "on"
    } else {
        "off"
    };
    let modes = cx.call_internal("quota.get_mode", vec![name.into()], Map::new())?;
    let now = modes.get(name).and_then(|modes| modes.get(&args.quotatype));
    let Some(now) = now.and_then(Value::as_str) else {
        return Ok(Ret::failed(format!(
            "{name} has no quota of the type {}",
            args.quotatype
        )));
    };
    if now == fun {
        return Ok(Ret::ok(format!("Quota for {name} already set to {fun}")));
    }
    let would = Ret::would(format!("Quota for {name} needs to be set to {fun}"));
    cx.apply(would, || {
        cx.call_internal(&format!("quota.{fun}"), vec![name.into()], Map::new())?;
        Ok(Ret::ok(format!("Set quota for {name} to {fun}")).change("quota", name))
    })
}
