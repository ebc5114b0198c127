//! [`Page`]: the responses to `GET /metrics`, `/healthz` and `/readyz`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use link::wait::within;
use value::log;

use super::text::{Text, seconds};
use crate::cluster::Cluster;
use crate::event_return::{self, LogOption};
use crate::http::{Answer, Connections, Head, Limits, Rates, Refusal, Request, Server, Service};
use crate::jobs::minions::Minions;
use crate::jobs::waiting::Waiting;
use crate::metrics::Metrics;
use crate::reactor::{self, Current};
use crate::store::{Cache, Error, KeyState, Store, now_ms};

/// The content type of Prometheus' text format.
const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The content type of the other paths.
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
/// The page at `/`.
const LINKS: &str = "<!DOCTYPE html>\n<title>Pinch master</title>\n<ul>\n<li><a href=\"/metrics\">/metrics</a>: for Prometheus\n<li><a href=\"/healthz\">/healthz</a>: 200 while the master runs\n<li><a href=\"/readyz\">/readyz</a>: 200 while it can store events and jobs, else 503\n</ul>\n";
/// The paths that have an answer.
const PATHS: [&str; 4] = ["/", "/metrics", "/healthz", "/readyz"];
/// The time in which the store must write for the master to be ready.
const READY: Duration = Duration::from_secs(5);
/// The time for which a page is served again: counting keys means reading them all.
const KEPT: Duration = Duration::from_secs(1);
/// The limits. Prometheus requests the page every few seconds, so these suffice.
const LIMITS: Limits = Limits {
    body_max: 0,
    body_option: "",
    timeout: Duration::from_secs(10),
    rates: Rates {
        each: 20.0,
        all: 100.0,
        options: ["metrics_listen", "metrics_listen"],
    },
    connections: Connections::FEW,
};

/// The services whose state the page shows.
#[derive(Clone)]
pub(crate) struct Measured {
    pub(crate) store: Store,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) minions: Minions,
    pub(crate) waiting: Waiting,
    pub(crate) reactor: Arc<Current>,
    /// The number of accepted minions up to which the page has metrics for each minion.
    pub(crate) minions_max: usize,
    /// The cluster, if this master belongs to one.
    pub(crate) cluster: Option<Cluster>,
}

/// The page, with its last contents.
pub(crate) struct Page {
    measured: Measured,
    last: Mutex<Option<(Instant, String)>>,
}

impl Page {
    /// Serves the page at an address.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) async fn bind(
        measured: Measured,
        address: SocketAddr,
    ) -> Result<Server<Self>, String> {
        let last = Mutex::default();
        let server = Server::bind(address, Self { measured, last }, LIMITS, None).await;
        server.map_err(|error| format!("cannot listen on {address}: {error}"))
    }

    fn last(&self) -> Option<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = last.as_ref().filter(|(since, _)| since.elapsed() < KEPT);
        fresh.map(|(_, text)| text.clone())
    }
}

impl Service for Page {
    const NAME: &'static str = "metrics_listen";

    fn check(&self, head: &Head) -> Result<(), Refusal> {
        if !PATHS.contains(&head.path()) {
            let why = "the path is not /metrics, /healthz or /readyz";
            return Err(Refusal::new(404, why));
        }
        match head.method.as_str() {
            "GET" => Ok(()),
            _ => Err(Refusal::method("GET")),
        }
    }

    async fn answer(&self, request: Request) -> Result<Answer, Refusal> {
        match request.head.path() {
            "/" => Ok(Answer::good(HTML, LINKS)),
            "/healthz" => Ok(Answer::good(TEXT, "ok\n")),
            "/readyz" => self.ready().await,
            _ => self.metrics().await,
        }
    }

    fn answered(&self, _: u16) {}
}

impl Page {
    /// Answers whether the master can store events and jobs: the store has to answer in time.
    async fn ready(&self) -> Result<Answer, Refusal> {
        let store = &self.measured.store;
        let why = match within(READY, store.barrier()).await {
            Some(Ok(())) => return Ok(Answer::good(TEXT, "ok\n")),
            Some(Err(error)) => error.to_string(),
            None => format!("the store has not answered within {} s", READY.as_secs()),
        };
        Err(Refusal::later(503, 1, why))
    }

    async fn metrics(&self) -> Result<Answer, Refusal> {
        if let Some(text) = self.last() {
            return Ok(Answer::good(KIND, text));
        }
        let measured = self.measured.clone();
        match smol::unblock(move || measured.text()).await {
            Ok(text) => {
                let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
                *last = Some((Instant::now(), text.clone()));
                Ok(Answer::good(KIND, text))
            }
            Err(error) => {
                log::error(format_args!(
                    "metrics_listen: cannot read the metrics: {error}"
                ));
                Err(Refusal::later(503, 1, error.to_string()))
            }
        }
    }
}

