//! The grains: static facts about this machine.
//!
//! Names, values and order are those of Salt's own grains on Linux. All data comes from files and
//! the kernel. No program is run, because each start of `salt-call` waits for the grains. A new
//! grain is a function here and a line in `collected`.

mod files;
mod hosts;
mod hypervisor;
mod init;
mod machine;
mod network;
mod os;
mod process;
mod release;
mod resolv;
mod timezone;
mod virtualization;

use std::path::PathBuf;

use sha2::{Digest, Sha256};
use state::opts::Opts;
use value::{Map, Value};

use files::Root;
use network::Network;

/// Collects all grains.
pub fn collect(opts: &Opts) -> Map {
    if opts.flag("skip_grains") {
        return Map::new();
    }
    let deep = opts.get("grains_deep_merge").and_then(Value::as_bool) == Some(true);
    let blacklist = opts.texts("grains_blacklist");
    let mut grains = Map::new();
    for mut part in collected(&Root::new("/"), opts) {
        part.retain(|name, _| !blocks(&blacklist, &name.to_text()));
        if deep {
            grains = value::merge::recurse(&grains, &part, false);
        } else {
            grains.update(part);
        }
    }
    if let Some(own) = opts.get("grains").and_then(Value::as_map) {
        grains.update(own.clone());
    }
    grains
}

/// Returns the parts in Salt's order: its core grains, then the grains file, then the grains that
/// the file cannot override.
fn collected(root: &Root, opts: &Opts) -> Vec<Map> {
    let network = Network::read(root);
    let mut parts = vec![
        append_domain(opts),
        process::cwd(),
        network::gateways(),
        network::dns(root),
        machine::fibre_channel_host(root),
        network.fqdns(opts),
        machine::machine_id(root),
        Map::new().with(
            "master",
            opts.get("master").cloned().unwrap_or_else(|| "salt".into()),
        ),
        server_id(opts.id()),
        network.names(),
        network.hwaddr_interfaces(),
        Map::new().with("id", opts.id()),
        network.addresses_by_interface(),
        machine::kernelparams(root),
        process::locale_info(root),
        system(root, opts),
        process::path(),
        process::versions(),
        machine::disks(root),
    ];
    parts.push(grains_file(opts));
    parts.push(process::shell());
    parts.push(machine::transactional());
    parts.push(machine::efi(root));
    parts.push(machine::mdadm(root));
    parts.push(process::user(root));
    parts
}

pub(crate) fn blocks(blacklist: &[String], name: &str) -> bool {
    blacklist
        .iter()
        .any(|pattern| value::glob::fnmatch(pattern, name))
}

fn append_domain(opts: &Opts) -> Map {
    let domain = opts.get("append_domain").filter(|domain| domain.is_true());
    domain.map_or_else(Map::new, |domain| {
        Map::new().with("append_domain", domain.clone())
    })
}

/// Returns `server_id`: the last 31 bits of the id's SHA-256.
fn server_id(id: &str) -> Map {
    let digest = Sha256::digest(id);
    let number = digest
        .iter()
        .rev()
        .take(4)
        .rev()
        .fold(0, |number: i64, byte| number << 8 | i64::from(*byte));
    Map::new().with("server_id", number & 0x7fff_ffff)
}

/// Returns what Salt calls `os_data`: kernel, distribution, processor, memory, firmware,
/// virtualization.
fn system(root: &Root, opts: &Opts) -> Map {
    let cpuinfo = root.read("proc/cpuinfo").unwrap_or_default();
    let use_lspci = opts.get("enable_lspci").is_none_or(Value::is_true);
    let mut grains = machine::kernel();
    grains.update(init::selinux(root));
    grains.update(init::systemd(root));
    grains.update(init::init(root));
    grains.update(os::grains(root));
    grains.update(machine::cpu(&cpuinfo));
    let text = |name: &str| grains.get(name).map(Value::to_text).unwrap_or_default();
    let osarch = os::osarch(root, &text("os_family"), &text("cpuarch"));
    grains.insert("osarch", osarch);
    grains.update(machine::memory(root));
    grains.update(machine::firmware(root));
    grains.update(virtualization::grains(root, &cpuinfo, use_lspci));
    let ps = ps(&grains);
    grains.insert("ps", ps);
    grains
}

