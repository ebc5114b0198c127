//! The option `autosign_policy`: a list of rules, each with conditions that must all hold. The
//! first rule that holds decides.

use std::net::IpAddr;

use link::PublicKey;
use state::opts::Opts;
use value::networks::Network;
use value::{Map, Value, log};
use wire::Id;

use super::autosign::matches;
use super::identity::{Condition, Documents};

/// The rules of a master.
#[derive(Debug, Default)]
pub(crate) struct Policy(Vec<Rule>);

/// The action that a rule takes on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Accept,
    Pend,
    Reject,
}

/// A rule. It holds if all of its conditions hold.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The name in logs, and the name under which the rule's count is stored.
    pub(super) name: String,
    id: Vec<String>,
    networks: Vec<Network>,
    /// True if the peer must show a token that is good for its id.
    pub(super) token: bool,
    fingers: Vec<String>,
    grains: Map,
    /// The facts that a cloud must have signed. They are checked last, when all other conditions
    /// hold.
    pub(super) identity: Option<Condition>,
    /// True if the key is bound to the facts of the document.
    pub(super) binds_identity: bool,
    /// The maximum number of keys that the rule accepts, and the period in milliseconds.
    pub(super) max: Option<(u64, u64)>,
    pub(super) action: Action,
    /// The properties that the key is bound to.
    pub(super) bound: Map,
}

/// The facts about a peer whose key waits.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    pub(super) id: Id,
    pub(super) key: PublicKey,
    pub(super) address: IpAddr,
    /// The grains that the peer reports.
    pub(super) grains: Map,
    pub(super) token: Option<wire::Secret>,
    /// The documents about the peer that others have signed.
    pub(super) documents: Documents,
}

impl Evidence {
    /// Returns the peer's name in logs.
    pub(super) fn name(&self) -> String {
        format!("{} (key {})", self.id, self.key)
    }
}

/// The keys that a rule may have.
const WORDS: [&str; 14] = [
    "name",
    "id",
    "network",
    "token",
    "identity",
    "bind_identity",
    "key_fingerprint",
    "grains",
    "max",
    "action",
    "role",
    "bind_grains",
    "pillar",
    "expire",
];

impl Rule {
    /// Returns whether a peer that the rule accepts has proved something that no other peer can.
    pub(super) fn proves(&self) -> bool {
        self.token || self.identity.is_some() || !self.fingers.is_empty()
    }
}

impl Policy {
    /// Reads the rules of the configuration.
    ///
    /// # Errors
    /// When a rule makes no sense. A misread rule could accept keys that the administrator did not
    /// mean.
    pub(crate) fn read(opts: &Opts) -> Result<Self, String> {
        let rules = match opts.get("autosign_policy") {
            None | Some(Value::Null) => return Ok(Self::default()),
            Some(rules) => rules.as_list().ok_or("expected a list of rules")?,
        };
        let mut all = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let number = at + 1;
            let map = rule.as_map().ok_or("a rule must be a dictionary");
            let read = map
                .map_err(str::to_owned)
                .and_then(|map| rule_of(map, number));
            all.push(read.map_err(|problem| format!("rule {number}: {problem}"))?);
        }
        Ok(Self(all))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rules whose conditions hold, apart from documents and counts. `has_token` is
    /// true if the peer has shown a good token.
    pub(super) fn holding<'a>(
        &'a self,
        evidence: &'a Evidence,
        has_token: bool,
    ) -> impl Iterator<Item = &'a Rule> {
        let holds = move |rule: &&Rule| rule.holds(evidence) && (!rule.token || has_token);
        self.0.iter().filter(holds)
    }
}

