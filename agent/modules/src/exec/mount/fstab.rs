//! Reads and changes the lines of `/etc/fstab`.

use std::path::Path;

use machine::fs::{self, Owner};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{file_text, option_list};

state::exec_module! {
    /// Manage the table of file systems.
    mod mount;

    /// Return the entries of `/etc/fstab` by mount point.
    ///
    ///     salt-call mount.fstab
    fn fstab(Fstab {
        /// The path of the file.
        config: String = "/etc/fstab".into(),
    });

    /// Remove the entries of a mount point.
    ///
    ///     salt-call mount.rm_fstab /srv /dev/vdb1
    fn rm_fstab(RmFstab {
        /// The mount point.
        name: String,
        /// The device. The default is any device.
        device: Option<String>,
        /// The path of the file.
        config: String = "/etc/fstab".into(),
    });

    /// Write an entry. Return `present`, `new` or `change`.
    ///
    ///     salt-call mount.set_fstab /srv /dev/vdb1 ext4
    fn set_fstab(SetFstab {
        /// The mount point.
        name: String,
        /// The device.
        device: String,
        /// The type of the file system.
        fstype: String,
        /// The mount options.
        opts: Value = "defaults".into(),
        /// The value of the dump column.
        dump: Value = 0.into(),
        /// The value of the pass column: the order of file system checks.
        pass_num: Value = 0.into(),
        /// The path of the file.
        config: String = "/etc/fstab".into(),
        /// Whether to report only what would be done.
        test: bool = false,
        /// The columns that identify the entry: `auto`, or names of columns.
        match_on: Value = "auto".into(),
        /// Whether to keep an existing entry unchanged.
        not_change: bool = false,
        ..kwargs
    });
}

const COLUMNS: [&str; 6] = ["device", "name", "fstype", "opts", "dump", "pass_num"];

/// An entry of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry([String; 6]);

impl Entry {
    /// Creates an entry. Spaces in device and options are escaped as in fstab.
    pub(crate) fn new(
        name: &str,
        device: &str,
        fstype: &str,
        opts: &Value,
        dump: &Value,
        pass: &Value,
    ) -> Self {
        let opts = option_list(opts).join(",");
        let escaped = |text: &str| text.replace("\\ ", "\\040");
        Self([
            escaped(device),
            name.to_owned(),
            fstype.to_owned(),
            escaped(&opts),
            dump.to_text(),
            pass.to_text(),
        ])
    }

    fn parse(line: &str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if !(4..=6).contains(&words.len()) {
            return None;
        }
        let word = |at: usize| words.get(at).copied().unwrap_or("0").to_owned();
        Some(Self(std::array::from_fn(word)))
    }

    fn line(&self) -> String {
        let [device, name, fstype, opts, dump, pass] = &self.0;
        format!("{device}\t\t{name}\t{fstype}\t{opts}\t{dump} {pass}\n")
    }

    /// Returns whether these columns are equal. The order of options does not matter.
    fn matches(&self, other: &Self, columns: &[usize]) -> bool {
        let sorted = |text: &str| {
            let mut options: Vec<&str> = text.split(',').collect();
            options.sort_unstable();
            options.join(",")
        };
        columns
            .iter()
            .all(|column| match (self.0.get(*column), other.0.get(*column)) {
                (Some(a), Some(b)) if *column == 3 => sorted(a) == sorted(b),
                (a, b) => a == b,
            })
    }
}

/// Returns the columns that identify an entry.
fn criteria(match_on: &Value, fstype: &str) -> Result<Vec<usize>, Error> {
    // These file systems have no device.
    const SPECIAL: [&str; 14] = [
        "none",
        "tmpfs",
        "sysfs",
        "proc",
        "fusectl",
        "debugfs",
        "securityfs",
        "devtmpfs",
        "cgroup",
        "nfs",
        "nfs4",
        "glusterfs",
        "btrfs",
        "ceph",
    ];
    let names: Vec<String> = match match_on {
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        Value::Str(text) if &**text == "auto" && SPECIAL.contains(&fstype) => vec!["name".into()],
        Value::Str(text) if &**text == "auto" => vec!["device".into()],
        Value::Str(text) => vec![text.to_string()],
        _ => return Err("match_on must be a string or list of strings".into()),
    };
    let column = |name: &String| {
        let found = COLUMNS.iter().position(|column| column == name);
        found.ok_or_else(|| Error::refused(format!("Unrecognized keys in match_on: \"{name}\"")))
    };
    names.iter().map(column).collect()
}

