//! The `lvm` state module.

use ::python::path::realpath;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::lvm::{devices, groups, logical, physical, real};

state::state_module! {
    /// Manage logical volumes (LVM2).
    #[needs("lvm", "lvm command not found", "lvm2")]
    #[facts(free_arguments = true)]
    mod lvm;

    /// Make sure that a device is a physical volume.
    ///
    ///     /dev/vdb:
    ///       lvm.pv_present
    fn pv_present(PvPresent {
        /// The device.
        name: String,
        ..kwargs
    });

    /// Make sure that a device is not a physical volume.
    ///
    ///     /dev/vdb:
    ///       lvm.pv_absent
    fn pv_absent(PvAbsent {
        /// The device.
        name: String,
    });

    /// Make sure that a volume group exists and contains the given devices.
    ///
    ///     data:
    ///       lvm.vg_present:
    ///         - devices: [/dev/vdb]
    fn vg_present(VgPresent {
        /// The name of the volume group.
        name: String,
        /// The devices of the volume group.
        devices: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a volume group does not exist.
    ///
    ///     data:
    ///       lvm.vg_absent
    fn vg_absent(VgAbsent {
        /// The name of the volume group.
        name: String,
    });

    /// Make sure that a logical volume exists and has the given size.
    ///
    ///     shop:
    ///       lvm.lv_present:
    ///         - vgname: data
    ///         - size: 10G
    fn lv_present(LvPresent {
        /// The name of the volume. For a snapshot, the name of the original volume.
        name: String,
        /// The volume group.
        vgname: Option<String> = None,
        /// The size in megabytes, or with one of the letters S, M, G, T and P.
        size: Value = Value::Null,
        /// The size in extents, or in a form such as `50%FREE`.
        extents: Value = Value::Null,
        /// The name of the snapshot, to create one.
        snapshot: Option<String> = None,
        /// The physical volume to allocate from.
        pv: String = String::new(),
        /// True for a thin volume.
        thinvolume: bool = false,
        /// True for a pool for thin volumes.
        thinpool: bool = false,
        /// True to allow that the volume shrinks, and to answer questions with yes.
        force: bool = false,
        /// True to resize the file system with the volume.
        resizefs: bool = false,
        ..kwargs
    });

    /// Make sure that a logical volume does not exist.
    ///
    ///     shop:
    ///       lvm.lv_absent:
    ///         - vgname: data
    fn lv_absent(LvAbsent {
        /// The name of the volume.
        name: String,
        /// The volume group.
        vgname: Option<String> = None,
    });
}

/// Calls a function of the execution module that makes a change.
fn call(cx: &Exec, function: &str, names: &[&str], kwargs: Map) -> Result<Value, Error> {
    let names = names.iter().map(|name| Value::from(*name)).collect();
    cx.call_internal(&format!("lvm.{function}"), names, kwargs)
}

fn pv_present(cx: &Exec, args: PvPresent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    if !physical(cx, name, true)?.is_empty() {
        return Ok(Ret::ok(format!("Physical Volume {name} already present")));
    }
    let would = Ret::would(format!("Physical Volume {name} is set to be created"));
    cx.apply(would, || {
        let changes = call(cx, "pvcreate", &[name], args.kwargs)?;
        Ok(match physical(cx, name, false)?.is_empty() {
            true => Ret::failed(format!("Failed to create Physical Volume {name}")),
            false => Ret::ok(format!("Created Physical Volume {name}")).change("created", changes),
        })
    })
}

/// A volume or group that must not exist.
struct Gone<'a> {
    /// The description of the object for comments.
    title: String,
    /// The comment if the object does not exist.
    absent: &'a str,
    there: &'a dyn Fn() -> Result<bool, Error>,
    function: &'a str,
    names: &'a [&'a str],
}

impl Gone<'_> {
    fn apply(self, cx: &Exec) -> Result<Ret, Error> {
        let title = &self.title;
        if !(self.there)()? {
            return Ok(Ret::ok(format!("{title} {}", self.absent)));
        }
        let would = Ret::would(format!("{title} is set to be removed"));
        cx.apply(would, || {
            let changes = call(cx, self.function, self.names, Map::new())?;
            Ok(match (self.there)()? {
                true => Ret::failed(format!("Failed to remove {title}")),
                false => Ret::ok(format!("Removed {title}")).change("removed", changes),
            })
        })
    }
}

