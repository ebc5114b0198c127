//! The `lvm` execution module: logical volumes.

use std::path::Path;

use ::python::path::realpath;
use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, python};

state::exec_module! {
    /// Manage logical volumes (LVM2).
    #[needs(
        "lvm",
        "The linux_lvm execution module cannot be loaded: the lvm binary is not in the path.",
        "lvm2"
    )]
    mod lvm;

    /// Return the version of LVM.
    ///
    ///     salt-call lvm.version
    fn version(Version {});

    /// Return the versions of LVM, its library and the kernel's driver.
    ///
    ///     salt-call lvm.fullversion
    fn fullversion(Fullversion {});

    /// Return information about physical volumes.
    ///
    ///     salt-call lvm.pvdisplay
    fn pvdisplay(Pvdisplay {
        /// The volume to return. The default is all volumes.
        pvname: String = String::new(),
        /// Whether to resolve links in the names of devices.
        real: bool = false,
        /// Whether to log no error if the volume does not exist.
        quiet: bool = false,
    });

    /// Return information about volume groups.
    ///
    ///     salt-call lvm.vgdisplay
    fn vgdisplay(Vgdisplay {
        /// The group to return. The default is all groups.
        vgname: String = String::new(),
        /// Whether to log no error if the group does not exist.
        quiet: bool = false,
    });

    /// Return information about logical volumes.
    ///
    ///     salt-call lvm.lvdisplay
    fn lvdisplay(Lvdisplay {
        /// The volume to return. The default is all volumes.
        lvname: String = String::new(),
        /// Whether to log no error if the volume does not exist.
        quiet: bool = false,
    });

    /// Create physical volumes on devices. Return True, or an error message.
    ///
    ///     salt-call lvm.pvcreate /dev/vdb
    fn pvcreate(Pvcreate {
        /// The devices: a list, or a text with commas between them.
        devices: Value,
        /// Whether to skip devices that are physical volumes already.
        r#override: bool = true,
        /// Whether to answer the questions of the program with yes.
        force: bool = true,
        ..kwargs
    });

    /// Remove physical volumes from devices. Return True, or an error message.
    ///
    ///     salt-call lvm.pvremove /dev/vdb
    fn pvremove(Pvremove {
        /// The devices: a list, or a text with commas between them.
        devices: Value,
        /// Whether to skip devices that are not physical volumes.
        r#override: bool = true,
        /// Whether to answer the questions of the program with yes.
        force: bool = true,
    });

    /// Resize physical volumes to the size of their devices. Return True, or an error message.
    ///
    ///     salt-call lvm.pvresize /dev/vdb
    fn pvresize(Pvresize {
        /// The devices: a list, or a text with commas between them.
        devices: Value,
        /// Whether to skip devices that are not physical volumes.
        r#override: bool = true,
        /// Whether to answer the questions of the program with yes.
        force: bool = true,
    });

    /// Create a volume group.
    ///
    ///     salt-call lvm.vgcreate data /dev/vdb
    fn vgcreate(Vgcreate {
        /// The name of the group.
        vgname: String,
        /// The devices: a list, or a text with commas between them.
        devices: Value,
        /// Whether to answer the questions of the program with yes.
        force: bool = false,
        ..kwargs
    });

    /// Add devices to a volume group.
    ///
    ///     salt-call lvm.vgextend data /dev/vdc
    fn vgextend(Vgextend {
        /// The name of the group.
        vgname: String,
        /// The devices: a list, or a text with commas between them.
        devices: Value,
        /// Whether to answer the questions of the program with yes.
        force: bool = false,
    });

    /// Create a logical volume.
    ///
    ///     salt-call lvm.lvcreate shop data size=10G
    fn lvcreate(Lvcreate {
        /// The name of the volume.
        lvname: String,
        /// The volume group. For a thin volume it includes the pool: `group/pool`.
        vgname: String,
        /// The size of the volume.
        size: Value = Value::Null,
        /// The size of the volume in extents, or a share such as `50%FREE`.
        extents: Value = Value::Null,
        /// The volume to make a snapshot of.
        snapshot: Option<String> = None,
        /// The physical volume to use.
        pv: Option<String> = None,
        /// Whether to create a thin volume.
        thinvolume: bool = false,
        /// Whether to create a pool for thin volumes.
        thinpool: bool = false,
        /// Whether to answer the questions of the program with yes.
        force: bool = false,
        ..kwargs
    });

    /// Remove a volume group.
    ///
    ///     salt-call lvm.vgremove data force=True
    fn vgremove(Vgremove {
        /// The name of the group.
        vgname: String,
        /// Whether to answer the questions of the program with yes.
        force: bool = true,
    });

    /// Remove a logical volume.
    ///
    ///     salt-call lvm.lvremove shop data force=True
    fn lvremove(Lvremove {
        /// The name of the volume.
        lvname: String,
        /// The volume group.
        vgname: String,
        /// Whether to answer the questions of the program with yes.
        force: bool = true,
    });

    /// Resize a logical volume.
    ///
    ///     salt-call lvm.lvresize 12G /dev/data/shop
    fn lvresize(Lvresize {
        /// The new size.
        size: Value = Value::Null,
        /// The path of the volume.
        lvpath: Option<String> = None,
        /// The new size in extents.
        extents: Value = Value::Null,
        /// Whether the volume may shrink.
        force: bool = false,
        /// Whether to resize the file system too.
        resizefs: bool = false,
    });

    /// Extend a logical volume.
    ///
    ///     salt-call lvm.lvextend 12G /dev/data/shop
    fn lvextend(Lvextend {
        /// The new size.
        size: Value = Value::Null,
        /// The path of the volume.
        lvpath: Option<String> = None,
        /// The new size in extents.
        extents: Value = Value::Null,
        /// Whether to answer the questions of the program with yes.
        force: bool = false,
        /// Whether to resize the file system too.
        resizefs: bool = false,
    });
}

