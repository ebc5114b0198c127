//! Trees from git: repositories of the file server (`gitfs_remotes`) and of the external pillar `git`.
//!
//! ```text
//! configuration -> Remote -> Mirror: fetch, verify -> Heads -> Snapshot: Mount (the tree of a commit)
//! ```

mod address;
mod heads;
pub(crate) mod login;
mod mirror;
mod objects;
pub mod passphrase;
mod program;
mod remotes;
mod signatures;
mod trees;
mod verify;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use state::module::Error;
use state::opts::Opts;
use value::glob::fnmatch;
use value::{Value, log};

use heads::Heads;
use mirror::{Mirror, Updated};
use objects::Objects;
pub use remotes::Role;
use remotes::{Remote, is_hex};

use crate::backend::Backend;

/// The repositories of the file server.
#[derive(Clone, Debug)]
pub struct Repositories(Vec<Mirror>);

/// The repositories with their commits at one time. A run uses the same ones from its start to its end.
#[derive(Debug)]
pub struct Snapshot {
    repositories: Vec<Repository>,
    environments: BTreeSet<String>,
}

#[derive(Debug)]
struct Repository {
    mirror: Mirror,
    heads: Heads,
    objects: Mutex<Option<Objects>>,
}

/// The state of repositories: it differs after each update.
pub type Version = Vec<Option<(u64, SystemTime)>>;

/// A folder with files of a commit, and their place in the tree of states.
#[derive(Debug)]
pub struct Mount<'a> {
    repository: &'a Repository,
    commit: String,
    /// The folder in the repository that is served; may be empty.
    root: &'a str,
    /// The path below which the files appear; may be empty.
    pub mountpoint: &'a str,
}

/// The files of a repository of a pillar.
#[derive(Debug)]
pub(crate) struct Checkout {
    /// The environment.
    pub(crate) env: String,
    /// The folder that is a root.
    pub(crate) folder: PathBuf,
    /// The folder that links must not leave.
    pub(crate) tree: PathBuf,
    /// The path below which the files appear; may be empty.
    pub(crate) mountpoint: String,
}

impl Repositories {
    /// Returns the repositories of `gitfs_remotes`.
    ///
    /// # Errors
    /// When the configuration is wrong.
    pub fn of_fileserver(opts: &Opts) -> Result<Self, Error> {
        if !Backend::of_opts(opts)?.contains(&Backend::Gitfs) {
            return Ok(Self(Vec::new()));
        }
        let entries = opts.get("gitfs_remotes").and_then(Value::as_list);
        Self::new(Role::Gitfs, entries.unwrap_or_default(), opts)
    }

    /// Returns the repositories of all external pillars `git`.
    ///
    /// # Errors
    /// When the configuration is wrong.
    pub fn of_pillar(opts: &Opts) -> Result<Self, Error> {
        let sources = opts.get("ext_pillar").and_then(Value::as_list);
        let lists = sources.unwrap_or_default().iter();
        let lists = lists.filter_map(|source| source.get("git")?.as_list());
        Self::new(
            Role::Pillar,
            &lists.flatten().cloned().collect::<Vec<_>>(),
            opts,
        )
    }

    /// Returns the repositories of a list.
    ///
    /// # Errors
    /// When an entry is wrong, or two entries are the same.
    pub fn new(role: Role, entries: &[Value], opts: &Opts) -> Result<Self, Error> {
        let mut all = Vec::<Mirror>::new();
        for entry in entries {
            let remote = Remote::new(role, entry, opts)?;
            if let Some(other) = all
                .iter()
                .find(|other| (&other.remote.id, &other.remote.name) == (&remote.id, &remote.name))
            {
                return Err(Error::refused(format!(
                    "The {} repository {} is configured twice. Give one of them another `name`",
                    role.name(),
                    other.remote.shown()
                )));
            }
            all.push(Mirror::new(remote, opts));
        }
        Ok(Self(all))
    }

