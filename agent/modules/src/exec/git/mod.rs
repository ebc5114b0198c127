//! The `git` execution module. This part runs the program; the submodules contain the functions.

pub(crate) mod config;
pub(crate) mod history;
mod login;
pub(crate) mod remote;
pub(crate) mod tree;

use machine::process::{Output, Process, Stderr};
use python::{path, shlex};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

pub(crate) use login::{Login, redacted, with_login};

use crate::fileserver::fetch;

/// The settings to run git with: the user, the folder and the ssh keys.
#[derive(Clone)]
pub(crate) struct Git<'a> {
    /// The call's context.
    pub(crate) cx: &'a Exec,
    /// The folder that git runs in.
    pub(crate) cwd: Option<String>,
    /// The user who runs git.
    pub(crate) user: Option<String>,
    /// The keys for ssh, which are tried one after the other.
    pub(crate) identity: Vec<String>,
    /// The user and password for a server.
    pub(crate) login: Option<Login>,
    /// The encoding of the output of git.
    pub(crate) output_encoding: Option<String>,
}

/// The arguments that most functions share. They are passed by name.
pub(crate) struct Common<'a> {
    pub(crate) git: Git<'a>,
    pub(crate) https_user: Option<String>,
    pub(crate) https_pass: Option<String>,
    /// Options of git itself, before its command.
    git_opts: Vec<String>,
    /// Options of the command.
    pub(crate) opts: Vec<String>,
}

/// Returns options from a list, or from a line that is split as a shell does.
pub(crate) fn options(given: &Value) -> Result<Vec<String>, Error> {
    Ok(match given {
        Value::Null => Vec::new(),
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        other => {
            let mut words = shlex::split(&other.to_text())?;
            if words.last().is_some_and(|word| word == "--") {
                words.pop();
            }
            words
        }
    })
}

/// Returns texts from a list, or from a text with commas between them.
pub(crate) fn list_of(given: &Value) -> Vec<String> {
    match given {
        Value::Null => Vec::new(),
        Value::List(items) | Value::Tuple(items) => items.iter().map(Value::to_text).collect(),
        other => other.to_text().split(',').map(str::to_owned).collect(),
    }
}

/// Returns a name, or an error if git would take it for an option.
pub(crate) fn plain(name: &str) -> Result<&str, Error> {
    if name.starts_with('-') {
        Err(format!("'{name}' starts with `-`: git would read it as an option").into())
    } else {
        Ok(name)
    }
}

impl<'a> Common<'a> {
    /// Reads the common arguments from those that a function does not declare. `known` holds the
    /// names of further arguments that the function accepts.
    pub(crate) fn of(
        cx: &'a Exec,
        cwd: Option<&str>,
        kwargs: &Map,
        known: &[&str],
    ) -> Result<Self, Error> {
        const COMMON: [&str; 10] = [
            "user",
            "password",
            "ignore_retcode",
            "output_encoding",
            "identity",
            "saltenv",
            "https_user",
            "https_pass",
            "opts",
            "git_opts",
        ];
        let unknown = |key: &String| {
            !COMMON.contains(&key.as_str())
                && !known.contains(&key.as_str())
                && !key.starts_with("__")
        };
        let unknown: Vec<String> = kwargs.keys().map(Value::to_text).filter(unknown).collect();
        refuse_unknown(&unknown, kwargs)?;
        let given = |name: &str| {
            kwargs
                .get(name)
                .filter(|value| value.is_true())
                .map(Value::to_text)
        };
        let user = given("user");
        let list = |name: &str| options(kwargs.get(name).unwrap_or(&Value::Null));
        let identity = match kwargs.get("identity") {
            Some(Value::List(items)) => items.iter().map(Value::to_text).collect(),
            _ => given("identity").into_iter().collect(),
        };
        let cwd = cwd.map(|cwd| expanded(cwd, user.as_deref()));
        Ok(Self {
            git: Git {
                cx,
                cwd,
                user,
                identity,
                login: None,
                output_encoding: given("output_encoding"),
            },
            https_user: given("https_user"),
            https_pass: given("https_pass"),
            git_opts: list("git_opts")?,
            opts: list("opts")?,
        })
    }

