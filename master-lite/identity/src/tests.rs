//! Tests with documents in each cloud's form, which are signed by keys that OpenSSL makes, and with
//! every reason to refuse them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;

use super::*;
use crate::azure::Authorities;

/// A temporary folder with keys and certificates of OpenSSL.
struct Signer(tempfile::TempDir);

impl Signer {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, words: &str) {
        let mut openssl = Command::new("openssl");
        let run = openssl.args(words.split(' ')).current_dir(self.0.path());
        let output = run.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {words}: {said}");
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Makes a key and a self-signed certificate, `NAME.key` and `NAME.pem`.
    fn own(&self, name: &str, bits: u32) {
        self.openssl(&format!(
            "req -x509 -newkey rsa:{bits} -nodes -keyout {name}.key -out {name}.pem -subj /CN={name} -days 30"
        ));
    }

    /// Makes a key and a certificate that another one signs.
    fn below(&self, name: &str, issuer: &str, extensions: &str) {
        fs::write(self.path(&format!("{name}.ext")), extensions).unwrap();
        self.openssl(&format!(
            "req -new -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {issuer}.pem -CAkey {issuer}.key -CAcreateserial -out {name}.pem -days 30 -extfile {name}.ext"
        ));
    }

    fn signature(&self, name: &str, text: &str) -> Vec<u8> {
        let file = tempfile::Builder::new().tempfile_in(self.0.path()).unwrap();
        fs::write(file.path(), text).unwrap();
        let (document, to) = (file.path().display(), file.path().with_extension("sig"));
        let signature = to.display();
        self.openssl(&format!(
            "dgst -sha256 -sign {name}.key -out {signature} {document}"
        ));
        fs::read(to).unwrap()
    }

    /// Returns a signed message in base64, in lines as from the metadata service.
    fn message(&self, name: &str, text: &str, how: &str) -> String {
        let file = tempfile::Builder::new().tempfile_in(self.0.path()).unwrap();
        fs::write(file.path(), text).unwrap();
        let (document, to) = (file.path().display(), file.path().with_extension("cms"));
        let message = to.display();
        self.openssl(&format!(
            "cms -sign -binary -outform DER -signer {name}.pem -inkey {name}.key -in {document} -out {message} {how}"
        ));
        let encoded = STANDARD.encode(fs::read(to).unwrap());
        let lines = encoded.as_bytes().chunks(76);
        let lines = lines.map(|line| std::str::from_utf8(line).unwrap());
        lines.collect::<Vec<_>>().join("\n")
    }
}

static SIGNER: LazyLock<Signer> = LazyLock::new(|| {
    let signer = Signer::new();
    signer.own("good", 2048);
    signer.own("old", 1024);
    signer.own("other", 2048);
    let ca = "basicConstraints=critical,CA:TRUE\n";
    let host = |name: &str| format!("subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth\n");
    signer.below("between", "good", ca);
    signer.below("metadata", "between", &host("metadata.azure.com"));
    signer.below("region", "between", &host("eastus.metadata.azure.com"));
    signer.below("web", "between", &host("www.example.org"));
    signer.below("like", "between", &host("notmetadata.azure.com"));
    signer
});

fn trusted(name: &str) -> Vec<Key> {
    keys(&SIGNER.text(&format!("{name}.pem"))).unwrap()
}

/// 2026-11-22T10:00:00Z.
const NOW_S: i64 = 1_795_341_600;

fn when(now_s: i64, max_age_s: i64) -> When {
    When {
        now_s,
        max_age_s: Some(max_age_s),
    }
}

mod aws {
    use super::*;
    use crate::aws::check;

