//! [`Settings`]: the option `rest_cherrypy`, and other options of the API.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use state::opts::Opts;
use value::{Map, Value, log};

use super::chunk::Client;
use crate::http::{Connections, Limits, Rates, Tls, TlsError};

/// The option whose entries are the settings.
const OPTION: &str = "rest_cherrypy";
/// The default of `port`.
const PORT: u16 = 8000;
/// The default of `max_request_body_size`, and its maximum, in bytes.
const BODY: usize = 1 << 20;
const BODY_MAX: usize = 64 << 20;
/// The time in which a request must arrive.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The default of `rest_timeout`: the time to wait for a runner or a wheel function.
const WAIT: Duration = Duration::from_secs(300);
/// The maximum numbers of requests per second and of connections. Streams of events are
/// connections that stay open.
const RATES: Rates = Rates {
    each: 2000.0,
    all: 5000.0,
    options: [OPTION, OPTION],
};
const CONNECTIONS_MAX: u64 = 4096;

/// The entries that are used, and those of Salt that have no effect here.
const USED: &[&str] = &[
    "api_acl",
    "app",
    "app_path",
    "authorized_ips",
    "disable_ssl",
    "enable_sessions",
    "favicon",
    "host",
    "max_request_body_size",
    "port",
    "root_prefix",
    "ssl_chain",
    "ssl_crt",
    "ssl_key",
    "static",
    "static_path",
    "stats_disable_auth",
    "webhook_disable_auth",
    "webhook_url",
];
const MOOT: &[&str] = &[
    "collect_stats",
    "debug",
    "expire_responses",
    "log_access_file",
    "log_error_file",
    "queue_size",
    "socket_queue_size",
    "thread_pool",
];

/// The reason why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// An entry that cannot be used.
    #[error("the option `{OPTION}`: `{entry}`: {problem}")]
    Entry {
        entry: &'static str,
        problem: String,
    },
    /// A certificate or a key that cannot be used.
    #[error("the option `{OPTION}`: {0}")]
    Tls(#[from] TlsError),
}

/// The settings of the API.
pub(crate) struct Settings {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Tls>,
    pub(super) limits: Limits,
    /// The clients of `netapi_enable_clients`.
    pub(super) clients: Vec<Client>,
    /// The path of all routes, without a slash at its end.
    pub(super) prefix: String,
    /// False if only requests with credentials in each chunk are served (`enable_sessions`).
    pub(super) has_sessions: bool,
    /// The path of the hook, and whether it needs no token.
    pub(super) hook: String,
    pub(super) is_hook_open: bool,
    pub(super) are_stats_open: bool,
    pub(super) pages: Pages,
    /// The addresses that may connect; `None` for all.
    pub(super) addresses: Option<Vec<String>>,
    /// The addresses from which each user may log in (`api_acl`).
    pub(super) users: Option<Map>,
    /// The time to wait for a runner or a wheel function.
    pub(super) wait: Duration,
}

/// The files that are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    /// The page of an application, and the path at which it is served.
    pub(super) app: Option<PathBuf>,
    pub(super) app_path: String,
    /// The folder of static files, and their path.
    pub(super) folder: Option<PathBuf>,
    pub(super) folder_path: String,
    pub(super) favicon: Option<PathBuf>,
}

fn wrong(entry: &'static str, problem: impl Into<String>) -> Error {
    let problem = problem.into();
    Error::Entry { entry, problem }
}

/// The entries of the option.
struct Entries<'a>(&'a Map);

