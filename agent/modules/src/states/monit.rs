//! The `monit` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use crate::exec::monit::{send_command, summed};

state::state_module! {
    /// Manage the services that `monit` monitors.
    #[needs("monit", "monit module could not be loaded")]
    mod monit;

    /// Make sure that a service is monitored.
    ///
    ///     nginx:
    ///       monit.monitor
    fn monitor(Monitor {
        /// The name of the service.
        name: String,
    });

    /// Make sure that a service is not monitored.
    ///
    ///     nginx:
    ///       monit.unmonitor
    fn unmonitor(Unmonitor {
        /// The name of the service.
        name: String,
    });
}

/// Returns the status of a service, or `None` if the daemon does not know it.
fn status(cx: &Exec, name: &str) -> Result<Option<String>, Error> {
    let all = summed(cx, name)?;
    let mut kinds = all.values();
    Ok(kinds.find_map(|kind| kind.get(name).map(Value::to_text)))
}

/// Turns the monitoring of a service on or off. `so` contains the status that is searched for, the
/// comment if it is found, and the word for test mode.
fn changed(
    cx: &Exec,
    name: &str,
    verb: &str,
    so: (&str, &str, &str),
    done: &str,
) -> Result<Ret, Error> {
    let (status_wanted, already, state) = so;
    let Some(status) = status(cx, name)? else {
        return Ok(Ret::failed(format!("{name} not found in configuration.")));
    };
    if status.contains(status_wanted) {
        return Ok(Ret::ok(format!("{name} {already}")));
    }
    let would = Ret::would(format!("Service {name} is set to be {state}."));
    cx.apply(would, || {
        Ok(match send_command(cx, verb, name)? {
            true => Ret::ok(format!("{name} {done} monitored.")).change(name, status_wanted),
            // Salt does not check the result.
            false => Ret::failed(format!("monit does not {verb} {name}")),
        })
    })
}

fn monitor(cx: &Exec, args: Monitor) -> Result<Ret, Error> {
    let so = ("Running", "is being being monitored.", "monitored");
    changed(cx, &args.name, "monitor", so, "started to be")
}

fn unmonitor(cx: &Exec, args: Unmonitor) -> Result<Ret, Error> {
    let so = ("Not monitored", "is not being monitored.", "unmonitored");
    changed(cx, &args.name, "unmonitor", so, "stopped being")
}
