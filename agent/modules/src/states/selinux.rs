//! The `selinux` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::selinux::policy::kind;
use crate::exec::selinux::{booleans, configured, mode as now, modules};

state::state_module! {
    /// Manage SELinux.
    #[needs("semanage", "selinux module could not be loaded", "policycoreutils-python-utils")]
    #[needs("setsebool", "selinux module could not be loaded", "policycoreutils")]
    #[needs("semodule", "selinux module could not be loaded", "policycoreutils")]
    #[module(aggregate = joined)]
    mod selinux;

    /// Make sure that SELinux is in a mode, now and after the next start.
    ///
    ///     enforcing:
    ///       selinux.mode
    fn mode(Mode {
        /// `enforcing`, `permissive` or `disabled`.
        name: String,
    });

    /// Make sure that booleans have values.
    ///
    ///     httpd_can_network_connect:
    ///       selinux.boolean:
    ///         - value: True
    ///         - persist: True
    fn boolean(Boolean {
        /// The boolean.
        name: String,
        /// The value of the boolean.
        value: Value = Value::Null,
        /// Several booleans: a list of names or of dictionaries with a name and a value.
        booleans: Value = Value::Null,
        /// True to keep the values after the next start.
        persist: bool = false,
    });

    /// Make sure that a module is enabled or disabled.
    ///
    ///     app:
    ///       selinux.module:
    ///         - module_state: Enabled
    fn module(Module {
        /// The name of the module.
        name: String,
        /// `Enabled` or `Disabled`.
        module_state: Value = "Enabled".into(),
        /// The required version of the module.
        version: String = "any".into(),
        ..kwargs
    });

    /// Install a module.
    ///
    ///     /usr/share/selinux/app.pp:
    ///       selinux.module_install
    fn module_install(ModuleInstall {
        /// The file of the module.
        name: String,
    });

    /// Make sure that a module is not installed.
    ///
    ///     app:
    ///       selinux.module_remove
    fn module_remove(ModuleRemove {
        /// The name of the module.
        name: String,
    });

    /// Make sure that a rule for files exists.
    ///
    ///     /srv/www(/.*)?:
    ///       selinux.fcontext_policy_present:
    ///         - sel_type: httpd_sys_content_t
    fn fcontext_policy_present(FcontextPolicyPresent {
        /// The files, as a regular expression.
        name: String,
        /// The SELinux type of the files.
        sel_type: String,
        /// The kind of files, as a letter.
        filetype: String = "a".into(),
        /// The SELinux user.
        sel_user: Option<String> = None,
        /// The SELinux level.
        sel_level: Option<String> = None,
    });

    /// Make sure that a rule for files does not exist.
    ///
    ///     /srv/www(/.*)?:
    ///       selinux.fcontext_policy_absent:
    ///         - sel_type: httpd_sys_content_t
    fn fcontext_policy_absent(FcontextPolicyAbsent {
        /// The files, as a regular expression.
        name: String,
        /// The kind of files, as a letter.
        filetype: String = "a".into(),
        /// The SELinux type of the files.
        sel_type: Option<String> = None,
        /// The SELinux user.
        sel_user: Option<String> = None,
        /// The SELinux level.
        sel_level: Option<String> = None,
    });

    /// Make sure that files have the labels that the rules define.
    ///
    ///     /srv/www:
    ///       selinux.fcontext_policy_applied:
    ///         - recursive: True
    fn fcontext_policy_applied(FcontextPolicyApplied {
        /// The files.
        name: String,
        /// True to include everything below the files.
        recursive: bool = false,
    });

    /// Make sure that a rule for a port exists.
    ///
    ///     tcp/8080:
    ///       selinux.port_policy_present:
    ///         - sel_type: http_port_t
    fn port_policy_present(PortPolicyPresent {
        /// The protocol and port, such as `tcp/80`.
        name: String,
        /// The SELinux type of the port.
        sel_type: String,
        /// The protocol, if `name` does not contain it.
        protocol: Option<String> = None,
        /// The port, if `name` does not contain it.
        port: Option<String> = None,
        /// The SELinux range of levels.
        sel_range: Option<String> = None,
    });

    /// Make sure that a rule for a port does not exist.
    ///
    ///     tcp/8080:
    ///       selinux.port_policy_absent:
    ///         - sel_type: http_port_t
    fn port_policy_absent(PortPolicyAbsent {
        /// The protocol and port, such as `tcp/80`.
        name: String,
        /// The SELinux type of the port.
        sel_type: Option<String> = None,
        /// The protocol, if `name` does not contain it.
        protocol: Option<String> = None,
        /// The port, if `name` does not contain it.
        port: Option<String> = None,
    });
}

