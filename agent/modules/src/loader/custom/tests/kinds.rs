//! Tests of the kinds of custom modules that the program itself calls. They import what Salt's own
//! files of these kinds import.

use std::io::{Read, Write};
use std::net::TcpListener;

use state::custom::Kind;

use super::*;
use crate::returners::{self, follow};
use crate::testing::json;

const STORE: &str = r#"
import salt.returners
import salt.utils.jid
import salt.utils.job
import salt.utils.json
import salt.utils.platform

__virtualname__ = "store"
__virtual_aliases__ = ("store_return",)


def __virtual__():
    if not _options()["file"]:
        return (False, "no file")
    return __virtualname__


def _options(ret=None):
    attrs = {"host": "host", "nodes": "cluster.nodes", "file": "file", "unset": "unset"}
    if salt.utils.platform.is_proxy():
        return {}
    return salt.returners.get_returner_options(__virtualname__, ret, attrs, __salt__=__salt__, __opts__=__opts__)


def returner(ret):
    options = _options(ret)
    line = [options.pop("file"), options, salt.utils.job.get_keep_jobs_seconds(__opts__), ret["return"]]
    with open(line[0], "a") as file:
        file.write(salt.utils.json.dumps(line[1:], sort_keys=True) + "\n")


def prep_jid(nocache=False, passed_jid=None):
    return passed_jid if passed_jid is not None else salt.utils.jid.gen_jid(__opts__)
"#;

