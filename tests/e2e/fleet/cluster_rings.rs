//! Rings of masters: which of them keep the returns of jobs, and each function of the runner.

use std::time::Duration;

use serde_json::{Value, json};

use super::cluster::{Masters, SECRET};

/// Calls a function of the runner `cluster` at a master, which must succeed.
fn call(masters: &Masters, number: usize, words: &[&str]) -> Value {
    let all = [&["salt-run", "--out=json"], words].concat();
    let answer = masters.all[number - 1].run(&all);
    assert_eq!(answer.rc, Some(0), "{words:?}: {}", answer.out);
    serde_json::from_str(&answer.out).unwrap_or_else(|_| panic!("{words:?}: {}", answer.out))
}

/// Calls a function at a master that must refuse it, and returns its text.
fn refused(masters: &Masters, number: usize, words: &[&str]) -> String {
    let answer = masters.all[number - 1].run(&[&["salt-run"], words].concat());
    assert_eq!(answer.rc, Some(1), "{words:?}: {}", answer.out);
    answer.out
}

/// Returns how many of these jobs a master shows with these returns.
fn looked_up(masters: &Masters, number: usize, jobs: &[(String, Value)]) -> usize {
    let is_shown = |(jid, returned): &&(String, Value)| {
        call(masters, number, &["jobs.lookup_jid", jid]) == *returned
    };
    jobs.iter().filter(is_shown).count()
}

/// The number of jobs whose returns are shared. Each of three masters keeps some of them in all but
/// one of 10,000,000 runs.
const JOBS: usize = 40;

/// Runs jobs, and returns their numbers with their returns.
fn run_jobs(masters: &Masters, count: usize) -> Vec<(String, Value)> {
    for number in 0..count {
        let words = ["salt", "m1", "test.echo", &format!("return {number}")];
        let answer = masters.all[0].run(&words).out;
        assert!(answer.contains(words[3]), "{answer}");
    }
    let all = call(masters, 1, &["jobs.list_jobs"]);
    let all = all.as_object().unwrap().iter();
    let jids = all.filter(|(_, job)| job["Function"] == "test.echo");
    let jobs: Vec<_> = jids
        .map(|(jid, _)| (jid.clone(), call(masters, 1, &["jobs.lookup_jid", jid])))
        .collect();
    assert_eq!(jobs.len(), count);
    jobs
}