impl Measured {
    /// Returns all metrics as text. It reads the store.
    fn text(&self) -> Result<String, Error> {
        let mut text = Text::default();
        self.master(&mut text);
        self.store(&mut text)?;
        self.reactor(&mut text)?;
        self.returners(&mut text)?;
        self.jobs(&mut text);
        self.cluster(&mut text);
        self.each_minion(&mut text)?;
        Ok(text.0)
    }

    fn master(&self, text: &mut Text) {
        let metrics = &self.metrics;
        let version = [(env!("CARGO_PKG_VERSION"), 1)];
        let help = "Version of the master.";
        text.by("gauge", ("build_info", "version"), help, version);
        let help = "Start time of the master, in seconds since 1970.";
        let began = seconds(metrics.began_ms);
        text.one("gauge", "start_time_seconds", help, began);
        let help = "Connected minions.";
        let connected = self.minions.here().len();
        text.one("gauge", "connections", help, connected);
        let help = "Peers that have authenticated with a key.";
        text.one("counter", "hellos_total", help, metrics.hellos.number());
        let help = "Decisions about the keys of peers.";
        let auth = metrics.auth.numbers();
        text.by("counter", ("auth_total", "act"), help, auth);
        let help = "Requests to the hook, by status code.";
        let requests = metrics.requests.numbers();
        text.by("counter", ("hook_requests_total", "code"), help, requests);
        let help = "Requests to the API, by status code.";
        let requests = metrics.api.numbers();
        text.by("counter", ("api_requests_total", "code"), help, requests);
    }

    /// Adds the state of the cluster's log, if there is one.
    fn cluster(&self, text: &mut Text) {
        let Some(cluster) = &self.cluster else {
            return;
        };
        let status = cluster.status();
        let is = u64::from;
        let help = "Whether this master leads its cluster.";
        text.one("gauge", "cluster_leader", help, is(status.leads()));
        let help = "Whether this master is in contact with a majority of its cluster.";
        let has_majority = is(cluster.minority().is_none());
        text.one("gauge", "cluster_majority", help, has_majority);
        let help = "Term of the cluster's log: the number of elections.";
        text.one("counter", "cluster_term", help, status.term);
        let help = "Masters of the cluster with a vote.";
        text.one("gauge", "cluster_voters", help, status.voters.len());
        let help = "Last entry of the cluster's log on this master.";
        text.one("counter", "cluster_last_index", help, status.last);
        let help = "Last entry of the cluster's log that is applied on this master.";
        text.one("counter", "cluster_applied_index", help, status.applied);
        let behind = status.followers.iter().filter_map(|(number, follower)| {
            let name = status.members.get(number)?.name.clone();
            Some((name, status.last.saturating_sub(follower.matched)))
        });
        let help = "Entries of the log that another master lacks, as the leader knows.";
        let behind: Vec<(String, u64)> = behind.collect();
        text.by("gauge", ("cluster_behind_entries", "master"), help, behind);
    }

    fn store(&self, text: &mut Text) -> Result<(), Error> {
        let states = KeyState::ALL.map(KeyState::as_str);
        let keys = states.into_iter().zip(self.store.key_counts()?);
        text.by("gauge", ("keys", "state"), "Keys, by state.", keys);
        let (first, next) = self.store.log()?;
        let help = "Events written to the log.";
        text.one("counter", "events_total", help, next.saturating_sub(1));
        let help = "Events in the log.";
        text.one("gauge", "event_log_events", help, next - first.min(next));
        let help = "Size of the events in the log, in bytes.";
        let bytes = self.store.log_bytes()?;
        text.one("gauge", "event_log_bytes", help, bytes);
        Ok(())
    }

    fn reactor(&self, text: &mut Text) -> Result<(), Error> {
        let metrics = &self.metrics;
        let help = "Finished reactions, by state.";
        let reactions = metrics.reactions.numbers();
        text.by("counter", ("reactions_total", "state"), help, reactions);
        let help = "Finished reactions since the master started, by the rule's pattern and state.";
        let (name, labels) = ("rule_reactions_total", ["rule", "state"]);
        text.by_two("counter", (name, labels), help, metrics.reactions_by_rule());
        let current = self.reactor.get();
        let awaited = current.as_ref().map_or(0, |reactor| reactor.awaited());
        let rules = current.map_or_else(Vec::new, |reactor| reactor.rules());
        let help = "Events that a rule of the reactor has begun and not finished.";
        let waiting = metrics.reactions_waiting.number();
        text.one("gauge", "reactions_waiting", help, waiting);
        let help = "Reactions whose jobs were sent and have not returned.";
        text.one("gauge", "reactions_awaited", help, awaited);
        let help = "Events in the log that a rule of the reactor has not finished.";
        let mut behind = BTreeMap::<String, u64>::new();
        for rule in rules {
            let events = self.behind(&reactor::cursor(&rule))?;
            // Two rules may have the same pattern: the page shows the slower one.
            let most = behind.entry(rule.glob).or_default();
            *most = events.max(*most);
        }
        text.by("gauge", ("reactor_behind_events", "rule"), help, behind);
        let help = "Time from an event until its reaction has made its calls, in seconds.";
        text.histogram("reaction_seconds", help, &metrics.reaction_seconds);
        Ok(())
    }

