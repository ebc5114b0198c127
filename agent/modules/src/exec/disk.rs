//! The `disk` execution module: reads and changes file systems and block devices with the programs
//! of this machine.

use machine::process::{Output, Process, which};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Manage file systems and block devices.
    mod disk;

    /// Return the disk usage of the file systems.
    ///
    ///     salt-call disk.usage
    fn usage(Usage {
        /// The option letters for df.
        args: Option<String> = None,
    });

    /// Return the inode usage of the file systems.
    ///
    ///     salt-call disk.inodeusage
    fn inodeusage(Inodeusage {
        /// The option letters for df.
        args: Option<String> = None,
    });

    /// Return the disk usage of the file systems, in percent.
    ///
    ///     salt-call disk.percent /srv
    fn percent(Percent {
        /// The mount point to return. The default is all mount points.
        args: Option<String> = None,
    });

    /// Return the attributes of block devices.
    ///
    ///     salt-call disk.blkid
    fn blkid(Blkid {
        /// The device to query. The default is all devices.
        device: Option<String> = None,
        /// The attribute that the devices must have, such as `LABEL=x`.
        token: Option<String> = None,
    });

    /// Return the kernel's parameters of a block device.
    ///
    ///     salt-call disk.dump /dev/vdb1
    fn dump(Dump {
        /// The path of the device.
        device: String,
        /// The parameters to return. The default is all parameters.
        args: Option<Vec<String>> = None,
    });

    /// Return the type of the file system on a device.
    ///
    ///     salt-call disk.fstype /dev/vdb1
    fn fstype(Fstype {
        /// The path of the device.
        device: String,
    });

    /// Return the type of the file system that contains a path.
    ///
    ///     salt-call disk.get_fstype_from_path /srv
    fn get_fstype_from_path(GetFstypeFromPath {
        /// The path.
        path: String,
    });

    /// Create a file system.
    ///
    ///     salt-call disk.format /dev/vdb1 fs_type=ext4
    fn format(Format {
        /// The path of the device.
        device: String,
        /// The type of the file system.
        fs_type: String = "ext4".into(),
        /// The size of an inode, in bytes.
        inode_size: Value = Value::Null,
        /// True to initialize the inode tables later.
        lazy_itable_init: Value = Value::Null,
        /// The size of FAT entries in bits: 12, 16 or 32.
        fat: Option<i64> = None,
        /// True to create the file system even if the device already has one.
        force: bool = false,
    });

    /// Resize a file system to the size of its device.
    ///
    ///     salt-call disk.resize2fs /dev/vdb1
    fn resize2fs(Resize2fs {
        /// The path of the device.
        device: String,
    });

    /// Remove the signatures of file systems from a device.
    ///
    ///     salt-call disk.wipe /dev/vdb1
    fn wipe(Wipe {
        /// The path of the device.
        device: String,
    });
}

/// Returns the device. Refuses a name that a program would read as an option.
pub(crate) fn plain(device: &str) -> Result<&str, Error> {
    if device.starts_with('-') {
        Err(format!("'{device}' is not a device").into())
    } else {
        Ok(device)
    }
}

pub(crate) fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    let program = words.first().copied().unwrap_or_default();
    if which(program).is_none() {
        return Err(format!("The '{program}' binary was not found in $PATH.").into());
    }
    Process::words(words.iter().copied()).quiet().run(cx)
}

fn flags(given: Option<&str>, function: &str) -> Result<Option<String>, Error> {
    let Some(given) = given.filter(|given| !given.is_empty()) else {
        return Ok(None);
    };
    if given.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return Ok(Some(format!("-{given}")));
    }
    Err(format!("Invalid flag passed to {function}").into())
}

/// Returns the lines of df. The name of a file system may contain spaces; five columns follow.
fn df(cx: &Exec, options: &[&str]) -> Result<Vec<[String; 6]>, Error> {
    let words: Vec<&str> = ["df"].iter().chain(options).copied().collect();
    let out = run(cx, &words)?;
    Ok(out
        .stdout_regardless()
        .lines()
        .filter(|line| !line.starts_with("Filesystem"))
        .filter_map(columns)
        .collect())
}

