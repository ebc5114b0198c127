//! The `uci` state module for OpenWrt's configuration. Salt has no such module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::uci::{
    Key, Section, change, committed, find, make, pending, sections, setting, stored,
};

state::state_module! {
    /// Manage OpenWrt's configuration (`uci`): sections and options in `/etc/config`. The changes
    /// of a state are committed. A service applies them if it watches the state.
    #[needs("uci", "OpenWrt's program uci is not in the path", "")]
    mod uci;

    /// Make sure that a section or option exists.
    ///
    ///     network.lan:
    ///       uci.present:
    ///         - type: interface
    ///         - options:
    ///             proto: static
    ///             ipaddr: 192.168.1.1
    fn present(Present {
        /// `config.section`, `config.section.option`, or `config` alone with `match`. A section is a name or `@type[number]`.
        name: String,
        /// The type of the section. It is required to create the section.
        r#type: Option<String> = None,
        /// The options of the section, each a text or a list. An option that is null is removed.
        options: Map = Map::new(),
        /// The value of the option that `name` names.
        value: Value = Value::Null,
        /// Options that identify a section of that type. If there is no such section, one with
        /// these options is created.
        r#match: Map = Map::new(),
        /// True to remove the section's other options.
        replace: bool = false,
    });

    /// Make sure that a section or option does not exist.
    ///
    ///     network.guest:
    ///       uci.absent
    fn absent(Absent {
        /// `config.section`, `config.section.option`, or `config` alone with `match`.
        name: String,
        /// The type of the sections that `match` finds.
        r#type: Option<String> = None,
        /// Options that identify the sections of that type.
        r#match: Map = Map::new(),
    });
}

/// The wanted state of a section.
struct Wanted<'a> {
    key: Key<'a>,
    kind: Option<String>,
    /// The options: texts and lists of texts. Null marks an option that must not exist.
    options: Map,
    /// The options that identify the section.
    by: Map,
    replace: bool,
}

/// A difference between the current and the wanted configuration.
struct Change {
    /// The key of the section or option, for the list of changes.
    key: String,
    old: Value,
    new: Value,
}

impl<'a> Wanted<'a> {
    fn read(args: &'a Present) -> Result<Self, Error> {
        let key = Key::read(&args.name)?;
        let by = as_stored(&args.r#match)?;
        is_whole(&key, args.r#type.as_deref(), &by)?;
        let mut options = by.clone();
        options.update(as_stored(&args.options)?);
        if let Some(option) = key.option {
            options.insert(option, stored(&args.value)?);
        }
        Ok(Self {
            key,
            kind: args.r#type.clone(),
            options,
            by,
            replace: args.replace,
        })
    }

    fn config(&self) -> &'a str {
        self.key.config
    }

    fn in_place<'s>(&self, all: &'s [Section]) -> Option<&'s Section> {
        match self.key.section {
            Some(name) => find(all, name),
            None => matching(all, self.kind.as_deref(), &self.by).next(),
        }
    }

    /// Returns the name of the section for comments.
    fn title(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or_default();
        match self.key.section {
            Some(name) => format!("{}.{name}", self.config()),
            None => format!("{}.@{kind}", self.config()),
        }
    }

    /// Returns the differences from an existing section, or from an empty one.
    fn changes(&self, section: Option<&Section>) -> Vec<Change> {
        let title = self.title();
        let none = Map::new();
        let there = section.map_or(&none, |section| &section.options);
        let kind = section.map(|section| section.kind.as_str());
        let mut changes = Vec::new();
        if let Some(wanted) = self.kind.as_deref().filter(|wanted| kind != Some(wanted)) {
            changes.push(Change::new(
                title.clone(),
                kind.map(Value::from).as_ref(),
                &wanted.into(),
            ));
        }
        for (option, new) in &self.options {
            let old = there.get_value(option);
            if old.unwrap_or(&Value::Null) != new {
                changes.push(Change::new(
                    format!("{title}.{}", option.to_text()),
                    old,
                    new,
                ));
            }
        }
        let others = there
            .iter()
            .filter(|(option, _)| self.replace && !self.options.contains_value(option));
        changes.extend(others.map(|(option, old)| {
            Change::new(
                format!("{title}.{}", option.to_text()),
                Some(old),
                &Value::Null,
            )
        }));
        changes
    }

    /// Returns the lines of a batch that makes these changes.
    fn lines(&self, section: Option<&Section>, changes: &[Change]) -> Vec<String> {
        let kind = self.kind.as_deref().unwrap_or_default();
        let title = self.title();
        let (mut lines, id) = match (section, self.key.section) {
            (Some(section), _) => (Vec::new(), section.id.clone()),
            (None, Some(name)) => (Vec::new(), name.to_owned()),
            (None, None) => (
                vec![format!("add {} {kind}", self.config())],
                format!("@{kind}[-1]"),
            ),
        };
        let place = format!("{}.{id}", self.config());
        for change in changes {
            match change.key.strip_prefix(&title) {
                Some("") if section.is_none() && self.key.section.is_none() => {}
                Some(rest) => lines.extend(change.lines(&format!("{place}{rest}"))),
                None => {}
            }
        }
        lines
    }
}

