//! The `blockdev` state module.

use std::path::Path;

use machine::process::{Process, which};
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Manage the settings of block devices and the file systems on them.
    #[facts(free_arguments = true)]
    mod blockdev;

    /// Make sure that a device has the given settings: `read-ahead`, `filesystem-read-ahead`,
    /// `read-only: True`, `read-write: True`.
    ///
    ///     /dev/vdb:
    ///       blockdev.tuned:
    ///         - read-ahead: 1024
    fn tuned(Tuned {
        /// The device.
        name: String,
        ..kwargs
    });

    /// Make sure that a device contains a file system of the given type.
    ///
    ///     /dev/vdb1:
    ///       blockdev.formatted:
    ///         - fs_type: ext4
    fn formatted(Formatted {
        /// The device.
        name: String,
        /// The type of the file system.
        fs_type: String = "ext4".into(),
        /// True to format even a device that is not a block device or that contains another file
        /// system.
        force: bool = false,
        ..kwargs
    });
}

/// The settings, each with the option of `blockdev` that reads it.
const SETTINGS: [(&str, &str); 4] = [
    ("read-ahead", "getra"),
    ("filesystem-read-ahead", "getfra"),
    ("read-only", "getro"),
    ("read-write", "getro"),
];

fn tuned(cx: &Exec, args: Tuned) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let is_device = cx.call_internal("file.is_blkdev", vec![name.into()], Map::new())?;
    if !is_device.is_true() {
        return Ok(Ret::failed(format!(
            "Changes to {name} cannot be applied. Not a block device."
        )));
    }
    let would = Ret::would(format!("Changes to {name} will be applied "));
    cx.apply(would, || {
        let current = cx.call_internal("disk.dump", vec![name.into()], Map::new())?;
        let now = cx.call_internal("disk.tune", vec![name.into()], args.kwargs.clone())?;
        if !now.is_true() {
            return Ok(Ret::failed(format!("Failed to modify block device {name}")));
        }
        let changes = SETTINGS.iter().filter_map(|(key, question)| {
            let change = changed(
                key,
                args.kwargs.get(key)?,
                current.get(question)?,
                now.get(question)?,
            );
            Some((*key, change?))
        });
        let changes: Map = changes
            .map(|(key, change)| (Value::from(key), Value::from(change)))
            .collect();
        Ok(match changes.is_empty() {
            true => Ret::ok(format!("Block device {name} already in correct state")),
            false => {
                Ret::ok(format!("Block device {name} successfully modified ")).changes(changes)
            }
        })
    })
}

/// Returns the new value of a setting for the list of changes, or `None` if it has not changed.
fn changed(key: &str, given: &Value, old: &Value, new: &Value) -> Option<String> {
    if old == new {
        return None;
    }
    let told = |value: &Value| match given {
        Value::Bool(_) => {
            let on = (value.to_text() == "1") != (key == "read-write");
            Value::Bool(on).to_text()
        }
        _ => value.to_text(),
    };
    Some(format!("Changed from {} to {}", told(old), told(new)))
}

/// The exit code of `blkid` for a device on which it recognizes nothing.
const NOTHING_FOUND: i64 = 2;

/// Returns the type of the file system on a device, or an empty text if there is none.
fn found(cx: &Exec, name: &str) -> Result<String, Error> {
    let words = ["blkid", "-o", "value", "-s", "TYPE", "--", name];
    let output = Process::words(words).quiet().run(cx)?;
    match output.retcode {
        Some(NOTHING_FOUND) => Ok(String::new()),
        _ => output.stdout_of_success("blkid"),
    }
}

fn formatted(cx: &Exec, args: Formatted) -> Result<Ret, Error> {
    let (name, kind) = (args.name.as_str(), args.fs_type.as_str());
    if !Path::new(name).exists() {
        return Ok(Ret::failed(format!("{name} does not exist")));
    }
    if found(cx, name)? == kind {
        return Ok(Ret::ok(format!("{name} already formatted with {kind}")));
    }
    if kind.contains('/') || which(&format!("mkfs.{kind}")).is_none() {
        return Ok(Ret::failed(format!("Invalid fs_type: {kind}")));
    }
    let would = Ret::would(format!("Changes to {name} will be applied "));
    cx.apply(would, || {
        let kwargs = args.kwargs.clone().with("force", args.force);
        cx.call_internal("disk.format", vec![name.into(), kind.into()], kwargs)?;
        Ok(match found(cx, name)? == kind {
            true => Ret::ok(format!("{name} has been formatted with {kind}"))
                .change("new", kind)
                .change("old", kind),
            false => Ret::failed(format!("Failed to format {name}")),
        })
    })
}
