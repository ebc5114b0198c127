//! The `iptables` execution module: manages the kernel's packet filter with `iptables` and
//! `ip6tables`.

mod rule;
mod saved;

use std::path::Path;

use machine::fs;
use machine::process::{Output, Process, which};
use python::shlex;
use state::exec::Exec;
use state::module::Error;
use value::pyre::{Flags, Regex};
use value::{Map, Value, log};

pub(crate) use rule::{full, short};

state::exec_module! {
    /// Manage the packet filter (`iptables`, `ip6tables`).
    #[needs("iptables", "The iptables execution module cannot be loaded: iptables not installed.")]
    mod iptables;

    /// Return the version of the program.
    ///
    ///     salt-call iptables.version
    fn version(Version {
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Build a rule from arguments that have the names of the program's long options.
    ///
    ///     salt-call iptables.build_rule filter INPUT command=A proto=tcp dport=22 jump=ACCEPT
    fn build_rule(BuildRule {
        /// The table.
        table: Option<String> = Some("filter".into()),
        /// The chain.
        chain: Option<String> = None,
        /// The command for the rule, such as `A` or `insert`.
        command: Option<String> = None,
        /// The position in the chain.
        position: Value = "".into(),
        /// Whether to return the whole command line instead of only the rule.
        full: Value = Value::Null,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Return the rules in a file.
    ///
    ///     salt-call iptables.get_saved_rules
    fn get_saved_rules(GetSavedRules {
        /// The path of the file. The default is the file that this distribution loads when the
        /// system starts.
        conf_file: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Return the rules that are in force.
    ///
    ///     salt-call iptables.get_rules
    fn get_rules(GetRules {
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Return the policy of a chain in a file.
    ///
    ///     salt-call iptables.get_saved_policy filter INPUT
    fn get_saved_policy(GetSavedPolicy {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The path of the file.
        conf_file: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Return the policy of a chain.
    ///
    ///     salt-call iptables.get_policy filter INPUT
    fn get_policy(GetPolicy {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Set the policy of a chain.
    ///
    ///     salt-call iptables.set_policy filter INPUT DROP
    fn set_policy(SetPolicy {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The policy.
        policy: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Write the rules that are in force to a file.
    ///
    ///     salt-call iptables.save /etc/iptables/rules.v4
    fn save(Save {
        /// The path of the file.
        filename: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Return True if a rule is in a chain.
    ///
    ///     salt-call iptables.check filter INPUT rule='-p tcp --dport 22 -j ACCEPT'
    fn check(Check {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The rule as text.
        rule: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Return True if a chain exists in a table.
    ///
    ///     salt-call iptables.check_chain filter BLOCKED
    fn check_chain(CheckChain {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Create a chain.
    ///
    ///     salt-call iptables.new_chain filter BLOCKED
    fn new_chain(NewChain {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Remove a chain.
    ///
    ///     salt-call iptables.delete_chain filter BLOCKED
    fn delete_chain(DeleteChain {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Append a rule to a chain.
    ///
    ///     salt-call iptables.append filter INPUT rule='-p tcp --dport 22 -j ACCEPT'
    fn append(Append {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The rule as text.
        rule: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Insert a rule into a chain.
    ///
    ///     salt-call iptables.insert filter INPUT position=1 rule='-p tcp --dport 22 -j ACCEPT'
    fn insert(Insert {
        /// The table.
        table: String = "filter".into(),
        /// The chain.
        chain: Option<String> = None,
        /// The number of the rule in the chain. A negative number counts from the end.
        position: Option<i64> = None,
        /// The rule as text.
        rule: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Delete a rule from a chain.
    ///
    ///     salt-call iptables.delete filter INPUT position=1
    fn delete(Delete {
        /// The table.
        table: String,
        /// The chain.
        chain: Option<String> = None,
        /// The number of the rule in the chain.
        position: Option<i64> = None,
        /// The rule as text, instead of its number.
        rule: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Delete all rules of a chain, or of all chains of a table.
    ///
    ///     salt-call iptables.flush filter INPUT
    fn flush(Flush {
        /// The table.
        table: String = "filter".into(),
        /// The chain. The default is all chains of the table.
        chain: String = String::new(),
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });
}

const NO_CHAIN: &str = "Error: Chain needs to be specified";
const NO_RULE: &str = "Error: Rule needs to be specified";

/// Returns the path of the program for an address family.
///
/// # Errors
/// When the program is missing.
pub(crate) fn program(family: &str) -> Result<String, Error> {
    let name = match family {
        "ipv6" => "ip6tables",
        _ => "iptables",
    };
    which(name).ok_or_else(|| format!("{name} is not in the path").into())
}

/// A chain of a table, for one address family.
#[derive(Clone, Copy)]
pub(crate) struct Chain<'a> {
    pub(crate) family: &'a str,
    pub(crate) table: &'a str,
    pub(crate) name: &'a str,
}

impl Chain<'_> {
    /// Runs a command on the chain. `rest` is split as a shell does. The names of tables and chains
    /// are never interpreted as options.
    fn run(self, cx: &Exec, command: &str, rest: &str, quiet: bool) -> Result<Output, Error> {
        if let Some(name) = [self.table, self.name]
            .iter()
            .find(|it| it.starts_with('-'))
        {
            return Err(format!("'{name}' is not the name of a table or chain").into());
        }
        let program = program(self.family)?;
        let mut words = vec![program.as_str(), "--wait", "-t", self.table, command];
        words.extend(Some(self.name).filter(|name| !name.is_empty()));
        let rest = shlex::split(rest)?;
        words.extend(rest.iter().map(String::as_str));
        let process = Process::words(words);
        match quiet {
            true => process.quiet().run(cx),
            false => process.run(cx),
        }
    }

    /// Changes the chain. Returns the error message of the program, which is empty on success.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn change(self, cx: &Exec, command: &str, rest: &str) -> Result<String, Error> {
        let done = self.run(cx, command, rest, false)?;
        Ok(match done.success() || !done.stderr.is_empty() {
            true => done.stderr,
            false => format!(
                "the program exited with status {}",
                done.retcode.unwrap_or(-1)
            ),
        })
    }

    /// Returns whether a rule is in the chain.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn has(self, cx: &Exec, rule: &str) -> Result<bool, Error> {
        Ok(self.run(cx, "-C", rule, true)?.success())
    }

    /// Returns whether the chain exists.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn exists(self, cx: &Exec) -> Result<bool, Error> {
        let words = [
            program(self.family)? + "-save",
            "-t".into(),
            self.table.into(),
        ];
        let output = Process::words(words).quiet().run(cx)?;
        // As in Salt, a table that does not exist has no chains. The following action on the chain
        // fails and gives the reason.
        let rules = output.stdout_regardless();
        let start = format!(":{} ", self.name);
        Ok(rules.lines().any(|line| line.starts_with(&start)))
    }

    /// Inserts a rule unless it is in the chain. Returns the error message of the program.
    ///
    /// # Errors
    /// When the program is missing, or a position counts from the end of a chain that does not
    /// exist.
    pub(crate) fn insert(
        self,
        cx: &Exec,
        position: i64,
        rule: &str,
    ) -> Result<Option<String>, Error> {
        let position = match position < 0 {
            true => {
                let rules = in_force(cx, self.family)?;
                let chain = rules.get(self.table).and_then(|table| table.get(self.name));
                let rules = chain.and_then(|chain| chain.get("rules")?.as_list());
                let count = rules
                    .ok_or_else(|| format!("chain {} does not exist", self.name))?
                    .len();
                (i64::try_from(count).unwrap_or(i64::MAX) + position + 1).max(1)
            }
            false => position,
        };
        if self.has(cx, rule)? {
            return Ok(None);
        }
        self.change(cx, "-I", &format!("{position} {rule}"))
            .map(Some)
    }
}

/// Returns the path of the file with the rules that this distribution loads when the system starts.
fn conf(cx: &Exec, family: &str) -> Result<&'static str, Error> {
    let (os, os_family) = (cx.grain("os"), cx.grain("os_family"));
    let (four, six) = match (os_family.as_str(), os.as_str()) {
        ("RedHat", _) => ("/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables"),
        ("Arch" | "Void", _) => (
            "/etc/iptables/iptables.rules",
            "/etc/iptables/ip6tables.rules",
        ),
        ("Debian", _) => ("/etc/iptables/rules.v4", "/etc/iptables/rules.v6"),
        (_, "Gentoo") => (
            "/var/lib/iptables/rules-save",
            "/var/lib/ip6tables/rules-save",
        ),
        ("Suse", _) => (
            "/etc/sysconfig/scripts/SuSEfirewall2-custom",
            "/etc/sysconfig/scripts/SuSEfirewall2-custom",
        ),
        (_, "Alpine") => ("/etc/iptables/rules-save", "/etc/iptables/rules6-save"),
        ("NILinuxRT", _) => (
            "/etc/natinst/share/iptables.conf",
            "/etc/natinst/share/ip6tables.conf",
        ),
        _ => return Err(format!(
            "Saving iptables to file is not supported on {os}. Please file an issue with SaltStack"
        )
        .into()),
    };
    Ok(if family == "ipv6" { six } else { four })
}

/// Returns the given file, or that of the distribution.
fn file(cx: &Exec, given: Option<&str>, family: &str) -> Result<String, Error> {
    match given.filter(|given| !given.is_empty()) {
        Some(given) => Ok(given.to_owned()),
        None => conf(cx, family).map(str::to_owned),
    }
}

/// Returns the output of `iptables-save`.
fn iptables_save(cx: &Exec, family: &str) -> Result<String, Error> {
    let done = Process::words([program(family)? + "-save"]).run(cx)?;
    done.into_success().map_err(|failed| failed.stderr.into())
}

/// Returns the rules that are in force.
///
/// # Errors
/// When they cannot be read.
pub(crate) fn in_force(cx: &Exec, family: &str) -> Result<Map, Error> {
    saved::parsed(&iptables_save(cx, family)?)
}

fn in_file(cx: &Exec, given: Option<&str>, family: &str) -> Result<Map, Error> {
    let path = file(cx, given, family)?;
    saved::parsed(&fs::text(&path)?)
}

/// Returns whether a file has other rules than those in force. A missing file counts as outdated.
///
/// # Errors
/// When the rules in force cannot be read.
pub(crate) fn is_outdated(cx: &Exec, given: Option<&str>, family: &str) -> Result<bool, Error> {
    let rules = |map: &Map| -> Vec<Value> {
        let chains = map.values().filter_map(Value::as_map).flat_map(Map::values);
        chains
            .filter_map(|chain| chain.get("rules").cloned())
            .collect()
    };
    if !Path::new(&file(cx, given, family)?).exists() {
        return Ok(true);
    }
    Ok(rules(&in_file(cx, given, family)?) != rules(&in_force(cx, family)?))
}

/// Writes the rules in force to a file, and returns a message about it.
///
/// # Errors
/// When they cannot be read or written.
pub(crate) fn write(cx: &Exec, given: Option<&str>, family: &str) -> Result<String, Error> {
    let path = file(cx, given, family)?;
    let target = Path::new(&path);
    if let Some(folder) = target.parent().filter(|folder| !folder.is_dir()) {
        fs::mkdirs(cx, folder).map_err(Error::io(folder))?;
    }
    let mut rules = iptables_save(cx, family)?;
    let filters = vec!["iptables.save_filters".into(), Vec::<Value>::new().into()];
    let filters = cx.call_internal("config.option", filters, Map::new())?;
    for filter in filters.as_list().unwrap_or_default() {
        rules = match Regex::new(&filter.to_text(), Flags::NONE) {
            Ok(filter) => without(&rules, &filter)?,
            Err(problem) => {
                log::warning(format_args!(
                    "Skipping regex rule: '{}': {problem}",
                    filter.to_text()
                ));
                rules
            }
        };
    }
    fs::write(
        cx,
        target,
        format!("{rules}\n").as_bytes(),
        fs::Owner::default(),
    )?;
    Ok(format!("Wrote 1 lines to \"{path}\""))
}

fn without(rules: &str, filter: &Regex) -> Result<String, Error> {
    let mut kept = Vec::new();
    for line in rules.lines() {
        if !filter.is_match(line)? {
            kept.push(line);
        }
    }
    Ok(kept.join("\n"))
}

/// Runs a function on a chain; returns Salt's error message if no chain is given.
fn on<'a>(
    family: &'a str,
    table: &'a str,
    chain: Option<&'a String>,
    work: impl FnOnce(Chain<'a>) -> Result<Value, Error>,
) -> Result<Value, Error> {
    match chain.filter(|name| !name.is_empty()) {
        Some(name) => work(Chain {
            family,
            table,
            name,
        }),
        None => Ok(NO_CHAIN.into()),
    }
}

/// Like [`on`], for a rule of the chain.
fn on_rule<'a>(
    family: &'a str,
    table: &'a str,
    chain: Option<&'a String>,
    rule: Option<&'a String>,
    work: impl FnOnce(Chain<'a>, &'a str) -> Result<Value, Error>,
) -> Result<Value, Error> {
    on(family, table, chain, |chain| {
        match rule.filter(|rule| !rule.is_empty()) {
            Some(rule) => work(chain, rule),
            None => Ok(NO_RULE.into()),
        }
    })
}

fn policy_of(rules: &Map, chain: Chain<'_>) -> Value {
    let found = rules
        .get(chain.table)
        .and_then(|table| table.get(chain.name));
    let policy = found.and_then(|chain| chain.get("policy"));
    policy.cloned().unwrap_or_default()
}

/// Returns the current policy of a chain; null if the chain does not exist.
///
/// # Errors
/// When the rules cannot be read.
pub(crate) fn policy(cx: &Exec, chain: Chain<'_>) -> Result<Value, Error> {
    Ok(policy_of(&in_force(cx, chain.family)?, chain))
}

fn version(cx: &Exec, args: Version) -> Result<Value, Error> {
    let words = [program(&args.family)?, "--version".into()];
    let said = Process::words(words)
        .run(cx)?
        .stdout_of_success("iptables --version")?;
    Ok(said.split_whitespace().nth(1).map(str::to_owned).into())
}

fn build_rule(_: &Exec, args: BuildRule) -> Result<Value, Error> {
    let kwargs = args.kwargs.with("position", args.position);
    if !args.full.is_true() {
        return Ok(short(kwargs).unwrap_or_else(str::to_owned).into());
    }
    let wanted = [
        ("Table", args.table),
        ("Chain", args.chain),
        ("Command", args.command),
    ];
    let [table, chain, command] =
        wanted.map(|(what, given)| given.filter(|given| !given.is_empty()).ok_or(what));
    let missing = |what: &str| Ok(format!("Error: {what} needs to be specified").into());
    let (table, chain, command) = match (table, chain, command) {
        (Ok(table), Ok(chain), Ok(command)) => (table, chain, command),
        (Err(what), ..) | (_, Err(what), _) | (.., Err(what)) => return missing(what),
    };
    let chain = Chain {
        family: &args.family,
        table: &table,
        name: &chain,
    };
    Ok(full(chain, &command, kwargs)?.into())
}

fn get_saved_rules(cx: &Exec, args: GetSavedRules) -> Result<Value, Error> {
    Ok(in_file(cx, args.conf_file.as_deref(), &args.family)?.into())
}

fn get_rules(cx: &Exec, args: GetRules) -> Result<Value, Error> {
    Ok(in_force(cx, &args.family)?.into())
}

fn get_saved_policy(cx: &Exec, args: GetSavedPolicy) -> Result<Value, Error> {
    on(&args.family, &args.table, args.chain.as_ref(), |chain| {
        let rules = in_file(cx, args.conf_file.as_deref(), &args.family)?;
        Ok(policy_of(&rules, chain))
    })
}

fn get_policy(cx: &Exec, args: GetPolicy) -> Result<Value, Error> {
    on(&args.family, &args.table, args.chain.as_ref(), |chain| {
        policy(cx, chain)
    })
}

fn set_policy(cx: &Exec, args: SetPolicy) -> Result<Value, Error> {
    on(
        &args.family,
        &args.table,
        args.chain.as_ref(),
        |chain| match args.policy.filter(|policy| !policy.is_empty()) {
            Some(policy) => Ok(chain.change(cx, "-P", &shlex::quote(&policy))?.into()),
            None => Ok("Error: Policy needs to be specified".into()),
        },
    )
}

fn save(cx: &Exec, args: Save) -> Result<Value, Error> {
    Ok(write(cx, args.filename.as_deref(), &args.family)?.into())
}

fn check(cx: &Exec, args: Check) -> Result<Value, Error> {
    let (chain, rule) = (args.chain.as_ref(), args.rule.as_ref());
    on_rule(&args.family, &args.table, chain, rule, |chain, rule| {
        Ok(chain.has(cx, rule)?.into())
    })
}

fn check_chain(cx: &Exec, args: CheckChain) -> Result<Value, Error> {
    on(&args.family, &args.table, args.chain.as_ref(), |chain| {
        Ok(chain.exists(cx)?.into())
    })
}

/// Returns True, or the error message of the program if there is one.
fn done(complaint: String) -> Value {
    match complaint.is_empty() {
        true => true.into(),
        false => complaint.into(),
    }
}

fn new_chain(cx: &Exec, args: NewChain) -> Result<Value, Error> {
    on(&args.family, &args.table, args.chain.as_ref(), |chain| {
        Ok(done(chain.change(cx, "-N", "")?))
    })
}

fn delete_chain(cx: &Exec, args: DeleteChain) -> Result<Value, Error> {
    on(&args.family, &args.table, args.chain.as_ref(), |chain| {
        Ok(done(chain.change(cx, "-X", "")?))
    })
}

fn append(cx: &Exec, args: Append) -> Result<Value, Error> {
    let (chain, rule) = (args.chain.as_ref(), args.rule.as_ref());
    on_rule(&args.family, &args.table, chain, rule, |chain, rule| {
        let added = !chain.has(cx, rule)? && chain.change(cx, "-A", rule)?.is_empty();
        Ok(added.into())
    })
}

fn insert(cx: &Exec, args: Insert) -> Result<Value, Error> {
    let (chain, rule) = (args.chain.as_ref(), args.rule.as_ref());
    let Some(position) = args.position.filter(|position| *position != 0) else {
        return on(&args.family, &args.table, chain, |_| {
            Ok("Error: Position needs to be specified or use append (-A)".into())
        });
    };
    on_rule(&args.family, &args.table, chain, rule, |chain, rule| {
        let said = chain.insert(cx, position, rule)?;
        Ok(said.map_or(Value::Bool(false), Value::from))
    })
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let position = args.position.filter(|position| *position != 0);
    let rule = args.rule.as_deref().filter(|rule| !rule.is_empty());
    let words = match (position, rule) {
        (Some(_), Some(_)) => {
            return Ok("Error: Only specify a position or a rule, not both".into());
        }
        (Some(position), None) => position.to_string(),
        (None, rule) => rule.unwrap_or_default().to_owned(),
    };
    on(&args.family, &args.table, args.chain.as_ref(), |chain| {
        Ok(chain.change(cx, "-D", &words)?.into())
    })
}

fn flush(cx: &Exec, args: Flush) -> Result<Value, Error> {
    let chain = Chain {
        family: &args.family,
        table: &args.table,
        name: &args.chain,
    };
    Ok(chain.change(cx, "-F", "")?.into())
}
