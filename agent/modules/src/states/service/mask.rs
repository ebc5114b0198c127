//! The masking of services, which only systemd supports.

use state::module::{Error, Ret};
use value::Map;

use super::Service;

/// Masks or unmasks a service.
pub(super) fn set(service: &Service<'_>, on: bool, runtime: bool) -> Result<Ret, Error> {
    let (cx, name) = (service.cx, service.name);
    if !service.has("masked") {
        return Ok(Ret::failed("Service masking not available on this minion"));
    }
    let kind = if runtime { "runtime masked" } else { "masked" };
    let action = match (on, runtime) {
        (true, _) => kind,
        (false, true) => "runtime unmasked",
        (false, false) => "unmasked",
    };
    let kwargs = Map::new().with("runtime", runtime);
    let is_masked = || Ok::<_, Error>(service.call("masked", kwargs.clone())?.is_true());
    if is_masked()? == on {
        let been = if on { "is already" } else { "was already" };
        return Ok(Ret::ok(format!("Service {name} {been} {action}")));
    }
    let change = |ret: Ret| ret.change(kind, Map::new().with("old", !on).with("new", on));
    let would = change(Ret::would(format!("Service {name} would be {action}")));
    cx.apply(would, || {
        let verb = if on { "mask" } else { "unmask" };
        service.call(verb, kwargs.clone())?;
        if is_masked()? == on {
            Ok(change(Ret::ok(format!("Service {name} was {action}"))))
        } else {
            // As in Salt, this is not a failure: a caller such as openmediavault's orchestrations
            // continues after it.
            Ok(Ret::ok(format!("Failed to {verb} service {name}")))
        }
    })
}
