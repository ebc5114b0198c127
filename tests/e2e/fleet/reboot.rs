//! Tests of a step of a master's orchestration that reboots a minion: the minion's run continues
//! after the boot, and only then sends its return.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tests::program::in_recorded_environment;

use super::{Fleet, PROGRAM};
use crate::reboot::unit;

/// Writes the id of its process to a file, and takes that process down.
const STATES: &str = "\
a:
  cmd.run:
    - name: echo a >> @LOG@
b:
  cmd.run:
    - name: echo $PPID > @LOG@.pid; echo down >> @LOG@
    - reboot: True
c:
  cmd.run:
    - name: echo c >> @LOG@
";

const ORCH: &str = "\
waits:
  salt.state:
    - tgt: m1
    - sls: s
    - reboot: True
";

#[test]
fn a_minion_that_a_step_takes_down_returns_after_its_boot() {
    let mut fleet = Fleet::with("auto_accept: True\ntimeout: 1\n");
    fleet.start_minion("m1", "");
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "-t", "60", "m1", "test.ping"]).rc == Some(0)
    });
    let log = fleet.path("m1/log.txt");
    fleet.write(
        "salt/s.sls",
        &STATES.replace("@LOG@", &log.display().to_string()),
    );
    fleet.write("salt/orch.sls", ORCH);
    let out = fs::File::create(fleet.path("orch.json")).unwrap();
    let mut orchestration = Command::new(&*PROGRAM);
    let mut orchestration = in_recorded_environment(&mut orchestration)
        .args(["salt-run", "--out=json", "-c"])
        .arg(fleet.path("master/etc"))
        .args(["state.orchestrate", "orch"])
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(out)
        .spawn()
        .unwrap();
    let words = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default();
    fleet.soon("the step takes the minion down", || {
        words(&log).ends_with("down\n")
    });
    // A shutdown ends the jobs without a return.
    let job = words(&fleet.path("m1/log.txt.pid")).trim().parse().unwrap();
    kill_process_group(Pid::from_raw(job).unwrap(), Signal::TERM).unwrap();
    fleet.soon("the job ends without a return", || {
        words(&fleet.path("m1/log")).contains("ended without a return")
    });
    fleet.kill_minion("m1");
    fleet.start_minion_again("m1");
    // After the boot, the kernel reports another boot id.
    let boot = fleet.path("boot_id");
    fs::write(&boot, "00000000-0000-4000-8000-000000000002\n").unwrap();
    let script = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\"";
    let mut goes_on = Command::new("unshare");
    goes_on
        .args(["--mount", "sh", "-euc", script, "sh"])
        .arg(boot)
        .arg(&*PROGRAM)
        .args(unit());
    let said = goes_on
        .env("SALT_CONFIG_DIR", fleet.path("m1/etc"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    assert_eq!(words(&log), "a\ndown\nc\n");
    let status = orchestration.wait().unwrap();
    let told = words(&fleet.path("orch.json"));
    assert_eq!(status.code(), Some(0), "{told}{}", fleet.logs());
    for part in [
        "States ran successfully. Updating m1.",
        "The machine has rebooted",
    ] {
        assert!(told.contains(part), "{told}");
    }
    // A step that cannot wait for a reboot is refused.
    fleet.write(
        "salt/orch.sls",
        &ORCH.replace("salt.state", "salt.function"),
    );
    let refused = fleet.run(&["salt-run", "state.orchestrate", "orch"]);
    assert!(
        refused.rc != Some(0) && refused.out.contains("only salt.state steps accept it"),
        "{}",
        refused.out
    );
}
