//! The `nftables` execution module: manages the kernel's packet filter with `nft`.

mod place;
mod rule;

use std::path::Path;

use machine::fs;
use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json, python};

pub(crate) use place::{Done, Place};
pub(crate) use rule::built;

use place::nft;

state::exec_module! {
    /// Manage the packet filter (`nft`).
    #[needs("nft", "The nftables execution module failed to load: nftables is not installed.", "nftables")]
    mod nftables;

    /// Return the version of the program.
    ///
    ///     salt-call nftables.version
    fn version(Version {});

    /// Build a rule from arguments that have the same names as for iptables.
    ///
    ///     salt-call nftables.build_rule filter input command=add proto=tcp dport=22 jump=accept
    fn build_rule(BuildRule {
        /// The table.
        table: Option<String> = None,
        /// The chain.
        chain: Option<String> = None,
        /// The command for the rule, such as `insert`.
        command: Option<String> = None,
        /// The position in the chain.
        position: Value = "".into(),
        /// Whether to return the whole command line instead of only the rule.
        full: Value = Value::Null,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Return the lines of a file with rules, without comments.
    ///
    ///     salt-call nftables.get_saved_rules
    fn get_saved_rules(GetSavedRules {
        /// The path of the file.
        conf_file: Option<String> = None,
    });

    /// Return the tables.
    ///
    ///     salt-call nftables.list_tables
    fn list_tables(ListTables {
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Return the rules that are in force, as one text for each table.
    ///
    ///     salt-call nftables.get_rules
    fn get_rules(GetRules {
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Return the rules that are in force, in the program's JSON form.
    ///
    ///     salt-call nftables.get_rules_json
    fn get_rules_json(GetRulesJson {
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Write the rules that are in force to a file.
    ///
    ///     salt-call nftables.save /etc/nftables.conf
    fn save(Save {
        /// The path of the file. The default is `/etc/nftables`, or a file in that folder.
        filename: Option<String> = None,
        /// Ignored: the rules of all families are written.
        family: String = "ipv4".into(),
    });

    /// Return the handle (the number) of a rule.
    ///
    ///     salt-call nftables.get_rule_handle filter input rule='tcp dport 22 accept'
    fn get_rule_handle(GetRuleHandle {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The rule.
        rule: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Return True if a rule is in a chain.
    ///
    ///     salt-call nftables.check filter input rule='tcp dport 22 accept'
    fn check(Check {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The rule.
        rule: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Return True if a chain exists in a table.
    ///
    ///     salt-call nftables.check_chain filter input
    fn check_chain(CheckChain {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Return True if a table exists.
    ///
    ///     salt-call nftables.check_table filter
    fn check_table(CheckTable {
        /// The table.
        table: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Create a table.
    ///
    ///     salt-call nftables.new_table filter
    fn new_table(NewTable {
        /// The table.
        table: String,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Remove a table.
    ///
    ///     salt-call nftables.delete_table filter
    fn delete_table(DeleteTable {
        /// The table.
        table: String,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Create a chain. A base chain, which the kernel calls, needs a type, a hook and a priority.
    ///
    ///     salt-call nftables.new_chain filter input table_type=filter hook=input priority=0
    fn new_chain(NewChain {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The type of the base chain, such as `filter`.
        table_type: Option<String> = None,
        /// The hook of the base chain, such as `input`.
        hook: Option<String> = None,
        /// The priority of the base chain.
        priority: Value = Value::Null,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Remove a chain.
    ///
    ///     salt-call nftables.delete_chain filter input
    fn delete_chain(DeleteChain {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Append a rule to a chain.
    ///
    ///     salt-call nftables.append filter input rule='tcp dport 22 accept'
    fn append(Append {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The rule.
        rule: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Insert a rule into a chain.
    ///
    ///     salt-call nftables.insert filter input rule='tcp dport 22 accept'
    fn insert(Insert {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The handle of the rule to insert before. The default is the start of the chain.
        position: Value = Value::Null,
        /// The rule.
        rule: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Delete a rule from a chain.
    ///
    ///     salt-call nftables.delete filter input position=1
    fn delete(Delete {
        /// The table.
        table: String,
        /// The chain.
        chain: Option<String> = None,
        /// The handle of the rule.
        position: Value = Value::Null,
        /// The rule as text, instead of its handle.
        rule: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Delete all rules of a chain, or of all chains of a table.
    ///
    ///     salt-call nftables.flush filter input
    fn flush(Flush {
        /// The table.
        table: String = "filter".into(),
        /// The chain. The default is all chains of the table.
        chain: String = String::new(),
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Return the policy of a chain.
    ///
    ///     salt-call nftables.get_policy filter input
    fn get_policy(GetPolicy {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Set the policy of a base chain.
    ///
    ///     salt-call nftables.set_policy filter input drop
    fn set_policy(SetPolicy {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The policy.
        policy: Option<String> = None,
        /// The address family: `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });
}

/// Returns the program's name of an address family.
///
/// # Errors
/// When the family is not known.
pub(crate) fn family(name: &str) -> Result<&str, Error> {
    match name {
        "ipv4" | "ip4" | "ip" => Ok("ip"),
        "ipv6" | "ip6" => Ok("ip6"),
        "inet" | "arp" | "bridge" | "netdev" => Ok(name),
        _ => Err(format!(
            "unknown family {name}: expected ipv4, ipv6, inet, arp, bridge or netdev"
        )
        .into()),
    }
}

const FAMILIES: [&str; 6] = ["ip", "ip6", "inet", "arp", "bridge", "netdev"];

/// Returns the objects of a family's ruleset from the program's JSON output.
fn in_json(cx: &Exec, name: &str) -> Result<Vec<Value>, Error> {
    let listed = nft(cx, &["--json"], &["list", "ruleset", family(name)?])?;
    if !listed.success() {
        return Err(listed.stderr.into());
    }
    let told = json::read(listed.stdout_regardless())
        .map_err(|error| Error::refused(error.to_string()))?;
    let all = told.get("nftables").and_then(Value::as_list);
    Ok(all.unwrap_or_default().to_vec())
}

fn tables(cx: &Exec, family: &str) -> Result<Vec<Value>, Error> {
    let all = in_json(cx, family)?.into_iter();
    Ok(all.filter_map(|item| item.get("table").cloned()).collect())
}

/// Returns the rules of a family, as one text for each table.
fn texts(cx: &Exec, name: &str) -> Result<Vec<String>, Error> {
    let mut texts = Vec::new();
    for table in tables(cx, name)? {
        let table = table.get("name").map(Value::to_text).unwrap_or_default();
        let place = Place {
            family: name,
            table: &table,
            chain: "",
        };
        let mut words = vec!["list"];
        words.extend(place.words(true)?);
        // The option is given three times, so that the program shows numbers in place of all names.
        texts.push(nft(cx, &["--numeric"; 3], &words)?.stdout_of_success("nft list table")?);
    }
    Ok(texts)
}

/// Writes the rules in force to a file, and returns the written text.
///
/// # Errors
/// When the rules cannot be read or written.
pub(crate) fn write(cx: &Exec, filename: Option<&str>) -> Result<String, Error> {
    let mut rules = "#! nft -f\n".to_owned();
    for family in FAMILIES {
        let texts = texts(cx, family)?;
        if !texts.is_empty() {
            rules += "\n";
        }
        rules += &texts.join("\n");
    }
    rules += "\n";
    let path = Path::new(
        filename
            .filter(|name| !name.is_empty())
            .unwrap_or("/etc/nftables"),
    );
    let path = match path.is_dir() {
        true => path.join("salt-all-in-one.nft"),
        false => path.to_path_buf(),
    };
    fs::write(cx, &path, rules.as_bytes(), fs::Owner::default())?;
    Ok(rules)
}

fn version(cx: &Exec, _args: Version) -> Result<Value, Error> {
    let said = Process::words(["nft", "--version"])
        .run(cx)?
        .stdout_of_success("nft --version")?;
    let version = said.split_whitespace().nth(1);
    Ok(version
        .ok_or_else(|| format!("cannot read the version in the output of nft: {said:?}"))?
        .into())
}

fn build_rule(_cx: &Exec, args: BuildRule) -> Result<Value, Error> {
    let (rule, _) = built(args.kwargs, &args.family)?;
    let answer = |comment: &str, rule: &str, result: bool| -> Value {
        let map = Map::new().with("comment", comment).with("rule", rule);
        map.with("result", result).into()
    };
    let is_full = ["True", "true"].map(Value::from).contains(&args.full);
    let comment = |rule: &str| {
        if rule.is_empty() {
            ""
        } else {
            "Successfully built rule"
        }
    };
    if !is_full {
        return Ok(answer(comment(&rule), &rule, true));
    }
    let needed = [
        ("Table", args.table),
        ("Chain", args.chain),
        ("Command", args.command),
    ];
    let mut given = Vec::new();
    for (what, value) in needed {
        match value.filter(|value| !value.is_empty()) {
            Some(value) => given.push(value),
            None => {
                return Ok(answer(
                    &format!("{what} needs to be specified"),
                    &rule,
                    false,
                ));
            }
        }
    }
    let place = [
        family(&args.family)?,
        given.first().map_or("", String::as_str),
        given.get(1).map_or("", String::as_str),
    ]
    .join(" ");
    let command = given.get(2).map_or("", String::as_str);
    let whole = match ["Insert", "insert", "INSERT"].contains(&command) {
        true if args.position.is_true() => {
            format!(
                "nft insert rule {place} position {} {rule}",
                python::str(&args.position)
            )
        }
        true => format!("nft insert rule {place} {rule}"),
        false => format!("nft {command} rule {place} {rule}"),
    };
    Ok(answer(comment(&whole), &whole, true))
}

fn get_saved_rules(_cx: &Exec, args: GetSavedRules) -> Result<Value, Error> {
    let path = args.conf_file.unwrap_or_else(|| "/etc/nftables".to_owned());
    let text = fs::text(&path)?;
    let is_rule = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
    let lines = text.split_inclusive('\n').filter(is_rule);
    Ok(Value::list(lines.map(Value::from)))
}

fn list_tables(cx: &Exec, args: ListTables) -> Result<Value, Error> {
    Ok(tables(cx, &args.family)?.into())
}

fn get_rules(cx: &Exec, args: GetRules) -> Result<Value, Error> {
    Ok(texts(cx, &args.family)?.into())
}

fn get_rules_json(cx: &Exec, args: GetRulesJson) -> Result<Value, Error> {
    Ok(in_json(cx, &args.family)?.into())
}

fn save(cx: &Exec, args: Save) -> Result<Value, Error> {
    Ok(write(cx, args.filename.as_deref())?.into())
}

fn at<'a>(family: &'a str, table: &'a str, chain: Option<&'a String>) -> Place<'a> {
    Place {
        family,
        table,
        chain: chain.map_or("", String::as_str),
    }
}

fn get_rule_handle(cx: &Exec, args: GetRuleHandle) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    let rule = args.rule.unwrap_or_default();
    let known = place.check(cx, &rule)?;
    if !known.result {
        return Ok(known.value());
    }
    let handle = place.handle(cx, &rule)?;
    Ok(Map::new()
        .with("result", true)
        .with("handle", handle)
        .into())
}

fn check(cx: &Exec, args: Check) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    Ok(place.check(cx, &args.rule.unwrap_or_default())?.value())
}

fn check_chain(cx: &Exec, args: CheckChain) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    Ok(place.check_chain(cx)?.value())
}

fn check_table(cx: &Exec, args: CheckTable) -> Result<Value, Error> {
    let table = args.table.unwrap_or_default();
    Ok(at(&args.family, &table, None).check_table(cx)?.value())
}

fn new_table(cx: &Exec, args: NewTable) -> Result<Value, Error> {
    Ok(at(&args.family, &args.table, None).make_table(cx)?.value())
}

fn delete_table(cx: &Exec, args: DeleteTable) -> Result<Value, Error> {
    Ok(at(&args.family, &args.table, None).remove(cx)?.value())
}

fn new_chain(cx: &Exec, args: NewChain) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    let (kind, hook) = (args.table_type.as_deref(), args.hook.as_deref());
    Ok(place.make_chain(cx, kind, hook, &args.priority)?.value())
}

fn delete_chain(cx: &Exec, args: DeleteChain) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    Ok(match place.chain.is_empty() {
        true => Done::new(false, "Chain needs to be specified").value(),
        false => place.remove(cx)?.value(),
    })
}

fn append(cx: &Exec, args: Append) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    let rule = args.rule.unwrap_or_default();
    Ok(place.put(cx, "add", &Value::Null, &rule)?.value())
}

fn insert(cx: &Exec, args: Insert) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    let rule = args.rule.unwrap_or_default();
    Ok(place.put(cx, "insert", &args.position, &rule)?.value())
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    let rule = args.rule.unwrap_or_default();
    Ok(place.take(cx, &args.position, &rule)?.value())
}

fn flush(cx: &Exec, args: Flush) -> Result<Value, Error> {
    Ok(at(&args.family, &args.table, Some(&args.chain))
        .flush(cx)?
        .value())
}

fn get_policy(cx: &Exec, args: GetPolicy) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    match place.chain.is_empty() {
        true => Ok("Error: Chain needs to be specified".into()),
        false => place.policy(cx),
    }
}

fn set_policy(cx: &Exec, args: SetPolicy) -> Result<Value, Error> {
    let place = at(&args.family, &args.table, args.chain.as_ref());
    match args.policy.filter(|policy| !policy.is_empty()) {
        _ if place.chain.is_empty() => Ok("Error: Chain needs to be specified".into()),
        None => Ok("Error: Policy needs to be specified".into()),
        Some(policy) => Ok(place.set_policy(cx, &policy)?.into()),
    }
}
