//! The `mount` state module.

pub(crate) mod fstab;
mod mounted;
mod options;

use machine::fs;
use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::mount::{self, Wanted, option_list};

use mounted::mounted;

state::state_module! {
    /// Manage mounted file systems.
    #[facts(effects = Effects::MoreThanFiles { files_suffice: false })]
    mod mount;

    /// Make sure that a file system is mounted, and in `/etc/fstab`.
    ///
    ///     /srv:
    ///       mount.mounted:
    ///         - device: /dev/vdb1
    ///         - fstype: ext4
    ///         - mkmnt: True
    fn mounted(Mounted {
        /// The mount point.
        name: String,
        /// The device, `UUID=…`, `LABEL=…`, or a source in the form that the type of the file
        /// system requires.
        device: String,
        /// The type of the file system.
        fstype: String,
        /// True to create the folder.
        mkmnt: bool = false,
        /// The options: a list, or texts separated by commas.
        opts: Value = "defaults".into(),
        /// The fifth column of the entry in fstab.
        dump: Value = 0.into(),
        /// The sixth column of the entry in fstab.
        pass_num: Value = 0.into(),
        /// The file with the table of file systems.
        config: String = "/etc/fstab".into(),
        /// True to write the entry to the table.
        persist: bool = true,
        /// True to mount it now.
        mount: bool = true,
        /// The user who owns a new folder and runs mount.
        user: Option<String> = None,
        /// The columns that identify the entry of the table: `auto`, or a list of column names.
        match_on: Value = "auto".into(),
        /// Regular expressions for other devices that are accepted as well.
        device_name_regex: Option<Vec<String>> = None,
        /// Options that the kernel does not show for a mounted file system.
        extra_mount_invisible_options: Option<Vec<String>> = None,
        /// Names of options with a value that the kernel does not show for a mounted file system.
        extra_mount_invisible_keys: Option<Vec<String>> = None,
        /// For each type of file system, the options that are not compared, so that they cause no
        /// remount.
        extra_mount_ignore_fs_keys: Option<Map> = None,
        /// Options that the kernel shows under another name, with that name.
        extra_mount_translate_options: Option<Map> = None,
        /// Options that cause no remount.
        hidden_opts: Value = Value::Null,
        /// True if a bind mount uses the options of the file system that it shows.
        bind_mount_copy_active_opts: bool = true,
        ..kwargs
    });

    /// Make sure that a device or a file is used as swap space.
    ///
    ///     /swapfile:
    ///       mount.swap
    fn swap(Swap {
        /// The device or file.
        name: String,
        /// True to write the entry to the table.
        persist: bool = true,
        /// The file with the table of file systems.
        config: String = "/etc/fstab".into(),
    });

    /// Make sure that nothing is mounted at a mount point.
    ///
    ///     /srv:
    ///       mount.unmounted:
    ///         - persist: True
    fn unmounted(Unmounted {
        /// The mount point.
        name: String,
        /// The device.
        device: Option<String> = None,
        /// The file with the table of file systems.
        config: String = "/etc/fstab".into(),
        /// True to remove the entry from the table.
        persist: bool = false,
        /// The user who runs umount.
        user: Option<String> = None,
        ..kwargs
    });

    /// Mount the file system again because a watched state changed something.
    ///
    ///     /srv:
    ///       mount.mounted:
    ///         - device: /dev/vdb1
    ///         - fstype: ext4
    ///         - watch:
    ///           - file: /etc/app.conf
    fn mod_watch(ModWatch {
        /// The mount point.
        name: String,
        /// The user who runs mount.
        user: Option<String> = None,
        ..kwargs
    });
}

/// Returns a path in the notation of the kernel's lists.
fn listed(path: &str) -> String {
    path.replace(' ', "\\040")
}

/// Adds the result of writing the table to the comment and the changes.
fn persisted(ret: Ret, done: &str) -> Ret {
    let Ret { comment, .. } = &ret;
    let (text, change) = match done {
        "present" => (". Entry already exists in the fstab.", None),
        "new" => (". Added new entry to the fstab.", Some("new")),
        _ => (". Updated the entry in the fstab.", Some("update")),
    };
    let ret = Ret {
        comment: format!("{comment}{text}"),
        ..ret
    };
    match change {
        Some(change) => ret.change("persist", change),
        None => ret,
    }
}

/// Returns the device that a link points to.
fn real_swap(name: &str) -> Result<String, Error> {
    let Some(target) = fs::link_target_or_none(name)? else {
        return Ok(name.to_owned());
    };
    let target = target.to_string_lossy().into_owned();
    Ok(if target.starts_with('/') {
        target
    } else {
        format!("/dev/{}", path::basename(&target))
    })
}

