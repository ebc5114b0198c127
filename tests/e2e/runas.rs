//! Tests of commands that root runs as another user: their identity, the errors when they cannot
//! start, and the fact that no thread of root's process ever takes the user's identity.

use std::fs;
use std::process::{Command, Output, Stdio};

use tests::program::{in_recorded_environment, program};
use tests::scratch::Scratch;
use tests::skip::is_root;

/// Returns a `salt-call` command with other words in front of it.
fn call(scratch: &Scratch, before: &[&str], words: &[&str]) -> Command {
    let all: Vec<&str> = before
        .iter()
        .copied()
        .chain(program().iter().map(String::as_str))
        .collect();
    let mut command = Command::new(all[0]);
    in_recorded_environment(&mut command)
        .args(&all[1..])
        .arg("-c")
        .arg(scratch.path().join("etc"))
        .args(["--local", "--out=json"])
        .args(words)
        .stdin(Stdio::null());
    command
}

fn local_result(output: &Output) -> serde_json::Value {
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    told["local"].clone()
}

#[test]
fn a_command_has_the_user_his_groups_and_no_capabilities() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let ask = |words: &[&str]| local_result(&call(&scratch, &[], words).output().unwrap());
    let who = "id -un; id -Gn; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status; umask; pwd; echo $USER; cat";
    let words = [
        "cmd.run",
        who,
        "runas=nobody",
        "cwd=/usr",
        "umask=077",
        "python_shell=True",
        "stdin=given",
    ];
    let answer = ask(&words);
    let none = "0000000000000000";
    let capabilities = ["Inh", "Prm", "Eff", "Amb"]
        .map(|set| format!("Cap{set}:\t{none}\n"))
        .concat();
    let group = String::from_utf8(
        Command::new("id")
            .args(["-Gn", "nobody"])
            .output()
            .unwrap()
            .stdout,
    )
    .unwrap();
    assert_eq!(
        answer,
        format!("nobody\n{group}{capabilities}0077\n/usr\nnobody\ngiven")
    );
    let answer = ask(&[
        "cmd.run",
        "id -un; id -gn",
        "group=daemon",
        "cwd=/",
        "python_shell=True",
    ]);
    assert_eq!(answer, "root\ndaemon");
    let answer = ask(&[
        "cmd.run_all",
        "kill -9 $$",
        "runas=nobody",
        "cwd=/",
        "python_shell=True",
    ]);
    assert_eq!(answer["retcode"], -9);
    let answer = ask(&["cmd.run", "sleep 60", "runas=nobody", "cwd=/", "timeout=1"]);
    assert_eq!(answer, "sleep 60 : Timed out after 1 seconds");
}

#[test]
fn a_command_that_cannot_begin_is_told_with_the_systems_reason() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let closed = scratch.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let closed = format!("cwd={}", closed.display());
    for function in ["cmd.run", "cmd.run_bg"] {
        for (program, cwd, reason) in [
            (
                "nosuch a",
                "cwd=/",
                "[Errno 2] No such file or directory: 'nosuch'",
            ),
            (
                "/etc/passwd",
                "cwd=/",
                "[Errno 13] Permission denied: '/etc/passwd'",
            ),
            ("id", &closed, "[Errno 13] Permission denied: 'id'"),
        ] {
            let words = [function, program, cwd, "runas=nobody", "python_shell=False"];
            let output = call(&scratch, &[], &words).output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(
                error.contains("Unable to run command") && error.contains(reason),
                "{error}"
            );
            assert_eq!(output.status.code(), Some(1));
        }
    }
}

/// The system calls that change the identity of a thread.
const IDENTITY: &str =
    "clone,clone3,fork,vfork,execve,setuid,setgid,setreuid,setregid,setresuid,setresgid,setgroups";

#[test]
fn only_the_helper_becomes_the_user_and_it_is_told_nothing_by_words_or_variables() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let trace = scratch.path().join("trace");
    let (path, calls) = (trace.display().to_string(), format!("trace={IDENTITY}"));
    let strace = [
        "strace", "-f", "-qq", "-v", "-s", "4096", "-o", &path, "-e", &calls,
    ];
    let words = [
        "cmd.run",
        "echo s3cret-word; id -u",
        "runas=nobody",
        "cwd=/",
        "python_shell=True",
        "env={S3CRET_VARIABLE: s3cret-value, LD_PRELOAD: /tmp/nosuch.so}",
    ];
    let output = call(&scratch, &strace, &words).output().unwrap();
    assert!(
        local_result(&output).to_string().contains("65534"),
        "{output:?}"
    );
    let text = fs::read_to_string(&trace).unwrap();
    let lines: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let (leader, _) = lines[0];
    let mut helpers = 0;
    for (thread, call) in &lines {
        if call.contains("execve(") && call.contains("become") {
            assert!(call.contains(r#"["pinch", "become"], []"#), "{call}");
            helpers += 1;
        }
        // No thread of the program itself ever calls exec.
        if call.trim_start().starts_with("set") {
            let is_child = lines
                .iter()
                .any(|(of, call)| of == thread && call.contains("execve("));
            assert!(thread != &leader && is_child, "{thread} {call} in\n{text}");
        }
    }
    assert!(helpers >= 1, "{text}");
}

/// Signals the newest threads of the machine as fast as it can; it cannot reach those of other users'
/// processes.
const ATTACKER: &str = r#"
while (1) {
    open(my $load, "<", "/proc/loadavg") or next;
    my $last = (split " ", <$load>)[4];
    for my $task ($last - 4 .. $last + 2) {
        next unless kill(0, $task) && open(my $status, "<", "/proc/$task/status");
        my ($group) = join("", <$status>) =~ /^Tgid:\s+(\d+)/m;
        kill("KILL", $task) if defined $group && $group != $task;
    }
}
"#;

#[test]
fn m8_a_user_cannot_end_the_process_of_root_that_runs_a_command_as_him() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let as_nobody = [
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "perl",
        "-e",
        ATTACKER,
    ];
    let mut attacker = Command::new("setpriv")
        .args(as_nobody)
        .current_dir("/")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let words = [
        "cmd.run_all",
        "/bin/true",
        "runas=nobody",
        "cwd=/",
        "python_shell=False",
    ];
    let ended: Vec<_> = (0..30)
        .map(|_| call(&scratch, &[], &words).output().unwrap().status.code())
        .collect();
    assert_eq!(
        attacker.try_wait().unwrap(),
        None,
        "the attacker must be running all the time"
    );
    attacker.kill().unwrap();
    attacker.wait().unwrap();
    // The user may end a command that runs as this user; the program then reports that.
    assert!(
        ended.iter().all(|code| matches!(code, Some(0 | 1))),
        "{ended:?}"
    );
}
