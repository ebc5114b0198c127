//! `file.stats` and related functions: read the properties of files.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use machine::accounts::users;
use machine::fs;
use machine::hashes;
use python::path;
use rustix::fs::{Mode, OFlags};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Read the properties of files.
    mod file;

    /// Return a dictionary of the properties of a file.
    ///
    ///     salt-call file.stats /etc/hosts
    fn stats(StatsArgs {
        /// The path of the file.
        path: String,
        /// The type of hash. If given, the result includes the hash of the file as `sum`.
        hash_type: Option<String> = None,
        /// True to follow a symbolic link and describe its target.
        follow_symlinks: bool = true,
    });

    /// Return the fields of lstat(2), or an empty dictionary if the file does not exist.
    ///
    ///     salt-call file.lstat /etc/hosts
    fn lstat(LstatArgs {
        /// The path of the file.
        path: String,
    });

    /// Return the properties of the file system that contains a path (statvfs(2)).
    ///
    ///     salt-call file.statvfs /srv
    fn statvfs(StatvfsArgs {
        /// The path.
        path: String,
    });

    /// Return the mode of a file.
    ///
    ///     salt-call file.get_mode /etc/hosts
    fn get_mode(GetMode {
        /// The path of the file.
        path: String,
        /// True to follow a symbolic link and describe its target.
        follow_symlinks: bool = true,
    });

    /// Return the name of the user that owns a file.
    ///
    ///     salt-call file.get_user /etc/hosts
    fn get_user(GetUser {
        /// The path of the file.
        path: String,
        /// True to follow a symbolic link and describe its target.
        follow_symlinks: bool = true,
    });

    /// Return the numeric id of the user that owns a file.
    ///
    ///     salt-call file.get_uid /etc/hosts
    fn get_uid(GetUid {
        /// The path of the file.
        path: String,
        /// True to follow a symbolic link and describe its target.
        follow_symlinks: bool = true,
    });

    /// Return the name of the group that owns a file.
    ///
    ///     salt-call file.get_group /etc/hosts
    fn get_group(GetGroup {
        /// The path of the file.
        path: String,
        /// True to follow a symbolic link and describe its target.
        follow_symlinks: bool = true,
    });

    /// Return the numeric id of the group that owns a file.
    ///
    ///     salt-call file.get_gid /etc/hosts
    fn get_gid(GetGid {
        /// The path of the file.
        path: String,
        /// True to follow a symbolic link and describe its target.
        follow_symlinks: bool = true,
    });

    /// Return the name of a user.
    ///
    ///     salt-call file.uid_to_user 0
    fn uid_to_user(UidToUser {
        /// The numeric id of the user.
        uid: Value,
    });

    /// Return the numeric id of a user.
    ///
    ///     salt-call file.user_to_uid root
    fn user_to_uid(UserToUid {
        /// The name of the user.
        user: Value,
    });

    /// Return the name of a group.
    ///
    ///     salt-call file.gid_to_group 0
    fn gid_to_group(GidToGroup {
        /// The numeric id of the group.
        gid: Value,
    });

    /// Return the numeric id of a group.
    ///
    ///     salt-call file.group_to_gid root
    fn group_to_gid(GroupToGid {
        /// The name of the group.
        group: Value,
    });

    /// Return whether this program may access a path.
    ///
    ///     salt-call file.access /etc/hosts r
    fn access(Access {
        /// The path.
        path: String,
        /// The kind of access: `f` (exists), `r` (read), `w` (write) or `x` (execute).
        mode: Value,
    });

    /// Return the total size in bytes of the files below a folder. A file with several hard links
    /// counts once.
    ///
    ///     salt-call file.diskusage /srv
    fn diskusage(Diskusage {
        /// The path of the folder or file.
        path: String,
    });
}

/// The properties of a file.
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    /// The number of the inode.
    pub(crate) inode: u64,
    /// The numeric id of the owner.
    pub(crate) uid: u32,
    /// The numeric id of the group.
    pub(crate) gid: u32,
    /// The mode in Salt's format, such as `0644`.
    pub(crate) mode: String,
    /// The type: `file`, `dir`, `link`, `char`, `block`, `pipe` or `socket`.
    pub(crate) kind: &'static str,
    /// The size in bytes.
    pub(crate) size: u64,
    /// The times of the last access, the last change of the contents and the last change of the
    /// inode, in seconds since 1970.
    pub(crate) times: [f64; 3],
}

impl Stats {
    fn from_metadata(found: &Metadata) -> Self {
        let time = |seconds: i64, nanoseconds: i64| seconds as f64 + nanoseconds as f64 * 1e-9;
        Self {
            inode: found.ino(),
            uid: found.uid(),
            gid: found.gid(),
            mode: octal(found.mode() & 0o7777),
            kind: kind(found.file_type()),
            size: found.len(),
            times: [
                time(found.atime(), found.atime_nsec()),
                time(found.mtime(), found.mtime_nsec()),
                time(found.ctime(), found.ctime_nsec()),
            ],
        }
    }

