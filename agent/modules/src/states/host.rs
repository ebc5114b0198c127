//! The `host` state module.

use std::net::IpAddr;

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::service::providers::names;

state::state_module! {
    /// Manage the hosts file of this machine.
    #[facts(effects = Effects::Files(&[]))]
    mod host;

    /// Make sure that a name has these addresses.
    ///
    ///     db1.example.com:
    ///       host.present:
    ///         - ip: 10.0.0.7
    fn present(Present {
        /// The name.
        name: String,
        /// The address, or a list of addresses.
        ip: Vec<String>,
        /// A comment after the names of the address.
        comment: String = String::new(),
        /// True to remove the name from all other addresses.
        clean: bool = false,
    });

    /// Make sure that a name does not have these addresses.
    ///
    ///     db1.example.com:
    ///       host.absent:
    ///         - ip: 10.0.0.7
    fn absent(Absent {
        /// The name.
        name: String,
        /// The address, or a list of addresses.
        ip: Vec<String>,
    });

    /// Make sure that an address has exactly these names.
    ///
    ///     '10.0.0.7':
    ///       host.only:
    ///         - hostnames: [db1, db1.example.com]
    fn only(Only {
        /// The address.
        name: String,
        /// The name, or a list of names.
        hostnames: Vec<String>,
    });
}

/// One change of the hosts file. Its text for the comment comes from [`Step::describe`].
struct Step {
    function: &'static str,
    ip: String,
    /// The host name, or the comment.
    what: String,
    /// The key in the changes.
    kind: &'static str,
}

impl Step {
    fn new(function: &'static str, ip: &str, what: &str) -> Self {
        let kind = match function {
            "hosts.add_host" => "added",
            "hosts.rm_host" => "removed",
            _ => "comment_added",
        };
        Self {
            function,
            ip: ip.to_owned(),
            what: what.to_owned(),
            kind,
        }
    }

    fn describe(&self, before: &str, after: &str) -> String {
        let (ip, what) = (&self.ip, &self.what);
        match (self.kind, before) {
            ("comment_added", "would") => format!("Comment for {ip} ({what}) would be added"),
            ("comment_added", "Failed to") => {
                format!("Failed to add comment for host {ip} ({what})")
            }
            ("comment_added", _) => format!("Set comment for host {ip} ({what})"),
            (kind, "would") => format!("Host {what} ({ip}) would be {kind}"),
            ("added", "Failed to") => format!("Failed to add host {what} ({ip})"),
            (_, "Failed to") => format!("Failed to remove host {what} ({ip})"),
            _ => format!("{after} host {what} ({ip})"),
        }
    }

    /// Makes the change. Returns whether it succeeded, and the text for the comment.
    fn take(&self, cx: &Exec) -> Result<(bool, String), Error> {
        let given = vec![self.ip.as_str().into(), self.what.as_str().into()];
        let done = cx
            .call_internal(self.function, given, Map::new())?
            .is_true();
        let after = if self.kind == "added" {
            "Added"
        } else {
            "Removed"
        };
        let before = if done { "" } else { "Failed to" };
        Ok((done, self.describe(before, after)))
    }
}

/// The steps that [`present`] has to take, and texts that need no step.
#[derive(Default)]
struct Found {
    add: Vec<Step>,
    comment: Vec<Step>,
    remove: Vec<Step>,
    messages: Vec<String>,
    warnings: Vec<String>,
    failed: bool,
}

fn looked(all: &Map, args: &Present) -> Found {
    let mut found = Found::default();
    let name = args.name.as_str();
    let commented = |ip: &str| Step::new("hosts.set_comment", ip, &args.comment);
    for ip in args.ip.iter().filter(|ip| !all.contains(ip)) {
        found.add.push(Step::new("hosts.add_host", ip, name));
        if !args.comment.is_empty() {
            found.comment.push(commented(ip));
        }
    }
    for (ip, entry) in all {
        let ip = ip.to_text();
        let aliases = entry.get("aliases").map(names).unwrap_or_default();
        let has = aliases.iter().any(|alias| alias == name);
        let wants_comment =
            !args.comment.is_empty() && entry.get("comment") != Some(&args.comment.as_str().into());
        match (args.ip.contains(&ip), has) {
            (false, false) => {}
            (false, true) if args.clean => {
                found.remove.push(Step::new("hosts.rm_host", &ip, name));
            }
            (false, true) => found.warnings.push(format!(
                "Host {name} present for IP address {ip}. To get rid of this warning, either run this state with 'clean' set to True to remove {name} from {ip}, or add {ip} to the 'ip' argument."
            )),
            (true, true) if wants_comment => found.comment.push(commented(&ip)),
            (true, true) => found.messages.push(format!("Host {name} ({ip}) already present")),
            (true, false) if ip.parse::<IpAddr>().is_ok() => {
                found.add.push(Step::new("hosts.add_host", &ip, name));
                if !args.comment.is_empty() {
                    found.comment.push(commented(&ip));
                }
            }
            (true, false) => {
                found.failed = true;
                found.messages.push(format!("Invalid IP Address for {name} ({ip})"));
            }
        }
    }
    found
}

