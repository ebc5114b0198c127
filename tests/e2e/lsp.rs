//! Tests of `pinch lsp` with pygls, a client library for editors.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tests::program::pinch_program;
use tests::skip::skip;

/// The virtual environment with pygls, which `tests/run` makes.
const PYTHON: &str = "/var/cache/pinch-tests/pygls/bin/python";

/// Returns the answers to the steps of `lsp_client.py`; `None` if pygls is not installed.
fn answers() -> Option<Value> {
    let python = std::env::var("PINCH_PYGLS").map_or_else(|_| PYTHON.into(), PathBuf::from);
    if !python.exists() {
        skip("tests/run installs pygls");
        return None;
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = pinch_program();
    let output = Command::new(python)
        .arg(here.join("e2e/lsp_client.py"))
        .arg(program)
        .arg(here.join("corpus/lsp"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn codes(diagnostics: &Value) -> Vec<(&str, u64, u64)> {
    let all = diagnostics.as_array().unwrap().iter();
    all.map(|one| {
        let code = one[0].as_str().unwrap();
        (code, one[1].as_u64().unwrap(), one[2].as_u64().unwrap())
    })
    .collect()
}

fn has(list: &Value, word: &str) -> bool {
    list.as_array().unwrap().contains(&word.into())
}

#[test]
fn a_client_library_drives_the_language_server() {
    let Some(answers) = answers() else { return };
    let said = |step: &str| &answers[step];
    assert_eq!(said("server"), "pinch");
    for step in ["opened", "typed quickly"] {
        assert_eq!(codes(said(step)), [], "{step}: {}", said(step));
    }
    // The findings are those of the text that is typed: the file has none.
    let changed = codes(said("changed"));
    let of_line = |(code, line, _): &(&str, u64, u64)| (*code, *line) == ("E401", 14);
    assert!(changed.iter().any(of_line), "{}", said("changed"));
    let unsaved = codes(said("unsaved"));
    assert_eq!(unsaved, [("E301", 1, 2)], "{}", said("unsaved"));

    assert_eq!(said("complete state"), &json!(["pkg.installed:"]));
    let arguments = said("complete argument");
    assert!(
        has(arguments, "source: ") && has(arguments, "source_hash: "),
        "{arguments}"
    );
    assert_eq!(said("complete requisite"), &json!(["onfail_stop: "]));
    let ids = said("complete id");
    assert!(
        has(ids, "/etc/motd") && has(ids, "own id") && !has(ids, "tools"),
        "{ids}"
    );
    assert_eq!(said("complete pillar"), &json!(["port", "workers"]));
    assert_eq!(said("complete pillar path"), &json!(["workers"]));
    assert_eq!(said("complete include"), &json!(["base"]));
    assert!(has(said("complete function"), "network.ip_addrs"));

    let hover = |step: &str| said(step).as_str().unwrap_or_default().to_owned();
    assert!(
        hover("hover state").contains("pkg.installed(name"),
        "{}",
        hover("hover state")
    );
    assert!(hover("hover argument").starts_with("`source` of `file.managed`"));
    assert!(hover("hover option").contains("must succeed before"));
    assert!(
        hover("hover function").contains("pillar.get(key"),
        "{}",
        hover("hover function")
    );
    assert_eq!(said("hover nothing"), &Value::Null);

    for (step, target) in [
        ("define include", json!(["/salt/base.sls", 0])),
        ("define relative", json!(["/salt/web/site.sls", 0])),
        ("define extend", json!(["/salt/base.sls", 0])),
        ("define requisite", json!(["/salt/base.sls", 4])),
        ("define sls", json!(["/salt/base.sls", 0])),
        ("define own", json!(["/salt/web/init.sls", 0])),
    ] {
        assert_eq!(said(step), &target, "{step}");
    }
    assert!(
        said("unknown request")
            .as_str()
            .unwrap()
            .contains("unknown method")
    );
    assert_eq!(said("exit"), 0);
}

#[test]
fn a_broken_message_ends_the_server_with_an_error() {
    for (input, problem) in [
        ("hello\r\n\r\n", "no Content-Length"),
        (
            "Content-Length: 99999999999\r\n\r\n",
            "more than the maximum",
        ),
        ("Content-Length: 4\r\n\r\n[[[[", "not JSON-RPC"),
    ] {
        let mut command = Command::new(pinch_program());
        let command = command.arg("lsp").stdin(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(problem), "{stderr}");
        assert_eq!(output.status.code(), Some(1));
    }
}

/// Nothing of a tree is run while it is typed.
#[test]
fn the_server_runs_no_command_of_the_tree() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let text = format!(
        "a:\n  cmd.run:\n    - name: {{{{ salt['cmd.run']('touch {0}') }}}}\n    - onlyif: touch {0}\n",
        mark.display()
    );
    fs::write(folder.path().join("top.sls"), "base:\n  '*': [a]\n").unwrap();
    let uri = |name: &str| format!("file://{}/{name}", folder.path().display());
    let messages = [
        json!({"id": 1, "method": "initialize", "params": {"capabilities": {}, "rootUri": uri("")}}),
        json!({"method": "textDocument/didOpen", "params": {"textDocument": {"uri": uri("a.sls"), "languageId": "sls", "version": 1, "text": text}}}),
    ];
    let mut command = Command::new(pinch_program());
    let command = command.arg("lsp").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for mut message in messages {
        message["jsonrpc"] = "2.0".into();
        let text = message.to_string();
        write!(stdin, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
    }
    stdin.flush().unwrap();
    let mut said = String::new();
    let mut stdout = child.stdout.take().unwrap();
    let mut piece = [0; 4096];
    while !said.contains("I701") {
        let read = std::io::Read::read(&mut stdout, &mut piece).unwrap();
        assert_ne!(read, 0, "{said}");
        said.push_str(&String::from_utf8_lossy(&piece[..read]));
    }
    drop(stdin);
    child.wait().unwrap();
    assert!(!mark.exists());
}
