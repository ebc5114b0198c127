//! The rules for users other than root who publish jobs: the options `publisher_acl` and
//! `publisher_acl_blacklist`.

use machine::accounts;
use modules::loader::call::split;
use value::glob::fnmatch;
use value::target::PillarMatch;
use value::{Map, Value, log};
use wire::{Id, PEER, Publish};

use super::Access;
use crate::access::guests;
use crate::access::peer::fullmatch;
use crate::jobs::preview::is_previewed;
use crate::jobs::targets::Matched;
use crate::refusals::NotServed;

/// The refusal of a job that the user may not publish. It is Salt's sentence, which gives no
/// details.
const REFUSED: &str = "Authorization error occurred.";
/// The refusal of a guest whose target matches no minion. Such a job is neither sent nor stored.
const NOBODY: &str = "No minions matched the target.";
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

    /// Returns the job that a command of this machine asks for, in the name of the calling user. If
    /// the job is not allowed, returns the word and the sentence of the refusal, and logs it.
    pub(crate) async fn permitted(
        &self,
        asked: Publish,
        guest: Option<&LocalUser>,
    ) -> Result<Permitted, NotServed> {
        let said = asked.options.get("user").map(Value::to_text);
        let user = match guest {
            Some(LocalUser(name)) => name.clone(),
            None => said.unwrap_or_else(|| "root".to_owned()),
        };
        let fun = asked.fun.clone();
        let allowed = self.allowed_job(asked, &user, guest.is_some()).await;
        allowed.inspect_err(|(_, why)| {
            let line = format!("refused the job {fun:?}: {why}");
            self.refusals.log(&user, line);
        })
    }

    async fn allowed_job(
        &self,
        asked: Publish,
        user: &str,
        is_guest: bool,
    ) -> Result<Permitted, NotServed> {
        let refused = |why: &str| ("refused", why.to_owned());
        let rules = self.rules_of(user);
        if is_guest && rules.is_empty() {
            return Err(refused(REFUSED));
        }
        let (mut asked, pillar) = match is_guest {
            true => {
                let asked = guests::taken(asked, self.opts.text("return"));
                let asked = asked.map_err(|why| ("refused", why))?;
                (asked, PillarMatch::Exact)
            }
            false => (asked, PillarMatch::Pattern),
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
        if is_guest && !is_preview {
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

    /// Returns the rules of `publisher_acl` that apply to a user.
    fn rules_of(&self, user: &str) -> Vec<Value> {
        let acl = self.opts.get("publisher_acl").and_then(Value::as_map);
        acl.map(|acl| rules(acl, user)).unwrap_or_default()
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

/// Returns whether a pattern names a user or function. As in Salt, it is a glob or a regular
/// expression that matches the whole word.
fn is_meant(pattern: &str, word: &str) -> bool {
    fnmatch(pattern, word) || fullmatch(pattern, word)
}

fn several(value: &Value) -> Vec<Value> {
    match value.as_list() {
        Some(list) => list.to_vec(),
        None => vec![value.clone()],
    }
}

/// Returns the key and value of a dictionary with exactly one entry.
fn only(value: &Value) -> Option<(String, &Value)> {
    let map = value.as_map().filter(|map| map.len() == 1)?;
    let (key, value) = map.iter().next()?;
    Some((key.to_text(), value))
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

/// Returns whether a condition, `fun` or `fun: [{args: …, kwargs: …}]`, allows a call.
fn allows(condition: &Value, fun: &str, args: &[Value]) -> bool {
    match only(condition) {
        None => condition.as_map().is_none() && fullmatch(&condition.to_text(), fun),
        Some((name, conditions)) => {
            let conditions = several(conditions);
            fullmatch(&name, fun) && conditions.iter().any(|one| suits(one, args))
        }
    }
}

/// The last item of a condition's `args` that allows any further positional arguments.
const ANY_MORE: &str = "...";

/// Returns whether arguments satisfy a condition. A condition with `args` or `kwargs` covers all
/// arguments: one that it does not name is refused.
fn suits(condition: &Value, args: &[Value]) -> bool {
    let Some(condition) = condition.as_map() else {
        return false;
    };
    let (wanted, named) = (condition.get("args"), condition.get("kwargs"));
    if wanted.is_none() && named.is_none() {
        return true;
    }
    let (places, names) = split(args);
    let wanted = wanted.map(several).unwrap_or_default();
    let empty = Map::new();
    let named = named.and_then(Value::as_map).unwrap_or(&empty);
    places_suit(&wanted, &places) && names_suit(named, &names)
}

/// Returns whether a value matches the one of a condition. A null in the condition matches any
/// value.
fn fits(wanted: &Value, given: &Value) -> bool {
    wanted.is_null() || fullmatch(&wanted.to_text(), &given.to_text())
}

fn places_suit(wanted: &[Value], given: &[Value]) -> bool {
    let (wanted, has_more) = match wanted.split_last() {
        Some((last, before)) if last.as_str() == Some(ANY_MORE) => (before, true),
        _ => (wanted, false),
    };
    let has_all = match has_more {
        true => given.len() >= wanted.len(),
        false => given.len() == wanted.len(),
    };
    has_all
        && wanted
            .iter()
            .zip(given)
            .all(|(one, given)| fits(one, given))
}

/// Returns whether every name of a condition is given, and every given name is either in the
/// condition or matches one of its patterns.
fn names_suit(wanted: &Map, given: &Map) -> bool {
    let mut names = wanted.keys().map(Value::to_text);
    let has_all = names.all(|name| !is_name(&name) || given.contains(&name));
    has_all
        && given.iter().all(|(name, value)| {
            let name = name.to_text();
            match wanted.get(&name) {
                Some(one) => fits(one, value),
                None => wanted.iter().any(|(pattern, one)| {
                    let pattern = pattern.to_text();
                    !is_name(&pattern) && fullmatch(&pattern, &name) && fits(one, value)
                }),
            }
        })
}

/// Returns whether a key of a condition is an argument's name rather than a pattern of names.
fn is_name(key: &str) -> bool {
    key.chars()
        .all(|letter| letter.is_alphanumeric() || letter == '_')
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
        let empty = Value::from(Map::new().with("pkg.install", Map::new()));
        assert!(allows(&empty, "pkg.install", &good));
        assert!(allows(&"test.*".into(), "test.ping", &[]));
        assert!(!allows(&"test".into(), "test.ping", &[]));
    }

    fn kwargs(names: &[(&str, &str)]) -> Value {
        let given = Map::new().with("__kwarg__", true);
        let all = names.iter();
        all.fold(given, |given, (name, value)| given.with(name, *value))
            .into()
    }

    #[test]
    fn a_condition_binds_the_arguments_that_it_does_not_name() {
        let list = |items: &[&str]| Value::list(items.iter().map(|item| (*item).into()));
        let args = Value::from(Map::new().with("args", list(&["id"])));
        assert!(suits(&args, &["id".into()]));
        assert!(!suits(&args, &["id".into(), "x".into()]));
        let path = kwargs(&[("prepend_path", "/home/nob/bin")]);
        assert!(!suits(&args, &["id".into(), path.clone()]));

        let open = Value::from(Map::new().with("args", list(&["id", "..."])));
        assert!(suits(&open, &["id".into()]));
        assert!(suits(&open, &["id".into(), "x".into(), "y".into()]));
        assert!(!suits(&open, &[]));
        assert!(!suits(&open, &["who".into(), "x".into()]));
        assert!(!suits(&open, &["id".into(), path]));
    }

    #[test]
    fn a_condition_binds_the_keywords_that_it_does_not_name() {
        let named = Map::new().with("pkg", "nginx");
        let one = Value::from(Map::new().with("kwargs", named.clone()));
        assert!(suits(&one, &[kwargs(&[("pkg", "nginx")])]));
        assert!(!suits(&one, &[kwargs(&[("pkg", "nginx"), ("root", "/x")])]));
        assert!(!suits(&one, &["x".into(), kwargs(&[("pkg", "nginx")])]));
        assert!(!suits(&one, &[]));

        let any = named.clone().with(".*", ".*");
        let any = Value::from(Map::new().with("kwargs", any));
        assert!(suits(&any, &[kwargs(&[("pkg", "nginx")])]));
        assert!(suits(&any, &[kwargs(&[("pkg", "nginx"), ("root", "/x")])]));
        assert!(!suits(&any, &[kwargs(&[("pkg", "sshd")])]));
        assert!(!suits(&any, &[kwargs(&[("root", "/x")])]));

        let some = Value::from(Map::new().with("kwargs", named.with("re.*", "a|b")));
        assert!(suits(&some, &[kwargs(&[("pkg", "nginx"), ("repo", "b")])]));
        assert!(!suits(&some, &[kwargs(&[("pkg", "nginx"), ("repo", "c")])]));
        assert!(!suits(&some, &[kwargs(&[("pkg", "nginx"), ("more", "a")])]));
    }
}
