//! The `git` state module.

mod clone;
mod cloned;
pub(crate) mod config;
mod detached;
mod latest;
mod present;
mod remote;
mod update;

use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::git::{Git, refuse_unknown};
use crate::fs;

use cloned::cloned;
use detached::detached;
use latest::latest;
use present::present;

state::state_module! {
    /// Repositories of git.
    mod git;

    /// Make sure that a repository is cloned and up to date.
    fn latest(Latest {
        /// Where it is cloned from.
        name: String,
        /// The folder to clone it to.
        target: Option<String>,
        /// A branch, a tag or a commit.
        rev: Value = "HEAD".into(),
        /// The local branch.
        branch: Option<String> = None,
        /// The user to run git as.
        user: Option<String> = None,
        /// Of Windows only.
        password: Option<String> = None,
        /// Whether the work tree follows.
        update_head: bool = true,
        /// Whether changes are lost when another branch is checked out.
        force_checkout: bool = false,
        /// Whether what is in the folder is lost when it is no repository.
        force_clone: bool = false,
        /// Whether branches that went back are fetched.
        force_fetch: bool = false,
        /// Whether local commits and changes are lost; `remote-changes` for only when there is something new.
        force_reset: Value = false.into(),
        /// Whether submodules follow.
        submodules: bool = false,
        /// Without a work tree.
        bare: bool = false,
        /// A bare copy of everything.
        mirror: bool = false,
        /// The name of the other repository.
        remote: String = "origin".into(),
        /// Whether tags are fetched.
        fetch_tags: bool = true,
        /// Whether tags that are gone there are removed here.
        sync_tags: bool = true,
        /// How many commits to fetch when it is cloned.
        depth: Option<i64> = None,
        /// A key for ssh, or a list of them.
        identity: Value = Value::Null,
        /// The user for https.
        https_user: Option<String> = None,
        /// The password for https.
        https_pass: Option<String> = None,
        /// Which branches are fetched.
        refspec_branch: String = "*".into(),
        /// Which tags are fetched.
        refspec_tag: String = "*".into(),
        /// The encoding of what git prints.
        output_encoding: Option<String> = None,
        ..kwargs
    });

    /// Make sure that there is a repository.
    fn present(Present {
        /// The folder.
        name: String,
        /// Whether what is in the folder is lost when it is no repository.
        force: bool = false,
        /// Without a work tree.
        bare: bool = true,
        /// The folder with its first files.
        template: Option<String> = None,
        /// Where the repository itself lies.
        separate_git_dir: Option<String> = None,
        /// Who may use it.
        shared: Value = Value::Null,
        /// The user to run git as.
        user: Option<String> = None,
        /// Of Windows only.
        password: Option<String> = None,
        /// The encoding of what git prints.
        output_encoding: Option<String> = None,
    });

    /// Make sure that a repository is cloned and a commit is checked out without a branch.
    fn detached(Detached {
        /// Where it is cloned from.
        name: String,
        /// A branch, a tag or a commit.
        rev: Value,
        /// The folder to clone it to.
        target: String,
        /// The name of the other repository.
        remote: String = "origin".into(),
        /// The user to run git as.
        user: Option<String> = None,
        /// Of Windows only.
        password: Option<String> = None,
        /// Whether what is in the folder is lost when it is no repository.
        force_clone: bool = false,
        /// Whether changes are lost.
        force_checkout: bool = false,
        /// Whether to fetch.
        fetch_remote: bool = true,
        /// Whether changes are thrown away first.
        hard_reset: bool = false,
        /// Whether submodules follow.
        submodules: bool = false,
        /// A key for ssh, or a list of them.
        identity: Value = Value::Null,
        /// The user for https.
        https_user: Option<String> = None,
        /// The password for https.
        https_pass: Option<String> = None,
        /// The encoding of what git prints.
        output_encoding: Option<String> = None,
        ..kwargs
    });

    /// Make sure that a repository is cloned, and a branch checked out; nothing is fetched.
    fn cloned(Cloned {
        /// Where it is cloned from.
        name: String,
        /// The folder to clone it to.
        target: Option<String>,
        /// The branch.
        branch: Option<String> = None,
        /// The user to run git as.
        user: Option<String> = None,
        /// Of Windows only.
        password: Option<String> = None,
        /// A key for ssh, or a list of them.
        identity: Value = Value::Null,
        /// The user for https.
        https_user: Option<String> = None,
        /// The password for https.
        https_pass: Option<String> = None,
        /// The encoding of what git prints.
        output_encoding: Option<String> = None,
    });
}

/// Comments as one text.
fn joined(comments: &[String]) -> String {
    let end = if comments.len() > 1 { "." } else { "" };
    format!("{}{end}", comments.join(". "))
}

/// What git says, without the command that has failed.
fn said(error: &Error) -> String {
    let text = error.to_string();
    let said = text
        .strip_prefix("Command '")
        .and_then(|rest| rest.split_once("' failed: "));
    said.map_or_else(|| text.clone(), |(_, said)| said.to_owned())
}

/// A return in the making, with what was done so far.
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

    /// The failure, with what was done before it.
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

    /// The failure without what was done before it.
    fn failed_alone(&self, message: impl Into<String>) -> Ret {
        Ret {
            result: Some(false),
            comment: message.into(),
            ..self.ret.clone()
        }
    }

    /// What would be done.
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

/// The git program in a folder, for a user.
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
        login: None,
        output_encoding: output_encoding.cloned(),
    }
}

/// Keys for ssh: absolute paths, or files of the roots. `word` begins the error, as each state has it.
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

fn no_others(kwargs: &Map) -> Result<(), Error> {
    let names: Vec<String> = kwargs
        .keys()
        .map(Value::to_text)
        .filter(|name| !name.starts_with("__"))
        .collect();
    refuse_unknown(&names, kwargs)
}

/// True for what may be the beginning of a commit's hash.
fn is_hash(rev: &str) -> bool {
    rev.len() <= 40 && rev.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The beginning of a commit's hash.
fn short(rev: Option<&str>) -> &str {
    rev.map_or("None", |rev| rev.get(..7).unwrap_or(rev))
}

/// Removes all that is in a folder.
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

/// A repository that is to be cloned over what is in its folder, or not.
struct Place<'a> {
    cx: &'a Exec,
    name: &'a str,
    target: &'a str,
    force: bool,
}

impl Place<'_> {
    /// Makes room: an answer where the folder has something in it.
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
