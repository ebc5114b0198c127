//! The target matcher: reports whether a minion matches `web*`, `G@os:Debian and not I@role:db`, a
//! network or a list.

use crate::glob::fnmatch;
use crate::hint::nearest;
use crate::networks::Network;
use crate::pyre::{Anchor, Flags, Regex, Subject};
use crate::{Map, Value, log};

/// The data of the minion that a target is matched against.
pub trait Facts {
    /// Returns the minion's id.
    fn id(&self) -> &str;

    /// Returns the minion's grains.
    fn grains(&self) -> Map;

    /// Returns the minion's pillar.
    ///
    /// # Errors
    /// When the pillar cannot be obtained. Missing data is an error, never an empty pillar.
    fn pillar(&self) -> Result<Map, String>;

    /// Returns the nodegroups of the configuration.
    fn nodegroups(&self) -> Map;
}

/// The ways in which a target may compare pillar values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PillarMatch {
    /// With globs and regular expressions.
    #[default]
    Pattern,
    /// With whole values only, so that a caller cannot guess a value letter by letter.
    Exact,
}

/// The options of a match.
#[derive(Clone, Copy, Debug)]
pub struct MatchOptions<'a> {
    /// The text between the levels of grains and pillar.
    pub delimiter: &'a str,
    /// The permitted comparison of pillar values.
    pub pillar: PillarMatch,
}

impl Default for MatchOptions<'_> {
    fn default() -> Self {
        Self {
            delimiter: ":",
            pillar: PillarMatch::Pattern,
        }
    }
}

/// The error for a regular expression over pillar where only whole values may be compared.
const EXACT_ONLY: &str = "Pillar can only be matched by whole values: use pillar, pillar_exact or I@ instead of pillar_pcre or J@";

/// The maximum depth of nodegroups that name each other.
const NODEGROUP_DEPTH_MAX: usize = 32;

/// Returns true when the minion matches. An invalid target is logged with Salt's message and
/// matches no minion.
///
/// # Errors
/// When the pillar is needed and cannot be obtained, or the kind of target is unknown.
pub fn matches(facts: &dyn Facts, target: &Value, kind: &str) -> Result<bool, String> {
    matches_with(facts, target, kind, MatchOptions::default())
}

/// Like [`matches()`], with a delimiter and a rule for pillar. The administrator defines nodegroups,
/// so their definitions may always compare pillar with patterns.
///
/// # Errors
/// As [`matches()`], and when the target compares pillar in a way that is not permitted.
pub fn matches_with(
    facts: &dyn Facts,
    target: &Value,
    kind: &str,
    how: MatchOptions<'_>,
) -> Result<bool, String> {
    let text = target.to_text();
    let delimiter = how.delimiter;
    let is_exact = how.pillar == PillarMatch::Exact;
    Ok(match kind {
        "glob" => fnmatch(&text, facts.id()),
        "pcre" => regex(&text, facts.id()),
        "list" => in_list(facts.id(), target),
        "grain" => subdict(&facts.grains(), &text, delimiter, Compare::Glob),
        "grain_pcre" => subdict(&facts.grains(), &text, delimiter, Compare::Regex),
        "pillar" if !is_exact => subdict(&facts.pillar()?, &text, delimiter, Compare::Glob),
        "pillar_pcre" if is_exact => return Err(EXACT_ONLY.to_owned()),
        "pillar_pcre" => subdict(&facts.pillar()?, &text, delimiter, Compare::Regex),
        "pillar" | "pillar_exact" => subdict(&facts.pillar()?, &text, delimiter, Compare::Exact),
        "ipcidr" => in_network(&facts.grains(), &text),
        "nodegroup" => nodegroup(facts, &text)?,
        "compound" => compound(facts, &words(target), how.pillar)?,
        "compound_pillar_exact" => compound(facts, &words(target), PillarMatch::Exact)?,
        other => {
            return Err(format!(
                "Unknown target type '{other}': use glob, pcre, list, grain, grain_pcre, pillar, pillar_pcre, pillar_exact, ipcidr, nodegroup or compound"
            ));
        }
    })
}

fn words(target: &Value) -> Vec<String> {
    match target.as_list() {
        Some(items) => items.iter().map(Value::to_text).collect(),
        None => target
            .to_text()
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    }
}

fn in_list(id: &str, target: &Value) -> bool {
    match target.as_list() {
        Some(items) => items.iter().any(|item| item.as_str() == Some(id)),
        None => target.to_text().split(',').any(|item| item == id),
    }
}

