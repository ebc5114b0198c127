//! The `network` state module: interfaces, their routes, and the settings of the whole machine.

use machine::net::interfaces;
use machine::process::{Process, which};
use python::difflib;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::ip::{self, Plan};

state::state_module! {
    /// Configure the network of this machine.
    #[facts(effects = Effects::MoreThanFiles { files_suffice: false }, free_arguments = true)]
    mod network;

    /// Make sure that an interface is configured. As in Salt, the configuration is written to
    /// Debian's `/etc/network/interfaces`, Red Hat's `ifcfg` files or netplan. On systems without
    /// these, it is written for NetworkManager, systemd-networkd or OpenWrt.
    ///
    ///     eth0:
    ///       network.managed:
    ///         - type: eth
    ///         - proto: static
    ///         - ipaddr: 10.0.0.5
    ///         - netmask: 255.255.255.0
    ///         - gateway: 10.0.0.1
    fn managed(Managed {
        /// The interface.
        name: String,
        /// True if the interface must be up, now and after a start of the system.
        enabled: bool = true,
        ..kwargs
    });

    /// Make sure that an interface has exactly these static routes. `routes` is a list of
    /// dictionaries with `ipaddr`, `netmask`, `gateway` and `name`. The network is restarted unless
    /// `require_reboot` is true.
    ///
    ///     eth0:
    ///       network.routes:
    ///         - routes:
    ///           - name: backend
    ///             ipaddr: 10.20.0.0
    ///             netmask: 255.255.0.0
    ///             gateway: 10.0.0.254
    fn routes(Routes {
        /// The interface.
        name: String,
        ..kwargs
    });

    /// Make sure that the machine has these settings: `enabled`, `hostname`, `search` and, on Red
    /// Hat, the settings of `/etc/sysconfig/network`. `apply_hostname` sets the host name
    /// immediately; with `require_reboot` the network is not restarted.
    ///
    ///     network settings:
    ///       network.system:
    ///         - enabled: True
    ///         - hostname: web1.example.com
    fn system(System {
        /// Any name.
        name: String,
        ..kwargs
    });
}

/// Returns the differences of a plan as a unified diff. As with Salt's `difflib`, the lines of the
/// file keep their own line ends.
fn difference(plan: &Plan) -> String {
    let lines = difflib::unified(&plan.old, &plan.new, "", "");
    // The header lines end with a newline, which the lines of the file may not have.
    let is_header = |line: &&String| {
        line.starts_with("--- ") || line.starts_with("+++ ") || line.starts_with("@@ ")
    };
    let bare = |line: &'_ String| match is_header(&line) {
        true => line.trim_end_matches('\n').to_owned(),
        false => line.clone(),
    };
    let lines: Vec<String> = lines.iter().map(bare).collect();
    lines.join("\n")
}

/// The texts for a plan: its subject in comments, its key in `changes`, and the change that is
/// reported for something new.
struct About {
    subject: String,
    plural: &'static str,
    key: &'static str,
    added: String,
}

impl About {
    /// Returns the comment of test mode for a plan, or `None` if the plan changes nothing.
    fn would(&self, plan: &Plan) -> Option<String> {
        let Self {
            subject, plural, ..
        } = self;
        match (plan.old == plan.new, plan.old.is_empty()) {
            (true, _) => None,
            (_, true) => Some(format!("{subject} {plural} set to be added.")),
            _ => {
                let lines = difference(plan);
                Some(format!("{subject} {plural} set to be updated:\n{lines}"))
            }
        }
    }

    /// Carries out a plan if it changes something. Returns whether it did.
    fn made(&self, cx: &Exec, plan: &Plan, ret: Ret) -> Result<(Ret, bool), Error> {
        if plan.old == plan.new {
            return Ok((ret, false));
        }
        plan.carry_out(cx)?;
        let (change, verb) = match plan.old.is_empty() {
            true => (self.added.clone(), "added"),
            false => (difference(plan), "updated"),
        };
        let ret = ret.change(self.key, change);
        let comment = format!("{} {verb}.", self.subject);
        Ok((Ret { comment, ..ret }, true))
    }
}

