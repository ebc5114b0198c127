//! Who besides root may have jobs done: the options `publisher_acl` and `publisher_acl_blacklist`.

use std::sync::Arc;

use modules::accounts;
use modules::call::split;
use value::glob::fnmatch;
use value::{Map, Value, log};
use wire::{Id, Publish};

use crate::daemon::Master;
use crate::peer::whole;
use crate::preview::PREVIEW;

/// What who may not do something is told: Salt's sentence, which says no more.
const REFUSED: &str = "Authorization error occurred.";
/// What anybody may ask: whether a job runs.
const ASKING: &str = "saltutil.find_job";

/// A user of this machine who is neither root nor the one that the master runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Guest(String);

impl Guest {
    /// The user of this number, as the system names it.
    pub(crate) fn of(uid: u32) -> Self {
        let user = accounts::user_of(uid);
        Self(user.map_or_else(|| uid.to_string(), |user| user.name))
    }
}

impl Master {
    /// Whether the configuration lets other users of this machine have anything done.
    pub(crate) fn has_guests(&self) -> bool {
        self.opts().get("publisher_acl").is_some_and(Value::is_true)
    }

    /// The job that a command of this machine asks for, in the name of who asks; a sentence when it may not be done.
    pub(crate) async fn permitted(
        self: &Arc<Self>,
        asked: Publish,
        guest: Option<&Guest>,
    ) -> Result<(Publish, String), String> {
        let said = asked.options.get("user").map(Value::to_text);
        let user = match guest {
            Some(Guest(name)) => name.clone(),
            None => said.unwrap_or_else(|| "root".to_owned()),
        };
        let funs: Vec<&str> = asked.fun.split(',').map(str::trim).collect();
        let may = !self.is_blacklisted(&user, &funs)
            && (guest.is_none() || self.is_in_acl(&user, &funs, &asked).await);
        if !may {
            log::error(format_args!(
                "{user} does not have permissions to run {}. Please contact your local administrator if you believe this is in error.",
                asked.fun
            ));
            return Err(REFUSED.to_owned());
        }
        // Nobody does a job in a number of a guest's choice.
        let jid = asked.jid.clone().filter(|_| guest.is_none());
        Ok((Publish { jid, ..asked }, user))
    }

    fn is_blacklisted(&self, user: &str, funs: &[&str]) -> bool {
        let blacklist = self.opts().get("publisher_acl_blacklist");
        let listed = |key: &str, word: &str| {
            let patterns = blacklist.and_then(|list| list.get(key));
            let patterns = patterns.map(several).unwrap_or_default();
            patterns.iter().any(|one| is_meant(&one.to_text(), word))
        };
        listed("users", user) || funs.iter().any(|fun| listed("modules", fun))
    }

    /// Every function must be allowed, each by some rule. Who would be reached is for all to know who may do something.
    async fn is_in_acl(self: &Arc<Self>, user: &str, funs: &[&str], asked: &Publish) -> bool {
        let acl = self.opts().get("publisher_acl").and_then(Value::as_map);
        let rules = acl.map(|acl| rules(acl, user)).unwrap_or_default();
        if asked.options.contains(PREVIEW) {
            return !rules.is_empty();
        }
        let matched = self.matched(&asked.tgt, &asked.tgt_type, &asked.options);
        // A target that makes no sense is told of when the job is published; it reaches nobody.
        let (minions, _) = matched.await.unwrap_or_default();
        for (at, fun) in funs.iter().enumerate() {
            let args = arguments(asked, funs.len(), at);
            if *fun != ASKING && !self.is_allowed(&rules, fun, args, &minions).await {
                return false;
            }
        }
        true
    }

    async fn is_allowed(
        self: &Arc<Self>,
        rules: &[Value],
        fun: &str,
        args: &[Value],
        minions: &[Id],
    ) -> bool {
        for rule in rules {
            let Some((target, functions)) = only(rule) else {
                if rule.as_map().is_none() && whole(&rule.to_text(), fun) {
                    return true;
                }
                continue;
            };
            let functions = several(functions);
            if functions.iter().any(|one| allows(one, fun, args))
                && self.reaches_all(&target, minions).await
            {
                return true;
            }
        }
        false
    }