fn regex(pattern: &str, text: &str) -> bool {
    match Regex::compiled(pattern, Flags::NONE, Subject::Text, Anchor::Start) {
        Ok(regex) => regex.is_match(text).unwrap_or(false),
        Err(_) => {
            log::error(format_args!("Invalid regex '{pattern}' in match"));
            false
        }
    }
}

fn in_network(grains: &Map, target: &str) -> bool {
    let Ok(network) = Network::parse(target, true) else {
        log::error(format_args!("Invalid IP/CIDR target: {target}"));
        return false;
    };
    let grain = if network.address.is_ipv4() {
        "ipv4"
    } else {
        "ipv6"
    };
    let addresses = grains
        .get(grain)
        .and_then(Value::as_list)
        .unwrap_or_default();
    addresses
        .iter()
        .filter_map(|address| address.as_str()?.parse().ok())
        .any(|address| network.contains(address))
}

fn nodegroup(facts: &dyn Facts, name: &str) -> Result<bool, String> {
    match expand(&facts.nodegroups(), name, 0) {
        Some(words) => compound(facts, &words, PillarMatch::Pattern),
        None => Ok(false),
    }
}

/// Returns the words of a nodegroup, in which the names of other groups are replaced by their
/// words.
fn expand(groups: &Map, name: &str, depth: usize) -> Option<Vec<String>> {
    let group = groups.get(name)?;
    if depth > NODEGROUP_DEPTH_MAX {
        log::error(format_args!(
            "Failed nodegroup expansion: nodegroup '{name}' contains itself"
        ));
        return None;
    }
    let is_list_of_ids = matches!(group, Value::List(items) if !items.iter().any(|item| item.to_text().contains(['@', ' '])));
    if is_list_of_ids {
        return Some(vec![format!("L@{}", words(group).join(","))]);
    }
    let mut out = vec!["(".to_owned()];
    for word in words(group) {
        match word.strip_prefix("N@") {
            Some(inner) => out.extend(expand(groups, inner, depth + 1)?),
            None => out.push(word),
        }
    }
    out.push(")".to_owned());
    Some(out)
}

/// An evaluated word of a compound target.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Token {
    Is(bool),
    And,
    Or,
    Not,
    Open,
    Close,
}

fn compound(facts: &dyn Facts, words: &[String], pillar: PillarMatch) -> Result<bool, String> {
    let groups = || facts.nodegroups();
    let mut term = |word: &str, pillar| term(facts, word, pillar);
    match evaluated(words, pillar, &groups, &mut term) {
        Ok(truth) => Ok(truth),
        Err(Invalid::Target(text)) => {
            log::error(text);
            Ok(false)
        }
        Err(Invalid::Other(error)) => Err(error),
    }
}

/// The reason why a compound target has no result.
enum Invalid {
    /// It is not well formed.
    Target(String),
    /// A term cannot be evaluated.
    Other(String),
}

/// Returns the result of a term of a compound target.
type Term<'a> = &'a mut dyn FnMut(&str, PillarMatch) -> Result<bool, Invalid>;

fn evaluated(
    words: &[String],
    pillar: PillarMatch,
    groups: &dyn Fn() -> Map,
    term: Term<'_>,
) -> Result<bool, Invalid> {
    let invalid = |text: String| Err(Invalid::Target(text));
    let mut tokens: Vec<Token> = Vec::new();
    let own = words.iter().rev().cloned();
    let mut words: Vec<(String, PillarMatch)> = own.map(|word| (word, pillar)).collect();
    while let Some((word, pillar)) = words.pop() {
        let operator = match word.as_str() {
            "and" => Token::And,
            "or" => Token::Or,
            "not" => Token::Not,
            "(" => Token::Open,
            ")" => Token::Close,
            _ => {
                if let Some(name) = word.strip_prefix("N@") {
                    let Some(group) = expand(&groups(), name, 0) else {
                        continue;
                    };
                    let group = group.into_iter().rev();
                    words.extend(group.map(|word| (word, PillarMatch::Pattern)));
                } else {
                    tokens.push(Token::Is(term(&word, pillar)?));
                }
                continue;
            }
        };
        match (tokens.last(), operator) {
            (Some(Token::Open), Token::And | Token::Or) => {
                return invalid(format!("Invalid beginning operator after \"(\": {word}"));
            }
            (None, Token::And | Token::Or | Token::Close) => {
                return invalid(format!("Invalid beginning operator: {word}"));
            }
            (Some(Token::Is(_) | Token::Not | Token::Close), Token::Not) => tokens.push(Token::And),
            _ => {}
        }
        tokens.push(operator);
    }
    let mut rest = tokens.as_slice();
    match either(&mut rest) {
        Some(truth) if rest.is_empty() => Ok(truth),
        _ => invalid("Invalid compound target".to_owned()),
    }
}

