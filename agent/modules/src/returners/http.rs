//! The returner `http`: sends returns, and the events or jobs of a master, to an address. Salt has
//! no returner of this name.

use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value};

use super::Returner;
use super::follow::{Batch, Kind, OfLog, Record, Store};
use super::web;
use crate::exec::notify::Message;
use crate::fileserver::template;

pub(super) const RETURNER: Returner = Returner {
    name: NAME,
    doc: "Send the return to http.url, as JSON or rendered with http.template.",
    store: |cx, ret| Receiver::new(cx, ret)?.send(cx, body(cx, ret)?, None),
};

pub(super) const OF_LOG: OfLog = OfLog {
    name: NAME,
    kinds: &[Kind::Events, Kind::Jobs],
    open: |cx| Ok(Box::new(Receiver::new(cx, &Map::new())?)),
};

const NAME: &str = "http";

/// The header that names a batch, so that a receiver can recognize a repetition.
const BATCH: &str = "X-Pinch-Batch";

/// Headers whose values are no secrets.
const PLAIN: [&str; 3] = ["accept", "content-type", "user-agent"];

/// The receiver of the options.
struct Receiver {
    url: String,
    headers: Vec<(String, String)>,
}

impl Receiver {
    fn new(cx: &Exec, ret: &Map) -> Result<Self, Error> {
        let url = web::needed_secret(cx, ret, NAME, "url")?;
        let (url, user) = web::address(&url)
            .map_err(|error| Error::refused(format!("the option http.url: {error}")))?;
        let mut headers: Vec<(String, String)> = match web::option(cx, ret, NAME, "header_dict") {
            None => Vec::new(),
            Some(Value::Map(headers)) => headers
                .iter()
                .map(|(name, value)| (name.to_text(), value.to_text()))
                .collect(),
            Some(_) => {
                return Err("the option http.header_dict is not a dictionary of headers".into());
            }
        };
        headers.extend(user.map(|user| ("Authorization".to_owned(), user)));
        for (name, value) in &headers {
            if !PLAIN.contains(&name.to_ascii_lowercase().as_str()) {
                web::keep(value);
            }
        }
        Ok(Self { url, headers })
    }

    /// Sends a body. Any answer but a success is an error.
    fn send(&self, cx: &Exec, body: String, batch: Option<String>) -> Result<(), Error> {
        let names = self.headers.iter().map(|(name, _)| name);
        let has_type = names
            .clone()
            .any(|name| name.eq_ignore_ascii_case("content-type"));
        let mut message = Message::post(NAME, &self.url, body);
        if !has_type {
            message = message.header("Content-Type", "application/json");
        }
        for (name, value) in &self.headers {
            message = message.header(name, value.as_str());
        }
        if let Some(batch) = batch {
            message = message.header(BATCH, batch);
        }
        let answer = message.send(cx)?;
        match answer.is_success() {
            true => Ok(()),
            false => Err(Error::refused(answer.describe())),
        }
    }
}

impl Store for Receiver {
    /// Sends a batch as one request: a list of events with `tag`, `data` and `sequence`.
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error> {
        let is_wanted = |record: &&Record| match batch.kind {
            Kind::Events => true,
            Kind::Jobs => record.of_job().is_some(),
        };
        let records: Vec<&Record> = batch.records.iter().filter(is_wanted).collect();
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Ok(());
        };
        let id = format!("{}/{}-{}", batch.place, first.sequence, last.sequence);
        let events = records.iter().map(|record| event(record));
        let body = json::write(&Value::list(events), Layout::default());
        self.send(cx, body, Some(id))
    }
}

fn event(record: &Record) -> Value {
    let part = |key: &str| record.event.get(key).cloned().unwrap_or_default();
    // A sequence beyond the numbers of JSON is not reached in the life of a log.
    let sequence = i64::try_from(record.sequence).unwrap_or(i64::MAX);
    Map::new()
        .with("tag", part("tag"))
        .with("data", part("data"))
        .with("sequence", sequence)
        .into()
}