#[test]
fn a_python_returner_gets_its_options_as_in_salt() {
    let files = [("_returners/store_return.py", STORE)];
    let out = tempfile::NamedTempFile::new().unwrap();
    let path = out.path().display().to_string();
    let opts = json(
        r#"{"store.host": "h1", "store": {"cluster.nodes": [1, 2]}, "other.store.host": "h2", "keep_jobs": 2}"#,
    );
    let machine = Machine::with_opts(&files, opts.with("store.file", path));
    machine.sync_kind("returners");
    for (list, ret) in [
        ("store", r#"{"return": "a"}"#),
        ("store_return", r#"{"return": "b", "ret_config": "other"}"#),
        ("store", r#"{"return": "c", "ret_kwargs": {"host": "h3"}}"#),
    ] {
        assert_eq!(returners::missing(&machine.cx, list), None);
        returners::hand(&machine.cx, list, &json(ret));
    }
    let lines = fs::read_to_string(out.path()).unwrap();
    let wanted = [
        "h1\", \"nodes\": [1, 2]}, 7200, \"a\"]",
        "h2\", \"nodes\": [1, 2]}, 7200, \"b\"]",
        "h3\", \"nodes\": [1, 2]}, 7200, \"c\"]",
    ];
    let wanted: Vec<String> = wanted.map(|rest| format!("[{{\"host\": \"{rest}")).into();
    assert_eq!(lines.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn a_returner_with_the_name_of_a_built_in_goes_before_it() {
    let text = "def returner(ret):\n    with open(__opts__['out'], 'a') as file:\n        file.write(ret['return'])\n\ndef event_return(events):\n    for event in events:\n        returner({'return': event['tag']})\n";
    let files = [
        ("_returners/syslog.py", text),
        ("_returners/rawfile_json.py", text),
    ];
    let out = tempfile::NamedTempFile::new().unwrap();
    let opts = Map::new().with("out", out.path().display().to_string());
    let machine = Machine::with_opts(&files, opts);
    machine.sync_kind("returners");
    let cx = &machine.cx;
    returners::hand(cx, "syslog,rawfile_json", &json(r#"{"return": "x"}"#));
    for name in ["syslog", "rawfile_json"] {
        assert_eq!(follow::never_takes(cx, follow::Kind::Events, name), None);
        let event = json(r#"{"tag": "t", "data": {}}"#);
        let record = follow::Record {
            sequence: 1,
            event: event.into(),
        };
        let batch = follow::Batch {
            kind: follow::Kind::Events,
            place: "p",
            records: &[record],
        };
        follow::hand_batch(cx, name, &batch).unwrap();
    }
    assert_eq!(fs::read_to_string(out.path()).unwrap(), "xxtt");
}

/// Answers one request with a JSON object that has the request's first line, its header `X-Key` and
/// whether it names a user.
fn serve_once(listener: TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        let length = stream.read(&mut part).unwrap();
        assert_ne!(length, 0);
        request.extend_from_slice(&part[..length]);
    }
    let request = String::from_utf8(request).unwrap().to_lowercase();
    let has = |text: &str| request.contains(text);
    let line = request.lines().next().unwrap();
    let body = format!(
        "{{\"line\": \"{line}\", \"key\": {}, \"user\": {}}}",
        has("x-key: abc"),
        has("authorization: basic bwu6z2vozwlt")
    );
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .unwrap();
}

#[test]
fn a_python_pillar_queries_http_as_in_salt() {
    let text = "import logging\nimport urllib.parse\n\nlog = logging.getLogger(__name__)\n\n\ndef __virtual__():\n    return True\n\n\ndef ext_pillar(minion_id, pillar, url, header_dict=None, auth=None, username=None, password=None, namespace=None):\n    url = url.replace('%s', urllib.parse.quote(minion_id)).replace('<os>', __salt__['grains.get']('os', None))\n    log.debug('Getting url: %s', url)\n    data = __salt__['http.query'](url=url, decode=True, decode_type='json', header_dict=header_dict, auth=auth, username=username, password=password)\n    if 'dict' in data:\n        return {namespace: data['dict']}\n    for key in data:\n        log.error('%s: %s', key, data[key])\n    return {}\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let source = Map::new()
        .with("url", format!("http://{address}/%s/<os>"))
        .with("header_dict", json(r#"{"X-Key": "abc"}"#))
        .with("username", "me")
        .with("password", "geheim")
        .with("namespace", "web");
    let sources = Value::list([Map::new().with("from_web", source).into()]);
    let machine = Machine::with_opts(
        &[("_pillar/from_web.py", text)],
        Map::new().with("ext_pillar", sources),
    );
    machine.sync_kind("pillar");
    let server = std::thread::spawn(move || serve_once(listener));
    let kwargs = Map::new().with("unmask", true);
    let pillar = machine.cx.call("pillar.items", Vec::new(), kwargs).unwrap();
    server.join().unwrap();
    assert_eq!(
        value::python::repr(&pillar),
        "{'web': {'line': 'get /m1/debian http/1.1', 'key': True, 'user': True}}"
    );
}

#[test]
fn a_python_roster_reads_a_file_as_in_salt() {
    let text = "import salt.utils.files\nimport salt.utils.stringutils\n\n\ndef targets(tgt, tgt_type='glob', **kwargs):\n    with salt.utils.files.fopen(__opts__['ssh_config_file'], 'r') as file:\n        names = [salt.utils.stringutils.to_unicode(line.rstrip()) for line in file]\n    return {name: {'host': name + '.lan'} for name in names}\n";
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), "web1\nweb2\n").unwrap();
    let opts = Map::new().with("ssh_config_file", config.path().display().to_string());
    let machine = Machine::with_opts(&[("_roster/names.py", text)], opts);
    let synced = machine.cx.call(
        "saltutil.runner",
        vec!["saltutil.sync_roster".into()],
        Map::new(),
    );
    assert_eq!(value::python::repr(&synced.unwrap()), "['roster.names']");
    let custom = &machine.cx.shared.custom;
    let kwargs = Map::new().with("tgt_type", "glob");
    let hosts = custom.call_client(
        &machine.cx,
        Kind::Roster,
        "names.targets",
        vec!["*".into()],
        kwargs,
    );
    assert_eq!(
        value::python::repr(&hosts.unwrap().unwrap()),
        "{'web1': {'host': 'web1.lan'}, 'web2': {'host': 'web2.lan'}}"
    );
}

#[test]
fn modules_for_clouds_and_authentication_are_copied() {
    let files = [("_clouds/mine.py", ""), ("_auth/mine.py", "")];
    let machine = Machine::with(&files);
    machine.sync_kind("clouds");
    let synced = machine.cx.call(
        "saltutil.runner",
        vec!["saltutil.sync_auth".into()],
        Map::new(),
    );
    assert_eq!(value::python::repr(&synced.unwrap()), "['auth.mine']");
    for kind in ["clouds", "auth"] {
        let copied = machine
            .folder
            .path()
            .join("extmods")
            .join(kind)
            .join("mine.py");
        assert!(copied.exists(), "{kind}");
    }
    let all = machine.cx.call(
        "saltutil.runner",
        vec!["saltutil.sync_all".into()],
        Map::new(),
    );
    let all = value::python::repr(&all.unwrap());
    assert!(
        all.contains("'auth': []") && all.contains("'clouds': []"),
        "{all}"
    );
}

#[test]
fn a_disabled_store_or_pillar_is_not_used() {
    let opts = json(
        r#"{"disable_sdbs": ["env"], "disable_pillars": ["gpg"], "ext_pillar": [{"gpg": {}}], "mine": {"driver": "env"}}"#,
    );
    let machine = Machine::with_opts(&[], opts);
    let error = machine.call("sdb.get", &["sdb://mine/HOME".into()]);
    assert!(error.contains("is disabled by disable_sdbs"), "{error}");
    let pillar = machine.call("pillar.items", &[]);
    assert!(
        pillar.contains("Failed to load ext_pillar gpg: it is disabled by disable_pillars"),
        "{pillar}"
    );
}