    /// Returns the name of the owner, or the numeric id if it has no name.
    pub(crate) fn user(&self) -> Value {
        users::of_uid(self.uid)
    }

    /// Returns the name of the group, or the numeric id if it has no name.
    pub(crate) fn group(&self) -> Value {
        users::of_gid(self.gid)
    }

    /// Returns true if the owner differs from the wanted one, which is a name or a number. Returns
    /// false if no owner is wanted.
    pub(crate) fn user_differs(&self, wanted: &Value) -> bool {
        wanted.is_true() && users::uid(wanted) != Some(self.uid)
    }

    /// Returns true if the group differs from the wanted one, which is a name or a number. Returns
    /// false if no group is wanted.
    pub(crate) fn group_differs(&self, wanted: &Value) -> bool {
        wanted.is_true() && users::gid(wanted) != Some(self.gid)
    }
}

/// Reads the properties of a file. If `follow` is set and a symbolic link is dangling, describes
/// the link itself, as Salt does.
pub(crate) fn read(path: &str, follow: bool) -> Result<Stats, Error> {
    let path = path::expanduser(path);
    let file = Path::new(&path);
    let found = if follow { file.metadata().ok() } else { None };
    let found = found
        .or_else(|| file.symlink_metadata().ok())
        .ok_or_else(|| Error::refused(format!("Path not found: {path}")))?;
    Ok(Stats::from_metadata(&found))
}

/// The properties of a file and its handle. A symbolic link is not followed.
#[derive(Clone, Debug)]
pub(crate) struct Looked {
    /// The properties of the file.
    pub(crate) stats: Stats,
    /// The open file, if it is a regular file that this user may read.
    pub(crate) file: Option<Arc<File>>,
}

/// Examines a file by opening it. The caller usually reads the file next, so its path is resolved
/// only once for both.
pub(crate) fn look(path: &str) -> Option<Looked> {
    let beside = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match open(path, beside) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(_) => {
            let stats = read(path, false).ok()?;
            return Some(Looked { stats, file: None });
        }
    };
    let stats = Stats::from_metadata(&file.metadata().ok()?);
    let file = (stats.kind == "file").then(|| Arc::new(file));
    Some(Looked { stats, file })
}

/// Opens a file for reading in one system call. The standard library needs two if the C library is
/// musl.
pub(super) fn open(path: &str, beside: OFlags) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | beside;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

fn kind(kind: std::fs::FileType) -> &'static str {
    if kind.is_dir() {
        "dir"
    } else if kind.is_char_device() {
        "char"
    } else if kind.is_block_device() {
        "block"
    } else if kind.is_symlink() {
        "link"
    } else if kind.is_fifo() {
        "pipe"
    } else if kind.is_socket() {
        "socket"
    } else {
        "file"
    }
}

/// Returns a mode in Salt's format, with at least four digits: `0644`.
pub(crate) fn octal(mode: u32) -> String {
    format!("{mode:04o}")
}

/// Returns a mode with four digits, like Salt's `normalize_mode`. `None` for null.
pub(crate) fn normalized(mode: &Value) -> Option<String> {
    if mode.is_null() {
        return None;
    }
    let mut text = mode.as_text();
    if text.contains("0o") {
        text = text.replace("0o", "0").into();
    }
    let digits = text.trim_matches('"').trim_matches('\'');
    let digits = digits.trim_start_matches('0');
    let zeros = 4usize.saturating_sub(digits.chars().count());
    Some("0".repeat(zeros) + digits)
}

fn stats(_cx: &Exec, args: StatsArgs) -> Result<Value, Error> {
    let found = read(&args.path, args.follow_symlinks)?;
    let path = path::expanduser(&args.path);
    let [atime, mtime, ctime] = found.times;
    let mut out = Map::new()
        .with("inode", found.inode)
        .with("uid", found.uid)
        .with("gid", found.gid)
        .with("group", found.group())
        .with("user", found.user())
        .with("atime", atime)
        .with("mtime", mtime)
        .with("ctime", ctime)
        .with("size", found.size)
        .with("mode", found.mode);
    if let Some(kind) = &args.hash_type {
        out.insert("sum", hashes::of_file(&path, kind)?);
    }
    out.insert("type", found.kind);
    let target = if args.follow_symlinks {
        path::realpath(&path)
    } else {
        path::abspath(&path)
    };
    Ok(out.with("target", target).into())
}

fn lstat(_cx: &Exec, args: LstatArgs) -> Result<Value, Error> {
    let path = absolute(&args.path, "Path to file must be absolute.")?;
    let Ok(found) = Path::new(&path).symlink_metadata() else {
        return Ok(Map::new().into());
    };
    let [atime, mtime, ctime] = read(&path, false)?.times;
    Ok(Map::new()
        .with("st_atime", atime)
        .with("st_ctime", ctime)
        .with("st_gid", found.gid())
        .with("st_mode", found.mode())
        .with("st_mtime", mtime)
        .with("st_nlink", found.nlink())
        .with("st_size", found.len())
        .with("st_uid", found.uid())
        .into())
}