    /// Returns the words of a command: git and its options, then the command and its options.
    pub(crate) fn words(&self, command: &[&str]) -> Vec<String> {
        let mut words = vec!["git".to_owned()];
        words.extend(self.git_opts.iter().cloned());
        words.extend(command.iter().map(|word| (*word).to_owned()));
        words.extend(self.opts.iter().cloned());
        words
    }

    /// Returns a URL with its user, and stores the password for git.
    pub(crate) fn url(&mut self, url: &str) -> Result<String, Error> {
        let (url, login) = with_login(url, self.https_user.as_deref(), self.https_pass.as_deref())?;
        self.git.login = login;
        Ok(url)
    }

    /// Uses the given password for the server of a configured remote repository: the named one, or
    /// else the first.
    pub(crate) fn log_in(&mut self, remote: Option<&str>) -> Result<(), Error> {
        if self.https_pass.is_none() {
            return Ok(());
        }
        let remotes = self.git.remotes(false)?;
        let found = match remote {
            Some(name) => remotes.get(name),
            None => remotes.get("origin").or_else(|| remotes.values().next()),
        };
        let url = found
            .and_then(|remote| remote.get("fetch"))
            .map(Value::to_text);
        let url = url.or_else(|| remote.map(str::to_owned));
        self.url(&url.ok_or("No remote repository to use the password for")?)?;
        Ok(())
    }
}

/// Returns an error that lists the given unknown named arguments, if there are any.
pub(crate) fn refuse_unknown(names: &[String], kwargs: &Map) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let shown = names.iter().map(|name| {
        let value = kwargs.get(name).map(Value::to_text).unwrap_or_default();
        format!("{name}={value}")
    });
    let shown: Vec<String> = shown.collect();
    Err(format!(
        "The following keyword arguments are not valid: {}",
        shown.join(", ")
    )
    .into())
}

/// Returns an absolute path; a relative one is below the user's home.
fn expanded(cwd: &str, user: Option<&str>) -> String {
    let home = path::expanduser(&format!("~{}", user.unwrap_or_default()));
    path::join(&home, cwd)
}

/// The ssh command with Salt's options. The path of the key is passed in the environment, so that
/// the shell does not interpret it.
const SSH: &str = "ssh -oStrictHostKeyChecking=no -oPasswordAuthentication=no -oKbdInteractiveAuthentication=no \
                   -oChallengeResponseAuthentication=no -i \"$GIT_IDENTITY\"";

