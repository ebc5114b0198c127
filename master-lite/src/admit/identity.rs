//! The condition `identity:` of `autosign_policy`: the facts that a cloud must have signed about
//! the instance whose key is to be accepted. The crate `identity` verifies documents. This module
//! compares what they prove with the rule, and records the instance in the same change that accepts
//! the key.
//!
//! An instance may have one key accepted. Its row in the store names that key, so that the same key
//! may connect again. Another key is accepted only after the recorded key was deleted: the row of a
//! key that no longer exists is void, and the next chores remove it. A deleted key can therefore
//! come back with its document for as long as the document is valid. To keep a minion out, reject
//! its key.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use identity::azure::{self, Authorities};
use identity::{Key, Proven, When, aws, gcp};
use link::PublicKey;
use link::key::AUDIENCE;
use value::{Map, Value, log};
use wire::{EVIDENCE_MAX, Id};

use super::Admission;
use super::policy::{Evidence, milliseconds};
use crate::store::{Command, Store};

/// The prefix of an instance's name in the store, whose table also holds tokens.
const PREFIX: &str = "identity/";
/// The maximum age of an AWS document in seconds, unless the rule sets one. The time in the
/// document is that of the instance's launch.
const AWS_MAX_AGE_S: i64 = 600;
/// The maximum size of a file of certificates or keys, in bytes.
const FILE_MAX: u64 = 1 << 20;

/// The documents of a hello. Logs never show them.
#[derive(Clone, Default)]
pub(super) struct Documents(Map);

impl fmt::Debug for Documents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Documents {
    pub(super) fn new(evidence: &Map) -> Self {
        Self(evidence.clone())
    }

    /// Returns whether there is a document of the rule's cloud.
    pub(super) fn has(&self, wanted: &Condition) -> bool {
        self.0.contains(wanted.cloud.name())
    }

    fn text(&self, cloud: &str) -> Result<&str, String> {
        let text = self.0.get(cloud).and_then(Value::as_str);
        let text = text.ok_or("the document is not text")?;
        small(text.len()).map(|()| text)
    }

    fn map(&self, cloud: &str) -> Result<&Map, String> {
        let map = self.0.get(cloud).and_then(Value::as_map);
        let map = map.ok_or("the document is not a dictionary")?;
        let texts = map.values().filter_map(Value::as_str);
        small(texts.map(str::len).sum()).map(|()| map)
    }
}

fn small(bytes: usize) -> Result<(), String> {
    match bytes <= EVIDENCE_MAX {
        true => Ok(()),
        false => Err(format!(
            "the document has {bytes} bytes; the limit is {EVIDENCE_MAX}"
        )),
    }
}

/// The requirements of a rule on a document.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    cloud: Cloud,
    max_age_s: Option<i64>,
    /// The facts, each with the values or globs of which it must match at least one.
    facts: Vec<(&'static str, Vec<String>)>,
    /// The fact that the minion's id must contain.
    id: Option<&'static str>,
}

/// The certificates or keys that verify a cloud's signatures. Files are read again for each check,
/// since clouds change their keys.
#[derive(Clone, Debug)]
enum Cloud {
    Aws(Vec<Source>),
    Gcp {
        keys: Vec<Source>,
        audience: String,
    },
    Azure {
        certificates: Vec<Source>,
        host: String,
    },
}

#[derive(Clone, Debug)]
enum Source {
    Text(Arc<str>),
    File(String),
}

impl Source {
    fn all(value: Option<&Value>, word: &str) -> Result<Vec<Self>, String> {
        let one = |text: String| match text.contains("-----BEGIN")
            || text.trim_start().starts_with('{')
        {
            true => Self::Text(text.into()),
            false => Self::File(text),
        };
        let all: Vec<Self> = several(value).into_iter().map(one).collect();
        match all.is_empty() {
            true => Err(format!(
                "`{word}` is missing: give the path of a file, or its contents"
            )),
            false => Ok(all),
        }
    }

    fn read(&self) -> Result<String, String> {
        let path = match self {
            Self::Text(text) => return Ok(text.to_string()),
            Self::File(path) => path,
        };
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(FILE_MAX).read_to_string(&mut text));
        read.map_err(|error| format!("cannot read {path}: {error}"))?;
        Ok(text)
    }

    fn place(&self) -> &str {
        match self {
            Self::Text(_) => "the configuration",
            Self::File(path) => path,
        }
    }
}

