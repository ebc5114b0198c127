//! The `mount` execution module: shows, mounts and unmounts file systems.

pub(crate) mod fstab;

use std::path::Path;

use machine::accounts;
use machine::fs::{self, Owner};
use machine::process::{Process, which};
use python::path::{self, dirname, realpath};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::disk;

state::exec_module! {
    /// Manage mounted file systems and swap space.
    mod mount;

    /// Return the mounted file systems by mount point.
    ///
    ///     salt-call mount.active
    fn active(Active {
        /// Whether to return all information that the kernel has.
        extended: bool = false,
    });

    /// Mount a file system. Return True, or the error message of the program.
    ///
    ///     salt-call mount.mount /srv /dev/vdb1 fstype=ext4
    fn mount(Mount {
        /// The mount point.
        name: String,
        /// The device. The default is the entry in `/etc/fstab`.
        device: Value = false.into(),
        /// Whether to create the mount point.
        mkmnt: bool = false,
        /// The type of the file system.
        fstype: String = String::new(),
        /// The mount options: a list, or a text with commas between them.
        opts: Value = "defaults".into(),
        /// The user who owns a new mount point and runs mount.
        user: Option<String> = None,
        /// The program to use. Only `mount` is supported.
        util: String = "mount".into(),
    });

    /// Mount a file system again with other options. If it is not mounted, mount it.
    ///
    ///     salt-call mount.remount /srv /dev/vdb1 fstype=ext4
    fn remount(Remount {
        /// The mount point.
        name: String,
        /// The device.
        device: String,
        /// Whether to create the mount point.
        mkmnt: bool = false,
        /// The type of the file system.
        fstype: String = String::new(),
        /// The mount options: a list, or a text with commas between them.
        opts: Value = "defaults".into(),
        /// The user who runs mount.
        user: Option<String> = None,
    });

    /// Unmount a file system. Return True, or the error message of the program.
    ///
    ///     salt-call mount.umount /srv
    fn umount(Umount {
        /// The mount point.
        name: String,
        /// The device.
        device: Option<String> = None,
        /// The user who runs umount.
        user: Option<String> = None,
        /// The program to use. Only `mount` is supported.
        util: String = "mount".into(),
        /// Whether to detach the file system now and to clean it up when no process uses it any
        /// more.
        lazy: bool = false,
    });

    /// Return the mount point of the file system that contains a path.
    ///
    ///     salt-call mount.get_mount_from_path /srv/www
    fn get_mount_from_path(GetMountFromPath {
        /// The path.
        path: String,
    });

    /// Return the device of the file system that contains a path.
    ///
    ///     salt-call mount.get_device_from_path /srv/www
    fn get_device_from_path(GetDeviceFromPath {
        /// The path.
        path: String,
    });

    /// Return True if a file system is mounted at a path.
    ///
    ///     salt-call mount.is_mounted /srv
    fn is_mounted(IsMounted {
        /// The mount point.
        name: String,
    });

    /// Return True if a program is linked with libfuse.
    ///
    ///     salt-call mount.is_fuse_exec sshfs
    fn is_fuse_exec(IsFuseExec {
        /// The name of the program.
        cmd: String,
    });

    /// Return the active swap space.
    ///
    ///     salt-call mount.swaps
    fn swaps(Swaps {});

    /// Activate a device or a file as swap space.
    ///
    ///     salt-call mount.swapon /swapfile
    fn swapon(Swapon {
        /// The device or file.
        name: String,
        /// The priority of the swap space.
        priority: Option<i64> = None,
    });

    /// Deactivate a device or a file as swap space.
    ///
    ///     salt-call mount.swapoff /swapfile
    fn swapoff(Swapoff {
        /// The device or file.
        name: String,
    });

    /// Return the cached information about a mount.
    ///
    ///     salt-call mount.read_mount_cache /srv
    fn read_mount_cache(ReadMountCache {
        /// The mount point.
        name: String,
    });

    /// Store information about a mount in the cache.
    ///
    ///     salt-call mount.write_mount_cache /srv /dev/vdb1 True ext4 defaults
    fn write_mount_cache(WriteMountCache {
        /// The mount point.
        real_name: String,
        /// The device.
        device: Value,
        /// Whether the mount point was created.
        mkmnt: Value,
        /// The type of the file system.
        fstype: Value,
        /// The mount options.
        mount_opts: Value,
    });

    /// Remove information about a mount from the cache.
    ///
    ///     salt-call mount.delete_mount_cache /srv
    fn delete_mount_cache(DeleteMountCache {
        /// The mount point.
        real_name: String,
    });
}

