//! The `git` execution module. This part runs the program; the submodules contain the functions.

pub(crate) mod config;
pub(crate) mod history;
pub(crate) mod remote;
pub(crate) mod tree;

use machine::process::{Output, Process, Stderr};
use python::{path, shlex};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::fileserver::fetch;
pub(crate) use crate::git::login::{Login, redacted, with_login};

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
    /// The environment of the file roots that contains the keys.
    pub(crate) saltenv: String,
    /// The user and password for a server.
    pub(crate) login: Option<Login>,
    /// The encoding of the output of git.
    pub(crate) output_encoding: Option<String>,
}

state::argument_group! {
    /// The options of a command.
    pub(crate) struct Options {
        /// Options of the command: a list, or a line that is split as a shell does.
        opts: Value = "".into(),
        /// Options of git itself, before the command.
        git_opts: Value = "".into(),
    }
}

state::argument_group! {
    /// The user who runs git.
    pub(crate) struct User {
        /// The user who runs git.
        user: Option<String> = None,
        /// Accepted for Salt's sake; without effect on Linux.
        password: Option<String> = None,
    }
}

state::argument_group! {
    /// The user who runs git, and the output of git.
    pub(crate) struct Caller {
        #[group] user: User,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    }
}

impl Options {
    /// Returns the words of a command: git and its options, the command and its options, and more.
    pub(crate) fn words(&self, command: &[&str], more: &[&str]) -> Result<Vec<String>, Error> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let parts: [Vec<String>; 5] = [
            owned(&["git"]),
            options(&self.git_opts)?,
            owned(command),
            options(&self.opts)?,
            owned(more),
        ];
        Ok(parts.concat())
    }
}

impl User {
    /// Returns git in a folder, as this user.
    pub(crate) fn git<'a>(
        self,
        cx: &'a Exec,
        cwd: Option<&str>,
        output_encoding: Option<String>,
    ) -> Git<'a> {
        let user = self.user.filter(|user| !user.is_empty());
        Git {
            cx,
            cwd: cwd.map(|cwd| expanded(cwd, user.as_deref())),
            user,
            identity: Vec::new(),
            saltenv: "base".into(),
            login: None,
            output_encoding: output_encoding.filter(|encoding| !encoding.is_empty()),
        }
    }
}

impl Caller {
    /// Returns git in a folder, as this user.
    pub(crate) fn git<'a>(self, cx: &'a Exec, cwd: &str) -> Git<'a> {
        self.user.git(cx, Some(cwd), self.output_encoding)
    }
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

/// Returns the paths of ssh keys from a list, or from a text.
pub(crate) fn keys(given: &Value) -> Vec<String> {
    match given {
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        one if one.is_true() => vec![one.to_text()],
        _ => Vec::new(),
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

/// Returns an error that lists these named arguments, if there are any: the function knows none of
/// them.
pub(crate) fn refuse_others(kwargs: &Map) -> Result<(), Error> {
    let others = kwargs.iter().filter_map(|(name, value)| {
        let name = name.to_text();
        (!name.starts_with("__")).then(|| format!("{name}={}", value.to_text()))
    });
    let others: Vec<String> = others.collect();
    if others.is_empty() {
        return Ok(());
    }
    Err(format!(
        "The following keyword arguments are not valid: {}",
        others.join(", ")
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
            let Some(key) = Key::find(self, identity)? else {
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
        let done = match self.run(words, stderr)?.into_success() {
            Ok(stdout) => return Ok(stdout),
            Err(failed) => failed,
        };
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
        Stderr::Merged => done.stdout_regardless(),
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
    fn find(git: &Git<'_>, identity: &str) -> Result<Option<Self>, Error> {
        let path = path::expanduser(identity);
        if !path.starts_with("salt://") {
            return Ok(path::isfile(&path).then_some(Self { path, _copy: None }));
        }
        let Some(found) = fetch::salt_file(git.cx, &path, &git.saltenv)? else {
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
        let kwargs = Map::new().with("__pub_user", "root").with("foo", 1);
        let error = refuse_others(&kwargs).unwrap_err().to_string();
        assert_eq!(
            error,
            "The following keyword arguments are not valid: foo=1"
        );
    }
}
