//! `mount.fstab_present` and `mount.fstab_absent`.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::listed;
use crate::exec::mount::Wanted;
use crate::exec::mount::fstab::{self, Entry, Writing};

state::state_module! {
    /// Manage the table of file systems and the mounts.
    #[facts(effects = Effects::MoreThanFiles { files_suffice: false })]
    mod mount;

    /// Make sure that an entry is in the table of file systems.
    ///
    ///     /dev/vdb1:
    ///       mount.fstab_present:
    ///         - fs_file: /srv
    ///         - fs_vfstype: ext4
    fn fstab_present(FstabPresent {
        /// The device.
        name: String,
        /// The mount point.
        fs_file: String,
        /// The type of the file system.
        fs_vfstype: String,
        /// The options: a list, or texts separated by commas.
        fs_mntops: Value = "defaults".into(),
        /// The fifth column of the entry: whether dump saves the file system.
        fs_freq: Value = 0.into(),
        /// The sixth column of the entry: the order of file system checks.
        fs_passno: Value = 0.into(),
        /// The form of the device in the entry: `device`, `label`, `uuid`, `partlabel` or
        /// `partuuid`.
        mount_by: Option<String> = None,
        /// The file with the table.
        config: String = "/etc/fstab".into(),
        /// True to mount a new entry.
        mount: bool = true,
        /// The columns that identify the entry: `auto`, or a list of column names.
        match_on: Value = "auto".into(),
        /// True to leave an existing entry unchanged.
        not_change: bool = false,
        /// Accepted but ignored; only another operating system needs it.
        fs_mount: bool = true,
    });

    /// Make sure that an entry is not in the table of file systems.
    ///
    ///     /dev/vdb1:
    ///       mount.fstab_absent:
    ///         - fs_file: /srv
    fn fstab_absent(FstabAbsent {
        /// The device.
        name: String,
        /// The mount point.
        fs_file: String,
        /// The form of the device in the entry, as in `mount.fstab_present`.
        mount_by: Option<String> = None,
        /// The file with the table.
        config: String = "/etc/fstab".into(),
    });
}

/// Returns the device by another of its names, or `None` if it has no such name.
fn converted(cx: &Exec, device: &str, to: Option<&str>) -> Result<Option<String>, Error> {
    let Some(to) = to.filter(|to| !to.is_empty()) else {
        return Ok(Some(device.to_owned()));
    };
    let key = to.to_uppercase();
    if (to == "device" && device.starts_with('/')) || device.starts_with(&format!("{key}=")) {
        return Ok(Some(device.to_owned()));
    }
    let by = if device.starts_with('/') {
        "device"
    } else {
        "token"
    };
    let found = cx.call_internal("disk.blkid", Vec::new(), Map::new().with(by, device))?;
    let found = found
        .as_map()
        .filter(|found| found.len() == 1)
        .and_then(Map::first);
    Ok(found.and_then(|(name, info)| {
        if to == "device" {
            Some(name.to_text())
        } else {
            Some(format!("{key}={}", info.get(&key)?.to_text()))
        }
    }))
}

fn place(path: &str) -> &str {
    if path == "/" {
        path
    } else {
        path.trim_end_matches('/')
    }
}

/// Joins comments to one per line. Salt's states return a list here.
fn join_lines(lines: &[String]) -> String {
    lines.join("\n")
}

fn fstab_present(cx: &Exec, args: FstabPresent) -> Result<Ret, Error> {
    let (name, config, file) = (&args.name, &args.config, place(&args.fs_file));
    let Some(device) = converted(cx, name, args.mount_by.as_deref())? else {
        let by = args.mount_by.unwrap_or_default();
        return Err(format!("Device {name} cannot be converted to {by}").into());
    };
    let entry = Entry::new(
        &listed(file),
        &device,
        &args.fs_vfstype,
        &args.fs_mntops,
        &args.fs_freq,
        &args.fs_passno,
    );
    let mut how = Writing {
        config,
        match_on: &args.match_on,
        not_change: args.not_change,
        test: true,
    };
    let would = fstab::set(cx, &entry, &how)?;
    if would == "present" {
        let word = if cx.test { "is" } else { "was" };
        return Ok(Ret::ok(format!("{file} entry {word} already in {config}.")));
    }
    let verb = if would == "new" { "written" } else { "updated" };
    let mut lines = vec![format!("{file} entry will be {verb} in {config}.")];
    if would == "new" && args.mount {
        lines.push(format!("Will mount {name} on {file}"));
    }
    how.test = false;
    cx.apply(Ret::would(join_lines(&lines)), || {
        let done = fstab::set(cx, &entry, &how)?;
        let verb = if done == "new" { "added" } else { "updated" };
        let mut ret = Ret::ok("").change("persist", done);
        let mut lines = vec![format!("{file} entry {verb} in {config}.")];
        if done == "new" && args.mount {
            let wanted = Wanted {
                name: file,
                device: None,
                mkmnt: false,
                fstype: "",
                opts: Vec::new(),
                user: None,
            };
            lines.push(match wanted.mount(cx)? {
                Ok(()) => format!("Mounted {name} on {file}"),
                Err(text) => {
                    ret.result = Some(false);
                    format!(
                        "Error while mounting {}",
                        text.split_once(':').map_or(text.as_str(), |(_, text)| text)
                    )
                }
            });
        }
        Ok(Ret {
            comment: join_lines(&lines),
            ..ret
        })
    })
}

fn fstab_absent(cx: &Exec, args: FstabAbsent) -> Result<Ret, Error> {
    let (config, file) = (&args.config, place(&args.fs_file));
    let device = converted(cx, &args.name, args.mount_by.as_deref())?;
    let missing = format!("{file} entry is already missing in {config}.");
    if !fstab::entries(config).contains(&listed(file)) {
        return cx.apply(Ret::would(missing.clone()), || Ok(Ret::ok(missing)));
    }
    let would = Ret::would(format!("{file} entry will be removed from {config}."));
    cx.apply(would, || {
        fstab::remove(cx, &listed(file), device.as_deref(), config)?;
        Ok(Ret::ok(format!("{file} entry removed from {config}.")).change("persist", "removed"))
    })
}
