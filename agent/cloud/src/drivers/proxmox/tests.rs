use super::*;
use crate::testing::{Asked, Cloud, Home, Route, brief, spec_of};

/// The token of the API in the tests.
const TOKEN: &str = "root@pam!salt=12345678-90ab-cdef-1234-567890abcdef";

fn open(cloud: &Cloud) -> Proxmox {
    let settings = Map::new()
        .with("url", cloud.url.as_str())
        .with("token", TOKEN);
    Proxmox::new(&settings).unwrap()
}

fn data(data: &str) -> String {
    format!(r#"{{"success": 1, "data": {data}}}"#)
}

fn refused(status: u16, message: &str) -> String {
    format!(r#"{{"success": 0, "status": {status}, "message": "{message}\n", "data": null}}"#)
}

fn resource(id: u32, name: &str, status: &str, more: &str) -> String {
    format!(
        r#"{{"id": "qemu/{id}", "vmid": {id}, "name": "{name}", "node": "pve1", "type": "qemu", "status": "{status}", "maxcpu": 2, "maxmem": 2147483648, "maxdisk": 34359738368, "template": 0, "uptime": 0{more}}}"#
    )
}

const TEMPLATE: &str = r#"{"id": "qemu/9000", "vmid": 9000, "name": "debian-12", "node": "pve1", "type": "qemu", "status": "stopped", "template": 1}"#;
const RESOURCES: &str = "GET /api2/extjs/cluster/resources?type=vm";

#[test]
fn machines_are_listed_with_the_addresses_of_their_agents() {
    let all = [
        resource(101, "web1", "running", r#", "tags": "pinch-run-t0;web""#),
        resource(102, "web2", "running", r#", "tags": "pinch-run-t2""#),
        resource(103, "other", "running", ""),
        TEMPLATE.to_owned(),
    ];
    let agent = r#"{"result": [
        {"name": "lo", "hardware-address": "00:00:00:00:00:00", "ip-addresses": [{"ip-address-type": "ipv4", "ip-address": "127.0.0.1", "prefix": 8}]},
        {"name": "eth0", "hardware-address": "bc:24:11:00:00:01", "ip-addresses": [{"ip-address-type": "ipv4", "ip-address": "10.0.0.5", "prefix": 24}, {"ip-address-type": "ipv6", "ip-address": "fe80::1", "prefix": 64}]}]}"#;
    let cloud = Cloud::start(&[
        (RESOURCES, "200 OK", &data(&format!("[{}]", all.join(",")))),
        (
            "GET /api2/extjs/nodes/pve1/qemu/101/agent/network-get-interfaces",
            "200 OK",
            &data(agent),
        ),
        (
            "GET /api2/extjs/nodes/pve1/qemu/102/agent/network-get-interfaces",
            "200 OK",
            &refused(500, "QEMU guest agent is not running"),
        ),
        (
            "GET /api2/extjs/nodes/pve1/qemu/102/config",
            "200 OK",
            &data(
                r#"{"ipconfig0": "gw=192.0.2.254,ip=192.0.2.7/24", "net0": "virtio=BC:24:11:00:00:02,bridge=vmbr0"}"#,
            ),
        ),
    ]);
    let machines = open(&cloud).list(&Home::new().cx()).unwrap();
    assert_eq!(
        brief(&machines),
        [
            r#"web1 101  2 cores, 2048 MiB running [] ["10.0.0.5"] t0"#,
            r#"web2 102  2 cores, 2048 MiB running ["192.0.2.7"] [] t2"#,
            "other 103  2 cores, 2048 MiB running [] [] -",
        ]
    );
    let asked = cloud.asked();
    let header = format!("PVEAPIToken={TOKEN}");
    assert!(
        asked.iter().all(|one| one.has("authorization", &header)),
        "{asked:?}"
    );
}

const UPID: &str = "UPID:pve1:0000A1B2:00C3D4E5:65F00000:qmclone:9000:root@pam!salt:";
const STATUS: &str = "GET /api2/extjs/nodes/pve1/tasks/UPID%3Apve1%3A0000A1B2%3A00C3D4E5%3A65F00000%3Aqmclone%3A9000%3Aroot%40pam%21salt%3A/status";
const NEXT: &str = "GET /api2/extjs/cluster/nextid";
const CLONE: &str = "POST /api2/extjs/nodes/pve1/qemu/9000/clone";
const CURRENT: &str = "GET /api2/extjs/nodes/pve1/qemu/105/status/current";
const CONFIG: &str = "GET /api2/extjs/nodes/pve1/qemu/105/config";
const CHANGE: &str = "PUT /api2/extjs/nodes/pve1/qemu/105/config";
const START: &str = "POST /api2/extjs/nodes/pve1/qemu/105/status/start";

/// Creates a machine, and returns the result with the requests.
fn created(routes: &[Route<'_>]) -> (Result<Machine, Fault>, Vec<Asked>) {
    let cloud = Cloud::start(routes);
    let mut spec = spec_of("web1", "mine", "proxmox");
    for (key, value) in [
        ("clone_from", "debian-12"),
        ("ipconfig0", "ip=dhcp"),
        ("net0", "bridge=vmbr1"),
        ("sshkeys", "ssh-ed25519 AAAA me\n"),
        ("tags", "web"),
    ] {
        spec.settings.insert(key, value);
    }
    spec.settings.insert("cores", 4);
    spec.settings.insert("clone_full", true);
    let wanted = Wanted {
        spec: &spec,
        token: "t0",
        user_data: None,
    };
    let made = open(&cloud).create(&Home::new().cx(), &wanted);
    (made, cloud.asked())
}

#[test]
fn a_machine_is_a_clone_whose_settings_are_then_changed() {
    let (upid, template) = (data(&format!("{UPID:?}")), data(&format!("[{TEMPLATE}]")));
    let (running, ended) = (
        data(r#"{"status": "running", "type": "qmclone"}"#),
        data(r#"{"status": "stopped", "exitstatus": "OK", "type": "qmclone"}"#),
    );
    let config = data(
        r#"{"net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0", "tags": "pinch-run-old", "memory": 2048}"#,
    );
    let (machine, asked) = created(&[
        (RESOURCES, "200 OK", &template),
        (NEXT, "200 OK", &data("\"104\"")),
        (
            CLONE,
            "200 OK",
            &refused(500, "unable to create VM 104: config file already exists"),
        ),
        (NEXT, "200 OK", &data("\"105\"")),
        (CLONE, "200 OK", &upid),
        (STATUS, "200 OK", &running),
        (STATUS, "200 OK", &ended),
        (
            CURRENT,
            "200 OK",
            &data(r#"{"status": "stopped", "vmid": 105}"#),
        ),
        (CONFIG, "200 OK", &config),
        (CHANGE, "200 OK", &data("null")),
        (START, "200 OK", &upid),
    ]);
    let machine = machine.unwrap();
    assert_eq!(
        (machine.id.as_str(), machine.state.as_str()),
        ("105", "running")
    );
    assert_eq!(machine.token.as_deref(), Some("t0"));
    let of = |line: &str| asked.iter().rfind(|one| one.line == line).unwrap();
    assert_eq!(
        of(CLONE).body,
        "newid=105&name=web1&description=pinch-run%3A%20t0&full=1"
    );
    assert_eq!(
        of(CHANGE).body,
        "ipconfig0=ip%3Ddhcp&net0=virtio%3DBC%3A24%3A11%3A00%3A00%3A01%2Cbridge%3Dvmbr1&sshkeys=ssh-ed25519%2520AAAA%2520me&cores=4&tags=web%3Bpinch-run-t0"
    );
    assert!(of(CLONE).has("content-type", "application/x-www-form-urlencoded"));
    assert_eq!(asked.last().unwrap().line, STATUS);
}

#[test]
fn a_machine_that_was_left_half_made_is_finished() {
    let upid = data(&format!("{UPID:?}"));
    let ended = data(r#"{"status": "stopped", "exitstatus": "OK"}"#);
    let left = data(&format!("[{}]", resource(105, "web1", "stopped", "")));
    let config = data(
        r#"{"description": "pinch-run: t0", "net0": "virtio=BC:24:11:00:00:01,bridge=vmbr0"}"#,
    );
    let (machine, asked) = created(&[
        (RESOURCES, "200 OK", &left),
        (
            CURRENT,
            "200 OK",
            &data(r#"{"status": "stopped", "lock": "clone"}"#),
        ),
        (CURRENT, "200 OK", &data(r#"{"status": "stopped"}"#)),
        (CONFIG, "200 OK", &config),
        (CHANGE, "200 OK", &data("null")),
        (START, "200 OK", &upid),
        (STATUS, "200 OK", &ended),
    ]);
    assert_eq!(machine.unwrap().id, "105");
    let lines: Vec<&str> = asked.iter().map(|one| one.line.as_str()).collect();
    assert_eq!(
        lines,
        [
            RESOURCES, CONFIG, CURRENT, CURRENT, CONFIG, CHANGE, START, STATUS
        ]
    );
}

#[test]
fn a_task_that_fails_has_the_clusters_text() {
    let failed = data(r#"{"status": "stopped", "exitstatus": "storage 'fast' does not exist"}"#);
    let (machine, _) = created(&[
        (RESOURCES, "200 OK", &data(&format!("[{TEMPLATE}]"))),
        (NEXT, "200 OK", &data("\"105\"")),
        (CLONE, "200 OK", &data(&format!("{UPID:?}"))),
        (STATUS, "200 OK", &failed),
    ]);
    let fault = machine.unwrap_err();
    assert_eq!(
        fault.to_string(),
        "proxmox: qmclone: storage 'fast' does not exist"
    );
    assert!(matches!(fault, Fault::Refused { .. }), "{fault:?}");
}

#[test]
fn errors_have_the_clusters_text() {
    let errors = r#"{"success": 0, "status": 400, "message": "Parameter verification failed.\n", "errors": {"name": "invalid format - value does not look like a valid DNS name\n"}, "data": null}"#;
    let list = |status: &str, body: &str| {
        let cloud = Cloud::start(&[(RESOURCES, status, body)]);
        open(&cloud).list(&Home::new().cx()).unwrap_err()
    };
    let wrong = list("200 OK", errors);
    assert_eq!(
        wrong.to_string(),
        "proxmox: Parameter verification failed.; name: invalid format - value does not look like a valid DNS name"
    );
    let denied = list(
        "200 OK",
        &refused(403, "Permission check failed (/vms, VM.Audit)"),
    );
    assert!(matches!(denied, Fault::Refused { .. }), "{denied:?}");
    let away = list("200 OK", &refused(595, "No route to host"));
    assert!(matches!(away, Fault::Unanswered { .. }), "{away:?}");
    let token = list("401 Unauthorized", "");
    assert!(matches!(token, Fault::Refused { .. }), "{token:?}");
    let html = list("200 OK", "<html>");
    assert!(matches!(html, Fault::Unanswered { .. }), "{html:?}");
    let empty = list("200 OK", &data("null"));
    assert_eq!(
        empty.to_string(),
        "proxmox: the answer of /cluster/resources has no list"
    );
}

#[test]
fn a_password_is_changed_into_a_ticket_once() {
    let ticket = data(
        r#"{"username": "root@pam", "ticket": "PVE:root@pam:65F0::abc==", "CSRFPreventionToken": "65F0:def"}"#,
    );
    let cloud = Cloud::start(&[
        ("POST /api2/extjs/access/ticket", "200 OK", &ticket),
        (RESOURCES, "200 OK", &data("[]")),
    ]);
    let settings = Map::new()
        .with("url", cloud.url.as_str())
        .with("user", "root@pam")
        .with("password", "a&b-0123456789");
    let (driver, home) = (Proxmox::new(&settings).unwrap(), Home::new());
    driver.list(&home.cx()).unwrap();
    driver.list(&home.cx()).unwrap();
    let asked = cloud.asked();
    let lines: Vec<&str> = asked.iter().map(|one| one.line.as_str()).collect();
    assert_eq!(
        lines,
        ["POST /api2/extjs/access/ticket", RESOURCES, RESOURCES]
    );
    assert_eq!(
        asked[0].body,
        "username=root%40pam&password=a%26b-0123456789"
    );
    assert!(
        asked[1].has("cookie", "PVEAuthCookie=PVE:root@pam:65F0::abc=="),
        "{asked:?}"
    );
    assert!(asked[1].has("csrfpreventiontoken", "65F0:def"), "{asked:?}");
}

#[test]
fn a_container_is_created_with_its_tag() {
    let cloud = Cloud::start(&[
        (RESOURCES, "200 OK", &data("[]")),
        (NEXT, "200 OK", &data("\"106\"")),
        (
            "POST /api2/extjs/nodes/pve1/lxc",
            "200 OK",
            &data(&format!("{UPID:?}")),
        ),
        (
            STATUS,
            "200 OK",
            &data(r#"{"status": "stopped", "exitstatus": "OK"}"#),
        ),
        (
            "GET /api2/extjs/nodes/pve1/lxc/106/status/current",
            "200 OK",
            &data(r#"{"status": "running"}"#),
        ),
    ]);
    let mut spec = spec_of("web1", "mine", "proxmox");
    for (key, value) in [
        ("technology", "lxc"),
        ("host", "pve1"),
        ("image", "local:vztmpl/debian-12.tar.zst"),
        ("net0", "name=eth0,bridge=vmbr0,ip=dhcp"),
        ("password", "the-one-of-the-api"),
    ] {
        spec.settings.insert(key, value);
    }
    spec.provider
        .settings
        .insert("password", "the-one-of-the-api");
    let wanted = Wanted {
        spec: &spec,
        token: "t0",
        user_data: None,
    };
    let made = open(&cloud).create(&Home::new().cx(), &wanted).unwrap();
    assert_eq!((made.id.as_str(), made.state.as_str()), ("106", "running"));
    let asked = cloud.asked();
    let sent = asked
        .iter()
        .find(|one| one.line.starts_with("POST"))
        .unwrap();
    assert_eq!(
        sent.body,
        "vmid=106&ostemplate=local%3Avztmpl%2Fdebian-12.tar.zst&hostname=web1&tags=pinch-run-t0&net0=name%3Deth0%2Cbridge%3Dvmbr0%2Cip%3Ddhcp"
    );
}

fn web1() -> Machine {
    machine(&value::json::read(&resource(105, "web1", "running", "")).unwrap()).unwrap()
}

#[test]
fn a_machine_is_stopped_and_deleted_and_one_that_is_gone_too() {
    let upid = data(&format!("{UPID:?}"));
    let stop = "POST /api2/extjs/nodes/pve1/qemu/105/status/stop";
    let delete = "DELETE /api2/extjs/nodes/pve1/qemu/105?purge=1";
    let cloud = Cloud::start(&[
        (CURRENT, "200 OK", &data(r#"{"status": "running"}"#)),
        (stop, "200 OK", &upid),
        (delete, "200 OK", &upid),
        (
            STATUS,
            "200 OK",
            &data(r#"{"status": "stopped", "exitstatus": "OK"}"#),
        ),
    ]);
    let gone = open(&cloud).destroy(&Home::new().cx(), &web1()).unwrap();
    assert_eq!(gone.get("Destroyed"), Some(&"web1 was destroyed.".into()));
    assert_eq!(cloud.lines(), [CURRENT, stop, STATUS, delete, STATUS]);
    let missing = refused(
        500,
        "Configuration file 'nodes/pve1/qemu-server/105.conf' does not exist",
    );
    let cloud = Cloud::start(&[(CURRENT, "200 OK", &missing)]);
    open(&cloud).destroy(&Home::new().cx(), &web1()).unwrap();
}

#[test]
fn actions_are_tasks() {
    let cloud = Cloud::start(&[
        (START, "200 OK", &data(&format!("{UPID:?}"))),
        (
            STATUS,
            "200 OK",
            &data(r#"{"status": "stopped", "exitstatus": "OK"}"#),
        ),
    ]);
    let (driver, home) = (open(&cloud), Home::new());
    let started = driver.action(&home.cx(), "start", &web1(), &Map::new());
    let wanted = Map::new().with("Started", "web1 was started.");
    assert_eq!(started.unwrap(), Some(wanted.into()));
    let none = driver.action(&home.cx(), "nosuch", &web1(), &Map::new());
    assert_eq!(none.unwrap(), None);
}

#[test]
fn providers_that_are_not_complete_are_refused_without_their_secret() {
    let error = |settings: Map| Proxmox::new(&settings).err().unwrap().to_string();
    let url = Map::new().with("url", "pve.example.com");
    assert_eq!(error(Map::new()), "proxmox: the provider has no `url`");
    assert_eq!(
        error(url.clone()),
        "proxmox: the provider has no `token` or `user`"
    );
    let wrong = error(url.clone().with("token", "0123456789-secret"));
    assert_eq!(
        wrong,
        "proxmox: `token` of the provider must be USER@REALM!ID=SECRET"
    );
    let halves = url
        .with("user", "root@pam!salt")
        .with("token", "0123456789-secret");
    assert!(Proxmox::new(&halves).is_ok());
}