    /// Returns the number of events in the log after a cursor.
    fn behind(&self, cursor: &str) -> Result<u64, Error> {
        let (_, next) = self.store.log()?;
        let done = self.store.cursor(cursor)?.unwrap_or_default();
        Ok(next.saturating_sub(done + 1))
    }

    /// Appends how far each returner of the log is behind, if there are any.
    fn returners(&self, text: &mut Text) -> Result<(), Error> {
        let help = "Events in the log that a returner of event_return has not got.";
        let events = (LogOption::EventReturn, "event_return_behind_events");
        self.behind_of(text, events, help)?;
        let help = "Events in the log that a returner of master_job_cache has not got.";
        let jobs = (LogOption::MasterJobCache, "master_job_cache_behind_events");
        self.behind_of(text, jobs, help)?;
        let help = "Events in the log whose jobs a returner of ext_job_cache has not got.";
        let loads = (LogOption::ExtJobCache, "ext_job_cache_behind_events");
        self.behind_of(text, loads, help)
    }

    fn behind_of(
        &self,
        text: &mut Text,
        (option, metric): (LogOption, &'static str),
        help: &'static str,
    ) -> Result<(), Error> {
        let mut behind = BTreeMap::<String, u64>::new();
        for name in self.store.cursors()? {
            if let Some(returner) = event_return::of_cursor(option, &name) {
                behind.insert(returner.to_owned(), self.behind(&name)?);
            }
        }
        if !behind.is_empty() {
            text.by("gauge", (metric, "returner"), help, behind);
        }
        Ok(())
    }

    /// Appends the metrics of each minion, if there are not too many minions.
    fn each_minion(&self, text: &mut Text) -> Result<(), Error> {
        let most = self.minions_max;
        let mut rows = Vec::new();
        let mut count = 0_usize;
        for key in self.store.keys(KeyState::Accepted)? {
            let key = key?;
            count += 1;
            if count <= most {
                let status = self.store.cached_of(Cache::Status, &key)?;
                rows.push((key.id, status.unwrap_or_default()));
            }
        }
        if count > most {
            rows.clear();
        }
        let help = "Accepted minions without metrics of their own (metrics_minions_max).";
        let hidden = if count > most { count } else { 0 };
        text.one("gauge", "minions_not_shown", help, hidden);
        let now = now_ms() / 1000;
        let seen = rows.iter().filter_map(|(id, status)| {
            let seen_ms = status.get("seen_ms")?.as_int()?;
            let seen = match self.minions.get(id) {
                Some(_) => now,
                None => u64::try_from(seen_ms).ok()? / 1000,
            };
            Some((id.as_str(), seen))
        });
        let help = "Time at which a minion was connected last, in seconds since 1970.";
        text.by("gauge", ("minion_last_seen_seconds", "id"), help, seen);
        let last = rows.iter().filter_map(|(id, status)| {
            let result = status.get("highstate")?.get("result")?.is_true();
            Some((id.as_str(), u64::from(result)))
        });
        let help = "Result of a minion's last highstate: 1 if it succeeded, else 0.";
        text.by("gauge", ("highstate_last_result", "id"), help, last);
        Ok(())
    }

    fn jobs(&self, text: &mut Text) {
        let metrics = &self.metrics;
        let help = "Jobs sent.";
        text.one("counter", "jobs_total", help, metrics.jobs.number());
        let help = "Jobs that wait for returns.";
        let running = self.waiting.count();
        text.one("gauge", "jobs_waited_for", help, running);
        let help = "Returns of minions: kept, duplicate or refused.";
        let returns = [
            ("kept", metrics.returns.number()),
            ("duplicate", metrics.duplicates.number()),
            ("refused", metrics.returns_refused.number()),
        ];
        text.by("counter", ("returns_total", "result"), help, returns);
        let help = "Time from a job to the return of a minion, in seconds.";
        text.histogram("job_return_seconds", help, &metrics.job_seconds);
    }
}
