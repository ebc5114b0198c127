//! The rules for users other than root who publish jobs: the options `publisher_acl` and
//! `publisher_acl_blacklist`.

use machine::accounts;
use value::target::PillarMatch;
use value::{Map, Value, log};
use wire::{Id, PEER, Publish};

use super::Access;
use super::caller::Caller;
use super::guests;
use super::peer::fullmatch;
use super::rules::{allows, is_meant, only, several};
use crate::jobs::preview::is_previewed;
use crate::jobs::targets::Matched;
use crate::refusals::NotServed;

/// The refusal of a job that the user may not publish. It is Salt's sentence, which gives no
/// details.
pub(crate) const REFUSED: &str = "Authorization error occurred.";
/// The refusal of a guest whose target matches no minion. Such a job is neither sent nor stored.
pub(crate) const NOBODY: &str = "No minions matched the target.";
/// The function that every guest may call: it reports whether a job runs.
const ASKING: &str = "saltutil.find_job";

/// A user of this machine other than root and the user that the master runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalUser(String);

impl LocalUser {
    /// Returns the user with this number, by the name that the system has for it, or by the number
    /// if it has none.
    pub(crate) fn from_uid(uid: u32) -> Self {
        let user = accounts::user_of(uid);
        Self(user.map_or_else(|| uid.to_string(), |user| user.name))
    }

    /// Returns the user's name.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

/// A job that its user may publish.
#[derive(Debug)]
pub(crate) struct Permitted {
    pub(crate) asked: Publish,
    /// The user in whose name the job is published.
    pub(crate) user: String,
    /// The minions that the job reaches. The target is matched once, so that the job is sent to
    /// exactly the minions that the rules were checked for.
    pub(crate) matched: Matched,
    /// True if the job must not be sent.
    pub(crate) is_preview: bool,
}

impl Access {
    /// Returns whether the configuration gives other users of this machine any rights.
    pub(crate) fn has_guests(&self) -> bool {
        self.opts.get("publisher_acl").is_some_and(Value::is_true)
    }

    /// Returns the job that a caller asks for, in the caller's name. If the job is not allowed, returns
    /// the word and the sentence of the refusal, and logs it.
    pub(crate) async fn permitted(
        &self,
        asked: Publish,
        caller: &Caller,
    ) -> Result<Permitted, NotServed> {
        let said = asked.options.get("user").map(Value::to_text);
        let user = match caller.name() {
            Some(name) => name.to_owned(),
            None => said.unwrap_or_else(|| "root".to_owned()),
        };
        let fun = asked.fun.clone();
        let allowed = self.allowed_job(asked, &user, caller).await;
        allowed.inspect_err(|(_, why)| {
            let line = format!("refused the job {fun:?}: {why}");
            self.refusals.log(&user, line);
        })
    }

    async fn allowed_job(
        &self,
        asked: Publish,
        user: &str,
        caller: &Caller,
    ) -> Result<Permitted, NotServed> {
        let refused = |why: &str| ("refused", why.to_owned());
        let rules = self.rules_of(caller);
        let (mut asked, pillar) = match &rules {
            Some(rules) if rules.is_empty() => return Err(refused(REFUSED)),
            Some(_) => {
                let asked = guests::taken(asked, self.opts.text("return"));
                let asked = asked.map_err(|why| ("refused", why))?;
                (asked, PillarMatch::Exact)
            }
            None => (asked, PillarMatch::Pattern),
        };
        // Only the master may set this option: no user may publish in the name of a minion.
        asked.options.remove(PEER);
        let is_preview = is_previewed(&asked.options);
        let funs: Vec<&str> = asked.fun.split(',').map(str::trim).collect();
        if self.is_blacklisted(user, &funs) {
            return Err(refused(REFUSED));
        }
        let matched = self.jobs.matched(&asked, pillar).await;
        let matched = matched.map_err(|error| ("invalid", error))?;
        // A preview is not checked against the rules: every user with a rule may see which minions
        // match.
        if let Some(rules) = rules.filter(|_| !is_preview) {
            if !self.is_in_acl(&rules, &funs, &asked, &matched.0).await {
                return Err(refused(REFUSED));
            }
            if matched.0.is_empty() {
                return Err(refused(NOBODY));
            }
        }
        Ok(Permitted {
            user: user.to_owned(),
            asked,
            matched,
            is_preview,
        })
    }

