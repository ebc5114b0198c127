//! Metadata services on loopback, with the paths and headers of each cloud, and keys that sign as the clouds do.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use super::SIGNER;

/// A folder in which OpenSSL has made keys and certificates: `aws`, `gcp`, `metadata` and `web` below `root`, and a `stranger`.
pub(super) struct Signer(tempfile::TempDir);

impl Signer {
    pub(super) fn new() -> Self {
        let signer = Self(tempfile::tempdir().unwrap());
        for name in ["aws", "gcp", "root", "stranger"] {
            signer.openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.pem -subj /CN={name} -days 30"
            ));
        }
        for (name, host) in [
            ("metadata", "metadata.azure.com"),
            ("web", "www.example.org"),
        ] {
            signer.below_root(name, host);
        }
        let pem = fs::read_to_string(signer.path("gcp.pem")).unwrap();
        let keys = serde_json::json!({"0a": pem}).to_string();
        fs::write(signer.path("gcp.json"), keys).unwrap();
        signer
    }

    fn below_root(&self, name: &str, host: &str) {
        let extensions = format!("subjectAltName=DNS:{host}\nextendedKeyUsage=serverAuth\n");
        fs::write(self.path(&format!("{name}.ext")), extensions).unwrap();
        self.openssl(&format!(
            "req -new -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA root.pem -CAkey root.key -CAcreateserial -out {name}.pem -days 30 -extfile {name}.ext"
        ));
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, words: &str) {
        let mut openssl = Command::new("openssl");
        let run = openssl.args(words.split(' ')).current_dir(self.0.path());
        let output = run.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {words}: {said}");
    }

    /// Returns the output of OpenSSL for a text, in base64. `@in` and `@out` in the words stand for
    /// the files. Without words it encodes the text itself.
    fn made(&self, text: &str, words: &str) -> String {
        let folder = tempfile::tempdir_in(self.0.path()).unwrap();
        let of = |name: &str| folder.path().join(name).display().to_string();
        let (from, out, to) = (of("in"), of("out"), of("base64"));
        fs::write(&from, text).unwrap();
        if words.is_empty() {
            self.openssl(&format!("base64 -in {from} -out {to}"));
        } else {
            self.openssl(&words.replace("@in", &from).replace("@out", &out));
            self.openssl(&format!("base64 -in {out} -out {to}"));
        }
        fs::read_to_string(to).unwrap()
    }

    fn signature(&self, by: &str, text: &str) -> String {
        self.made(text, &format!("dgst -sha256 -sign {by}.key -out @out @in"))
    }

    /// Returns the base64 form that tokens use.
    fn plain(&self, text: &str) -> String {
        for_url(&self.made(text, ""))
    }
}

fn for_url(base64: &str) -> String {
    let text: String = base64.split_whitespace().collect();
    let text = text.replace('+', "-").replace('/', "_");
    text.trim_end_matches('=').to_owned()
}

/// A received request: its first line, and its headers in lower case.
pub(super) struct ReceivedRequest {
    line: String,
    headers: String,
}

impl ReceivedRequest {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut lines = BufReader::new(stream).lines();
        let line = lines.next()?.ok()?;
        let headers = lines
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty());
        let headers = headers
            .map(|line| format!("{}\n", line.to_lowercase()))
            .collect();
        Some(Self { line, headers })
    }

    fn has(&self, header: &str) -> bool {
        self.headers.lines().any(|line| line == header)
    }

    /// Returns the value of a query parameter.
    fn query(&self, name: &str) -> String {
        let path = self.line.split(' ').nth(1).unwrap_or_default();
        let query = path.split_once('?').map_or("", |(_, query)| query);
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let value = pairs
            .find(|(known, _)| *known == name)
            .map_or("", |(_, value)| value);
        value.replace("%2F", "/")
    }
}

type Answer = Result<String, &'static str>;

pub(super) trait Cloud: Send + 'static {
    const NAME: &'static str;
    fn answer(&self, asked: &ReceivedRequest) -> Answer;
    /// Returns whether the answer is secret, so that no log may contain it.
    fn is_document(asked: &ReceivedRequest) -> bool;
}

/// A metadata service that runs until the end of the test.
pub(super) struct Metadata {
    pub(super) cloud: &'static str,
    pub(super) url: String,
    asked: Arc<AtomicUsize>,
    shown: Arc<Mutex<Vec<String>>>,
}

