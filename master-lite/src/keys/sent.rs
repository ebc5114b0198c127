//! [`SentFiles`]: the files that minions have sent (`cp.push`), which are removed with their keys.

use std::fs;
use std::path::PathBuf;

use state::opts::Opts;
use value::{log, remove};
use wire::Id;

use crate::store::Store;

/// The files that minions have sent to this master.
#[derive(Clone, Debug)]
pub(super) struct SentFiles {
    folder: PathBuf,
    /// `preserve_minion_cache`: no files are removed.
    preserve: bool,
}

impl SentFiles {
    pub(super) fn of_opts(opts: &Opts) -> Self {
        Self {
            folder: opts.cachedir().join("minions"),
            preserve: opts.flag("preserve_minion_cache"),
        }
    }

    /// Removes the files of those ids that have no key any more.
    #[expect(
        clippy::disallowed_methods,
        reason = "only this daemon can change what is in the folder"
    )]
    pub(super) fn remove(&self, store: &Store, ids: &[Id]) {
        if self.preserve {
            return;
        }
        for id in ids {
            match store.key(id) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let folder = self.folder.join(id.as_str());
                    remove::or_log(&folder, fs::remove_dir_all(&folder));
                }
                Err(error) => log::error(format_args!("cannot remove the files of {id}: {error}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use link::PublicKey;
    use value::Map;

    use super::*;
    use crate::store::{Command, Limits};

    #[test]
    fn files_of_a_minion_are_removed_with_its_last_key() {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::open(&scratch.path().join("store"), Limits::default()).unwrap();
        let opts = Map::new().with("cachedir", scratch.path().display().to_string());
        let [web, db] = ["web", "db"].map(|id| id.parse::<Id>().unwrap());
        let files = |id: &Id| {
            scratch
                .path()
                .join("minions")
                .join(id.as_str())
                .join("files")
        };
        for id in [&web, &db] {
            fs::create_dir_all(files(id)).unwrap();
        }
        let accepted = Command::KeyAccepted {
            id: web.clone(),
            key: PublicKey::from_bytes([1; 32]),
            at_ms: 1,
            bound: Map::new(),
            replace: true,
        };
        smol::block_on(store.apply(accepted)).unwrap();
        let ids = [web.clone(), db.clone()];
        let kept = opts.clone().with("preserve_minion_cache", true);
        SentFiles::of_opts(&Opts::new(kept)).remove(&store, &ids);
        assert!(files(&web).exists() && files(&db).exists());
        SentFiles::of_opts(&Opts::new(opts)).remove(&store, &ids);
        assert!(files(&web).exists() && !files(&db).exists());
    }
}
