//! [`Backend`]: the sources of files that `fileserver_backend` names.

use state::module::Error;
use state::opts::Opts;

/// A source of the files of the file server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Backend {
    /// The repositories of `gitfs_remotes`.
    Gitfs,
    /// The files that minions have sent to this master (`cp.push`).
    Minionfs,
    /// The folders of `file_roots`.
    Roots,
}

impl Backend {
    const ALL: [Self; 3] = [Self::Gitfs, Self::Minionfs, Self::Roots];

    /// Returns the name in `fileserver_backend`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gitfs => "gitfs",
            Self::Minionfs => "minionfs",
            Self::Roots => "roots",
        }
    }

    /// Returns the backend with a name. As in Salt, the ending `fs` may be left out.
    ///
    /// # Errors
    /// When it is not supported.
    pub(crate) fn named(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|backend| {
            let whole = backend.name();
            name == whole || whole.strip_suffix("fs") == Some(name)
        });
        found.ok_or_else(|| {
            let [first, second, last] = Self::ALL.map(Self::name);
            Error::refused(format!(
                "The fileserver backend {name} is not supported: {first}, {second} and {last} are. Remove it from `fileserver_backend`"
            ))
        })
    }

    /// Returns the backends of the configuration, in the order in which a file is looked for.
    ///
    /// # Errors
    /// When one of them is not supported.
    pub(crate) fn of_opts(opts: &Opts) -> Result<Vec<Self>, Error> {
        let names = opts.texts("fileserver_backend");
        match names.is_empty() {
            true => Ok(vec![Self::Roots]),
            false => names.iter().map(|name| Self::named(name)).collect(),
        }
    }
}
