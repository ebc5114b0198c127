//! Parses a command line as Python's `optparse` does.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use value::Value;
use value::hint::nearest;

use super::settings::absolute;
use super::{Flag, Program, Takes};

/// A parsed command line.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The options in their given order, each with its value. The value of a switch is `true`.
    pub given: Vec<(&'static Flag, Value)>,
    /// The words that are not options.
    pub words: Vec<String>,
}

impl Parsed {
    /// Returns the value of an option. If it was given more than once, the last value counts.
    #[must_use]
    pub fn get(&self, dest: &str) -> Option<&Value> {
        self.given
            .iter()
            .rev()
            .find(|(flag, _)| flag.dest == dest)
            .map(|(_, value)| value)
    }

    /// Returns the value of an option that takes text.
    #[must_use]
    pub fn text(&self, dest: &str) -> Option<&str> {
        self.get(dest)?.as_str()
    }

    /// Reports whether an option was given.
    #[must_use]
    pub fn has(&self, dest: &str) -> bool {
        self.get(dest).is_some()
    }

    /// Returns all values of an option that can be given more than once.
    pub fn all<'a>(&'a self, dest: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.given
            .iter()
            .filter(move |(flag, _)| flag.dest == dest)
            .filter_map(|(_, value)| value.as_str())
    }
}

/// An error in a command line, with `optparse`'s message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError {
    /// The message.
    pub message: String,
    /// A suggestion for what the user probably meant.
    pub hint: Option<String>,
}

impl UsageError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UsageError {}

/// Options that end the parsing. The words after them do not matter.
const AT_ONCE: [&str; 3] = ["help", "version", "versions_report"];

impl Program {
    /// Parses a command line without the program's name. Options can be anywhere before `--`.
    ///
    /// # Errors
    /// If an option is unknown or ambiguous, or has a wrong value. Parsing stops at the first such
    /// option.
    pub fn parse(&self, args: impl IntoIterator<Item = String>) -> Result<Parsed, UsageError> {
        let mut rest: VecDeque<String> = args.into_iter().collect();
        let mut parsed = Parsed::default();
        while let Some(arg) = rest.pop_front() {
            if arg == "--" {
                parsed.words.extend(rest.drain(..));
            } else if let Some(long) = arg.strip_prefix("--") {
                self.read_long(long, &mut rest, &mut parsed)?;
            } else if arg.len() > 1 && arg.starts_with('-') && !self.is_number(&arg) {
                self.read_cluster(&arg, &mut rest, &mut parsed)?;
            } else {
                parsed.words.push(arg);
            }
            if AT_ONCE.iter().any(|dest| parsed.has(dest)) {
                return Ok(parsed);
            }
        }
        config_dir_exists(&parsed)?;
        Ok(parsed)
    }

    /// Parses a command line. If it has `--args-stdin`, also parses the text of `stdin`.
    pub(super) fn parse_with_stdin(
        &self,
        args: Vec<String>,
        stdin: impl FnOnce() -> io::Result<String>,
    ) -> Result<Parsed, UsageError> {
        let mut parsed = self.parse(args)?;
        if parsed.has("args_stdin") {
            let text = stdin();
            let text =
                text.map_err(|error| UsageError::new(format!("cannot read stdin: {error}")))?;
            let more = self.parse(text.lines().map(str::to_owned))?;
            parsed.given.extend(more.given);
            parsed.words.extend(more.words);
        }
        Ok(parsed)
    }

    /// Reports whether a word is a negative number. If an option has the number's first digit as
    /// its letter, the word is an option instead.
    fn is_number(&self, arg: &str) -> bool {
        let digits = arg.trim_start_matches('-');
        let first = digits.chars().next();
        first.is_some_and(|c| c == '.' || c.is_ascii_digit())
            && digits.parse::<f64>().is_ok()
            && self.flags().all(|flag| flag.short != first)
    }

    fn read_long(
        &self,
        arg: &str,
        rest: &mut VecDeque<String>,
        parsed: &mut Parsed,
    ) -> Result<(), UsageError> {
        let (name, inline) = arg
            .split_once('=')
            .map_or((arg, None), |(name, value)| (name, Some(value.to_owned())));
        let (flag, name) = self.long(name)?;
        let name = format!("--{name}");
        match (flag.takes, inline) {
            (Takes::Nothing, None) => parsed.given.push((flag, Value::from(true))),
            (Takes::Nothing, Some(_)) => {
                return Err(UsageError::new(format!(
                    "{name} option does not take a value"
                )));
            }
            (_, inline) => {
                let text = inline.or_else(|| rest.pop_front());
                parsed.given.push((flag, value(flag, &name, text)?));
            }
        }
        Ok(())
    }