#[test]
fn masters_of_a_ring_share_the_returns_and_each_master_reads_them() {
    let mut masters = Masters::with(3, SECRET);
    masters.minions(&[("m1", 1)]);
    let names: Vec<String> = (1..=3).map(|number| masters.name(number)).collect();
    let all = json!(names);

    // Without a ring.
    let rings = call(&masters, 1, &["cluster.rings"]);
    assert_eq!(
        rings,
        json!({"node_id": names[0], "rings": {}, "active_rings": [], "registry_version": -1})
    );
    let routes = call(&masters, 1, &["cluster.routes"]);
    assert_eq!(
        routes,
        json!({"node_id": names[0], "routes": {}, "routing_version": -1, "drop_stats": {}})
    );
    let info = json!({"is_clustered": true, "node_count": 3, "nodes": all, "vnodes": 150});
    assert_eq!(call(&masters, 2, &["cluster.ring_info"]), info);
    let status = call(&masters, 2, &["cluster.shed_status"]);
    assert_eq!(status["status"], "missing");

    // Any master creates and changes a ring.
    let voters = format!("voters={}", json!(names));
    let created = call(&masters, 2, &["cluster.ring_create", "name=jobs", &voters]);
    assert_eq!(
        created,
        json!({
            "status": "fan-out initiated",
            "tag": "cluster/runner/ring_create",
            "data": {"ring_id": "jobs", "founding_voters": names},
        })
    );
    let skipped = call(&masters, 1, &["cluster.shed_unowned", "jobs"]);
    assert_eq!(skipped["status"], "skipped");
    let set = [
        "cluster.ring_set",
        "name=jobs",
        "members=voters",
        "replicas=1",
    ];
    let set = call(&masters, 3, &set);
    assert_eq!(
        set["data"],
        json!({"ring_id": "jobs", "members": "voters", "replicas": 1})
    );
    assert!(set["warning"].as_str().unwrap().contains("data is lost"));
    let jobs = run_jobs(&masters, JOBS);
    call(&masters, 1, &["cluster.route_set", "jobs", "jobs"]);
    let ring = call(&masters, 1, &["cluster.rings"])["rings"]["jobs"].clone();
    assert_eq!(
        ring,
        json!({"founding_voters": names, "status": "active", "members": "voters", "replicas": 1})
    );

    // A dry run changes nothing, and counts the same.
    let dry = call(
        &masters,
        1,
        &["cluster.shed_unowned", "jobs", "dry_run=True"],
    );
    let dry_all = ["cluster.shed_unowned_all", "ring=jobs", "dry_run=True"];
    let dry_all = call(&masters, 1, &dry_all);
    assert_eq!(dry_all["local"], dry);
    assert_eq!(dry["status"], "ok");
    let shed = call(&masters, 1, &["cluster.shed_unowned_all", "jobs"]);
    assert_eq!(shed["local"]["dropped"], dry["dropped"]);
    let dropped = |of: &Value| of["dropped"].as_u64().unwrap();
    let all_dropped = dropped(&shed["local"])
        + dropped(&shed["peers"][&names[1]])
        + dropped(&shed["peers"][&names[2]]);
    // Each job is dropped by the two masters that do not keep it. The others are the acceptance of
    // keys and the pings of the preparation.
    assert!(all_dropped >= 2 * JOBS as u64, "{shed:#}");
    let kept = shed["local"]["kept"].as_u64().unwrap();
    assert!(kept > 0, "{shed:#}");
    let status = call(&masters, 2, &["cluster.shed_status"]);
    assert_eq!(status["source"], "peer_request");
    assert_eq!(status["dropped"], shed["peers"][&names[1]]["dropped"]);
    let stats = &call(&masters, 1, &["cluster.routes"])["drop_stats"]["jobs"];
    assert_eq!(stats["ring_id"], "jobs");
    assert!(stats["other_ring_member"].as_u64().unwrap() > 0, "{stats}");
    let again = call(&masters, 1, &["cluster.shed_unowned", "jobs"]);
    assert_eq!(
        (&again["dropped"], &again["kept"]),
        (&json!(0), &json!(kept))
    );

    // Every master shows all returns all the same, but not without the one that keeps them.
    for number in 1..=3 {
        assert_eq!(looked_up(&masters, number, &jobs), jobs.len());
    }
    masters.all[2].kill_master();
    masters.takes_changes(1);
    let lost = jobs
        .iter()
        .map(|(jid, _)| masters.all[0].run(&["salt-run", "jobs.lookup_jid", jid]))
        .filter(|answer| answer.rc != Some(0))
        .inspect(|answer| assert!(answer.out.contains(&names[2]), "{}", answer.out))
        .count();
    assert!(lost > 0 && lost < jobs.len(), "{lost}");
    // Its removal would lose them.
    if super::cluster::members(&masters.all[0])["leader_id"] != json!(names[0]) {
        call(&masters, 1, &["cluster.transfer_leader", &names[0]]);
    }
    masters.soon("the first master leads", |masters| {
        super::cluster::members(&masters.all[0])["leader_id"] == json!(names[0])
    });
    let removal = refused(&masters, 1, &["cluster.remove", &names[2]]);
    assert!(removal.contains("replicas=2"), "{removal}");
    masters.all[2].start_master();
    masters.takes_changes(3);

    // With two replicas, the loss of one loses nothing. The new owners fetch by themselves.
    call(&masters, 1, &["cluster.ring_set", "jobs", "replicas=2"]);
    masters.soon("each return has two owners", |masters| {
        let dry = ["cluster.shed_unowned_all", "ring=jobs", "dry_run=True"];
        let dry = call(masters, 1, &dry);
        let lacks = |of: &Value| of.get("unconfirmed").is_some();
        let peers = dry["peers"].as_object().unwrap().values().any(lacks);
        std::thread::sleep(Duration::from_secs(2));
        !lacks(&dry["local"]) && !peers
    });
    std::thread::sleep(Duration::from_secs(12));
    masters.all[2].kill_master();
    masters.takes_changes(1);
    for number in 1..=2 {
        assert_eq!(looked_up(&masters, number, &jobs), jobs.len(), "{number}");
    }
    masters.all[2].start_master();
    masters.takes_changes(3);

    // Back to all masters.
    let used = refused(&masters, 1, &["cluster.ring_destroy", "jobs"]);
    assert!(used.contains("route_clear jobs"), "{used}");
    call(&masters, 1, &["cluster.route_clear", "jobs"]);
    for number in 1..=3 {
        let collected = call(&masters, number, &["cluster.collect_from_peers"]);
        assert_eq!(
            collected["data"]["channels"],
            json!([
                "bank:jobs/loads",
                "bank:jobs/minions",
                "bank:jobs/endtimes",
                "bank:jobs/nocache"
            ])
        );
    }
    call(&masters, 1, &["cluster.ring_destroy", "jobs"]);
    let rings = call(&masters, 3, &["cluster.rings"]);
    assert_eq!(rings["rings"]["jobs"]["status"], "destroyed");
    assert_eq!(rings["active_rings"], json!([]));
    for number in [2, 3] {
        masters.all[number - 1].kill_master();
    }
    assert_eq!(looked_up(&masters, 1, &jobs), jobs.len());
}

