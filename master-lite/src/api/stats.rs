//! [`Stats`]: the counters of the API, in the shape that CherryPy's statistics have (`GET /stats`).

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use value::Map;

use crate::http::Connections;
use crate::store::now_s;

/// The name of the only entry of `Worker Threads`: requests are tasks of one executor, and none has a
/// thread for itself.
const WORKER: &str = "Executor";

/// The counters of the API.
pub(super) struct Stats {
    began: Instant,
    began_s: f64,
    counts: Mutex<Counts>,
}

/// The numbers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    /// The requests that are being answered.
    current: u64,
    /// The requests that were answered, with the bytes of their bodies and of those of the answers.
    /// Streams have no length.
    total: u64,
    read: u64,
    written: u64,
    /// The time in which they were answered.
    time: Duration,
}

/// A request that is being answered.
pub(super) struct Running<'a> {
    stats: &'a Stats,
    began: Instant,
    read: u64,
    written: u64,
}

/// Returns a count as a number of Salt's JSON.
fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the first number divided by the second one, or 0.
fn over(part: f64, all: f64) -> f64 {
    if all > 0.0 { part / all } else { 0.0 }
}

impl Stats {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            began_s: now_s(),
            counts: Mutex::default(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request with a body of so many bytes, until the returned value is dropped.
    pub(super) fn begin(&self, read: usize) -> Running<'_> {
        self.counts().current += 1;
        Running {
            stats: self,
            began: Instant::now(),
            read: read as u64,
            written: 0,
        }
    }

    /// Returns the statistics of an API that listens on an address.
    pub(super) fn to_map(&self, address: SocketAddr, most: Connections) -> Map {
        let counts = *self.counts();
        let uptime = self.began.elapsed().as_secs_f64();
        let server = format!("Cheroot HTTPServer {}", address.port());
        Map::new()
            .with("CherryPy Applications", self.application(counts, uptime))
            .with(&server, of_server(counts, uptime, address, most))
    }

    fn application(&self, counts: Counts, uptime: f64) -> Map {
        let (read, written) = (counts.read as f64, counts.written as f64);
        let total = counts.total as f64;
        Map::new()
            .with("Enabled", true)
            .with("Bytes Read/Request", over(read, total))
            .with("Bytes Read/Second", over(read, uptime))
            .with("Bytes Written/Request", over(written, total))
            .with("Bytes Written/Second", over(written, uptime))
            .with("Current Time", now_s())
            .with("Current Requests", int(counts.current))
            .with("Requests/Second", over(total, uptime))
            .with("Server Version", env!("CARGO_PKG_VERSION"))
            .with("Start Time", self.began_s)
            .with("Total Bytes Read", int(counts.read))
            .with("Total Bytes Written", int(counts.written))
            .with("Total Requests", int(counts.total))
            .with("Total Time", counts.time.as_secs_f64())
            .with("Uptime", uptime)
            .with("Requests", Map::new())
    }
}

/// Returns the numbers that a server and each of its threads have.
fn of_worker(counts: Counts) -> Map {
    let time = counts.time.as_secs_f64();
    Map::new()
        .with("Requests", int(counts.total))
        .with("Bytes Read", int(counts.read))
        .with("Bytes Written", int(counts.written))
        .with("Work Time", time)
        .with("Read Throughput", over(counts.read as f64, time))
        .with("Write Throughput", over(counts.written as f64, time))
}

/// Returns the numbers of the server. Its "threads" are the connections that it may have.
fn of_server(counts: Counts, uptime: f64, address: SocketAddr, most: Connections) -> Map {
    let most = most.all as u64;
    let mut server = Map::new()
        .with("Enabled", true)
        .with(
            "Bind Address",
            format!("('{}', {})", address.ip(), address.port()),
        )
        .with("Run time", uptime)
        .with("Accepts", int(counts.total + counts.current))
        .with(
            "Accepts/sec",
            over((counts.total + counts.current) as f64, uptime),
        )
        .with("Queue", 0)
        .with("Threads", int(most))
        .with("Threads Idle", int(most.saturating_sub(counts.current)))
        .with("Socket Errors", 0);
    server.update(of_worker(counts));
    let workers = Map::new().with(WORKER, of_worker(counts));
    server.with("Worker Threads", workers)
}

impl Running<'_> {
    /// Notes the length of the answer's body, if it has one.
    pub(super) fn wrote(&mut self, length: usize) {
        self.written = length as u64;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut counts = self.stats.counts();
        counts.current = counts.current.saturating_sub(1);
        counts.total += 1;
        counts.read += self.read;
        counts.written += self.written;
        counts.time += self.began.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use value::Value;

    use super::*;

    #[test]
    fn requests_are_counted_once_they_are_answered() {
        let stats = Stats::new();
        let shown = || {
            let address = ([127, 0, 0, 1], 8000).into();
            let map = stats.to_map(address, Connections { each: 5, all: 10 });
            let of = |part: &str, name: &str| {
                let found = map.get(part).and_then(|part| part.get(name));
                found.and_then(Value::as_int).unwrap()
            };
            let server = "Cheroot HTTPServer 8000";
            [
                of("CherryPy Applications", "Current Requests"),
                of("CherryPy Applications", "Total Requests"),
                of("CherryPy Applications", "Total Bytes Written"),
                of(server, "Threads Idle"),
                of(server, "Bytes Read"),
            ]
        };
        let mut one = stats.begin(5);
        let _other = stats.begin(0);
        one.wrote(7);
        assert_eq!(shown(), [2, 0, 0, 8, 0]);
        drop(one);
        assert_eq!(shown(), [1, 1, 7, 9, 5]);
    }
}