fn pv_absent(cx: &Exec, args: PvAbsent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let gone = Gone {
        title: format!("Physical Volume {name}"),
        absent: "does not exist",
        there: &|| Ok(!physical(cx, name, true)?.is_empty()),
        function: "pvremove",
        names: &[name],
    };
    gone.apply(cx)
}

fn vg_absent(cx: &Exec, args: VgAbsent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let gone = Gone {
        title: format!("Volume Group {name}"),
        absent: "already absent",
        there: &|| Ok(!groups(cx, name, true)?.is_empty()),
        function: "vgremove",
        names: &[name],
    };
    gone.apply(cx)
}

fn lv_absent(cx: &Exec, args: LvAbsent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let group = args.vgname.as_deref().unwrap_or("None");
    let path = format!("/dev/{group}/{name}");
    let gone = Gone {
        title: format!("Logical Volume {name}"),
        absent: "already absent",
        there: &|| Ok(!logical(cx, &path, true)?.is_empty()),
        function: "lvremove",
        names: &[name, group],
    };
    gone.apply(cx)
}

fn vg_present(cx: &Exec, args: VgPresent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let all = devices(&args.devices);
    if !groups(cx, name, true)?.is_empty() {
        return extended(cx, name, &all);
    }
    let would = Ret::would(format!("Volume Group {name} is set to be created"));
    cx.apply(would, || {
        let given = vec![name.into(), Value::list(all.into_iter().map(Value::from))];
        let changes = cx.call_internal("lvm.vgcreate", given, args.kwargs)?;
        Ok(match groups(cx, name, false)?.is_empty() {
            true => Ret::failed(format!("Failed to create Volume Group {name}")),
            false => Ret::ok(format!("Created Volume Group {name}")).change("created", changes),
        })
    })
}

/// Returns the group of a device: empty if it belongs to no group, `None` if it is not a physical
/// volume.
fn group_of(cx: &Exec, device: &str) -> Result<Option<String>, Error> {
    let real_name = realpath(device);
    let known = real(cx, &real_name, false)?;
    let about = known
        .get(&real_name)
        .and_then(|about| about.get("Volume Group Name"));
    Ok(about.map(Value::to_text))
}

/// Adds devices to an existing group. The comment has a line for each device that belongs to a
/// group already or is not a physical volume.
fn extended(cx: &Exec, name: &str, devices: &[String]) -> Result<Ret, Error> {
    let mut ret = Ret::ok(format!("Volume Group {name} already present"));
    for device in devices {
        let (is_right, said) = match group_of(cx, device)? {
            None => (false, format!("pv {device} is not present")),
            Some(group) if group == name => (true, format!("{device} is part of Volume Group")),
            Some(group) if !["", "#orphans_lvm2"].contains(&group.as_str()) => {
                (false, format!("{device} is part of {group}"))
            }
            Some(_) if cx.test => {
                ret.result = ret.result.filter(|right| !right);
                ret = ret.change(device, format!("would be added to {name}"));
                continue;
            }
            Some(_) => {
                call(cx, "vgextend", &[name, device], Map::new())?;
                if group_of(cx, device)?.as_deref() == Some(name) {
                    ret = ret.change(device, format!("added to {name}"));
                    continue;
                }
                (false, format!("{device} could not be added"))
            }
        };
        ret.comment = format!("{}\n{said}", ret.comment);
        if !is_right {
            ret.result = Some(false);
        }
    }
    Ok(ret)
}

/// The size of a sector in bytes.
const SECTOR: u64 = 512;

/// Converts a size to sectors. Only the first letter of the unit counts; the default unit is
/// megabytes.
fn sectors(size: &str) -> Result<u64, Error> {
    let lower = size.to_lowercase();
    let short = lower.strip_suffix('b').unwrap_or(&lower);
    let (digits, unit) = match short.char_indices().next_back() {
        Some((at, unit)) if !unit.is_ascii_digit() => (short.get(..at).unwrap_or_default(), unit),
        _ => (short, 'm'),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("Size {size} is invalid."))?;
    let mega = 1024 * 1024 / SECTOR;
    let factor = match unit {
        's' => 1,
        'm' => mega,
        'g' => mega << 10,
        't' => mega << 20,
        'p' => mega << 30,
        unit => return Err(format!("Unit {unit} is invalid.").into()),
    };
    number
        .checked_mul(factor)
        .ok_or_else(|| format!("Size {size} is invalid.").into())
}

