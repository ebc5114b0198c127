//! The `uci` execution module: the configuration of OpenWrt, through the program `uci`. Salt has no
//! such module.

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::tool::stdout;

state::exec_module! {
    /// Manage the configuration of OpenWrt with `uci`.
    #[needs("uci", "OpenWrt's program uci is not in the path", "")]
    mod uci;

    /// Return the value of an option (a list for a list option) or the type of a section. Return
    /// None if it does not exist.
    ///
    ///     salt-call uci.get network.lan.ipaddr
    fn get(Get {
        /// The key: `config.section` or `config.section.option`, such as `network.lan.ipaddr`.
        key: String,
    });

    /// Return the sections of a configuration by name, each with its type as `.type` and its
    /// options. An unnamed section has the name that `uci` generates, such as `cfg02e48a`.
    ///
    ///     salt-call uci.show network
    fn show(Show {
        /// The name of the configuration, such as `network`.
        config: String,
    });

    /// Set an option, or create a section if the value is a type. A list sets all values of a list
    /// option. The change is not permanent until it is committed.
    ///
    ///     salt-call uci.set network.lan.ipaddr 192.168.1.1
    fn set(Set {
        /// The key: `config.section` or `config.section.option`.
        key: String,
        /// The value; True and False are stored as 1 and 0.
        value: Value,
    });

    /// Remove an option or a section. The change is not permanent until it is committed.
    ///
    ///     salt-call uci.delete network.guest
    fn delete(Delete {
        /// The key: `config.section` or `config.section.option`.
        key: String,
    });

    /// Return the uncommitted changes as the output of `uci`.
    ///
    ///     salt-call uci.changes
    fn changes(Changes {
        /// The name of the configuration; all configurations if not given.
        config: Option<String> = None,
    });

    /// Commit changes, which makes them permanent.
    ///
    ///     salt-call uci.commit network
    fn commit(Commit {
        /// The name of the configuration; all configurations if not given.
        config: Option<String> = None,
    });

    /// Discard uncommitted changes.
    ///
    ///     salt-call uci.revert network
    fn revert(Revert {
        /// The name of a configuration, section or option.
        key: String,
    });
}

/// A section of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Section {
    /// The name of the section, or the name that `uci` generates.
    pub id: String,
    /// The type of the section.
    pub kind: String,
    /// The options: texts and lists of texts.
    pub options: Map,
}

/// The parts of a key: `config.section` or `config.section.option`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    pub config: &'a str,
    /// The name of a section, or `@type[number]`.
    pub section: Option<&'a str>,
    pub option: Option<&'a str>,
}

impl<'a> Key<'a> {
    /// Parses a key.
    ///
    /// # Errors
    /// When a part of it has characters that `uci` does not accept.
    pub(crate) fn read(text: &'a str) -> Result<Self, Error> {
        let mut parts = text.split('.');
        let mut part = |is_good: fn(&str) -> bool| match parts.next() {
            Some(part) if is_good(part) => Ok(Some(part)),
            None => Ok(None),
            Some(_) => Err(wrong_key(text)),
        };
        let config = part(is_name)?.ok_or_else(|| wrong_key(text))?;
        let (section, option) = (part(is_section)?, part(is_name)?);
        match parts.next() {
            Some(_) => Err(wrong_key(text)),
            None => Ok(Self {
                config,
                section,
                option,
            }),
        }
    }
}

fn wrong_key(text: &str) -> Error {
    Error::refused(format!(
        "{text} is not a valid uci key: expected config.section or config.section.option, made of letters, digits, _ and -; a section may be @type[number]"
    ))
}

/// Returns whether a text can be the name of a configuration, section or option.
pub(crate) fn is_name(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !text.starts_with('-') && !text.is_empty() && text.bytes().all(good)
}

fn is_section(text: &str) -> bool {
    is_name(text) || indexed(text).is_some()
}

/// Returns the type and the number in `@type[number]`.
fn indexed(text: &str) -> Option<(&str, isize)> {
    let (kind, number) = text.strip_prefix('@')?.strip_suffix(']')?.split_once('[')?;
    is_name(kind).then_some((kind, number.parse().ok()?))
}

/// Returns the section with this name or `@type[number]`. Negative numbers count from the end.
pub(crate) fn find<'a>(sections: &'a [Section], name: &str) -> Option<&'a Section> {
    let Some((kind, number)) = indexed(name) else {
        return sections.iter().find(|section| section.id == name);
    };
    let mut all = sections.iter().filter(|section| section.kind == kind);
    match usize::try_from(number) {
        Ok(number) => all.nth(number),
        Err(_) => all.nth_back(number.unsigned_abs() - 1),
    }
}

/// Returns a value in the form in which `uci` stores it: a text, or a list of texts.
///
/// # Errors
/// When it is neither.
pub(crate) fn stored(value: &Value) -> Result<Value, Error> {
    match value {
        Value::Bool(is) => Ok(Value::from(if *is { "1" } else { "0" })),
        Value::List(all) => Ok(all
            .iter()
            .map(stored)
            .collect::<Result<Vec<_>, _>>()?
            .into()),
        Value::Null | Value::Map(_) => Err(Error::refused(format!(
            "{} is not a valid uci value: expected a string, a number, True, False or a list of them",
            value.to_text()
        ))),
        _ => Ok(value.to_text().into()),
    }
}

