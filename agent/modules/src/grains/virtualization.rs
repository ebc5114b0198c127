//! `virtual` and `virtual_subtype`.
//!
//! Salt runs `systemd-detect-virt`, `virt-what`, `dmidecode` or `lspci` and then reads files. Here
//! no program is run: where one of them is installed, the files that it would read are read. Where
//! none is installed, Salt detects less, and so does this module.

use std::os::unix::fs::MetadataExt;

use machine::procfs;
use value::{Map, Value};

use super::files::{Root, which};
use super::hypervisor;

/// The state of the detection.
struct Found<'a> {
    root: &'a Root,
    cpuinfo: &'a str,
    kind: String,
    subtype: Option<String>,
}

/// Returns the grains of this topic, with `virtual_hv_*` on Xen.
pub(super) fn grains(root: &Root, cpuinfo: &str, use_lspci: bool) -> Map {
    let mut found = Found {
        root,
        cpuinfo,
        kind: "physical".to_owned(),
        subtype: None,
    };
    found.by_tools(use_lspci);
    found.by_files();
    if found.subtype.is_some() && found.kind == "physical" {
        "virtual".clone_into(&mut found.kind);
    }
    found.cloud();
    let is_xen = found.kind.contains("xen");
    let mut grains = Map::new().with("virtual", found.kind);
    if let Some(subtype) = found.subtype {
        grains.insert("virtual_subtype", subtype);
    }
    if is_xen {
        grains.update(xen(root));
    }
    grains
}

