//! The `partition` execution module: reads and changes partition tables with parted and sfdisk.

use std::os::unix::fs::FileTypeExt;

use machine::process::{Process, Stderr, which};
use python::text::bare_lines;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::tool::is_name;

state::exec_module! {
    /// Manage partition tables with parted and sfdisk.
    #[needs(
        "parted",
        "The parted execution module failed to load parted binary is not in the path."
    )]
    #[needs("lsblk", "The parted execution module failed to load lsblk binary is not in the path.", "util-linux")]
    #[needs(
        "partprobe",
        "The parted execution module failed to load partprobe binary is not in the path.",
        "parted"
    )]
    mod partition;

    /// Ask the kernel to read the partition tables of these devices again, or of all devices if
    /// none is named.
    ///
    ///     salt-call partition.probe /dev/vdb
    fn probe(Probe {
        *rest,
    });

    /// Return a device's partition table.
    ///
    ///     salt-call partition.list /dev/vdb
    fn list(List {
        /// The device.
        device: String,
        /// The unit of the returned positions and sizes, such as `s` or `MiB`.
        unit: Option<String> = None,
    });

    /// Return True when a partition has the alignment that the device prefers.
    ///
    ///     salt-call partition.align_check /dev/vdb optimal 1
    fn align_check(AlignCheck {
        /// The device.
        device: String,
        /// The kind of alignment: `minimal` or `optimal`.
        part_type: String,
        /// The number of the partition.
        partition: Value,
    });

    /// Check the file system of a partition for errors.
    ///
    ///     salt-call partition.check /dev/vdb 1
    fn check(Check {
        /// The device.
        device: String,
        /// The number of the partition.
        minor: Value,
    });

    /// Copy the file system of a partition to another partition.
    ///
    ///     salt-call partition.cp /dev/vdb 1 2
    fn cp(Cp {
        /// The device.
        device: String,
        /// The number of the partition to copy from.
        from_minor: Value,
        /// The number of the partition to copy to.
        to_minor: Value,
    });

    /// Return the system ID of a partition, such as `83` for Linux.
    ///
    ///     salt-call partition.get_id /dev/vdb 1
    fn get_id(GetId {
        /// The device.
        device: String,
        /// The number of the partition.
        minor: Value,
    });

    /// Set the system ID of a partition.
    ///
    ///     salt-call partition.set_id /dev/vdb 1 83
    fn set_id(SetId {
        /// The device.
        device: String,
        /// The number of the partition.
        minor: Value,
        /// The system ID; one of the keys that `partition.system_types` returns.
        system_id: Value,
    });

    /// Return the system IDs that sfdisk knows.
    ///
    ///     salt-call partition.system_types
    fn system_types(SystemTypes {});

    /// Create a file system on a partition.
    ///
    ///     salt-call partition.mkfs /dev/vdb1 ext4
    fn mkfs(Mkfs {
        /// The path of the partition's device.
        device: String,
        /// The type of the file system.
        fs_type: String,
    });

    /// Create a new, empty partition table on a device.
    ///
    ///     salt-call partition.mklabel /dev/vdb gpt
    fn mklabel(Mklabel {
        /// The device.
        device: String,
        /// The kind of table, such as `gpt` or `msdos`.
        label_type: String,
    });

    /// Create a partition.
    ///
    ///     salt-call partition.mkpart /dev/vdb primary ext4 1MiB 1GiB
    fn mkpart(Mkpart {
        /// The device.
        device: String,
        /// The type of the partition: `primary`, `logical` or `extended`.
        part_type: String,
        /// The type of the file system that the partition is meant for. No file system is created.
        fs_type: Option<String> = None,
        /// The start of the partition, in megabytes unless a unit is given.
        start: Value = Value::Null,
        /// The end of the partition, in megabytes unless a unit is given.
        end: Value = Value::Null,
    });

    /// The same as `partition.mkpart`.
    ///
    ///     salt-call partition.mkpartfs /dev/vdb primary ext4 1MiB 1GiB
    fn mkpartfs(Mkpartfs {
        /// The device.
        device: String,
        /// The type of the partition: `primary`, `logical` or `extended`.
        part_type: String,
        /// The type of the file system that the partition is meant for. No file system is created.
        fs_type: Option<String> = None,
        /// The start of the partition, in megabytes unless a unit is given.
        start: Value = Value::Null,
        /// The end of the partition, in megabytes unless a unit is given.
        end: Value = Value::Null,
    });

    /// Name a partition. Only some kinds of partition tables have names.
    ///
    ///     salt-call partition.name /dev/vdb 1 data
    fn name(Name {
        /// The device.
        device: String,
        /// The number of the partition.
        partition: Value,
        /// The new name.
        name: String,
    });

    /// Look for a lost partition and restore its entry in the table.
    ///
    ///     salt-call partition.rescue /dev/vdb 0 1GiB
    fn rescue(Rescue {
        /// The device.
        device: String,
        /// The approximate start of the lost partition.
        start: Value,
        /// The approximate end of the lost partition.
        end: Value,
    });

    /// Change the start and the end of a partition.
    ///
    ///     salt-call partition.resize /dev/vdb 1 1MiB 2GiB
    fn resize(Resize {
        /// The device.
        device: String,
        /// The number of the partition.
        minor: Value,
        /// The new start.
        start: Value,
        /// The new end.
        end: Value,
    });

    /// Remove a partition.
    ///
    ///     salt-call partition.rm /dev/vdb 1
    fn rm(Rm {
        /// The device.
        device: String,
        /// The number of the partition.
        minor: Value,
    });

    /// Set a flag of a partition.
    ///
    ///     salt-call partition.set /dev/vdb 1 boot on
    fn set(Set {
        /// The device.
        device: String,
        /// The number of the partition.
        minor: Value,
        /// The flag, such as `boot`.
        flag: String,
        /// The new state as a string: `on` or `off`.
        state: String,
    });

    /// Toggle a flag of a partition.
    ///
    ///     salt-call partition.toggle /dev/vdb 1 boot
    fn toggle(Toggle {
        /// The device.
        device: String,
        /// The number of the partition.
        partition: Value,
        /// The flag, such as `boot`.
        flag: String,
    });

    /// Set a flag of a device.
    ///
    ///     salt-call partition.disk_set /dev/vdb pmbr_boot on
    fn disk_set(DiskSet {
        /// The device.
        device: String,
        /// The flag, such as `pmbr_boot`.
        flag: String,
        /// The new state as a string: `on` or `off`.
        state: String,
    });

    /// Toggle a flag of a device.
    ///
    ///     salt-call partition.disk_toggle /dev/vdb pmbr_boot
    fn disk_toggle(DiskToggle {
        /// The device.
        device: String,
        /// The flag, such as `pmbr_boot`.
        flag: String,
    });

    /// Return True when the path is a block device.
    ///
    ///     salt-call partition.exists /dev/vdb
    fn exists(Exists {
        /// The path of the device.
        device: String = String::new(),
    });

    /// Return the names of the disks.
    ///
    ///     salt-call partition.get_block_device
    fn get_block_device(GetBlockDevice {});
}

