//! `file.keyvalue`.

use std::path::Path;

use machine::fs;
use python::text;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::texts::{self, named};
use crate::exec::file::edit;

state::state_module! {
    /// Edit lines that consist of a key and a value.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Key/value based editing of a file.
    ///
    ///     /etc/ssh/sshd_config:
    ///       file.keyvalue:
    ///         - key_values:
    ///             PermitRootLogin: 'no'
    ///         - separator: ' '
    ///         - append_if_not_found: True
    fn keyvalue(Keyvalue {
        /// The path of the file.
        name: String,
        /// The key, if there is only one.
        key: Value = Value::Null,
        /// The value of `key`.
        value: Value = Value::Null,
        /// A dictionary of keys and values.
        key_values: Value = Value::Null,
        /// The separator between key and value.
        separator: String = "=".into(),
        /// True to append keys that are not found.
        append_if_not_found: bool = false,
        /// True to prepend keys that are not found.
        prepend_if_not_found: bool = false,
        /// Accepted for compatibility with Salt, where it has no effect either.
        search_only: bool = false,
        /// True to include a diff in the changes.
        show_changes: bool = true,
        /// True to succeed even if the file does not exist.
        ignore_if_missing: bool = false,
        /// The maximum number of lines with the same key; -1 for no limit.
        count: i64 = 1,
        /// Characters to strip from the start of lines when a key is searched. Default: white
        /// space.
        uncomment: Option<String> = None,
        /// True to ignore the case of keys.
        key_ignore_case: bool = false,
        /// True to ignore the case of values.
        value_ignore_case: bool = false,
        /// True to create the file if it does not exist.
        create_if_missing: bool = false,
        /// True to remove the lines of all other keys.
        prune: bool = false,
    });
}

fn keyvalue(cx: &Exec, mut args: Keyvalue) -> Result<Ret, Error> {
    let name = texts::expanded(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.keyvalue".into());
    }
    let pairs = match pairs(&args) {
        Ok(pairs) => pairs,
        Err(problem) => return Ok(named(Ret::failed(problem), &name)),
    };
    let path = Path::new(&name);
    let old = match fs::raw::read(path) {
        Ok(data) => edit::utf8(path, data)?,
        Err(error) if args.create_if_missing && error.kind() == std::io::ErrorKind::NotFound => {
            args.append_if_not_found = true;
            String::new()
        }
        Err(_) => {
            let ret = Ret {
                result: Some(args.ignore_if_missing),
                ..Ret::ok(format!("unable to open {name}"))
            };
            return Ok(named(ret, &name));
        }
    };
    let mut editing = Editing::new(&args, pairs);
    for line in text::file_lines(&old) {
        editing.line(line);
    }
    editing.add_missing();
    editing.prune();
    let ret = editing.outcome(cx, &name)?;
    Ok(named(ret, &name))
}

fn pairs(args: &Keyvalue) -> Result<Vec<(String, Value)>, &'static str> {
    if !args.key.is_null() && !args.value.is_null() {
        if args.key_values.as_map().is_some() {
            return Err("file.keyvalue can not combine key_values with key and value");
        }
        return Ok(vec![(args.key.to_text(), args.value.clone())]);
    }
    match args.key_values.as_map().filter(|map| !map.is_empty()) {
        Some(map) => Ok(of_map(map)),
        None if args.key_values.is_true() => {
            Err("file.keyvalue key and value not supplied and key_values is not a dictionary")
        }
        None => Err("file.keyvalue key and value not supplied and key_values is empty"),
    }
}

fn of_map(map: &Map) -> Vec<(String, Value)> {
    map.iter()
        .map(|(key, value)| (key.to_text(), value.clone()))
        .collect()
}

/// A wanted key.
struct Key {
    name: String,
    /// The name in the form in which it is compared.
    folded: String,
    value: Value,
    /// The number of further lines with the key that are allowed.
    left: i64,
}

/// The state of the pass over a file's lines.
struct Editing<'a> {
    args: &'a Keyvalue,
    keys: Vec<Key>,
    content: Vec<String>,
    diff: Vec<String>,
    removed: Vec<String>,
    changes: usize,
}

impl<'a> Editing<'a> {
    fn new(args: &'a Keyvalue, pairs: Vec<(String, Value)>) -> Self {
        let key = |(name, value): (String, Value)| Key {
            folded: folded(&name, args.key_ignore_case),
            name,
            value,
            left: args.count,
        };
        Self {
            args,
            keys: pairs.into_iter().map(key).collect(),
            content: Vec::new(),
            diff: Vec::new(),
            removed: Vec::new(),
            changes: 0,
        }
    }