/// Returns the entries by mount point. Further entries of the same mount point get a different key.
pub(crate) fn entries(config: &str) -> Map {
    let mut found = Map::new();
    let text = file_text(config).unwrap_or_default();
    for Entry([device, mut name, fstype, opts, dump, pass]) in text.lines().filter_map(Entry::parse)
    {
        while found.contains(&name) {
            name.push('_');
        }
        let opts: Vec<String> = opts.split(',').map(str::to_owned).collect();
        let entry = Map::new()
            .with("device", device)
            .with("fstype", fstype)
            .with("opts", opts)
            .with("dump", dump)
            .with("pass", pass);
        found.insert(name, entry);
    }
    found
}

fn fstab(_cx: &Exec, args: Fstab) -> Result<Value, Error> {
    Ok(entries(&args.config).into())
}

/// Removes the entries of a mount point.
pub(crate) fn remove(
    cx: &Exec,
    name: &str,
    device: Option<&str>,
    config: &str,
) -> Result<(), Error> {
    let text = fs::text(config)
        .map_err(|error| Error::refused(format!("Couldn't read from {config}: {error}")))?;
    let matches = |line: &&str| {
        Entry::parse(line).is_some_and(|Entry([other, place, ..])| {
            place == name && device.is_none_or(|device| other == device)
        })
    };
    let left: String = text
        .split_inclusive('\n')
        .filter(|line| !matches(line))
        .collect();
    if left == text {
        return Ok(());
    }
    fs::write(cx, Path::new(config), left.as_bytes(), Owner::default())
}

fn rm_fstab(cx: &Exec, args: RmFstab) -> Result<Value, Error> {
    remove(cx, &args.name, args.device.as_deref(), &args.config)?;
    Ok(true.into())
}

/// The options for writing an entry.
pub(crate) struct Writing<'a> {
    pub(crate) config: &'a str,
    pub(crate) match_on: &'a Value,
    pub(crate) not_change: bool,
    pub(crate) test: bool,
}

/// Writes an entry. Returns `present`, `new` or `change`.
pub(crate) fn set(cx: &Exec, entry: &Entry, how: &Writing<'_>) -> Result<&'static str, Error> {
    let Entry([_, _, fstype, ..]) = entry;
    let columns = criteria(how.match_on, fstype)?;
    let text = file_text(how.config)?;
    let (mut done, mut new) = (None, String::new());
    for line in text.split_inclusive('\n') {
        let found = Entry::parse(line).filter(|found| found.matches(entry, &columns));
        match found {
            Some(found) if !how.not_change && !found.matches(entry, &[0, 1, 2, 3, 4, 5]) => {
                done = Some("change");
                new.push_str(&entry.line());
            }
            found => {
                if found.is_some() {
                    done = Some("present");
                }
                new.push_str(line);
            }
        }
    }
    let done = done.unwrap_or_else(|| {
        if !new.is_empty() && !new.ends_with('\n') {
            new.push('\n');
        }
        new.push_str(&entry.line());
        "new"
    });
    if done != "present" && !how.test {
        fs::write(cx, Path::new(how.config), new.as_bytes(), Owner::default())?;
    }
    Ok(done)
}

fn set_fstab(cx: &Exec, args: SetFstab) -> Result<Value, Error> {
    let entry = Entry::new(
        &args.name,
        &args.device,
        &args.fstype,
        &args.opts,
        &args.dump,
        &args.pass_num,
    );
    let how = Writing {
        config: &args.config,
        match_on: &args.match_on,
        not_change: args.not_change,
        test: args.test || cx.test,
    };
    set(cx, &entry, &how).map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_written_changed_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("fstab").display().to_string();
        std::fs::write(&config, "# x\n/dev/a / ext4 b,a 0 1\nshort").unwrap();
        let cx = crate::testing::exec();
        let set = |opts: &str| {
            let entry = Entry::new("/", "/dev/a", "ext4", &opts.into(), &0.into(), &1.into());
            let how = Writing {
                config: &config,
                match_on: &"auto".into(),
                not_change: false,
                test: false,
            };
            set(&cx, &entry, &how).unwrap()
        };
        assert_eq!(set("a,b"), "present");
        assert_eq!(set("ro"), "change");
        let text = || std::fs::read_to_string(&config).unwrap();
        assert_eq!(text(), "# x\n/dev/a\t\t/\text4\tro\t0 1\nshort");
        remove(&cx, "/", None, &config).unwrap();
        assert_eq!(text(), "# x\nshort");
        assert_eq!(set("ro"), "new");
        assert_eq!(text(), "# x\nshort\n/dev/a\t\t/\text4\tro\t0 1\n");
    }
}