fn managed(cx: &Exec, args: Managed) -> Result<Ret, Error> {
    let (name, mut settings) = (args.name.as_str(), args.kwargs);
    let kind = settings.remove("type").unwrap_or_else(|| "eth".into());
    let kind = kind.to_text();
    let mut ret = Ret::ok(format!("Interface {name} is up to date."));
    if let Some(address) = settings.remove("addr") {
        let became = match settings.contains("hwaddr") {
            true => "it has been ignored in favor of 'hwaddr'.",
            false => "its value has been assigned to 'hwaddr' instead.",
        };
        settings.entry("hwaddr", || address);
        ret = ret.warning(format!("'addr' is not a valid argument name, {became} Update your SLS file to get rid of this warning."));
    }
    let mut plans = vec![(
        About {
            subject: format!("Interface {name}"),
            plural: "is",
            key: "interface",
            added: "Added network interface.".to_owned(),
        },
        ip::interface(cx, name, &kind, args.enabled, &settings)?,
    )];
    if kind == "bond"
        && let Some(plan) = ip::bond(cx, name, &settings)?
    {
        let about = About {
            subject: format!("Bond interface {name}"),
            plural: "is",
            key: "bond",
            added: format!("Added bond {name}."),
        };
        plans.push((about, plan));
    }
    plans.iter().for_each(|(_, plan)| plan.foretell(cx));
    let mut all = plans.iter().rev();
    let would = all.find_map(|(about, plan)| about.would(plan));
    if cx.test && would.is_none() {
        return Ok(ret);
    }
    let would = Ret {
        comment: would.unwrap_or_default(),
        ..ret.clone()
    };
    cx.apply(would, || {
        let mut is_changed = false;
        for (about, plan) in &plans {
            let made = about.made(cx, plan, ret)?;
            ret = made.0;
            is_changed |= made.1;
        }
        match kind.as_str() {
            "source" => Ok(ret),
            _ if name.contains("range") => ranged(cx, is_changed, ret),
            _ => switched(cx, name, &kind, args.enabled, &settings, ret),
        }
    })
}

/// Restarts the whole network after a change of one of Red Hat's address ranges.
fn ranged(cx: &Exec, is_changed: bool, ret: Ret) -> Result<Ret, Error> {
    let (comment, result) = match is_changed {
        true => {
            let done = cx.call_internal("service.restart", vec!["network".into()], Map::new())?;
            (
                "network restarted for change of ranged interfaces",
                done.is_true(),
            )
        }
        false => ("no change, passing it", true),
    };
    Ok(Ret {
        result: Some(result),
        comment: comment.to_owned(),
        ..ret
    })
}

/// Returns whether an interface is up. A name that is only the label of an address counts as up.
fn is_up(name: &str) -> bool {
    interfaces::all().iter().any(|interface| {
        let mut addresses = interface.addresses.iter();
        let is_label = addresses.any(|address| address.label.as_deref() == Some(name));
        match interface.name == name {
            true => interface.up,
            false => is_label,
        }
    })
}

