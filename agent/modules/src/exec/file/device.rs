//! Device nodes and named pipes.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use machine::fs;
use python::path;
use rustix::fs::FileType;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::makedirs;
use super::perms::{self, Wanted, mode_bits};
use super::stat::normalized;

state::exec_module! {
    /// Create and inspect device nodes and named pipes.
    mod file;

    /// Create a device node or a named pipe, and its missing parent folders.
    ///
    ///     salt-call file.mknod /dev/console2 c 5 1
    fn mknod(MknodArgs {
        /// The path of the node.
        name: String,
        /// The type: `c` (character device), `b` (block device) or `p` (named pipe).
        ntype: String,
        /// The major number of the device.
        major: i64 = 0,
        /// The minor number of the device.
        minor: i64 = 0,
        /// The user that owns the node.
        user: Value = Value::Null,
        /// The group that owns the node.
        group: Value = Value::Null,
        /// The mode of the node.
        mode: Value = "0600".into(),
    });

    /// Create a character device.
    ///
    ///     salt-call file.mknod_chrdev /dev/console2 5 1
    fn mknod_chrdev(MknodChrdev {
        /// The path of the node.
        name: String,
        /// The major number of the device.
        major: i64,
        /// The minor number of the device.
        minor: i64,
        /// The user that owns the node.
        user: Value = Value::Null,
        /// The group that owns the node.
        group: Value = Value::Null,
        /// The mode of the node.
        mode: Value = "0660".into(),
    });

    /// Create a block device.
    ///
    ///     salt-call file.mknod_blkdev /dev/disk2 8 32
    fn mknod_blkdev(MknodBlkdev {
        /// The path of the node.
        name: String,
        /// The major number of the device.
        major: i64,
        /// The minor number of the device.
        minor: i64,
        /// The user that owns the node.
        user: Value = Value::Null,
        /// The group that owns the node.
        group: Value = Value::Null,
        /// The mode of the node.
        mode: Value = "0660".into(),
    });

    /// Create a named pipe.
    ///
    ///     salt-call file.mknod_fifo /run/app.fifo
    fn mknod_fifo(MknodFifo {
        /// The path of the node.
        name: String,
        /// The user that owns the node.
        user: Value = Value::Null,
        /// The group that owns the node.
        group: Value = Value::Null,
        /// The mode of the node.
        mode: Value = "0660".into(),
    });

    /// Return whether a path is a character device.
    ///
    ///     salt-call file.is_chrdev /dev/null
    fn is_chrdev(IsChrdev {
        /// The path of the node.
        name: String,
    });

    /// Return whether a path is a block device.
    ///
    ///     salt-call file.is_blkdev /dev/vda
    fn is_blkdev(IsBlkdev {
        /// The path of the node.
        name: String,
    });

    /// Return whether a path is a named pipe.
    ///
    ///     salt-call file.is_fifo /run/app.fifo
    fn is_fifo(IsFifo {
        /// The path of the node.
        name: String,
    });

    /// Return the major and minor numbers of a device.
    ///
    ///     salt-call file.get_devmm /dev/null
    fn get_devmm(GetDevmm {
        /// The path of the node.
        name: String,
    });
}

/// The arguments of [`make`].
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The path.
    pub(crate) name: String,
    /// The type: `c`, `b` or `p`.
    pub(crate) ntype: String,
    /// The major and minor numbers.
    pub(crate) device: (i64, i64),
    /// The user that owns the node.
    pub(crate) user: Value,
    /// The group that owns the node.
    pub(crate) group: Value,
    /// The mode.
    pub(crate) mode: Value,
}

fn kind(ntype: &str) -> Option<(FileType, &'static str)> {
    match ntype {
        "c" => Some((FileType::CharacterDevice, "Character device")),
        "b" => Some((FileType::BlockDevice, "Block device")),
        "p" => Some((FileType::Fifo, "Fifo pipe")),
        _ => None,
    }
}