    fn read_cluster(
        &self,
        arg: &str,
        rest: &mut VecDeque<String>,
        parsed: &mut Parsed,
    ) -> Result<(), UsageError> {
        let mut letters = arg.strip_prefix('-').unwrap_or_default().chars();
        while let Some(c) = letters.next() {
            let name = format!("-{c}");
            let flag = self
                .flags()
                .find(|flag| flag.short == Some(c))
                .ok_or_else(|| self.unknown_short(arg, &name))?;
            if flag.takes == Takes::Nothing {
                parsed.given.push((flag, Value::from(true)));
                continue;
            }
            let inline = Some(letters.as_str().to_owned()).filter(|inline| !inline.is_empty());
            let text = inline.or_else(|| rest.pop_front());
            let read = value(flag, &name, text).map_err(|error| UsageError {
                hint: error.hint.or_else(|| self.long_name_meant(arg)),
                ..error
            });
            parsed.given.push((flag, read?));
            break;
        }
        Ok(())
    }

    /// Returns the option of that name, or the only one whose name begins with it.
    fn long(&self, name: &str) -> Result<(&'static Flag, &'static str), UsageError> {
        let all = || {
            self.flags()
                .flat_map(|flag| flag.long.iter().map(move |long| (flag, *long)))
        };
        if let Some(found) = all().find(|(_, long)| *long == name) {
            return Ok(found);
        }
        let mut near: Vec<_> = all().filter(|(_, long)| long.starts_with(name)).collect();
        match near.as_slice() {
            [only] => Ok(*only),
            [] => Err(self.unknown_long(name)),
            _ => {
                value::sorted::sort_by_key(&mut near, |(_, long)| *long);
                let names: Vec<String> = near.iter().map(|(_, long)| format!("--{long}")).collect();
                Err(UsageError::new(format!(
                    "ambiguous option: --{name} ({}?)",
                    names.join(", ")
                )))
            }
        }
    }

    fn unknown_long(&self, name: &str) -> UsageError {
        let names = self.flags().flat_map(|flag| flag.long).copied();
        UsageError {
            message: format!("no such option: --{name}"),
            hint: nearest(name, names).map(|near| format!("did you mean --{near}?")),
        }
    }

    fn unknown_short(&self, arg: &str, name: &str) -> UsageError {
        UsageError {
            message: format!("no such option: {name}"),
            hint: self.long_name_meant(arg),
        }
    }

    /// Returns a hint if the letters of a word are a long name: with `-local`, the user probably
    /// meant `--local`.
    fn long_name_meant(&self, arg: &str) -> Option<String> {
        let word = arg
            .trim_start_matches('-')
            .split('=')
            .next()
            .unwrap_or_default();
        let known = self
            .flags()
            .flat_map(|flag| flag.long)
            .any(|long| *long == word);
        known.then(|| format!("did you mean --{word}?"))
    }
}

/// Fails if `--config-dir` names a folder that does not exist. The program would otherwise run with
/// defaults that the user did not choose.
fn config_dir_exists(parsed: &Parsed) -> Result<(), UsageError> {
    let Some(named) = parsed.text("config_dir").filter(|dir| !dir.is_empty()) else {
        return Ok(());
    };
    let dir = absolute(named, &|name| std::env::var(name).ok());
    if dir.is_dir() {
        return Ok(());
    }
    Err(UsageError {
        message: format!("-c: there is no directory {}", dir.display()),
        hint: Some("name a directory with a configuration, or omit -c".to_owned()),
    })
}

fn value(flag: &Flag, name: &str, text: Option<String>) -> Result<Value, UsageError> {
    let text = text.ok_or_else(|| UsageError::new(format!("{name} option requires 1 argument")))?;
    match flag.takes {
        Takes::Number(_) => parse_int(&text).map(Value::Int).ok_or_else(|| {
            UsageError::new(format!("option {name}: invalid integer value: '{text}'"))
        }),
        Takes::Float(_) => text.trim().parse().map(Value::Float).map_err(|_| {
            UsageError::new(format!(
                "option {name}: invalid floating-point value: '{text}'"
            ))
        }),
        Takes::Choice(_, words) if !words.contains(&text.as_str()) => {
            let all: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            Err(UsageError {
                message: format!(
                    "option {name}: invalid choice: '{text}' (choose from {})",
                    all.join(", ")
                ),
                hint: nearest(&text.to_lowercase(), words.iter().copied())
                    .map(|near| format!("did you mean {near}?")),
            })
        }
        _ => Ok(Value::from(text)),
    }
}

/// Parses a whole number as `optparse` does: decimal, `0x`, `0b`, and octal with a leading zero.
fn parse_int(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or((1, text), |digits| (-1, digits));
    let lower = digits.to_lowercase();
    let number = if let Some(hex) = lower.strip_prefix("0x") {
        i64::from_str_radix(hex, 16).ok()?
    } else if let Some(bits) = lower.strip_prefix("0b") {
        i64::from_str_radix(bits, 2).ok()?
    } else if lower.len() > 1 && lower.starts_with('0') {
        i64::from_str_radix(&lower, 8).ok()?
    } else {
        lower.parse().ok()?
    };
    Some(sign * number)
}
