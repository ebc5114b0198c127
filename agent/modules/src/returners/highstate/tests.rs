//! Compares the reports with those of Salt 3008.5.

use std::collections::BTreeMap;
use std::fs as files;

use ::tests::scratch::corpus;

use super::*;
use crate::testing::{exec_with, json as map_of};

fn recorded(name: &str) -> Vec<Value> {
    let path = corpus().join("returners/highstate").join(name);
    let text = files::read_to_string(path).unwrap();
    value::json::read(&text)
        .unwrap()
        .as_list()
        .unwrap()
        .to_vec()
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).map(Value::to_text).unwrap_or_default()
}

/// Returns a context with the options of a case. Reports are in `folder`.
fn context(case: &Value, folder: &Path) -> Exec {
    let folder = folder.display().to_string();
    let mut options = Map::new().with("file_output", "DIR/report");
    options.update(case.get("options").unwrap().as_map().unwrap().clone());
    let output = text(&options.clone().into(), "file_output");
    options.insert("file_output", output.replace("DIR", &folder));
    let opts = Map::new()
        .with("highstate", options)
        .with("other.highstate", Map::new().with("report_format", "json"));
    let grains =
        r#"{"id": "web1", "host": "web", "b": {"d": 1, "c": [1, {"x": "y"}]}, "a": "<text>"}"#;
    let cx = exec_with(opts, Map::new());
    cx.set_grains(map_of(grains));
    cx
}

/// Returns the return of a case. Its JSON has the numbers of states in the order of their names.
fn ret_of(case: &Value) -> Map {
    case.get("ret").unwrap().as_map().unwrap().clone()
}

fn written(folder: &Path) -> BTreeMap<String, String> {
    let all = files::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, files::read_to_string(entry.path()).unwrap())
    });
    all.collect()
}

#[test]
fn reports_in_files_are_those_of_salt() {
    for (case, salt) in recorded("cases.json").iter().zip(recorded("reports.json")) {
        let name = text(case, "name");
        if text(case.get("options").unwrap(), "report_delivery") == "smtp" {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        returner(&context(case, folder.path()), &ret_of(case)).unwrap();
        let wanted = salt.get("files").unwrap().as_map().unwrap();
        let wanted = wanted
            .iter()
            .map(|(name, text)| (name.to_text(), text.to_text()));
        assert_eq!(written(folder.path()), wanted.collect(), "{name}");
    }
}

#[test]
fn mails_are_those_of_salt() {
    let mut compared = 0;
    for (case, salt) in recorded("cases.json").iter().zip(recorded("reports.json")) {
        let Some(wanted) = salt.get("mail").filter(|mail| !mail.is_null()) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let (cx, ret) = (context(case, folder.path()), ret_of(case));
        let options = Options { cx: &cx, ret: &ret };
        let states = report::states(&ret).unwrap();
        let counts = Counts::of(&states);
        let report = Value::list(report::report(&ret, &states, &counts));
        let mail = mail(&options, html::document(&report), "html", &counts).unwrap();
        let recipients = wanted.get("recipients").unwrap().texts().join(", ");
        assert_eq!(mail.recipient, recipients);
        assert_eq!(mail.server, Some(text(wanted, "host")));
        assert_eq!(mail.port.unwrap_or(25).to_string(), text(wanted, "port"));
        assert_eq!(mail.use_ssl, *wanted.get("tls").unwrap());
        assert_eq!(mail.sender, Some(text(wanted, "sender")));
        assert_eq!(mail.subject, text(wanted, "subject"));
        assert_eq!(mail.text, text(wanted, "text"));
        assert_eq!(text(wanted, "kind"), format!("text/{}", mail.subtype));
        assert_eq!(
            mail.username.is_some(),
            wanted.get("username").unwrap().is_true()
        );
        compared += 1;
    }
    assert_eq!(compared, 3);
}

#[test]
fn a_name_of_a_state_is_text_in_html() {
    let states = r#"{"return": {"test_|-<script>_|-n_|-nop": {"result": true, "changes": {"<b>": [{"x": 1, "y": 2}]}}}}"#;
    let ret = map_of(states);
    let states = report::states(&ret).unwrap();
    let report = Value::list(report::report(&ret, &states, &Counts::of(&states)));
    let html = html::document(&report);
    assert!(html.contains("&lt;script&gt;"), "{html}");
    assert!(html.contains("&lt;b&gt;"), "{html}");
    // Salt leaves out dictionaries of several keys.
    assert!(
        html.contains(">x</td>") && html.contains(">y</td>"),
        "{html}"
    );
    assert!(
        !html.contains("<script>") && !html.contains("<b>"),
        "{html}"
    );
}

#[test]
fn a_state_that_changed_something_and_failed_is_not_unchanged() {
    let ret = map_of(
        r#"{"return": {"a_|-a_|-a_|-a": {"result": false, "changes": {"a": 1}}, "b_|-b_|-b_|-b": {"result": true}}}"#,
    );
    let states = report::states(&ret).unwrap();
    let report = report::report(&ret, &states, &Counts::of(&states));
    let text = value::json::write(&report[0], value::json::Layout::default());
    assert!(text.contains(r#""failed": 1"#), "{text}");
    assert!(text.contains(r#""unchanged": 1"#), "{text}");
}

#[test]
fn what_cannot_be_reported_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let states = r#"{"a_|-a_|-a_|-a": {"result": false}}"#;
    for (options, ret, part) in [
        (
            "{}",
            r#"["an error of rendering"]"#,
            "is not a dictionary of states",
        ),
        ("{}", r#"{"a": 1}"#, "is not a dictionary of states"),
        (
            r#"{"report_format": "pdf"}"#,
            states,
            "must be html, yaml or json",
        ),
        (
            r#"{"report_delivery": "fax"}"#,
            states,
            "must be file or smtp",
        ),
        (
            r#"{"report_delivery": "smtp"}"#,
            states,
            "highstate.smtp_server is not set",
        ),
        (r#"{"failure_function": "no.such"}"#, states, "no.such"),
        (r#"{"file_output": "DIR/no/such"}"#, states, "no/such"),
    ] {
        let case = format!(r#"{{"options": {options}}}"#);
        let cx = context(&map_of(&case).into(), folder.path());
        let ret = map_of(&format!(r#"{{"fun": "state.apply", "return": {ret}}}"#));
        let error = returner(&cx, &ret).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(written(folder.path()).is_empty());
}
