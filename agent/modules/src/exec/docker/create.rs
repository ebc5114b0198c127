//! Creates containers and networks: converts the arguments into options of the program.

use machine::process::Process;
use python::shlex;
use state::module::Error;
use value::log;
use value::{Map, Value};

use super::client::{CLIENT_SECONDS, Client, program_error};
use super::translate::{self, Kind, Table};

/// The arguments of a container. In an option that ends in a colon, a colon separates name and
/// value; in other options, `=` separates them.
pub(crate) const CONTAINER: Table = Table {
    arguments: &[
        ("auto_remove", Kind::Bool, "rm"),
        ("binds", Kind::Binds, "volume"),
        ("blkio_weight", Kind::Int, "blkio-weight"),
        ("blkio_weight_device", Kind::Weights, "blkio-weight-device"),
        ("cap_add", Kind::List, "cap-add"),
        ("cap_drop", Kind::List, "cap-drop"),
        ("cgroup_parent", Kind::Text, "cgroup-parent"),
        ("cgroupns", Kind::Text, "cgroupns"),
        ("command", Kind::Command, ""),
        ("cpu_period", Kind::Int, "cpu-period"),
        ("cpu_quota", Kind::Int, "cpu-quota"),
        ("cpu_rt_period", Kind::Int, "cpu-rt-period"),
        ("cpu_rt_runtime", Kind::Int, "cpu-rt-runtime"),
        ("cpu_shares", Kind::Int, "cpu-shares"),
        ("cpuset_cpus", Kind::Text, "cpuset-cpus"),
        ("cpuset_mems", Kind::Text, "cpuset-mems"),
        ("detach", Kind::Bool, ""),
        ("device_cgroup_rules", Kind::List, "device-cgroup-rule"),
        ("device_read_bps", Kind::ByteRates, "device-read-bps"),
        ("device_read_iops", Kind::Rates, "device-read-iops"),
        ("device_write_bps", Kind::ByteRates, "device-write-bps"),
        ("device_write_iops", Kind::Rates, "device-write-iops"),
        ("devices", Kind::List, "device"),
        ("dns", Kind::Addresses, "dns"),
        ("dns_opt", Kind::List, "dns-option"),
        ("dns_search", Kind::List, "dns-search"),
        ("domainname", Kind::Text, "domainname"),
        ("entrypoint", Kind::Command, ""),
        ("environment", Kind::Pairs, ""),
        ("extra_hosts", Kind::Hosts, "add-host:"),
        ("group_add", Kind::List, "group-add"),
        ("healthcheck", Kind::Dict, ""),
        ("hostname", Kind::Text, "hostname"),
        ("init", Kind::Bool, "init"),
        ("ipc_mode", Kind::Text, "ipc"),
        ("isolation", Kind::Text, "isolation"),
        ("kernel_memory", Kind::Bytes, "kernel-memory"),
        ("labels", Kind::Labels, "label"),
        ("links", Kind::Links, "link:"),
        ("log_config", Kind::Dict, ""),
        ("log_driver", Kind::Text, "log-driver"),
        ("log_opt", Kind::Pairs, "log-opt"),
        ("mac_address", Kind::Text, "mac-address"),
        ("mem_limit", Kind::Bytes, "memory"),
        ("mem_reservation", Kind::Bytes, "memory-reservation"),
        ("mem_swappiness", Kind::Int, "memory-swappiness"),
        ("memswap_limit", Kind::Bytes, "memory-swap"),
        ("nano_cpus", Kind::Int, ""),
        ("network_disabled", Kind::Bool, ""),
        ("network_mode", Kind::Text, "network"),
        ("oom_kill_disable", Kind::Bool, "oom-kill-disable"),
        ("oom_score_adj", Kind::Int, "oom-score-adj"),
        ("pid_mode", Kind::Text, "pid"),
        ("pids_limit", Kind::Int, "pids-limit"),
        ("platform", Kind::Text, "platform"),
        ("port_bindings", Kind::Bindings, "publish"),
        ("ports", Kind::Ports, "expose"),
        ("privileged", Kind::Bool, "privileged"),
        ("publish_all_ports", Kind::Bool, "publish-all"),
        ("read_only", Kind::Bool, "read-only"),
        ("restart_policy", Kind::Restart, ""),
        ("runtime", Kind::Text, "runtime"),
        ("security_opt", Kind::List, "security-opt"),
        ("shm_size", Kind::Bytes, "shm-size"),
        ("stdin_open", Kind::Bool, "interactive"),
        ("stop_signal", Kind::Text, "stop-signal"),
        ("stop_timeout", Kind::Int, "stop-timeout"),
        ("storage_opt", Kind::Pairs, "storage-opt"),
        ("sysctls", Kind::Pairs, "sysctl"),
        ("tmpfs", Kind::Dict, "tmpfs:"),
        ("tty", Kind::Bool, "tty"),
        ("ulimits", Kind::Ulimits, ""),
        ("user", Kind::User, "user"),
        ("userns_mode", Kind::Text, "userns"),
        ("uts_mode", Kind::Text, "uts"),
        ("volume_driver", Kind::Text, "volume-driver"),
        ("volumes", Kind::Paths, ""),
        ("volumes_from", Kind::List, "volumes-from"),
        ("working_dir", Kind::Path, "workdir"),
    ],
    aliases: &[
        ("cmd", "command"),
        ("cpuset", "cpuset_cpus"),
        ("dns_option", "dns_opt"),
        ("env", "environment"),
        ("expose", "ports"),
        ("interactive", "stdin_open"),
        ("ipc", "ipc_mode"),
        ("label", "labels"),
        ("memory", "mem_limit"),
        ("memory_swap", "memswap_limit"),
        ("publish", "port_bindings"),
        ("publish_all", "publish_all_ports"),
        ("restart", "restart_policy"),
        ("rm", "auto_remove"),
        ("sysctl", "sysctls"),
        ("security_opts", "security_opt"),
        ("ulimit", "ulimits"),
        ("user_ns_mode", "userns_mode"),
        ("volume", "volumes"),
        ("workdir", "working_dir"),
    ],
};

