//! Adds hosts that were given by hand to the file of the roster `flat` (`--update-roster`).

use std::path::Path;

use machine::fs::{self, Owner};
use state::exec::Exec;
use value::json::{self, Layout};
use value::{Map, jid, trust};

use super::{Host, Secret};

/// Adds hosts to a roster file, which is created if it is missing. A password makes the file
/// readable by its owner alone.
///
/// # Errors
/// When another user can change the file, or it cannot be read or written.
pub(super) fn add(cx: &Exec, file: &Path, hosts: &[Host]) -> Result<(), String> {
    trust::path(file, trust::user()).map_err(|error| error.sentence())?;
    let known = fs::text_or_none(file).map_err(|error| error.to_string())?;
    let is_new = known.is_none();
    let mut text = known.unwrap_or_default();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for host in hosts {
        text += &entry(host);
    }
    let is_private = is_new || hosts.iter().any(|host| host.passwd.is_some());
    let owner = Owner {
        mode: is_private.then_some(0o600),
        ..Owner::default()
    };
    fs::write(cx, file, text.as_bytes(), owner).map_err(|error| error.to_string())
}

fn entry(host: &Host) -> String {
    let passwd = host.passwd.as_ref().map(Secret::reveal);
    let entry = Map::new()
        .with("host", host.host.as_str())
        .with("user", host.user.clone())
        .with("passwd", passwd.map(str::to_owned));
    let given = entry.into_iter().filter(|(_, value)| !value.is_null());
    let pairs = given.map(|(key, value)| {
        let value = json::write(&value, Layout::default());
        // The file is a template: a brace in a text would begin an expression.
        let value = value.replace('{', "\\u007b").replace('}', "\\u007d");
        format!("{}: {value}", key.to_text())
    });
    let pairs = pairs.collect::<Vec<_>>().join(", ");
    format!(
        "# Added by salt-ssh --update-roster at {}\n{}: {{{pairs}}}\n",
        jid::stamp(),
        host.id
    )
}