/// The columns of `pvdisplay -c`.
const PV: [&str; 11] = [
    "Physical Volume Device",
    "Volume Group Name",
    "Physical Volume Size (kB)",
    "Internal Physical Volume Number",
    "Physical Volume Status",
    "Physical Volume (not) Allocatable",
    "Current Logical Volumes Here",
    "Physical Extent Size (kB)",
    "Total Physical Extents",
    "Free Physical Extents",
    "Allocated Physical Extents",
];

/// The columns of `vgdisplay -c`.
const VG: [&str; 17] = [
    "Volume Group Name",
    "Volume Group Access",
    "Volume Group Status",
    "Internal Volume Group Number",
    "Maximum Logical Volumes",
    "Current Logical Volumes",
    "Open Logical Volumes",
    "Maximum Logical Volume Size",
    "Maximum Physical Volumes",
    "Current Physical Volumes",
    "Actual Physical Volumes",
    "Volume Group Size (kB)",
    "Physical Extent Size (kB)",
    "Total Physical Extents",
    "Allocated Physical Extents",
    "Free Physical Extents",
    "UUID",
];

/// The columns of `lvdisplay -c`.
const LV: [&str; 13] = [
    "Logical Volume Name",
    "Volume Group Name",
    "Logical Volume Access",
    "Logical Volume Status",
    "Internal Logical Volume Number",
    "Open Logical Volumes",
    "Logical Volume Size",
    "Current Logical Extents Associated",
    "Allocated Logical Extents",
    "Allocation Policy",
    "Read Ahead Sectors",
    "Major Device Number",
    "Minor Device Number",
];

/// The options of `pvcreate` that have a value.
const PVCREATE: &str = "metadatasize dataalignment dataalignmentoffset pvmetadatacopies metadatacopies metadataignore restorefile labelsector setphysicalvolumesize";
/// The options of `vgcreate` that have a value.
const VGCREATE: &str = "addtag alloc autobackup clustered maxlogicalvolumes maxphysicalvolumes metadatatype vgmetadatacopies metadatacopies physicalextentsize zero";
/// The options of `lvcreate` that have a value.
const LVCREATE: &str = "activate chunksize contiguous discards stripes stripesize minor persistent mirrors monitor permission poolmetadatasize readahead regionsize type virtualsize zero";
/// The options that have no value.
const BARE: [&str; 5] = [
    "norestorefile",
    "nosync",
    "noudevsync",
    "ignoremonitoring",
    "thin",
];

/// Runs one of LVM's programs. The words in `names` are never interpreted as options.
fn run(cx: &Exec, words: &[&str], names: &[&str]) -> Result<Output, Error> {
    process(words, names)?.run(cx)
}

fn process(words: &[&str], names: &[&str]) -> Result<Process, Error> {
    match names.iter().find(|name| name.starts_with('-')) {
        Some(name) => Err(format!("'{name}' is not the name of a device, group or volume").into()),
        None => Ok(Process {
            // LVM writes warnings about inherited file descriptors.
            env: Map::new().with("LVM_SUPPRESS_FD_WARNINGS", "1"),
            ..Process::words(words.iter().chain(names).copied())
        }),
    }
}

