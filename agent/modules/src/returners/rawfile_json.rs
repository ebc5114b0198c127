//! Appends a line of JSON for each return, or for each event of a master, to a file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::Returner;
use super::follow::{Batch, Kind, OfLog, Record, Store};

const FILENAME: &str = "/var/log/salt/events";

/// The time that another process may hold the lock of the file, and the pause between two attempts.
const LOCK_MAX: Duration = Duration::from_secs(30);
const LOCK_AGAIN: Duration = Duration::from_millis(5);

pub(super) const RETURNER: Returner = Returner {
    name: "rawfile_json",
    doc: "Append the return to a file as a line of JSON.",
    store: returner,
};

pub(super) const OF_LOG: OfLog = OfLog {
    name: "rawfile_json",
    kinds: &[Kind::Events],
    open: |_| Ok(Box::new(Lines)),
};

/// The lines of events.
struct Lines;

impl Store for Lines {
    fn store(&self, cx: &Exec, batch: &Batch<'_>) -> Result<(), Error> {
        event_return(cx, batch.records)
    }
}

fn returner(cx: &Exec, ret: &Map) -> Result<(), Error> {
    let (path, mut file) = opened(cx, ret)?;
    let line = super::json(ret) + "\n";
    file.write_all(line.as_bytes()).map_err(Error::io(&path))
}

/// Appends a line for each event. If the write fails, for example because the disk is full, no part
/// of a line is left: the caller will pass the same events again.
fn event_return(cx: &Exec, records: &[Record]) -> Result<(), Error> {
    let (path, mut file) = opened(cx, &Map::new())?;
    let mut lines = String::new();
    for Record { event, .. } in records {
        lines += &value::json::write(event, value::json::Layout::default());
        lines.push('\n');
    }
    let before = file.metadata().map_err(Error::io(&path))?;
    file.write_all(lines.as_bytes()).map_err(|error| {
        if before.is_file()
            && let Err(error) = file.set_len(before.len())
        {
            log::warning(format_args!("{path}: a part of a line is left: {error}"));
        }
        Error::io(&path)(error)
    })
}

/// Opens the file to append to, and locks it. Closing it releases the lock.
fn opened(cx: &Exec, ret: &Map) -> Result<(String, File), Error> {
    let path = super::option(cx, ret, "rawfile_json", "filename");
    let path = path
        .as_ref()
        .map_or_else(|| FILENAME.to_owned(), Value::to_text);
    let io = |error: std::io::Error| Error::io(&path)(error);
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let file = file.map_err(io)?;
    // Other processes append to the file as well, and lines must not mix.
    let end = Instant::now() + LOCK_MAX;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) if Instant::now() < end => std::thread::sleep(LOCK_AGAIN),
            Err(error) => return Err(io(error.into())),
        }
    }
    Ok((path, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: Value) -> Record {
        Record { sequence: 1, event }
    }

    #[test]
    fn each_return_is_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let opts = Map::new().with("rawfile_json.filename", path.display().to_string());
        let cx = crate::testing::exec_with(opts, Map::new());
        for name in ["a", "ü"] {
            returner(&cx, &Map::new().with("return", name)).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, "{\"return\": \"a\"}\n{\"return\": \"ü\"}\n");
        let opts = Map::new().with("rawfile_json.filename", folder.path().display().to_string());
        let cx = crate::testing::exec_with(opts, Map::new());
        let error = returner(&cx, &Map::new()).unwrap_err().to_string();
        assert!(
            error.contains(&folder.path().display().to_string()),
            "{error}"
        );
    }

    #[test]
    fn each_event_is_a_line_as_salt_writes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let opts = Map::new().with("rawfile_json.filename", path.display().to_string());
        let cx = crate::testing::exec_with(opts, Map::new());
        let event =
            r#"{"data": {"text": "ü", "_stamp": "2026-01-01T00:00:00.000000"}, "tag": "a/b"}"#;
        let events = [value::json::read(event).unwrap(), Value::from("x")].map(record);
        event_return(&cx, &events).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written, format!("{event}\n\"x\"\n"));
    }

    #[test]
    fn a_write_that_fails_names_the_file() {
        let opts = Map::new().with("rawfile_json.filename", "/dev/full");
        let cx = crate::testing::exec_with(opts, Map::new());
        let error = event_return(&cx, &[record(Value::from("x"))]).unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }
}