fn columns(line: &str) -> Option<[String; 6]> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |word: &&str| *word == "-" || word.bytes().all(|byte| byte.is_ascii_digit());
    let first = words.iter().skip(1).position(number)? + 1;
    let (name, rest) = words.split_at_checked(first)?;
    let [blocks, used, free, part, mount, ..] = rest else {
        return None;
    };
    Some([&name.join(" "), *blocks, used, free, part, mount].map(str::to_owned))
}

fn usage(cx: &Exec, args: Usage) -> Result<Value, Error> {
    let flags = flags(args.args.as_deref(), "disk.usage")?;
    let options: Vec<&str> = ["-P"].into_iter().chain(flags.as_deref()).collect();
    Ok(table(
        df(cx, &options)?,
        ["1K-blocks", "used", "available", "capacity"],
        true,
    ))
}

fn inodeusage(cx: &Exec, args: Inodeusage) -> Result<Value, Error> {
    let flags = flags(args.args.as_deref(), "disk.inodeusage")?;
    let options: Vec<&str> = ["-iP"].into_iter().chain(flags.as_deref()).collect();
    Ok(table(
        df(cx, &options)?,
        ["inodes", "used", "free", "use"],
        false,
    ))
}

/// Returns a dictionary by mount point. Each entry begins with `filesystem` if `first` is set, else
/// it ends with it.
fn table(lines: Vec<[String; 6]>, names: [&str; 4], first: bool) -> Value {
    let entry = |[name, a, b, c, d, mount]: [String; 6]| {
        let mut entry = Map::new();
        if first {
            entry.insert("filesystem", name.as_str());
        }
        for (key, value) in names.iter().zip([a, b, c, d]) {
            entry.insert(*key, value);
        }
        entry.insert("filesystem", name);
        (mount, entry)
    };
    lines.into_iter().map(entry).collect()
}

fn percent(cx: &Exec, args: Percent) -> Result<Value, Error> {
    let mut found: Map = df(cx, &["-P"])?
        .into_iter()
        .map(|[.., part, mount]| (Value::from(mount), Value::from(part)))
        .collect();
    Ok(match args.args.filter(|mount| !mount.is_empty()) {
        Some(mount) => found.remove(&mount).unwrap_or_else(|| {
            value::log::error(format_args!(
                "Problem parsing disk usage information: Partition '{mount}' does not exist!"
            ));
            Map::new().into()
        }),
        None => found.into(),
    })
}

fn blkid(cx: &Exec, args: Blkid) -> Result<Value, Error> {
    let mut words = vec!["blkid"];
    match (&args.device, &args.token) {
        (Some(device), _) => words.push(plain(device)?),
        (None, Some(token)) => words.extend(["-t", token]),
        _ => {}
    }
    let done = run(cx, &words)?;
    cx.set_retcode(i64::from(!done.success()));
    Ok(devices(done.stdout_regardless()).into())
}

/// Parses the output of blkid, and returns the attributes of each device.
pub(crate) fn devices(text: &str) -> Map {
    let device = |line: &str| {
        let (device, mut rest) = line.split_once(": ")?;
        let mut info = Map::new();
        while let Some((key, value)) = rest.split_once("=\"") {
            let (value, after) = value.split_once('"')?;
            info.insert(key.trim(), value);
            rest = after;
        }
        Some((Value::from(device), Value::from(info)))
    };
    text.lines().filter_map(device).collect()
}

const DUMPED: [&str; 12] = [
    "getro",
    "getsz",
    "getss",
    "getpbsz",
    "getiomin",
    "getioopt",
    "getalignoff",
    "getmaxsect",
    "getsize",
    "getsize64",
    "getra",
    "getfra",
];

