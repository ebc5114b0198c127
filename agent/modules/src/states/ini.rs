//! The `ini` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::ini::document::before_after;
use crate::exec::ini::file::{File, Layout};

state::state_module! {
    /// Manage INI files.
    #[facts(effects = Effects::Files(&["name"]))]
    mod ini;

    /// Make sure that options have the given values. Missing sections are created.
    ///
    ///     /etc/app.ini:
    ///       ini.options_present:
    ///         - sections:
    ///             server:
    ///               port: 8080
    fn options_present(OptionsPresent {
        /// The file.
        name: String,
        /// A dictionary of sections with their options. Options at the top level go before all
        /// sections.
        sections: Option<Map> = None,
        /// The separator between an option and its value.
        separator: String = "=".into(),
        /// True to remove all other options and sections.
        strict: bool = false,
        /// The encoding of the file.
        encoding: Option<String> = None,
        /// True to write the separator without spaces around it, in the whole file.
        no_spaces: bool = false,
    });

    /// Make sure that options do not exist.
    ///
    ///     /etc/app.ini:
    ///       ini.options_absent:
    ///         - sections:
    ///             server: [port]
    fn options_absent(OptionsAbsent {
        /// The file.
        name: String,
        /// A dictionary of sections with a list of options each.
        sections: Option<Map> = None,
        /// The separator between an option and its value.
        separator: String = "=".into(),
        /// The encoding of the file.
        encoding: Option<String> = None,
    });

    /// Make sure that sections exist. Missing ones are created empty.
    ///
    ///     /etc/app.ini:
    ///       ini.sections_present:
    ///         - sections:
    ///             server:
    ///               port: 8080
    fn sections_present(SectionsPresent {
        /// The file.
        name: String,
        /// The names of the sections.
        sections: Value = Value::Null,
        /// The separator between an option and its value.
        separator: String = "=".into(),
        /// The encoding of the file.
        encoding: Option<String> = None,
    });

    /// Make sure that sections do not exist.
    ///
    ///     /etc/app.ini:
    ///       ini.sections_absent:
    ///         - sections: [server]
    fn sections_absent(SectionsAbsent {
        /// The file.
        name: String,
        /// The names of the sections.
        sections: Value = Value::Null,
        /// The separator between an option and its value.
        separator: String = "=".into(),
        /// The encoding of the file.
        encoding: Option<String> = None,
    });
}

const NOTHING: &str = "No anomaly detected";

/// The result of test mode: a line for each examined option, and whether anything would change.
#[derive(Default)]
struct Forecast {
    lines: String,
    changes: bool,
}

impl Forecast {
    fn say(&mut self, change: bool, line: &str) {
        self.lines.push_str(line);
        self.lines.push('\n');
        self.changes |= change;
    }

    fn compare(&mut self, now: Option<&Value>, wanted: &Value, option: &str) {
        let same = now.is_some_and(|now| now.to_text() == wanted.to_text());
        let word = if same { "Unchanged" } else { "Changed" };
        self.say(!same, &format!("{word} key {option}."));
    }

    fn ret(self, nothing: &str) -> Ret {
        let comment = if self.lines.is_empty() {
            nothing
        } else {
            &self.lines
        };
        if self.changes {
            Ret::would(comment)
        } else {
            Ret::ok(comment)
        }
    }
}

/// Returns the result of a change. Empty entries in `changes` are removed.
fn done(mut changes: Map) -> Ret {
    changes.retain(|_, change| change.is_true());
    if changes.is_empty() {
        Ret::ok(NOTHING)
    } else {
        Ret::ok("Changes take effect").changes(changes)
    }
}

fn layout(separator: &str, encoding: Option<&str>, no_spaces: bool) -> Layout {
    Layout {
        separator: separator.to_owned(),
        encoding: encoding.map(str::to_owned),
        no_spaces,
    }
}

