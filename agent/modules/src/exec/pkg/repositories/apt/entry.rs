//! One source of APT in either format, and the operations that both formats share.

use value::{Map, Value};

use super::line::Line;
use super::section::Section;

/// A source, or another line, with the file that contains it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) file: String,
    pub(super) form: Form,
}

/// The format of a source.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Line(Line),
    Section(Section),
}

fn list(text: &str) -> Vec<String> {
    match text.is_empty() {
        true => Vec::new(),
        false => vec![text.to_owned()],
    }
}

impl Entry {
    /// Returns true if it is a source.
    pub(super) fn is_source(&self) -> bool {
        match &self.form {
            Form::Line(line) => !line.invalid,
            Form::Section(section) => !section.is_empty(),
        }
    }

    pub(super) fn disabled(&self) -> bool {
        match &self.form {
            Form::Line(line) => line.disabled,
            Form::Section(section) => section.get("Enabled").is_some_and(super::is_no),
        }
    }

    pub(super) fn kinds(&self) -> Vec<String> {
        match &self.form {
            Form::Line(line) => list(&line.kind),
            Form::Section(section) => section.words("Types"),
        }
    }

    pub(super) fn uris(&self) -> Vec<String> {
        match &self.form {
            Form::Line(line) => list(&line.uri),
            Form::Section(section) => section.words("URIs"),
        }
    }

    pub(super) fn suites(&self) -> Vec<String> {
        match &self.form {
            Form::Line(line) => list(&line.dist),
            Form::Section(section) => section.words("Suites"),
        }
    }

    pub(super) fn comps(&self) -> Vec<String> {
        match &self.form {
            Form::Line(line) => line.comps.clone(),
            Form::Section(section) => section.words("Components"),
        }
    }

    pub(super) fn architectures(&self) -> Vec<String> {
        match &self.form {
            Form::Line(line) => line.architectures.clone(),
            Form::Section(section) => section.words("Architectures"),
        }
    }

    fn signedby(&self) -> Option<&str> {
        match &self.form {
            Form::Line(line) => Some(&line.signedby),
            Form::Section(section) => section.get("Signed-By"),
        }
    }

    /// Returns the text of the entry for its file.
    pub(super) fn written(&self) -> String {
        match &self.form {
            Form::Line(line) => line.written(),
            Form::Section(section) => section.written(),
        }
    }

    /// Returns the one-line form of the source for one type, address and suite.
    fn line(&self, kind: &str, uri: &str, suite: &str) -> String {
        let section = match &self.form {
            Form::Line(line) => return line.text.trim().to_owned(),
            Form::Section(section) => section,
        };
        let line = Line {
            disabled: self.disabled(),
            kind: kind.to_owned(),
            uri: uri.to_owned(),
            dist: suite.to_owned(),
            comps: self.comps(),
            architectures: self.architectures(),
            signedby: section.get("Signed-By").unwrap_or_default().to_owned(),
            trusted: section.get("Trusted").map(super::is_yes),
            ..Line::default()
        };
        line.written()
    }

    /// Returns every combination of type, address and suite as `pkg.list_repos` shows it: addresses
    /// first, then suites.
    pub(super) fn to_maps(&self) -> Vec<Map> {
        let mut all = Vec::new();
        if !self.is_source() {
            return all;
        }
        for uri in self.uris() {
            for suite in self.suites() {
                for kind in self.kinds() {
                    all.push(self.to_map(&kind, &uri, &suite));
                }
            }
        }
        all
    }

    fn to_map(&self, kind: &str, uri: &str, suite: &str) -> Map {
        let texts = |texts: Vec<String>| Value::list(texts.into_iter().map(Value::from));
        Map::new()
            .with("file", self.file.as_str())
            .with("comps", texts(self.comps()))
            .with("disabled", self.disabled())
            .with("enabled", !self.disabled())
            .with("dist", suite)
            .with("suites", texts(self.suites()))
            .with("type", kind)
            .with("types", texts(self.kinds()))
            .with("uri", uri)
            .with("uris", texts(self.uris()))
            .with("line", self.line(kind, uri, suite))
            .with("architectures", texts(self.architectures()))
            .with("signedby", self.signedby().map_or(Value::Null, Value::from))
    }

    /// Returns true when it contains the type, address and suite of a line.
    pub(super) fn holds(&self, line: &Line) -> bool {
        let bare = |uri: &str| uri.trim_end_matches('/').to_owned();
        self.kinds().contains(&line.kind)
            && self.suites().contains(&line.dist)
            && self.uris().iter().any(|uri| bare(uri) == bare(&line.uri))
    }

    /// Changes the notation of one of its addresses: with or without a slash at the end.
    pub(super) fn respell(&mut self, uri: &str) {
        match &mut self.form {
            Form::Line(line) => uri.clone_into(&mut line.uri),
            Form::Section(section) => {
                let same = |known: &str| known.trim_end_matches('/') == uri.trim_end_matches('/');
                let mut uris = section.words("URIs");
                for known in uris.iter_mut().filter(|known| same(known)) {
                    uri.clone_into(known);
                }
                section.set("URIs", uris.join(" "));
            }
        }
    }

    /// Removes one suite.
    pub(super) fn remove_suite(&mut self, suite: &str) {
        match &mut self.form {
            Form::Line(line) => line.dist.clear(),
            Form::Section(section) => {
                let mut left = section.words("Suites");
                left.retain(|known| known != suite);
                section.set("Suites", left.join(" "));
            }
        }
    }

    /// Sets one of the properties that `pkg.mod_repo` may change. Other names are ignored.
    pub(super) fn set(&mut self, name: &str, value: &Value) {
        if name == "file" {
            self.file = value.to_text();
            return;
        }
        match &mut self.form {
            Form::Line(line) => set_in_line(line, name, value),
            Form::Section(section) => set_in_section(section, name, value),
        }
    }

    pub(super) fn set_comment(&mut self, comment: &str) {
        match &mut self.form {
            Form::Line(line) => comment.clone_into(&mut line.comment),
            Form::Section(section) => section.set_comment(comment),
        }
    }
}

fn set_in_line(line: &mut Line, name: &str, value: &Value) {
    match name {
        "uri" => line.uri = value.to_text(),
        "dist" => line.dist = value.to_text(),
        "comps" => line.comps = super::texts(value),
        "architectures" => line.architectures = super::texts(value),
        "disabled" => line.disabled = value.is_true(),
        "signedby" => line.signedby = value.to_text(),
        "trusted" => line.trusted = Some(super::is_yes(&value.to_text())),
        _ => {}
    }
}

fn set_in_section(section: &mut Section, name: &str, value: &Value) {
    let tag = match name {
        "uri" | "uris" => "URIs",
        "dist" | "suites" => "Suites",
        "comps" => "Components",
        "architectures" => "Architectures",
        "types" => "Types",
        "signedby" => "Signed-By",
        "trusted" => "Trusted",
        "disabled" => "Enabled",
        _ => return,
    };
    match name {
        "disabled" if !value.is_true() => section.remove(tag),
        "disabled" => section.set(tag, "no".to_owned()),
        "trusted" => {
            let yes = super::is_yes(&value.to_text());
            section.set(tag, if yes { "yes" } else { "no" }.to_owned());
        }
        "signedby" => section.set(tag, value.to_text()),
        _ => section.set(tag, super::texts(value).join(" ")),
    }
}