fn dump(cx: &Exec, args: Dump) -> Result<Value, Error> {
    let options: Vec<String> = DUMPED.iter().map(|name| format!("--{name}")).collect();
    let mut words = vec!["blockdev"];
    words.extend(options.iter().map(String::as_str));
    words.push(plain(&args.device)?);
    let done = run(cx, &words)?;
    if !done.success() {
        return Ok(false.into());
    }
    let wanted = |name: &str| {
        args.args
            .as_ref()
            .is_none_or(|wanted| wanted.iter().any(|other| other == name))
    };
    let lines = done
        .stdout_regardless()
        .lines()
        .filter(|line| !line.is_empty());
    Ok(DUMPED
        .into_iter()
        .zip(lines)
        .filter(|(name, _)| wanted(name))
        .collect())
}

fn fstype(cx: &Exec, args: Fstype) -> Result<Value, Error> {
    let second = |out: &str| out.lines().nth(1).map(|line| line.trim().to_owned());
    if which("lsblk").is_some() {
        let done = run(cx, &["lsblk", "-o", "fstype", plain(&args.device)?])?;
        if let Some(found) = second(done.stdout_regardless()).filter(|found| !found.is_empty()) {
            return Ok(found.into());
        }
    }
    let done = run(cx, &["df", "-T", plain(&args.device)?])?;
    Ok(second(done.stdout_regardless()).unwrap_or_default().into())
}

fn get_fstype_from_path(cx: &Exec, args: GetFstypeFromPath) -> Result<Value, Error> {
    let device = super::mount::device_of(&args.path)?;
    fstype(cx, Fstype { device })
}

fn format(cx: &Exec, args: Format) -> Result<Value, Error> {
    let (kind, is_ext) = (args.fs_type.as_str(), args.fs_type.starts_with("ext"));
    let mut words: Vec<String> = vec!["mkfs".into(), "-t".into(), kind.into()];
    let size = (!args.inode_size.is_null()).then(|| args.inode_size.to_text());
    match size {
        Some(size) if is_ext => words.extend(["-i".to_owned(), size]),
        Some(size) if kind == "xfs" => words.extend(["-i".to_owned(), format!("size={size}")]),
        _ => {}
    }
    if !args.lazy_itable_init.is_null() && is_ext {
        words.extend([
            "-E".to_owned(),
            format!("lazy_itable_init={}", args.lazy_itable_init.to_text()),
        ]);
    }
    if let Some(bits) = args
        .fat
        .filter(|bits| [12, 16, 32].contains(bits) && kind.ends_with("fat"))
    {
        words.extend(["-F".to_owned(), bits.to_string()]);
    }
    match kind {
        _ if !args.force => {}
        "xfs" => words.push("-f".into()),
        _ if is_ext => words.push("-F".into()),
        _ => {}
    }
    words.push(plain(&args.device)?.to_owned());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let made = run(cx, &words)?.success();
    Ok((run(cx, &["sync"])?.success() && made).into())
}

fn resize2fs(cx: &Exec, args: Resize2fs) -> Result<Value, Error> {
    let done = run(cx, &["resize2fs", plain(&args.device)?])?;
    Ok(if done.success() {
        true.into()
    } else {
        Value::Null
    })
}

fn wipe(cx: &Exec, args: Wipe) -> Result<Value, Error> {
    let done = run(cx, &["wipefs", "-a", plain(&args.device)?])?;
    if !done.success() {
        value::log::error(format_args!(
            "Error wiping device {}: {}",
            args.device, done.stderr
        ));
    }
    Ok(done.success().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_df_and_blkid_are_read() {
        let line = "my disk   100  40  60  40% /mnt";
        assert_eq!(
            columns(line).unwrap(),
            ["my disk", "100", "40", "60", "40%", "/mnt"]
        );
        let found = devices("/dev/sda1: LABEL=\"a b\" UUID=\"x-1\" TYPE=\"ext4\"\n");
        assert_eq!(
            value::python::repr(&found.into()),
            "{'/dev/sda1': {'LABEL': 'a b', 'UUID': 'x-1', 'TYPE': 'ext4'}}"
        );
    }
}
