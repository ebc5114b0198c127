//! The `service` state module.

mod boot;
mod mask;
mod watch;

use std::time::Duration;

use machine::fs;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::service::inverse::RUNNING;
use crate::exec::service::providers;
use crate::loader::needs;
use crate::states::beacon::{Wanted, default};

state::state_module! {
    /// Manage services: whether they run now, and whether they start with the system.
    mod service;

    /// Make sure that a service runs. For systemd, `no_block` does not wait until it has started,
    /// `unmask` unmasks it first, and `unmask_runtime` removes a mask that lasts until the next start
    /// of the system.
    ///
    ///     nginx:
    ///       service.running:
    ///         - enable: True
    fn running(Running {
        /// The name of the service.
        name: String,
        /// Whether the service starts with the system. Default: unchanged.
        enable: Option<bool> = None,
        /// A text that is in the service's line in the output of `ps` while it runs, for init
        /// scripts that cannot report this.
        sig: Option<String> = None,
        /// The number of seconds to wait after the service was started.
        init_delay: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a service is stopped.
    ///
    ///     telnet:
    ///       service.dead:
    ///         - enable: False
    fn dead(Dead {
        /// The name of the service.
        name: String,
        /// Whether the service starts with the system. Default: unchanged.
        enable: Option<bool> = None,
        /// A text that is in the service's line in the output of `ps` while it runs, for init
        /// scripts that cannot report this.
        sig: Option<String> = None,
        /// The number of seconds to wait after the service was stopped.
        init_delay: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a service starts with the system.
    ///
    ///     nginx:
    ///       service.enabled
    fn enabled(Enabled {
        /// The name of the service.
        name: String,
        ..kwargs
    });

    /// Make sure that a service does not start with the system.
    ///
    ///     telnet:
    ///       service.disabled
    fn disabled(Disabled {
        /// The name of the service.
        name: String,
        ..kwargs
    });

    /// Make sure that a service is masked, so that it cannot be started. Only for systemd.
    ///
    ///     telnet:
    ///       service.masked
    fn masked(Masked {
        /// The name of the service.
        name: String,
        /// True for a mask that lasts until the next start of the system.
        runtime: bool = false,
    });

    /// Make sure that a service is not masked, so that it can be started. Only for systemd.
    ///
    ///     telnet:
    ///       service.unmasked
    fn unmasked(Unmasked {
        /// The name of the service.
        name: String,
        /// True for a mask that lasts until the next start of the system.
        runtime: bool = false,
    });

    /// Add a beacon for the service of a state `service.running` or `service.dead` with the argument
    /// `beacon`. The argument `beacon_data` has settings of the beacon.
    ///
    ///     nginx:
    ///       service.running:
    ///         - beacon: True
    ///         - beacon_data:
    ///             interval: 10
    fn mod_beacon(ModBeacon {
        /// The name of the service.
        name: String,
        #[group] wanted: Wanted,
        ..kwargs
    });

    /// Restart, reload, start or stop a service because a watched state changed something.
    ///
    ///     nginx:
    ///       service.running:
    ///         - watch:
    ///           - file: /etc/nginx/nginx.conf
    fn mod_watch(ModWatch {
        /// The name of the service.
        name: String,
        /// The name of the watching function.
        sfun: Value = Value::Null,
        /// A text that is in the service's line in the output of `ps` while it runs, for init
        /// scripts that cannot report this.
        sig: Option<String> = None,
        /// True to reload the service instead of restarting it.
        reload: bool = false,
        /// True to stop and start the service, if the init system distinguishes this from a
        /// restart.
        full_restart: bool = false,
        /// The number of seconds to wait afterwards.
        init_delay: Value = Value::Null,
        /// True to reload with `force-reload`.
        force: bool = false,
        ..kwargs
    });
}

/// A service. It is accessed through the execution module, which may be a custom one.
struct Service<'a> {
    cx: &'a Exec,
    name: &'a str,
    sig: Option<String>,
    kwargs: Map,
}

impl<'a> Service<'a> {
    /// Returns the service.
    ///
    /// # Errors
    /// When the init system of this machine is not known.
    fn new(cx: &'a Exec, name: &'a str, sig: Option<String>, kwargs: Map) -> Result<Self, Error> {
        let found = Self {
            cx,
            name,
            sig,
            kwargs,
        };
        if found.has("start") {
            return Ok(found);
        }
        let low = cx.chunk.as_ref();
        Err(Error::refused(format!(
            "State '{}' was not found in SLS '{}'\nReason: 'service' __virtual__ returned False: {}\n",
            low.map(|low| low.function()).unwrap_or_default(),
            low.map_or("", |low| low.sls.as_str()),
            needs::no_service(cx)
        )))
    }

    fn has(&self, function: &str) -> bool {
        self.cx.is_custom(&format!("service.{function}"))
            || providers::find(self.cx, function).is_ok()
    }

    fn call(&self, function: &str, kwargs: Map) -> Result<Value, Error> {
        let full = format!("service.{function}");
        self.cx.call_internal(&full, vec![self.name.into()], kwargs)
    }

    fn is_available(&self) -> Result<bool, Error> {
        Ok(self.call("available", Map::new())?.is_true())
    }

    fn is_offline(&self) -> Result<bool, Error> {
        Ok(self.has("offline")
            && self
                .cx
                .call_internal("service.offline", Vec::new(), Map::new())?
                .is_true())
    }

    fn status(&self) -> Result<Value, Error> {
        let args = vec![self.name.into(), self.sig.clone().into()];
        self.cx.call_internal("service.status", args, Map::new())
    }

    /// Returns whether the service starts with the system. If this cannot be determined, returns
    /// true.
    fn starts(&self, kwargs: Map) -> Result<bool, Error> {
        Ok(!self.has("enabled") || self.call("enabled", kwargs)?.is_true())
    }

    /// Returns the given arguments that only systemd supports and that `function` accepts, and a
    /// warning for each that this machine does not support.
    fn systemd_only(&self, function: &str) -> (Map, Vec<String>) {
        let (mut passed, mut warnings) = (Map::new(), Vec::new());
        let is_systemd =
            providers::find(self.cx, function).is_ok_and(|provider| provider.units().is_some());
        let names: &[&str] = match function {
            _ if !is_systemd => &[],
            "start" | "restart" | "reload" | "force_reload" => {
                &["no_block", "unmask", "unmask_runtime"]
            }
            "stop" => &["no_block"],
            _ => &[],
        };
        for name in names {
            match self.kwargs.get(name) {
                Some(value) if machine::systemd::booted() => {
                    passed.insert(*name, value.clone());
                }
                Some(_) => warnings.push(format!(
                    "The '{name}' argument is not supported by this platform"
                )),
                None => {}
            }
        }
        (passed, warnings)
    }

    fn flag(&self, name: &str) -> bool {
        self.kwargs.get(name).is_some_and(Value::is_true)
    }

    /// Returns a failure if the user wrote `enabled` instead of `enable`.
    fn misspelt(&self) -> Option<Ret> {
        self.kwargs.contains("enabled").then(|| {
            Ret::failed(format!(
                "Service {} uses non-existent option \"enabled\".  Perhaps \"enable\" option was intended?",
                self.name
            ))
        })
    }

    /// Returns the result for a service that does not exist. `would` is what the state would have
    /// done to it, for test mode.
    fn missing(&self, would: &str, is_fine: bool) -> Ret {
        let name = self.name;
        if self.cx.test {
            return Ret::would(format!(
                "Service {name} not present; if created in this state run, it would have been {would}"
            ));
        }
        let ret = Ret::failed(format!("The named service {name} is not available"));
        Ret {
            result: Some(is_fine),
            ..ret
        }
    }

    /// Returns the final result if `running` or `dead` must end early: because of a wrong argument,
    /// an offline system or a service that does not exist.
    fn stopped(&self, would: &str, is_fine: bool) -> Result<Option<Ret>, Error> {
        if let Some(ret) = self.misspelt() {
            return Ok(Some(ret));
        }
        if self.is_offline()? {
            let ret = Ret::ok("Running in OFFLINE mode. Nothing to do");
            return Ok(Some(ret));
        }
        let is_there = self.is_available()?;
        Ok((!is_there).then(|| self.missing(would, is_fine)))
    }

    /// Enables or disables the service if the state requests it. The comment of `ret` is then
    /// replaced.
    fn toggled(
        &self,
        ret: Ret,
        enable: Option<bool>,
        runs: Option<bool>,
        result: bool,
    ) -> Result<Ret, Error> {
        match enable {
            None => Ok(ret),
            Some(on) => boot::toggled(self, ret, on, runs, result),
        }
    }

    /// Returns the result of `running` or `dead` for a service that is in the right state already.
    fn as_it_should(
        &self,
        comment: String,
        enable: Option<bool>,
        starts: bool,
    ) -> Result<Ret, Error> {
        let enable = enable.filter(|on| *on != starts);
        self.toggled(Ret::ok(comment), enable, None, true)
    }

    /// Adds the change for `running` and `dead`: whether the service runs now. It is added only if
    /// the service has changed its state, or whether it starts with the system.
    fn changed(&self, ret: Ret, before: (&Value, bool), now: &Value) -> Result<Ret, Error> {
        let starts = self.starts(Map::new())?;
        Ok(if before.0 != now || before.1 != starts {
            ret.change(self.name, now.clone())
        } else {
            ret
        })
    }
}

fn joined(comment: String, more: &str) -> String {
    if more.is_empty() {
        comment
    } else {
        format!("{comment}\n{more}")
    }
}

fn wait(init_delay: &Value) {
    let wait = init_delay.as_float().unwrap_or(0.0).max(0.0);
    if let Ok(wait) = Duration::try_from_secs_f64(wait) {
        std::thread::sleep(wait);
    }
}

fn with_warnings(ret: Ret, warnings: Vec<String>) -> Ret {
    warnings.into_iter().fold(ret, Ret::warning)
}

fn running(cx: &Exec, args: Running) -> Result<Ret, Error> {
    let (name, enable) = (args.name.as_str(), args.enable);
    let service = Service::new(cx, name, args.sig, args.kwargs)?;
    if let Some(ret) = service.stopped("started", false)? {
        return Ok(ret);
    }
    let before = service.status()?;
    let starts = service.starts(Map::new())?;
    let unmasked = match service.flag("unmask") {
        true => mask::set(&service, false, service.flag("unmask_runtime"))?.comment,
        false => String::new(),
    };
    if before.is_true() {
        let comment = joined(format!("The service {name} is already running"), &unmasked);
        return service.as_it_should(comment, enable, starts);
    }
    let would = joined(format!("Service {name} is set to start"), &unmasked);
    cx.apply(Ret::would(would), || {
        let ret = started(&service, enable, &args.init_delay, (&before, starts))?;
        let comment = joined(ret.comment, &unmasked);
        Ok(Ret { comment, ..ret })
    })
}

/// Starts a service that does not run.
fn started(
    service: &Service<'_>,
    enable: Option<bool>,
    init_delay: &Value,
    before: (&Value, bool),
) -> Result<Ret, Error> {
    let name = service.name;
    let failed = || Ret::failed(format!("Service {name} failed to start"));
    let (passed, warnings) = service.systemd_only("start");
    fs::inverse(service.cx, &RUNNING, name, false, true);
    if !service.call("start", passed)?.is_true() {
        let ret = service.toggled(failed(), enable, Some(false), false)?;
        return Ok(with_warnings(ret, warnings));
    }
    wait(init_delay);
    let now = service.status()?;
    let runs = now.is_true();
    let ret = match runs {
        true => Ret::ok(format!("Started service {name}")),
        false => failed(),
    };
    let ret = service.changed(ret, before, &now)?;
    let mut ret = service.toggled(ret, enable, Some(runs), runs)?;
    if init_delay.is_true() {
        let seconds = init_delay.to_text();
        ret.comment = format!("{}\nDelayed return for {seconds} seconds", ret.comment);
    }
    Ok(with_warnings(ret, warnings))
}

fn dead(cx: &Exec, args: Dead) -> Result<Ret, Error> {
    let (name, enable) = (args.name.as_str(), args.enable);
    let service = Service::new(cx, name, args.sig, args.kwargs)?;
    if let Some(ret) = service.stopped("stopped", true)? {
        return Ok(ret);
    }
    let before = service.status()?;
    let starts = service.starts(Map::new())?;
    if !before.is_true() {
        let comment = format!("The service {name} is already dead");
        return service.as_it_should(comment, enable, starts);
    }
    let would = Ret::would(format!("Service {name} is set to be killed"));
    cx.apply(would, || {
        let failed = || Ret::failed(format!("Service {name} failed to die"));
        let (passed, warnings) = service.systemd_only("stop");
        fs::inverse(cx, &RUNNING, name, true, false);
        if !service.call("stop", passed)?.is_true() {
            let ret = service.toggled(failed(), enable, Some(true), false)?;
            return Ok(with_warnings(ret, warnings));
        }
        wait(&args.init_delay);
        let now = service.status()?;
        let runs = now.is_true();
        let ret = match runs {
            true => failed(),
            false => Ret::ok(format!("Service {name} was killed")),
        };
        let ret = service.changed(ret, (&before, starts), &now)?;
        let ret = service.toggled(ret, enable, Some(runs), !runs)?;
        Ok(with_warnings(ret, warnings))
    })
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    let service = Service::new(cx, &args.name, None, args.kwargs)?;
    if cx.test && !service.is_available()? {
        return Ok(service.missing("enabled", false));
    }
    service.toggled(Ret::ok(""), Some(true), None, true)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    let service = Service::new(cx, &args.name, None, args.kwargs)?;
    service.toggled(Ret::ok(""), Some(false), None, true)
}

fn masked(cx: &Exec, args: Masked) -> Result<Ret, Error> {
    let service = Service::new(cx, &args.name, None, Map::new())?;
    mask::set(&service, true, args.runtime)
}

fn unmasked(cx: &Exec, args: Unmasked) -> Result<Ret, Error> {
    let service = Service::new(cx, &args.name, None, Map::new())?;
    mask::set(&service, false, args.runtime)
}

fn mod_beacon(cx: &Exec, args: ModBeacon) -> Result<Ret, Error> {
    let subject = ("service", args.name.as_str());
    let refusal =
        |sfun: &str| format!("service.{sfun} does not work with the beacon state function");
    args.wanted
        .added(cx, subject, &["running", "dead"], refusal, |data| {
            let mut service = Map::new()
                .with("onchangeonly", default(data, "onchangeonly", true.into()))
                .with("delay", default(data, "delay", 0.into()))
                .with(
                    "emitatstartup",
                    default(data, "emitatstartup", false.into()),
                );
            if let Some(file) = data.get("uncleanshutdown") {
                service.insert("uncleanshutdown", file.clone());
            }
            Map::new()
                .with("services", Map::new().with(&args.name, service))
                .with("interval", default(data, "interval", 60.into()))
        })
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    watch::triggered(cx, args)
}
