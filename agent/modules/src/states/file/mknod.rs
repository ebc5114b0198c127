//! `file.mknod`.

use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::Value;

use super::gate;
use crate::exec::file::device::{self, Node};
use crate::exec::file::perms::{self, Wanted};
use crate::exec::file::stat::normalized;

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Files(&["name"]))]
    mod file;

    /// Create a device node or a pipe if it does not exist.
    ///
    ///     /dev/console2:
    ///       file.mknod:
    ///         - ntype: c
    ///         - major: 5
    ///         - minor: 1
    ///         - mode: '0600'
    fn mknod(Mknod {
        /// The path.
        name: String,
        /// The type: `c`, `b` or `p`.
        ntype: String,
        /// The major number.
        major: i64 = 0,
        /// The minor number.
        minor: i64 = 0,
        /// The user that owns the node.
        user: Value = Value::Null,
        /// The group that owns the node.
        group: Value = Value::Null,
        /// The mode of the node.
        mode: Value = "0600".into(),
    });
}

fn mknod(cx: &Exec, args: Mknod) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.mknod".into());
    }
    let (word, article) = match args.ntype.as_str() {
        "c" => ("Character device", "a character device"),
        "b" => ("Block device", "a block device"),
        "p" => ("Fifo pipe", "a fifo pipe"),
        other => {
            return Err(format!(
                "Node type unavailable: '{other}'. Available node types are character ('c'), block ('b'), and pipe ('p')"
            )
            .into());
        }
    };
    if path::isfile(&name) {
        return Err(
            format!("File {name} exists and is not {article}. Refusing to continue").into(),
        );
    }
    let node = Node {
        name: name.clone(),
        ntype: args.ntype,
        device: (args.major, args.minor),
        user: args.user,
        group: args.group,
        mode: args.mode,
    };
    let mut ret = if device::is(&name, &node.ntype) {
        there(cx, &node, word)?
    } else {
        let would = Ret::would(format!("{word} {name} is set to be created"));
        gate(cx, || Ok(would), || device::make(cx, &node))?
    };
    ret.name = Some(name);
    Ok(ret)
}

/// Checks that an existing node is the right device, and sets its owner and mode.
fn there(cx: &Exec, node: &Node, word: &str) -> Result<Ret, Error> {
    let name = &node.name;
    let (major, minor) = device::numbers(name);
    if node.ntype != "p" && (major, minor) != node.device {
        return Err(format!(
            "{word} {name} exists and has a different major/minor {major}/{minor}. Refusing to continue"
        )
        .into());
    }
    let set = || {
        let mut ret = Ret::ok("");
        let wanted = Wanted::new(&node.user, &node.group, normalized(&node.mode));
        perms::check(cx, name, &mut ret, &wanted, None)?;
        if !ret.changes.is_true() {
            ret.comment = format!("{word} {name} is in the correct state");
        }
        Ok(ret)
    };
    gate(cx, set, set)
}