/// Evaluates a word with an engine (`G@`, `G|@`), or a glob.
fn term(facts: &dyn Facts, word: &str, pillar: PillarMatch) -> Result<bool, Invalid> {
    let (kind, delimiter, pattern) = parsed_term(word)?;
    let how = MatchOptions { delimiter, pillar };
    matches_with(facts, &pattern.into(), kind, how).map_err(Invalid::Other)
}

/// Returns the kind of a word of a compound target, its delimiter and its pattern.
fn parsed_term(word: &str) -> Result<(&'static str, &str, &str), Invalid> {
    let glob = ("glob", ":", word);
    let Some((engine, pattern)) = word.split_once('@') else {
        return Ok(glob);
    };
    let mut letters = engine.chars();
    let (Some(letter), delimiter) = (letters.next(), letters.as_str()) else {
        return Ok(glob);
    };
    if !letter.is_ascii_uppercase() || delimiter.chars().count() > 1 {
        return Ok(glob);
    }
    let kind = match letter {
        'G' => "grain",
        'P' => "grain_pcre",
        'I' => "pillar",
        'J' => "pillar_pcre",
        'L' => "list",
        'S' => "ipcidr",
        'E' => "pcre",
        _ => {
            return Err(Invalid::Target(format!(
                "Unrecognized target engine \"{letter}\" for target expression \"{word}\""
            )));
        }
    };
    let delimiter = if delimiter.is_empty() { ":" } else { delimiter };
    Ok((kind, delimiter, pattern))
}

/// Checks that a target is well formed, and that its nodegroups exist. A target that is not matches
/// no minion.
///
/// # Errors
/// If it is not: a text for the user.
pub fn check(target: &Value, kind: &str, groups: &Map) -> Result<(), String> {
    match kind {
        "compound" => check_compound(&words(target), groups),
        _ => check_pattern(&target.to_text(), kind, groups),
    }
}

fn check_pattern(text: &str, kind: &str, groups: &Map) -> Result<(), String> {
    match kind {
        "pcre" => match Regex::compiled(text, Flags::NONE, Subject::Text, Anchor::Start) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("'{text}' is not a regular expression: {error}")),
        },
        "ipcidr" => match Network::parse(text, true) {
            Ok(_) => Ok(()),
            Err(_) => Err(format!(
                "'{text}' is not an address or a network, such as 10.0.0.0/8"
            )),
        },
        "nodegroup" if !groups.contains(text) => {
            let names = groups.keys().filter_map(Value::as_str);
            let near = nearest(text, names).map(|near| format!("; did you mean '{near}'?"));
            let near = near.unwrap_or_default();
            Err(format!("the option nodegroups has no group '{text}'{near}"))
        }
        _ => Ok(()),
    }
}

fn check_compound(words: &[String], groups: &Map) -> Result<(), String> {
    for name in words.iter().filter_map(|word| word.strip_prefix("N@")) {
        check_pattern(name, "nodegroup", groups)?;
    }
    let mut term = |word: &str, _: PillarMatch| {
        let (kind, _, pattern) = parsed_term(word)?;
        check_pattern(pattern, kind, groups).map_err(Invalid::Target)?;
        Ok(true)
    };
    let known = || groups.clone();
    match evaluated(words, PillarMatch::Pattern, &known, &mut term) {
        Ok(_) => Ok(()),
        Err(Invalid::Target(text) | Invalid::Other(text)) => {
            let operators = ["and", "or", "not"];
            let near = words
                .iter()
                .find_map(|word| Some((word, nearest(word, operators)?)));
            Err(match near {
                Some((word, near)) => format!("{text}; did you mean '{near}' instead of '{word}'?"),
                None => format!(
                    "{text}; there must be `and` or `or` between two terms, and spaces around parentheses"
                ),
            })
        }
    }
}

fn either(tokens: &mut &[Token]) -> Option<bool> {
    let mut truth = both(tokens)?;
    while let [Token::Or, rest @ ..] = tokens {
        *tokens = rest;
        truth |= both(tokens)?;
    }
    Some(truth)
}

fn both(tokens: &mut &[Token]) -> Option<bool> {
    let mut truth = single(tokens)?;
    while let [Token::And, rest @ ..] = tokens {
        *tokens = rest;
        truth &= single(tokens)?;
    }
    Some(truth)
}

