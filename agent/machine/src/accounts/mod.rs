//! The users and groups of this machine: from `/etc/passwd` and `/etc/group`, and from `getent`
//! where NSS has other sources.

pub mod crypt;
pub mod files;
pub mod tools;
pub mod users;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::SystemTime;

use state::module::Error;
use value::log;

use crate::fs;
use crate::process;

/// One line of `/etc/passwd`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: String,
    /// The password field, mostly `x`.
    pub passwd: String,
    /// The user's number.
    pub uid: u32,
    /// The number of the primary group.
    pub gid: u32,
    /// Full name, room and telephones, separated by commas.
    pub gecos: String,
    /// The home directory.
    pub home: String,
    /// The login shell.
    pub shell: String,
}

/// One line of `/etc/group`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The group's name.
    pub name: String,
    /// The password field, mostly `x`.
    pub passwd: String,
    /// The group's number.
    pub gid: u32,
    /// The users for whom it is a supplementary group.
    pub members: Vec<String>,
}

/// Returns every user, in the order of the file. Users from other sources follow.
#[must_use]
pub fn users() -> Vec<User> {
    USERS.all()
}

/// Returns every group, in the order of the file. Groups from other sources follow.
#[must_use]
pub fn groups() -> Vec<Group> {
    GROUPS.all()
}

/// Checks that the files of users and groups can be read. Otherwise a caller could decide about an
/// account as if there were none.
///
/// # Errors
/// When one of the files exists and cannot be read.
pub fn check() -> Result<(), Error> {
    USERS.load()?;
    GROUPS.load().map(drop)
}

/// Returns every user of the file below another root.
#[must_use]
pub fn users_below(root: &Path) -> Vec<User> {
    below(root, "passwd", User::parse)
}

/// Returns every group of the file below another root.
#[must_use]
pub fn groups_below(root: &Path) -> Vec<Group> {
    below(root, "group", Group::parse)
}

fn below<T>(root: &Path, name: &str, parse: fn(&str) -> Option<T>) -> Vec<T> {
    let bytes = fs::read_or_none(root.join("etc").join(name)).unwrap_or_else(|error| {
        log::error(error);
        None
    });
    let bytes = bytes.unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().filter_map(parse).collect()
}

/// Returns a user by name.
#[must_use]
pub fn user(name: &str) -> Option<User> {
    USERS.one(name, |user| user.name == name)
}

/// Returns a user by number.
#[must_use]
pub fn user_of(uid: u32) -> Option<User> {
    USERS.one(&uid.to_string(), |user| user.uid == uid)
}

/// Returns a group by name.
#[must_use]
pub fn group(name: &str) -> Option<Group> {
    GROUPS.one(name, |group| group.name == name)
}

/// Returns a group by number.
#[must_use]
pub fn group_of(gid: u32) -> Option<Group> {
    GROUPS.one(&gid.to_string(), |group| group.gid == gid)
}

/// Returns the groups that a user is in, including the primary one.
#[must_use]
pub fn groups_of(user: &User) -> Vec<Group> {
    let belongs = |group: &Group| group.gid == user.gid || group.members.contains(&user.name);
    let mut seen = BTreeSet::new();
    groups()
        .into_iter()
        .filter(|group| belongs(group) && seen.insert(group.gid))
        .collect()
}

impl User {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':').map(str::to_owned);
        Some(Self {
            name: fields.next().filter(|name| !name.is_empty())?,
            passwd: fields.next()?,
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
            gecos: fields.next()?,
            home: fields.next()?,
            shell: fields.next().unwrap_or_default(),
        })
    }
}

impl Group {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(':').map(str::to_owned);
        Some(Self {
            name: fields.next().filter(|name| !name.is_empty())?,
            passwd: fields.next()?,
            gid: fields.next()?.parse().ok()?,
            members: fields
                .next()?
                .split(',')
                .filter(|member| !member.is_empty())
                .map(str::to_owned)
                .collect(),
        })
    }
}

/// A cached file of `/etc`, because a run asks for the same few names thousands of times.
struct Database<T> {
    name: &'static str,
    parse: fn(&str) -> Option<T>,
    read: Mutex<Option<(Stamp, Arc<Vec<T>>)>>,
}

/// The identity of one version of a file: modification time, inode and size. Programs replace these
/// files, so the inode differs even when two versions have the same time.
type Stamp = Option<(SystemTime, u64, u64)>;

