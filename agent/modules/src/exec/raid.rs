//! The `raid` execution module: arrays of Linux software RAID (`mdadm`).

use std::path::Path;

use machine::fs::{self, Owner};
use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

state::exec_module! {
    /// Manage RAID arrays with `mdadm`.
    #[needs(
        "mdadm",
        "The mdadm execution module cannot be loaded: the mdadm binary is not in the path."
    )]
    mod raid;

    /// Return the running arrays.
    ///
    ///     salt-call raid.list
    fn list(List {});

    /// Return the details of an array.
    ///
    ///     salt-call raid.detail /dev/md0
    fn detail(Detail {
        /// The device of the array.
        device: String = "/dev/md0".into(),
    });

    /// Stop an array, remove it from the configuration, and erase the RAID metadata on its disks.
    ///
    ///     salt-call raid.destroy /dev/md0
    fn destroy(Destroy {
        /// The device of the array.
        device: String,
    });

    /// Stop all arrays that are not in use.
    ///
    ///     salt-call raid.stop
    fn stop(Stop {});

    /// Create an array.
    ///
    ///     salt-call raid.create /dev/md0 1 '[/dev/vdb, /dev/vdc]'
    fn create(Create {
        /// The device of the array.
        name: String,
        /// The RAID level.
        level: String,
        /// The devices of the disks.
        devices: Vec<String>,
        /// The version of the metadata on the disks.
        metadata: String = "default".into(),
        /// True to return the command without running it.
        test_mode: bool = false,
        ..kwargs
    });

    /// Write the running arrays to the configuration of mdadm.
    ///
    ///     salt-call raid.save_config
    fn save_config(SaveConfig {});

    /// Assemble an array from its disks.
    ///
    ///     salt-call raid.assemble /dev/md0 '[/dev/vdb, /dev/vdc]'
    fn assemble(Assemble {
        /// The device of the array.
        name: String,
        /// The devices of the disks.
        devices: Value,
        /// True to return the command without running it.
        test_mode: bool = false,
        ..kwargs
    });

    /// Return the RAID metadata on a disk.
    ///
    ///     salt-call raid.examine /dev/vdb
    fn examine(Examine {
        /// The device of the disk.
        device: String,
        /// True to log no error for a disk that belongs to no array.
        quiet: bool = false,
    });

    /// Add a disk to an array.
    ///
    ///     salt-call raid.add /dev/md0 /dev/vdd
    fn add(Add {
        /// The device of the array.
        name: String,
        /// The device of the disk.
        device: String,
    });
}

fn mdadm(cx: &Exec, words: &[&str], quiet: bool) -> Result<Output, Error> {
    let process = Process::words(["mdadm"].iter().chain(words).copied());
    match quiet {
        true => process.quiet().run(cx),
        false => process.run(cx),
    }
}

/// Returns the device, or an error if mdadm would read it as an option.
fn plain(device: &str) -> Result<&str, Error> {
    match device.starts_with('-') {
        true => Err(format!("'{device}' is not a device").into()),
        false => Ok(device),
    }
}

/// Returns the lines of `mdadm.conf` for the running arrays. mdadm fails if one of several arrays is
/// inactive, and still lists the others; a failure without a list is an error.
fn scan(cx: &Exec) -> Result<String, Error> {
    let done = mdadm(cx, &["--detail", "--scan"], false)?;
    match done.stdout_regardless().is_empty() {
        true => done.stdout_of_success("mdadm --detail --scan"),
        false => Ok(done.into_stdout_regardless()),
    }
}

/// Returns the running arrays by name.
///
/// # Errors
/// When the program is missing.
pub(crate) fn arrays(cx: &Exec) -> Result<Map, Error> {
    let said = scan(cx)?;
    let array = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let device = words.next()?;
        let pairs = words.filter_map(|word| word.split_once('='));
        let about = pairs.map(|(key, value)| (key.to_lowercase(), value));
        let first = [("device".to_owned(), device)].into_iter();
        Some((Value::from(device), first.chain(about).collect::<Value>()))
    };
    Ok(said.lines().filter_map(array).collect())
}