/// Calls an execution function of `selinux` with named arguments.
fn call(cx: &Exec, function: &str, kwargs: Map) -> Result<Value, Error> {
    cx.call_internal(&format!("selinux.{function}"), Vec::new(), kwargs)
}

/// Returns whether a command succeeded.
fn is_done(ran: &Value) -> bool {
    ran.get("retcode").and_then(Value::as_int) == Some(0)
}

fn mode(cx: &Exec, args: Mode) -> Result<Ret, Error> {
    let given = args.name.to_lowercase();
    let wanted = match given.as_str() {
        "1" | "on" => "Enforcing",
        "0" | "off" => "Permissive",
        word if word.starts_with('e') => "Enforcing",
        word if word.starts_with('p') => "Permissive",
        word if word.starts_with('d') => "Disabled",
        _ => {
            return Ok(Ret::failed(format!(
                "{} is not an accepted mode",
                args.name
            )));
        }
    };
    let (running, starts) = (now(), configured()?);
    let old = match running == wanted && starts.as_deref() != Some(wanted) {
        true => Value::from(starts),
        false => running.into(),
    };
    if old == wanted.into() {
        return Ok(Ret::ok(format!("SELinux is already in {wanted} mode")));
    }
    let changed = |ret: Ret, new: &str| ret.change("old", old.clone()).change("new", new);
    let would = Ret::would(format!("SELinux mode is set to be changed to {wanted}"));
    cx.apply(changed(would, wanted), || {
        let new = call(cx, "setenforce", Map::new().with("mode", wanted))?.to_text();
        let waits = wanted == "Disabled" && configured()?.as_deref() == Some(wanted);
        Ok(match new == wanted || waits {
            true => changed(
                Ret::ok(format!("SELinux has been set to {wanted} mode")),
                &new,
            ),
            false => Ret::failed(format!("Failed to set SELinux to {wanted} mode")),
        })
    })
}

/// Returns the wanted value of each boolean.
fn wanted(name: &str, value: &Value, several: &Value) -> Map {
    match several {
        Value::Map(all) if !all.is_empty() => all.clone(),
        Value::List(all) if !all.is_empty() => {
            let mut wanted = Map::new();
            for one in all.iter() {
                match one.as_map() {
                    Some(one) => wanted.update(one.clone()),
                    None => {
                        wanted.insert(one.clone(), value.clone());
                    }
                }
            }
            wanted
        }
        _ => Map::new().with(name, value.clone()),
    }
}

fn refined(value: &Value) -> Option<&'static str> {
    match python::str(value).to_lowercase().as_str() {
        "1" | "on" | "yes" | "true" => Some("on"),
        "0" | "off" | "no" | "false" => Some("off"),
        _ => None,
    }
}

fn names(of: &[String]) -> String {
    let mut of = of.to_vec();
    of.sort_unstable();
    of.join(", ")
}

