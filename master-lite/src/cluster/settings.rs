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

use super::join::SharedKey;
use super::{Error, tokens};

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
    secret: Option<Secret>,
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

/// Returns the value of an option, or the contents of the file that the second one names, with the
/// option that was set.
fn text_or_file(
    opts: &Opts,
    (of_text, of_file): (&'static str, &'static str),
) -> Result<Option<(&'static str, String)>, Error> {
    let text = |option| {
        opts.text(option)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    let (option, read) = match (text(of_text), text(of_file)) {
        (Some(_), Some(_)) => {
            return Err(wrong(
                of_file,
                format!("`{of_text}` is set, too: remove one of them"),
            ));
        }
        (Some(secret), None) => (of_text, secret.to_owned()),
        (None, Some(path)) => (of_file, read_file(of_file, path)?),
        (None, None) => return Ok(None),
    };
    Ok(Some((option, read)))
}

fn read_file(option: &'static str, path: &str) -> Result<String, Error> {
    let failed = |error: std::io::Error| wrong(option, format!("cannot read {path}: {error}"));
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(wrong(
            option,
            format!("other users may read {path} (mode {mode:o}): run chmod 600 {path}"),
        ));
    }
    let mut text = String::new();
    file.take(SECRET_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text.trim().to_owned())
}

/// Returns `cluster_secret`, or the contents of `cluster_secret_file`.
fn secret(opts: &Opts) -> Result<Option<Secret>, Error> {
    let Some((option, text)) = text_or_file(opts, ("cluster_secret", "cluster_secret_file"))?
    else {
        return Ok(None);
    };
    if text.len() < SECRET_MIN {
        let count = text.len();
        return Err(wrong(
            option,
            format!("the secret has {count} bytes: use at least {SECRET_MIN}"),
        ));
    }
    secret::keep(&[], &text.as_str().into());
    Ok(Some(Secret::new(&text)))
}

/// The proof of a master that joins, and of the members that it believes.
#[derive(Debug)]
pub(super) enum Credentials {
    /// It has none: it knows the members by their fingerprints, and an administrator accepts it.
    Fingers,
    /// The secret of the cluster.
    Secret(SharedKey),
    /// A token for masters (`cluster_token`, `cluster_token_file`).
    Token {
        /// The public part.
        name: String,
        /// The key that its secret part makes.
        key: SharedKey,
    },
}

impl Credentials {
    /// Reads the options that matter only while a master joins.
    ///
    /// # Errors
    /// When an option cannot be used, or there is no option by which members could be believed.
    pub(super) fn read(opts: &Opts, settings: &Settings) -> Result<Self, Error> {
        let token = text_or_file(opts, ("cluster_token", "cluster_token_file"))?;
        match (token, settings.key()) {
            (Some((option, _)), Some(_)) => Err(wrong(
                option,
                "this master has the `cluster_secret`, too: remove one of them",
            )),
            (Some((option, token)), None) => Self::of_token(option, &token, settings),
            (None, Some(key)) => Ok(Self::Secret(key)),
            (None, None) if settings.peers.is_empty() || !settings.fingers.is_empty() => {
                Ok(Self::Fingers)
            }
            (None, None) => Err(wrong(
                "cluster_peers",
                "set `cluster_secret` on all masters, or `cluster_token` or `cluster_pub_fingerprint` on this one, so that it knows which masters to believe",
            )),
        }
    }

    fn of_token(option: &'static str, token: &str, settings: &Settings) -> Result<Self, Error> {
        if settings.peers.is_empty() {
            return Err(wrong(
                "cluster_peers",
                format!("a master with `{option}` joins a cluster: add the address of a member"),
            ));
        }
        let (name, secret) = token.split_once('.').unwrap_or_default();
        if !tokens::is_name(name) || secret.is_empty() {
            let problem = "it is not a token, which `salt-run token.create kind=master` prints";
            return Err(wrong(option, problem));
        }
        secret::keep(&[], &secret.into());
        let hash = tokens::hashed(secret).map_err(|error| wrong(option, error))?;
        Ok(Self::Token {
            name: name.to_owned(),
            key: SharedKey::of_token(&hash),
        })
    }

