//! Device nodes and pipes.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use python::path;
use rustix::fs::FileType;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::makedirs;
use super::perms::{self, Wanted, mode_bits};
use super::stat::normalized;
use crate::fs;

state::exec_module! {
    /// Make and look at device nodes and pipes.
    mod file;

    /// Make a device node or a pipe, and the folders above it.
    fn mknod(MknodArgs {
        /// The path.
        name: String,
        /// `c`, `b` or `p`.
        ntype: String,
        /// The major number.
        major: i64 = 0,
        /// The minor number.
        minor: i64 = 0,
        /// The user that owns it.
        user: Value = Value::Null,
        /// The group that owns it.
        group: Value = Value::Null,
        /// The mode.
        mode: Value = "0600".into(),
    });

    /// Make a character device.
    fn mknod_chrdev(MknodChrdev {
        /// The path.
        name: String,
        /// The major number.
        major: i64,
        /// The minor number.
        minor: i64,
        /// The user that owns it.
        user: Value = Value::Null,
        /// The group that owns it.
        group: Value = Value::Null,
        /// The mode.
        mode: Value = "0660".into(),
    });

    /// Make a block device.
    fn mknod_blkdev(MknodBlkdev {
        /// The path.
        name: String,
        /// The major number.
        major: i64,
        /// The minor number.
        minor: i64,
        /// The user that owns it.
        user: Value = Value::Null,
        /// The group that owns it.
        group: Value = Value::Null,
        /// The mode.
        mode: Value = "0660".into(),
    });

    /// Make a pipe.
    fn mknod_fifo(MknodFifo {
        /// The path.
        name: String,
        /// The user that owns it.
        user: Value = Value::Null,
        /// The group that owns it.
        group: Value = Value::Null,
        /// The mode.
        mode: Value = "0660".into(),
    });

    /// Test whether a path is a character device.
    fn is_chrdev(IsChrdev {
        /// The path.
        name: String,
    });

    /// Test whether a path is a block device.
    fn is_blkdev(IsBlkdev {
        /// The path.
        name: String,
    });

    /// Test whether a path is a pipe.
    fn is_fifo(IsFifo {
        /// The path.
        name: String,
    });

    /// Return the major and minor number of a device.
    fn get_devmm(GetDevmm {
        /// The path.
        name: String,
    });
}

/// What [`make`] makes.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The path.
    pub(crate) name: String,
    /// `c`, `b` or `p`.
    pub(crate) ntype: String,
    /// The major and the minor number.
    pub(crate) device: (i64, i64),
    /// The user that owns it.
    pub(crate) user: Value,
    /// The group that owns it.
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

/// Makes a node, with the folders above it.
///
/// # Errors
/// When the kind is unknown or the system refuses.
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

fn shown(name: &str, ret: Ret) -> Value {
    Map::new()
        .with("name", path::expanduser(name))
        .with("changes", ret.changes)
        .with("comment", ret.comment)
        .with("result", ret.result)
        .into()
}

fn made(cx: &Exec, node: Node) -> Result<Value, Error> {
    Ok(shown(&node.name, make(cx, &node)?))
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

/// True when a path is a node of a kind.
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

/// The major and the minor number of a device; zeros where it is none.
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