/// Brings the interface up or down, and adds members to a bond.
fn switched(
    cx: &Exec,
    name: &str,
    kind: &str,
    enabled: bool,
    settings: &Map,
    mut ret: Ret,
) -> Result<Ret, Error> {
    let was_up = is_up(&ip::device(cx, name)?);
    let is_changed = ret.changes.is_true();
    let (verbs, status): (&[bool], _) = match (enabled, was_up) {
        _ if settings.contains("noifupdown") => (&[], String::new()),
        (true, true) if is_changed => (
            &[false, true],
            format!("Interface {name} restart to validate"),
        ),
        (true, false) => (&[true], format!("Interface {name} is up")),
        (false, true) => (&[false], format!("Interface {name} down")),
        _ => (&[], String::new()),
    };
    for up in verbs {
        let done = ip::switch(cx, name, Some(kind), *up)?;
        if let Some(done) = done.filter(|done| !done.success()) {
            let verb = if *up { "up" } else { "down" };
            let said = format!("{}\n{}", done.stdout_regardless(), done.stderr);
            ret = ret.warning(format!(
                "{name} could not be brought {verb}: {}",
                said.trim()
            ));
        }
    }
    if !verbs.is_empty() {
        ret = ret.change("status", status);
    }
    if kind == "bond" && !settings.contains("noifupdown") {
        ret = enslaved(cx, name, settings.get("slaves"), ret)?;
    }
    if !(enabled && was_up) {
        cx.call_internal("saltutil.refresh_grains", Vec::new(), Map::new())?;
    }
    Ok(ret)
}

/// Adds the missing members to a bond.
fn enslaved(cx: &Exec, name: &str, slaves: Option<&Value>, ret: Ret) -> Result<Ret, Error> {
    let wanted = match slaves {
        Some(Value::Str(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(list) => list.texts(),
        None => Vec::new(),
    };
    let present = machine::procfs::text(format!("/sys/class/net/{name}/bonding/slaves"));
    let is_missing = |slave: &String| !present.split_whitespace().any(|known| known == slave);
    let missing: Vec<String> = wanted.into_iter().filter(is_missing).collect();
    if missing.is_empty() || cx.grain("os_family") == "Suse" {
        return Ok(ret);
    }
    let Some(program) = which("ifenslave") else {
        let missing = missing.join(" ");
        return Ok(ret.warning(format!(
            "{missing} could not be added to {name}: the program ifenslave is not in the path"
        )));
    };
    let done = Process::words(
        [program, name.to_owned()]
            .into_iter()
            .chain(missing.clone()),
    )
    .run(cx)?;
    let missing = missing.join(" ");
    Ok(match done.success() {
        true => ret.change(
            "enslave",
            format!("Added slaves '{missing}' to master '{name}'"),
        ),
        false => ret.warning(format!(
            "{missing} could not be added to {name}: {}",
            done.stderr
        )),
    })
}

fn routes(cx: &Exec, args: Routes) -> Result<Ret, Error> {
    let name = &args.name;
    let about = About {
        subject: format!("Interface {name} routes"),
        plural: "are",
        key: "network_routes",
        added: format!("Added interface {name} routes."),
    };
    let plan = ip::routes(cx, name, &args.kwargs)?;
    applied(
        cx,
        &about,
        &plan,
        &args.kwargs,
        Ret::ok(format!("Interface {name} routes are up to date.")),
    )
}

/// Carries out a plan and applies it to the running system.
fn applied(cx: &Exec, about: &About, plan: &Plan, settings: &Map, ret: Ret) -> Result<Ret, Error> {
    let Some(would) = about.would(plan) else {
        return Ok(ret);
    };
    plan.foretell(cx);
    cx.apply(Ret::would(would), || {
        let (ret, _) = about.made(cx, plan, ret)?;
        match ip::apply(cx, settings)? {
            true => Ok(ret),
            false => Ok(ret.warning(
                "The network was not restarted, or the host name could not be set: see the log.",
            )),
        }
    })
}

fn system(cx: &Exec, args: System) -> Result<Ret, Error> {
    let about = About {
        subject: "Global network settings".to_owned(),
        plural: "are",
        key: "network_settings",
        added: "Added global network settings.".to_owned(),
    };
    let comment = "Global network settings are up to date.";
    let plan = ip::plan(cx, &args.kwargs)?;
    let ret = applied(cx, &about, &plan, &args.kwargs, Ret::ok(comment))?;
    // Salt returns this comment whatever it did.
    Ok(match ret.result {
        Some(true) => Ret {
            comment: comment.to_owned(),
            ..ret
        },
        _ => ret,
    })
}
