//! [`Body`]: the body of a request.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::{Body as _, Incoming};

use super::gate::BodyReservation;
use super::{Gate, Head, Limits, Refusal};

/// A request that has fully arrived.
pub(crate) struct Request {
    pub(crate) head: Head,
    pub(crate) body: Body,
}

/// The body of a request. It holds its reservation of memory until it is dropped.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    _reservation: BodyReservation,
}

fn too_large(limits: &Limits) -> Refusal {
    let why = match limits.body_max {
        0 => "a body is not allowed".to_owned(),
        most => format!(
            "the body is larger than {most} bytes ({})",
            limits.body_option
        ),
    };
    Refusal::new(413, why)
}

/// Reads the body of a request.
///
/// # Errors
/// When it is incomplete or too large, or there is no room for it.
pub(super) async fn read(
    mut incoming: Incoming,
    limits: &Limits,
    gate: &Arc<Gate>,
) -> Result<Body, Refusal> {
    let most = limits.body_max;
    if incoming.size_hint().lower() > most as u64 {
        return Err(too_large(limits));
    }
    let (mut bytes, mut reservation) = (Vec::new(), gate.reserve_body());
    // No deadline: the caller has one.
    while let Some(frame) = poll_fn(|context| Pin::new(&mut incoming).poll_frame(context)).await {
        let frame = frame.map_err(|error| Refusal::new(400, format!("invalid body: {error}")))?;
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > most {
            return Err(too_large(limits));
        }
        reservation.more(data.len())?;
        bytes.extend_from_slice(&data);
    }
    Ok(Body {
        bytes,
        _reservation: reservation,
    })
}
