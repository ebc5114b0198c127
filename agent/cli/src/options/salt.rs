//! The options of `salt`.

use value::Value;

use super::common::EAUTH;
use super::salt_flags::TARGETS;
use super::settings::{self, About, Settings};
use super::{Parsed, SALT, UsageError};

/// What `salt` is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaltAsked {
    /// Something about itself.
    About(About),
    /// The master's configuration.
    ConfigDump,
    /// Which minions match.
    Preview(Target),
    /// A job.
    Job(Target, Job),
    /// Nothing that can be done: the help if there were too few words, then this on stderr, and 42 as the exit code.
    Incomplete {
        /// Whether the help comes first.
        help: bool,
        /// What is missing.
        message: &'static str,
    },
}

/// Whom a job is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The target: a text, or a list of ids.
    pub tgt: Value,
    /// How it is meant: `glob`, `grain`, …
    pub tgt_type: &'static str,
    /// What stands between the keys of a grain or a pillar.
    pub delimiter: String,
}

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The function, or several of them.
    pub funs: Vec<String>,
    /// The words of each of them, unread.
    pub words: Vec<Vec<String>>,
    /// Whether it was written as a list of functions; even a list of one is one.
    pub several: bool,
}

/// A command line of `salt`. The configuration says all else: `timeout`, `batch`, `static`, `verbose`, …
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salt {
    /// What is asked for.
    pub asked: SaltAsked,
    /// Its configuration.
    pub settings: Settings,
    /// Names whose values are not read as YAML.
    pub no_parse: Vec<String>,
}

impl Salt {
    /// Reads a command line without the program's name; `stdin` is asked for its text when `--args-stdin` is there.
    ///
    /// # Errors
    /// When an option is wrong.
    pub fn parse(
        args: Vec<String>,
        stdin: impl FnOnce() -> String,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = SALT.parse_with_stdin(args, stdin)?;
        let asked = asked(&parsed)?;
        let own = [TARGETS.flags, EAUTH.flags];
        let mut settings = Settings::of(&SALT, &parsed, &own, &env);
        let overrides = &mut settings.overrides;
        // The last of the two counts, as in optparse, where one is the other's negation.
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
        // Nothing, and less than nothing, is as long as the configuration says.
        if overrides.get("timeout").and_then(Value::as_int) <= Some(0) {
            overrides.remove("timeout");
        }
        Ok(Self {
            asked,
            settings,
            no_parse: settings::no_parse(&parsed),
        })
    }
}

fn asked(parsed: &Parsed) -> Result<SaltAsked, UsageError> {
    if let Some(about) = settings::about(parsed) {
        return Ok(SaltAsked::About(about));
    }
    settings::no_login(parsed)?;
    let tgt_type = tgt_type(parsed)?;
    if parsed.has("config_dump") {
        return Ok(SaltAsked::ConfigDump);
    }
    let mut words = parsed.words.clone();
    let incomplete = |help, message| Ok(SaltAsked::Incomplete { help, message });
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
        return Ok(SaltAsked::Preview(target));
    }
    let Some(fun) = words.next() else {
        return incomplete(help, "\nIncomplete options passed.\n\n");
    };
    let separator = parsed.text("args_separator").unwrap_or(",");
    match job(&fun, words.collect(), separator) {
        Ok(job) => Ok(SaltAsked::Job(target, job)),
        Err(message) => incomplete(false, message),
    }
}

/// `-d` asks all minions, and `sys.doc` is the function, whatever the words leave out.
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

fn tgt_type(parsed: &Parsed) -> Result<&'static str, UsageError> {
    let given: Vec<_> = TARGETS
        .flags
        .iter()
        .filter(|flag| parsed.has(flag.dest))
        .collect();
    match given.as_slice() {
        [] => Ok("glob"),
        [flag] if flag.dest == "pillar_target" => Ok("pillar"),
        [flag] if flag.dest == "list_hosts" => Err(UsageError::new(
            "-H/--hosts lists the hosts of salt-ssh, which is not here",
        )),
        [flag] => Ok(flag.dest),
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

/// The target of `-L` is a list: of what commas part, without any spaces, or of words.
fn tgt_value(tgt: String, tgt_type: &str) -> Value {
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

/// The separator may stand inside of words: `a,b` ends the words of one function and begins those of the next.
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
        Salt::parse(words, String::new, |_| None)
    }

    fn job_of(line: &[&str]) -> (String, Vec<String>, Vec<Vec<String>>) {
        match read(line).unwrap().asked {
            SaltAsked::Job(target, job) => {
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
            let want = SaltAsked::Incomplete { help, message };
            assert_eq!(read(line).unwrap().asked, want, "{line:?}");
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
        let refused = read(&["-a", "pam", "*", "test.ping"]).unwrap_err();
        assert_eq!(
            refused.message,
            "--eauth: there is no external authentication here"
        );
    }
}
