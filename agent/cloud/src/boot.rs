//! The first start of a machine: the configuration of its minion, user data, and the installation by
//! ssh.

use std::path::Path;
use std::time::Duration;

use state::ask::Ask;
use state::exec::{Exec, find};
use state::module::Arguments;
use value::json::{self, Layout};
use value::{Map, Value, log, secret, trust};

use crate::driver::{Boot, Machine};
use crate::fault::Fault;
use crate::spec::Spec;

/// The default of `deploy_timeout`: the time until the minion of a new machine has started.
pub const START_MAX: Duration = Duration::from_secs(900);
/// The maximum size of user data in bytes; EC2 accepts 16 KiB.
const USER_DATA_MAX: usize = 16 << 10;
/// The runner that makes a token.
const TOKEN: &str = "token.create";
/// The wheel function that returns the fingerprint of the master's key.
const FINGER: &str = "key.finger_master";
/// The command that starts the daemon, if the image has it.
const START: &str = "systemctl enable --now pinch-minion || salt-minion -d";

/// Returns whether this program is a master, which makes tokens and knows when minions start.
pub(crate) fn is_master(cx: &Exec) -> bool {
    find(cx.shared.registry.runners, TOKEN).is_some()
}

/// The way in which a machine gets its minion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deploy {
    /// Not at all.
    None,
    /// As the driver does it.
    By(Boot),
}

/// Returns the way in which a machine gets its minion: `deploy`, which is true, false, `user_data`,
/// `ssh` or `none`.
///
/// # Errors
/// When `deploy` has another value.
pub fn deploy(spec: &Spec, boot: Boot) -> Result<Deploy, Fault> {
    match spec.settings.get("deploy") {
        None | Some(Value::Null | Value::Bool(true)) => Ok(Deploy::By(boot)),
        Some(Value::Bool(false)) => Ok(Deploy::None),
        Some(word) => match word.to_text().as_str() {
            "none" => Ok(Deploy::None),
            "ssh" => Ok(Deploy::By(Boot::Ssh)),
            "user_data" => Ok(Deploy::By(Boot::UserData)),
            other => Err(Fault::wrong(format!(
                "{}: deploy is {other:?}; expected True, False, user_data, ssh or none",
                spec.name
            ))),
        },
    }
}

/// Returns the configuration of a machine's minion: `minion` of its settings with its id, its grains,
/// the fingerprint of the master and, on a master, a token that is good for this id once.
///
/// # Errors
/// When the master makes no token.
pub fn configuration(cx: &Exec, spec: &Spec) -> Result<Map, Fault> {
    let mut minion = spec.map("minion");
    minion.insert("id", spec.name.as_str());
    let mut grains = minion
        .get("grains")
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    grains.update(spec.map("grains"));
    let own = Map::new()
        .with("driver", spec.provider.driver.as_str())
        .with("provider", spec.provider.full())
        .with("profile", spec.profile.clone());
    minion.insert("grains", grains.with("salt-cloud", own));
    if let (Some(states), false) = (
        spec.get("startup_states"),
        minion.contains("startup_states"),
    ) {
        minion.insert("startup_states", states.clone());
    }
    if !minion.contains("master") {
        log::warning(format_args!(
            "There's no master defined on the '{}' VM settings.",
            spec.name
        ));
    }
    let is_known = ["enroll_token", "enroll_token_file", "master_type"];
    if !is_master(cx) || is_known.iter().any(|key| minion.contains(key)) {
        return Ok(minion);
    }
    if !minion.contains("master_finger")
        && let Some(finger) = finger(cx)?
    {
        minion.insert("master_finger", finger);
    }
    if let Some(token) = token(cx, spec)? {
        minion.insert("enroll_token", token);
    }
    Ok(minion)
}

/// Makes a token for a machine. It is not announced on the bus, since all users may read that. Returns
/// `None` without a master.
fn token(cx: &Exec, spec: &Spec) -> Result<Option<String>, Fault> {
    let Some(create) = find(cx.shared.registry.runners, TOKEN) else {
        return Ok(None);
    };
    let time = spec.time("deploy_timeout", START_MAX).as_secs().max(60);
    let kwargs = Map::new()
        .with("id", spec.name.as_str())
        .with("uses", 1)
        .with("ttl", format!("{time}s"));
    let made = create.invoke(TOKEN, cx, Arguments::new(Vec::new(), kwargs))?;
    let token = made.get("token").cloned().unwrap_or_default();
    secret::keep(&[], &token);
    Ok(Some(token.to_text()))
}

/// Returns the fingerprint of the master's key.
fn finger(cx: &Exec) -> Result<Option<String>, Fault> {
    let ask = Ask::Wheel {
        fun: FINGER.to_owned(),
        arg: Vec::new(),
    };
    let answer = cx.ask(ask)?;
    let local = answer.as_ref().and_then(|answer| answer.get("local"));
    Ok(local
        .and_then(|local| local.get("master.pub"))
        .map(Value::to_text))
}

/// Returns the configuration as the text of a file.
fn file(configuration: &Map) -> String {
    json::write(&configuration.clone().into(), Layout::default()) + "\n"
}

