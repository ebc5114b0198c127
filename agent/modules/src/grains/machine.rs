//! The machine: kernel, processor, memory, firmware, disks.

use value::{Map, Value};

use super::files::{Root, which};

/// Returns the grains from `uname`.
pub(super) fn kernel() -> Map {
    let uname = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Map::new()
        .with("kernel", text(uname.sysname()))
        .with("nodename", text(uname.nodename()))
        .with("kernelrelease", text(uname.release()))
        .with("kernelversion", text(uname.version()))
        .with("cpuarch", text(uname.machine()))
}

/// Returns `num_cpus`, `cpu_model` and `cpu_flags` from the text of `/proc/cpuinfo`.
pub(super) fn cpu(cpuinfo: &str) -> Map {
    let mut count = 0;
    let (mut model, mut flags) = ("Unknown", "");
    for line in cpuinfo.lines() {
        let mut parts = line.split(':');
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
            continue;
        };
        let value = value.trim();
        match key.trim() {
            "processor" => count += 1,
            "# processors" => count = value.parse().unwrap_or(count),
            "vendor_id" | "model name" | "cpu" => model = value,
            "flags" | "Features" => flags = value,
            "Processor" => {
                model = value.split('-').next().unwrap_or(value);
                count = 1;
            }
            _ => {}
        }
    }
    let flags = flags.split_whitespace().map(Value::from);
    Map::new()
        .with("num_cpus", count)
        .with("cpu_model", model)
        .with("cpu_flags", Value::list(flags))
}

/// Returns `mem_total` and `swap_total` in MiB.
pub(super) fn memory(root: &Root) -> Map {
    let text = root.read("proc/meminfo").unwrap_or_default();
    let mib = |name: &str| -> i64 {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .map_or(0, |kib: i64| kib / 1024)
    };
    Map::new()
        .with("mem_total", mib("MemTotal"))
        .with("swap_total", mib("SwapTotal"))
}

/// Returns the firmware's data about the machine, or the device tree's on a machine without such
/// firmware.
pub(super) fn firmware(root: &Root) -> Map {
    const FIELDS: &[(&str, &str)] = &[
        ("biosversion", "bios_version"),
        ("biosvendor", "bios_vendor"),
        ("boardname", "board_name"),
        ("productname", "product_name"),
        ("manufacturer", "sys_vendor"),
        ("biosreleasedate", "bios_date"),
        ("uuid", "product_uuid"),
        ("serialnumber", "product_serial"),
    ];
    let mut grains = device_tree(root);
    for (grain, file) in FIELDS {
        // Only root can read the serial numbers. For other users these grains are missing.
        let Some(text) = root.read(&format!("sys/class/dmi/id/{file}")) else {
            continue;
        };
        let text = text.trim();
        let text = match *grain {
            "uuid" => text.to_lowercase(),
            _ => text.to_owned(),
        };
        grains.insert(*grain, text);
    }
    grains
}

fn device_tree(root: &Root) -> Map {
    let read = |name: &str| {
        let text = root.read(&format!("proc/device-tree/{name}"))?;
        let text = text.trim_end_matches('\0').to_owned();
        Some(text).filter(|text| !text.is_empty())
    };
    let mut grains = Map::new();
    if let Some(model) = read("model") {
        match model.split_once(',') {
            Some((manufacturer, product)) => {
                grains.insert("manufacturer", manufacturer);
                grains.insert("productname", product);
            }
            None => {
                grains.insert("productname", model);
            }
        }
    }
    if let Some(serial) = read("serial-number").or_else(|| read("system-id")) {
        grains.insert("serialnumber", serial);
    }
    grains
}

/// Returns `kernelparams`: the kernel's command line as pairs. The value is None where a word does
/// not have exactly one `=`.
pub(super) fn kernelparams(root: &Root) -> Map {
    let Some(text) = root.read("proc/cmdline") else {
        return Map::new();
    };
    let pairs = words(&text).into_iter().map(|word| {
        let mut parts = word.split('=');
        let name = parts.next().unwrap_or_default();
        let value = match (parts.next(), parts.next()) {
            (Some(value), None) => value.trim_matches('"').into(),
            _ => Value::Null,
        };
        Value::Tuple(vec![name.into(), value].into())
    });
    Map::new().with("kernelparams", Value::list(pairs))
}

/// Splits a line into words as a shell does.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        let open = word.is_some();
        let current = word.get_or_insert_default();
        match (quote, sign) {
            (Some(end), sign) if sign == end => quote = None,
            (Some('"') | None, '\\') => current.extend(signs.next()),
            (Some(_), sign) => current.push(sign),
            (None, '"' | '\'') => quote = Some(sign),
            (None, sign) if sign.is_whitespace() => {
                let ended = word.take().filter(|_| open);
                words.extend(ended);
            }
            (None, sign) => current.push(sign),
        }
    }
    words.extend(word);
    words
}

