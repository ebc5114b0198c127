//! Sets whether a service starts with the system.

use machine::fs;
use state::module::{Error, Ret};
use value::Map;

use super::Service;
use crate::exec::service::inverse::ENABLED;

/// Enables or disables a service, and returns `ret` with a comment about this. For the comment,
/// `runs` says whether the service runs; `None` means that it is in the desired state. `result` is
/// the result of the return, unless the change fails.
pub(super) fn toggled(
    service: &Service<'_>,
    ret: Ret,
    on: bool,
    runs: Option<bool>,
    result: bool,
) -> Result<Ret, Error> {
    let name = service.name;
    let said = |result: Option<bool>, comment: String| Ret {
        result,
        comment,
        ..ret.clone()
    };
    if !service.is_available()? {
        let comment = format!("The named service {name} is not available");
        return Ok(said(Some(!on), comment));
    }
    let (verb, state) = match on {
        true => ("enable", "enabled"),
        false => ("disable", "disabled"),
    };
    if !service.has(verb) || !service.has(state) {
        return Ok(said(Some(result), unable(name, on, runs)));
    }
    let how = match runs {
        Some(true) => "is running",
        Some(false) => "is dead",
        None => "is in the desired state",
    };
    if is(service, on)? {
        let comment = format!("Service {name} is already {state}, and {how}");
        let ret = said(Some(result), comment);
        return Ok(if runs.is_none() {
            ret.changes(Map::new())
        } else {
            ret
        });
    }
    let would = said(None, format!("Service {name} set to be {state}"));
    service.cx.apply(would, || {
        fs::inverse(service.cx, &ENABLED, name, !on, on);
        if let Some(why) = refused(service, verb, on)? {
            let comment = format!("{}{why}", failure(name, on, runs));
            return Ok(said(Some(false), comment));
        }
        let comment = format!("Service {name} has been {state}, and {how}");
        let ret = said(Some(result), comment).changes(Map::new());
        Ok(if is(service, on)? {
            ret.change(name, true)
        } else {
            ret
        })
    })
}

fn unable(name: &str, on: bool, runs: Option<bool>) -> String {
    let title = if on { "Enable" } else { "Disable" };
    let how = match runs {
        Some(true) => "started",
        Some(false) => "is dead",
        None => "is in the desired state",
    };
    format!("{title} is not available on this minion, service {name} {how}")
}

/// Enables or disables the service. Returns additional text for the comment if this fails.
fn refused(service: &Service<'_>, verb: &str, on: bool) -> Result<Option<String>, Error> {
    match service.call(verb, service.kwargs.clone()) {
        Ok(done) if done.is_true() => Ok(None),
        Ok(_) => Ok(Some(String::new())),
        Err(why) if on && why.is_of_command() => {
            Ok(Some(format!(". Additional information follows:\n\n{why}")))
        }
        Err(error) => Err(error),
    }
}

/// Returns whether the service is enabled (`on`) or disabled.
fn is(service: &Service<'_>, on: bool) -> Result<bool, Error> {
    let answer = match on {
        true => service.call("enabled", service.kwargs.clone())?,
        false => service.call("disabled", Map::new())?,
    };
    Ok(answer.is_true())
}

fn failure(name: &str, on: bool, runs: Option<bool>) -> String {
    let aim = if on { "start" } else { "not start" };
    let how = match (on, runs) {
        (true, Some(true)) => ", but the service is running",
        (false, Some(true)) => ", and is running",
        (_, Some(false)) => ", and the service is dead",
        (_, None) => ", but the service was already running",
    };
    format!("Failed when setting service {name} to {aim} at boot{how}")
}