/// Calls that are refused, each with a part of the reason. `ONE` names the only master.
const WRONG: &str = "\
cluster.ring_create name= ONE | cluster.ring_create requires a non-empty 'name'
cluster.ring_create name=a voters=[] | cluster.ring_create requires a non-empty 'voters' list
cluster.ring_create name=a/b ONE | The name of a ring is
cluster.ring_create name=a voters=10.9.9.9 | The cluster has no master 10.9.9.9
cluster.ring_destroy none | There is no ring none
cluster.ring_info none | There is no ring none
cluster.ring_set | cluster.ring_set requires a non-empty 'name'
cluster.ring_set a members=all | 'members' must be 'self' or 'voters'
cluster.route_set jobs none | There is no ring none
cluster.route_set data_type= ring=a | cluster.route_set requires a non-empty 'data_type'
cluster.route_set data_type=jobs ring= | cluster.route_set requires a non-empty 'ring'
cluster.route_clear keys | cannot be routed to a ring, only: jobs
cluster.shed_unowned ring= | cluster.shed_unowned requires a non-empty 'ring'
cluster.shed_unowned a banks=[] | cluster.shed_unowned requires at least one bank
cluster.shed_unowned a banks=[keys] | is not a bank of jobs
cluster.shed_unowned_all ring= | cluster.shed_unowned_all requires a non-empty 'ring'
cluster.collect_from_peers channels=[x] | unsupported fixed channels
cluster.collect_from_peers banks=[] | requires at least one channel or bank";

#[test]
fn wrong_calls_about_rings_are_refused() {
    let masters = Masters::with(1, SECRET);
    let name = masters.name(1);
    let one = format!("voters={}", json!([name]));
    for row in WRONG.lines() {
        let (words, why) = row.split_once(" | ").unwrap();
        let words = words.replace("ONE", &one);
        let words: Vec<&str> = words.split(' ').collect();
        let text = refused(&masters, 1, &words);
        assert!(text.contains(why), "{words:?}: {text}");
    }
    let skipped = call(&masters, 1, &["cluster.shed_unowned", "none"]);
    let reason = "ring 'none' is not active in the registry";
    assert_eq!(
        skipped,
        json!({"status": "skipped", "reason": reason, "ring": "none", "dropped": 0, "kept": 0,
            "subbanks_dropped": 0, "dry_run": false})
    );
}
