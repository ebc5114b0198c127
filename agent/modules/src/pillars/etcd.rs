//! The external pillar `etcd`: all keys below a folder, `PROFILE [root=FOLDER]`.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::etcd::Etcd;

/// Returns the keys below the root. A root that does not exist has none.
///
/// # Errors
/// When the arguments are wrong, or etcd does not answer.
pub(super) fn load(cx: &Exec, val: &Value, _pillar: &Map) -> Result<Map, Error> {
    let words = val
        .as_str()
        .ok_or("it must be a text: PROFILE root=/PATH")?;
    let mut words = words.split_whitespace();
    let profile = words.next().ok_or("it has no profile")?;
    let mut root = "/";
    for word in words {
        root = word.strip_prefix("root=").ok_or_else(|| {
            Error::refused(format!("it has the word {word}; expected root=/PATH"))
        })?;
    }
    let root = root.replace("%(minion_id)s", cx.opts().id());
    if root.contains("%(") {
        return Err(Error::refused(format!(
            "root={root}: only %(minion_id)s can be used"
        )));
    }
    Etcd::from_profile(cx, Some(profile), &Map::new())?.below(cx, &root)
}
