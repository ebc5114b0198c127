//! Reads the options of `salt`.

use std::io;

use value::Value;

use super::salt_flags::TARGETS;
use super::settings::{self, About, Settings};
use super::{Flag, Parsed, SALT, UsageError};

/// The request of a command line of `salt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaltOptions {
    /// To print the help or the version.
    About(About),
    /// To print the master's configuration.
    ConfigDump,
    /// To print which minions match.
    Preview(Target),
    /// To run a job.
    Job(Target, Job),
    /// An incomplete command line. The program prints the help if there were too few words, then
    /// the message on stderr, and exits with 42.
    Incomplete {
        /// True if the help is printed first.
        help: bool,
        /// The message about the missing part.
        message: &'static str,
    },
}

/// The target of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The target's value: a text, or a list of ids.
    pub tgt: Value,
    /// The type of the target: `glob`, `grain`, …
    pub tgt_type: &'static str,
    /// The delimiter between the keys of a grain or a pillar.
    pub delimiter: String,
}

/// The functions of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The function, or several functions.
    pub funs: Vec<String>,
    /// The arguments of each function, not yet parsed.
    pub words: Vec<Vec<String>>,
    /// True if the functions were written as a list, even as a list of one.
    pub several: bool,
}

/// A parsed command line of `salt`. All other settings are in the configuration: `timeout`,
/// `batch`, `static`, `verbose`, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salt {
    /// The request.
    pub request: SaltOptions,
    /// The settings of the configuration.
    pub settings: Settings,
    /// The names of arguments whose values are not read as YAML.
    pub no_parse: Vec<String>,
}

impl Salt {
    /// Parses a command line without the program's name. If it has `--args-stdin`, calls `stdin`
    /// for more words.
    ///
    /// # Errors
    /// If an option is wrong.
    pub fn parse(
        args: Vec<String>,
        stdin: impl FnOnce() -> io::Result<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = SALT.parse_with_stdin(args, stdin)?;
        let request = options(&parsed)?;
        let own = [TARGETS.flags];
        let mut settings = Settings::from_parsed(&SALT, &parsed, &own, &env);
        let overrides = &mut settings.overrides;
        // The last of the two options counts. In optparse, one is the negation of the other.
        let shown = parsed
            .given
            .iter()
            .rev()
            .find_map(|(flag, _)| match flag.dest {
                "show_timeout" => Some(true),
                "hide_timeout" => Some(false),
                _ => None,
            });
        overrides.remove("hide_timeout");
        if let Some(shown) = shown {
            overrides.insert("show_timeout", shown);
        }
        // With a timeout of 0 or less, the configured one applies.
        if overrides.get("timeout").and_then(Value::as_int) <= Some(0) {
            overrides.remove("timeout");
        }
        Ok(Self {
            request,
            settings,
            no_parse: settings::no_parse(&parsed),
        })
    }
}

fn options(parsed: &Parsed) -> Result<SaltOptions, UsageError> {
    if let Some(about) = settings::about(parsed) {
        return Ok(SaltOptions::About(about));
    }
    let tgt_type = target_type(parsed, TARGETS.flags)?;
    if parsed.has("config_dump") {
        return Ok(SaltOptions::ConfigDump);
    }
    let mut words = parsed.words.clone();
    let incomplete = |help, message| Ok(SaltOptions::Incomplete { help, message });
    let preview = parsed.has("preview_target");
    let help = words.len() <= 1 && !parsed.has("doc") && !preview;
    if parsed.has("doc") {
        documentation(&mut words)?;
    }
    let mut words = words.into_iter();
    let Some(tgt) = words.next() else {
        return incomplete(
            help,
            "\nCannot execute command without defining a target.\n\n",
        );
    };
    let target = Target {
        tgt: tgt_value(tgt, tgt_type),
        tgt_type,
        delimiter: parsed.text("delimiter").unwrap_or(":").to_owned(),
    };
    if preview {
        return Ok(SaltOptions::Preview(target));
    }
    let Some(fun) = words.next() else {
        return incomplete(help, "\nIncomplete options passed.\n\n");
    };
    let separator = parsed.text("args_separator").unwrap_or(",");
    match job(&fun, words.collect(), separator) {
        Ok(job) => Ok(SaltOptions::Job(target, job)),
        Err(message) => incomplete(false, message),
    }
}