const UNITS: &str = "s B kB MB MiB GB GiB TB TiB % cyl chs compact";
const DISK_FLAGS: &str = "cylinder_alignment pmbr_boot implicit_partition_table";
const FLAGS: &str = "boot root swap hidden raid lvm lba hp-service palo prep msftres bios_grub atvrecv diag legacy_boot msftdata irst esp type";
const FILE_SYSTEMS: &str =
    "btrfs ext2 ext3 ext4 fat fat32 fat16 linux-swap reiserfs hfs hfs+ hfsx NTFS ntfs ufs xfs";
const LABELS: &str = "aix amiga bsd dvh gpt loop mac msdos pc98 sun";

/// The names of the fields that parted prints for a disk.
const DISK: [&str; 8] = [
    "disk",
    "size",
    "interface",
    "logical sector",
    "physical sector",
    "partition table",
    "model",
    "disk flags",
];

const MISREAD: &str = "Problem encountered while parsing output from parted";

/// Runs a program and returns the lines that it wrote to standard output and standard error.
fn run(cx: &Exec, words: &[&str]) -> Result<Value, Error> {
    let process = Process {
        stderr: Stderr::Merged,
        ..Process::words(words.iter().copied())
    };
    let output = process.run(cx)?;
    cx.set_retcode(output.retcode.unwrap_or(0));
    Ok(Value::list(
        bare_lines(output.stdout_regardless())
            .into_iter()
            .map(Value::from),
    ))
}

/// Runs parted in script mode, in which it asks no questions.
fn parted(cx: &Exec, words: &[&str]) -> Result<Value, Error> {
    run(cx, &[&["parted", "-m", "-s"], words].concat())
}