/// Returns the options with user and group names replaced by their ids.
fn numbered(options: &str) -> Vec<String> {
    options
        .split(',')
        .map(|option| with_number(option).replace("\\040", "\\ "))
        .collect()
}

/// Returns an option with the id instead of the name: `uid=0` for `uid=root`.
pub(crate) fn with_number(option: &str) -> String {
    let number = match option.split_once('=') {
        Some(("uid", name)) if name.parse::<u32>().is_err() => {
            accounts::user(name).map(|user| user.uid)
        }
        Some(("gid", name)) if name.parse::<u32>().is_err() => {
            accounts::group(name).map(|group| group.gid)
        }
        _ => None,
    };
    match (number, option.split_once('=')) {
        (Some(number), Some((key, _))) => format!("{key}={number}"),
        _ => option.to_owned(),
    }
}

fn read(path: &str) -> Result<String, Error> {
    fs::text(path)
}

/// Returns the mounted file systems by mount point, from `/proc/self/mounts`.
fn mounts() -> Result<Map, Error> {
    let entry = |line: &str| {
        let mut words = line.split(' ');
        let (device, place, fstype, opts) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        let entry = Map::new()
            .with("device", device)
            .with("alt_device", device)
            .with("fstype", fstype)
            .with("opts", numbered(opts));
        Some((Value::from(place), Value::from(entry)))
    };
    Ok(read("/proc/self/mounts")?
        .lines()
        .filter_map(entry)
        .collect())
}

/// Returns the block devices that blkid lists. It runs only once in a run.
fn block_devices(cx: &Exec) -> Map {
    let known = cx.context(|context| context.get("disk.blkid").and_then(Value::as_map).cloned());
    known.unwrap_or_else(|| {
        let asked = which("blkid").and_then(|_| Process::words(["blkid"]).quiet().run(cx).ok());
        let found = asked
            .map(|done| disk::devices(done.stdout_regardless()))
            .unwrap_or_default();
        cx.context(|context| context.insert("disk.blkid", found.clone()));
        found
    })
}

/// Returns the mounted file systems by mount point, with all information that the kernel has.
pub(crate) fn extended(cx: &Exec) -> Result<Map, Error> {
    let plain = mounts()?;
    let devices = block_devices(cx);
    let text = read("/proc/self/mountinfo")?;
    Ok(text
        .lines()
        .filter_map(|line| info(line, &plain, &devices))
        .collect())
}

fn info(line: &str, plain: &Map, devices: &Map) -> Option<(Value, Value)> {
    let (first, second) = line.split_once(" - ")?;
    let mut first = first.split(' ');
    let (id, parent, numbers, root) = (first.next()?, first.next()?, first.next()?, first.next()?);
    let (place, opts) = (first.next()?, first.next()?);
    let mut second = second.split(' ');
    let (fstype, device, superopts) = (second.next()?, second.next()?, second.next()?);
    let (major, minor) = numbers.split_once(':')?;
    let known = |key: &str| {
        devices
            .get(device)
            .and_then(|info| info.get(key))
            .map(Value::to_text)
    };
    let entry = Map::new()
        .with("mountid", id)
        .with("parentid", parent)
        .with("major", major)
        .with("minor", minor)
        .with("root", root)
        .with("opts", numbered(opts))
        .with("fstype", fstype)
        .with("device", device.replace("\\040", "\\ "))
        .with(
            "alt_device",
            plain
                .get(place)
                .and_then(|entry| entry.get("device"))
                .cloned(),
        )
        .with("superopts", numbered(superopts))
        .with("device_uuid", known("UUID").map(|uuid| uuid.to_lowercase()))
        .with("device_label", known("LABEL"));
    Some((place.into(), entry.into()))
}

