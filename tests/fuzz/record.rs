//! Records of interrupted runs: no bytes crash the reader of run records, and from a record that
//! was cut at any point it reads a beginning.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use state::record;
use value::{Value, json};

/// The lines that are JSON, as a run writes them.
fn written(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let entries = text.lines().filter_map(|line| match json::read(line) {
        Ok(Value::Map(entry)) => Some(record::line(&entry)),
        _ => None,
    });
    entries.collect()
}

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("run");
    let _ = record::parse(bytes, path);
    let whole = written(bytes);
    let Ok(read) = record::parse(whole.as_bytes(), path) else {
        return;
    };
    let cut = bytes.len() % (whole.len() + 1);
    if let Ok(beginning) = record::parse(&whole.as_bytes()[..cut], path) {
        assert!(beginning.changes.len() <= read.changes.len());
    }
});