/// Completes the words of `-d`: the default target is all minions, and the function is `sys.doc`.
fn documentation(words: &mut Vec<String>) -> Result<(), UsageError> {
    if words.is_empty() {
        words.push("*".into());
    }
    if words.get(1).is_none_or(|word| word != "sys.doc") {
        words.insert(1, "sys.doc".into());
    }
    if words.len() > 3 {
        return Err(UsageError::new(
            "You can only get documentation for one method at one time.",
        ));
    }
    Ok(())
}

/// Returns the type of the target that one of these options names.
///
/// # Errors
/// If several are given, or `-H` is.
pub(super) fn target_type(parsed: &Parsed, flags: &[Flag]) -> Result<&'static str, UsageError> {
    match exclusive(parsed, flags)? {
        None => Ok("glob"),
        Some("pillar_target") => Ok("pillar"),
        Some("list_hosts") => Err(UsageError::new("-H/--hosts is an option of salt-ssh")),
        Some(dest) => Ok(dest),
    }
}

/// Returns the option of a group that is given, if any.
///
/// # Errors
/// If several are given.
pub(super) fn exclusive(
    parsed: &Parsed,
    flags: &[Flag],
) -> Result<Option<&'static str>, UsageError> {
    let given: Vec<_> = flags.iter().filter(|flag| parsed.has(flag.dest)).collect();
    match given.as_slice() {
        [] => Ok(None),
        [flag] => Ok(Some(flag.dest)),
        several => {
            let names: Vec<String> = several
                .iter()
                .flat_map(|flag| flag.long.first())
                .map(|long| format!("--{long}"))
                .collect();
            Err(UsageError::new(format!(
                "The options {} are mutually exclusive. Please only choose one of them",
                names.join("/")
            )))
        }
    }
}

/// Returns the target as a value. The target of `-L` becomes a list: if it has commas, they
/// separate the ids and all spaces are removed, otherwise spaces separate the ids.
pub(super) fn tgt_value(tgt: String, tgt_type: &str) -> Value {
    match tgt_type {
        "list" if tgt.contains(',') => {
            let ids = tgt.replace(' ', "");
            Value::list(ids.split(',').map(Value::from))
        }
        "list" => Value::list(tgt.split_whitespace().map(Value::from)),
        _ => Value::from(tgt),
    }
}

fn job(fun: &str, words: Vec<String>, separator: &str) -> Result<Job, &'static str> {
    if !fun.contains(',') {
        return Ok(Job {
            funs: vec![fun.to_owned()],
            words: vec![words],
            several: false,
        });
    }
    let funs: Vec<String> = fun.split(',').map(str::to_owned).collect();
    let parted = words.iter().filter(|word| *word == separator).count() + 1 == funs.len();
    let words = if parted {
        words
            .split(|word| word == separator)
            .map(<[String]>::to_vec)
            .collect()
    } else {
        split_inside(&words, separator)
    };
    match words.len().cmp(&funs.len()) {
        std::cmp::Ordering::Less => {
            Err("Cannot execute compound command without defining all arguments.\n")
        }
        std::cmp::Ordering::Greater => {
            Err("Cannot execute compound command with more arguments than commands.\n")
        }
        std::cmp::Ordering::Equal => Ok(Job {
            funs,
            words,
            several: true,
        }),
    }
}

