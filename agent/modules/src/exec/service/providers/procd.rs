//! OpenWrt's init scripts in `/etc/init.d`, run by procd, whose state is read over ubus.

use std::path::Path;

use machine::process::which;
use state::exec::Exec;
use state::module::Error;
use value::json::Layout;
use value::{Map, Value};

use super::{Boot, Provider, Which, ask, folder, run, runnable, script_name, started_by};
use crate::exec::status;

pub(super) struct Procd;

/// Returns whether procd runs an instance of a service; `None` where it does not know the service.
fn running(answer: &str, name: &str) -> Option<bool> {
    let answer = value::json::read(answer).ok()?;
    let instances = answer.get(name)?.get("instances")?.as_map()?.clone();
    let runs = |instance: &Value| instance.get("running").is_some_and(Value::is_true);
    Some(instances.values().any(runs))
}

fn scripts() -> Result<Vec<String>, Error> {
    let mut names = folder("/etc/init.d")?;
    names.retain(|name| runnable(&Path::new("/etc/init.d").join(name)));
    Ok(names)
}

impl Provider for Procd {
    fn name(&self) -> &'static str {
        "linux_service"
    }

    fn act(&self, cx: &Exec, verb: &str, name: &str, _options: &Map) -> Result<bool, Error> {
        script_name(name)?;
        Ok(run(cx, &[&format!("/etc/init.d/{name}"), verb])?.success())
    }

    fn runs(&self, cx: &Exec, name: &str) -> Result<Value, Error> {
        script_name(name)?;
        if let Some(ubus) = which("ubus") {
            let query =
                value::json::write(&Map::new().with("name", name).into(), Layout::default());
            let answer = ask(cx, &[&ubus, "call", "service", "list", &query])?;
            if let Some(runs) = running(answer.stdout_regardless(), name) {
                return Ok(runs.into());
            }
        }
        // A script in the old style starts processes without procd.
        Ok((!status::pids(name)?.is_empty()).into())
    }

    fn list(&self, _cx: &Exec, which: Which, _options: &Map) -> Result<Value, Error> {
        let mut names = scripts()?;
        if which != Which::All {
            let started = started_by(&["/etc/rc.d"])?;
            names.retain(|name| started.contains(name) == (which == Which::Enabled));
        }
        Ok(names.into())
    }

    fn actions(&self) -> &'static [&'static str] {
        &["run"]
    }

    fn boot(&self) -> Option<&dyn Boot> {
        Some(self)
    }
}

impl Boot for Procd {
    fn enable(&self, cx: &Exec, name: &str, on: bool, options: &Map) -> Result<bool, Error> {
        let ran = self.act(cx, if on { "enable" } else { "disable" }, name, options)?;
        // `enable` of older releases fails if the links exist already.
        Ok(ran || self.enabled(cx, name, options)? == on)
    }

    fn enabled(&self, _cx: &Exec, name: &str, _options: &Map) -> Result<bool, Error> {
        Ok(started_by(&["/etc/rc.d"])?.iter().any(|each| each == name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_runs_when_one_of_its_instances_does() {
        let answer = r#"{"dnsmasq": {"instances": {"a": {"running": false}, "b": {"running": true, "pid": 7}}}}"#;
        assert_eq!(running(answer, "dnsmasq"), Some(true));
        assert_eq!(
            running(r#"{"cron": {"instances": {}}}"#, "cron"),
            Some(false)
        );
        assert_eq!(running(r#"{"cron": {}}"#, "cron"), None);
        assert_eq!(running("", "cron"), None);
    }
}
