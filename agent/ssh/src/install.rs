//! Installs the program as the minion's daemon of a host: the program itself, a file of its
//! configuration, and a service of the host's init system.

use std::time::Duration;

use smol::block_on;
use state::exec::Exec;

use crate::fault::Fault;
use crate::output::{Output, reason};
use crate::place::Placing;
use crate::program::quoted;
use crate::roster::Host;
use crate::session::Caller;
use crate::settings;

/// The file of the configuration on the host.
pub const CONFIGURATION: &str = "/etc/salt/minion.d/cloud.conf";
/// The service of the daemon on the host.
pub const SERVICE: &str = "pinch-minion";

/// The maximum time to install the program, in addition to that of the connection.
const INSTALL_MAX: Duration = Duration::from_secs(300);
/// The maximum time of a login.
const LOGIN_MAX: Duration = Duration::from_secs(30);
/// The maximum time of a script of the user.
const SCRIPT_MAX: Duration = Duration::from_secs(3600);
/// The script of the installation. Its input is the configuration.
const INSTALL: &str = include_str!("install.sh");

/// The init systems whose services are installed. On others the daemon is only started.
const INITS: [Init; 2] = [
    Init {
        word: "pinch-init systemd",
        unit: include_str!("../../../packaging/services/pinch-minion/systemd.service"),
        place: "umask 022; cat > /etc/systemd/system/@SERVICE@.service && systemctl daemon-reload && systemctl -q enable @SERVICE@ && systemctl restart @SERVICE@",
    },
    Init {
        word: "pinch-init openrc",
        unit: include_str!("../../../packaging/services/pinch-minion/openrc"),
        place: "umask 022; cat > /etc/init.d/@SERVICE@ && chmod 755 /etc/init.d/@SERVICE@ && rc-update -q add @SERVICE@ default && rc-service -q @SERVICE@ restart",
    },
];

/// An init system.
struct Init {
    /// The line by which the script reports it.
    word: &'static str,
    /// The file of the service.
    unit: &'static str,
    /// The line that writes the file, which is its input, and starts the service.
    place: &'static str,
}

fn caller(cx: &Exec) -> Result<Caller, Fault> {
    let own = cli::binary::own_program().map_err(|error| Fault::placing(error.to_string()))?;
    let caller = Caller::new(cx.opts().clone(), settings::of(cx), Placing::default(), own);
    caller.map_err(Fault::placing)
}

/// Returns the output of a command that has succeeded.
fn succeeded(caller: &Caller, done: std::io::Result<Output>, what: &str) -> Result<Output, Fault> {
    let done = done.map_err(|error| Fault::program(&error))?;
    match done.code {
        Some(0) => Ok(done),
        code if caller.settings().is_lost(code, &done.err) => Err(Fault::connection(reason(&done))),
        _ => Err(Fault::placing(format!("{what}: {}", reason(&done)))),
    }
}

/// Logs in to a host, and runs nothing.
///
/// # Errors
/// When it cannot be reached, or refuses the login.
pub fn log_in(cx: &Exec, host: &Host) -> Result<(), Fault> {
    let caller = caller(cx)?;
    let most = LOGIN_MAX + caller.settings().timeout;
    let done = block_on(caller.settings().run(host, "exit 0", b"", most));
    succeeded(&caller, done, "cannot log in").map(drop)
}

/// Installs the daemon on a host, and starts it with this configuration.
///
/// # Errors
/// When the host cannot be reached, or a step there fails.
pub fn daemon(cx: &Exec, host: &Host, configuration: &str) -> Result<(), Fault> {
    let caller = caller(cx)?;
    let program = block_on(caller.program(host))?;
    let lines = INSTALL.lines().filter(|line| !line.starts_with('#'));
    let line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
    let line = line
        .replace("@PROGRAM@", &program)
        .replace("@CONFIGURATION@", CONFIGURATION);
    let run = |line: &str, input: &str| {
        let most = INSTALL_MAX + caller.settings().timeout;
        let done = block_on(caller.settings().run(host, line, input.as_bytes(), most));
        succeeded(&caller, done, "cannot install the minion")
    };
    let out = run(&line, configuration)?.out;
    match INITS
        .iter()
        .find(|init| out.lines().any(|line| line == init.word))
    {
        Some(init) => {
            let filled = |text: &str| {
                text.replace("@PROGRAM@", "pinch")
                    .replace("@SERVICE@", SERVICE)
            };
            run(&filled(init.place), &filled(init.unit)).map(drop)
        }
        None => run("/usr/bin/pinch salt-minion -d", "").map(drop),
    }
}

/// Runs a script of the user on a host with these arguments, and returns its output.
///
/// # Errors
/// When the host cannot be reached, or the script fails.
pub fn script(cx: &Exec, host: &Host, text: &[u8], args: &[String]) -> Result<String, Fault> {
    let caller = caller(cx)?;
    let words: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
    let line = format!(
        "f=$(mktemp) && cat > \"$f\" && chmod 700 \"$f\" && \"$f\" {}; c=$?; rm -f \"$f\"; exit $c",
        words.join(" ")
    );
    let command = caller.settings().raw_command(host, &line);
    let command = command.map_err(|error| Fault::program(&error))?;
    let done = block_on(crate::program::Settings::run_command(
        command, text, SCRIPT_MAX,
    ));
    Ok(succeeded(&caller, done, "the script failed")?.out)
}
