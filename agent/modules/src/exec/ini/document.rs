//! INI texts as Salt's `ini` module parses and prints them. This is not the language of Python's
//! `configparser`: options may precede all sections, the separator can be any text, and comments
//! and unknown lines are kept. The layout of the output is Salt's.

use python::text;
use state::module::Error;
use value::{Map, Value};

/// The value of a name. Comments and other lines without an option have names that start with `#`.
#[derive(Clone, Debug, PartialEq)]
enum Entry {
    Text(String),
    Section(Section),
}

/// A section, or the whole file. Its options precede its sections.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Section {
    separator: String,
    entries: Vec<(String, Entry)>,
}

fn is_mark(name: &str) -> bool {
    name.starts_with('#')
}

impl Entry {
    fn value(&self) -> Value {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Section(section) => section.all().into(),
        }
    }
}

impl Section {
    fn new(separator: &str) -> Self {
        Self {
            separator: separator.to_owned(),
            entries: Vec::new(),
        }
    }

    /// Parses an INI text.
    pub(crate) fn parse(contents: &str, separator: &str) -> Self {
        let mut file = Self::new(separator);
        let mut parts: Vec<(&str, Vec<&str>)> = vec![("", Vec::new())];
        for line in text::bare_lines(contents) {
            match (header(line), parts.last_mut()) {
                (Some(name), _) => parts.push((name, Vec::new())),
                (None, Some((_, lines))) => lines.push(line),
                (None, None) => {}
            }
        }
        let last = parts.len().saturating_sub(1);
        for (at, (name, lines)) in parts.into_iter().enumerate() {
            let lines = &trimmed(lines, at > 0, at < last);
            if at == 0 {
                file.read(lines);
                continue;
            }
            let mut section = Self::new(separator);
            section.read(lines);
            file.put_section(name, section);
        }
        file
    }

    fn read(&mut self, lines: &[&str]) {
        let (mut comments, mut unknown) = (0, 0);
        let mut indent = String::new();
        for line in lines {
            if is_comment(line) {
                comments += 1;
                self.set(format!("#comment{comments}"), (*line).to_owned());
            } else if self.continues(line, &indent) {
                if let Some((_, Entry::Text(value))) = self.entries.last_mut() {
                    *value = format!("{value}\n{line}");
                }
            } else if let Some((space, name, value)) = option_of(line, &self.separator) {
                indent = space.replace('\t', "    ");
                self.set(name.to_owned(), value.to_owned());
            } else {
                unknown += 1;
                self.set(format!("#unknown{unknown}"), (*line).to_owned());
            }
        }
    }

    /// Returns true if a line continues the previous value because it is indented further.
    fn continues(&self, line: &str, indent: &str) -> bool {
        let space = line.len() - line.trim_start().len();
        let space = line.get(..space).unwrap_or_default().replace('\t', "    ");
        !space.is_empty() && *space > *indent && !self.entries.is_empty()
    }

    /// Sets a name at its position, or at the end if it is new.
    fn set(&mut self, name: String, value: String) {
        match self.find_mut(&name) {
            Some(entry) => *entry = Entry::Text(value),
            None => self.entries.push((name, Entry::Text(value))),
        }
    }

    fn put_section(&mut self, name: &str, read: Self) {
        // Salt adds the options one by one, so an option that follows its commented-out form
        // replaces that comment.
        let mut section = Self::new(&self.separator);
        for (name, entry) in read.entries {
            section.add(name, entry);
        }
        match self.find_mut(name) {
            Some(Entry::Section(old)) => {
                for (name, entry) in section.entries {
                    match old.find_mut(&name) {
                        Some(there) => *there = entry,
                        None => old.add(name, entry),
                    }
                }
            }
            Some(other) => *other = Entry::Section(section),
            None => self
                .entries
                .push((name.to_owned(), Entry::Section(section))),
        }
    }

