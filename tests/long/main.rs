//! `cargo ci-long [STAGE…]`: what runs every night and before a release, because it is too long for
//! each change: tests of which none may be skipped, more seeds, fuzzing, all static builds and
//! their emulated cases. Runs all stages or those that are named, continues after a failure, and
//! ends with the minutes of each. Exits with 1 if a stage failed, and with 64 for an unknown stage.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is a program for a terminal"
)]

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A stage: a name, and a command for bash that runs in the top folder of the repository.
struct Stage {
    name: &'static str,
    command: &'static str,
}

const STAGES: &[Stage] = &[
    Stage {
        name: "change",
        command: "PINCH_ALL=1 .ci/run",
    },
    Stage {
        name: "simulation",
        command: "PINCH_SEEDS=50000 cargo test --profile simulation --locked --package tests --test simulation && PINCH_SEEDS=80000 cargo test --profile simulation --locked --package cluster --test simulation && PINCH_SEEDS=20000 cargo test --profile simulation --locked --package simulation --test simulation",
    },
    // The commit is the oldest one whose clusters can be upgraded.
    Stage {
        name: "upgrade",
        command: "set -e
            old=$(mktemp -d); trap 'git worktree remove --force \"$old\"' EXIT
            git worktree add --detach \"$old\" 1b17e161
            cargo build --locked --package pinch --features master --manifest-path \"$old/Cargo.toml\"
            PINCH_OLD=$old/target/debug/pinch cargo test --locked --package tests --test e2e fleet::cluster_upgrade",
    },
    Stage {
        name: "fuzz",
        command: "tests/fuzz/run 600",
    },
    Stage {
        name: "static",
        command: "cross/build",
    },
    Stage {
        name: "emulated",
        command: "for target in armv7-unknown-linux-musleabihf aarch64-unknown-linux-musl arm-unknown-linux-musleabihf riscv64gc-unknown-linux-musl mipsel-unknown-linux-musl; do
            PINCH_BIN=target/cross/$target/pinch cross/emulate cargo test --locked --package tests --test conform recorded || exit
        done
        PINCH_EMULATED='armv7hf aarch64' cargo test --locked --package tests --test e2e ssh::emulated",
    },
    Stage {
        name: "placing",
        command: "PINCH_PLACED_KB=10000 cargo test --locked --package tests --test e2e ssh::bad_link",
    },
    Stage {
        name: "openstack",
        command: "set -e
            export PINCH_ALL=1 PINCH_OPENSTACK=/var/cache/pinch-tests/openstack
            tests/e2e/cloud/openstack_services.sh install
            cargo test --locked --package tests --test e2e cloud::openstack",
    },
    // The comparison of returns has the reasons for what differs from 3008.
    Stage {
        name: "salt",
        command: "set -e
            export PINCH_ALL=1 PINCH_CUT_SECONDS=600
            for version in 3006 3007; do
                venv=/var/cache/pinch-tests/salt-$version
                tests/install-salt $venv $version
                SALT_VENV=$venv cargo test --locked --package tests --test e2e fleet::salt:: -- --skip compare
            done
            cargo test --locked --package tests --test e2e fleet::salt::cut",
    },
    Stage {
        name: "reproduce",
        command: "cross/reproduce x86_64 armv7hf",
    },
];

/// The result of a stage.
struct Done {
    name: &'static str,
    passed: bool,
    time: Duration,
}

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    for name in &names {
        if STAGES.iter().all(|stage| stage.name != name) {
            let known = STAGES.iter().map(|stage| stage.name);
            let known = known.collect::<Vec<_>>().join(", ");
            eprintln!("ci-long: unknown stage {name}; the stages are: {known}");
            return ExitCode::from(64);
        }
    }
    let chosen = STAGES
        .iter()
        .filter(|stage| names.is_empty() || names.iter().any(|name| name == stage.name));
    let done: Vec<Done> = chosen.map(run).collect();
    done.iter().for_each(print);
    match done.iter().all(|stage| stage.passed) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Runs a stage. Its output goes to the terminal.
fn run(stage: &Stage) -> Done {
    println!("== {}: {}", stage.name, stage.command);
    let start = Instant::now();
    let status = Command::new("bash")
        .args(["-c", stage.command])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .status();
    if let Err(error) = &status {
        eprintln!("ci-long: cannot run bash: {error}");
    }
    Done {
        name: stage.name,
        passed: status.is_ok_and(|status| status.success()),
        time: start.elapsed(),
    }
}

fn print(done: &Done) {
    let result = if done.passed { "passed" } else { "FAILED" };
    let seconds = done.time.as_secs();
    println!(
        "== {:<12} {result} {:>5} min {:>2} s",
        done.name,
        seconds / 60,
        seconds % 60
    );
}
