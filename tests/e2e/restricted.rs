//! Options that restrict: test mode from pillar and grains, lists of modules, the umask of a state.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value as Json;
use tests::program::salt_call;
use tests::scratch::Scratch;

/// Calls `salt-call --local --out=json` and returns the exit code and what is below `local`.
fn call(scratch: &Scratch, words: &[&str]) -> (Option<i32>, Json) {
    let words = ["--out=json"].iter().chain(words);
    let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    let answer = salt_call(scratch.path(), &words).unwrap();
    let json: Json = serde_json::from_str(&answer.out).unwrap_or(Json::Null);
    (answer.rc, json["local"].clone())
}

fn with_option(line: &str) -> Scratch {
    let scratch = Scratch::new();
    let path = scratch.path().join("etc/minion");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(path, format!("{config}\n{line}\n")).unwrap();
    scratch
}

fn managed(scratch: &Scratch) -> String {
    let path = scratch.path().join("out/file");
    scratch.write(
        "srv/salt/one.sls",
        &format!(
            "{}:\n  file.managed:\n    - contents: x\nnothing:\n  test.nop: []\n",
            path.display()
        ),
    );
    path.display().to_string()
}

/// Returns the result and comment of the only return whose tag has this prefix.
fn result(returns: &Json, state: &str) -> (Json, String) {
    let returns = returns.as_object().unwrap_or_else(|| panic!("{returns}"));
    let found = returns.iter().find(|(tag, _)| tag.starts_with(state));
    let (_, ret) = found.unwrap_or_else(|| panic!("no {state} in {returns:?}"));
    (
        ret["result"].clone(),
        ret["comment"].as_str().unwrap_or_default().to_owned(),
    )
}

#[test]
fn test_mode_in_pillar_or_grains_keeps_a_machine_as_it_is() {
    for (pillar, grains, is_test) in [
        ("test: true", "", true),
        ("master:\n  test: True", "", true),
        ("", "grains:\n  test: True", true),
        ("test: true", "grains:\n  test: False", false),
        ("test: 'yes'", "", false),
    ] {
        let scratch = with_option(grains);
        let path = managed(&scratch);
        scratch.write("srv/pillar/top.sls", "base:\n  '*':\n    - p\n");
        scratch.write("srv/pillar/p.sls", &format!("a: 1\n{pillar}\n"));
        let (_, returns) = call(&scratch, &["state.apply", "one"]);
        let expected = if is_test {
            Json::Null
        } else {
            Json::Bool(true)
        };
        assert_eq!(
            result(&returns, "file_").0,
            expected,
            "{pillar:?} {grains:?}"
        );
        assert_eq!(Path::new(&path).exists(), !is_test, "{pillar:?} {grains:?}");
        let (_, returns) = call(&scratch, &["state.apply", "one", "test=False"]);
        assert_eq!(result(&returns, "file_").0, Json::Bool(true));
        assert!(Path::new(&path).exists());
    }
}

#[test]
fn test_mode_in_any_case_is_test_mode() {
    let scratch = Scratch::new();
    let path = managed(&scratch);
    for word in ["TEST=True", "Test=true", "test=1"] {
        let (_, returns) = call(&scratch, &["state.apply", "one", word]);
        assert_eq!(result(&returns, "file_").0, Json::Null, "{word}");
        assert!(!Path::new(&path).exists(), "{word}");
    }
    call(&scratch, &["state.apply", "one", "TEST=False"]);
    assert!(Path::new(&path).exists());
}

#[test]
fn state_modules_that_are_not_listed_or_disabled_are_not_called() {
    for option in ["whitelist_state_modules: [test]", "disable_states: [file]"] {
        let scratch = with_option(option);
        let path = managed(&scratch);
        let (_, returns) = call(&scratch, &["state.apply", "one"]);
        let text = "State 'file.managed' was not found in SLS 'one'\nReason: 'file.managed' is not available.\n";
        let (good, comment) = result(&returns, "file_");
        assert_eq!(
            (good, comment.as_str()),
            (Json::Bool(false), text),
            "{option}"
        );
        assert!(!Path::new(&path).exists(), "{option}");
    }
}