fn keys(sources: &[Source]) -> Result<Vec<Key>, String> {
    let mut all = Vec::new();
    for source in sources {
        let found = identity::keys(&source.read()?);
        all.extend(found.map_err(|problem| format!("{}: {problem}", source.place()))?);
    }
    Ok(all)
}

fn authorities(sources: &[Source]) -> Result<Authorities, String> {
    let texts: Vec<String> = sources.iter().map(Source::read).collect::<Result<_, _>>()?;
    Authorities::read(&texts.join("\n"))
}

impl Cloud {
    fn name(&self) -> &'static str {
        match self {
            Self::Aws(_) => "aws",
            Self::Gcp { .. } => "gcp",
            Self::Azure { .. } => "azure",
        }
    }

    fn read(name: &str, map: &Map) -> Result<Self, String> {
        let text = |word: &str, default: &str| {
            let text = map.get(word).map(Value::to_text);
            text.unwrap_or_else(|| default.to_owned())
        };
        let sources = |word: &str| Source::all(map.get(word), word);
        Ok(match name {
            "aws" => Self::Aws(sources("certificates")?),
            "gcp" => Self::Gcp {
                keys: sources("keys")?,
                audience: text("audience", AUDIENCE),
            },
            _ => Self::Azure {
                certificates: sources("certificates")?,
                host: text("host", azure::HOST),
            },
        })
    }

    /// Checks that the certificates or keys can be read.
    fn try_sources(&self) -> Result<(), String> {
        match self {
            Self::Aws(sources) => {
                if keys(sources)?.iter().any(|key| !key.is_long()) {
                    log::info(
                        "autosign_policy: an AWS certificate has a short key (1024 bits); prefer the certificates for `rsa2048`",
                    );
                }
                Ok(())
            }
            Self::Gcp { keys: sources, .. } => keys(sources).map(|_| ()),
            Self::Azure { certificates, .. } => authorities(certificates).map(|_| ()),
        }
    }

    fn check(&self, shown: &Documents, key: &PublicKey, when: When) -> Result<Proven, String> {
        let name = self.name();
        let proven = match self {
            Self::Aws(sources) => aws::check(shown.map(name)?, &keys(sources)?, when),
            Self::Gcp {
                keys: sources,
                audience,
            } => {
                let audience = key.audience(audience);
                gcp::check(shown.text(name)?, &keys(sources)?, &audience, when)
            }
            Self::Azure { certificates, host } => {
                let trusted = authorities(certificates)?;
                azure::check(shown.text(name)?, &trusted, host, &key.nonce(), when)
            }
        };
        proven.map_err(|error| error.to_string())
    }
}

/// The settings of a cloud: the one that names the customer, the others that are compared, and the
/// remaining ones.
type Words = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

fn words(cloud: &str) -> Option<Words> {
    Some(match cloud {
        "aws" => (
            "account",
            &["region", "availability_zone", "instance_type", "image"],
            &["certificates", "id"],
        ),
        "gcp" => (
            "project",
            &["project_number", "zone", "instance_name"],
            &["keys", "audience", "id"],
        ),
        "azure" => ("subscription", &["sku"], &["certificates", "host", "id"]),
        _ => return None,
    })
}