/// Runs a display program for one object or for all. Returns a row for each, with its first column
/// as the key.
fn display_rows(
    cx: &Exec,
    program: &str,
    name: &str,
    quiet: bool,
    columns: &[&str],
) -> Result<Map, Error> {
    let names = Some(name).filter(|name| !name.is_empty());
    let process = process(&[program, "-c"], names.as_slice())?;
    let done = match quiet {
        true => process.quiet().run(cx)?,
        false => process.run(cx)?,
    };
    if !done.success() {
        return Ok(Map::new());
    }
    let lines = done.stdout_regardless().lines().map(str::trim);
    let lines = lines.filter(|line| !line.contains("is a new physical volume"));
    let rows = lines.filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let row: Map = columns
            .iter()
            .zip(&fields)
            .map(|(name, field)| (*name, *field))
            .collect();
        (row.len() == columns.len())
            .then(|| (Value::from(fields.first().copied()), Value::from(row)))
    });
    Ok(rows.collect())
}

/// Returns information about physical volumes.
///
/// # Errors
/// When the program is missing.
pub(crate) fn physical(cx: &Exec, name: &str, quiet: bool) -> Result<Map, Error> {
    display_rows(cx, "pvdisplay", name, quiet, &PV)
}

/// Returns information about volume groups.
///
/// # Errors
/// When the program is missing.
pub(crate) fn groups(cx: &Exec, name: &str, quiet: bool) -> Result<Map, Error> {
    display_rows(cx, "vgdisplay", name, quiet, &VG)
}

/// Returns information about logical volumes.
///
/// # Errors
/// When the program is missing.
pub(crate) fn logical(cx: &Exec, name: &str, quiet: bool) -> Result<Map, Error> {
    display_rows(cx, "lvdisplay", name, quiet, &LV)
}

/// Returns the devices from a list, or from a text with commas between them.
pub(crate) fn devices(given: &Value) -> Vec<String> {
    match given.as_str() {
        Some(text) => text.split(',').map(str::to_owned).collect(),
        None => given.texts(),
    }
}

/// Returns the command line options for the additional arguments of a call.
fn options(known: &str, kwargs: &Map) -> Vec<String> {
    let mut words = Vec::new();
    for (key, value) in kwargs.iter().filter(|(_, value)| value.is_true()) {
        let key = key.to_text();
        if BARE.contains(&key.as_str()) {
            words.push(format!("--{key}"));
        } else if known.split(' ').any(|known| known == key) {
            words.extend([format!("--{key}"), python::str(value)]);
        }
    }
    words
}

/// Returns the option that answers all questions with yes, or the one that suppresses all output.
fn quietly(force: bool) -> &'static str {
    if force { "--yes" } else { "-qq" }
}

fn strs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Returns the message for success, or the error message of the program.
fn message(done: &Output, well: String) -> String {
    match done.success() {
        true => well,
        false => done.stderr.trim().to_owned(),
    }
}

fn versions(cx: &Exec) -> Result<Vec<(String, String)>, Error> {
    let said = run(cx, &["lvm", "version"], &[])?.into_stdout_regardless();
    let pairs = said.lines().filter_map(|line| line.split_once(':'));
    Ok(pairs
        .map(|(name, text)| (name.trim().to_owned(), text.trim().to_owned()))
        .collect())
}

fn version(cx: &Exec, _: Version) -> Result<Value, Error> {
    let first = versions(cx)?.into_iter().next();
    Ok(first.map(|(_, version)| version).into())
}

fn fullversion(cx: &Exec, _: Fullversion) -> Result<Value, Error> {
    Ok(versions(cx)?.into_iter().collect())
}

/// Returns information about physical volumes, with links in the names of their devices resolved.
///
/// # Errors
/// When the program is missing.
pub(crate) fn real(cx: &Exec, name: &str, quiet: bool) -> Result<Map, Error> {
    let all = physical(cx, name, quiet)?;
    let real = all.iter().map(|(device, about)| {
        let device = realpath(&device.to_text());
        let about = about.as_map().cloned().unwrap_or_default();
        (
            Value::from(device.as_str()),
            Value::from(about.with("Real Physical Volume Device", device)),
        )
    });
    Ok(real.collect())
}

fn pvdisplay(cx: &Exec, args: Pvdisplay) -> Result<Value, Error> {
    let show = if args.real { real } else { physical };
    Ok(show(cx, &args.pvname, args.quiet)?.into())
}

