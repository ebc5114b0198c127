//! The returner `pushover`: sends returns to a user or a group.

use state::exec::Exec;
use state::module::Error;
use value::Map;

use super::super::{Returner, web};
use super::{call, missing, pretty, profiled, report, returned};

pub(in super::super) const RETURNER: Returner = Returner {
    name: NAME,
    doc: "Send the return to a user or a group of Pushover.",
    store: returner,
};

const NAME: &str = "pushover";

fn returner(cx: &Exec, ret: &Map) -> Result<(), Error> {
    let get = |name: &str| profiled(cx, ret, NAME, name);
    let mut kwargs = Map::new().with("message", report(ret, &pretty(cx, returned(ret))?));
    for name in ["token", "user"] {
        let found = get(name).ok_or_else(|| missing(NAME, name))?.to_text();
        web::keep(&found);
        kwargs.insert(name, found);
    }
    for name in ["device", "title", "expire", "retry", "sound"] {
        if let Some(found) = get(name) {
            kwargs.insert(name, found);
        }
    }
    let priority = get("priority").unwrap_or_else(|| "0".into());
    let has_times = ["expire", "retry"].iter().any(|name| kwargs.contains(name));
    if priority.to_text() == "2" && !has_times {
        let text = "priority 2 needs the options pushover.expire and pushover.retry";
        return Err(text.into());
    }
    call(
        cx,
        "pushover.post_message",
        kwargs.with("priority", priority),
    )
}

#[cfg(test)]
mod tests {
    use value::Value;

    use super::*;

    #[test]
    fn an_emergency_needs_the_times_of_its_repetition() {
        let opts = r#"{"pushover.token": "t", "pushover.user": "u", "pushover.priority": 2}"#;
        let cx = crate::testing::exec_with(crate::testing::json(opts), Map::new());
        let error = returner(&cx, &Map::new().with("return", Value::Null)).unwrap_err();
        assert!(error.to_string().contains("pushover.expire"), "{error}");
    }
}