fn single(tokens: &mut &[Token]) -> Option<bool> {
    let (first, rest) = tokens.split_first()?;
    *tokens = rest;
    match first {
        Token::Is(truth) => Some(*truth),
        Token::Not => single(tokens).map(|truth| !truth),
        Token::Open => {
            let truth = either(tokens)?;
            let (Token::Close, rest) = tokens.split_first()? else {
                return None;
            };
            *tokens = rest;
            Some(truth)
        }
        _ => None,
    }
}

/// The comparison of a value with the last part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Glob,
    Regex,
    Exact,
}

impl Compare {
    fn holds(self, pattern: &str, leaf: &Value) -> bool {
        let (pattern, leaf) = (pattern.to_lowercase(), leaf.to_text().to_lowercase());
        match self {
            Self::Glob => fnmatch(&pattern, &leaf),
            Self::Regex => regex(&pattern, &leaf),
            Self::Exact => pattern == leaf,
        }
    }
}

/// Evaluates Salt's `subdict_match` with globs, on a dictionary, or on a list whose items are named
/// by index.
#[must_use]
pub fn subdict_match(data: &Value, expression: &str) -> bool {
    if let Some(map) = data.as_map() {
        return subdict(map, expression, ":", Compare::Glob);
    }
    let Some((number, rest)) = expression.split_once(':') else {
        return false;
    };
    let item = number.parse().ok();
    let item = item.and_then(|at: usize| data.as_list()?.get(at));
    item.is_some_and(|item| match item {
        Value::Map(map) => in_map(map, rest, Compare::Glob),
        leaf => Compare::Glob.holds(rest, leaf),
    })
}

/// Evaluates Salt's `subdict_match`: `a:b:c` is `data[a][b] == c` or `data[a] == b:c`; the deepest
/// path is tried first.
fn subdict(data: &Map, expression: &str, delimiter: &str, compare: Compare) -> bool {
    let parts: Vec<&str> = expression.split(delimiter).collect();
    (1..parts.len()).rev().any(|split| {
        let (key, rest) = parts.split_at(split);
        let (key, rest) = (key.join(delimiter), rest.join(delimiter));
        if key == "*" {
            return in_map(data, expression, compare);
        }
        let whole = Value::Map(data.clone());
        match whole.traverse(&key, delimiter) {
            None => false,
            Some(Value::Map(found)) => !found.is_empty() && in_map(found, &rest, compare),
            Some(Value::List(items) | Value::Tuple(items)) => items.iter().any(|item| {
                item.as_map()
                    .is_some_and(|item| in_map(item, &rest, compare))
                    || compare.holds(&rest, item)
            }),
            Some(leaf) => compare.holds(&rest, leaf),
        }
    })
}

