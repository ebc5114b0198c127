//! Parses the words after the function: positional and keyword arguments, with values read as YAML.

use value::{Map, Value};

use value::yaml::Yaml;

/// The arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// The positional arguments.
    pub args: Vec<Value>,
    /// The keyword arguments.
    pub kwargs: Map,
}

/// Parses words as Salt does: `name=value` is a keyword argument, and values are read as YAML
/// unless that would lose something.
#[must_use]
pub fn parse_input(words: &[String], no_parse: &[String], yaml: &dyn Yaml) -> Input {
    let mut input = Input::default();
    for word in words {
        match kwarg(word) {
            Some((name, value)) if no_parse.iter().any(|kept| kept == name) => {
                input.kwargs.insert(name, value);
            }
            Some((name, value)) => {
                input.kwargs.insert(name, yamlify_arg(value, yaml));
            }
            None => input.add(yamlify_arg(word, yaml), yaml),
        }
    }
    input
}

impl Input {
    /// Adds a value. A text that becomes `name=value` only after YAML has removed its quotes, as in
    /// `'name=value'`, is a keyword argument too.
    fn add(&mut self, value: Value, yaml: &dyn Yaml) {
        match value.as_str().and_then(kwarg) {
            Some((name, text)) => {
                self.kwargs.insert(name, yamlify_arg(text, yaml));
            }
            None => self.args.push(jid_as_text(value)),
        }
    }
}

/// Splits `name=value`. It does not split `name==value`, or a word whose value has several lines.
fn kwarg(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let mut letters = name.chars();
    let first = letters.next()?;
    let starts = first.is_alphabetic() || first == '_';
    let named = starts && letters.all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-'));
    let value_line = value.strip_suffix('\n').unwrap_or(value);
    (named && !value.starts_with('=') && !value_line.contains('\n')).then_some((name, value_line))
}

/// Converts a number that is a job id back to text.
fn jid_as_text(value: Value) -> Value {
    const JID_LENGTH: usize = 20;
    match value {
        Value::Int(_) | Value::Big(_) if value.to_text().len() == JID_LENGTH => {
            Value::from(value.to_text())
        }
        other => other,
    }
}

/// Reads one value of the command line as YAML. If YAML would lose something, it returns the text
/// itself.
#[must_use]
pub fn yamlify_arg(word: &str, yaml: &dyn Yaml) -> Value {
    let text = || Value::from(word);
    let trimmed = word.trim();
    let digits = || trimmed.chars().all(|c| c.is_ascii_digit() || c == '_');
    if matches!(trimmed, "" | "---" | "...")
        || word.contains(['\t', '\r', '\n'])
        || (word.contains('_') && digits())
    {
        return text();
    }
    if word == "None" {
        return Value::Null;
    }
    let Ok(value) = yaml.load(word) else {
        return text();
    };
    match &value {
        // In YAML, a comment begins at `#`.
        Value::Str(_) | Value::Null if word.contains('#') => text(),
        Value::Map(_) if word.contains('#') || word.starts_with('{') => value,
        Value::List(_) if word.contains('#') || word.starts_with('[') => value,
        Value::Str(empty) if empty.is_empty() && matches!(word, "|" | "!") => text(),
        Value::Null if word == "!" => text(),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::Big(_)
        | Value::Float(_)
        | Value::Str(_) => value,
        _ => text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::yaml::{YamlFault, YamlLayout};

    /// A reader for JSON, whole numbers and plain words, which is enough to see which words are
    /// read as YAML.
    struct Simple;

    impl Yaml for Simple {
        fn load(&self, text: &str) -> Result<Value, YamlFault> {
            let text = text.split(" #").next().unwrap_or_default();
            if text.starts_with('#') {
                return Ok(Value::Null);
            }
            if text.starts_with(['{', '[']) {
                return value::json::read(text).map_err(|error| YamlFault {
                    message: error.to_string(),
                    line: 1,
                    column: 1,
                });
            }
            if let Some((key, value)) = text.split_once(": ") {
                return Ok([(key, Value::from(value))].into_iter().collect());
            }
            Ok(text
                .replace('_', "")
                .parse::<i128>()
                .map_or_else(|_| Value::from(text), Value::from))
        }

        fn dump(&self, _: &Value, _: YamlLayout) -> String {
            String::new()
        }
    }

    fn read(words: &[&str]) -> Input {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse_input(&words, &["raw".to_owned()], &Simple)
    }

    #[test]
    fn words_become_arguments_as_in_salt() {
        let input = read(&[
            "5",
            "a: b",
            "{\"x\": 1}",
            "1_000",
            "#tag",
            "a #b",
            "None",
            " ",
            "x\ny",
            "20200101101010123456",
        ]);
        let text = Value::list(input.args).to_text();
        assert_eq!(
            text,
            r"[5, 'a: b', {'x': 1}, '1_000', '#tag', 'a #b', None, ' ', 'x\ny', '20200101101010123456']"
        );
    }

    #[test]
    fn keyword_arguments_need_a_name_and_one_equals_sign() {
        let input = read(&[
            "a=5",
            "b.c-d=x=y",
            "raw=5",
            "1a=5",
            "e==5",
            "=5",
            "f=a\nb",
            "g=",
        ]);
        assert_eq!(
            Value::Map(input.kwargs).to_text(),
            "{'a': 5, 'b.c-d': 'x=y', 'raw': '5', 'g': ''}"
        );
        assert_eq!(
            Value::list(input.args).to_text(),
            r"['1a=5', 'e==5', '=5', 'f=a\nb']"
        );
    }

    /// A reader that returns the values recorded from Salt's YAML for the words of the corpus.
    struct Recorded(Map);

    impl Yaml for Recorded {
        fn load(&self, text: &str) -> Result<Value, YamlFault> {
            self.0.get(text).cloned().ok_or_else(|| YamlFault {
                message: "not YAML".into(),
                line: 1,
                column: 1,
            })
        }

        fn dump(&self, _: &Value, _: YamlLayout) -> String {
            String::new()
        }
    }

    #[test]
    fn words_are_read_as_salt_reads_them() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/corpus/options/words.json"
        );
        let cases = value::json::read(&std::fs::read_to_string(path).unwrap()).unwrap();
        for case in cases.as_list().unwrap() {
            let map = |key: &str| case.get(key).and_then(Value::as_map).unwrap().clone();
            let word = case.get("word").and_then(Value::as_str).unwrap();
            let input = parse_input(
                &[word.to_owned()],
                &["raw".to_owned()],
                &Recorded(map("yaml")),
            );
            let want = (
                case.get("args").unwrap().to_text(),
                Value::Map(map("kwargs")).to_text(),
            );
            let got = (
                Value::list(input.args).to_text(),
                Value::Map(input.kwargs).to_text(),
            );
            assert_eq!(got, want, "{word:?}");
        }
    }
}
