//! The `xfs` execution module: file systems of the type XFS.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::disk::{plain, run};
use super::ps_counters::mounts;

state::exec_module! {
    /// File systems of the type XFS.
    mod xfs;

    /// Return what a file system is like.
    fn info(Info {
        /// The device, or where it is mounted.
        device: String,
    });

    /// Back a file system up, and return what xfsdump says.
    fn dump(Dump {
        /// Where it is mounted, or the device.
        device: String,
        /// The file to write.
        destination: String,
        /// What was backed up at a lower level is left out.
        level: i64 = 0,
        /// The session's label.
        label: Option<String> = None,
        /// Whether the medium is not erased first.
        noerase: Option<bool> = None,
    });

    /// Return which sessions of xfsdump there are.
    fn inventory(Inventory {});

    /// Remove a session of xfsdump from the inventory, and return it.
    fn prune_dump(PruneDump {
        /// The session's id.
        sessionid: String,
    });

    /// Return the devices with such a file system.
    fn devices(Devices {});

    /// Return how much space a folder would need in such a file system.
    fn estimate(Estimate {
        /// The folder.
        path: String,
    });

    /// Make a file system, and return what it is like.
    fn mkfs(Mkfs {
        /// The device.
        device: String,
        /// Its label.
        label: Option<String> = None,
        /// The size of sectors.
        ssize: Option<String> = None,
        /// Whether one that is there stays.
        noforce: Option<bool> = None,
        /// Options of blocks.
        bso: Option<String> = None,
        /// Options of metadata.
        gmo: Option<String> = None,
        /// Options of inodes.
        ino: Option<String> = None,
        /// Options of the log.
        lso: Option<String> = None,
        /// Options of the realtime section.
        rso: Option<String> = None,
        /// Options of names.
        nmo: Option<String> = None,
        /// Options of data.
        dso: Option<String> = None,
    });

    /// Change a file system that is not mounted, and return what is known of it.
    fn modify(Modify {
        /// The device.
        device: String,
        /// Its label.
        label: Option<String> = None,
        /// Whether its counters are written later.
        lazy_counting: Option<bool> = None,
        /// True for a new UUID, False for none.
        uuid: Option<bool> = None,
    });

    /// Bring the pieces of files together, and return what xfs_fsr says.
    fn defragment(Defragment {
        /// The device, which is mounted.
        device: String,
    });
}

fn said(cx: &Exec, words: &[&str]) -> Result<String, Error> {
    let done = run(cx, words)?;
    match done.success() {
        true => Ok(done.stdout),
        false if done.stderr.is_empty() => Err(done.stdout.into()),
        false => Err(done.stderr.into()),
    }
}

/// `isize=512 agsize=65536 blks` as pairs: values have spaces. A section without a value of its own has none.
fn pairs(line: &str) -> Vec<(String, String)> {
    let line = line.strip_prefix('=').unwrap_or(line).trim();
    let line = line.replace(" = ", "= ").replace(" =", "=");
    let mut pairs: Vec<(String, String)> = Vec::new();
    for word in line.split(' ') {
        match (word.split_once('='), pairs.last_mut()) {
            (Some((key, value)), _) => pairs.push((key.to_owned(), value.to_owned())),
            (None, Some((_, value))) => *value = format!("{value} {word}"),
            (None, None) => {}
        }
    }
    pairs
}

/// What xfs_info and mkfs.xfs say: sections with their pairs, on several lines.
fn sections(text: &str) -> Map {
    let mut found = Map::new();
    let mut current: Option<(String, Map)> = None;
    for line in text.lines().filter(|line| line.contains('=')) {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = line.replace(", ", " ");
        let mut pairs = pairs(&line).into_iter();
        if !line.starts_with('=')
            && let Some((name, value)) = pairs.next()
        {
            found.extend(current.take());
            let section = if value.is_empty() {
                name.clone()
            } else {
                value
            };
            current = Some((name, Map::new().with("section", section)));
        }
        if let Some((_, section)) = &mut current {
            section.extend(pairs.map(|(key, value)| (Value::from(key), Value::from(value))));
        }
    }
    found.extend(current);
    found
}

