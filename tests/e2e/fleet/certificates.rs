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
