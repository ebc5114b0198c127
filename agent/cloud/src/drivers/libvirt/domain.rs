//! Domains of libvirt as XML: what they are, and a copy of one with another name.
//!
//! A domain of a call has an element in its metadata: the client token, the base, the source of its
//! addresses, its volumes, and `ready` when its disks are complete.

use value::Map;

use crate::driver::Machine;
use crate::drivers::xml::Element;

/// The namespace of the element.
const SPACE: &str = "urn:pinch:run";
/// The name of the element.
const MARK: &str = "pinch:run";
/// The channel of the guest agent.
const AGENT: &str = "org.qemu.guest_agent.0";

/// The element of a domain that a call has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) token: String,
    pub(super) base: String,
    /// The source of the addresses: `lease` or `agent`.
    pub(super) source: String,
    /// The pools and names of its volumes.
    pub(super) volumes: Vec<(String, String)>,
    pub(super) is_ready: bool,
}

impl Mark {
    /// Returns the element of a domain, if it has one.
    pub(super) fn of(domain: &Element) -> Option<Self> {
        let metadata = domain.find("metadata")?;
        let is_own =
            |element: &&Element| element.attributes.iter().any(|(_, value)| value == SPACE);
        let own = metadata.inner.iter().find(is_own)?;
        let volumes = own.inner.iter().map(|volume| {
            let part = |name: &str| volume.attribute(name).to_owned();
            (part("pool"), part("name"))
        });
        Some(Self {
            token: own.attribute("token").to_owned(),
            base: own.attribute("base").to_owned(),
            source: own.attribute("source").to_owned(),
            volumes: volumes.collect(),
            is_ready: own.attribute("ready") == "yes",
        })
    }

    /// Sets the element of a domain.
    pub(super) fn put(&self, domain: &mut Element) {
        let mut own = Element::new(
            MARK,
            &[
                ("xmlns:pinch", SPACE),
                ("token", &self.token),
                ("base", &self.base),
                ("source", &self.source),
                ("ready", if self.is_ready { "yes" } else { "no" }),
            ],
        );
        own.inner = self
            .volumes
            .iter()
            .map(|(pool, name)| Element::new("pinch:volume", &[("pool", pool), ("name", name)]))
            .collect();
        let metadata = domain.at("metadata");
        let is_own = |element: &Element| element.attributes.iter().any(|(_, value)| value == SPACE);
        metadata.inner.retain(|element| !is_own(element));
        metadata.inner.push(own);
    }
}

/// Returns a domain as a machine without addresses.
pub(super) fn machine(domain: &Element, state: &str) -> Machine {
    let (name, id) = (domain.text_of("name"), domain.text_of("uuid"));
    let memory: u64 = domain.text_of("memory").parse().unwrap_or_default();
    let mark = Mark::of(domain);
    let base = mark.as_ref().map(|mark| mark.base.clone());
    Machine {
        name: name.to_owned(),
        id: id.to_owned(),
        image: base.unwrap_or_default(),
        size: format!("{} cores, {} MiB", domain.text_of("vcpu"), memory >> 10),
        state: state.to_owned(),
        token: mark.map(|mark| mark.token),
        full: Map::new().with("description", domain.text_of("description")),
        ..Machine::default()
    }
}

/// A disk to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    /// The device in the machine: `vda`.
    pub(super) target: String,
    /// The path of its volume.
    pub(super) path: String,
    /// The format of the volume: `qcow2`, `raw`.
    pub(super) format: String,
}

fn is_copied(disk: &Element) -> bool {
    let is_disk = disk.name == "disk" && ["", "disk"].contains(&disk.attribute("device"));
    is_disk && disk.find("readonly").is_none() && disk.find("shareable").is_none()
}

/// Returns the name of the attribute with the path of a disk of this type.
fn key_of(disk: &Element) -> Option<&'static str> {
    match disk.attribute("type") {
        "file" => Some("file"),
        "block" => Some("dev"),
        _ => None,
    }
}

/// Returns the disks of a domain that its copies must have copies of.
///
/// # Errors
/// When a disk is no volume of a pool.
pub(super) fn disks(domain: &Element) -> Result<Vec<Disk>, String> {
    let devices = domain.find("devices").map(|devices| &devices.inner[..]);
    let disks = devices
        .unwrap_or_default()
        .iter()
        .filter(|disk| is_copied(disk));
    disks
        .map(|disk| {
            let part = |element: &str, key: &str| {
                let found = disk.find(element).map(|element| element.attribute(key));
                found.unwrap_or_default().to_owned()
            };
            let target = part("target", "dev");
            let path = key_of(disk).map(|key| part("source", key)).unwrap_or_default();
            let format = part("driver", "type");
            match path.is_empty() || target.is_empty() {
                true => Err(format!(
                    "the disk {target:?} has the type {:?}; only disks that are files or block devices can be copied",
                    disk.attribute("type")
                )),
                false => Ok(Disk { target, path, format }),
            }
        })
        .collect()
}

/// Returns the volumes of a copy with the path of each, for [`with_disks`].
pub(super) type Paths = Vec<(String, String)>;