/// Splits the words at separators inside them: `a,b` ends the arguments of one function and begins
/// those of the next.
fn split_inside(words: &[String], separator: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let mut current = Vec::new();
    for word in words {
        let mut parts = word.split(separator);
        current.extend(
            parts
                .next()
                .filter(|part| !part.is_empty() || word.is_empty()),
        );
        for part in parts {
            out.push(std::mem::take(&mut current));
            current.extend(Some(part).filter(|part| !part.is_empty()));
        }
    }
    out.push(current);
    out.iter()
        .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<Salt, UsageError> {
        let words = line.iter().map(|word| (*word).to_owned()).collect();
        Salt::parse(words, || Ok(String::new()), |_| None)
    }

    fn job_of(line: &[&str]) -> (String, Vec<String>, Vec<Vec<String>>) {
        match read(line).unwrap().request {
            SaltOptions::Job(target, job) => {
                let tgt = format!("{} {}", target.tgt_type, target.tgt.to_text());
                (tgt, job.funs, job.words)
            }
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn a_target_is_of_the_kind_that_its_option_says() {
        let cases: [(&[&str], &str); 6] = [
            (&["*", "test.ping"], "glob *"),
            (&["-L", "a, b", "test.ping"], "list ['a', 'b']"),
            (&["-L", "a b", "test.ping"], "list ['a', 'b']"),
            (&["-I", "role:x", "test.ping"], "pillar role:x"),
            (&["--grain-p", "os:.*", "test.ping"], "grain_pcre os:.*"),
            (&["-C", "G@a:b or c", "test.ping"], "compound G@a:b or c"),
        ];
        for (line, want) in cases {
            assert_eq!(job_of(line).0, want, "{line:?}");
        }
        let both = read(&["-E", "-L", "*", "test.ping"]).unwrap_err();
        assert_eq!(
            both.message,
            "The options --pcre/--list are mutually exclusive. Please only choose one of them"
        );
    }

    #[test]
    fn several_functions_share_out_their_words() {
        let cases: [(&[&str], &[&[&str]]); 4] = [
            (&["a,b", "1", ",", "2", "3"], &[&["1"], &["2", "3"]]),
            (&["a,b", "1,2"], &[&["1"], &["2"]]),
            (&["a,b", ","], &[&[], &[]]),
            (&["a,b,c", "1", ",,"], &[&["1"], &[], &[]]),
        ];
        for (line, want) in cases {
            let line = [&["*"], line].concat();
            assert_eq!(job_of(&line).2, want, "{line:?}");
        }
        let line = ["--args-separator=;", "*", "a,b", "1,2", ";", "3"];
        assert_eq!(job_of(&line).2, [["1,2"], ["3"]]);
    }

    #[test]
    fn what_is_missing_is_said_as_salt_says_it() {
        let cases: [(&[&str], bool, &str); 4] = [
            (
                &[],
                true,
                "\nCannot execute command without defining a target.\n\n",
            ),
            (&["*"], true, "\nIncomplete options passed.\n\n"),
            (
                &["*", "a,b"],
                false,
                "Cannot execute compound command without defining all arguments.\n",
            ),
            (
                &["*", "a,b", "1,2,3"],
                false,
                "Cannot execute compound command with more arguments than commands.\n",
            ),
        ];
        for (line, help, message) in cases {
            let want = SaltOptions::Incomplete { help, message };
            assert_eq!(read(line).unwrap().request, want, "{line:?}");
        }
    }

    #[test]
    fn documentation_is_a_job_of_its_own() {
        let fun = |line: &[&str]| job_of(line);
        assert_eq!(
            fun(&["-d"]),
            ("glob *".into(), vec!["sys.doc".into()], vec![vec![]])
        );
        assert_eq!(fun(&["m1", "cmd", "-d"]).2, [["cmd"]]);
        assert_eq!(fun(&["m1", "sys.doc", "cmd", "-d"]).2, [["cmd"]]);
        assert!(read(&["-d", "a", "b", "c"]).is_err());
    }

    #[test]
    fn other_options_stand_over_the_configuration() {
        let line = [
            "--hide-timeout",
            "-t0",
            "-b",
            "50%",
            "--batch-wait=1.5",
            "--out=json",
            "*",
            "x.y",
        ];
        let salt = read(&line).unwrap();
        assert_eq!(
            Value::Map(salt.settings.overrides).to_text(),
            "{'batch': '50%', 'batch_wait': 1.5, 'output': 'json', 'show_timeout': False}"
        );
    }

    #[test]
    fn a_login_is_no_setting_of_the_configuration() {
        let line = ["-a", "pam", "-T", "--username=joe", "--password=secret"];
        let settings = read(&[&line[..], &["*", "test.ping"]].concat())
            .unwrap()
            .settings;
        assert!(settings.overrides.is_empty());
        assert_eq!(settings.login.eauth.as_deref(), Some("pam"));
        assert!(settings.login.make_token);
        assert!(!format!("{settings:?}").contains("secret"));
    }
}
