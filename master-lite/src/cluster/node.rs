//! [`Node`]: the identity of this master in its cluster, a file below `cachedir/cluster`.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use machine::{durable, hashes};
use value::json::{self, Layout};
use value::{Map, Value};

use super::Error;

/// The name of the file.
const FILE: &str = "node";
/// The maximum size of the file in bytes.
const FILE_MAX: u64 = 4096;
/// The field with the hash of the others.
const HASH: &str = "sha256";
/// The form of this folder that this release reads and writes.
const FORMAT: u64 = 1;

/// The identity of this master in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The name of the cluster (`cluster_id`).
    pub(crate) cluster: String,
    /// The time at which the cluster was founded, in microseconds since 1970.
    pub(crate) founded_us: u64,
    /// The number of this master, which no other one ever had.
    pub(crate) number: u64,
    /// The number of starts of this master.
    pub(crate) boot: u64,
}

/// The folder of a master's cluster.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn open(cachedir: &Path) -> Result<Self, Error> {
        let path = cachedir.join("cluster");
        let mut builder = std::fs::DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(&path);
        created.map_err(|source| Error::io(&path, source))?;
        Ok(Self(path))
    }

    /// Returns whether this master has an identity in a cluster.
    pub(super) fn has_node(cachedir: &Path) -> bool {
        cachedir.join("cluster").join(FILE).exists()
    }

    /// Returns the folder of the log.
    pub(super) fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Reads the identity; `None` if this master is in no cluster.
    ///
    /// # Errors
    /// When the file cannot be read, or a later release wrote it.
    pub(super) fn read(&self) -> Result<Option<Node>, Error> {
        let path = self.0.join(FILE);
        let text = match read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::io(&path, source)),
        };
        let damaged = |why: &str| Error::io(&path, io::Error::new(ErrorKind::InvalidData, why));
        let value = json::read(&text).map_err(|error| damaged(&error.to_string()))?;
        let mut map = value
            .as_map()
            .cloned()
            .ok_or_else(|| damaged("it is not a mapping"))?;
        let found = map.remove(HASH);
        let number = |name: &str| {
            let number = map.get(name).and_then(Value::as_int);
            let number = number.and_then(|number| u64::try_from(number).ok());
            number.ok_or_else(|| damaged(&format!("{name} is missing")))
        };
        let text = |name: &str| {
            let text = map.get(name).and_then(Value::as_str).map(str::to_owned);
            text.ok_or_else(|| damaged(&format!("{name} is missing")))
        };
        if number("format")? > FORMAT {
            return Err(damaged("a later release wrote it"));
        }
        // The first release wrote none.
        let is_first = found.is_none() && map.len() == 5;
        if !is_first && found != Some(hash(&map).into()) {
            return Err(damaged("its hash is wrong"));
        }
        Ok(Some(Node {
            cluster: text("cluster")?,
            founded_us: number("founded_us")?,
            number: number("number")?,
            boot: number("boot")?,
        }))
    }

    /// Writes the identity. When this returns, it is on the disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&self, node: &Node) -> Result<(), Error> {
        let map = Map::new()
            .with("format", FORMAT)
            .with("cluster", node.cluster.as_str())
            .with("founded_us", node.founded_us)
            .with("number", node.number)
            .with("boot", node.boot);
        let hash = hash(&map);
        let text = json::write(&map.with(HASH, hash).into(), Layout::default());
        let written = durable::write(&self.0, FILE, text.as_bytes());
        written.map_err(|source| Error::io(&self.0.join(FILE), source))
    }

    /// Removes all that this master has of its cluster.
    ///
    /// # Errors
    /// When it cannot be removed.
    #[expect(
        clippy::disallowed_methods,
        reason = "only this daemon can change what is in the folder"
    )]
    pub(super) fn remove(self) -> Result<(), Error> {
        let removed = std::fs::remove_dir_all(&self.0);
        removed.map_err(|source| Error::io(&self.0, source))
    }
}

/// Returns the hash of all other fields of the file.
fn hash(map: &Map) -> String {
    let text = json::write(&map.clone().into(), Layout::default());
    hashes::of_bytes(text.as_bytes(), "sha256").unwrap_or_default()
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_read_back_and_damage_is_an_error() {
        let cachedir = tempfile::tempdir().unwrap();
        let folder = Folder::open(cachedir.path()).unwrap();
        assert_eq!(folder.read().unwrap(), None);
        let node = Node {
            cluster: "prod".to_owned(),
            founded_us: 1_800_000_000_000_000,
            number: 7,
            boot: 2,
        };
        folder.write(&node).unwrap();
        assert_eq!(folder.read().unwrap(), Some(node.clone()));
        let path = folder.path().join(FILE);
        let text = std::fs::read(&path).unwrap();
        for at in 0..text.len() * 8 {
            let mut changed = text.clone();
            changed[at / 8] ^= 1 << (at % 8);
            durable::write(folder.path(), FILE, &changed).unwrap();
            let read = folder.read();
            assert!(read.is_err() || read.unwrap() == Some(node.clone()), "{at}");
        }
        durable::write(folder.path(), FILE, b"{}").unwrap();
        let error = folder.read().unwrap_err().to_string();
        assert!(error.contains("format is missing"), "{error}");
    }
}