fn vgdisplay(cx: &Exec, args: Vgdisplay) -> Result<Value, Error> {
    Ok(groups(cx, &args.vgname, args.quiet)?.into())
}

fn lvdisplay(cx: &Exec, args: Lvdisplay) -> Result<Value, Error> {
    Ok(logical(cx, &args.lvname, args.quiet)?.into())
}

fn pvcreate(cx: &Exec, args: Pvcreate) -> Result<Value, Error> {
    let all = devices(&args.devices);
    if !args.devices.is_true() {
        return Ok("Error: at least one device is required".into());
    }
    let mut new = Vec::new();
    for device in &all {
        if !Path::new(device).exists() {
            return Ok(format!("{device} does not exist").into());
        }
        if physical(cx, device, true)?.is_empty() {
            new.push(device.as_str());
        } else if !args.r#override {
            return Ok(format!("Device \"{device}\" is already an LVM physical volume.").into());
        }
    }
    if new.is_empty() {
        return Ok(true.into());
    }
    let options = options(PVCREATE, &args.kwargs);
    let mut words = vec!["pvcreate", quietly(args.force)];
    words.extend(strs(&options));
    let done = run(cx, &words, &new)?;
    checked(cx, &done, &all, true)
}

/// Returns True if each device is a physical volume now (or none is, if `is_volume` is false);
/// otherwise an error message.
fn checked(cx: &Exec, done: &Output, devices: &[String], is_volume: bool) -> Result<Value, Error> {
    if !done.success() {
        return Ok(done.stderr.as_str().into());
    }
    for device in devices {
        if physical(cx, device, true)?.is_empty() == is_volume {
            return Ok(format!("Device \"{device}\" was not affected.").into());
        }
    }
    Ok(true.into())
}

/// Runs a program on the devices that are physical volumes. Returns `None` if there is no such
/// device.
fn on_volumes(
    cx: &Exec,
    program: &str,
    all: &[String],
    skip: bool,
    force: bool,
) -> Result<Result<Option<Output>, String>, Error> {
    let mut there = Vec::new();
    for device in all {
        if !physical(cx, device, false)?.is_empty() {
            there.push(device.as_str());
        } else if !skip {
            return Ok(Err(format!("{device} is not a physical volume")));
        }
    }
    if there.is_empty() {
        return Ok(Ok(None));
    }
    Ok(Ok(Some(run(cx, &[program, quietly(force)], &there)?)))
}

fn pvremove(cx: &Exec, args: Pvremove) -> Result<Value, Error> {
    let all = devices(&args.devices);
    match on_volumes(cx, "pvremove", &all, args.r#override, args.force)? {
        Ok(Some(done)) => checked(cx, &done, &all, false),
        Ok(None) => Ok(true.into()),
        Err(why) => Ok(why.into()),
    }
}

fn pvresize(cx: &Exec, args: Pvresize) -> Result<Value, Error> {
    let all = devices(&args.devices);
    Ok(
        match on_volumes(cx, "pvresize", &all, args.r#override, args.force)? {
            Ok(Some(done)) if !done.success() => done.stderr.into(),
            Ok(_) => true.into(),
            Err(why) => why.into(),
        },
    )
}

fn vgcreate(cx: &Exec, args: Vgcreate) -> Result<Value, Error> {
    let name = args.vgname.as_str();
    if name.is_empty() || !args.devices.is_true() {
        return Ok("Error: vgname and device(s) are both required".into());
    }
    let (all, options) = (devices(&args.devices), options(VGCREATE, &args.kwargs));
    let mut words = vec!["vgcreate", quietly(args.force)];
    words.extend(strs(&options));
    let mut names = vec![name];
    names.extend(strs(&all));
    let done = run(cx, &words, &names)?;
    let out = message(
        &done,
        format!("Volume group \"{name}\" successfully created"),
    );
    Ok(groups(cx, name, false)?
        .with("Output from vgcreate", out)
        .into())
}

fn vgextend(cx: &Exec, args: Vgextend) -> Result<Value, Error> {
    let name = args.vgname.as_str();
    if name.is_empty() || !args.devices.is_true() {
        return Ok("Error: vgname and device(s) are both required".into());
    }
    let all = devices(&args.devices);
    let mut names = vec![name];
    names.extend(strs(&all));
    let done = run(cx, &["vgextend", quietly(args.force)], &names)?;
    let out = message(
        &done,
        format!("Volume group \"{name}\" successfully extended"),
    );
    Ok(Map::new().with("Output from vgextend", out).into())
}

