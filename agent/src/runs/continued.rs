//! `pinch runs continue`: continues the runs that waited for a reboot, once the machine has booted.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cli::binary;
use cli::failure::{Exit, Failure};
use cli::options::Parsed;
use state::boot;
use state::opts::Opts;
use state::record::{self, Recorded};
use value::{Map, Value, log, secret};

use crate::uplink::{self, Uplink};

/// The functions whose runs are continued: those that can be called again by name.
const KINDS: [&str; 4] = [
    "state.orchestrate",
    "state.sls",
    "state.apply",
    "state.highstate",
];

/// The maximum time to wait for a network route before a run continues without one.
const NETWORK: Duration = Duration::from_secs(60);

/// The maximum time to wait for the master before a run continues, or fails, without it.
const MASTER: Duration = Duration::from_secs(120);

/// The maximum number of attempts to continue a run that a master started.
const TRIES: u32 = 3;

/// The interval between two checks for a network route or for the master.
const LOOK: Duration = Duration::from_millis(500);

/// Continues each run that waited for a reboot, if the machine has rebooted since. The exit code is
/// that of the first run that fails.
///
/// # Errors
/// If a run cannot be started.
pub(super) fn all(opts: &Opts, parsed: &Parsed) -> Result<ExitCode, Failure> {
    let mut code = 0;
    let now = boot::id();
    let refused = |error| Failure::new(Exit::Generic, error);
    if !record::jids(opts).is_empty() {
        record::trusted(&record::folder(opts)).map_err(refused)?;
    }
    for jid in record::jids(opts) {
        let path = record::folder(opts).join(&jid);
        if record::is_finished(&path) || record::is_alive(&path) {
            continue;
        }
        if let Err(error) = record::trusted(&path) {
            binary::put(&format!("{jid}  skipped: {error}\n"));
            code = Exit::Generic as u8;
            continue;
        }
        let Ok(recorded) = record::read(&path) else {
            continue;
        };
        let mut begun = recorded.begun.iter();
        let Some((before, routed)) = begun.find_map(|one| Some((one.boot.clone()?, one.routed)))
        else {
            continue;
        };
        let what = named(&recorded);
        if now.as_ref().is_none_or(|now| *now == before) {
            binary::put(&format!(
                "{jid}  {what}: skipped, still waits for a reboot\n"
            ));
            continue;
        }
        if let Some(why) = hidden(&jid, &recorded) {
            binary::put(&format!("{jid}  {what}: {why}\n"));
            if recorded.left.is_none()
                && let Err(error) = record::leave(&path, &why)
            {
                log::error(error);
            }
            give_back(opts, &jid, &path);
            code = Exit::Generic as u8;
            continue;
        }
        let Some(words) = words(&jid, &recorded) else {
            binary::put(&format!(
                "{jid}  {what}: skipped, cannot be continued automatically\n"
            ));
            continue;
        };
        binary::put(&format!("{jid}  {what}: continuing after the reboot\n"));
        wait_for_network(routed);
        let failed = match recorded.start.contains("remote") {
            true => started_with_master(opts, parsed, &words, (&path, &recorded))?,
            false => started(parsed, &words)?,
        };
        give_back(opts, &jid, &path);
        code = if code == 0 { failed } else { code };
    }
    Ok(ExitCode::from(code))
}

fn text(recorded: &Recorded, key: &str) -> String {
    recorded
        .start
        .get(key)
        .map(Value::to_text)
        .unwrap_or_default()
}

fn mods(recorded: &Recorded) -> String {
    let mods = recorded.start.get("args").and_then(|args| args.get("mods"));
    mods.map(Value::split_input).unwrap_or_default().join(",")
}

fn named(recorded: &Recorded) -> String {
    let named = [text(recorded, "fun"), mods(recorded)].join(" ");
    named.trim_end().to_owned()
}

/// Returns the reason if a run cannot be continued automatically because it was given secrets,
/// which no record contains.
fn hidden(jid: &str, recorded: &Recorded) -> Option<String> {
    let args = recorded.start.get("args")?;
    let is_hidden = |key: &&str| args.get(key).is_some_and(secret::is_masked);
    let key = ["pillar", "exclude"].into_iter().find(is_hidden)?;
    let what = named(recorded);
    Some(format!(
        "{key}= contained secrets, which are not recorded: continue with salt-call {what} resume={jid} {key}=…; values in the minion's pillar are available after a reboot"
    ))
}

/// Reports whether a word is the name of an SLS or of an environment, or several names separated by
/// commas. An option or a keyword argument is not.
fn is_named(word: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || "._-/+@ ".contains(c);
    word.split(',').all(|name| {
        !name.is_empty() && !name.starts_with(['-', ' ']) && name.chars().all(is_of_name)
    })
}

