//! [`Net`]: the network between the masters. Messages take time and get lost, and any direction
//! between two masters may be cut.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use cluster::core::Member;
use cluster::raft::channels::Answers;
use cluster::raft::{Link, LinkError};
use openraft::AsyncRuntime;
use openraft::async_runtime::{Oneshot, OneshotSender};

use crate::world::{self, Process, Sim};

/// Answers a message.
type Answering =
    Arc<dyn Fn(Vec<u8>) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send>> + Send + Sync>;

#[derive(Default)]
pub struct Net {
    /// The masters that run.
    up: BTreeMap<Process, Answering>,
    /// The directions that are cut.
    pub cut: BTreeSet<(Process, Process)>,
    /// The number of messages of a thousand that are lost.
    pub loss: u64,
}

thread_local! {
    static NET: RefCell<Net> = RefCell::default();
}

/// Does something with the network.
pub fn with<T>(act: impl FnOnce(&mut Net) -> T) -> T {
    NET.with_borrow_mut(act)
}

/// Begins with a network without masters.
pub fn begin() {
    let old = NET.take();
    drop(old);
}

/// Connects a master.
pub fn connect(process: Process, answering: Answering) {
    let before = with(|net| net.up.insert(process, answering));
    drop(before);
}

/// Disconnects a master.
pub fn disconnect(process: Process) {
    let before = with(|net| net.up.remove(&process));
    drop(before);
}

/// The connections of one master.
#[derive(Clone)]
pub struct SimLink(pub Process);

/// Returns whether a message arrives.
fn arrives(from: Process, to: Process) -> bool {
    let loss = with(|net| match net.cut.contains(&(from, to)) {
        true => 1000,
        false => net.loss,
    });
    world::below(1000) >= loss
}

async fn travel() {
    let time = match world::below(50) {
        0 => world::below(50_000),
        _ => 50 + world::below(500),
    };
    world::sleep(Duration::from_micros(time)).await;
}

/// The time after which a connection notices that a message is lost.
const NOTICED: Duration = Duration::from_secs(2);

impl SimLink {
    async fn answer(self, to: Process, message: Vec<u8>) -> Option<Vec<u8>> {
        travel().await;
        if !arrives(self.0, to) {
            world::sleep(NOTICED).await;
            return None;
        }
        let answering = with(|net| net.up.get(&to).cloned())?;
        let (sender, answer) = Answers::channel();
        world::spawn_on(to, async move {
            if let Some(answer) = answering(message).await {
                let _ = sender.send(answer);
            }
        });
        let answer = answer.await.ok()?;
        travel().await;
        if !arrives(to, self.0) {
            world::sleep(NOTICED).await;
            return None;
        }
        Some(answer)
    }
}

impl Link for SimLink {
    async fn ask(
        &self,
        to: u64,
        _member: &Member,
        message: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        let name = format!("master {to}");
        match Sim::timeout(within, self.clone().answer(to, message)).await {
            Ok(Some(answer)) => Ok(answer),
            // The connection was closed; the message may have arrived.
            Ok(None) => Err(LinkError::NoAnswer(name)),
            Err(_) => Err(LinkError::NoAnswer(name)),
        }
    }
}
