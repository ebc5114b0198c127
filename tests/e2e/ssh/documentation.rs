//! The orchestrations of Salt's documentation over hosts of a roster, without a master.

use std::fs;

use serde_json::Value;

use crate::fleet::documentation::FILES;

use super::{Host, Site};

const IDS: [&str; 4] = ["web1", "web2", "db1", "store1"];

/// The hosts of the documentation. Each has its own copy of the folder with the marks that the
/// examples leave.
struct Documented {
    site: Site,
    hosts: Vec<Host>,
}

impl Documented {
    fn new() -> Option<Self> {
        let site = Site::new()?;
        let marks = site.path("marks");
        fs::create_dir_all(&marks).unwrap();
        fs::write(marks.join("foo"), "").unwrap();
        for (name, text) in FILES {
            let text = text.replace("@M@", marks.to_str().unwrap());
            let text = text.replace("@NET@", "127.0.0.0/8");
            site.write(&format!("srv/{name}"), &text);
        }
        let hosts: Vec<Host> = IDS.iter().map(|_| Host::start(&site, &[])).collect();
        let ports = IDS.iter().zip(&hosts).map(|(id, host)| (*id, host.port));
        site.enlist(&ports.collect::<Vec<_>>());
        let roster: String = IDS
            .iter()
            .zip(&hosts)
            .map(|(id, host)| {
                let role = if *id == "store1" { "storage" } else { "other" };
                let port = host.port;
                format!("{id}: {{host: 127.0.0.1, port: {port}, minion_opts: {{grains: {{role: {role}}}}}}}\n")
            })
            .collect();
        site.write("etc/roster", &roster);
        Some(Self { site, hosts })
    }

    fn mark(&self, id: &str, name: &str) -> Option<String> {
        let at = IDS.iter().position(|known| *known == id).unwrap();
        let marks = self.site.path("marks").join(name);
        let below = marks
            .strip_prefix("/")
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        fs::read_to_string(self.hosts[at].path(&below)).ok()
    }

    /// Returns the result and the hosts of each step of an orchestration, in their order.
    fn done(&self, code: i32, words: &[&str]) -> Vec<(String, Value, Vec<String>)> {
        let first = [
            "--local",
            "--out=json",
            "--roster-file",
            "ROSTER",
            "state.orchestrate",
        ];
        let roster = self.site.path("etc/roster");
        let mut all: Vec<&str> = first.to_vec();
        all[3] = roster.to_str().unwrap();
        all.extend(words);
        let answer = self.site.call(&all);
        assert_eq!(answer.code, Some(code), "{}\n{}", answer.out, answer.err);
        let read: Value = serde_json::from_str(&answer.out).unwrap();
        let mut steps: Vec<&Value> = read["local"]["data"]["caller"]
            .as_object()
            .unwrap()
            .values()
            .collect();
        steps.sort_by_key(|step| step["__run_num__"].as_u64());
        let read = |step: &&Value| {
            let ret = step["changes"]["ret"].as_object();
            let hosts = ret.map(|ret| ret.keys().cloned().collect());
            let id = step["__id__"].as_str().unwrap().to_owned();
            (id, step["result"].clone(), hosts.unwrap_or_default())
        };
        steps.iter().map(read).collect()
    }
}

#[test]
fn the_orchestrations_of_the_documentation_run_on_hosts() {
    let Some(it) = Documented::new() else { return };
    let done = it.done(0, &["orch.web_setup"]);
    assert_eq!(done[0].2, ["web1", "web2"]);
    assert_eq!(it.mark("web1", "order").unwrap(), "highstate-web1\n");
    // The order is that of the requisites, and the targets are an address range and a grain. This
    // machine is in the range too.
    let done = it.done(0, &["orch.complex"]);
    let ids: Vec<&str> = done.iter().map(|(id, ..)| id.as_str()).collect();
    let order = ["bootstrap_servers", "webserver_setup", "storage_setup"];
    assert_eq!(ids, order);
    assert_eq!(done[0].2.len(), IDS.len() + 1, "{:?}", done[0].2);
    assert_eq!(done[2].2, ["store1"]);
    let order = it.mark("store1", "order").unwrap();
    assert!(order.ends_with("bootstrap\nceph-store1\n"), "{order}");
    it.done(0, &["orch.webserver", "pillar={\"port\": 8000}"]);
    assert_eq!(it.mark("web2", "nginx-web2").unwrap().trim(), "8000");
    it.done(0, &["orch.outer", "pillar={\"servers\": \"db1\"}"]);
    assert_eq!(it.mark("web1", "nginx-web1").unwrap().trim(), "8080");
    assert!(it.mark("db1", "order").unwrap().ends_with("added-db1\n"));
    let done = it.done(1, &["orch.judged"]);
    let results: Vec<&Value> = done.iter().map(|(_, result, _)| result).collect();
    assert_eq!(results, [true, false, false]);
    let done = it.done(0, &["orch.cleanfoo"]);
    assert_eq!(done[0].2.len(), IDS.len() + 1);
    assert!(!it.site.path("marks/foo").exists());
    assert_eq!(it.mark("web1", "foo"), None);
}
