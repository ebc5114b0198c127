//! The key files in Salt's `pki_dir`: `pki/minion/minion.pem`, `pki/master/master.pem` and, next to
//! them, the public halves.
//!
//! Salt's own keys are RSA and have the same names. If one is already there, Pinch's key is
//! `minion.ed25519.pem` (`.pub`) next to it, and the master's key is remembered as
//! `minion_master.ed25519.pub`. The keys of an installed Salt are never overwritten and never
//! mistaken for Pinch's. Either program can be installed or removed without affecting the other.
//!
//! The files are written here and not by `machine::fs`, which depends on a run and is a layer above
//! this crate, and less is needed: a temporary file in the same folder, synced, and renamed. A key is
//! created under a name that must not exist. Only a rotation of the master's key replaces keys
//! ([`crate::succession`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use value::remove;

use crate::key::{KeyPair, NotAKey, PublicKey};
use crate::succession::NotASuccession;

/// The maximum size of a key file in bytes. A key has only a line or two, so a longer file is none.
const FILE_MAX: u64 = 16 << 10;

/// The part of a file name that distinguishes Pinch's key from Salt's in the same folder.
const BESIDE: &str = "ed25519";

/// The reason why a folder or file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A path that cannot be read or created.
    #[error("{path}: {source}")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A private key that other users can read.
    #[error(
        "{path} is a private key that other users can read (mode {mode:04o}): change its mode to 0400, and create a new key if another user may have read it"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
    /// A folder or file that other users can write to.
    #[error("other users can write to {path} (mode {mode:04o}): change its mode to {right:04o}")]
    Writable {
        /// The folder or file.
        path: PathBuf,
        /// The permission bits of the folder or file.
        mode: u32,
        /// The recommended permission bits.
        right: u32,
    },
    /// A folder or file that belongs to another user.
    #[error(
        "{path} belongs to user {owner}, but must belong to root or to user {user}, who runs this program"
    )]
    Foreign {
        /// The folder or file.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// A file that contains no key of Pinch.
    #[error("{path}: {source}")]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// The reason why its contents are no key.
        source: NotAKey,
    },
    /// A damaged file of statements about the master's next key.
    #[error("{path}: {source}: remove the file if the master still has the remembered key")]
    Succession {
        /// The file.
        path: PathBuf,
        /// The defect.
        source: NotASuccession,
    },
}

/// A folder of keys.
#[derive(Clone, Debug)]
pub struct Pki {
    folder: PathBuf,
}

/// This program's own key, and its file.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The key.
    pub pair: KeyPair,
    /// The file of the private half.
    pub path: PathBuf,
    /// True if the key was just created.
    pub is_new: bool,
}

impl Pki {
    /// Opens a folder of keys. Creates it, accessible for its owner alone, if it does not exist.
    ///
    /// # Errors
    /// When other users may write to it, or it belongs to another user.
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

    /// Returns this program's own key of this name (`minion`, `master`). Creates it if there is
    /// none.
    ///
    /// # Errors
    /// When the file cannot be read, is readable for other users, belongs to another user or
    /// contains something else.
    pub fn own(&self, name: &str) -> Result<Identity, Error> {
        let path = self.place(name, "pem")?;
        let (pair, is_new) = match self.private(&path)? {
            Some(pair) => (pair, false),
            None => self.make(&path)?,
        };
        self.write_public(&path, &pair)?;
        Ok(Identity { pair, path, is_new })
    }

    /// Returns the key of this name, if there is one.
    ///
    /// # Errors
    /// As [`Pki::own`].
    pub fn find_own(&self, name: &str) -> Result<Option<Identity>, Error> {
        let path = self.place(name, "pem")?;
        let pair = self.private(&path)?;
        Ok(pair.map(|pair| Identity {
            pair,
            path,
            is_new: false,
        }))
    }

