//! Key files in Salt's `pki_dir`: `pki/minion/minion.pem`, `pki/master/master.pem` and the public halves beside them.
//!
//! Salt's own keys are RSA and have the same names. Where one lies there already, ours is `minion.ed25519.pem` (`.pub`) beside it, and
//! so is what is remembered of the master (`minion_master.ed25519.pub`): an installed Salt's keys are never overwritten and never
//! taken for ours, and either program can go or come without the other noticing.
//!
//! The files are written here and not by `modules::fs`, which leans on a run and is above this crate: keys are only ever made, never
//! replaced, so what is needed is less (a file beside, synced, renamed where nothing may be in the way).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};

use crate::key::{KeyPair, NotAKey, PublicKey};

/// A key file holds a line or two: what is longer is none.
const FILE_MAX: u64 = 16 << 10;

/// What stands in a name beside a key of Salt.
const BESIDE: &str = "ed25519";

/// A folder or file of keys that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read or made.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others can read a private key.
    #[error(
        "{path} is a private key that others may read (mode {mode:04o}): make it 0400, and a new key if others may have read it"
    )]
    Exposed {
        /// Which.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Others can put keys there.
    #[error("others may write to {path} (mode {mode:04o}): make it {right:04o}")]
    Writable {
        /// Which.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What they should be.
        right: u32,
    },
    /// It belongs to somebody else.
    #[error(
        "{path} belongs to user {owner}, and is neither root's nor that of user {user}, who runs this program"
    )]
    Foreign {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs this.
        user: u32,
    },
    /// It holds no key of ours.
    #[error("{path}: {source}")]
    NotAKey {
        /// Which.
        path: PathBuf,
        /// What it is.
        source: NotAKey,
    },
}

/// A folder of keys.
#[derive(Clone, Debug)]
pub struct Pki {
    folder: PathBuf,
}

/// One's own key, and where it lies.
#[derive(Clone, Debug)]
pub struct Own {
    /// The key.
    pub pair: KeyPair,
    /// The file of the private half.
    pub path: PathBuf,
    /// True when it was made just now.
    pub is_new: bool,
}