impl Change {
    fn new(key: String, old: Option<&Value>, new: &Value) -> Self {
        Self {
            key,
            old: old.cloned().unwrap_or_default(),
            new: new.clone(),
        }
    }

    fn lines(&self, key: &str) -> Vec<String> {
        match &self.new {
            Value::Null => vec![format!("delete {key}")],
            new => setting(key, new, !matches!(self.old, Value::Null)),
        }
    }
}

/// Checks that a section is identified completely: either by its name, or by `type` and `match`.
fn is_whole(key: &Key<'_>, kind: Option<&str>, by: &Map) -> Result<(), Error> {
    let name = key.config;
    match (key.section, by.is_empty()) {
        (None, true) => Err(Error::refused(format!(
            "{name} has no section: expected config.section, or `type` and `match`"
        ))),
        (None, false) if kind.is_none() => Err(Error::refused(format!(
            "`match` requires the `type` of the sections of {name}"
        ))),
        (Some(section), false) => Err(Error::refused(format!(
            "{name}.{section} and `match` both select a section: use only one of them"
        ))),
        _ => Ok(()),
    }
}

/// Returns options in the form in which uci stores them. Null remains null and marks an option that
/// must not exist.
fn as_stored(options: &Map) -> Result<Map, Error> {
    let mut all = Map::new();
    for (option, value) in options {
        let name = option.to_text();
        if Key::read(&format!("a.b.{name}")).is_err() {
            return Err(Error::refused(format!("invalid option name {name}")));
        }
        let is_none = matches!(value, Value::Null);
        all.insert(name, if is_none { Value::Null } else { stored(value)? });
    }
    Ok(all)
}

/// Returns the sections of a type that have these options.
fn matching<'s>(
    all: &'s [Section],
    kind: Option<&str>,
    by: &Map,
) -> impl DoubleEndedIterator<Item = &'s Section> {
    all.iter().filter(move |section| {
        let has =
            |(option, value): (&Value, &Value)| section.options.get_value(option) == Some(value);
        kind == Some(section.kind.as_str()) && by.iter().all(has)
    })
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let wanted = Wanted::read(&args)?;
    let (config, title) = (wanted.config(), wanted.title());
    let all = sections(cx, config)?;
    let is_config = all.is_some();
    let all = all.unwrap_or_default();
    let section = wanted.in_place(&all);
    if section.is_none() && (wanted.kind.is_none() || title.contains('[')) {
        return Ok(Ret::failed(format!(
            "Section {title} does not exist and cannot be created without a name and a `type`"
        )));
    }
    let changes = wanted.changes(section);
    if changes.is_empty() {
        return settled(cx, config, format!("{title} is in the correct state"));
    }
    let would = with_changes(Ret::would(format!("{title} would be changed")), &changes);
    cx.apply(would, || {
        if !is_config {
            make(cx, config)?;
        }
        let ret = with_changes(Ret::ok(format!("{title} was changed")), &changes);
        let lines = wanted.lines(section, &changes);
        changed(cx, config, &title, &lines, ret, |all| {
            wanted
                .in_place(all)
                .is_some_and(|now| wanted.changes(Some(now)).is_empty())
        })
    })
}