fn lv_present(cx: &Exec, args: LvPresent) -> Result<Ret, Error> {
    if args.extents.is_true() && args.size.is_true() {
        return Ok(Ret::failed("Only one of extents or size can be specified."));
    }
    let size = match args.size.is_true() {
        true => Some(sectors(&python::str(&args.size))?),
        false => None,
    };
    let name = args
        .snapshot
        .as_deref()
        .filter(|name| !name.is_empty())
        .unwrap_or(&args.name);
    let group = args.vgname.as_deref().unwrap_or("None");
    let place = match args.thinvolume {
        true => group.split('/').next().unwrap_or_default(),
        false => group,
    };
    let path = format!("/dev/{place}/{name}");
    if let Some(volume) = logical(cx, &path, true)?.get(&path) {
        return sized(cx, &args, size, &path, (name, volume));
    }
    let would = Ret::would(format!("Logical Volume {name} is set to be created"));
    cx.apply(would, || {
        let changes = created(cx, &args, name, group)?;
        if logical(cx, &path, false)?.is_empty() {
            let said = changes
                .get("Output from lvcreate")
                .unwrap_or(&changes)
                .to_text();
            return Ok(Ret::failed(format!(
                "Failed to create Logical Volume {name}. Error: {said}"
            )));
        }
        Ok(Ret::ok(format!("Created Logical Volume {name}")).change("created", changes))
    })
}

fn created(cx: &Exec, args: &LvPresent, name: &str, group: &str) -> Result<Value, Error> {
    let origin = args.snapshot.as_ref().map(|_| args.name.as_str());
    let kwargs = args.kwargs.clone().with("size", args.size.clone());
    let kwargs = kwargs
        .with("extents", args.extents.clone())
        .with("snapshot", origin);
    let kwargs = kwargs
        .with("pv", args.pv.as_str())
        .with("thinvolume", args.thinvolume);
    let kwargs = kwargs
        .with("thinpool", args.thinpool)
        .with("force", args.force);
    call(cx, "lvcreate", &[name, group], kwargs)
}

fn number(volume: &Value, column: &str) -> Result<u64, Error> {
    let text = volume.get(column).map(Value::to_text).unwrap_or_default();
    text.parse()
        .map_err(|_| format!("lvdisplay printed no number for {column}: '{text}'").into())
}

/// Resizes an existing volume to the wanted size. It shrinks only with `force`.
fn sized(
    cx: &Exec,
    args: &LvPresent,
    size: Option<u64>,
    path: &str,
    (name, volume): (&str, &Value),
) -> Result<Ret, Error> {
    let mut there = Ret::ok(format!("Logical Volume {name} already present"));
    let old = (
        number(volume, "Logical Volume Size")?,
        number(volume, "Current Logical Extents Associated")?,
    );
    let extents = python::str(&args.extents);
    let wanted = match size {
        Some(size) => (size, old.1),
        None if !args.extents.is_true() => return Ok(there),
        None if extents.contains('%') => {
            there.comment =
                format!("Logical Volume {name} already present, {extents} won't be resized.");
            old
        }
        None => (
            old.0,
            extents.parse().map_err(|_| {
                Error::argument("extents", format!("expected a number, got {extents}"))
            })?,
        ),
    };
    if !args.force && (wanted.0 < old.0 || wanted.1 < old.1) {
        return Ok(Ret::failed(
            "To reduce a Logical Volume option 'force' must be True.",
        ));
    }
    if wanted == old {
        return Ok(there);
    }
    let would = Ret::would(format!("Logical Volume {name} is set to be resized"));
    cx.apply(would, || {
        let kwargs = Map::new()
            .with("lvpath", path)
            .with("size", args.size.clone());
        let kwargs = kwargs.with("extents", args.extents.clone());
        let kwargs = kwargs
            .with("resizefs", args.resizefs)
            .with("force", args.force);
        let changes = call(cx, "lvresize", &[], kwargs)?;
        let now = logical(cx, path, true)?;
        let now = now.get(path).ok_or_else(|| {
            format!("Failed to resize Logical Volume {name}.\nError: it no longer exists")
        })?;
        if number(now, "Logical Volume Size")? != old.0 {
            return Ok(Ret::ok(format!("Resized Logical Volume {name}")).change("resized", changes));
        }
        let said = changes
            .get("Output from lvresize")
            .map(Value::to_text)
            .unwrap_or_default();
        Ok(Ret::failed(format!(
            "Failed to resize Logical Volume {name}.\nError: {said}"
        )))
    })
}