fn is_one(all: &str, word: &str) -> bool {
    all.split(' ').any(|one| one == word)
}

/// Returns an error with Salt's text unless `word` is one of the words in `all`.
fn one_of(all: &str, word: &str, what: &str, function: &str) -> Result<(), Error> {
    match is_one(all, word) {
        true => Ok(()),
        false => Err(invalid(what, function)),
    }
}

fn invalid(what: &str, function: &str) -> Error {
    Error::refused(format!("Invalid {what} passed to partition.{function}"))
}

fn is_device(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

fn device(path: &str) -> Result<&str, Error> {
    match is_device(path) {
        true => is_name("device", path).map(|()| path),
        false => Err("Invalid device passed to partition module.".into()),
    }
}

/// Returns the number of a partition as text, or an error if it is not an integer.
fn number(given: &Value, what: &str, function: &str) -> Result<String, Error> {
    let text = given.to_text();
    let text = text.trim();
    match text.parse::<i64>() {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(invalid(what, function)),
    }
}

/// Returns a boundary of a partition as text, or an error if it is not a number with or without a
/// unit.
fn boundary(given: &Value) -> Result<String, Error> {
    let text = given.to_text();
    let is_number = |sign: char| sign.is_ascii_digit() || sign == '.';
    let unit = text.trim_start_matches(is_number);
    match unit.len() < text.len() && (unit.is_empty() || is_one(UNITS, unit)) {
        true => Ok(text),
        false => Err(Error::refused(format!(
            "Invalid partition boundary passed: \"{text}\""
        ))),
    }
}

fn probe(cx: &Exec, args: Probe) -> Result<Value, Error> {
    let devices: Vec<String> = args.rest.iter().map(Value::to_text).collect();
    let mut words = vec!["partprobe", "--"];
    for path in &devices {
        words.push(device(path)?);
    }
    run(cx, &words)
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let mut words = vec!["parted", "-m", "-s", device(&args.device)?];
    let unit = args.unit.as_deref().filter(|unit| !unit.is_empty());
    if let Some(unit) = unit {
        one_of(UNITS, unit, "unit", "part_list")?;
        words.extend(["unit", unit]);
    }
    words.push("print");
    let output = Process::words(words).run(cx)?;
    cx.set_retcode(output.retcode.unwrap_or(0));
    Ok(read_table(output.stdout_regardless(), unit)?.into())
}

/// Parses the machine-readable output of parted: first the disk, then its partitions.
fn read_table(text: &str, unit: Option<&str>) -> Result<Map, Error> {
    let mut rows = bare_lines(text)
        .into_iter()
        .filter(|line| !matches!(*line, "BYT;" | "CHS;" | "CYL;"))
        .map(|line| line.trim_end_matches(';').split(':').collect::<Vec<&str>>());
    let info: Map = match rows.next() {
        // Older versions of parted print no flags.
        Some(row) if matches!(row.len(), 7 | 8) => DISK.into_iter().zip(row).collect(),
        Some(_) => return Err(MISREAD.into()),
        None => Map::new(),
    };
    // With these units parted prints a line with the heads and sectors of a cylinder here.
    if matches!(unit, Some("chs" | "cyl")) {
        rows.next();
    }
    let mut partitions = Map::new();
    for row in rows {
        let (number, row) = partition(row, unit)?;
        partitions.insert(number, row);
    }
    Ok(Map::new().with("info", info).with("partitions", partitions))
}

/// Returns the number and the fields of one partition. Free space has no file system, and with
/// `chs` there is no size.
fn partition<'a>(mut row: Vec<&'a str>, unit: Option<&str>) -> Result<(&'a str, Map), Error> {
    let size = Some("size").filter(|_| unit != Some("chs"));
    let mut names: Vec<&str> = ["number", "start", "end"].into_iter().chain(size).collect();
    match row.last() {
        Some(&"free") => drop(row.pop()),
        _ => names.extend(["file system", "name", "flags"]),
    }
    match row.first() {
        Some(number) if names.len() == row.len() => {
            Ok((number, names.into_iter().zip(row.iter().copied()).collect()))
        }
        _ => Err(MISREAD.into()),
    }
}

