//! The returner `influxdb`: returns and jobs as points of InfluxDB 1, or of later versions with its
//! interface. Salt 3008 no longer has it; measurements, tags and fields are those of Salt 3007.

use jiff::Timestamp;
use machine::net::http::quoted;
use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, log};

use super::Returner;
use super::follow::{Batch, Kind, OfJob, OfLog, Record, Store};
use super::web;
use crate::exec::notify::{Answer, Message};

pub(super) const RETURNER: Returner = Returner {
    name: NAME,
    doc: "Store the return in InfluxDB, in the measurement returns.",
    store: |cx, ret| Database::new(cx, ret)?.write(cx, &[of_return(ret, None)]),
};

pub(super) const OF_LOG: OfLog = OfLog {
    name: NAME,
    kinds: &[Kind::Jobs],
    open: |cx| Ok(Box::new(Database::new(cx, &Map::new())?)),
};

const NAME: &str = "influxdb";

/// The name of the service in errors.
const SERVICE: &str = "InfluxDB";

/// The size of a request in bytes at which it takes no further point.
const REQUEST_BYTES: usize = 2 << 20;

/// A database of the options.
struct Database {
    url: String,
    user: String,
}

impl Database {
    fn new(cx: &Exec, ret: &Map) -> Result<Self, Error> {
        let get = |name: &str, default: &str| {
            web::text(cx, ret, NAME, name).unwrap_or_else(|| default.to_owned())
        };
        let (host, port) = (get("host", "localhost"), get("port", "8086"));
        let base = match host.contains("://") {
            true => format!("{}:{port}", host.trim_end_matches('/')),
            false => format!("http://{host}:{port}"),
        };
        let (base, _) = web::address(&base)
            .map_err(|error| Error::refused(format!("the option influxdb.host: {error}")))?;
        Ok(Self {
            url: format!("{base}/write?db={}", quoted(&get("db", "salt"))),
            user: web::basic(&get("user", "salt"), &get("password", "salt")),
        })
    }

    /// Writes points in requests of limited size.
    fn write(&self, cx: &Exec, points: &[String]) -> Result<(), Error> {
        let mut rest = points;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(web::fitting(rest, REQUEST_BYTES));
            self.write_now(cx, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Writes points in one request. If the server refuses their data, the halves are written. A
    /// point that is refused alone is reported and left out.
    fn write_now(&self, cx: &Exec, points: &[String]) -> Result<(), Error> {
        let answer = self.request(cx, points.join("\n") + "\n")?;
        match (answer.status, points) {
            (200..300, _) => Ok(()),
            (400 | 413, [point]) => {
                let name: String = point.split(' ').next().unwrap_or_default().into();
                log::error(format_args!(
                    "returner {NAME}: the point {name} is not stored, because the server refuses its data: {}",
                    answer.reason
                ));
                Ok(())
            }
            (400 | 413, _) => {
                let (first, second) = points.split_at(points.len() / 2);
                self.write_now(cx, first)?;
                self.write_now(cx, second)
            }
            _ => Err(Error::refused(answer.describe())),
        }
    }

    fn request(&self, cx: &Exec, body: String) -> Result<Answer, Error> {
        let message = Message::post(SERVICE, &self.url, body)
            .header("Content-Type", "text/plain; charset=utf-8")
            .header("Authorization", self.user.as_str());
        message.send(cx)
    }
}

impl Store for Database {
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error> {
        let of_job = |record: &Record| {
            let stamp = record.event.get("data").and_then(|data| data.get("_stamp"));
            // A point that is written again with the same time and tags replaces itself.
            let at = Some(web::time(stamp));
            Some(match record.of_job()? {
                OfJob::New(load) => of_load(&load, at),
                OfJob::Return(ret, _) => of_return(&ret, at),
            })
        };
        let points: Vec<String> = batch.records.iter().filter_map(of_job).collect();
        self.write(cx, &points)
    }
}

fn of_load(load: &Map, at: Option<Timestamp>) -> String {
    let tags = [("jid", text_of(load, "jid"))];
    point("jids", &tags, &[("load", super::json(load))], at)
}

fn of_return(ret: &Map, at: Option<Timestamp>) -> String {
    let mut rest = ret.clone();
    let returned = rest.remove("return").unwrap_or_default();
    let returned = json::write(&returned, Layout::default());
    let tags = [
        ("fun", super::function(ret)),
        ("id", text_of(ret, "id")),
        ("jid", text_of(ret, "jid")),
    ];
    let fields = [("full_ret", super::json(&rest)), ("return", returned)];
    point("returns", &tags, &fields, at)
}

fn text_of(map: &Map, key: &str) -> String {
    map.get(key).map(Value::to_text).unwrap_or_default()
}

/// Returns a point in the line protocol. A tag without a value is left out.
fn point(
    measurement: &str,
    tags: &[(&str, String)],
    fields: &[(&str, String)],
    at: Option<Timestamp>,
) -> String {
    let mut line = measurement.to_owned();
    for (name, value) in tags.iter().filter(|(_, value)| !value.is_empty()) {
        line += &format!(",{name}={}", tag(value));
    }
    let fields = fields.iter();
    let fields = fields.map(|(name, value)| format!("{name}=\"{}\"", field(value)));
    line += &format!(" {}", fields.collect::<Vec<_>>().join(","));
    if let Some(at) = at {
        line += &format!(" {}", at.as_nanosecond());
    }
    line
}

/// Escapes a tag. A line break would begin another point, and a backslash at the end would escape
/// what follows.
fn tag(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            ' ' | ',' | '=' => escaped.extend(['\\', letter]),
            '\\' | '\n' | '\r' => escaped.push('_'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Escapes the text of a field.
fn field(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_is_a_point_that_cannot_begin_another() {
        let ret = crate::testing::json(
            r#"{"fun": "a b,c=d\nother x=1\\", "id": "m", "jid": "7", "return": "q\" \\ ü\n"}"#,
        );
        let at = Timestamp::from_second(1).unwrap();
        let line = of_return(&ret, Some(at));
        let tags = r"returns,fun=a\ b\,c\=d_other\ x\=1_,id=m,jid=7 ";
        assert!(line.starts_with(tags), "{line}");
        assert!(
            line.ends_with(r#",return="\"q\\\" \\\\ ü\\n\"" 1000000000"#),
            "{line}"
        );
        assert!(!line.contains('\n'));
    }
}
