//! One section of a deb822 `.sources` file: tags with values, comments before and after.

/// A section. The names of tags are case-insensitive.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    tags: Vec<(String, String)>,
    /// The comments before the first tag.
    pub(super) header: Vec<String>,
    footer: Vec<String>,
}

impl Section {
    /// Parses a section.
    pub(super) fn parse(text: &str) -> Self {
        let mut section = Self::default();
        for line in text.lines() {
            if line.starts_with('#') {
                let comments = match section.tags.is_empty() {
                    true => &mut section.header,
                    false => &mut section.footer,
                };
                comments.push(line.to_owned());
            } else if let Some((name, value)) = tag(line) {
                section.tags.push((name.to_owned(), value.to_owned()));
            } else if let Some((_, value)) = section.tags.last_mut() {
                value.push('\n');
                value.push_str(line);
            }
        }
        for (_, value) in &mut section.tags {
            *value = value.trim().to_owned();
        }
        section
    }

    /// Parses the sections of a file, which empty lines separate.
    pub(super) fn all(text: &str) -> Vec<Self> {
        let (mut sections, mut open) = (Vec::new(), String::new());
        for line in text.lines().chain([""]) {
            if !line.trim().is_empty() {
                open.push_str(line);
                open.push('\n');
            } else if !open.is_empty() {
                sections.push(Self::parse(&std::mem::take(&mut open)));
            }
        }
        sections
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut tags = self.tags.iter();
        let found = tags.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn words(&self, name: &str) -> Vec<String> {
        let words = self.get(name).unwrap_or_default().split_whitespace();
        words.map(str::to_owned).collect()
    }

    pub(super) fn set(&mut self, name: &str, value: String) {
        let mut tags = self.tags.iter_mut();
        match tags.find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, known)) => *known = value,
            None => self.tags.push((name.to_owned(), value)),
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.tags
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tags.is_empty()
    }

    /// Sets the comment before the section. A `#` is added to the lines if necessary.
    pub(super) fn set_comment(&mut self, comment: &str) {
        let marked = comment.lines().all(|line| line.starts_with('#'));
        let mark = if marked { "" } else { "#" };
        self.header = comment
            .lines()
            .map(|line| format!("{mark}{line}"))
            .collect();
    }

    /// Returns the section's text.
    pub(super) fn written(&self) -> String {
        let tags =
            self.tags.iter().filter(|(_, value)| !value.is_empty()).map(
                |(name, value)| match value.contains('\n') {
                    // A key in the section itself begins on the line after the tag's name.
                    true => format!("{name}:\n {value}"),
                    false => format!("{name}: {value}"),
                },
            );
        let lines: Vec<String> = self
            .header
            .iter()
            .cloned()
            .chain(tags)
            .chain(self.footer.iter().cloned())
            .collect();
        lines.join("\n").trim().to_owned()
    }
}

/// Splits `Name: value`. The name must not contain spaces.
fn tag(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let whole = !name.is_empty() && !name.contains(char::is_whitespace);
    whole.then_some((name, value.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_read_and_written_with_comments_and_long_values() {
        let text = "# ours\nTypes: deb\nURIs: http://x\nsigned-by:\n -----BEGIN\n .\n abc\n\n \n# only words\n\nTypes: deb-src\nSuites: a b\n";
        let all = Section::all(text);
        assert_eq!(all.len(), 3);
        assert_eq!(all[0].get("Signed-By"), Some("-----BEGIN\n .\n abc"));
        assert_eq!(
            all[0].written(),
            "# ours\nTypes: deb\nURIs: http://x\nsigned-by:\n -----BEGIN\n .\n abc"
        );
        assert!(all[1].is_empty());
        assert_eq!(all[2].words("suites"), ["a", "b"]);
    }

    #[test]
    fn a_tag_is_set_in_its_place_and_empty_ones_are_left_out() {
        let mut section = Section::parse("Types: deb\nsuites: a\n");
        section.set("Suites", "b".to_owned());
        section.set("Signed-By", String::new());
        section.set_comment("one\ntwo");
        assert_eq!(section.written(), "#one\n#two\nTypes: deb\nsuites: b");
    }
}
