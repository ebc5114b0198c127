//! The master's page in a browser.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Fleet;
use super::api::Asked;

/// The places of the browser.
const BROWSERS: [&str; 3] = [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];
const RULE: &str = "reactor:\n  - salt/netapi/hook/broken: ['salt://react/broken.sls']\n";
/// States with requisites, of which one takes a while and one fails.
const SHOP: &str = "\
packages:
  test.succeed_without_changes: []
user:
  test.succeed_without_changes: []
config:
  test.succeed_with_changes:
    - require: [{test: packages}, {test: user}]
certificate:
  test.succeed_with_changes:
    - require: [{test: packages}]
database:
  cmd.run:
    - name: sleep 5
    - require: [{test: user}]
migrate:
  test.fail_without_changes:
    - require: [{cmd: database}, {test: config}]
service:
  test.succeed_with_changes:
    - watch: [{test: config}, {test: certificate}]
announce:
  test.succeed_with_changes:
    - require: [{test: migrate}, {test: service}]
report:
  test.succeed_without_changes:
    - onfail: [{test: migrate}]
";

#[test]
fn the_page_is_for_browsers_and_may_run_only_its_own_script() {
    let fleet = Fleet::with_api("");
    let get = |path: &str, accept: &str| fleet.ask(&Asked::new("GET", path).with("Accept", accept));
    let page = get("/", "text/html,application/xhtml+xml,*/*;q=0.8");
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(page.body.starts_with("<!DOCTYPE html>"));
    let policy = page.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; script-src 'sha256-"),
        "{policy}"
    );
    assert!(
        !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
        "{policy}"
    );
    assert_eq!(get("/app", "*/*").body, page.body);
    assert_eq!(get("/", "*/*").json()["return"], "Welcome");
    assert_eq!(
        get("/login", "text/html,*/*;q=0.8").json()["return"],
        "Please log in"
    );
}

#[test]
fn a_person_with_a_keyboard_accepts_a_key_tests_a_state_runs_it_and_sees_what_failed() {
    let Some(browser) = BROWSERS.iter().find(|path| Path::new(path).exists()) else {
        return tests::skip::skip("it needs chromium");
    };
    if Command::new("node").arg("--version").output().is_err() {
        return tests::skip::skip("it needs node");
    }
    let mut fleet = Fleet::with_api(RULE);
    let made = fleet.path("made");
    let state = format!(
        "made:\n  file.managed:\n    - name: {}\n    - contents: x\n",
        made.display()
    );
    fleet.write("salt/site.sls", &state);
    fleet.write("salt/shop.sls", SHOP);
    fleet.write("salt/react/broken.sls", "{{ nothing.at.all }}\n");
    fleet.start_minion("m1", "");
    fleet.soon("the key is offered", || {
        fleet.run(&["salt-key", "-l", "un"]).out.contains("m1")
    });
    let token = fleet.login("alice");
    let hook = Asked::post("/hook/broken", &serde_json::json!({})).token(&token);
    assert_eq!(fleet.ask(&hook).status, 200);
    let shots = std::env::var_os("PINCH_SHOTS").map(std::path::PathBuf::from);
    let shots = shots.unwrap_or_else(|| fleet.path("shots"));
    fs::create_dir_all(&shots).unwrap();
    let output = Command::new("node")
        .arg(tests::scratch::corpus().join("api/page.mjs"))
        .arg(browser)
        .arg(format!("http://{}/", fleet.api()))
        .arg(&shots)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}\n{}", fleet.logs());
    assert!(said.ends_with("all is well\n"), "{said}");
    assert_eq!(fs::read_to_string(made).unwrap(), "x\n");
}