    /// Whether a target, in the compound form, has all of these minions.
    async fn reaches_all(self: &Arc<Self>, target: &str, minions: &[Id]) -> bool {
        if target == "*" {
            return true;
        }
        match self.matched(&target.into(), "compound", &Map::new()).await {
            Ok((reached, _)) => minions.iter().all(|id| reached.contains(id)),
            Err(error) => {
                log::error(format_args!("publisher_acl: {error}"));
                false
            }
        }
    }
}

/// The rules of a user: those of every pattern that is meant.
fn rules(acl: &Map, user: &str) -> Vec<Value> {
    acl.iter()
        .filter(|(pattern, _)| is_meant(&pattern.to_text(), user))
        .flat_map(|(_, rules)| several(rules))
        .collect()
}

/// Salt's way of naming users and functions here: a glob or a regular expression, of all of the word.
fn is_meant(pattern: &str, word: &str) -> bool {
    fnmatch(pattern, word) || whole(pattern, word)
}

fn several(value: &Value) -> Vec<Value> {
    match value.as_list() {
        Some(list) => list.to_vec(),
        None => vec![value.clone()],
    }
}

/// The one entry of a dictionary that has one.
fn only(value: &Value) -> Option<(String, &Value)> {
    let map = value.as_map().filter(|map| map.len() == 1)?;
    let (key, value) = map.iter().next()?;
    Some((key.to_text(), value))
}

/// The arguments of one of several functions.
fn arguments(asked: &Publish, count: usize, at: usize) -> &[Value] {
    match count {
        1 => &asked.arg,
        _ => {
            let args = asked.arg.get(at).and_then(Value::as_list);
            args.unwrap_or_default()
        }
    }
}

/// Whether a condition, `fun` or `fun: [{args: …, kwargs: …}]`, allows a call.
fn allows(condition: &Value, fun: &str, args: &[Value]) -> bool {
    match only(condition) {
        None => condition.as_map().is_none() && whole(&condition.to_text(), fun),
        Some((name, conditions)) => {
            let conditions = several(conditions);
            whole(&name, fun) && conditions.iter().any(|one| suits(one, args))
        }
    }
}

/// Whether arguments are as a condition wants them; a null there allows any.
fn suits(condition: &Value, args: &[Value]) -> bool {
    let (places, names) = split(args);
    let fits = |wanted: &Value, given: Option<&Value>| {
        given.is_some_and(|given| wanted.is_null() || whole(&wanted.to_text(), &given.to_text()))
    };
    let of = |key: &str| condition.get(key);
    let wanted = of("args").map(several).unwrap_or_default();
    let mut at = wanted.iter().enumerate();
    let empty = Map::new();
    let named = of("kwargs").and_then(Value::as_map).unwrap_or(&empty);
    condition.as_map().is_some()
        && at.all(|(at, wanted)| fits(wanted, places.get(at)))
        && named
            .iter()
            .all(|(name, wanted)| fits(wanted, names.get(&name.to_text())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_the_rules_of_every_pattern_that_is_meant() {
        let acl = Map::new()
            .with("jo*", Value::list(["test.ping".into()]))
            .with("j.e", "grains.*")
            .with("ann", Value::list([".*".into()]));
        assert_eq!(rules(&acl, "joe"), ["test.ping".into(), "grains.*".into()]);
        assert_eq!(rules(&acl, "john"), [Value::from("test.ping")]);
        assert!(rules(&acl, "anna").is_empty());
    }

    #[test]
    fn a_condition_may_be_about_the_arguments() {
        let kwargs = || Map::new().with("pkg", "nginx.*");
        let one = Map::new()
            .with("args", Value::list([Value::Null, "a|b".into()]))
            .with("kwargs", kwargs());
        let condition = Value::from(Map::new().with("pkg.install", one));
        let named = |pkg: &str| Map::new().with("__kwarg__", true).with("pkg", pkg).into();
        let good: [Value; 3] = ["x".into(), "b".into(), named("nginx-light")];
        assert!(allows(&condition, "pkg.install", &good));
        assert!(!allows(&condition, "pkg.remove", &good));
        assert!(!allows(&condition, "pkg.install", &good[..2]));
        let other = ["x".into(), "c".into(), named("nginx")];
        assert!(!allows(&condition, "pkg.install", &other));
        assert!(allows(&"test.*".into(), "test.ping", &[]));
        assert!(!allows(&"test".into(), "test.ping", &[]));
    }
}