    /// Checks that a caller may run a function on these hosts of rosters. A rule with a target counts if
    /// they are minions that the target matches.
    pub(crate) async fn may_run_on(
        &self,
        asked: &Publish,
        caller: &Caller,
        hosts: &[Id],
    ) -> Result<(), NotServed> {
        let user = caller.name().unwrap_or("root");
        let allowed = match self.rules_of(caller) {
            _ if self.is_blacklisted(user, &[&asked.fun]) => false,
            None => true,
            Some(rules) => self.is_in_acl(&rules, &[&asked.fun], asked, hosts).await,
        };
        if allowed {
            return Ok(());
        }
        let line = format!("refused the job {:?} on hosts: {REFUSED}", asked.fun);
        self.refusals.log(user, line);
        Err(("refused", REFUSED.to_owned()))
    }

    /// Returns the rules that limit a caller; `None` for root.
    fn rules_of(&self, caller: &Caller) -> Option<Vec<Value>> {
        match caller {
            Caller::Root => None,
            Caller::Local(user) => {
                let acl = self.opts.get("publisher_acl").and_then(Value::as_map);
                Some(acl.map(|acl| rules(acl, user.name())).unwrap_or_default())
            }
            Caller::User(user) => Some(user.rules.to_vec()),
        }
    }

    fn is_blacklisted(&self, user: &str, funs: &[&str]) -> bool {
        let blacklist = self.opts.get("publisher_acl_blacklist");
        let listed = |key: &str, word: &str| {
            let patterns = blacklist.and_then(|list| list.get(key));
            let patterns = patterns.map(several).unwrap_or_default();
            patterns.iter().any(|one| is_meant(&one.to_text(), word))
        };
        listed("users", user) || funs.iter().any(|fun| listed("modules", fun))
    }

    /// Returns whether each function is allowed by at least one rule.
    async fn is_in_acl(
        &self,
        rules: &[Value],
        funs: &[&str],
        asked: &Publish,
        minions: &[Id],
    ) -> bool {
        for (at, fun) in funs.iter().enumerate() {
            let args = arguments(asked, funs.len(), at);
            if *fun != ASKING && !self.is_allowed(rules, fun, args, minions).await {
                return false;
            }
        }
        true
    }

    async fn is_allowed(&self, rules: &[Value], fun: &str, args: &[Value], minions: &[Id]) -> bool {
        for rule in rules {
            let Some((target, functions)) = only(rule) else {
                if rule.as_map().is_none() && fullmatch(&rule.to_text(), fun) {
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

    /// Returns whether a compound target matches all of these minions.
    async fn reaches_all(&self, target: &str, minions: &[Id]) -> bool {
        if target == "*" {
            return true;
        }
        let (target, options) = (Value::from(target), Map::new());
        let by_root = PillarMatch::Pattern;
        let matched = self
            .jobs
            .targets
            .matched(&target, "compound", &options, by_root);
        match matched.await {
            Ok((reached, _)) => minions.iter().all(|id| reached.contains(id)),
            Err(error) => {
                log::error(format_args!(
                    "publisher_acl: cannot match the target: {error}"
                ));
                false
            }
        }
    }
}

/// Returns the rules of all patterns that match a user.
fn rules(acl: &Map, user: &str) -> Vec<Value> {
    acl.iter()
        .filter(|(pattern, _)| is_meant(&pattern.to_text(), user))
        .flat_map(|(_, rules)| several(rules))
        .collect()
}

/// Returns the arguments of the function at position `at` of a job that calls `count` functions.
fn arguments(asked: &Publish, count: usize, at: usize) -> &[Value] {
    match count {
        1 => &asked.arg,
        _ => {
            let args = asked.arg.get(at).and_then(Value::as_list);
            args.unwrap_or_default()
        }
    }
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
}
