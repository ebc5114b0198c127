//! The returner `splunk`: sends returns, and the events of a master, to the HTTP Event Collector of
//! Splunk. Salt 3008 no longer has it; options and events are those of Salt 3007.

use jiff::Timestamp;
use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, log};

use super::Returner;
use super::follow::{Batch, Kind, OfLog, Store};
use super::web;
use crate::exec::notify::{Message, Server, needed_secret, setting};

pub(super) const RETURNER: Returner = Returner {
    name: NAME,
    doc: "Send the return to the HTTP Event Collector of Splunk.",
    store: |cx, ret| {
        let collector = Collector::new(cx)?;
        let event = collector.line(ret.clone().into(), Timestamp::now());
        collector.send(cx, &[event])
    },
};

pub(super) const OF_LOG: OfLog = OfLog {
    name: NAME,
    kinds: &[Kind::Events],
    open: |cx| Ok(Box::new(Collector::new(cx)?)),
};

const NAME: &str = "splunk";

/// The name of the service in errors.
const SERVICE: &str = "Splunk";

/// The size of a request in bytes at which it takes no further event.
const REQUEST_BYTES: usize = 512 << 10;

/// A collector with the metadata of events.
struct Collector {
    url: String,
    token: String,
    server: Server,
    metadata: Map,
}

impl Collector {
    fn new(cx: &Exec) -> Result<Self, Error> {
        let get = |name: &str| {
            let key = format!("splunk_http_forwarder:{name}");
            let dotted = format!("splunk_http_forwarder.{name}");
            setting(cx, [&key, &dotted])
        };
        let missing = |name: &str| {
            Error::refused(format!(
                "the option splunk_http_forwarder:{name} is not set"
            ))
        };
        let token = get("token")?.ok_or_else(|| missing("token"))?.to_text();
        let keys = ["splunk_http_forwarder:token", "splunk_http_forwarder.token"];
        let token = needed_secret(cx, Some(token), keys, "")?;
        let indexer = get("indexer")?.ok_or_else(|| missing("indexer"))?;
        let mut metadata = Map::new();
        for name in ["index", "sourcetype"] {
            metadata.insert(name, get(name)?.unwrap_or_default());
        }
        let host = cx.grains().get("nodename").cloned();
        metadata.insert("host", host.unwrap_or_else(|| cx.opts().id().into()));
        // `setting` leaves out False, which is a value of this option.
        let unverified = cx.call_internal(
            "config.get",
            vec!["splunk_http_forwarder:verify_ssl".into(), true.into()],
            Map::new(),
        )?;
        Ok(Self {
            url: url(&indexer.to_text())?,
            token,
            server: Server {
                verify_ssl: unverified.is_true(),
                ..Server::default()
            },
            metadata,
        })
    }

    /// Returns an event as the collector accepts it.
    fn line(&self, event: Value, at: Timestamp) -> String {
        let mut line = Map::new().with("time", at.as_second().to_string());
        line.update(self.metadata.clone());
        json::write(&line.with("event", event).into(), Layout::default())
    }

    /// Sends events in requests of limited size.
    fn send(&self, cx: &Exec, lines: &[String]) -> Result<(), Error> {
        let mut rest = lines;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(web::fitting(rest, REQUEST_BYTES));
            let message = Message::post(SERVICE, &self.url, now.join("\n"))
                .header("Content-Type", "application/json")
                .header("Authorization", format!("Splunk {}", self.token))
                .server(&self.server);
            let answer = message.send(cx)?;
            match (answer.status, now) {
                (200..300, _) => {}
                (413, [_]) => log::error(format_args!(
                    "returner {NAME}: an event is not stored: it is larger than the server allows"
                )),
                _ => return Err(Error::refused(answer.describe())),
            }
            rest = later;
        }
        Ok(())
    }
}

impl Store for Collector {
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error> {
        let lines = batch.records.iter().map(|record| {
            let stamp = record.event.get("data").and_then(|data| data.get("_stamp"));
            self.line(record.event.clone(), web::time(stamp))
        });
        self.send(cx, &lines.collect::<Vec<String>>())
    }
}

/// Returns the address of the collector. Without a scheme and a port, they are https and 8088.
fn url(indexer: &str) -> Result<String, Error> {
    let base = match indexer.contains("://") {
        true => indexer.trim_end_matches('/').to_owned(),
        false if indexer.contains(':') => format!("https://{indexer}"),
        false => format!("https://{indexer}:8088"),
    };
    let (base, _) = web::address(&base).map_err(|error| {
        Error::refused(format!("the option splunk_http_forwarder:indexer: {error}"))
    })?;
    Ok(format!("{base}/services/collector/event"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_collector_is_at_port_8088_with_https() {
        for (indexer, base) in [
            ("splunk.example.com", "https://splunk.example.com:8088"),
            ("splunk:9000", "https://splunk:9000"),
            ("http://splunk:9000/", "http://splunk:9000"),
        ] {
            assert_eq!(
                url(indexer).unwrap(),
                format!("{base}/services/collector/event")
            );
        }
    }
}