fn lvcreate(cx: &Exec, args: Lvcreate) -> Result<Value, Error> {
    let (lv, vg) = (args.lvname.as_str(), args.vgname.as_str());
    let (size, extents) = (python::str(&args.size), python::str(&args.extents));
    let amount: [&str; 2] = match (args.size.is_true(), args.extents.is_true()) {
        (true, true) => return Ok("Error: Please specify only one of size or extents".into()),
        _ if args.thinvolume && args.thinpool => {
            return Ok("Error: Please set only one of thinvolume or thinpool to True".into());
        }
        (true, _) if args.thinvolume => ["-V", &size],
        (_, true) if args.thinvolume => {
            return Ok("Error: Thin volume size cannot be specified as extents".into());
        }
        (true, _) => ["-L", &size],
        (_, true) => ["-l", &extents],
        _ => return Ok("Error: Either size or extents must be specified".into()),
    };
    let options = options(LVCREATE, &args.kwargs);
    let mut words = vec!["lvcreate"];
    words.extend(Some("--thin").filter(|_| args.thinvolume));
    words.push(if args.thinpool { "--thinpool" } else { "-n" });
    words.push(lv);
    words.extend(Some("-s").filter(|_| args.snapshot.is_some()));
    words.extend(amount);
    words.extend(strs(&options));
    words.push(quietly(args.force));
    let origin = args.snapshot.map(|origin| format!("{vg}/{origin}"));
    let mut names = vec![origin.as_deref().unwrap_or(vg)];
    names.extend(args.pv.as_deref().filter(|pv| !pv.is_empty()));
    let done = run(cx, &words, &names)?;
    let out = message(&done, format!("Logical volume \"{lv}\" created."));
    let volume = logical(cx, &format!("/dev/{vg}/{lv}"), false)?;
    Ok(volume.with("Output from lvcreate", out).into())
}

fn vgremove(cx: &Exec, args: Vgremove) -> Result<Value, Error> {
    let name = args.vgname.as_str();
    let done = run(cx, &["vgremove", quietly(args.force)], &[name])?;
    Ok(message(
        &done,
        format!("Volume group \"{name}\" successfully removed"),
    )
    .into())
}

fn lvremove(cx: &Exec, args: Lvremove) -> Result<Value, Error> {
    let volume = format!("{}/{}", args.vgname, args.lvname);
    let done = run(cx, &["lvremove", quietly(args.force)], &[&volume])?;
    Ok(message(
        &done,
        format!("Logical volume \"{}\" successfully removed", args.lvname),
    )
    .into())
}

/// Resizes a volume. Returns the output of the program under the name of the volume; an empty
/// result unless exactly one of size and extents is given.
fn resized(
    cx: &Exec,
    words: [&str; 2],
    path: &str,
    size: (&Value, &Value),
    resizefs: bool,
) -> Result<Value, Error> {
    let (size, extents) = size;
    let (option, amount) = match (size.is_true(), extents.is_true()) {
        (true, false) => ("-L", python::str(size)),
        (false, true) => ("-l", python::str(extents)),
        (both, _) => {
            let which = if both {
                "Please specify only one of size or extents"
            } else {
                "Either size or extents must be specified"
            };
            log::error(format_args!("Error: {which}"));
            return Ok(Map::new().into());
        }
    };
    let [program, _] = words;
    let mut words = words.to_vec();
    words.extend(Some("--resizefs").filter(|_| resizefs));
    words.extend([option, &amount]);
    let done = run(cx, &words, &[path])?;
    let verb = program.strip_prefix("lv").map_or("resized", |verb| {
        if verb == "extend" {
            "extended"
        } else {
            "resized"
        }
    });
    let out = message(
        &done,
        format!("Logical volume \"{path}\" successfully {verb}."),
    );
    Ok(Map::new()
        .with(&format!("Output from {program}"), out)
        .into())
}

fn lvresize(cx: &Exec, args: Lvresize) -> Result<Value, Error> {
    let force = if args.force { "--force" } else { "-qq" };
    let path = args.lvpath.unwrap_or_default();
    resized(
        cx,
        ["lvresize", force],
        &path,
        (&args.size, &args.extents),
        args.resizefs,
    )
}

fn lvextend(cx: &Exec, args: Lvextend) -> Result<Value, Error> {
    let path = args.lvpath.unwrap_or_default();
    resized(
        cx,
        ["lvextend", quietly(args.force)],
        &path,
        (&args.size, &args.extents),
        args.resizefs,
    )
}
