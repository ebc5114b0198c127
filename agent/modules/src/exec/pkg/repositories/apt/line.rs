//! One line of a `.list` file: `deb [arch=amd64 signed-by=…] URI SUITE COMPONENT…`.

/// The parts of a line. A line that is not a source is kept unchanged.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    /// The original text. Its options are written again.
    pub(super) text: String,
    /// True if it is not a source, for example a comment or an empty line.
    pub(super) invalid: bool,
    /// True if it is commented out.
    pub(super) disabled: bool,
    /// `deb` or `deb-src`.
    pub(super) kind: String,
    pub(super) architectures: Vec<String>,
    pub(super) signedby: String,
    pub(super) trusted: Option<bool>,
    pub(super) uri: String,
    pub(super) dist: String,
    pub(super) comps: Vec<String>,
    /// The text after a `#` at the end.
    pub(super) comment: String,
}

impl Line {
    /// Parses a line.
    ///
    /// # Errors
    /// When it begins like a source but lacks an address or a suite.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut line = Self {
            text: text.to_owned(),
            ..Self::default()
        };
        let Some(mut words) = line.words() else {
            line.invalid = true;
            return Ok(line);
        };
        if words.get(1).is_some_and(|word| word.starts_with('[')) {
            line.take_options(&mut words);
        }
        let mut words = words.into_iter();
        match (words.next(), words.next(), words.next()) {
            (Some(kind), Some(uri), Some(dist)) => {
                (line.kind, line.uri, line.dist) = (kind, uri, dist);
                line.comps = words.collect();
                Ok(line)
            }
            (kind, uri, _) => {
                let short: Vec<String> = [kind, uri].into_iter().flatten().collect();
                Err(format!(
                    "Invalid repository definition: {}",
                    short.join(" ")
                ))
            }
        }
    }

    /// Returns the words of a source; `None` for any other line. Also notes whether the source is
    /// commented out, and the comment after it.
    fn words(&mut self) -> Option<Vec<String>> {
        let text = self.text.trim().to_owned();
        let bare = match text.strip_prefix('#') {
            Some(rest) => {
                self.disabled = true;
                rest
            }
            None => &text,
        };
        let bare = match bare.split_once('#') {
            Some((before, comment)) if !before.is_empty() => {
                comment.clone_into(&mut self.comment);
                before
            }
            _ => bare,
        };
        let words = split_disc(bare);
        let known = words
            .first()
            .is_some_and(|kind| matches!(kind.as_str(), "deb" | "deb-src" | "rpm" | "rpm-src"));
        let open = words.get(1).is_some_and(|word| word.starts_with('['))
            && !words.iter().skip(1).any(|word| word.ends_with(']'));
        (known && words.len() > 2 && !open).then_some(words)
    }

    fn take_options(&mut self, words: &mut Vec<String>) {
        for word in words.iter_mut() {
            *word = word.trim_matches(['[', ']']).to_owned();
        }
        words.retain(|word| !word.is_empty());
        for (name, full) in options(&self.text) {
            let value = full.split_once('=').map_or("", |(_, value)| value);
            match name.as_str() {
                "arch" => self
                    .architectures
                    .extend(value.split(',').map(str::to_owned)),
                "signedby" => value.clone_into(&mut self.signedby),
                "trusted" => self.trusted = Some(super::is_yes(value)),
                _ => {}
            }
            if let Some(place) = words.iter().position(|word| *word == full) {
                words.remove(place);
            }
        }
    }

    /// Returns the line's new text: the options of the original text, changed to the values of the
    /// fields.
    pub(super) fn written(&self) -> String {
        if self.invalid {
            return self.text.trim().to_owned();
        }
        let mut all = options(&self.text);
        if !self.architectures.is_empty() {
            set_option(&mut all, "arch", "arch", &self.architectures.join(","));
        }
        if !self.signedby.is_empty() {
            set_option(&mut all, "signedby", "signed-by", &self.signedby);
        }
        if self.trusted == Some(true) {
            set_option(&mut all, "trusted", "trusted", "yes");
        }
        all.retain(|(_, full)| full != "trusted=no");
        let mut words = Vec::new();
        if self.disabled {
            words.push("#".to_owned());
        }
        words.push(self.kind.clone());
        if !all.is_empty() {
            let options: Vec<String> = all.into_iter().map(|(_, full)| full).collect();
            words.push(format!("[{}]", options.join(" ")));
        }
        words.extend([self.uri.clone(), self.dist.clone(), self.comps.join(" ")]);
        if !self.comment.is_empty() {
            words.push(format!("#{}", self.comment));
        }
        words.join(" ").trim().to_owned()
    }
}