fn active(cx: &Exec, args: Active) -> Result<Value, Error> {
    if args.extended {
        extended(cx).map(Value::from)
    } else {
        mounts().map(Value::from)
    }
}

/// Returns the items of a list of options, or of a text with commas between them.
pub(crate) fn option_list(given: &Value) -> Vec<String> {
    match given {
        Value::Str(text) => text.split(',').map(str::to_owned).collect(),
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        _ => Vec::new(),
    }
}

fn plain(text: &str) -> Result<&str, Error> {
    if text.starts_with('-') {
        Err(format!("'{text}' starts with `-`: mount would read it as an option").into())
    } else {
        Ok(text)
    }
}

/// Runs mount or umount. The inner error is the message of the program.
fn ran(cx: &Exec, words: Vec<String>, user: Option<&str>) -> Result<Result<(), String>, Error> {
    let program = words.first().cloned().unwrap_or_default();
    if which(&program).is_none() {
        return Err(format!("The program {program} is not installed").into());
    }
    let mut process = Process::words(words);
    process.runas = user.filter(|user| !user.is_empty()).map(str::to_owned);
    let done = process.run(cx)?;
    Ok(if done.success() {
        Ok(())
    } else {
        Err(done.stderr)
    })
}

/// The parameters of a mount.
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) device: Option<&'a str>,
    pub(crate) mkmnt: bool,
    pub(crate) fstype: &'a str,
    pub(crate) opts: Vec<String>,
    pub(crate) user: Option<&'a str>,
}

impl Wanted<'_> {
    /// Mounts the file system. The inner error is the message of the program.
    pub(crate) fn mount(&self, cx: &Exec) -> Result<Result<(), String>, Error> {
        if !path::exists(self.name) && self.mkmnt {
            cx.call_internal(
                "file.mkdir",
                vec![self.name.into()],
                Map::new().with("user", self.user.map(str::to_owned)),
            )?;
        }
        let mut words = vec!["mount".to_owned()];
        if let Some(device) = self.device {
            words.extend(self.options(&self.opts));
            words.push(plain(device)?.to_owned());
        }
        words.push(plain(self.name)?.to_owned());
        ran(cx, words, self.user)
    }

    fn options(&self, opts: &[String]) -> Vec<String> {
        let mut words = Vec::new();
        if !opts.is_empty() {
            words.extend(["-o".to_owned(), opts.join(",")]);
        }
        if !self.fstype.is_empty() {
            words.extend(["-t".to_owned(), self.fstype.to_owned()]);
        }
        words
    }

    /// Mounts the file system again with other options.
    pub(crate) fn remount(&self, cx: &Exec) -> Result<Result<(), String>, Error> {
        if !mounts()?.contains(self.name) {
            return self.mount(cx);
        }
        let mut opts = self.opts.clone();
        if !opts.iter().any(|option| option == "remount") {
            opts.push("remount".to_owned());
        }
        let mut words = vec!["mount".to_owned()];
        words.extend(self.options(&opts));
        words.extend([
            plain(self.device.unwrap_or_default())?.to_owned(),
            plain(self.name)?.to_owned(),
        ]);
        ran(cx, words, self.user)
    }
}

/// Unmounts a file system. The inner error is the message of the program.
pub(crate) fn unmount(
    cx: &Exec,
    name: &str,
    device: Option<&str>,
    user: Option<&str>,
    lazy: bool,
) -> Result<Result<(), String>, Error> {
    if !mounts()?.contains(name) {
        return Ok(Err(format!("{name} does not have anything mounted")));
    }
    let mut words = vec!["umount".to_owned()];
    words.extend(lazy.then(|| "-l".to_owned()));
    words.push(plain(device.filter(|device| !device.is_empty()).unwrap_or(name))?.to_owned());
    ran(cx, words, user)
}

/// Returns True, or the error message of the program.
fn answer(done: Result<(), String>) -> Value {
    done.map_or_else(Value::from, |()| true.into())
}

fn only_mount(util: &str) -> Result<(), Error> {
    if util == "mount" {
        Ok(())
    } else {
        Err(format!("unsupported util {util}: only mount is supported").into())
    }
}

