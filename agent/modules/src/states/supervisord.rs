//! The `supervisord` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::supervisord::{Daemon, Program, plain};

state::state_module! {
    /// Manage programs that `supervisord` runs.
    #[facts(free_arguments = true)]
    mod supervisord;

    /// Make sure that a program runs. `name:` with a colon is a group.
    ///
    ///     app:
    ///       supervisord.running:
    ///         - update: True
    fn running(Running {
        /// The name in the configuration.
        name: String,
        /// True to restart a program that runs already.
        restart: bool = false,
        /// True to apply all changes of the configuration.
        update: bool = false,
        /// The user who runs `supervisorctl`.
        user: Option<String> = None,
        /// The configuration file for `supervisorctl`.
        conf_file: Option<String> = None,
        /// The path of `supervisorctl`, or of the virtual environment that contains it.
        bin_env: Option<String> = None,
        ..kwargs
    });

    /// Make sure that a program does not run. `name:` with a colon is a group.
    ///
    ///     app:
    ///       supervisord.dead
    fn dead(Dead {
        /// The name in the configuration.
        name: String,
        /// The user who runs `supervisorctl`.
        user: Option<String> = None,
        /// The configuration file for `supervisorctl`.
        conf_file: Option<String> = None,
        /// The path of `supervisorctl`, or of the virtual environment that contains it.
        bin_env: Option<String> = None,
        ..kwargs
    });

    /// Restart the program because a watched state changed something.
    ///
    ///     app:
    ///       supervisord.running:
    ///         - watch:
    ///           - file: /etc/app.conf
    fn mod_watch(ModWatch {
        /// The name in the configuration.
        name: String,
        /// True to restart a program that runs already.
        restart: bool = true,
        /// True to apply all changes of the configuration.
        update: bool = false,
        /// The user who runs `supervisorctl`.
        user: Option<String> = None,
        /// The configuration file for `supervisorctl`.
        conf_file: Option<String> = None,
        /// The path of `supervisorctl`, or of the virtual environment that contains it.
        bin_env: Option<String> = None,
        ..kwargs
    });
}

/// The kind of object that the daemon knows by a name.
enum Kind {
    Nothing,
    Group,
    Service,
}

impl Kind {
    fn find(programs: &[Program], name: &str) -> Self {
        let is_group = |one: &Program| name.ends_with(':') && one.name.starts_with(name);
        if programs.iter().any(is_group) {
            Self::Group
        } else if programs.iter().any(|one| one.name == name) {
            Self::Service
        } else {
            Self::Nothing
        }
    }

    /// Returns the programs of the group or service.
    fn among<'a>(&self, programs: &'a [Program], name: &str) -> Vec<&'a Program> {
        let is_meant = |one: &&Program| match self {
            Self::Nothing => false,
            Self::Group => one.name.starts_with(name),
            Self::Service => one.name == name,
        };
        programs.iter().filter(is_meant).collect()
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Group => " group",
            Self::Service => " service",
        }
    }
}

fn is_stopped(one: &&Program) -> bool {
    let states = ["STOPPED", "STOPPING", "EXITED", "FATAL", "BACKOFF"];
    states.contains(&one.state.as_str())
}

/// Returns `comment` as a success, or the daemon's error message as a failure.
fn outcome(told: &str, comment: &str) -> Ret {
    let harmless = [
        "already started",
        "not running",
        "process group already active",
    ];
    match told.contains("ERROR") && !harmless.iter().any(|text| told.contains(text)) {
        true => Ret::failed(told),
        false => Ret::ok(comment),
    }
}

fn running(cx: &Exec, args: Running) -> Result<Ret, Error> {
    let name = plain(&args.name);
    let daemon = Daemon {
        cx,
        user: args.user,
        conf_file: args.conf_file,
        bin_env: args.bin_env,
    };
    let programs = daemon.programs(None)?;
    let known = Kind::find(&programs, name);
    let among = known.among(&programs, name);
    let ret = match cx.test {
        true => foretold(name, &among),
        false => run(&daemon, name, &known, &among, (args.restart, args.update))?,
    };
    Ok(Ret {
        name: Some(name.to_owned()),
        ..ret
    })
}