impl Metadata {
    pub(super) fn start<C: Cloud>(cloud: C) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, shown) = (
            Arc::<AtomicUsize>::default(),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let (count, keep) = (asked.clone(), shown.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let Some(asked) = ReceivedRequest::read(&stream) else {
                    continue;
                };
                let (status, body) = match cloud.answer(&asked) {
                    Ok(body) => ("200 OK", body),
                    Err(status) => (status, String::new()),
                };
                if status == "200 OK" && C::is_document(&asked) {
                    keep.lock().unwrap().push(body.clone());
                }
                count.fetch_add(1, Ordering::SeqCst);
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
                );
                let _ = stream.write_all((head + &body).as_bytes());
            }
        });
        let cloud = C::NAME;
        Self {
            cloud,
            url,
            asked,
            shown,
        }
    }

    /// Returns the number of requests so far.
    pub(super) fn request_count(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Returns the documents that it has issued.
    pub(super) fn secrets(&self) -> Vec<String> {
        let shown = self.shown.lock().unwrap().clone();
        assert!(!shown.is_empty());
        shown
    }
}

/// AWS, with version 2 of its service.
pub(super) struct Aws {
    pub(super) instance: String,
    document: String,
    by: &'static str,
    change: Option<(String, String)>,
    is_broken: bool,
}

impl Aws {
    pub(super) fn new(instance: &str) -> Self {
        let stamp = value::jid::stamp();
        let launched = format!("{}Z", &stamp[..19]);
        let document = format!(
            r#"{{
  "accountId" : "123456789012",
  "architecture" : "x86_64",
  "availabilityZone" : "eu-central-1a",
  "billingProducts" : null,
  "imageId" : "ami-0123456789abcdef0",
  "instanceId" : "{instance}",
  "instanceType" : "t3.micro",
  "kernelId" : null,
  "pendingTime" : "{launched}",
  "privateIp" : "10.0.0.9",
  "region" : "eu-central-1",
  "version" : "2017-09-30"
}}"#
        );
        Self {
            instance: instance.to_owned(),
            document,
            by: "aws",
            change: None,
            is_broken: false,
        }
    }

    pub(super) fn signed_by(self, by: &'static str) -> Self {
        Self { by, ..self }
    }

    pub(super) fn with(self, from: &str, to: &str) -> Self {
        let document = self.document.replace(from, to);
        Self { document, ..self }
    }

    pub(super) fn launched(self, at: &str) -> Self {
        let (before, rest) = self.document.split_once("\"pendingTime\" : \"").unwrap();
        let (_, after) = rest.split_once('"').unwrap();
        let document = format!("{before}\"pendingTime\" : \"{at}\"{after}");
        Self { document, ..self }
    }

    /// Changes the document after it was signed, and removes the signed message.
    pub(super) fn changed_after(self, from: &str, to: &str) -> Self {
        let change = Some((from.to_owned(), to.to_owned()));
        Self { change, ..self }
    }

    pub(super) fn broken(self) -> Self {
        Self {
            is_broken: true,
            ..self
        }
    }
}

impl Cloud for Aws {
    const NAME: &'static str = "aws";

    fn answer(&self, asked: &ReceivedRequest) -> Answer {
        let line = asked.line.trim_end_matches(" HTTP/1.1");
        if line == "PUT /latest/api/token" {
            let has_ttl = asked.has("x-aws-ec2-metadata-token-ttl-seconds: 60");
            return has_ttl
                .then(|| "t0ken==".to_owned())
                .ok_or("400 Bad Request");
        }
        if !asked.has("x-aws-ec2-metadata-token: t0ken==") {
            return Err("401 Unauthorized");
        }
        let by = self.by;
        match line {
            "GET /latest/dynamic/instance-identity/document" => Ok(match &self.change {
                Some((from, to)) => self.document.replace(from, to),
                None => self.document.clone(),
            }),
            "GET /latest/dynamic/instance-identity/signature" => {
                Ok(SIGNER.signature(by, &self.document))
            }
            "GET /latest/dynamic/instance-identity/rsa2048" if self.is_broken => {
                Ok("MIAGCSqGSIb3DQEHAqCA".to_owned())
            }
            "GET /latest/dynamic/instance-identity/rsa2048" if self.change.is_none() => {
                let how = "cms -sign -binary -nodetach -nocerts -stream -outform DER";
                let words = format!("{how} -signer {by}.pem -inkey {by}.key -in @in -out @out");
                Ok(SIGNER.made(&self.document, &words))
            }
            _ => Err("404 Not Found"),
        }
    }

    fn is_document(asked: &ReceivedRequest) -> bool {
        asked.line.contains("/instance-identity/")
    }
}

/// Google.
pub(super) struct Gcp {
    instance: String,
    project: &'static str,
    ends_s: i64,
    always: Option<String>,
}

impl Gcp {
    pub(super) fn new(instance: &str) -> Self {
        Self {
            instance: instance.to_owned(),
            project: "my-project",
            ends_s: 3600,
            always: None,
        }
    }