fn with_changes(ret: Ret, changes: &[Change]) -> Ret {
    changes.iter().fold(ret, |ret, change| {
        let about = Map::new().with("old", change.old.clone());
        ret.change(&change.key, about.with("new", change.new.clone()))
    })
}

/// Returns the result if there is nothing to change. Changes that an earlier run made but could not
/// commit are committed.
fn settled(cx: &Exec, config: &str, comment: String) -> Result<Ret, Error> {
    if pending(cx, Some(config))?.is_empty() {
        return Ok(Ret::ok(comment));
    }
    let about = |ret: Ret| ret.change(config, "committed");
    let would = Ret::would(format!("{comment}; {config} would be committed"));
    cx.apply(about(would), || {
        committed(cx, Some(config))?;
        Ok(about(Ret::ok(format!("{comment}; {config} was committed"))))
    })
}

/// Changes a configuration and commits it. The change is reverted if the result is not the wanted
/// one.
fn changed(
    cx: &Exec,
    config: &str,
    title: &str,
    lines: &[String],
    ret: Ret,
    is_right: impl Fn(&[Section]) -> bool,
) -> Result<Ret, Error> {
    Ok(match change(cx, config, lines, is_right)? {
        None => ret,
        Some(why) => Ret::failed(format!("{title} was not changed: {why}")),
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let key = Key::read(&args.name)?;
    let by = as_stored(&args.r#match)?;
    is_whole(&key, args.r#type.as_deref(), &by)?;
    is_lasting(&key)?;
    let (config, name) = (key.config, &args.name);
    let kind = args.r#type.as_deref();
    let all = sections(cx, config)?;
    let is_config = all.is_some();
    let going = removals(&key, kind, &by, &all.unwrap_or_default());
    if going.is_empty() {
        let comment = format!("{name} is already absent");
        return match is_config {
            true => settled(cx, config, comment),
            false => Ok(Ret::ok(comment)),
        };
    }
    let would = with_changes(Ret::would(format!("{name} would be removed")), &going);
    cx.apply(would, || {
        let ret = with_changes(Ret::ok(format!("{name} was removed")), &going);
        // The last section is deleted first: uci numbers a section without a name by its position
        // after the others.
        let lines: Vec<String> = going
            .iter()
            .rev()
            .map(|one| format!("delete {}", one.key))
            .collect();
        changed(cx, config, name, &lines, ret, |now| {
            removals(&key, kind, &by, now).is_empty()
        })
    })
}

/// Rejects a section that is identified by a number: after its removal the number refers to another
/// section.
fn is_lasting(key: &Key<'_>) -> Result<(), Error> {
    match (key.section, key.option) {
        (Some(section), None) if section.starts_with('@') => Err(Error::refused(format!(
            "{section} would be another section in the next run: use its name, or `type` and `match`"
        ))),
        _ => Ok(()),
    }
}

/// Returns the sections or options that exist and must be removed.
fn removals(key: &Key<'_>, kind: Option<&str>, by: &Map, all: &[Section]) -> Vec<Change> {
    let found: Vec<&Section> = match key.section {
        Some(name) => find(all, name).into_iter().collect(),
        None => matching(all, kind, by).collect(),
    };
    let going = found.into_iter().filter_map(|section| {
        let place = format!("{}.{}", key.config, section.id);
        match key.option {
            None => Some(Change::new(
                place,
                Some(&section.kind.as_str().into()),
                &Value::Null,
            )),
            Some(option) => {
                let old = section.options.get(option)?;
                Some(Change::new(
                    format!("{place}.{option}"),
                    Some(old),
                    &Value::Null,
                ))
            }
        }
    });
    going.collect()
}