impl Rule {
    fn holds(&self, peer: &Evidence) -> bool {
        let ip = peer.address.to_canonical();
        let id = || self.id.iter().any(|id| matches(id, peer.id.as_str()));
        let network = || self.networks.iter().any(|network| network.contains(ip));
        let (finger, key) = (peer.key.finger(), peer.key.to_string());
        let is_key = |known: &String| known.eq_ignore_ascii_case(&finger) || *known == key;
        let grain = |(name, wanted): (&Value, &Value)| {
            let given = peer.grains.get(&name.to_text()).map(Value::to_text);
            given.is_some_and(|given| matches(&wanted.to_text(), &given))
        };
        (self.id.is_empty() || id())
            && (self.networks.is_empty() || network())
            && (self.fingers.is_empty() || self.fingers.iter().any(is_key))
            && self.grains.iter().all(grain)
    }

    fn has_conditions(&self) -> bool {
        !(self.id.is_empty() && self.networks.is_empty() && self.fingers.is_empty())
            || self.token
            || self.identity.is_some()
            || !self.grains.is_empty()
    }
}

fn rule_of(map: &Map, number: usize) -> Result<Rule, String> {
    if let Some(word) = map
        .keys()
        .find(|key| !WORDS.contains(&key.to_text().as_str()))
    {
        let known = WORDS.join(", ");
        return Err(format!("unknown key {:?}: use {known}", word.to_text()));
    }
    let texts = |word: &str| map.get(word).map(several).unwrap_or_default();
    let networks = texts("network").into_iter();
    let networks = networks.map(|text| Network::parse(&text, false));
    let rule = Rule {
        name: map
            .get("name")
            .map_or_else(|| format!("#{number}"), Value::to_text),
        id: texts("id"),
        networks: networks.collect::<Result<_, _>>()?,
        token: map.get("token").is_some_and(Value::is_true),
        fingers: texts("key_fingerprint"),
        grains: dictionary(map, "grains")?,
        identity: map.get("identity").map(Condition::read).transpose()?,
        binds_identity: map.get("bind_identity").is_some_and(Value::is_true),
        max: map.get("max").map(max).transpose()?,
        action: action(map)?,
        bound: bound(map)?,
    };
    if rule.action == Action::Accept && !rule.has_conditions() {
        return Err("it accepts every key: give it a condition, or use auto_accept instead".into());
    }
    if rule.binds_identity && rule.identity.is_none() {
        return Err("`bind_identity` needs `identity`".into());
    }
    if !rule.grains.is_empty() && rule.action == Action::Accept {
        log::info(format_args!(
            "autosign_policy: the rule {} trusts grains, which minions report themselves",
            rule.name
        ));
    }
    Ok(rule)
}

fn several(value: &Value) -> Vec<String> {
    match value.as_list() {
        Some(_) => value.texts(),
        None => vec![value.to_text()],
    }
}

fn dictionary(map: &Map, word: &str) -> Result<Map, String> {
    match map.get(word) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Map(map)) => Ok(map.clone()),
        Some(_) => Err(format!("`{word}` must be a dictionary")),
    }
}

fn action(map: &Map) -> Result<Action, String> {
    match map.get("action").map(Value::to_text).as_deref() {
        None | Some("accept") => Ok(Action::Accept),
        Some("pend") => Ok(Action::Pend),
        Some("reject") => Ok(Action::Reject),
        Some(other) => Err(format!(
            "unknown action {other:?}: use accept, pend or reject"
        )),
    }
}

/// Reads a `max` such as `20/1h` as a count and a period in milliseconds.
fn max(value: &Value) -> Result<(u64, u64), String> {
    let text = value.to_text();
    let wrong = || format!("invalid `max` {text:?}: write it like 20/1h");
    let (count, time) = text.split_once('/').ok_or_else(wrong)?;
    let count = count.trim().parse().map_err(|_| wrong())?;
    let period = milliseconds(&time.trim().into()).map_err(|_| wrong())?;
    Ok((count, period))
}

