//! The `firewalld` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, log, nested};

use crate::exec::firewalld::services::{of_service, service_has};
use crate::exec::firewalld::{forward_shown, listed, masquerades, of_zone, run, words};

state::state_module! {
    /// Configure the firewall (`firewall-cmd`).
    #[needs("firewall-cmd", "firewall-cmd is not available, firewalld is probably not installed.", "firewalld")]
    mod firewalld;

    /// Make sure that a zone exists and contains the given items. Other items in the zone remain,
    /// unless the matching `prune_` argument is true.
    ///
    ///     public:
    ///       firewalld.present:
    ///         - services: [http, https]
    fn present(Present {
        /// The zone.
        name: String,
        /// The ICMP types to block.
        block_icmp: Option<Vec<String>> = None,
        /// True to unblock all other ICMP types.
        prune_block_icmp: bool = false,
        /// True to make this the default zone, which contains all interfaces that are assigned to
        /// no zone.
        default: Option<bool> = None,
        /// True to enable masquerading: the addresses of the zone are hidden behind the machine's
        /// address.
        masquerade: Option<bool> = None,
        /// The open ports, such as `443/tcp`.
        ports: Option<Vec<String>> = None,
        /// True to close all other ports.
        prune_ports: bool = false,
        /// The forwarded ports, such as `22:2222:tcp:10.0.0.1`.
        port_fwd: Option<Vec<String>> = None,
        /// True to remove all other forwarded ports.
        prune_port_fwd: bool = false,
        /// The services of the zone.
        services: Option<Vec<String>> = None,
        /// True to remove all other services.
        prune_services: bool = false,
        /// The interfaces of the zone.
        interfaces: Option<Vec<String>> = None,
        /// True to remove all other interfaces from the zone.
        prune_interfaces: bool = false,
        /// The sources of the zone.
        sources: Option<Vec<String>> = None,
        /// True to remove all other sources from the zone.
        prune_sources: bool = false,
        /// The rich rules of the zone.
        rich_rules: Option<Vec<String>> = None,
        /// True to remove all other rich rules.
        prune_rich_rules: bool = false,
    });

    /// Make sure that a service exists and has exactly these ports and protocols.
    ///
    ///     app:
    ///       firewalld.service:
    ///         - ports: [8080/tcp]
    fn service(Service {
        /// The service.
        name: String,
        /// The ports of the service.
        ports: Option<Vec<String>> = None,
        /// The protocols of the service.
        protocols: Option<Vec<String>> = None,
    });
}

/// The changes of a run: in test mode those that it would make, otherwise those made so far.
struct Work<'a> {
    cx: &'a Exec,
    name: &'a str,
    /// True if the zone or service did not exist before.
    is_new: bool,
    changes: Map,
}

impl Work<'_> {
    /// Runs `firewall-cmd` with one option for the zone. Does nothing in test mode.
    fn zone(&self, option: String) -> Result<(), Error> {
        match self.cx.test {
            true => Ok(()),
            false => of_zone(self.cx, Some(self.name), option, true).map(drop),
        }
    }

    /// Returns the items that the zone contains. In test mode a zone that does not exist yet
    /// contains none.
    fn current(&self, option: &str) -> Result<Vec<String>, Error> {
        match self.is_new && self.cx.test {
            true => Ok(Vec::new()),
            false => listed(self.cx, self.name, option, true),
        }
    }

    fn changed(&mut self, key: &str, old: impl Into<Value>, new: impl Into<Value>) {
        let change = Map::new().with("old", old.into()).with("new", new.into());
        self.changes.insert(key, change);
    }

    /// Adds the missing items of one kind, and with `prune` removes all others.
    fn items(&mut self, kind: &Kind, wanted: Vec<String>, prune: bool) -> Result<(), Error> {
        if wanted.is_empty() && !prune {
            return Ok(());
        }
        let current = self.current(kind.list)?;
        let lacks: Vec<&String> = wanted.iter().filter(|one| !current.contains(one)).collect();
        let others: Vec<&String> = current
            .iter()
            .filter(|one| prune && !wanted.contains(one))
            .collect();
        for (verb, items) in [("add", &lacks), ("remove", &others)] {
            for item in items {
                self.zone(format!("--{verb}-{}={item}", kind.item))?;
            }
        }
        if lacks.is_empty() && others.is_empty() {
            return Ok(());
        }
        let new: Vec<String> = match prune {
            true => wanted,
            false => current.iter().chain(lacks).cloned().collect(),
        };
        let shown = |all: Vec<String>| Value::list(all.into_iter().map(|one| kind.to_value(one)));
        let (old, new) = (shown(current), shown(new));
        self.changed(kind.key, old, new);
        Ok(())
    }
}

