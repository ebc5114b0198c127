//! Creating and removing accounts on a machine without programs for it: edits the lines of
//! `/etc/passwd` and its sister files.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::log;

use crate::accounts;
use crate::accounts::tools::{self as tools, is_of, path};
use crate::fs;

/// A user to be created.
#[derive(Clone, Debug)]
pub struct New<'a> {
    /// The login name.
    pub name: &'a str,
    /// The uid; `None` picks a free one.
    pub uid: Option<&'a str>,
    /// The primary group; `None` uses a group with the user's name.
    pub group: Option<&'a str>,
    /// The home directory; `None` means `/home/NAME`.
    pub home: Option<&'a str>,
    /// The login shell; `None` or an empty text means `/bin/sh`.
    pub shell: Option<&'a str>,
    /// True for a system account.
    pub system: bool,
    /// True to create the home directory.
    pub createhome: bool,
}

/// Returns the requested number, or a free one of the range (100-999 for system accounts, else
/// 1000-59999). Returns `None` if the number is invalid or taken.
fn number(given: Option<&str>, system: bool, taken: &[u32]) -> Option<u32> {
    let (first, last) = if system { (100, 999) } else { (1000, 59_999) };
    let number = match given {
        Some(text) => text.parse().ok(),
        None => (first..=last).find(|number| !taken.contains(number)),
    };
    number.filter(|number| !taken.contains(number))
}

fn refused(what: &str, name: &str) -> Result<bool, Error> {
    log::error(format_args!(
        "cannot create {what} {name}: the name or id is taken, or the id is invalid"
    ));
    Ok(false)
}

fn append(cx: &Exec, file: &str, line: &[&str]) -> Result<(), Error> {
    tools::edit(cx, &path(None, file), &mut |lines| {
        lines.push(line.iter().map(|&field| field.to_owned()).collect());
    })
}

fn remove(cx: &Exec, file: &str, name: &str) -> Result<(), Error> {
    tools::edit(cx, &path(None, file), &mut |lines| {
        lines.retain(|line| !is_of(line, name));
    })
}

/// Creates a group. Returns false when the name or number is not usable.
pub fn add_group(cx: &Exec, name: &str, gid: Option<&str>, system: bool) -> Result<bool, Error> {
    tools::check_name(name)?;
    let groups = accounts::groups();
    let taken: Vec<u32> = groups.iter().map(|group| group.gid).collect();
    let gid = number(gid, system, &taken).filter(|_| groups.iter().all(|group| group.name != name));
    let Some(gid) = gid else {
        return refused("group", name);
    };
    append(cx, "group", &[name, "x", &gid.to_string(), ""])?;
    append(cx, "gshadow", &[name, "!", "", ""])?;
    Ok(true)
}

/// Creates a user. Returns false when the name or a value is not usable.
pub fn add_user(cx: &Exec, new: &New<'_>) -> Result<bool, Error> {
    let name = new.name;
    tools::check_name(name)?;
    let users = accounts::users();
    let taken: Vec<u32> = users.iter().map(|user| user.uid).collect();
    let Some(uid) = number(new.uid, new.system, &taken) else {
        return refused("user", name);
    };
    let usual = format!("/home/{name}");
    let home = new.home.unwrap_or(&usual);
    let shell = new
        .shell
        .filter(|shell| !shell.is_empty())
        .unwrap_or("/bin/sh");
    if home.contains([':', '\n']) || shell.contains([':', '\n']) {
        return refused("user", name);
    }
    let group = new.group.unwrap_or(name);
    if accounts::group(group).is_none() && !add_group(cx, group, None, new.system)? {
        return Ok(false);
    }
    let gid = accounts::group(group).map_or(uid, |group| group.gid);
    let today = tools::today();
    append(
        cx,
        "shadow",
        &[name, "!", &today, "0", "99999", "7", "", "", ""],
    )?;
    let (uid_text, gid_text) = (uid.to_string(), gid.to_string());
    append(
        cx,
        "passwd",
        &[name, "x", &uid_text, &gid_text, "", home, shell],
    )?;
    if new.createhome && !Path::new(home).exists() {
        make_home(cx, Path::new(home), uid, gid)?;
    }
    Ok(true)
}

fn make_home(cx: &Exec, home: &Path, uid: u32, gid: u32) -> Result<(), Error> {
    if let Some(above) = home.parent().filter(|above| !above.exists()) {
        fs::mkdir(cx, above).map_err(Error::io(above))?;
    }
    fs::mkdir(cx, home).map_err(Error::io(home))?;
    fs::chmod(cx, home, 0o755, false).map_err(Error::io(home))?;
    fs::chown(cx, home, Some(uid), Some(gid), false).map_err(Error::io(home))
}

/// Removes a user, and the group of the same name if it has no other members. With `purge`, also
/// removes the home directory.
pub fn remove_user(cx: &Exec, name: &str, purge: bool) -> Result<bool, Error> {
    let Some(user) = accounts::user(name) else {
        return Ok(false);
    };
    for file in ["passwd", "shadow"] {
        remove(cx, file, name)?;
    }
    tools::edit_members(cx, None, &|_, members| {
        members.retain(|member| member != name);
    })?;
    let own =
        accounts::group(name).filter(|group| group.gid == user.gid && group.members.is_empty());
    if own.is_some() {
        remove_group(cx, name)?;
    }
    let home = Path::new(&user.home);
    let is_own = home.metadata().is_ok_and(|found| {
        use std::os::unix::fs::MetadataExt as _;
        found.is_dir() && found.uid() == user.uid
    });
    if purge && is_own && home != Path::new("/") {
        fs::remove(cx, home).map_err(Error::io(home))?;
    }
    Ok(true)
}

/// Removes a group. Returns false when it is the primary group of a user.
pub fn remove_group(cx: &Exec, name: &str) -> Result<bool, Error> {
    let group = accounts::group(name);
    let users = accounts::users();
    let is_free = |gid: u32| users.iter().all(|user| user.gid != gid);
    if !group.is_some_and(|group| is_free(group.gid)) {
        log::error(format_args!(
            "cannot delete group {name}: it does not exist or is the primary group of a user"
        ));
        return Ok(false);
    }
    for file in ["group", "gshadow"] {
        remove(cx, file, name)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_number_is_the_one_asked_for_or_free() {
        assert_eq!(number(Some("5"), false, &[]), Some(5));
        assert_eq!(number(Some("5"), false, &[5]), None);
        assert_eq!(number(Some("five"), false, &[]), None);
        assert_eq!(number(None, false, &[1000, 1002]), Some(1001));
        assert_eq!(number(None, true, &[]), Some(100));
    }
}
