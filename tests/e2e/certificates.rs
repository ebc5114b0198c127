//! Certificates that the states make, judged by OpenSSL itself.

use std::path::Path;
use std::process::Command;

use tests::program::salt_call;
use tests::scratch::Scratch;

const SLS: &str = r#"
@ENV@/ca.key:
  x509.private_key_managed:
    - algo: ec
@ENV@/ca.crt:
  x509.certificate_managed:
    - signing_private_key: @ENV@/ca.key
    - CN: the authority
    - O: Pinch
    - basicConstraints: "critical CA:true, pathlen:0"
    - keyUsage: "critical cRLSign, keyCertSign"
    - subjectKeyIdentifier: hash
    - authorityKeyIdentifier: keyid:always
    - days_valid: 30
    - days_remaining: 3
@ENV@/www.key:
  x509.private_key_managed:
    - algo: ed25519
    - passphrase: hidden
@ENV@/www.csr:
  x509.csr_managed:
    - private_key: @ENV@/www.key
    - private_key_passphrase: hidden
    - CN: www.example.com
    - subjectAltName: "DNS:www.example.com, IP:10.0.0.1"
@ENV@/www.crt:
  x509.certificate_managed:
    - signing_policy: www
    - csr: @ENV@/www.csr
    - CN: www.example.com
    - days_remaining: 3
@ENV@/old.p12:
  x509.certificate_managed:
    - signing_policy: www
    - private_key: @ENV@/www.key
    - private_key_passphrase: hidden
    - CN: old.example.com
    - serial_number: 7
    - days_remaining: 3
    - encoding: pkcs12
    - pkcs12_passphrase: hidden
    - pkcs12_friendlyname: the old one
    - append_certs: ['@ENV@/ca.crt']
valid:
  tls.valid_certificate:
    - name: @ENV@/www.crt
    - days: 19
@ENV@/ca.crl:
  x509.crl_managed:
    - signing_private_key: @ENV@/ca.key
    - signing_cert: @ENV@/ca.crt
    - days_remaining: 3
    - revoked:
      - serial_number: 7
        revocation_date: '2026-01-01 00:00:00'
        extensions: {CRLReason: superseded}
    - extensions: {cRLNumber: auto, authorityKeyIdentifier: keyid}
"#;

const POLICY: &str = r"
x509_signing_policies:
  www:
    signing_private_key: @ENV@/ca.key
    signing_cert: @ENV@/ca.crt
    basicConstraints: 'critical CA:false'
    extendedKeyUsage: serverAuth
    keyUsage: 'critical digitalSignature'
    authorityKeyIdentifier: 'keyid,issuer:always'
    days_valid: 20
";

fn openssl(folder: &Path, words: &str) -> String {
    let mut command = Command::new("openssl");
    let output = command.current_dir(folder).args(words.split(' ')).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "openssl {words}: {said} {output:?}"
    );
    said
}

