//! Python's `configparser`: INI texts with the section `DEFAULT` and the interpolation of
//! `%(name)s`.

use value::{Map, Value};

const DEFAULT: &str = "DEFAULT";

/// The arguments of a `ConfigParser`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// True if a key may have no value.
    pub allow_no_value: bool,
    /// The initial contents of the section `DEFAULT`, with keys in lower case.
    pub defaults: Map,
}

/// Prints sections as `ConfigParser.write` does.
///
/// # Errors
/// When a section is not a dictionary or exists twice, or a value cannot be read back.
pub fn write(sections: &Map, options: Options) -> Result<String, String> {
    let no_value = options.allow_no_value;
    let (mut all_defaults, mut out) = (options.defaults, String::new());
    let mut seen = Vec::new();
    for (section, keys) in sections {
        let section = section.to_text();
        let body = section_text(keys, no_value)?;
        if section == DEFAULT {
            for (key, value) in keys.as_map().into_iter().flatten() {
                all_defaults.insert(key.to_text().to_lowercase(), value.clone());
            }
            continue;
        }
        if seen.contains(&section) {
            return Err(format!("Section '{section}' already exists"));
        }
        out.push_str(&format!("[{section}]\n{body}\n"));
        seen.push(section);
    }
    if all_defaults.is_empty() {
        return Ok(out);
    }
    let body = section_text(&all_defaults.into(), no_value)?;
    Ok(format!("[{DEFAULT}]\n{body}\n{out}"))
}

fn section_text(keys: &Value, no_value: bool) -> Result<String, String> {
    let keys = keys
        .as_map()
        .ok_or_else(|| format!("'{}' object has no attribute 'items'", keys.type_name()))?;
    let mut lines = Map::new();
    for (key, value) in keys {
        let key = key.to_text().to_lowercase();
        let line = match value {
            Value::Null if no_value => format!("{key}\n"),
            Value::Null => return Err("option values must be strings".into()),
            value => {
                let text = value.to_text();
                checked(&text)?;
                format!("{key} = {}\n", text.replace('\n', "\n\t"))
            }
        };
        lines.insert(key, line);
    }
    Ok(lines.values().map(Value::to_text).collect())
}

/// Refuses a `%` that is neither `%%` nor `%(name)s`, because it cannot be read back.
fn checked(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        rest = if let Some(after) = after.strip_prefix('%') {
            after
        } else if let Some((_, after)) = after.strip_prefix('(').and_then(|a| a.split_once(")s")) {
            after
        } else {
            let quoted = value::python::repr(&text.into());
            let at = text.len() - rest.len() + before.len();
            return Err(format!(
                "invalid interpolation syntax in {quoted} at position {at}"
            ));
        };
    }
    Ok(())
}

/// Returns the sections including the defaults, with `%(name)s` replaced.
///
/// # Errors
/// When the text is no INI file, or a name to replace does not exist.
pub fn read(text: &str, options: Options) -> Result<Map, String> {
    Reader::over(text, options)?.finished()
}

/// Returns the sections unchanged: without the defaults, and with `%(name)s` kept.
///
/// # Errors
/// When the text is no INI file.
pub fn read_raw(text: &str) -> Result<Map, String> {
    let mut sections = Reader::over(text, Options::default())?.sections;
    for (_, keys) in sections.iter_mut() {
        for (_, value) in keys.as_map_mut().into_iter().flat_map(Map::iter_mut) {
            let trimmed = value.as_str().map(|text| text.trim_end().to_owned());
            *value = trimmed.map_or(Value::Null, Value::from);
        }
    }
    Ok(sections)
}

/// The state of the parser.
struct Reader {
    no_value: bool,
    sections: Map,
    section: Option<String>,
    option: Option<String>,
    indent: usize,
}