impl Git<'_> {
    /// Returns a copy with these keys.
    pub(crate) fn with_identity(&self, identity: &[String]) -> Self {
        Self {
            identity: identity.to_vec(),
            ..self.clone()
        }
    }

    /// Returns a copy with this login.
    pub(crate) fn with_login(self, login: Option<Login>) -> Self {
        Self { login, ..self }
    }

    fn process(&self, words: &[String], mut env: Map, stderr: Stderr) -> Process {
        let mut words = words.to_vec();
        if let Some(login) = &self.login {
            drop(words.splice(1..1, login.options()));
            env.extend(login.variables());
        }
        let mut process = Process::words(words).quiet();
        process.cwd.clone_from(&self.cwd);
        process.runas.clone_from(&self.user);
        process.output_encoding.clone_from(&self.output_encoding);
        process.stderr = stderr;
        // No user is present who could enter a password.
        process.env = env.with("GIT_TERMINAL_PROMPT", "0");
        process
    }

    /// Runs git. A return code other than 0 is not an error.
    pub(crate) fn run(&self, words: &[String], stderr: Stderr) -> Result<Output, Error> {
        if machine::process::which("git").is_none() {
            return Err("The program git is not installed".into());
        }
        if self.identity.is_empty() {
            return self.process(words, Map::new(), stderr).run(self.cx);
        }
        self.with_keys(words, stderr)
    }

    /// Runs git with one key after the other until one of them is accepted.
    fn with_keys(&self, words: &[String], stderr: Stderr) -> Result<Output, Error> {
        let (mut errors, mut missing) = (Vec::new(), Vec::new());
        for identity in &self.identity {
            let Some(key) = Key::of(self, identity)? else {
                missing.push(identity.clone());
                continue;
            };
            let env = Map::new()
                .with("GIT_IDENTITY", key.path.as_str())
                .with("GIT_SSH_COMMAND", SSH)
                .with("GIT_SSH_VARIANT", "ssh");
            let done = self.process(words, env, stderr).run(self.cx)?;
            if done.success() {
                return Ok(done);
            }
            errors.push(redacted(problem(&done, stderr)));
        }
        let mut text = format!(
            "Unable to authenticate using identity file:\n\n{}",
            errors.join("\n")
        );
        if !missing.is_empty() {
            let apart = if errors.is_empty() { "" } else { "\n\n" };
            text.push_str(&format!(
                "{apart}The following identity file(s) were not found: {}",
                missing.join(", ")
            ));
        }
        Err(text.into())
    }

    fn checked(&self, words: &[String], stderr: Stderr) -> Result<String, Error> {
        let done = self.run(words, stderr)?;
        if done.success() {
            return Ok(done.stdout);
        }
        let mut text = format!("Command '{}' failed", redacted(&words.join(" ")));
        let said = problem(&done, stderr);
        if !said.is_empty() {
            text.push_str(&format!(": {}", redacted(said)));
        }
        Err(text.into())
    }

    /// Runs a command and returns its standard output; an error when it fails.
    pub(crate) fn words(&self, words: &[String]) -> Result<String, Error> {
        self.checked(words, Stderr::Apart)
    }

    /// Like [`words`](Self::words), but the output includes standard error.
    pub(crate) fn merged(&self, words: &[String]) -> Result<String, Error> {
        self.checked(words, Stderr::Merged)
    }

    /// Like [`words`](Self::words), for the words after `git`.
    pub(crate) fn git(&self, command: &[&str]) -> Result<String, Error> {
        self.words(&line(command))
    }

    /// Runs a command and returns the lines of its output.
    pub(crate) fn lines(&self, command: &[&str]) -> Result<Vec<String>, Error> {
        let out = self.git(command)?;
        Ok(out.lines().map(str::to_owned).collect())
    }
}

/// Returns `git` followed by the words of a command.
pub(crate) fn line(command: &[&str]) -> Vec<String> {
    ["git"]
        .iter()
        .chain(command)
        .map(|word| (*word).to_owned())
        .collect()
}

fn problem(done: &Output, stderr: Stderr) -> &str {
    match stderr {
        Stderr::Merged => &done.stdout,
        Stderr::Apart => &done.stderr,
    }
}

/// A key for ssh. A key from the file roots is copied, because ssh refuses keys that other users
/// may read.
struct Key {
    path: String,
    _copy: Option<machine::fs::Temporary>,
}

impl Key {
    fn of(git: &Git<'_>, identity: &str) -> Result<Option<Self>, Error> {
        let path = path::expanduser(identity);
        if !path.starts_with("salt://") {
            return Ok(path::isfile(&path).then_some(Self { path, _copy: None }));
        }
        let Some(found) = fetch::salt_file(git.cx, &path, &git.cx.saltenv)? else {
            return Ok(None);
        };
        let text = machine::fs::read(&found)?;
        let runas = git.user.as_deref().map(Value::from);
        let copy = machine::fs::Temporary::written("", &text, runas.as_ref())?;
        Ok(Some(Self {
            path: copy.path().to_string_lossy().into_owned(),
            _copy: Some(copy),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_a_list_or_a_line() {
        assert_eq!(options(&"-q 'a b' --".into()).unwrap(), ["-q", "a b"]);
        assert_eq!(options(&Value::list([1.into()])).unwrap(), ["1"]);
    }

    #[test]
    fn unknown_arguments_are_refused() {
        let cx = crate::testing::exec();
        let kwargs = Map::new().with("user", "root").with("foo", 1);
        let error = Common::of(&cx, None, &kwargs, &[])
            .err()
            .unwrap()
            .to_string();
        assert_eq!(
            error,
            "The following keyword arguments are not valid: foo=1"
        );
    }
}