impl Found<'_> {
    fn is(&mut self, kind: &str) -> bool {
        kind.clone_into(&mut self.kind);
        true
    }

    fn is_with(&mut self, kind: &str, subtype: &str) -> bool {
        self.subtype = Some(subtype.to_owned());
        self.is(kind)
    }

    fn dmi(&self, file: &str) -> String {
        let text = self.root.read(&format!("sys/class/dmi/id/{file}"));
        text.unwrap_or_default().trim().to_owned()
    }

    fn by_tools(&mut self, use_lspci: bool) {
        let virt_what = which("virt-what").is_some();
        if (virt_what || which("systemd-detect-virt").is_some())
            && let Some(word) = hypervisor::detect(self.root, self.cpuinfo)
            && self.by_word(&word, virt_what)
        {
            return;
        }
        if virt_what {
            return;
        }
        let is_root = rustix::process::geteuid().is_root();
        if is_root && which("dmidecode").is_some() {
            self.by_firmware();
        } else if use_lspci && self.root.exists("proc/bus/pci") && which("lspci").is_some() {
            self.by_devices();
        }
    }

    /// Sets the grains that Salt derives from the word for a hypervisor. Returns false for an
    /// unknown word.
    fn by_word(&mut self, word: &str, virt_what: bool) -> bool {
        match word {
            "qemu" | "kvm" | "oracle" | "xen" | "bochs" | "chroot" | "uml" | "systemd-nspawn" => {
                self.is(word)
            }
            "microsoft" if virt_what => self.is("HyperV"),
            word if word.contains("vmware") => self.is("VMware"),
            word if word.contains("microsoft") => self.is("VirtualPC"),
            word if word.contains("lxc") => self.is_with("container", "LXC"),
            word if word.contains("podman") => self.is_with("container", "Podman"),
            word if word.contains("docker") => self.is_with("container", "Docker"),
            word if word.contains("amazon") => self.is_with("Nitro", "Amazon EC2"),
            _ => false,
        }
    }

    fn by_firmware(&mut self) {
        let maker = self.dmi("sys_vendor");
        let bios = self.dmi("bios_vendor");
        let product = self.dmi("product_name");
        let all = format!("{maker}\n{bios}\n{product}\n{}", self.dmi("board_vendor"));
        let hypervisors = ["QEMU", "Bochs"];
        if hypervisors
            .iter()
            .any(|name| maker.contains(name) || bios.contains(name))
        {
            self.is("kvm");
        }
        if all.contains("BHYVE") {
            self.is("bhyve");
        } else if maker.starts_with("oVirt") {
            self.is_with("kvm", "ovirt");
        } else if product.starts_with("RHEV Hypervisor") {
            self.is_with("kvm", "rhev");
        } else if all.contains("VirtualBox") {
            self.is("VirtualBox");
        } else if all.contains("VMware") {
            self.is("VMware");
        } else if maker.starts_with("Microsoft") && product.contains("Virtual Machine") {
            self.is("VirtualPC");
        } else if all.contains("Parallels Software") {
            self.is("Parallels");
        } else if maker.starts_with("Nutanix") && product.starts_with("AHV") {
            self.is_with("kvm", "Nutanix AHV");
        } else if maker.starts_with("Google") || bios.starts_with("SeaBIOS") {
            self.is("kvm");
        }
    }

    /// Detects by the vendors of the PCI devices.
    fn by_devices(&mut self) {
        let entries = procfs::list(self.root.path("sys/bus/pci/devices"));
        let makers: Vec<String> = entries
            .filter_map(|entry| procfs::text_or_none(entry.path().join("vendor")))
            .collect();
        let has = |number: &str| makers.iter().any(|maker| maker.trim() == number);
        if has("0x15ad") {
            self.is("VMware");
        } else if has("0x80ee") {
            self.is("VirtualBox");
        } else if has("0x1af4") || has("0x1b36") {
            self.is("kvm");
        }
    }

    fn by_files(&mut self) {
        if is_chroot(self.root) {
            self.subtype = Some("chroot".to_owned());
        }
        self.openvz();
        self.xen_domain();
        if self.cpuinfo.contains("QEMU Virtual CPU") {
            self.is("kvm");
        }
        self.by_product();
        self.by_cgroup();
        let is_lxc = self.subtype.as_deref() == Some("LXC");
        let environ = if is_lxc {
            None
        } else {
            self.root.read("proc/1/environ")
        };
        if environ.is_some_and(|text| text.contains("container=lxc")) {
            self.is_with("container", "LXC");
        }
    }

    fn openvz(&mut self) {
        if self.root.is_file("proc/vz/version") {
            self.is("openvzhn");
        } else if self.root.is_file("proc/vz/veinfo") {
            self.is("openvzve");
        }
        let status = self.root.read("proc/self/status").unwrap_or_default();
        match status.lines().find_map(|line| line.strip_prefix("envID:")) {
            Some(number) if number.trim() == "0" => self.is("openvzhn"),
            Some(number) if number.trim().parse::<u64>().is_ok() => self.is("openvzve"),
            _ => false,
        };
    }

    fn xen_domain(&mut self) {
        let root = self.root;
        if !["proc/sys/xen", "sys/bus/xen", "proc/xen"]
            .iter()
            .any(|path| root.is_dir(path))
        {
            return;
        }
        let capabilities = root.read("proc/xen/capabilities");
        let subtype = if root.is_file("proc/xen/xsd_kva") {
            "Xen Dom0"
        } else if self.dmi("product_name") == "HVM domU" {
            "Xen HVM DomU"
        } else if let Some(text) = capabilities {
            if text.contains("control_d") {
                "Xen Dom0"
            } else {
                "Xen PV DomU"
            }
        } else if root.is_dir("sys/bus/xen/drivers/xenconsole") {
            "Xen PV DomU"
        } else {
            return;
        };
        self.is_with("xen", subtype);
    }

    fn by_product(&mut self) {
        let product = self.dmi("product_name");
        if product.contains("VirtualBox") {
            self.is("VirtualBox");
        } else if product.contains("RHEV Hypervisor") {
            self.is_with("kvm", "rhev");
        } else if product.contains("oVirt Node") {
            self.is_with("kvm", "ovirt");
        } else if product.contains("Google") {
            self.is("gce");
        } else if product.contains("BHYVE") {
            self.is("bhyve");
        }
    }

    fn by_cgroup(&mut self) {
        const DOCKER: [&str; 3] = [":/system.slice/docker", ":/docker/", ":/docker-ce/"];
        let text = self.root.read("proc/1/cgroup").unwrap_or_default();
        if text.contains(":/lxc/") {
            self.is_with("container", "LXC");
        } else if text.contains(":/kubepods/") {
            self.subtype = Some("kubernetes".to_owned());
        } else if text.contains(":/libpod_parent/") {
            self.subtype = Some("libpod".to_owned());
        } else if DOCKER.iter().any(|mark| text.contains(mark)) {
            self.is_with("container", "Docker");
        }
    }

    /// Detects Amazon and Nutanix, for which Salt uses `dmidecode` where it may run.
    fn cloud(&mut self) {
        let may = rustix::process::geteuid().is_root() && which("dmidecode").is_some();
        if !may || !["qemu", "kvm", "xen", "amazon"].contains(&self.kind.as_str()) {
            return;
        }
        let (maker, product) = (self.dmi("sys_vendor"), self.dmi("product_name"));
        if maker.starts_with("Amazon EC2") {
            if self.kind != "xen" {
                self.is("Nitro");
            }
            self.subtype = Some(format!("Amazon EC2 ({product})"));
        } else if self.dmi("product_version").contains(".amazon") {
            self.subtype = Some("Amazon EC2".to_owned());
        } else if maker.starts_with("Nutanix") && product.starts_with("AHV") {
            self.subtype = Some("Nutanix AHV".to_owned());
        }
    }
}