impl Condition {
    /// Reads `identity: {aws: {…}, max_age: 10m}`.
    ///
    /// # Errors
    /// When it makes no sense, does not name the customer whose instances are meant, or names files
    /// that cannot be read.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let map = value.as_map().ok_or("`identity` must be a dictionary")?;
        let mut clouds = map
            .iter()
            .filter(|(word, _)| word.as_str() != Some("max_age"));
        let (Some((name, cloud)), None) = (clouds.next(), clouds.next()) else {
            return Err("`identity` must have exactly one of aws, gcp and azure: write a rule for each cloud".to_owned());
        };
        let name = name.to_text();
        let words = words(&name).ok_or_else(|| {
            format!("unknown key {name:?} in `identity`: use aws, gcp, azure or max_age")
        })?;
        let cloud = cloud.as_map();
        let cloud = cloud.ok_or_else(|| format!("`{name}` must be a dictionary"))?;
        let condition = Self {
            cloud: Cloud::read(&name, cloud)?,
            max_age_s: max_age(map, &name)?,
            facts: facts(cloud, words)?,
            id: id(cloud, &name)?,
        };
        condition.cloud.try_sources()?;
        Ok(condition)
    }

    /// Returns the facts that a peer's document proves, if they meet the rule.
    pub(super) fn check(&self, peer: &Evidence, now_ms: u64) -> Result<Proven, String> {
        let when = When {
            now_s: i64::try_from(now_ms / 1000).unwrap_or(i64::MAX),
            max_age_s: self.max_age_s,
        };
        let proven = self.cloud.check(&peer.documents, &peer.key, when)?;
        self.fits(&proven, &peer.id)?;
        Ok(proven)
    }

    fn fits(&self, proven: &Proven, id: &Id) -> Result<(), String> {
        let of = |name: &str| proven.facts.get(name).and_then(Value::as_str);
        let instance = &proven.instance;
        for (name, wanted) in &self.facts {
            let found = of(name).unwrap_or_default();
            if !wanted.iter().any(|wanted| is_like(name, wanted, found)) {
                return Err(format!(
                    "{instance} has the {name} {found:?}, not {}",
                    wanted.join(" or ")
                ));
            }
        }
        match self.id.map(|name| (name, of(name).unwrap_or_default())) {
            Some((name, own)) if !holds(id.as_str(), own) => Err(format!(
                "the id must contain the {name} of {instance}, {own:?}"
            )),
            _ => Ok(()),
        }
    }
}

fn several(value: Option<&Value>) -> Vec<String> {
    match value {
        None | Some(Value::Null) => Vec::new(),
        Some(value) if value.as_list().is_some() => value.texts(),
        Some(value) => vec![value.to_text()],
    }
}

fn max_age(map: &Map, cloud: &str) -> Result<Option<i64>, String> {
    let given = map.get("max_age").map(milliseconds).transpose()?;
    let given = given.and_then(|ms| i64::try_from(ms / 1000).ok());
    Ok(given.or_else(|| (cloud == "aws").then_some(AWS_MAX_AGE_S)))
}

/// Reads the facts to compare. The rule must name the customer: every customer of the cloud has
/// documents with a valid signature.
fn facts(
    cloud: &Map,
    (whose, others, rest): Words,
) -> Result<Vec<(&'static str, Vec<String>)>, String> {
    let known = || others.iter().chain(rest).chain([&whose]);
    if let Some(word) = cloud
        .keys()
        .map(Value::to_text)
        .find(|word| !known().any(|known| known == word))
    {
        let known: Vec<&str> = known().copied().collect();
        return Err(format!("unknown key {word:?}: use {}", known.join(", ")));
    }
    let wanted = |name: &'static str| (name, several(cloud.get(name)));
    let facts: Vec<_> = std::iter::once(&whose)
        .chain(others)
        .map(|name| wanted(name))
        .collect();
    if facts.first().is_none_or(|(_, wanted)| wanted.is_empty()) {
        return Err(format!(
            "`{whose}` is missing: without it, documents of every customer of this cloud are valid"
        ));
    }
    if whose == "account" && several(cloud.get(whose)).iter().any(|id| !is_account(id)) {
        return Err("an `account` must have twelve digits: write it in quotes".to_owned());
    }
    let given = facts.into_iter().filter(|(_, wanted)| !wanted.is_empty());
    Ok(given.collect())
}

fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn id(map: &Map, cloud: &str) -> Result<Option<&'static str>, String> {
    let Some(given) = map.get("id").map(Value::to_text) else {
        return Ok(None);
    };
    match (given.as_str(), cloud) {
        ("instance_id", _) => Ok(Some("instance_id")),
        ("instance_name", "gcp") => Ok(Some("instance_name")),
        _ => Err(format!(
            "`id` must be instance_id, or instance_name for gcp, not {given:?}"
        )),
    }
}

/// Returns whether a fact is as wanted. The customer must be equal, with no glob: another customer
/// may have a project whose name matches the glob.
fn is_like(name: &str, wanted: &str, found: &str) -> bool {
    match name {
        "subscription" => wanted.eq_ignore_ascii_case(found),
        "account" | "project" | "project_number" => wanted == found,
        _ => value::glob::fnmatch(wanted, found),
    }
}

