//! The configuration of git.

use machine::process::{Output, Stderr};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Caller, Git, line, list_of, plain, refuse_others};

state::exec_module! {
    /// The configuration of git.
    mod git;

    /// Return the last value of a key, or all its values with `all`. `global` means the user's own
    /// configuration.
    ///
    ///     salt-call git.config_get user.name cwd=/srv/app
    fn config_get(ConfigGet {
        /// The key.
        key: String,
        /// The path of the repository.
        cwd: Option<String> = None,
        #[group] caller: Caller,
        ..kwargs
    });

    /// Return all keys that match, with their values.
    ///
    ///     salt-call git.config_get_regexp 'user\..*' cwd=/srv/app
    fn config_get_regexp(ConfigGetRegexp {
        /// A regular expression that the key must match.
        key: String,
        /// A regular expression that the value must match.
        value_regex: Option<String> = None,
        /// The path of the repository.
        cwd: Option<String> = None,
        #[group] caller: Caller,
        ..kwargs
    });

    /// Return all keys that match, with their values. Same as `git.config_get_regexp`.
    ///
    ///     salt-call git.config_get_regex 'user\..*' cwd=/srv/app
    fn config_get_regex(ConfigGetRegex {
        /// A regular expression that the key must match.
        key: String,
        /// A regular expression that the value must match.
        value_regex: Option<String> = None,
        /// The path of the repository.
        cwd: Option<String> = None,
        #[group] caller: Caller,
        ..kwargs
    });

    /// Set a key, and return its values.
    ///
    ///     salt-call git.config_set user.name Deploy cwd=/srv/app
    fn config_set(ConfigSet {
        /// The key.
        key: String,
        /// The value of the key.
        value: Option<String> = None,
        /// The values of the key: a list, or a text with commas between them.
        multivar: Value = Value::Null,
        /// The path of the repository.
        cwd: Option<String> = None,
        #[group] caller: Caller,
        ..kwargs
    });

    /// Remove a key.
    ///
    ///     salt-call git.config_unset user.name cwd=/srv/app
    fn config_unset(ConfigUnset {
        /// The key.
        key: String,
        /// A regular expression. Only the values that match it are removed.
        value_regex: Option<String> = None,
        /// The path of the repository.
        cwd: Option<String> = None,
        #[group] caller: Caller,
        ..kwargs
    });
}

/// The configuration of a repository or of a user.
pub(crate) struct Config<'a> {
    git: Git<'a>,
    place: &'static str,
}

impl<'a> Config<'a> {
    /// Returns the configuration of a repository, or that of the user.
    pub(crate) fn new(git: Git<'a>, global: bool) -> Self {
        let place = if global { "--global" } else { "--local" };
        Self { git, place }
    }

    /// Returns the configuration that the arguments of an execution function select.
    fn from_args(
        cx: &'a Exec,
        cwd: Option<&str>,
        caller: Caller,
        mut kwargs: Map,
    ) -> Result<Self, Error> {
        let global = taken(&mut kwargs, "global");
        refuse_others(&kwargs)?;
        if cwd.is_none() && !global {
            return Err("'cwd' argument required unless global=True".into());
        }
        let git = caller.user.git(cx, cwd, caller.output_encoding);
        Ok(Self::new(git, global))
    }

    fn run(&self, words: &[&str]) -> Result<Output, Error> {
        let mut all = vec!["config", self.place];
        all.extend(words);
        self.git.run(&line(&all), Stderr::Apart)
    }

    /// Returns the values of a key; `None` if the key is not set.
    pub(crate) fn values(&self, key: &str) -> Result<Option<Vec<String>>, Error> {
        let found = self.found(&["--get-all", plain(key)?])?;
        Ok(found.map(|found| found.lines().map(str::to_owned).collect()))
    }

    /// Returns the lines that a query prints; `None` if nothing matches.
    fn found(&self, words: &[&str]) -> Result<Option<String>, Error> {
        let done = self.run(words)?;
        match done.retcode {
            Some(0) => Ok(Some(done.stdout_regardless().to_owned())),
            Some(1) => Ok(None),
            code => {
                let code = code.unwrap_or(-1);
                Err(Error::refused(format!(
                    "Failed to read the configuration of git, git config returned exit code {code}: {}",
                    done.stderr.trim()
                )))
            }
        }
    }