fn boolean(cx: &Exec, args: Boolean) -> Result<Ret, Error> {
    let wanted = wanted(&args.name, &args.value, &args.booleans);
    let known = booleans(cx)?;
    let (mut right, mut wrong) = (Vec::new(), Vec::new());
    let (mut pairs, mut changes) = (Map::new(), Map::new());
    for (name, value) in &wanted {
        let name = name.to_text();
        let Some(about) = known.get(&name) else {
            return Ok(Ret::failed(format!("Boolean {name} is not available")));
        };
        let Some(new) = refined(value) else {
            let value = python::str(value);
            return Ok(Ret::failed(format!(
                "{value} is not a valid value for the boolean {name}"
            )));
        };
        let [state, default] =
            ["State", "Default"].map(|key| about.get(key).cloned().unwrap_or_default());
        if state == new.into() && (default == new.into() || !args.persist) {
            right.push(name);
            continue;
        }
        let (old, becomes) = match args.persist {
            true => (
                Value::list([state, default]),
                Value::list([new.into(), new.into()]),
            ),
            false => (state, new.into()),
        };
        changes.insert(
            name.as_str(),
            Map::new().with("old", old).with("new", becomes),
        );
        pairs.insert(name.as_str(), new);
        wrong.push(name);
    }
    let right = match right.is_empty() {
        true => None,
        false => Some(format!(
            "The following booleans were in the correct state: {}",
            names(&right)
        )),
    };
    if wrong.is_empty() {
        return Ok(Ret::ok(right.unwrap_or_default()));
    }
    let told = |verb: &str| {
        let what = format!("The following booleans {verb} changed: {}", names(&wrong));
        right
            .iter()
            .cloned()
            .chain([what])
            .collect::<Vec<_>>()
            .join("\n")
    };
    let would = Ret::would(told("would be")).changes(changes.clone());
    cx.apply(would, || {
        let kwargs = Map::new()
            .with("pairs", pairs)
            .with("persist", args.persist);
        Ok(match call(cx, "setsebools", kwargs)?.is_true() {
            true => Ret::ok(told("have been")).changes(changes),
            false => Ret::failed(format!(
                "Failed to set the following booleans: {}",
                python::str(&wanted.clone().into())
            )),
        })
    })
}

/// Combines the booleans of several chunks into one call.
fn joined(low: &Map, others: &[Map]) -> (Map, Vec<bool>) {
    let is_boolean = |low: &Map| low.get("fun").is_some_and(|fun| *fun == "boolean".into());
    if !is_boolean(low) {
        return (low.clone(), vec![false; others.len()]);
    }
    let of = |low: &Map| {
        let name = low.get("name").map(Value::to_text).unwrap_or_default();
        let [value, several] =
            ["value", "booleans"].map(|key| low.get(key).cloned().unwrap_or_default());
        wanted(&name, &value, &several)
    };
    let fits = |other: &&Map| is_boolean(other) && other.get("persist") == low.get("persist");
    let mut all = of(low);
    others
        .iter()
        .filter(fits)
        .for_each(|other| all.update(of(other)));
    let taken = others.iter().map(|other| fits(&other)).collect();
    (low.clone().with("booleans", all), taken)
}

fn refined_state(value: &Value) -> Option<&'static str> {
    match python::str(value).to_lowercase().as_str() {
        "enabled" => Some("enabled"),
        "disabled" => Some("disabled"),
        _ => refined(value).map(|on| if on == "on" { "enabled" } else { "disabled" }),
    }
}

fn module(cx: &Exec, args: Module) -> Result<Ret, Error> {
    let option = |key: &str| args.kwargs.get(key).is_some_and(Value::is_true);
    if option("install") && option("remove") {
        return Ok(Ret::failed("Cannot install and remove at the same time"));
    }
    if option("remove") {
        return module_remove(cx, ModuleRemove { name: args.name });
    }
    if !option("install") {
        return toggled(cx, &args);
    }
    let source = args.kwargs.get("source").map(Value::to_text);
    let source = source.unwrap_or_else(|| args.name.clone());
    let installed = ModuleInstall {
        name: source.clone(),
    };
    let mut ret = module_install(cx, installed)?;
    if ret.result == Some(true) {
        ret = toggled(cx, &args)?;
    }
    Ok(Ret {
        name: Some(source),
        ..ret
    })
}