/// The arguments of docker's API for which the program has no option.
const WITHOUT_OPTION: [&str; 11] = [
    "cpu_count",
    "cpu_group",
    "cpu_percent",
    "device_requests",
    "domain_name",
    "host_config",
    "init_path",
    "lxc_conf",
    "mounts",
    "networking_config",
    "use_config_proxy",
];

/// The arguments of a Salt function that creates a container.
pub(crate) struct CreateOptions<'a> {
    /// The name of the container. If it is `None`, the program chooses a name.
    pub(crate) name: Option<&'a str>,
    pub(crate) ignore_collisions: bool,
    pub(crate) validate_ip_addrs: bool,
    /// The arguments that describe the container.
    pub(crate) given: &'a Map,
}

/// A container to create.
pub(crate) struct Wanted {
    known: Map,
    /// The settings of the container in the network that `network_mode` selects.
    network: Map,
}

impl Wanted {
    /// Parses the arguments of a container.
    ///
    /// # Errors
    /// When an argument is invalid, or the program has no option for it.
    pub(crate) fn parse(arguments: &CreateOptions<'_>) -> Result<Self, Error> {
        let given = arguments.given;
        let without = WITHOUT_OPTION
            .iter()
            .find(|name| given.get(name).is_some_and(|value| !value.is_null()));
        if let Some(name) = without {
            return Err(Error::refused(format!(
                "'{name}' is not supported: neither docker nor podman has an option for it"
            )));
        }
        let is_known = |key: &str| {
            CONTAINER.arguments.iter().any(|(name, ..)| *name == key)
                || CONTAINER.aliases.iter().any(|(alias, _)| *alias == key)
                || matches!(key, "networks" | "inspect")
        };
        let unknown = given.keys().map(Value::to_text);
        let unknown: Vec<String> = unknown
            .filter(|key| !key.starts_with("__") && !is_known(key))
            .collect();
        if !unknown.is_empty() {
            log::warning(format_args!(
                "The following arguments were ignored because they are not recognized: {}",
                unknown.join(", ")
            ));
        }
        let checks = (arguments.ignore_collisions, arguments.validate_ip_addrs);
        let known = translate::input(&CONTAINER, given, checks)?;
        let mode = known.get("network_mode").map(Value::to_text);
        let network = mode.and_then(|mode| given.get("networks")?.get(&mode)?.as_map().cloned());
        Ok(Self {
            known,
            network: network.unwrap_or_default(),
        })
    }

    /// Returns true if the container is removed when its process ends.
    pub(crate) fn auto_remove(&self) -> bool {
        self.is("auto_remove")
    }

    fn is(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(Value::is_true)
    }

    fn words(&self, name: &str) -> Result<Vec<String>, Error> {
        match self.known.get(name) {
            None => Ok(Vec::new()),
            Some(Value::Str(line)) => Ok(shlex::split(line)?),
            Some(words) => Ok(words.texts()),
        }
    }

