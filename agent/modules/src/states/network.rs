//! The `network` state module: the settings of the whole machine. Interfaces and routes are not managed.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::diff;
use crate::exec::ip;

state::state_module! {
    /// The network of this machine.
    mod network;

    /// Make sure that the machine has these settings: `enabled`, `hostname`, `search` and, on Red Hat, what
    /// `/etc/sysconfig/network` may hold. `apply_hostname` sets the name now, `require_reboot` leaves the network running.
    fn system(System {
        /// What the settings are called.
        name: String,
        ..kwargs
    });
}

fn system(cx: &Exec, args: System) -> Result<Ret, Error> {
    let plan = ip::plan(cx, &args.kwargs)?;
    if plan.old == plan.new {
        return Ok(Ret::ok("Global network settings are up to date."));
    }
    let lines = diff::unified(&plan.old, &plan.new, "", "");
    // Headers end in a newline that the lines of a file may not have.
    let headers = |line: &String| {
        line.starts_with("--- ") || line.starts_with("+++ ") || line.starts_with("@@ ")
    };
    let lines: Vec<&str> = lines
        .iter()
        .map(|line| {
            if headers(line) {
                line.trim_end_matches('\n')
            } else {
                line
            }
        })
        .collect();
    let lines = lines.join("\n");
    let (would, change) = match plan.old.is_empty() {
        true => (
            "Global network settings are set to be added.".to_owned(),
            "Added global network settings.".to_owned(),
        ),
        false => (
            format!("Global network settings are set to be updated:\n{lines}"),
            lines,
        ),
    };
    cx.apply(Ret::would(would), || {
        plan.carry_out(cx)?;
        let ret = Ret::ok("Global network settings are up to date.");
        let ret = ret.change("network_settings", change.as_str());
        if !ip::apply(cx, &args.kwargs)? {
            return Ok(ret.warning(
                "The network was not restarted, or the host name could not be set: see the log.",
            ));
        }
        Ok(ret)
    })
}
