//! The `raid` state module.

use std::path::Path;

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::raid::{arrays, written};

state::state_module! {
    /// Manage software RAID arrays (`mdadm`).
    #[needs("mdadm", "Unable to locate command: mdadm")]
    #[facts(free_arguments = true)]
    mod raid;

    /// Make sure that an array exists and contains its disks.
    ///
    ///     /dev/md0:
    ///       raid.present:
    ///         - level: 1
    ///         - devices: [/dev/vdb, /dev/vdc]
    fn present(Present {
        /// The name of the array, such as `/dev/md0`.
        name: String,
        /// The RAID level.
        level: String,
        /// The disks of the array.
        devices: Vec<String>,
        ..kwargs
    });

    /// Make sure that an array does not exist. The array's data is erased from its disks.
    ///
    ///     /dev/md0:
    ///       raid.absent
    fn absent(Absent {
        /// The name of the array.
        name: String,
    });
}

/// The current state of an array's disks.
#[derive(Default)]
struct Disks {
    missing: Vec<String>,
    /// The disks that do not belong to an array.
    new: Vec<String>,
    /// The disks that belong to an array, by the UUID of the array.
    members: Vec<(String, Vec<String>)>,
}

impl Disks {
    fn look(cx: &Exec, devices: &[String]) -> Result<Self, Error> {
        let mut disks = Self::default();
        for device in devices {
            if device == "missing" || !Path::new(device).exists() {
                disks.missing.push(device.clone());
                continue;
            }
            let about = written(cx, device, true)?;
            let Some(uuid) = about.get("MD_UUID").map(Value::to_text) else {
                disks.new.push(device.clone());
                continue;
            };
            match disks.members.iter_mut().find(|(known, _)| *known == uuid) {
                Some((_, members)) => members.push(device.clone()),
                None => disks.members.push((uuid, vec![device.clone()])),
            }
        }
        disks.members.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(disks)
    }

    /// Returns the reason why these disks cannot form the array.
    fn conflict(&self, there: Option<&Value>) -> Option<String> {
        let uuids = || Value::list(self.members.iter().map(|(uuid, _)| uuid.into()));
        match (self.members.as_slice(), there) {
            ([_, _, ..], _) => Some(format!(
                "Devices are a mix of RAID constituents with multiple MD_UUIDs: {}.",
                python::repr(&uuids())
            )),
            ([(uuid, _)], Some(array)) => {
                let present = array.get("uuid").map(Value::to_text).unwrap_or_default();
                (present != *uuid).then(|| {
                    format!("Devices MD_UUIDs: {uuid} differs from present RAID uuid {present}.")
                })
            }
            ([], None) if self.new.is_empty() => Some(format!(
                "All devices are missing: {}.",
                listed(&self.missing)
            )),
            _ => None,
        }
    }

    /// Returns the function that creates or assembles the array, its verb for comments, and its
    /// arguments.
    fn plan(&self, args: &Present) -> (&'static str, &'static str, Vec<Value>) {
        let name = Value::from(args.name.as_str());
        let list = |all: &[String]| Value::list(all.iter().map(Value::from));
        if let Some((_, members)) = self.members.first() {
            return ("raid.assemble", "assembled", vec![name, list(members)]);
        }
        let mut all = self.new.clone();
        all.extend(self.missing.iter().map(|_| "missing".to_owned()));
        let given = vec![name, args.level.as_str().into(), list(&all)];
        ("raid.create", "created", given)
    }
}

fn listed(all: &[String]) -> String {
    python::repr(&Value::list(all.iter().map(Value::from)))
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let there = arrays(cx)?.get(name).cloned();
    let disks = Disks::look(cx, &args.devices)?;
    if let Some(conflict) = disks.conflict(there.as_ref()) {
        return Ok(Ret::failed(conflict));
    }
    // A newly created array already contains its new disks.
    let joins = !disks.new.is_empty() && (there.is_some() || !disks.members.is_empty());
    let ret = match there {
        Some(_) => Ret::ok(format!("Raid {name} already present.")),
        None => made(cx, &args, &disks)?,
    };
    let mut ret = match joins && ret.result != Some(false) {
        true => added(cx, name, &disks.new, ret)?,
        false => ret,
    };
    if !disks.missing.is_empty() {
        ret.comment += &format!(" Missing devices: {}", listed(&disks.missing));
    }
    Ok(ret)
}

fn made(cx: &Exec, args: &Present, disks: &Disks) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let (function, verb, given) = disks.plan(args);
    if cx.test {
        let kwargs = args.kwargs.clone().with("test_mode", true);
        let command = cx.call_internal(function, given, kwargs)?;
        return Ok(Ret::would(format!(
            "Raid will be {verb} with: {}",
            python::str(&command)
        )));
    }
    cx.apply(Ret::would(""), || {
        cx.call_internal(function, given, args.kwargs.clone())?;
        let Some(array) = arrays(cx)?.get(name).cloned() else {
            return Ok(Ret::failed(format!("Raid {name} failed to be {verb}.")));
        };
        cx.call_internal("raid.save_config", Vec::new(), Map::new())?;
        Ok(Ret::ok(format!("Raid {name} {verb}.")).changes(array))
    })
}

fn added(cx: &Exec, name: &str, new: &[String], mut ret: Ret) -> Result<Ret, Error> {
    if cx.test {
        ret.comment += &format!(" New devices will be added: {}", listed(new));
        return Ok(Ret {
            result: None,
            ..ret
        });
    }
    cx.apply(Ret::would(""), || {
        for device in new {
            let given = vec![name.into(), device.into()];
            if cx.call_internal("raid.add", given, Map::new())?.is_true() {
                ret.comment += &format!(" Added new device {device} to {name}.\n");
            } else {
                ret.comment += &format!(" Unable to add {device} to {name}.\n");
                ret.result = Some(false);
            }
        }
        Ok(match ret.result {
            Some(true) => ret.change("added", Value::list(new.iter().map(Value::from))),
            _ => ret,
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    if !arrays(cx)?.contains(name) {
        return Ok(Ret::ok(format!("Raid {name} already absent")));
    }
    let would = Ret::would(format!("Raid {name} is set to be destroyed"));
    cx.apply(would, || {
        Ok(
            match cx
                .call_internal("raid.destroy", vec![name.into()], Map::new())?
                .is_true()
            {
                true => Ret::ok(format!("Raid {name} has been destroyed")),
                false => Ret::failed(format!("Raid {name} failed to be destroyed")),
            },
        )
    })
}