/// Returns the result of test mode.
fn foretold(name: &str, among: &[&Program]) -> Ret {
    let is_group = name.ends_with(':');
    let idle = among
        .iter()
        .filter(|one| one.state.to_lowercase() != "running");
    let idle: Vec<&str> = idle.map(|one| one.name.as_str()).collect();
    match (idle.len(), is_group) {
        _ if among.is_empty() && is_group => {
            Ret::would(format!("Group '{name}' will be added and started"))
        }
        _ if among.is_empty() => Ret::would(format!("Service {name} will be added and started")),
        (0, true) => Ret::ok(format!(
            "All services in group '{name}' are already running"
        )),
        (0, false) => Ret::ok(format!("Service {name} is already running")),
        (all, true) if all == among.len() => {
            Ret::would(format!("All services in group '{name}' will be started"))
        }
        (_, true) => Ret::would(format!(
            "The following services will be started: {}",
            idle.join(" ")
        )),
        (_, false) => Ret::would(format!("Service {name} will be started")),
    }
}

fn run(
    daemon: &Daemon<'_>,
    name: &str,
    known: &Kind,
    among: &[&Program],
    (restart, update): (bool, bool),
) -> Result<Ret, Error> {
    let (mut done, mut is_updated) = (Vec::new(), false);
    let mut ret = Ret::ok("");
    if update {
        let told = daemon.tell("update", None)?;
        ret = outcome(&told, "Updating supervisor");
        is_updated = told.contains(&format!("{name}: updated"));
    } else if among.is_empty() {
        let comment = format!("Adding service: {name}");
        daemon.tell("reread", None)?;
        let group = name.strip_suffix(':').unwrap_or(name);
        ret = outcome(&daemon.tell("add", Some(group))?, &comment);
        done.push(comment);
    }
    let kind = known.word();
    let runs = !among.is_empty() && !among.iter().any(is_stopped);
    let verb = match (runs, is_updated) {
        (true, false) if restart => Some(("restart", "Restarting")),
        (false, false) => Some(("start", "Starting")),
        _ => None,
    };
    let last = match verb {
        Some((verb, comment)) => {
            let comment = format!("{comment}{kind}: {name}");
            let ret = outcome(&daemon.tell(verb, Some(name))?, &comment);
            done.push(comment);
            ret
        }
        None if runs => {
            let why = if is_updated {
                "updated"
            } else {
                "already running"
            };
            Ret::ok(format!("Not starting {why}{kind}: {name}"))
        }
        None => ret.clone(),
    };
    // As in Salt, a failure remains the result, but the comment is that of the last step.
    ret = Ret {
        result: ret.result.filter(|result| !result).or(last.result),
        ..last
    };
    Ok(match ret.result {
        Some(true) if !done.is_empty() => ret.change(name, done.join(" ")),
        _ => ret,
    })
}

fn dead(cx: &Exec, args: Dead) -> Result<Ret, Error> {
    let name = &args.name;
    let would = Ret::would(format!("Service {name} is set to be stopped"));
    cx.apply(would, || {
        let daemon = Daemon {
            cx,
            user: args.user,
            conf_file: args.conf_file,
            bin_env: args.bin_env,
        };
        let programs = daemon.programs(None)?;
        let among = Kind::find(&programs, name).among(&programs, name);
        if among.is_empty() {
            return Ok(Ret::ok(format!("Service {name} doesn't exist")));
        }
        if among.iter().all(is_stopped) {
            return Ok(Ret::ok(format!("Service {name} is not running")));
        }
        let comment = format!("Stopping service: {name}");
        let ret = outcome(&daemon.tell("stop", Some(name))?, &comment);
        Ok(match ret.result {
            Some(true) => ret.change(name, comment),
            _ => ret,
        })
    })
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let args = Running {
        name: args.name,
        restart: args.restart,
        update: args.update,
        user: args.user,
        conf_file: args.conf_file,
        bin_env: args.bin_env,
        kwargs: args.kwargs,
    };
    running(cx, args)
}
