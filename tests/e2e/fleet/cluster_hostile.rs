//! Attacks on the port of masters, and mistakes in the setup of clusters: each is refused with an error
//! that names the peer and the remedy.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use link::pool::{Lane, MESSAGE_MAX, Pool};
use link::{KeyPair, PublicKey};
use rustix::process::Signal;

use super::Fleet;
use super::cluster::{Masters, SECRET, members, voters};
use super::hostile::{key, run};
use super::storm::clock_library;

const TIME: Duration = Duration::from_secs(5);
/// The first byte of a request of a member, and of one of a master that wants to join.
const OF_MEMBER: u8 = 200;
const JOIN: u8 = 201;

/// Returns the port for masters of a master.
fn address(masters: &Masters, number: usize) -> SocketAddr {
    let text = format!("{}:{}", masters.name(number), masters.port);
    text.parse().unwrap()
}

fn key_of(path: &Path) -> KeyPair {
    KeyPair::from_pem(&fs::read(path).unwrap()).unwrap()
}

fn key_of_master(fleet: &Fleet) -> KeyPair {
    key_of(&fleet.path("master/pki/master.pem"))
}

/// Opens a port with a key.
fn pool(pair: &KeyPair) -> Pool {
    let address = "127.0.0.1:0".parse().unwrap();
    Pool::bind(address, pair, Arc::new(|_: &PublicKey| true)).unwrap()
}

/// Sends a request as the owner of a key, and returns the answer as text.
fn say(pair: &KeyPair, to: SocketAddr, of: &PublicKey, request: &[u8]) -> Result<String, String> {
    run(async {
        let answer = pool(pair).ask((to, *of, Lane::Log), request, TIME).await;
        let answer = answer.map_err(|error| error.to_string())?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    })
}

/// Replaces a text in the configuration of a master.
fn reconfigure(fleet: &Fleet, from: &str, to: &str) {
    let path = fleet.path("master/etc/master");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn is_logged(masters: &Masters, number: usize, parts: &[&str]) {
    masters.soon(&format!("master {number} logs {parts:?}"), |masters| {
        let log = masters.all[number - 1].logs();
        log.lines()
            .any(|line| parts.iter().all(|part| line.contains(part)))
    });
}

#[test]
fn strangers_minions_and_other_clusters_are_refused_by_name() {
    let mut masters = Masters::with(1, SECRET);
    masters.minions(&[("m1", 1)]);
    let (to, member) = (
        address(&masters, 1),
        key_of_master(&masters.all[0]).public(),
    );
    let of_minion = key_of(&masters.all[0].path("m1/pki/minion.pem"));

    // Attacks: requests of members, with a new key and with the key of an accepted minion.
    let message = [&[0], 1_u64.to_be_bytes().as_slice(), b"\x80"].concat();
    for pair in [&key(), &of_minion] {
        for request in [message.as_slice(), &[OF_MEMBER, 0x80], &[7], b"GET /"] {
            let refused = say(pair, to, &member, request).unwrap_err();
            assert!(refused.contains("refused the request"), "{refused}");
        }
        let finger = pair.public().finger();
        let parts = [
            "refused a request of 127.0.0.1:",
            &finger,
            "not one of a member",
        ];
        is_logged(&masters, 1, &parts);
        // Attack: a request to join that is none.
        for request in [&[JOIN][..], &[JOIN, 0x81], &[JOIN, 0xc1, 0xff]] {
            let refused = say(pair, to, &member, request).unwrap();
            assert!(refused.contains("unknown form"), "{refused}");
        }
    }
    // Attack: bytes that are no packet of QUIC, more than there are places for connections.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in 0..1000 {
        socket.send_to(&vec![0xc3; length % 1400], to).unwrap();
    }

    // A master with the key of a minion, one of another cluster, and one that expects another key.
    masters.prepare(2, 1, SECRET);
    let pki = masters.all[1].path("master/pki");
    fs::create_dir_all(&pki).unwrap();
    fs::copy(
        masters.all[0].path("m1/pki/minion.pem"),
        pki.join("master.pem"),
    )
    .unwrap();
    masters.all[1].begin_master();
    masters.prepare(3, 1, SECRET);
    reconfigure(&masters.all[2], "cluster_id: prod", "cluster_id: test");
    masters.all[2].begin_master();
    let other = key().public().finger();
    masters.prepare(4, 1, &format!("cluster_pub_fingerprint: '{other}'\n"));
    masters.all[3].begin_master();
    let name = masters.name(1);
    let why = "the minion m1 has the same key: remove the file `master.pem`";
    is_logged(&masters, 2, &["cannot join the cluster prod", &name, why]);
    is_logged(
        &masters,
        1,
        &["The master at ", &of_minion.public().finger(), why],
    );
    let why = format!("{name} is a master of the cluster prod, not test");
    is_logged(&masters, 3, &["cannot join the cluster test", &why]);
    is_logged(&masters, 1, &["The master at ", &why]);
    let parts = [name.as_str(), "it has the key", &member.finger(), &other];
    is_logged(&masters, 4, &parts);

    // None of it has changed anything, and the minion is served.
    assert_eq!(voters(&masters.all[0]), [name]);
    assert_eq!(members(&masters.all[0])["learners"], serde_json::json!([]));
    assert!(masters.ping(1).contains("\"m1\": true"));
}

