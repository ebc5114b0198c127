//! Builds a rule from arguments that have the names of the program's long options.

use state::low::is_internal;
use state::module::Error;
use value::{Map, Value, python};

use super::{Chain, program};

/// The target and its own options, in the order in which they are written after all other options.
const AFTER: &str = "j jump add-set and-mark and-tos checksum-fill clamp-mss-to-pmtu clustermac ctevents ctmask del-set \
    ecn-tcp-remove exist expevents gateway hash-init hashmode helper label local-node log-ip-options \
    log-level log-prefix log-tcp-options log-tcp-sequence log-uid map-set mask mss new nfmask \
    nflog-group nflog-prefix nflog-range nflog-threshold nodst notrack on-ip on-port or-mark or-tos \
    persistent queue-balance queue-bypass queue-num random random-fully rateest-ewmalog rateest-interval \
    rateest-name reject-with restore restore-mark sack-perm save-mark selctx set-class set-dscp \
    set-dscp-class set-mark set-mss set-tos set-xmark strip-options timeout timestamp to to-destination \
    to-ports to-source total-nodes tproxy-mark ttl-dec ttl-inc ttl-set type ulog-cprange ulog-nlgroup \
    ulog-prefix ulog-qthreshold wscale xor-mark xor-tos zone zone-orig zone-reply dst-pfx hl-dec hl-inc \
    hl-set hmark-dport-mask hmark-dst-prefix hmark-mod hmark-offset hmark-proto-mask hmark-rnd \
    hmark-spi-mask hmark-sport-mask hmark-src-prefix hmark-tuple led-always-blink led-delay \
    led-trigger-id queue-cpu-fanout src-pfx to-port addr and-mask delude honeypot or-mask prefix reset \
    reuse set-mac shift static tarpit tname ttl";

/// The matches whose argument `name_` is the option `--name`.
const NAMED: [&str; 3] = ["pknock", "quota2", "recent"];

/// The arguments that are not options of the program, but are read by this module.
const OURS: [&str; 5] = ["chain", "command", "position", "save", "table"];

/// Returns the whole command line, as Salt shows it.
///
/// # Errors
/// When the program is missing.
pub(crate) fn full(chain: Chain<'_>, command: &str, args: Map) -> Result<String, Error> {
    let position = args.get("position").map(python::str).unwrap_or_default();
    let rule = match short(args) {
        Ok(rule) => rule,
        Err(problem) => return Ok(problem.to_owned()),
    };
    let dashes = match "ACDIRLSFZNXPE".contains(command) {
        true => "-",
        false => "--",
    };
    let Chain {
        family,
        table,
        name,
    } = chain;
    let program = program(family)?;
    Ok(format!(
        "{program} --wait -t {table} {dashes}{command} {name} {position} {rule}"
    ))
}

/// Returns the rule without the command, the table and the chain.
///
/// # Errors
/// When ports are listed without a protocol. The message is Salt's.
pub(crate) fn short(mut args: Map) -> Result<String, &'static str> {
    if let Some(target) = args.remove("target") {
        args.insert("jump", target);
    }
    args.retain(|key, _| {
        let key = key.as_str().unwrap_or_default();
        !OURS.contains(&key) && (key == "timeout" || !is_internal(key))
    });
    let mut rule = Vec::new();
    for (name, option) in [("if", "-i"), ("of", "-o")] {
        rule.extend(args.remove(name).map(|value| negatable(option, &value)));
    }
    let protocol = match is_policy(&args) {
        true => None,
        false => args.remove("proto"),
    };
    let given = args.remove("protocol");
    let protocol = protocol.or(given).map(|value| negatable("-p", &value));
    let has_protocol = protocol.is_some();
    rule.extend(protocol);
    matches(&mut args, &mut rule);
    let sets = args.remove("match-set").map(|sets| items(&sets));
    for set in sets.unwrap_or_default() {
        rule.push(format!("-m set {}", negatable("--match-set", &set.into())));
    }
    if let Some(states) = args.remove("connstate") {
        once(&mut rule, "-m state");
        rule.push(negatable("--state", &states));
    }
    for (name, option) in [("dport", "--dport"), ("sport", "--sport")] {
        rule.extend(args.remove(name).map(|value| negatable(option, &value)));
    }
    for (name, option) in [("dports", "--dports"), ("sports", "--sports")] {
        if let Some(ports) = args.remove(name) {
            if once(&mut rule, "-m multiport") && !has_protocol {
                return Err("Error: protocol must be specified");
            }
            rule.push(negatable_list(option, &ports));
        }
    }
    if let Some(comment) = args.remove("comment") {
        once(&mut rule, "-m comment");
        rule.push(format!("--comment \"{}\"", python::str(&comment)));
    }
    if args.get("set").is_some_and(Value::is_true) {
        rule.extend(args.remove("set").map(|set| negatable("--match-set", &set)));
    }
    let after = after(&mut args);
    rule.extend(args.iter().map(|(key, value)| other(&key.to_text(), value)));
    rule.extend(after);
    Ok(rule.join(" "))
}

