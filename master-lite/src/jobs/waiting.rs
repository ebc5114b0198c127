//! [`Waiting`]: the callers that wait for returns, by job.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smol::channel::{Receiver, Sender, unbounded};
use value::{Map, channel};

/// The channels for returns, by job. A job has at most as many returns as minions, so the channels
/// need no limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting(Arc<Mutex<HashMap<String, Vec<Sender<Map>>>>>);

/// A caller's place among those that wait for a job's returns, given up on drop.
#[derive(Debug)]
pub(crate) struct Returns {
    waiting: Waiting,
    jid: String,
    returns: Receiver<Map>,
}

impl Waiting {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Vec<Sender<Map>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of jobs with waiting callers.
    pub(crate) fn count(&self) -> usize {
        self.all().len()
    }

    /// Returns whether a caller waits for a job.
    pub(crate) fn has(&self, jid: &str) -> bool {
        self.all().contains_key(jid)
    }

    /// Returns the jobs with waiting callers.
    pub(crate) fn jobs(&self) -> Vec<String> {
        self.all().keys().cloned().collect()
    }

    /// Returns a receiver for the returns of a job that are stored from now on.
    pub(crate) fn for_job(&self, jid: &str) -> Returns {
        let (sender, returns) = unbounded();
        self.all().entry(jid.to_owned()).or_default().push(sender);
        Returns {
            waiting: self.clone(),
            jid: jid.to_owned(),
            returns,
        }
    }

    /// Passes a return that is on the disk to the callers that wait for its job.
    pub(crate) fn came(&self, jid: &str, data: &Map) {
        for sender in self.all().get(jid).into_iter().flatten() {
            channel::if_open(sender.try_send(data.clone()));
        }
    }
}

impl Returns {
    pub(crate) async fn next(&self) -> Option<Map> {
        // No deadline: the caller has one.
        self.returns.recv().await.ok()
    }
}

impl Drop for Returns {
    fn drop(&mut self) {
        self.returns.close();
        let mut all = self.waiting.all();
        if let Some(senders) = all.get_mut(&self.jid) {
            senders.retain(|sender| !sender.is_closed());
            if senders.is_empty() {
                all.remove(&self.jid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_who_waits_gets_each_return_of_its_job() {
        smol::block_on(async {
            let waiting = Waiting::default();
            let (one, two) = (waiting.for_job("1"), waiting.for_job("1"));
            waiting.came("2", &Map::new());
            waiting.came("1", &Map::new().with("id", "m1"));
            for returns in [&one, &two] {
                let came = returns.next().await.unwrap_or_default();
                assert_eq!(
                    came.get("id").map(value::Value::to_text).as_deref(),
                    Some("m1")
                );
            }
            drop((one, two));
            assert!(waiting.all().is_empty());
        });
    }
}