    /// Returns the keys that match, with their values.
    pub(crate) fn matching(&self, key: &str, value_regex: Option<&str>) -> Result<Map, Error> {
        let mut words = vec!["--get-regexp", plain(key)?];
        words.extend(value_regex);
        let found = self.found(&words)?.unwrap_or_default();
        let mut keys = Map::new();
        for (key, value) in found
            .lines()
            .filter_map(|line| line.split_once(char::is_whitespace))
        {
            if let Some(values) = keys.entry(key, || Value::list([])).as_list_mut() {
                values.push(value.into());
            }
        }
        Ok(keys)
    }

    /// Replaces the values of a key by these values, or appends these with `add`.
    pub(crate) fn set(&self, key: &str, values: &[String], add: bool) -> Result<(), Error> {
        for (number, value) in values.iter().enumerate() {
            let how = if add || number > 0 {
                "--add"
            } else {
                "--replace-all"
            };
            // `--local` is left out: outside of a repository git then reports the proper error.
            let place = (self.place == "--global").then_some("--global");
            let mut words = vec!["config"];
            words.extend(place);
            words.extend([how, plain(key)?, value]);
            self.git.git(&words)?;
        }
        Ok(())
    }

    /// Removes a key or some of its values.
    pub(crate) fn unset(
        &self,
        key: &str,
        value_regex: Option<&str>,
        all: bool,
    ) -> Result<(), Error> {
        let mut words = vec![if all { "--unset-all" } else { "--unset" }, plain(key)?];
        words.extend(value_regex);
        let done = self.run(&words)?;
        Err(match done.retcode {
            Some(0) => return Ok(()),
            Some(1) => "Section or key is invalid".to_owned(),
            Some(5) if self.values(key)?.is_none() => format!("Key '{key}' does not exist"),
            Some(5) => {
                let also = value_regex.map_or("", |_| " and value_regex matches multiple values");
                format!("Multiple values exist for key '{key}'{also}")
            }
            Some(6) => "The value_regex is invalid".to_owned(),
            code => {
                let code = code.unwrap_or(-1);
                let said = if done.stderr.is_empty() {
                    String::new()
                } else {
                    format!("; {}", done.stderr)
                };
                format!("Failed to unset key '{key}', git config returned exit code {code}{said}")
            }
        }
        .into())
    }
}

/// Takes a switch from the keywords.
fn taken(kwargs: &mut Map, name: &str) -> bool {
    kwargs.remove(name).is_some_and(|value| value.is_true())
}

fn config_get(cx: &Exec, mut args: ConfigGet) -> Result<Value, Error> {
    let all = taken(&mut args.kwargs, "all");
    let config = Config::from_args(cx, args.cwd.as_deref(), args.caller, args.kwargs)?;
    let Some(mut values) = config.values(&args.key)? else {
        return Ok(Value::Null);
    };
    Ok(if all {
        values.into()
    } else {
        values.pop().unwrap_or_default().into()
    })
}

fn config_get_regexp(cx: &Exec, args: ConfigGetRegexp) -> Result<Value, Error> {
    let config = Config::from_args(cx, args.cwd.as_deref(), args.caller, args.kwargs)?;
    config
        .matching(&args.key, args.value_regex.as_deref())
        .map(Value::from)
}

fn config_get_regex(cx: &Exec, args: ConfigGetRegex) -> Result<Value, Error> {
    let config = Config::from_args(cx, args.cwd.as_deref(), args.caller, args.kwargs)?;
    config
        .matching(&args.key, args.value_regex.as_deref())
        .map(Value::from)
}

fn config_set(cx: &Exec, mut args: ConfigSet) -> Result<Value, Error> {
    let add = taken(&mut args.kwargs, "add");
    let config = Config::from_args(cx, args.cwd.as_deref(), args.caller, args.kwargs)?;
    let values = match (args.value, list_of(&args.multivar)) {
        (Some(_), many) if !many.is_empty() => {
            return Err("Only one of 'value' and 'multivar' is permitted".into());
        }
        (Some(value), _) => vec![value],
        (None, many) => many,
    };
    config.set(&args.key, &values, add)?;
    Ok(config.values(&args.key)?.into())
}

fn config_unset(cx: &Exec, mut args: ConfigUnset) -> Result<Value, Error> {
    let all = taken(&mut args.kwargs, "all");
    let config = Config::from_args(cx, args.cwd.as_deref(), args.caller, args.kwargs)?;
    config.unset(&args.key, args.value_regex.as_deref(), all)?;
    Ok(true.into())
}