    fn options(&self) -> Vec<String> {
        let mut all = Vec::new();
        for &(name, kind, option) in CONTAINER.arguments {
            if let Some(value) = self.known.get(name).filter(|_| !option.is_empty()) {
                put(&mut all, option, kind, value);
            }
        }
        if let Some(policy) = self.known.get("restart_policy") {
            let count = policy.get("MaximumRetryCount").and_then(Value::as_int);
            let count = count.filter(|count| *count != 0);
            let count = count.map(|count| format!(":{count}")).unwrap_or_default();
            let name = policy.get("Name").map(Value::to_text).unwrap_or_default();
            all.push(format!("--restart={name}{count}"));
        }
        for limit in self
            .known
            .get("ulimits")
            .and_then(Value::as_list)
            .unwrap_or_default()
        {
            let part = |key: &str| limit.get(key).map(Value::to_text).unwrap_or_default();
            all.push(format!(
                "--ulimit={}={}:{}",
                part("Name"),
                part("Soft"),
                part("Hard")
            ));
        }
        if let Some(log) = self.known.get("log_config") {
            let driver = log.get("Type").or_else(|| log.get("type"));
            all.extend(driver.map(|driver| format!("--log-driver={}", driver.to_text())));
            if let Some(settings) = log.get("Config").or_else(|| log.get("config")) {
                put(&mut all, "log-opt", Kind::Pairs, settings);
            }
        } else if self.known.contains("log_opt") && !self.known.contains("log_driver") {
            all.push("--log-driver=none".into());
        }
        if let Some(cpus) = self.known.get("nano_cpus").and_then(Value::as_int) {
            let (whole, rest) = (cpus / 1_000_000_000, cpus % 1_000_000_000);
            all.push(format!("--cpus={whole}.{rest:09}"));
        }
        if self.is("network_disabled") && !self.known.contains("network_mode") {
            all.push("--network=none".into());
        }
        all.extend(self.volumes());
        all.extend(health(self.known.get("healthcheck")));
        all.extend(endpoint(&self.network, "network-alias"));
        all
    }

    /// Returns the anonymous volumes. Paths that are already the target of a bind mount are left
    /// out.
    fn volumes(&self) -> Vec<String> {
        let texts = |name: &str| self.known.get(name).map(Value::texts).unwrap_or_default();
        let binds = texts("binds");
        let target = |bind: &String| bind.split(':').nth(1).map(str::to_owned);
        let targets: Vec<String> = binds.iter().filter_map(target).collect();
        let volumes = texts("volumes").into_iter();
        let volumes = volumes.filter(|path| !targets.contains(path));
        volumes.map(|path| format!("--volume={path}")).collect()
    }

    /// Returns the environment variables that an env file cannot store, and the text of an env file
    /// with the others. No value becomes an argument of the program, since values are often
    /// passwords.
    fn environment(&self, options: &mut Vec<String>) -> Result<(Map, String), Error> {
        let (mut apart, mut file) = (Map::new(), String::new());
        let Some(variables) = self.known.get("environment").and_then(Value::as_map) else {
            return Ok((apart, file));
        };
        for (name, value) in variables {
            let (name, text) = (name.to_text(), value.to_text());
            let is_wrong = |c: char| c == '=' || c.is_whitespace() || c == '\0';
            if name.is_empty() || name.starts_with('#') || name.contains(is_wrong) {
                return Err(Error::refused(format!(
                    "'{name}' is not a valid name of an environment variable"
                )));
            }
            if value.is_null() {
                options.push(format!("--env={name}"));
            } else if text.contains('\n') || text.starts_with(['"', '\'']) {
                options.push(format!("--env={name}"));
                apart.insert(name, text);
            } else {
                file.push_str(&format!("{name}={text}\n"));
            }
        }
        if !file.is_empty() {
            options.push("--env-file=/proc/self/fd/0".into());
        }
        Ok((apart, file))
    }

    /// Returns the command that creates the container.
    fn command(
        &self,
        client: &Client<'_>,
        image: &str,
        name: Option<&str>,
    ) -> Result<Process, Error> {
        let mut options = self.options();
        options.extend(name.map(|name| format!("--name={name}")));
        let (env, file) = self.environment(&mut options)?;
        let mut words = vec![image.to_owned()];
        if self.known.contains("entrypoint") {
            // The option accepts only one word. The other words precede the command.
            let mut entry = self.words("entrypoint")?.into_iter();
            options.push(format!("--entrypoint={}", entry.next().unwrap_or_default()));
            words.extend(entry);
        }
        words.extend(self.words("command")?);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(Process {
            env,
            stdin: Some(file),
            ..client.command(&["create"], options, &words)
        })
    }

