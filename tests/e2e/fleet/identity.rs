//! Acceptance by documents that a cloud has signed: each minion has a metadata service that answers
//! like the cloud's.

mod clouds;

use std::fs;
use std::net::TcpListener;
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::Duration;

use clouds::{Aws, Azure, Gcp, Metadata, Signer};

use super::Fleet;

static SIGNER: LazyLock<Signer> = LazyLock::new(Signer::new);

impl Fleet {
    /// Starts a minion that uses this metadata service.
    fn start_instance(&mut self, id: &str, metadata: &Metadata, config: &str) {
        let (cloud, url) = (metadata.cloud, &metadata.url);
        let options = format!("enroll_identity: {cloud}\nenroll_identity_url: {url}\n{config}");
        self.start_minion(id, &options);
    }

    /// Waits until a key is pending for a reason.
    fn stays_out(&self, id: &str, why: &str) {
        self.soon_in("un", id);
        self.soon(&format!("{id} is not accepted: {why}"), || {
            let log = self.master_log();
            let mut lines = log.lines();
            lines.any(|line| line.contains(&format!("{id} (key ")) && line.contains(why))
        });
    }

    /// Returns the number of these ids that are accepted.
    fn let_in(&self, ids: &[&str]) -> usize {
        let accepted = self.keys("acc");
        ids.iter()
            .filter(|id| accepted.iter().any(|key| key == *id))
            .count()
    }
}

fn of_aws(more: &str) -> String {
    let certificates = SIGNER.path("aws.pem");
    let certificates = certificates.display();
    format!(
        "autosign_policy:
  - name: asg
    id: 'web-*'
    identity:
      aws: {{certificates: {certificates}, account: '123456789012', region: 'eu-*', id: instance_id}}
      max_age: 1h
    bind_identity: True
    {more}
"
    )
}

#[test]
fn an_instance_of_aws_is_let_in_once_and_comes_to_its_highstate() {
    let mut fleet = Fleet::with(&of_aws("role: web"));
    fleet.write("salt/top.sls", "base:\n  'web-*': [web]\n");
    fleet.write(
        "salt/web.sls",
        "{{ pillar['site'] }}:\n  test.succeed_without_changes: []\n",
    );
    // The master gives pillar data to minions with a proven identity, not to those that merely
    // claim it.
    fleet.write(
        "pillar/top.sls",
        "base:\n  'identity:region:eu-central-1':\n    - match: grain\n    - site\n",
    );
    fleet.write("pillar/site.sls", "site: frankfurt\n");
    let aws = Metadata::start(Aws::new("i-0a1"));
    fleet.start_instance("web-i-0a1", &aws, "");
    fleet.soon_in("acc", "web-i-0a1");
    fleet.soon("the minion has the grains that its document proves", || {
        let words = [
            "salt",
            "-t",
            "60",
            "-G",
            "identity:account:123456789012",
            "test.ping",
        ];
        fleet.run(&words).out.contains("web-i-0a1")
    });
    fleet.soon("the highstate contains the states for its document", || {
        let words = ["salt", "-t", "60", "web-i-0a1", "state.highstate"];
        fleet.run(&words).out.contains("ID: frankfurt")
    });
    // A thief of the document comes too late.
    fleet.start_instance("web-2-i-0a1", &aws, "");
    fleet.stays_out("web-2-i-0a1", "is already accepted as web-i-0a1");
    assert_eq!(fleet.let_in(&["web-i-0a1", "web-2-i-0a1"]), 1);
    // When the instance's own key is deleted, another one may be accepted.
    fleet.kill_minion("web-i-0a1");
    fleet.run(&["salt-key", "-y", "-d", "web-i-0a1"]);
    fleet.soon_in("acc", "web-2-i-0a1");
    for shown in aws.secrets() {
        assert!(!fleet.logs().contains(&shown), "{shown}");
    }
}

