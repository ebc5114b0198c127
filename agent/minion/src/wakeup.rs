//! [`Wakeup`]: wakes a task that waits.

use smol::channel::{Receiver, Sender, bounded};
use value::channel;

/// A notification without content: any number of rings before the next look count as one.
#[derive(Clone, Debug)]
pub(crate) struct Wakeup(Sender<()>, Receiver<()>);

impl Wakeup {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = bounded(1);
        Self(sender, receiver)
    }

    pub(crate) fn ring(&self) {
        channel::if_open(self.0.try_send(()));
    }

    pub(crate) async fn rung(&self) {
        // No deadline: a task that waits for a bell is cancelled with its connection.
        channel::or_closed(self.1.recv().await);
    }
}
