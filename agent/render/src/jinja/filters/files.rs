//! Filters that inspect the machine's files and users.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use minijinja::{Error, State, Value};

use value::read::or_log;

use super::super::args::Args;
use super::super::containers::List;
use super::Table;

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("is_empty", |_, a| {
        Ok(Value::from(
            fs::metadata(a.text(0, "filename")?).is_ok_and(|file| file.len() == 0),
        ))
    }),
    ("is_text_file", |_, a| {
        Ok(Value::from(
            begin(&a.text(0, "fp_")?, 512).is_some_and(|block| !is_binary(&block)),
        ))
    }),
    ("is_bin_file", |_, a| {
        Ok(Value::from(
            begin(&a.text(0, "path")?, 2048).is_some_and(|block| is_binary(&block)),
        ))
    }),
    ("list_files", list_files),
    ("which", which),
    ("get_uid", get_uid),
];

fn begin(path: &str, most: u64) -> Option<Vec<u8>> {
    if !Path::new(path).is_file() {
        return None;
    }
    let mut block = Vec::new();
    or_log(path, fs::File::open(path))?
        .take(most)
        .read_to_end(&mut block)
        .ok()?;
    Some(block)
}

/// Guesses as Salt does whether a block is binary: it contains a zero byte, or more than 30 % of it
/// are not text.
fn is_binary(block: &[u8]) -> bool {
    if block.is_empty() {
        return false;
    }
    if block.contains(&0) {
        return true;
    }
    let odd = block
        .iter()
        .filter(|byte| !matches!(byte, 0x20..=0x7e | b'\n' | b'\r' | b'\t' | 0x8 | 0xc))
        .count();
    odd * 10 > block.len() * 3 && std::str::from_utf8(block).is_err()
}

fn list_files(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let directory = args.text(0, "directory")?;
    let mut found = vec![directory.clone()];
    let mut open = vec![directory];
    while let Some(directory) = open.pop() {
        let entries = or_log(&directory, fs::read_dir(&directory));
        for entry in entries.into_iter().flatten().flatten() {
            let path = format!(
                "{}/{}",
                directory.trim_end_matches('/'),
                entry.file_name().to_string_lossy()
            );
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path.clone());
            }
            found.push(path);
        }
    }
    found.sort();
    Ok(List::value(found.into_iter().map(Value::from).collect()))
}

fn which(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let name = args.text(0, "exe")?;
    let runs = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Ok(if runs(Path::new(&name)) {
            Value::from(name)
        } else {
            Value::from(())
        });
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(&name))
        .find(|path| runs(path));
    Ok(found.map_or_else(
        || Value::from(()),
        |path| Value::from(path.to_string_lossy().into_owned()),
    ))
}

fn text(path: &str) -> String {
    or_log(path, fs::read_to_string(path)).unwrap_or_default()
}

fn get_uid(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let none = || Value::from(());
    if args.subject()?.is_none() {
        let status = text("/proc/self/status");
        let uid = status.lines().find_map(|line| {
            line.strip_prefix("Uid:")?
                .split_whitespace()
                .nth(1)?
                .parse::<i64>()
                .ok()
        });
        return Ok(uid.map_or_else(none, Value::from));
    }
    let name = args.text(0, "user")?;
    let users = text("/etc/passwd");
    let uid = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        fields.nth(1)?.parse::<i64>().ok()
    });
    Ok(uid.map_or_else(none, Value::from))
}
