//! Detection of the container or hypervisor that this program runs in. The names and the sources
//! are those of `systemd-detect-virt`.

use super::files::Root;

/// The vendors and products in the firmware that identify a hypervisor.
const FIRMWARE: &[(&str, &str)] = &[
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("Amazon EC2", "amazon"),
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Oracle Corporation", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Hyper-V", "microsoft"),
    ("Apple Virtualization", "apple"),
    ("Google Compute Engine", "google"),
];

/// The names that hypervisors report in their leaf of the processor's CPUID.
#[cfg(target_arch = "x86_64")]
const PROCESSOR: &[(&str, &str)] = &[
    ("XenVMMXenVMM", "xen"),
    ("KVMKVMKVM", "kvm"),
    ("Linux KVM Hv", "kvm"),
    ("TCGTCGTCGTCG", "qemu"),
    ("VMwareVMware", "vmware"),
    ("Microsoft Hv", "microsoft"),
    ("bhyve bhyve ", "bhyve"),
    ("QNXQVMBSQG", "qnx"),
    ("ACRNACRNACRN", "acrn"),
    ("SRESRESRESRE", "sre"),
    ("Apple VZ", "apple"),
];

/// Returns the container, or else the hypervisor; `None` on bare metal.
pub(super) fn detect(root: &Root, cpuinfo: &str) -> Option<String> {
    container(root).or_else(|| hypervisor(root, cpuinfo).map(str::to_owned))
}

/// Returns the container that this program runs in.
fn container(root: &Root) -> Option<String> {
    if root.exists("proc/vz") && !root.exists("proc/bc") {
        return Some("openvz".to_owned());
    }
    let kernel = root.read("proc/sys/kernel/osrelease").unwrap_or_default();
    if kernel.contains("Microsoft") || kernel.contains("WSL") {
        return Some("wsl".to_owned());
    }
    let told = ["run/host/container-manager", "run/systemd/container"]
        .iter()
        .find_map(|path| first_line(root, path))
        .or_else(|| of_first_process(root));
    match told.as_deref() {
        None => by_mark(root).map(str::to_owned),
        Some("oci") => Some(by_mark(root).unwrap_or("container-other").to_owned()),
        Some(_) => told,
    }
}

fn first_line(root: &Root, path: &str) -> Option<String> {
    let text = root.read(path)?;
    let line = text.lines().next()?.trim();
    Some(line.to_owned()).filter(|line| !line.is_empty())
}

/// Returns `container=` from the environment of the first process.
fn of_first_process(root: &Root) -> Option<String> {
    let text = root.read("proc/1/environ")?;
    let name = text
        .split('\0')
        .find_map(|entry| entry.strip_prefix("container="))?;
    Some(name.to_owned()).filter(|name| !name.is_empty())
}

fn by_mark(root: &Root) -> Option<&'static str> {
    if root.exists("run/.containerenv") {
        Some("podman")
    } else if root.exists(".dockerenv") {
        Some("docker")
    } else {
        None
    }
}

fn hypervisor(root: &Root, cpuinfo: &str) -> Option<&'static str> {
    let firmware = firmware(root);
    if let Some("oracle" | "xen" | "amazon" | "parallels" | "google") = firmware {
        return firmware;
    }
    if cpuinfo.contains("User Mode Linux") {
        return Some("uml");
    }
    if root.is_dir("proc/xen") {
        let capabilities = root.read("proc/xen/capabilities").unwrap_or_default();
        return Some("xen").filter(|_| !capabilities.contains("control_d"));
    }
    let processor = processor();
    if processor.is_some_and(|name| name != "vm-other") {
        return processor;
    }
    firmware
        .or_else(|| by_kernel(root))
        .or_else(|| device_tree(root))
        .or_else(|| mainframe(root))
        .or(processor)
}

fn firmware(root: &Root) -> Option<&'static str> {
    let files = [
        "product_name",
        "sys_vendor",
        "board_vendor",
        "bios_vendor",
        "product_version",
    ];
    let found = files.iter().find_map(|file| {
        let text = root.read(&format!("sys/class/dmi/id/{file}"))?;
        let known = FIRMWARE.iter().find(|(prefix, _)| text.starts_with(prefix));
        known.map(|(_, name)| *name)
    })?;
    if found == "amazon" && is_bare_metal(root) {
        return None;
    }
    Some(found)
}

/// Returns true on Amazon's bare metal, which has the same vendor as its virtual machines. The
/// firmware's flag for virtual machines decides, or the product's name without it.
fn is_bare_metal(root: &Root) -> bool {
    let raw = machine::procfs::bytes_or_none(root.path("sys/firmware/dmi/entries/0-0/raw"));
    match raw.as_deref().and_then(|raw| raw.get(19)) {
        Some(flags) => flags & 0x10 == 0,
        None => root
            .read("sys/class/dmi/id/product_name")
            .is_some_and(|name| name.trim().ends_with(".metal")),
    }
}

#[cfg(target_arch = "x86_64")]
fn processor() -> Option<&'static str> {
    const IS_GUEST: u32 = 1 << 31;
    let features = std::arch::x86_64::__cpuid(1);
    if features.ecx & IS_GUEST == 0 {
        return None;
    }
    let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
    let name: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx]
        .iter()
        .flat_map(|part| part.to_le_bytes())
        .collect();
    let known = PROCESSOR
        .iter()
        .find(|(known, _)| name.starts_with(known.as_bytes()));
    Some(known.map_or("vm-other", |(_, word)| word))
}

#[cfg(not(target_arch = "x86_64"))]
fn processor() -> Option<&'static str> {
    None
}

fn by_kernel(root: &Root) -> Option<&'static str> {
    let kind = first_line(root, "sys/hypervisor/type")?;
    Some(if kind == "xen" { "xen" } else { "vm-other" })
}

fn device_tree(root: &Root) -> Option<&'static str> {
    if let Some(text) = root.read("proc/device-tree/hypervisor/compatible") {
        return Some(match text.trim_end_matches('\0') {
            "linux,kvm" => "kvm",
            text if text.contains("xen") => "xen",
            text if text.contains("vmware") => "vmware",
            _ => "vm-other",
        });
    }
    root.exists("proc/device-tree/fw-cfg").then_some("qemu")
}

/// Returns the hypervisor on s390.
fn mainframe(root: &Root) -> Option<&'static str> {
    let text = root.read("proc/sysinfo")?;
    let line = text
        .lines()
        .find(|line| line.starts_with("VM00 Control Program"))?;
    Some(if line.contains("z/VM") { "zvm" } else { "kvm" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_told_by_their_marks() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        assert_eq!(container(&root), None);
        std::fs::write(folder.path().join(".dockerenv"), "").unwrap();
        assert_eq!(container(&root).as_deref(), Some("docker"));
        std::fs::create_dir_all(folder.path().join("run/systemd")).unwrap();
        std::fs::write(folder.path().join("run/systemd/container"), "lxc\n").unwrap();
        assert_eq!(container(&root).as_deref(), Some("lxc"));
    }

    #[test]
    fn firmware_names_the_hypervisor_but_not_on_bare_metal() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let dmi = folder.path().join("sys/class/dmi/id");
        std::fs::create_dir_all(&dmi).unwrap();
        std::fs::write(dmi.join("sys_vendor"), "Amazon EC2\n").unwrap();
        std::fs::write(dmi.join("product_name"), "m5.large\n").unwrap();
        assert_eq!(firmware(&root), Some("amazon"));
        std::fs::write(dmi.join("product_name"), "m5.metal\n").unwrap();
        assert_eq!(firmware(&root), None);
    }
}
