use super::*;
use crate::testing::{Cloud, Home, Route, brief, spec_of};

/// A server as the API's description shows it, shortened.
fn server(id: u32, name: &str, status: &str, labels: &str) -> String {
    format!(
        r#"{{"id": {id}, "name": "{name}", "status": "{status}", "created": "2026-01-30T23:55:00+00:00",
        "public_net": {{"ipv4": {{"id": 1, "ip": "192.0.2.{id}", "blocked": false}}, "ipv6": {{"id": 2, "ip": "2001:db8::/64", "blocked": false}}, "floating_ips": []}},
        "private_net": [{{"network": 4711, "ip": "10.0.0.{id}", "alias_ips": [], "mac_address": "86:00:ff:2a:7d:e1"}}],
        "server_type": {{"id": 22, "name": "cx22", "cores": 2}}, "datacenter": {{"id": 4, "name": "fsn1-dc14"}},
        "image": {{"id": 161547269, "name": "debian-12", "type": "system"}}, "labels": {labels}, "locked": false, "volumes": []}}"#
    )
}

fn page(servers: &[String], next: &str) -> String {
    format!(
        r#"{{"servers": [{}], "meta": {{"pagination": {{"page": 1, "per_page": 50, "previous_page": null, "next_page": {next}, "last_page": 2, "total_entries": 3}}}}}}"#,
        servers.join(",")
    )
}

fn action(status: &str, error: &str) -> String {
    format!(
        r#"{{"action": {{"id": 13, "command": "start_server", "status": "{status}", "progress": 0, "started": "2026-01-30T23:55:00+00:00", "finished": null, "resources": [], "error": {error}}}}}"#
    )
}

fn open(cloud: &Cloud) -> Hetzner {
    let settings = Map::new()
        .with("key", "hetzner-0123456789-key")
        .with("api_root", cloud.url.as_str());
    Hetzner::new(&settings).unwrap()
}

