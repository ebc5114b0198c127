//! The functions that `salt-cp` calls: `cp.recv` and `cp.recv_chunked`.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use machine::fs;
use machine::fs::handle::{Folder, Links};
use machine::process::python_errno;
use python::{base64, gzip, path};
use rustix::fs::OFlags;
use rustix::io::Errno;
use state::exec::Exec;
use state::module::{Error, Problem};
use value::{Map, Value, log};

state::exec_module! {
    /// Receive files from `salt-cp`.
    mod cp;

    /// Write files that `salt-cp` sends without `--chunked`.
    ///
    ///     salt-call cp.recv "{motd: 'hello'}" /etc/motd
    fn recv(Recv {
        /// The contents of the files by their paths on the master.
        files: Map,
        /// The target: a file, or an existing folder.
        dest: String,
    });

    /// Write a piece of a file that `salt-cp --chunked` sends, or create a folder if `chunk` is
    /// None.
    ///
    ///     salt-call cp.recv_chunked /etc/motd aGVsbG8K compressed=False
    fn recv_chunked(RecvChunked {
        /// The target: a file.
        dest: String,
        /// The contents in base64.
        chunk: Value,
        /// True to append to the file.
        append: bool = false,
        /// True if the contents are compressed with gzip.
        compressed: bool = true,
        /// The mode of the file as a number.
        mode: Option<i64> = None,
        /// The place of the piece in its file: `id`, `offset` and `last`. The target is then
        /// replaced when all pieces have arrived.
        transfer: Option<Map> = None,
    });
}

/// The maximum size of a piece in bytes when unpacked.
const PIECE_MAX: usize = 64 << 20;

/// The time after which the pieces of a file are removed if no further one arrives.
const ABANDONED: Duration = Duration::from_secs(3600);

/// The length of the id of a transfer, in hexadecimal digits.
const ID_LENGTH: usize = 32;

fn recv(cx: &Exec, args: Recv) -> Result<Value, Error> {
    let mut written = Map::new();
    for (source, data) in &args.files {
        let Some(place) = place_of(&source.to_text(), &args.dest) else {
            return Ok("Destination unavailable".into());
        };
        let text;
        let data = match data {
            Value::Bytes(bytes) => bytes,
            Value::Str(text) => text.as_bytes(),
            other => {
                text = other.to_text();
                text.as_bytes()
            }
        };
        let done = write_file(cx, &place, &mut &*data, None);
        if let Err(error) = &done {
            log::error(format_args!("cp.recv: {error}"));
        }
        written.insert(place, done.is_ok());
    }
    Ok(written.into())
}

/// Returns the path that a file of `salt-cp` is written to, or `None` if there is no folder for it.
fn place_of(source: &str, dest: &str) -> Option<String> {
    let name = path::basename(source);
    if path::isdir(dest) {
        return Some(path::join(dest, name));
    }
    let may_be_written = name == path::basename(dest) || path::isdir(path::dirname(dest));
    may_be_written.then(|| dest.to_owned())
}

fn recv_chunked(cx: &Exec, args: RecvChunked) -> Result<Value, Error> {
    let done = match args.chunk {
        Value::Null => folder(cx, &args.dest),
        ref chunk => piece(cx, &args, chunk),
    };
    match done {
        Ok(done) => Ok(done),
        Err(Failure::Sentence(sentence)) => {
            cx.set_retcode(1);
            Ok(sentence.into())
        }
        Err(Failure::Wrong(error)) => Err(error),
    }
}

/// The reason why a piece was not written.
enum Failure {
    /// The system refuses. The function returns the sentence.
    Sentence(String),
    /// The arguments are wrong.
    Wrong(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Wrong(error)
    }
}

/// Returns a function for `map_err` that makes Python's sentence about a path.
fn about(path: &str) -> impl FnOnce(io::Error) -> Failure {
    let path = path.to_owned();
    move |error| Failure::Sentence(python_errno(&error, &path))
}