    /// Adds a new name: in place of the comment that contains it, or at the end.
    fn add(&mut self, name: String, entry: Entry) {
        let commented = self
            .entries
            .iter()
            .position(|(mark, entry)| match entry {
                Entry::Text(line) if mark.contains("#comment") => {
                    let line = line.trim_start_matches('#');
                    option_of(line, &self.separator).is_some_and(|(_, found, _)| found == name)
                }
                _ => false,
            })
            .filter(|_| matches!(entry, Entry::Text(_)));
        match commented.and_then(|at| self.entries.get_mut(at)) {
            Some(place) => *place = (name, entry),
            None => self.entries.push((name, entry)),
        }
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        let mut entries = self.entries.iter();
        entries
            .find(|(known, _)| known == name)
            .map(|(_, entry)| entry)
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut Entry> {
        let mut entries = self.entries.iter_mut();
        entries
            .find(|(known, _)| known == name)
            .map(|(_, entry)| entry)
    }

    /// Returns an option's value, or a section's options.
    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.find(name).map(Entry::value)
    }

    /// Returns a section.
    pub(crate) fn section(&self, name: &str) -> Option<&Self> {
        match self.find(name)? {
            Entry::Section(section) => Some(section),
            Entry::Text(_) => None,
        }
    }

    fn all(&self) -> Map {
        let entries = self.entries.iter();
        entries
            .map(|(name, entry)| (name.as_str(), entry.value()))
            .collect()
    }

    /// Returns options and sections, without comments.
    pub(crate) fn plain(&self) -> Map {
        let entries = self.entries.iter().filter(|(name, _)| !is_mark(name));
        entries
            .map(|(name, entry)| match entry {
                Entry::Text(text) => (name.as_str(), text.as_str().into()),
                Entry::Section(section) => (name.as_str(), Value::Map(section.plain())),
            })
            .collect()
    }

    /// Removes a name.
    pub(crate) fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(known, _)| known == name)?;
        Some(self.entries.remove(at).1.value())
    }

    /// Removes an option from a section. If there is no section of that name, removes it from the
    /// options before all sections.
    pub(crate) fn remove_option(&mut self, section: &str, name: &str) -> Option<Value> {
        match self.find_mut(section) {
            Some(Entry::Section(section)) => section.remove(name),
            _ => self.remove(name),
        }
    }

    /// Sets options and sections, and returns the changes.
    ///
    /// # Errors
    /// When a section would become an option.
    pub(crate) fn update(&mut self, wanted: &Map) -> Result<Map, Error> {
        let mut changes = Map::new();
        for (name, value) in wanted {
            let name = name.to_text();
            let separator = self.separator.clone();
            let change = match (self.find_mut(&name), value) {
                (Some(Entry::Section(section)), Value::Map(options)) => {
                    Some(section.update(options)?.into()).filter(Value::is_true)
                }
                (Some(Entry::Section(_)), _) => {
                    return Err(Error::refused(format!(
                        "'{name}' is a section and cannot become an option"
                    )));
                }
                (Some(entry), value) => {
                    let new = wanted_entry(value, &separator)?;
                    let change = before_after(Some(entry.value()), new.value());
                    (*entry != new).then(|| {
                        *entry = new;
                        change
                    })
                }
                (None, value) => {
                    let new = wanted_entry(value, &separator)?;
                    let change = before_after(None, new.value());
                    self.add(name.clone(), new);
                    Some(change)
                }
            };
            if let Some(change) = change {
                changes.insert(name, change);
            }
        }
        Ok(changes)
    }

    /// Returns the file's text.
    pub(crate) fn text(&self, no_spaces: bool) -> String {
        let mut out = String::new();
        self.write(&mut out, no_spaces);
        out
    }

    fn write(&self, out: &mut String, no_spaces: bool) {
        let mut separator = self.separator.clone();
        for (name, entry) in &self.entries {
            let line = match entry {
                Entry::Section(_) => continue,
                Entry::Text(line) if is_comment(name) => format!("{line}\n"),
                Entry::Text(value) => {
                    separator = written(&separator, no_spaces);
                    format!("{name}{separator}{value}\n")
                }
            };
            push(out, &line);
        }
        for (name, entry) in &self.entries {
            if let Entry::Section(section) = entry {
                push(out, &format!("\n[{name}]\n"));
                section.write(out, no_spaces);
            }
        }
    }
}