/// A kind of item in a zone.
struct Kind {
    /// The key of this kind in the changes.
    key: &'static str,
    /// The option that lists the items.
    list: &'static str,
    /// The part of the option's name after `--add-` and `--remove-`.
    item: &'static str,
}

impl Kind {
    const fn new(key: &'static str, list: &'static str, item: &'static str) -> Self {
        Self { key, list, item }
    }

    fn to_value(&self, item: String) -> Value {
        match self.item {
            "forward-port" => forward_shown(&item).into(),
            _ => item.into(),
        }
    }
}

const ICMP: Kind = Kind::new("icmp_types", "--list-icmp-blocks", "icmp-block");
const PORTS: Kind = Kind::new("ports", "--list-ports", "port");
const FORWARDS: Kind = Kind::new("port_fwd", "--list-forward-ports", "forward-port");
const SERVICES: Kind = Kind::new("services", "--list-services", "service");
const INTERFACES: Kind = Kind::new("interfaces", "--list-interfaces", "interface");
const SOURCES: Kind = Kind::new("sources", "--list-sources", "source");
const RICH_RULES: Kind = Kind::new("rich_rules", "--list-rich-rules", "rich-rule");

/// Applies all changes in one step. The changes are known only after everything was examined, so
/// test mode also runs `fill` as a whole.
fn in_one(
    cx: &Exec,
    mut work: Work<'_>,
    fill: impl FnOnce(&mut Work<'_>) -> Result<(), Error>,
) -> Result<Ret, Error> {
    let name = work.name;
    let tried = |work: &mut Work<'_>| match fill(work) {
        Err(error) if error.is_of_command() => Ok(Some(format!("Error: {error}"))),
        Err(error) => Err(error),
        Ok(()) => Ok(None),
    };
    if cx.test {
        if let Some(failure) = tried(&mut work)? {
            return Ok(Ret::failed(failure));
        }
        return Ok(match work.changes.is_empty() {
            true => Ret::ok(format!("'{name}' is already in the desired state.")),
            false => Ret::would("").changes(work.changes),
        });
    }
    cx.apply(Ret::would(""), || {
        let failure = tried(&mut work)?;
        if !work.changes.is_empty() && failure.is_none() {
            run(cx, &["--reload".into()])?;
        }
        Ok(match failure {
            Some(failure) => Ret::failed(failure),
            None if work.changes.is_empty() => {
                Ret::ok(format!("'{name}' is already in the desired state."))
            }
            None => Ret::ok(format!("'{name}' was configured.")),
        }
        .changes(work.changes))
    })
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name.clone();
    let zones = match words(cx, "--get-zones", true) {
        Err(error) if error.is_of_command() => return Ok(Ret::failed(format!("Error: {error}"))),
        zones => zones?,
    };
    let is_new = !zones.contains(&name);
    let work = Work {
        cx,
        name: &name,
        is_new,
        changes: Map::new(),
    };
    let ret = in_one(cx, work, |work| zone(work, args, zones))?;
    if ret.result.is_some() {
        return Ok(ret);
    }
    let comment = format!(
        "Configuration for '{name}' will change:\n{}",
        nested::text(&ret.changes).trim_end()
    );
    Ok(Ret::would(comment))
}

fn zone(work: &mut Work<'_>, args: Present, zones: Vec<String>) -> Result<(), Error> {
    let name = work.name;
    if work.is_new {
        if !work.cx.test {
            run(
                work.cx,
                &[format!("--new-zone={name}"), "--permanent".into()],
            )?;
            run(work.cx, &["--reload".into()])?;
        }
        work.changed(name, zones, name);
    }
    let blocked = valid_icmp(work, args.block_icmp.unwrap_or_default())?;
    work.items(&ICMP, blocked, args.prune_block_icmp)?;
    if args.default == Some(true) {
        let old = run(work.cx, &["--get-default-zone".into()])?;
        if old != name {
            if !work.cx.test {
                run(work.cx, &[format!("--set-default-zone={name}")])?;
            }
            work.changed("default", old, name);
        }
    }
    masqueraded(work, args.masquerade)?;
    work.items(&PORTS, args.ports.unwrap_or_default(), args.prune_ports)?;
    let forwards = args.port_fwd.unwrap_or_default();
    let forwards = forwards.iter().map(|text| forward(text));
    let forwards = forwards.collect::<Result<Vec<_>, Error>>()?;
    work.items(&FORWARDS, forwards, args.prune_port_fwd)?;
    work.items(
        &SERVICES,
        args.services.unwrap_or_default(),
        args.prune_services,
    )?;
    work.items(
        &INTERFACES,
        args.interfaces.unwrap_or_default(),
        args.prune_interfaces,
    )?;
    work.items(
        &SOURCES,
        args.sources.unwrap_or_default(),
        args.prune_sources,
    )?;
    let rules = args.rich_rules.unwrap_or_default();
    let rules = rules.iter().map(|rule| normalized(rule)).collect();
    work.items(&RICH_RULES, rules, args.prune_rich_rules)
}

