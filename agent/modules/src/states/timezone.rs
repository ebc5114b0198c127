//! The `timezone` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::Map;

state::state_module! {
    /// Manage the time zone of this machine.
    #[facts(effects = Effects::MoreThanFiles { files_suffice: true })]
    mod timezone;

    /// Make sure that the machine uses a time zone.
    ///
    ///     Europe/Berlin:
    ///       timezone.system:
    ///         - utc: True
    fn system(System {
        /// The name of the time zone, such as Europe/Berlin.
        name: String,
        /// True if the hardware clock shows UTC.
        utc: bool = true,
    });
}

fn system(cx: &Exec, args: System) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let is_set = match cx.call_internal("timezone.zone_compare", vec![name.into()], Map::new()) {
        Ok(same) => same.is_true(),
        Err(error) if error.is_of_command() => {
            return Ok(Ret::failed(format!(
                "Unable to compare desired timezone '{name}' to system timezone: {error}"
            )));
        }
        Err(error) => return Err(error),
    };
    let clock = cx.call_internal("timezone.get_hwclock", Vec::new(), Map::new())?;
    let sets_clock = args.utc && clock == "localtime".into();
    if is_set && !sets_clock {
        let utc = args.utc.then(|| format!(", UTC already set to {name}"));
        return Ok(Ret::ok(format!(
            "Timezone {name} already set{}",
            utc.unwrap_or_default()
        )));
    }
    let zone = (!is_set).then(|| format!("Timezone {name} needs to be set"));
    let utc = sets_clock.then(|| "UTC needs to be set to True".to_owned());
    let would: Vec<String> = zone.into_iter().chain(utc).collect();
    cx.apply(Ret::would(would.join(", ")), || {
        let (mut said, mut ret) = (Vec::new(), Ret::ok(""));
        if !is_set {
            if set(cx, "timezone.set_zone", name)? {
                said.push(format!("Set timezone {name}"));
                ret = ret.change("timezone", name);
            } else {
                said.push("Failed to set timezone".to_owned());
                ret.result = Some(false);
            }
        }
        if sets_clock {
            if set(cx, "timezone.set_hwclock", "UTC")? {
                said.push("Set UTC to True".to_owned());
                ret = ret.change("utc", true);
            } else {
                said.push("Failed to set UTC to True".to_owned());
                ret.result = Some(false);
            }
        }
        let comment = said.join(", ");
        Ok(Ret { comment, ..ret })
    })
}

fn set(cx: &Exec, function: &str, value: &str) -> Result<bool, Error> {
    Ok(cx
        .call_internal(function, vec![value.into()], Map::new())?
        .is_true())
}
