//! Certificates that another minion signs: `ca_server`.

use std::process::Command;

use super::Fleet;

const POLICY: &str = "
x509_signing_policies:
  www:
    - signing_private_key: @CA@/ca.key
    - signing_cert: @CA@/ca.crt
    - O: Pinch
    - basicConstraints: 'critical CA:false'
    - keyUsage: 'critical digitalSignature'
    - days_valid: 20
";

const STATES: &str = "
@WWW@/www.key:
  x509.private_key_managed:
    - algo: ec
@WWW@/www.crt:
  x509.certificate_managed:
    - ca_server: ca
    - signing_policy: {{ pillar.get('policy', 'www') }}
    - private_key: @WWW@/www.key
    - CN: www.example.com
    - days_remaining: 3
";

fn openssl(words: &str) {
    let output = Command::new("openssl").args(words.split(' ')).output();
    let output = output.unwrap();
    assert!(output.status.success(), "openssl {words}: {output:?}");
}

#[test]
fn a_minion_signs_for_others_where_peer_lets_it() {
    let mut fleet = Fleet::with("peer:\n  www:\n    - x509.sign_remote_certificate\n");
    let (ca, www) = (fleet.path("ca"), fleet.path("www"));
    let (ca, www) = (ca.display().to_string(), www.display().to_string());
    std::fs::create_dir_all(&ca).unwrap();
    openssl(&format!(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {ca}/ca.key -out {ca}/ca.crt -subj /CN=authority -days 30"
    ));
    fleet.write("pillar/top.sls", "base:\n  ca: [ca]\n");
    fleet.write("pillar/ca.sls", &POLICY.replace("@CA@", &ca));
    fleet.write("salt/www.sls", &STATES.replace("@WWW@", &www));
    fleet.accepted(&["ca", "www"]);
    let apply = |more: &[&str]| {
        let words = [
            "salt",
            "--out=json",
            "--static",
            "-t",
            "60",
            "www",
            "state.apply",
            "www",
        ];
        let out = fleet.run(&[&words, more].concat()).out;
        let told: serde_json::Value = serde_json::from_str(&out).unwrap_or_default();
        let rets = told["www"]
            .as_object()
            .unwrap_or_else(|| panic!("{out}\n{}", fleet.logs()));
        let name = format!("x509_|-{www}/www.crt_|-{www}/www.crt_|-certificate_managed");
        rets[&name].clone()
    };
    let refused = apply(&["pillar={policy: another}"]);
    let why = refused["comment"].as_str().unwrap();
    assert!(
        refused["result"] == false && why.contains("defined on signing minion"),
        "{refused}"
    );
    let made = apply(&[]);
    assert_eq!(made["result"], true, "{made}");
    openssl(&format!("verify -CAfile {ca}/ca.crt {www}/www.crt"));
    let again = apply(&[]);
    assert_eq!(again["changes"], serde_json::json!({}), "{again}");
    let words = [
        "salt",
        "--out=json",
        "ca",
        "x509.get_signing_policy",
        "www",
        "ca_server=www",
    ];
    let told = fleet.run(&words).out;
    assert!(
        told.contains("did not respond") || told.contains("may not call"),
        "{told}"
    );
}
