use super::*;
use crate::testing::{Cloud, Home, Route, brief, spec_of};

/// A droplet as the API's description shows it, shortened.
fn droplet(id: u32, name: &str, status: &str, tags: &str) -> String {
    format!(
        r#"{{"id": {id}, "name": "{name}", "memory": 1024, "vcpus": 1, "disk": 25, "locked": false, "status": "{status}",
        "kernel": null, "created_at": "2026-07-21T18:37:44Z", "features": [], "backup_ids": [],
        "image": {{"id": 7555620, "name": "12 x64", "distribution": "Debian", "slug": "debian-12-x64"}}, "volume_ids": [],
        "size_slug": "s-1vcpu-1gb", "region": {{"name": "Frankfurt 1", "slug": "fra1"}}, "tags": {tags}, "vpc_uuid": "760e09ef",
        "networks": {{"v4": [{{"ip_address": "10.128.0.{id}", "netmask": "255.255.0.0", "gateway": "", "type": "private"}},
        {{"ip_address": "192.0.2.{id}", "netmask": "255.255.255.0", "gateway": "192.0.2.254", "type": "public"}}],
        "v6": [{{"ip_address": "2001:db8::{id}", "netmask": 64, "gateway": "2001:db8::ff", "type": "public"}}]}}}}"#
    )
}

