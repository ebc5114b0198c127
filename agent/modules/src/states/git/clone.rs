//! `git.latest` for a repository that does not exist yet.

use state::module::{Error, Ret};
use value::{Map, Value};

use super::latest::Job;
use super::remote::{Kind, Upstream};
use super::{Place, Work, error_text, joined};
use crate::exec::git::{Git, plain};

/// Clones a repository with these options.
pub(super) fn clone(net: &Git<'_>, target: &str, url: &str, opts: &[&str]) -> Result<(), Error> {
    let mut words = vec!["clone"];
    words.extend(opts);
    words.extend(["--", url, plain(target)?]);
    // git does not run in the home folder, since the user may not be able to enter it.
    let net = Git {
        cwd: Some("/tmp".into()),
        ..net.clone()
    };
    net.git(&words).map(|_| ())
}

impl Job<'_> {
    pub(super) fn clone_anew(&self, work: &mut Work) -> Result<Ret, Error> {
        let (name, target) = (&self.args.name, self.target);
        let new = format!("{name} => {target}");
        let place = Place {
            cx: self.cx,
            name,
            target,
            force: self.args.force_clone,
        };
        let forced = Map::new()
            .with("forced clone", true)
            .with("new", new.as_str());
        if let Some(ret) = place.cleared(work, &forced)? {
            return Ok(ret);
        }
        let would = work
            .would(format!("Repository {name} would be cloned to {target}"))
            .change("new", new.as_str());
        self.cx.apply(would, || {
            if let Err(error) = self.cloned() {
                return Ok(work.failed(format!("Clone failed: {}", error_text(&error))));
            }
            work.change("new", new);
            let kind = match (self.args.mirror, self.bare) {
                (true, _) => " as mirror",
                (_, true) => " as bare repository",
                _ => "",
            };
            work.did(format!("{name} cloned to {target}{kind}"));
            let done = self.checked_out(work);
            Ok(done.unwrap_or_else(|error| work.failed(error_text(&error))))
        })
    }

    fn cloned(&self) -> Result<(), Error> {
        let depth = self.args.depth.map(|depth| depth.to_string());
        let mut opts = Vec::new();
        opts.extend(match (self.args.mirror, self.bare) {
            (true, _) => Some("--mirror"),
            (_, true) => Some("--bare"),
            _ => None,
        });
        if self.args.remote != "origin" {
            opts.extend(["--origin", &self.args.remote]);
        }
        if let Some(depth) = &depth {
            opts.extend(["--depth", depth, "--branch", &self.rev]);
        }
        clone(&self.net, self.target, &self.url, &opts)
    }

    /// Checks out the wanted revision in a fresh clone.
    fn checked_out(&self, work: &mut Work) -> Result<Ret, Error> {
        if !self.bare
            && self.remote.rev.is_some()
            && let Some(ret) = self.at_revision(work)?
        {
            return Ok(ret);
        }
        if self.remote.rev.is_some()
            && let Some(ret) = self.update_submodules(work)
        {
            return Ok(ret);
        }
        if let Some(head) = self.head() {
            let change = Map::new().with("old", Value::Null).with("new", head);
            work.change("revision", change);
        }
        Ok(work.ok(joined(&work.comments)))
    }

    fn at_revision(&self, work: &mut Work) -> Result<Option<Ret>, Error> {
        let remote = &self.remote;
        if remote.kind == Kind::Tag && !self.tags()?.contains(&self.rev) {
            return Ok(Some(work.failed(format!(
                "Revision '{}' does not exist in clone",
                self.rev
            ))));
        }
        if let Some(branch) = self.branch
            && !self.branches()?.iter().any(|known| known == branch)
        {
            self.git
                .git(&["checkout", "-b", plain(branch)?, plain(self.start())?])?;
            work.did(format!(
                "Branch '{branch}' checked out, with {} as a starting point",
                remote.location
            ));
        }
        let (head, branch) = (self.head(), self.current_branch());
        if branch.is_none() && !remote.has_head {
            return Ok(Some(work.failed(
                "Remote HEAD refers to a ref that does not exist. This can happen when the default branch on the remote \
                 repository is renamed or deleted. If you are unable to fix the remote repository, you can work around this \
                 by setting the 'branch' argument (which will ensure that the named branch is created if it does not already \
                 exist).",
            )));
        }
        if !remote.is(head.as_deref()) {
            self.git
                .git(&["reset", "--hard", remote.rev.as_deref().unwrap_or_default()])?;
            work.did(format!("Repository was reset to {}", remote.location));
        }
        let followed = self.followed(branch.as_deref());
        let known = match remote.upstream {
            Upstream::Branch(_) => self.branches()?,
            _ => Vec::new(),
        };
        if let Some((action, words)) = self.follow(followed.as_deref(), &known) {
            self.git.git(&[&["branch"], &words[..]].concat())?;
            work.did(action);
        }
        Ok(None)
    }
}