fn swap(cx: &Exec, args: Swap) -> Result<Ret, Error> {
    let name = &args.name;
    let device = real_swap(name)?;
    let used = mount::swap_spaces().contains(&device);
    let table = mount::fstab::entries(&args.config);
    let in_table = table.contains(name)
        || table
            .values()
            .any(|entry| entry.get("device") == Some(&name.as_str().into()));
    let active = Ret::ok(format!("Swap {name} already active"));
    if cx.test {
        let would = match (used, args.persist && !in_table) {
            (true, true) => {
                format!("Swap {name} is set to be added to the fstab and to be activated")
            }
            (true, false) => return Ok(active),
            (false, _) => format!("Swap {name} is set to be activated"),
        };
        return cx.apply(Ret::would(would), || Ok(Ret::default()));
    }
    cx.apply(Ret::default(), || {
        let mut ret = active;
        if !used {
            let said = mount::use_swap(cx, &device, None)?;
            ret = match (mount::swap_spaces().remove(&device), said) {
                (Some(stats), _) => Ret::ok(format!("Swap {name} activated")).changes(stats),
                (None, Err(said)) if !said.is_empty() => {
                    Ret::failed(format!("Swap {name} failed to activate: {said}"))
                }
                (None, _) => Ret::failed(format!("Swap {name} failed to activate")),
            };
        }
        // Unlike here, Salt adds a swap space to the table that it could not activate. The next
        // start of the machine would wait for it.
        if !args.persist || ret.result != Some(true) {
            return Ok(ret);
        }
        let entry = mount::fstab::Entry::new(
            "none",
            name,
            "swap",
            &"defaults".into(),
            &0.into(),
            &0.into(),
        );
        let how = mount::fstab::Writing {
            config: &args.config,
            match_on: &"device".into(),
            not_change: false,
            test: false,
        };
        Ok(match mount::fstab::set(cx, &entry, &how)? {
            "present" => ret,
            done => persisted(ret, done),
        })
    })
}

fn unmounted(cx: &Exec, args: Unmounted) -> Result<Ret, Error> {
    let name = &args.name;
    if name.is_empty() {
        return Err("Must provide name to mount.unmounted".into());
    }
    let mut ret = Ret::ok("Target was already unmounted");
    if mount::extended(cx)?.contains(&listed(name)) {
        let would = Ret::would(format!("Mount point {name} is mounted but should not be"));
        ret = cx.apply(would, || {
            let done = mount::unmount(
                cx,
                &listed(name),
                args.device.as_deref(),
                args.user.as_deref(),
                false,
            )?;
            mount::forget(cx, name)?;
            Ok(match done {
                Ok(()) => Ret::ok("Target was successfully unmounted").change("umount", true),
                Err(said) => Ret::failed(said),
            })
        })?;
        if cx.test {
            return Ok(ret);
        }
    }
    if args.persist {
        purged(cx, &args, ret)
    } else {
        Ok(ret)
    }
}

/// Removes the entry from the table.
fn purged(cx: &Exec, args: &Unmounted, mut ret: Ret) -> Result<Ret, Error> {
    let (name, config) = (&args.name, &args.config);
    let table = mount::fstab::entries(config);
    let Some(entry) = table.get(name).or_else(|| table.get(&listed(name))) else {
        ret.comment.push_str(". fstab entry not found");
        return Ok(ret);
    };
    if let Some(device) = args
        .device
        .as_deref()
        .filter(|device| entry.get("device") != Some(&(*device).into()))
    {
        ret.comment
            .push_str(&format!(". fstab entry for device {device} not found"));
        return Ok(ret);
    }
    let would = Ret::would(format!(
        "Mount point {name} is unmounted but needs to be purged from {config} to be made persistent"
    ));
    cx.apply(would, || {
        Ok(
            match mount::fstab::remove(cx, &listed(name), args.device.as_deref(), config) {
                Ok(()) => {
                    ret.comment.push_str(". Removed target from fstab");
                    ret.change("persist", "purged")
                }
                Err(error) => {
                    Ret::failed(format!("{}. Failed to persist purge: {error}", ret.comment))
                }
            },
        )
    })
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let text = |key: &str| args.kwargs.get(key).map(Value::to_text).unwrap_or_default();
    if text("sfun") != "mounted" {
        return Ok(Ret::ok(format!(
            "Watch not supported in {} at this time",
            text("sfun")
        )));
    }
    let (device, fstype) = (text("device"), text("fstype"));
    let wanted = Wanted {
        name: &args.name,
        device: Some(&device),
        mkmnt: false,
        fstype: &fstype,
        opts: args
            .kwargs
            .get("opts")
            .map_or_else(|| vec!["defaults".to_owned()], option_list),
        user: args.user.as_deref(),
    };
    let would = Ret::would(format!("{} would be remounted", args.name));
    cx.apply(would, || {
        Ok(match wanted.remount(cx)? {
            Ok(()) => Ret::ok(format!("{} remounted", args.name)),
            Err(said) => Ret::failed(format!("{} failed to remount: {said}", args.name)),
        })
    })
}
