//! Azure: checks the attested document, from `metadata/attested/document?api-version=…&nonce=…`. It
//! is a signed message that contains the certificate of its signer. That certificate is for
//! `metadata.azure.com` or a name below it, and leads to the roots that browsers trust. The
//! intermediate certificates are not in the message: the configuration must have them.

use std::sync::Arc;
use std::time::Duration;

use jiff::fmt::strtime;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::SectionKind;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use value::{Map, Value, json};

use crate::aws::decoded;
use crate::certificate::Certificate;
use crate::cms::Signed;
use crate::keys::sections;
use crate::{Error, Proven, When, facts, name, text_field};

/// The host name in the signer's certificate. Other clouds of Azure have other names
/// (`metadata.azure.us`, `metadata.azure.cn`).
pub const HOST: &str = "metadata.azure.com";
/// The format of times.
const TIME: &str = "%m/%d/%y %H:%M:%S %z";

/// The trusted certificates.
#[derive(Clone, Debug, Default)]
pub struct Authorities {
    anchors: Vec<CertificateDer<'static>>,
    between: Vec<CertificateDer<'static>>,
}

impl Authorities {
    /// Reads certificates in PEM form. Those whose issuer is their subject are roots, the others
    /// are intermediate certificates. If there is no root, all of them are trusted like roots.
    ///
    /// # Errors
    /// Returns an error if there is no certificate, or something else than certificates.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        for (kind, der) in sections(text)? {
            let is_root = (kind == SectionKind::Certificate).then(|| Certificate::read(&der));
            let is_root = is_root.flatten().map(|known| known.is_root());
            match is_root.ok_or("a PEM section is not a certificate")? {
                true => all.anchors.push(der.into()),
                false => all.between.push(der.into()),
            }
        }
        if all.anchors.is_empty() {
            all.anchors.clone_from(&all.between);
        }
        all.verifier().map(|_| all)
    }

    fn verifier(&self) -> Result<Arc<WebPkiServerVerifier>, String> {
        let mut roots = RootCertStore::empty();
        for anchor in &self.anchors {
            let added = roots.add(anchor.clone());
            added.map_err(|error| format!("cannot use a root certificate: {error}"))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.build().map_err(|error| error.to_string())
    }

    /// Returns an error unless a certificate for a host leads to the roots.
    fn trusts(&self, der: &[u8], along: &[&[u8]], host: &str, now_s: i64) -> Result<(), Error> {
        let wrong = |problem: String| Error::Certificate(problem);
        let host = ServerName::try_from(host.to_owned());
        let host = host.map_err(|error| wrong(error.to_string()))?;
        let along = along.iter().map(|der| CertificateDer::from(*der));
        let between: Vec<CertificateDer<'_>> = along.chain(self.between.iter().cloned()).collect();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now_s.try_into().unwrap_or(0)));
        let verified = self.verifier().map_err(wrong)?.verify_server_cert(
            &CertificateDer::from(der),
            &between,
            &host,
            &[],
            now,
        );
        verified
            .map(|_| ())
            .map_err(|error| Error::Certificate(error.to_string()))
    }
}

/// Checks an attested document with a nonce.
///
/// # Errors
/// Returns an error if the signer's certificate is not for this host or does not lead to the roots,
/// if it did not make the signature, if the document has another nonce, or if it has expired or is
/// older than [`When`] allows.
pub fn check(
    shown: &str,
    trusted: &Authorities,
    host: &str,
    nonce: &str,
    when: When,
) -> Result<Proven, Error> {
    let message = decoded(shown)?;
    let signed = Signed::read(&message)?;
    let content = signed.content.as_ref().ok_or(Error::Silent("content"))?;
    signed_for(&signed, content, trusted, host, when.now_s)?;
    let text = std::str::from_utf8(content).map_err(|_| Error::Form("it is not UTF-8"))?;
    let document = json::read(text).map_err(|_| Error::Form("it is not JSON"))?;
    let document = document
        .as_map()
        .ok_or(Error::Form("it is not a dictionary"))?;
    let found = text_field(document, "nonce")?;
    if found != nonce {
        return Err(Error::Bound {
            what: "nonce",
            found: found.to_owned(),
            expected: nonce.to_owned(),
        });
    }
    let times = document.get("timeStamp").and_then(Value::as_map);
    let times = times.ok_or(Error::Silent("timeStamp"))?;
    when.recent("it was created", time(times, "createdOn")?)?;
    when.before("its validity ended", time(times, "expiresOn")?)?;
    proven(document)
}

/// Returns an error unless a trusted certificate made the signature.
fn signed_for(
    signed: &Signed<'_>,
    content: &[u8],
    trusted: &Authorities,
    host: &str,
    now_s: i64,
) -> Result<(), Error> {
    let all = signed.certificates.iter();
    let mut read = all.filter_map(|der| Some((*der, Certificate::read(der)?)));
    let signer = read.find(|(_, known)| {
        known
            .key()
            .is_some_and(|key| key.is_long() && signed.is_by(&key, content))
    });
    let (der, signer) = signer.ok_or(Error::Forged)?;
    let hosts = signer.hosts().into_iter();
    let hosts: Vec<String> = hosts.map(|host| host.replace('*', "any")).collect();
    let below = format!(".{host}");
    let is_its = |name: &&String| *name == host || name.ends_with(&below);
    let name = hosts.iter().find(is_its).ok_or_else(|| {
        let names = hosts.join(", ");
        Error::Certificate(format!("it is for {names:?}, not for {host}"))
    })?;
    trusted.trusts(der, &signed.certificates, name, now_s)
}

fn time(times: &Map, name: &'static str) -> Result<i64, Error> {
    let read = strtime::parse(TIME, text_field(times, name)?).and_then(|time| time.to_timestamp());
    let read = read.map_err(|_| Error::Form("a time in it is invalid"))?;
    Ok(read.as_second())
}

fn proven(document: &Map) -> Result<Proven, Error> {
    let instance = name(document, "vmId")?.to_ascii_lowercase();
    let subscription = name(document, "subscriptionId")?.to_ascii_lowercase();
    let known = |key: &str| document.get(key).and_then(Value::as_str).map(str::to_owned);
    Ok(Proven {
        instance: format!("azure/{subscription}/{instance}"),
        facts: facts(
            "azure",
            [
                ("instance_id", Some(instance)),
                ("subscription", Some(subscription)),
                ("sku", known("sku").filter(|sku| !sku.is_empty())),
            ],
        ),
    })
}