    /// Creates the container. The image must exist.
    ///
    /// # Errors
    /// The message of the program when it fails.
    pub(crate) fn make(
        &self,
        client: &Client<'_>,
        image: &str,
        name: Option<&str>,
    ) -> Result<Map, Error> {
        let output = client.run(&self.command(client, image, name)?, "create")?;
        if !output.success() {
            return Err(program_error(&output));
        }
        let id = output
            .stdout_regardless()
            .lines()
            .next_back()
            .unwrap_or_default()
            .trim();
        let warnings = output.stderr.lines().filter(|line| !line.trim().is_empty());
        let warnings = warnings.map(|line| line.strip_prefix("WARNING: ").unwrap_or(line).into());
        Ok(Map::new()
            .with("Id", id)
            .with("Warnings", Value::list(warnings)))
    }
}

/// Appends the options for an argument.
pub(crate) fn put(all: &mut Vec<String>, option: &str, kind: Kind, value: &Value) {
    let (option, sign) = match option.strip_suffix(':') {
        Some(option) => (option, ":"),
        None => (option, "="),
    };
    match (kind, value) {
        (Kind::Bool, value) if value.is_true() => all.push(format!("--{option}")),
        (Kind::Bool, _) => {}
        (_, Value::Map(map)) => all.extend(map.iter().map(|(key, value)| {
            let value = if value.is_null() {
                String::new()
            } else {
                value.to_text()
            };
            let sign = if kind == Kind::Dict && value.is_empty() {
                ""
            } else {
                sign
            };
            format!("--{option}={}{sign}{value}", key.to_text())
        })),
        (_, Value::List(items)) => all.extend(items.iter().map(|item| match item.as_map() {
            Some(row) => {
                let mut parts = row.values().map(Value::to_text);
                let first = parts.next().unwrap_or_default();
                format!("--{option}={first}:{}", parts.next().unwrap_or_default())
            }
            None => format!("--{option}={}", item.to_text()),
        })),
        (_, one) => all.push(format!("--{option}={}", one.to_text())),
    }
}

/// Returns the options for the health check of a container.
fn health(check: Option<&Value>) -> Vec<String> {
    let Some(check) = check.and_then(Value::as_map) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    match check.get("test").map(|test| (test.texts(), test)) {
        Some((words, Value::List(_))) => match words.split_first() {
            Some((first, _)) if first == "NONE" => all.push("--no-healthcheck".into()),
            Some((first, rest)) if first.starts_with("CMD") => {
                let quoted = |word: &String| match first.as_str() {
                    "CMD" => shlex::quote(word),
                    _ => word.clone(),
                };
                let line: Vec<String> = rest.iter().map(quoted).collect();
                all.push(format!("--health-cmd={}", line.join(" ")));
            }
            _ => {}
        },
        Some((_, line)) => all.push(format!("--health-cmd={}", line.to_text())),
        None => {}
    }
    for (key, option) in [
        ("interval", "health-interval"),
        ("timeout", "health-timeout"),
        ("start_period", "health-start-period"),
    ] {
        all.extend(
            check
                .get(key)
                .map(|time| format!("--{option}={}ns", time.to_text())),
        );
    }
    let retries = check.get("retries");
    all.extend(retries.map(|count| format!("--health-retries={}", count.to_text())));
    all
}

/// Returns the options for the settings of a container in a network.
pub(crate) fn endpoint(config: &Map, alias: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (key, option) in [
        ("aliases", alias),
        ("links", "link"),
        ("ipv4_address", "ip"),
        ("ipv6_address", "ip6"),
        ("link_local_ips", "link-local-ip"),
        ("driver_opt", "driver-opt"),
        ("mac_address", "mac-address"),
    ] {
        match config.get(key).filter(|value| value.is_true()) {
            Some(value @ Value::Map(_)) => {
                let sign = if key == "links" { "link:" } else { option };
                put(&mut all, sign, Kind::Pairs, value);
            }
            Some(value) => put(&mut all, option, Kind::List, value),
            None => {}
        }
    }
    all
}

