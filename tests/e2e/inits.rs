//! Services under runit, where Pinch differs from Salt on purpose. The cases that agree with Salt are
//! the corpus cases with `boot`.

use std::process::Command;

use tests::program::{boot, in_recorded_environment, program};
use tests::scratch::{Scratch, corpus};

#[test]
fn a_service_of_runit_that_is_not_to_start_is_disabled_once() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("etc/minion.d/case.conf", "grains:\n  os: Void\n");
    assert!(boot(scratch.path(), "runit").unwrap());
    let (program, etc) = (program().join(" "), scratch.path().join("etc"));
    let etc = etc.display();
    let script = format!(
        r#"
pinch() {{ {program} -c {etc} --local --out=txt "$@" 2>&1 || true; }}
mkdir /etc/sv/sleeper
printf '#!/bin/sh\nexec sleep 1357\n' >/etc/sv/sleeper/run
chmod 755 /etc/sv/sleeper/run
echo "before: $(pinch service.enabled sleeper) $(pinch service.disabled sleeper)"
pinch state.single service.running sleeper
echo "linked: $(pinch service.status sleeper) $(pinch service.enabled sleeper) $(ls /etc/sv/sleeper)"
pinch state.single service.enabled sleeper
pinch state.single service.disabled sleeper
pinch state.single service.disabled sleeper
pinch service.status 'sleep*'
pinch service.full_restart sleeper
"#
    );
    let mut command = Command::new(corpus().join("throwaway.sh"));
    command.arg(scratch.path()).args(["sh", "-euc", &script]);
    let output = in_recorded_environment(&mut command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    for wanted in [
        "before: local: False local: True",
        "Started service sleeper",
        // The service did not start at boot before, and still does not.
        "linked: local: True local: False down\n",
        "Service sleeper has been enabled, and is in the desired state",
        "Service sleeper has been disabled, and is in the desired state",
        "Service sleeper is already disabled, and is in the desired state",
        "local: {'sleeper': True}",
    ] {
        assert!(text.contains(wanted), "no {wanted:?} in {text}");
    }
}
