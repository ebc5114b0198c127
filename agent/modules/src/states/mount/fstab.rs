//! `mount.fstab_present` and `mount.fstab_absent`.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::listed;
use crate::exec::mount::Wanted;
use crate::exec::mount::fstab::{self, Entry, Writing};

state::state_module! {
    /// The table of file systems.
    mod mount;

    /// Make sure that an entry is in the table.
    fn fstab_present(FstabPresent {
        /// The device.
        name: String,
        /// The mount point.
        fs_file: String,
        /// The type.
        fs_vfstype: String,
        /// The options.
        fs_mntops: Value = "defaults".into(),
        /// Column five.
        fs_freq: Value = 0.into(),
        /// Column six.
        fs_passno: Value = 0.into(),
        /// What the entry has for the device: `device`, `label`, `uuid`, `partlabel` or `partuuid`.
        mount_by: Option<String> = None,
        /// The table.
        config: String = "/etc/fstab".into(),
        /// Whether a new entry is mounted.
        mount: bool = true,
        /// What tells the entry: `auto`, or names of columns.
        match_on: Value = "auto".into(),
        /// Leave an entry that is there as it is.
        not_change: bool = false,
        /// Of another system only.
        fs_mount: bool = true,
    });

    /// Make sure that an entry is not in the table.
    fn fstab_absent(FstabAbsent {
        /// The device.
        name: String,
        /// The mount point.
        fs_file: String,
        /// What the entry has for the device.
        mount_by: Option<String> = None,
        /// The table.
        config: String = "/etc/fstab".into(),
    });
}

/// The device by another of its names.
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

/// These states return a list of comments, which is one a line.
fn said(lines: &[String]) -> String {
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
    cx.apply(Ret::would(said(&lines)), || {
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
            comment: said(&lines),
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
