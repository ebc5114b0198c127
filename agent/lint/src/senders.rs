//! Finds the places where a template prints data that a minion has sent: data of the mine, and
//! event data in a reaction. The sender chooses the words, so they must pass a filter before they
//! become a configuration.
//!
//! The text of a template is read in order: `{% set %}` and `{% for %}` pass the data to other
//! names. Uncertain cases are not reported: a name that a condition tests, an expression with one
//! of the filters, and the ids of minions.

use std::collections::HashSet;

use state::opts::Opts;
use state::sources::Sources;

use crate::codes::code;
use crate::finding::Finding;
use crate::reactor;
use crate::samples::place;

/// The maximum length of a file, in bytes; longer ones are not checked.
const LENGTH_MAX: u64 = 1 << 20;

/// The filters after which none of a sender's words can have an effect in a file or an SLS.
const FILTERS: [&str; 32] = [
    "base64_encode",
    "count",
    "float",
    "hmac",
    "int",
    "ipaddr",
    "ipv4",
    "ipv6",
    "is_ip",
    "is_ipv4",
    "is_ipv6",
    "json",
    "length",
    "md5",
    "network_hosts",
    "network_size",
    "quote",
    "regex_match",
    "regex_replace",
    "regex_search",
    "sha1",
    "sha256",
    "sha512",
    "sum",
    "to_bool",
    "tojson",
    "uuid",
    "yaml_dquote",
    "yaml_encode",
    "yaml_squote",
    "random_hash",
    "which",
];

/// A tag of a template: its index in the text, and its contents.
struct Tag<'a> {
    at: usize,
    prints: bool,
    inside: &'a str,
}

/// Checks every template of a tree.
pub(crate) fn look(opts: &Opts, sources: &dyn Sources, findings: &mut Vec<Finding>) {
    let mut seen = HashSet::new();
    for saltenv in sources.environments().unwrap_or_default() {
        for path in sources.list(&saltenv).unwrap_or_default() {
            let Ok(Some(file)) = sources.file(&path, &saltenv) else {
                continue;
            };
            let is_short = file
                .path
                .metadata()
                .is_ok_and(|file| file.len() <= LENGTH_MAX);
            if !is_short || !seen.insert(file.path.clone()) {
                continue;
            }
            let name = path.trim_end_matches(".sls").replace('/', ".");
            let is_reaction = path.ends_with(".sls") && reactor::is_reaction(opts, &name);
            if let Ok(text) = sources.text(&file) {
                of_text(&text, &file.shown, is_reaction, findings);
            }
        }
    }
}

/// Checks one template.
fn of_text(text: &str, shown: &str, is_reaction: bool, findings: &mut Vec<Finding>) {
    if !is_reaction && !text.contains("mine.get") {
        return;
    }
    let tags = tags(text);
    let conditions: Vec<&str> = tags
        .iter()
        .filter(|tag| !tag.prints && (word(tag.inside, "if") || word(tag.inside, "elif")))
        .map(|tag| tag.inside)
        .collect();
    let mut names: HashSet<&str> = HashSet::new();
    if is_reaction {
        names.insert("data");
    }
    for tag in &tags {
        if !tag.prints {
            follow(tag.inside, &mut names);
            continue;
        }
        let subject = subject(tag.inside);
        let is_looked_at = conditions
            .iter()
            .any(|condition| condition.contains(subject));
        if is_sent(tag.inside, &names) && !is_looked_at {
            findings.push(finding(text, shown, tag, subject));
        }
    }
}

fn finding(text: &str, shown: &str, tag: &Tag<'_>, subject: &str) -> Finding {
    let before = text.get(..tag.at).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next());
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    let number = before.matches('\n').count() + 1;
    let place = place(shown, number, column, line.unwrap_or_default());
    let message =
        format!("`{subject}` is printed unfiltered, as a minion or another sender wrote it");
    Finding::at(code("W209"), place, message)
}

/// Marks the names of a `set` or `for` that receive sent data, and unmarks names that receive
/// anything else.
fn follow<'a>(tag: &'a str, names: &mut HashSet<&'a str>) {
    if let Some((targets, value)) = tag.strip_prefix("set ").and_then(|set| set.split_once('=')) {
        let is_sent = is_sent(value.trim(), names);
        mark(targets.trim(), is_sent, names);
    }
    let Some((targets, value)) = tag
        .strip_prefix("for ")
        .and_then(|tag| tag.split_once(" in "))
    else {
        return;
    };
    let value = value.trim();
    let has_pairs = value.contains("dictsort") || value.contains(".items()");
    let is_sent = is_sent(value, names);
    // The keys of mine data are ids, which minions cannot choose freely.
    let gives_ids = is_mine(value) && !value.contains(".values()");
    match targets.split_once(',') {
        Some((first, rest)) if has_pairs => {
            mark(first.trim(), is_sent && !gives_ids, names);
            mark(rest.trim(), is_sent, names);
        }
        Some(_) => targets
            .split(',')
            .for_each(|name| mark(name.trim(), is_sent, names)),
        None => mark(targets.trim(), is_sent && !gives_ids, names),
    }
}

