//! [`Settings`]: the options that begin with `cluster_`.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use cluster::raft;
use link::PORT;
use state::opts::Opts;
use value::{Value, secret};
use wire::Secret;

use super::Error;

/// The default of `cluster_pool_port`.
const POOL_PORT: u16 = 4520;
/// The minimum length of a secret in bytes. Who sees one proof could find a shorter one by trial.
const SECRET_MIN: usize = 16;
/// The maximum size of `cluster_secret_file` in bytes.
const SECRET_MAX: u64 = 4096;
/// The maximum number of masters.
pub(crate) const MASTERS_MAX: usize = 9;
/// The default of `cluster_max_voters`.
const VOTERS: i64 = 5;

/// The settings of a master in a cluster.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The name of the cluster (`cluster_id`).
    pub(crate) cluster: String,
    /// The name of this master in all outputs: its address (`interface`).
    pub(crate) name: String,
    /// The address for the other masters.
    pub(crate) address: SocketAddr,
    /// The address for minions.
    pub(crate) minions: SocketAddr,
    /// The other masters (`cluster_peers`), each with a port.
    pub(crate) peers: Vec<String>,
    pub(super) secret: Option<Secret>,
    /// The fingerprints of masters that a joining one believes (`cluster_pub_fingerprint`).
    pub(super) fingers: Vec<String>,
    /// The maximum number of masters with a vote.
    pub(super) voters_max: usize,
    /// The shortest and the longest time without a leader before an election.
    election: (Duration, Duration),
    /// The time after which a master without contact to a majority refuses minions their pillar.
    pub(crate) stale_max: Duration,
    /// The time after which another master resumes the orchestrations of one that is silent.
    pub(super) voter_timeout: Duration,
}

fn wrong(option: &'static str, problem: impl Into<String>) -> Error {
    let problem = problem.into();
    Error::Option { option, problem }
}

fn port(opts: &Opts, option: &'static str, default: u16) -> Result<u16, Error> {
    match opts.get(option) {
        None => Ok(default),
        Some(port) => {
            let text = port.to_text();
            let port = text.parse();
            port.map_err(|_| wrong(option, format!("{text} is not a port")))
        }
    }
}

/// Returns the address of this master, which the others and minions must be able to reach.
fn own_ip(opts: &Opts) -> Result<IpAddr, Error> {
    let interface = opts.text("interface").unwrap_or("0.0.0.0");
    let ip: Result<IpAddr, _> = interface.trim_matches(['[', ']']).parse();
    match ip {
        Ok(ip) if !ip.is_unspecified() => Ok(ip),
        _ => Err(wrong(
            "interface",
            format!(
                "{interface} is not the address of one machine: in a cluster, set the IP address at which the other masters and the minions reach this one"
            ),
        )),
    }
}

/// Returns a peer with its port.
fn peer(name: &str, port: u16) -> String {
    let has_port = match name.rsplit_once(':') {
        Some((host, end)) => {
            end.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
        }
        None => false,
    };
    match (has_port, name.parse::<IpAddr>()) {
        (true, _) => name.to_owned(),
        (false, Ok(ip)) => SocketAddr::new(ip, port).to_string(),
        (false, Err(_)) => format!("{name}:{port}"),
    }
}

/// Returns `cluster_secret`, or the contents of `cluster_secret_file`.
fn secret(opts: &Opts) -> Result<Option<Secret>, Error> {
    let text = |option| {
        opts.text(option)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    let (option, said) = match (text("cluster_secret"), text("cluster_secret_file")) {
        (Some(_), Some(_)) => {
            return Err(wrong(
                "cluster_secret_file",
                "`cluster_secret` is set, too: remove one of them",
            ));
        }
        (Some(secret), None) => ("cluster_secret", secret.to_owned()),
        (None, Some(path)) => ("cluster_secret_file", read_secret(path)?),
        (None, None) => return Ok(None),
    };
    if said.len() < SECRET_MIN {
        let count = said.len();
        return Err(wrong(
            option,
            format!("the secret has {count} bytes: use at least {SECRET_MIN}"),
        ));
    }
    secret::keep(&[], &said.as_str().into());
    Ok(Some(Secret::new(&said)))
}

fn read_secret(path: &str) -> Result<String, Error> {
    const OPTION: &str = "cluster_secret_file";
    let failed = |error: std::io::Error| wrong(OPTION, format!("cannot read {path}: {error}"));
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(wrong(
            OPTION,
            format!("other users may read {path} (mode {mode:o}): run chmod 600 {path}"),
        ));
    }
    let mut text = String::new();
    file.take(SECRET_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text.trim().to_owned())
}

fn seconds(opts: &Opts, option: &'static str, default: Duration) -> Result<Duration, Error> {
    let Some(value) = opts.get(option).filter(|value| !value.is_null()) else {
        return Ok(default);
    };
    let seconds = value.as_float().and_then(link::wait::seconds);
    seconds.ok_or_else(|| {
        wrong(
            option,
            format!("{} is not a number of seconds", value.to_text()),
        )
    })
}

