//! `pkg.group_installed`.

use state::custom::Kind;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::GroupInstalled;

/// Returns the installed or missing packages of a group.
fn part(diff: &Value, kind: &str, what: &str) -> Vec<String> {
    let part = diff.get(kind).and_then(|kind| kind.get(what));
    part.map(Value::texts).unwrap_or_default()
}

/// Returns the items of a list argument, or a failure if it is not a list.
fn list(value: &Value, name: &str) -> Result<Vec<String>, Ret> {
    match value.as_list() {
        _ if value.is_null() => Ok(Vec::new()),
        Some(_) => Ok(value.texts()),
        None => Err(Ret::failed(format!("{name} must be formatted as a list"))),
    }
}

pub(super) fn run(cx: &Exec, args: GroupInstalled) -> Result<Ret, Error> {
    if cx.missing(Kind::Module, "pkg.group_diff").is_some() {
        return Ok(Ret::failed(
            "pkg.group_install not available for this platform",
        ));
    }
    let (skip, include) = match (list(&args.skip, "skip"), list(&args.include, "include")) {
        (Ok(skip), Ok(include)) => (skip, include),
        (Err(wrong), _) | (_, Err(wrong)) => return Ok(wrong),
    };
    let name = args.name.as_str();
    let failed = |why: Error| {
        let doing = format!("installing/updating group '{name}'");
        Ret::failed(format!("An error was encountered while {doing}: {why}"))
    };
    let diff = match cx.call_internal("pkg.group_diff", vec![name.into()], args.kwargs.clone()) {
        Ok(diff) => diff,
        Err(why) => {
            let ret = failed(why);
            let comment = format!("{}.", ret.comment);
            return Ok(Ret { comment, ..ret });
        }
    };
    let missing = part(&diff, "mandatory", "not installed");
    let there = |kind| part(&diff, kind, "installed");
    let mandatory = [there("mandatory"), missing.clone()].concat();
    let invalid: Vec<String> = mandatory
        .into_iter()
        .filter(|one| skip.contains(one))
        .collect();
    if !invalid.is_empty() {
        return Ok(Ret::failed(format!(
            "The following mandatory packages cannot be skipped: {}",
            invalid.join(", ")
        )));
    }
    let required = [missing.clone(), include.clone()].concat();
    let mut targets = missing;
    let default = part(&diff, "default", "not installed");
    targets.extend(default.into_iter().filter(|one| !skip.contains(one)));
    targets.extend(include);
    if targets.is_empty() {
        return Ok(Ret::ok(format!("Group '{name}' is already installed")));
    }
    let is_part = ["mandatory", "default", "optional"]
        .into_iter()
        .any(|kind| !there(kind).is_empty());
    let would = Ret::would(match is_part {
        true => format!("Group '{name}' is partially installed and will be updated"),
        false => format!("Group '{name}' will be installed"),
    });
    cx.apply(would, || {
        let kwargs = args.kwargs.clone().with("pkgs", targets);
        let changes = match cx.call_internal("pkg.install", Vec::new(), kwargs) {
            Ok(changes) => changes,
            Err(why) => return Ok(failed(why)),
        };
        let here = cx.call_internal("pkg.list_pkgs", Vec::new(), Map::new())?;
        let lacking: Vec<String> = required
            .into_iter()
            .filter(|one| here.get(one).is_none())
            .collect();
        let ret = match (lacking.is_empty(), is_part) {
            (false, _) => Ret::failed(format!(
                "Failed to install the following packages: {}",
                lacking.join(", ")
            )),
            (true, true) => Ret::ok(format!("Group '{name}' was updated")),
            (true, false) => Ret::ok(format!("Group '{name}' was installed")),
        };
        Ok(ret.changes(changes))
    })
}
