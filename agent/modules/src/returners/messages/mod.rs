//! Returners that send a message to people for each return. Salt 3008 no longer has them; options
//! and messages are those of Salt 3007.

pub(super) mod mattermost;
pub(super) mod pushover;
#[cfg(test)]
mod recorded;
pub(super) mod slack;
pub(super) mod slack_webhook;
pub(super) mod telegram;

use render::yaml::{Dump, dump};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

use super::{looked_up, web};
use crate::fileserver::template;

/// Returns the text about a return, with `returned` as what the function returned.
fn report(ret: &Map, returned: &str) -> String {
    let text = |key: &str| python::str(ret.get(key).unwrap_or(&Value::Null));
    format!(
        "id: {}\r\nfunction: {}\r\nfunction args: {}\r\njid: {}\r\nreturn: {returned}\r\n",
        text("id"),
        text("fun"),
        text("fun_args"),
        text("jid"),
    )
}

/// Returns what the function returned.
fn returned(ret: &Map) -> Value {
    ret.get("return").cloned().unwrap_or_default()
}

/// Returns a value as Python's `pprint` prints it.
fn pretty(cx: &Exec, value: Value) -> Result<String, Error> {
    let variables = Map::new().with("value", value);
    let text = "{{ value | pprint }}";
    template::render(cx, "pprint", text, cx.opts().saltenv(), variables)
}

/// Returns a value as YAML.
fn yaml(value: &Value) -> Result<String, Error> {
    let text = dump(value, &Dump::default());
    text.map_err(|error| Error::refused(format!("cannot write the return as YAML: {error}")))
}

/// Returns an option: of the call, else of the profile that the option `profile` names, else of the
/// configuration.
fn profiled(cx: &Exec, ret: &Map, returner: &str, name: &str) -> Option<Value> {
    let of_call = ret.get("ret_kwargs").and_then(|kwargs| kwargs.get(name));
    let profile = || {
        let profile = web::text(cx, ret, returner, "profile")?;
        let found = looked_up(cx, &profile)?;
        let found = found.get(&format!("{returner}.{name}"))?;
        found.is_true().then(|| found.clone())
    };
    of_call
        .cloned()
        .or_else(profile)
        .or_else(|| web::option(cx, ret, returner, name))
}

/// Returns the error for an option that is not set.
fn missing(returner: &str, name: &str) -> Error {
    Error::refused(format!("the option {returner}.{name} is not set"))
}

/// Calls the function that sends a message. Any result but True is an error.
fn call(cx: &Exec, function: &str, kwargs: Map) -> Result<(), Error> {
    let answer = cx.call_internal(function, Vec::new(), kwargs)?;
    if answer == Value::Bool(true) {
        return Ok(());
    }
    let message = answer.get("message").map(|message| match message {
        Value::Map(answer) => answer.get("body").map_or_else(String::new, Value::to_text),
        message => message.to_text(),
    });
    let why = message.unwrap_or_else(|| "the service refuses it".to_owned());
    Err(Error::refused(format!("the message was not sent: {why}")))
}
