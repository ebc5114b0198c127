//! Builds the text of a rule from arguments, and normalizes rules for comparison.

use state::module::Error;
use value::{Map, Value, python};

use super::family;

/// Returns the normal form of a rule, in which equal rules have the same text. The program writes
/// names in quotes, counters with their counts, and sets in a different order.
pub(super) fn normal(rule: &str) -> String {
    let rule = rule.replace('"', "");
    let mut out: Vec<String> = Vec::new();
    for (number, part) in rule.split('{').enumerate() {
        let (set, rest) = match part.split_once('}') {
            Some((set, rest)) if number > 0 => (Some(set), rest),
            _ => (None, part),
        };
        if let Some(set) = set {
            let mut items: Vec<&str> = set.split(',').map(str::trim).collect();
            items.sort_unstable();
            out.push(items.join(","));
        }
        out.extend(
            rest.split_whitespace()
                .filter(|word| *word != "meta")
                .map(str::to_owned),
        );
    }
    while let Some(place) = out.windows(4).position(|it| {
        matches!(it, [counter, packets, _, bytes] if counter == "counter" && packets == "packets" && bytes == "bytes")
    }) {
        out.drain(place + 1..(place + 5).min(out.len()));
    }
    // Several words with commas between them are a set without its braces.
    out.join(" ").replace(", ", ",")
}

/// The parts of a rule: the names of the argument, and the words of the part, where `@` is replaced
/// by the value and `%` by the family.
const PARTS: [(&[&str], &str); 9] = [
    (&["if"], "meta iifname @"),
    (&["of"], "meta oifname @"),
    (&["connstate"], "ct state { @ }"),
    (&["icmp-type"], "icmp type { @ }"),
    (&["icmpv6-type"], "icmpv6 type { @ }"),
    (&["pkttype"], "meta pkttype { @ }"),
    (&["counter"], "counter"),
    (&["saddr", "source"], "% saddr @"),
    (&["daddr", "destination"], "% daddr @"),
];

/// The parts at the end of a rule.
const AFTER: [(&[&str], &str); 7] = [
    (&["jump"], "@"),
    (&["j"], "@"),
    (&["redirect-to", "to-port"], "redirect to @"),
    (&["to-ports"], "--to-ports @"),
    (&["to-source"], "@"),
    (&["to-destination"], "@"),
    (&["reject-with"], "reject with @"),
];

/// Returns the rule for the arguments, and the arguments that cannot be part of a rule.
///
/// # Errors
/// When the family is unknown, or a list of ports contains something else.
pub(crate) fn built(mut args: Map, name: &str) -> Result<(String, Vec<String>), Error> {
    let family = family(name)?;
    if let Some(target) = args.remove("target") {
        args.insert("jump", target);
    }
    args.retain(|key, _| !state::low::is_internal(key.as_str().unwrap_or_default()));
    for ours in [
        "chain",
        "save",
        "table",
        "state",
        "position",
        "match",
        "comment",
        "save_filename",
    ] {
        args.remove(ours);
    }
    let proto = args
        .remove("proto")
        .map(|proto| python::str(&proto))
        .unwrap_or_default();
    let mut words = Vec::new();
    let take = |args: &mut Map, words: &mut Vec<String>, (names, text): (&[&str], &str)| {
        let given: Vec<Value> = names.iter().filter_map(|name| args.remove(name)).collect();
        let value = given
            .iter()
            .find(|value| value.is_true())
            .or_else(|| given.first());
        words
            .extend(value.map(|value| text.replace('%', family).replace('@', &python::str(value))));
    };
    for part in PARTS {
        take(&mut args, &mut words, part);
    }
    for side in ["dport", "sport"] {
        let port = args
            .remove(side)
            .map(|port| python::str(&port).replace(':', "-"));
        words.extend(port.map(|port| format!("{side} {{ {port} }}")));
    }
    for (name, side) in [("dports", "dport"), ("sports", "sport")] {
        if let Some(ports) = args.remove(name) {
            let ports = match ports.as_list() {
                Some(_) => ports.texts(),
                None => python::str(&ports).split(',').map(str::to_owned).collect(),
            };
            let numbers = ports.iter().map(|port| port.trim().parse::<u16>());
            let numbers: Result<Vec<u16>, _> = numbers.collect();
            let mut numbers = numbers.map_err(|_| {
                format!(
                    "{name}: expected comma-separated numbers, got {}",
                    ports.join(",")
                )
            })?;
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            let numbers: Vec<String> = numbers.iter().map(u16::to_string).collect();
            words.push(format!("{side} {{ {} }}", numbers.join(", ")));
        }
    }
    for part in AFTER {
        take(&mut args, &mut words, part);
    }
    let rule = words.join(" ").trim().to_owned();
    let rule = rule.replace("dport", &format!("{proto} dport"));
    let rule = rule.replace("sport", &format!("{proto} sport"));
    Ok((rule, args.keys().map(Value::to_text).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rule_is_one_text() {
        let listed =
            "\t\tiifname \"eth0\" ct state { established, new } counter packets 0 bytes 0 accept";
        let given = "meta iifname eth0 ct state { new,established } counter accept";
        assert_eq!(normal(listed), normal(given));
        assert_eq!(
            normal("tcp dport 22 accept"),
            normal("tcp dport { 22 } accept")
        );
        assert_ne!(
            normal("tcp dport 22 accept"),
            normal("ip saddr 10.0.0.1 tcp dport 22 accept")
        );
        assert_ne!(
            normal("tcp dport 22 counter accept"),
            normal("tcp dport 22 accept")
        );
    }
}
