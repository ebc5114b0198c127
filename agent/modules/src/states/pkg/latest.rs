//! `pkg.latest`.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, log};

use super::{Latest, Named, installable, is_empty_list, is_refresh_due};
use crate::exec::pkg::providers::transaction::{self, Install};
use crate::exec::pkg::providers::{Packages, Provider, listing, targets};

pub(super) fn run(cx: &Exec, provider: &dyn Provider, mut args: Latest) -> Result<Ret, Error> {
    if args.kwargs.get("sources").is_some_and(Value::is_true) {
        return Ok(Ret::failed("The \"sources\" parameter is not supported."));
    }
    if is_empty_list(&args.pkgs) {
        return Ok(Ret::ok("No packages to install provided"));
    }
    let Some(desired) = desired(cx, provider, &args)? else {
        let comment = "Invalidly formatted \"pkgs\" parameter. See minion log.";
        return Ok(Ret::failed(comment));
    };
    args.kwargs.insert("saltenv", cx.saltenv.as_str());
    let newest = match newest(cx, provider, &args, &desired) {
        Ok(newest) => newest,
        Err(error) => {
            return Ok(Ret::failed(format!(
                "An error was encountered while checking the newest available version of package(s): {error}"
            )));
        }
    };
    let here = listing::listed(cx, provider)?.here();
    let targets = match targets(&desired, &newest, &here) {
        Ok(targets) => targets,
        Err(problems) => return Ok(Ret::failed(problems)),
    };
    let current: Vec<String> = match args.pkgs.is_true() {
        true => others(&desired, &targets),
        false => Vec::new(),
    };
    match (targets.is_empty(), cx.test) {
        (true, _) => Ok(Ret::ok(nothing(desired))),
        (false, true) => predicted(cx, provider, &targets, &current, &here),
        (false, false) => installed(cx, provider, &args, &targets, current),
    }
}

fn desired(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Latest,
) -> Result<Option<Vec<String>>, Error> {
    if !args.pkgs.is_true() {
        return Ok(Some(vec![targets::named(cx, provider, &args.name, false)?]));
    }
    let wanted = targets::repacked(cx, provider, &args.pkgs, true)?;
    Ok(wanted.map(|wanted| wanted.into_iter().map(|one| one.name).collect()))
}

fn newest(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Latest,
    desired: &[String],
) -> Result<Map, Error> {
    if is_refresh_due(cx, args.refresh) {
        transaction::refresh(cx, provider, &args.kwargs)?;
    }
    let kwargs = args.kwargs.clone().with("fromrepo", args.fromrepo.clone());
    provider.latest(cx, desired, &kwargs)
}

/// Returns the packages to install with their versions, or an error about packages that are not
/// known.
fn targets(desired: &[String], newest: &Map, here: &Packages) -> Result<Named, String> {
    let (mut targets, mut problems) = (Named::new(), Vec::new());
    for name in desired {
        match newest.get(name).filter(|version| version.is_true()) {
            Some(version) => targets.push((name.clone(), Some(version.to_text()))),
            None if here.contains(name) => {}
            None => {
                let problem = format!("No information found for '{name}'.");
                log::error(&problem);
                problems.push(problem);
            }
        }
    }
    match problems.is_empty() {
        true => Ok(targets),
        false => Err(problems.join(" ")),
    }
}

/// Returns the packages that are up to date, sorted.
fn others(desired: &[String], targets: &Named) -> Vec<String> {
    let is_target = |name: &String| targets.iter().any(|(target, _)| target == name);
    let mut others: Vec<String> = desired
        .iter()
        .filter(|name| !is_target(name))
        .cloned()
        .collect();
    others.sort();
    others
}

fn nothing(mut desired: Vec<String>) -> String {
    match desired.as_slice() {
        [one] => format!("Package {one} is already up-to-date"),
        many if many.len() > 10 => format!("All {} packages are up-to-date.", many.len()),
        _ => {
            desired.sort();
            format!("All packages are up-to-date ({}).", desired.join(", "))
        }
    }
}