/// Returns whether an id is this name or contains it as a separate word: `web-i-0a1` contains
/// `i-0a1`, `web-i-0a12` does not.
fn holds(id: &str, name: &str) -> bool {
    let is_edge = |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric());
    let places = id.match_indices(name).filter(|_| !name.is_empty());
    places.into_iter().any(|(at, _)| {
        let (before, from) = id.split_at_checked(at).unwrap_or_default();
        let after = from.strip_prefix(name).unwrap_or_default();
        is_edge(before.chars().next_back()) && is_edge(after.chars().next())
    })
}

/// Binds the key to the proved facts, as the grain `identity`, which the minion cannot change.
pub(super) fn bind(bound: &mut Map, proven: &Proven) {
    let grains = bound.get("grains").and_then(Value::as_map).cloned();
    let grains = grains.unwrap_or_default();
    bound.insert("grains", grains.with("identity", proven.facts.clone()));
}

/// Returns the change that records an instance as used by this key.
///
/// # Errors
/// When another key that still exists has used the instance.
pub(super) fn used(
    store: &Store,
    proven: &Proven,
    peer: &Evidence,
    now_ms: u64,
) -> Result<Command, String> {
    let name = format!("{PREFIX}{}", proven.instance);
    let known = store.token(&name).map_err(|error| error.to_string())?;
    let row = Map::new()
        .with("id", peer.id.as_str())
        .with("key", peer.key.finger())
        .with("at_ms", now_ms);
    let is_same = |known: &Map| {
        ["id", "key"]
            .iter()
            .all(|word| known.get(word) == row.get(word))
    };
    if let Some(known) = known.as_ref().filter(|known| !is_same(known))
        && has_key(store, known)?
    {
        let text = |word: &str| known.get(word).map(Value::to_text).unwrap_or_default();
        return Err(format!(
            "{} is already accepted as {} with the key {}: delete that key to accept another one",
            proven.instance,
            text("id"),
            text("key")
        ));
    }
    Ok(Command::Token {
        name,
        data: Some(row),
        expected: known,
    })
}

/// Returns whether the key that a row names still exists.
fn has_key(store: &Store, row: &Map) -> Result<bool, String> {
    let text = |word: &str| row.get(word).and_then(Value::as_str).unwrap_or_default();
    let Ok(id) = text("id").parse::<Id>() else {
        return Ok(false);
    };
    let known = store.key(&id).map_err(|error| error.to_string())?;
    Ok(known.is_some_and(|known| known.key.finger() == text("key")))
}

/// Returns the changes that remove the rows of instances whose keys no longer exist.
fn forgotten(store: &Store) -> Result<Vec<Command>, String> {
    let mut gone = Vec::new();
    for token in store.tokens().map_err(|error| error.to_string())? {
        let (name, row) = token.map_err(|error| error.to_string())?;
        if name.starts_with(PREFIX) && !has_key(store, &row)? {
            gone.push(Command::Token {
                name,
                data: None,
                expected: Some(row),
            });
        }
    }
    Ok(gone)
}

