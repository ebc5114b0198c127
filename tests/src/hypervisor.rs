//! A hypervisor of libvirt whose machines are simulated: its driver `test`, in a daemon that keeps them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::skip;

/// The programs, which `tests/run` unpacks.
const ROOT: &str = "/var/cache/pinch-tests/libvirt/root";
/// The maximum time until the daemon answers.
const START_MAX: Duration = Duration::from_secs(60);
/// A machine that others are copies of. Its disk is a volume.
const BASE: &str = "<domain type='test'><name>base</name><memory unit='KiB'>65536</memory><vcpu>1</vcpu><os><type>hvm</type></os>
<devices><disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/default-pool/base.qcow2'/>
<target dev='vda' bus='virtio'/></disk><interface type='network'><source network='default'/></interface></devices></domain>";

/// A simulated hypervisor with the machine `test`, which runs, and the machine `base`, which does not. It
/// ends with this value.
pub struct Hypervisor {
    folder: tempfile::TempDir,
    daemon: Child,
    /// A connection, without which the daemon would forget everything.
    connection: Option<Child>,
}

impl Drop for Hypervisor {
    fn drop(&mut self) {
        for child in self.connection.iter_mut().chain([&mut self.daemon]) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Hypervisor {
    /// Starts the daemon; `None` if libvirt is not there.
    pub fn start() -> Option<Self> {
        let root = std::env::var("PINCH_LIBVIRT").map_or_else(|_| ROOT.into(), PathBuf::from);
        if !root.join("usr/sbin/libvirtd").exists() {
            skip::skip("tests/run unpacks libvirt");
            return None;
        }
        if !skip::is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let here = folder.path().display();
        fs::create_dir(at("bin")).unwrap();
        for (name, program) in [
            ("virsh", "usr/bin/virsh"),
            ("libvirtd", "usr/sbin/libvirtd"),
        ] {
            let root = root.display();
            let text = format!(
                "#!/bin/sh\nexport LD_LIBRARY_PATH=$(echo {root}/usr/lib/*-linux-gnu {root}/lib/*-linux-gnu | tr ' ' :)\nexec {root}/{program} \"$@\"\n"
            );
            let path = at("bin").join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let settings =
            "auth_unix_rw = \"none\"\nauth_unix_ro = \"none\"\nlog_outputs = \"3:stderr\"\n";
        fs::write(
            at("conf"),
            format!("unix_sock_dir = \"{here}\"\n{settings}"),
        )
        .unwrap();
        let daemon = Command::new(at("bin/libvirtd"))
            .args(["-f", &format!("{here}/conf"), "-p", &format!("{here}/pid")])
            .stdin(Stdio::null())
            .stderr(fs::File::create(at("log")).unwrap())
            .spawn()
            .unwrap();
        let mut hypervisor = Self {
            folder,
            daemon,
            connection: None,
        };
        hypervisor.wait();
        hypervisor.connect();
        let base = hypervisor.folder.path().join("base.xml");
        fs::write(&base, BASE).unwrap();
        hypervisor.virsh(&[
            "vol-create-as",
            "default-pool",
            "base.qcow2",
            "1M",
            "--format=qcow2",
        ]);
        hypervisor.virsh(&["define", &base.display().to_string()]);
        Some(hypervisor)
    }

    fn wait(&self) {
        let since = Instant::now();
        while !self.folder.path().join("libvirt-sock").exists() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
            assert!(since.elapsed() < START_MAX, "{log}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn connect(&mut self) {
        let mut child = self
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(b"uri\n").unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("test")));
        self.connection = Some(child);
    }

    /// The path of `virsh`.
    pub fn program(&self) -> PathBuf {
        self.folder.path().join("bin/virsh")
    }

    /// The address of the connection.
    pub fn url(&self) -> String {
        let socket = self.folder.path().join("libvirt-sock");
        format!("test+unix:///default?socket={}", socket.display())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program());
        command.args(["--quiet", "--connect", &self.url()]);
        command
    }

    /// Runs a command of `virsh`, which must succeed, and returns its output.
    pub fn virsh(&self, words: &[&str]) -> String {
        let output = self
            .command()
            .args(words)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {error}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}
