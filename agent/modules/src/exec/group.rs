//! The `group` execution module: the functions that read.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::accounts::{self, Group};

state::exec_module! {
    /// Groups of this machine.
    mod group;

    /// Return what is known of a group; nothing when there is none of that name.
    fn info(Info {
        /// Its name.
        name: String,
    });

    /// Return what is known of all groups.
    fn getent(Getent {
        /// Accepted: nothing is kept between calls.
        refresh: bool = false,
    });
}

fn of(group: &Group) -> Map {
    Map::new()
        .with("name", group.name.as_str())
        .with("passwd", group.passwd.as_str())
        .with("gid", group.gid)
        .with("members", group.members.clone())
}

fn info(_cx: &Exec, args: Info) -> Result<Value, Error> {
    Ok(accounts::group(&args.name)
        .as_ref()
        .map(of)
        .unwrap_or_default()
        .into())
}

fn getent(_cx: &Exec, _args: Getent) -> Result<Value, Error> {
    Ok(Value::list(
        accounts::groups().iter().map(|group| of(group).into()),
    ))
}
