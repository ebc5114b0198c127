//! The `extfs` execution module: ext2, ext3 and ext4 file systems.

use machine::process::Output;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::disk::{plain, run};

state::exec_module! {
    /// Manage ext2, ext3 and ext4 file systems.
    mod extfs;

    /// Create a file system, and return the output of mke2fs. Further arguments set its options by
    /// name: `block_size`, `label`, `uuid`, `inode_size` and so on.
    ///
    ///     salt-call extfs.mkfs /dev/vdb1 ext4 label=data
    fn mkfs(Mkfs {
        /// The path of the device.
        device: String,
        /// The type of the file system: `ext2`, `ext3` or `ext4`.
        fs_type: String,
        /// True to return the full result of the program.
        full_return: bool = false,
        ..kwargs
    });

    /// Change a file system, and return the output of tune2fs. Further arguments set its options by
    /// name: `label`, `reserved`, `max`, `uuid` and so on.
    ///
    ///     salt-call extfs.tune /dev/vdb1 label=data
    fn tune(Tune {
        /// The path of the device.
        device: String,
        /// True to return the full result of the program.
        full_return: bool = false,
        ..kwargs
    });

    /// Return the attributes of a file system.
    ///
    ///     salt-call extfs.attributes /dev/vdb1
    fn attributes(Attributes {
        /// The path of the device.
        device: String,
        /// The option letters for dumpe2fs.
        args: Option<String> = None,
    });

    /// Return the block groups of a file system.
    ///
    ///     salt-call extfs.blocks /dev/vdb1
    fn blocks(Blocks {
        /// The path of the device.
        device: String,
        /// The option letters for dumpe2fs.
        args: Option<String> = None,
    });

    /// Return the attributes and the block groups of a file system.
    ///
    ///     salt-call extfs.dump /dev/vdb1
    fn dump(Dump {
        /// The path of the device.
        device: String,
        /// The option letters for dumpe2fs.
        args: Option<String> = None,
    });
}

/// The names of arguments, each with the option of the program.
type Letters = [(&'static str, &'static str)];

const OF_MKFS: &Letters = &[
    ("block_size", "-b"),
    ("check", "-c"),
    ("direct", "-D"),
    ("ext_opts", "-E"),
    ("fragment_size", "-f"),
    ("force", "-F"),
    ("blocks_per_group", "-g"),
    ("number_of_groups", "-G"),
    ("bytes_per_inode", "-i"),
    ("inode_size", "-I"),
    ("journal", "-j"),
    ("journal_opts", "-J"),
    ("blocks_file", "-l"),
    ("label", "-L"),
    ("reserved", "-m"),
    ("last_dir", "-M"),
    ("test", "-n"),
    ("number_of_inodes", "-N"),
    ("creator_os", "-o"),
    ("opts", "-O"),
    ("revision", "-r"),
    ("super", "-S"),
    ("usage_type", "-T"),
    ("uuid", "-U"),
    ("cluster_size", "-C"),
    ("root_directory", "-d"),
    ("errors_behavior", "-e"),
];

const OF_TUNE: &Letters = &[
    ("max", "-c"),
    ("count", "-C"),
    ("error", "-e"),
    ("extended_opts", "-E"),
    ("force", "-f"),
    ("group", "-g"),
    ("interval", "-i"),
    ("journal", "-j"),
    ("journal_opts", "-J"),
    ("label", "-L"),
    ("last_dir", "-M"),
    ("opts", "-o"),
    ("feature", "-O"),
    ("mmp_check", "-p"),
    ("reserved", "-r"),
    ("reserved_percentage", "-m"),
    ("quota_opts", "-Q"),
    ("time", "-T"),
    ("user", "-u"),
    ("uuid", "-U"),
];

