//! The options of `salt-run`.

use super::settings::{self, About, Settings};
use super::{Parsed, SALT_RUN, UsageError};

/// What `salt-run` is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunAsked {
    /// Something about itself.
    About(About),
    /// The documentation of what starts so; empty is everything.
    Doc(String),
    /// A runner.
    Call {
        /// The function.
        fun: String,
        /// Its arguments, unread.
        words: Vec<String>,
    },
}

/// A command line of `salt-run`. The configuration says `async` and `quiet`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltRun {
    /// What is asked for.
    pub asked: RunAsked,
    /// Its configuration.
    pub settings: Settings,
    /// Names whose values are not read as YAML.
    pub no_parse: Vec<String>,
    /// The job id to use.
    pub jid: Option<String>,
}

impl SaltRun {
    /// Reads a command line without the program's name; `stdin` is asked for its text when `--args-stdin` is there.
    ///
    /// # Errors
    /// When an option is wrong.
    pub fn parse(
        args: Vec<String>,
        stdin: impl FnOnce() -> String,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = SALT_RUN.parse_with_stdin(args, stdin)?;
        let asked = asked(&parsed)?;
        let jid = parsed.text("jid").map(str::to_owned);
        if let Some(wrong) = jid.as_deref().filter(|jid| !value::jid::is_jid(jid)) {
            return Err(UsageError::new(format!("'{wrong}' is not a valid JID")));
        }
        Ok(Self {
            asked,
            settings: Settings::of(&SALT_RUN, &parsed, &[], &env),
            no_parse: settings::no_parse(&parsed),
            jid,
        })
    }
}

fn asked(parsed: &Parsed) -> Result<RunAsked, UsageError> {
    if let Some(about) = settings::about(parsed) {
        return Ok(RunAsked::About(about));
    }
    settings::no_login(parsed)?;
    match (parsed.has("doc"), parsed.words.as_slice()) {
        (true, [_, _, ..]) => Err(UsageError::new(
            "You can only get documentation for one method at one time",
        )),
        (true, [name]) => Ok(RunAsked::Doc(name.clone())),
        // Without a function Salt explains them all.
        (_, []) => Ok(RunAsked::Doc(String::new())),
        (false, [fun, words @ ..]) => Ok(RunAsked::Call {
            fun: fun.clone(),
            words: settings::call_words(parsed, words),
        }),
    }
}
