//! [`Answerer`]: the daemon's answer to a request that a publication became.

use smol::channel::{Receiver, Sender, bounded};
use value::{Value, channel};

/// The answer: a value, or a reason code and a sentence.
pub(super) type Answer = Result<Value, (String, String)>;

/// The sender of the answer. If it is dropped, the receiver gets a failure.
#[derive(Debug)]
pub(crate) struct Answerer(Sender<Answer>);

/// The receiver of the answer.
pub(super) struct Awaited(Receiver<Answer>);

/// Creates both ends.
pub(super) fn pair() -> (Answerer, Awaited) {
    let (sender, receiver) = bounded(1);
    (Answerer(sender), Awaited(receiver))
}

impl Answerer {
    /// Sends the answer.
    pub(in crate::uplink) fn done(self, answer: Value) {
        channel::if_open(self.0.try_send(Ok(answer)));
    }

    /// Answers that the request failed.
    pub(in crate::uplink) fn fail(self, reason: &str, text: String) {
        channel::if_open(self.0.try_send(Err((reason.to_owned(), text))));
    }
}

impl Awaited {
    /// Waits for the answer.
    pub(super) async fn wait(self) -> Answer {
        // No deadline: the daemon answers every request, or drops the sender.
        let answer = self.0.recv().await;
        answer.unwrap_or_else(|_| {
            let text = "the daemon did not answer the request";
            Err(("failed".to_owned(), text.to_owned()))
        })
    }
}
