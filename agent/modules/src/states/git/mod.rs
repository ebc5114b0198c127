//! The `git` state module.

mod clone;
mod cloned;
pub(crate) mod config;
mod detached;
mod latest;
mod present;
mod remote;
mod update;

use machine::fs;
use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::git::Git;

use cloned::cloned;
use detached::detached;
use latest::latest;
use present::present;

state::state_module! {
    /// Manage git repositories.
    #[needs("git", "git module could not be loaded")]
    mod git;

    /// Make sure that a repository is cloned and up to date.
    ///
    ///     https://git.example.com/app.git:
    ///       git.latest:
    ///         - target: /srv/app
    ///         - branch: main
    fn latest(Latest {
        /// The address to clone from.
        name: String,
        /// The folder to clone it to.
        target: Option<String>,
        /// A branch, a tag or a commit.
        rev: Value = "HEAD".into(),
        /// The local branch.
        branch: Option<String> = None,
        /// The user to run git as.
        user: Option<String> = None,
        /// Accepted but ignored; only Windows needs it.
        password: Option<String> = None,
        /// True to update the work tree.
        update_head: bool = true,
        /// True to discard changes when another branch is checked out.
        force_checkout: bool = false,
        /// True to delete the contents of a folder that is not a repository.
        force_clone: bool = false,
        /// True to fetch branches even if the update is not a fast-forward.
        force_fetch: bool = false,
        /// True to discard local commits and changes; `remote-changes` to do so only if the remote
        /// repository has something new.
        force_reset: Value = false.into(),
        /// True to update submodules.
        submodules: bool = false,
        /// True for a repository without a work tree.
        bare: bool = false,
        /// True for a bare mirror of the whole repository.
        mirror: bool = false,
        /// The name of the remote repository.
        remote: String = "origin".into(),
        /// True to fetch tags.
        fetch_tags: bool = true,
        /// True to remove local tags that no longer exist in the remote repository.
        sync_tags: bool = true,
        /// The number of commits to fetch when the repository is cloned.
        depth: Option<i64> = None,
        /// A private key for ssh, or a list of keys.
        identity: Value = Value::Null,
        /// The user name for https.
        https_user: Option<String> = None,
        /// The password for https.
        https_pass: Option<String> = None,
        /// The branches to fetch.
        refspec_branch: String = "*".into(),
        /// The tags to fetch.
        refspec_tag: String = "*".into(),
        /// The encoding of git's output.
        output_encoding: Option<String> = None,
        ..kwargs
    });

    /// Make sure that a repository exists.
    ///
    ///     /srv/git/app.git:
    ///       git.present:
    ///         - bare: True
    fn present(Present {
        /// The folder.
        name: String,
        /// True to delete the contents of a folder that is not a repository.
        force: bool = false,
        /// True for a repository without a work tree.
        bare: bool = true,
        /// The folder with the initial files of the repository.
        template: Option<String> = None,
        /// The folder for the repository itself, if it is not in the work tree.
        separate_git_dir: Option<String> = None,
        /// The value of git's option `--shared`: the users that may use the repository.
        shared: Value = Value::Null,
        /// The user to run git as.
        user: Option<String> = None,
        /// Accepted but ignored; only Windows needs it.
        password: Option<String> = None,
        /// The encoding of git's output.
        output_encoding: Option<String> = None,
    });

    /// Make sure that a repository is cloned, and that a commit is checked out without a branch.
    ///
    ///     https://git.example.com/app.git:
    ///       git.detached:
    ///         - target: /srv/app
    ///         - rev: v2.1
    fn detached(Detached {
        /// The address to clone from.
        name: String,
        /// A branch, a tag or a commit.
        rev: Value,
        /// The folder to clone it to.
        target: String,
        /// The name of the remote repository.
        remote: String = "origin".into(),
        /// The user to run git as.
        user: Option<String> = None,
        /// Accepted but ignored; only Windows needs it.
        password: Option<String> = None,
        /// True to delete the contents of a folder that is not a repository.
        force_clone: bool = false,
        /// True to discard changes.
        force_checkout: bool = false,
        /// True to fetch from the remote repository.
        fetch_remote: bool = true,
        /// True to discard changes before the checkout.
        hard_reset: bool = false,
        /// True to update submodules.
        submodules: bool = false,
        /// A private key for ssh, or a list of keys.
        identity: Value = Value::Null,
        /// The user name for https.
        https_user: Option<String> = None,
        /// The password for https.
        https_pass: Option<String> = None,
        /// The encoding of git's output.
        output_encoding: Option<String> = None,
        ..kwargs
    });

    /// Make sure that a repository is cloned and a branch is checked out. Nothing is fetched.
    ///
    ///     https://git.example.com/app.git:
    ///       git.cloned:
    ///         - target: /srv/app
    fn cloned(Cloned {
        /// The address to clone from.
        name: String,
        /// The folder to clone it to.
        target: Option<String>,
        /// The branch.
        branch: Option<String> = None,
        /// The user to run git as.
        user: Option<String> = None,
        /// Accepted but ignored; only Windows needs it.
        password: Option<String> = None,
        /// A private key for ssh, or a list of keys.
        identity: Value = Value::Null,
        /// The user name for https.
        https_user: Option<String> = None,
        /// The password for https.
        https_pass: Option<String> = None,
        /// The encoding of git's output.
        output_encoding: Option<String> = None,
    });
}