    /// Returns the key that both ends know, with the option that has it.
    pub(super) fn key(&self) -> Option<(&SharedKey, &'static str)> {
        match self {
            Self::Fingers => None,
            Self::Secret(key) => Some((key, "cluster_secret")),
            Self::Token { key, .. } => Some((key, "cluster_token")),
        }
    }
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

    /// Returns the key that the secret of the cluster makes.
    pub(super) fn key(&self) -> Option<SharedKey> {
        self.secret.as_ref().map(SharedKey::of_secret)
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
        let refused = |pairs: &[(&str, Value)]| read(pairs).unwrap_err().to_string();
        let text = refused(std::slice::from_ref(&cluster));
        assert!(
            text.contains("`interface`: 0.0.0.0 is not the address"),
            "{text}"
        );
        let short = ("cluster_secret", Value::from("short"));
        let text = refused(&[cluster, interface, short]);
        assert!(
            text.contains("the secret has 5 bytes: use at least 16"),
            "{text}"
        );
    }

    const TOKEN: &str = "00c0ffee.0123456789abcdef";

    /// Reads the credentials of a master that joins.
    fn credentials(pairs: &[(&str, &str)]) -> Result<Credentials, Error> {
        credentials_with(&["10.0.0.2"], pairs)
    }

    fn credentials_with(peers: &[&str], pairs: &[(&str, &str)]) -> Result<Credentials, Error> {
        let peers = Value::list(peers.iter().map(|peer| Value::from(*peer)));
        let map = Map::new()
            .with("cluster_id", "prod")
            .with("interface", "10.0.0.1")
            .with("cluster_peers", peers);
        let map = pairs
            .iter()
            .fold(map, |map, (name, value)| map.with(name, *value));
        let opts = Opts::new(map);
        let settings = Settings::read(&opts)?.unwrap();
        Credentials::read(&opts, &settings)
    }

    #[test]
    fn a_master_that_joins_has_one_proof() {
        let secret = ("cluster_secret", "0123456789abcdef");
        let token = ("cluster_token", TOKEN);
        let finger = ("cluster_pub_fingerprint", "aa:bb");
        assert!(matches!(credentials(&[secret]), Ok(Credentials::Secret(_))));
        assert!(matches!(credentials(&[finger]), Ok(Credentials::Fingers)));
        let named = credentials(&[token, finger]);
        assert!(matches!(named, Ok(Credentials::Token { name, .. }) if name == "00c0ffee"));
        let refused = |pairs: &[(&str, &str)]| credentials(pairs).unwrap_err().to_string();
        let text = refused(&[]);
        assert!(text.contains("set `cluster_secret` on all"), "{text}");
        let text = refused(&[secret, token]);
        assert!(text.contains("remove one of them"), "{text}");
        let alone = credentials_with(&[], &[]);
        assert!(matches!(alone, Ok(Credentials::Fingers)));
        let text = credentials_with(&[], &[token]).unwrap_err().to_string();
        assert!(text.contains("add the address of a member"), "{text}");
        for wrong in ["00c0ffee", "00c0ffee.", "x.0123", "../../x.0123"] {
            let text = refused(&[("cluster_token", wrong)]);
            assert!(text.contains("it is not a token"), "{wrong}: {text}");
        }
    }

    #[test]
    fn the_file_of_a_token_is_read_by_root_alone() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            file.as_file().set_permissions(permissions).unwrap();
        };
        std::io::Write::write_all(&mut file.as_file(), TOKEN.as_bytes()).unwrap();
        let of_file = ("cluster_token_file", path);
        mode(0o640);
        let text = credentials(&[of_file]).unwrap_err().to_string();
        assert!(text.contains("run chmod 600"), "{text}");
        mode(0o600);
        assert!(matches!(
            credentials(&[of_file]),
            Ok(Credentials::Token { .. })
        ));
        let both = credentials(&[of_file, ("cluster_token", TOKEN)]);
        let text = both.unwrap_err().to_string();
        assert!(text.contains("`cluster_token` is set, too"), "{text}");
    }
}