#[test]
fn documents_of_aws_that_are_forged_old_or_of_others_let_nobody_in() {
    let mut fleet = Fleet::with(&of_aws("action: accept"));
    let mut started = Vec::new();
    let cases = [
        (Aws::new("i-0b1").signed_by("stranger"), "is forged"),
        (
            Aws::new("i-0b2").with("123456789012", "999999999999"),
            "has the account",
        ),
        (
            Aws::new("i-0b3").launched("2020-01-01T00:00:00Z"),
            "has expired",
        ),
        (
            Aws::new("i-0b4").with("eu-central-1", "us-east-1"),
            "has the region",
        ),
        (
            Aws::new("i-0b5").changed_after("i-0b5", "i-0b6"),
            "is forged",
        ),
        // The document is for another instance than the id.
        (
            Aws::new("i-0b7").with("i-0b7", "i-0b8"),
            "the id must contain",
        ),
        (Aws::new("i-0b9").broken(), "invalid document"),
    ];
    for (aws, why) in cases {
        let id = format!("web-{}", aws.instance);
        let metadata = Metadata::start(aws);
        fleet.start_instance(&id, &metadata, "");
        started.push((id, metadata, why));
    }
    for (id, _, why) in &started {
        fleet.stays_out(id, why);
    }
    assert!(fleet.keys("acc").is_empty());
}

#[test]
fn a_policy_may_reject_who_proves_nothing() {
    let reject = "role: web\n  - {name: rest, id: '*', action: reject}";
    let mut fleet = Fleet::with(&of_aws(reject));
    let forged = Metadata::start(Aws::new("i-0c1").signed_by("stranger"));
    let good = Metadata::start(Aws::new("i-0c2"));
    fleet.start_instance("web-i-0c1", &forged, "");
    fleet.start_instance("web-i-0c2", &good, "");
    fleet.start_minion("web-i-0c3", "");
    fleet.soon_in("acc", "web-i-0c2");
    fleet.soon_in("rej", "web-i-0c1");
    fleet.soon_in("rej", "web-i-0c3");
    // The minion receives the same message for every reason.
    for id in ["web-i-0c1", "web-i-0c3"] {
        fleet.soon("the minion logs that it is rejected", || {
            let log = fs::read_to_string(fleet.path(&format!("{id}/log"))).unwrap_or_default();
            assert!(!log.contains("forged"), "{log}");
            log.contains("rejected")
        });
    }
}

#[test]
fn a_token_of_google_is_good_with_the_key_that_it_was_made_for() {
    let keys = SIGNER.path("gcp.json");
    let keys = keys.display();
    let mut fleet = Fleet::with(&format!(
        "autosign_policy: [{{name: gce, identity: {{gcp: {{keys: {keys}, project: my-project, zone: 'europe-*'}}}}, bind_identity: True}}]\n"
    ));
    let gcp = Metadata::start(Gcp::new("6112347900127"));
    fleet.start_instance("m1", &gcp, "");
    fleet.soon_in("acc", "m1");
    fleet.soon("the minion is known by its zone", || {
        let words = [
            "salt",
            "-t",
            "60",
            "-G",
            "identity:zone:europe-west3-a",
            "test.ping",
        ];
        fleet.run(&words).rc == Some(0)
    });
    // A token that leaked is worth nothing with another key.
    let stolen = Metadata::start(Gcp::new("6112347900127").always(&gcp.secrets()[0]));
    let other = Metadata::start(Gcp::new("6112347900128"));
    let expired = Metadata::start(Gcp::new("6112347900129").ending(-60));
    let foreign = Metadata::start(Gcp::new("6112347900130").with_project("another-project"));
    fleet.start_instance("m2", &stolen, "");
    fleet.start_instance("m3", &other, "enroll_identity_audience: elsewhere\n");
    fleet.start_instance("m4", &expired, "");
    fleet.start_instance("m5", &foreign, "");
    fleet.stays_out("m2", "is for another audience");
    fleet.stays_out("m3", "is for another audience");
    fleet.stays_out("m4", "has expired");
    fleet.stays_out("m5", "has the project");
    assert_eq!(fleet.keys("acc"), ["m1"]);
    // An accepted minion does not show its identity document again, until its key is deleted.
    let asked = gcp.request_count();
    fleet.kill_master();
    fleet.start_master();
    fleet.soon("the minion is back", || {
        fleet.run(&["salt", "-t", "60", "m1", "test.ping"]).rc == Some(0)
    });
    assert_eq!(gcp.request_count(), asked);
    fleet.run(&["salt-key", "-y", "-d", "m1"]);
    fleet.soon("the minion is accepted again", || {
        gcp.request_count() > asked && fleet.is_in("acc", "m1")
    });
    assert!(!fleet.logs().contains(&gcp.secrets()[0]));
}

