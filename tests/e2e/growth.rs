//! Tests that the cost of a run does not grow with parts of the tree that it does not use. The
//! tests count system calls instead of measuring time, because the machine may be busy.

use std::fs;
use std::process::{Command, Stdio};

use tests::program::{program, salt_call};
use tests::scratch::Scratch;

const STEPS: usize = 10;

/// Creates a minion whose tree has an orchestration and this number of folders with ten files each.
fn machine(folders: usize) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("etc/minion.d/case.conf", "file_client: local\n");
    let step = |n| format!("step {n}:\n  salt.state:\n    - tgt: '*'\n    - sls: [one]\n");
    scratch.write(
        "srv/salt/orch.sls",
        &(0..STEPS).map(step).collect::<String>(),
    );
    scratch.write("srv/salt/one.sls", "include: [two]\na:\n  test.nop\n");
    scratch.write("srv/salt/two/init.sls", "b:\n  test.nop\n");
    for folder in 0..folders {
        for file in 0..10 {
            scratch.write(format!("srv/salt/other{folder}/{file}"), "");
        }
    }
    scratch
}

/// Counts the system calls with a path or a folder that an orchestration makes.
fn calls(scratch: &Scratch) -> usize {
    let trace = scratch.path().join("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=%file,getdents64", "-o"])
        .arg(&trace)
        .args(program())
        .arg("-c")
        .arg(scratch.path().join("etc"))
        .args(["--local", "state.orchestrate", "orch"])
        .stdin(Stdio::null())
        .output();
    let output = output.expect("cannot run strace: apt-get install strace");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    fs::read_to_string(trace).unwrap().lines().count()
}

#[test]
fn the_steps_of_an_orchestration_do_not_list_the_tree() {
    let (few, many) = (calls(&machine(1)), calls(&machine(100)));
    assert!(few > STEPS, "strace reports no call");
    assert!(
        many * 10 <= few * 12,
        "the number of calls grew from {few} to {many}"
    );
}

#[test]
fn a_step_sees_the_sls_that_a_step_before_it_wrote() {
    let scratch = machine(1);
    let root = scratch.path().join("srv/salt");
    let write = format!(
        "w:\n  file.managed:\n    - name: {}/made/init.sls\n    - makedirs: True\n    - contents: 'c: test.succeed_with_changes'\n",
        root.display()
    );
    scratch.write("srv/salt/write.sls", &write);
    let steps = "first:\n  salt.state: [{tgt: '*'}, {sls: write}]\n\
                 plain:\n  salt.state: [{tgt: '*'}, {sls: made}]\n\
                 pattern:\n  salt.state: [{tgt: '*'}, {sls: 'mad*'}]\n";
    scratch.write("srv/salt/orch.sls", steps);
    let words = ["--out=json", "state.orchestrate", "orch"].map(str::to_owned);
    let answer = salt_call(scratch.path(), &words).unwrap();
    assert_eq!(answer.rc, Some(0), "{}", answer.out);
    assert_eq!(
        answer
            .out
            .matches("test_|-c_|-c_|-succeed_with_changes")
            .count(),
        2,
        "{}",
        answer.out
    );
}
