//! Custom modules and Python: no Python is started without need, and Python programs reach the program.

use std::path::Path;
use std::process::{Command, Output};

use tests::program::{in_recorded_environment, program};
use tests::scratch::Scratch;

/// A minion whose tree has custom modules of every sort.
fn machine() -> Scratch {
    let scratch = Scratch::new();
    let minion = std::fs::read_to_string(tests::scratch::corpus().join("minion")).unwrap();
    scratch.write("etc/minion", &minion.replace("remote", "local"));
    for (path, text) in [
        (
            "_modules/mine.py",
            "from salt.utils.decorators.jinja import jinja_filter\n\n@jinja_filter('get')\ndef get(x):\n    return 'got ' + x\n\ndef f():\n    return 1\n",
        ),
        (
            "_states/made.py",
            "def f(name):\n    return {'name': name, 'result': True, 'changes': {}, 'comment': ''}\n",
        ),
        ("_utils/tool.py", "x = 1\n"),
        ("_runners/run.py", "def f():\n    return 1\n"),
        (
            "_renderers/own.py",
            "def render(data, *args, **kwargs):\n    return data.read()\n",
        ),
        ("top.sls", "base:\n  '*':\n    - plain\n"),
        (
            "plain.sls",
            "{{ {'a': 'b'}.get('a') }}:\n  test.nop: []\n{{ 'no.such' in grains }}x:\n  cmd.run:\n    - name: 'true'\n",
        ),
        ("filter.sls", "{{ 'x'|get }}:\n  test.nop: []\n"),
    ] {
        scratch.write(format!("srv/salt/{path}"), text);
    }
    scratch
}

