//! `git.detached`.

use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::clone::clone;
use super::{Detached, Place, Work, error_text, identities, is_hash, joined};
use crate::exec::git::tree::is_repository;
use crate::exec::git::{Git, line, plain, refuse_others, with_login};

struct Job<'a> {
    cx: &'a Exec,
    args: &'a Detached,
    rev: String,
    hash: bool,
    url: String,
    git: Git<'a>,
    net: Git<'a>,
}

pub(super) fn detached(cx: &Exec, args: Detached) -> Result<Ret, Error> {
    refuse_others(&args.kwargs)?;
    let mut rev = args.rev.to_text();
    if !args.rev.is_true() {
        return Err(format!("'{rev}' is not a valid value for the 'rev' argument").into());
    }
    let target = &args.target;
    if target.is_empty() {
        return Err(format!("'{rev}' is not a valid value for the 'target' argument").into());
    }
    if !path::isabs(target) {
        return Err(format!("Target '{target}' is not an absolute path").into());
    }
    let keys = identities(&args.identity, "Identity")?;
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
    let hash = is_hash(&rev);
    if hash {
        rev.make_ascii_lowercase();
    }
    let git = super::git(
        cx,
        target,
        args.user.as_ref(),
        args.output_encoding.as_ref(),
    );
    let net = git.with_identity(&keys).with_login(login);
    let job = Job {
        cx,
        args: &args,
        rev,
        hash,
        url,
        git,
        net,
    };
    let mut work = Work::new();
    let done = job.run(&mut work);
    Ok(done.unwrap_or_else(|error| work.failed(error_text(&error))))
}

