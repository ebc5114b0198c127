//! Appends a line of JSON for each return to a file.

use std::fs::OpenOptions;
use std::io::Write;

use rustix::fs::{FlockOperation, flock};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

const FILENAME: &str = "/var/log/salt/events";

pub(super) fn returner(cx: &Exec, ret: &Map) -> Result<(), Error> {
    let path = super::option(cx, ret, "rawfile_json", "filename");
    let path = path
        .as_ref()
        .map_or_else(|| FILENAME.to_owned(), Value::to_text);
    let io = |error: std::io::Error| Error::io(&path)(error);
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let mut file = file.map_err(io)?;
    // Other processes append to the file as well, and lines must not mix. Closing the file releases
    // the lock.
    flock(&file, FlockOperation::LockExclusive).map_err(|error| io(error.into()))?;
    let line = super::json(ret) + "\n";
    file.write_all(line.as_bytes()).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
