//! [`Takeover`]: examines the options and keys of a Salt minion. Nothing is connected or written.

use state::opts::Opts;

#[cfg(feature = "salt-master")]
use super::protocol::Protocols;
#[cfg(feature = "salt-master")]
use super::salt;
#[cfg(feature = "salt-master")]
use super::settings::{groups, quic_masters};

/// The parts of a Salt minion that this program takes over.
#[derive(Debug, Default)]
pub struct Takeover {
    /// The Salt masters.
    pub masters: Vec<String>,
    /// The file of the minion's key and its fingerprint; `None` if there is no key yet.
    pub key: Option<String>,
    /// The file of the remembered master's key and its fingerprint; `None` if there is none yet.
    pub master_key: Option<String>,
    /// The reasons why this program cannot take them over.
    pub problems: Vec<String>,
}

impl Takeover {
    /// Examines the options and keys.
    #[must_use]
    pub fn examine(opts: &Opts) -> Self {
        let mut found = Self::default();
        if let Err(problem) = found.fill(opts) {
            found.problems.push(problem);
        }
        found
    }

    #[cfg(not(feature = "salt-master"))]
    #[expect(clippy::unused_self, reason = "the other build fills it")]
    fn fill(&mut self, _: &Opts) -> Result<(), String> {
        Err("this program was built without the feature salt-master".to_owned())
    }

    #[cfg(feature = "salt-master")]
    fn fill(&mut self, opts: &Opts) -> Result<(), String> {
        let masters = groups(opts).map_err(|error| error.to_string())?.concat();
        Protocols::open(opts).map_err(|error| error.to_string())?;
        let quic = quic_masters(opts).map_err(|error| error.to_string())?;
        for master in masters.iter().filter(|master| !quic.contains(master)) {
            self.masters.push(master.to_string());
            let settings =
                salt::settings::settings(opts, master).map_err(|error| error.to_string())?;
            let shown = |found: Option<(std::path::PathBuf, [String; 2])>| {
                found.map(|(path, [finger, _])| format!("{} ({finger})", path.display()))
            };
            let found = |error: saltlink::Error| error.to_string();
            self.key = shown(saltlink::Identity::find(&settings).map_err(found)?);
            self.master_key = shown(saltlink::remembered(&settings).map_err(found)?);
        }
        Ok(())
    }
}
