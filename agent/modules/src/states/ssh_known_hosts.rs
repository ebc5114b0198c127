//! The `ssh_known_hosts` state module.

use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::ssh::known::{self, CheckKnownHost, Done, Place, SetKnownHost};

state::state_module! {
    /// Manage the hosts that ssh knows.
    #[facts(effects = Effects::Files(&[]))]
    mod ssh_known_hosts;

    /// Ensure that a host is known.
    ///
    ///     git.example.com:
    ///       ssh_known_hosts.present:
    ///         - user: deploy
    ///         - enc: ssh-ed25519
    ///         - key: AAAAC3NzaC1lZDI1NTE5AAAAIGOxv4QFNJ8e0o2Nq3mZzqSLb1Hn9u7dVZlDk2gkT8sV
    fn present(Present {
        /// The host.
        name: String,
        /// The user who owns the file. Default: the file of the machine.
        user: Option<String> = None,
        /// The fingerprint that the host's key must have.
        fingerprint: Option<String> = None,
        /// The key of the host. Default: the key that the host presents.
        key: Option<String> = None,
        /// The port.
        port: Option<i64> = None,
        /// The type of the key.
        enc: Option<String> = None,
        /// The file.
        config: Option<String> = None,
        /// True to hash the names in the file.
        hash_known_hosts: bool = true,
        /// The maximum number of seconds to wait for the host.
        timeout: i64 = 5,
        /// The hash type of the fingerprint.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Ensure that a host is not known.
    ///
    ///     git.example.com:
    ///       ssh_known_hosts.absent:
    ///         - user: deploy
    fn absent(Absent {
        /// The host.
        name: String,
        /// The user who owns the file. Default: the file of the machine.
        user: Option<String> = None,
        /// The file.
        config: Option<String> = None,
    });
}

/// Returns the file as comments name it. Fails if the path is relative and there is no user whose
/// home folder it is relative to.
fn file(user: Option<&str>, config: Option<String>) -> Result<String, Ret> {
    let user = user.filter(|user| !user.is_empty());
    let usual = user.map_or("/etc/ssh/ssh_known_hosts", |_| ".ssh/known_hosts");
    let config = config.filter(|config| !config.is_empty());
    let config = config.unwrap_or_else(|| usual.to_owned());
    if user.is_none() && !path::isabs(&config) {
        return Err(Ret::failed(
            "If not specifying a \"user\", specify an absolute \"config\".",
        ));
    }
    Ok(config)
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let config = match file(args.user.as_deref(), args.config.clone()) {
        Ok(config) => config,
        Err(ret) => return Ok(ret),
    };
    if cx.test {
        return predicted(cx, args, config);
    }
    let wanted = SetKnownHost {
        user: args.user,
        hostname: Some(args.name.clone()),
        fingerprint: args.fingerprint,
        key: args.key,
        port: args.port,
        enc: args.enc,
        config: Some(config.clone()),
        hash_known_hosts: args.hash_known_hosts,
        timeout: args.timeout,
        fingerprint_hash_type: args.fingerprint_hash_type,
    };
    let name = &args.name;
    // The host is only asked for its key when something must be written, which is never the case in
    // test mode.
    cx.apply(Ret::would(""), || {
        Ok(match known::set(cx, &wanted)? {
            Err(said) => Ret::failed(said),
            Ok(Done::Exists(_)) => Ret::ok(format!("{name} already exists in {config}")),
            Ok(Done::Updated(old, new)) => {
                Ret::ok(format!("{name}'s {}", saved(&wanted, &config, &new)))
                    .change("old", known::listed(old))
                    .change("new", known::listed(new))
            }
        })
    })
}

fn saved(wanted: &SetKnownHost, config: &str, new: &[Map]) -> String {
    let of = |key| {
        new.first()
            .and_then(|entry| entry.get(key))
            .map_or_else(String::new, Value::to_text)
    };
    match (&wanted.key, &wanted.fingerprint, &wanted.enc) {
        (Some(_), ..) => format!("key saved to {config} (key: {})", of("key")),
        (_, Some(_), _) => format!("key saved to {config} (fingerprint: {})", of("fingerprint")),
        (_, _, Some(enc)) => format!("{enc} key saved to {config} (key: {})", of("key")),
        _ => format!("key(s) saved to {config}"),
    }
}

fn predicted(cx: &Exec, args: Present, config: String) -> Result<Ret, Error> {
    if args.key.is_some() && args.fingerprint.is_some() {
        return Ok(Ret::failed(
            "Specify either \"key\" or \"fingerprint\", not both.",
        ));
    }
    if args.key.is_some() && args.enc.is_none() {
        return Ok(Ret::failed(
            "Required argument \"enc\" if using \"key\" argument.",
        ));
    }
    let name = args.name;
    let check = CheckKnownHost {
        user: args.user,
        hostname: Some(name.clone()),
        key: args.key,
        fingerprint: args.fingerprint,
        config: Some(config.clone()),
        port: args.port,
        fingerprint_hash_type: args.fingerprint_hash_type,
    };
    Ok(match known::check(cx, &check)? {
        Err(said) => Ret::failed(said),
        Ok("exists") => Ret::ok(format!("Host {name} is already in {config}")),
        Ok("add") => Ret::would(format!("Key for {name} is set to be added to {config}")),
        Ok(_) => Ret::would(format!("Key for {name} is set to be updated in {config}")),
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let config = match file(args.user.as_deref(), args.config) {
        Ok(config) => config,
        Err(ret) => return Ok(ret),
    };
    let name = &args.name;
    let would = Ret::would(format!("Key for {name} is set to be removed from {config}"));
    let place = match Place::resolve(args.user.as_deref(), Some(&config)) {
        Ok(place) => place,
        // In test mode a missing user is no failure: an earlier state of the same run may create
        // it.
        Err(_) if cx.test => return Ok(would),
        Err(said) => return Ok(Ret::failed(said)),
    };
    let old = place.entries(cx, name, None, None)?;
    if old.is_empty() {
        return Ok(Ret::ok("Host is already absent"));
    }
    cx.apply(would, || {
        Ok(match place.remove(cx, name, None)? {
            Err(said) => Ret::failed(said),
            Ok(said) => Ret::ok(said)
                .change("old", known::listed(old))
                .change("new", Value::Null),
        })
    })
}
