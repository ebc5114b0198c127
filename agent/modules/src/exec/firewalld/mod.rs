//! The `firewalld` execution module: manages zones and services of firewalld with `firewall-cmd`.

pub(crate) mod services;

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

state::exec_module! {
    /// Manage the firewall (`firewall-cmd`).
    #[needs(
        "firewall-cmd",
        "The firewalld execution module cannot be loaded: the firewall-cmd binary is not in the path.",
        "firewalld"
    )]
    mod firewalld;

    /// Return the version of the program.
    ///
    ///     salt-call firewalld.version
    fn version(Version {});

    /// Reload the firewall, so that the permanent configuration takes effect.
    ///
    ///     salt-call firewalld.reload_rules
    fn reload_rules(ReloadRules {});

    /// Return the default zone, which contains the interfaces that are assigned to no zone.
    ///
    ///     salt-call firewalld.default_zone
    fn default_zone(DefaultZone {});

    /// Return all zones with their settings.
    ///
    ///     salt-call firewalld.list_zones
    fn list_zones(ListZones {
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Return the names of all zones.
    ///
    ///     salt-call firewalld.get_zones
    fn get_zones(GetZones {
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Return the known ICMP types.
    ///
    ///     salt-call firewalld.get_icmp_types
    fn get_icmp_types(GetIcmpTypes {
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Create a zone.
    ///
    ///     salt-call firewalld.new_zone dmz2
    fn new_zone(NewZone {
        /// The name of the zone.
        zone: String,
        /// True to reload the firewall afterwards.
        restart: bool = true,
    });

    /// Remove a zone.
    ///
    ///     salt-call firewalld.delete_zone dmz2
    fn delete_zone(DeleteZone {
        /// The name of the zone.
        zone: String,
        /// True to reload the firewall afterwards.
        restart: bool = true,
    });

    /// Set the default zone, which contains the interfaces that are assigned to no zone.
    ///
    ///     salt-call firewalld.set_default_zone internal
    fn set_default_zone(SetDefaultZone {
        /// The name of the zone.
        zone: String,
    });

    /// Return all settings of a zone.
    ///
    ///     salt-call firewalld.list_all public
    fn list_all(ListAll {
        /// The name of the zone.
        zone: Option<String> = None,
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Return the services of a zone.
    ///
    ///     salt-call firewalld.list_services public
    fn list_services(ListServices {
        /// The name of the zone.
        zone: Option<String> = None,
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Add a service to a zone.
    ///
    ///     salt-call firewalld.add_service http public
    fn add_service(AddService {
        /// The name of the service.
        service: String,
        /// The name of the zone.
        zone: Option<String> = None,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Remove a service from a zone.
    ///
    ///     salt-call firewalld.remove_service http public
    fn remove_service(RemoveService {
        /// The name of the service.
        service: String,
        /// The name of the zone.
        zone: Option<String> = None,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Return whether masquerading is enabled in a zone.
    ///
    ///     salt-call firewalld.get_masquerade public
    fn get_masquerade(GetMasquerade {
        /// The name of the zone.
        zone: Option<String> = None,
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Enable masquerading in a zone.
    ///
    ///     salt-call firewalld.add_masquerade public
    fn add_masquerade(AddMasquerade {
        /// The name of the zone.
        zone: Option<String> = None,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Disable masquerading in a zone.
    ///
    ///     salt-call firewalld.remove_masquerade public
    fn remove_masquerade(RemoveMasquerade {
        /// The name of the zone.
        zone: Option<String> = None,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Open a port in a zone.
    ///
    ///     salt-call firewalld.add_port public 8080/tcp
    fn add_port(AddPort {
        /// The name of the zone.
        zone: String,
        /// The port and protocol, such as `443/tcp`.
        port: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
        /// True to enable masquerading in the zone, too.
        force_masquerade: bool = false,
    });

    /// Close a port in a zone.
    ///
    ///     salt-call firewalld.remove_port public 8080/tcp
    fn remove_port(RemovePort {
        /// The name of the zone.
        zone: String,
        /// The port and protocol, such as `443/tcp`.
        port: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Return the open ports of a zone.
    ///
    ///     salt-call firewalld.list_ports public
    fn list_ports(ListPorts {
        /// The name of the zone.
        zone: String,
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Add a port forwarding rule.
    ///
    ///     salt-call firewalld.add_port_fwd public 80 8080 tcp
    fn add_port_fwd(AddPortFwd {
        /// The name of the zone.
        zone: String,
        /// The port to forward.
        src: String,
        /// The destination port.
        dest: String,
        /// The protocol.
        proto: String = "tcp".into(),
        /// The destination address.
        dstaddr: String = String::new(),
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
        /// True to enable masquerading in the zone, too.
        force_masquerade: bool = false,
    });

    /// Remove a port forwarding rule.
    ///
    ///     salt-call firewalld.remove_port_fwd public 80 8080 tcp
    fn remove_port_fwd(RemovePortFwd {
        /// The name of the zone.
        zone: String,
        /// The port to forward.
        src: String,
        /// The destination port.
        dest: String,
        /// The protocol.
        proto: String = "tcp".into(),
        /// The destination address.
        dstaddr: String = String::new(),
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Return the port forwarding rules of a zone.
    ///
    ///     salt-call firewalld.list_port_fwd public
    fn list_port_fwd(ListPortFwd {
        /// The name of the zone.
        zone: String,
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Block an ICMP type in a zone.
    ///
    ///     salt-call firewalld.block_icmp public echo-request
    fn block_icmp(BlockIcmp {
        /// The name of the zone.
        zone: String,
        /// The ICMP type.
        icmp: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Stop blocking an ICMP type in a zone.
    ///
    ///     salt-call firewalld.allow_icmp public echo-request
    fn allow_icmp(AllowIcmp {
        /// The name of the zone.
        zone: String,
        /// The ICMP type.
        icmp: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Return the blocked ICMP types of a zone.
    ///
    ///     salt-call firewalld.list_icmp_block public
    fn list_icmp_block(ListIcmpBlock {
        /// The name of the zone.
        zone: String,
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Make the running configuration permanent.
    ///
    ///     salt-call firewalld.make_permanent
    fn make_permanent(MakePermanent {});

    /// Return the interfaces of a zone.
    ///
    ///     salt-call firewalld.get_interfaces public
    fn get_interfaces(GetInterfaces {
        /// The name of the zone.
        zone: String,
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Assign an interface to a zone.
    ///
    ///     salt-call firewalld.add_interface public eth0
    fn add_interface(AddInterface {
        /// The name of the zone.
        zone: String,
        /// The name of the interface.
        interface: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Remove an interface from a zone.
    ///
    ///     salt-call firewalld.remove_interface public eth0
    fn remove_interface(RemoveInterface {
        /// The name of the zone.
        zone: String,
        /// The name of the interface.
        interface: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Return the sources of a zone.
    ///
    ///     salt-call firewalld.get_sources public
    fn get_sources(GetSources {
        /// The name of the zone.
        zone: String,
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Assign a source to a zone.
    ///
    ///     salt-call firewalld.add_source public 10.0.0.0/8
    fn add_source(AddSource {
        /// The name of the zone.
        zone: String,
        /// The source, such as an address or a network.
        source: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Remove a source from a zone.
    ///
    ///     salt-call firewalld.remove_source public 10.0.0.0/8
    fn remove_source(RemoveSource {
        /// The name of the zone.
        zone: String,
        /// The source, such as an address or a network.
        source: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Return the rich rules of a zone.
    ///
    ///     salt-call firewalld.get_rich_rules public
    fn get_rich_rules(GetRichRules {
        /// The name of the zone.
        zone: String,
        /// True to read the permanent configuration, False to read the running one.
        permanent: bool = true,
    });

    /// Add a rich rule to a zone.
    ///
    ///     salt-call firewalld.add_rich_rule public 'rule family="ipv4" source address="198.51.100.7" drop'
    fn add_rich_rule(AddRichRule {
        /// The name of the zone.
        zone: String,
        /// The rich rule.
        rule: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });

    /// Remove a rich rule from a zone.
    ///
    ///     salt-call firewalld.remove_rich_rule public 'rule family="ipv4" source address="198.51.100.7" drop'
    fn remove_rich_rule(RemoveRichRule {
        /// The name of the zone.
        zone: String,
        /// The rich rule.
        rule: String,
        /// True to change the permanent configuration, False to change the running one.
        permanent: bool = true,
    });
}

/// Runs the program with options. Values from users always follow a `=`, so they cannot become
/// options.
///
/// # Errors
/// The output of the program when it fails.
pub(crate) fn run(cx: &Exec, options: &[String]) -> Result<String, Error> {
    let words = ["firewall-cmd".to_owned()]
        .into_iter()
        .chain(options.iter().cloned());
    Process::words(words)
        .run(cx)?
        .into_success()
        .map_err(|failed| {
            let why = match failed.stderr.is_empty() {
                true => failed.stdout_regardless(),
                false => &failed.stderr,
            };
            format!("firewall-cmd failed: {why}").into()
        })
}

/// Runs the program with an option for a zone. An empty zone selects the default zone.
///
/// # Errors
/// The output of the program when it fails.
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

/// Returns the words, or the lines, of an answer about a zone.
///
/// # Errors
/// The output of the program when it fails.
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

/// Returns the words of an answer that does not concern a zone.
///
/// # Errors
/// The output of the program when it fails.
pub(crate) fn words(cx: &Exec, option: &str, permanent: bool) -> Result<Vec<String>, Error> {
    let said = of_zone(cx, None, option.to_owned(), permanent)?;
    Ok(said.split_whitespace().map(str::to_owned).collect())
}

fn output(cx: &Exec, option: &str) -> Result<Value, Error> {
    Ok(run(cx, &[option.to_owned()])?.into())
}

fn set(cx: &Exec, zone: &str, option: String, permanent: bool) -> Result<Value, Error> {
    Ok(of_zone(cx, Some(zone), option, permanent)?.into())
}

/// Parses zones and their settings. Each setting becomes a list.
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

/// Reports whether masquerading is enabled in a zone.
///
/// # Errors
/// The output of the program when it fails.
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
    output(cx, "--version")
}

fn reload_rules(cx: &Exec, _: ReloadRules) -> Result<Value, Error> {
    output(cx, "--reload")
}

fn default_zone(cx: &Exec, _: DefaultZone) -> Result<Value, Error> {
    output(cx, "--get-default-zone")
}

fn make_permanent(cx: &Exec, _: MakePermanent) -> Result<Value, Error> {
    output(cx, "--runtime-to-permanent")
}

fn set_default_zone(cx: &Exec, args: SetDefaultZone) -> Result<Value, Error> {
    output(cx, &format!("--set-default-zone={}", args.zone))
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

/// Creates or removes a zone or service, and reloads the firewall if `restart` is set.
///
/// # Errors
/// The output of the program when it fails.
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

/// Enables masquerading in a zone if `wanted` is set and it is not enabled yet.
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

/// Returns a port forwarding rule in firewalld's syntax.
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

/// Parses firewalld's syntax of a port forwarding rule, and returns its parts by readable names.
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

/// Blocks an ICMP type or stops blocking it, unless that is already the case.
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
