//! [`Remote`]: a repository of `gitfs_remotes` or of the external pillar `git`, with its options.
//!
//! Each option of a repository has a global one with the prefix `gitfs_` or `git_pillar_`, whose value
//! applies unless the repository sets its own. Unknown options are errors, as in Salt.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use state::module::Error;
use state::opts::Opts;
use value::glob::passes_lists;
use value::{Map, Value};

use super::address::Address;
use super::heads::Heads;
use super::signatures::Keys;

/// The references that are fetched by default.
const REFSPECS: [&str; 2] = [
    "+refs/heads/*:refs/remotes/origin/*",
    "+refs/tags/*:refs/tags/*",
];
/// Options that repositories of both kinds have.
const COMMON: [&str; 16] = [
    "all_saltenvs",
    "base",
    "depth",
    "disable_saltenv_mapping",
    "fallback",
    "insecure_auth",
    "mountpoint",
    "name",
    "passphrase",
    "password",
    "privkey",
    "proxy",
    "pubkey",
    "ref_types",
    "refspecs",
    "root",
];
const ALSO_COMMON: [&str; 5] = ["keep", "max_size", "ssl_verify", "user", "verify"];
/// The default of `max_size`, in MiB.
const SIZE_MAX: u64 = 2048;
/// The default of `keep`, in seconds.
const KEEP: u64 = 24 * 60 * 60;
const OF_GITFS: [&str; 4] = [
    "saltenv",
    "saltenv_blacklist",
    "saltenv_whitelist",
    "update_interval",
];
const OF_PILLAR: [&str; 1] = ["env"];

/// The use of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its files are served.
    Gitfs,
    /// Its files are pillar.
    Pillar,
}

impl Role {
    /// Returns the prefix of its options, which is also the name of its folder in the cache.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gitfs => "gitfs",
            Self::Pillar => "git_pillar",
        }
    }

    fn options(self) -> impl Iterator<Item = &'static str> {
        let own: &[&str] = match self {
            Self::Gitfs => &OF_GITFS,
            Self::Pillar => &OF_PILLAR,
        };
        COMMON.iter().chain(&ALSO_COMMON).chain(own).copied()
    }
}

/// A kind of reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A branch.
    Branch,
    /// A tag.
    Tag,
    /// The number of a commit.
    Commit,
}

impl Kind {
    /// Returns the name in errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Tag => "tag",
            Self::Commit => "commit",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        match name.to_lowercase().as_str() {
            "branch" => Some(Self::Branch),
            "tag" => Some(Self::Tag),
            "sha" => Some(Self::Commit),
            _ => None,
        }
    }
}

/// The options of a repository for one environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OfEnvironment {
    reference: Option<String>,
    root: Option<String>,
    mountpoint: Option<String>,
}

/// The options of a repository.
#[derive(Clone, Debug)]
pub(super) struct Remote {
    pub(super) role: Role,
    /// The text of the configuration that names it.
    pub(super) id: String,
    pub(super) address: Address,
    /// The branch of a pillar; `__env__` is that of the environment.
    pub(super) branch: String,
    /// The name that distinguishes two repositories with one address.
    pub(super) name: Option<String>,
    pub(super) kinds: Vec<Kind>,
    pub(super) base: String,
    pub(super) fallback: String,
    pub(super) all_saltenvs: Option<String>,
    pub(super) is_mapped: bool,
    /// The environment of a pillar, whatever its branch.
    pub(super) env: String,
    root: String,
    mountpoint: String,
    environments: BTreeMap<String, OfEnvironment>,
    whitelist: Vec<String>,
    blacklist: Vec<String>,
    pub(super) refspecs: Vec<String>,
    /// The number of commits that are fetched of each branch; 0 for all.
    pub(super) depth: u64,
    pub(super) interval: Duration,
    /// The time for which the files of a commit are kept after its last use by a branch or tag.
    pub(super) keep: Duration,
    /// The maximum size of the repository, and of the files of a commit, in bytes.
    pub(super) size_max: u64,
    /// The keys by which commits or tags must be signed.
    pub(super) keys: Option<Keys>,
}

