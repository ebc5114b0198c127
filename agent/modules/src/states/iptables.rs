//! The `iptables` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::iptables::{Chain, full, is_outdated, policy, short, write};

state::state_module! {
    /// Manage the packet filter (`iptables`, `ip6tables`).
    #[needs("iptables", "iptables module could not be loaded")]
    #[module(aggregate = joined)]
    #[facts(free_arguments = true)]
    mod iptables;

    /// Make sure that a chain exists.
    ///
    ///     BLOCKED:
    ///       iptables.chain_present:
    ///         - table: filter
    fn chain_present(ChainPresent {
        /// The chain.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Make sure that a chain does not exist, even if it has rules.
    ///
    ///     BLOCKED:
    ///       iptables.chain_absent:
    ///         - table: filter
    fn chain_absent(ChainAbsent {
        /// The chain.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Make sure that a rule is in a chain. A missing rule is added at the end. The arguments have
    /// the names of the program's long options; `connstate` is its `--state`.
    ///
    ///     allow ssh:
    ///       iptables.append:
    ///         - table: filter
    ///         - chain: INPUT
    ///         - proto: tcp
    ///         - dport: 22
    ///         - jump: ACCEPT
    fn append(Append {
        /// Any name for the rule.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Make sure that a rule is in a chain. A missing rule is inserted at `position`.
    ///
    ///     allow ssh:
    ///       iptables.insert:
    ///         - table: filter
    ///         - chain: INPUT
    ///         - position: 1
    ///         - proto: tcp
    ///         - dport: 22
    ///         - jump: ACCEPT
    fn insert(Insert {
        /// Any name for the rule.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Make sure that a rule is not in a chain.
    ///
    ///     allow ssh:
    ///       iptables.delete:
    ///         - table: filter
    ///         - chain: INPUT
    ///         - proto: tcp
    ///         - dport: 22
    ///         - jump: ACCEPT
    fn delete(Delete {
        /// Any name for the rule.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Make sure that a chain has a policy.
    ///
    ///     drop by default:
    ///       iptables.set_policy:
    ///         - table: filter
    ///         - chain: INPUT
    ///         - policy: DROP
    fn set_policy(SetPolicy {
        /// Any name.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Remove all rules of a chain, or of all chains of a table.
    ///
    ///     clear input:
    ///       iptables.flush:
    ///         - table: filter
    ///         - chain: INPUT
    fn flush(Flush {
        /// Any name.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });
}

fn chain_present(cx: &Exec, args: ChainPresent) -> Result<Ret, Error> {
    let (name, table, family) = (args.name.as_str(), &args.table, &args.family);
    let chain = Chain {
        family,
        table,
        name,
    };
    if chain.exists(cx)? {
        return Ok(Ret::ok(format!(
            "iptables {name} chain is already exist in {table} table for {family}"
        )));
    }
    let would = format!("iptables {name} chain in {table} table needs to be set for {family}");
    cx.apply(Ret::would(would), || {
        let said = chain.change(cx, "-N", "")?;
        Ok(match said.is_empty() {
            true => Ret::ok(format!(
                "iptables {name} chain in {table} table create success for {family}"
            ))
            .change("locale", name),
            false => Ret::failed(format!(
                "Failed to create {name} chain in {table} table: {} for {family}",
                said.trim()
            )),
        })
    })
}

fn chain_absent(cx: &Exec, args: ChainAbsent) -> Result<Ret, Error> {
    let (name, table, family) = (args.name.as_str(), &args.table, &args.family);
    let chain = Chain {
        family,
        table,
        name,
    };
    if !chain.exists(cx)? {
        return Ok(Ret::ok(format!(
            "iptables {name} chain is already absent in {table} table for {family}"
        )));
    }
    let would = format!("iptables {name} chain in {table} table needs to be removed {family}");
    cx.apply(Ret::would(would), || {
        for (command, verb) in [("-F", "flush"), ("-X", "delete")] {
            let said = chain.change(cx, command, "")?;
            if !said.is_empty() {
                return Ok(Ret::failed(format!(
                    "Failed to {verb} {name} chain in {table} table: {} for {family}",
                    said.trim()
                )));
            }
        }
        let comment = format!("iptables {name} chain in {table} table delete success for {family}");
        Ok(Ret::ok(comment).change("locale", name))
    })
}

/// The rule of a state.
struct Rule {
    name: String,
    table: String,
    family: String,
    chain: String,
    /// The position in the chain. `append` needs none, but the command line shows the given one, as
    /// in Salt.
    position: Option<Value>,
    /// The words of the rule after the chain.
    words: String,
    /// The whole command line, for comments.
    line: String,
    save: Value,
}

impl Rule {
    /// Reads a rule from the arguments of a state, or from the data of a chunk that was aggregated
    /// with others.
    fn read(mut args: Map, command: &str) -> Result<Self, Error> {
        let mut take = |key: &'static str, default: Option<&str>| match args.remove(key) {
            Some(given) => Ok(given.to_text()),
            None => default
                .map(str::to_owned)
                .ok_or_else(|| Error::missing(key)),
        };
        let (name, table) = (take("name", None)?, take("table", Some("filter"))?);
        let (family, chain) = (take("family", Some("ipv4"))?, take("chain", None)?);
        let save = args.remove("save").unwrap_or_default();
        let position = args.get("position").cloned();
        let line = {
            let chain = Chain {
                family: &family,
                table: &table,
                name: &chain,
            };
            full(chain, command, args.clone())?.trim().to_owned()
        };
        Ok(Self {
            position,
            words: short(args).unwrap_or_else(str::to_owned),
            name,
            table,
            family,
            chain,
            line,
            save,
        })
    }

    /// Returns the position to insert at: counted from 1, or from the end if it is negative.
    fn number(&self) -> Result<i64, Error> {
        let given = self.position.as_ref().map(Value::to_text);
        let given = given.filter(|given| !given.is_empty() && given != "0");
        let given = given.ok_or_else(|| Error::missing("position"))?;
        let number = given.parse();
        number.map_err(|_| Error::argument("position", format!("expected a number, got {given}")))
    }

    fn place(&self) -> Chain<'_> {
        Chain {
            family: &self.family,
            table: &self.table,
            name: &self.chain,
        }
    }

    /// Saves the rules if `save` is set. Returns the state's own comment, or a comment with the
    /// output of saving.
    fn saved(&self, cx: &Exec, ret: Ret, verb: &str) -> Result<Ret, Error> {
        let Self {
            name,
            family,
            line,
            save,
            ..
        } = self;
        if !save.is_true() {
            return Ok(ret);
        }
        let out = write(cx, file(save), family)?;
        Ok(Ret {
            comment: format!("{verb} iptables rule {name} for {family}\n{line}\n{out}"),
            ..ret
        })
    }

    /// Returns the result for an existing rule. The rules are saved if `save` is set and the file
    /// is out of date.
    fn there(&self, cx: &Exec, comment: String) -> Result<Ret, Error> {
        let Self {
            name,
            family,
            line,
            save,
            ..
        } = self;
        if !save.is_true() || !is_outdated(cx, file(save), family)? {
            return Ok(Ret::ok(comment));
        }
        let would = Ret::would(format!(
            "{comment}\niptables rules for {family} need to be saved"
        ));
        cx.apply(would, || {
            let out = write(cx, file(save), family)?;
            Ok(Ret::ok(format!(
                "{comment}\nSaved iptables rule {name} for {family}\n{line}\n{out}"
            )))
        })
    }
}

/// Returns the file that `save` names, or `None` for the default file of the distribution.
fn file(save: &Value) -> Option<&str> {
    save.as_str()
}

/// Applies one rule, or the `rules` of several chunks at once. The latter are saved once, at the
/// end.
fn each(
    cx: &Exec,
    mut args: Map,
    (name, table, family): (String, String, String),
    one: fn(&Exec, Map) -> Result<Ret, Error>,
) -> Result<Ret, Error> {
    let Some(rules) = args.remove("rules") else {
        let args = args.with("name", name).with("table", table);
        return one(cx, args.with("family", family));
    };
    let (mut all, mut changed, mut comments) = (Ret::would(""), Vec::new(), Vec::new());
    let mut saved = Value::Null;
    for rule in rules.as_list().unwrap_or_default() {
        let mut rule = rule.as_map().cloned().unwrap_or_default();
        rule.remove("rules");
        saved = rule.remove("save").filter(Value::is_true).unwrap_or(saved);
        let ret = one(cx, rule)?;
        changed.extend(ret.changes.get("locale").cloned());
        comments.push(ret.comment);
        all.result = worse(all.result, ret.result, comments.len() == 1);
    }
    if saved.is_true() && !cx.test {
        write(cx, file(&saved), &family)?;
    }
    let all = Ret {
        comment: comments.join("\n"),
        ..all
    };
    Ok(match changed.is_empty() {
        true => all,
        false => all.change("locale", changed),
    })
}

/// Combines two results: failed if one of them failed, else `None` if one of them would change
/// something.
fn worse(so_far: Option<bool>, next: Option<bool>, is_first: bool) -> Option<bool> {
    match (so_far, next) {
        _ if is_first => next,
        (Some(false), _) | (_, Some(false)) => Some(false),
        (None, _) | (_, None) => None,
        _ => Some(true),
    }
}

fn append(cx: &Exec, args: Append) -> Result<Ret, Error> {
    each(
        cx,
        args.kwargs,
        (args.name, args.table, args.family),
        append_one,
    )
}

fn append_one(cx: &Exec, args: Map) -> Result<Ret, Error> {
    let rule = Rule::read(args, "A")?;
    let Rule {
        name, family, line, ..
    } = &rule;
    if rule.place().has(cx, &rule.words)? {
        return rule.there(
            cx,
            format!("iptables rule for {name} already set ({line}) for {family}"),
        );
    }
    let would = format!("iptables rule for {name} needs to be set ({line}) for {family}");
    cx.apply(Ret::would(would), || {
        let said = rule.place().change(cx, "-A", &rule.words)?;
        if !said.is_empty() {
            return Ok(Ret::failed(format!(
                "Failed to set iptables rule for {name}.\nAttempted rule was {line} for {family}"
            )));
        }
        let set = Ret::ok(format!(
            "Set iptables rule for {name} to: {line} for {family}"
        ));
        rule.saved(cx, set.change("locale", name.as_str()), "Set and saved")
    })
}

fn insert(cx: &Exec, args: Insert) -> Result<Ret, Error> {
    each(
        cx,
        args.kwargs,
        (args.name, args.table, args.family),
        insert_one,
    )
}

fn insert_one(cx: &Exec, args: Map) -> Result<Ret, Error> {
    let rule = Rule::read(args, "I")?;
    let Rule {
        name, family, line, ..
    } = &rule;
    if rule.place().has(cx, &rule.words)? {
        return rule.there(
            cx,
            format!("iptables rule for {name} already set for {family} ({line})"),
        );
    }
    let position = rule.number()?;
    let would = format!("iptables rule for {name} needs to be set for {family} ({line})");
    cx.apply(Ret::would(would), || {
        let said = rule.place().insert(cx, position, &rule.words)?;
        if said.is_some_and(|said| !said.is_empty()) {
            return Ok(Ret::failed(format!(
                "Failed to set iptables rule for {name}.\nAttempted rule was {line}"
            )));
        }
        let set = Ret::ok(format!(
            "Set iptables rule for {name} to: {line} for {family}"
        ));
        rule.saved(cx, set.change("locale", name.as_str()), "Set and saved")
    })
}

fn delete(cx: &Exec, args: Delete) -> Result<Ret, Error> {
    each(
        cx,
        args.kwargs,
        (args.name, args.table, args.family),
        delete_one,
    )
}

fn delete_one(cx: &Exec, args: Map) -> Result<Ret, Error> {
    let rule = Rule::read(args, "D")?;
    let Rule {
        name, family, line, ..
    } = &rule;
    if rule.position.is_none() && !rule.place().has(cx, &rule.words)? {
        return Ok(Ret::ok(format!(
            "iptables rule for {name} already absent for {family} ({line})"
        )));
    }
    let would = format!("iptables rule for {name} needs to be deleted for {family} ({line})");
    cx.apply(Ret::would(would), || {
        let which = rule.position.as_ref().map(Value::to_text);
        let said = rule
            .place()
            .change(cx, "-D", which.as_ref().unwrap_or(&rule.words))?;
        if !said.is_empty() {
            return Ok(Ret::failed(format!(
                "Failed to delete iptables rule for {name}.\nAttempted rule was {line}"
            )));
        }
        let gone = Ret::ok(format!("Delete iptables rule for {name} {line}"));
        rule.saved(
            cx,
            gone.change("locale", name.as_str()),
            "Deleted and saved",
        )
    })
}

fn text(args: &Map, key: &'static str) -> Result<String, Error> {
    let given = args.get(key).filter(|given| !given.is_null());
    given.map(Value::to_text).ok_or_else(|| Error::missing(key))
}

fn set_policy(cx: &Exec, args: SetPolicy) -> Result<Ret, Error> {
    let (table, family) = (&args.table, &args.family);
    let (chain, wanted) = (text(&args.kwargs, "chain")?, text(&args.kwargs, "policy")?);
    let place = Chain {
        family,
        table,
        name: &chain,
    };
    if policy(cx, place)? == Value::from(&wanted) {
        return Ok(Ret::ok(format!(
            "iptables default policy for chain {chain} on table {table} for {family} already set to {wanted}"
        )));
    }
    let would = format!(
        "iptables default policy for chain {chain} on table {table} for {family} needs to be set to {wanted}"
    );
    cx.apply(Ret::would(would), || {
        if !place
            .change(cx, "-P", &python::shlex::quote(&wanted))?
            .is_empty()
        {
            return Ok(Ret::failed("Failed to set iptables default policy"));
        }
        let save = args.kwargs.get("save").filter(|save| save.is_true());
        let verb = match save {
            Some(save) => {
                write(cx, file(save), family)?;
                "Set and saved"
            }
            None => "Set",
        };
        let comment = format!("{verb} default policy for {chain} to {wanted} family {family}");
        Ok(Ret::ok(comment).change("locale", args.name))
    })
}

fn flush(cx: &Exec, args: Flush) -> Result<Ret, Error> {
    let (name, table, family) = (&args.name, &args.table, &args.family);
    let chain = args
        .kwargs
        .get("chain")
        .map(Value::to_text)
        .unwrap_or_default();
    let would =
        format!("iptables rules in {name} table {table} chain {family} family needs to be flushed");
    cx.apply(Ret::would(would), || {
        let place = Chain {
            family,
            table,
            name: &chain,
        };
        if !place.change(cx, "-F", "")?.is_empty() {
            return Ok(Ret::failed("Failed to flush iptables rules"));
        }
        let comment =
            format!("Flush iptables rules in {table} table {chain} chain {family} family");
        Ok(Ret::ok(comment).change("locale", name.as_str()))
    })
}

/// Combines the rules of all chunks with the same function into one call.
fn joined(low: &Map, others: &[Map]) -> (Map, Vec<bool>) {
    let fun = low.get("fun");
    let joins = |fun: &Value| ["append", "insert"].contains(&fun.to_text().as_str());
    if !fun.is_some_and(joins) {
        return (low.clone(), vec![false; others.len()]);
    }
    let taken: Vec<bool> = others.iter().map(|other| other.get("fun") == fun).collect();
    let more = others.iter().zip(&taken).filter(|(_, taken)| **taken);
    let given = low
        .get("rules")
        .and_then(Value::as_list)
        .unwrap_or_default();
    let mut rules = given.to_vec();
    rules.push(low.clone().into());
    rules.extend(more.map(|(other, _)| other.clone().into()));
    let mut all = low.clone();
    all.insert("rules", rules);
    (all, taken)
}