    const DOCUMENT: &str = r#"{
  "accountId" : "123456789012",
  "architecture" : "x86_64",
  "availabilityZone" : "eu-central-1a",
  "billingProducts" : null,
  "devpayProductCodes" : null,
  "marketplaceProductCodes" : null,
  "imageId" : "ami-0123456789abcdef0",
  "instanceId" : "i-0123456789abcdef0",
  "instanceType" : "t3.micro",
  "kernelId" : null,
  "pendingTime" : "2026-11-22T09:59:00Z",
  "privateIp" : "10.0.0.9",
  "ramdiskId" : null,
  "region" : "eu-central-1",
  "version" : "2017-09-30"
}"#;

    fn with_signature(by: &str) -> Map {
        let signature = STANDARD.encode(SIGNER.signature(by, DOCUMENT));
        Map::new()
            .with("document", DOCUMENT)
            .with("signature", signature)
    }

    fn with_message(by: &str, how: &str) -> Map {
        Map::new().with("rsa2048", SIGNER.message(by, DOCUMENT, how))
    }

    #[test]
    fn both_signatures_prove_what_the_document_says() {
        let proven = check(&with_signature("good"), &trusted("good"), when(NOW_S, 600)).unwrap();
        assert_eq!(proven.instance, "aws/123456789012/i-0123456789abcdef0");
        let facts = Map::new()
            .with("cloud", "aws")
            .with("instance_id", "i-0123456789abcdef0")
            .with("account", "123456789012")
            .with("region", "eu-central-1")
            .with("availability_zone", "eu-central-1a")
            .with("instance_type", "t3.micro")
            .with("image", "ami-0123456789abcdef0");
        assert_eq!(proven.facts, facts);
        // The form that AWS writes: no certificates, elements of indefinite length.
        for how in [
            "-nodetach -nocerts -stream",
            "-nodetach -nocerts",
            "-nodetach -noattr -stream",
            "-nodetach -md sha512",
        ] {
            let shown = with_message("good", how);
            assert_eq!(
                check(&shown, &trusted("good"), when(NOW_S, 600)),
                Ok(proven.clone()),
                "{how}"
            );
        }
        let apart = with_message("good", "-nocerts").with("document", DOCUMENT);
        assert!(check(&apart, &trusted("good"), when(NOW_S, 600)).is_ok());
        // In most regions the keys for the base64 form are as short as this one.
        let short = check(&with_signature("old"), &trusted("old"), when(NOW_S, 600));
        assert_eq!(short, Ok(proven));
        assert!(!trusted("old")[0].is_long());
    }

    #[test]
    fn what_others_signed_or_nobody_is_forged() {
        let keys = trusted("good");
        let forged = |shown: Map| {
            let checked = check(&shown, &keys, when(NOW_S, 600));
            assert_eq!(checked, Err(Error::Forged), "{shown:?}");
        };
        forged(with_signature("other"));
        forged(with_message("other", "-nodetach"));
        forged(with_message("other", "-nodetach -noattr -nocerts"));
        let changed = DOCUMENT.replace("123456789012", "999999999999");
        forged(with_signature("good").with("document", changed.as_str()));
        let apart = with_message("good", "-nocerts").with("document", changed);
        forged(apart);
        forged(Map::new().with("document", DOCUMENT));
        forged(Map::new());
    }

    #[test]
    fn what_is_too_old_too_young_or_not_whole_is_refused() {
        let keys = trusted("good");
        let shown = with_signature("good");
        let at = |now_s| check(&shown, &keys, when(now_s, 600));
        assert!(at(NOW_S + 540).is_ok());
        assert!(matches!(at(NOW_S + 541), Err(Error::Expired { .. })));
        assert!(matches!(at(NOW_S - 200), Err(Error::Future { .. })));
        let of = |text: &str| {
            let signature = STANDARD.encode(SIGNER.signature("good", text));
            let shown = Map::new()
                .with("document", text)
                .with("signature", signature);
            check(&shown, &keys, when(NOW_S, 600)).unwrap_err()
        };
        assert_eq!(
            of(&DOCUMENT.replace("instanceId", "x")),
            Error::Silent("instanceId")
        );
        assert_eq!(
            of(&DOCUMENT.replace("pendingTime", "x")),
            Error::Silent("pendingTime")
        );
        assert!(matches!(
            of(&DOCUMENT.replace("i-0123", "../")),
            Error::Form(_)
        ));
        assert!(matches!(of("[]"), Error::Form(_)));
        assert!(matches!(of("{"), Error::Form(_)));
        for (name, text) in [("rsa2048", "MIAG"), ("rsa2048", "?"), ("signature", "?")] {
            let shown = Map::new().with("document", DOCUMENT).with(name, text);
            assert!(
                matches!(check(&shown, &keys, when(NOW_S, 600)), Err(Error::Form(_))),
                "{name}"
            );
        }
    }
}