    /// Gives a key the name and the file of another one, which is lost.
    ///
    /// # Errors
    /// When a file cannot be replaced.
    pub fn replace_own(&self, with: &Identity, old: &Identity) -> Result<Identity, Error> {
        let io = |source| Error::Io {
            path: old.path.clone(),
            source,
        };
        rustix::fs::rename(&with.path, &old.path).map_err(|error| io(error.into()))?;
        self.sync().map_err(io)?;
        let public = with.path.with_extension("pub");
        remove::or_log(&public, rustix::fs::unlink(&public));
        self.write_public(&old.path, &with.pair)?;
        Ok(Identity {
            path: old.path.clone(),
            ..with.clone()
        })
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// When its file cannot be removed.
    pub fn remove_own(&self, key: &Identity) -> Result<(), Error> {
        let public = key.path.with_extension("pub");
        remove::or_log(&public, rustix::fs::unlink(&public));
        let removed = rustix::fs::unlink(&key.path).map_err(io::Error::from);
        let removed = removed.and_then(|()| self.sync());
        removed.map_err(|source| Error::Io {
            path: key.path.clone(),
            source,
        })
    }

    /// Writes the public half of the key in this file, if it is missing or that of another key. It is
    /// for people and for tools; Pinch never uses it.
    fn write_public(&self, private: &Path, pair: &KeyPair) -> Result<(), Error> {
        let path = private.with_extension("pub");
        let written = match read(&path)? {
            None => create(&path, pair.public().pem().as_bytes(), 0o644),
            Some((text, _)) if PublicKey::from_pem(&text).is_ok_and(|key| key != pair.public()) => {
                return self.replace(&path, &pair.public().pem(), 0o644);
            }
            Some(_) => Ok(()),
        };
        match written {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            written => written.map_err(|source| Error::Io { path, source }),
        }
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }

    /// Replaces a file of the folder. Afterwards it is on the disk, and after a failure it is the old
    /// one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn replace(&self, path: &Path, text: &str, mode: u32) -> Result<(), Error> {
        let replaced = place(path, text.as_bytes(), mode, |from, to| {
            Ok(rustix::fs::rename(from, to)?)
        });
        replaced.map_err(|source| Error::Io {
            path: path.to_owned(),
            source,
        })
    }