/// Returns the user data of a machine: `userdata`, the text of `userdata_file`, or that of cloud-init,
/// which configures, installs and starts the minion.
///
/// # Errors
/// When it is too long, the file cannot be read, or the master makes no token.
pub fn user_data(cx: &Exec, spec: &Spec) -> Result<String, Fault> {
    let text = match (spec.text("userdata"), spec.text("userdata_file")) {
        (Some(text), _) => text,
        (None, Some(path)) => own_user_data(spec, Path::new(&path))?,
        (None, None) => cloud_config(cx, spec)?,
    };
    match text.len() > USER_DATA_MAX {
        true => Err(Fault::wrong(format!(
            "{}: the user data has more than {} KiB: see userdata, minion and install",
            spec.name,
            USER_DATA_MAX >> 10
        ))),
        false => Ok(text),
    }
}

/// Returns the text of `userdata_file`.
fn own_user_data(spec: &Spec, path: &Path) -> Result<String, Fault> {
    if let Some(template) = spec.text("userdata_template") {
        return Err(Fault::wrong(format!(
            "{}: the setting userdata_template ({template}) is not supported: {} must be the text itself",
            spec.name,
            path.display()
        )));
    }
    trust::path(path, trust::user()).map_err(|error| Fault::Wrong(error.sentence()))?;
    machine::fs::text(path).map_err(|error| Fault::wrong(error.to_string()))
}

/// Returns the user data for cloud-init: the configuration of the minion, and the commands that install
/// and start it.
fn cloud_config(cx: &Exec, spec: &Spec) -> Result<String, Fault> {
    let configuration = configuration(cx, spec)?;
    let written = Map::new()
        .with("path", ssh::install::CONFIGURATION)
        .with("permissions", "0600")
        .with("content", file(&configuration));
    let mut commands: Vec<Value> = match spec.get("install") {
        Some(Value::List(lines)) => lines.iter().cloned().collect(),
        Some(line) => vec![line.clone()],
        None => Vec::new(),
    };
    commands.push(START.into());
    let data = Map::new()
        .with("write_files", Value::list([written.into()]))
        .with("runcmd", Value::list(commands));
    Ok(format!(
        "#cloud-config\n{}\n",
        json::write(&data.into(), Layout::default())
    ))
}

/// Returns how a machine is reached by ssh: `ssh_host`, or its own address, or its name.
///
/// # Errors
/// When a setting is not well formed.
pub fn host(cx: &Exec, spec: &Spec, machine: Option<&Machine>) -> Result<ssh::roster::Host, Fault> {
    let settings = crate::drivers::revealed(cx, &spec.settings)?;
    let given = |keys: &[&str]| {
        let mut found = keys.iter().filter_map(|key| settings.get(key));
        found.find(|value| value.is_true()).cloned()
    };
    let address = machine
        .and_then(Machine::address)
        .unwrap_or(spec.name.as_str());
    let mut entry = Map::new();
    entry.insert(
        "host",
        given(&["ssh_host"]).unwrap_or_else(|| address.into()),
    );
    for (key, names) in [
        ("user", &["ssh_username"][..]),
        ("passwd", &["ssh_password", "password"]),
        ("port", &["ssh_port"]),
        (
            "priv",
            &["private_key", "key_filename", "ssh_keyfile", "ssh_key_file"],
        ),
        ("host_key", &["host_key", "ssh_host_key"]),
        ("sudo", &["sudo"]),
    ] {
        if let Some(value) = given(names) {
            entry.insert(key, value);
        }
    }
    ssh::roster::Host::from_entry(spec.name.as_str(), &entry.into(), &Map::new())
        .map_err(Fault::Wrong)
}

/// The scripts of Salt, which install its Python.
const SALTS_SCRIPTS: [&str; 3] = ["bootstrap-salt", "bootstrap-salt.sh", "bootstrap-salt.ps1"];

/// Installs the minion on a machine by ssh: by `script`, or else this program itself.
///
/// # Errors
/// When the machine cannot be reached, or a step there fails.
pub fn by_ssh(cx: &Exec, spec: &Spec, machine: &Machine) -> Result<(), Fault> {
    let host = host(cx, spec, Some(machine))?;
    let failed = |fault: ssh::fault::Fault| Fault::refused("ssh", "", &fault.text);
    let script = spec.text("script").filter(|script| script != "None");
    let Some(script) = script else {
        let configuration = file(&configuration(cx, spec)?);
        return ssh::install::daemon(cx, &host, &configuration).map_err(failed);
    };
    let name = script.rsplit('/').next().unwrap_or_default();
    if SALTS_SCRIPTS.contains(&name) {
        return Err(Fault::wrong(format!(
            "{}: the script {script} installs Salt's Python, which is not needed: remove the setting `script`",
            spec.name
        )));
    }
    let folder = crate::config::folder(cx).join("cloud.deploy.d");
    let path = folder.join(&script);
    let text = machine::fs::read(&path).map_err(|error| Fault::wrong(error.to_string()))?;
    let args = spec.text("script_args").unwrap_or_default();
    let args = python::shlex::split(&args)
        .map_err(|error| Fault::wrong(format!("{}: script_args: {error}", spec.name)))?;
    let out = ssh::install::script(cx, &host, &text, &args).map_err(failed)?;
    log::debug(format_args!("{}: {out}", spec.name));
    Ok(())
}