impl Entries<'_> {
    fn text(&self, entry: &'static str) -> Option<&str> {
        self.0.get(entry)?.as_str().filter(|text| !text.is_empty())
    }

    fn flag(&self, entry: &'static str) -> bool {
        self.0.get(entry).is_some_and(Value::is_true)
    }

    fn path(&self, entry: &'static str) -> Option<PathBuf> {
        self.text(entry).map(PathBuf::from)
    }

    /// Returns a path of a URL, which begins with a slash and does not end with one.
    fn url(&self, entry: &'static str, default: &str) -> String {
        let path = self.text(entry).unwrap_or(default).trim_matches('/');
        match path.is_empty() {
            true => String::new(),
            false => format!("/{path}"),
        }
    }

    fn number<T: TryFrom<i64>>(&self, entry: &'static str, default: T) -> Result<T, Error> {
        let Some(given) = self.0.get(entry) else {
            return Ok(default);
        };
        let number = given.as_int().or_else(|| given.as_str()?.parse().ok());
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| wrong(entry, format!("{} is out of range", given.to_text())))
    }

    /// Warns of entries that have no effect.
    fn warn(&self) {
        for entry in self.0.keys().map(Value::to_text) {
            if MOOT.contains(&&*entry) {
                log::debug(format_args!("{OPTION}: `{entry}` has no effect"));
            } else if !USED.contains(&&*entry) {
                log::warning(format_args!("{OPTION}: unknown entry `{entry}`"));
            }
        }
    }

    fn tls(&self) -> Result<Option<Tls>, Error> {
        if self.flag("disable_ssl") {
            return Ok(None);
        }
        match (self.path("ssl_crt"), self.path("ssl_key")) {
            (None, None) => Ok(None),
            (Some(crt), Some(key)) => {
                let chain = self.path("ssl_chain");
                Ok(Some(Tls::read(&crt, &key, chain.as_deref())?))
            }
            (None, Some(_)) => Err(wrong("ssl_crt", "it is missing, and `ssl_key` is set")),
            (Some(_), None) => Err(wrong("ssl_key", "it is missing, and `ssl_crt` is set")),
        }
    }

    /// Returns the address to listen on. Without TLS it is one of this machine, unless
    /// `disable_ssl` is set.
    fn address(&self, has_tls: bool) -> Result<SocketAddr, Error> {
        let port = self.number("port", PORT)?;
        let is_open = has_tls || self.flag("disable_ssl");
        let ip: IpAddr = match self.text("host") {
            None if is_open => Ipv4Addr::UNSPECIFIED.into(),
            None | Some("localhost") => Ipv4Addr::LOCALHOST.into(),
            Some(host) => host
                .trim_matches(['[', ']'])
                .parse()
                .map_err(|_| wrong("host", format!("{host} is not an IP address")))?,
        };
        if !is_open && !ip.is_loopback() {
            let problem = format!(
                "{ip} is not an address of this machine alone, and there is no certificate: set `ssl_crt` and `ssl_key`, or `disable_ssl: True`"
            );
            return Err(wrong("host", problem));
        }
        Ok((ip, port).into())
    }

    fn limits(&self) -> Result<Limits, Error> {
        let body = self.number("max_request_body_size", BODY)?;
        Ok(Limits {
            // In Salt, 0 is no limit.
            body_max: if body == 0 {
                BODY_MAX
            } else {
                body.min(BODY_MAX)
            },
            body_option: "max_request_body_size",
            timeout: TIMEOUT,
            rates: RATES,
            connections: connections(),
        })
    }

    fn pages(&self) -> Pages {
        Pages {
            app: self.path("app"),
            app_path: self.url("app_path", "/app"),
            folder: self.path("static"),
            folder_path: self.url("static_path", "/static"),
            favicon: self.path("favicon"),
        }
    }
}