/// Returns the batch commands that set an option, replacing an existing value.
pub(crate) fn setting(key: &str, value: &Value, is_there: bool) -> Vec<String> {
    let Value::List(all) = value else {
        return vec![format!("set {key}={}", quoted(value))];
    };
    let delete = is_there.then(|| format!("delete {key}"));
    let add = |one| format!("add_list {key}={}", quoted(one));
    delete.into_iter().chain(all.iter().map(add)).collect()
}

/// Returns a text quoted for `uci`.
pub(crate) fn quoted(value: &Value) -> String {
    format!("'{}'", value.to_text().replace('\'', r"'\''"))
}

fn run(cx: &Exec, words: &[&str], stdin: Option<String>) -> Result<Output, Error> {
    let process = Process {
        stdin,
        ignore_retcode: true,
        ..Process::words(["uci"].iter().chain(words).copied())
    };
    process.run(cx)
}

/// Returns the sections of a configuration in order, or `None` if the configuration does not exist.
///
/// # Errors
/// When the program is missing, or cannot read the configuration.
pub(crate) fn sections(cx: &Exec, config: &str) -> Result<Option<Vec<Section>>, Error> {
    let output = run(cx, &["-n", "export", config], None)?;
    if !output.success() && output.stderr.trim_end().ends_with("Entry not found") {
        return Ok(None);
    }
    stdout(output).map(|text| Some(parsed(&text)))
}

/// Parses the output of `uci export`.
fn parsed(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut rest = text;
    while let Some((words, after)) = line(rest) {
        rest = after;
        let mut words = words.into_iter();
        let mut word = || words.next().unwrap_or_default();
        match (word().as_str(), sections.last_mut()) {
            ("config", _) => sections.push(Section {
                kind: word(),
                id: word(),
                options: Map::new(),
            }),
            ("option", Some(section)) => {
                section.options.insert(word(), word());
            }
            ("list", Some(section)) => {
                let all = section
                    .options
                    .entry(word(), || Value::from(Vec::<Value>::new()));
                if let Value::List(all) = all {
                    std::sync::Arc::make_mut(all).push(word().into());
                }
            }
            _ => {}
        }
    }
    sections
}

/// Returns the words of the first line and the rest of the text. A quoted word may span several
/// lines.
fn line(text: &str) -> Option<(Vec<String>, &str)> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            c if is_quoted => word.get_or_insert_default().push(c),
            '\\' => word
                .get_or_insert_default()
                .extend(chars.next().map(|(_, c)| c)),
            '\n' => {
                words.extend(word);
                return Some((words, text.get(at + 1..).unwrap_or_default()));
            }
            ' ' | '\t' => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (!words.is_empty()).then_some((words, ""))
}

/// Changes a configuration with batch commands of `uci`. The changes are not permanent until they
/// are committed.
///
/// # Errors
/// When the program is missing, or rejects a command. The error is the program's own message.
pub(crate) fn batch(cx: &Exec, lines: &[String]) -> Result<(), Error> {
    let output = run(cx, &["batch"], Some(lines.join("\n") + "\n"))?;
    match output.success() && output.stderr.is_empty() {
        true => Ok(()),
        false => Err(Error::refused(output.stderr)),
    }
}

/// Changes a configuration with batch commands and commits it. If the result is not right, the
/// change is reverted and the reason is returned.
///
/// # Errors
/// When the program is missing, or cannot read, write or revert the configuration.
pub(crate) fn change(
    cx: &Exec,
    config: &str,
    lines: &[String],
    is_right: impl Fn(&[Section]) -> bool,
) -> Result<Option<String>, Error> {
    let earlier = pending(cx, Some(config))?;
    let why = match batch(cx, lines) {
        Err(error) => error.to_string(),
        Ok(()) if is_right(&sections(cx, config)?.unwrap_or_default()) => {
            committed(cx, Some(config))?;
            return Ok(None);
        }
        Ok(()) => "uci did not store all of the changes".to_owned(),
    };
    if earlier.is_empty() {
        reverted(cx, config)?;
    }
    Ok(Some(why))
}

/// Creates an empty configuration if it does not exist.
///
/// # Errors
/// When the program is missing, or fails.
pub(crate) fn make(cx: &Exec, config: &str) -> Result<(), Error> {
    stdout(run(cx, &["import", config], Some("\n".to_owned()))?).map(drop)
}

/// Returns the uncommitted changes.
///
/// # Errors
/// When the program is missing, or cannot read it.
pub(crate) fn pending(cx: &Exec, config: Option<&str>) -> Result<String, Error> {
    let words: Vec<&str> = ["changes"].into_iter().chain(config).collect();
    stdout(run(cx, &words, None)?)
}

/// Commits changes.
///
/// # Errors
/// When the program is missing, or cannot write.
pub(crate) fn committed(cx: &Exec, config: Option<&str>) -> Result<(), Error> {
    let words: Vec<&str> = ["commit"].into_iter().chain(config).collect();
    stdout(run(cx, &words, None)?).map(drop)
}

