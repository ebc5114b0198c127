//! Reports lines that are added to a file and match a regular expression.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;

use machine::process::python_errno;
use value::pyre::{Anchor, Flags, Regex, Subject};
use value::{Map, Value};

use super::{Ask, Beacon, Settings};

/// The maximum number of bytes that are read at once. The rest is read the next time.
const READ_MAX: u64 = 4 << 20;

/// The position up to which a file was read.
#[derive(Clone, Copy)]
struct Place {
    inode: u64,
    at: u64,
}

struct Log {
    file: String,
    /// The tags and their regular expressions; `None` for an invalid one.
    tags: Vec<(String, Option<Regex>)>,
    place: Option<Place>,
}

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let file = settings
        .get("file")
        .ok_or("Configuration for log beacon must contain file option.")?;
    let tags = settings.get("tags").and_then(Value::as_map);
    let tags = tags.into_iter().flat_map(Map::iter);
    let tags = tags.filter_map(|(tag, said)| {
        let text = said.get("regex").filter(|text| text.is_true())?;
        let regex = Regex::compiled(
            &text.to_text(),
            Flags::default(),
            Subject::Text,
            Anchor::Start,
        );
        Some((tag.to_text(), regex.ok()))
    });
    Ok(Box::new(Log {
        file: file.to_text(),
        tags: tags.collect(),
        place: None,
    }))
}

fn event(tag: &str, matched: &str, raw: &str, error: &str) -> Map {
    Map::new()
        .with("tag", tag)
        .with("match", matched)
        .with("raw", raw)
        .with("error", error)
}

impl Log {
    /// Returns the complete lines that were added since the last look, or `None` at the first look.
    fn new_text(&mut self) -> std::io::Result<Option<String>> {
        let mut file = File::open(&self.file)?;
        let about = file.metadata()?;
        let (inode, end) = (about.ino(), about.len());
        let Some(last) = self.place.replace(Place { inode, at: end }) else {
            return Ok(None);
        };
        // Another file has replaced the file, or the file was emptied: all its contents are new.
        let at = match last.inode == inode && last.at <= end {
            true => last.at,
            false => 0,
        };
        file.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        file.take(READ_MAX).read_to_end(&mut bytes)?;
        // An incomplete line is read again when it is complete.
        let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if bytes.len() as u64 >= READ_MAX => bytes.len(),
            None => 0,
        };
        bytes.truncate(whole);
        let at = at + whole as u64;
        self.place = Some(Place { inode, at });
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }
}

impl Beacon for Log {
    fn poll(&mut self, _ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let text = self.new_text();
        let Some(text) = text.map_err(|error| python_errno(&error, &self.file))? else {
            return Ok(Vec::new());
        };
        let wrong = self.tags.iter().filter(|(_, regex)| regex.is_none());
        let mut told: Vec<Map> = wrong
            .map(|(tag, _)| event(tag, "no", "", "bad regex"))
            .collect();
        for line in text.lines() {
            for (tag, regex) in &self.tags {
                let Some(regex) = regex else { continue };
                match regex.captures(line, 0) {
                    Ok(Some(_)) => told.push(event(tag, "yes", line, "")),
                    Ok(None) => {}
                    Err(_) => told.push(event(tag, "no", "", "bad match")),
                }
            }
        }
        Ok(told)
    }
}
