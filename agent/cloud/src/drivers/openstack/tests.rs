use std::sync::OnceLock;

use super::*;
use crate::testing::{Asked, Cloud, Home, Route, brief, spec_of};

/// The secret of the tests.
const SECRET: &str = "s3cr3t-0123456789";

fn auth() -> Map {
    Map::new()
        .with("username", "demo")
        .with("password", SECRET)
        .with("project_name", "demo")
        .with("user_domain_name", "Default")
        .with("project_domain_id", "default")
}

/// A cloud whose services are at one address, below paths of their own.
struct Stack {
    cloud: Cloud,
    settings: Map,
}

impl Stack {
    fn start(routes: &[Route<'_>]) -> Self {
        let cloud = Cloud::start(routes);
        let auth = auth().with("auth_url", format!("{}/identity", cloud.url));
        let settings = Map::new()
            .with("auth", auth)
            .with("region_name", "RegionOne");
        Self { cloud, settings }
    }

    /// Opens the driver with a session, as Keystone would have opened it.
    fn open(&self) -> OpenStack {
        let driver = OpenStack::new(&self.settings).unwrap();
        let session = Session::of(&self.settings, "t0k3n-0123456789", &self.catalog()).unwrap();
        *driver.session.lock().unwrap() = Some(Arc::new(session));
        driver
    }

    fn catalog(&self) -> Vec<Value> {
        let text = catalog(&self.cloud.url);
        let read = value::json::read(&text).unwrap();
        items(&read, "token:catalog").to_vec()
    }
}

/// An answer of Keystone, shortened.
fn catalog(url: &str) -> String {
    let endpoints = |path: &str| {
        format!(
            r#"[{{"id": "a", "interface": "admin", "region": "RegionOne", "region_id": "RegionOne", "url": "http://admin.example.com/"}},
            {{"id": "b", "interface": "public", "region": "RegionTwo", "region_id": "RegionTwo", "url": "http://two.example.com/"}},
            {{"id": "c", "interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": "{url}/{path}"}}]"#
        )
    };
    format!(
        r#"{{"token": {{"methods": ["password"], "expires_at": "2026-11-28T20:00:00.000000Z", "catalog": [
        {{"type": "compute", "name": "nova", "endpoints": {}}}, {{"type": "image", "name": "glance", "endpoints": {}}},
        {{"type": "network", "name": "neutron", "endpoints": {}}}]}}}}"#,
        endpoints("compute/v2.1"),
        endpoints("image"),
        endpoints("network/")
    )
}

