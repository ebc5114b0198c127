//! The returner `slack`: sends returns to a channel with the API of Slack.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::super::{Returner, web};
use super::{missing, pretty, profiled, report, returned, yaml};
use crate::exec::slack;

pub(in super::super) const RETURNER: Returner = Returner {
    name: NAME,
    doc: "Send the return to a channel of Slack.",
    store: returner,
};

const NAME: &str = "slack";

fn returner(cx: &Exec, ret: &Map) -> Result<(), Error> {
    let get = |name: &str| web::option(cx, ret, NAME, name);
    let needed = |name: &str| {
        let found = get(name).filter(Value::is_true);
        found.ok_or_else(|| missing(NAME, name))
    };
    let key = profiled(cx, ret, NAME, "api_key").ok_or_else(|| missing(NAME, "api_key"))?;
    let fields = Map::new()
        .with(
            "channel",
            get("channel").unwrap_or_else(|| "#general".into()),
        )
        .with("username", needed("username")?)
        .with("as_user", needed("as_user")?)
        .with("text", format!("```{}```", message(cx, ret)?));
    let done = slack::send(cx, key.to_text(), &fields)?;
    match done.get("res").is_some_and(Value::is_true) {
        true => Ok(()),
        false => {
            let why = done.get("message").map(Value::to_text).unwrap_or_default();
            Err(Error::refused(format!(
                "Slack: the message was not sent: {why}"
            )))
        }
    }
}

fn message(cx: &Exec, ret: &Map) -> Result<String, Error> {
    let is_set = |name: &str| web::option(cx, ret, NAME, name).is_some_and(|found| found.is_true());
    let (changes, failed) = (is_set("changes"), is_set("only_show_failed"));
    if changes && failed {
        return Err("the options slack.changes and slack.only_show_failed exclude each other; remove one of them".into());
    }
    let mut shown = returned(ret);
    if let Some(states) = shown.as_map_mut().filter(|_| changes || failed) {
        states.retain(|_, state| {
            let is_good = state
                .get("result")
                .is_some_and(|result| *result == true.into());
            let has_changes = state.get("changes").is_some_and(Value::is_true);
            !is_good || (changes && has_changes)
        });
    }
    let text = match is_set("yaml_format") {
        true => yaml(&shown)?,
        false => pretty(cx, shown)?,
    };
    Ok(report(ret, &text))
}