/// Appends a line. A file does not start with an empty line.
fn push(out: &mut String, line: &str) {
    let first = out.is_empty();
    out.push_str(if first {
        line.trim_start_matches('\n')
    } else {
        line
    });
}

fn wanted_entry(value: &Value, separator: &str) -> Result<Entry, Error> {
    let Value::Map(options) = value else {
        return Ok(Entry::Text(value.to_text()));
    };
    let mut section = Section::new(separator);
    section.update(options)?;
    Ok(Entry::Section(section))
}

/// Returns a change in the form that the `ini` functions return.
pub(crate) fn before_after(before: Option<Value>, after: impl Into<Value>) -> Value {
    Map::new()
        .with("before", before)
        .with("after", after)
        .into()
}

/// Returns the separator in its written form. As in Salt, a separator of spaces only (also a former
/// tab, on the second write) becomes one space.
fn written(separator: &str, no_spaces: bool) -> String {
    if separator.chars().all(|c| c == ' ') {
        " ".into()
    } else if no_spaces {
        separator.trim().into()
    } else {
        format!(" {} ", separator.trim())
    }
}

/// Returns the lines of a section without the empty ones that separate it from its header and the
/// next section.
fn trimmed(mut lines: Vec<&str>, below_header: bool, above_header: bool) -> Vec<&str> {
    let is_blank =
        |line: &&str, near_header: bool| line.is_empty() || (near_header && line.trim().is_empty());
    while lines
        .last()
        .is_some_and(|line| is_blank(line, above_header))
    {
        lines.pop();
    }
    let start = lines
        .iter()
        .take_while(|line| is_blank(line, below_header))
        .count();
    lines.split_off(start)
}

fn header(line: &str) -> Option<&str> {
    let name = line.trim().strip_prefix('[')?.strip_suffix(']')?;
    Some(name).filter(|name| !name.is_empty())
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with(['#', ';'])
}

/// Returns the space before an option, its name and its value.
fn option_of<'a>(line: &'a str, separator: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let most = line.len() - line.trim_start().len();
    let space = line.get(..most)?;
    // A name has at least one character, so the name in ` =x=y` is `=x`, and that in `  =x` is a
    // space.
    let starts = space.char_indices().map(|(at, _)| at).rev();
    std::iter::once(most).chain(starts).find_map(|start| {
        let rest = line.get(start..)?;
        let first = rest.chars().next()?.len_utf8();
        let at = first + rest.get(first..)?.find(separator)?;
        let name = rest.get(..at)?;
        let name = name.get(..name.trim_end().len().max(first))?;
        let value = rest.get(at + separator.len()..)?.trim_start();
        (!name.contains('\n')).then_some((line.get(..start)?, name, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        Section::parse(text, "=").text(false)
    }

    #[test]
    fn a_file_is_written_in_one_layout() {
        let text = "\n# top\na=1\n\n\n[s]\n\n  x =1\n     more\n;c\n\ny  =  2 \n \n[t]\nodd\n";
        let got = again(text);
        assert_eq!(
            got,
            "# top\na = 1\n\n[s]\nx = 1\n     more\n;c\n\ny = 2 \n\n[t]\nodd\n"
        );
        assert_eq!(again(&got), got);
    }

    #[test]
    fn options_are_found_as_the_regular_expression_finds_them() {
        assert_eq!(option_of("a = b = c", "="), Some(("", "a", "b = c")));
        assert_eq!(option_of("=x=y", "="), Some(("", "=x", "y")));
        assert_eq!(option_of("  =x", "="), Some((" ", " ", "x")));
        assert_eq!(option_of("a   b c", " "), Some(("", "a", "b c")));
        assert_eq!(option_of("nothing", "="), None);
    }
}