fn sorted(targets: &Named) -> String {
    let mut names: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.join(", ")
}

fn predicted(
    cx: &Exec,
    provider: &dyn Provider,
    targets: &Named,
    current: &[String],
    here: &Packages,
) -> Result<Ret, Error> {
    let targeted = sorted(targets);
    let mut comment = format!("The following packages would be installed/upgraded: {targeted}");
    let versions = listing::stringified(here);
    let version = |name: &str| versions.get(name).map(Value::to_text).unwrap_or_default();
    if current.len() > 10 {
        comment += &format!("\n{} packages are already up-to-date", current.len());
    } else if !current.is_empty() {
        let shown = current
            .iter()
            .map(|name| format!("{name} ({})", version(name)));
        let shown = shown.collect::<Vec<_>>().join(", ");
        comment += &format!("\nThe following packages are already up-to-date: {shown}");
    }
    let changes = installable(cx, provider, targets, &versions, false)?;
    Ok(Ret::would(comment).changes(changes))
}

fn installed(
    cx: &Exec,
    provider: &dyn Provider,
    args: &Latest,
    targets: &Named,
    current: Vec<String>,
) -> Result<Ret, Error> {
    let install = Install {
        pkgs: Value::list(targets.iter().map(|(name, _)| name.into())),
        fromrepo: args.fromrepo.clone(),
        skip_verify: args.skip_verify,
        normalize: true,
        kwargs: args.kwargs.clone(),
        ..Install::default()
    };
    let changes = match transaction::install(cx, provider, &install) {
        Ok(changes) => changes,
        Err(failed) => {
            let comment = format!("An error was encountered while installing package(s): {failed}");
            return Ok(Ret::failed(comment));
        }
    };
    Ok(match changes.is_empty() {
        true => Ret::failed(none_updated(targets) + &already(&current)),
        false => report(targets, &current, changes),
    })
}

fn none_updated(targets: &Named) -> String {
    match targets.as_slice() {
        [(one, _)] => format!("Package {one} failed to update."),
        many if many.len() > 10 => format!(
            "{} targeted packages failed to update. See debug log for details.",
            many.len()
        ),
        _ => format!(
            "The following targeted packages failed to update. See debug log for details: ({}).",
            sorted(targets)
        ),
    }
}

/// Returns the comment about packages that were up to date already.
fn already(current: &[String]) -> String {
    match current.len() {
        0 => String::new(),
        1..=10 => format!(
            " The following packages were already up-to-date: {}",
            current.join(", ")
        ),
        count => format!(" {count} packages were already up-to-date "),
    }
}

fn report(targets: &Named, current: &[String], changes: Map) -> Ret {
    let is_done = |(name, version): &&(String, Option<String>)| {
        let change = changes.get(name).filter(|change| change.is_true());
        change.is_some_and(
            |change| match change.get("new").filter(|new| !new.is_null()) {
                None => true,
                Some(new) => new
                    .to_text()
                    .split(',')
                    .any(|new| Some(new) == version.as_deref()),
            },
        )
    };
    let (done, failed): (Vec<_>, Vec<_>) = targets.iter().partition(is_done);
    let listed =
        |list: Vec<&(String, Option<String>)>| sorted(&list.into_iter().cloned().collect());
    let (ok, mut comments) = (failed.is_empty(), Vec::new());
    if !ok {
        comments.push(format!(
            "The following packages failed to update: {}",
            listed(failed)
        ));
    }
    if !done.is_empty() {
        let done = listed(done);
        comments.push(format!(
            "The following packages were successfully installed/upgraded: {done}"
        ));
    }
    let comment = comments.join(" ") + &already(current);
    let ret = if ok {
        Ret::ok(comment)
    } else {
        Ret::failed(comment)
    };
    ret.changes(changes)
}
