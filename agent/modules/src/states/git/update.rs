//! `git.latest` for an existing repository.

use state::module::{Error, Ret};
use value::{Map, Value};

use super::latest::{Job, Reset};
use super::remote::{Kind, Upstream};
use super::{Work, joined, short};
use crate::exec::git::{plain, redacted};

/// The state of the repository before any change.
struct Found {
    head: Option<String>,
    branch: Option<String>,
    branches: Vec<String>,
    tags: Vec<String>,
    /// The commit that is updated. If another branch is checked out first, it is that branch's
    /// commit.
    base: Option<String>,
    /// The upstream branch of the local branch.
    followed: Option<String>,
    /// The address of the remote repository.
    url: Option<String>,
    local_changes: bool,
    /// True if the wanted commit is checked out already.
    same: bool,
    /// True if the wanted commit is in the local repository.
    has_rev: bool,
    /// Whether the update is a fast-forward from the base. `None` if this is not known before the
    /// fetch.
    forward: Option<bool>,
}

/// The result of a step: a value to continue with, or the end of the state.
type Step<T> = Result<T, Stop>;

enum Stop {
    Answer(Box<Ret>),
    Error(Error),
}

impl Stop {
    fn answered(self) -> Result<Ret, Error> {
        match self {
            Self::Answer(ret) => Ok(*ret),
            Self::Error(error) => Err(error),
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<Ret> for Stop {
    fn from(ret: Ret) -> Self {
        Self::Answer(Box::new(ret))
    }
}

impl Found {
    fn local(&self) -> &str {
        short(self.head.as_deref())
    }
}

impl Job<'_> {
    pub(super) fn update(&self, work: &mut Work) -> Result<Ret, Error> {
        let done = self.found(work).and_then(|found| {
            if self.cx.test {
                let would = self.would(&found, work);
                // Only a result of `None` goes to `apply`; any other result is final.
                return match would.result {
                    Some(_) => Ok(would),
                    None => Ok(self.cx.apply(would, || Err("test mode".into()))?),
                };
            }
            let change = || self.change(found, work).map_or_else(Stop::answered, Ok);
            Ok(self.cx.apply(Ret::default(), change)?)
        });
        done.map_or_else(Stop::answered, Ok)
    }

    fn found(&self, work: &mut Work) -> Step<Found> {
        let (branches, tags) = (self.branches()?, self.tags()?);
        let (head, branch) = (self.head(), self.current_branch());
        if !self.bare && self.remote.rev.is_none() && head.is_some() {
            return Err(work.failed("Remote repository is empty, cannot update from a non-empty to an empty repository").into());
        }
        let mut base = head.clone();
        let mut base_branch = branch.clone();
        if let Some(wanted) = self.branch.filter(|_| self.needs_branch(branch.as_deref())) {
            if branches.iter().any(|known| known == wanted) {
                base_branch = Some(wanted.to_owned());
                let position = self.commit(wanted).map_err(|error| {
                    work.failed(format!(
                        "Unable to get position of local branch '{wanted}': {}",
                        super::error_text(&error)
                    ))
                });
                base = Some(position?);
            } else {
                base.clone_from(&self.remote.rev);
            }
        }
        let remotes = self.git.remotes(false)?;
        let url = remotes
            .get(&self.args.remote)
            .and_then(|remote| remote.get("fetch"))
            .map(Value::to_text);
        let differs = || self.git.merged(&crate::exec::git::line(&["diff", "HEAD"]));
        let mut found = Found {
            followed: None,
            local_changes: !self.bare && differs().is_ok_and(|diff| !diff.is_empty()),
            same: self.remote.is(head.as_deref()),
            has_rev: false,
            forward: None,
            head,
            branch,
            branches,
            tags,
            base,
            url,
        };
        self.check_changes(&found, work)?;
        found.has_rev = self.has_rev(&found, work)?;
        self.look_forward(&mut found, work)?;
        found.followed = self.followed(base_branch.as_deref());
        Ok(found)
    }

    fn check_changes(&self, found: &Found, work: &mut Work) -> Step<()> {
        if !found.local_changes || !found.same {
            return Ok(());
        }
        if self.reset() != Reset::Always {
            return Err(self.up_to_date(work, &[], true).into());
        }
        if self.cx.test {
            work.change("forced update", true);
            return Err(work
                .would(format!(
                    "{} is up-to-date, but with uncommitted changes. Since 'force_reset' is set to True, these local changes \
                     would be reset. To only reset when there are changes in the remote repository, set 'force_reset' to \
                     'remote-changes'.",
                    self.target
                ))
                .into());
        }
        Ok(())
    }

    /// Returns whether the wanted commit is in the local repository under the name that it has in
    /// the remote one.
    fn has_rev(&self, found: &Found, work: &Work) -> Step<bool> {
        let Some(wanted) = self.remote.rev.as_deref() else {
            return Ok(false);
        };
        if self.remote.kind == Kind::Commit
            && found
                .base
                .as_ref()
                .is_some_and(|base| base.starts_with(wanted))
        {
            return Ok(true);
        }
        if self.commit(wanted).is_err() {
            return Ok(false);
        }
        match (&self.remote.upstream, self.remote.kind) {
            (Upstream::Branch(branch), Kind::Branch) => Ok(found.url.is_some()
                && self
                    .git
                    .git(&["rev-parse", branch])
                    .is_ok_and(|copy| copy == wanted)),
            (_, Kind::Tag) if found.tags.contains(&self.rev) => {
                let here = self.commit(&self.rev).ok();
                if here.as_deref() == Some(wanted) {
                    return Ok(true);
                }
                if self.reset() != Reset::Never {
                    return Ok(false);
                }
                Err(work
                    .failed_alone(format!(
                        "'{}' is a tag, but the remote SHA1 for this tag ({}) doesn't match the local SHA1 ({}). Set \
                         'force_reset' to True to force this update.",
                        self.rev,
                        short(Some(wanted)),
                        short(here.as_deref())
                    ))
                    .into())
            }
            (_, Kind::Tag) => Ok(false),
            _ => Ok(true),
        }
    }

    /// Determines whether the update is a fast-forward, if this is known already.
    fn look_forward(&self, found: &mut Found, work: &Work) -> Step<()> {
        if found.local_changes && self.reset() != Reset::RemoteChanges {
            found.forward = Some(false);
        }
        if found.has_rev {
            if self.keeps_head(found) {
                return Err(self.head_kept(found, work).into());
            }
            if found.forward.is_none() {
                found.forward = Some(self.is_forward(found)?);
            }
        }
        if found.forward == Some(false) && self.reset() == Reset::Never {
            return Err(self.not_forward(found, work).into());
        }
        Ok(())
    }

    fn is_forward(&self, found: &Found) -> Result<bool, Error> {
        match (&found.base, &self.remote.rev) {
            (Some(base), Some(wanted)) => self.is_ancestor(base, wanted),
            _ => Ok(true),
        }
    }

    fn keeps_head(&self, found: &Found) -> bool {
        !found.same
            && !self.args.update_head
            && (self.branch.is_none() || self.branch == found.branch.as_deref())
    }

    fn head_kept(&self, found: &Found, work: &Work) -> Ret {
        let location = &self.remote.location;
        let location = if self.rev == "HEAD" {
            location.replacen("remote HEAD", "Remote head", 1)
        } else {
            location.clone()
        };
        work.ok(format!(
            "{location} is already present and local HEAD ({}) does not match, but update_head=False. HEAD has not been \
             updated locally.",
            found.local()
        ))
    }

    fn not_forward(&self, found: &Found, work: &Work) -> Ret {
        let (pre, post) = (
            short(found.base.as_deref()),
            short(self.remote.rev.as_deref()),
        );
        let changed = found.local_changes;
        let way = if changed && pre != post {
            format!("from {pre} to {post}")
        } else {
            format!("to {post}")
        };
        let after = self
            .branch
            .filter(|_| self.needs_branch(found.branch.as_deref()));
        let after = after
            .map(|branch| format!(" (after checking out local branch '{branch}')"))
            .unwrap_or_default();
        let why = if changed {
            "there are uncommitted changes"
        } else {
            "this is not a fast-forward merge"
        };
        let (also, lost) = if changed {
            (" (or 'remote-changes')", " and discard these changes")
        } else {
            ("", "")
        };
        work.failed(format!(
            "Repository would be updated {way}{after}, but {why}. Set 'force_reset' to True{also} to force this update{lost}.{}",
            self.branch_advice(found)
        ))
    }

    /// Returns advice to set the `branch` argument, if that can avoid a forced update.
    fn branch_advice(&self, found: &Found) -> String {
        let local = found.branch.as_deref().unwrap_or("None");
        if self.branch.is_some() {
            return String::new();
        }
        if self.rev != "HEAD" {
            let rev = &self.rev;
            return if local == rev {
                String::new()
            } else {
                format!(
                    " The desired rev ({rev}) differs from the name of the local branch ({local}), if the desired rev is a \
                     branch name then a forced update could possibly be avoided by setting the 'branch' argument to '{rev}' \
                     instead."
                )
            };
        }
        match &self.remote.default_branch {
            Some(default) if local != default => format!(
                " The default remote branch ({default}) differs from the local branch ({local}). This could be caused by \
                 changing the default remote branch, or if the local branch was manually changed. Rather than forcing an \
                 update, it may be advisable to set the 'branch' argument to '{default}' instead. To ensure that this state \
                 follows the '{default}' branch instead of the remote HEAD, set the 'rev' argument to '{default}'."
            ),
            _ => String::new(),
        }
    }

    fn other_url(&self, found: &Found) -> bool {
        self.remote.rev.is_some() && found.url.as_ref() != Some(&self.url)
    }

    fn revision(&self, found: &Found, new: Option<&str>) -> Map {
        Map::new().with("old", found.head.clone()).with("new", new)
    }

    /// Returns the result of test mode.
    fn would(&self, found: &Found, work: &mut Work) -> Ret {
        let wanted = self.remote.rev.as_deref();
        if wanted.is_none() {
            let comments = if self.bare {
                vec![format!(
                    "Bare repository at {} would be fetched",
                    self.target
                )]
            } else {
                Vec::new()
            };
            return self.up_to_date(work, &comments, false);
        }
        let actions = if self.other_url(found) {
            self.would_move(found, work)
        } else {
            self.would_update(found, work)
        };
        if work.ret.changes.is_true() {
            return work.would(joined(&actions));
        }
        if !found.same && !self.args.update_head && !actions.is_empty() {
            return work.ok(joined(&actions));
        }
        self.up_to_date(work, &actions, false)
    }

    fn would_move(&self, found: &Found, work: &mut Work) -> Vec<String> {
        let old = found
            .url
            .as_deref()
            .map_or_else(|| "None".to_owned(), redacted);
        let mut actions = vec![format!(
            "Remote '{}' would be changed from {old} to {}",
            self.args.remote,
            self.shown_url()
        )];
        if !found.has_rev {
            actions.push("Remote would be fetched".to_owned());
        }
        if !found.same && self.args.update_head {
            let wanted = self.remote.rev.as_deref();
            work.change("revision", self.revision(found, wanted));
            let action = match found.forward {
                Some(false) => "hard-reset",
                Some(true) => "fast-forwarded",
                None => "updated",
            };
            if found.forward == Some(false) {
                work.change("forced update", true);
            }
            actions.push(format!("Repository would be {action} to {}", short(wanted)));
        }
        actions
    }

    fn would_update(&self, found: &Found, work: &mut Work) -> Vec<String> {
        let wanted = self.remote.rev.as_deref();
        let mut actions = Vec::new();
        if !found.has_rev {
            actions.push(format!("Remote '{}' would be fetched", self.args.remote));
        }
        let local = found.branch.as_deref();
        if !found.same && (self.args.update_head || self.needs_branch(local)) {
            work.change("revision", self.revision(found, wanted));
        }
        match self.branch.filter(|_| self.needs_branch(local)) {
            Some(branch) => self.would_branch(branch, found, &mut actions),
            None if !found.same => actions.push(self.would_follow(found)),
            None => {}
        }
        if let Some((action, _)) = self.tracking(found.followed.as_deref()) {
            actions.push(format!("Tracking branch would be {action}"));
        }
        actions
    }

    fn would_branch(&self, branch: &str, found: &Found, actions: &mut Vec<String>) {
        if found.branches.iter().any(|known| known == branch) {
            let action = match found.forward {
                Some(false) => "hard-reset",
                Some(true) => "fast-forwarded",
                None => "updated",
            };
            actions.push(format!(
                "Branch '{branch}' would be checked out and {action} to {}",
                short(self.remote.rev.as_deref())
            ));
            return;
        }
        actions.push(format!(
            "New branch '{branch}' would be checked out, with {} as a starting point",
            self.remote.location
        ));
        if let Upstream::Branch(upstream) = &self.remote.upstream {
            actions.push(format!("Tracking branch would be set to {upstream}"));
        }
    }

    fn would_follow(&self, found: &Found) -> String {
        let (old, new) = (found.local(), short(self.remote.rev.as_deref()));
        if !self.args.update_head {
            return format!(
                "Local HEAD ({old}) does not match {} but update_head=False, HEAD would not be updated locally",
                self.remote.location
            );
        }
        let action = match found.forward {
            Some(true) => "fast-forwarded",
            _ if self.reset() != Reset::Never && found.has_rev => "hard-reset",
            _ => "updated",
        };
        format!("Repository would be {action} from {old} to {new}")
    }

    fn change(&self, mut found: Found, work: &mut Work) -> Step<Ret> {
        if self.other_url(&found) {
            self.move_remote(&found, work)?;
        }
        if self.remote.rev.is_some() {
            self.follow_remote(&mut found, work)?;
        } else if self.bare {
            let updated = self.fetch(work)?;
            let refs = if updated {
                ", resulting in updated refs"
            } else {
                ""
            };
            work.did(format!(
                "Bare repository at {} was fetched{refs}",
                self.target
            ));
        }
        let head = self.head();
        if !self.bare && !self.remote.is(head.as_deref()) {
            return Ok(work.failed("Failed to update repository"));
        }
        if head == found.head {
            return Ok(self.up_to_date(work, &work.comments, false));
        }
        work.change("revision", self.revision(&found, head.as_deref()));
        Ok(work.ok(joined(&work.comments)))
    }

    fn move_remote(&self, found: &Found, work: &mut Work) -> Step<()> {
        let remote = &self.args.remote;
        self.git.set_remote(remote, &self.url)?;
        match &found.url {
            None => {
                work.did(format!("Remote '{remote}' set to {}", self.shown_url()));
                work.change("new", format!("{} => {remote}", self.args.name));
            }
            Some(old) => work.did(format!(
                "Remote '{remote}' changed from {} to {}",
                redacted(old),
                self.shown_url()
            )),
        }
        Ok(())
    }

    fn follow_remote(&self, found: &mut Found, work: &mut Work) -> Step<()> {
        let follow = self.follow(found.followed.as_deref(), &found.branches);
        if follow.is_some() && found.branch.is_none() {
            return Err(work
                .failed(
                    "Cannot set/unset upstream tracking branch, local HEAD refers to nonexistent branch. This may have been \
                     caused by cloning a remote repository for which the default branch was renamed or deleted. If you are \
                     unable to fix the remote repository, you can work around this by setting the 'branch' argument (which \
                     will ensure that the named branch is created if it does not already exist).",
                )
                .into());
        }
        self.sync_tags(found, work)?;
        if !found.has_rev {
            self.fetch_rev(found, work)?;
        }
        if let Some(branch) = self
            .branch
            .filter(|_| self.needs_branch(found.branch.as_deref()))
        {
            self.check_out(branch, found, work)?;
        }
        self.bring_forward(found, work)?;
        if let Some((action, words)) = follow {
            self.git.git(&[&["branch"], &words[..]].concat())?;
            work.did(action);
        }
        if found.forward == Some(true) && !self.remote.is(found.base.as_deref()) {
            self.merge(work)?;
        }
        self.update_submodules(work)
            .map_or(Ok(()), |ret| Err(ret.into()))
    }

    /// Removes tags that no longer exist in the remote repository, and records the new ones.
    fn sync_tags(&self, found: &mut Found, work: &mut Work) -> Step<()> {
        let theirs = self.net.refs(&crate::exec::git::line(&[
            "ls-remote",
            "--tags",
            plain(&self.args.remote)?,
        ]))?;
        let theirs: Vec<String> = theirs
            .keys()
            .filter_map(|name| name.as_str()?.strip_prefix("refs/tags/"))
            .filter(|name| !name.ends_with("^{}"))
            .map(str::to_owned)
            .collect();
        let beyond = |all: &[String], known: &[String]| -> Vec<String> {
            all.iter()
                .filter(|name| !known.contains(name))
                .cloned()
                .collect()
        };
        let (new, gone) = (beyond(&theirs, &found.tags), beyond(&found.tags, &theirs));
        if new.is_empty() && gone.is_empty() {
            return Ok(());
        }
        found.has_rev = false;
        if !new.is_empty() {
            work.change("new_tags", new);
        }
        if !self.args.sync_tags || gone.is_empty() {
            return Ok(());
        }
        let mut deleted = Vec::new();
        for tag in gone {
            match self.git.git(&["tag", "-d", "--", &tag]) {
                Ok(_) => deleted.push(tag),
                Err(error) => work.ret.warnings.push(format!(
                    "Failed to remove local tag '{tag}':\n\n{error}\n\n"
                )),
            }
        }
        if !deleted.is_empty() {
            let comment = format!(
                "The following tags were removed from the local checkout: {}",
                deleted.join(", ")
            );
            work.change("deleted_tags", deleted);
            work.did(comment);
        }
        Ok(())
    }

    fn fetch_rev(&self, found: &mut Found, work: &mut Work) -> Step<()> {
        if self.fetch(work)? {
            work.did(format!(
                "{} was fetched, resulting in updated refs",
                self.args.name
            ));
        }
        let wanted = self.remote.rev.as_deref().unwrap_or_default();
        if let Err(error) = self.commit(wanted) {
            let message = format!(
                "Fetch did not successfully retrieve rev '{}' from {}: {error}",
                self.rev, self.args.name
            );
            return Err(work.failed_alone(message).into());
        }
        if self.keeps_head(found) {
            return Err(self.head_kept(found, work).into());
        }
        found.forward = Some(self.is_forward(found)?);
        let refused = found.forward == Some(false) || found.local_changes;
        if refused && self.reset() == Reset::Never {
            return Err(self.not_forward(found, work).into());
        }
        Ok(())
    }

    fn check_out(&self, branch: &str, found: &Found, work: &mut Work) -> Step<()> {
        if found.local_changes && !self.args.force_checkout {
            let local = found.branch.as_deref().unwrap_or("None");
            let message = format!(
                "Local branch '{local}' has uncommitted changes. Set 'force_checkout' to True to discard them and proceed."
            );
            return Err(work.failed_alone(message).into());
        }
        let mut words = vec!["checkout"];
        words.extend(self.args.force_checkout.then_some("--force"));
        if found.branches.iter().any(|known| known == branch) {
            words.push(plain(branch)?);
            self.git.git(&words)?;
            work.did(format!("'{branch}' was checked out"));
        } else {
            words.extend(["-b", plain(branch)?, plain(self.start())?]);
            self.git.git(&words)?;
            work.did(format!(
                "New branch '{branch}' was checked out, with {} as a starting point",
                self.remote.location
            ));
        }
        Ok(())
    }

    /// Discards local commits and changes that prevent the update.
    fn bring_forward(&self, found: &Found, work: &mut Work) -> Step<()> {
        if found.forward == Some(false) {
            self.may_fetch(&[
                "reset",
                "--hard",
                self.remote.rev.as_deref().unwrap_or_default(),
            ])?;
            work.change("forced update", true);
            if found.local_changes {
                work.did("Uncommitted changes were discarded");
            }
            work.did(format!(
                "Repository was hard-reset to {}",
                self.remote.location
            ));
        } else if found.forward == Some(true) && found.local_changes && self.reset() != Reset::Never
        {
            self.git.git(&["checkout", "--", "."])?;
            work.did("Uncommitted changes were discarded");
        }
        Ok(())
    }

    fn merge(&self, work: &mut Work) -> Step<()> {
        let wanted = self.remote.rev.as_deref().unwrap_or_default();
        let follows = matches!(self.remote.upstream, Upstream::Branch(_)) || self.rev == "HEAD";
        if !follows {
            self.may_fetch(&["reset", "--hard", plain(&self.rev)?])?;
            work.did(format!(
                "Repository was reset to {} (fast-forward)",
                self.rev
            ));
            return Ok(());
        }
        let on_branch = self.git.git(&["symbolic-ref", "--quiet", "HEAD"]);
        if on_branch.map_or(true, |name| name.is_empty()) {
            // Salt returns git's own message here, which is empty in this case.
            return Err(work
                .failed("Unable to fast-forward, HEAD is detached")
                .into());
        }
        self.may_fetch(&["merge", "--ff-only", wanted])?;
        work.did(format!(
            "Repository was fast-forwarded to {}",
            self.remote.location
        ));
        Ok(())
    }
}
