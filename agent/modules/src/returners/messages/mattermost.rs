//! The returner `mattermost`: sends returns, and the events of a master, to a channel.

use state::exec::Exec;
use state::module::Error;
use value::{Map, python};

use super::super::Returner;
use super::super::follow::{Batch, Kind, OfLog, Record, Store};
use super::super::web;
use super::{call, report, returned};

pub(in super::super) const RETURNER: Returner = Returner {
    name: NAME,
    doc: "Send the return to a channel of Mattermost.",
    store: |cx, ret| send(cx, ret, report(ret, &python::str(&returned(ret)))),
};

pub(in super::super) const OF_LOG: OfLog = OfLog {
    name: NAME,
    kinds: &[Kind::Events],
    open: |cx| {
        web::needed_secret(cx, &Map::new(), NAME, "hook")?;
        Ok(Box::new(Messages))
    },
};

const NAME: &str = "mattermost";

/// A message for each event.
struct Messages;

impl Store for Messages {
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error> {
        let mut records = batch.records.iter();
        records.try_for_each(|record| send(cx, &Map::new(), of_event(record)))
    }
}

fn of_event(record: &Record) -> String {
    let part = |key: &str| record.event.get(key).cloned().unwrap_or_default();
    let mut text = format!("tag: {}\r\n", python::str(&part("tag")));
    for (key, value) in part("data").as_map().into_iter().flatten() {
        text += &format!("{}: {}\r\n", python::str(key), python::str(value));
    }
    text
}

fn send(cx: &Exec, ret: &Map, message: String) -> Result<(), Error> {
    let hook = web::needed_secret(cx, ret, NAME, "hook")?;
    let mut kwargs = Map::new().with("message", message).with("hook", hook);
    for name in ["api_url", "channel", "username"] {
        if let Some(found) = web::option(cx, ret, NAME, name) {
            kwargs.insert(name, found);
        }
    }
    call(cx, "mattermost.post_message", kwargs)
}