/// Joins comments into one text.
fn joined(comments: &[String]) -> String {
    let end = if comments.len() > 1 { "." } else { "" };
    format!("{}{end}", comments.join(". "))
}

/// Returns git's error message without the failed command.
fn error_text(error: &Error) -> String {
    let text = error.to_string();
    let said = text
        .strip_prefix("Command '")
        .and_then(|rest| rest.split_once("' failed: "));
    said.map_or_else(|| text.clone(), |(_, said)| said.to_owned())
}

/// The result so far, and the comments about completed steps.
#[derive(Default)]
struct Work {
    ret: Ret,
    comments: Vec<String>,
}

impl Work {
    fn new() -> Self {
        Self {
            ret: Ret::ok(""),
            comments: Vec::new(),
        }
    }

    fn did(&mut self, comment: impl Into<String>) {
        self.comments.push(comment.into());
    }

    fn change(&mut self, key: &str, value: impl Into<Value>) {
        self.ret = std::mem::take(&mut self.ret).change(key, value);
    }

    /// Returns a failure that names the steps completed before it.
    fn failed(&self, message: impl Into<String>) -> Ret {
        let mut comment = message.into();
        if !self.comments.is_empty() {
            comment.push_str(&format!(
                "\n\nChanges already made: {}",
                joined(&self.comments)
            ));
        }
        Ret {
            result: Some(false),
            comment,
            ..self.ret.clone()
        }
    }

    /// Returns a failure that does not name the steps completed before it.
    fn failed_alone(&self, message: impl Into<String>) -> Ret {
        Ret {
            result: Some(false),
            comment: message.into(),
            ..self.ret.clone()
        }
    }

    /// Returns the result of test mode.
    fn would(&self, comment: impl Into<String>) -> Ret {
        Ret {
            result: None,
            comment: comment.into(),
            ..self.ret.clone()
        }
    }

    fn ok(&self, comment: impl Into<String>) -> Ret {
        Ret {
            result: Some(true),
            comment: comment.into(),
            ..self.ret.clone()
        }
    }
}

/// Returns the git program for a folder and a user.
fn git<'a>(
    cx: &'a Exec,
    target: &str,
    user: Option<&String>,
    output_encoding: Option<&String>,
) -> Git<'a> {
    Git {
        cx,
        cwd: Some(target.to_owned()),
        user: user.filter(|user| !user.is_empty()).cloned(),
        identity: Vec::new(),
        saltenv: cx.saltenv.clone(),
        login: None,
        output_encoding: output_encoding.cloned(),
    }
}

/// Returns the ssh keys: absolute paths, or files of the file roots. `word` begins the error
/// message, which differs between the states.
fn identities(given: &Value, word: &str) -> Result<Vec<String>, Error> {
    let keys: Vec<String> = match given {
        Value::Null => Vec::new(),
        Value::Str(text) => vec![text.to_string()],
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        _ => return Err(format!("{word} must be either a list or a string").into()),
    };
    let keys: Vec<String> = keys.iter().map(|key| path::expanduser(key)).collect();
    match keys
        .iter()
        .find(|key| !path::isabs(key) && !key.starts_with("salt://"))
    {
        Some(key) => Err(format!("{word} '{key}' is not an absolute path").into()),
        None => Ok(keys),
    }
}

/// Returns true if the text can be the beginning of a commit's hash.
fn is_hash(rev: &str) -> bool {
    rev.len() <= 40 && rev.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the first seven characters of a commit's hash.
fn short(rev: Option<&str>) -> &str {
    rev.map_or("None", |rev| rev.get(..7).unwrap_or(rev))
}

/// Removes the contents of a folder.
fn emptied(cx: &Exec, folder: &str) -> Result<(), String> {
    let mut errors = Vec::new();
    for entry in fs::list(folder).map_err(|error| error.to_string())? {
        let path = entry.path();
        if let Err(error) = fs::remove(cx, &path) {
            errors.push(format!("  {}\n    {error}", path.display()));
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(format!("Unable to remove\n{}", errors.join("\n")))
    }
}

/// The folder to clone a repository to.
struct Place<'a> {
    cx: &'a Exec,
    name: &'a str,
    target: &'a str,
    force: bool,
}

impl Place<'_> {
    /// Empties the folder if `force` is set; otherwise fails if it is not empty. Returns the result
    /// if the state ends there.
    fn cleared(&self, work: &mut Work, forced: &Map) -> Result<Option<Ret>, Error> {
        let Self {
            cx,
            name,
            target,
            force,
        } = self;
        if !path::isdir(target) {
            return Ok(None);
        }
        if !force {
            return Ok((!fs::names(target)?.is_empty()).then(|| {
                work.failed(format!(
                    "Target '{target}' exists, is non-empty and is not a git repository. Set the 'force_clone' option to True \
                     to remove this directory's contents and proceed with cloning the remote repository"
                ))
            }));
        }
        if cx.test {
            let would = work.would(format!(
                "Target directory {target} exists. Since force_clone=True, the contents of {target} would be deleted, and \
                 {name} would be cloned into this directory."
            ));
            return Ok(Some(would.changes(forced.clone())));
        }
        if let Err(error) = emptied(cx, target) {
            return Ok(Some(work.failed(error)));
        }
        work.change("forced clone", true);
        Ok(None)
    }
}
