//! `git.latest`: its arguments, and the current state of the repository.

use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use super::remote::{Kind, Remote, Upstream};
use super::{Latest, Work, error_text, identities};
use crate::exec::git::tree::{is_repository, succeeds};
use crate::exec::git::{Git, line, redacted, refuse_others, with_login};

/// The arguments and the repository of the state.
pub(super) struct Job<'a> {
    pub(super) cx: &'a Exec,
    pub(super) args: &'a Latest,
    pub(super) target: &'a str,
    pub(super) rev: String,
    pub(super) branch: Option<&'a str>,
    pub(super) bare: bool,
    /// The address, including the login.
    pub(super) url: String,
    /// The git program in the folder.
    pub(super) git: Git<'a>,
    /// Like `git`, with the ssh keys and the login.
    pub(super) net: Git<'a>,
    pub(super) remote: Remote,
}

/// The condition under which local commits and changes may be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reset {
    Never,
    Always,
    RemoteChanges,
}

impl Reset {
    fn parse(given: &Value) -> Result<Self, Error> {
        match given {
            Value::Bool(true) | Value::Int(1) => Ok(Self::Always),
            Value::Bool(false) | Value::Int(0) => Ok(Self::Never),
            other if other.as_str() == Some("remote-changes") => Ok(Self::RemoteChanges),
            _ => Err("'force_reset' must be one of True, False, or 'remote-changes'".into()),
        }
    }
}

pub(super) fn latest(cx: &Exec, args: Latest) -> Result<Ret, Error> {
    refuse_others(&args.kwargs)?;
    let job = Job::prepare(cx, &args)?;
    let existing = is_repository(&job.git, job.bare)?;
    let mut work = Work::new();
    let done = if existing {
        job.update(&mut work)
    } else {
        job.clone_anew(&mut work)
    };
    Ok(done.unwrap_or_else(|error| work.failed(error_text(&error))))
}

impl<'a> Job<'a> {
    fn prepare(cx: &'a Exec, args: &'a Latest) -> Result<Self, Error> {
        if args.remote.is_empty() {
            return Err("'remote' argument is required".into());
        }
        let Some(target) = args.target.as_deref().filter(|target| !target.is_empty()) else {
            return Err("'target' argument is required".into());
        };
        let mut rev = args.rev.to_text();
        if !args.rev.is_true() {
            return Err(format!("'{rev}' is not a valid value for the 'rev' argument").into());
        }
        Reset::parse(&args.force_reset)?;
        if !path::isabs(target) {
            return Err(format!("target '{target}' is not an absolute path").into());
        }
        let keys = identities(&args.identity, "identity")?;
        if path::isfile(target) {
            return Err(
                format!("Target '{target}' exists and is a regular file, cannot proceed").into(),
            );
        }
        let (url, login) = with_login(
            &args.name,
            args.https_user.as_deref(),
            args.https_pass.as_deref(),
        )?;
        let bare = args.bare || args.mirror;
        if rev != "HEAD" && bare {
            return Err("'rev' is not compatible with the 'mirror' and 'bare' arguments".into());
        }
        let git = super::git(
            cx,
            target,
            args.user.as_ref(),
            args.output_encoding.as_ref(),
        );
        let net = git.with_identity(&keys).with_login(login);
        let remote = Remote::query(&net, &url, &args.remote, &mut rev, bare).map_err(|error| {
            Error::refused(format!(
                "Failed to check remote refs: {}",
                error_text(&error)
            ))
        })?;
        if args.depth.is_some() && remote.kind == Kind::Commit {
            return Err("When 'depth' is used, 'rev' must be set to the name of a branch or tag on the remote repository".into());
        }
        if remote.rev.is_none() && !bare && rev != "HEAD" {
            return Err(
                format!("No revision matching '{rev}' exists in the remote repository").into(),
            );
        }
        let branch = args.branch.as_deref();
        Ok(Self {
            cx,
            args,
            target,
            rev,
            branch,
            bare,
            url,
            git,
            net,
            remote,
        })
    }

    pub(super) fn reset(&self) -> Reset {
        Reset::parse(&self.args.force_reset).unwrap_or(Reset::Never)
    }

    /// Returns true if the state names a branch that is not the current one.
    pub(super) fn needs_branch(&self, local: Option<&str>) -> bool {
        self.branch.is_some() && self.branch != local
    }

    /// Returns the commit that is checked out.
    pub(super) fn head(&self) -> Option<String> {
        self.git.git(&["rev-parse", "HEAD"]).ok()
    }

    pub(super) fn current_branch(&self) -> Option<String> {
        self.git.git(&["rev-parse", "--abbrev-ref", "HEAD"]).ok()
    }

    /// Returns the commit that a name refers to.
    pub(super) fn commit(&self, name: &str) -> Result<String, Error> {
        self.git.git(&["rev-parse", &format!("{name}^{{commit}}")])
    }

