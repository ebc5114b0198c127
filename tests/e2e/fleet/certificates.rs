//! Certificates that another minion signs: `ca_server`, over the master's `peer`.

use std::fs;

use super::Fleet;
use crate::certificates::openssl;

const AUTHORITY: &str = r#"
{{ grains.root }}/ca.key:
  x509.private_key_managed:
    - algo: ec
{{ grains.root }}/ca.crt:
  x509.certificate_managed:
    - signing_private_key: {{ grains.root }}/ca.key
    - CN: the authority
    - basicConstraints: "critical CA:true"
    - keyUsage: "critical cRLSign, keyCertSign"
    - subjectKeyIdentifier: hash
    - days_remaining: 3
"#;

const WWW: &str = r"
{{ grains.root }}/www.key:
  x509.private_key_managed:
    - algo: ec
{{ grains.root }}/www.crt:
  x509.certificate_managed:
    - ca_server: ca
    - signing_policy: www
    - private_key: {{ grains.root }}/www.key
    - CN: {{ grains.id }}.example.com
    - basicConstraints: 'CA:true'
    - days_remaining: 3
";

/// Returns the authority's signing policy, with the minions that may use it.
fn policy(root: &str) -> String {
    format!(
        "grains: {{root: {root}}}\nx509_signing_policies:\n  www:\n    - minions: 'www*'\n    - signing_private_key: {root}/ca.key\n    - signing_cert: {root}/ca.crt\n    - basicConstraints: 'critical CA:false'\n    - keyUsage: 'critical digitalSignature'\n    - subjectKeyIdentifier: hash\n    - authorityKeyIdentifier: keyid:always\n    - days_valid: 20\n"
    )
}

#[test]
fn another_minion_signs_a_certificate_by_its_own_policy() {
    let mut fleet =
        Fleet::with("auto_accept: True\npeer:\n  .*:\n    - x509.sign_remote_certificate\n");
    fleet.write("salt/authority.sls", AUTHORITY);
    fleet.write("salt/www.sls", WWW);
    let root = |id: &str| fleet.path(id).display().to_string();
    let (ca, www, other) = (root("ca"), root("www"), root("other"));
    fleet.start_minion("ca", &policy(&ca));
    for (id, root) in [("www", &www), ("other", &other)] {
        fleet.start_minion(id, &format!("grains: {{root: {root}}}\n"));
    }
    for id in ["ca", "www", "other"] {
        fleet.soon("the minion answers", || {
            fleet.run(&["salt", id, "test.ping"]).out.contains("True")
        });
    }
    let apply = |id: &str, sls: &str| fleet.run(&["salt", "--timeout=60", id, "state.apply", sls]);
    let made = apply("ca", "authority");
    assert_eq!(made.rc, Some(0), "{}\n{}", made.out, fleet.logs());
    let tested = fleet.run(&[
        "salt",
        "--timeout=60",
        "www",
        "state.apply",
        "www",
        "test=True",
    ]);
    assert!(tested.out.contains("unchanged=4"), "{}", tested.out);
    let signed = apply("www", "www");
    assert_eq!(signed.rc, Some(0), "{}\n{}", signed.out, fleet.logs());
    let folder = fleet.path("www");
    fs::copy(fleet.path("ca/ca.crt"), folder.join("ca.crt")).unwrap();
    openssl(&folder, "verify -x509_strict -CAfile ca.crt www.crt");
    let text = openssl(&folder, "x509 -in www.crt -noout -text");
    assert!(text.contains("CN = www.example.com"), "{text}");
    // The values of the policy override those of the request.
    assert!(text.contains("CA:FALSE"), "{text}");
    let again = apply("www", "www");
    assert!(
        again.rc == Some(0) && !again.out.contains("changed="),
        "{}",
        again.out
    );
    let refused = apply("other", "www");
    assert_eq!(refused.rc, Some(1), "{}", refused.out);
    assert!(
        refused
            .out
            .contains("minion not permitted to use specified signing policy"),
        "{}",
        refused.out
    );
    assert!(!fleet.path("other/www.crt").exists());
    // A user is not a minion, even if an argument claims so.
    let sign = "x509.sign_remote_certificate";
    let user = fleet.run(&["salt", "ca", sign, "www", "{}", "True", "__pub_id=www"]);
    assert!(user.out.contains("could not be identified"), "{}", user.out);
}