#[test]
fn forged_messages_of_a_member_are_refused_and_named() {
    let mut masters = Masters::with(3, SECRET);
    let status = masters.all[0].run(&["salt-run", "--out=json", "cluster.status"]);
    let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    let name = masters.name(3);
    let number = |name: &str| status["masters"][name]["number"].as_u64().unwrap();
    let (own, third) = (number(&masters.name(1)), number(&name));
    masters.all[2].kill_master();
    masters.takes_changes(1);
    let before = members(&masters.all[0])["term"].clone();
    let pair = key_of_master(&masters.all[2]);
    let (to, member) = (
        address(&masters, 1),
        key_of_master(&masters.all[0]).public(),
    );
    let of_group = |group: u8, to: u64, message: &[u8]| {
        [&[group], to.to_be_bytes().as_slice(), message].concat()
    };

    // Attacks, each with the reason in the log of the receiver.
    let unreadable: [(Vec<u8>, &str); 7] = [
        (of_group(0, own, b""), "cannot read"),
        (of_group(0, own, b"\x80"), "cannot read"),
        (of_group(0, own, &[0x91; 5000]), "cannot read"),
        (of_group(9, own, b"\x80"), "does not have the group 9"),
        (vec![0, 1, 2], "too short"),
        (vec![OF_MEMBER, 0x81], "it has an unknown form"),
        (vec![OF_MEMBER; 100], "it has an unknown form"),
    ];
    for (request, why) in &unreadable {
        let answered = say(&pair, to, &member, request);
        let text = answered.unwrap_or_else(|why| why);
        assert!(
            text.contains("cannot") || text.contains("refused"),
            "{text}"
        );
        let named = format!("refused a request of the master {name} (127.0.0.1:");
        is_logged(&masters, 1, &[&named, why, "Run the same release"]);
    }
    // A message to another master, and one that is too long, are not answered.
    assert!(say(&pair, to, &member, &of_group(0, third, b"\x80")).is_err());
    assert!(say(&pair, to, &member, &vec![0; MESSAGE_MAX + 1]).is_err());
    is_logged(&masters, 1, &[&pair.public().finger(), "longer than"]);

    // The others neither elect nor stop.
    masters.takes_changes(1);
    masters.takes_changes(2);
    assert_eq!(members(&masters.all[0])["term"], before);
    masters.all[2].start_master();
    masters.takes_changes(3);
}

#[test]
fn a_recorded_join_is_refused_over_another_connection() {
    let mut masters = Masters::with(1, SECRET);
    let (to, member) = (
        address(&masters, 1),
        key_of_master(&masters.all[0]).public(),
    );
    // A third one has the address that the joining master knows, and passes its request on.
    let between = address(&masters, 9);
    let third = Pool::bind(between, &key(), Arc::new(|_: &PublicKey| false)).unwrap();
    masters.prepare(2, 1, SECRET);
    let (real, forged) = (masters.name(1), masters.name(9));
    reconfigure(
        &masters.all[1],
        &format!("cluster_peers: [{real}]"),
        &format!("cluster_peers: [{forged}]"),
    );
    masters.all[1].begin_master();
    let why = "its `cluster_secret` is not that of the cluster";
    run(async {
        let request = third.next().await.unwrap();
        assert_eq!(request.bytes[0], JOIN);
        let recorded = request.bytes.clone();
        for _ in 0..2 {
            let fingers = [member.finger()];
            let attacker = pool(&key());
            let answered = attacker
                .ask_unknown(to, &fingers, |_| recorded.clone())
                .await;
            let bytes = answered.unwrap().0.bytes;
            let text = String::from_utf8_lossy(&bytes);
            assert!(text.contains(why), "{text}");
        }
        request.answer(b"").await;
    });
    is_logged(&masters, 1, &["The master at 127.0.0.1:", why]);
    is_logged(&masters, 2, &["Waiting to join the cluster prod", &forged]);
    assert_eq!(members(&masters.all[0])["learners"], serde_json::json!([]));
    assert_eq!(voters(&masters.all[0]), [real]);
}

