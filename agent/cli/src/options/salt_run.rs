//! Reads the options of `salt-run`.

use std::io;

use super::settings::{self, About, Settings};
use super::{Parsed, SALT_RUN, UsageError};

/// The request of a command line of `salt-run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaltRunOptions {
    /// To print the help or the version.
    About(About),
    /// To print the documentation of the runners whose names begin with the text; empty means all.
    Doc(String),
    /// To call a runner.
    Call {
        /// The function.
        fun: String,
        /// The arguments, not yet parsed.
        words: Vec<String>,
    },
}

/// A parsed command line of `salt-run`. `async` and `quiet` are in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltRun {
    /// The request.
    pub request: SaltRunOptions,
    /// The settings of the configuration.
    pub settings: Settings,
    /// The names of arguments whose values are not read as YAML.
    pub no_parse: Vec<String>,
    /// The job id to use.
    pub jid: Option<String>,
}

impl SaltRun {
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
        let parsed = SALT_RUN.parse_with_stdin(args, stdin)?;
        let request = options(&parsed)?;
        let jid = parsed.text("jid").map(str::to_owned);
        if let Some(wrong) = jid.as_deref().filter(|jid| !value::jid::is_jid(jid)) {
            return Err(UsageError::new(format!("'{wrong}' is not a valid JID")));
        }
        Ok(Self {
            request,
            settings: Settings::from_parsed(&SALT_RUN, &parsed, &[], &env),
            no_parse: settings::no_parse(&parsed),
            jid,
        })
    }
}

fn options(parsed: &Parsed) -> Result<SaltRunOptions, UsageError> {
    if let Some(about) = settings::about(parsed) {
        return Ok(SaltRunOptions::About(about));
    }
    match (parsed.has("doc"), parsed.words.as_slice()) {
        (true, [_, _, ..]) => Err(UsageError::new(
            "You can only get documentation for one method at one time",
        )),
        (true, [name]) => Ok(SaltRunOptions::Doc(name.clone())),
        // Without a function, Salt shows the documentation of all runners.
        (_, []) => Ok(SaltRunOptions::Doc(String::new())),
        (false, [fun, words @ ..]) => Ok(SaltRunOptions::Call {
            fun: fun.clone(),
            words: settings::call_words(parsed, words),
        }),
    }
}