fn list(cx: &Exec, _: List) -> Result<Value, Error> {
    Ok(arrays(cx)?.into())
}

fn detail(cx: &Exec, args: Detail) -> Result<Value, Error> {
    let device = args.device.as_str();
    if !Path::new(device).exists() {
        return Err(format!("Device {device} doesn't exist!").into());
    }
    let said = mdadm(cx, &["--detail", plain(device)?], false)?.into_stdout_regardless();
    let mut about = Map::new().with("members", members(&said));
    let lines = said.lines().filter(|line| !line.starts_with(device));
    for (key, value) in lines.filter_map(|line| line.split_once(" : ")) {
        about.insert(key.trim().to_lowercase().replace(' ', "_"), value.trim());
    }
    Ok(about.into())
}

/// Parses the disks of an array: number, major, minor, role, state (several words) and device.
fn members(text: &str) -> Map {
    let lines = text
        .lines()
        .filter(|line| !line.contains(':') && line.contains("/dev/"));
    let member = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [number, major, minor, place, state @ .., device] = words.as_slice() else {
            return None;
        };
        let about = Map::new().with("device", *device).with("major", *major);
        let about = about.with("minor", *minor).with("number", *number);
        let about = about
            .with("raiddevice", *place)
            .with("state", state.join(" "));
        Some((Value::from(*number), Value::from(about)))
    };
    lines.filter_map(member).collect()
}

/// Returns the path of mdadm's configuration file.
fn config(cx: &Exec) -> &'static Path {
    Path::new(match cx.grain("os_family").as_str() {
        "Debian" => "/etc/mdadm/mdadm.conf",
        _ => "/etc/mdadm.conf",
    })
}

/// Writes the configuration file with the lines of the given arrays replaced by `lines`.
fn configure(cx: &Exec, arrays: &[&str], lines: &[String]) -> Result<(), Error> {
    let path = config(cx);
    let old = match fs::text_or_none(path)? {
        None if lines.is_empty() => return Ok(()),
        old => old.unwrap_or_default(),
    };
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some("ARRAY"))
            .then(|| words.next())
            .flatten()
            .map(str::to_owned)
    };
    let mut new: Vec<String> = Vec::new();
    let mut left: Vec<&String> = lines.iter().collect();
    for line in old.lines() {
        let name = of(line);
        if !name.as_deref().is_some_and(|name| arrays.contains(&name)) {
            new.push(line.to_owned());
        } else {
            let at = left.iter().position(|line| of(line) == name);
            new.push(at.map(|at| left.remove(at).clone()).unwrap_or_default());
        }
    }
    new.extend(left.into_iter().cloned());
    let text: String = new.iter().map(|line| format!("{line}\n")).collect();
    if text == old {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::mkdirs(cx, folder).map_err(Error::io(folder))?;
    }
    fs::write(cx, path, text.as_bytes(), Owner::default())
}

fn destroy(cx: &Exec, args: Destroy) -> Result<Value, Error> {
    let device = plain(&args.device)?;
    if !Path::new(device).exists() {
        return Ok(false.into());
    }
    let said = mdadm(cx, &["--detail", device], false)?.into_stdout_regardless();
    if mdadm(cx, &["--stop", device], false)?.success() {
        let members = members(&said);
        let disks = members
            .values()
            .filter_map(|about| about.get("device")?.as_str());
        let words: Vec<&str> = ["--zero-superblock"].into_iter().chain(disks).collect();
        mdadm(cx, &words, false)?;
    }
    configure(cx, &[device], &[])?;
    Ok((!arrays(cx)?.contains(device)).into())
}

fn stop(cx: &Exec, _: Stop) -> Result<Value, Error> {
    Ok(mdadm(cx, &["--stop", "--scan"], false)?.success().into())
}