fn options_present(cx: &Exec, args: OptionsPresent) -> Result<Ret, Error> {
    let layout = layout(&args.separator, args.encoding.as_deref(), args.no_spaces);
    let mut file = File::read(&args.name, &layout)?;
    let sections = args.sections.unwrap_or_default();
    let is_section = |value: &Value| matches!(value, Value::Map(_));
    let part = |wanted: bool| -> Vec<(String, Value)> {
        let part = sections.iter().filter(|(_, v)| is_section(v) == wanted);
        part.map(|(k, v)| (k.to_text(), v.clone())).collect()
    };
    let wanted = Wanted {
        options: part(false).into_iter().collect(),
        sections: part(true).into_iter().collect(),
        strict: args.strict && !sections.is_empty(),
    };
    if cx.test {
        return Ok(wanted.forecast(&file.contents.plain()).ret(""));
    }
    let changes = wanted.apply(&mut file)?;
    file.write(cx)?;
    Ok(done(changes))
}

/// The options and sections that `options_present` writes to a file.
struct Wanted {
    options: Map,
    sections: Map,
    strict: bool,
}

fn keys_of(section: Option<&Value>) -> Vec<String> {
    let options = section.and_then(Value::as_map);
    options
        .into_iter()
        .flat_map(Map::keys)
        .map(Value::to_text)
        .collect()
}

impl Wanted {
    /// Returns the entries at the top level that `strict` removes: the sections if `sections` is
    /// true, otherwise the options.
    fn surplus(&self, now: &Map, sections: bool) -> Vec<(String, Value)> {
        let kept = if sections {
            &self.sections
        } else {
            &self.options
        };
        now.iter()
            .filter(|(name, value)| {
                self.strict
                    && matches!(value, Value::Map(_)) == sections
                    && !kept.contains_value(name)
            })
            .map(|(name, value)| (name.to_text(), value.clone()))
            .collect()
    }

    /// Returns the options of a section that `strict` removes.
    fn surplus_in(&self, now: &Map, section: &str, wanted: &Value) -> Vec<String> {
        let kept = keys_of(Some(wanted));
        let mut names = keys_of(now.get(section));
        names.retain(|name| self.strict && !kept.contains(name));
        names
    }

    fn forecast(&self, now: &Map) -> Forecast {
        let mut said = Forecast::default();
        for (name, value) in &self.options {
            let now = now.get_value(name).filter(|now| now.as_str().is_some());
            said.compare(now, value, &name.to_text());
        }
        for (kind, sections) in [("key", false), ("section", true)] {
            for (name, _) in self.surplus(now, sections) {
                said.say(true, &format!("Removed {kind} {name}."));
            }
        }
        for (section, wanted) in &self.sections {
            let name = section.to_text();
            let place = place_of(&name);
            for option in self.surplus_in(now, &name, wanted) {
                said.say(true, &format!("Deleted key {option}{place}."));
            }
            for (option, value) in wanted.as_map().into_iter().flatten() {
                let option = option.to_text();
                let now = now.get(&name).and_then(|section| section.get(&option));
                said.compare(now, value, &format!("{option}{place}"));
            }
        }
        said
    }

    fn apply(&self, file: &mut File<'_>) -> Result<Map, Error> {
        let before = file.contents.plain();
        let mut changes = file.contents.update(&self.options)?;
        file.reread();
        for sections in [false, true] {
            for (name, value) in self.surplus(&before, sections) {
                file.contents.remove(&name);
                file.reread();
                changes.insert(name, before_after(Some(value), Value::Null));
            }
        }
        for (section, wanted) in &self.sections {
            let name = section.to_text();
            let mut changed = Map::new();
            for option in self.surplus_in(&before, &name, wanted) {
                let had = file.contents.remove_option(&name, &option);
                file.reread();
                changed.insert(option, before_after(had, Value::Null));
            }
            let one: Map = [(section.clone(), wanted.clone())].into_iter().collect();
            let updated = file.contents.update(&one)?;
            file.reread();
            if let Some(Value::Map(updated)) = updated.get(&name) {
                changed.update(updated.clone());
            }
            changes.insert(name, changed);
        }
        Ok(changes)
    }
}