#[test]
fn openssl_verifies_what_is_issued() {
    let scratch = Scratch::new();
    scratch.write("srv/salt/case.sls", SLS);
    scratch.write("etc/minion.d/case.conf", POLICY);
    let apply = || {
        let words = ["--out=json", "state.apply", "case"].map(str::to_owned);
        let answer = salt_call(scratch.path(), &words).unwrap();
        let told: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
        let rets = told["local"]
            .as_object()
            .unwrap_or_else(|| panic!("{told}"));
        assert!(rets.values().all(|ret| ret["result"] == true), "{told:#}");
        let changed = |ret: &&serde_json::Value| {
            ret["changes"]
                .as_object()
                .is_some_and(|all| !all.is_empty())
        };
        rets.values().filter(changed).count()
    };
    assert_eq!(apply(), 14, "seven files, each with its part");
    assert_eq!(apply(), 0);
    let folder = scratch.path();
    openssl(
        folder,
        "verify -x509_strict -purpose sslserver -verify_hostname www.example.com -CAfile ca.crt www.crt",
    );
    openssl(folder, "req -in www.csr -noout -verify");
    let list = openssl(folder, "crl -in ca.crl -CAfile ca.crt -noout -text");
    for part in ["Serial Number: 07", "Superseded", "CRL Number"] {
        assert!(list.contains(part), "{list}");
    }
    let words = "pkcs12 -in old.p12 -passin pass:hidden -nodes -clcerts -out old.pem";
    openssl(folder, words);
    let bag = std::fs::read_to_string(folder.join("old.pem")).unwrap();
    assert!(bag.contains("friendlyName: the old one") && bag.contains("PRIVATE KEY"));
    let checked = |file: &str| {
        let words = format!("verify -CAfile ca.crt -CRLfile ca.crl -crl_check {file}");
        let mut command = Command::new("openssl");
        let output = command.current_dir(folder).args(words.split(' ')).output();
        String::from_utf8_lossy(&output.unwrap().stderr).into_owned()
    };
    assert_eq!(checked("www.crt"), "");
    assert!(checked("old.pem").contains("certificate revoked"));
    let text = openssl(folder, "x509 -in www.crt -noout -text");
    for part in [
        "Issuer: O = Pinch, CN = the authority",
        "IP Address:10.0.0.1",
        "X509v3 Key Usage: critical",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let mode = std::os::unix::fs::MetadataExt::mode(&folder.join("www.key").metadata().unwrap());
    assert_eq!(mode & 0o777, 0o400);
    let key = std::fs::read_to_string(folder.join("www.key")).unwrap();
    assert!(key.contains("ENCRYPTED"));
    tls_agrees(&scratch);
}

/// What `tls` tells of these certificates is what OpenSSL tells.
fn tls_agrees(scratch: &Scratch) {
    let folder = scratch.path();
    let call = |words: &[&str]| -> serde_json::Value {
        let all = ["--out=json"].iter().chain(words);
        let words: Vec<String> = all.map(|word| (*word).to_owned()).collect();
        let told = salt_call(folder, &words).unwrap().out;
        serde_json::from_str::<serde_json::Value>(&told).unwrap()["local"].clone()
    };
    let place = folder.join("www.crt").display().to_string();
    let info = call(&["tls.cert_info", &place]);
    assert_eq!(info["issuer"]["O"], "Pinch", "{info}");
    let print = openssl(folder, "x509 -in www.crt -noout -fingerprint -sha256");
    let print = print.trim().rsplit('=').next().unwrap();
    assert_eq!(info["fingerprint"], print, "{info}");
    let base = format!("ca.cert_base_path: {}\n{POLICY}", folder.display());
    scratch.write("etc/minion.d/case.conf", &base);
    let made = call(&[
        "tls.create_self_signed_cert",
        "CN=own.example.com",
        "OU=tests",
    ]);
    assert!(made.to_string().contains("own.example.com.crt"), "{made}");
    let own = "tls/certs/own.example.com.crt";
    openssl(folder, &format!("verify -CAfile {own} {own}"));
    let ret = call(&["state.single", "tls.valid_certificate", &place, "weeks=3"]);
    let ret = ret.as_object().unwrap().values().next().unwrap();
    let comment = ret["comment"].as_str().unwrap();
    assert!(
        ret["result"] == false && comment.ends_with("which is less than 21 days, 0:00:00"),
        "{comment}"
    );
}

#[test]
fn who_asks_has_no_say_in_where_copies_are_kept() {
    let scratch = Scratch::new();
    let folder = scratch.path();
    openssl(
        folder,
        "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ca.key",
    );
    openssl(
        folder,
        "req -new -x509 -key ca.key -subj /CN=ca -days 20 -out ca.crt",
    );
    openssl(folder, "pkey -in ca.key -pubout -out pub.pem");
    for name in ["kept", "theirs"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    let policy = format!("{POLICY}    copypath: @ENV@/kept\n");
    scratch.write("etc/minion.d/case.conf", &policy);
    let place = folder.display();
    let asked = format!(
        r#"{{"public_key": "{place}/pub.pem", "CN": "x", "serial_number": "0a", "copypath": "{place}/theirs", "prepend_cn": true}}"#
    );
    let words = ["x509.sign_remote_certificate", "www", &asked].map(str::to_owned);
    let answer = salt_call(folder, &words).unwrap();
    assert!(answer.out.contains("BEGIN CERTIFICATE"), "{}", answer.out);
    openssl(folder, "verify -CAfile ca.crt kept/a.crt");
    assert_eq!(std::fs::read_dir(folder.join("theirs")).unwrap().count(), 0);
}