fn is_policy(args: &Map) -> bool {
    args.get("match")
        .is_some_and(|kind| *kind == "policy".into())
}

/// Appends a word unless it is in the list already. Returns whether it was appended.
fn once(rule: &mut Vec<String>, word: &str) -> bool {
    let is_new = !rule.iter().any(|known| known == word);
    if is_new {
        rule.push(word.to_owned());
    }
    is_new
}

/// Returns the items of a list, or a list of the one value.
fn items(value: &Value) -> Vec<String> {
    match value.as_list() {
        Some(items) => items.iter().map(python::str).collect(),
        None => vec![python::str(value)],
    }
}

fn matches(args: &mut Map, rule: &mut Vec<String>) {
    let is_policy = is_policy(args);
    let Some(kinds) = args.remove("match") else {
        return;
    };
    let kinds = match kinds.as_str() {
        Some(text) => text.split(',').map(str::to_owned).collect(),
        None => items(&kinds),
    };
    for kind in kinds {
        rule.push(format!("-m {kind}"));
        if NAMED.contains(&kind.trim()) {
            let name = args.remove("name_");
            rule.extend(name.map(|name| format!("--name {}", python::str(&name))));
        }
    }
    if is_policy {
        rule.extend(
            args.remove("proto")
                .map(|value| negatable("--proto", &value)),
        );
    }
}

/// Returns the text without its `!` or `not`; `None` if it has neither.
fn negated(text: &str) -> Option<String> {
    if !text.starts_with('!') && !text.starts_with("not") {
        return None;
    }
    let mut bare = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = rest.strip_prefix('!').or_else(|| rest.strip_prefix("not"));
        rest = match word {
            Some(word) => word.strip_prefix(char::is_whitespace).unwrap_or(word),
            None => {
                bare.push(c);
                rest.strip_prefix(c).unwrap_or_default()
            }
        };
    }
    Some(bare)
}

fn negatable(option: &str, value: &Value) -> String {
    let text = python::str(value);
    match negated(&text) {
        Some(bare) => format!("! {option} {bare}"),
        None => format!("{option} {text}"),
    }
}

fn negatable_list(option: &str, value: &Value) -> String {
    let all = items(value);
    let is_negated = all.iter().any(|item| negated(item).is_some());
    let bare = all.into_iter().map(|item| match is_negated {
        true => negated(&item).unwrap_or(item),
        false => item,
    });
    let bare: Vec<String> = bare.collect();
    let not = if is_negated { "! " } else { "" };
    format!("{not}{option} {}", bare.join(","))
}

fn is_bare(value: &Value) -> bool {
    value.is_null() || value.as_str() == Some("")
}

/// Returns the options of the target.
fn after(args: &mut Map) -> Vec<String> {
    let given = AFTER
        .split(' ')
        .filter_map(|name| Some((name, args.remove(name)?)));
    let written = given.map(|(name, value)| match python::str(&value) {
        _ if is_bare(&value) => format!("--{name}"),
        text if text.contains(char::is_whitespace) => format!("--{name} \"{text}\""),
        text => format!("--{name} {text}"),
    });
    written.collect()
}

/// Returns any other option.
fn other(key: &str, value: &Value) -> String {
    let dashes = if key.chars().count() == 1 { "-" } else { "--" };
    let option = format!("{dashes}{key}");
    match is_bare(value) {
        true => option,
        false => negatable(&option, value),
    }
}
