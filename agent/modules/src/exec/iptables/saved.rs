//! Parses the output of `iptables-save` into Salt's form.

use python::shlex;
use state::module::Error;
use value::{Map, Value};

/// The long names of short options, and of long options that Salt calls differently.
const NAMES: [(&str, &str); 18] = [
    ("-c", "set-counters"),
    ("-d", "destination"),
    ("-f", "fragment"),
    ("-g", "goto"),
    ("-i", "in-interface"),
    ("-j", "jump"),
    ("-m", "match"),
    ("-o", "out-interface"),
    ("-p", "protocol"),
    ("-s", "source"),
    ("--destination-port", "destination_port"),
    ("--dport", "destination_port"),
    ("--dports", "destination-ports"),
    ("--dst-cc", "destination-country"),
    ("--source-port", "source_port"),
    ("--sport", "source_port"),
    ("--sports", "source-ports"),
    ("--src-cc", "source-country"),
];

/// Returns tables of chains, each with its policy, counters and rules.
pub(super) fn parsed(text: &str) -> Result<Map, Error> {
    let mut tables = Map::new();
    let mut table = Map::new();
    let mut name = "";
    for line in text.lines() {
        if let Some(next) = line.strip_prefix('*') {
            (table, name) = (Map::new(), next);
        } else if let Some(chain) = line.strip_prefix(':') {
            let (chain, about) = declared(chain).ok_or_else(|| not_understood(line))?;
            table.insert(chain, about);
        } else if line.starts_with("-A") {
            add(&mut table, line)?;
        } else if line == "COMMIT" {
            tables.insert(name, std::mem::take(&mut table));
        }
    }
    Ok(tables)
}

fn not_understood(line: &str) -> Error {
    format!("cannot parse the iptables-save line: {line}").into()
}

/// Parses the declaration of a chain, such as `INPUT ACCEPT [10:840]`.
fn declared(line: &str) -> Option<(&str, Map)> {
    let mut words = line.split_whitespace();
    let (chain, policy) = (words.next()?, words.next()?);
    let (packets, bytes) = words.next()?.trim_matches(['[', ']']).split_once(':')?;
    let about = Map::new().with("policy", policy);
    let about = about
        .with("packet count", packets)
        .with("byte count", bytes);
    let about = about.with("rules", Vec::<Value>::new());
    Some((chain, about.with("rules_comment", Map::new())))
}

/// Adds one rule: its options, each with a list of its values.
fn add(table: &mut Map, line: &str) -> Result<(), Error> {
    let words = shlex::split(line)?;
    let mut words = words.iter().map(String::as_str).skip(1).peekable();
    let chain = words.next().unwrap_or_default();
    let mut rule = Map::new();
    while let Some(word) = words.next() {
        let negated = word == "!" && words.peek().is_some_and(|next| next.starts_with('-'));
        let option = if negated {
            words.next().unwrap_or_default()
        } else {
            word
        };
        let mut value: Vec<&str> = if negated { vec!["!"] } else { Vec::new() };
        while let Some(next) = words.next_if(|next| *next != "!" && !next.starts_with('-')) {
            value.push(next);
        }
        let short = NAMES.iter().find(|(short, _)| *short == option);
        let name = short.map_or_else(|| option.trim_start_matches('-'), |(_, name)| name);
        let all = rule.entry(name, || Vec::<Value>::new().into());
        if let Some(all) = all.as_list_mut() {
            all.push(value.join(" ").into());
        }
    }
    let about = table.get_mut(chain).and_then(Value::as_map_mut);
    let about = about.ok_or_else(|| not_understood(line))?;
    let comment = rule.get("comment").and_then(|all| all.as_list()?.first());
    if let Some(comment) = comment.map(Value::to_text) {
        let comments = about.get_mut("rules_comment").and_then(Value::as_map_mut);
        if let Some(comments) = comments {
            comments.insert(comment.trim_matches('"'), rule.clone());
        }
    }
    if let Some(rules) = about.get_mut("rules").and_then(Value::as_list_mut) {
        rules.push(rule.into());
    }
    Ok(())
}
