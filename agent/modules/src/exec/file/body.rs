//! The contents of a managed file: another file on this machine, or bytes in memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use machine::fs;
use machine::hashes;
use python::difflib;
use rustix::fs::OFlags;
use state::exec::Exec;
use state::module::Error;

use super::perms::mode_bits;
use super::stat;

/// The contents of a managed file.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// The contents of this file on this machine.
    File(String),
    /// The bytes themselves.
    Bytes(Vec<u8>),
}

impl Body {
    fn reader(&self) -> io::Result<Box<dyn Read + '_>> {
        Ok(match self {
            Self::File(path) => Box::new(fs::raw::open(path)?),
            Self::Bytes(bytes) => Box::new(bytes.as_slice()),
        })
    }

    /// Returns all bytes.
    pub(crate) fn bytes(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::File(path) => fs::raw::read(path),
            Self::Bytes(bytes) => Ok(bytes.clone()),
        }
    }

    /// Returns the hash of the contents.
    pub(crate) fn hash(&self, kind: &str) -> Result<String, Error> {
        match self {
            Self::File(path) => hashes::of_file(path, kind),
            Self::Bytes(bytes) => hashes::of_bytes(bytes, kind),
        }
    }

    /// Returns true if a file has exactly these contents. Returns false for a file that cannot be
    /// read.
    pub(crate) fn is_in(&self, path: &str) -> bool {
        let file = stat::open(path, OFlags::empty());
        file.and_then(|file| same(self, &file, file.metadata()?.len()))
            .unwrap_or(false)
    }

    /// Like [`Self::is_in`], but for an open file of the given size, which is read from its
    /// beginning.
    pub(crate) fn fills(&self, file: &File, size: u64) -> bool {
        same(self, file, size).unwrap_or(false)
    }

    /// Returns the diff from a file to these contents, or Salt's message if one of them is binary.
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

    /// Writes the contents to a path. With `follow`, a symbolic link is followed; else the file
    /// replaces the link.
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

/// The number of bytes that are compared at a time.
const PIECE: usize = 65536;

/// Returns true if the next bytes of a file are exactly these.
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
