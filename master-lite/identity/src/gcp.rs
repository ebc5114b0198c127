//! Google Cloud: checks the identity token of an instance's service account. The token has the full
//! form, is a JSON Web Token signed with RSA and SHA-256, and comes from
//! `instance/service-accounts/default/identity?audience=…&format=full`. The keys are those that
//! Google publishes, as PEM texts by name (`https://www.googleapis.com/oauth2/v1/certs`) or as a
//! set (`…/v3/certs`). They change every few days, so that the file must be updated regularly.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use value::{Map, Value, json};

use crate::keys::{Hash, Key};
use crate::{Error, Proven, When, facts, name, text_field};

/// The issuers that a token may name.
const ISSUERS: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];

/// Checks a token for an audience.
///
/// # Errors
/// Returns an error if the token is not signed by one of these keys, is for another audience, has
/// expired, is older than [`When`] allows, or is not in the full form.
pub fn check(token: &str, keys: &[Key], audience: &str, when: When) -> Result<Proven, Error> {
    let claims = trusted(token.trim(), keys)?;
    let issuer = text_field(&claims, "iss")?;
    if !ISSUERS.contains(&issuer) {
        return Err(bound("issuer", issuer, ISSUERS[0]));
    }
    let found = text_field(&claims, "aud")?;
    if found != audience {
        return Err(bound("audience", found, audience));
    }
    when.recent("the token was issued", time(&claims, "iat")?)?;
    when.before("its validity ended", time(&claims, "exp")?)?;
    proven(&claims)
}

fn bound(what: &'static str, found: &str, expected: &str) -> Error {
    Error::Bound {
        what,
        found: found.chars().take(SHOWN_MAX).collect(),
        expected: expected.to_owned(),
    }
}

/// The maximum length of foreign text in messages, in characters.
const SHOWN_MAX: usize = 200;

fn time(claims: &Map, name: &'static str) -> Result<i64, Error> {
    let time = claims.get(name).and_then(Value::as_int);
    time.ok_or(Error::Silent(name))
}

fn proven(claims: &Map) -> Result<Proven, Error> {
    let engine = claims.get("google").and_then(Value::as_map);
    let engine = engine.and_then(|google| google.get("compute_engine")?.as_map());
    let engine = engine.ok_or(Error::Silent("google.compute_engine (format=full)"))?;
    let instance = name(engine, "instance_id")?;
    let project = name(engine, "project_id")?;
    let known = |key: &str| engine.get(key).map(Value::to_text);
    Ok(Proven {
        instance: format!("gcp/{project}/{instance}"),
        facts: facts(
            "gcp",
            [
                ("instance_id", Some(instance.to_owned())),
                ("instance_name", known("instance_name")),
                ("project", Some(project.to_owned())),
                ("project_number", known("project_number")),
                ("zone", known("zone")),
            ],
        ),
    })
}

/// Returns the claims of a token that a trusted key signed.
fn trusted(token: &str, keys: &[Key]) -> Result<Map, Error> {
    let (message, signature) = token.rsplit_once('.').ok_or(NO_TOKEN)?;
    let (head, claims) = message.split_once('.').ok_or(NO_TOKEN)?;
    let head = part(head)?;
    // Only the key decides how a signature is checked: the token cannot choose another algorithm.
    if text_field(&head, "alg")? != "RS256" {
        return Err(Error::Form("its signature algorithm is not RS256"));
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| NO_TOKEN)?;
    let wanted = head.get("kid").and_then(Value::as_str);
    let is_meant = |key: &&Key| key.name.is_none() || key.name.as_deref() == wanted;
    let is_by =
        |key: &Key| key.is_long() && key.signed(Hash::Sha256, message.as_bytes(), &signature);
    match keys.iter().filter(is_meant).any(is_by) {
        true => part(claims),
        false => Err(Error::Forged),
    }
}

const NO_TOKEN: Error = Error::Form("it is not a JSON Web Token");

fn part(text: &str) -> Result<Map, Error> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| NO_TOKEN)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| NO_TOKEN)?;
    let read = json::read(text).map_err(|_| NO_TOKEN)?;
    read.as_map().cloned().ok_or(NO_TOKEN)
}
