//! Reads the options that say how to reach a master.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;

use link::pki::Pki;
use link::{Limits, Master, Options, PORT, Waits};
use state::opts::Opts;
use value::{Map, Value, jid, log, secret};
use wire::{Hello, Secret};

use super::connection::ConnectionError;
use super::protocol::QUIC;
use crate::error::Error;

pub(crate) fn wrong(option: &'static str, problem: impl Into<String>) -> Error {
    let problem = problem.into();
    Error::Option { option, problem }
}

/// Returns the time of an option, which is a number of milliseconds (Salt's `recon_*`) or seconds;
/// at most one day.
fn duration(opts: &Opts, option: &'static str, unit: Duration, default: Duration) -> Duration {
    let number = opts.get(option).and_then(Value::as_float);
    let longest = Duration::from_secs(24 * 3600);
    number.map_or(default, |number| {
        unit.mul_f64(number.clamp(0.0, 1e9)).min(longest)
    })
}

pub(super) fn waits(opts: &Opts) -> Waits {
    let (ms, second) = (Duration::from_millis(1), Duration::from_secs(1));
    let defaults = Waits::default();
    Waits {
        recon_default: duration(opts, "recon_default", ms, defaults.recon_default),
        recon_max: duration(opts, "recon_max", ms, defaults.recon_max),
        recon_randomize: opts.flag("recon_randomize"),
        // Salt's default of ten seconds is meant for its own slow handshakes, so it counts as not
        // configured.
        random_reauth_delay: match opts.int("random_reauth_delay") {
            None | Some(10) => defaults.random_reauth_delay,
            Some(_) => duration(
                opts,
                "random_reauth_delay",
                second,
                defaults.random_reauth_delay,
            ),
        },
        acceptance_wait_time: duration(
            opts,
            "acceptance_wait_time",
            second,
            defaults.acceptance_wait_time,
        ),
        acceptance_wait_time_max: duration(
            opts,
            "acceptance_wait_time_max",
            second,
            defaults.acceptance_wait_time_max,
        ),
    }
}

/// Returns `master_port`.
fn port(opts: &Opts) -> Result<u16, Error> {
    let Some(port) = opts.get("master_port").map(Value::to_text) else {
        return Ok(PORT);
    };
    let invalid = |_| wrong("master_port", format!("invalid port {port}"));
    port.parse().map_err(invalid)
}

/// Returns the masters that the configuration names with `quic://`.
pub(super) fn quic_masters(opts: &Opts) -> Result<Vec<Master>, Error> {
    let port = port(opts)?;
    let names = opts.texts("master");
    let quic = names
        .iter()
        .filter_map(|name| name.trim().strip_prefix(QUIC));
    Ok(quic.map(|name| Master::parse(name, port)).collect())
}

/// Returns the masters in the order of the configuration, each once.
pub(crate) fn masters(opts: &Opts) -> Result<Vec<Master>, Error> {
    let port = port(opts)?;
    let names = opts.texts("master");
    let mut masters: Vec<Master> = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        let name = name.strip_prefix(QUIC).unwrap_or(name);
        let master = Master::parse(name, port);
        if !name.is_empty() && !masters.contains(&master) {
            masters.push(master);
        }
    }
    if masters.is_empty() {
        return Err(wrong(
            "master",
            "no master is configured: set one, or use `salt-call --local`",
        ));
    }
    Ok(masters)
}

/// Returns the local address for connections: `source_address`, or the first address of
/// `source_interface_name`.
pub(super) fn source(opts: &Opts) -> Result<Option<IpAddr>, Error> {
    let said = |option| opts.text(option).filter(|text| !text.is_empty());
    if let Some(address) = said("source_address") {
        let parsed = address.parse();
        return parsed
            .map(Some)
            .map_err(|_| wrong("source_address", format!("invalid IP address {address}")));
    }
    let Some(name) = said("source_interface_name") else {
        return Ok(None);
    };
    let all = machine::net::interfaces::all().into_iter();
    let mut found = all.filter(|interface| interface.name == name);
    let address = found.find_map(|interface| Some(interface.addresses.first()?.ip));
    address.map(Some).ok_or_else(|| {
        let problem = format!("no interface {name} with an IP address");
        wrong("source_interface_name", problem)
    })
}

/// Returns the interval of checks whether a master of a cluster still answers
/// (`master_alive_interval`): 5 s if there is none.
pub(crate) fn alive_interval(opts: &Opts) -> Duration {
    let second = Duration::from_secs(1);
    match duration(opts, "master_alive_interval", second, Duration::ZERO) {
        Duration::ZERO => 5 * second,
        every => every,
    }
}

/// Returns how long the first attempt waits: a random time up to `random_startup_delay`, so that
/// many machines that get their power back together do not connect at the same time.
pub(crate) fn startup_delay(opts: &Opts) -> Duration {
    let most = duration(
        opts,
        "random_startup_delay",
        Duration::from_secs(1),
        Duration::ZERO,
    );
    let most = u64::try_from(most.as_millis()).unwrap_or_default();
    Duration::from_millis(value::random::jitter(most))
}

/// The maximum size of an enrolment token in bytes.
const TOKEN_MAX: u64 = 4096;

/// Registers the enrolment token as a secret of this program: it is not shown anywhere, and no copy
/// is kept of a file that contains it.
pub fn know_token(opts: &Opts) {
    if let Ok(Some(token)) = token(opts) {
        secret::keep(&[], &token.reveal().into());
    }
}

