//! The `tuned` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use crate::exec::tuned::{current, profiles, switched, switched_off};

state::state_module! {
    /// Manage tuning profiles (`tuned-adm`).
    mod tuned;

    /// Make sure that a profile is active.
    ///
    ///     throughput-performance:
    ///       tuned.profile
    fn profile(Profile {
        /// The profile.
        name: String,
    });

    /// Make sure that no profile is active.
    ///
    ///     no tuning:
    ///       tuned.off
    fn off(Off {
        /// Any name.
        name: Option<String> = None,
    });
}

const ALREADY: &str = "System already in the correct state";

fn would(now: &str, profile: &str) -> Ret {
    Ret::would(format!("The state of \"{now}\" will be changed."))
        .change("old", now)
        .change("new", format!("Profile will be set to {profile}"))
}

fn profile(cx: &Exec, args: Profile) -> Result<Ret, Error> {
    let profile = args.name.as_str();
    let now = current(cx)?;
    if !profiles(cx)?.iter().any(|one| one == profile) {
        return Err(Error::refused("Invalid Profile Name".to_owned()));
    }
    let ret = match now.contains(profile) {
        true => Ret::ok(ALREADY),
        false => cx.apply(would(&now, profile), || {
            let new = switched(cx, profile)?;
            // Unlike here, Salt reports a profile that could not be activated as a success.
            let ret = match new {
                Value::Bool(_) => Ret::failed(format!("tuned-adm could not set {profile}")),
                _ => Ret::ok(format!("The state of \"{profile}\" was changed!")),
            };
            Ok(ret.change("old", now.as_str()).change("new", new))
        })?,
    };
    Ok(Ret {
        name: Some(String::new()),
        ..ret.with(profile, profile)
    })
}

fn off(cx: &Exec, _: Off) -> Result<Ret, Error> {
    let now = current(cx)?;
    // The active profile is never named `off`, so as in Salt this state makes a change each time.
    let ret = match now == "off" {
        true => Ret::ok(ALREADY),
        false => cx.apply(would(&now, "off"), || {
            Ok(match switched_off(cx)? {
                true => Ret::ok("off")
                    .change("old", now.as_str())
                    .change("new", "off"),
                false => Ret::failed("off"),
            })
        })?,
    };
    Ok(Ret {
        name: Some("off".to_owned()),
        ..ret
    })
}
