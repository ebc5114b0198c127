//! Gets the document by which this machine's cloud proves the machine's identity, for a master that
//! has a rule about it: `enroll_identity: aws|gcp|azure`.
//!
//! The document is requested at each connection as long as the key is not accepted, from the
//! metadata service that each instance has at a link-local address. It is shown to the master only,
//! and is never logged. If the cloud includes a value of the caller in its document (Google's
//! audience, Azure's nonce), the value is derived from this minion's key, so that the document is
//! only of use with this key.

use std::time::{Duration, Instant};

use link::key::AUDIENCE;
use link::{Evidence, PublicKey};
use machine::net::http::{self, Request};
use state::opts::Opts;
use value::{Map, Value, json, log};
use wire::EVIDENCE_MAX;

use super::settings::wrong;
use crate::error::Error;

/// The address of the metadata service of an instance, the same in all three clouds.
const METADATA: &str = "http://169.254.169.254";
/// The time limit for all requests to the service together.
const PATIENCE: Duration = Duration::from_secs(5);
/// The lifetime of AWS's token in seconds. It is short, because the token is used at once.
const TOKEN_TTL_S: &str = "60";
/// The version of Azure's interface. Every newer version has attested documents in this form too.
const AZURE_VERSION: &str = "2020-09-01";

#[derive(Clone, Copy, Debug)]
enum Cloud {
    Aws,
    Gcp,
    Azure,
}

/// The metadata service, and the values that it is to include in a document.
#[derive(Clone, Debug)]
struct Metadata {
    cloud: Cloud,
    url: String,
    audience: String,
    nonce: String,
    opts: Opts,
}

/// Returns the source of the documents that `enroll_identity` names.
///
/// # Errors
/// When the option names no cloud.
pub(crate) fn evidence(opts: &Opts, key: &PublicKey) -> Result<Option<Evidence>, Error> {
    let metadata = Metadata::from_opts(opts, key)?;
    Ok(metadata.map(|metadata| Evidence::from(move || metadata.evidence())))
}

impl Metadata {
    fn from_opts(opts: &Opts, key: &PublicKey) -> Result<Option<Self>, Error> {
        let said = |name| opts.text(name).filter(|text| !text.is_empty());
        let cloud = match said("enroll_identity") {
            None => return Ok(None),
            Some("aws") => Cloud::Aws,
            Some("gcp") => Cloud::Gcp,
            Some("azure") => Cloud::Azure,
            Some(other) => {
                let problem = format!("unknown value {other:?}, expected aws, gcp or azure");
                return Err(wrong("enroll_identity", problem));
            }
        };
        let url = said("enroll_identity_url").unwrap_or(METADATA);
        Ok(Some(Self {
            cloud,
            url: url.trim_end_matches('/').to_owned(),
            audience: key.audience(said("enroll_identity_audience").unwrap_or(AUDIENCE)),
            nonce: key.nonce(),
            opts: opts.clone(),
        }))
    }

    /// Returns the document under its cloud's name. If the service has none, this is logged and the
    /// map is empty.
    fn evidence(&self) -> Map {
        let until = Instant::now() + PATIENCE;
        let (name, got) = match self.cloud {
            Cloud::Aws => ("aws", self.aws(until)),
            Cloud::Gcp => ("gcp", self.gcp(until)),
            Cloud::Azure => ("azure", self.azure(until)),
        };
        match got.and_then(small) {
            Ok(document) => Map::new().with(name, document),
            Err(problem) => {
                log::warning(format_args!(
                    "cannot get an identity document (enroll_identity: {name}): {problem}"
                ));
                Map::new()
            }
        }
    }