fn in_map(map: &Map, pattern: &str, compare: Compare) -> bool {
    let (wildcard, pattern) = pattern
        .strip_prefix("*:")
        .map_or((false, pattern), |rest| (true, rest));
    if pattern == "*" || map.contains(pattern) || map.keys().any(|key| compare.holds(pattern, key))
    {
        return true;
    }
    if subdict(map, pattern, ":", compare) {
        return true;
    }
    wildcard
        && map.values().any(|value| match value {
            Value::Map(inner) => in_map(inner, pattern, compare),
            Value::List(items) => items.iter().any(|item| compare.holds(pattern, item)),
            leaf => compare.holds(pattern, leaf),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestFacts;

    impl Facts for TestFacts {
        fn id(&self) -> &str {
            "web1.example.org"
        }

        fn grains(&self) -> Map {
            crate::json::read(r#"{"os": "Debian", "roles": ["web", "db"], "ipv4": ["10.1.2.3"], "ip": {"eth0": ["10.1.2.3"]}}"#)
                .unwrap()
                .as_map()
                .unwrap()
                .clone()
        }

        fn pillar(&self) -> Result<Map, String> {
            Err("no pillar here".into())
        }

        fn nodegroups(&self) -> Map {
            Map::new()
                .with("front", "web* and G@os:Debian")
                .with("all", vec!["N@front", "or", "db*"])
        }
    }

    #[test]
    fn targets_match_as_salts_matchers_do() {
        for (kind, target, want) in [
            ("glob", "web*", true),
            ("glob", "db*", false),
            ("pcre", "web\\d", true),
            ("list", "a,web1.example.org", true),
            ("grain", "os:deb*", true),
            ("grain", "roles:db", true),
            ("grain", "ip:eth0:10.*", true),
            ("grain", "os", false),
            ("grain_pcre", "os:(debian|ubuntu)", true),
            ("ipcidr", "10.1.0.0/16", true),
            ("ipcidr", "10.1.2.3", true),
            ("ipcidr", "10.1.2.3/16", false),
            ("nodegroup", "front", true),
            ("nodegroup", "all", true),
            ("compound", "G@os:Debian and not E@db.*", true),
            ("compound", "( web* or db* ) and not G@roles:web", false),
            ("compound", "not db* and web*", true),
            ("compound", "web* not db*", true),
            ("compound", "and web*", false),
            ("compound", "X@foo", false),
            ("compound", "G|@os|Debian and S@10.1.0.0/16", true),
            ("compound", "N@front", true),
        ] {
            assert_eq!(
                matches(&TestFacts, &target.into(), kind),
                Ok(want),
                "{kind} {target}"
            );
        }
    }

    /// A minion whose pillar contains a secret.
    struct Secret;

    impl Facts for Secret {
        fn id(&self) -> &str {
            "db1"
        }

        fn grains(&self) -> Map {
            Map::new()
        }

        fn pillar(&self) -> Result<Map, String> {
            Ok(Map::new().with("word", "hush"))
        }

        fn nodegroups(&self) -> Map {
            Map::new().with("quiet", "I@word:h* and J@word:h.*")
        }
    }

    #[test]
    fn pillar_is_compared_as_a_whole_in_every_spelling() {
        let exact = MatchOptions {
            pillar: PillarMatch::Exact,
            ..MatchOptions::default()
        };
        let matched = |kind: &str, target: &str| matches_with(&Secret, &target.into(), kind, exact);
        for (kind, target, want) in [
            ("pillar", "word:hush", true),
            ("pillar", "word:h*", false),
            ("pillar_exact", "word:h*", false),
            ("compound", "I@word:hush", true),
            ("compound", "I@word:h*", false),
            ("compound", "I|@word|h*", false),
            ("compound", "db* and ( not I@word:h* )", true),
            ("compound_pillar_exact", "I@word:h*", false),
            // The administrator's nodegroups may use patterns.
            ("nodegroup", "quiet", true),
            ("compound", "N@quiet and I@word:h*", false),
            ("compound", "N@quiet and not I@word:h*", true),
        ] {
            assert_eq!(matched(kind, target), Ok(want), "{kind} {target}");
        }
        for (kind, target) in [
            ("pillar_pcre", "word:h.*"),
            ("compound", "J@word:h.*"),
            ("compound", "db* and not J|@word|h.*"),
            ("compound_pillar_exact", "J@word:h.*"),
        ] {
            assert_eq!(
                matched(kind, target),
                Err(EXACT_ONLY.into()),
                "{kind} {target}"
            );
        }
        assert_eq!(matches(&Secret, &"word:h*".into(), "pillar"), Ok(true));
        assert_eq!(matches(&Secret, &"J@word:h.*".into(), "compound"), Ok(true));
    }

    #[test]
    fn a_pillar_that_cannot_be_had_is_an_error_and_not_a_mismatch() {
        assert!(matches(&TestFacts, &"I@role:db".into(), "compound").is_err());
        assert!(matches(&TestFacts, &"x".into(), "weather").is_err());
    }

    #[test]
    fn targets_that_are_not_well_formed_are_reported() {
        let groups = Map::new().with("web", "web*");
        let wrong = |target: &str, kind: &str| check(&target.into(), kind, &groups).unwrap_err();
        assert_eq!(
            wrong("web* adn db*", "compound"),
            "Invalid compound target; did you mean 'and' instead of 'adn'?"
        );
        assert!(wrong("( web* or db*", "compound").starts_with("Invalid compound target; there"));
        assert!(wrong("and web*", "compound").starts_with("Invalid beginning operator: and"));
        assert!(wrong("X@a", "compound").starts_with("Unrecognized target engine \"X\""));
        assert_eq!(
            wrong("N@wbe and db*", "compound"),
            "the option nodegroups has no group 'wbe'; did you mean 'web'?"
        );
        assert!(wrong("wbe", "nodegroup").ends_with("did you mean 'web'?"));
        assert!(wrong("web[", "pcre").starts_with("'web[' is not a regular expression"));
        assert!(wrong("E@web[ and a", "compound").starts_with("'web[' is not a regular"));
        assert!(wrong("10.0.0/8", "ipcidr").starts_with("'10.0.0/8' is not an address"));
        for (target, kind) in [
            ("web* and not ( G@os:Debian or N@web )", "compound"),
            ("not db1", "compound"),
            ("web", "nodegroup"),
            ("web[", "glob"),
            ("10.0.0.0/8", "ipcidr"),
        ] {
            assert_eq!(check(&target.into(), kind, &groups), Ok(()), "{target}");
        }
    }
}