/// Returns a copy of a domain with another name, and without its disks: its id and the addresses of its
/// network cards are new.
pub(super) fn copy(base: &Element, name: &str) -> Element {
    let mut domain = base.clone();
    domain.attributes.retain(|(key, _)| key != "id");
    for key in ["uuid", "genid", "title", "description"] {
        domain.remove(key);
    }
    name.clone_into(&mut domain.at("name").text);
    let about = format!("Cloned from {}", base.text_of("name"));
    domain
        .inner
        .push(Element::new("description", &[]).with_text(&about));
    // The variables of the firmware are a file of the base.
    domain.at("os").remove("nvram");
    for device in &mut domain.at("devices").inner {
        let is_agent = |target: &Element| target.attribute("name") == AGENT;
        match device.name.as_str() {
            "interface" => {
                device.remove("mac");
                device.remove("target");
            }
            "channel" if device.find("target").is_some_and(is_agent) => device.remove("source"),
            _ => {}
        }
    }
    domain
        .at("devices")
        .inner
        .retain(|device| !is_copied(device));
    domain
}

/// Returns a copy of a domain with these disks of the base, whose paths are new.
pub(super) fn with_disks(copy: &Element, base: &Element, paths: &Paths) -> Element {
    let mut domain = copy.clone();
    let devices = base.find("devices").map(|devices| &devices.inner[..]);
    for disk in devices
        .unwrap_or_default()
        .iter()
        .filter(|disk| is_copied(disk))
    {
        let mut disk = disk.clone();
        let target = disk
            .find("target")
            .map(|target| target.attribute("dev").to_owned());
        let path = paths.iter().find(|(own, _)| Some(own) == target.as_ref());
        if let (Some((_, path)), Some(key)) = (path, key_of(&disk)) {
            disk.remove("backingStore");
            disk.at("source").set(key, path);
        }
        domain.at("devices").inner.push(disk);
    }
    domain
}

/// Returns a disk with the data for cloud-init.
pub(super) fn seed(path: &str) -> Element {
    let mut disk = Element::new("disk", &[("type", "file"), ("device", "cdrom")]);
    disk.inner = vec![
        Element::new("driver", &[("name", "qemu"), ("type", "raw")]),
        Element::new("source", &[("file", path)]),
        Element::new("target", &[("dev", "sdz"), ("bus", "sata")]),
        Element::new("readonly", &[]),
    ];
    disk
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "<domain type='kvm' id='3'><name>base</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid><metadata><x:y xmlns:x='urn:x'>kept</x:y></metadata><memory unit='KiB'>2097152</memory><vcpu>2</vcpu><os firmware='efi'><type>hvm</type><nvram>/n</nvram></os><devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/pool/base.qcow2'/><backingStore/><target dev='vda' bus='virtio'/></disk><disk type='file' device='cdrom'><source file='/iso'/><target dev='sda'/></disk><interface type='network'><mac address='52:54:00:00:00:01'/><source network='default'/></interface><channel type='unix'><source mode='bind' path='/domain-base/a'/><target type='virtio' name='org.qemu.guest_agent.0'/></channel></devices></domain>";

    fn mark() -> Mark {
        Mark {
            token: "t0".to_owned(),
            base: "base".to_owned(),
            source: "lease".to_owned(),
            volumes: vec![("default".to_owned(), "web1-vda.qcow2".to_owned())],
            is_ready: true,
        }
    }

    #[test]
    fn a_copy_has_another_name_and_nothing_that_is_the_bases_own() {
        let base = Element::read(BASE).unwrap();
        let copy = copy(&base, "web1");
        let text = copy.written();
        for own in [
            "6695eb01",
            "52:54:00",
            "domain-base",
            "<nvram>",
            "id=\"3\"",
            "base.qcow2",
        ] {
            assert!(!text.contains(own), "{own}: {text}");
        }
        for kept in [
            "<name>web1</name>",
            "kept",
            "/iso",
            "network=\"default\"",
            "firmware=\"efi\"",
        ] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        let paths = vec![("vda".to_owned(), "/pool/web1.qcow2".to_owned())];
        let full = with_disks(&copy, &base, &paths).written();
        assert!(
            full.contains("<source file=\"/pool/web1.qcow2\">"),
            "{full}"
        );
        assert!(
            !full.contains("base.qcow2") && !full.contains("backingStore"),
            "{full}"
        );
    }

    #[test]
    fn a_domain_keeps_the_token_of_its_call() {
        let mut domain = Element::read(BASE).unwrap();
        assert_eq!(Mark::of(&domain), None);
        mark().put(&mut domain);
        mark().put(&mut domain);
        let again = Element::read(&domain.written()).unwrap();
        assert_eq!(Mark::of(&again), Some(mark()));
        let metadata = again.find("metadata").unwrap();
        assert_eq!(metadata.inner.len(), 2, "{metadata:?}");
        let machine = machine(&again, "running");
        assert_eq!(machine.token.as_deref(), Some("t0"));
        assert_eq!(machine.size, "2 cores, 2048 MiB");
        assert_eq!(machine.image, "base");
    }

    #[test]
    fn a_disk_that_cannot_be_copied_is_an_error() {
        let base = Element::read(BASE).unwrap();
        let disk = Disk {
            target: "vda".to_owned(),
            path: "/pool/base.qcow2".to_owned(),
            format: "qcow2".to_owned(),
        };
        assert_eq!(disks(&base), Ok(vec![disk]));
        let other = BASE.replace("type='file' device='disk'", "type='network' device='disk'");
        let error = disks(&Element::read(&other).unwrap()).unwrap_err();
        assert!(
            error.contains("the disk \"vda\" has the type \"network\""),
            "{error}"
        );
    }
}
