//! What a managed file is to contain: a file that is there already, or bytes in memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use python::difflib;
use rustix::fs::OFlags;
use state::exec::Exec;
use state::module::Error;

use super::perms::mode_bits;
use super::stat;
use crate::{fs, hashes};

/// The contents of a managed file.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// Those of a file on this machine.
    File(String),
    /// These.
    Bytes(Vec<u8>),
}

impl Body {
    fn reader(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match self {
            Self::File(path) => Box::new(fs::raw::open(path)?),
            Self::Bytes(bytes) => Box::new(bytes.as_slice()),
        })
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::File(path) => fs::raw::read(path),
            Self::Bytes(bytes) => Ok(bytes.clone()),
        }
    }

    /// Its hash.
    pub(crate) fn hash(&self, kind: &str) -> Result<String, Error> {
        match self {
            Self::File(path) => hashes::of_file(path, kind),
            Self::Bytes(bytes) => hashes::of_bytes(bytes, kind),
        }
    }

    /// True when a file has just these contents. A file that cannot be read has others.
    pub(crate) fn is_in(&self, path: &str) -> bool {
        let file = stat::open(path, OFlags::empty());
        file.and_then(|file| same(self, &file, file.metadata()?.len()))
            .unwrap_or(false)
    }

    /// The same for an open file of this size, from its beginning.
    pub(crate) fn fills(&self, file: &File, size: u64) -> bool {
        same(self, file, size).unwrap_or(false)
    }

    /// The diff from a file to it, or Salt's sentence where one is binary.
    pub(crate) fn diff_from(&self, path: &str) -> io::Result<String> {
        let old = Self::File(path.to_owned());
        if let Some(sentence) = difflib::binary(&old.head()?, &self.head()?) {
            return Ok(sentence.to_owned());
        }
        Ok(difflib::of_files(&old.bytes()?, &self.bytes()?))
    }

    fn head(&self) -> io::Result<Vec<u8>> {
        let mut head = Vec::new();
        self.reader()?.take(512).read_to_end(&mut head)?;
        Ok(head)
    }

    /// Writes it: through a link, or with `follow` false in the place of a link.
    pub(crate) fn write(
        &self,
        cx: &Exec,
        path: &str,
        mode: Option<&str>,
        follow: bool,
    ) -> Result<(), Error> {
        let owner = fs::Owner {
            mode: mode.and_then(mode_bits),
            ..fs::Owner::default()
        };
        let mut reader = self.reader().map_err(Error::io(path))?;
        if follow {
            fs::write_from(cx, Path::new(path), &mut reader, owner)
        } else {
            fs::replace_from(cx, Path::new(path), &mut reader, owner)
        }
    }
}

fn same(body: &Body, mut file: &File, size: u64) -> io::Result<bool> {
    match body {
        Body::Bytes(bytes) => Ok(size == bytes.len() as u64 && holds(&mut file, bytes)?),
        Body::File(source) => {
            let source = stat::open(source, OFlags::empty())?;
            Ok(size == source.metadata()?.len() && equal(&mut file, &mut &source)?)
        }
    }
}

/// How much of a file is compared at a time.
const PIECE: usize = 65536;

/// True when a file holds just these bytes.
fn holds(file: &mut &File, bytes: &[u8]) -> io::Result<bool> {
    let mut read = vec![0; bytes.len().min(PIECE)];
    for wanted in bytes.chunks(PIECE) {
        let read = read.get_mut(..wanted.len()).unwrap_or_default();
        file.read_exact(read)?;
        if read != wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

fn equal(left: &mut &File, right: &mut &File) -> io::Result<bool> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = left.read(&mut piece)?;
        let read = piece.get(..count).unwrap_or_default();
        if count == 0 {
            return Ok(true);
        }
        if !holds(right, read)? {
            return Ok(false);
        }
    }
}
