//! The datagram by which a master that was killed and runs again has its minions look whether their connections still exist.
//!
//! QUIC tells a peer that its connection is unknown only in answer to a packet, and an idle minion sends none before its next keep-alive.
//! This datagram is no QUIC packet (its first byte lacks the fixed bit) and proves nothing: all that it causes is one ping
//! each [`INTERVAL`].

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quinn::udp::RecvMeta;
use smol::channel::Receiver;
use smol::future::FutureExt;
use wire::Ping;

use crate::connection::Handle;
use crate::wait::pause;

const RECALL: &[u8] = b"\0pinch: recall";
/// How soon after one another a minion answers two of them.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long a master waits between two of them: what minions send because of it is answered no more often.
const PACE: Duration = Duration::from_millis(2);

/// Sends it to each of these addresses. Those that cannot be reached are passed over.
pub(crate) async fn send(socket: &UdpSocket, addresses: &[SocketAddr]) {
    for address in addresses {
        let _ = socket.send_to(RECALL, address);
        pause(PACE).await;
    }
}

/// Returns whether it is among the datagrams that were received.
pub(crate) fn is_in(buffers: &[IoSliceMut<'_>], meta: &[RecvMeta]) -> bool {
    let mut received = buffers.iter().zip(meta);
    received.any(|(buffer, meta)| buffer.get(..meta.len) == Some(RECALL))
}

/// Pings the master after each one, until the connection is lost.
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
            let _ = asked.done().await;
        }
        pause(INTERVAL).await;
    }
}