#[test]
fn two_clusters_of_one_name_name_each_other_and_stay_apart() {
    let mut masters = Masters::prepared(1, SECRET);
    masters.prepare(2, 0, SECRET);
    for number in [1, 2] {
        masters.all[number - 1].start_master();
        masters.takes_changes(number);
    }
    let names = [masters.name(1), masters.name(2)];
    let both = format!("cluster_peers: [{}]", names.join(", "));
    for (fleet, before) in masters.all.iter_mut().zip([&names[..1], &[]]) {
        fleet.kill_master();
        let before = format!("cluster_peers: [{}]", before.join(", "));
        reconfigure(fleet, &before, &both);
        fleet.start_master();
    }
    for (number, other) in [(1, &names[1]), (2, &names[0])] {
        masters.takes_changes(number);
        let parts = [
            other.as_str(),
            "is none of this cluster",
            "belong to two clusters of the name prod",
            "move the folders `store`, `cluster`",
        ];
        is_logged(&masters, number, &parts);
        let own = masters.name(number);
        assert_eq!(voters(&masters.all[number - 1]), [own]);
    }
}

#[test]
fn half_of_the_state_of_a_master_is_refused_and_an_empty_disk_joins_again() {
    let mut masters = Masters::with(3, SECRET);
    let name = masters.name(3);
    let cache = masters.all[2].path("master/cache");
    for (lost, why) in [
        ("cluster", "but its log ("),
        ("store", "is not the state that followed from it"),
    ] {
        masters.all[2].kill_master();
        let (from, to) = (cache.join(lost), cache.join("moved"));
        fs::rename(&from, &to).unwrap();
        masters.all[2].begin_master();
        let parts = [why, "away to join the cluster again as a new master"];
        is_logged(&masters, 3, &parts);
        masters.soon("it is not up", |masters| {
            let silent = members(&masters.all[0])["unhealthy_voters"].clone();
            silent == serde_json::json!([name])
        });
        masters.all[2].kill_master();
        if from.exists() {
            fs::remove_dir_all(&from).unwrap();
        }
        fs::rename(to, from).unwrap();
    }
    // Both are lost: it is another member, without a vote until it has what the others have.
    fs::remove_dir_all(&cache).unwrap();
    masters.takes_changes(1);
    masters.all[2].start_master();
    masters.soon("it has the vote of the old one", |masters| {
        let all = members(&masters.all[0]);
        all["unhealthy_voters"] == serde_json::json!([]) && all["voter_count"] == 3
    });
    masters.takes_changes(3);
    let logs: String = masters.all[..2].iter().map(Fleet::logs).collect();
    let lines: Vec<&str> = logs.lines().filter(|line| line.contains(&name)).collect();
    let last = |text: &str| lines.iter().rposition(|line| line.contains(text));
    let (joined, votes) = (last("has joined as number"), last("with a vote now: ["));
    assert!(joined.is_some() && joined < votes, "{lines:#?}");
    assert!(lines[votes.unwrap()].contains("removed: ["), "{lines:#?}");
}

/// The number of jobs, of which a third of the masters keeps at least one.
const JOBS: usize = 20;

