//! The `logrotate` execution module: the configuration of logrotate.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

state::exec_module! {
    /// Manage the configuration of log rotation (`logrotate`).
    mod logrotate;

    /// Return the configuration, including that of the included files.
    ///
    ///     salt-call logrotate.show_conf
    fn show_conf(ShowConf {
        /// The path of the file.
        conf_file: String = "/etc/logrotate.conf".into(),
    });

    /// Return the value of a directive, or of a directive in a block.
    ///
    ///     salt-call logrotate.get /var/log/app.log rotate
    fn get(Get {
        /// The directive, or the log files of the block.
        key: String,
        /// The directive in the block.
        value: Option<String> = None,
        /// The path of the file.
        conf_file: String = "/etc/logrotate.conf".into(),
    });

    /// Set a directive. If `setting` is given, set a directive in a block.
    ///
    ///     salt-call logrotate.set rotate 7
    fn set(Set {
        /// The directive, or the log files of the block.
        key: String,
        /// The value of the directive, or the name of the directive in the block.
        value: Value,
        /// The value of the directive in the block.
        setting: Value = Value::Null,
        /// The path of the file.
        conf_file: String = "/etc/logrotate.conf".into(),
    });
}

/// The directives that start a script. The script ends with `endscript`.
const SCRIPTS: [&str; 5] = [
    "firstaction",
    "lastaction",
    "prerotate",
    "postrotate",
    "preremove",
];

/// The maximum depth of nested includes.
const MAX_DEPTH: usize = 8;

/// Returns the integer that a value contains, as Salt parses it, or the value itself.
pub(crate) fn number(value: &Value) -> Value {
    let text = python::str(value);
    text.trim()
        .parse::<i64>()
        .map_or_else(|_| value.clone(), Value::from)
}

/// Returns the configuration of a file and of the files that it includes. `include files` lists the
/// keys of each file.
///
/// # Errors
/// When one of the files cannot be read.
pub(crate) fn parsed(path: &str) -> Result<Map, Error> {
    parsed_at(path, 0)
}

