//! The `sysfs` execution module: reads and writes attributes below `/sys`.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use machine::fs;
use python::{path, text};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

state::exec_module! {
    /// Read and write the attributes of devices below `/sys`.
    mod sysfs;

    /// Return the value of an attribute, or the path if it is a folder. If a value is given, write
    /// it. Return False if the attribute does not exist.
    ///
    ///     salt-call sysfs.attr block/vda/queue/scheduler
    fn attr(Attr {
        /// The path of the attribute relative to `/sys`.
        key: String,
        /// The value to write.
        value: Option<Value> = None,
    });

    /// Write an attribute. Return True, or False if the kernel rejects the value.
    ///
    ///     salt-call sysfs.write block/vda/queue/scheduler none
    fn write(WriteAttr {
        /// The path of the attribute relative to `/sys`.
        key: String,
        /// The value to write.
        value: Value,
    });

    /// Return the value of an attribute, or all values below a folder. Return False if nothing can
    /// be read.
    ///
    ///     salt-call sysfs.read block/vda/size
    fn read(ReadAttr {
        /// The path relative to `/sys`, or a list of paths.
        key: Value,
        /// The folder that contains the paths of a list.
        root: String = "".to_owned(),
    });

    /// Return the real path of a path below `/sys`, or False if it does not exist.
    ///
    ///     salt-call sysfs.target class/net/eth0
    fn target(Target {
        /// The path relative to `/sys`.
        key: String,
        /// True to return the full path, False to return only its last component.
        full: bool = true,
    });

    /// Return the attributes below a folder, grouped by whether they can be read, written, or both.
    ///
    ///     salt-call sysfs.interfaces class/net
    fn interfaces(Interfaces {
        /// The path of the folder relative to `/sys`.
        root: String,
    });
}

fn attr(cx: &Exec, args: Attr) -> Result<Value, Error> {
    let Some(path) = real(&args.key) else {
        return Ok(false.into());
    };
    if path::isdir(&path) {
        return Ok(path.into());
    }
    Ok(match args.value {
        Some(value) => written(cx, &path, &value).into(),
        None => read_file(&path),
    })
}

fn write(cx: &Exec, args: WriteAttr) -> Result<Value, Error> {
    let path = real(&args.key);
    Ok(path
        .is_some_and(|path| written(cx, &path, &args.value))
        .into())
}

fn read(_cx: &Exec, args: ReadAttr) -> Result<Value, Error> {
    let path = |key: &str| path::join(&args.root, key);
    if let Some(key) = args.key.as_str() {
        return Ok(read_below(&path(key)));
    }
    let keys = args.key.as_list().unwrap_or_default().iter();
    let pairs = keys.map(|key| (key.clone(), read_below(&path(&key.to_text()))));
    let found: Map = pairs.filter(|(_, value)| !is_false(value)).collect();
    Ok(found.into())
}

fn target(_cx: &Exec, args: Target) -> Result<Value, Error> {
    Ok(match real(&args.key) {
        None => false.into(),
        Some(path) if args.full => path.into(),
        Some(path) => path::basename(&path).into(),
    })
}

fn interfaces(_cx: &Exec, args: Interfaces) -> Result<Value, Error> {
    let Some(root) = real(&args.root).filter(|root| path::isdir(root)) else {
        let shown = real(&args.root).unwrap_or_else(|| "False".to_owned());
        log::error(format_args!("SysFS {shown} not a dir"));
        return Ok(false.into());
    };
    let found = Attributes::below(&root);
    Ok(Map::new()
        .with("r", found.reads)
        .with("w", found.writes)
        .with("rw", found.both)
        .into())
}

fn is_false(value: &Value) -> bool {
    *value == Value::Bool(false)
}

/// Returns the real path of a path below `/sys`, or `None` if it does not exist.
fn real(key: &str) -> Option<String> {
    let path = match key.starts_with("/sys") {
        true => key.to_owned(),
        false => path::join("/sys", key),
    };
    let path = path::realpath(&path);
    if path::exists(&path) {
        return Some(path);
    }
    log::debug(format_args!("Unknown SysFS key {path}"));
    None
}

fn written(cx: &Exec, path: &str, value: &Value) -> bool {
    let file = fs::open_in_place(cx, Path::new(path));
    let line = format!("{}\n", value.to_text());
    // The kernel expects the whole value in one write.
    file.is_ok_and(|mut file| file.write_all(line.as_bytes()).is_ok())
}

fn read_below(key: &str) -> Value {
    let Some(root) = real(key) else {
        return false.into();
    };
    if !path::isdir(&root) {
        return read_file(&root);
    }
    let Attributes {
        mut reads, both, ..
    } = Attributes::below(&root);
    reads.extend(both);
    let mut found = Map::new();
    for path in reads {
        let value = read_file(&path::join(&root, &path));
        if !is_false(&value) {
            let names: Vec<&str> = path.split('/').collect();
            place(&mut found, &names, value);
        }
    }
    found.into()
}

/// Stores a value in nested dictionaries, one level for each folder of the path.
fn place(map: &mut Map, names: &[&str], value: Value) {
    match names {
        [] => {}
        [name] => {
            map.insert(*name, value);
        }
        [folder, rest @ ..] => {
            let inner = map.entry(*folder, || Map::new().into());
            if let Value::Map(inner) = inner {
                place(inner, rest, value);
            }
        }
    }
}

/// Returns the value of an attribute, as a number if possible. Returns False if it is empty or
/// cannot be read.
fn read_file(path: &str) -> Value {
    // Some attributes are pipes, on which a blocking read may never return.
    let wait_not = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(wait_not)
        .open(path);
    let mut bytes = Vec::new();
    if !file.is_ok_and(|mut file| file.read_to_end(&mut bytes).is_ok()) {
        return false.into();
    }
    match text::decoded(&bytes).trim() {
        "" => false.into(),
        text => number(text),
    }
}

fn number(text: &str) -> Value {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => number.into(),
        _ => text.into(),
    }
}

/// The paths of the attributes below a folder, relative to it.
#[derive(Default)]
struct Attributes {
    reads: Vec<String>,
    writes: Vec<String>,
    both: Vec<String>,
}

impl Attributes {
    /// Collects the attributes below a folder. Attributes that the kernel removes meanwhile are
    /// skipped.
    fn below(root: &str) -> Self {
        let mut found = Self::default();
        for folder in fs::walk_readable(root) {
            for name in &folder.files {
                let path = path::join(&folder.root, name);
                if path::isfile(&path) {
                    found.add(&path, path::relpath(&path, root));
                }
            }
        }
        found
    }

    fn add(&mut self, path: &str, shown: String) {
        let mode = std::fs::metadata(path).map_or(0, |found| found.permissions().mode());
        match (mode & 0o400 != 0, mode & 0o200 != 0) {
            (true, true) => self.both.push(shown),
            (true, false) => self.reads.push(shown),
            (false, true) => self.writes.push(shown),
            (false, false) => log::warning(format_args!("Unable to find any interfaces in {path}")),
        }
    }
}
