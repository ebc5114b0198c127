//! Hosts with other processors, whose programs an emulator runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::program::copy_program;
use tests::skip::{leave, skip};

use super::relay::Relay;
use super::{Answer, Host, Site, placed};

/// A build of the program, and Debian's name and `uname -m` of its processor.
struct Processor {
    build: &'static str,
    target: &'static str,
    debian: &'static str,
    machine: &'static str,
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Starts a host that contains only the busybox of another processor.
fn start(site: &Site, emulator: &str, debian: &str) -> Option<Host> {
    let mut emulate = Command::new(repository("cross/emulate"));
    let has_table = emulate
        .arg("true")
        .status()
        .is_ok_and(|status| status.success());
    if !has_table || !Path::new("/usr/bin").join(emulator).exists() {
        skip("this machine cannot run programs of other processors");
        return None;
    }
    Some(Host::start(site, &["box", debian]))
}

impl Processor {
    /// Uses a host with this processor, if its build exists.
    fn is_used(&self) {
        let build = repository("target/cross").join(self.target).join("pinch");
        let wanted = std::env::var("PINCH_EMULATED").unwrap_or_default();
        if !build.exists() && !wanted.split(' ').any(|name| name == self.build) {
            leave(&format!("there is no static build of {}", self.build));
            return;
        }
        let Some(site) = Site::new() else { return };
        fs::create_dir_all(site.path("builds").join(self.build)).unwrap();
        copy_program(&build, &site.path("builds").join(self.build).join("pinch"));
        let emulator = format!("qemu-{}-static", self.emulator());
        let Some(host) = start(&site, &emulator, self.debian) else {
            return;
        };
        self.runs_states(&site, &host);
    }

    fn emulator(&self) -> &str {
        self.machine.strip_suffix("v7l").unwrap_or(self.machine)
    }

    fn runs_states(&self, site: &Site, host: &Host) {
        let relay = Relay::start(host.port, None);
        site.enlist(&[("arm1", relay.port)]);
        site.write("srv/pillar/top.sls", "base: {'arm*': [color]}\n");
        site.write("srv/pillar/color.sls", "color: red\n");
        site.write(
            "srv/salt/f.txt",
            "{{ grains.cpuarch }} is {{ pillar.color }}\n",
        );
        site.write(
            "srv/salt/web.sls",
            "/root/out:\n  file.managed:\n    - source: salt://f.txt\n    - template: jinja\n",
        );
        site.ssh(&["arm1", "test.ping"]).is(0, &["True"]);
        let folder = host.path("box/var/tmp/.root_pinch");
        let first = placed(&folder);
        assert_eq!(first.len(), 1, "{first:?}");
        site.ssh(&["arm1", "grains.get", "cpuarch"])
            .is(0, &[self.machine]);
        site.ssh(&["arm1", "state.apply", "web"])
            .is(0, &["Succeeded: 1 (changed=1)"]);
        let written = fs::read_to_string(host.path("box/root/out")).unwrap();
        assert_eq!(written, format!("{} is red\n", self.machine));
        let before = relay.sent();
        site.ssh(&["arm1", "state.apply", "web"])
            .is(0, &["Succeeded: 1\n"]);
        assert_eq!(placed(&folder), first, "the program was sent again");
        let sent = relay.sent() - before;
        assert!(sent < 60_000, "{sent} bytes were sent");
    }
}

#[test]
fn a_host_with_an_armv7_processor_runs_functions_and_states() {
    Processor {
        build: "armv7hf",
        target: "armv7-unknown-linux-musleabihf",
        debian: "armhf",
        machine: "armv7l",
    }
    .is_used();
}

#[test]
fn a_host_with_an_aarch64_processor_runs_functions_and_states() {
    Processor {
        build: "aarch64",
        target: "aarch64-unknown-linux-musl",
        debian: "arm64",
        machine: "aarch64",
    }
    .is_used();
}

/// Asks a host for a build that this machine does not have.
fn lacks(site: &Site, host: &Host, build: &str) {
    site.enlist(&[("other", host.port)]);
    let text = format!("there is no build for {build}: install the package pinch-agents");
    let ran: Answer = site.ssh(&["other", "test.ping"]);
    ran.is(11, &[&text]);
}

#[test]
fn the_build_for_mips_has_the_byte_order_of_the_host() {
    let Some(site) = Site::new() else { return };
    if let Some(host) = start(&site, "qemu-mipsel-static", "mipsel") {
        lacks(&site, &host, "mipsel");
    }
}

#[test]
fn the_build_for_arm_needs_a_floating_point_unit_only_if_the_host_has_one() {
    let Some(site) = Site::new() else { return };
    let Some(host) = start(&site, "qemu-arm-static", "armhf") else {
        return;
    };
    lacks(&site, &host, "armv7hf");
    for (features, build) in [
        ("half thumb fastmult edsp", "armv5te"),
        ("half thumb fastmult vfp edsp vfpv3", "armv7hf"),
    ] {
        let line = format!(
            "echo Features : {features} >/root/cpuinfo; mount -o bind /root/cpuinfo /proc/cpuinfo"
        );
        site.ssh(&["-r", "other", &line]).is(0, &[]);
        lacks(&site, &host, build);
    }
}
