//! Placing the program over a link that loses packets and is cut again and again.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use tests::program::pinch_program;

use super::relay::Relay;
use super::{Answer, Host, Site, placed};

/// The number of bytes of the program after which a connection is cut: three packets of the ssh
/// program.
const ARRIVES: u64 = 3 * 32_768;
/// The maximum number of bytes that `gzip` has not unpacked yet.
const WINDOW: u64 = 65_536;
/// The maximum number of the other bytes of a connection.
const OTHERS: u64 = 12_000;

/// Makes the loopback interface usable. Lost packets are sent again sooner than on a slow link, so
/// that the test takes less time. An older kernel does not know the second setting.
const NETWORK: &str = "ip link set lo up
ip route change local 127.0.0.0/8 dev lo table local rto_min 20ms
echo 1000 >/proc/sys/net/ipv4/tcp_rto_max_ms 2>/dev/null || true
echo
read x";

/// A separate network, with a loopback interface.
struct Network(Child);

impl Network {
    fn start() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "--kill-child", "sh", "-euc"])
            .arg(NETWORK)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let ready = BufReader::new(holder.stdout.take().unwrap()).lines().next();
        assert!(ready.is_some(), "no network");
        Self(holder)
    }

    fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path())).arg(program);
        command
    }

    /// Loses 30 % of the packets to a port, as `tc qdisc add … netem loss 30%` on the interface of
    /// the machine that calls. Many kernels lack `netem`.
    fn loses_packets(&self, port: u16) {
        let port = port.to_string();
        let mut command = self.command("iptables");
        command
            .args(["-A", "INPUT", "-p", "tcp", "--dport", &port])
            .args(["-m", "statistic", "--mode", "random"])
            .args(["--probability", "0.3", "-j", "DROP"]);
        assert!(command.status().unwrap().success());
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Returns a script of this size that runs the program of a host.
fn script(host: &Host, size: usize) -> Vec<u8> {
    let program = host.dir.path().join("pinch");
    let mut bytes = format!("#!/bin/sh\nexec {} \"$@\"\n", program.display()).into_bytes();
    let mut number: u32 = 1;
    while bytes.len() < size {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes.push((number >> 24) as u8);
    }
    bytes
}

/// Returns the size of the largest file of the program on a host.
fn largest(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    // A transfer may end at this moment.
    let sizes = entries.filter_map(|entry| entry.unwrap().metadata().ok());
    let files = sizes.filter(|metadata| metadata.is_file());
    files.map(|metadata| metadata.len()).max().unwrap_or(0)
}

/// A long run sets `PINCH_PLACED_KB` to the size of a real program.
#[test]
fn placing_that_is_cut_every_100_kb_on_a_link_that_loses_packets_continues_where_it_was() {
    let Some(site) = Site::new() else { return };
    let size = std::env::var("PINCH_PLACED_KB").map_or(500, |text| text.parse().unwrap());
    let size = size * 1000;
    let network = Network::start();
    let host = Host::start_by(network.command("sh"), &site, &[]);
    let relay = Relay::start(host.port, Some(File::open(network.path()).unwrap()));
    network.loses_packets(relay.port);
    site.enlist(&[("web1", relay.port)]);
    let program = script(&host, size);
    fs::write(site.path("builds/x86_64/pinch"), &program).unwrap();
    let folder = host.path("var/tmp/.root_pinch");
    let size = size as u64;
    let wanted = Arc::new(AtomicU64::new(ARRIVES - WINDOW));
    relay.cut_after(ARRIVES + OTHERS, {
        let (folder, wanted) = (folder.clone(), wanted.clone());
        move || largest(&folder) >= wanted.load(Ordering::Relaxed)
    });
    let (mut have, mut calls) = (0, 0);
    loop {
        let command = network.command(&pinch_program().display().to_string());
        let words = ["web1", "test.ping"];
        let mut command = site.command_by(command, "salt-ssh", &words);
        let ran = Answer::of(command.output().unwrap());
        calls += 1;
        if ran.code == Some(0) {
            break;
        }
        ran.is(20, &[]);
        let before = have;
        have = largest(&folder);
        wanted.store(have + ARRIVES - WINDOW, Ordering::Relaxed);
        assert!(have >= before, "{have} of {before} bytes are left");
        assert!(calls < 3 * size / ARRIVES, "{}", ran.out);
    }
    let cuts = relay.cuts();
    assert!(cuts >= size / (ARRIVES + OTHERS) - 1, "{cuts} cuts");
    let (name, _) = placed(&folder)
        .into_iter()
        .find(|(name, _)| !name.contains('.'))
        .unwrap();
    assert!(fs::read(folder.join(name)).unwrap() == program);
    // A cut loses what the host has not yet unpacked. Each call has a second connection.
    let most = size + cuts * WINDOW + (cuts + 1) * OTHERS + calls * OTHERS;
    let sent = relay.sent();
    assert!(sent < most, "{sent} of {most} bytes in {calls} calls");
}