/// Returns the properties that a key accepted by a rule or a token is bound to: `role`, `grains`,
/// `pillar`, `expire`.
pub(crate) fn bound(map: &Map) -> Result<Map, String> {
    let mut bound = Map::new();
    if let Some(role) = map.get("role").filter(|role| !role.is_null()) {
        bound.insert("role", role.to_text());
    }
    for (word, name) in [("bind_grains", "grains"), ("pillar", "pillar")] {
        let map = dictionary(map, word)?;
        if !map.is_empty() {
            bound.insert(name, map);
        }
    }
    let mut expire = Map::new();
    for (word, time) in &dictionary(map, "expire")? {
        let word = word.to_text();
        if !matches!(word.as_str(), "after" | "disconnected") {
            let known = "after, disconnected";
            return Err(format!("unknown key {word:?} in `expire`: use {known}"));
        }
        expire.insert(word, milliseconds(time)?);
    }
    if !expire.is_empty() {
        bound.insert("expire", expire);
    }
    Ok(bound)
}

/// Reads a time as milliseconds: a number of seconds, or a number followed by `s`, `m`, `h` or `d`.
pub(crate) fn milliseconds(value: &Value) -> Result<u64, String> {
    let text = value.to_text();
    let wrong = || format!("invalid time {text:?}: write it like 90s, 10m, 2h or 1d");
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let seconds = match text.get(digits.len()..).unwrap_or_default() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    let time = number.checked_mul(seconds * 1000).filter(|time| *time > 0);
    time.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rule: Map) -> Result<Policy, String> {
        let rules = Value::list([rule.into()]);
        Policy::read(&Opts::new(Map::new().with("autosign_policy", rules)))
    }

    fn peer() -> Evidence {
        Evidence {
            id: "web-asg-1".parse().unwrap(),
            key: PublicKey::from_bytes([7; 32]),
            address: "10.0.0.9".parse().unwrap(),
            grains: Map::new().with("os", "Debian"),
            token: None,
            documents: Documents::default(),
        }
    }

    fn holds(rule: Map, has_token: bool) -> bool {
        let policy = read(rule).unwrap();
        policy.holding(&peer(), has_token).next().is_some()
    }

    #[test]
    fn all_conditions_of_a_rule_must_hold() {
        let rule = || {
            Map::new()
                .with("id", "web-asg-*")
                .with("network", "10.0.0.0/8")
        };
        assert!(holds(rule(), false));
        assert!(holds(
            rule().with("grains", Map::new().with("os", "Deb*")),
            false
        ));
        for (word, other) in [
            ("id", Value::from("db-*")),
            ("network", "192.168.0.0/16".into()),
            ("grains", Map::new().with("os", "Alpine").into()),
            ("grains", Map::new().with("cpus", 2).into()),
            ("key_fingerprint", "aa:bb".into()),
            ("token", true.into()),
        ] {
            assert!(!holds(rule().with(word, other), false), "{word}");
        }
        assert!(holds(rule().with("token", true), true));
        let own = peer().key.finger();
        assert!(holds(Map::new().with("key_fingerprint", own), false));
    }

    #[test]
    fn a_rule_that_makes_no_sense_is_refused() {
        for rule in [
            Map::new().with("idd", "web"),
            Map::new(),
            Map::new().with("role", "web"),
            Map::new().with("id", "x").with("action", "accpet"),
            Map::new().with("id", "x").with("max", "20"),
            Map::new().with("network", "10.0.0.0/99"),
            Map::new()
                .with("id", "x")
                .with("expire", Map::new().with("when", "1h")),
            Map::new()
                .with("id", "x")
                .with("expire", Map::new().with("after", "soon")),
            Map::new().with("id", "x").with("bind_identity", true),
            Map::new().with("id", "x").with("identity", true),
        ] {
            assert!(read(rule.clone()).is_err(), "{rule:?}");
        }
        assert!(read(Map::new().with("action", "reject")).is_ok());
    }

    #[test]
    fn times_are_read() {
        let of = |text: &str| milliseconds(&text.into()).ok();
        assert_eq!(of("90"), Some(90_000));
        assert_eq!(of("2h"), Some(7_200_000));
        assert_eq!(of("1d"), Some(86_400_000));
        for bad in ["", "h", "-1h", "0", "1y", "99999999999999999999d"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