/// Returns the arguments of `salt-call` that continue a run. A record may name only what is allowed
/// here: one of four functions, SLS files and an environment. Returns `None` if it names anything
/// else.
fn words(jid: &str, recorded: &Recorded) -> Option<Vec<String>> {
    let fun = text(recorded, "fun");
    if !KINDS.contains(&fun.as_str()) {
        return None;
    }
    let mut words = vec!["salt-call".to_owned()];
    if !recorded.start.contains("remote") {
        words.push("--local".to_owned());
    }
    // After `--`, no word is parsed as an option.
    words.extend(["--retcode-passthrough", "--no-color", "--", &fun].map(str::to_owned));
    let mods = mods(recorded);
    if !mods.is_empty() {
        words.push(is_named(&mods).then_some(mods)?);
    }
    let args = recorded.start.get("args");
    if let Some(saltenv) = args.and_then(|args| args.get("saltenv")) {
        let saltenv = saltenv.to_text();
        words.push(is_named(&saltenv).then(|| format!("saltenv={saltenv}"))?);
    }
    // Another run may have started at boot.
    words.extend([format!("resume={jid}"), "queue=True".to_owned()]);
    Some(words)
}

/// Sends the master the result of its job if the reboot prevented the job from returning it.
fn give_back(opts: &Opts, jid: &str, path: &Path) {
    let Ok(recorded) = record::read(path) else {
        return;
    };
    let user = recorded.start.get("user");
    if user.is_none() || recorded.waits_for_boot() {
        return;
    }
    let (ret, retcode) = match &recorded.end {
        Some(end) => (
            Value::from(recorded.returns.clone()),
            end.get("retcode").cloned().unwrap_or_default(),
        ),
        None => {
            let seen = || format!("see its log and `pinch runs show {jid}` there");
            let why = recorded.left.clone().unwrap_or_else(seen);
            let text = format!(
                "ERROR: run {jid} was not continued after the reboot of this machine: {why}"
            );
            (text.into(), Value::from(1))
        }
    };
    let data = Map::new()
        .with("jid", jid)
        .with("fun", text(&recorded, "fun"))
        .with("fun_args", Value::list([mods(&recorded).into()]))
        .with("user", user.cloned())
        .with("success", retcode == Value::from(0))
        .with("retcode", retcode)
        .with(
            "out",
            recorded.end.as_ref().map_or("nested", |_| "highstate"),
        )
        .with("return", ret);
    if let Err(error) = Uplink::leave(opts, jid, secret::map(data)) {
        log::error(format_args!(
            "cannot store the return of job {jid}: {error}"
        ));
    }
}

/// Waits for a network route, if the machine had one when the run began.
fn wait_for_network(had_one: bool) {
    let started = Instant::now();
    while had_one && !boot::is_routed() && started.elapsed() < NETWORK {
        sleep(LOOK);
    }
}

/// Runs the program once the master answers, because the run needs the master's files and pillar.
/// Tries again if the run was not resumed, for example because the daemon started at the same
/// moment.
fn started_with_master(
    opts: &Opts,
    parsed: &Parsed,
    words: &[String],
    (path, before): (&Path, &Recorded),
) -> Result<u8, Failure> {
    let taken_up = || record::read(path).is_ok_and(|now| now.resumed.len() > before.resumed.len());
    let mut code = 0;
    for _ in 0..TRIES {
        let started_at = Instant::now();
        while !uplink::answers(opts) && started_at.elapsed() < MASTER {
            sleep(LOOK);
        }
        code = started(parsed, words)?;
        if code == 0 || taken_up() {
            break;
        }
        sleep(LOOK);
    }
    Ok(code)
}

/// Runs the program with the given arguments and returns its exit code.
#[expect(
    clippy::disallowed_methods,
    reason = "the child is this program; no module starts it, and its output is the user's"
)]
fn started(parsed: &Parsed, words: &[String]) -> Result<u8, Failure> {
    let own = std::env::current_exe();
    let own = own.map_err(|error| Failure::new(Exit::Generic, error))?;
    let mut command = Command::new(own);
    command.args(words).stdin(Stdio::null());
    if let Some(dir) = parsed.text("config_dir") {
        command.env("SALT_CONFIG_DIR", Path::new(dir));
    }
    // No deadline: the program runs as long as the remaining states do.
    let status = command.status();
    let status = status.map_err(|error| Failure::new(Exit::Generic, error))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JID: &str = "20251120122702123456";

    fn recorded(fun: &str, args: Map) -> Recorded {
        Recorded {
            start: Map::new().with("fun", fun).with("args", args),
            ..Recorded::default()
        }
    }

    #[test]
    fn what_a_record_names_is_never_an_option_of_the_program() {
        let args = Map::new()
            .with("mods", Value::list(["web.site".into(), "db".into()]))
            .with("saltenv", "dev");
        let words = words(JID, &recorded("state.sls", args)).unwrap().join(" ");
        assert_eq!(
            words,
            format!(
                "salt-call --local --retcode-passthrough --no-color -- state.sls web.site,db saltenv=dev resume={JID} queue=True"
            )
        );
    }

    #[test]
    fn a_record_that_names_anything_else_is_left() {
        for mods in [
            "--config-dir=/home/u",
            "-c",
            "web,--config-dir=/home/u",
            "pillar={a: b}",
            "a\nb",
        ] {
            let args = Map::new().with("mods", mods);
            assert_eq!(words(JID, &recorded("state.apply", args)), None, "{mods}");
        }
        let env = Map::new().with("mods", "web").with("saltenv", "[x]");
        assert_eq!(words(JID, &recorded("state.apply", env)), None);
        assert_eq!(words(JID, &recorded("cmd.run", Map::new())), None);
    }
}