/// Runs a program with the options that the arguments stand for. Unknown arguments are ignored. The
/// value True sets an option without a value.
fn done(
    cx: &Exec,
    first: &[&str],
    kwargs: &Map,
    letters: &Letters,
    device: &str,
) -> Result<Output, Error> {
    let mut words: Vec<String> = first.iter().map(|word| (*word).to_owned()).collect();
    for (key, value) in kwargs {
        let (key, value) = (key.to_text(), value.to_text());
        let letter = letters.iter().find(|(name, _)| *name == key);
        match (letter, value.to_lowercase().as_str()) {
            (None, _) | (_, "false" | "none") => {}
            (Some((_, letter)), "true") => words.push((*letter).to_owned()),
            (Some((_, letter)), _) => words.extend([(*letter).to_owned(), value]),
        }
    }
    words.push(plain(device)?.to_owned());
    run(cx, &words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the output of a program without the lines that report its progress. With `full_return`,
/// returns the full result.
fn without_progress(done: Output, full_return: bool, progress: &[&str]) -> Result<Value, Error> {
    if !done.success() && !full_return {
        return Err(done.stderr.into());
    }
    let lines = done.stdout_regardless().lines().chain(done.stderr.lines());
    let told = |line: &&str| {
        let is_told = progress.is_empty() || !line.is_empty();
        is_told && !progress.iter().any(|start| line.starts_with(start))
    };
    let lines = Value::list(lines.filter(told).map(Value::from));
    Ok(match full_return {
        true => done.to_map().with("comment", lines).into(),
        false => lines,
    })
}

fn mkfs(cx: &Exec, args: Mkfs) -> Result<Value, Error> {
    let first = ["mke2fs", "-F", "-t", &args.fs_type];
    let done = done(cx, &first, &args.kwargs, OF_MKFS, &args.device)?;
    let progress = [
        "mke2fs",
        "Discarding device blocks",
        "Allocating group tables",
        "Writing inode tables",
        "Creating journal",
        "Writing superblocks",
    ];
    without_progress(done, args.full_return, &progress)
}

fn tune(cx: &Exec, args: Tune) -> Result<Value, Error> {
    let done = done(cx, &["tune2fs"], &args.kwargs, OF_TUNE, &args.device)?;
    without_progress(done, args.full_return, &[])
}

/// Parses the output of dumpe2fs into the attributes of the file system and its block groups.
fn parsed(text: &str) -> (Map, Map) {
    let (mut attributes, mut blocks) = (Map::new(), Map::new());
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("dumpe2fs"));
    let mut group: Option<(String, Map)> = None;
    for line in lines {
        let starts = line.starts_with("Group ") && !line.starts_with("Group descriptor size");
        if starts {
            blocks.extend(group.take());
            group = header(line);
        } else if let Some((_, group)) = &mut group {
            described(group, line);
        } else if let Some((name, value)) = line.replace('\t', " ").split_once(": ") {
            let value = value.split(": ").next().unwrap_or_default().trim();
            attributes.insert(
                name,
                match name {
                    "Filesystem features" => Value::list(value.split_whitespace().map(Value::from)),
                    _ => value.into(),
                },
            );
        }
    }
    blocks.extend(group);
    (attributes, blocks)
}

/// Parses a line such as `Group 0: (Blocks 1-8192) …`.
fn header(line: &str) -> Option<(String, Map)> {
    let line = line.replace([':', '(', ')', '[', ']'], "");
    let mut words = line.split_whitespace().skip(1);
    let number = words.next()?;
    let group = Map::new()
        .with("group", number)
        .with("range", words.nth(1)?)
        .with("extra", Value::list([]));
    Some((format!("Group {number}"), group))
}

/// Adds another line to a group.
fn described(group: &mut Map, line: &str) {
    let line = line.trim_start();
    for (start, name) in [
        ("Free blocks:", "free blocks"),
        ("Free inodes:", "free inodes"),
    ] {
        if let Some(ranges) = line.strip_prefix(start) {
            let ranges = ranges.strip_prefix(' ').unwrap_or(ranges).split(", ");
            group.insert(name, Value::list(ranges.map(Value::from)));
            return;
        }
    }
    if let Some(extra) = group.get_mut("extra").and_then(Value::as_list_mut) {
        extra.push(line.trim_end().into());
    }
}

fn dumped(cx: &Exec, device: &str, args: Option<String>) -> Result<(Map, Map), Error> {
    let letters = args
        .filter(|args| !args.is_empty())
        .map(|args| format!("-{args}"));
    let words = ["dumpe2fs", plain(device)?]
        .into_iter()
        .chain(letters.as_deref());
    let done = run(cx, &words.collect::<Vec<_>>())?;
    match done.into_success() {
        Ok(stdout) => Ok(parsed(&stdout)),
        Err(failed) => Err(failed.stderr.into()),
    }
}

fn attributes(cx: &Exec, args: Attributes) -> Result<Value, Error> {
    Ok(dumped(cx, &args.device, args.args)?.0.into())
}

fn blocks(cx: &Exec, args: Blocks) -> Result<Value, Error> {
    Ok(dumped(cx, &args.device, args.args)?.1.into())
}

fn dump(cx: &Exec, args: Dump) -> Result<Value, Error> {
    let (attributes, blocks) = dumped(cx, &args.device, args.args)?;
    Ok(Map::new()
        .with("attributes", attributes)
        .with("blocks", blocks)
        .into())
}
