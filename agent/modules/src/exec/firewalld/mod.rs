//! The `firewalld` execution module: zones and services of firewalld through its own program.

pub(crate) mod services;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use crate::process::Process;

state::exec_module! {
    /// The firewall (`firewall-cmd`).
    mod firewalld;

    /// The version of the program.
    fn version(Version {});

    /// Take up what is configured.
    fn reload_rules(ReloadRules {});

    /// The zone of interfaces that have none of their own.
    fn default_zone(DefaultZone {});

    /// All zones with all that they hold.
    fn list_zones(ListZones {
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// The names of all zones.
    fn get_zones(GetZones {
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// The types of ICMP that there are.
    fn get_icmp_types(GetIcmpTypes {
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Make a zone.
    fn new_zone(NewZone {
        /// Its name.
        zone: String,
        /// Whether it is taken up.
        restart: bool = true,
    });

    /// Remove a zone.
    fn delete_zone(DeleteZone {
        /// Its name.
        zone: String,
        /// Whether that is taken up.
        restart: bool = true,
    });

    /// Say which zone has the interfaces that have none of their own.
    fn set_default_zone(SetDefaultZone {
        /// Its name.
        zone: String,
    });

    /// All that a zone holds.
    fn list_all(ListAll {
        /// The zone.
        zone: Option<String> = None,
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// The services of a zone.
    fn list_services(ListServices {
        /// The zone.
        zone: Option<String> = None,
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Add a service to a zone.
    fn add_service(AddService {
        /// The service.
        service: String,
        /// The zone.
        zone: Option<String> = None,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// Remove a service from a zone.
    fn remove_service(RemoveService {
        /// The service.
        service: String,
        /// The zone.
        zone: Option<String> = None,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// Whether a zone hides addresses behind its own.
    fn get_masquerade(GetMasquerade {
        /// The zone.
        zone: Option<String> = None,
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Let a zone hide addresses behind its own.
    fn add_masquerade(AddMasquerade {
        /// The zone.
        zone: Option<String> = None,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// Let a zone no longer hide addresses.
    fn remove_masquerade(RemoveMasquerade {
        /// The zone.
        zone: Option<String> = None,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// Open a port of a zone.
    fn add_port(AddPort {
        /// The zone.
        zone: String,
        /// The port, such as `443/tcp`.
        port: String,
        /// Whether that lasts.
        permanent: bool = true,
        /// Whether the zone hides addresses then.
        force_masquerade: bool = false,
    });

    /// Close a port of a zone.
    fn remove_port(RemovePort {
        /// The zone.
        zone: String,
        /// The port.
        port: String,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// The open ports of a zone.
    fn list_ports(ListPorts {
        /// The zone.
        zone: String,
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Forward a port.
    fn add_port_fwd(AddPortFwd {
        /// The zone.
        zone: String,
        /// The port.
        src: String,
        /// Where to.
        dest: String,
        /// The protocol.
        proto: String = "tcp".into(),
        /// The address that it is forwarded to.
        dstaddr: String = String::new(),
        /// Whether that lasts.
        permanent: bool = true,
        /// Whether the zone hides addresses then.
        force_masquerade: bool = false,
    });

    /// Forward a port no longer.
    fn remove_port_fwd(RemovePortFwd {
        /// The zone.
        zone: String,
        /// The port.
        src: String,
        /// Where to.
        dest: String,
        /// The protocol.
        proto: String = "tcp".into(),
        /// The address that it is forwarded to.
        dstaddr: String = String::new(),
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// The forwarded ports of a zone.
    fn list_port_fwd(ListPortFwd {
        /// The zone.
        zone: String,
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Let no ICMP of a type in.
    fn block_icmp(BlockIcmp {
        /// The zone.
        zone: String,
        /// The type.
        icmp: String,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// Let ICMP of a type in again.
    fn allow_icmp(AllowIcmp {
        /// The zone.
        zone: String,
        /// The type.
        icmp: String,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// The types of ICMP that a zone does not let in.
    fn list_icmp_block(ListIcmpBlock {
        /// The zone.
        zone: String,
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Let what is in force last.
    fn make_permanent(MakePermanent {});

    /// The interfaces of a zone.
    fn get_interfaces(GetInterfaces {
        /// The zone.
        zone: String,
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Give an interface to a zone.
    fn add_interface(AddInterface {
        /// The zone.
        zone: String,
        /// The interface.
        interface: String,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// Take an interface from a zone.
    fn remove_interface(RemoveInterface {
        /// The zone.
        zone: String,
        /// The interface.
        interface: String,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// The sources of a zone.
    fn get_sources(GetSources {
        /// The zone.
        zone: String,
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Give a source to a zone.
    fn add_source(AddSource {
        /// The zone.
        zone: String,
        /// The source.
        source: String,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// Take a source from a zone.
    fn remove_source(RemoveSource {
        /// The zone.
        zone: String,
        /// The source.
        source: String,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// The rich rules of a zone.
    fn get_rich_rules(GetRichRules {
        /// The zone.
        zone: String,
        /// As it is configured, not as it is in force.
        permanent: bool = true,
    });

    /// Add a rich rule to a zone.
    fn add_rich_rule(AddRichRule {
        /// The zone.
        zone: String,
        /// The rule.
        rule: String,
        /// Whether that lasts.
        permanent: bool = true,
    });

    /// Remove a rich rule from a zone.
    fn remove_rich_rule(RemoveRichRule {
        /// The zone.
        zone: String,
        /// The rule.
        rule: String,
        /// Whether that lasts.
        permanent: bool = true,
    });
}

/// Runs the program with options; all that users name stands behind a `=`.
///
/// # Errors
/// What the program says where it fails.
pub(crate) fn run(cx: &Exec, options: &[String]) -> Result<String, Error> {
    let words = ["firewall-cmd".to_owned()]
        .into_iter()
        .chain(options.iter().cloned());
    let done = Process::words(words).run(cx)?;
    if done.success() {
        return Ok(done.stdout);
    }
    let why = if done.stderr.is_empty() {
        done.stdout
    } else {
        done.stderr
    };
    Err(format!("firewall-cmd failed: {why}").into())
}

/// One option for a zone, or for the default one.
///
/// # Errors
/// What the program says where it fails.
pub(crate) fn of_zone(
    cx: &Exec,
    zone: Option<&str>,
    option: String,
    permanent: bool,
) -> Result<String, Error> {
    let zone = zone
        .filter(|zone| !zone.is_empty())
        .map(|zone| format!("--zone={zone}"));
    let last = permanent.then(|| "--permanent".to_owned());
    let words: Vec<String> = zone.into_iter().chain([option]).chain(last).collect();
    run(cx, &words)
}

/// The words, or the lines, of an answer about a zone.
///
/// # Errors
/// What the program says where it fails.
pub(crate) fn listed(
    cx: &Exec,
    zone: &str,
    option: &str,
    permanent: bool,
) -> Result<Vec<String>, Error> {
    let said = of_zone(cx, Some(zone), option.to_owned(), permanent)?;
    Ok(match option {
        "--list-rich-rules" | "--list-forward-ports" => said.lines().map(str::to_owned).collect(),
        _ => said.split_whitespace().map(str::to_owned).collect(),
    })
}

/// Words that are no matter of a zone.
///
/// # Errors
/// What the program says where it fails.
pub(crate) fn words(cx: &Exec, option: &str, permanent: bool) -> Result<Vec<String>, Error> {
    let said = of_zone(cx, None, option.to_owned(), permanent)?;
    Ok(said.split_whitespace().map(str::to_owned).collect())
}

fn said(cx: &Exec, option: &str) -> Result<Value, Error> {
    Ok(run(cx, &[option.to_owned()])?.into())
}

fn set(cx: &Exec, zone: &str, option: String, permanent: bool) -> Result<Value, Error> {
    Ok(of_zone(cx, Some(zone), option, permanent)?.into())
}

/// Zones with what they hold, each entry a list.
fn zones(text: &str) -> Map {
    let (mut all, mut name, mut key) = (Map::new(), String::new(), String::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            line.trim_end().clone_into(&mut name);
            continue;
        }
        let entry = all.entry(name.as_str(), || Map::new().into());
        let Some(entry) = entry.as_map_mut() else {
            continue;
        };
        if line.starts_with('\t') {
            if let Some(lines) = entry.get_mut(&key).and_then(Value::as_list_mut) {
                lines.push(line.trim().into());
            }
        } else if let Some((title, value)) = line.split_once(':') {
            title.trim().clone_into(&mut key);
            entry.insert(key.as_str(), vec![value.trim()]);
        }
    }
    all
}

/// Whether a zone hides addresses behind its own.
///
/// # Errors
/// What the program says where it fails.
pub(crate) fn masquerades(cx: &Exec, zone: Option<&str>, permanent: bool) -> Result<bool, Error> {
    let all = zones(&of_zone(cx, zone, "--list-all".into(), permanent)?);
    let says_no = |zone: &Value| {
        let first = zone
            .get("masquerade")
            .and_then(|lines| lines.as_list()?.first());
        first.is_none_or(|first| *first == "no".into())
    };
    Ok(!all.values().any(says_no))
}

fn version(cx: &Exec, _: Version) -> Result<Value, Error> {
    said(cx, "--version")
}

fn reload_rules(cx: &Exec, _: ReloadRules) -> Result<Value, Error> {
    said(cx, "--reload")
}

fn default_zone(cx: &Exec, _: DefaultZone) -> Result<Value, Error> {
    said(cx, "--get-default-zone")
}

fn make_permanent(cx: &Exec, _: MakePermanent) -> Result<Value, Error> {
    said(cx, "--runtime-to-permanent")
}

fn set_default_zone(cx: &Exec, args: SetDefaultZone) -> Result<Value, Error> {
    said(cx, &format!("--set-default-zone={}", args.zone))
}

fn list_zones(cx: &Exec, args: ListZones) -> Result<Value, Error> {
    Ok(zones(&of_zone(
        cx,
        None,
        "--list-all-zones".into(),
        args.permanent,
    )?)
    .into())
}

fn list_all(cx: &Exec, args: ListAll) -> Result<Value, Error> {
    let said = of_zone(
        cx,
        args.zone.as_deref(),
        "--list-all".into(),
        args.permanent,
    )?;
    Ok(zones(&said).into())
}

fn get_zones(cx: &Exec, args: GetZones) -> Result<Value, Error> {
    Ok(words(cx, "--get-zones", args.permanent)?.into())
}

fn get_icmp_types(cx: &Exec, args: GetIcmpTypes) -> Result<Value, Error> {
    Ok(words(cx, "--get-icmptypes", args.permanent)?.into())
}

/// Makes or removes a zone or service, and takes that up.
///
/// # Errors
/// What the program says where it fails.
pub(super) fn managed(cx: &Exec, option: String, restart: bool) -> Result<Value, Error> {
    let said = run(cx, &[option, "--permanent".into()])?;
    match restart && said == "success" {
        true => Ok(run(cx, &["--reload".into()])?.into()),
        false => Ok(said.into()),
    }
}

fn new_zone(cx: &Exec, args: NewZone) -> Result<Value, Error> {
    managed(cx, format!("--new-zone={}", args.zone), args.restart)
}

fn delete_zone(cx: &Exec, args: DeleteZone) -> Result<Value, Error> {
    managed(cx, format!("--delete-zone={}", args.zone), args.restart)
}

fn list_services(cx: &Exec, args: ListServices) -> Result<Value, Error> {
    let zone = args.zone.unwrap_or_default();
    Ok(listed(cx, &zone, "--list-services", args.permanent)?.into())
}

fn add_service(cx: &Exec, args: AddService) -> Result<Value, Error> {
    let zone = args.zone.unwrap_or_default();
    set(
        cx,
        &zone,
        format!("--add-service={}", args.service),
        args.permanent,
    )
}

fn remove_service(cx: &Exec, args: RemoveService) -> Result<Value, Error> {
    let zone = args.zone.unwrap_or_default();
    set(
        cx,
        &zone,
        format!("--remove-service={}", args.service),
        args.permanent,
    )
}

fn get_masquerade(cx: &Exec, args: GetMasquerade) -> Result<Value, Error> {
    Ok(masquerades(cx, args.zone.as_deref(), args.permanent)?.into())
}

fn add_masquerade(cx: &Exec, args: AddMasquerade) -> Result<Value, Error> {
    let zone = args.zone.unwrap_or_default();
    set(cx, &zone, "--add-masquerade".into(), args.permanent)
}

fn remove_masquerade(cx: &Exec, args: RemoveMasquerade) -> Result<Value, Error> {
    let zone = args.zone.unwrap_or_default();
    set(cx, &zone, "--remove-masquerade".into(), args.permanent)
}

/// A port or forward may need that its zone hides addresses.
fn masqueraded(cx: &Exec, zone: &str, wanted: bool) -> Result<(), Error> {
    if wanted && !masquerades(cx, Some(zone), true)? {
        of_zone(cx, Some(zone), "--add-masquerade".into(), true)?;
    }
    Ok(())
}

fn add_port(cx: &Exec, args: AddPort) -> Result<Value, Error> {
    masqueraded(cx, &args.zone, args.force_masquerade)?;
    set(
        cx,
        &args.zone,
        format!("--add-port={}", args.port),
        args.permanent,
    )
}

fn remove_port(cx: &Exec, args: RemovePort) -> Result<Value, Error> {
    set(
        cx,
        &args.zone,
        format!("--remove-port={}", args.port),
        args.permanent,
    )
}

fn list_ports(cx: &Exec, args: ListPorts) -> Result<Value, Error> {
    Ok(listed(cx, &args.zone, "--list-ports", args.permanent)?.into())
}

/// A forward in firewalld's words.
fn forward(src: &str, dest: &str, proto: &str, address: &str) -> String {
    format!("port={src}:proto={proto}:toport={dest}:toaddr={address}")
}

fn add_port_fwd(cx: &Exec, args: AddPortFwd) -> Result<Value, Error> {
    masqueraded(cx, &args.zone, args.force_masquerade)?;
    let forward = forward(&args.src, &args.dest, &args.proto, &args.dstaddr);
    set(
        cx,
        &args.zone,
        format!("--add-forward-port={forward}"),
        args.permanent,
    )
}

fn remove_port_fwd(cx: &Exec, args: RemovePortFwd) -> Result<Value, Error> {
    let forward = forward(&args.src, &args.dest, &args.proto, &args.dstaddr);
    set(
        cx,
        &args.zone,
        format!("--remove-forward-port={forward}"),
        args.permanent,
    )
}

/// A forward as firewalld writes it, for the reader.
pub(crate) fn forward_shown(line: &str) -> Map {
    let names = [
        "Source port",
        "Protocol",
        "Destination port",
        "Destination address",
    ];
    let parts = line
        .splitn(4, ':')
        .map(|part| part.split_once('=').map_or("", |(_, value)| value));
    names
        .into_iter()
        .zip(parts)
        .collect::<Value>()
        .as_map()
        .cloned()
        .unwrap_or_default()
}

fn list_port_fwd(cx: &Exec, args: ListPortFwd) -> Result<Value, Error> {
    let lines = listed(cx, &args.zone, "--list-forward-ports", args.permanent)?;
    let shown = lines.iter().map(|line| Value::from(forward_shown(line)));
    Ok(Value::list(shown))
}

/// Blocks a type of ICMP, or no longer, unless that is so.
fn set_icmp(
    cx: &Exec,
    zone: &str,
    icmp: &str,
    permanent: bool,
    block: bool,
) -> Result<Value, Error> {
    if !words(cx, "--get-icmptypes", permanent)?
        .iter()
        .any(|known| known == icmp)
    {
        log::error("Invalid ICMP type");
        return Ok(false.into());
    }
    let blocked = listed(cx, zone, "--list-icmp-blocks", permanent)?;
    if blocked.iter().any(|known| known == icmp) == block {
        return Ok("success".into());
    }
    let verb = if block { "add" } else { "remove" };
    set(cx, zone, format!("--{verb}-icmp-block={icmp}"), permanent)
}

fn block_icmp(cx: &Exec, args: BlockIcmp) -> Result<Value, Error> {
    set_icmp(cx, &args.zone, &args.icmp, args.permanent, true)
}

fn allow_icmp(cx: &Exec, args: AllowIcmp) -> Result<Value, Error> {
    set_icmp(cx, &args.zone, &args.icmp, args.permanent, false)
}

fn list_icmp_block(cx: &Exec, args: ListIcmpBlock) -> Result<Value, Error> {
    Ok(listed(cx, &args.zone, "--list-icmp-blocks", args.permanent)?.into())
}

fn get_interfaces(cx: &Exec, args: GetInterfaces) -> Result<Value, Error> {
    Ok(listed(cx, &args.zone, "--list-interfaces", args.permanent)?.into())
}

fn add_interface(cx: &Exec, args: AddInterface) -> Result<Value, Error> {
    set(
        cx,
        &args.zone,
        format!("--add-interface={}", args.interface),
        args.permanent,
    )
}

fn remove_interface(cx: &Exec, args: RemoveInterface) -> Result<Value, Error> {
    set(
        cx,
        &args.zone,
        format!("--remove-interface={}", args.interface),
        args.permanent,
    )
}

fn get_sources(cx: &Exec, args: GetSources) -> Result<Value, Error> {
    Ok(listed(cx, &args.zone, "--list-sources", args.permanent)?.into())
}

fn add_source(cx: &Exec, args: AddSource) -> Result<Value, Error> {
    set(
        cx,
        &args.zone,
        format!("--add-source={}", args.source),
        args.permanent,
    )
}

fn remove_source(cx: &Exec, args: RemoveSource) -> Result<Value, Error> {
    set(
        cx,
        &args.zone,
        format!("--remove-source={}", args.source),
        args.permanent,
    )
}

fn get_rich_rules(cx: &Exec, args: GetRichRules) -> Result<Value, Error> {
    Ok(listed(cx, &args.zone, "--list-rich-rules", args.permanent)?.into())
}

fn add_rich_rule(cx: &Exec, args: AddRichRule) -> Result<Value, Error> {
    set(
        cx,
        &args.zone,
        format!("--add-rich-rule={}", args.rule),
        args.permanent,
    )
}

fn remove_rich_rule(cx: &Exec, args: RemoveRichRule) -> Result<Value, Error> {
    set(
        cx,
        &args.zone,
        format!("--remove-rich-rule={}", args.rule),
        args.permanent,
    )
}