mod gcp {
    use super::*;
    use crate::gcp::check;

    const AUDIENCE: &str = "salt-master/abc";
    const HEAD: &str = r#"{"alg":"RS256","kid":"k1","typ":"JWT"}"#;
    const CLAIMS: &str = r#"{"aud":"salt-master/abc","azp":"1020","email":"1-compute@developer.gserviceaccount.com","email_verified":true,"exp":1795345200,"google":{"compute_engine":{"instance_creation_timestamp":1795341000,"instance_id":"6112347900127","instance_name":"web-1","project_id":"my-project","project_number":739419398126,"zone":"us-central1-a"}},"iat":1795341600,"iss":"https://accounts.google.com","sub":"1020"}"#;

    fn token(by: &str, head: &str, claims: &str) -> String {
        let encoded = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
        let message = encoded.join(".");
        let signature = URL_SAFE_NO_PAD.encode(SIGNER.signature(by, &message));
        format!("{message}.{signature}")
    }

    fn refused(head: &str, claims: &str) -> Error {
        let token = token("good", head, claims);
        check(&token, &trusted("good"), AUDIENCE, when(NOW_S, 600)).unwrap_err()
    }

    /// Returns a JSON Web Key Set with one key.
    fn set(name: &str, kid: &str) -> String {
        let key = trusted(name).remove(0);
        let encoded = |number: &[u8]| URL_SAFE_NO_PAD.encode(number);
        let (n, e) = key.numbers();
        format!(
            r#"{{"keys":[{{"kty":"RSA","alg":"RS256","use":"sig","kid":"{kid}","n":"{}","e":"{}"}}]}}"#,
            encoded(n),
            encoded(e)
        )
    }