fn mount(cx: &Exec, args: Mount) -> Result<Value, Error> {
    only_mount(&args.util)?;
    let device = args.device.is_true().then(|| args.device.to_text());
    let wanted = Wanted {
        name: &args.name,
        device: device.as_deref(),
        mkmnt: args.mkmnt,
        fstype: &args.fstype,
        opts: option_list(&args.opts),
        user: args.user.as_deref(),
    };
    wanted.mount(cx).map(answer)
}

fn remount(cx: &Exec, args: Remount) -> Result<Value, Error> {
    let wanted = Wanted {
        name: &args.name,
        device: Some(&args.device),
        mkmnt: args.mkmnt,
        fstype: &args.fstype,
        opts: option_list(&args.opts),
        user: args.user.as_deref(),
    };
    wanted.remount(cx).map(answer)
}

fn umount(cx: &Exec, args: Umount) -> Result<Value, Error> {
    only_mount(&args.util)?;
    unmount(
        cx,
        &args.name,
        args.device.as_deref(),
        args.user.as_deref(),
        args.lazy,
    )
    .map(answer)
}

/// Returns the mount point of the file system that contains a path.
fn above(mounts: &Map, path: &str) -> String {
    let mut path = realpath(path);
    while path != "/" && !mounts.contains(&path) {
        path = dirname(&path).to_owned();
    }
    path
}

/// Returns the device of the file system that contains a path.
///
/// # Errors
/// When the device is not known.
pub(crate) fn device_of(path: &str) -> Result<String, Error> {
    let mounts = mounts()?;
    let entry = mounts.get(&above(&mounts, path));
    let device = entry.and_then(|entry| entry.get("device"));
    device
        .map(Value::to_text)
        .ok_or_else(|| Error::refused(format!("No mounted device found for {path}")))
}

fn get_mount_from_path(_cx: &Exec, args: GetMountFromPath) -> Result<Value, Error> {
    Ok(above(&mounts()?, &args.path).into())
}

fn get_device_from_path(_cx: &Exec, args: GetDeviceFromPath) -> Result<Value, Error> {
    Ok(device_of(&args.path)?.into())
}

fn is_mounted(_cx: &Exec, args: IsMounted) -> Result<Value, Error> {
    Ok(mounts()?.contains(&args.name).into())
}

fn is_fuse_exec(cx: &Exec, args: IsFuseExec) -> Result<Value, Error> {
    let Some(path) = which(&args.cmd) else {
        return Ok(false.into());
    };
    if which("ldd").is_none() {
        return Err("ldd".into());
    }
    let done = Process::words(["ldd".to_owned(), path]).quiet().run(cx)?;
    Ok(done.stdout_regardless().contains("libfuse").into())
}

/// Returns the active swap space.
pub(crate) fn swap_spaces() -> Map {
    let text = machine::procfs::text("/proc/swaps");
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let entry: Map = ["type", "size", "used", "priority"]
            .into_iter()
            .zip(words)
            .collect();
        Some((Value::from(name), Value::from(entry)))
    };
    text.lines()
        .filter(|line| !line.starts_with("Filename"))
        .filter_map(entry)
        .collect()
}

fn swaps(_cx: &Exec, _args: Swaps) -> Result<Value, Error> {
    Ok(swap_spaces().into())
}

/// Runs swapon.
pub(crate) fn use_swap(
    cx: &Exec,
    name: &str,
    priority: Option<i64>,
) -> Result<Result<(), String>, Error> {
    let mut words = vec!["swapon".to_owned(), plain(name)?.to_owned()];
    if let Some(priority) = priority.filter(|priority| *priority != 0) {
        words.extend(["-p".to_owned(), priority.to_string()]);
    }
    ran(cx, words, None)
}

fn swapon(cx: &Exec, args: Swapon) -> Result<Value, Error> {
    let stats = |new: bool| {
        let found = swap_spaces().remove(&args.name);
        found.map(|stats| Map::new().with("stats", stats).with("new", new))
    };
    if let Some(used) = stats(false) {
        return Ok(used.into());
    }
    if let Err(said) = use_swap(cx, &args.name, args.priority)? {
        value::log::error(&said);
    }
    Ok(stats(true).unwrap_or_default().into())
}

