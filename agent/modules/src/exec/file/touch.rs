//! Reads and writes files in place: `file.touch`, `file.truncate`, `file.seek_read`,
//! `file.seek_write` and `file.read`.

use std::fs::FileTimes;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use machine::fs;
use python::path;
use state::exec::Exec;
use state::module::Error;
use value::Value;

state::exec_module! {
    /// Read files and change them in place.
    mod file;

    /// Create an empty file if it does not exist, and set its times.
    ///
    ///     salt-call file.touch /var/lib/app/ready
    fn touch(Touch {
        /// The path of the file.
        name: String,
        /// The time of the last access, in seconds since 1970. The default is now.
        atime: Value = Value::Null,
        /// The time of the last change, in seconds since 1970. The default is now.
        mtime: Value = Value::Null,
    });

    /// Set the length of a file: cut it off, or fill it up with zeros.
    ///
    ///     salt-call file.truncate /var/log/app.log 0
    fn truncate(Truncate {
        /// The path of the file.
        path: String,
        /// The length in bytes.
        length: i64,
    });

    /// Return a part of a file.
    ///
    ///     salt-call file.seek_read /etc/hosts 64 0
    fn seek_read(SeekRead {
        /// The path of the file.
        path: String,
        /// The maximum number of bytes to read.
        size: i64,
        /// The offset of the part in the file, in bytes.
        offset: i64,
    });

    /// Overwrite a part of a file.
    ///
    ///     salt-call file.seek_write /srv/state.bin abc 0
    fn seek_write(SeekWrite {
        /// The path of the file.
        path: String,
        /// The data to write.
        data: Value,
        /// The offset of the part in the file, in bytes.
        offset: i64,
    });

    /// Return the contents of a file.
    ///
    ///     salt-call file.read /etc/hosts
    fn read(ReadArgs {
        /// The path of the file.
        path: String,
        /// True to return bytes instead of text.
        binary: bool = false,
    });
}

/// Parses a time, which is a number or a text of digits.
fn time(value: &Value) -> Result<SystemTime, Error> {
    let wrong = || Error::refused("atime and mtime must be integers".into());
    let seconds = match value.as_str() {
        Some(text) if text.chars().all(|c| c.is_ascii_digit()) => {
            text.parse().map_err(|_| wrong())?
        }
        Some(_) => return Err(wrong()),
        None => value.as_float().ok_or_else(wrong)?,
    };
    Duration::try_from_secs_f64(seconds)
        .map(|since| SystemTime::UNIX_EPOCH + since)
        .map_err(|_| wrong())
}

/// Sets the times of a file. Creates the file if it does not exist. A time that is null is set to
/// now.
///
/// # Errors
/// When a time is invalid, or the kernel refuses.
pub(crate) fn set(cx: &Exec, name: &str, atime: &Value, mtime: &Value) -> Result<(), Error> {
    let at = |value: &Value| {
        if value.is_null() {
            Ok(SystemTime::now())
        } else {
            time(value)
        }
    };
    let times = FileTimes::new()
        .set_accessed(at(atime)?)
        .set_modified(at(mtime)?);
    fs::touch(cx, Path::new(name), times).map_err(|error| {
        let text = error.to_string();
        Error::refused(
            text.split(" (os error")
                .next()
                .unwrap_or_default()
                .to_owned(),
        )
    })
}

fn touch(cx: &Exec, args: Touch) -> Result<Value, Error> {
    let name = path::expanduser(&args.name);
    set(cx, &name, &args.atime, &args.mtime)?;
    Ok(path::exists(&name).into())
}

fn unsigned(number: i64, name: &'static str) -> Result<u64, Error> {
    u64::try_from(number)
        .map_err(|_| Error::argument(name, format!("expected 0 or more, got {number}")))
}

fn truncate(cx: &Exec, args: Truncate) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    let length = unsigned(args.length, "length")?;
    fs::open_in_place(cx, Path::new(&path))
        .and_then(|file| file.set_len(length))
        .map_err(Error::io(&path))?;
    Ok(Value::Null)
}

/// Returns bytes as text if they are UTF-8, else as bytes.
fn text_or_bytes(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(binary) => Value::Bytes(binary.into_bytes().into()),
    }
}

fn seek_read(_cx: &Exec, args: SeekRead) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    let (size, offset) = (
        unsigned(args.size, "size")?,
        unsigned(args.offset, "offset")?,
    );
    let mut data = Vec::new();
    let mut file = fs::open(&path)?;
    file.seek(SeekFrom::Start(offset))
        .and_then(|_| file.take(size).read_to_end(&mut data))
        .map_err(Error::io(&path))?;
    Ok(text_or_bytes(data))
}

fn seek_write(cx: &Exec, args: SeekWrite) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    let offset = unsigned(args.offset, "offset")?;
    let data = match &args.data {
        Value::Bytes(bytes) => bytes.to_vec(),
        other => other.to_text().into_bytes(),
    };
    fs::open_in_place(cx, Path::new(&path))
        .and_then(|mut file| {
            file.seek(SeekFrom::Start(offset))?;
            file.write_all(&data)?;
            file.sync_all()
        })
        .map_err(Error::io(&path))?;
    Ok(data.len().into())
}

fn read(_cx: &Exec, args: ReadArgs) -> Result<Value, Error> {
    let data = fs::read(&args.path)?;
    if args.binary {
        return Ok(Value::Bytes(data.into()));
    }
    let text = String::from_utf8_lossy(&data).replace("\r\n", "\n");
    Ok(text.replace('\r', "\n").into())
}