/// Returns true when the first process has another root.
fn is_chroot(root: &Root) -> bool {
    let (own, first) = (
        std::fs::metadata(root.path("")),
        std::fs::metadata(root.path("proc/1/root/.")),
    );
    matches!((own, first), (Ok(own), Ok(first)) if (own.dev(), own.ino()) != (first.dev(), first.ino()))
}

/// Returns `virtual_hv_version` and `virtual_hv_features` with their lists.
fn xen(root: &Root) -> Map {
    let mut grains = Map::new();
    let part = |name: &str| {
        let text = root.read(&format!("sys/hypervisor/version/{name}"))?;
        Some(text.trim().to_owned())
    };
    if let (Some(major), Some(minor), Some(extra)) = (part("major"), part("minor"), part("extra")) {
        grains.insert("virtual_hv_version", format!("{major}.{minor}{extra}"));
        let parts = [major, minor, extra].map(Value::from);
        grains.insert("virtual_hv_version_info", Value::list(parts));
    }
    if let Some(text) = root.read("sys/hypervisor/properties/features") {
        let text = text.trim();
        let bits = u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_default();
        let names = XEN_FEATURES
            .iter()
            .filter(|(bit, _)| bits & (1 << bit) != 0);
        grains.insert("virtual_hv_features", text);
        let names = names.map(|(_, name)| Value::from(*name));
        grains.insert("virtual_hv_features_list", Value::list(names));
    }
    grains
}

const XEN_FEATURES: &[(u32, &str)] = &[
    (0, "writable_page_tables"),
    (1, "writable_descriptor_tables"),
    (2, "auto_translated_physmap"),
    (3, "supervisor_mode_kernel"),
    (4, "pae_pgdir_above_4gb"),
    (5, "mmu_pt_update_preserve_ad"),
    (7, "gnttab_map_avail_bits"),
    (8, "hvm_callback_vector"),
    (9, "hvm_safe_pvclock"),
    (10, "hvm_pirqs"),
    (11, "dom0"),
    (12, "grant_map_identity"),
    (13, "memory_op_vnode_supported"),
    (14, "ARM_SMCCC_supported"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(root: &Root) -> (String, Option<String>) {
        let mut found = Found {
            root,
            cpuinfo: "",
            kind: "physical".to_owned(),
            subtype: None,
        };
        found.by_files();
        (found.kind, found.subtype)
    }

    #[test]
    fn files_tell_containers_and_clouds() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(found(&root), ("physical".to_owned(), None));
        write("sys/class/dmi/id/product_name", "Google Compute Engine\n");
        assert_eq!(found(&root).0, "gce");
        write("proc/1/cgroup", "1:cpu:/docker/abc\n");
        assert_eq!(
            found(&root),
            ("container".to_owned(), Some("Docker".to_owned()))
        );
        write("proc/1/environ", "TERM=linux\0container=lxc\0");
        assert_eq!(
            found(&root),
            ("container".to_owned(), Some("LXC".to_owned()))
        );
    }
}