/// Records the change of a step: under its kind, each address with its new name or comment.
fn noted(changes: &mut Map, step: &Step) {
    let kind = changes.entry(step.kind, || Map::new().into());
    if let Some(kind) = kind.as_map_mut() {
        let items = kind.entry(step.ip.as_str(), || Value::list([]));
        if let Some(items) = items.as_list_mut() {
            items.push(step.what.as_str().into());
        }
    }
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let all = cx.call_internal("hosts.list_hosts", Vec::new(), Map::new())?;
    let all = all.as_map().cloned().unwrap_or_default();
    let found = looked(&all, &args);
    let (mut messages, mut changes) = (found.messages, Map::new());
    let steps = || found.add.iter().chain(&found.comment).chain(&found.remove);
    let mut result = Some(!found.failed);
    for step in steps().filter(|_| cx.test) {
        messages.push(step.describe("would", ""));
        noted(&mut changes, step);
        // In Salt's test mode a comment alone does not count as a change.
        if step.kind != "comment_added" {
            result = None;
        }
    }
    let ret = Ret {
        result,
        warnings: found.warnings.clone(),
        ..Ret::ok(messages.join("\n")).changes(changes.clone())
    };
    if cx.test || steps().next().is_none() {
        return Ok(ret);
    }
    cx.apply(ret.clone(), || {
        for step in steps() {
            let (done, sentence) = step.take(cx)?;
            messages.push(sentence);
            if done {
                noted(&mut changes, step);
            } else {
                result = Some(false);
            }
        }
        let comment = messages.join("\n");
        Ok(Ret {
            result,
            comment,
            ..ret.changes(changes)
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let (mut messages, mut ret) = (Vec::new(), Ret::ok(""));
    for ip in &args.ip {
        let pair = || vec![ip.as_str().into(), name.into()];
        if !cx
            .call_internal("hosts.has_pair", pair(), Map::new())?
            .is_true()
        {
            messages.push(format!("Host {name} ({ip}) already absent"));
            continue;
        }
        let would = Ret::would(format!("Host {name} ({ip}) needs to be removed"));
        let one = cx.apply(would, || {
            let done = cx
                .call_internal("hosts.rm_host", pair(), Map::new())?
                .is_true();
            Ok(match done {
                true => Ret::ok(format!("Removed host {name} ({ip})")).change("host", name),
                false => Ret::failed("Failed to remove host"),
            })
        })?;
        messages.push(one.comment.clone());
        ret = one;
    }
    let comment = messages.join("\n");
    Ok(Ret { comment, ..ret })
}

fn only(cx: &Exec, args: Only) -> Result<Ret, Error> {
    let ip = args.name.as_str();
    let old = names(&cx.call_internal("hosts.get_alias", vec![ip.into()], Map::new())?).join(" ");
    let new: Vec<&str> = args.hostnames.iter().map(|name| name.trim()).collect();
    let new = new.join(" ");
    if old == new {
        return Ok(Ret::ok(format!("IP address {ip} already set to \"{new}\"")));
    }
    let would = format!("Would change {ip} from \"{old}\" to \"{new}\"");
    cx.apply(Ret::would(would), || {
        let given = vec![ip.into(), new.as_str().into()];
        let change = format!("{ip} from \"{old}\" to \"{new}\"");
        Ok(
            match cx
                .call_internal("hosts.set_host", given, Map::new())?
                .is_true()
            {
                true => Ret::ok(format!("successfully changed {change}")).change(
                    ip,
                    Map::new()
                        .with("old", old.as_str())
                        .with("new", new.as_str()),
                ),
                false => Ret::failed(format!("hosts.set_host failed to change {change}")),
            },
        )
    })
}