fn swapoff(cx: &Exec, args: Swapoff) -> Result<Value, Error> {
    if !swap_spaces().contains(&args.name) {
        return Ok(Value::Null);
    }
    if let Err(said) = ran(
        cx,
        vec!["swapoff".to_owned(), plain(&args.name)?.to_owned()],
        None,
    )? {
        value::log::error(&said);
    }
    Ok((!swap_spaces().contains(&args.name)).into())
}

/// Returns the cached information about all mounts.
fn cache(cx: &Exec) -> Result<Map, Error> {
    let text = fs::text_or_none(cx.opts().cachedir().join("mounts"))?.unwrap_or_default();
    Ok(match render::yaml::load(&text) {
        Ok(Value::Map(mut cache)) => match cache.remove("mounts") {
            Some(Value::Map(mounts)) => mounts,
            _ => Map::new(),
        },
        _ => Map::new(),
    })
}

fn keep(cx: &Exec, mounts: Map) -> Result<(), Error> {
    let text = value::json::write(
        &Map::new().with("mounts", mounts).into(),
        value::json::Layout::default(),
    );
    let folder = cx.opts().cachedir();
    fs::mkdirs_private(cx, &folder).map_err(Error::io(&folder))?;
    fs::write(
        cx,
        &folder.join("mounts"),
        text.as_bytes(),
        Owner::default(),
    )
}

/// Returns the cached options of a mount.
///
/// # Errors
/// When the cache cannot be read.
pub(crate) fn cached_options(cx: &Exec, name: &str) -> Result<Option<Vec<String>>, Error> {
    let mounts = cache(cx)?;
    let options = mounts.get(name).and_then(|entry| entry.get("opts"));
    Ok(options.map(option_list))
}

fn read_mount_cache(cx: &Exec, args: ReadMountCache) -> Result<Value, Error> {
    Ok(cache(cx)?
        .remove(&args.name)
        .unwrap_or_else(|| Map::new().into()))
}

/// Stores information about a mount in the cache.
pub(crate) fn remember(cx: &Exec, name: &str, entry: Map) -> Result<(), Error> {
    let mut mounts = cache(cx)?;
    mounts.insert(name, entry);
    keep(cx, mounts)
}

fn write_mount_cache(cx: &Exec, args: WriteMountCache) -> Result<Value, Error> {
    let entry = Map::new()
        .with("device", args.device)
        .with("fstype", args.fstype)
        .with("mkmnt", args.mkmnt)
        .with("opts", args.mount_opts);
    remember(cx, &args.real_name, entry)?;
    Ok(true.into())
}

/// Removes information about a mount from the cache.
pub(crate) fn forget(cx: &Exec, name: &str) -> Result<(), Error> {
    let mut mounts = cache(cx)?;
    match mounts.remove(name) {
        Some(_) => keep(cx, mounts),
        None => Ok(()),
    }
}

fn delete_mount_cache(cx: &Exec, args: DeleteMountCache) -> Result<Value, Error> {
    forget(cx, &args.real_name)?;
    Ok(true.into())
}

/// Returns the text of a file, or an error if it does not exist.
pub(crate) fn file_text(path: &str) -> Result<String, Error> {
    if Path::new(path).is_file() {
        read(path)
    } else {
        Err(format!("Bad config file \"{path}\"").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let line = "36 35 98:0 /mnt1 /mnt/two\\040words rw,noatime master:1 - ext3 /dev/root rw,errors=continue,uid=root";
        let devices = disk::devices("/dev/root: UUID=\"AB\"\n");
        let (place, entry) = info(line, &Map::new(), &devices).unwrap();
        assert_eq!(place, "/mnt/two\\040words".into());
        assert_eq!(entry.get("fstype"), Some(&"ext3".into()));
        assert_eq!(entry.get("device_uuid"), Some(&"ab".into()));
        assert_eq!(
            value::python::repr(entry.get("superopts").unwrap()),
            "['rw', 'errors=continue', 'uid=0']"
        );
        assert!(mounts().unwrap().contains("/proc"));
    }
}