/// Creates a node and its missing parent folders.
///
/// # Errors
/// When the type is unknown, or the kernel refuses.
pub(crate) fn make(cx: &Exec, node: &Node) -> Result<Ret, Error> {
    let name = path::expanduser(&node.name);
    let Some((file_type, word)) = kind(&node.ntype) else {
        return Err(format!(
            "Node type unavailable: '{}'. Available node types are character ('c'), block ('b'), and pipe ('p').",
            node.ntype
        )
        .into());
    };
    let text = format!("{word} {name} created.");
    if cx.test {
        return Ok(Ret::would("").change("new", text));
    }
    makedirs::above(cx, &name, &node.user, &node.group, None)?;
    let number = |number: i64| u32::try_from(number).unwrap_or_default();
    let device = (number(node.device.0), number(node.device.1));
    let mode = mode_bits(&node.mode.to_text()).unwrap_or(0o600);
    let ret = match fs::mknod(cx, Path::new(&name), file_type, mode, device) {
        Ok(()) => Ret::ok("").change("new", text),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Ret::failed(format!("File {name} exists and cannot be overwritten"))
        }
        Err(error) => return Err(Error::io(&name)(error)),
    };
    let wanted = Wanted::new(&node.user, &node.group, normalized(&node.mode));
    perms::check(cx, &name, &mut Ret::ok(""), &wanted, None)?;
    Ok(ret)
}

fn return_value(name: &str, ret: Ret) -> Value {
    Map::new()
        .with("name", path::expanduser(name))
        .with("changes", ret.changes)
        .with("comment", ret.comment)
        .with("result", ret.result)
        .into()
}

fn made(cx: &Exec, node: Node) -> Result<Value, Error> {
    Ok(return_value(&node.name, make(cx, &node)?))
}

fn mknod(cx: &Exec, args: MknodArgs) -> Result<Value, Error> {
    let node = Node {
        name: args.name,
        ntype: args.ntype,
        device: (args.major, args.minor),
        user: args.user,
        group: args.group,
        mode: args.mode,
    };
    made(cx, node)
}

fn mknod_chrdev(cx: &Exec, args: MknodChrdev) -> Result<Value, Error> {
    let node = Node {
        name: args.name,
        ntype: "c".into(),
        device: (args.major, args.minor),
        user: args.user,
        group: args.group,
        mode: args.mode,
    };
    made(cx, node)
}

fn mknod_blkdev(cx: &Exec, args: MknodBlkdev) -> Result<Value, Error> {
    let node = Node {
        name: args.name,
        ntype: "b".into(),
        device: (args.major, args.minor),
        user: args.user,
        group: args.group,
        mode: args.mode,
    };
    made(cx, node)
}

fn mknod_fifo(cx: &Exec, args: MknodFifo) -> Result<Value, Error> {
    let node = Node {
        name: args.name,
        ntype: "p".into(),
        device: (0, 0),
        user: args.user,
        group: args.group,
        mode: args.mode,
    };
    made(cx, node)
}

/// Returns true if a path is a node of this type.
pub(crate) fn is(name: &str, ntype: &str) -> bool {
    let Ok(found) = Path::new(&path::expanduser(name)).metadata() else {
        return false;
    };
    match ntype {
        "c" => found.file_type().is_char_device(),
        "b" => found.file_type().is_block_device(),
        _ => found.file_type().is_fifo(),
    }
}

/// Returns the major and minor numbers of a device. Returns zeros if the path is not a device.
pub(crate) fn numbers(name: &str) -> (i64, i64) {
    let found = Path::new(&path::expanduser(name)).metadata();
    match found {
        Ok(found) if is(name, "c") || is(name, "b") => (
            rustix::fs::major(found.rdev()).into(),
            rustix::fs::minor(found.rdev()).into(),
        ),
        _ => (0, 0),
    }
}

fn is_chrdev(_cx: &Exec, args: IsChrdev) -> Result<Value, Error> {
    Ok(is(&args.name, "c").into())
}

fn is_blkdev(_cx: &Exec, args: IsBlkdev) -> Result<Value, Error> {
    Ok(is(&args.name, "b").into())
}

fn is_fifo(_cx: &Exec, args: IsFifo) -> Result<Value, Error> {
    Ok(is(&args.name, "p").into())
}

fn get_devmm(_cx: &Exec, args: GetDevmm) -> Result<Value, Error> {
    let (major, minor) = numbers(&args.name);
    Ok(vec![major, minor].into())
}