fn folder(cx: &Exec, dest: &str) -> Result<Value, Failure> {
    check_path(dest)?;
    if path::isfile(dest) {
        return Ok("Path exists and is a file".into());
    }
    fs::mkdirs(cx, Path::new(dest)).map_err(about(dest))?;
    Ok(true.into())
}

fn check_path(dest: &str) -> Result<(), Failure> {
    if Path::new(dest).is_absolute() {
        return Ok(());
    }
    let sentence = format!("The destination {dest:?} is not an absolute path");
    Err(Failure::Sentence(sentence))
}

/// Receives a piece of a file.
fn piece(cx: &Exec, args: &RecvChunked, chunk: &Value) -> Result<Value, Failure> {
    let dest = args.dest.as_str();
    check_path(dest)?;
    if path::isdir(dest) || dest.ends_with('/') {
        return Err(about(dest)(Errno::ISDIR.into()));
    }
    let data = contents(chunk, args.compressed)?;
    let mode = mode(args.mode)?;
    let Some(transfer) = &args.transfer else {
        if !args.append {
            above(cx, dest)?;
            return written(write_file(cx, dest, &mut &*data, mode), dest);
        }
        check_kind(dest).map_err(refusal)?;
        let old = fs::read_or_none(dest)?.unwrap_or_default();
        let mut all = old.chain(&*data);
        return written(write_file(cx, dest, &mut all, None), dest);
    };
    let transfer = Transfer::read(transfer)?;
    if transfer.offset == 0 {
        check_kind(dest).map_err(refusal)?;
        above(cx, dest)?;
    }
    let done = transfer.receive(cx, dest, &data, mode);
    if transfer.last || done.is_err() {
        transfer.forget(cx);
    }
    done
}

/// Makes the sentence of a refusal the return.
fn refusal(error: Error) -> Failure {
    Failure::Sentence(error.to_string())
}

fn contents(chunk: &Value, compressed: bool) -> Result<Vec<u8>, Failure> {
    let text = match chunk {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => other.to_text(),
    };
    let wrong = |problem| Failure::Wrong(Error::argument("chunk", problem));
    let data = base64::decode(&text).map_err(wrong)?;
    match compressed {
        true => gzip::decompress(&data, PIECE_MAX).map_err(wrong),
        false => Ok(data),
    }
}

fn mode(given: Option<i64>) -> Result<Option<u32>, Failure> {
    let known = |mode: &u32| *mode <= 0o7777;
    given
        .map(|mode| {
            let number = u32::try_from(mode).ok().filter(known);
            number.ok_or_else(|| {
                let problem = format!("{mode} is not a mode between 0 and 4095");
                Failure::Wrong(Error::argument("mode", problem))
            })
        })
        .transpose()
}

/// Creates the folder of a path.
fn above(cx: &Exec, dest: &str) -> Result<(), Failure> {
    let folder = path::dirname(dest);
    let mut above = Path::new(folder).ancestors();
    // A file in place of a folder is an error of the whole path, as for the kernel.
    if above
        .find(|above| above.exists())
        .is_some_and(|above| !above.is_dir())
    {
        return Err(about(dest)(Errno::NOTDIR.into()));
    }
    fs::mkdirs(cx, Path::new(folder)).map_err(about(folder))
}

/// Replaces a file. The old one keeps its owner, and its mode if no mode is given.
fn write_file(
    cx: &Exec,
    dest: &str,
    contents: &mut dyn Read,
    mode: Option<u32>,
) -> Result<(), Error> {
    if path::isdir(dest) {
        return Err(Error::io(dest)(Errno::ISDIR.into()));
    }
    check_kind(dest)?;
    let owner = fs::Owner {
        mode,
        ..fs::Owner::default()
    };
    fs::write_from(cx, Path::new(dest), contents, owner)
}

/// Refuses a target that is a device, a pipe or a socket: a file would take its place.
fn check_kind(dest: &str) -> Result<(), Error> {
    match path::exists(dest) && !path::isfile(dest) {
        true => Err(Error::refused(format!(
            "The destination {dest} is not a regular file"
        ))),
        false => Ok(()),
    }
}

