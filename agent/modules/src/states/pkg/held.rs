//! `pkg.held` and `pkg.unheld`.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::{Held, Unheld, alone, is_empty_list, text};
use crate::exec::pkg::providers::{Provider, Wanted, holds};

pub(super) fn held(cx: &Exec, provider: &dyn Provider, args: &Held) -> Result<Ret, Error> {
    if is_empty_list(&args.pkgs) && !args.replace {
        return Ok(Ret::ok("No packages to be held provided"));
    }
    let Some(holds) = provider.holds() else {
        return Ok(unable());
    };
    let wanted = wanted(&args.name, &args.version, &args.pkgs)?;
    let locks = holds.held(cx)?;
    let mut told = Progress::new(cx, provider);
    for one in &wanted {
        let lock = locks.iter().find(|lock| lock.name == one.name);
        // If the package manager does not record versions, any hold matches.
        let is_other = |lock: &Wanted| lock.version.is_some() && lock.version != one.version;
        match lock {
            None => told.hold(one, false)?,
            Some(lock) if is_other(lock) => told.hold(one, true)?,
            Some(_) => {}
        }
    }
    let others = locks
        .iter()
        .filter(|lock| wanted.iter().all(|one| one.name != lock.name));
    for lock in others.filter(|_| args.replace) {
        told.unhold(lock, "")?;
    }
    Ok(told.ret())
}

pub(super) fn unheld(cx: &Exec, provider: &dyn Provider, args: &Unheld) -> Result<Ret, Error> {
    if is_empty_list(&args.pkgs) && !args.all {
        return Ok(Ret::ok("No packages to be unheld provided"));
    }
    let Some(holds) = provider.holds() else {
        return Ok(unable());
    };
    let wanted = wanted(&args.name, &args.version, &args.pkgs)?;
    let mut told = Progress::new(cx, provider);
    for lock in holds.held(cx)? {
        let one = wanted.iter().find(|one| one.name == lock.name);
        let is_meant = |one: &Wanted| lock.version.is_none() || lock.version == one.version;
        if args.all || one.is_some_and(is_meant) {
            let version = one.and_then(|one| one.version.as_ref()).map(|_| {
                let version = lock.version.as_deref().unwrap_or("None");
                format!(" (version = {version})")
            });
            told.unhold(&lock, &version.unwrap_or_default())?;
        }
    }
    Ok(told.ret())
}

fn unable() -> Ret {
    Ret::failed(
        "No any function to get the list of held packages available.\nCheck if the package manager supports package locking.",
    )
}

fn wanted(name: &str, version: &Value, pkgs: &Value) -> Result<Vec<Wanted>, Error> {
    let pkgs = match pkgs.is_null() {
        true => alone(&name.into(), text(version).as_deref()),
        false => pkgs.clone(),
    };
    match is_empty_list(&pkgs) {
        true => Ok(Vec::new()),
        false => holds::targets(None, &pkgs, &Value::Null),
    }
}

/// The progress of the state: the changes made and their comments.
struct Progress<'a> {
    cx: &'a Exec,
    provider: &'a dyn Provider,
    result: bool,
    changes: Map,
    comments: Vec<String>,
}

impl<'a> Progress<'a> {
    fn new(cx: &'a Exec, provider: &'a dyn Provider) -> Self {
        Self {
            cx,
            provider,
            result: true,
            changes: Map::new(),
            comments: Vec::new(),
        }
    }

    fn hold(&mut self, one: &Wanted, other_version: bool) -> Result<(), Error> {
        let name = &one.name;
        if self.cx.test {
            let version = one
                .version
                .as_ref()
                .map(|version| format!(" (version = {version})"));
            let version = version.unwrap_or_default();
            self.comments.push(match other_version {
                true => {
                    format!("The following package's hold rule would be updated: {name}{version}")
                }
                false => format!("The following package would be held: {name}{version}"),
            });
            return Ok(());
        }
        if other_version {
            holds::set(self.cx, self.provider, std::slice::from_ref(one), false)?;
        }
        let rets = holds::set(self.cx, self.provider, std::slice::from_ref(one), true)?;
        let done = is_done(&rets, name);
        self.result &= done;
        self.comments.push(match (done, other_version) {
            (true, true) => format!("Package {name} was updated with hold rule"),
            (true, false) => format!("Package {name} is now being held"),
            (false, _) => format!("Package {name} was not held"),
        });
        self.changes.update(rets);
        Ok(())
    }

    fn unhold(&mut self, lock: &Wanted, version: &str) -> Result<(), Error> {
        let name = &lock.name;
        if self.cx.test {
            let text = format!("The following package would be unheld: {name}{version}");
            self.comments.push(text);
            return Ok(());
        }
        let rets = holds::set(self.cx, self.provider, std::slice::from_ref(lock), false)?;
        self.result &= is_done(&rets, name);
        let comment = rets.get(name).and_then(|ret| ret.get("comment"));
        self.comments
            .extend(comment.filter(|text| text.is_true()).map(Value::to_text));
        self.changes.update(rets);
        Ok(())
    }

    fn ret(self) -> Ret {
        let mut comment = self.comments.join("\n");
        if comment.is_empty() && self.changes.is_empty() {
            comment = "No changes made".to_owned();
        }
        Ret {
            result: Some(self.result),
            ..Ret::ok(comment).changes(self.changes)
        }
    }
}

fn is_done(rets: &Map, name: &str) -> bool {
    let result = rets.get(name).and_then(|ret| ret.get("result"));
    result.is_some_and(Value::is_true)
}