/// A server of Nova, shortened.
fn server(id: &str, name: &str, status: &str, more: &str) -> String {
    format!(
        r#"{{"id": "{id}", "name": "{name}", "status": "{status}", "tenant_id": "6f70", "created": "2026-10-10T15:00:00Z", "hostId": "2091",
        "addresses": {{"private": [{{"addr": "10.0.0.5", "version": 4, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:4c:2c:30"}},
        {{"addr": "192.0.2.5", "version": 4, "OS-EXT-IPS:type": "floating", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:4c:2c:30"}}]}},
        "image": {{"id": "70a599e0", "links": []}}, "flavor": {{"id": "1", "links": []}}, "key_name": null{more}}}"#
    )
}

const OWN: &str = r#", "metadata": {"pinch-run": "t0", "team": "x"}"#;
const LIST: &str = "GET /compute/v2.1/servers/detail?limit=100";

#[test]
fn a_session_is_opened_by_a_password_and_the_catalog() {
    let (send, receive) = std::sync::mpsc::channel();
    let url = Arc::new(OnceLock::<String>::new());
    let own = Arc::clone(&url);
    let started = ::tests::server::start(move |head, body| {
        let line = head.lines().next().unwrap().to_owned();
        send.send((line, head.to_owned(), body.to_owned())).unwrap();
        match body.is_empty() {
            true => ::tests::server::text("200 OK", "", r#"{"servers": []}"#),
            false => {
                let headers = "X-Subject-Token: t0k3n-0123456789\r\n";
                ::tests::server::text("201 Created", headers, &catalog(own.get().unwrap()))
            }
        }
    });
    url.set(started.clone()).unwrap();
    let auth = auth().with("auth_url", format!("{started}/identity/v3/"));
    let settings = Map::new()
        .with("auth", auth)
        .with("region_name", "RegionOne");
    let (driver, home) = (OpenStack::new(&settings).unwrap(), Home::new());
    assert_eq!(driver.list(&home.cx()).unwrap(), []);
    assert_eq!(driver.list(&home.cx()).unwrap(), []);
    // Before its token expires, another session replaces the session.
    let mut open = driver.session.lock().unwrap();
    Arc::get_mut(open.as_mut().unwrap()).unwrap().until = Instant::now();
    drop(open);
    assert_eq!(driver.list(&home.cx()).unwrap(), []);
    let asked: Vec<_> = receive.try_iter().collect();
    let lines: Vec<&str> = asked.iter().map(|(line, ..)| line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "POST /identity/v3/auth/tokens HTTP/1.1",
            &format!("{LIST} HTTP/1.1"),
            &format!("{LIST} HTTP/1.1"),
            "POST /identity/v3/auth/tokens HTTP/1.1",
            &format!("{LIST} HTTP/1.1"),
        ]
    );
    let body = value::json::read(&asked[0].2).unwrap();
    let user = Map::new()
        .with("name", "demo")
        .with("domain", Map::new().with("name", "Default"))
        .with("password", SECRET);
    assert_eq!(
        body.traverse("auth:identity:password:user", ":"),
        Some(&user.into())
    );
    let project = Map::new()
        .with("name", "demo")
        .with("domain", Map::new().with("id", "default"));
    assert_eq!(
        body.traverse("auth:scope:project", ":"),
        Some(&project.into())
    );
    assert!(
        asked[1]
            .1
            .to_lowercase()
            .contains("x-auth-token: t0k3n-0123456789")
    );
}

#[test]
fn an_application_credential_has_no_scope() {
    let auth = Map::new()
        .with("auth_url", "http://127.0.0.1:1/v3")
        .with("application_credential_id", "21dced0f")
        .with("application_credential_secret", SECRET);
    let body = settings::login(&Map::new().with("auth", auth)).unwrap();
    let own = Map::new().with("id", "21dced0f").with("secret", SECRET);
    let identity = Map::new()
        .with("methods", Value::list(["application_credential".into()]))
        .with("application_credential", own);
    assert_eq!(
        body,
        Map::new().with("auth", Map::new().with("identity", identity))
    );
}

#[test]
fn wrong_credentials_have_keystones_text_and_not_the_secret() {
    let error = r#"{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}"#;
    let stack = Stack::start(&[("POST /identity/v3/auth/tokens", "401 Unauthorized", error)]);
    let driver = OpenStack::new(&stack.settings).unwrap();
    let fault = driver.list(&Home::new().cx()).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "openstack: Unauthorized: The request you have made requires authentication."
    );
    assert!(matches!(fault, Fault::Refused { .. }), "{fault:?}");
}

#[test]
fn servers_of_all_pages_are_listed() {
    let first = format!(
        r#"{{"servers": [{}, {}], "servers_links": [{{"rel": "next", "href": "https://other.example.com/?marker=b"}}]}}"#,
        server("a", "web1", "ACTIVE", OWN),
        server("b", "web2", "DELETED", ""),
    );
    let failed = r#", "fault": {"code": 500, "message": "No valid host was found.", "created": "2026-10-10T15:00:00Z"}"#;
    let second = format!(
        r#"{{"servers": [{}]}}"#,
        server("c", "web3", "ERROR", failed)
    );
    let stack = Stack::start(&[
        (LIST, "200 OK", &first),
        (&format!("{LIST}&marker=b"), "200 OK", &second),
    ]);
    let driver = stack.open();
    let machines = driver.list(&Home::new().cx()).unwrap();
    assert_eq!(
        brief(&machines),
        [
            r#"web1 a 70a599e0 1 ACTIVE ["192.0.2.5"] ["10.0.0.5"] t0"#,
            r#"web3 c 70a599e0 1 ERROR: No valid host was found. ["192.0.2.5"] ["10.0.0.5"] -"#,
        ]
    );
    assert!(driver.is_running(&machines[0].state) && driver.has_failed(&machines[1].state));
    assert!(stack.cloud.asked()[0].has("x-auth-token", "t0k3n-0123456789"));
}

#[test]
fn a_reason_that_the_list_lacks_is_that_of_the_server() {
    let list = format!(r#"{{"servers": [{}]}}"#, server("a", "web1", "ERROR", ""));
    let fault = r#", "fault": {"code": 500, "message": "No valid host was found."}"#;
    let stack = Stack::start(&[
        (LIST, "200 OK", &list),
        (
            "GET /compute/v2.1/servers/a",
            "200 OK",
            &one("ERROR", fault),
        ),
    ]);
    let machines = stack.open().list(&Home::new().cx()).unwrap();
    assert_eq!(machines[0].state, "ERROR: No valid host was found.");
}

/// Creates a server, and returns the result with the requests.
fn created(settings: &Map, routes: &[Route<'_>]) -> (Result<Machine, Fault>, Vec<Asked>) {
    let stack = Stack::start(routes);
    let mut spec = spec_of("web1", "mine", "openstack");
    spec.settings.update(settings.clone());
    let wanted = Wanted {
        spec: &spec,
        token: "t0",
        user_data: Some("#cloud-config\n"),
    };
    let made = stack.open().create(&Home::new().cx(), &wanted);
    (made, stack.cloud.asked())
}

const SAME: &str = "GET /compute/v2.1/servers/detail?limit=100&name=web1";
const IMAGES: (&str, &str, &str) = (
    "GET /image/v2/images?limit=100",
    "200 OK",
    r#"{"images": [{"id": "70a599e0", "name": "debian-12", "status": "active"}, {"id": "x1", "name": "twice"}, {"id": "x2", "name": "twice"}], "first": "/v2/images", "schema": "/v2/schemas/images"}"#,
);
const FLAVORS: (&str, &str, &str) = (
    "GET /compute/v2.1/flavors/detail?limit=100",
    "200 OK",
    r#"{"flavors": [{"id": "1", "name": "m1.tiny", "ram": 512, "vcpus": 1}]}"#,
);
const NETWORKS: (&str, &str, &str) = (
    "GET /network/v2.0/networks?limit=100",
    "200 OK",
    r#"{"networks": [{"id": "d32019d3", "name": "inner"}]}"#,
);
const CREATE: &str = "POST /compute/v2.1/servers";

fn small() -> Map {
    Map::new()
        .with("size", "m1.tiny")
        .with("image", "debian-12")
        .with("network", "inner")
}

#[test]
fn a_new_server_has_the_token_in_its_metadata() {
    let settings = small()
        .with("ssh_key_name", "me")
        .with("security_groups", Value::list(["web".into()]))
        .with("meta", Map::new().with("team", "x"));
    let made = r#"{"server": {"id": "9168b536", "links": [], "OS-DCF:diskConfig": "AUTO", "security_groups": [{"name": "web"}], "adminPass": "6NpUwoz2QDRN"}}"#;
    let (machine, asked) = created(
        &settings,
        &[
            (SAME, "200 OK", r#"{"servers": []}"#),
            IMAGES,
            FLAVORS,
            NETWORKS,
            (CREATE, "202 Accepted", made),
        ],
    );
    let machine = machine.unwrap();
    assert_eq!(
        (machine.id.as_str(), machine.state.as_str()),
        ("9168b536", "BUILD")
    );
    let body = asked.last().unwrap().json();
    let network = Map::new().with("uuid", "d32019d3").into();
    let wanted = Map::new()
        .with("name", "web1")
        .with("flavorRef", "1")
        .with(
            "metadata",
            Map::new().with("team", "x").with("pinch-run", "t0"),
        )
        .with("imageRef", "70a599e0")
        .with("key_name", "me")
        .with(
            "security_groups",
            Value::list([Map::new().with("name", "web").into()]),
        )
        .with("networks", Value::list([network]))
        .with("user_data", "I2Nsb3VkLWNvbmZpZwo=");
    assert_eq!(body.get("server"), Some(&wanted.into()));
}

#[test]
fn a_server_may_start_from_a_volume() {
    let settings = Map::new().with("size", "1").with("boot_volume", "v1").with(
        "nics",
        Value::list([Map::new().with("port-id", "p1").into()]),
    );
    let (machine, asked) = created(
        &settings,
        &[
            (SAME, "200 OK", r#"{"servers": []}"#),
            FLAVORS,
            (CREATE, "202 Accepted", r#"{"server": {"id": "9168b536"}}"#),
        ],
    );
    machine.unwrap();
    let body = asked.last().unwrap().json();
    let disk = body
        .traverse("server:block_device_mapping_v2:0", ":")
        .unwrap();
    assert_eq!(disk.get("uuid"), Some(&"v1".into()));
    assert_eq!(disk.get("source_type"), Some(&"volume".into()));
    assert_eq!(
        body.traverse("server:networks:0:port", ":"),
        Some(&"p1".into())
    );
    assert_eq!(body.traverse("server:imageRef", ":"), None);
}

#[test]
fn a_server_that_an_earlier_attempt_has_made_is_not_made_again() {
    let own = format!(r#"{{"servers": [{}]}}"#, server("a", "web1", "BUILD", OWN));
    let (machine, asked) = created(&small(), &[(SAME, "200 OK", &own)]);
    assert_eq!(machine.unwrap().id, "a");
    assert_eq!(asked.len(), 1);
    let (machine, asked) = created(&small(), &[(SAME, "503 Service Unavailable", "<html>")]);
    assert!(
        matches!(machine, Err(Fault::Unanswered { .. })),
        "{machine:?}"
    );
    assert_eq!(asked.len(), 1);
}

#[test]
fn a_quota_and_a_wrong_name_are_errors_with_the_clouds_text() {
    let none = (SAME, "200 OK", r#"{"servers": []}"#);
    let quota = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances"}}"#;
    let (machine, _) = created(
        &small(),
        &[
            none,
            IMAGES,
            FLAVORS,
            NETWORKS,
            (CREATE, "403 Forbidden", quota),
        ],
    );
    let fault = machine.unwrap_err();
    assert_eq!(
        fault.to_string(),
        "openstack: forbidden: Quota exceeded for instances: Requested 1, but already used 10 of 10 instances"
    );
    assert!(matches!(fault, Fault::Refused { .. }), "{fault:?}");
    for (image, text) in [
        ("nosuch", "openstack: images have no \"nosuch\""),
        (
            "twice",
            "openstack: 2 of the images have the name \"twice\": set the id of one",
        ),
    ] {
        let (machine, _) = created(&small().with("image", image), &[none, IMAGES]);
        assert_eq!(machine.unwrap_err().to_string(), text);
    }
}

#[test]
fn a_catalog_without_the_service_or_with_several_regions_is_an_error() {
    let stack = Stack::start(&[]);
    let error = |settings: &Map| {
        let opened = Session::of(settings, "t", &stack.catalog());
        opened.err().unwrap().to_string()
    };
    let mut settings = stack.settings.clone();
    settings.remove("region_name");
    assert_eq!(
        error(&settings),
        "openstack: set region_name to one of RegionTwo, RegionOne"
    );
    settings.insert("region_name", "RegionNine");
    assert_eq!(
        error(&settings),
        "openstack: the catalog has no public endpoint of the service compute in the region RegionNine"
    );
}

#[test]
fn servers_are_started_stopped_rebooted_and_deleted() {
    let action = "POST /compute/v2.1/servers/a/action";
    let missing = r#"{"itemNotFound": {"code": 404, "message": "Instance b could not be found."}}"#;
    let leaving = one("ACTIVE", r#", "OS-EXT-STS:task_state": "deleting""#);
    let get = "GET /compute/v2.1/servers/a";
    let stack = Stack::start(&[
        (action, "202 Accepted", ""),
        ("DELETE /compute/v2.1/servers/a", "204 No Content", ""),
        (get, "200 OK", &leaving),
        (get, "404 Not Found", missing),
        ("DELETE /compute/v2.1/servers/b", "404 Not Found", missing),
    ]);
    let (driver, home) = (stack.open(), Home::new());
    let machine = |id: &str| Machine {
        name: "web1".to_owned(),
        id: id.to_owned(),
        ..Machine::default()
    };
    let bodies = ["start", "stop", "reboot"].map(|fun| {
        let done = driver.action(&home.cx(), fun, &machine("a"), &Map::new());
        assert!(done.unwrap().is_some());
        stack.cloud.asked().remove(0).body
    });
    assert_eq!(
        bodies,
        [
            r#"{"os-start": null}"#,
            r#"{"os-stop": null}"#,
            r#"{"reboot": {"type": "SOFT"}}"#
        ]
    );
    for id in ["a", "b"] {
        driver.destroy(&home.cx(), &machine(id)).unwrap();
    }
    // The driver waits until the server is gone.
    assert_eq!(
        stack.cloud.lines(),
        [
            "DELETE /compute/v2.1/servers/a",
            get,
            get,
            "DELETE /compute/v2.1/servers/b"
        ]
    );
}

/// The answer about one server.
fn one(status: &str, more: &str) -> String {
    format!(r#"{{"server": {}}}"#, server("a", "web1", status, more))
}

#[test]
fn a_server_that_nova_cannot_remove_is_an_error_with_novas_reason() {
    let fault =
        r#", "OS-EXT-STS:task_state": null, "fault": {"code": 500, "message": "the host is away"}"#;
    let left = one("ERROR", fault);
    // A server that had failed before has the same state while it is removed.
    let leaving = one("ERROR", r#", "OS-EXT-STS:task_state": "deleting""#);
    let get = "GET /compute/v2.1/servers/a";
    let stack = Stack::start(&[
        ("DELETE /compute/v2.1/servers/a", "204 No Content", ""),
        (get, "200 OK", &leaving),
        (get, "200 OK", &left),
    ]);
    let (driver, home) = (stack.open(), Home::new());
    let machine = Machine {
        name: "web1".to_owned(),
        id: "a".to_owned(),
        ..Machine::default()
    };
    let error = driver
        .destroy(&home.cx(), &machine)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("the removal has failed: the host is away"),
        "{error}"
    );
}

#[test]
fn a_cloud_of_clouds_yaml_has_its_secrets_in_another_file() {
    let home = Home::new();
    home.write(
        "clouds.yaml",
        "clouds:\n  mine:\n    region_name: RegionTwo\n    auth: {auth_url: 'http://127.0.0.1:1', username: u, project_name: p}\n",
    )
    .write("secure.yaml", "clouds: {mine: {auth: {password: s3cr3t-0123456789}}}\n");
    let named = |cloud: &str| {
        Map::new()
            .with("cloud", cloud)
            .with("config_folder", home.path().display().to_string())
            .with("region_name", "RegionOne")
    };
    let read = settings::read(&named("mine")).unwrap();
    assert_eq!(settings::keystone(&read).unwrap(), "http://127.0.0.1:1/v3");
    assert_eq!(read.get("region_name"), Some(&"RegionOne".into()));
    let body = Value::from(settings::login(&read).unwrap());
    let password = body.traverse("auth:identity:password:user:password", ":");
    assert_eq!(password, Some(&SECRET.into()));
    let error = settings::read(&named("other")).unwrap_err().to_string();
    assert!(
        error.ends_with("clouds.yaml: there is no cloud \"other\""),
        "{error}"
    );
    home.write("clouds.yaml", "clouds: [\n");
    let error = settings::read(&named("mine")).unwrap_err().to_string();
    assert!(error.contains("clouds.yaml:2:"), "{error}");
}

#[test]
fn settings_that_are_missing_are_named() {
    let error = |settings: Map| OpenStack::new(&settings).err().unwrap().to_string();
    assert_eq!(
        error(Map::new()),
        "openstack: the provider has no auth:auth_url"
    );
    let auth = Map::new().with("auth_url", "http://127.0.0.1:1");
    let of = |auth: Map| error(Map::new().with("auth", auth));
    assert_eq!(
        of(auth.clone()),
        "openstack: the provider has no auth:username"
    );
    let auth = auth.with("username", "demo");
    assert_eq!(
        of(auth.clone()),
        "openstack: the provider has no auth:password"
    );
    let auth = auth.with("password", SECRET);
    assert_eq!(of(auth), "openstack: the provider has no auth:project_name");
}