/// A page whose next one, according to its address, is on another server.
fn page(droplets: &[String], has_more: bool) -> String {
    let links = match has_more {
        true => {
            r#"{"pages": {"next": "https://other.example.com/v2/droplets?page=2&per_page=200"}}"#
        }
        false => "{}",
    };
    let droplets = droplets.join(",");
    format!(r#"{{"droplets": [{droplets}], "links": {links}, "meta": {{"total": 3}}}}"#)
}

fn open(cloud: &Cloud) -> DigitalOcean {
    let settings = Map::new()
        .with("personal_access_token", "dop-0123456789-token")
        .with("api_root", format!("{}/v2/", cloud.url));
    DigitalOcean::new(&settings).unwrap()
}

#[test]
fn droplets_of_all_pages_are_listed_and_no_other_server_is_asked() {
    let first = page(
        &[
            droplet(1, "web1", "active", r#"["web", "pinch-run:t0"]"#),
            droplet(2, "web2", "archive", "[]"),
        ],
        true,
    );
    let second = page(&[droplet(3, "web3", "off", "[]")], false);
    let cloud = Cloud::start(&[
        ("GET /v2/droplets?per_page=200", "200 OK", &first),
        ("GET /v2/droplets?per_page=200&page=2", "200 OK", &second),
    ]);
    let machines = open(&cloud).list(&Home::new().cx()).unwrap();
    assert_eq!(
        brief(&machines),
        [
            r#"web1 1 debian-12-x64 s-1vcpu-1gb active ["192.0.2.1", "2001:db8::1"] ["10.128.0.1"] t0"#,
            r#"web3 3 debian-12-x64 s-1vcpu-1gb off ["192.0.2.3", "2001:db8::3"] ["10.128.0.3"] -"#,
        ]
    );
    let asked = cloud.asked();
    assert!(
        asked
            .iter()
            .all(|one| one.has("authorization", "Bearer dop-0123456789-token")),
        "{asked:?}"
    );
}

/// Creates a machine, and returns the result with the lines and the body of the last request.
fn created(
    settings: &[(&str, &str)],
    routes: &[Route<'_>],
) -> (Result<Machine, Fault>, Vec<String>, String) {
    let cloud = Cloud::start(routes);
    let mut spec = spec_of("web1", "mine", "digitalocean");
    for (key, value) in settings {
        spec.settings.insert(*key, *value);
    }
    spec.settings.insert("ipv6", true);
    let wanted = Wanted {
        spec: &spec,
        token: "t0",
        user_data: Some("#cloud-config\n"),
    };
    let made = open(&cloud).create(&Home::new().cx(), &wanted);
    let asked = cloud.asked();
    let body = asked
        .last()
        .map(|last| last.body.clone())
        .unwrap_or_default();
    (
        made,
        asked.into_iter().map(|asked| asked.line).collect(),
        body,
    )
}

const OWN: &str = "GET /v2/droplets?per_page=200&tag_name=pinch-run%3At0";
const SMALL: [(&str, &str); 3] = [
    ("size", "s-1vcpu-1gb"),
    ("image", "debian-12-x64"),
    ("location", "fra1"),
];

#[test]
fn a_new_droplet_has_the_token_as_a_tag() {
    let (none, made) = (page(&[], false), droplet(7, "web1", "new", "[]"));
    let made = format!(r#"{{"droplet": {made}, "links": {{"actions": []}}}}"#);
    let keys = r#"{"ssh_keys": [{"id": 289794, "fingerprint": "3b:16", "name": "me"}, {"id": 3, "fingerprint": "4c:17", "name": "you"}], "links": {}, "meta": {"total": 2}}"#;
    let regions =
        r#"{"regions": [{"name": "Frankfurt 1", "slug": "fra1", "available": true}], "links": {}}"#;
    let settings = [
        ("size", "s-1vcpu-1gb"),
        ("image", "7555620"),
        ("location", "Frankfurt 1"),
        ("ssh_key_names", "me,4c:17"),
        ("tags", "web"),
    ];
    let (machine, _, body) = created(
        &settings,
        &[
            (OWN, "200 OK", &none),
            ("GET /v2/regions?per_page=200", "200 OK", regions),
            ("GET /v2/account/keys?per_page=200", "200 OK", keys),
            ("POST /v2/droplets", "202 Accepted", &made),
        ],
    );
    let machine = machine.unwrap();
    assert_eq!((machine.id.as_str(), machine.state.as_str()), ("7", "new"));
    assert_eq!(machine.token.as_deref(), Some("t0"));
    let body = value::json::read(&body).unwrap();
    let wanted = Map::new()
        .with("name", "web1")
        .with("size", "s-1vcpu-1gb")
        .with("image", 7_555_620)
        .with("region", "fra1")
        .with("tags", Value::list(["web".into(), "pinch-run:t0".into()]))
        .with("ssh_keys", Value::list([289_794.into(), 3.into()]))
        .with("ipv6", true)
        .with("user_data", "#cloud-config\n");
    assert_eq!(body, wanted.into());
}

#[test]
fn a_droplet_that_an_earlier_attempt_has_made_is_not_made_again() {
    let own = page(
        &[droplet(5, "web1", "active", r#"["pinch-run:t0"]"#)],
        false,
    );
    let (machine, lines, _) = created(&SMALL, &[(OWN, "200 OK", &own)]);
    assert_eq!(machine.unwrap().id, "5");
    assert_eq!(lines, [OWN]);
    let (machine, lines, _) = created(&SMALL, &[(OWN, "200 OK", "<html>")]);
    assert!(
        matches!(machine, Err(Fault::Unanswered { .. })),
        "{machine:?}"
    );
    assert_eq!(lines, [OWN]);
}

#[test]
fn a_refusal_has_the_clouds_text_and_a_wrong_setting_its_name() {
    let none = page(&[], false);
    let quota = r#"{"id": "unprocessable_entity", "message": "creating this/these droplet(s) will exceed your droplet limit", "request_id": "4d9d"}"#;
    let (machine, _, _) = created(
        &SMALL,
        &[
            (OWN, "200 OK", &none),
            ("POST /v2/droplets", "422 Unprocessable Entity", quota),
        ],
    );
    assert_eq!(
        machine.unwrap_err().to_string(),
        "digitalocean: unprocessable_entity: creating this/these droplet(s) will exceed your droplet limit"
    );
    let regions = r#"{"regions": [], "links": {}}"#;
    let settings = [SMALL[0], SMALL[1], ("region", "New York 9")];
    let (machine, _, _) = created(
        &settings,
        &[
            (OWN, "200 OK", &none),
            ("GET /v2/regions?per_page=200", "200 OK", regions),
        ],
    );
    assert_eq!(
        machine.unwrap_err().to_string(),
        "digitalocean: regions of the account have no \"New York 9\""
    );
    let (machine, _, _) = created(&SMALL[..2], &[(OWN, "200 OK", &none)]);
    assert_eq!(
        machine.unwrap_err().to_string(),
        "web1: the profile has no location"
    );
}

#[test]
fn a_droplet_is_deleted_with_its_tag() {
    let cloud = Cloud::start(&[
        ("DELETE /v2/droplets/7", "204 No Content", ""),
        ("DELETE /v2/tags/pinch-run%3At0", "204 No Content", ""),
    ]);
    let machine = Machine {
        name: "web1".to_owned(),
        id: "7".to_owned(),
        token: Some("t0".to_owned()),
        ..Machine::default()
    };
    let (driver, home) = (open(&cloud), Home::new());
    let gone = driver.destroy(&home.cx(), &machine).unwrap();
    assert_eq!(gone.get("Destroyed"), Some(&"web1 was destroyed.".into()));
    assert_eq!(
        cloud.lines(),
        ["DELETE /v2/droplets/7", "DELETE /v2/tags/pinch-run%3At0"]
    );
}

#[test]
fn actions_are_those_of_salts_driver() {
    let action = |kind: &str| {
        format!(
            r#"{{"action": {{"id": 36804748, "status": "in-progress", "type": "{kind}", "resource_id": 7, "resource_type": "droplet"}}}}"#
        )
    };
    for (fun, kind) in [
        ("start", "power_on"),
        ("stop", "shutdown"),
        ("reboot", "reboot"),
    ] {
        let cloud = Cloud::start(&[("POST /v2/droplets/7/actions", "201 Created", &action(kind))]);
        let machine = Machine {
            id: "7".to_owned(),
            ..Machine::default()
        };
        let done = open(&cloud).action(&Home::new().cx(), fun, &machine, &Map::new());
        let wanted = Map::new()
            .with("success", true)
            .with("action", kind)
            .with("state", "in-progress");
        assert_eq!(done.unwrap(), Some(wanted.into()));
        let sent = cloud.asked().remove(0).json();
        assert_eq!(sent, Map::new().with("type", kind).into());
    }
}
