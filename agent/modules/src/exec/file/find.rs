//! `file.find`: finds files, and prints, deletes or processes them.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use machine::accounts::users;
use machine::fs;
use machine::hashes;
use machine::process::Process;
use python::{path, shlex, text};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::paths::globbed;
use value::pyre::{Anchor, Flags, Regex, Subject};

state::exec_module! {
    /// Find files.
    mod file;

    /// Find files as find(1) does, by `name`, `iname`, `regex`, `iregex`, `type`, `owner`, `group`,
    /// `size`, `mtime`, `grep`, `mindepth` and `maxdepth`, and `print`, `delete` or `exec` them.
    ///
    ///     salt-call file.find /var/log name='*.gz' mtime=+7d
    fn find(Find {
        /// The path or glob where the search begins.
        path: String,
        *words,
        ..kwargs
    });
}

/// A condition that a file must fulfill.
enum Test {
    Name(Regex),
    Kinds(String),
    Owners(Vec<u32>),
    Groups(Vec<u32>),
    Size(u64, u64),
    /// A test for a change at or before (`false`), or at or after (`true`) a time.
    Changed(bool, f64),
    Contents(Regex),
}

/// An action for each file that is found.
enum Action {
    Print(Vec<String>),
    Delete,
    Exec(String),
}

#[derive(Default)]
struct Finder {
    tests: Vec<Test>,
    actions: Vec<Action>,
    mindepth: i64,
    maxdepth: Option<i64>,
    test: bool,
}

/// Returns the rank of a test. Like Salt, tests that only need the name come first, then those of
/// the inode, then those of the contents.
fn cost(test: &Test) -> u8 {
    match test {
        Test::Name(_) => 0,
        Test::Contents(_) => 2,
        _ => 1,
    }
}

fn regex(pattern: &str, flags: Flags, anchor: Anchor) -> Result<Regex, String> {
    Regex::compiled(pattern, flags, Subject::Text, anchor)
        .map_err(|_| format!("invalid regular expression: \"{pattern}\""))
}

/// Converts a glob into a regular expression as Salt does. A question mark matches one character or
/// none.
fn glob(pattern: &str, flags: Flags) -> Result<Test, String> {
    let pattern = pattern
        .replace('.', "\\.")
        .replace('?', ".?")
        .replace('*', ".*");
    regex(&format!("{pattern}$"), flags, Anchor::Start).map(Test::Name)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\t', '\n'])
        .filter(|word| !word.is_empty())
}

fn kinds(value: &str) -> Result<String, String> {
    let letters: String = words(value).collect();
    match letters.chars().find(|letter| !"bcdflps".contains(*letter)) {
        Some(letter) => Err(format!("invalid file type \"{letter}\"")),
        None => Ok(letters),
    }
}

fn numbers(value: &str, what: &str, find: fn(&Value) -> Option<u32>) -> Result<Vec<u32>, String> {
    words(value)
        .map(|name| {
            let number = name.parse().ok().or_else(|| find(&name.into()));
            number.ok_or_else(|| format!("no such {what} \"{name}\""))
        })
        .collect()
}

fn size(value: &str) -> Result<Test, String> {
    let text = value.trim();
    let (style, text) = match text.chars().next() {
        Some(style @ ('+' | '-')) => (style, text.get(1..).unwrap_or_default()),
        _ => ('=', text),
    };
    let unit = match text.chars().next_back().map(|c| c.to_ascii_lowercase()) {
        Some('b') => Some(1),
        Some('k') => Some(1 << 10),
        Some('m') => Some(1 << 20),
        Some('g') => Some(1 << 30),
        Some('t') => Some(1 << 40),
        _ => None,
    };
    let digits = match unit {
        Some(_) => text.get(..text.len() - 1).unwrap_or_default().trim(),
        None => text,
    };
    let unit: u64 = unit.unwrap_or(1);
    let number: f64 = digits
        .parse()
        .map_err(|_| format!("invalid size: \"{value}\""))?;
    let number = (number * unit as f64) as u64;
    Ok(match style {
        '-' => Test::Size(0, number),
        '+' => Test::Size(number, u64::MAX),
        _ => Test::Size(number, number + unit - 1),
    })
}