fn info(cx: &Exec, args: Info) -> Result<Value, Error> {
    let done = run(cx, &["xfs_info", plain(&args.device)?])?;
    match done.stderr.is_empty() && done.success() {
        true => Ok(sections(&done.stdout).into()),
        false => Err(done.stderr.replace("xfs_info:", "").trim().into()),
    }
}

/// What xfsdump says of itself at the ends of its lines.
fn dumped(text: &str) -> Map {
    const NAMED: [(&str, &str); 5] = [
        ("session id:", "Session ID"),
        ("session label:", "Session label"),
        ("media file size", "Media size"),
        ("dump complete:", "Dump complete"),
        ("Dump Status:", "Status"),
    ];
    let (mut found, mut summary, mut in_summary) = (Map::new(), Vec::new(), false);
    for line in text.lines().map(str::trim) {
        let line = line.strip_prefix("xfsdump: ").unwrap_or(line);
        let named = NAMED
            .iter()
            .find_map(|(start, name)| Some((*name, line.strip_prefix(start)?)));
        if let Some((name, value)) = named {
            found.insert(name, value.trim());
        } else if line.starts_with("Dump Summary:") {
            in_summary = true;
            continue;
        }
        in_summary &= line.starts_with(' ');
        summary.extend(in_summary.then(|| line.trim()));
    }
    if !summary.is_empty() {
        found.insert("Summary", summary.join(" "));
    }
    found
}

fn dump(cx: &Exec, args: Dump) -> Result<Value, Error> {
    let device = plain(&args.device)?;
    let label = args
        .label
        .filter(|label| !label.is_empty())
        .unwrap_or_else(|| {
            let now = jiff::Zoned::now().strftime("%Y.%m.%d, %H:%M");
            format!("XFS dump for \"{device}\" of {now}")
        });
    let level = args.level.to_string();
    let mut words = vec!["xfsdump", "-F"];
    words.extend((args.noerase != Some(true)).then_some("-E"));
    words.extend(["-L", &label, "-l", &level, "-f", &args.destination, device]);
    Ok(dumped(&said(cx, &words)?).into())
}

/// Lines with tabs before them, as dictionaries in each other; how many lines were read.
fn nested(lines: &[&str], depth: usize) -> (Map, usize) {
    let (mut found, mut at) = (Map::new(), 0);
    while let Some(line) = lines.get(at) {
        let tabs = line.len() - line.trim_start_matches('\t').len();
        if tabs < depth {
            break;
        }
        at += 1;
        let line = line.trim();
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        if value.trim().is_empty() {
            let (inside, read) = nested(lines.get(at..).unwrap_or_default(), tabs + 1);
            found.insert(key, inside);
            at += read;
        } else {
            found.insert(key, value.trim());
        }
    }
    (found, at)
}

/// What `xfsrestore -I` says: the inventory, and how it went.
fn inventory_of(text: &str) -> Map {
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let Some((status, lines)) = lines.split_last() else {
        return Map::new();
    };
    nested(lines, 0).0.with("restore_status", *status)
}

fn inventory(cx: &Exec, _args: Inventory) -> Result<Value, Error> {
    Ok(inventory_of(&said(cx, &["xfsrestore", "-I"])?).into())
}

/// The session that xfsinvutil shows between two lines of hyphens.
fn pruned(text: &str) -> Map {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let block = lines.skip_while(|line| !line.starts_with('-')).skip(1);
    let block = block.take_while(|line| !line.starts_with('-')).skip(1);
    let pair = |line: &str| {
        let (key, value) = line.split_once(':')?;
        Some((
            key.trim().to_lowercase().replace(' ', "_"),
            value.trim().to_owned(),
        ))
    };
    block.filter_map(pair).collect()
}

fn prune_dump(cx: &Exec, args: PruneDump) -> Result<Value, Error> {
    let id = args.sessionid;
    let session = pruned(&said(cx, &["xfsinvutil", "-s", plain(&id)?, "-F"])?);
    match session.get("uuid").and_then(Value::as_str) == Some(id.as_str()) {
        true => Ok(session.into()),
        false => Err(format!("Session UUID \"{id}\" was not found.").into()),
    }
}

/// Where file systems of this type are mounted, and how.
fn mounted() -> Result<Map, Error> {
    let all = mounts()?
        .into_iter()
        .filter(|[.., fstype, _]| fstype == "xfs");
    let entry = |[device, place, _, options]: [String; 4]| {
        let options = Value::list(options.split(',').map(Value::from));
        let mount = Map::new()
            .with("mount_point", place)
            .with("options", options);
        (device, mount)
    };
    Ok(all.map(entry).collect())
}