    /// Returns the repositories with their present commits. Those whose last update is too old are
    /// updated first.
    ///
    /// # Errors
    /// When one was never fetched, and cannot be now.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let read = |mirror: &Mirror| {
            Ok(Repository {
                mirror: mirror.clone(),
                heads: mirror.fresh()?,
                objects: Mutex::new(None),
            })
        };
        let repositories: Vec<_> = self.0.iter().map(read).collect::<Result<_, Error>>()?;
        let environments = repositories.iter();
        let environments =
            environments.flat_map(|known| known.mirror.remote.environments(&known.heads));
        Ok(Snapshot {
            environments: environments.collect(),
            repositories,
        })
    }

    /// Returns the folders of the repositories of a pillar, in the order of the configuration. `env` is
    /// the environment of those with the branch `__env__`; those that have no such branch are left out.
    ///
    /// # Errors
    /// When a repository was never fetched and cannot be now, or has no such branch or root.
    pub(crate) fn checkouts(&self, env: &str) -> Result<Vec<Checkout>, Error> {
        let mut all = Vec::new();
        for mirror in &self.0 {
            let remote = &mirror.remote;
            let target = remote.target(env);
            let heads = mirror.fresh()?;
            let Some(commit) = mirror.commit_of(&heads, &target)? else {
                let problem = format!("it has no branch, tag or commit {target}");
                if !remote.is_dynamic() {
                    return Err(mirror.error(problem));
                }
                log::warning(format_args!("{}", mirror.error(problem)));
                continue;
            };
            let tree = mirror.tree(&commit)?;
            let folder = tree.join(remote.root("base"));
            if !folder.is_dir() {
                let root = remote.root("base");
                return Err(mirror.error(format!("its commit {commit} has no folder {root}")));
            }
            all.push(Checkout {
                env: remote.pillar_environment(env, &target),
                folder,
                tree,
                mountpoint: remote.mountpoint("base").to_owned(),
            });
        }
        Ok(all)
    }

    /// Returns the repositories whose last update is older than their interval, a little earlier than
    /// readers update them.
    #[must_use]
    pub fn due(&self) -> Self {
        let due = self.0.iter().filter(|mirror| mirror.is_soon_due());
        Self(due.cloned().collect())
    }

    /// Returns whether there are no repositories.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Updates the repositories with this branch, and with this address or name. Returns for each one
    /// whether anything has changed.
    pub(crate) fn update_each(
        &self,
        branch: Option<&str>,
        repository: Option<&str>,
    ) -> Vec<(String, Result<bool, Error>)> {
        let is_wanted = |remote: &&Mirror| {
            let remote = &remote.remote;
            let named = [Some(remote.address.url.as_str()), remote.name.as_deref()];
            branch.is_none_or(|branch| branch == remote.branch)
                && repository.is_none_or(|name| named.contains(&Some(name)))
        };
        let wanted = self.0.iter().filter(is_wanted);
        let update = |mirror: &Mirror| {
            let updated = mirror.update();
            let updated = updated.map(|updated| updated == Updated::Changed);
            (mirror.remote.shown(), updated)
        };
        wanted.map(update).collect()
    }

    /// Removes the copies of the repositories.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        self.0.iter().try_for_each(Mirror::clear)
    }

    /// Returns the repositories whose addresses match a pattern.
    fn matching<'a>(&'a self, pattern: Option<&'a str>) -> impl Iterator<Item = &'a Mirror> {
        self.0.iter().filter(move |mirror| {
            pattern.is_none_or(|pattern| fnmatch(pattern, &mirror.remote.address.url))
        })
    }

    /// Keeps the repositories whose addresses match a pattern from being updated. Returns a sentence for
    /// each one that was not kept already.
    ///
    /// # Errors
    /// When a lock cannot be set.
    pub(crate) fn set_locks(&self, pattern: Option<&str>) -> Result<Vec<String>, Error> {
        let mut all = Vec::new();
        for mirror in self.matching(pattern) {
            if mirror.hold()? {
                all.push(mirror.sentence("Set"));
            }
        }
        Ok(all)
    }

    /// Lets the repositories whose addresses match a pattern be updated again. Returns a sentence for
    /// each lock that was removed.
    ///
    /// # Errors
    /// When a lock cannot be removed.
    pub fn clear_locks(&self, pattern: Option<&str>) -> Result<Vec<String>, Error> {
        let mut all = Vec::new();
        for mirror in self.matching(pattern) {
            if mirror.release()? {
                all.push(mirror.sentence("Removed"));
            }
        }
        Ok(all)
    }

    /// Returns the state of the repositories, without reading their commits.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.iter().map(Mirror::version).collect()
    }

    /// Updates the repositories, or only those with these names. Returns whether anything has changed,
    /// and the errors.
    pub fn update(&self, only: Option<&[String]>) -> (bool, Vec<Error>) {
        let is_wanted = |remote: &Remote| {
            only.is_none_or(|only| {
                only.iter()
                    .any(|name| *name == remote.id || Some(name) == remote.name.as_ref())
            })
        };
        let mut errors = Vec::new();
        let mut has_changed = false;
        for mirror in self.0.iter().filter(|mirror| is_wanted(&mirror.remote)) {
            match mirror.update() {
                Ok(updated) => has_changed |= updated == Updated::Changed,
                Err(error) => errors.push(error),
            }
        }
        (has_changed, errors)
    }
}

impl Snapshot {
    /// Returns the environments, sorted.
    #[must_use]
    pub fn environments(&self) -> Vec<String> {
        self.environments.iter().cloned().collect()
    }

    /// Returns the commits of an environment, in the order of the configuration.
    ///
    /// # Errors
    /// When a repository cannot be read.
    pub fn mounts<'a>(&'a self, env: &'a str) -> Result<Vec<Mount<'a>>, Error> {
        let mut mounts = Vec::new();
        for repository in &self.repositories {
            let remote = &repository.mirror.remote;
            let is_there = is_hex(env) || self.environments.contains(env);
            if !is_there && remote.fallback.is_empty() {
                continue;
            }
            if let Some(commit) = repository.mirror.commit(&repository.heads, env)? {
                mounts.push(Mount {
                    repository,
                    commit,
                    root: remote.root(env),
                    mountpoint: remote.mountpoint(env),
                });
            }
        }
        Ok(mounts)
    }
}

impl Mount<'_> {
    /// Returns whether there may be a file with this path below the folder. No files are written for
    /// the answer.
    ///
    /// # Errors
    /// When git cannot be started, or has ended.
    pub fn may_have(&self, path: &str) -> Result<bool, Error> {
        let mirror = &self.repository.mirror;
        if mirror.has_tree(&self.commit) {
            return Ok(true);
        }
        let objects = &self.repository.objects;
        let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
        let running = match objects.take() {
            Some(running) => running,
            None => mirror.objects()?,
        };
        let path = match self.root {
            "" => path.to_owned(),
            root => format!("{root}/{path}"),
        };
        let answer = objects.insert(running).has(&self.commit, &path);
        answer.map_err(|error| {
            // The next question starts git again.
            *objects = None;
            Error::refused(format!("git cat-file has ended: {error}"))
        })
    }

    /// Returns the folder with the files, and the folder that links must not leave. The files are
    /// written if they are not there.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn folders(&self) -> Result<(PathBuf, PathBuf), Error> {
        let tree = self.repository.mirror.tree(&self.commit)?;
        Ok((tree.join(self.root), tree))
    }
}