const SSH_AUTHORITY: &str = r"
{{ grains.root }}/ssh_ca:
  ssh_pki.private_key_managed:
    - algo: ed25519
";

const SSH_HOST: &str = r"
{{ grains.root }}/ssh_host:
  ssh_pki.private_key_managed:
    - algo: ec
{{ grains.root }}/ssh_host-cert.pub:
  ssh_pki.certificate_managed:
    - ca_server: ca
    - signing_policy: {{ pillar.get('policy', 'hosts') }}
    - private_key: {{ grains.root }}/ssh_host
    - valid_principals: [www, mail]
    - key_id: {{ grains.id }}
";

#[test]
fn another_minion_signs_a_certificate_of_ssh_by_its_own_policy() {
    let mut fleet = Fleet::with(
        "auto_accept: True\npeer:\n  .*:\n    - ssh_pki.sign_remote_certificate\npeer_run:\n  ca:\n    - match.compound_matches\n",
    );
    fleet.write("salt/authority.sls", SSH_AUTHORITY);
    fleet.write("salt/host.sls", SSH_HOST);
    let root = |id: &str| fleet.path(id).display().to_string();
    let (ca, www, other) = (root("ca"), root("www"), root("other"));
    let policy = |minions: &str| {
        format!(
            "    minions: '{minions}'\n    signing_private_key: {ca}/ssh_ca\n    cert_type: host\n    allowed_valid_principals: [www, db]\n    ttl: 20d\n"
        )
    };
    let (globs, compound) = (policy("www*"), policy("G@site:north"));
    fleet.start_minion(
        "ca",
        &format!(
            "grains: {{root: {ca}}}\nssh_signing_policies:\n  hosts:\n{globs}  of_site:\n{compound}"
        ),
    );
    fleet.start_minion("www", &format!("grains: {{root: {www}, site: north}}\n"));
    fleet.start_minion(
        "other",
        &format!("grains: {{root: {other}, site: south}}\n"),
    );
    for id in ["ca", "www", "other"] {
        fleet.soon("the minion answers", || {
            fleet.run(&["salt", id, "test.ping"]).out.contains("True")
        });
    }
    let apply = |id: &str, words: &[&str]| {
        fleet.run(&[&["salt", "--timeout=60", id, "state.apply"], words].concat())
    };
    let made = apply("ca", &["authority"]);
    assert_eq!(made.rc, Some(0), "{}\n{}", made.out, fleet.logs());
    let signed = apply("www", &["host"]);
    assert_eq!(signed.rc, Some(0), "{}\n{}", signed.out, fleet.logs());
    let listed = std::process::Command::new("ssh-keygen")
        .args(["-L", "-f"])
        .arg(fleet.path("www/ssh_host-cert.pub"))
        .output()
        .unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for part in ["host certificate", "Key ID: \"www\"", " www\n"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    // The policy does not allow this name.
    assert!(!listed.contains("mail"), "{listed}");
    let again = apply("www", &["host"]);
    assert!(
        again.rc == Some(0) && !again.out.contains("changed="),
        "{}",
        again.out
    );
    let of_site = apply("www", &["host", "pillar={policy: of_site}"]);
    assert_eq!(of_site.rc, Some(0), "{}", of_site.out);
    for words in [&["host"][..], &["host", "pillar={policy: of_site}"]] {
        let refused = apply("other", words);
        assert!(
            refused
                .out
                .contains("minion not permitted to use specified signing policy"),
            "{}",
            refused.out
        );
    }
    assert!(!fleet.path("other/ssh_host-cert.pub").exists());
}
