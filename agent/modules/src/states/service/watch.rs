//! The reaction of a service to a change of a watched state.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::{ModWatch, Service, wait, with_warnings};

/// An action on a service: its function, and the words for comments.
struct Step {
    function: &'static str,
    verb: &'static str,
    done: &'static str,
}

const STOP: Step = step("stop", "stop", "stopped");
const START: Step = step("start", "start", "started");
const RESTART: Step = step("restart", "restart", "restarted");
const FULL_RESTART: Step = step("full_restart", "fully restart", "fully restarted");
const RELOAD: Step = step("reload", "reload", "reloaded");
const FORCE_RELOAD: Step = step("force_reload", "forcefully reload", "forcefully reloaded");

const fn step(function: &'static str, verb: &'static str, done: &'static str) -> Step {
    Step {
        function,
        verb,
        done,
    }
}

/// Returns the action for a service that must run.
fn of_running(service: &Service<'_>, reload: bool, force: bool, full_restart: bool) -> Step {
    if reload && service.has("reload") {
        if force && service.has("force_reload") {
            return FORCE_RELOAD;
        }
        return RELOAD;
    }
    if full_restart && service.has("full_restart") {
        return FULL_RESTART;
    }
    RESTART
}

pub(super) fn triggered(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let sfun = args.sfun.to_text();
    let service = Service::new(cx, &args.name, args.sig, args.kwargs)?;
    let runs = || Ok::<_, Error>(service.status()?.is_true());
    let step = match sfun.as_str() {
        "dead" if runs()? => STOP,
        "dead" => return Ok(Ret::ok("Service is already stopped")),
        "running" if runs()? => of_running(&service, args.reload, args.force, args.full_restart),
        "running" => START,
        other => {
            return Ok(Ret::failed(format!(
                "Unable to trigger watch for service.{other}"
            )));
        }
    };
    let would = Ret::would(format!("Service is set to be {}", step.done));
    cx.apply(would, || done(&service, &step, &args.init_delay))
}

fn done(service: &Service<'_>, step: &Step, init_delay: &Value) -> Result<Ret, Error> {
    if step.function == "start" && service.has("stop") {
        service.call("stop", Map::new())?;
    }
    let (passed, warnings) = service.systemd_only(step.function);
    let answer = service.call(step.function, passed)?;
    wait(init_delay);
    let ret = match answer.is_true() {
        true => Ret::ok(format!("Service {}", step.done)),
        false => Ret::failed(format!("Failed to {} the service", step.verb)),
    };
    Ok(with_warnings(ret.change(service.name, answer), warnings))
}