/// Returns `enroll_token`, or the contents of `enroll_token_file`. A missing file is no error,
/// because the token is not needed after the enrolment.
fn token(opts: &Opts) -> Result<Option<Secret>, Error> {
    let said = |name: &str| {
        opts.text(name)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    };
    if let Some(token) = said("enroll_token") {
        return Ok(Some(Secret::new(token)));
    }
    let Some(path) = said("enroll_token_file") else {
        return Ok(None);
    };
    let failed = |error: std::io::Error| wrong("enroll_token_file", format!("{path}: {error}"));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            log::info(format_args!("{path} (enroll_token_file) does not exist"));
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(TOKEN_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(Some(Secret::new(text.trim())))
}

/// Returns the grains that `autosign_grains` names. The master compares them with its files of the
/// same names.
pub(super) fn autosign_grains(opts: &Opts) -> Map {
    let names = opts.texts("autosign_grains");
    if names.is_empty() {
        return Map::new();
    }
    let grains = crate::beacon_loop::context(opts).grains();
    let named = names.iter();
    named
        .filter_map(|name| Some((name.as_str().into(), grains.get(name)?.clone())))
        .collect::<Vec<(Value, Value)>>()
        .into_iter()
        .collect()
}

fn hello(opts: &Opts, epoch: u64, program: &str) -> Result<Hello, Error> {
    let id = opts.id();
    let id = id.parse().map_err(|error| {
        wrong(
            "id",
            format!("{error}; masters reject other ids, so set `id`"),
        )
    })?;
    Ok(Hello {
        version_min: wire::VERSION_MIN,
        version_max: wire::VERSION_MAX,
        features: vec![wire::MASTERS.to_owned()],
        id,
        role: "minion".to_owned(),
        program: program.to_owned(),
        started: jid::stamp(),
        epoch,
        token: token(opts)?,
        grains: autosign_grains(opts),
        evidence: Map::new(),
    })
}

/// Returns the masters grouped by session: one session for all of them with `failover`, one for
/// each without it, and none with `disable`.
///
/// # Errors
/// When there is no master, or `master_type` is unknown.
pub(crate) fn groups(opts: &Opts) -> Result<Vec<Vec<Master>>, Error> {
    match opts.text("master_type").unwrap_or("str") {
        "disable" => Ok(Vec::new()),
        "failover" => Ok(vec![masters(opts)?]),
        "str" => Ok(masters(opts)?
            .into_iter()
            .map(|master| vec![master])
            .collect()),
        other => Err(wrong(
            "master_type",
            format!("unsupported value {other}, expected str, failover or disable"),
        )),
    }
}

/// The behaviour when a master is lost, or when the first master is back.
#[derive(Debug)]
pub(crate) struct Failover {
    /// True if a master that was lost is tried last.
    pub(crate) leaves: bool,
    /// The interval of checks whether the first master is back.
    pub(crate) failback: Option<Duration>,
}

impl Failover {
    pub(crate) fn from_opts(opts: &Opts) -> Self {
        let is_failover = opts.text("master_type") == Some("failover");
        let every = |option| duration(opts, option, Duration::from_secs(1), Duration::ZERO);
        let alive = every("master_alive_interval");
        let failback = Some(every("master_failback_interval"))
            .filter(|interval| !interval.is_zero())
            .unwrap_or(alive);
        let goes_back = is_failover && opts.flag("master_failback") && !failback.is_zero();
        Self {
            leaves: is_failover && !alive.is_zero(),
            failback: goes_back.then_some(failback),
        }
    }
}

/// Returns the fingerprints of `master_finger`, of which the master's key must have one.
pub(super) fn master_fingers(opts: &Opts) -> Vec<String> {
    let fingers = opts.texts("master_finger").into_iter();
    fingers
        .map(|finger| finger.trim().to_owned())
        .filter(|finger| !finger.is_empty())
        .collect()
}

/// Returns the options of a session with these masters.
///
/// # Errors
/// When an option is invalid, or the keys cannot be used.
pub(crate) fn session(
    opts: &Opts,
    masters: Vec<Master>,
    epoch: u64,
    program: &str,
) -> Result<Options, Error> {
    let pki = Pki::open(&opts.path("pki_dir")).map_err(ConnectionError::from)?;
    Ok(Options {
        masters,
        random: opts.flag("random_master") || opts.flag("master_shuffle"),
        source: source(opts)?,
        pair: pki.own("minion").map_err(ConnectionError::from)?.pair,
        pki,
        fingers: master_fingers(opts),
        hello: hello(opts, epoch, program)?,
        limits: Limits::default(),
        waits: waits(opts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opts(option: &str, value: impl Into<Value>) -> Opts {
        Opts::new(Map::new().with(option, value))
    }

    #[test]
    fn connections_come_from_the_address_that_is_named() {
        let named = source(&opts("source_address", "127.0.0.9")).unwrap();
        assert_eq!(named, Some([127, 0, 0, 9].into()));
        let of_interface = source(&opts("source_interface_name", "lo")).unwrap();
        assert!(of_interface.is_some_and(|ip| ip.is_loopback()));
        let missing = source(&opts("source_interface_name", "none0")).unwrap_err();
        assert!(missing.to_string().contains("none0"), "{missing}");
        assert_eq!(source(&opts("id", "m1")).unwrap(), None);
    }

    #[test]
    fn the_first_try_waits_at_most_as_long_as_is_said() {
        assert_eq!(startup_delay(&opts("id", "m1")), Duration::ZERO);
        let said = opts("random_startup_delay", 2);
        let all = (0..1000).map(|_| startup_delay(&said));
        let longest = all.max().unwrap();
        assert!(longest > Duration::from_secs(1) && longest <= Duration::from_secs(2));
    }
}
