//! The changes of `pkg.mod_repo` and `pkg.del_repo` to the sources in memory, before anything is
//! written.

use value::{Map, Value};

use super::entry::{Entry, Form};
use super::line::Line;
use super::section::Section;
use super::sources::{LIST, Sources};

impl Sources {
    /// Returns the entry that has a line's type, address, suite and at least one of its components,
    /// as `pkg.get_repo` does.
    pub(super) fn find(&self, line: &Line) -> Option<Map> {
        let shares = |entry: &&Entry| {
            let comps = entry.comps();
            line.comps.is_empty() || line.comps.iter().any(|comp| comps.contains(comp))
        };
        let entry = self
            .entries
            .iter()
            .filter(|entry| entry.is_source() && entry.holds(line))
            .find(shares)?;
        let bare = |uri: &str| uri.trim_end_matches('/').to_owned();
        entry.to_maps().into_iter().find(|one| {
            let text = |key: &str| one.get(key).map(Value::to_text).unwrap_or_default();
            text("type") == line.kind
                && text("dist") == line.dist
                && bare(&text("uri")) == bare(&line.uri)
        })
    }

    /// Changes the entry that a definition refers to, or adds one. `kwargs` are those of
    /// `pkg.mod_repo`.
    ///
    /// # Errors
    /// When the definition is not a source, or names no key although only the definition can.
    pub(super) fn modify(&mut self, repo: &str, kwargs: &Map, apt_key: bool) -> Result<(), String> {
        let line = definition(repo)?;
        let settings = settings(&line, kwargs);
        let comment = kwargs
            .get("comments")
            .map(crate::exec::pkg::repositories::one_comment);
        let place = match self.place(&line, &settings) {
            Some(place) => place,
            None => {
                let trusted = kwargs.get("trusted").map_or_else(
                    || line.trusted == Some(true),
                    |given| super::is_yes(&given.to_text()),
                );
                if !apt_key && line.signedby.is_empty() && !trusted {
                    return Err(
                        "missing 'signedby' or 'trusted' option when apt-key is missing".to_owned(),
                    );
                }
                self.entries.push(new_entry(repo, &line, kwargs));
                self.entries.len() - 1
            }
        };
        let Some(entry) = self.entries.get_mut(place) else {
            return Ok(());
        };
        if let Some(comment) = comment {
            entry.set_comment(&comment);
        }
        // The options of the definition are the ones that are written.
        if let Form::Line(old) = &mut entry.form {
            repo.clone_into(&mut old.text);
        }
        for (name, value) in &settings {
            let name = name.to_text();
            let empty = value.as_list().is_some_and(<[Value]>::is_empty);
            if name != "architectures" || !empty || !entry.architectures().is_empty() {
                entry.set(&name, value);
            }
        }
        if !kwargs.contains("uri") {
            entry.respell(&line.uri);
        }
        if let Form::Line(now) = &mut entry.form {
            now.text = now.written();
        }
        Ok(())
    }

    /// Returns the entry to change: of the same type, address and suite (or of the type and suite
    /// given by name), with a component in common, or with none, or for other architectures.
    fn place(&self, line: &Line, settings: &Map) -> Option<usize> {
        let given = |name: &str| settings.get(name).map(Value::to_text);
        let all = settings.get("all_comps").map(super::texts);
        let all = all.unwrap_or_default();
        let architectures = settings.get("architectures").map(super::texts);
        let means = |entry: &Entry| {
            let named = match (given("type"), given("dist")) {
                (Some(kind), Some(dist)) => {
                    entry.kinds().contains(&kind) && entry.suites().contains(&dist)
                }
                _ => false,
            };
            let comps = entry.comps();
            (entry.holds(line) || named)
                && (comps.is_empty()
                    || all.iter().any(|comp| comps.contains(comp))
                    || architectures
                        .as_ref()
                        .is_some_and(|these| *these != entry.architectures()))
        };
        self.entries
            .iter()
            .position(|entry| entry.is_source() && means(entry))
    }

    /// Removes a definition: its suite if it names all components of an entry, else only these
    /// components. Returns the files that contained it.
    ///
    /// # Errors
    /// When the definition is invalid.
    pub(super) fn remove(&mut self, repo: &str, is_ppa: bool) -> Result<Vec<String>, String> {
        let line = Line::parse(repo)?;
        let mut files = Vec::new();
        let mut left = Vec::new();
        for mut entry in std::mem::take(&mut self.entries) {
            let own = entry.holds(&line) && entry.architectures() == line.architectures;
            // The sources of a PPA are removed with it.
            let sources = is_ppa && {
                let kind = "deb-src".to_owned();
                entry.holds(&Line {
                    kind,
                    ..line.clone()
                })
            };
            let taken = entry.is_source() && (own || sources);
            if taken && take_out(&mut entry, &line) && !files.contains(&entry.file) {
                files.push(entry.file.clone());
            }
            if !taken || !is_empty(&entry, &line) {
                left.push(entry);
            }
        }
        self.entries = left;
        Ok(files)
    }
}

/// Parses a definition that must be a source.
///
/// # Errors
/// When it is not a source.
pub(super) fn definition(repo: &str) -> Result<Line, String> {
    let line = Line::parse(repo)?;
    match line.invalid {
        false => Ok(line),
        true => Err(format!(
            "Name {repo} is not valid. This must be the complete repo entry as seen in the sources file"
        )),
    }
}