fn align_check(cx: &Exec, args: AlignCheck) -> Result<Value, Error> {
    let (path, kind) = (device(&args.device)?, args.part_type.as_str());
    one_of("minimal optimal", kind, "part_type", "align_check")?;
    let number = number(&args.partition, "partition", "align_check")?;
    let words = ["parted", "-m", path, "align-check", kind, &number];
    run(cx, &words)
}

/// Runs a command of parted on one partition.
fn on_minor(cx: &Exec, path: &str, command: &str, minor: &Value) -> Result<Value, Error> {
    let path = device(path)?;
    let minor = number(minor, "minor number", command)?;
    parted(cx, &[path, command, &minor])
}

fn check(cx: &Exec, args: Check) -> Result<Value, Error> {
    on_minor(cx, &args.device, "check", &args.minor)
}

fn rm(cx: &Exec, args: Rm) -> Result<Value, Error> {
    on_minor(cx, &args.device, "rm", &args.minor)
}

fn cp(cx: &Exec, args: Cp) -> Result<Value, Error> {
    let path = device(&args.device)?;
    let from = number(&args.from_minor, "minor number", "cp")?;
    let to = number(&args.to_minor, "minor number", "cp")?;
    parted(cx, &[path, "cp", &from, &to])
}

fn get_id(cx: &Exec, args: GetId) -> Result<Value, Error> {
    let path = device(&args.device)?;
    let minor = number(&args.minor, "minor number", "get_id")?;
    run(cx, &["sfdisk", "--print-id", path, &minor])
}

fn set_id(cx: &Exec, args: SetId) -> Result<Value, Error> {
    let path = device(&args.device)?;
    let minor = number(&args.minor, "minor number", "set_id")?;
    let id = args.system_id.to_text();
    if !types(cx)?.contains(&id) {
        return Err(invalid("system_id", "set_id"));
    }
    run(cx, &["sfdisk", "--change-id", path, &minor, &id])
}

fn system_types(cx: &Exec, _: SystemTypes) -> Result<Value, Error> {
    Ok(types(cx)?.into())
}

/// Returns the system IDs, each with the first word of its name.
fn types(cx: &Exec) -> Result<Map, Error> {
    let lines = run(cx, &["sfdisk", "-T"])?.texts();
    let pair = |line: &String| {
        let mut words = line.split_whitespace().map(Value::from);
        Some((words.next()?, words.next()?))
    };
    let rows = lines.iter().filter(|line| !line.starts_with("Id"));
    Ok(rows.filter_map(pair).collect())
}

fn mkfs(cx: &Exec, args: Mkfs) -> Result<Value, Error> {
    let path = device(&args.device)?;
    one_of(FILE_SYSTEMS, &args.fs_type, "fs_type", "mkfs")?;
    let program = match args.fs_type.as_str() {
        "linux-swap" => "mkswap".to_owned(),
        "NTFS" => "mkfs.ntfs".to_owned(),
        kind => format!("mkfs.{kind}"),
    };
    match which(&program) {
        Some(_) => run(cx, &[&program, path]),
        None => Ok(format!("Error: {program} is unavailable.").into()),
    }
}

fn mklabel(cx: &Exec, args: Mklabel) -> Result<Value, Error> {
    one_of(LABELS, &args.label_type, "label_type", "mklabel")?;
    // The device may also be an image file.
    is_name("device", &args.device)?;
    parted(cx, &[&args.device, "mklabel", &args.label_type])
}

fn mkpart(cx: &Exec, args: Mkpart) -> Result<Value, Error> {
    let path = device(&args.device)?;
    let kind = args.part_type.as_str();
    one_of("primary logical extended", kind, "part_type", "mkpart")?;
    let mut words = vec!["--", path, "mkpart", kind];
    if let Some(file_system) = args.fs_type.as_deref().filter(|name| !name.is_empty()) {
        one_of(FILE_SYSTEMS, file_system, "fs_type", "mkpart")?;
        words.push(file_system);
    }
    let whole = !args.start.is_null() && !args.end.is_null();
    let place = |given: &Value| match given {
        Value::Null => Ok(String::new()),
        given if whole => boundary(given),
        given => Ok(given.to_text()),
    };
    let (start, end) = (place(&args.start)?, place(&args.end)?);
    words.extend([start.as_str(), &end]);
    parted(cx, &words)
}

fn mkpartfs(cx: &Exec, args: Mkpartfs) -> Result<Value, Error> {
    let args = Mkpart {
        device: args.device,
        part_type: args.part_type,
        fs_type: args.fs_type,
        start: args.start,
        end: args.end,
    };
    mkpart(cx, args)
}