/// Returns the body for a return.
fn body(cx: &Exec, ret: &Map) -> Result<String, Error> {
    match web::text(cx, ret, NAME, "template") {
        None => Ok(super::json(ret)),
        Some(text) => {
            let variables = Map::new().with("ret", ret.clone());
            template::render(cx, "http.template", &text, cx.opts().saltenv(), variables)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use ::tests::server;

    use super::*;
    use crate::returners::follow::{hand_batch, never_takes};

    type Received = Arc<Mutex<Vec<String>>>;

    fn receiver(status: &'static str, headers: &'static str) -> (String, Received) {
        let received = Received::default();
        let kept = received.clone();
        let address = server::start(move |head, body| {
            kept.lock().unwrap().push(format!("{head}\n{body}"));
            server::text(status, headers, "no\n")
        });
        (address, received)
    }

    fn context(url: &str) -> Exec {
        let opts = Map::new().with("http.url", url).with(
            "http.header_dict",
            Map::new().with("X-Token", "planted-token"),
        );
        crate::testing::exec_with(opts, Map::new())
    }

    fn records() -> Vec<Record> {
        let event =
            |tag: &str| crate::testing::json(&format!(r#"{{"tag": "{tag}", "data": {{"n": 1}}}}"#));
        let tags = ["my/a", "salt/job/7/ret/m", "my/b"];
        let numbered = (5..).zip(tags);
        let records = numbered.map(|(sequence, tag)| Record {
            sequence,
            event: event(tag).into(),
        });
        records.collect()
    }

    fn hand(cx: &Exec, kind: Kind) -> Result<(), String> {
        let batch = Batch {
            kind,
            place: "event_return/http",
            records: &records(),
        };
        hand_batch(cx, "http", &batch).map_err(|error| error.to_string())
    }

    #[test]
    fn a_batch_is_one_request_with_its_numbers() {
        let (here, received) = receiver("204 No Content", "");
        let cx = context(&here.replace("//", "//u:p@"));
        hand(&cx, Kind::Events).unwrap();
        hand(&cx, Kind::Jobs).unwrap();
        let received = received.lock().unwrap();
        let [events, jobs] = received.as_slice() else {
            panic!("{received:?}")
        };
        for part in [
            "POST / HTTP/1.1",
            "x-pinch-batch: event_return/http/5-7\r\n",
            "content-type: application/json\r\n",
            "x-token: planted-token\r\n",
            "authorization: basic dtpw\r\n",
        ] {
            assert!(
                events.to_lowercase().contains(&part.to_lowercase()),
                "{events}"
            );
        }
        let body = r#"[{"tag": "my/a", "data": {"n": 1}, "sequence": 5}, {"tag": "salt/job/7/ret/m", "data": {"n": 1}, "sequence": 6}, {"tag": "my/b", "data": {"n": 1}, "sequence": 7}]"#;
        assert!(events.ends_with(body), "{events}");
        assert!(jobs.to_lowercase().contains("http/6-6\r\n"), "{jobs}");
    }

    #[test]
    fn an_answer_that_is_no_success_is_an_error_without_secrets() {
        for (status, headers) in [
            ("500 Internal Server Error", ""),
            ("400 Bad Request", ""),
            ("302 Found", "Location: http://127.0.0.1:1/\r\n"),
        ] {
            let (here, received) = receiver(status, headers);
            let url = here.replace("//", "//u:planted-password@") + "/planted-path";
            let error = hand(&context(&url), Kind::Events).unwrap_err();
            assert!(error.contains(status.split(' ').next().unwrap()), "{error}");
            assert!(!error.contains("planted"), "{error}");
            assert_eq!(received.lock().unwrap().len(), 1);
        }
        let error = hand(&context("http://127.0.0.1:1/planted"), Kind::Events).unwrap_err();
        assert!(
            error.contains("127.0.0.1:1") && !error.contains("planted"),
            "{error}"
        );
    }

    #[test]
    fn a_template_renders_the_return() {
        let opts = Map::new().with("http.template", "{{ ret.id }}: {{ ret['return'] | json }}");
        let cx = crate::testing::exec_with(opts, Map::new());
        let ret = crate::testing::json(r#"{"id": "m", "return": {"a": 1}}"#);
        assert_eq!(body(&cx, &ret).unwrap(), r#"m: {"a": 1}"#);
    }

    #[test]
    fn a_receiver_without_an_address_is_reported_at_the_start() {
        for (opts, part) in [
            ("{}", "http.url is not set"),
            (
                r#"{"http.url": "planted.example.com"}"#,
                "must begin with https://",
            ),
            (
                r#"{"http": {"url": "http://h", "header_dict": "planted"}}"#,
                "header_dict is not",
            ),
        ] {
            let cx = crate::testing::exec_with(crate::testing::json(opts), Map::new());
            let why = never_takes(&cx, Kind::Events, "http").unwrap();
            assert!(why.contains(part) && !why.contains("planted"), "{why}");
        }
    }
}