    /// Creates a file of the folder. Returns false if there is one already, which is not changed.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(&self, path: &Path, text: &str, mode: u32) -> Result<bool, Error> {
        match create(path, text.as_bytes(), mode) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(source) => Err(Error::Io {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Returns the contents of a file that only this user and root may write; `None` if it does not
    /// exist.
    ///
    /// # Errors
    /// When it cannot be read, belongs to another user, or others may write to it.
    pub fn read_public(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        let Some((text, metadata)) = read(path)? else {
            return Ok(None);
        };
        check(path, &metadata, 0o644)?;
        Ok(Some(text))
    }

    fn make(&self, path: &Path) -> Result<(KeyPair, bool), Error> {
        let not_a_key = |source| Error::NotAKey {
            path: path.to_owned(),
            source,
        };
        let pair = KeyPair::generate().map_err(not_a_key)?;
        match create(path, pair.pem().as_bytes(), 0o400) {
            Ok(()) => Ok((pair, true)),
            // Another process was faster, so its key is used.
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

    /// Returns the contents of a file that only this user may read; `None` if it does not exist.
    ///
    /// # Errors
    /// When it cannot be read, belongs to another user, or others may read it.
    pub fn read_private(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
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
        Ok(Some(text))
    }

    fn private(&self, path: &Path) -> Result<Option<KeyPair>, Error> {
        let Some(text) = self.read_private(path)? else {
            return Ok(None);
        };
        let pair = KeyPair::from_pem(&text);
        pair.map(Some).map_err(|source| Error::NotAKey {
            path: path.to_owned(),
            source,
        })
    }

    /// Returns the master's key that was remembered or stored by an administrator under this name
    /// (`minion_master`); `None` before the first connection.
    ///
    /// # Errors
    /// When the file cannot be read, is writable for other users, belongs to another user or
    /// contains something else.
    pub fn find_master_key(&self, name: &str) -> Result<Option<PublicKey>, Error> {
        let path = self.place(name, "pub")?;
        let Some(text) = self.read_public(&path)? else {
            return Ok(None);
        };
        let key = PublicKey::from_pem(&text);
        key.map(Some)
            .map_err(|source| Error::NotAKey { path, source })
    }

    /// Remembers the master's key. A key that was remembered before is not replaced; to change it,
    /// the administrator removes the file.
    ///
    /// # Errors
    /// When the file exists already, or cannot be written.
    pub fn remember(&self, name: &str, key: &PublicKey) -> Result<(), Error> {
        let path = self.place(name, "pub")?;
        let created = create(&path, key.pem().as_bytes(), 0o644);
        created.map_err(|source| Error::Io { path, source })
    }

    /// Returns the path of a key of this name. If Salt's key has the plain name, it is the name
    /// next to it.
    ///
    /// # Errors
    /// When an existing file cannot be read.
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

/// Returns the contents and the metadata of a file, both from the same open file; `None` if it does
/// not exist.
fn read(path: &Path) -> Result<Option<(Vec<u8>, std::fs::Metadata)>, Error> {
    // Opening a pipe at this path must not block.
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

/// Creates a file that is either complete and on the disk, or absent. An existing file is never
/// replaced.
fn create(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    place(path, text, mode, rename_new)
}

/// Writes a temporary file in the same folder, and renames it to this path.
fn place(
    path: &Path,
    text: &[u8],
    mode: u32,
    rename: impl Fn(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    let beside = path.with_extension(format!(
        "new.{}",
        rustix::process::getpid().as_raw_nonzero()
    ));
    // It may be left over from a killed process with the same id.
    remove::or_log(&beside, rustix::fs::unlink(&beside));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)?;
    // The umask may have removed bits from the mode; it never adds any.
    let written = file.write_all(text).and_then(|()| file.sync_all());
    let placed = written.and_then(|()| rename(&beside, path));
    if placed.is_err() {
        remove::or_log(&beside, rustix::fs::unlink(&beside));
        return placed;
    }
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    File::open(folder)?.sync_all()
}

fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Some file systems do not support this flag. There, the existence is checked first
        // instead.
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
        assert_eq!(pki.find_master_key("minion_master").unwrap(), None);
        pki.remember("minion_master", &own.pair.public()).unwrap();
        assert_eq!(
            pki.find_master_key("minion_master").unwrap(),
            Some(own.pair.public())
        );
        assert_eq!(
            fs::read_to_string(pki.folder.join("minion.pem")).unwrap(),
            SALTS
        );
        let kept = fs::read_to_string(pki.folder.join("minion_master.pub")).unwrap();
        assert_eq!(kept, SALTS_PUBLIC);
        // After Salt's key is removed, Pinch's key keeps its name.
        fs::remove_file(pki.folder.join("minion.pem")).unwrap();
        assert_eq!(pki.own("minion").unwrap().pair.public(), own.pair.public());
    }

    #[test]
    fn a_master_is_remembered_once() {
        let (_folder, pki) = opened();
        let (one, two) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        pki.remember("minion_master", &one.public()).unwrap();
        assert!(pki.remember("minion_master", &two.public()).is_err());
        assert_eq!(
            pki.find_master_key("minion_master").unwrap(),
            Some(one.public())
        );
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
        let error = pki.find_master_key("minion_master").unwrap_err();
        assert!(
            matches!(error, Error::Writable { mode: 0o666, .. }),
            "{error}"
        );
        fs::set_permissions(&pki.folder, Permissions::from_mode(0o777)).unwrap();
        let error = Pki::open(&pki.folder).unwrap_err().to_string();
        assert!(
            error.ends_with("(mode 0777): change its mode to 0700"),
            "{error}"
        );
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
            error.ends_with("minion.pem: not an Ed25519 key in PEM format"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "torn");
    }
}
