//! The `nftables` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::nftables::{Done, Place, built, write};

state::state_module! {
    /// Manage the packet filter (`nft`).
    #[needs("nft", "nftables module could not be loaded", "nftables")]
    #[facts(free_arguments = true)]
    mod nftables;

    /// Make sure that a chain exists. A base chain (one that the kernel calls) has a type, a hook
    /// and a priority.
    ///
    ///     input:
    ///       nftables.chain_present:
    ///         - table: filter
    ///         - table_type: filter
    ///         - hook: input
    ///         - priority: 0
    fn chain_present(ChainPresent {
        /// The chain.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// The type of the chain, such as `filter`.
        table_type: Option<String> = None,
        /// The hook of the chain, such as `input`.
        hook: Option<String> = None,
        /// The priority of the chain.
        priority: Value = Value::Null,
        /// `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Make sure that a chain does not exist, even if it has rules.
    ///
    ///     input:
    ///       nftables.chain_absent:
    ///         - table: filter
    fn chain_absent(ChainAbsent {
        /// The chain.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
    });

    /// Make sure that a rule is in a chain. A missing rule is added at the end.
    ///
    ///     allow ssh:
    ///       nftables.append:
    ///         - table: filter
    ///         - chain: input
    ///         - proto: tcp
    ///         - dport: 22
    ///         - jump: accept
    fn append(Append {
        /// Any name for the rule.
        name: String,
        /// `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Make sure that a rule is in a chain. A missing rule is inserted before the rule with the
    /// number `position`.
    ///
    ///     allow ssh:
    ///       nftables.insert:
    ///         - table: filter
    ///         - chain: input
    ///         - proto: tcp
    ///         - dport: 22
    ///         - jump: accept
    fn insert(Insert {
        /// Any name for the rule.
        name: String,
        /// `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Make sure that a rule is not in a chain.
    ///
    ///     allow ssh:
    ///       nftables.delete:
    ///         - table: filter
    ///         - chain: input
    ///         - proto: tcp
    ///         - dport: 22
    ///         - jump: accept
    fn delete(Delete {
        /// Any name for the rule.
        name: String,
        /// `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Remove all rules of a chain, or of all chains of a table.
    ///
    ///     clear input:
    ///       nftables.flush:
    ///         - table: filter
    ///         - chain: input
    fn flush(Flush {
        /// Any name.
        name: String,
        /// `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
        /// True to succeed even if the table or chain does not exist.
        ignore_absence: bool = false,
        ..kwargs
    });

    /// Make sure that a base chain has a policy.
    ///
    ///     drop by default:
    ///       nftables.set_policy:
    ///         - table: filter
    ///         - chain: input
    ///         - policy: drop
    fn set_policy(SetPolicy {
        /// Any name.
        name: String,
        /// The table.
        table: String = "filter".into(),
        /// `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Make sure that a table exists.
    ///
    ///     filter:
    ///       nftables.table_present:
    ///         - family: inet
    fn table_present(TablePresent {
        /// The table.
        name: String,
        /// `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Make sure that a table does not exist, even if it is not empty.
    ///
    ///     filter:
    ///       nftables.table_absent:
    ///         - family: inet
    fn table_absent(TableAbsent {
        /// The table.
        name: String,
        /// `ipv4`, `ipv6`, `inet`, `arp`, `bridge` or `netdev`.
        family: String = "ipv4".into(),
        ..kwargs
    });
}

fn chain_present(cx: &Exec, args: ChainPresent) -> Result<Ret, Error> {
    let (name, table, family) = (args.name.as_str(), args.table.as_str(), &args.family);
    let chain = Place {
        family,
        table,
        chain: name,
    };
    if chain.check_chain(cx)?.result {
        return Ok(Ret::ok(format!(
            "nftables {name} chain is already exist in {table} table for {family}"
        )));
    }
    let would =
        format!("nftables chain {name} would be created in table {table} for family {family}");
    cx.apply(Ret::would(would), || {
        let (kind, hook) = (args.table_type.as_deref(), args.hook.as_deref());
        let made = chain.make_chain(cx, kind, hook, &args.priority)?;
        Ok(match made.result {
            true => Ret::ok(format!(
                "nftables {name} chain in {table} table create success for {family}"
            ))
            .change("locale", name),
            false => Ret::failed(format!(
                "Failed to create {name} chain in {table} table: {} for {family}",
                made.comment
            )),
        })
    })
}

fn chain_absent(cx: &Exec, args: ChainAbsent) -> Result<Ret, Error> {
    let (name, table, family) = (args.name.as_str(), args.table.as_str(), &args.family);
    let chain = Place {
        family,
        table,
        chain: name,
    };
    if !chain.check_chain(cx)?.result {
        return Ok(Ret::ok(format!(
            "nftables {name} chain is already absent in {table} table for {family}"
        )));
    }
    let would =
        format!("nftables chain {name} would be deleted from table {table} for family {family}");
    cx.apply(Ret::would(would), || {
        for verb in ["flush", "delete"] {
            let done = match verb {
                "flush" => chain.flush(cx)?,
                _ => chain.remove(cx)?,
            };
            if !done.result {
                return Ok(Ret::failed(format!(
                    "Failed to {verb} {name} chain in {table} table: {} for {family}",
                    done.comment
                )));
            }
        }
        let comment = format!("nftables {name} chain in {table} table delete success for {family}");
        Ok(Ret::ok(comment).change("locale", name))
    })
}

/// The rule of a state.
struct Rule {
    name: String,
    family: String,
    table: String,
    chain: String,
    position: Value,
    rule: String,
    save: bool,
    /// Warnings about the arguments, for the user.
    warnings: Vec<String>,
}

impl Rule {
    fn read(name: String, family: String, args: Map) -> Result<Self, Error> {
        let text = |key: &'static str| {
            args.get(key)
                .map(python::str)
                .ok_or_else(|| Error::missing(key))
        };
        let (table, chain) = (text("table")?, text("chain")?);
        let position = args.get("position").cloned().unwrap_or_default();
        let save = args.get("save").is_some_and(Value::is_true);
        let (rule, unknown) = built(args, &family)?;
        let warnings = unknown
            .iter()
            .map(|option| format!("Ignoring option {option}: nftables does not support it"));
        Ok(Self {
            warnings: warnings.collect(),
            name,
            family,
            table,
            chain,
            position,
            rule,
            save,
        })
    }

    fn place(&self) -> Place<'_> {
        Place {
            family: &self.family,
            table: &self.table,
            chain: &self.chain,
        }
    }

    /// Saves the rules if `save` is set, and returns the result of a change.
    fn ended(
        &self,
        cx: &Exec,
        done: &Done,
        set: String,
        saved: String,
        failed: String,
    ) -> Result<Ret, Error> {
        if !done.result {
            return Ok(Ret::failed(failed));
        }
        if self.save {
            write(cx, None)?;
        }
        let comment = if self.save { saved } else { set };
        Ok(Ret::ok(comment).change("locale", self.name.as_str()))
    }

    fn warned(&self, ret: Ret) -> Ret {
        Ret {
            warnings: self.warnings.clone(),
            ..ret
        }
    }
}

fn append(cx: &Exec, args: Append) -> Result<Ret, Error> {
    let it = Rule::read(args.name, args.family, args.kwargs)?;
    let Rule {
        name, family, rule, ..
    } = &it;
    if it.place().check(cx, rule)?.result {
        return Ok(it.warned(Ret::ok(format!(
            "nftables rule for {name} already set ({rule}) for {family}"
        ))));
    }
    let would = format!("nftables rule for {name} needs to be set ({rule}) for {family}");
    let ret = cx.apply(Ret::would(would), || {
        let done = it.place().put(cx, "add", &Value::Null, rule)?;
        let set = format!("Set nftables rule for {name} to: {rule} for {family}");
        let saved = format!("Set and Saved nftables rule for {name} to: {rule} for {family}");
        let failed = format!(
            "Failed to set nftables rule for {name}.\nAttempted rule was {rule} for {family}.\n{}",
            done.comment
        );
        it.ended(cx, &done, set, saved, failed)
    })?;
    Ok(it.warned(ret))
}

fn insert(cx: &Exec, args: Insert) -> Result<Ret, Error> {
    let it = Rule::read(args.name, args.family, args.kwargs)?;
    let Rule {
        name, family, rule, ..
    } = &it;
    if it.place().check(cx, rule)?.result {
        return Ok(it.warned(Ret::ok(format!(
            "nftables rule for {name} already set for {family} ({rule})"
        ))));
    }
    let would = format!("nftables rule for {name} needs to be set for {family} ({rule})");
    let ret = cx.apply(Ret::would(would), || {
        let done = it.place().put(cx, "insert", &it.position, rule)?;
        let set = format!("Set nftables rule for {name} to: {rule} for {family}");
        let saved = format!("Set and Saved nftables rule for {name} to: {rule} for {family}");
        let failed = format!("Failed to set nftables rule for {name}.\nAttempted rule was {rule}");
        it.ended(cx, &done, set, saved, failed)
    })?;
    Ok(it.warned(ret))
}

fn delete(cx: &Exec, args: Delete) -> Result<Ret, Error> {
    let it = Rule::read(args.name, args.family, args.kwargs)?;
    let Rule {
        name, family, rule, ..
    } = &it;
    if !it.position.is_true() && !it.place().check(cx, rule)?.result {
        return Ok(it.warned(Ret::ok(format!(
            "nftables rule for {name} already absent for {family} ({rule})"
        ))));
    }
    let would = format!("nftables rule for {name} needs to be deleted for {family} ({rule})");
    let ret = cx.apply(Ret::would(would), || {
        let by_number = it.position.is_true();
        let done = it
            .place()
            .take(cx, &it.position, if by_number { "" } else { rule })?;
        let set = format!("Delete nftables rule for {name} {rule}");
        let saved = format!("Deleted and Saved nftables rule for {name} for {rule}{family}");
        let failed =
            format!("Failed to delete nftables rule for {name}.\nAttempted rule was {rule}");
        it.ended(cx, &done, set, saved, failed)
    })?;
    Ok(it.warned(ret))
}

fn flush(cx: &Exec, args: Flush) -> Result<Ret, Error> {
    let (name, family) = (args.name.as_str(), &args.family);
    let text = |key: &str| args.kwargs.get(key).map(python::str);
    let (table, chain) = (
        text("table").unwrap_or_else(|| "filter".to_owned()),
        text("chain").unwrap_or_default(),
    );
    cx.apply(Ret::would("nftables flush not performed in test mode."), || {
        let place = Place {
            family,
            table: &table,
            chain: &chain,
        };
        let has_table = place.check_table(cx)?.result;
        let has_chain = chain.is_empty() || has_table && place.check_chain(cx)?.result;
        let lacking = match (has_table, has_chain) {
            _ if args.ignore_absence => None,
            (false, _) => Some(format!("Failed to flush table {table} in family {family}, table does not exist.")),
            (_, false) => Some(format!("Failed to flush chain {chain} in table {table} in family {family}, chain does not exist.")),
            _ => None,
        };
        if let Some(lacking) = lacking {
            return Ok(Ret::failed(lacking));
        }
        let comment = format!("Flush nftables rules in {table} table {chain} chain {family} family");
        Ok(match has_table && has_chain {
            true if !place.flush(cx)?.result => Ret::failed("Failed to flush nftables rules"),
            true => Ret::ok(comment).change("locale", name),
            // There was nothing to change. Salt nevertheless reports a change.
            false => Ret::ok(comment),
        })
    })
}

fn set_policy(cx: &Exec, args: SetPolicy) -> Result<Ret, Error> {
    let (table, family) = (args.table.as_str(), &args.family);
    let text = |key: &'static str| {
        args.kwargs
            .get(key)
            .map(python::str)
            .ok_or_else(|| Error::missing(key))
    };
    let (chain, wanted) = (text("chain")?, text("policy")?);
    let place = Place {
        family,
        table,
        chain: &chain,
    };
    if place.policy(cx)?.to_text().eq_ignore_ascii_case(&wanted) {
        return Ok(Ret::ok(format!(
            "nftables default policy for chain {chain} on table {table} for {family} already set to {wanted}"
        )));
    }
    let would = format!(
        "nftables default policy for chain {chain} on table {table} for {family} needs to be set to {wanted}"
    );
    cx.apply(Ret::would(would), || {
        if !place.set_policy(cx, &wanted.to_lowercase())? {
            return Ok(Ret::failed("Failed to set nftables default policy"));
        }
        let saves = args.kwargs.get("save").is_some_and(Value::is_true);
        if saves {
            let file = args.kwargs.get("save_filename").and_then(Value::as_str);
            write(cx, file)?;
        }
        let verb = if saves { "Set and saved" } else { "Set" };
        Ok(Ret::ok(format!(
            "{verb} default policy for {chain} to {wanted} family {family}"
        ))
        .change("locale", args.name.as_str()))
    })
}

fn table_present(cx: &Exec, args: TablePresent) -> Result<Ret, Error> {
    let (name, family) = (args.name.as_str(), &args.family);
    let table = Place {
        family,
        table: name,
        chain: "",
    };
    if table.check_table(cx)?.result {
        return Ok(Ret::ok(format!(
            "nftables table {name} already exists in family {family}"
        )));
    }
    cx.apply(
        Ret::would(format!(
            "nftables table {name} would be created in family {family}"
        )),
        || {
            Ok(match table.make_table(cx)?.result {
                true => Ret::ok(format!(
                    "nftables table {name} successfully created in family {family}"
                ))
                .change("locale", name),
                false => Ret::failed(format!("Failed to create table {name} for family {family}")),
            })
        },
    )
}

fn table_absent(cx: &Exec, args: TableAbsent) -> Result<Ret, Error> {
    let (name, family) = (args.name.as_str(), &args.family);
    let table = Place {
        family,
        table: name,
        chain: "",
    };
    if !table.check_table(cx)?.result {
        return Ok(Ret::ok(format!(
            "nftables table {name} is already absent from family {family}"
        )));
    }
    cx.apply(
        Ret::would(format!(
            "nftables table {name} would be deleted from family {family}"
        )),
        || {
            Ok(match table.remove(cx)?.result {
                true => Ret::ok(format!(
                    "nftables table {name} successfully deleted from family {family}"
                ))
                .change("locale", name),
                false => Ret::failed(format!(
                    "Failed to delete table {name} from family {family}"
                )),
            })
        },
    )
}
