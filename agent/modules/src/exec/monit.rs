//! The `monit` execution module. Salt 3008 no longer has it; the results are those of its last
//! version.

use machine::process::Output;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::tool;

state::exec_module! {
    /// Manage the services that `monit` monitors.
    #[needs(
        "monit",
        "The monit execution module cannot be loaded: the monit binary is not in the path."
    )]
    mod monit;

    /// Start a service.
    ///
    ///     salt-call monit.start nginx
    fn start(Start {
        /// The name of the service.
        name: String,
    });

    /// Stop a service.
    ///
    ///     salt-call monit.stop nginx
    fn stop(Stop {
        /// The name of the service.
        name: String,
    });

    /// Restart a service.
    ///
    ///     salt-call monit.restart nginx
    fn restart(Restart {
        /// The name of the service.
        name: String,
    });

    /// Monitor a service.
    ///
    ///     salt-call monit.monitor nginx
    fn monitor(Monitor {
        /// The name of the service.
        name: String,
    });

    /// Stop monitoring a service.
    ///
    ///     salt-call monit.unmonitor nginx
    fn unmonitor(Unmonitor {
        /// The name of the service.
        name: String,
    });

    /// Return the status of the services, grouped by type.
    ///
    ///     salt-call monit.summary
    fn summary(Summary {
        /// The name of the only service to return. The default is all services.
        svc_name: String = String::new(),
    });

    /// Reload the configuration.
    ///
    ///     salt-call monit.reload
    fn reload(Reload {});

    /// Return True if the configuration is valid.
    ///
    ///     salt-call monit.configtest
    fn configtest(Configtest {});

    /// Return the version.
    ///
    ///     salt-call monit.version
    fn version(Version {});

    /// Check all services now.
    ///
    ///     salt-call monit.validate
    fn validate(Validate {});
}

fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    tool::run(cx, &[&["monit"], words].concat(), None, None)
}

/// Sends a command for a service to the daemon. Returns whether the daemon accepts it.
///
/// # Errors
/// When the program is missing.
pub(crate) fn send_command(cx: &Exec, verb: &str, name: &str) -> Result<bool, Error> {
    tool::is_name("service", name)?;
    Ok(run(cx, &[verb, name])?.success())
}

/// Returns the status of the services, grouped by type; a message of the daemon if it is not
/// running.
///
/// # Errors
/// When the program is missing.
pub(crate) fn summed(cx: &Exec, service: &str) -> Result<Map, Error> {
    let output = run(cx, &["summary"])?;
    let mut all = Map::new();
    for line in output
        .stdout_regardless()
        .lines()
        .chain(output.stderr.lines())
    {
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
    Ok(send_command(cx, "start", &args.name)?.into())
}

fn stop(cx: &Exec, args: Stop) -> Result<Value, Error> {
    Ok(send_command(cx, "stop", &args.name)?.into())
}

fn restart(cx: &Exec, args: Restart) -> Result<Value, Error> {
    Ok(send_command(cx, "restart", &args.name)?.into())
}

fn monitor(cx: &Exec, args: Monitor) -> Result<Value, Error> {
    Ok(send_command(cx, "monitor", &args.name)?.into())
}

fn unmonitor(cx: &Exec, args: Unmonitor) -> Result<Value, Error> {
    Ok(send_command(cx, "unmonitor", &args.name)?.into())
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
        true => ("Syntax OK", "stdout", output.stdout_regardless().to_owned()),
        false => ("Syntax Error", "stderr", output.stderr.clone()),
    };
    let answer = Map::new().with("comment", comment).with(key, said);
    Ok(answer.with("result", output.success()).into())
}

fn version(cx: &Exec, _: Version) -> Result<Value, Error> {
    let said = run(cx, &["-V"])?.into_stdout_regardless();
    let first = said.lines().next().unwrap_or_default();
    Ok(first.split_whitespace().last().unwrap_or_default().into())
}

fn validate(cx: &Exec, _: Validate) -> Result<Value, Error> {
    Ok(run(cx, &["validate"])?.success().into())
}