/// The arguments of a network.
pub(crate) const NETWORK: Table = Table {
    arguments: &[
        ("driver", Kind::Text, "driver"),
        ("options", Kind::Pairs, "opt"),
        ("ipam", Kind::Dict, ""),
        ("check_duplicate", Kind::Bool, ""),
        ("internal", Kind::Bool, "internal"),
        ("labels", Kind::Labels, "label"),
        ("enable_ipv6", Kind::Bool, "ipv6"),
        ("attachable", Kind::Bool, "attachable"),
        ("ingress", Kind::Bool, "ingress"),
        ("scope", Kind::Text, "scope"),
        ("ipam_driver", Kind::Text, ""),
        ("ipam_opts", Kind::Pairs, ""),
        ("ipam_pools", Kind::Pools, ""),
        ("subnet", Kind::Subnet, ""),
        ("iprange", Kind::Subnet, ""),
        ("gateway", Kind::Address, ""),
        ("aux_addresses", Kind::NamedAddresses, ""),
    ],
    aliases: &[
        ("driver_opt", "options"),
        ("driver_opts", "options"),
        ("ipv6", "enable_ipv6"),
        ("ip_range", "iprange"),
        ("aux_address", "aux_addresses"),
    ],
};

/// The names of a pool's values: the argument, docker's key and the program's option.
const POOL: [(&str, &str, &str); 4] = [
    ("subnet", "Subnet", "subnet"),
    ("iprange", "IPRange", "ip-range"),
    ("gateway", "Gateway", "gateway"),
    ("aux_addresses", "AuxiliaryAddresses", "aux-address"),
];

/// Parses the arguments of a network. The entry `ipam` contains the addresses in docker's format.
pub(crate) fn network(given: &Map, checks: (bool, bool)) -> Result<Map, Error> {
    let mut known = translate::input(&NETWORK, given, checks)?;
    let own = ["ipam_driver", "ipam_opts", "ipam_pools"];
    let own = own.into_iter().chain(POOL.map(|(name, ..)| name));
    let own: Map = own
        .filter_map(|name| Some((Value::from(name), known.remove(name)?)))
        .collect();
    if known.contains("ipam") {
        return match own.is_empty() {
            true => Ok(known),
            false => Err("Cannot mix the 'ipam' argument with any of the IPAM config arguments. See documentation for details.".into()),
        };
    }
    let driver = own
        .get("ipam_driver")
        .map_or_else(|| "default".into(), Value::to_text);
    let single = POOL
        .iter()
        .any(|(name, ..)| own.contains(name))
        .then(|| own.clone());
    let mut pools: Vec<Map> = single.into_iter().collect();
    for pool in own
        .get("ipam_pools")
        .and_then(Value::as_list)
        .unwrap_or_default()
    {
        if let Some(pool) = pool.as_map() {
            pools.push(translate::input(&NETWORK, pool, checks)?);
        }
    }
    let told = pools.iter().map(|pool| {
        let named = POOL
            .iter()
            .filter_map(|(name, theirs, _)| Some((Value::from(*theirs), pool.get(name)?.clone())));
        named.collect::<Map>()
    });
    let told: Vec<Map> = told.collect();
    if told.iter().any(|pool| !pool.contains("Subnet")) {
        return Err("A subnet is required in each IPAM pool".into());
    }
    let mut ipam = Map::new()
        .with("Driver", driver)
        .with("Config", Value::from(told));
    if let Some(options) = own.get("ipam_opts") {
        ipam.insert("Options", options.clone());
    }
    known.insert("ipam", ipam);
    Ok(known)
}

/// Creates a network.
///
/// # Errors
/// The message of the program when it fails.
pub(crate) fn make_network(client: &Client<'_>, name: &str, known: &Map) -> Result<String, Error> {
    let mut options = Vec::new();
    for &(key, kind, option) in NETWORK.arguments {
        if let Some(value) = known.get(key).filter(|_| !option.is_empty()) {
            put(&mut options, option, kind, value);
        }
    }
    let ipam = known.get("ipam");
    let driver = ipam.and_then(|ipam| ipam.get("Driver")).map(Value::to_text);
    let driver = driver.filter(|driver| driver != "default");
    options.extend(driver.map(|driver| format!("--ipam-driver={driver}")));
    if let Some(settings) = ipam
        .and_then(|ipam| ipam.get("Options"))
        .filter(|all| all.is_true())
    {
        put(&mut options, "ipam-opt", Kind::Pairs, settings);
    }
    let pools = ipam
        .and_then(|ipam| ipam.get("Config"))
        .and_then(Value::as_list);
    for pool in pools.unwrap_or_default() {
        for (_, key, option) in POOL {
            if let Some(value) = pool.get(key).filter(|value| value.is_true()) {
                put(&mut options, option, Kind::Pairs, value);
            }
        }
    }
    client.tell(&["network", "create"], &options, &[name])
}

/// Returns the timeout for an argument `client_timeout`, in seconds.
pub(crate) fn patience(seconds: Option<i64>) -> i64 {
    seconds
        .filter(|seconds| *seconds > 0)
        .unwrap_or(CLIENT_SECONDS)
}