fn mark<'a>(name: &'a str, is_sent: bool, names: &mut HashSet<&'a str>) {
    match is_sent {
        true => names.insert(name),
        false => names.remove(name),
    };
}

fn is_mine(value: &str) -> bool {
    ["salt['mine.get'](", "salt[\"mine.get\"](", "salt.mine.get("]
        .iter()
        .any(|call| value.starts_with(call))
}

/// Returns whether an expression is sent data without a filter that makes it harmless.
fn is_sent(value: &str, names: &HashSet<&str>) -> bool {
    let subject = subject(value);
    let root = subject.split(['.', '[']).next().unwrap_or_default();
    let is_id = ["data['id']", "data[\"id\"]", "data.id"].contains(&subject);
    let is_filtered = value.split('|').skip(1).any(|filter| {
        let filter = filter.trim().split(['(', ' ', ')']).next();
        filter.is_some_and(|name| FILTERS.contains(&name))
    });
    let is_plain = !value.contains(" if ") && !value.contains('~') && !value.contains('+');
    (is_mine(value) || names.contains(root) && !is_id) && !is_filtered && is_plain
}

/// Returns the part of an expression before its first filter.
fn subject(value: &str) -> &str {
    value.split('|').next().unwrap_or_default().trim()
}

fn word(tag: &str, word: &str) -> bool {
    tag.strip_prefix(word)
        .is_some_and(|rest| rest.starts_with([' ', '(']))
}

/// Returns the tags of a text, without comments.
fn tags(text: &str) -> Vec<Tag<'_>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(open) = text.get(from..).and_then(|rest| rest.find('{')) {
        let at = from + open;
        let rest = text.get(at..).unwrap_or_default();
        let (end, is_kept) = match rest.as_bytes().get(1) {
            Some(b'#') => ("#}", false),
            Some(b'{') => ("}}", true),
            Some(b'%') => ("%}", true),
            _ => {
                from = at + 1;
                continue;
            }
        };
        let Some(length) = rest.find(end) else {
            break;
        };
        let inside = rest.get(2..length).unwrap_or_default();
        let inside = inside.trim_matches(['-', '+']).trim();
        if is_kept {
            let prints = end == "}}";
            found.push(Tag { at, prints, inside });
        }
        from = at + length + 2;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(text: &str, is_reaction: bool) -> Vec<(u32, u32)> {
        let mut findings = Vec::new();
        of_text(text, "x", is_reaction, &mut findings);
        findings
            .iter()
            .map(|found| (found.line, found.column))
            .collect()
    }

    #[test]
    fn data_of_the_mine_is_followed_to_where_it_is_printed() {
        let direct = "a\n  {{ salt['mine.get']('*', 'x')['m1'] }}";
        assert_eq!(positions(direct, false), [(2, 3)]);
        let set = "{% set all = salt['mine.get']('*', 'x') %}\n{{ all['m1'][0] }}{{ other }}";
        assert_eq!(positions(set, false), [(2, 1)]);
        let pairs = "{%- for id, found in salt['mine.get']('*', 'x') | dictsort %}\n{{ id }} {{ found[0] }}:80\n{% endfor %}";
        assert_eq!(positions(pairs, false), [(2, 10)]);
        let nested = "{% for id, all in salt.mine.get('*', 'x').items() %}{% for one in all %}{{ one }}{% endfor %}{% endfor %}";
        assert_eq!(positions(nested, false).len(), 1);
    }

    #[test]
    fn what_passed_a_filter_or_a_condition_is_not_told() {
        for good in [
            "{% for id, all in salt['mine.get']('*', 'x') | dictsort %}{{ all | ipv4 | first }}{% endfor %}",
            "{% for id, all in salt['mine.get']('*', 'x') | dictsort %}{% set good = all | ipv4 %}{{ good[0] }}{% endfor %}",
            "{% for id in salt['mine.get']('*', 'x') %}{{ id }}{% endfor %}",
            "{% set all = salt['mine.get']('*', 'x') %}{% if all['m1'] is match('a') %}{{ all['m1'] }}{% endif %}",
            "{% set all = salt['mine.get']('*', 'x') %}{{ all | length }}{{ all | tojson }}",
            "{# {{ salt['mine.get']('*', 'x') }} #}",
            "{{ salt['pillar.get']('x') }}",
        ] {
            assert!(positions(good, false).is_empty(), "{good}");
        }
    }

    #[test]
    fn data_of_an_event_is_told_in_a_reaction_alone() {
        let text =
            "{{ data['id'] }} {{ data.id }} {{ data['post']['name'] }} {{ data.data.x | int }}";
        assert_eq!(positions(text, true), [(1, 32)]);
        assert!(positions(text, false).is_empty());
    }
}