fn parsed_at(path: &str, depth: usize) -> Result<Map, Error> {
    if depth > MAX_DEPTH {
        return Err(format!("{path}: files include each other more than {MAX_DEPTH} deep").into());
    }
    let text = machine::fs::read(path)?;
    let text = ::python::text::decoded(&text);
    let (mut all, mut waiting, mut block) = (Map::new(), Vec::new(), None::<(Vec<String>, Map)>);
    let mut script = None::<(&str, Vec<Value>)>;
    for line in text.lines().map(str::trim) {
        if let Some((name, mut lines)) = script.take() {
            if line == "endscript" {
                let target = block.as_mut().map_or(&mut all, |(_, block)| block);
                target.insert(name, lines);
            } else {
                lines.push(line.into());
                script = Some((name, lines));
            }
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let first = words.first().copied().unwrap_or_default();
        if first.is_empty() || first.starts_with('#') {
            continue;
        }
        if line.contains('{') && !line.contains('}') {
            let names = words.iter().filter(|word| **word != "{");
            let names = waiting
                .drain(..)
                .chain(names.map(|name| (*name).to_owned()));
            block = Some((names.collect(), Map::new()));
            continue;
        }
        if line.contains('}') {
            let (names, block) = block.take().unwrap_or_default();
            all.extend(
                names
                    .into_iter()
                    .map(|name| (name, Value::from(block.clone()))),
            );
            continue;
        }
        if SCRIPTS.contains(&first) && words.len() == 1 {
            script = Some((first, Vec::new()));
            continue;
        }
        let is_file = first.starts_with(['/', '~', '"', '\'']) || first.contains(['*', '?', '[']);
        if block.is_none() && words.len() == 1 && is_file {
            waiting.push(first.to_owned());
            continue;
        }
        if let (None, ["include", folder]) = (&block, &words[..]) {
            included(&mut all, folder, depth)?;
        }
        let target = block.as_mut().map_or(&mut all, |(_, block)| block);
        target.insert(
            first,
            match words.get(1..) {
                Some([]) | None => true.into(),
                Some([one]) => number(&(*one).into()),
                Some(several) => several.join(" ").into(),
            },
        );
    }
    all.extend(waiting.into_iter().map(|name| (name, Value::from(true))));
    Ok(all)
}

/// Adds the configuration of a file, or of all files in a folder.
fn included(all: &mut Map, folder: &str, depth: usize) -> Result<(), Error> {
    let entries = machine::fs::list(folder)?;
    let mut names: Vec<String> = entries
        .into_iter()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    for name in names {
        let inner = parsed_at(
            &Path::new(folder).join(&name).display().to_string(),
            depth + 1,
        )?;
        let keys = Value::list(inner.keys().cloned());
        let files = all.entry("include files", || Map::new().into());
        if let Some(files) = files.as_map_mut() {
            files.insert(name, keys);
        }
        all.update(inner);
    }
    Ok(())
}

/// Returns the value of a directive, or of a directive in a block; False if it does not exist.
pub(crate) fn found(conf: &Map, key: &str, inner: Option<&str>) -> Value {
    let at = conf.get(key).cloned().unwrap_or_else(|| false.into());
    match inner.filter(|inner| !inner.is_empty() && at.is_true()) {
        Some(inner) => at.get(inner).cloned().unwrap_or_else(|| false.into()),
        None => at,
    }
}

/// Returns the file that contains a directive or a block: the given file, or one that it includes.
fn file_of(conf: &Map, conf_file: &str, key: &str) -> String {
    let files = conf.get("include files").and_then(Value::as_map);
    let has_it = |keys: &Value| {
        keys.as_list()
            .is_some_and(|keys| keys.contains(&key.into()))
    };
    let file = files.and_then(|files| files.iter().find(|(_, keys)| has_it(keys)));
    let folder = conf.get("include").map(Value::to_text).unwrap_or_default();
    file.map_or_else(
        || conf_file.to_owned(),
        |(name, _)| {
            Path::new(&folder)
                .join(name.to_text())
                .display()
                .to_string()
        },
    )
}

/// Sets a directive, or a directive in a block. Returns whether the file has the value afterwards.
///
/// # Errors
/// When `key` is a block and no directive in it is named, when a directive is named and `key` is
/// not a block, or when the file cannot be written.
pub(crate) fn change(
    cx: &Exec,
    conf_file: &str,
    key: &str,
    value: &Value,
    setting: Option<&Value>,
) -> Result<Value, Error> {
    let conf = parsed(conf_file)?;
    let path = file_of(&conf, conf_file, key);
    let current = conf.get(key).cloned();
    let mut options = Map::new().with("backup", false).with("show_changes", false);
    options.insert("backslash_literal", true);
    let (pattern, line) = match setting {
        None => {
            if current
                .as_ref()
                .is_some_and(|current| current.as_map().is_some())
            {
                return Err(format!("Error: {key} includes a dict, and a specific setting inside the dict was not declared").into());
            }
            if current.as_ref() == Some(value) {
                return Ok(true.into());
            }
            options.update(
                Map::new()
                    .with("flags", 8)
                    .with("prepend_if_not_found", true),
            );
            let line = match value {
                Value::Bool(true) => key.to_owned(),
                value if value.is_true() => format!("{key} {}", python::str(value)),
                _ => String::new(),
            };
            (format!("^{key}.*"), line)
        }
        Some(setting) => {
            let block = current.unwrap_or_else(|| Map::new().into());
            let Some(mut block) = block.as_map().cloned() else {
                return Err("Error: A setting for a dict was declared, but the configuration line given is not a dict".into());
            };
            let name = python::str(value);
            if block.get(&name) == Some(setting) {
                return Ok(true.into());
            }
            match setting.is_true() {
                true => drop(block.insert(name, setting.clone())),
                false => drop(block.remove(&name)),
            }
            options.update(
                Map::new()
                    .with("flags", 24)
                    .with("append_if_not_found", true),
            );
            (format!("^{key}.*?{{.*?}}"), block_text(key, &block))
        }
    };
    let options = options
        .with("path", path)
        .with("pattern", pattern)
        .with("repl", line);
    cx.call_internal("file.replace", Vec::new(), options)
}

/// Returns the text of a block in a file.
fn block_text(key: &str, block: &Map) -> String {
    let mut out = format!("{key} {{\n");
    for (name, value) in block {
        let name = name.to_text();
        match (value, value.as_list()) {
            (_, Some(lines)) => {
                out += &format!("    {name}\n");
                for line in lines {
                    out += &format!("        {}\n", line.to_text());
                }
                out += "    endscript\n";
            }
            (Value::Bool(true), _) => out += &format!("    {name} \n"),
            _ => out += &format!("    {name} {}\n", python::str(value)),
        }
    }
    out + "}"
}

fn show_conf(_cx: &Exec, args: ShowConf) -> Result<Value, Error> {
    Ok(parsed(&args.conf_file)?.into())
}

fn get(_cx: &Exec, args: Get) -> Result<Value, Error> {
    Ok(found(
        &parsed(&args.conf_file)?,
        &args.key,
        args.value.as_deref(),
    ))
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    let setting = Some(&args.setting).filter(|setting| !setting.is_null());
    change(cx, &args.conf_file, &args.key, &args.value, setting)
}