/// Enables or disables an installed module.
fn toggled(cx: &Exec, args: &Module) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let known = modules(cx)?;
    let Some(about) = known.get(name) else {
        return Ok(Ret::failed(format!("Module {name} is not available")));
    };
    let given = python::str(&args.module_state);
    let Some(wanted) = refined_state(&args.module_state) else {
        return Ok(Ret::failed(format!(
            "{given} is not a valid state for the {name} module."
        )));
    };
    let version = about.get("Version").map(python::str).unwrap_or_default();
    if args.version != "any" && version != args.version {
        return Ok(Ret::failed(format!(
            "Module version is {version} and does not match the desired version of {} or you are using semodule >= 2.4",
            args.version
        )));
    }
    if about.get("Enabled").and_then(refined_state) == Some(wanted) {
        return Ok(Ret::ok(format!("Module {name} is in the desired state")));
    }
    let would = Ret::would(format!("Module {name} is set to be toggled to {given}"));
    cx.apply(would, || {
        let kwargs = Map::new().with("module", name).with("state", wanted);
        Ok(match call(cx, "setsemod", kwargs)?.is_true() {
            true => Ret::ok(format!("Module {name} has been set to {given}")),
            false => Ret::failed(format!("Failed to set the Module {name} to {given}")),
        })
    })
}

fn module_install(cx: &Exec, args: ModuleInstall) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let would = Ret::would(format!("Module {name} would be installed"));
    cx.apply(would, || {
        let kwargs = Map::new().with("module_path", name);
        Ok(match call(cx, "install_semod", kwargs)?.is_true() {
            true => Ret::ok(format!("Module {name} has been installed")),
            false => Ret::failed(format!("Failed to install module {name}")),
        })
    })
}

fn module_remove(cx: &Exec, args: ModuleRemove) -> Result<Ret, Error> {
    let name = args.name.as_str();
    if !modules(cx)?.contains(name) {
        return Ok(Ret::failed(format!("Module {name} is not available")));
    }
    let would = Ret::would(format!("Module {name} would be removed"));
    cx.apply(would, || {
        Ok(
            match call(cx, "remove_semod", Map::new().with("module", name))?.is_true() {
                true => Ret::ok(format!("Module {name} has been removed")),
                false => Ret::failed(format!("Failed to remove module {name}")),
            },
        )
    })
}

fn fcontext_policy_present(cx: &Exec, args: FcontextPolicyPresent) -> Result<Ret, Error> {
    let (name, kind) = (args.name.as_str(), kind(&args.filetype)?);
    let wanted = Map::new()
        .with("name", name)
        .with("filetype", args.filetype.as_str());
    let wanted = wanted
        .with("sel_type", args.sel_type.as_str())
        .with("sel_user", args.sel_user);
    let wanted = wanted.with("sel_level", args.sel_level);
    if call(cx, "fcontext_get_policy", wanted.clone())?.is_true() {
        return Ok(Ret::ok(format!(
            "SELinux policy for \"{name}\" already present with specified filetype \"{kind}\" and sel_type \"{}\".",
            args.sel_type
        )));
    }
    cx.apply(Ret::would(""), || {
        let ran = call(cx, "fcontext_add_policy", wanted)?;
        if !is_done(&ran) {
            return Ok(Ret::failed(format!(
                "Error adding new rule: {}",
                python::str(&ran)
            )));
        }
        let new = Map::new()
            .with("filetype", kind)
            .with("sel_type", args.sel_type);
        Ok(Ret::ok("")
            .change("old", Map::new())
            .change("new", Map::new().with(name, new)))
    })
}