/// Returns `ps`: the command that lists processes.
fn ps(grains: &Map) -> &'static str {
    let is = |name: &str, text: &str| grains.get(name).and_then(Value::as_str) == Some(text);
    if is("virtual", "openvzhn") {
        "ps -fH -p $(grep -l \"^envID:[[:space:]]*0\\$\" /proc/[0-9]*/status | sed -e \"s=/proc/\\([0-9]*\\)/.*=\\1=\")  \
         | awk '{ $7=\"\"; print }'"
    } else if is("os_family", "NILinuxRT") {
        "ps -o user,pid,ppid,tty,time,comm"
    } else {
        "ps -efHww"
    }
}

/// Returns the grains of the file `grains` next to the configuration file.
fn grains_file(opts: &Opts) -> Map {
    let Some(path) = grains_path(opts).filter(|path| path.is_file()) else {
        return Map::new();
    };
    let loaded = ::machine::fs::text(&path)
        .map_err(|error| error.to_string())
        .and_then(|text| render::yaml::load(&text).map_err(|error| error.to_string()));
    match loaded {
        Ok(Value::Map(grains)) => grains,
        Ok(_) => Map::new(),
        Err(error) => {
            value::log::warning("Bad syntax in grains file! Skipping.");
            value::log::warning(format_args!("{}: {error}", path.display()));
            Map::new()
        }
    }
}

fn grains_path(opts: &Opts) -> Option<PathBuf> {
    let conf_file = PathBuf::from(opts.text("conf_file")?);
    if conf_file.is_dir() {
        return Some(conf_file.join("grains"));
    }
    Some(conf_file.parent()?.join("grains"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opts(folder: &std::path::Path) -> Map {
        let conf_file = folder.join("minion");
        Map::new()
            .with("id", "m1")
            .with("conf_file", conf_file.to_string_lossy().as_ref())
    }

    #[test]
    fn the_grains_option_lies_over_the_file_and_the_file_over_the_core() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("grains"),
            "os: Mine\nrole: web\nuid: 7\n",
        )
        .unwrap();
        let opts = opts(folder.path()).with("grains", Map::new().with("role", "db"));
        let grains = collect(&Opts::new(opts));
        assert_eq!(grains.get("os"), Some(&"Mine".into()));
        assert_eq!(grains.get("role"), Some(&"db".into()));
        assert_ne!(grains.get("uid").and_then(Value::as_int), Some(7));
    }

    #[test]
    fn dictionaries_are_merged_only_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("grains"), "locale_info: {x: 1}\n").unwrap();
        let opts = opts(folder.path());
        let count = |opts: Map| {
            let grains = collect(&Opts::new(opts));
            grains
                .get("locale_info")
                .and_then(Value::as_map)
                .map(Map::len)
        };
        assert_eq!(count(opts.clone()), Some(1));
        assert_eq!(count(opts.with("grains_deep_merge", true)), Some(5));
    }

    #[test]
    fn a_grains_file_that_does_not_parse_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("grains"), "a: [1\n").unwrap();
        let grains = collect(&Opts::new(opts(folder.path())));
        assert_eq!(grains.get("kernel"), Some(&"Linux".into()));
        assert!(!grains.contains("a"));
    }

    #[test]
    fn blacklisted_grains_are_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let opts = opts(folder.path()).with("grains_blacklist", Value::list(["cpu_*".into()]));
        let grains = collect(&Opts::new(opts));
        assert!(grains.contains("num_cpus") && !grains.contains("cpu_model"));
    }

    #[test]
    fn the_server_id_is_that_of_salt() {
        assert_eq!(
            server_id("m1").get("server_id").and_then(Value::as_int),
            Some(890_885_657)
        );
    }
}