/// Discards uncommitted changes.
///
/// # Errors
/// When the program is missing, or fails.
pub(crate) fn reverted(cx: &Exec, key: &str) -> Result<(), Error> {
    stdout(run(cx, &["revert", key], None)?).map(drop)
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    value_of(cx, &args.key)
}

fn value_of(cx: &Exec, key: &str) -> Result<Value, Error> {
    let key = Key::read(key)?;
    let sections = sections(cx, key.config)?.unwrap_or_default();
    let section = key.section.and_then(|name| find(&sections, name));
    Ok(match (section, key.option) {
        (None, _) => Value::Null,
        (Some(section), None) => section.kind.as_str().into(),
        (Some(section), Some(option)) => section.options.get(option).cloned().unwrap_or_default(),
    })
}

fn show(cx: &Exec, args: Show) -> Result<Value, Error> {
    let config = Key::read(&args.config)?.config;
    let no_such = || Error::refused(format!("The configuration {config} does not exist"));
    let mut all = Map::new();
    for section in sections(cx, config)?.ok_or_else(no_such)? {
        let mut about = Map::new().with(".type", section.kind);
        about.update(section.options);
        all.insert(section.id, about);
    }
    Ok(all.into())
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    let is_there = !matches!(value_of(cx, &args.key)?, Value::Null);
    batch(cx, &setting(&args.key, &stored(&args.value)?, is_there))?;
    Ok(Value::Bool(true))
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    Key::read(&args.key)?;
    batch(cx, &[format!("delete {}", args.key)])?;
    Ok(Value::Bool(true))
}

/// Returns the name of the configuration if one is given, after checking it.
fn named(config: Option<&str>) -> Result<Option<&str>, Error> {
    Ok(config.map(Key::read).transpose()?.map(|key| key.config))
}

fn changes(cx: &Exec, args: Changes) -> Result<Value, Error> {
    Ok(pending(cx, named(args.config.as_deref())?)?.into())
}

fn commit(cx: &Exec, args: Commit) -> Result<Value, Error> {
    committed(cx, named(args.config.as_deref())?)?;
    Ok(Value::Bool(true))
}

fn revert(cx: &Exec, args: Revert) -> Result<Value, Error> {
    Key::read(&args.key)?;
    reverted(cx, &args.key)?;
    Ok(Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPORT: &str = "package system\n\nconfig system 'cfg01e48a'\n\toption hostname 'it'\\''s \"x\"'\n\toption note 'two\nlines'\n\n\
        config led 'cfg028bba'\n\nconfig timeserver 'ntp'\n\tlist server 'a'\n\tlist server 'b c'\n\nconfig led 'cfg048bba'\n\toption name ''\n\n";

    #[test]
    fn what_the_program_exports_is_read() {
        let sections = parsed(EXPORT);
        let ids: Vec<&str> = sections.iter().map(|one| one.id.as_str()).collect();
        assert_eq!(ids, ["cfg01e48a", "cfg028bba", "ntp", "cfg048bba"]);
        let options = &sections[0].options;
        assert_eq!(options.get("hostname"), Some(&"it's \"x\"".into()));
        assert_eq!(options.get("note"), Some(&"two\nlines".into()));
        let servers = Value::from(vec![Value::from("a"), Value::from("b c")]);
        assert_eq!(sections[2].options.get("server"), Some(&servers));
        assert_eq!(sections[3].options.get("name"), Some(&"".into()));
    }

    #[test]
    fn sections_are_found_by_name_and_by_number() {
        let sections = parsed(EXPORT);
        let id = |name: &str| find(&sections, name).map(|section| section.id.as_str());
        assert_eq!(id("ntp"), Some("ntp"));
        assert_eq!(id("@led[1]"), Some("cfg048bba"));
        assert_eq!(id("@led[-2]"), Some("cfg028bba"));
        assert_eq!(
            (id("@led[2]"), id("@led[-3]"), id("lan")),
            (None, None, None)
        );
    }

    #[test]
    fn a_key_has_only_what_the_program_takes() {
        let key = Key::read("network.@rule[-1].src_ip").unwrap();
        assert_eq!(
            (key.config, key.section, key.option),
            ("network", Some("@rule[-1]"), Some("src_ip"))
        );
        for wrong in [
            "",
            "a..b",
            "a.b.c.d",
            "-c.x",
            "a.b c",
            "a.b='x'\ncommit",
            "a.@b",
            "a.@b[x]",
        ] {
            assert!(Key::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_texts() {
        let texts = ["1", "0", "8", "it's"].map(Value::from).to_vec();
        let given: Vec<Value> = vec![true.into(), false.into(), 8.into(), "it's".into()];
        let stored = stored(&Value::from(given)).unwrap();
        assert_eq!(stored, Value::from(texts));
        let lines = setting("a.b.c", &stored, true);
        assert_eq!(lines[0], "delete a.b.c");
        assert_eq!(lines[4], r"add_list a.b.c='it'\''s'");
        assert!(super::stored(&Value::Null).is_err());
    }
}
