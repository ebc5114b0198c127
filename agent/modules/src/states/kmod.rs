//! The `kmod` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::service::providers::names;

state::state_module! {
    /// Manage kernel modules.
    #[facts(effects = Effects::MoreThanFiles { files_suffice: false })]
    mod kmod;

    /// Make sure that modules are loaded.
    ///
    ///     br_netfilter:
    ///       kmod.present:
    ///         - persist: True
    fn present(Present {
        /// The module, or any name if `mods` is given.
        name: String,
        /// True to load the modules also at every start of the system.
        persist: bool = false,
        /// The modules.
        mods: Value = Value::Null,
    });

    /// Make sure that modules are not loaded.
    ///
    ///     pcspkr:
    ///       kmod.absent:
    ///         - persist: True
    fn absent(Absent {
        /// The module, or any name if `mods` is given.
        name: String,
        /// True to not load the modules at the next start of the system either.
        persist: bool = false,
        /// True to comment out the lines of the modules instead of removing them.
        comment: bool = true,
        /// The modules.
        mods: Value = Value::Null,
    });
}

fn requested_modules(name: &str, mods: &Value) -> Vec<String> {
    match mods.as_list() {
        Some(_) => names(mods),
        None => vec![name.to_owned()],
    }
}

fn listed(cx: &Exec, persistent: bool) -> Result<Vec<String>, Error> {
    let given = Map::new().with("only_persist", persistent);
    Ok(names(&cx.call_internal(
        "kmod.mod_list",
        Vec::new(),
        given,
    )?))
}

/// Returns a sentence about one module or several, or `None` if there are no modules.
fn about(modules: &[String], one: (&str, &str), many: (&str, &str)) -> Option<String> {
    let (before, after) = match modules {
        [] => return None,
        [_] => one,
        _ => many,
    };
    Some(format!("{before} {}{after}", modules.join(", ")))
}

/// The results of the modules that had to be changed.
#[derive(Default)]
struct Outcome {
    done: Vec<String>,
    not: Vec<String>,
    messages: Vec<String>,
    changes: Map,
    failed: bool,
}

impl Outcome {
    /// Records the answer of `kmod.load` or `kmod.remove` for a module: a list of names, or an
    /// error text.
    fn take(&mut self, module: &str, answer: &Value, state: &str, verb: &str) {
        match answer.as_list() {
            Some([]) => {
                self.failed = true;
                self.not.push(module.to_owned());
            }
            Some(changed) => {
                self.done.push(module.to_owned());
                for each in changed {
                    self.changes.insert(each.clone(), state);
                }
            }
            None => {
                self.failed = true;
                let why = answer.to_text();
                let sentence = format!("Failed to {verb} kernel module {module}: {why}");
                self.messages.push(sentence);
            }
        }
    }

    fn ret(self, mut messages: Vec<String>, done: &str, verb: &str) -> Ret {
        let (one, many) = (
            format!("{done} kernel module"),
            format!("{done} kernel modules"),
        );
        messages.extend(about(&self.done, (&one, ""), (&many, "")));
        let (one, many) = (
            format!("Failed to {verb} kernel module"),
            format!("Failed to {verb} kernel modules"),
        );
        messages.extend(about(&self.not, (&one, ""), (&many, "")));
        messages.extend(self.messages);
        Ret {
            result: Some(!self.failed),
            ..Ret::ok(messages.join("\n")).changes(self.changes)
        }
    }
}

const ONE: &str = "Kernel module";
const MANY: &str = "Kernel modules";

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let asked = requested_modules(&args.name, &args.mods);
    let mut loaded = listed(cx, false)?;
    if args.persist {
        let kept = listed(cx, true)?;
        loaded.retain(|name| kept.contains(name));
    }
    let (there, missing): (Vec<String>, Vec<String>) =
        asked.into_iter().partition(|name| loaded.contains(name));
    let already = about(
        &there,
        (ONE, " is already present"),
        (MANY, " are already present"),
    );
    if missing.is_empty() {
        return Ok(Ret::ok(already.unwrap_or_default()));
    }
    let would = about(
        &missing,
        (ONE, " is set to be loaded"),
        (MANY, " are set to be loaded"),
    );
    let said = |more: Option<String>| already.iter().cloned().chain(more).collect::<Vec<_>>();
    cx.apply(Ret::would(said(would).join("\n")), || {
        let found = names(&cx.call_internal("kmod.available", Vec::new(), Map::new())?);
        let (found, unknown): (Vec<String>, Vec<String>) =
            missing.into_iter().partition(|name| found.contains(name));
        let mut outcome = Outcome {
            failed: !unknown.is_empty(),
            ..Outcome::default()
        };
        for module in &found {
            if outcome.changes.contains(module) {
                // It was already loaded as a dependency of another module.
                outcome.done.push(module.clone());
                continue;
            }
            let given = vec![module.as_str().into(), args.persist.into()];
            let answer = cx.call_internal("kmod.load", given, Map::new())?;
            outcome.take(module, &answer, "loaded", "load");
        }
        let unknown = about(
            &unknown,
            (ONE, " is unavailable"),
            (MANY, " are unavailable"),
        );
        Ok(outcome.ret(said(unknown), "Loaded", "load"))
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let asked = requested_modules(&args.name, &args.mods);
    let mut loaded = listed(cx, false)?;
    if args.persist {
        loaded.extend(listed(cx, true)?);
    }
    let there = asked.iter().filter(|name| loaded.contains(name));
    let there: Vec<String> = there.cloned().collect();
    if there.is_empty() {
        let said = about(
            &asked,
            (ONE, " is already removed"),
            (MANY, " are already removed"),
        );
        return Ok(Ret::ok(said.unwrap_or_default()));
    }
    let would = about(
        &there,
        (ONE, " is set to be removed"),
        (MANY, " are set to be removed"),
    );
    cx.apply(Ret::would(would.unwrap_or_default()), || {
        let mut outcome = Outcome::default();
        for module in &there {
            let given = [
                module.as_str().into(),
                args.persist.into(),
                args.comment.into(),
            ];
            let answer = cx.call_internal("kmod.remove", given.into(), Map::new())?;
            outcome.take(module, &answer, "removed", "remove");
        }
        Ok(outcome.ret(Vec::new(), "Removed", "remove"))
    })
}
