//! Tables and chains, and the actions on them.

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

use super::rule::normal;
use super::{family, in_json};

/// The result of an action, with a message about it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) result: bool,
    pub(crate) comment: String,
}

impl Done {
    pub(super) fn new(result: bool, comment: impl Into<String>) -> Self {
        let comment = comment.into();
        Self { result, comment }
    }

    pub(super) fn value(self) -> Value {
        let map = Map::new().with("comment", self.comment);
        map.with("result", self.result).into()
    }
}

/// Runs the program. The words after the options form one command.
pub(super) fn nft(cx: &Exec, options: &[&str], words: &[&str]) -> Result<Output, Error> {
    let all = ["nft"].iter().chain(options).chain(["--"].iter());
    Process::words(all.chain(words).copied()).quiet().run(cx)
}

/// A table, or a chain of it.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The address family in Salt's spelling, such as `ipv4`.
    pub(crate) family: &'a str,
    pub(crate) table: &'a str,
    /// The chain; it is empty if the table is meant.
    pub(crate) chain: &'a str,
}

impl Place<'_> {
    /// Returns the words for the program. A name has to be a single word, because the program would
    /// parse anything else in it as part of the command.
    pub(super) fn words(&self, of_table: bool) -> Result<Vec<&str>, Error> {
        let is_name = |name: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./\\".contains(c);
            !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
        };
        let names: &[&str] = if of_table {
            &[self.table]
        } else {
            &[self.table, self.chain]
        };
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            return Err(format!("'{name}' is not the name of a table or chain").into());
        }
        let mut words = vec![
            if of_table { "table" } else { "chain" },
            family(self.family)?,
        ];
        words.extend(names);
        Ok(words)
    }

    fn run(&self, cx: &Exec, verb: &str, of_table: bool) -> Result<Output, Error> {
        let mut words = vec![verb];
        words.extend(self.words(of_table)?);
        nft(cx, &[], &words)
    }

    fn with_rule(&self, cx: &Exec, verb: &str, rest: &str) -> Result<Output, Error> {
        let place = self.words(false)?;
        let mut words = vec![verb, "rule"];
        words.extend(place.into_iter().skip(1));
        words.push(rest);
        nft(cx, &[], &words)
    }

    /// Checks whether the table exists, and returns the result with a message.
    pub(crate) fn check_table(&self, cx: &Exec) -> Result<Done, Error> {
        let Self { family, table, .. } = self;
        if table.is_empty() {
            return Ok(Done::new(false, "Table needs to be specified"));
        }
        let is_there = self.run(cx, "list", true)?.success();
        let verb = if is_there { "exists" } else { "does not exist" };
        Ok(Done::new(
            is_there,
            format!("Table {table} in family {family} {verb}"),
        ))
    }

    /// Checks whether the chain exists, and returns the result with a message.
    pub(crate) fn check_chain(&self, cx: &Exec) -> Result<Done, Error> {
        let Self {
            family,
            table,
            chain,
        } = self;
        if chain.is_empty() {
            return Ok(Done::new(false, "Chain needs to be specified"));
        }
        let is_there = self.run(cx, "list", false)?.success();
        let verb = if is_there { "exists" } else { "does not exist" };
        Ok(Done::new(
            is_there,
            format!("Chain {chain} in table {table} in family {family} {verb}"),
        ))
    }

    /// Returns a message if something is missing: the name of the chain, the rule, the table or the
    /// chain.
    fn lacking(&self, cx: &Exec, rule: Option<&str>) -> Result<Option<Done>, Error> {
        if self.chain.is_empty() {
            return Ok(Some(Done::new(false, "Chain needs to be specified")));
        }
        if rule == Some("") {
            return Ok(Some(Done::new(false, "Rule needs to be specified")));
        }
        let table = self.check_table(cx)?;
        if !table.result {
            return Ok(Some(table));
        }
        Ok(Some(self.check_chain(cx)?).filter(|chain| !chain.result))
    }

    /// Returns the handle of a rule; `None` if the chain does not contain it.
    pub(crate) fn handle(&self, cx: &Exec, rule: &str) -> Result<Option<String>, Error> {
        let mut words = vec!["list"];
        words.extend(self.words(false)?);
        let listed = nft(cx, &["--handle"], &words)?;
        let wanted = normal(rule);
        let mut rules = listed
            .stdout_regardless()
            .lines()
            .filter_map(|line| line.split_once(" # handle "));
        let found = rules.find(|(rule, _)| normal(rule) == wanted);
        Ok(found.map(|(_, number)| number.trim().to_owned()))
    }

    /// Checks whether a rule is in the chain, and returns the result with a message.
    pub(crate) fn check(&self, cx: &Exec, rule: &str) -> Result<Done, Error> {
        if let Some(lacking) = self.lacking(cx, Some(rule))? {
            return Ok(lacking);
        }
        let is_there = self.handle(cx, rule)?.is_some();
        let verb = if is_there { "exists" } else { "does not exist" };
        let Self {
            family,
            table,
            chain,
        } = self;
        let comment =
            format!("Rule {rule} in chain {chain} in table {table} in family {family} {verb}");
        Ok(Done::new(is_there, comment))
    }

    /// Adds a rule at the end (`add`), or before the rule with a handle (`insert`).
    pub(crate) fn put(
        &self,
        cx: &Exec,
        verb: &str,
        position: &Value,
        rule: &str,
    ) -> Result<Done, Error> {
        let known = self.check(cx, rule)?;
        let Self {
            family,
            table,
            chain,
        } = self;
        if known.result {
            let comment = format!(
                "Rule {rule} chain {chain} in table {table} in family {family} already exists"
            );
            return Ok(Done::new(false, comment));
        }
        if let Some(lacking) = self.lacking(cx, Some(rule))? {
            return Ok(lacking);
        }
        let rest = match position.is_true() {
            true => format!("position {} {rule}", python::str(position)),
            false => rule.to_owned(),
        };
        let done = self.with_rule(cx, verb, &rest)?;
        Ok(match done.success() {
            true => Done::new(
                true,
                format!("Added rule \"{rule}\" chain {chain} in table {table} in family {family}."),
            ),
            false => Done::new(
                false,
                format!(
                    "Failed to add rule \"{rule}\" chain {chain} in table {table} in family {family}."
                ),
            ),
        })
    }

    /// Deletes a rule by its handle or by its text.
    pub(crate) fn take(&self, cx: &Exec, position: &Value, rule: &str) -> Result<Done, Error> {
        let Self {
            family,
            table,
            chain,
        } = self;
        if position.is_true() && !rule.is_empty() {
            return Ok(Done::new(
                false,
                "Only specify a position or a rule, not both",
            ));
        }
        if let Some(lacking) = self.lacking(cx, (!position.is_true()).then_some(rule))? {
            return Ok(lacking);
        }
        let number = match position.is_true() {
            true => Some(python::str(position)),
            false => self.handle(cx, rule)?,
        };
        let Some(number) = number else {
            let comment = format!(
                "Rule {rule} chain {chain} in table {table} in family {family} does not exist"
            );
            return Ok(Done::new(false, comment));
        };
        let done = self.with_rule(cx, "delete", &format!("handle {number}"))?;
        Ok(match done.success() {
            true => Done::new(
                true,
                format!(
                    "Deleted rule \"{rule}\" in chain {chain} in table {table} in family {family}."
                ),
            ),
            false => Done::new(
                false,
                format!(
                    "Failed to delete rule \"{rule}\" in chain {chain}  table {table} in family {family}"
                ),
            ),
        })
    }

    /// Creates the table.
    pub(crate) fn make_table(&self, cx: &Exec) -> Result<Done, Error> {
        let known = self.check_table(cx)?;
        if known.result || self.table.is_empty() {
            return Ok(known);
        }
        self.changed(cx, "add", true, "created")
    }

    /// Creates the chain. It is a base chain if it has a type, a hook and a priority.
    pub(crate) fn make_chain(
        &self,
        cx: &Exec,
        kind: Option<&str>,
        hook: Option<&str>,
        priority: &Value,
    ) -> Result<Done, Error> {
        let Self {
            family,
            table,
            chain,
        } = self;
        if chain.is_empty() {
            return Ok(Done::new(false, "Chain needs to be specified"));
        }
        let known = self.check_table(cx)?;
        if !known.result {
            return Ok(known);
        }
        if self.check_chain(cx)?.result {
            return Ok(Done::new(
                false,
                format!("Chain {chain} in table {table} in family {family} already exists"),
            ));
        }
        let spec = match (kind, hook, priority) {
            (None, None, Value::Null) => String::new(),
            (Some(kind), Some(hook), priority) if !priority.is_null() => {
                format!(
                    "{{ type {kind} hook {hook} priority {}; }}",
                    python::str(priority)
                )
            }
            _ => return Ok(Done::new(false, "Table_type, hook, and priority required.")),
        };
        let mut words = vec!["add"];
        words.extend(self.words(false)?);
        words.push(&spec);
        let done = nft(cx, &[], &words)?;
        let verb = if done.success() {
            "created"
        } else {
            "could not be created"
        };
        Ok(Done::new(
            done.success(),
            format!("Chain {chain} in table {table} in family {family} {verb}"),
        ))
    }

    /// Removes the table or the chain.
    pub(crate) fn remove(&self, cx: &Exec) -> Result<Done, Error> {
        if self.chain.is_empty() {
            let known = self.check_table(cx)?;
            return if known.result {
                self.changed(cx, "delete", true, "deleted")
            } else {
                Ok(known)
            };
        }
        match self.lacking(cx, None)? {
            Some(lacking) => Ok(lacking),
            None => self.changed(cx, "delete", false, "deleted"),
        }
    }

    fn changed(&self, cx: &Exec, verb: &str, of_table: bool, past: &str) -> Result<Done, Error> {
        let Self {
            family,
            table,
            chain,
        } = self;
        let done = self.run(cx, verb, of_table)?.success();
        let past = if done {
            past.to_owned()
        } else {
            format!("could not be {past}")
        };
        Ok(Done::new(
            done,
            match of_table {
                true => format!("Table {table} in family {family} {past}"),
                false => format!("Chain {chain} in table {table} in family {family} {past}"),
            },
        ))
    }

    /// Deletes all rules.
    pub(crate) fn flush(&self, cx: &Exec) -> Result<Done, Error> {
        let Self {
            family,
            table,
            chain,
        } = self;
        let (of_table, place) = match chain.is_empty() {
            true => (true, format!("from table {table} in family {family}.")),
            false => (
                false,
                format!("from chain {chain} in table {table} in family {family}."),
            ),
        };
        let known = self.check_table(cx)?;
        let known = if known.result && !of_table {
            self.check_chain(cx)?
        } else {
            known
        };
        if !known.result {
            return Ok(known);
        }
        let done = self.run(cx, "flush", of_table)?.success();
        let verb = if done { "Flushed" } else { "Failed to flush" };
        Ok(Done::new(done, format!("{verb} rules {place}")))
    }

    /// Returns the chain from the program's JSON output; `None` if it does not exist.
    fn find_chain(&self, cx: &Exec) -> Result<Option<Map>, Error> {
        let all = in_json(cx, self.family)?;
        let mut chains = all.iter().filter_map(|item| item.get("chain")?.as_map());
        let is = |chain: &Map, key: &str, name: &str| {
            chain.get(key).and_then(Value::as_str) == Some(name)
        };
        Ok(chains
            .find(|it| is(it, "table", self.table) && is(it, "name", self.chain))
            .cloned())
    }

    /// Returns the policy of the chain; null if the chain does not exist or is not a base chain.
    pub(crate) fn policy(&self, cx: &Exec) -> Result<Value, Error> {
        let told = self.find_chain(cx)?;
        Ok(told
            .and_then(|mut chain| chain.remove("policy"))
            .unwrap_or_default())
    }

    /// Sets the policy. Returns whether that succeeded.
    pub(crate) fn set_policy(&self, cx: &Exec, policy: &str) -> Result<bool, Error> {
        let told = self.find_chain(cx)?.unwrap_or_default();
        let text = |key: &str| told.get(key).map(Value::to_text);
        let (Some(kind), Some(hook), Some(prio)) = (text("type"), text("hook"), text("prio"))
        else {
            return Ok(false);
        };
        let spec = format!("{{ type {kind} hook {hook} priority {prio}; policy {policy}; }}");
        let mut words = vec!["add"];
        words.extend(self.words(false)?);
        words.push(&spec);
        Ok(nft(cx, &[], &words)?.success())
    }
}