/// Returns the properties to set, in the given order, including those from the definition.
fn settings(line: &Line, kwargs: &Map) -> Map {
    let texts = |texts: &[String]| Value::list(texts.iter().map(|text| text.as_str().into()));
    let mut all = Map::new();
    for (name, value) in kwargs {
        let value = match name.to_text().as_str() {
            "comps" | "architectures" | "uris" | "suites" | "types" => texts(&super::texts(value)),
            "disabled" => crate::exec::pkg::repositories::is_true(value).into(),
            "enabled" if kwargs.contains("disabled") => continue,
            "enabled" => {
                all.insert("disabled", !crate::exec::pkg::repositories::is_true(value));
                continue;
            }
            "signedby" => continue,
            _ => value.clone(),
        };
        all.insert(name.clone(), value);
    }
    all.insert("signedby", line.signedby.as_str());
    all.entry("comps", || texts(&line.comps));
    all.entry("architectures", || texts(&line.architectures));
    let mut comps = line.comps.clone();
    comps.extend(all.get("comps").map(super::texts).unwrap_or_default());
    all.insert("all_comps", texts(&comps));
    all
}

fn new_entry(repo: &str, line: &Line, kwargs: &Map) -> Entry {
    let file = kwargs.get("file").filter(|file| file.is_true());
    let file = file.map_or_else(|| LIST.to_owned(), Value::to_text);
    if !file.ends_with(".sources") {
        let mut line = line.clone();
        repo.clone_into(&mut line.text);
        let form = Form::Line(line);
        return Entry { file, form };
    }
    let mut section = Section::default();
    section.set("Types", line.kind.clone());
    section.set("URIs", line.uri.clone());
    section.set("Suites", line.dist.clone());
    section.set("Components", line.comps.join(" "));
    if line.trusted == Some(true) && !kwargs.contains("trusted") {
        section.set("Trusted", "yes".to_owned());
    }
    let form = Form::Section(section);
    Entry { file, form }
}

/// Removes a definition's parts from an entry. Returns false when the entry had none of them.
fn take_out(entry: &mut Entry, line: &Line) -> bool {
    let comps = entry.comps();
    let has = |comp: &String| comps.contains(comp);
    if comps.len() == line.comps.len() && line.comps.iter().all(has) {
        entry.remove_suite(&line.dist);
        return true;
    }
    let common = line.comps.iter().any(has);
    if common {
        let left = comps.iter().filter(|comp| !line.comps.contains(comp));
        let left = Value::list(left.map(|comp| comp.as_str().into()));
        entry.set("comps", &left);
    }
    common
}

/// Returns true when an entry has no suite or component left.
fn is_empty(entry: &Entry, line: &Line) -> bool {
    entry.suites().is_empty() || (entry.comps().is_empty() && !line.comps.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(lines: &[&str]) -> Sources {
        let entries = lines.iter().map(|text| Entry {
            file: "/x.list".to_owned(),
            form: Form::Line(Line::parse(text).unwrap()),
        });
        Sources {
            entries: entries.collect(),
        }
    }

    fn written(sources: &Sources) -> Vec<String> {
        sources.entries.iter().map(Entry::written).collect()
    }

    #[test]
    fn a_definition_takes_the_place_of_the_entry_that_it_means() {
        let mut all = sources(&["deb http://x/ a main # mine", "deb http://y a main"]);
        let kwargs = crate::testing::json(r#"{"comps": "main, extra", "disabled": "no"}"#);
        all.modify("deb [arch=amd64] http://x a main", &kwargs, true)
            .unwrap();
        assert_eq!(
            written(&all),
            [
                "deb [arch=amd64] http://x a main extra # mine",
                "deb http://y a main"
            ]
        );
        let error = all.modify("deb http://z ./", &Map::new(), false);
        assert!(error.unwrap_err().starts_with("missing 'signedby'"));
        all.modify("deb [trusted=yes] http://z ./", &Map::new(), false)
            .unwrap();
        assert_eq!(written(&all)[2], "deb [trusted=yes] http://z ./");
    }

    #[test]
    fn what_is_removed_is_a_suite_or_components() {
        let mut all = sources(&["deb http://x a main extra", "deb http://x b main"]);
        assert_eq!(
            all.remove("deb http://x/ a main", false).unwrap(),
            ["/x.list"]
        );
        assert_eq!(
            all.remove("deb http://x b main", false).unwrap(),
            ["/x.list"]
        );
        assert_eq!(written(&all), ["deb http://x a extra"]);
        assert!(all.remove("deb http://x c main", false).unwrap().is_empty());
    }

    #[test]
    fn a_suite_goes_out_of_a_section_that_has_others() {
        let section = Section::parse("Types: deb\nURIs: http://x\nSuites: a b\nComponents: main\n");
        let entry = Entry {
            file: "/x.sources".to_owned(),
            form: Form::Section(section),
        };
        let mut all = Sources {
            entries: vec![entry],
        };
        all.remove("deb http://x a main", false).unwrap();
        assert!(written(&all)[0].contains("Suites: b\n"));
        all.remove("deb http://x b main", false).unwrap();
        assert!(all.entries.is_empty());
    }
}