impl Line {
    /// Returns the meaning of the line, independent of the order of its options and components, and
    /// on request with its comment.
    pub(super) fn says(&self, with_comment: bool) -> (Vec<String>, bool) {
        let mut options: Vec<String> = options(&self.text).into_iter().map(|o| o.1).collect();
        let mut comps = self.comps.clone();
        value::sorted::sort(&mut options);
        value::sorted::sort(&mut comps);
        let mut all = vec![self.kind.clone(), self.uri.clone(), self.dist.clone()];
        all.push(options.join(" "));
        all.push(comps.join(" "));
        if with_comment {
            all.push(self.comment.trim().to_owned());
        }
        (all, self.disabled)
    }
}

/// Splits a line into words. The name of a disc (`cdrom:[…]/`) is one word, even if it contains
/// spaces.
fn split_disc(line: &str) -> Vec<String> {
    let owned = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let Some(start) = line.rfind("cdrom:") else {
        return owned(line);
    };
    let (before, disc) = line.split_at(start);
    let Some(end) = disc.rfind('/') else {
        return owned(line);
    };
    let (disc, after) = disc.split_at(end + 1);
    let mut words: Vec<String> = owned(before);
    words.push(disc.trim().to_owned());
    words.extend(owned(after));
    words
}

/// Returns the options in brackets, each with its name: `arch`, `signedby`, or the text before its
/// `=`.
fn options(line: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for full in bracketed(line).unwrap_or_default().split_whitespace() {
        let name = match full.split_once('=').map_or(full, |(name, _)| name) {
            name if name.starts_with("arch") => "arch",
            name if name.starts_with("signed-by") => "signedby",
            name => name,
        };
        let found = all.iter_mut().find(|(known, _)| known == name);
        match found {
            Some((_, known)) => full.clone_into(known),
            None => all.push((name.to_owned(), full.to_owned())),
        }
    }
    all
}

fn bracketed(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once('[')?;
    let equals = rest.find('=')?;
    let end = rest.get(equals..)?.find(']')?;
    Some(rest.get(..equals + end)?.trim_matches(['[', ']']))
}

fn set_option(all: &mut Vec<(String, String)>, name: &str, word: &str, value: &str) {
    let full = format!("{word}={value}");
    match all.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = full,
        None => all.push((name.to_owned(), full)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        Line::parse(text).unwrap().written()
    }

    #[test]
    fn a_line_is_written_with_its_options_and_comment() {
        let text = "deb [ arch=amd64,i386  signed-by=/k.gpg lang=none ] http://x/ stable  main contrib # why";
        assert_eq!(
            again(text),
            "deb [arch=amd64,i386 signed-by=/k.gpg lang=none] http://x/ stable main contrib # why"
        );
        let line = Line::parse(text).unwrap();
        assert_eq!(line.architectures, ["amd64", "i386"]);
        assert_eq!((&*line.signedby, &*line.uri), ("/k.gpg", "http://x/"));
        assert_eq!(again("deb [trusted=no] http://x ./"), "deb http://x ./");
    }

    #[test]
    fn comments_and_disabled_sources_are_told_apart() {
        assert!(Line::parse("# just words here").unwrap().invalid);
        assert!(Line::parse("  ").unwrap().invalid);
        assert!(Line::parse("deb [arch=amd64 http://x ./").unwrap().invalid);
        let line = Line::parse("#deb-src http://x stable main").unwrap();
        assert!(line.disabled && !line.invalid);
        assert_eq!(line.written(), "# deb-src http://x stable main");
        assert!(Line::parse("deb [arch=amd64] http://x").is_err());
    }

    #[test]
    fn a_disc_keeps_the_spaces_of_its_name() {
        let line = Line::parse("# deb cdrom:[Debian 12 _Book_ amd64]/ bookworm main").unwrap();
        assert_eq!(line.uri, "cdrom:[Debian 12 _Book_ amd64]/");
        assert_eq!(line.comps, ["main"]);
    }
}