#[test]
fn servers_of_all_pages_are_listed_with_their_tokens() {
    let cloud = Cloud::start(&[
        (
            "GET /servers?per_page=50",
            "200 OK",
            &page(
                &[
                    server(1, "web1", "running", r#"{"pinch-run": "t0", "team": "x"}"#),
                    server(2, "web2", "deleting", "{}"),
                ],
                "2",
            ),
        ),
        (
            "GET /servers?per_page=50&page=2",
            "200 OK",
            &page(&[server(3, "web3", "off", "{}")], "null"),
        ),
    ]);
    let machines = open(&cloud).list(&Home::new().cx()).unwrap();
    assert_eq!(
        brief(&machines),
        [
            r#"web1 1 debian-12 cx22 running ["192.0.2.1", "2001:db8::1"] ["10.0.0.1"] t0"#,
            r#"web3 3 debian-12 cx22 off ["192.0.2.3", "2001:db8::1"] ["10.0.0.3"] -"#,
        ]
    );
    assert!(
        cloud.asked()[0].has("authorization", "Bearer hetzner-0123456789-key"),
        "the token is missing"
    );
}

/// Creates a machine, and returns the result with the lines and the body of the last request.
fn created(routes: &[Route<'_>]) -> (Result<Machine, Fault>, Vec<String>, Option<Value>) {
    let cloud = Cloud::start(routes);
    let mut spec = spec_of("web1", "mine", "hetzner");
    for (key, value) in [
        ("size", "cx22"),
        ("image", "debian-12"),
        ("location", "fsn1"),
    ] {
        spec.settings.insert(key, value);
    }
    spec.settings
        .insert("ssh_keys", Value::list(["me".into(), "you".into()]));
    spec.settings
        .insert("networks", Value::list(["inner".into(), 7.into()]));
    spec.settings.insert("labels", Map::new().with("team", "x"));
    let wanted = Wanted {
        spec: &spec,
        token: "t0",
        user_data: Some("#cloud-config\n"),
    };
    let made = open(&cloud).create(&Home::new().cx(), &wanted);
    let asked = cloud.asked();
    let body = asked
        .last()
        .filter(|last| !last.body.is_empty())
        .map(|last| last.json());
    (
        made,
        asked.into_iter().map(|asked| asked.line).collect(),
        body,
    )
}

const OWN: &str = "GET /servers?per_page=50&label_selector=pinch-run%3D%3Dt0";
const NETWORK: (&str, &str, &str) = (
    "GET /networks?per_page=50&name=inner",
    "200 OK",
    r#"{"networks": [{"id": 4711, "name": "inner"}], "meta": {"pagination": {"next_page": null}}}"#,
);

#[test]
fn a_new_server_has_the_token_as_a_label() {
    let none = page(&[], "null");
    let labels = r#"{"pinch-run": "t0"}"#;
    let made = format!(
        r#"{{"server": {}, "action": {{"id": 1, "status": "running"}}, "next_actions": [], "root_password": null}}"#,
        server(42, "web1", "initializing", labels)
    );
    let (machine, lines, body) = created(&[
        (OWN, "200 OK", &none),
        NETWORK,
        ("POST /servers", "201 Created", &made),
    ]);
    let machine = machine.unwrap();
    assert_eq!(
        (machine.id.as_str(), machine.state.as_str()),
        ("42", "initializing")
    );
    assert_eq!(lines, [OWN, NETWORK.0, "POST /servers"]);
    let body = body.unwrap();
    let has = |path: &str, value: Value| assert_eq!(body.traverse(path, ":"), Some(&value));
    has("name", "web1".into());
    has("server_type", "cx22".into());
    has("image", "debian-12".into());
    has("location", "fsn1".into());
    has("ssh_keys", Value::list(["me".into(), "you".into()]));
    has("networks", Value::list([4711.into(), 7.into()]));
    has(
        "labels",
        Map::new().with("team", "x").with("pinch-run", "t0").into(),
    );
    has("user_data", "#cloud-config\n".into());
}

#[test]
fn a_server_that_an_earlier_attempt_has_made_is_not_made_again() {
    let own = page(
        &[server(5, "web1", "running", r#"{"pinch-run": "t0"}"#)],
        "null",
    );
    let (machine, lines, _) = created(&[(OWN, "200 OK", &own)]);
    assert_eq!(machine.unwrap().id, "5");
    assert_eq!(lines, [OWN]);
}

#[test]
fn no_server_is_made_while_the_earlier_ones_are_not_known() {
    let (machine, lines, _) = created(&[(OWN, "502 Bad Gateway", "<html>")]);
    assert!(
        matches!(machine, Err(Fault::Unanswered { .. })),
        "{machine:?}"
    );
    assert_eq!(lines, [OWN]);
}

#[test]
fn a_quota_is_an_error_with_the_clouds_text() {
    let none = page(&[], "null");
    let error = r#"{"error": {"code": "resource_limit_exceeded", "message": "server limit exceeded", "details": null}}"#;
    let (machine, _, _) = created(&[
        (OWN, "200 OK", &none),
        NETWORK,
        ("POST /servers", "403 Forbidden", error),
    ]);
    let fault = machine.unwrap_err();
    assert!(matches!(fault, Fault::Refused { .. }), "{fault:?}");
    assert_eq!(
        fault.to_string(),
        "hetzner: resource_limit_exceeded: server limit exceeded"
    );
}

fn web1() -> Machine {
    Machine {
        name: "web1".to_owned(),
        id: "42".to_owned(),
        ..Machine::default()
    }
}

#[test]
fn actions_are_waited_for() {
    let (running, ended) = (action("running", "null"), action("success", "null"));
    let cloud = Cloud::start(&[
        ("POST /servers/42/actions/poweron", "201 Created", &running),
        ("POST /servers/42/actions/poweroff", "201 Created", &ended),
        ("POST /servers/42/actions/reboot", "201 Created", &ended),
        ("GET /actions/13", "200 OK", &ended),
    ]);
    let (driver, home) = (open(&cloud), Home::new());
    let done = |fun: &str| {
        driver
            .action(&home.cx(), fun, &web1(), &Map::new())
            .unwrap()
    };
    let text = |key: &str, text: &str| Some(Value::from(Map::new().with(key, text)));
    assert_eq!(done("start"), text("Started", "web1 was started."));
    assert_eq!(done("stop"), text("Stopped", "web1 was stopped."));
    assert_eq!(done("reboot"), text("Rebooted", "web1 was rebooted."));
    assert_eq!(done("nosuch"), None);
    assert_eq!(
        cloud.lines(),
        [
            "POST /servers/42/actions/poweron",
            "GET /actions/13",
            "POST /servers/42/actions/poweroff",
            "POST /servers/42/actions/reboot",
        ]
    );
}

#[test]
fn an_action_that_fails_has_the_clouds_text() {
    let failed = action(
        "error",
        r#"{"code": "action_failed", "message": "Action failed"}"#,
    );
    let cloud = Cloud::start(&[("POST /servers/42/actions/poweron", "201 Created", &failed)]);
    let error = open(&cloud).action(&Home::new().cx(), "start", &web1(), &Map::new());
    assert_eq!(
        error.unwrap_err().to_string(),
        "hetzner: the action start_server has failed: action_failed: Action failed"
    );
}

#[test]
fn a_server_is_deleted_and_one_that_is_gone_too() {
    let ended = action("success", "null");
    let missing = r#"{"error": {"code": "not_found", "message": "server with ID '42' not found", "details": null}}"#;
    for (status, body) in [("200 OK", ended.as_str()), ("404 Not Found", missing)] {
        let cloud = Cloud::start(&[("DELETE /servers/42", status, body)]);
        let gone = open(&cloud).destroy(&Home::new().cx(), &web1()).unwrap();
        assert_eq!(gone.get("Destroyed"), Some(&"web1 was destroyed.".into()));
    }
    let locked = r#"{"error": {"code": "protected", "message": "server deletion is protected"}}"#;
    let cloud = Cloud::start(&[("DELETE /servers/42", "423 Locked", locked)]);
    let kept = open(&cloud)
        .destroy(&Home::new().cx(), &web1())
        .unwrap_err();
    assert_eq!(
        kept.to_string(),
        "hetzner: protected: server deletion is protected"
    );
}

#[test]
fn offers_are_listed_by_name() {
    let cloud = Cloud::start(&[(
        "GET /images?per_page=50",
        "200 OK",
        r#"{"images": [{"id": 1, "name": "debian-12"}, {"id": 2, "name": null}], "meta": {"pagination": {"next_page": null}}}"#,
    )]);
    let images = open(&cloud)
        .offers(&Home::new().cx(), Offer::Images)
        .unwrap();
    let names: Vec<String> = images.keys().map(Value::to_text).collect();
    assert_eq!(names, ["debian-12", "2"]);
}

#[test]
fn a_provider_without_a_key_is_refused() {
    let error = Hetzner::new(&Map::new()).err().unwrap().to_string();
    assert_eq!(error, "hetzner: the provider has no `key`");
}