/// Expands the `~` in a path. Returns the error `problem` if the path is not absolute.
pub(crate) fn absolute(path: &str, problem: &str) -> Result<String, Error> {
    let path = path::expanduser(path);
    if path::isabs(&path) {
        Ok(path)
    } else {
        Err(problem.into())
    }
}

fn statvfs(_cx: &Exec, args: StatvfsArgs) -> Result<Value, Error> {
    let path = absolute(&args.path, "File path must be absolute.")?;
    let found = rustix::fs::statvfs(&*path)
        .map_err(|_| Error::refused(format!("Could not statvfs '{path}'")))?;
    Ok(Map::new()
        .with("f_bavail", found.f_bavail)
        .with("f_bfree", found.f_bfree)
        .with("f_blocks", found.f_blocks)
        .with("f_bsize", found.f_bsize)
        .with("f_favail", found.f_favail)
        .with("f_ffree", found.f_ffree)
        .with("f_files", found.f_files)
        .with("f_flag", found.f_flag.bits())
        .with("f_frsize", found.f_frsize)
        .with("f_namemax", found.f_namemax)
        .into())
}

fn get_mode(_cx: &Exec, args: GetMode) -> Result<Value, Error> {
    Ok(read(&args.path, args.follow_symlinks)?.mode.into())
}

fn get_user(_cx: &Exec, args: GetUser) -> Result<Value, Error> {
    Ok(read(&args.path, args.follow_symlinks)?.user())
}

fn get_uid(_cx: &Exec, args: GetUid) -> Result<Value, Error> {
    Ok(read(&args.path, args.follow_symlinks)?.uid.into())
}

fn get_group(_cx: &Exec, args: GetGroup) -> Result<Value, Error> {
    Ok(read(&args.path, args.follow_symlinks)?.group())
}

fn get_gid(_cx: &Exec, args: GetGid) -> Result<Value, Error> {
    Ok(read(&args.path, args.follow_symlinks)?.gid.into())
}

fn uid_to_user(_cx: &Exec, args: UidToUser) -> Result<Value, Error> {
    let uid = args.uid.as_int().and_then(|uid| u32::try_from(uid).ok());
    Ok(uid.map_or(args.uid, users::of_uid))
}

fn user_to_uid(_cx: &Exec, args: UserToUid) -> Result<Value, Error> {
    let user = if args.user.is_null() {
        users::current()
    } else {
        args.user
    };
    Ok(users::uid(&user).map_or_else(|| "".into(), Value::from))
}

fn gid_to_group(_cx: &Exec, args: GidToGroup) -> Result<Value, Error> {
    let number = match args.gid.as_str() {
        Some(text) => text.parse().ok().or_else(|| users::gid(&args.gid)),
        None => users::gid(&args.gid),
    };
    Ok(number.map_or_else(|| "".into(), users::of_gid))
}

fn group_to_gid(_cx: &Exec, args: GroupToGid) -> Result<Value, Error> {
    Ok(users::gid(&args.group).map_or_else(|| "".into(), Value::from))
}

fn access(_cx: &Exec, args: Access) -> Result<Value, Error> {
    use rustix::fs::Access as May;
    let path = absolute(&args.path, "Path to link must be absolute.")?;
    let wanted = match (args.mode.as_str(), args.mode.as_int()) {
        (Some("f"), _) | (_, Some(0)) => May::EXISTS,
        (Some("r"), _) | (_, Some(4)) => May::READ_OK,
        (Some("w"), _) | (_, Some(2)) => May::WRITE_OK,
        (Some("x"), _) | (_, Some(1)) => May::EXEC_OK,
        _ => return Err("Invalid mode specified.".into()),
    };
    Ok(rustix::fs::access(&*path, wanted).is_ok().into())
}

fn diskusage(_cx: &Exec, args: Diskusage) -> Result<Value, Error> {
    if let Ok(found) = Path::new(&args.path).metadata()
        && found.is_file()
    {
        return Ok(found.len().into());
    }
    let mut seen = std::collections::HashSet::new();
    let mut total = 0;
    for folder in fs::walk(&args.path, None)? {
        for name in &folder.files {
            if let Ok(found) = Path::new(&path::join(&folder.root, name)).metadata()
                && seen.insert(found.ino())
            {
                total += found.len();
            }
        }
    }
    Ok(total.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_written_with_four_digits() {
        let written = |mode: Value| normalized(&mode).unwrap_or_default();
        assert_eq!(written(Value::Int(644)), "0644");
        assert_eq!(written("0o755".into()), "0755");
        assert_eq!(written("04755".into()), "4755");
        assert_eq!(written("'0600'".into()), "0600");
        assert_eq!(normalized(&Value::Null), None);
    }
}