/// Returns `disks` and `ssds`: the block devices that are not virtual, split by whether they
/// rotate.
pub(super) fn disks(root: &Root) -> Map {
    let (mut disks, mut ssds) = (Vec::new(), Vec::new());
    for entry in machine::procfs::list(root.path("sys/block")) {
        let target = machine::procfs::link_target(entry.path()).unwrap_or_default();
        if target.starts_with("../devices/virtual") {
            continue;
        }
        let turns = machine::procfs::text(entry.path().join("queue/rotational"));
        let name = Value::from(entry.file_name().to_string_lossy().into_owned());
        match turns.trim() {
            "0" => ssds.push(name),
            "1" => disks.push(name),
            _ => {}
        }
    }
    Map::new()
        .with("disks", Value::list(disks))
        .with("ssds", Value::list(ssds))
}

/// Returns `mdadm`: the software RAIDs, if the kernel supports them.
pub(super) fn mdadm(root: &Root) -> Map {
    let Some(text) = root.read("proc/mdstat") else {
        return Map::new();
    };
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("Personalities"));
    let mut names: Vec<&str> = lines
        .filter_map(|line| line.split_once(" : "))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.dedup();
    Map::new().with("mdadm", Value::list(names.into_iter().map(Value::from)))
}

/// Returns `machine_id`.
pub(super) fn machine_id(root: &Root) -> Map {
    let text = root
        .read("etc/machine-id")
        .or_else(|| root.read("var/lib/dbus/machine-id"));
    text.map_or_else(Map::new, |text| Map::new().with("machine_id", text.trim()))
}

/// Returns `efi` and `efi-secure-boot`.
pub(super) fn efi(root: &Root) -> Map {
    let secure = if root.exists("sys/firmware/efi/efivars") {
        secure_boot(root, "sys/firmware/efi/efivars", None)
    } else {
        secure_boot(root, "sys/firmware/efi/vars", Some("data"))
    };
    Map::new()
        .with("efi", secure.is_some())
        .with("efi-secure-boot", secure.unwrap_or_default())
}

/// Returns true if secure boot is on, which is the last byte of its variable; `None` without EFI
/// variables.
fn secure_boot(root: &Root, folder: &str, file: Option<&str>) -> Option<bool> {
    let folder = root.path(folder);
    if !folder.is_dir() {
        return None;
    }
    let variable = machine::procfs::list(folder).find(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with("SecureBoot-")
    });
    let path = variable.map(|entry| match file {
        Some(file) => entry.path().join(file),
        None => entry.path(),
    });
    let bytes = path.and_then(machine::procfs::bytes_or_none);
    Some(bytes.unwrap_or_default().last() == Some(&1))
}

/// Returns `fibre_channel_host`.
pub(super) fn fibre_channel_host(root: &Root) -> Map {
    Map::new().with("fibre_channel_host", root.is_dir("sys/class/fc_host"))
}

/// Returns `transactional`: true if the program that updates a system as a whole is installed.
pub(super) fn transactional() -> Map {
    Map::new().with("transactional", which("transactional-update").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_of_each_kind_is_counted_as_salt_does() {
        let intel = "processor : 0\nvendor_id : GenuineIntel\nmodel name : Xeon: x\nflags : fpu vme\n\nprocessor : 1\n";
        let grains = cpu(intel);
        assert_eq!(grains.get("num_cpus").and_then(Value::as_int), Some(2));
        assert_eq!(grains.get("cpu_model"), Some(&"Xeon".into()));
        let s390 = cpu("vendor_id       : IBM/S390\n# processors    : 3\n");
        assert_eq!(s390.get("num_cpus").and_then(Value::as_int), Some(3));
        let arm = cpu("Processor : ARMv6-compatible processor rev 7 (v6l)\nFeatures : swp half\n");
        assert_eq!(arm.get("cpu_model"), Some(&"ARMv6".into()));
        assert_eq!(
            arm.get("cpu_flags")
                .and_then(Value::as_list)
                .map(<[_]>::len),
            Some(2)
        );
        assert_eq!(cpu("").get("cpu_model"), Some(&"Unknown".into()));
    }

    #[test]
    fn a_kernel_parameter_with_two_equal_signs_has_no_value() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        std::fs::write(
            folder.path().join("proc/cmdline"),
            "quiet root=UUID=1 a=\"b c\" console=ttyS0\n",
        )
        .unwrap();
        let grains = kernelparams(&Root::new(folder.path()));
        assert_eq!(
            value::python::str(grains.get("kernelparams").unwrap()),
            "[('quiet', None), ('root', None), ('a', 'b c'), ('console', 'ttyS0')]"
        );
    }

    #[test]
    fn the_device_tree_tells_manufacturer_and_product() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("proc/device-tree");
        std::fs::create_dir_all(&tree).unwrap();
        std::fs::write(tree.join("model"), "Acme,Board 3\0").unwrap();
        std::fs::write(tree.join("system-id"), "old\0").unwrap();
        let grains = firmware(&Root::new(folder.path()));
        assert_eq!(grains.get("manufacturer"), Some(&"Acme".into()));
        assert_eq!(grains.get("productname"), Some(&"Board 3".into()));
        assert_eq!(grains.get("serialnumber"), Some(&"old".into()));
    }
}