#[test]
fn execution_modules_that_are_not_listed_cannot_be_named() {
    let scratch = with_option("whitelist_modules: [test, state]");
    let mark = scratch.path().join("out/mark");
    let mark = mark.display();
    scratch.write(
        "srv/salt/template.sls",
        &format!(
            "a:\n  test.show_notification:\n    - text: {{{{ salt['cmd.run']('touch {mark}') }}}}\n"
        ),
    );
    scratch.write(
        "srv/salt/module.sls",
        &format!("b:\n  module.run:\n    - cmd.run:\n      - cmd: touch {mark}\n"),
    );
    let (code, _) = call(&scratch, &["cmd.run", &format!("touch {mark}")]);
    assert_ne!(code, Some(0));
    let (code, _) = call(&scratch, &["state.apply", "template"]);
    assert_ne!(code, Some(0));
    let (_, returns) = call(&scratch, &["state.apply", "module"]);
    assert_eq!(
        result(&returns, "module_"),
        (
            Json::Bool(false),
            "Unavailable function: cmd.run.".to_owned()
        )
    );
    assert!(!scratch.path().join("out/mark").exists());
    // State modules may still call the functions that they need.
    let path = managed(&scratch);
    let (_, returns) = call(&scratch, &["state.apply", "one"]);
    assert_eq!(result(&returns, "file_").0, Json::Bool(true));
    assert!(Path::new(&path).exists());
}

#[test]
fn a_disabled_execution_module_is_not_available() {
    for option in ["disable_modules: [cmdmod]", "disable_modules: [cmd]"] {
        let scratch = with_option(option);
        let (code, _) = call(&scratch, &["cmd.run", "true"]);
        assert_ne!(code, Some(0), "{option}");
        let (code, answer) = call(&scratch, &["test.ping"]);
        assert_eq!((code, answer), (Some(0), Json::Bool(true)));
    }
}

#[test]
fn an_option_that_restricts_and_is_not_supported_stops_the_program() {
    for option in ["disable_grains: [core]", "fips_mode: True"] {
        let scratch = with_option(option);
        let (code, _) = call(&scratch, &["test.ping"]);
        assert_eq!(code, Some(1), "{option}");
        let stderr = fs::read_to_string(scratch.path().join("stderr")).unwrap();
        let name = option.split(':').next().unwrap();
        assert!(
            stderr.contains(&format!("option `{name}` is a restriction")),
            "{stderr}"
        );
    }
    let scratch = with_option("disable_grains: []\nfips_mode: False");
    assert_eq!(call(&scratch, &["test.ping"]).0, Some(0));
}

#[test]
fn the_umask_of_a_state_holds_for_its_files() {
    let scratch = Scratch::new();
    scratch.write(
        "srv/salt/modes.sls",
        "
{% set out = opts['root_dir'] ~ '/../out' %}
{{ out }}/managed:
  file.managed: [{contents: x}, {umask: '077'}]
{{ out }}/folder:
  file.directory: [{umask: '077'}]
{{ out }}/touched:
  file.touch: [{umask: '077'}]
{{ out }}/mode:
  file.managed: [{contents: x}, {mode: '0644'}, {umask: '077'}]
{{ out }}/appended:
  file.append: [{text: x}, {umask: '077'}]
{{ out }}/serialized:
  file.serialize: [{dataset: {a: 1}}, {serializer: json}, {umask: '077'}]
{{ out }}/after:
  file.managed: [{contents: x}]
{{ out }}/wrong:
  file.managed: [{contents: x}, {umask: '999'}]
command:
  cmd.run: [{name: touch {{ out }}/command}, {umask: '077'}]
",
    );
    let (_, returns) = call(&scratch, &["state.apply", "modes"]);
    let mode = |name: &str| {
        let found = fs::metadata(scratch.path().join("out").join(name));
        found.map(|found| found.permissions().mode() & 0o777).ok()
    };
    assert_eq!(mode("managed"), Some(0o600), "{returns}");
    assert_eq!(mode("folder"), Some(0o700));
    assert_eq!(mode("touched"), Some(0o600));
    assert_eq!(mode("mode"), Some(0o644));
    assert_eq!(mode("appended"), Some(0o600));
    assert_eq!(mode("serialized"), Some(0o600));
    assert_eq!(mode("command"), Some(0o600));
    assert_eq!(mode("after"), Some(0o644));
    assert_eq!(mode("wrong"), None);
}