#[test]
fn returns_whose_masters_are_all_gone_are_an_error_that_names_them() {
    let mut masters = Masters::with(3, SECRET);
    masters.minions(&[("m1", 1)]);
    let names: Vec<String> = (1..=3).map(|number| masters.name(number)).collect();
    let succeeds = |masters: &Masters, words: &[&str]| {
        let words = [&["salt-run", "--out=json"], words].concat();
        let answer = masters.all[0].run(&words);
        assert_eq!(answer.rc, Some(0), "{words:?}: {}", answer.out);
        answer.out
    };
    let voters = format!("voters={}", names.join(","));
    succeeds(&masters, &["cluster.ring_create", "jobs", &voters]);
    let shared = ["cluster.ring_set", "jobs", "voters", "1"];
    succeeds(&masters, &shared);
    succeeds(&masters, &["cluster.route_set", "jobs", "jobs"]);
    for _ in 0..JOBS {
        let job = masters.all[0].run(&["salt", "m1", "test.echo", "kept by one"]);
        assert!(job.out.contains("kept by one"), "{}", job.out);
    }
    succeeds(&masters, &["cluster.shed_unowned_all", "jobs"]);
    masters.led_by(1);

    masters.all[2].kill_master();
    masters.takes_changes(1);
    let listed = succeeds(&masters, &["jobs.list_jobs"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let jids = listed.as_object().unwrap().iter();
    let jids = jids.filter(|(_, job)| job["Function"] == "test.echo");
    let reads = |masters: &Masters, function: &str, jid: &str| {
        masters.all[0].run(&["salt-run", function, jid])
    };
    let mut lost = jids.map(|(jid, _)| jid.as_str()).filter(|jid| {
        let answer = reads(&masters, "jobs.lookup_jid", jid);
        answer.rc != Some(0) || !answer.out.contains("kept by one")
    });
    let jid = lost.next().unwrap();
    for function in [
        "jobs.lookup_jid",
        "jobs.print_job",
        "jobs.list_job",
        "jobs.exit_success",
    ] {
        let answer = reads(&masters, function, jid);
        assert_eq!(answer.rc, Some(1), "{function}: {}", answer.out);
        let text = format!("the returns of the job {jid} are on other masters of the cluster");
        assert!(answer.out.contains(&text), "{function}: {}", answer.out);
        let named = answer
            .out
            .contains(&format!("{}: cannot connect", names[2]));
        assert!(named, "{function}: {}", answer.out);
    }
    // The same after the only one that has them was removed.
    succeeds(&masters, &["cluster.remove", &names[2], "force=True"]);
    let answer = reads(&masters, "jobs.lookup_jid", jid);
    assert_eq!(answer.rc, Some(1), "{}", answer.out);
    let why = format!(
        "the ring jobs is {}: if one of these was removed",
        names.join(", ")
    );
    assert!(answer.out.contains(&why), "{}", answer.out);
}

/// Prepares three masters that remove old jobs every second. The clock of the first shows what is in the
/// file that is returned.
fn with_clock(shared: &Path) -> (Masters, std::path::PathBuf) {
    let config = format!("{SECRET}keep_jobs_seconds: 86400\nloop_interval: 1\n");
    let mut masters = Masters::prepared(3, &config);
    let library = clock_library(shared);
    let clock = shared.join("clock");
    fs::write(&clock, "0").unwrap();
    masters.all[0].set_environment("LD_PRELOAD", &library);
    masters.all[0].set_environment("PINCH_CLOCK", &clock);
    masters.start_all();
    masters.minions(&[("m1", 2)]);
    (masters, clock)
}

fn echoes(masters: &Masters, number: usize, text: &str) {
    let job = masters.all[number - 1].run(&["salt", "m1", "test.echo", text]);
    assert!(job.out.contains(text), "{}", job.out);
}

fn lists_job(masters: &Masters, number: usize, text: &str) {
    let jobs = masters.all[number - 1].run(&["salt-run", "jobs.list_jobs"]);
    assert!(jobs.out.contains(text), "{}", jobs.out);
}

#[test]
fn a_clock_that_jumps_by_years_on_the_leader_loses_nothing() {
    let shared = tempfile::tempdir().unwrap();
    let (masters, clock) = with_clock(shared.path());
    echoes(&masters, 2, "before");
    let first = masters.name(1);
    masters.led_by(1);
    for (years, word) in [(10, "ahead of"), (-10, "behind")] {
        fs::write(&clock, (years * 365 * 86_400).to_string()).unwrap();
        let parts = ["The clock of this machine is wrong", word, "Set it"];
        is_logged(&masters, 1, &parts);
        // Several rounds of removals later, all is there, and all is taken.
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(members(&masters.all[1])["leader_id"], first);
        for number in 1..=3 {
            masters.takes_changes(number);
            assert!(masters.ping(number).contains("\"m1\": true"));
            lists_job(&masters, number, "before");
        }
        fs::write(&clock, "0").unwrap();
        is_logged(&masters, 1, &["agrees with those of most masters again"]);
    }
}

#[test]
fn a_wrong_clock_is_not_believed_by_a_master_that_has_lost_the_others() {
    let shared = tempfile::tempdir().unwrap();
    let (masters, clock) = with_clock(shared.path());
    echoes(&masters, 2, "before");
    for (years, word) in [(10, "ahead"), (-10, "behind")] {
        fs::write(&clock, (years * 365 * 86_400).to_string()).unwrap();
        let parts = ["The clock of this machine is wrong", word];
        is_logged(&masters, 1, &parts);
        let others = |signal| [2, 3].map(|number| masters.signal(number, signal));
        others(Signal::STOP);
        masters.soon("the master is in a minority", |masters| {
            let fired = masters.all[0].run(&["salt-run", "event.send", "test/alone"]);
            fired.out.contains("reaches 1 of 3 voters")
        });
        std::thread::sleep(TIME);
        others(Signal::CONT);
        // Jobs of the moment in which the others are back.
        masters.takes_changes(1);
        echoes(&masters, 1, word);
        // Several rounds of removals later, all is there.
        std::thread::sleep(Duration::from_secs(3));
        for number in 1..=3 {
            masters.takes_changes(number);
            lists_job(&masters, number, "before");
            lists_job(&masters, number, word);
        }
        fs::write(&clock, "0").unwrap();
        is_logged(&masters, 1, &["agrees with those of most masters again"]);
    }
}
