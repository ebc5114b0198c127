//! Reboots in the middle of a run: a step takes the machine down, and the run continues after the
//! boot.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use value::read::or_log;
use value::{Map, Value, watch};

use crate::compile::Plan;
use crate::exec::{Exec, Registry};
use crate::facts::StepKind;
use crate::low::{LowChunk, is_step};
use crate::module::{Error, Ret};
use crate::resume::Policy;
use crate::targets::MinionReturn;

/// The kernel's file with the id of this boot. Every boot has a different id.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The default time that a machine has to go down, if the step names none.
const GOES_DOWN: Duration = Duration::from_secs(600);

/// The delay before a failed step counts as failed. The shutdown that a step started may have
/// killed its command: then the program is killed during this delay, before it records a failure.
const GRACE: Duration = Duration::from_secs(5);

/// The interval at which a wait checks whether a minion has returned.
const LOOK: Duration = Duration::from_millis(250);

/// The execution function that takes the machine down.
pub const REBOOT: &str = "system.reboot";

/// The option that the job of a host has which is reached by ssh: the job's id.
pub const SSH_JOB: &str = "ssh_job";

/// Returns the id of this boot; `None` if the kernel does not provide one.
#[must_use]
pub fn id() -> Option<String> {
    let text = or_log(BOOT_ID, std::fs::read_to_string(BOOT_ID))?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Returns whether this machine has a default route to other machines.
#[must_use]
pub fn is_routed() -> bool {
    let has = |path: &str, is_default: &dyn Fn(&str) -> bool| {
        let table = or_log(path, std::fs::read_to_string(path)).unwrap_or_default();
        table
            .lines()
            .any(|line| is_default(line) && !line.ends_with(" lo"))
    };
    has("/proc/net/route", &|line| {
        line.split_whitespace().nth(1) == Some("00000000")
    }) || has("/proc/net/ipv6_route", &|line| {
        line.starts_with("00000000000000000000000000000000 00")
    })
}

/// Files of the services that continue runs after boot: one of them exists if the service is
/// enabled.
const ENABLED: [(&str, &str); 5] = [
    (
        "/usr/lib/systemd/system/multi-user.target.d",
        "pinch-continue.conf",
    ),
    (
        "/etc/systemd/system/multi-user.target.wants",
        "pinch-continue.service",
    ),
    ("/etc/runlevels/default", "pinch-continue"),
    ("/etc/rc.d", "S96pinch-continue"),
    ("/etc/service", "pinch-continue"),
];

/// The folder with the links of sysvinit's services.
const RC: &str = "/etc/rc2.d";

/// Returns whether a service that continues runs after boot is enabled.
fn goes_on() -> bool {
    let there =
        |(folder, name): &(&str, &str)| Path::new(folder).join(name).symlink_metadata().is_ok();
    let rc = or_log(RC, std::fs::read_dir(RC));
    let rc = rc.into_iter().flatten().flatten();
    ENABLED.iter().any(there)
        || rc.map(|entry| entry.file_name()).any(|name| {
            name.to_string_lossy().starts_with('S')
                && name.to_string_lossy().ends_with("pinch-continue")
        })
}

/// Returns what is wrong with the `reboot` option of a chunk, if anything is.
pub(crate) fn fault(data: &Map) -> Option<String> {
    let said = data.get("reboot")?;
    let known = matches!(said, Value::Null | Value::Bool(_)) || seconds(said).is_some();
    (!known).then(|| {
        let said = said.to_text();
        format!("reboot: {said} is neither True nor False nor a number of seconds to wait for the reboot")
    })
}

fn seconds(said: &Value) -> Option<u64> {
    match said {
        Value::Int(seconds) => u64::try_from(*seconds).ok().filter(|seconds| *seconds > 0),
        _ => None,
    }
}

/// Returns how long a step waits for the reboot that it starts; `None` if it starts none.
pub(crate) fn awaited(cx: &Exec, low: &LowChunk) -> Option<Duration> {
    if cx.test || is_elsewhere(cx, low) {
        return None;
    }
    match low.data.get("reboot").filter(|said| !said.is_null()) {
        Some(_) => patience(low),
        None => {
            let is_recorded = cx
                .run
                .as_ref()
                .is_some_and(|run| run.record.record.is_some());
            let orchestrated = || cx.context(|context| context.contains("__orchestration_jid__"));
            (is_recorded
                && cx.shared.targets.is_here()
                && takes_down(cx.shared.registry, low)
                && orchestrated())
            .then_some(GOES_DOWN)
        }
    }
}

/// Returns how long the `reboot` option of a chunk says to wait for the reboot; `None` if it asks
/// for none.
fn patience(low: &LowChunk) -> Option<Duration> {
    match low.data.get("reboot")? {
        Value::Bool(true) => Some(GOES_DOWN),
        said => seconds(said).map(Duration::from_secs),
    }
}

/// Returns whether a chunk is a step for other machines than this one: this machine stays up then.
fn is_elsewhere(cx: &Exec, low: &LowChunk) -> bool {
    if !is_step(&low.state) {
        return false;
    }
    let tgt_type = low.data.get("tgt_type").map(Value::to_text);
    let is_ssh = low.data.get("ssh").is_some_and(Value::is_true);
    match low.data.get("tgt") {
        Some(tgt) => {
            let tgt_type = tgt_type.as_deref().unwrap_or("glob");
            is_ssh || cx.shared.targets.is_elsewhere(cx, tgt, tgt_type)
        }
        None => !cx.shared.targets.is_here(),
    }
}

/// Returns how long the step that runs waits for the reboot of its hosts; `None` if it has no
/// `reboot` option, or runs in test mode.
#[must_use]
pub fn patience_of_step(cx: &Exec) -> Option<Duration> {
    let chunk = cx.chunk.as_deref().filter(|_| !cx.test)?;
    patience(chunk)
}

/// Waits for the late returns of minions that went down in a step with the `reboot` option, and
/// puts them in place of the missing ones.
///
/// # Errors
/// When the returns cannot be looked up.
pub fn wait_for_minions(cx: &Exec, returns: &mut [MinionReturn]) -> Result<(), Error> {
    let patience = cx.chunk.as_deref().and_then(patience).unwrap_or_default();
    let until = Instant::now() + patience;
    let targets = &cx.shared.targets;
    let late = |one: &&mut MinionReturn| one.is_missing && targets.may_come_late(&one.id);
    for one in returns.iter_mut().filter(late) {
        let _waiting =
            watch::waits(|| format!("the minion {} to come back after its reboot", one.id));
        while one.is_missing && Instant::now() < until {
            match cx.shared.targets.come_late(one)? {
                Some(returned) => *one = returned,
                None => sleep(LOOK),
            }
        }
    }
    Ok(())
}

/// Returns whether a chunk calls the function that takes the machine down.
fn takes_down(registry: &Registry, low: &LowChunk) -> bool {
    let is_named = low.name == REBOOT;
    match low.state == "module" && low.fun == "run" {
        true => is_named || low.data.contains(REBOOT),
        false => is_named && registry.step(low) == Some(StepKind::Function),
    }
}

/// Returns whether a plan has a chunk that may take the machine down.
#[must_use]
pub fn is_in(registry: &Registry, plan: &Plan) -> bool {
    let says = |low: &LowChunk| low.data.get("reboot").is_some_and(Value::is_true);
    plan.chunks()
        .iter()
        .any(|low| says(low) || takes_down(registry, low))
}

/// Records durably that a chunk begins after which the machine goes down.
///
/// # Errors
/// When the run could not continue after the reboot.
pub(crate) fn begins(cx: &Exec, low: &LowChunk, tag: &str) -> Result<(), Error> {
    let own = cx.run.as_ref().map(|run| &run.record);
    let Some((own, record)) = own.and_then(|own| Some((own, own.record.as_ref()?))) else {
        return Err("not started: a step that reboots the machine must be in the SLS of the run, in an orchestration, or in a salt.state or salt.function step of one: no other nested run has a record from which it could be resumed".into());
    };
    let Some(boot) = id() else {
        let text = format!(
            "not started: cannot read {BOOT_ID}, which is needed to detect that the machine has rebooted"
        );
        return Err(text.into());
    };
    if !record.awaits_boot(
        cx,
        (&own.part, tag),
        Policy::for_chunk(cx.shared.registry, low),
        &boot,
    ) {
        return Err("not started: cannot record that the run continues after the reboot".into());
    }
    if cx.opts().text(SSH_JOB).is_some() {
        return Err("not started: nothing on a host that is reached by ssh continues the run after the reboot. Reboot it by a step of the orchestration: `salt.function` with `name: system.reboot` and `reboot: True`".into());
    }
    if !goes_on() {
        value::log::warning(
            "Nothing on this machine continues the run after the reboot: enable the service pinch-continue, or run `pinch runs continue` then",
        );
    }
    Ok(())
}

/// Waits until the machine goes down, which ends this program.
///
/// # Errors
/// When the machine does not go down, or the step has failed.
pub(crate) fn comes(ret: Result<Ret, Error>, patience: Duration) -> Result<Ret, Error> {
    let failed = ret.as_ref().map_or(true, |ret| ret.result == Some(false));
    if failed {
        sleep(GRACE);
        return ret;
    }
    if ret.as_ref().is_ok_and(|ret| !ret.changes.is_true()) {
        return ret;
    }
    let _waiting = watch::waits(|| "the machine to go down".to_owned());
    sleep(patience);
    let text = format!(
        "the machine has not gone down within {} s; set `reboot: SECONDS` to wait longer",
        patience.as_secs()
    );
    Err(text.into())
}