fn changed(value: &str) -> Result<Test, String> {
    let invalid = || format!("invalid time interval: '{value}'");
    let pattern = r"^\s*([+-]?)(?:(\d+(?:\.\d*)?)\s*[wW])?\s*(?:(\d+(?:\.\d*)?)\s*[dD])?\s*(?:(\d+(?:\.\d*)?)\s*[hH])?\s*(?:(\d+(?:\.\d*)?)\s*[mM])?\s*(?:(\d+(?:\.\d*)?)\s*[sS])?\s*$";
    let pattern = fancy_regex::Regex::new(pattern).map_err(|_| invalid())?;
    let found = pattern.captures(value).ok().flatten().ok_or_else(invalid)?;
    let units = [604_800.0, 86_400.0, 3_600.0, 60.0, 1.0];
    let mut seconds = 0.0;
    let mut resolution = None;
    for (group, unit) in (2..=6).zip(units) {
        if let Some(number) = found
            .get(group)
            .and_then(|m| m.as_str().parse::<f64>().ok())
        {
            seconds += number * unit;
            resolution = Some(unit);
        }
    }
    let resolution = resolution.ok_or_else(invalid)?;
    let now = value::clock::since_epoch().as_secs_f64();
    let after = found.get(1).is_some_and(|sign| sign.as_str() == "-");
    Ok(Test::Changed(
        after,
        now - (seconds / resolution).trunc() * resolution,
    ))
}

impl Finder {
    fn from_options(options: &Map) -> Result<Self, String> {
        let mut finder = Self::default();
        for (key, value) in options.iter() {
            let (key, given) = (key.to_text(), value.to_text());
            match key.as_str() {
                "mindepth" => finder.mindepth = given.parse().unwrap_or_default(),
                "maxdepth" => finder.maxdepth = given.parse().ok(),
                "test" => finder.test = value.is_true(),
                hidden if hidden.starts_with('_') => {}
                _ if !value.is_true() => return Err(format!("missing value for \"{key}\" option")),
                _ => finder.add(&key, &given)?,
            }
        }
        if finder.actions.is_empty() {
            finder.actions.push(Action::Print(vec!["path".into()]));
        }
        value::sorted::sort_by_key(&mut finder.tests, cost);
        Ok(finder)
    }

    fn add(&mut self, key: &str, value: &str) -> Result<(), String> {
        let test = match key {
            "name" => glob(value, Flags::NONE)?,
            "iname" => glob(value, Flags::IGNORECASE)?,
            "regex" => Test::Name(regex(value, Flags::NONE, Anchor::Start)?),
            "iregex" => Test::Name(regex(value, Flags::IGNORECASE, Anchor::Start)?),
            "type" => Test::Kinds(kinds(value)?),
            "owner" => Test::Owners(numbers(value, "user", users::uid)?),
            "group" => Test::Groups(numbers(value, "group", users::gid)?),
            "size" => size(value)?,
            "mtime" => changed(value)?,
            "grep" => Test::Contents(regex(value, Flags::NONE, Anchor::Anywhere)?),
            "print" => {
                let what = words(value).map(str::to_owned).collect();
                self.actions.push(Action::Print(what));
                return Ok(());
            }
            "delete" => {
                let all = value.contains('a');
                let what = if all {
                    "bcdpfls".to_owned()
                } else {
                    kinds(value)?
                };
                self.actions.push(Action::Delete);
                Test::Kinds(what)
            }
            "exec" => {
                self.actions.push(Action::Exec(value.to_owned()));
                return Ok(());
            }
            _ => return Err(format!("invalid option \"{key}\"")),
        };
        self.tests.push(test);
        Ok(())
    }

    fn search(&self, cx: &Exec, top: &str, out: &mut Vec<Value>) {
        if self.mindepth < 1 {
            self.visit(cx, top, out);
        }
        self.below(cx, top, 1, out);
    }

    fn below(&self, cx: &Exec, folder: &str, depth: i64, out: &mut Vec<Value>) {
        if self.maxdepth.is_some_and(|most| depth > most) {
            return;
        }
        let Some(here) = fs::here_if_readable(folder) else {
            return;
        };
        if depth >= self.mindepth {
            for name in here.dirs.iter().chain(&here.files) {
                self.visit(cx, &path::join(folder, name), out);
            }
        }
        for name in &here.dirs {
            let path = path::join(folder, name);
            if path::isdir(&path) && !path::islink(&path) {
                self.below(cx, &path, depth + 1, out);
            }
        }
    }

    fn visit(&self, cx: &Exec, path: &str, out: &mut Vec<Value>) {
        let file = Path::new(path);
        let Ok(found) = file.metadata().or_else(|_| file.symlink_metadata()) else {
            return;
        };
        if self.tests.iter().all(|test| test.holds(path, &found)) {
            for action in &self.actions {
                out.extend(action.done(cx, path, &found, self.test));
            }
        }
    }
}