/// Looks up the options of a repository.
pub(super) struct Options<'a> {
    role: Role,
    own: Map,
    opts: &'a Opts,
}

impl Options<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        let global = || self.opts.get(&format!("{}_{name}", self.role.name()));
        self.own
            .get(name)
            .or_else(global)
            .filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.get(name).map(Value::to_text).unwrap_or_default()
    }

    fn text_or(&self, name: &str, default: &str) -> String {
        Some(self.text(name))
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| default.to_owned())
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(Value::is_true)
    }

    fn texts(&self, name: &str) -> Vec<String> {
        match self.get(name) {
            Some(Value::Str(names)) => names.split(',').map(|name| name.trim().into()).collect(),
            Some(names) => names.texts(),
            None => Vec::new(),
        }
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some(value) = self.get(name) else {
            return Ok(default);
        };
        let number = value.as_int().or_else(|| value.to_text().parse().ok());
        number
            .and_then(|number| u64::try_from(number).ok())
            .ok_or_else(|| format!("`{name}` must be a number, not {}", value.to_text()))
    }

    fn kinds(&self) -> Result<Vec<Kind>, String> {
        let names = self.texts("ref_types");
        if names.is_empty() {
            return Ok(vec![Kind::Branch, Kind::Tag, Kind::Commit]);
        }
        let kind = |name: &String| {
            Kind::from_name(name).ok_or_else(|| {
                format!("`ref_types` has the unknown type {name}: use branch, tag or sha")
            })
        };
        names.iter().map(kind).collect()
    }

    /// Returns the options of single environments: the repository's own ones, then the global ones.
    fn environments(&self) -> Result<BTreeMap<String, OfEnvironment>, String> {
        let mut all = BTreeMap::<String, OfEnvironment>::new();
        let global = self.opts.get(&format!("{}_saltenv", self.role.name()));
        for configured in self.own.get("saltenv").into_iter().chain(global) {
            for (name, options) in &dictionary("saltenv", configured)? {
                let options = dictionary("saltenv", options)?;
                let known = all.entry(name.to_text()).or_default();
                let text = |key| options.get(key).map(Value::to_text);
                known.reference = known.reference.take().or_else(|| text("ref"));
                known.root = known.root.take().or(inside("root", text("root"))?);
                let mountpoint = text("mountpoint").map(|path| mounted(&path));
                known.mountpoint = known
                    .mountpoint
                    .take()
                    .or(inside("mountpoint", mountpoint)?);
            }
        }
        Ok(all)
    }
}

/// Returns a dictionary, or a list of dictionaries, as one dictionary.
fn dictionary(option: &str, value: &Value) -> Result<Map, String> {
    let mut all = Map::new();
    match value {
        Value::Map(map) => return Ok(map.clone()),
        Value::List(items) => {
            for item in items.iter() {
                let map = item.as_map().ok_or_else(|| {
                    format!(
                        "`{option}` must be a list of dictionaries, but has {}",
                        item.to_text()
                    )
                })?;
                all.update(map.clone());
            }
        }
        Value::Null => {}
        other => {
            return Err(format!(
                "`{option}` must be a list of dictionaries, not {}",
                other.to_text()
            ));
        }
    }
    Ok(all)
}

/// Returns the path below the roots that a mount point names.
fn mounted(path: &str) -> String {
    path.strip_prefix("salt://").unwrap_or(path).to_owned()
}

/// Returns a path without slashes at its ends, which must not lead outside.
fn inside(option: &str, path: Option<String>) -> Result<Option<String>, String> {
    let Some(path) = path else {
        return Ok(None);
    };
    let path = path.trim_matches('/');
    if path.split('/').any(|part| part == "..") {
        return Err(format!("`{option}` must not contain `..`: {path}"));
    }
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    Ok(Some(parts.collect::<Vec<_>>().join("/")))
}