impl Admission {
    /// Removes the rows of instances whose keys no longer exist. Otherwise the store of a fleet
    /// with short-lived instances would grow for years.
    pub(crate) async fn forget_instances(&self) {
        let _turn = self.enrolling.lock().await;
        let store = self.store.clone();
        let gone = smol::unblock(move || forgotten(&store)).await;
        let forgotten = match gone {
            Ok(gone) if gone.is_empty() => return,
            Ok(gone) => self.store.apply_in_batches(gone).await,
            Err(error) => Err(error),
        };
        if let Err(error) = forgotten {
            log::error(format_args!(
                "cannot remove instances without keys from the store: {error}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aws() -> Map {
        Map::new()
            .with("certificates", "/nowhere/aws.pem")
            .with("account", "123456789012")
    }

    fn refused(name: &str, cloud: Map) -> String {
        let value = Map::new().with(name, cloud);
        Condition::read(&value.into()).unwrap_err()
    }

    fn condition(cloud: &Map) -> Condition {
        Condition {
            cloud: Cloud::Aws(Vec::new()),
            max_age_s: None,
            facts: facts(cloud, words("aws").unwrap()).unwrap(),
            id: id(cloud, "aws").unwrap(),
        }
    }

    fn proven() -> Proven {
        Proven {
            instance: "aws/123456789012/i-0a1".to_owned(),
            facts: Map::new()
                .with("cloud", "aws")
                .with("instance_id", "i-0a1")
                .with("account", "123456789012")
                .with("region", "eu-central-1"),
        }
    }

    #[test]
    fn a_condition_that_makes_no_sense_or_trusts_everybody_is_refused() {
        let unknown = refused("aws", aws().with("acount", "1"));
        assert!(unknown.contains("unknown key \"acount\""), "{unknown}");
        let number = refused("aws", aws().with("account", 12));
        assert!(number.contains("twelve digits"), "{number}");
        for (name, cloud, missing) in [
            (
                "aws",
                Map::new().with("account", "123456789012"),
                "certificates",
            ),
            ("aws", Map::new().with("certificates", "/c"), "account"),
            ("gcp", Map::new().with("project", "p"), "keys"),
            ("gcp", Map::new().with("keys", "/k"), "project"),
            (
                "azure",
                Map::new().with("certificates", "/c"),
                "subscription",
            ),
        ] {
            let problem = refused(name, cloud);
            assert!(
                problem.contains(&format!("`{missing}` is missing")),
                "{problem}"
            );
        }
        assert!(refused("oracle", Map::new()).contains("oracle"));
        assert!(refused("aws", aws()).contains("/nowhere/aws.pem"));
        assert!(refused("aws", aws().with("id", "instance_name")).contains("`id` must be"));
        let two = Map::new().with("aws", aws()).with("gcp", Map::new());
        assert!(Condition::read(&two.into()).is_err());
        let bad = Map::new().with("aws", aws()).with("max_age", "soon");
        assert!(Condition::read(&bad.into()).unwrap_err().contains("soon"));
    }

    #[test]
    fn all_facts_must_be_as_the_rule_says() {
        let id: Id = "web-i-0a1".parse().unwrap();
        let fits = |cloud: Map| condition(&cloud).fits(&proven(), &id);
        assert_eq!(fits(aws()), Ok(()));
        assert_eq!(
            fits(aws().with("region", "eu-*").with("id", "instance_id")),
            Ok(())
        );
        let other = "999999999999";
        for (word, value, said) in [
            (
                "account",
                other,
                "has the account \"123456789012\", not 999999999999",
            ),
            ("region", "us-*", "has the region"),
            ("image", "ami-*", "has the image \"\""),
        ] {
            let problem = fits(aws().with(word, value)).unwrap_err();
            assert!(problem.contains(said), "{problem}");
        }
        let several = Value::list([other.into(), "123456789012".into()]);
        assert_eq!(fits(aws().with("account", several)), Ok(()));
        let stranger: Id = "web-i-0a12".parse().unwrap();
        let own = condition(&aws().with("id", "instance_id"));
        assert!(own.fits(&proven(), &stranger).is_err());
    }

    #[test]
    fn customers_are_compared_letter_by_letter() {
        assert!(is_like("project", "mine", "mine"));
        assert!(!is_like("project", "mine*", "mine-evil"));
        assert!(is_like("zone", "us-*", "us-central1-a"));
        assert!(is_like("subscription", "8D10", "8d10"));
    }

    #[test]
    fn an_id_holds_a_name_as_a_part_of_its_own() {
        for id in ["i-0a1", "web-i-0a1", "i-0a1.example.org", "i-0a12_i-0a1"] {
            assert!(holds(id, "i-0a1"), "{id}");
        }
        for id in ["i-0a12", "wi-0a1", "web", ""] {
            assert!(!holds(id, "i-0a1"), "{id}");
        }
        assert!(!holds("web", ""));
    }

    #[test]
    fn documents_are_bounded_and_never_shown() {
        let long = "x".repeat(EVIDENCE_MAX + 1);
        let documents = Documents::new(
            &Map::new()
                .with("gcp", long.as_str())
                .with("aws", Map::new().with("document", long.as_str())),
        );
        assert!(documents.text("gcp").unwrap_err().contains("the limit is"));
        assert!(documents.map("aws").unwrap_err().contains("the limit is"));
        assert!(documents.map("gcp").is_err() && documents.text("aws").is_err());
        assert_eq!(format!("{documents:?}"), "***");
    }
}
