//! The remote repository, and the wanted revision in it.

use state::module::Error;
use value::{Map, Value};

use super::is_hash;
use crate::exec::git::{Git, line, plain};

/// The kind of the wanted revision in the remote repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Branch,
    Tag,
    Commit,
}

/// The wanted upstream of the local branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Upstream {
    /// No upstream.
    No,
    /// The current upstream is kept.
    Kept,
    /// The given branch.
    Branch(String),
}

/// The remote repository.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    /// True if it has a HEAD. An empty repository has none.
    pub(super) has_head: bool,
    pub(super) default_branch: Option<String>,
    /// The wanted revision. For a commit it may be the beginning of its hash.
    pub(super) rev: Option<String>,
    pub(super) kind: Kind,
    pub(super) upstream: Upstream,
    /// The description of the revision for comments.
    pub(super) location: String,
}

impl Remote {
    /// Queries the remote repository. A `rev` that is a hash is converted to lower case.
    pub(super) fn query(
        git: &Git<'_>,
        url: &str,
        remote: &str,
        rev: &mut String,
        bare: bool,
    ) -> Result<Self, Error> {
        let asking = Git {
            cwd: None,
            ..git.clone()
        };
        let refs = asking.refs(&line(&["ls-remote", plain(url)?]))?;
        let commit = |name: &str| refs.get(name).map(Value::to_text);
        let head = commit("HEAD");
        let default_branch = head.as_deref().and_then(|head| branch_at(&refs, head));
        let mut found = Self {
            has_head: head.is_some(),
            default_branch,
            rev: None,
            kind: Kind::Commit,
            upstream: Upstream::No,
            location: String::new(),
        };
        if bare {
            return Ok(found);
        }
        let tag = format!("refs/tags/{rev}");
        if rev == "HEAD" {
            found.rev = head;
            found.upstream = if found.has_head {
                Upstream::Kept
            } else {
                Upstream::No
            };
        } else if let Some(commit) = commit(&format!("refs/heads/{rev}")) {
            found.rev = Some(commit);
            found.kind = Kind::Branch;
            found.upstream = Upstream::Branch(format!("{remote}/{rev}"));
        } else if let Some(commit) = commit(&format!("{tag}^{{}}")).or_else(|| commit(&tag)) {
            found.rev = Some(commit);
            found.kind = Kind::Tag;
        } else if is_hash(rev) {
            rev.make_ascii_lowercase();
            found.rev = Some(rev.clone());
        }
        found.location = found.located(rev);
        Ok(found)
    }

    fn located(&self, rev: &str) -> String {
        let short = super::short(self.rev.as_deref());
        match (&self.upstream, self.kind) {
            (_, Kind::Commit) if rev == "HEAD" => format!("remote HEAD ({short})"),
            (_, Kind::Commit) => short.to_owned(),
            (Upstream::Branch(branch), _) => format!("{branch} ({short})"),
            _ => format!("{rev} ({short})"),
        }
    }

    /// Returns true if a local commit is the wanted one.
    pub(super) fn is(&self, local: Option<&str>) -> bool {
        match (local, self.rev.as_deref()) {
            (None, None) => true,
            (Some(local), Some(wanted)) if self.kind == Kind::Commit => local.starts_with(wanted),
            (local, wanted) => local == wanted,
        }
    }
}

/// Returns the first branch that points to a commit.
fn branch_at(refs: &Map, commit: &str) -> Option<String> {
    let mut at = refs
        .iter()
        .filter(|(_, other)| other.as_str() == Some(commit));
    at.find_map(|(name, _)| {
        name.as_str()?
            .strip_prefix("refs/heads/")
            .map(str::to_owned)
    })
}