fn stamp(path: &Path) -> Stamp {
    let found = path.metadata().ok()?;
    Some((found.modified().ok()?, found.ino(), found.len()))
}

static USERS: Database<User> = Database::new("passwd", User::parse);
static GROUPS: Database<Group> = Database::new("group", Group::parse);

impl<T: Clone> Database<T> {
    const fn new(name: &'static str, parse: fn(&str) -> Option<T>) -> Self {
        let read = Mutex::new(None);
        Self { name, parse, read }
    }

    fn parsed(&self, text: &str) -> Vec<T> {
        text.lines().filter_map(self.parse).collect()
    }

    /// Returns the entries of the file. If it cannot be read, the error is logged and there are no
    /// entries.
    fn file(&self) -> Arc<Vec<T>> {
        self.load().unwrap_or_else(|error| {
            log::error(error);
            Arc::default()
        })
    }

    /// Returns the entries of the file, which is read again after a change.
    fn load(&self) -> Result<Arc<Vec<T>>, Error> {
        let path = Path::new("/etc").join(self.name);
        let changed = stamp(&path);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        match &*read {
            Some((then, entries)) if *then == changed => Ok(entries.clone()),
            _ => {
                let bytes = fs::read_or_none(&path)?.unwrap_or_default();
                let entries = Arc::new(self.parsed(&String::from_utf8_lossy(&bytes)));
                *read = Some((changed, entries.clone()));
                Ok(entries)
            }
        }
    }

    fn all(&self) -> Vec<T> {
        let listed = elsewhere(self.name).then(|| getent(&[self.name]));
        match listed.flatten() {
            Some(text) => self.parsed(&text),
            None => self.file().to_vec(),
        }
    }

    fn one(&self, key: &str, wanted: impl Fn(&T) -> bool) -> Option<T> {
        if let Some(found) = self.file().iter().find(|entry| wanted(entry)) {
            return Some(found.clone());
        }
        let text = elsewhere(self.name).then(|| getent(&[self.name, key]))??;
        self.parsed(&text).into_iter().find(|entry| wanted(entry))
    }
}

/// Returns true when `nsswitch.conf` names more sources than the files.
fn elsewhere(database: &str) -> bool {
    let conf = fs::text_or_none("/etc/nsswitch.conf").unwrap_or_else(|error| {
        log::error(error);
        None
    });
    let conf = conf.unwrap_or_default();
    conf.lines()
        .filter_map(|line| line.split('#').next()?.split_once(':'))
        .filter(|(name, _)| name.trim() == database)
        .flat_map(|(_, sources)| sources.split_whitespace())
        .any(|source| !source.starts_with('[') && !["files", "compat"].contains(&source))
}

static TOLD: Once = Once::new();

#[expect(
    clippy::disallowed_methods,
    reason = "`process` itself asks for users and groups before it starts a child"
)]
fn getent(args: &[&str]) -> Option<String> {
    let out = Command::new("getent")
        .args(args)
        .stdin(process::nowhere())
        .stderr(process::nowhere())
        .output()
        .inspect_err(|error| {
            // Log this once, because a run asks for the same few names thousands of times.
            TOLD.call_once(|| {
                log::warning(format_args!(
                    "cannot run getent: {error}; ignoring all sources of users and groups in /etc/nsswitch.conf except files"
                ));
            });
        })
        .ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    out.status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_accounts_are_passed_over() {
        let user = User::parse("www-data:x:33:34:web,,,:/var/www:/usr/sbin/nologin").unwrap();
        assert_eq!(
            (user.uid, user.gid, user.home.as_str()),
            (33, 34, "/var/www")
        );
        assert_eq!(User::parse("+::::::"), None);
        assert_eq!(User::parse("# a comment"), None);
        let group = Group::parse("adm:x:4:syslog,me").unwrap();
        assert_eq!(group.members, ["syslog", "me"]);
        assert!(Group::parse("empty:x:5:").unwrap().members.is_empty());
    }

    #[test]
    fn root_is_found_by_name_and_number() {
        assert_eq!(user("root").unwrap().uid, 0);
        assert_eq!(user_of(0).unwrap().name, "root");
        assert!(groups_of(&user("root").unwrap()).iter().any(|g| g.gid == 0));
        assert_eq!(user("no-such-user"), None);
    }
}
