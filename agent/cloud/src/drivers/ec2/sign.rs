//! Signatures of requests: version 4 of Amazon's.

use machine::net::http::quoted;
use ring::digest::{SHA256, digest};
use ring::hmac::{HMAC_SHA256, Key, sign};

use super::credentials::Keys;
use crate::fault::Fault;

/// The name of the method.
const METHOD: &str = "AWS4-HMAC-SHA256";

/// The parts of a signature that do not depend on the request.
pub(super) struct Signed<'a> {
    pub(super) keys: &'a Keys,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash(text: &str) -> String {
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    sign(&Key::new(HMAC_SHA256, key), text.as_bytes())
        .as_ref()
        .to_vec()
}

impl Signed<'_> {
    /// Returns the headers of a `POST` with a signature. `now` is a job id, which is a time in UTC.
    ///
    /// # Errors
    /// When the address is not well formed.
    pub(super) fn headers(
        &self,
        url: &str,
        kind: &str,
        body: &str,
        now: &str,
    ) -> Result<Vec<(String, String)>, Fault> {
        let (host, path) = place(url)?;
        let day = now.get(..8).unwrap_or_default();
        let time = format!("{day}T{}Z", now.get(8..14).unwrap_or_default());
        let mut headers = vec![
            ("content-type".to_owned(), kind.to_owned()),
            ("host".to_owned(), host),
            ("x-amz-date".to_owned(), time.clone()),
        ];
        if let Some(token) = &self.keys.token {
            headers.push(("x-amz-security-token".to_owned(), token.clone()));
        }
        let lines: String = headers
            .iter()
            .map(|(name, value)| format!("{name}:{}\n", value.trim()))
            .collect();
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let path = path.split('/').map(quoted).collect::<Vec<_>>().join("/");
        let request = format!("POST\n{path}\n\n{lines}\n{names}\n{}", hash(body));
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let text = format!("{METHOD}\n{time}\n{scope}\n{}", hash(&request));
        let key = self.key(day);
        let signature = hex(&mac(&key, &text));
        let value = format!(
            "{METHOD} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            self.keys.id
        );
        headers.retain(|(name, _)| name != "host");
        headers.push(("authorization".to_owned(), value));
        Ok(headers)
    }

    /// Returns the key of a day.
    fn key(&self, day: &str) -> Vec<u8> {
        let first = format!("AWS4{}", self.keys.key);
        let parts = [day, self.region, self.service, "aws4_request"];
        parts
            .iter()
            .fold(first.into_bytes(), |key, part| mac(&key, part))
    }
}

/// Returns the host with its port, and the path of an address.
fn place(url: &str) -> Result<(String, String), Fault> {
    let rest = url.split_once("://").map(|(_, rest)| rest);
    let rest = rest.ok_or_else(|| Fault::wrong(format!("ec2: invalid endpoint {url:?}")))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host
        .strip_suffix(if url.starts_with("https:") {
            ":443"
        } else {
            ":80"
        })
        .unwrap_or(host);
    Ok((host.to_owned(), format!("/{path}")))
}
