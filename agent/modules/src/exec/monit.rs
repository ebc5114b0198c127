//! The `monit` execution module. Salt 3008 has it no more; answers are those of its last one.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::tool;
use crate::process::Output;

state::exec_module! {
    /// What `monit` looks after.
    mod monit;

    /// Start a service.
    fn start(Start {
        /// Its name.
        name: String,
    });

    /// Stop a service.
    fn stop(Stop {
        /// Its name.
        name: String,
    });

    /// Stop and start a service.
    fn restart(Restart {
        /// Its name.
        name: String,
    });

    /// Look after a service.
    fn monitor(Monitor {
        /// Its name.
        name: String,
    });

    /// Look after a service no more.
    fn unmonitor(Unmonitor {
        /// Its name.
        name: String,
    });

    /// Return how services are, by their kind.
    fn summary(Summary {
        /// One of them.
        svc_name: String = String::new(),
    });

    /// Read the configuration anew.
    fn reload(Reload {});

    /// Return whether the configuration can be read.
    fn configtest(Configtest {});

    /// Return the version.
    fn version(Version {});

    /// Look at everything now.
    fn validate(Validate {});
}

fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    tool::run(cx, &[&["monit"], words].concat(), None, None)
}

/// Tells the daemon what to do with a service: whether it takes it.
///
/// # Errors
/// When the program is missing.
pub(crate) fn told(cx: &Exec, verb: &str, name: &str) -> Result<bool, Error> {
    tool::is_name("service", name)?;
    Ok(run(cx, &[verb, name])?.success())
}

/// How services are, by their kind; what the daemon says where it does not run.
///
/// # Errors
/// When the program is missing.
pub(crate) fn summed(cx: &Exec, service: &str) -> Result<Map, Error> {
    let output = run(cx, &["summary"])?;
    let mut all = Map::new();
    for line in output.stdout.lines().chain(output.stderr.lines()) {
        if line.contains("daemon is not running") {
            return Ok(Map::new()
                .with("monit", "daemon is not running")
                .with("result", false));
        }
        let parts: Vec<&str> = line.split('\'').collect();
        if let [kind, name, status] = parts.as_slice()
            && !line.contains("The Monit daemon")
            && (service.is_empty() || service == *name)
        {
            let of_kind = all.entry(kind.trim(), || Map::new().into());
            if let Some(of_kind) = of_kind.as_map_mut() {
                of_kind.insert(*name, status.trim());
            }
        }
    }
    Ok(all)
}

fn start(cx: &Exec, args: Start) -> Result<Value, Error> {
    Ok(told(cx, "start", &args.name)?.into())
}

fn stop(cx: &Exec, args: Stop) -> Result<Value, Error> {
    Ok(told(cx, "stop", &args.name)?.into())
}

fn restart(cx: &Exec, args: Restart) -> Result<Value, Error> {
    Ok(told(cx, "restart", &args.name)?.into())
}

fn monitor(cx: &Exec, args: Monitor) -> Result<Value, Error> {
    Ok(told(cx, "monitor", &args.name)?.into())
}

fn unmonitor(cx: &Exec, args: Unmonitor) -> Result<Value, Error> {
    Ok(told(cx, "unmonitor", &args.name)?.into())
}

fn summary(cx: &Exec, args: Summary) -> Result<Value, Error> {
    Ok(summed(cx, &args.svc_name)?.into())
}

fn reload(cx: &Exec, _: Reload) -> Result<Value, Error> {
    Ok(run(cx, &["reload"])?.success().into())
}

fn configtest(cx: &Exec, _: Configtest) -> Result<Value, Error> {
    let output = run(cx, &["-t"])?;
    let (comment, key, said) = match output.success() {
        true => ("Syntax OK", "stdout", output.stdout.clone()),
        false => ("Syntax Error", "stderr", output.stderr.clone()),
    };
    let answer = Map::new().with("comment", comment).with(key, said);
    Ok(answer.with("result", output.success()).into())
}

fn version(cx: &Exec, _: Version) -> Result<Value, Error> {
    let said = run(cx, &["-V"])?.stdout;
    let first = said.lines().next().unwrap_or_default();
    Ok(first.split_whitespace().last().unwrap_or_default().into())
}

fn validate(cx: &Exec, _: Validate) -> Result<Value, Error> {
    Ok(run(cx, &["validate"])?.success().into())
}