    fn aws(&self, until: Instant) -> Result<Value, String> {
        let ttl = ("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_TTL_S);
        let token = self.send("PUT", "/latest/api/token", ttl, until)?;
        let token = ("X-aws-ec2-metadata-token", token.as_str());
        let of = |name: &str| {
            let path = format!("/latest/dynamic/instance-identity/{name}");
            self.send("GET", &path, token, until)
        };
        let mut shown = Map::new().with("document", of("document")?);
        let (signature, message) = (of("signature"), of("rsa2048"));
        if let (Err(problem), Err(_)) = (&signature, &message) {
            return Err(problem.clone());
        }
        for (name, got) in [("signature", signature), ("rsa2048", message)] {
            if let Ok(text) = got {
                shown.insert(name, text);
            }
        }
        Ok(shown.into())
    }

    fn gcp(&self, until: Instant) -> Result<Value, String> {
        let audience = http::quoted(&self.audience);
        let path = format!(
            "/computeMetadata/v1/instance/service-accounts/default/identity?audience={audience}&format=full"
        );
        let token = self.send("GET", &path, ("Metadata-Flavor", "Google"), until)?;
        Ok(token.into())
    }

    fn azure(&self, until: Instant) -> Result<Value, String> {
        let path = format!(
            "/metadata/attested/document?api-version={AZURE_VERSION}&nonce={}",
            self.nonce
        );
        let answer = self.send("GET", &path, ("Metadata", "true"), until)?;
        let answer = json::read(&answer)
            .map_err(|_| "the answer of the metadata service is not JSON".to_owned())?;
        let signature = answer.get("signature").and_then(Value::as_str);
        let signature = signature.ok_or("the answer of the metadata service has no signature")?;
        Ok(signature.into())
    }

    /// Sends a request to the service, never through a proxy: the service identifies the instance
    /// by the address that the request comes from.
    fn send(
        &self,
        method: &str,
        path: &str,
        (name, value): (&str, &str),
        until: Instant,
    ) -> Result<String, String> {
        let url = format!("{}{path}", self.url);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let seconds = PATIENCE.as_secs();
            return Err(format!("{url}: no answer within {seconds} s"));
        }
        let request = Request {
            method: method.to_owned(),
            headers: vec![(name.to_owned(), value.to_owned())],
            body: (method == "PUT").then(Vec::new),
            proxy: None,
            connect_timeout: left,
            timeout: left,
            max_body: u64::try_from(EVIDENCE_MAX).ok(),
            ..Request::get(&url, &self.opts)
        };
        let response = http::fetch(&request).map_err(|error| error.to_string())?;
        if response.status != 200 {
            let (status, reason) = (response.status, response.reason());
            return Err(format!("{url}: {status} {reason}"));
        }
        String::from_utf8(response.body).map_err(|_| format!("{url}: the answer is not UTF-8 text"))
    }
}

/// Returns a document if it is not too long for a hello.
fn small(document: Value) -> Result<Value, String> {
    let bytes = match &document {
        Value::Map(map) => map.values().map(|text| text.to_text().len()).sum(),
        text => text.to_text().len(),
    };
    match bytes <= EVIDENCE_MAX {
        true => Ok(document),
        false => Err(format!(
            "the document has {bytes} bytes, but at most {EVIDENCE_MAX} are allowed"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(options: Map) -> Result<Option<Metadata>, Error> {
        Metadata::from_opts(&Opts::new(options), &PublicKey::from_bytes([7; 32]))
    }

    #[test]
    fn an_option_that_names_no_cloud_is_refused_and_none_asks_nobody() {
        assert!(metadata(Map::new()).unwrap().is_none());
        assert!(
            metadata(Map::new().with("enroll_identity", ""))
                .unwrap()
                .is_none()
        );
        let error = metadata(Map::new().with("enroll_identity", "AWS")).unwrap_err();
        assert!(error.to_string().contains("expected aws, gcp or azure"));
    }

    #[test]
    fn a_service_that_is_not_there_is_no_evidence() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        drop(listener);
        for cloud in ["aws", "gcp", "azure"] {
            let options = Map::new()
                .with("enroll_identity", cloud)
                .with("enroll_identity_url", url.as_str());
            let metadata = metadata(options).unwrap().unwrap();
            assert!(metadata.evidence().is_empty(), "{cloud}");
        }
    }

    #[test]
    fn what_is_too_long_for_a_hello_is_not_shown() {
        assert!(small("x".repeat(EVIDENCE_MAX).into()).is_ok());
        assert!(small("x".repeat(EVIDENCE_MAX + 1).into()).is_err());
        let half = "x".repeat(EVIDENCE_MAX / 2 + 1);
        let both = Map::new()
            .with("document", half.as_str())
            .with("signature", half);
        assert!(small(both.into()).is_err());
    }
}