    /// Returns a token that expires in this number of seconds.
    pub(super) fn ending(self, ends_s: i64) -> Self {
        Self { ends_s, ..self }
    }

    pub(super) fn with_project(self, project: &'static str) -> Self {
        Self { project, ..self }
    }

    /// Returns the document of another machine.
    pub(super) fn always(self, token: &str) -> Self {
        let always = Some(token.to_owned());
        Self { always, ..self }
    }

    fn token(&self, audience: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = i64::try_from(now.as_secs()).unwrap();
        let claims = serde_json::json!({
            "aud": audience, "azp": "1020", "email": "1-compute@developer.gserviceaccount.com",
            "email_verified": true, "exp": now + self.ends_s, "iat": now,
            "iss": "https://accounts.google.com", "sub": "1020",
            "google": {"compute_engine": {
                "instance_creation_timestamp": now, "instance_id": self.instance,
                "instance_name": "web-1", "project_id": self.project,
                "project_number": 739_419_398_126_u64, "zone": "europe-west3-a"
            }}
        });
        let head = SIGNER.plain(r#"{"alg":"RS256","kid":"0a","typ":"JWT"}"#);
        let message = format!("{head}.{}", SIGNER.plain(&claims.to_string()));
        let signature = for_url(&SIGNER.signature("gcp", &message));
        format!("{message}.{signature}")
    }
}

impl Cloud for Gcp {
    const NAME: &'static str = "gcp";

    fn answer(&self, asked: &ReceivedRequest) -> Answer {
        let path = "GET /computeMetadata/v1/instance/service-accounts/default/identity?";
        if !asked.line.starts_with(path) || asked.query("format") != "full" {
            return Err("404 Not Found");
        }
        if !asked.has("metadata-flavor: google") {
            return Err("403 Forbidden");
        }
        let made = || self.token(&asked.query("audience"));
        Ok(self.always.clone().unwrap_or_else(made))
    }

    fn is_document(_asked: &ReceivedRequest) -> bool {
        true
    }
}

/// Azure.
pub(super) struct Azure {
    machine: String,
    by: &'static str,
    made: Option<&'static str>,
    always: Option<String>,
}

impl Azure {
    pub(super) fn new(machine: &str) -> Self {
        Self {
            machine: machine.to_owned(),
            by: "metadata",
            made: None,
            always: None,
        }
    }

    pub(super) fn signed_by(self, by: &'static str) -> Self {
        Self { by, ..self }
    }

    /// Sets the times at which it was created and expires.
    pub(super) fn made(self, at: &'static str) -> Self {
        let made = Some(at);
        Self { made, ..self }
    }

    /// Returns the document of another machine.
    pub(super) fn always(self, answer: &str) -> Self {
        let always = Some(answer.to_owned());
        Self { always, ..self }
    }

    fn attested(&self, nonce: &str) -> String {
        let stamp = value::jid::stamp();
        let (year, month, day) = (&stamp[2..4], &stamp[5..7], &stamp[8..10]);
        let now = format!("{month}/{day}/{year} {} -0000", &stamp[11..19]);
        let (from, to) = match self.made {
            Some(then) => (then, then),
            None => (now.as_str(), "12/31/49 23:59:59 -0000"),
        };
        let document = serde_json::json!({
            "licenseType": "", "nonce": nonce, "sku": "12-gen2",
            "plan": {"name": "", "product": "", "publisher": ""},
            "subscriptionId": "8d10da13-8125-4ba9-a717-bf7490507b3d",
            "timeStamp": {"createdOn": from, "expiresOn": to}, "vmId": self.machine
        });
        let by = self.by;
        let words = format!(
            "cms -sign -binary -nodetach -outform DER -signer {by}.pem -inkey {by}.key -in @in -out @out"
        );
        let signature = SIGNER.made(&document.to_string(), &words);
        let signature: String = signature.split_whitespace().collect();
        serde_json::json!({"encoding": "pkcs7", "signature": signature}).to_string()
    }
}

impl Cloud for Azure {
    const NAME: &'static str = "azure";

    fn answer(&self, asked: &ReceivedRequest) -> Answer {
        if !asked.line.starts_with("GET /metadata/attested/document?") {
            return Err("404 Not Found");
        }
        if !asked.has("metadata: true") || asked.query("api-version") != "2020-09-01" {
            return Err("400 Bad Request");
        }
        let made = || self.attested(&asked.query("nonce"));
        Ok(self.always.clone().unwrap_or_else(made))
    }

    fn is_document(_asked: &ReceivedRequest) -> bool {
        true
    }
}
