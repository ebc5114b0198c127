//! The `pagerduty` state module. Salt 3008 no longer has it; arguments and comments are those of
//! Salt 3007.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, secret};

state::state_module! {
    /// Send events to PagerDuty.
    #[facts(effects = Effects::Command)]
    mod pagerduty;

    /// Create an event.
    ///
    ///     The disk is full:
    ///       pagerduty.create_event:
    ///         - details: The disk sda is full.
    ///         - service_key: 9abcd123456789efabcde362783cdbaf
    ///         - profile: my-pagerduty-account
    fn create_event(CreateEvent {
        /// The short description of the event.
        name: String,
        /// The details of the event: a dictionary, YAML or a text.
        details: Value,
        /// The key of the service.
        service_key: Value,
        /// The profile of the configuration.
        profile: Value,
    });
}

fn create_event(cx: &Exec, args: CreateEvent) -> Result<Ret, Error> {
    secret::keep(&[], &args.service_key);
    let name = args.name;
    let would = Ret::would(format!("Need to create event: {name}"));
    cx.apply(would, || {
        let event = Map::new()
            .with("description", name.as_str())
            .with("details", args.details)
            .with("service_key", args.service_key)
            .with("profile", args.profile);
        let failed = |why: String| Ret::failed(format!("Failed to create event ({why}): {name}"));
        let answer = match cx.call_internal("pagerduty.create_event", Vec::new(), event) {
            Ok(answer) => answer,
            Err(error) => return Ok(failed(error.to_string())),
        };
        let status = answer.get("status").and_then(Value::as_str);
        Ok(match status.is_none_or(|status| status == "success") {
            true => Ret::ok(format!("Created event: {name}")),
            false => failed(answer.to_text()),
        })
    })
}