/// Returns True for a written file, or the sentence of the failure.
fn written(done: Result<(), Error>, dest: &str) -> Result<Value, Failure> {
    match done {
        Ok(()) => Ok(true.into()),
        Err(error) => Err(Failure::Sentence(match error.problem() {
            Problem::Io { source, .. } | Problem::Read { source, .. } => python_errno(source, dest),
            _ => error.to_string(),
        })),
    }
}

/// The place of a piece in its file. The pieces are in a file below `cachedir` until the last one
/// has arrived.
struct Transfer {
    id: String,
    offset: u64,
    last: bool,
}

impl Transfer {
    fn read(given: &Map) -> Result<Self, Failure> {
        let id = given.get("id").and_then(Value::as_str).unwrap_or_default();
        let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let offset = given.get("offset").and_then(Value::as_int);
        let offset = offset.and_then(|offset| u64::try_from(offset).ok());
        let last = given.get("last").and_then(Value::as_bool);
        match (is_id, offset, last) {
            (true, Some(offset), Some(last)) => Ok(Self {
                id: id.to_owned(),
                offset,
                last,
            }),
            _ => {
                let problem =
                    format!("it needs an id of {ID_LENGTH} hexadecimal digits, an offset and last");
                Err(Failure::Wrong(Error::argument("transfer", problem)))
            }
        }
    }

    fn path(&self, cx: &Exec) -> PathBuf {
        pieces(cx).join(&self.id)
    }

    /// Adds the piece to those that have arrived, and writes the target after the last one.
    fn receive(
        &self,
        cx: &Exec,
        dest: &str,
        data: &[u8],
        mode: Option<u32>,
    ) -> Result<Value, Failure> {
        if self.last && self.offset == 0 {
            return written(write_file(cx, dest, &mut &*data, mode), dest);
        }
        let stage = self.path(cx);
        let shown = stage.to_string_lossy();
        self.add(cx, data).map_err(about(&shown))?;
        if !self.last {
            return Ok(true.into());
        }
        let mut all = fs::open(&stage)?;
        written(write_file(cx, dest, &mut all, mode), dest)
    }

    fn add(&self, cx: &Exec, data: &[u8]) -> io::Result<()> {
        let folder = pieces(cx);
        fs::mkdirs_private(cx, &folder)?;
        let folder = Folder::open_itself(&folder, Links::Trusted)?;
        let name = self.id.as_ref();
        let mut file = match self.offset {
            0 => {
                remove_abandoned(&folder)?;
                folder.create(name, 0o600)?
            }
            _ => folder.file(name, OFlags::WRONLY | OFlags::APPEND, 0)?,
        };
        let size = file.metadata()?.len();
        if size != self.offset {
            return Err(io::Error::other(format!(
                "The piece at {} does not follow the {size} bytes that have arrived: repeat salt-cp",
                self.offset
            )));
        }
        file.write_all(data)
    }

    /// Removes the pieces.
    fn forget(&self, cx: &Exec) {
        let folder = Folder::open_itself(&pieces(cx), Links::Trusted);
        let removed = folder.and_then(|folder| folder.unlink(self.id.as_ref()));
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => value::remove::or_log(self.path(cx), removed),
        }
    }
}

/// Returns the folder of the pieces.
fn pieces(cx: &Exec) -> PathBuf {
    cx.opts().cachedir().join("salt-cp")
}

/// Removes the pieces of files that will not be completed.
fn remove_abandoned(folder: &Folder) -> io::Result<()> {
    let now = SystemTime::now();
    for name in folder.names()? {
        let age = |changed| now.duration_since(changed).unwrap_or_default();
        let entry = folder.entry(&name);
        let changed = entry.and_then(|entry| entry.found().modified());
        // Another job may have removed it meanwhile.
        if changed.is_ok_and(|changed| age(changed) > ABANDONED) {
            value::remove::or_log(folder.path().join(&name), folder.unlink(&name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
