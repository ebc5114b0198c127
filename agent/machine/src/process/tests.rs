use super::*;
use crate::testing::exec;

fn run(process: &Process) -> Output {
    process.run(&exec()).unwrap()
}

fn shell(line: &str) -> Process {
    Process {
        shell: "/bin/sh".into(),
        ..Process::shell_line(line).quiet()
    }
}

#[test]
fn both_outputs_the_return_code_and_the_input_come_through() {
    let output = run(&Process {
        stdin: Some("in".into()),
        ..shell("cat; echo err >&2; exit 3")
    });
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("in", "err")
    );
    assert_eq!(output.retcode, Some(3));
    let merged = run(&Process {
        stderr: Stderr::Merged,
        ..shell("echo a; echo b >&2")
    });
    assert_eq!(merged.stdout, "a\nb");
}

#[test]
fn a_signal_is_a_negative_return_code_and_listed_codes_are_success() {
    assert_eq!(run(&shell("kill -9 $$")).retcode, Some(-9));
    let listed = Process {
        success_retcodes: vec![4],
        ..shell("exit 4")
    };
    assert!(run(&listed).success());
    let said = Process {
        success_stdout: vec!["fine".into()],
        ..shell("echo all fine; exit 1")
    };
    assert!(run(&said).success());
}

#[test]
fn time_over_ends_the_children_of_the_child_too() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let before = Instant::now();
    let output = run(&Process {
        timeout: Some(Value::Float(0.2)),
        ..shell(&format!("(sleep 1; touch {}) & wait", mark.display()))
    });
    assert!(before.elapsed().as_secs_f64() < 0.9);
    assert!(output.timed_out);
    assert!(output.stdout.ends_with(" : Timed out after 0.2 seconds"));
    assert_eq!(output.retcode, Some(1));
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert!(!mark.exists());
}

#[test]
fn the_environment_is_added_replaced_and_cleaned() {
    let env = Map::new().with("FOO", "1").with("PATH", "/usr/bin:/bin");
    let output = run(&Process {
        env,
        clean_env: true,
        prepend_path: Some("/first".into()),
        reset_system_locale: false,
        ..shell("echo $FOO $PATH $HOME")
    });
    assert_eq!(output.stdout, "1 /first:/usr/bin:/bin");
    assert_eq!(run(&shell("echo $LC_TIME")).stdout, "C");
    let cx = exec();
    cx.context(|context| context.insert("environ", Map::new().with("BAR", "x")));
    assert_eq!(shell("echo $BAR").run(&cx).unwrap().stdout, "x");
}

#[test]
fn the_umask_reaches_the_child_and_nobody_else() {
    let output = run(&Process {
        umask: Some(0o27),
        ..shell("umask; echo $$")
    });
    let (umask, pid) = output.stdout.split_once('\n').unwrap();
    assert_eq!(umask.trim_start_matches('0'), "27");
    assert_eq!(pid, output.pid.to_string());
    assert_ne!(run(&shell("umask")).stdout.trim_start_matches('0'), "27");
}

#[test]
fn what_cannot_be_started_is_told_in_salts_words() {
    let refused = |process: Process| process.run(&exec()).unwrap_err().to_string();
    assert_eq!(
        refused(Process {
            cwd: Some("/".into()),
            ..Process::words(["nosuch", "a"])
        }),
        "Unable to run command '['nosuch', 'a']' with the context '{'cwd': '/', 'shell': False, 'stdout': -1, 'stderr': -1, \
         'with_communicate': True, 'timeout': None, 'bg': False, 'close_fds': True}', reason: [Errno 2] No such file or directory: 'nosuch'"
    );
    let cwd = Process {
        cwd: Some("/no/such".into()),
        ..shell("true")
    };
    assert_eq!(
        refused(cwd),
        "Specified cwd '/no/such' either not absolute or does not exist"
    );
    let user = Process {
        runas: Some("nosuch".into()),
        ..shell("true")
    };
    assert_eq!(refused(user), "User 'nosuch' is not available");
    let nosh = Process {
        shell: "/bin/nosh".into(),
        ..shell("true")
    };
    assert_eq!(refused(nosh), "The shell /bin/nosh is not available");
    let timeout = Process {
        timeout: Some("1".into()),
        ..shell("true")
    };
    assert_eq!(refused(timeout), "Error: timeout 1 must be a number");
}

#[test]
fn options_are_read_as_salt_reads_them() {
    let options = Map::new()
        .with(
            "env",
            Value::list([
                Map::new().with("A", 1).into(),
                Map::new().with("B", true).into(),
            ]),
        )
        .with("success_retcodes", "3, 4")
        .with("umask", "027")
        .with("stdin", "a\\nb")
        .with("output_loglevel", "quiet");
    let process = Process::with_options(&"ls -l".into(), &options).unwrap();
    assert_eq!(process.env, Map::new().with("A", "1").with("B", "True"));
    assert_eq!(
        (process.umask, process.stdin.as_deref()),
        (Some(0o27), Some("a\nb"))
    );
    assert_eq!(process.success_retcodes, [3, 4]);
    assert_eq!(process.output_loglevel, None);
    let refused = |name: &str, value: &str| {
        Process::with_options(&"x".into(), &Map::new().with(name, value))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refused("umask", "0"), "Zero umask is not allowed.");
    assert_eq!(refused("umask", "9"), "Invalid umask: '9'");
    assert_eq!(
        refused("success_retcodes", "a"),
        "success_retcodes must be a list of integers"
    );
}

#[test]
fn the_output_of_a_program_that_failed_is_an_error() {
    let ran = |script: &str| run(&Process::words(["sh", "-c", script]));
    let failed = ran("echo half; echo broken >&2; exit 3").stdout_of_success("list");
    let error = failed.unwrap_err().to_string();
    assert_eq!(error, "list failed (exit code 3): broken");
    assert_eq!(ran("echo all").stdout_of_success("list").unwrap(), "all");
    assert_eq!(ran("echo half; exit 3").stdout_regardless(), "half");
}

#[test]
fn a_program_that_another_thread_holds_open_for_a_moment_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script");
    std::fs::write(&path, "#!/bin/sh\necho done\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = Process::words([path.display().to_string()]).quiet();
    let held = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let holder = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        drop(held);
    });
    assert_eq!(run(&script).stdout, "done");
    holder.join().unwrap();
    let _held = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let error = script.run(&exec()).unwrap_err().to_string();
    assert!(error.contains("Text file busy"), "{error}");
}