    /// Returns the upstream branch of a local branch.
    pub(super) fn followed(&self, branch: Option<&str>) -> Option<String> {
        let name = format!("{}@{{upstream}}", branch?);
        self.git
            .git(&["rev-parse", "--abbrev-ref", &name])
            .ok()
            .filter(|found| !found.is_empty())
    }

    pub(super) fn branches(&self) -> Result<Vec<String>, Error> {
        self.git.refs_below("refs/heads/")
    }

    pub(super) fn tags(&self) -> Result<Vec<String>, Error> {
        self.git.refs_below("refs/tags/")
    }

    pub(super) fn is_ancestor(&self, old: &str, new: &str) -> Result<bool, Error> {
        succeeds(&self.git, &["merge-base", "--is-ancestor", old, new])
    }

    /// Returns the change of the upstream branch (`set to x`, `unset` or `updated to x`), and the
    /// options of git for it.
    pub(super) fn tracking(&self, followed: Option<&str>) -> Option<(String, Vec<&str>)> {
        match (&self.remote.upstream, followed) {
            (Upstream::Branch(wanted), None) => Some((
                format!("set to {wanted}"),
                vec!["--set-upstream-to", wanted],
            )),
            (Upstream::Branch(wanted), Some(now)) if now != wanted => Some((
                format!("updated to {wanted}"),
                vec!["--set-upstream-to", wanted],
            )),
            (Upstream::No, Some(_)) => Some(("unset".to_owned(), vec!["--unset-upstream"])),
            _ => None,
        }
    }

    /// Like [`Self::tracking`], but returns nothing for a new branch, whose upstream is set when it
    /// is checked out.
    pub(super) fn follow(
        &self,
        followed: Option<&str>,
        branches: &[String],
    ) -> Option<(String, Vec<&str>)> {
        let (action, words) = self.tracking(followed)?;
        let new = self
            .branch
            .is_some_and(|branch| !branches.iter().any(|known| known == branch));
        let sets = words.first() == Some(&"--set-upstream-to");
        (!(new && sets)).then(|| (format!("Tracking branch was {action}"), words))
    }

    /// Returns the starting point of a new branch.
    pub(super) fn start(&self) -> &str {
        match &self.remote.upstream {
            _ if self.rev == "HEAD" => self.remote.rev.as_deref().unwrap_or_default(),
            Upstream::Branch(branch) => branch,
            _ => &self.rev,
        }
    }

    /// Runs git. The ssh keys are used if large files (LFS) may have to be fetched.
    pub(super) fn may_fetch(&self, command: &[&str]) -> Result<String, Error> {
        let large = !self.net.identity.is_empty()
            && succeeds(
                &self.git,
                &["config", "--global", "--get-regexp", r"filter\.lfs\."],
            )?;
        if large { &self.net } else { &self.git }.git(command)
    }

    pub(super) fn shown_url(&self) -> String {
        redacted(&self.url)
    }

    pub(super) fn update_submodules(&self, work: &Work) -> Option<Ret> {
        if !self.args.submodules {
            return None;
        }
        let done = self
            .net
            .git(&["submodule", "update", "--init", "--recursive"]);
        done.err().map(|error| {
            work.failed(format!(
                "Failed to update submodules: {}",
                error_text(&error)
            ))
        })
    }

    /// Fetches into the references that the arguments name.
    pub(super) fn fetch(&self, work: &Work) -> Result<bool, Ret> {
        let mut words = line(if self.args.force_fetch {
            &["fetch", "--force"]
        } else {
            &["fetch"]
        });
        words.push(self.args.remote.clone());
        if self.args.fetch_tags {
            let (remote, branch, tag) = (
                &self.args.remote,
                &self.args.refspec_branch,
                &self.args.refspec_tag,
            );
            words.push(format!(
                "refs/heads/{branch}:refs/remotes/{remote}/{branch}"
            ));
            words.push(format!("+refs/tags/{tag}:refs/tags/{tag}"));
        }
        self.net.fetched(&words).map(|updates| !updates.is_empty()).map_err(|error| {
            work.failed(format!(
                "Fetch failed. Set 'force_fetch' to True to force the fetch if the failure was due to not being able to \
                 fast-forward. Output of the fetch command follows:\n\n{}",
                error_text(&error)
            ))
        })
    }

    pub(super) fn up_to_date(&self, work: &Work, comments: &[String], local_changes: bool) -> Ret {
        let mut comment = format!("Repository {} is up-to-date", self.target);
        if local_changes {
            comment.push_str(", but with uncommitted changes. Set 'force_reset' to True to purge uncommitted changes.");
        }
        if !comments.is_empty() {
            let would = if self.cx.test { "that would be " } else { "" };
            comment.push_str(&format!("\n\nChanges {would}made: {}", joined(comments)));
        }
        work.ok(comment)
    }
}

use super::joined;
