//! [`Pool`]: the connections for requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use link::wait::within;
use smol::lock::Semaphore;
use value::Value;

use crate::connection::{Connection, Purpose, place};
use crate::limits::{IDLE_MAX, REQUESTS_MAX};
use crate::{Error, Settings};

/// The connections of a session for requests. Each has one request under way, because ZeroMQ's
/// answers have no numbers.
pub(crate) struct Pool {
    settings: Settings,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
}

/// An exchange without an answer.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: Error,
    /// True if the whole request was written, so that the master may have acted on it.
    pub(crate) was_sent: bool,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

impl Pool {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            idle: Mutex::default(),
            places: Semaphore::new(REQUESTS_MAX),
        }
    }

    /// Sends a request and returns the answer. A connection is only used again after its answer.
    pub(crate) async fn exchange(
        &self,
        request: &Value,
        limit: Duration,
        what: &str,
    ) -> Result<Value, Failed> {
        let was_sent = AtomicBool::new(false);
        let exchanged = async {
            // No deadline: the whole exchange has one.
            let _place = self.places.acquire().await;
            let connection = match self.take() {
                Some(connection) => connection,
                None => {
                    Connection::open(&self.settings, self.settings.ret_port, Purpose::Requests)
                        .await?
                }
            };
            let answer = connection.request(request, &was_sent).await?;
            self.put(connection);
            Ok(answer)
        };
        let exchanged = within(limit, exchanged).await;
        let silent = || {
            Err(Error::Silent {
                master: place(&self.settings.host, self.settings.ret_port),
                what: what.to_owned(),
                limit,
            })
        };
        exchanged.unwrap_or_else(silent).map_err(|error| Failed {
            error,
            was_sent: was_sent.load(Ordering::Relaxed),
        })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle();
        idle.retain(Connection::is_idle);
        idle.pop()
    }

    fn put(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}