/// `salt-call` with nothing in its path but a shell's programs.
fn without_python(scratch: &Scratch, words: &[&str]) -> Output {
    let bin = scratch.path().join("bin");
    if !bin.is_dir() {
        std::fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink("/bin/true", bin.join("true")).unwrap();
    }
    in_recorded_environment(Command::new(&program()[0]).args(&program()[1..]))
        .args([
            "-c",
            &scratch.path().join("etc").display().to_string(),
            "--local",
            "--out=json",
        ])
        .args(words)
        .env("PATH", bin)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn custom_modules_that_are_not_called_start_no_python() {
    let scratch = machine();
    for words in [
        &["saltutil.sync_all"][..],
        &["state.apply"],
        &["state.apply", "plain"],
        &["test.ping"],
        &["state.orchestrate", "plain"],
        &["saltutil.runner", "test.arg"],
    ] {
        let output = without_python(&scratch, words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        assert!(
            output.stderr.is_empty(),
            "{words:?}: {}",
            text(&output.stderr)
        );
    }
    for words in [&["mine.f"][..], &["state.apply", "filter"]] {
        let output = without_python(&scratch, words);
        assert_ne!(output.status.code(), Some(0));
        let said = text(&output.stderr);
        assert!(
            said.contains("there is no python3 on this machine"),
            "{words:?}: {said}"
        );
    }
}

const CALLER: &str = r#"
import salt.client, salt.config, salt.output, salt.exceptions, salt.utils.yaml
opts = salt.config.minion_config("@ENV@/etc/minion")
assert opts["id"] == "m1", opts["id"]
caller = salt.client.Caller(mopts=opts)
print(caller.cmd("test.echo", "a: b"), caller.cmd("test.arg", 1, None, x=(1, 2))["kwargs"])
print(caller.cmd("saltutil.sync_modules", saltenv="base"), caller.cmd("mine.f"))
result = caller.cmd("state.orchestrate", ["plain"])
print(result["retcode"], sorted(result["data"]["m1"])[-1])
for call in (["test.exception", "no"], ["no.such"]):
    try:
        caller.cmd(*call)
    except salt.exceptions.SaltException as error:
        print(type(error).__name__, error)
print(salt.utils.yaml.safe_load("[1, a]"))
salt.output.display_output({"local": {"a": [1]}}, out="nested", opts=opts)
"#;

const SAID: &str = "\
a: b {'x': (1, 2)}
['modules.mine'] 1
0 test_|-b_|-b_|-nop
CommandExecutionError no
CommandNotFoundError 'no.such' is not available.
[1, 'a']
local:
    ----------
    a:
        - 1
";

fn python(scratch: &Scratch, package: &Path) -> Output {
    let script = scratch.path().join("caller.py");
    std::fs::write(&script, scratch.filled(CALLER)).unwrap();
    in_recorded_environment(&mut Command::new("python3"))
        .arg(script)
        .env("PYTHONPATH", package)
        .output()
        .unwrap()
}

#[test]
fn python_programs_call_functions_through_the_installed_package() {
    let scratch = machine();
    let package = scratch.path().join("package");
    let install = || {
        Command::new(&program()[0])
            .arg("install-python")
            .arg(&package)
            .output()
            .unwrap()
    };
    assert!(install().status.success());
    assert!(install().status.success(), "a second time over its own");
    let output = python(&scratch, &package);
    assert_eq!(text(&output.stdout), SAID, "{}", text(&output.stderr));
    std::fs::remove_file(package.join("salt/_program")).unwrap();
    let refused = install();
    assert!(!refused.status.success());
    assert!(text(&refused.stderr).contains("cannot replace "));
}

/// A tree with templates of Mako, which include each other.
fn mako_tree(scratch: &Scratch) {
    for (path, text) in [
        (
            "app/init.sls",
            "#!mako|yaml\n<%namespace name=\"parts\" file=\"salt://app/parts.mako\"/>\n% for number in [1, 2]:\necho ${number}:\n  cmd.run: []\n% endfor\n${parts.state(grains['id'])}\n<%include file=\"/app/more.mako\"/>\nfile:\n  file.managed:\n    - name: ${opts['root_dir']}/made\n    - source: salt://app/made.mako\n    - template: mako\n    - context: {port: 8080}\n",
        ),
        (
            "app/parts.mako",
            "<%def name=\"state(id)\">\n${id}-${'x'.upper()}:\n  test.nop: []\n</%def>\n",
        ),
        (
            "app/more.mako",
            "more_${salt['test.echo']('a')}_${saltenv}_${sls}:\n  test.nop: []\n",
        ),
        (
            "app/made.mako",
            "port=${port} ${salt['test.echo']('a')} ${pillar.get('x', 'no')}\n",
        ),
        ("wrong.sls", "#!mako|yaml\n${nothing}:\n  test.nop: []\n"),
    ] {
        scratch.write(format!("srv/salt/{path}"), text);
    }
}

/// `salt-call` with the whole path.
fn with_python(scratch: &Scratch, words: &[&str]) -> Output {
    in_recorded_environment(Command::new(&program()[0]).args(&program()[1..]))
        .args(["-c", &scratch.path().join("etc").display().to_string()])
        .args(["--local", "--out=json"])
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn templates_of_mako_include_others_and_call_functions() {
    let has_mako = in_recorded_environment(&mut Command::new("python3"))
        .args(["-c", "import mako"])
        .output()
        .unwrap();
    if !has_mako.status.success() {
        tests::skip::skip("Python has no package Mako (python3-mako)");
        return;
    }
    let scratch = machine();
    mako_tree(&scratch);
    let output = with_python(&scratch, &["state.apply", "app"]);
    let out = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{out}{}",
        text(&output.stderr)
    );
    for id in ["echo 1", "echo 2", "m1-X", "more_a_base_app"] {
        assert!(out.contains(&format!("_|-{id}_|-")), "{id}: {out}");
    }
    let made = std::fs::read_to_string(scratch.path().join("root/made")).unwrap();
    assert_eq!(made, "port=8080 a no\n");
    let wrong = with_python(&scratch, &["state.apply", "wrong"]);
    assert_ne!(wrong.status.code(), Some(0));
    let out = text(&wrong.stdout);
    assert!(out.contains("'nothing' is not defined"), "{out}");
}

#[test]
fn mako_without_its_package_or_python_says_what_to_install() {
    let scratch = machine();
    mako_tree(&scratch);
    // This module cannot be imported, and precedes the package.
    scratch.write("no/mako/__init__.py", "raise ImportError('none')\n");
    let output = in_recorded_environment(Command::new(&program()[0]).args(&program()[1..]))
        .args(["-c", &scratch.path().join("etc").display().to_string()])
        .args(["--local", "--out=json", "state.apply", "app"])
        .env("PYTHONPATH", scratch.path().join("no"))
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert!(
        said.contains("The renderer mako needs the Python package Mako: install it for /"),
        "{said}"
    );
    let output = without_python(&scratch, &["state.apply", "app"]);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(
        said.contains("The renderer mako needs python3 with the package Mako"),
        "{said}"
    );
}