impl Reader {
    fn over(text: &str, options: Options) -> Result<Self, String> {
        let mut sections = Map::new();
        if !options.defaults.is_empty() {
            sections.insert(DEFAULT, options.defaults);
        }
        let mut reader = Self {
            no_value: options.allow_no_value,
            sections,
            section: None,
            option: None,
            indent: 0,
        };
        for (index, line) in text.lines().enumerate() {
            reader.line(index + 1, line)?;
        }
        Ok(reader)
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let bare = line.trim();
        if bare.starts_with(['#', ';']) {
            return Ok(());
        }
        let indent = line.len() - line.trim_start().len();
        if bare.is_empty() {
            self.continue_with("");
            return Ok(());
        }
        if self.option.is_some() && indent > self.indent {
            self.continue_with(bare);
            return Ok(());
        }
        self.indent = indent;
        if let Some((name, _)) = bare
            .strip_prefix('[')
            .and_then(|rest| rest.rsplit_once(']'))
        {
            self.sections.entry(name, || Map::new().into());
            (self.section, self.option) = (Some(name.to_owned()), None);
            return Ok(());
        }
        let Some(section) = self.section.clone() else {
            let shown = value::python::repr(&format!("{line}\n").into());
            return Err(format!(
                "File contains no section headers.\nfile: '<string>', line: {number}\n{shown}"
            ));
        };
        let (key, value) = match bare.split_once(['=', ':']) {
            Some((key, value)) => (key.trim().to_lowercase(), Value::from(value.trim())),
            None if self.no_value => (bare.to_lowercase(), Value::Null),
            None => {
                let shown = value::python::repr(&format!("{line}\n").into());
                return Err(format!(
                    "Source contains parsing errors: '<string>'\n\t[line {number:2}]: {shown}"
                ));
            }
        };
        if let Some(keys) = self.sections.get_mut(&section).and_then(Value::as_map_mut) {
            keys.insert(key.as_str(), value);
        }
        self.option = Some(key);
        Ok(())
    }

    fn continue_with(&mut self, more: &str) {
        let (Some(section), Some(option)) = (&self.section, &self.option) else {
            return;
        };
        let keys = self.sections.get_mut(section).and_then(Value::as_map_mut);
        if let Some(value) = keys.and_then(|keys| keys.get_mut(option)) {
            *value = format!("{}\n{more}", value.to_text()).into();
        }
    }

    /// Returns every section with the defaults under its own keys, and with `%(name)s` replaced.
    fn finished(mut self) -> Result<Map, String> {
        let defaults = self.sections.remove(DEFAULT).unwrap_or_default();
        let mut all = Map::new();
        for (section, keys) in &self.sections {
            let mut merged = defaults.as_map().cloned().unwrap_or_default();
            merged.update(keys.as_map().cloned().unwrap_or_default());
            let mut filled = Map::new();
            for (key, value) in &merged {
                let value = match value.as_str() {
                    Some(text) => filled_in(text.trim_end(), &merged, 0)?.into(),
                    None => Value::Null,
                };
                filled.insert(key.clone(), value);
            }
            all.insert(section.clone(), filled);
        }
        Ok(all)
    }
}

const MAX_DEPTH: usize = 10;

fn filled_in(text: &str, keys: &Map, depth: usize) -> Result<String, String> {
    if depth > MAX_DEPTH {
        return Err("Recursion limit exceeded in value substitution".into());
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        rest = if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            after
        } else if let Some((name, after)) = after.strip_prefix('(').and_then(|a| a.split_once(")s"))
        {
            let value = keys.get(&name.to_lowercase()).ok_or_else(|| {
                format!("Bad value substitution: there is no '{name}' in {text:?}")
            })?;
            out.push_str(&filled_in(&value.to_text(), keys, depth + 1)?);
            after
        } else {
            return Err(format!(
                "'%' must be followed by '%' or '(', found: '%{after}'"
            ));
        };
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_defaults_are_added() {
        let text = "[DEFAULT]\nroot = /srv\n[one]\nPath: %(root)s/a\n  b\n";
        let read = read(text, Options::default()).unwrap();
        let one = read.get("one").unwrap();
        assert_eq!(one.get("path"), Some(&"/srv/a\nb".into()));
        assert_eq!(one.get("root"), Some(&"/srv".into()));
        let raw = read_raw(text).unwrap();
        let path = raw.get("one").and_then(|one| one.get("path"));
        assert_eq!(path, Some(&"%(root)s/a\nb".into()));
    }

    #[test]
    fn what_was_read_is_printed() {
        let text = "[one]\na = 1\n\n[two]\nb = x\n\ty\n\n";
        let sections = read_raw(text).unwrap();
        assert_eq!(write(&sections, Options::default()).as_deref(), Ok(text));
        let wrong = Map::new().with("one", Map::new().with("a", "5 %"));
        let error = write(&wrong, Options::default()).unwrap_err();
        assert_eq!(error, "invalid interpolation syntax in '5 %' at position 2");
    }
}