impl Settings {
    /// Reads the settings, or returns `None` if there is no API.
    ///
    /// # Errors
    /// When an entry or a certificate cannot be used.
    pub(crate) fn read(opts: &Opts) -> Result<Option<Self>, Error> {
        let Some(map) = opts.get(OPTION).and_then(Value::as_map) else {
            return Ok(None);
        };
        let entries = Entries(map);
        entries.warn();
        let tls = entries.tls()?;
        let users = map.get("api_acl").and_then(|acl| acl.get("users"));
        let addresses = map.get("authorized_ips").filter(|list| list.is_true());
        let wait = opts.get("rest_timeout").and_then(Value::as_float);
        Ok(Some(Self {
            address: entries.address(tls.is_some())?,
            tls,
            limits: entries.limits()?,
            clients: clients(opts),
            prefix: entries.url("root_prefix", ""),
            has_sessions: map.get("enable_sessions").is_none_or(Value::is_true),
            hook: entries.url("webhook_url", "/hook"),
            is_hook_open: entries.flag("webhook_disable_auth"),
            are_stats_open: entries.flag("stats_disable_auth"),
            pages: entries.pages(),
            addresses: addresses.map(Value::texts),
            users: users
                .and_then(Value::as_map)
                .filter(|map| !map.is_empty())
                .cloned(),
            wait: wait.and_then(link::wait::seconds).unwrap_or(WAIT),
        }))
    }

    /// Returns the path of the application's page, if there is one.
    pub(super) fn app(&self) -> Option<&Path> {
        self.pages.app.as_deref()
    }
}

/// Returns the maximum numbers of connections: half of the files that this process may open, so that
/// the store and the minions have the others.
fn connections() -> Connections {
    let most = getrlimit(Resource::Nofile).current;
    let all = most.map_or(CONNECTIONS_MAX, |most| (most / 2).min(CONNECTIONS_MAX));
    let all = usize::try_from(all).unwrap_or_default().max(2);
    Connections { each: all / 2, all }
}

/// Returns the enabled clients. A name that is none is logged.
fn clients(opts: &Opts) -> Vec<Client> {
    let option = "netapi_enable_clients";
    let names = opts.get(option).map(Value::texts).unwrap_or_default();
    let client = |name: &String| {
        let client = Client::find(name);
        if client.is_none() {
            log::warning(format_args!("{option}: unknown client {name:?}"));
        }
        client
    };
    names.iter().filter_map(client).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: Map) -> Result<Option<Settings>, String> {
        let opts = Opts::new(Map::new().with(OPTION, entries));
        Settings::read(&opts).map_err(|error| error.to_string())
    }

    fn address(entries: Map) -> Result<String, String> {
        Ok(read(entries)?.unwrap().address.to_string())
    }

    #[test]
    fn without_a_certificate_only_this_machine_can_connect() {
        assert!(Settings::read(&Opts::new(Map::new())).unwrap().is_none());
        let port = || Map::new().with("port", 8001);
        assert_eq!(address(port()).unwrap(), "127.0.0.1:8001");
        assert_eq!(
            address(Map::new().with("host", "::1")).unwrap(),
            "[::1]:8000"
        );
        let open = port().with("disable_ssl", true);
        assert_eq!(address(open).unwrap(), "0.0.0.0:8001");
        let error = address(port().with("host", "0.0.0.0")).unwrap_err();
        assert!(error.contains("`host`: 0.0.0.0 is not"), "{error}");
        let half = address(port().with("ssl_key", "/k")).unwrap_err();
        assert!(half.contains("`ssl_crt`: it is missing"), "{half}");
        let missing = port()
            .with("ssl_key", "/nowhere/k")
            .with("ssl_crt", "/nowhere/c");
        let missing = address(missing).unwrap_err();
        assert!(missing.contains("Cannot read /nowhere/c"), "{missing}");
        assert!(address(Map::new().with("port", 70_000)).is_err());
        assert!(address(Map::new().with("host", "example.org")).is_err());
    }

    #[test]
    fn paths_begin_with_a_slash_and_bodies_have_a_limit() {
        let entries = Map::new()
            .with("webhook_url", "in/github/")
            .with("app_path", "/")
            .with("max_request_body_size", 0);
        let settings = read(entries).unwrap().unwrap();
        assert_eq!(settings.hook, "/in/github");
        assert_eq!(settings.pages.app_path, "");
        assert_eq!(settings.pages.folder_path, "/static");
        assert_eq!(settings.limits.body_max, BODY_MAX);
        assert!(settings.clients.is_empty());
        assert!(read(Map::new().with("max_request_body_size", -1)).is_err());
    }
}