fn place_of(section: &str) -> String {
    if section.is_empty() {
        String::new()
    } else {
        format!(" in section {section}")
    }
}

fn options_absent(cx: &Exec, args: OptionsAbsent) -> Result<Ret, Error> {
    let layout = layout(&args.separator, args.encoding.as_deref(), false);
    let mut file = File::read(&args.name, &layout)?;
    let (mut changes, mut said) = (Map::new(), Forecast::default());
    for (section, options) in &args.sections.unwrap_or_default() {
        let name = section.to_text();
        let (section, options) = unwanted(&name, options);
        for option in options {
            let had = file.contents.remove_option(section, &option);
            file.reread();
            let had = had.filter(Value::is_true);
            let place = place_of(section);
            let Some(had) = had else {
                said.say(false, &format!("Key {option}{place} does not exist."));
                continue;
            };
            said.say(true, &format!("Deleted key {option}{place}."));
            if section.is_empty() {
                changes.insert(option, had);
            } else if let Value::Map(removed) = changes.entry(name.as_str(), || Map::new().into()) {
                removed.insert(option, had);
            }
        }
    }
    if cx.test {
        return Ok(said.ret("No changes detected."));
    }
    if file.existed() {
        file.write(cx)?;
    }
    Ok(done(changes))
}

/// Returns a section and the options to remove from it. An entry without a list of options is
/// itself an option before all sections.
fn unwanted<'a>(name: &'a str, options: &Value) -> (&'a str, Vec<String>) {
    match options {
        Value::List(options) => (name, options.iter().map(Value::to_text).collect()),
        Value::Map(_) => (name, keys_of(Some(options))),
        _ => ("", vec![name.to_owned()]),
    }
}

/// Returns the names in a list, the keys of a dictionary, or a single name.
fn names(sections: &Value) -> Vec<String> {
    match sections {
        Value::Null => Vec::new(),
        Value::Map(map) => map.keys().map(Value::to_text).collect(),
        other => match other.as_list() {
            Some(items) => items.iter().flat_map(names).collect(),
            None => vec![other.to_text()],
        },
    }
}

fn sections_present(cx: &Exec, args: SectionsPresent) -> Result<Ret, Error> {
    let layout = layout(&args.separator, args.encoding.as_deref(), false);
    let mut file = File::read(&args.name, &layout)?;
    let sections = names(&args.sections);
    if cx.test {
        let mut said = Forecast::default();
        for section in sections {
            let there = file.contents.get(&section).is_some();
            let word = if there {
                "Section unchanged"
            } else {
                "Created new section"
            };
            said.say(!there, &format!("{word} {section}."));
        }
        return Ok(said.ret("No changes detected."));
    }
    let wanted: Map = sections
        .into_iter()
        .map(|name| (name, Map::new()))
        .collect();
    let changes = file.contents.update(&wanted)?;
    file.write(cx)?;
    Ok(done(changes))
}

fn sections_absent(cx: &Exec, args: SectionsAbsent) -> Result<Ret, Error> {
    let layout = layout(&args.separator, args.encoding.as_deref(), false);
    let mut file = File::read(&args.name, &layout)?;
    let (mut changes, mut said) = (Map::new(), Forecast::default());
    for name in names(&args.sections) {
        let Some(section) = file.contents.section(&name) else {
            said.say(false, &format!("Section {name} does not exist."));
            continue;
        };
        changes.insert(name.as_str(), section.plain());
        file.contents.remove(&name);
        said.say(true, &format!("Deleted section {name}."));
    }
    if cx.test {
        return Ok(said.ret("No changes detected."));
    }
    if changes.is_empty() {
        return Ok(Ret::ok(NOTHING));
    }
    file.write(cx)?;
    Ok(Ret::ok("Changes take effect").changes(changes))
}