fn name(cx: &Exec, args: Name) -> Result<Value, Error> {
    let path = device(&args.device)?;
    let number = number(&args.partition, "partition", "name")?;
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || " _-".contains(sign);
    if !args.name.chars().all(is_plain) {
        return Err(invalid("characters", "name"));
    }
    // parted splits its arguments into words again.
    parted(cx, &[path, "name", &number, &format!("'{}'", args.name)])
}

fn rescue(cx: &Exec, args: Rescue) -> Result<Value, Error> {
    let path = device(&args.device)?;
    let (start, end) = (boundary(&args.start)?, boundary(&args.end)?);
    parted(cx, &[path, "rescue", &start, &end])
}

fn resize(cx: &Exec, args: Resize) -> Result<Value, Error> {
    let path = device(&args.device)?;
    let minor = number(&args.minor, "minor number", "resize")?;
    let (start, end) = (boundary(&args.start)?, boundary(&args.end)?);
    parted(cx, &["--", path, "resize", &minor, &start, &end])
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    let path = device(&args.device)?;
    let minor = number(&args.minor, "minor number", "set")?;
    one_of(FLAGS, &args.flag, "flag", "set")?;
    one_of("on off", &args.state, "state", "set")?;
    parted(cx, &[path, "set", &minor, &args.flag, &args.state])
}

fn toggle(cx: &Exec, args: Toggle) -> Result<Value, Error> {
    let path = device(&args.device)?;
    let number = number(&args.partition, "partition number", "toggle")?;
    one_of(FLAGS, &args.flag, "flag", "toggle")?;
    parted(cx, &[path, "toggle", &number, &args.flag])
}

fn disk_set(cx: &Exec, args: DiskSet) -> Result<Value, Error> {
    let path = device(&args.device)?;
    one_of(DISK_FLAGS, &args.flag, "flag", "disk_set")?;
    one_of("on off", &args.state, "state", "disk_set")?;
    parted(cx, &[path, "disk_set", &args.flag, &args.state])
}

fn disk_toggle(cx: &Exec, args: DiskToggle) -> Result<Value, Error> {
    let path = device(&args.device)?;
    one_of(DISK_FLAGS, &args.flag, "flag", "disk_toggle")?;
    parted(cx, &[path, "disk_toggle", &args.flag])
}

fn exists(_: &Exec, args: Exists) -> Result<Value, Error> {
    Ok(is_device(&args.device).into())
}

fn get_block_device(cx: &Exec, _: GetBlockDevice) -> Result<Value, Error> {
    let words = "lsblk -n -io KNAME -d -e 1,7,11 -l";
    run(cx, &words.split(' ').collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_with_free_room_and_by_cylinders() {
        let text = "BYT;\n/dev/sda:64MB:scsi:512:512:gpt:A Disk:;\n1:1049kB:33MB:32MB:free;\n2:33MB:64MB:31MB:ext4:x:boot, esp;\n";
        let table = read_table(text, None).unwrap();
        let shown = value::python::repr(&table.into());
        assert!(shown.contains("'disk flags': ''"), "{shown}");
        assert!(shown.contains("'1': {'number': '1', 'start': '1049kB', 'end': '33MB', 'size': '32MB'}, '2': {'number': '2'"), "{shown}");
        let chs = "CHS;\n/dev/sda:7,0,0:scsi:512:512:msdos:A Disk;\n8:4:32:65.5kB;\n1:0,0,1:3,9,9:ext2::;\n";
        let table = read_table(chs, Some("chs")).unwrap();
        assert!(value::python::repr(&table.into()).contains("'end': '3,9,9', 'file system'"));
        assert!(read_table("what:\n", None).is_err());
        assert!(read_table(&text.replace(":x:", ":"), None).is_err());
    }

    #[test]
    fn numbers_and_boundaries_are_looked_at() {
        for (given, fits) in [
            ("1", true),
            ("1.5GiB", true),
            ("100%", true),
            ("-1s", false),
            ("x", false),
            ("1 MB", false),
            ("1MBs", false),
        ] {
            assert_eq!(boundary(&given.into()).is_ok(), fits, "{given}");
        }
        assert!(number(&"1; x".into(), "minor number", "rm").is_err());
        assert_eq!(number(&3.into(), "minor number", "rm").unwrap(), "3");
    }
}