    #[test]
    fn a_token_proves_what_it_says_with_keys_in_each_form() {
        let token = token("good", HEAD, CLAIMS);
        let quoted = SIGNER.text("good.pem").replace('\n', "\\n");
        for text in [
            SIGNER.text("good.pem"),
            format!(r#"{{"k0": "{quoted}", "k1": "{quoted}"}}"#),
            set("good", "k1"),
        ] {
            let keys = keys(&text).unwrap();
            let proven = check(&token, &keys, AUDIENCE, when(NOW_S, 600)).unwrap();
            assert_eq!(proven.instance, "gcp/my-project/6112347900127");
            let facts = Map::new()
                .with("cloud", "gcp")
                .with("instance_id", "6112347900127")
                .with("instance_name", "web-1")
                .with("project", "my-project")
                .with("project_number", "739419398126")
                .with("zone", "us-central1-a");
            assert_eq!(proven.facts, facts);
        }
    }

    #[test]
    fn other_keys_names_and_algorithms_are_refused() {
        let good = token("good", HEAD, CLAIMS);
        let check = |token: &str, keys: &[Key]| check(token, keys, AUDIENCE, when(NOW_S, 600));
        assert_eq!(check(&good, &trusted("other")), Err(Error::Forged));
        let named = keys(&set("good", "k2")).unwrap();
        assert_eq!(check(&good, &named), Err(Error::Forged));
        let short = token("old", HEAD, CLAIMS);
        assert_eq!(check(&short, &trusted("old")), Err(Error::Forged));
        let (head, rest) = good.split_once('.').unwrap();
        let (_, signature) = rest.split_once('.').unwrap();
        let other = URL_SAFE_NO_PAD.encode(CLAIMS.replace("my-project", "another"));
        let changed = format!("{head}.{other}.{signature}");
        assert_eq!(check(&changed, &trusted("good")), Err(Error::Forged));
        for head in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"HS256","kid":"k1"}"#,
            r#"{"alg":"RS512","kid":"k1"}"#,
        ] {
            assert!(matches!(refused(head, CLAIMS), Error::Form(_)), "{head}");
        }
        for text in ["", "a.b", "a.b.c", "..", &good.replace('.', "")] {
            assert!(
                matches!(check(text, &trusted("good")), Err(Error::Form(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn another_audience_issuer_time_or_form_is_refused() {
        let bound = |error: Error| match error {
            Error::Bound { what, .. } => what,
            other => panic!("{other}"),
        };
        assert_eq!(
            bound(refused(HEAD, &CLAIMS.replace("/abc", "/abd"))),
            "audience"
        );
        let issuer = CLAIMS.replace("accounts.google.com", "accounts.example.com");
        assert_eq!(bound(refused(HEAD, &issuer)), "issuer");
        let ended = CLAIMS.replace("1795345200", "1795341600");
        assert!(matches!(refused(HEAD, &ended), Error::Expired { .. }));
        let old = CLAIMS.replace("\"iat\":1795341600", "\"iat\":1795340000");
        assert!(matches!(refused(HEAD, &old), Error::Expired { .. }));
        let early = CLAIMS.replace("\"iat\":1795341600", "\"iat\":1795342600");
        assert!(matches!(refused(HEAD, &early), Error::Future { .. }));
        let short = CLAIMS.replace("compute_engine", "other");
        assert!(matches!(refused(HEAD, &short), Error::Silent(_)));
        let endless = CLAIMS.replace("\"exp\"", "\"x\"");
        assert_eq!(refused(HEAD, &endless), Error::Silent("exp"));
        let nobody = CLAIMS.replace(
            "\"aud\":\"salt-master/abc\"",
            "\"aud\":[\"salt-master/abc\"]",
        );
        assert_eq!(refused(HEAD, &nobody), Error::Silent("aud"));
    }
}

mod azure {
    use super::*;
    use crate::azure::{HOST, check};

    const NONCE: &str = "0123456789";

    /// Returns the current time: the certificates have just been made, and are valid from now on.
    fn now() -> i64 {
        Timestamp::now().as_second()
    }

    fn written(at_s: i64) -> String {
        let at = Timestamp::from_second(at_s).unwrap();
        jiff::fmt::strtime::format("%m/%d/%y %H:%M:%S -0000", at).unwrap()
    }

    fn document(from_s: i64, to_s: i64) -> String {
        let (from, to) = (written(from_s), written(to_s));
        format!(
            r#"{{"licenseType":"","nonce":"{NONCE}","plan":{{"name":"","product":"","publisher":""}},"sku":"12-gen2","subscriptionId":"8D10DA13-8125-4BA9-A717-BF7490507B3D","timeStamp":{{"createdOn":"{from}","expiresOn":"{to}"}},"vmId":"d3e0e374-fda6-4649-bbc9-7f20dc379f34"}}"#
        )
    }

    fn signed(by: &str, text: &str) -> String {
        SIGNER.message(by, text, "-nodetach -certfile between.pem")
    }

    fn today() -> String {
        document(now() - 10, now() + 21_600)
    }

    fn authorities(names: &[&str]) -> Authorities {
        let texts = names.iter().map(|name| SIGNER.text(&format!("{name}.pem")));
        Authorities::read(&texts.collect::<String>()).unwrap()
    }

    fn checked(shown: &str, trusted: &Authorities) -> Result<Proven, Error> {
        check(shown, trusted, HOST, NONCE, when(now(), 600))
    }

    #[test]
    fn a_document_proves_what_it_says_when_its_certificate_leads_to_the_roots() {
        let root = authorities(&["good"]);
        let proven = checked(&signed("metadata", &today()), &root).unwrap();
        let (vm, subscription) = (
            "d3e0e374-fda6-4649-bbc9-7f20dc379f34",
            "8d10da13-8125-4ba9-a717-bf7490507b3d",
        );
        assert_eq!(proven.instance, format!("azure/{subscription}/{vm}"));
        let facts = Map::new()
            .with("cloud", "azure")
            .with("instance_id", vm)
            .with("subscription", subscription)
            .with("sku", "12-gen2");
        assert_eq!(proven.facts, facts);
        assert!(checked(&signed("region", &today()), &root).is_ok());
        // The configuration has the intermediate certificate, and may also trust only that one.
        let alone = SIGNER.message("metadata", &today(), "-nodetach -noattr");
        assert!(checked(&alone, &authorities(&["between", "good"])).is_ok());
        assert!(checked(&alone, &authorities(&["between"])).is_ok());
        assert!(matches!(checked(&alone, &root), Err(Error::Certificate(_))));
    }

    #[test]
    fn other_certificates_are_refused() {
        let root = authorities(&["good"]);
        for by in ["web", "like"] {
            let refused = checked(&signed(by, &today()), &root).unwrap_err();
            assert!(matches!(refused, Error::Certificate(_)), "{by}: {refused}");
        }
        let stranger = checked(&signed("metadata", &today()), &authorities(&["other"]));
        assert!(matches!(stranger, Err(Error::Certificate(_))));
        // The message does not contain the certificate of its signer.
        let without = SIGNER.message("metadata", &today(), "-nodetach -nocerts");
        assert_eq!(checked(&without, &root), Err(Error::Forged));
        let foreign = SIGNER.message(
            "other",
            &today(),
            "-nodetach -nocerts -certfile metadata.pem",
        );
        assert_eq!(checked(&foreign, &root), Err(Error::Forged));
        let host = "metadata.azure.us";
        let elsewhere = check(
            &signed("metadata", &today()),
            &root,
            host,
            NONCE,
            when(now(), 600),
        );
        assert!(matches!(elsewhere, Err(Error::Certificate(_))));
    }

    #[test]
    fn another_nonce_or_time_is_refused_and_so_is_what_is_not_whole() {
        let root = authorities(&["good"]);
        let refused = |text: &str| checked(&signed("metadata", text), &root).unwrap_err();
        let other = refused(&today().replace(NONCE, "9876543210"));
        assert!(
            matches!(other, Error::Bound { what: "nonce", .. }),
            "{other}"
        );
        let none = refused(&today().replace("nonce", "x"));
        assert_eq!(none, Error::Silent("nonce"));
        let ended = refused(&document(now() - 500, now() - 400));
        assert!(matches!(ended, Error::Expired { .. }), "{ended}");
        let old = refused(&document(now() - 700, now() + 400));
        assert!(matches!(old, Error::Expired { .. }), "{old}");
        let early = refused(&document(now() + 600, now() + 1000));
        assert!(matches!(early, Error::Future { .. }), "{early}");
        assert_eq!(
            refused(&today().replace("vmId", "x")),
            Error::Silent("vmId")
        );
        for text in ["", "AAAA", "MIAG"] {
            assert!(
                matches!(checked(text, &root), Err(Error::Form(_))),
                "{text}"
            );
        }
        let whole = signed("metadata", &today());
        for length in (0..whole.len()).step_by(97) {
            assert!(checked(&whole[..length], &root).is_err(), "{length}");
        }
    }

    #[test]
    fn authorities_are_certificates() {
        for text in ["", "nothing", &SIGNER.text("good.key")] {
            assert!(Authorities::read(text).is_err(), "{text}");
        }
    }
}

#[test]
fn what_is_no_key_is_not_taken_for_one() {
    for text in ["", "nothing", "{}", "{", r#"{"keys":[]}"#, r#"{"k": "x"}"#] {
        assert!(keys(text).is_err(), "{text}");
    }
    assert!(keys(r#"{"keys":[{"kty":"EC","crv":"P-256"}]}"#).is_err());
    SIGNER.openssl("genpkey -algorithm ed25519 -out ed.key");
    SIGNER.openssl("pkey -in ed.key -pubout -out ed.pub");
    assert!(
        keys(&SIGNER.text("ed.pub"))
            .unwrap_err()
            .contains("PEM section 1")
    );
    SIGNER.openssl("pkey -in good.key -pubout -out good.pub");
    assert_eq!(keys(&SIGNER.text("good.pub")), Ok(trusted("good")));
    let two = [SIGNER.text("good.pem"), SIGNER.text("old.pem")].concat();
    assert_eq!(keys(&two).unwrap().len(), 2);
}