/// Returns the options of mdadm for the keyword arguments of a call, such as `chunk: 256` or `run:
/// True`.
fn options(kwargs: &Map) -> Vec<String> {
    let mut words = Vec::new();
    for (key, value) in kwargs {
        let key = key.to_text();
        if !key.starts_with("__") {
            words.push(format!("--{key}"));
            words.extend(Some(python::str(value)).filter(|_| *value != true.into()));
        }
    }
    words
}

/// Runs a command or, in test mode, returns it as a text or a list.
fn run_or_show(cx: &Exec, words: Vec<String>, test: bool, as_text: bool) -> Result<Value, Error> {
    match (test, as_text) {
        (true, true) => Ok(words.join(" ").into()),
        (true, false) => Ok(words.into()),
        _ => {
            let done = Process {
                stderr: machine::process::Stderr::Merged,
                ..Process::words(words)
            }
            .run(cx)?;
            Ok(done.into_stdout_regardless().into())
        }
    }
}

fn create(cx: &Exec, args: Create) -> Result<Value, Error> {
    let spare = args.kwargs.get("spare-devices").map(Value::to_text);
    let spare: usize = match spare {
        Some(text) => text
            .parse()
            .map_err(|_| format!("spare-devices: expected a number, got {text}"))?,
        None => 0,
    };
    let count = args.devices.len().saturating_sub(spare).to_string();
    let mut words: Vec<String> = [
        "mdadm",
        "-C",
        plain(&args.name)?,
        "-R",
        "-v",
        "-l",
        &args.level,
    ]
    .map(str::to_owned)
    .into();
    words.extend(options(&args.kwargs));
    words.extend(["-e", &args.metadata, "-n", &count].map(str::to_owned));
    for device in &args.devices {
        words.push(plain(device)?.to_owned());
    }
    run_or_show(cx, words, args.test_mode, true)
}

fn assemble(cx: &Exec, args: Assemble) -> Result<Value, Error> {
    let mut words: Vec<String> = ["mdadm", "-A", plain(&args.name)?, "-v"]
        .map(str::to_owned)
        .into();
    words.extend(options(&args.kwargs));
    for device in super::lvm::devices(&args.devices) {
        words.push(plain(&device)?.to_owned());
    }
    run_or_show(cx, words, args.test_mode, false)
}

fn save_config(cx: &Exec, _: SaveConfig) -> Result<Value, Error> {
    let said = scan(cx)?;
    let is_ubuntu = cx.grain("os") == "Ubuntu";
    // With these words in its configuration, Ubuntu gives other names to arrays.
    let kept = |word: &&str| {
        let word = word.to_lowercase();
        !is_ubuntu || !word.starts_with("name=") && !word.starts_with("metadata=")
    };
    let lines: Vec<String> = match is_ubuntu {
        true => said
            .lines()
            .map(|line| line.split(' ').filter(kept).collect::<Vec<_>>().join(" "))
            .collect(),
        false => said.lines().map(str::to_owned).collect(),
    };
    let names: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    configure(cx, &names, &lines)?;
    let after: &[&str] = match cx.grain("os_family").as_str() {
        "Debian" => &["update-initramfs", "-u"],
        "RedHat" => &["dracut", "--force"],
        _ => return Ok(Value::Null),
    };
    Ok(Process::words(after.iter().copied())
        .run(cx)?
        .stdout_regardless()
        .into())
}

/// Returns the RAID metadata on a disk; empty if there is none.
///
/// # Errors
/// When the program is missing.
pub(crate) fn written(cx: &Exec, device: &str, quiet: bool) -> Result<Map, Error> {
    let said = mdadm(cx, &["-Y", "-E", plain(device)?], quiet)?.into_stdout_regardless();
    let pairs = said
        .lines()
        .map(|line| line.split_once('=').unwrap_or((line, "")));
    Ok(pairs.collect())
}

fn examine(cx: &Exec, args: Examine) -> Result<Value, Error> {
    Ok(written(cx, &args.device, args.quiet)?.into())
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let words = [
        "--manage",
        plain(&args.name)?,
        "--add",
        plain(&args.device)?,
    ];
    Ok(mdadm(cx, &words, false)?.success().into())
}