fn fcontext_policy_absent(cx: &Exec, args: FcontextPolicyAbsent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let kwargs = Map::new()
        .with("name", name)
        .with("filetype", args.filetype.as_str());
    let kwargs = kwargs
        .with("sel_user", args.sel_user)
        .with("sel_level", args.sel_level);
    let given = kwargs.clone().with("sel_type", args.sel_type.clone());
    let there = call(cx, "fcontext_get_policy", given)?;
    if !there.is_true() {
        let kind = args.sel_type.as_deref().unwrap_or("None");
        return Ok(Ret::ok(format!(
            "SELinux policy for \"{name}\" already absent with specified filetype \"{}\" and sel_type \"{kind}\".",
            args.filetype
        )));
    }
    let kind = args
        .sel_type
        .map(Value::from)
        .or_else(|| there.get("sel_type").cloned());
    let changed = |ret: Ret| {
        let old = Map::new().with(name, there.clone());
        ret.change("old", old).change("new", Map::new())
    };
    cx.apply(changed(Ret::would("")), || {
        let ran = call(cx, "fcontext_delete_policy", kwargs.with("sel_type", kind))?;
        Ok(match is_done(&ran) {
            true => changed(Ret::ok("")),
            false => Ret::failed(format!("Error removing policy: {}", python::str(&ran))),
        })
    })
}

fn fcontext_policy_applied(cx: &Exec, args: FcontextPolicyApplied) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let kwargs = Map::new()
        .with("name", name)
        .with("recursive", args.recursive);
    if !call(cx, "fcontext_policy_is_applied", kwargs.clone())?.is_true() {
        return Ok(Ret::ok(format!(
            "SElinux policies are already applied for filespec \"{name}\""
        )));
    }
    cx.apply(Ret::would(""), || {
        let ran = call(cx, "fcontext_apply_policy", kwargs)?;
        Ok(match is_done(&ran) {
            true => Ret::ok("").changes(ran.get("changes").cloned().unwrap_or_default()),
            false => Ret::failed(python::str(&ran)),
        })
    })
}

/// The rule for a port of a state.
struct Port {
    kwargs: Map,
    kind: Option<String>,
    /// The description of the rule for comments.
    description: String,
}

impl Port {
    fn new(
        name: &str,
        kind: Option<String>,
        protocol: Option<String>,
        port: Option<String>,
    ) -> Self {
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "None".to_owned());
        Self {
            description: format!(
                "with specified sel_type \"{}\", protocol \"{}\" and port \"{}\".",
                shown(&kind),
                shown(&protocol),
                shown(&port)
            ),
            kwargs: Map::new()
                .with("name", name)
                .with("protocol", protocol)
                .with("port", port),
            kind,
        }
    }

    fn find(&self, cx: &Exec) -> Result<Value, Error> {
        let kwargs = self.kwargs.clone().with("sel_type", self.kind.clone());
        call(cx, "port_get_policy", kwargs)
    }

    /// Returns the result of a command that changed the rule.
    fn changed(&self, cx: &Exec, ran: &Value, old: Value, failure: &str) -> Result<Ret, Error> {
        if !is_done(ran) {
            return Ok(Ret::failed(format!(
                "Error {failure} policy: {}",
                python::str(ran)
            )));
        }
        Ok(Ret::ok("").change("old", old).change("new", self.find(cx)?))
    }
}

fn port_policy_present(cx: &Exec, args: PortPolicyPresent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let port = Port::new(name, Some(args.sel_type.clone()), args.protocol, args.port);
    if port.find(cx)?.is_true() {
        return Ok(Ret::ok(format!(
            "SELinux policy for \"{name}\" already present {}",
            port.description
        )));
    }
    cx.apply(Ret::would(""), || {
        let old = call(cx, "port_get_policy", port.kwargs.clone())?;
        let function = if old.is_true() {
            "port_modify_policy"
        } else {
            "port_add_policy"
        };
        let kwargs = port.kwargs.clone().with("sel_type", args.sel_type);
        let ran = call(cx, function, kwargs.with("sel_range", args.sel_range))?;
        port.changed(cx, &ran, old, "adding new")
    })
}

fn port_policy_absent(cx: &Exec, args: PortPolicyAbsent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let port = Port::new(name, args.sel_type, args.protocol, args.port);
    let old = port.find(cx)?;
    if !old.is_true() {
        return Ok(Ret::ok(format!(
            "SELinux policy for \"{name}\" already absent {}",
            port.description
        )));
    }
    cx.apply(Ret::would(""), || {
        let ran = call(cx, "port_delete_policy", port.kwargs.clone())?;
        port.changed(cx, &ran, old, "deleting")
    })
}
