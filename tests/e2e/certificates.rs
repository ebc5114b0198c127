//! Certificates that the states create, verified by OpenSSL itself.

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

pub(crate) fn openssl(folder: &Path, words: &str) -> String {
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
    assert_eq!(apply(), 14, "seven files, each with its changes");
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

/// Asserts that `tls` reports the same facts about these certificates as OpenSSL.
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

fn mode(path: &Path) -> u32 {
    std::os::unix::fs::MetadataExt::mode(&path.metadata().unwrap()) & 0o777
}

/// Returns a function that calls `tls.…`, with `ca.cert_base_path` set to `pki` in the scratch
/// folder.
fn tls(scratch: &Scratch) -> impl Fn(&str) -> String {
    scratch.write("etc/minion.d/case.conf", "ca.cert_base_path: @ENV@/pki\n");
    let folder = scratch.path().to_owned();
    move |words| {
        let all = format!("--out=json tls.{words}");
        let words: Vec<String> = all.split(' ').map(str::to_owned).collect();
        let answer = salt_call(&folder, &words).unwrap();
        let wrong = std::fs::read_to_string(folder.join("stderr")).unwrap();
        let told = serde_json::from_str::<serde_json::Value>(&answer.out);
        let told = told.map_or(answer.out + &wrong, |told| match &told["local"] {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        told.replace(&folder.display().to_string(), "@ENV@")
    }
}

#[test]
fn openssl_verifies_what_authorities_of_tls_issue() {
    let scratch = Scratch::new();
    let (tls, folder) = (tls(&scratch), scratch.path().join("pki/koji"));
    assert_eq!(
        tls("create_ca koji CN=the-authority emailAddress=ca@example.com"),
        "Created Private Key: \"@ENV@/pki/koji/koji_ca_cert.key\" Created CA \"koji\": \"@ENV@/pki/koji/koji_ca_cert.crt\""
    );
    assert_eq!(
        tls("create_csr koji CN=www.example.com subjectAltName=DNS:www.example.com"),
        "Created Private Key: \"@ENV@/pki/koji/certs/www.example.com.key\" Created CSR for \"www.example.com\": \"@ENV@/pki/koji/certs/www.example.com.csr\""
    );
    let issued =
        "Created Certificate for \"www.example.com\": \"@ENV@/pki/koji/certs/www.example.com.crt\"";
    assert_eq!(tls("create_ca_signed_cert koji www.example.com"), issued);
    tls("create_csr koji CN=www.example.com cert_type=client type_ext=True");
    let client = tls("create_ca_signed_cert koji www.example.com cert_type=client type_ext=True");
    assert!(
        client.ends_with("certs/www.example.com_client.crt\""),
        "{client}"
    );
    let server = "verify -x509_strict -purpose sslserver -verify_hostname www.example.com -CAfile koji_ca_cert.crt certs/www.example.com.crt";
    openssl(&folder, server);
    openssl(
        &folder,
        "verify -x509_strict -purpose sslclient -CAfile koji_ca_cert.crt certs/www.example.com_client.crt",
    );
    openssl(&folder, "req -in certs/www.example.com.csr -noout -verify");
    assert_eq!(
        tls("create_pkcs12 koji www.example.com passphrase=hidden"),
        "Created PKCS#12 Certificate for \"www.example.com\": \"@ENV@/pki/koji/certs/www.example.com.p12\""
    );
    let bag = openssl(
        &folder,
        "pkcs12 -in certs/www.example.com.p12 -passin pass:hidden -nodes",
    );
    assert!(bag.contains("friendlyName: www.example.com") && bag.contains("PRIVATE KEY"));
    assert_eq!(bag.matches("BEGIN CERTIFICATE").count(), 2, "{bag}");
    for (file, wanted) in [
        ("koji_ca_cert.key", 0o600),
        ("koji_ca_cert.crt", 0o644),
        ("certs/www.example.com.key", 0o600),
        ("certs/www.example.com.csr", 0o644),
        ("certs/www.example.com.p12", 0o600),
    ] {
        assert_eq!(mode(&folder.join(file)), wanted, "{file}");
    }
}

#[test]
fn openssl_finds_revoked_what_tls_revokes() {
    let scratch = Scratch::new();
    let (tls, folder) = (tls(&scratch), scratch.path().join("pki/koji"));
    tls("create_ca koji");
    for name in ["good", "bad"] {
        tls(&format!("create_csr koji CN={name}"));
        tls(&format!("create_ca_signed_cert koji {name}"));
    }
    let list = "crl -in crl.pem -CAfile koji_ca_cert.crt -noout -text";
    assert_eq!(
        tls("create_empty_crl koji"),
        "Created an empty CRL: \"@ENV@/pki/koji/crl.pem\""
    );
    assert!(openssl(&folder, list).contains("No Revoked Certificates"));
    assert!(tls("revoke_cert koji bad crl_file=/").contains("is an existing directory"));
    let told = tls("revoke_cert koji bad");
    let start = "Revoked Certificate: \"@ENV@/pki/koji/certs/bad.crt\", serial number: ";
    let serial = told.strip_prefix(start).unwrap_or_else(|| panic!("{told}"));
    assert!(openssl(&folder, list).contains(&format!("Serial Number: {serial}")));
    assert_eq!(
        tls("revoke_cert koji bad"),
        format!("\"@ENV@/pki/koji/certs/bad.crt\" was already revoked, serial number: {serial}")
    );
    let checked = |name: &str| {
        let words = format!(
            "verify -x509_strict -CAfile koji_ca_cert.crt -CRLfile crl.pem -crl_check certs/{name}.crt"
        );
        let mut command = Command::new("openssl");
        let output = command.current_dir(&folder).args(words.split(' ')).output();
        String::from_utf8_lossy(&output.unwrap().stderr).into_owned()
    };
    assert_eq!(checked("good"), "");
    assert!(checked("bad").contains("certificate revoked"));
    let path = |name: &str| {
        folder
            .join(format!("certs/{name}.crt"))
            .display()
            .to_string()
    };
    for list in ["", " crl_file=@/crl.pem"] {
        let list = list.replace('@', &folder.display().to_string());
        let told = tls(&format!("validate {} koji{list}", path("bad")));
        assert_eq!(told, r#"{"error":"certificate revoked","valid":false}"#);
        let told = tls(&format!("validate {} koji{list}", path("good")));
        assert_eq!(told, r#"{"valid":true}"#);
    }
    // A certificate that is missing in the index can still be revoked.
    std::fs::write(folder.join("index.txt"), "").unwrap();
    tls("revoke_cert koji good");
    assert!(checked("good").contains("certificate revoked"));
}

#[test]
fn the_index_of_tls_is_as_salt_writes_it_and_openssl_reads_it() {
    let scratch = Scratch::new();
    let (tls, folder) = (tls(&scratch), scratch.path().join("pki/koji"));
    tls("create_ca koji OU=it's days=3650");
    tls("create_csr koji CN=www");
    tls("create_ca_signed_cert koji www");
    tls("revoke_cert koji www");
    let index = std::fs::read_to_string(folder.join("index.txt")).unwrap();
    let lines: Vec<Vec<&str>> = index
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    let subjects: Vec<&str> = lines.iter().map(|line| line[5]).collect();
    assert_eq!(
        subjects,
        [
            r#"/b'C'=b'US'/b'ST'=b'Utah'/b'L'=b'Salt Lake City'/b'O'=b'SaltStack'/b'OU'=b"it's"/b'CN'=b'localhost'"#,
            "/b'C'=b'US'/b'ST'=b'Utah'/b'L'=b'Salt Lake City'/b'O'=b'SaltStack'/b'CN'=b'www'",
        ]
    );
    let shape = |line: &[&str]| {
        (
            line[0].to_owned(),
            line[1].len(),
            line[2].len(),
            line[3].len(),
        )
    };
    assert_eq!(shape(&lines[0]), ("V".to_owned(), 13, 0, 40));
    assert_eq!(shape(&lines[1]), ("R".to_owned(), 13, 13, 40));
    let config = "[ca]\ndefault_ca=koji\n[koji]\ndatabase=index.txt\ndefault_md=sha256\n";
    std::fs::write(folder.join("ca.cnf"), config).unwrap();
    openssl(
        &folder,
        "ca -config ca.cnf -gencrl -crldays 1 -keyfile koji_ca_cert.key -cert koji_ca_cert.crt -out theirs.pem",
    );
    let list = openssl(&folder, "crl -in theirs.pem -noout -text");
    assert!(list.contains(lines[1][3]), "{list}");
}

#[test]
fn authorities_of_tls_are_found_and_put_right() {
    let scratch = Scratch::new();
    let (tls, folder) = (tls(&scratch), scratch.path().join("pki/koji"));
    let certificate = folder.join("koji_ca_cert.crt");
    assert_eq!(tls("ca_exists koji"), "false");
    assert!(tls("get_ca koji").contains("Certificate does not exist for koji"));
    assert!(tls("create_csr koji").contains("does not exist, please create it first."));
    assert_eq!(tls("create_ca koji onlyif=false"), "null");
    assert_eq!(tls("create_ca koji unless=true"), "null");
    assert!(tls("create_ca koji C=Germany").contains("C is"));
    assert!(!folder.exists());
    tls("create_ca koji O=Pinch");
    assert_eq!(tls("ca_exists koji"), "true");
    assert_eq!(
        tls("create_ca koji"),
        "Certificate for CA named \"koji\" already exists"
    );
    assert_eq!(tls("get_ca koji"), "@ENV@/pki/koji/koji_ca_cert.crt");
    let key = std::fs::read(folder.join("koji_ca_cert.key")).unwrap();
    // Version 4, as Salt once wrote it.
    let mut der = Command::new("openssl")
        .args(["x509", "-outform", "der", "-in"])
        .arg(&certificate)
        .output()
        .unwrap()
        .stdout;
    let at = der
        .windows(5)
        .position(|five| five == [0xa0, 3, 2, 1, 2])
        .unwrap();
    der[at + 4] = 3;
    std::fs::write(&certificate, der).unwrap();
    assert_eq!(tls("maybe_fix_ssl_version koji"), "null");
    let text = openssl(&folder, "x509 -in koji_ca_cert.crt -noout -text");
    assert!(
        text.contains("Version: 3 ") && text.contains("O = Pinch"),
        "{text}"
    );
    assert_eq!(std::fs::read(folder.join("koji_ca_cert.key")).unwrap(), key);
    // A key file that cannot be parsed is kept next to the new key.
    std::fs::write(folder.join("koji_ca_cert.key"), "garbage").unwrap();
    tls("create_ca koji replace=True bits=3072");
    openssl(
        &folder,
        "verify -x509_strict -CAfile koji_ca_cert.crt koji_ca_cert.crt",
    );
    let names = std::fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name());
    let kept = names.filter(|name| name.to_string_lossy().contains("key.unloadable."));
    assert_eq!(kept.count(), 1);
}

#[test]
fn what_an_authority_of_tls_does_not_have_is_told() {
    let scratch = Scratch::new();
    let tls = tls(&scratch);
    tls("create_ca koji");
    for (words, told) in [
        (
            "create_ca_signed_cert koji none",
            "There is no CSR that matches the CN \\\"none\\\"",
        ),
        (
            "create_ca_signed_cert other none",
            "There is no CA named \\\"other\\\"",
        ),
        ("create_ca_signed_cert koji none type_ext=True", "{}"),
        (
            "create_pkcs12 koji none",
            "There is no certificate that matches the CN \"none\"",
        ),
        ("create_empty_crl other", "There is no CA named \"other\""),
        (
            "revoke_cert koji none",
            "There is no client certificate named \"none\"",
        ),
        (
            "get_ca_signed_cert koji none",
            "Certificate does not exists for none",
        ),
        (
            "get_ca_signed_key koji none",
            "Certificate does not exists for none",
        ),
        ("get_extensions other", "Unknown cert_type other"),
        (
            "get_extensions client",
            "nonRepudiation, digitalSignature, keyEncipherment",
        ),
        ("cert_base_path", "@ENV@/pki"),
        ("set_ca_path /elsewhere", "/elsewhere"),
    ] {
        let answer = tls(words);
        assert!(answer.contains(told), "{words}: {answer}");
    }
}