fn kind(found: &std::fs::Metadata) -> char {
    let kind = found.file_type();
    if kind.is_dir() {
        'd'
    } else if kind.is_symlink() {
        'l'
    } else if kind.is_block_device() {
        'b'
    } else if kind.is_char_device() {
        'c'
    } else if kind.is_fifo() {
        'p'
    } else if kind.is_socket() {
        's'
    } else {
        'f'
    }
}

impl Test {
    fn holds(&self, path: &str, found: &std::fs::Metadata) -> bool {
        match self {
            Self::Name(regex) => regex.is_match(path::basename(path)).unwrap_or(false),
            Self::Kinds(kinds) => kinds.contains(kind(found)),
            Self::Owners(uids) => uids.contains(&found.uid()),
            Self::Groups(gids) => gids.contains(&found.gid()),
            Self::Size(least, most) => (*least..=*most).contains(&found.len()),
            Self::Changed(true, time) => found.mtime() as f64 >= *time,
            Self::Changed(false, time) => found.mtime() as f64 <= *time,
            Self::Contents(regex) => {
                found.is_file()
                    && fs::raw::read(path)
                        .is_ok_and(|data| regex.is_match(&text::decoded(&data)).unwrap_or(false))
            }
        }
    }
}

impl Action {
    fn done(&self, cx: &Exec, path: &str, found: &std::fs::Metadata, test: bool) -> Option<Value> {
        match self {
            Self::Print(what) => {
                let mut shown: Vec<Value> = what
                    .iter()
                    .filter_map(|what| property(what, path, found))
                    .collect();
                match shown.len() {
                    1 => shown.pop(),
                    _ => Some(shown.into()),
                }
            }
            Self::Delete if test => Some(path.into()),
            Self::Delete => fs::remove(cx, Path::new(path)).ok().map(|()| path.into()),
            Self::Exec(command) => Some(executed(cx, command, path).into()),
        }
    }
}

fn property(what: &str, path: &str, found: &std::fs::Metadata) -> Option<Value> {
    Some(match what {
        "path" => path.into(),
        "name" => path::basename(path).into(),
        "size" => found.len().into(),
        "type" => kind(found).to_string().into(),
        "mode" => (found.mode() & 0o777).into(),
        "mtime" => found.mtime().into(),
        "user" => users::of_uid(found.uid()),
        "group" => users::of_gid(found.gid()),
        "md5" if found.is_file() => hashes::of_file(path, "md5").ok().into(),
        "md5" => "".into(),
        _ => return None,
    })
}

fn executed(cx: &Exec, command: &str, path: &str) -> String {
    let line = command.replace("{}", path);
    match output(cx, &line) {
        Ok(output) => format!("{line}:\n{output}\n"),
        Err(error) => {
            log::error(format_args!(
                "Exception while executing command \"{line}\":\n\n{error}"
            ));
            format!("{path}: Failed")
        }
    }
}

/// Runs a command in the current folder with the program's own locale, and returns its output.
fn output(cx: &Exec, line: &str) -> Result<String, Error> {
    let here = std::env::current_dir().map_err(Error::io("."))?;
    let process = Process {
        cwd: Some(here.display().to_string()),
        stdin: Some(String::new()),
        reset_system_locale: false,
        rstrip: false,
        ..Process::words(shlex::split(line)?).quiet()
    };
    let output = process.run(cx)?;
    if !output.stderr.is_empty() {
        log::error(format_args!(
            "Error running command: {line}\n\n{}",
            output.stderr
        ));
    }
    Ok(output.into_stdout_regardless())
}

fn find(cx: &Exec, mut args: Find) -> Result<Value, Error> {
    if args
        .words
        .iter()
        .any(|word| word.as_str() == Some("delete"))
    {
        args.kwargs.insert("delete", "f");
    } else if args.words.iter().any(|word| word.as_str() == Some("print")) {
        args.kwargs.insert("print", "path");
    }
    let finder = match Finder::from_options(&args.kwargs) {
        Ok(finder) => finder,
        Err(problem) => return Ok(format!("error: {problem}").into()),
    };
    let mut found = Vec::new();
    for top in globbed(&path::expanduser(&args.path)) {
        finder.search(cx, &top, &mut found);
    }
    value::sorted::sort(&mut found);
    Ok(found.into())
}