    fn line(&mut self, line: &str) {
        let bare = self.uncommented(line);
        let was_comment = bare.len() < line.len();
        let test = folded(bare, self.args.key_ignore_case);
        if self.args.prune && !self.keys.iter().any(|key| test.starts_with(&key.folded)) {
            self.removed.push(line.to_owned());
            return;
        }
        let separator = self.args.separator.as_str();
        let Some((line_key, line_value)) = bare.split_once(separator) else {
            self.content.push(line.to_owned());
            return;
        };
        let mut current = line.to_owned();
        let same_key = folded(line_key, self.args.key_ignore_case);
        for index in 0..self.keys.len() {
            let matches = self
                .keys
                .get(index)
                .is_some_and(|key| test.starts_with(&key.folded) && same_key == key.folded);
            if matches {
                current = self.matched(index, current, line_key, line_value, was_comment);
            }
        }
        self.content.push(current);
    }

    fn uncommented<'l>(&self, line: &'l str) -> &'l str {
        match &self.args.uncomment {
            None => line.trim_start(),
            Some(chars) => line.trim_start_matches(|c| chars.contains(c)),
        }
    }

    /// Returns the wanted line for a key.
    fn matched(
        &mut self,
        index: usize,
        line: String,
        line_key: &str,
        line_value: &str,
        was_comment: bool,
    ) -> String {
        let separator = &self.args.separator;
        let Some(key) = self.keys.get_mut(index) else {
            return line;
        };
        let wanted = key.value.to_text();
        let fold = self.args.value_ignore_case;
        let mut same = folded(line_value.trim(), fold) == folded(wanted.trim(), fold);
        let mut change = false;
        if was_comment {
            change = key.left > 0;
            same |= !change;
        } else if key.left == 0 {
            change = true;
        }
        let mut current = line;
        if !same || change {
            self.diff.push(format!("- {current}"));
            current = String::new();
            if key.left != 0 {
                current = format!("{line_key}{separator}{wanted}\n");
                self.diff.push(added(&current, &key.value));
            }
            self.changes += 1;
        }
        if key.left > 0 {
            key.left -= 1;
        }
        current
    }

    fn add_missing(&mut self) {
        let separator = &self.args.separator;
        let line = |key: &Key| format!("{}{separator}{}\n", key.name, key.value.to_text());
        let missing: Vec<String> = self
            .keys
            .iter()
            .filter(|key| key.left > 0)
            .map(line)
            .collect();
        if missing.is_empty() {
            return;
        }
        if self.args.append_if_not_found {
            self.diff.push("- <EOF>\n".into());
            self.diff
                .extend(missing.iter().map(|line| format!("+ {line}")));
            self.diff.push("+ <EOF>\n".into());
            self.changes += missing.len();
            self.content.extend(missing);
        } else if self.args.prepend_if_not_found {
            self.diff.insert(0, "  <SOF>\n".into());
            for line in missing {
                self.diff.insert(1, format!("+ {line}"));
                self.content.insert(0, line);
                self.changes += 1;
            }
        }
    }

    fn prune(&mut self) {
        for line in &self.removed {
            let place = self.diff.len().min(1);
            self.diff.insert(place, format!("- {line}"));
        }
    }

    fn outcome(self, cx: &Exec, name: &str) -> Result<Ret, Error> {
        let (changed, deleted) = (self.changes, self.removed.len());
        if changed == 0 && deleted == 0 {
            return Ok(Ret::ok(""));
        }
        let mut would = format!(
            "File {name} is set to be changed ({changed} lines modified, {deleted} deleted)"
        );
        if self.args.show_changes {
            would.push_str("\nPredicted diff:\n\r\t\t");
            would.push_str(&self.diff.join("\r\t\t"));
        }
        let with_diff = |ret: Ret| {
            if self.args.show_changes {
                ret.change("diff", self.diff.concat())
            } else {
                ret
            }
        };
        fs::would_hold(cx, Path::new(name), || Ok(self.content.concat()));
        cx.apply(with_diff(Ret::would(would)), || {
            let data = self.content.concat();
            let written = fs::write(cx, Path::new(name), data.as_bytes(), fs::Owner::default());
            let mut ret = with_diff(Ret::ok(format!(
                "Changed {changed}, deleted {deleted} lines"
            )));
            if written.is_err() {
                ret.result = Some(false);
                ret.comment = format!("{name} not writable");
            }
            Ok(ret)
        })
    }
}

fn added(line: &str, value: &Value) -> String {
    match value {
        Value::Str(_) => format!("+ {line}"),
        other => format!("+ {} (from {} type)\n", line.trim_end(), other.type_name()),
    }
}

fn folded(text: &str, fold: bool) -> String {
    if fold {
        text.to_lowercase()
    } else {
        text.to_owned()
    }
}
