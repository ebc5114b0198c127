//! The recall datagram, by which a restarted master makes its minions check whether their
//! connections still exist.
//!
//! QUIC reports an unknown connection only in answer to a packet, and an idle minion sends none
//! before its next keep-alive. The datagram is no QUIC packet (its first byte lacks the fixed bit)
//! and is not authenticated: its only effect is one ping in each [`INTERVAL`]. If the master leaves
//! that unanswered, the connection is lost, within seconds and not only when it was idle for long. So
//! the other masters of a cluster recall the minions of one that has died.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quinn::udp::RecvMeta;
use smol::channel::Receiver;
use smol::future::FutureExt;
use value::Value;
use wire::Ping;

use crate::connection::Handle;
use crate::error::Error;
use crate::wait::pause;

const RECALL: &[u8] = b"\0pinch: recall";
/// The minimum interval between two pings of a minion because of recalls.
const INTERVAL: Duration = Duration::from_secs(2);
/// The master's pause between two recalls. A shorter one would be of no use, because the answers to
/// the minions' pings are rate-limited as well.
const PACE: Duration = Duration::from_millis(2);

/// Sends a recall to each of these addresses. Addresses that cannot be reached are skipped.
#[expect(
    clippy::let_underscore_must_use,
    reason = "a minion that gets no recall notices the new master by its pings"
)]
pub(crate) async fn send(socket: &UdpSocket, addresses: &[SocketAddr]) {
    for address in addresses {
        let _ = socket.send_to(RECALL, address);
        pause(PACE).await;
    }
}

/// Returns whether a recall is among the received datagrams.
pub(crate) fn is_in(buffers: &[IoSliceMut<'_>], meta: &[RecvMeta]) -> bool {
    let mut received = buffers.iter().zip(meta);
    received.any(|(buffer, meta)| buffer.get(..meta.len) == Some(RECALL))
}

/// Waits until the master leaves all packets unanswered, and closes the connection.
async fn silence(handle: &Handle) -> Result<Value, Error> {
    let error = handle.silence().await;
    handle.close("silence");
    Err(error)
}

/// Pings the master after each recall, until the connection is lost.
pub(crate) async fn answer(recalls: Receiver<()>, handle: Handle) {
    loop {
        // No deadline: most masters are never killed.
        let recalled = async { recalls.recv().await.is_ok() };
        let lost = async {
            handle.closed().await;
            false
        };
        if !recalled.or(lost).await {
            return;
        }
        if let Ok(asked) = handle.ask(Ping {}).await {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "the connection itself reports that it is lost"
            )]
            let _ = asked.done().or(silence(&handle)).await;
        }
        pause(INTERVAL).await;
    }
}