/// What blkid exports: of the devices with such a file system, with where they are mounted.
fn exported(text: &str) -> Result<Map, Error> {
    let mounted = mounted()?;
    let mut found = Map::new();
    for block in text.split("\n\n") {
        let pair = |line: &str| {
            let (key, value) = line.split_once('=')?;
            Some((key.to_lowercase(), value.to_owned()))
        };
        let mut device: Map = block.lines().filter_map(pair).collect();
        let kind = device.remove("type");
        let name = device.remove("devname");
        if let (Some("xfs"), Some(name)) = (kind.as_ref().and_then(Value::as_str), name) {
            device.entry("label", || Value::Null);
            let mount = mounted.get_value(&name).and_then(Value::as_map);
            device.update(mount.cloned().unwrap_or_default());
            found.insert(name, device);
        }
    }
    Ok(found)
}

fn devices(cx: &Exec, _args: Devices) -> Result<Value, Error> {
    Ok(exported(&said(cx, &["blkid", "-o", "export"])?)?.into())
}

fn estimate(cx: &Exec, args: Estimate) -> Result<Value, Error> {
    let path = plain(&args.path)?;
    if !crate::ospath::exists(path) {
        return Err(format!("Path \"{path}\" was not found.").into());
    }
    let out = said(cx, &["xfs_estimate", "-v", path])?;
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let folder = words.next()?;
        // The first name is Salt's.
        let names = ["block _size", "blocks", "megabytes", "logsize"];
        Some((
            folder.to_owned(),
            names.into_iter().zip(words).collect::<Map>(),
        ))
    };
    let lines = out.lines().filter(|line| !line.trim().is_empty()).skip(1);
    Ok(lines.filter_map(entry).collect())
}

fn mkfs(cx: &Exec, args: Mkfs) -> Result<Value, Error> {
    let mut words = vec!["mkfs.xfs"];
    for (letter, value) in [("-L", &args.label), ("-s", &args.ssize)] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty()) {
            words.extend([letter, value]);
        }
    }
    for (letter, value) in [
        ("-b", &args.bso),
        ("-m", &args.gmo),
        ("-n", &args.nmo),
        ("-i", &args.ino),
        ("-d", &args.dso),
        ("-l", &args.lso),
        ("-r", &args.rso),
    ] {
        let Some(value) = value.as_deref().filter(|value| !value.is_empty()) else {
            continue;
        };
        if !value.split(',').all(|pair| pair.matches('=').count() == 1) {
            return Err(format!("Wrong parameters \"{value}\" for option \"{letter}\"").into());
        }
        words.extend([letter, value]);
    }
    words.extend((args.noforce != Some(true)).then_some("-f"));
    words.push(plain(&args.device)?);
    Ok(sections(&said(cx, &words)?).into())
}

fn modify(cx: &Exec, args: Modify) -> Result<Value, Error> {
    let device = plain(&args.device)?;
    let label = args.label.as_deref().filter(|label| !label.is_empty());
    let lazy = args.lazy_counting.map(|on| if on { "1" } else { "0" });
    let uuid = args.uuid.map(|new| if new { "generate" } else { "nil" });
    let mut words = vec!["xfs_admin"];
    for (letter, value) in [("-L", label), ("-c", lazy), ("-U", uuid)] {
        words.extend(value.map(|value| [letter, value]).into_iter().flatten());
    }
    if words.len() == 1 {
        return Err(format!("Nothing specified for modification for \"{device}\" device").into());
    }
    words.push(device);
    said(cx, &words)?;
    Ok(exported(&said(cx, &["blkid", "-o", "export", device])?)?.into())
}

fn defragment(cx: &Exec, args: Defragment) -> Result<Value, Error> {
    let device = plain(&args.device)?;
    if device == "/" {
        return Err("Root is not a device.".into());
    }
    if !mounted()?.contains(device) {
        return Err(format!("Device \"{device}\" is not mounted").into());
    }
    Ok(Map::new()
        .with("log", said(cx, &["xfs_fsr", device])?)
        .into())
}
