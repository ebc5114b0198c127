//! Finds the places of faults in pillar files that are about a key or a name.

use render::Place;
use value::read::or_log;

use crate::tree::SlsFile;

/// Returns the first line of a file that has contents.
pub(super) fn beginning(found: &SlsFile) -> Option<Place> {
    first(found, |line| {
        let text = line.trim();
        (!text.is_empty() && !text.starts_with('#')).then_some(0)
    })
}

/// Returns the line of the latest file that has this key at the beginning of a line.
pub(super) fn key(files: &[SlsFile], key: &str) -> Option<Place> {
    let is_key = |line: &str| {
        let name = line.split(':').next()?;
        (name.trim_matches(['\'', '"']) == key).then_some(0)
    };
    files.iter().rev().find_map(|found| first(found, is_key))
}

/// Returns the line of the latest file that has this SLS as an item of a list.
pub(super) fn naming(files: &[SlsFile], sls: &str) -> Option<Place> {
    let names = |line: &str| {
        let item = line.trim_start().strip_prefix("- ")?.trim();
        let item = item.split(" #").next()?.trim_end_matches(':').trim();
        let name = item.trim_matches(['\'', '"']).trim_start_matches('.');
        let is_it = name == sls
            || sls
                .strip_suffix(name)
                .is_some_and(|rest| rest.ends_with('.'));
        (is_it && !name.is_empty()).then(|| line.find("- ").map(|at| at + 2))?
    };
    files.iter().rev().find_map(|found| first(found, names))
}

/// Returns the first line of a file for which `column` returns the place in the line, in bytes.
fn first(found: &SlsFile, column: impl Fn(&str) -> Option<usize>) -> Option<Place> {
    let path = &found.file.path;
    let text = or_log(path, std::fs::read_to_string(path))?;
    let (line, at, source) = text
        .lines()
        .zip(1..)
        .find_map(|(source, line)| Some((line, column(source)?, source)))?;
    Some(Place {
        file: found.file.shown.clone(),
        line,
        column: u32::try_from(source.get(..at)?.chars().count() + 1).ok()?,
        source: source.to_owned(),
    })
}