/// Returns whether a text may be the number of a commit.
pub(super) fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Remote {
    /// Reads one entry of a list of repositories: an address, or a dictionary of an address and its
    /// options.
    ///
    /// # Errors
    /// When the entry has an unknown form or option. The error names the repository without its
    /// password.
    pub(super) fn new(role: Role, entry: &Value, opts: &Opts) -> Result<Self, Error> {
        let (id, own) = match entry {
            Value::Map(map) => match map.first() {
                Some((id, options)) => (id.to_text(), Some(options)),
                None => {
                    return Err(Error::refused(format!(
                        "{}: a repository is missing",
                        role.name()
                    )));
                }
            },
            Value::Str(id) => (id.to_string(), None),
            other => {
                return Err(Error::refused(format!(
                    "{}: a repository must be a text or a dictionary, not {}",
                    role.name(),
                    other.to_text()
                )));
            }
        };
        let shown = super::address::without_password(&id);
        let wrong = |problem: String| {
            Error::refused(format!("The {} repository {shown}: {problem}", role.name()))
        };
        let own = own
            .map(|options| dictionary("options", options))
            .transpose();
        let own = match own.map_err(&wrong)? {
            Some(own) if own.is_empty() => {
                return Err(wrong("it has no options. Remove the colon after it".into()));
            }
            own => own.unwrap_or_default(),
        };
        let known: BTreeSet<&str> = role.options().collect();
        if let Some(unknown) = own.keys().find(|key| !known.contains(&*key.as_text())) {
            let known: Vec<&str> = known.into_iter().collect();
            return Err(wrong(format!(
                "the option {} is unknown. The options are {}",
                unknown.to_text(),
                known.join(", ")
            )));
        }
        Self::of(Options { role, own, opts }, &id).map_err(wrong)
    }

    fn of(options: Options<'_>, id: &str) -> Result<Self, String> {
        let role = options.role;
        let (branch, url) = match (role, id.split_once(char::is_whitespace)) {
            (Role::Pillar, Some((branch, url))) => (branch.to_owned(), url.trim()),
            _ => (options.text_or("branch", "master"), id),
        };
        if role == Role::Pillar && branch != "__env__" && options.own.contains("base") {
            return Err("`base` is only possible if the branch is __env__".into());
        }
        let mut environments = options.environments()?;
        let of_base = environments.get_mut("base");
        let base = of_base.and_then(|base| base.reference.take());
        let refspecs = options.texts("refspecs");
        let mountpoint = inside("mountpoint", Some(mounted(&options.text("mountpoint"))))?;
        Ok(Self {
            role,
            id: id.to_owned(),
            address: Address::new(url, &options)?,
            branch,
            name: Some(options.text("name")).filter(|name| !name.is_empty()),
            kinds: options.kinds()?,
            base: base.unwrap_or_else(|| options.text_or("base", "master")),
            fallback: options.text("fallback"),
            all_saltenvs: options.own.get("all_saltenvs").map(Value::to_text),
            is_mapped: !options.is_set("disable_saltenv_mapping"),
            env: options.text("env"),
            root: inside("root", Some(options.text("root")))?.unwrap_or_default(),
            mountpoint: mountpoint.unwrap_or_default(),
            environments,
            whitelist: options.texts("saltenv_whitelist"),
            blacklist: options.texts("saltenv_blacklist"),
            refspecs: match refspecs.is_empty() {
                true => REFSPECS.map(str::to_owned).into(),
                false => refspecs,
            },
            depth: options.number("depth", 1)?,
            interval: Duration::from_secs(options.number("update_interval", 60)?),
            keep: Duration::from_secs(options.number("keep", KEEP)?),
            size_max: options
                .number("max_size", SIZE_MAX)?
                .saturating_mul(1 << 20),
            keys: Keys::new(options.get("verify"))?,
        })
    }

    /// Returns the name for errors and logs: without a password.
    pub(super) fn shown(&self) -> String {
        super::address::without_password(&self.id)
    }

    /// Returns the branch, tag or commit of an environment; `None` if it has none.
    pub(super) fn reference<'a>(&'a self, env: &'a str) -> Option<&'a str> {
        let own = self.environments.get(env);
        let own = own.and_then(|own| own.reference.as_deref());
        match () {
            () if self.all_saltenvs.is_some() => self.all_saltenvs.as_deref(),
            () if env == "base" => Some(&self.base),
            () if self.is_mapped => Some(own.unwrap_or(env)),
            () => own,
        }
    }

    /// Returns the folder in the repository that is the root of an environment.
    pub(super) fn root(&self, env: &str) -> &str {
        let own = self.environments.get(env);
        let own = own.and_then(|own| own.root.as_deref());
        own.unwrap_or(&self.root)
    }

    /// Returns the path below which the files of an environment appear.
    pub(super) fn mountpoint(&self, env: &str) -> &str {
        let own = self.environments.get(env);
        let own = own.and_then(|own| own.mountpoint.as_deref());
        own.unwrap_or(&self.mountpoint)
    }

    /// Returns whether an environment is served.
    pub(super) fn is_exposed(&self, env: &str) -> bool {
        passes_lists(env, &self.whitelist, &self.blacklist)
    }

    /// Returns the environments that the branches and tags make.
    pub(super) fn environments(&self, heads: &Heads) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        if is_hex(&self.base) {
            all.insert("base".to_owned());
        }
        let branches = heads
            .branches
            .keys()
            .filter(|_| self.kinds.contains(&Kind::Branch));
        let tags = heads
            .tags
            .keys()
            .filter(|_| self.kinds.contains(&Kind::Tag));
        for reference in branches.chain(tags) {
            all.extend(self.environments_of(reference));
        }
        let configured = self.environments.iter();
        let referring = configured.filter(|(_, own)| own.reference.is_some());
        all.extend(referring.map(|(name, _)| name.clone()));
        // A refused reference has no files, which is an error if the configuration names it.
        let refused = heads.refused.iter().map(|(_, reference, _)| reference);
        for reference in refused.filter(|reference| self.names().any(|name| name == *reference)) {
            all.extend(self.environments_of(reference));
        }
        all.retain(|env| self.is_exposed(env));
        all
    }

    /// Returns the environments of a branch or tag.
    fn environments_of(&self, reference: &str) -> Vec<String> {
        let configured = self.environments.iter();
        let referring = configured.filter(|(_, own)| own.reference.as_deref() == Some(reference));
        let mut names: Vec<String> = referring.map(|(name, _)| name.clone()).collect();
        if reference == self.base && !names.iter().any(|name| name == "base") {
            names.push("base".into());
        }
        match names.is_empty() && self.is_mapped {
            true => vec![reference.to_owned()],
            false => names,
        }
    }

    /// Returns whether the branch of a pillar is that of the environment.
    pub(super) fn is_dynamic(&self) -> bool {
        self.branch == "__env__"
    }

    /// Returns the branch, tag or commit of a pillar. `env` is the environment of those that depend on
    /// it.
    pub(super) fn target(&self, env: &str) -> String {
        match (self.is_dynamic(), &self.all_saltenvs) {
            (false, _) => self.branch.clone(),
            (true, Some(all)) => all.clone(),
            (true, None) if env == "base" => self.base.clone(),
            (true, None) => env.to_owned(),
        }
    }

    /// Returns the environment of a pillar whose branch is `target`.
    pub(super) fn pillar_environment(&self, env: &str, target: &str) -> String {
        match self.env.as_str() {
            _ if self.is_dynamic() && self.all_saltenvs.is_some() => env.to_owned(),
            "__env__" => env.to_owned(),
            "" if target == self.base => "base".to_owned(),
            "" => target.to_owned(),
            named => named.to_owned(),
        }
    }

    /// Returns the references that the configuration names.
    fn names(&self) -> impl Iterator<Item = &str> {
        let configured = self.environments.values();
        let configured = configured.filter_map(|own| own.reference.as_deref());
        let branch = Some(self.branch.as_str()).filter(|_| self.role == Role::Pillar);
        let named = [&self.base, &self.fallback].map(String::as_str);
        let named = named.into_iter().chain(branch);
        named.chain(self.all_saltenvs.as_deref()).chain(configured)
    }

    /// Returns the references that are wanted by name, and may be numbers of commits.
    pub(super) fn pins(&self) -> BTreeSet<&str> {
        self.names().filter(|name| is_hex(name)).collect()
    }
}