/// Returns the wanted ICMP types without those that firewalld does not know. Each unknown type is
/// logged.
fn valid_icmp(work: &Work<'_>, wanted: Vec<String>) -> Result<Vec<String>, Error> {
    if wanted.is_empty() {
        return Ok(wanted);
    }
    let known = words(work.cx, "--get-icmptypes", true)?;
    let is_known = |one: &String| {
        let is_known = known.contains(one);
        if !is_known {
            log::error(format_args!("{one} is an invalid ICMP type"));
        }
        is_known
    };
    Ok(wanted.into_iter().filter(is_known).collect())
}

fn masqueraded(work: &mut Work<'_>, wanted: Option<bool>) -> Result<(), Error> {
    let Some(wanted) = wanted else {
        return Ok(());
    };
    let is_foreseen = work.is_new && work.cx.test;
    let now = !is_foreseen && masquerades(work.cx, Some(work.name), true)?;
    if now == wanted {
        return Ok(());
    }
    let (verb, done) = if wanted {
        ("add", "set")
    } else {
        ("remove", "disabled")
    };
    work.zone(format!("--{verb}-masquerade"))?;
    work.changed(
        "masquerade",
        now,
        format!("Masquerading successfully {done}."),
    );
    Ok(())
}

/// Converts a port forwarding such as `22:2222:tcp:10.0.0.1` to firewalld's notation.
fn forward(text: &str) -> Result<String, Error> {
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    match parts.as_slice() {
        [from, to, protocol, rest @ ..] => {
            let address = rest.first().copied().unwrap_or_default();
            Ok(format!(
                "port={from}:proto={protocol}:toport={to}:toaddr={address}"
            ))
        }
        _ => Err(Error::argument(
            "port_fwd",
            format!("expected from:to:protocol[:address], got {text}"),
        )),
    }
}

/// Returns a rich rule in firewalld's notation, with values in double quotes.
fn normalized(rule: &str) -> String {
    let word = |word: &str| match word.split_once('=') {
        Some((key, value)) if !value.starts_with('"') && !value.ends_with('"') => {
            let bare = value
                .strip_prefix('\'')
                .and_then(|value| value.strip_suffix('\''));
            format!("{key}=\"{}\"", bare.unwrap_or(value))
        }
        _ => word.to_owned(),
    };
    rule.trim_start()
        .split(' ')
        .map(word)
        .collect::<Vec<_>>()
        .join(" ")
}

fn service(cx: &Exec, args: Service) -> Result<Ret, Error> {
    let name = args.name.clone();
    let is_new = !words(cx, "--get-services", true)?.contains(&name);
    let work = Work {
        cx,
        name: &name,
        is_new,
        changes: Map::new(),
    };
    let ret = in_one(cx, work, |work| {
        if work.is_new && !cx.test {
            run(
                cx,
                &[format!("--new-service={}", work.name), "--permanent".into()],
            )?;
        }
        exactly(work, ("ports", "port"), args.ports.unwrap_or_default())?;
        exactly(
            work,
            ("protocols", "protocol"),
            args.protocols.unwrap_or_default(),
        )
    })?;
    Ok(match ret.result {
        None => Ret {
            comment: format!("Configuration for '{name}' will change."),
            ..ret
        },
        Some(_) => ret,
    })
}

/// Makes sure that a service has exactly these ports or protocols.
fn exactly(
    work: &mut Work<'_>,
    (key, item): (&str, &str),
    wanted: Vec<String>,
) -> Result<(), Error> {
    let (cx, name) = (work.cx, work.name);
    let current = match work.is_new && cx.test {
        true => Vec::new(),
        false => service_has(cx, name, &format!("--get-{key}"))?,
    };
    let lacks: Vec<&String> = wanted.iter().filter(|one| !current.contains(one)).collect();
    let others: Vec<&String> = current.iter().filter(|one| !wanted.contains(one)).collect();
    for (verb, items) in [("add", &lacks), ("remove", &others)] {
        for one in items.iter().filter(|_| !cx.test) {
            of_service(cx, name, format!("--{verb}-{item}={one}"))?;
        }
    }
    if !lacks.is_empty() || !others.is_empty() {
        work.changed(key, current.clone(), wanted.clone());
    }
    Ok(())
}
