//! The stored hashes of extracted archives, which `source_hash_update` and `skip_files_list_verify`
//! compare.

use std::path::PathBuf;

use machine::fs::{self, Owner};
use machine::hashes;
use python::path;
use state::exec::Exec;
use state::module::Error;

fn hash_type(cx: &Exec) -> &str {
    cx.opts().text("hash_type").unwrap_or("sha256")
}

fn place(cx: &Exec, path: &str) -> PathBuf {
    let cachedir = cx.opts().cachedir();
    let below = format!("{}.hash", path::relpath(path, &cachedir.to_string_lossy()));
    let below = if below.starts_with("../") {
        format!("local/{}", path.trim_start_matches('/'))
    } else {
        below
    };
    cachedir.join("archive_hash").join(below)
}

fn lines(cx: &Exec, path: &str) -> Result<Vec<(String, String)>, Error> {
    let text = fs::text_or_none(place(cx, path))?.unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let lines = pairs.map(|(kind, hash)| (kind.to_owned(), hash.to_owned()));
    Ok(lines.collect())
}

/// Returns the stored hash of an archive.
///
/// # Errors
/// When the file of hashes cannot be read.
pub(super) fn read(cx: &Exec, path: &str, kind: Option<&str>) -> Result<Option<String>, Error> {
    let kind = kind.unwrap_or_else(|| hash_type(cx));
    let mut lines = lines(cx, path)?.into_iter();
    Ok(lines.find(|(known, _)| known == kind).map(|(_, hash)| hash))
}

/// Stores the current hash of an archive.
pub(super) fn update(cx: &Exec, path: &str) -> Result<(), Error> {
    let kind = hash_type(cx);
    let hash = hashes::of_file(path, kind)?;
    let mut lines = lines(cx, path)?;
    lines.retain(|(known, _)| known != kind);
    lines.push((kind.to_owned(), hash));
    let text: String = lines
        .iter()
        .map(|(kind, hash)| format!("{kind}:{hash}\n"))
        .collect();
    let place = place(cx, path);
    let folder = place.parent().unwrap_or(&place);
    fs::mkdirs_private(cx, folder).map_err(Error::io(folder))?;
    fs::write(cx, &place, text.as_bytes(), Owner::default())
}