impl Job<'_> {
    fn run(&self, work: &mut Work) -> Result<Ret, Error> {
        let (mut here, mut head) = (false, None);
        if is_repository(&self.git, false)? {
            head = self.git.git(&["rev-parse", "HEAD"]).ok();
            if self.hash {
                here = self.describes();
            } else if let Some(ret) = self.right_remote(work)? {
                return Ok(ret);
            }
        } else if let Some(ret) = self.clone_anew(work)? {
            return Ok(ret);
        }
        if !here && self.args.fetch_remote {
            let remote = &self.args.remote;
            let would = work.would(format!("Repository remote {remote} would be fetched"));
            let fetched = self.gate(would, || self.fetch(work))?;
            if let Some(ret) = fetched {
                return Ok(ret);
            }
        }
        let commit = match self.commit() {
            Ok(commit) => commit,
            Err(error) => return Ok(work.failed_alone(error.to_string())),
        };
        if self.args.hard_reset {
            let would = work.would(format!(
                "Hard reset to HEAD would be performed on {}",
                self.args.target
            ));
            let reset = self.gate(would, || {
                self.git.git(&["reset", "--hard", "HEAD"]).map(|_| None)
            })?;
            if let Some(ret) = reset {
                return Ok(ret);
            }
            work.did("Repository was reset to HEAD before checking out revision");
        }
        self.check_out(&commit, head, work)
    }

    /// Makes a change. In test mode returns the result that it would have.
    fn gate(
        &self,
        would: Ret,
        change: impl FnOnce() -> Result<Option<Ret>, Error>,
    ) -> Result<Option<Ret>, Error> {
        let mut answer = None;
        let ret = self.cx.apply(would, || {
            answer = change()?;
            Ok(Ret::default())
        })?;
        Ok(if self.cx.test { Some(ret) } else { answer })
    }

    fn describes(&self) -> bool {
        self.git.git(&["describe", "--always", &self.rev]).is_ok()
    }

    fn right_remote(&self, work: &mut Work) -> Result<Option<Ret>, Error> {
        let (name, remote) = (&self.args.name, &self.args.remote);
        let remotes = self.git.remotes(false)?;
        let url = remotes
            .get(remote)
            .and_then(|remote| remote.get("fetch"))
            .map(Value::to_text);
        if url.as_ref().is_some_and(|url| url.contains(name.as_str())) {
            return Ok(None);
        }
        let would = work.would(format!("Remote {remote} would be set to {name}"));
        let moved = self.gate(would, || {
            self.git.set_remote(remote, &self.url).map(|()| None)
        })?;
        if moved.is_none() {
            let old = url.unwrap_or_else(|| "None".into());
            work.did(format!("Remote {remote} updated from '{old}' to '{name}'"));
        }
        Ok(moved)
    }

    fn clone_anew(&self, work: &mut Work) -> Result<Option<Ret>, Error> {
        let (name, target) = (&self.args.name, &self.args.target);
        let place = Place {
            cx: self.cx,
            name,
            target,
            force: self.args.force_clone,
        };
        if let Some(ret) = place.cleared(work, &Map::new())? {
            return Ok(Some(ret));
        }
        let mut opts = vec!["--no-checkout"];
        if self.args.remote != "origin" {
            opts.extend(["--origin", &self.args.remote]);
        }
        let would = work.would(format!("Repository {name} would be cloned to {target}"));
        let cloned = self.gate(would, || {
            clone(&self.net, target, &self.url, &opts).map(|()| None)
        })?;
        if cloned.is_none() {
            work.did(format!("{name} cloned to {target}"));
        }
        Ok(cloned)
    }

    fn fetch(&self, work: &mut Work) -> Result<Option<Ret>, Error> {
        let remote = plain(&self.args.remote)?;
        let heads = format!("refs/heads/*:refs/remotes/{remote}/*");
        let words = line(&[
            "fetch",
            "--force",
            remote,
            &heads,
            "+refs/tags/*:refs/tags/*",
        ]);
        Ok(match self.net.fetched(&words) {
            Ok(updates) => {
                if !updates.is_empty() {
                    work.did(format!(
                        "Remote {remote} was fetched, resulting in updated refs"
                    ));
                }
                None
            }
            Err(error) => Some(work.failed(format!("Fetch failed:\n\n{error}"))),
        })
    }

    /// Returns the commit to check out.
    fn commit(&self) -> Result<String, Error> {
        if self.hash {
            self.git.git(&["describe", "--always", &self.rev])?;
            return Ok(self.rev.clone());
        }
        let refs = Git {
            cwd: None,
            ..self.net.clone()
        }
        .refs(&line(&["ls-remote", &self.args.target]))
        .map_err(|error| {
            Error::refused(format!(
                "Failed to list refs for {}: {}",
                self.args.remote,
                error_text(&error)
            ))
        })?;
        let branch = format!("refs/remotes/{}/{}", self.args.remote, self.rev);
        let found = refs
            .get(&branch)
            .or_else(|| refs.get(&format!("refs/tags/{}", self.rev)));
        found
            .map(Value::to_text)
            .ok_or_else(|| format!("Revision '{}' does not exist", self.rev).into())
    }

    fn check_out(&self, commit: &str, head: Option<String>, work: &mut Work) -> Result<Ret, Error> {
        let target = &self.args.target;
        let change = |new: &str| Map::new().with("old", head.clone()).with("new", new);
        let mut new = None;
        if head.as_deref() != Some(commit) {
            let would = work
                .would(format!(
                    "Commit ID {commit} would be checked out at {target}"
                ))
                .change("HEAD", change(commit));
            let force = self.args.force_checkout.then_some("--force");
            let words: Vec<&str> = ["checkout"]
                .into_iter()
                .chain(force)
                .chain([commit])
                .collect();
            let done = self.gate(would, || self.git.merged(&line(&words)).map(|_| None))?;
            if let Some(ret) = done {
                return Ok(ret);
            }
            work.did(format!("Commit ID {commit} was checked out at {target}"));
            new = self.git.git(&["rev-parse", "HEAD"]).ok();
        }
        if self.args.submodules && !self.cx.test {
            self.net
                .git(&["submodule", "update", "--init", "--recursive"])?;
            work.did("Submodules were updated");
        }
        match new {
            Some(new) => work.change("HEAD", change(&new)),
            None => work.did("Already checked out at correct revision"),
        }
        Ok(work.ok(joined(&work.comments)))
    }
}
