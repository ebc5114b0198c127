//! All sources of the machine: `/etc/apt/sources.list` and the files in `sources.list.d`.

use std::path::Path;

use machine::fs;
use state::exec::Exec;
use state::module::Error;
use value::log;

use super::entry::{Entry, Form};
use super::line::Line;
use super::section::Section;

/// The default file for new sources.
pub(super) const LIST: &str = "/etc/apt/sources.list";
/// The folder of further files.
pub(super) const FOLDER: &str = "/etc/apt/sources.list.d";

/// The contents of an empty list.
const EMPTY: &str = "## See sources.list(5) for more information, especialy\n# Remember that you can only use http, ftp or file URIs\n# CDROMs are managed through the apt-cdrom tool.\n";

/// The sources in the order of their files.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    pub(super) entries: Vec<Entry>,
}

impl Sources {
    /// Reads all files.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub(super) fn read() -> Result<Self, Error> {
        let mut sources = Self::default();
        let mut files: Vec<String> = fs::list_or_none(FOLDER)?
            .unwrap_or_default()
            .into_iter()
            .map(|file| file.path().to_string_lossy().into_owned())
            .filter(|file| file.ends_with(".sources") || file.ends_with(".list"))
            .collect();
        value::sorted::sort(&mut files);
        for file in [LIST.to_owned()].into_iter().chain(files) {
            if !Path::new(&file).is_file() {
                continue;
            }
            let text = fs::read(&file)?;
            sources.take(&file, &String::from_utf8_lossy(&text));
        }
        Ok(sources)
    }

    /// Adds the sources of one file.
    fn take(&mut self, file: &str, text: &str) {
        let forms: Vec<Form> = match file.ends_with(".sources") {
            true => Section::all(text).into_iter().map(Form::Section).collect(),
            false => text.lines().map(|line| Form::Line(kept(line))).collect(),
        };
        let file = file.to_owned();
        let entries = forms.into_iter().map(|form| Entry {
            file: file.clone(),
            form,
        });
        self.entries.extend(entries);
    }

    /// Removes the sources of one file.
    pub(super) fn without(mut self, file: &str) -> Self {
        self.entries.retain(|entry| entry.file != file);
        self
    }

    /// Converts the sources to one line for each type, address, suite and set of architectures, all
    /// in `sources.list`. deb822 sections stay unchanged.
    pub(super) fn consolidate(&mut self) {
        let mut kept: Vec<Entry> = Vec::new();
        for mut entry in std::mem::take(&mut self.entries) {
            if matches!(entry.form, Form::Section(_)) {
                kept.push(entry);
                continue;
            }
            if !entry.is_source() {
                continue;
            }
            LIST.clone_into(&mut entry.file);
            match kept.iter_mut().find(|known| same_place(known, &entry)) {
                Some(known) => add_comps(known, entry.comps()),
                None => kept.push(entry),
            }
        }
        self.entries = kept;
    }

    /// Returns true when a file contains a source.
    pub(super) fn holds_source(&self, file: &str) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.file == file && entry.is_source())
    }

    fn text(&self, file: &str) -> String {
        let entries = self.entries.iter().filter(|entry| entry.file == file);
        let written: Vec<String> = entries.map(|entry| entry.written() + "\n").collect();
        written.join(if file.ends_with(".sources") { "\n" } else { "" })
    }

    fn files(&self) -> Vec<&str> {
        let mut files: Vec<&str> = Vec::new();
        for entry in &self.entries {
            if !files.contains(&entry.file.as_str()) {
                files.push(&entry.file);
            }
        }
        files
    }

    /// Writes the files whose contents have changed. With `remove`, deletes files of the folder
    /// without any remaining source.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn save(
        &self,
        cx: &Exec,
        before: &Self,
        remove: bool,
    ) -> Result<Vec<String>, Error> {
        let mut files = before.files();
        files.extend(self.files());
        let mut removed = Vec::new();
        for (place, file) in files.iter().enumerate() {
            let (was, is) = (before.text(file), self.text(file));
            let seen = files.iter().take(place).any(|known| known == file);
            if seen || (was == is && Path::new(file).exists()) {
                continue;
            }
            let path = Path::new(file);
            if remove && !self.holds_source(file) && file.starts_with(FOLDER) {
                fs::remove(cx, path).map_err(Error::io(file))?;
                removed.push((*file).to_owned());
            } else if !is.is_empty() {
                fs::write(cx, path, is.as_bytes(), fs::Owner::default())?;
            } else if *file == LIST {
                fs::write(cx, path, EMPTY.as_bytes(), fs::Owner::default())?;
            }
        }
        Ok(removed)
    }
}

/// Returns a parsed line. A line that begins like a source and is malformed is logged and kept
/// unchanged, so that nothing is lost.
fn kept(text: &str) -> Line {
    Line::parse(text).unwrap_or_else(|problem| {
        log::error(format_args!("{problem}"));
        Line {
            text: text.to_owned(),
            invalid: true,
            ..Line::default()
        }
    })
}

fn same_place(one: &Entry, other: &Entry) -> bool {
    matches!(one.form, Form::Line(_))
        && one.architectures() == other.architectures()
        && one.disabled() == other.disabled()
        && one.kinds() == other.kinds()
        && one.uris() == other.uris()
        && one.suites() == other.suites()
}

fn add_comps(entry: &mut Entry, comps: Vec<String>) {
    if let Form::Line(line) = &mut entry.form {
        let new = comps.into_iter();
        let known = line.comps.clone();
        line.comps.extend(new.filter(|comp| !known.contains(comp)));
    }
}