impl Settings {
    /// Reads the options. Returns `None` for a master that belongs to no cluster.
    ///
    /// # Errors
    /// When an option cannot be used, or one that is needed is missing.
    pub(crate) fn read(opts: &Opts) -> Result<Option<Self>, Error> {
        let Some(cluster) = opts.text("cluster_id").filter(|id| !id.is_empty()) else {
            return Ok(None);
        };
        let ip = own_ip(opts)?;
        let pool_port = port(opts, "cluster_pool_port", POOL_PORT)?;
        let address = SocketAddr::new(ip, pool_port);
        let peers = opts.texts("cluster_peers").into_iter();
        let mut peers: Vec<String> = peers.map(|name| peer(name.trim(), pool_port)).collect();
        peers.retain(|peer| *peer != address.to_string());
        let fingers = opts.texts("cluster_pub_fingerprint");
        let secret = secret(opts)?;
        if !peers.is_empty() && secret.is_none() && fingers.is_empty() {
            return Err(wrong(
                "cluster_peers",
                "set `cluster_secret` on all masters, or `cluster_pub_fingerprint` on this one, so that it knows which masters to believe",
            ));
        }
        let defaults = raft::Settings::default().election;
        let (min, max) = (
            seconds(opts, "cluster_election_min", defaults.0)?,
            seconds(opts, "cluster_election_max", defaults.1)?,
        );
        if min.is_zero() || max <= min {
            let problem = "it must be more than `cluster_election_min`, which must be more than 0";
            return Err(wrong("cluster_election_max", problem));
        }
        let voters = opts.get("cluster_max_voters").and_then(Value::as_int);
        let voters = usize::try_from(voters.unwrap_or(VOTERS)).unwrap_or_default();
        if voters == 0 {
            return Err(wrong(
                "cluster_max_voters",
                "at least one master must have a vote",
            ));
        }
        Ok(Some(Self {
            cluster: cluster.to_owned(),
            name: ip.to_string(),
            address,
            minions: SocketAddr::new(ip, port(opts, "ret_port", PORT)?),
            peers,
            secret,
            fingers,
            voters_max: voters.min(MASTERS_MAX),
            election: (min, max),
            stale_max: seconds(opts, "cluster_stale_max", Duration::from_secs(600))?,
            voter_timeout: seconds(opts, "cluster_voter_timeout", Duration::from_secs(10))?,
        }))
    }

    /// Returns the settings of the log.
    pub(super) fn raft(&self) -> raft::Settings {
        raft::Settings {
            election: self.election,
            ..raft::Settings::default()
        }
    }

    /// Returns the time without contact after which this master is in a minority: 3 s by default. An
    /// election takes less, so changes only wait for the next leader.
    pub(super) fn contact_max(&self) -> Duration {
        5 * self.election.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use value::Map;

    fn read(pairs: &[(&str, Value)]) -> Result<Option<Settings>, Error> {
        let map = pairs
            .iter()
            .map(|(name, value)| (Value::from(*name), value.clone()));
        Settings::read(&Opts::new(map.collect::<Map>()))
    }

    #[test]
    fn a_master_without_the_name_of_a_cluster_is_alone() {
        assert!(read(&[]).unwrap().is_none());
        assert!(read(&[("cluster_id", "".into())]).unwrap().is_none());
    }

    #[test]
    fn peers_get_the_port_and_this_master_is_no_peer() {
        let peers = Value::list([
            "10.0.0.2".into(),
            "10.0.0.1".into(),
            "m3:99".into(),
            "fd00::1".into(),
        ]);
        let settings = read(&[
            ("cluster_id", "prod".into()),
            ("interface", "10.0.0.1".into()),
            ("cluster_secret", "0123456789abcdef".into()),
            ("cluster_peers", peers),
        ]);
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.peers, ["10.0.0.2:4520", "m3:99", "[fd00::1]:4520"]);
        assert_eq!(settings.name, "10.0.0.1");
    }

    #[test]
    fn options_that_would_make_an_unsafe_cluster_are_refused() {
        let cluster = ("cluster_id", Value::from("prod"));
        let interface = ("interface", Value::from("10.0.0.1"));
        let peers = ("cluster_peers", Value::list(["10.0.0.2".into()]));
        let refused = |pairs: &[(&str, Value)]| read(pairs).unwrap_err().to_string();
        let text = refused(std::slice::from_ref(&cluster));
        assert!(
            text.contains("`interface`: 0.0.0.0 is not the address"),
            "{text}"
        );
        let text = refused(&[cluster.clone(), interface.clone(), peers]);
        assert!(
            text.contains("set `cluster_secret` on all masters"),
            "{text}"
        );
        let short = ("cluster_secret", Value::from("short"));
        let text = refused(&[cluster, interface, short]);
        assert!(
            text.contains("the secret has 5 bytes: use at least 16"),
            "{text}"
        );
    }
}