impl Pki {
    /// Opens a folder of keys, made if it is not there, for its owner alone.
    ///
    /// # Errors
    /// When others may write to it, or it belongs to somebody else.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let io = |source| Error::Io {
            path: folder.to_owned(),
            source,
        };
        if !folder.is_dir() {
            let mut builder = std::fs::DirBuilder::new();
            builder
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(io)?;
        }
        check(folder, &std::fs::metadata(folder).map_err(io)?, 0o700)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// One's own key of this name (`minion`, `master`), made when there is none.
    ///
    /// # Errors
    /// When the file cannot be read, may be read by others, belongs to somebody else or holds something else.
    pub fn own(&self, name: &str) -> Result<Own, Error> {
        let path = self.place(name, "pem")?;
        let (pair, is_new) = match self.private(&path)? {
            Some(pair) => (pair, false),
            None => self.make(&path)?,
        };
        // The public half is for people and for tools: what stands there is never read by us.
        let public = path.with_extension("pub");
        if read(&public)?.is_none() {
            match create(&public, pair.public().pem().as_bytes(), 0o644) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::Io {
                        path: public,
                        source: error,
                    });
                }
                _ => {}
            }
        }
        Ok(Own { pair, path, is_new })
    }

    fn make(&self, path: &Path) -> Result<(KeyPair, bool), Error> {
        let not_a_key = |source| Error::NotAKey {
            path: path.to_owned(),
            source,
        };
        let pair = KeyPair::generate().map_err(not_a_key)?;
        match create(path, pair.pem().as_bytes(), 0o400) {
            Ok(()) => Ok((pair, true)),
            // Another process was quicker: its key is the key.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let theirs = self.private(path)?;
                Ok((theirs.ok_or_else(|| not_a_key(NotAKey::Other))?, false))
            }
            Err(source) => Err(Error::Io {
                path: path.to_owned(),
                source,
            }),
        }
    }

    fn private(&self, path: &Path) -> Result<Option<KeyPair>, Error> {
        let Some((text, metadata)) = read(path)? else {
            return Ok(None);
        };
        let mode = metadata.mode() & 0o7777;
        owned(path, &metadata)?;
        if mode & 0o077 != 0 {
            return Err(Error::Exposed {
                path: path.to_owned(),
                mode,
            });
        }
        let pair = KeyPair::from_pem(&text);
        pair.map(Some).map_err(|source| Error::NotAKey {
            path: path.to_owned(),
            source,
        })
    }

    /// The master's key as it was remembered or put there under this name (`minion_master`); none at first.
    ///
    /// # Errors
    /// When the file cannot be read, may be written by others, belongs to somebody else or holds something else.
    pub fn known(&self, name: &str) -> Result<Option<PublicKey>, Error> {
        let path = self.place(name, "pub")?;
        let Some((text, metadata)) = read(&path)? else {
            return Ok(None);
        };
        check(&path, &metadata, 0o644)?;
        let key = PublicKey::from_pem(&text);
        key.map(Some)
            .map_err(|source| Error::NotAKey { path, source })
    }

    /// Remembers the master's key. What was remembered before stays: who wants another removes the file.
    ///
    /// # Errors
    /// When something stands there already, or nothing can be written.
    pub fn remember(&self, name: &str, key: &PublicKey) -> Result<(), Error> {
        let path = self.place(name, "pub")?;
        let created = create(&path, key.pem().as_bytes(), 0o644);
        created.map_err(|source| Error::Io { path, source })
    }

    /// Where a key of this name lies: beside Salt's, if Salt's is there.
    ///
    /// # Errors
    /// When what is there cannot be read.
    pub fn place(&self, name: &str, extension: &str) -> Result<PathBuf, Error> {
        let beside = self.folder.join(format!("{name}.{BESIDE}.{extension}"));
        let plain = self.folder.join(format!("{name}.{extension}"));
        if beside.exists() {
            return Ok(beside);
        }
        let Some((text, _)) = read(&plain)? else {
            return Ok(plain);
        };
        let is_salts = match extension {
            "pem" => KeyPair::from_pem(&text).is_err_and(|why| why == NotAKey::Rsa),
            _ => PublicKey::from_pem(&text).is_err_and(|why| why == NotAKey::Rsa),
        };
        Ok(if is_salts { beside } else { plain })
    }
}

fn check(path: &Path, metadata: &std::fs::Metadata, right: u32) -> Result<(), Error> {
    owned(path, metadata)?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        return Err(Error::Writable {
            path: path.to_owned(),
            mode,
            right,
        });
    }
    Ok(())
}

fn owned(path: &Path, metadata: &std::fs::Metadata) -> Result<(), Error> {
    let user = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if owner != user && owner != 0 {
        return Err(Error::Foreign {
            path: path.to_owned(),
            owner,
            user,
        });
    }
    Ok(())
}

/// A file with what the open file says of itself; none where there is none.
fn read(path: &Path) -> Result<Option<(Vec<u8>, std::fs::Metadata)>, Error> {
    // A pipe in that place must not hold us up.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut text = Vec::new();
    let read = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => Err(error),
        Ok(file) => file.metadata().and_then(|metadata| {
            (&file).take(FILE_MAX).read_to_end(&mut text)?;
            Ok(metadata)
        }),
    };
    let read = read.map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(Some((text, read)))
}

/// Makes a file that is whole and on the disk, or not there. What exists is never replaced.
fn create(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let beside = path.with_extension(format!(
        "new.{}",
        rustix::process::getpid().as_raw_nonzero()
    ));
    // Left by a process of this number that was killed.
    let _ = rustix::fs::unlink(&beside);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)?;
    // The mask of the process may have taken bits away, and adds none.
    let written = file.write_all(text).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| rename_new(&beside, path));
    if placed.is_err() {
        let _ = rustix::fs::unlink(&beside);
        return placed;
    }
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    File::open(folder)?.sync_all()
}

fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems have no such rename, but all have links or need none.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            if to.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Ok(rustix::fs::rename(from, to)?)
        }
        done => Ok(done?),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test's own files")]

    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SALTS: &str = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n";
    const SALTS_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----\n";

    fn opened() -> (tempfile::TempDir, Pki) {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::open(&folder.path().join("pki/minion")).unwrap();
        (folder, pki)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn put(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_key_is_made_once_for_its_owner_alone() {
        let (_folder, pki) = opened();
        let first = pki.own("minion").unwrap();
        assert!(first.is_new && first.path.ends_with("pki/minion/minion.pem"));
        assert_eq!(mode(&first.path), 0o400);
        assert_eq!(mode(&pki.folder), 0o700);
        let public = fs::read(first.path.with_extension("pub")).unwrap();
        assert_eq!(PublicKey::from_pem(&public), Ok(first.pair.public()));
        let again = pki.own("minion").unwrap();
        assert!(!again.is_new);
        assert_eq!(again.pair.public(), first.pair.public());
        assert_eq!(fs::read_dir(&pki.folder).unwrap().count(), 2);
    }

    #[test]
    fn keys_of_salt_are_left_alone_and_ours_lie_beside_them() {
        let (_folder, pki) = opened();
        put(&pki.folder.join("minion.pem"), SALTS, 0o400);
        put(&pki.folder.join("minion.pub"), SALTS_PUBLIC, 0o644);
        put(&pki.folder.join("minion_master.pub"), SALTS_PUBLIC, 0o644);
        let own = pki.own("minion").unwrap();
        assert!(own.path.ends_with("minion.ed25519.pem"), "{own:?}");
        assert!(pki.folder.join("minion.ed25519.pub").exists());
        assert_eq!(pki.known("minion_master").unwrap(), None);
        pki.remember("minion_master", &own.pair.public()).unwrap();
        assert_eq!(pki.known("minion_master").unwrap(), Some(own.pair.public()));
        assert_eq!(
            fs::read_to_string(pki.folder.join("minion.pem")).unwrap(),
            SALTS
        );
        let kept = fs::read_to_string(pki.folder.join("minion_master.pub")).unwrap();
        assert_eq!(kept, SALTS_PUBLIC);
        // Salt goes: ours stays where it is.
        fs::remove_file(pki.folder.join("minion.pem")).unwrap();
        assert_eq!(pki.own("minion").unwrap().pair.public(), own.pair.public());
    }

    #[test]
    fn a_master_is_remembered_once() {
        let (_folder, pki) = opened();
        let (one, two) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        pki.remember("minion_master", &one.public()).unwrap();
        assert!(pki.remember("minion_master", &two.public()).is_err());
        assert_eq!(pki.known("minion_master").unwrap(), Some(one.public()));
    }

    #[test]
    fn files_that_others_could_have_touched_are_refused() {
        let (_folder, pki) = opened();
        let own = pki.own("minion").unwrap();
        fs::set_permissions(&own.path, Permissions::from_mode(0o440)).unwrap();
        let error = pki.own("minion").unwrap_err();
        assert!(
            matches!(error, Error::Exposed { mode: 0o440, .. }),
            "{error}"
        );
        let known = pki.folder.join("minion_master.pub");
        put(&known, &own.pair.public().pem(), 0o666);
        let error = pki.known("minion_master").unwrap_err();
        assert!(
            matches!(error, Error::Writable { mode: 0o666, .. }),
            "{error}"
        );
        fs::set_permissions(&pki.folder, Permissions::from_mode(0o777)).unwrap();
        let error = Pki::open(&pki.folder).unwrap_err().to_string();
        assert!(error.ends_with("(mode 0777): make it 0700"), "{error}");
    }

    #[test]
    fn keys_of_another_user_are_refused() {
        let (_folder, pki) = opened();
        let own = pki.own("minion").unwrap();
        if std::os::unix::fs::chown(&own.path, Some(12345), None).is_ok() {
            let error = pki.own("minion").unwrap_err();
            assert!(
                matches!(error, Error::Foreign { owner: 12345, .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn damaged_keys_are_named_and_never_replaced() {
        let (_folder, pki) = opened();
        let path = pki.folder.join("minion.pem");
        put(&path, "torn", 0o400);
        let error = pki.own("minion").unwrap_err().to_string();
        assert!(
            error.ends_with("minion.pem: it is no Ed25519 key in PEM form"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "torn");
    }
}