#[test]
fn an_attested_document_of_azure_lets_its_machine_in() {
    let root = SIGNER.path("root.pem");
    let root = root.display();
    let mut fleet = Fleet::with(&format!(
        "autosign_policy: [{{name: vms, identity: {{azure: {{certificates: {root}, subscription: 8d10da13-8125-4ba9-a717-bf7490507b3d}}}}, bind_identity: True}}]\n"
    ));
    let azure = Metadata::start(Azure::new("d3e0e374-fda6-4649-bbc9-7f20dc379f34"));
    fleet.start_instance("m1", &azure, "");
    fleet.soon_in("acc", "m1");
    let stolen = Metadata::start(Azure::new("x").always(&azure.secrets()[0]));
    let other = Metadata::start(Azure::new("d3e0e374-0001").signed_by("web"));
    let forged = Metadata::start(Azure::new("d3e0e374-0002").signed_by("stranger"));
    let expired = Metadata::start(Azure::new("d3e0e374-0003").made("01/01/20 00:00:00 -0000"));
    let again = Metadata::start(Azure::new("d3e0e374-fda6-4649-bbc9-7f20dc379f34"));
    let all = [
        ("m2", stolen, "is for another nonce"),
        ("m3", other, "certificate is not trusted"),
        ("m4", forged, "certificate is not trusted"),
        ("m5", expired, "has expired"),
        ("m6", again, "is already accepted as m1"),
    ];
    for (id, metadata, _) in &all {
        fleet.start_instance(id, metadata, "");
    }
    for (id, _, why) in &all {
        fleet.stays_out(id, why);
    }
    assert_eq!(fleet.keys("acc"), ["m1"]);
}

#[test]
fn a_master_that_is_killed_lets_an_instance_in_once_all_the_same() {
    let mut fleet = Fleet::with(&of_aws("role: web"));
    for round in 0..3_u64 {
        let instance = format!("i-0d{round}");
        let aws = Metadata::start(Aws::new(&instance));
        let ids = [format!("web-a-{instance}"), format!("web-b-{instance}")];
        for id in &ids {
            fleet.start_instance(id, &aws, "");
        }
        let ids = ids.each_ref().map(String::as_str);
        fleet.soon("the first minion asks", || aws.request_count() > 0);
        sleep(Duration::from_millis(round * 30));
        fleet.kill_master();
        fleet.start_master();
        fleet.soon("one minion is accepted and the other is pending", || {
            let pending = fleet.keys("un");
            let waits = |id: &&&str| pending.iter().any(|key| key == **id);
            fleet.let_in(&ids) == 1 && ids.iter().filter(waits).count() == 1
        });
        fleet.soon("the other minion was refused", || {
            fleet
                .master_log()
                .contains(&format!("aws/123456789012/{instance} is already accepted"))
        });
        assert_eq!(fleet.let_in(&ids), 1);
        for id in ids {
            fleet.kill_minion(id);
        }
    }
}

#[test]
fn a_minion_goes_on_without_a_metadata_service_that_answers() {
    let mut fleet = Fleet::with(&of_aws("role: web"));
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let options = format!("enroll_identity: aws\nenroll_identity_url: {url}\n");
    fleet.start_minion("web-i-0e1", &options);
    fleet.soon_in("un", "web-i-0e1");
    fleet.soon("the log of the minion names the missing document", || {
        let log = fs::read_to_string(fleet.path("web-i-0e1/log")).unwrap_or_default();
        log.contains("cannot get an identity document (enroll_identity: aws)")
    });
    assert_eq!(
        fleet.run(&["salt-key", "-y", "-a", "web-i-0e1"]).rc,
        Some(0)
    );
    fleet.soon("the minion works normally", || {
        fleet
            .run(&["salt", "-t", "60", "web-i-0e1", "test.ping"])
            .rc
            == Some(0)
    });
}
