//! OpenRC, used by Alpine and Gentoo: init scripts, and `rc-update` for runlevels.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Boot, Provider, Which, ask, run, script_name};

pub(super) struct OpenRc;

/// Returns the services in the output of `rc-update`, with their runlevels.
fn parse_runlevels(text: &str) -> Map {
    let entry = |line: &str| {
        let (name, levels) = line.split_once('|')?;
        let mut levels: Vec<String> = levels.split_whitespace().map(str::to_owned).collect();
        levels.sort();
        Some((name.trim().to_owned(), levels))
    };
    text.lines().filter_map(entry).collect()
}

fn services(cx: &Exec) -> Result<Map, Error> {
    Ok(parse_runlevels(
        ask(cx, &["rc-update", "-v", "show"])?.stdout_regardless(),
    ))
}

/// Returns the runlevels of the argument `runlevels`; `None` where it is not given.
fn asked_levels(options: &Map) -> Option<Vec<String>> {
    match options.get("runlevels")? {
        Value::List(levels) => Some(levels.iter().map(Value::to_text).collect()),
        one => Some(vec![one.to_text()]),
    }
}

fn rc_update(cx: &Exec, verb: &str, name: &str, mut levels: Vec<String>) -> Result<bool, Error> {
    levels.sort();
    let mut words = vec!["rc-update", verb, name];
    words.extend(levels.iter().map(String::as_str));
    Ok(run(cx, &words)?.success())
}

impl Provider for OpenRc {
    fn name(&self) -> &'static str {
        "gentoo_service"
    }

    fn act(&self, cx: &Exec, verb: &str, name: &str, _options: &Map) -> Result<bool, Error> {
        script_name(name)?;
        Ok(run(cx, &[&format!("/etc/init.d/{name}"), verb])?.success())
    }

    fn runs(&self, cx: &Exec, name: &str) -> Result<Value, Error> {
        script_name(name)?;
        let out = ask(cx, &[&format!("/etc/init.d/{name}"), "status"])?;
        Ok(out.success().into())
    }

    fn list(&self, cx: &Exec, which: Which, _options: &Map) -> Result<Value, Error> {
        let mut found = services(cx)?;
        if which == Which::Disabled {
            found.retain(|_, levels| !levels.is_true());
            let mut names: Vec<String> = found.keys().map(Value::to_text).collect();
            names.sort();
            return Ok(names.into());
        }
        found.retain(|_, levels| which == Which::All || levels.is_true());
        Ok(found.into())
    }

    fn available(&self, cx: &Exec, name: &str) -> Result<bool, Error> {
        Ok(services(cx)?.contains(name))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["zap"]
    }

    fn boot(&self) -> Option<&dyn Boot> {
        Some(self)
    }
}

impl Boot for OpenRc {
    fn enable(&self, cx: &Exec, name: &str, on: bool, options: &Map) -> Result<bool, Error> {
        script_name(name)?;
        let Some(asked) = asked_levels(options) else {
            return rc_update(cx, if on { "add" } else { "delete" }, name, Vec::new());
        };
        let now = services(cx)?;
        let now: Vec<String> = now.get(name).map(super::names).unwrap_or_default();
        let only = |these: &[String], in_others: bool, others: &[String]| -> Vec<String> {
            let wanted = these
                .iter()
                .filter(|level| others.contains(level) == in_others);
            wanted.cloned().collect()
        };
        let (removed, added) = match on {
            true => (only(&now, false, &asked), only(&asked, false, &now)),
            false => (only(&now, true, &asked), Vec::new()),
        };
        Ok(
            (removed.is_empty() || rc_update(cx, "delete", name, removed)?)
                && (added.is_empty() || rc_update(cx, "add", name, added)?),
        )
    }

    fn enabled(&self, cx: &Exec, name: &str, options: &Map) -> Result<bool, Error> {
        let found = services(cx)?;
        let levels = found.get(name).map(super::names).unwrap_or_default();
        let asked = asked_levels(options).unwrap_or_default();
        Ok(!levels.is_empty() && asked.iter().all(|level| levels.contains(level)))
    }

    fn disabled(&self, cx: &Exec, name: &str, _options: &Map) -> Result<bool, Error> {
        Ok(services(cx)?
            .get(name)
            .is_some_and(|levels| !levels.is_true()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runlevels_stand_behind_the_bar() {
        let text = "            bootmisc | boot\n                cron |      default sysinit\n               ntpd |\nno bar\n";
        let found = parse_runlevels(text);
        assert_eq!(
            value::python::repr(&found.into()),
            "{'bootmisc': ['boot'], 'cron': ['default', 'sysinit'], 'ntpd': []}"
        );
    }
}
