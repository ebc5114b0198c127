//! The hook: signed HTTP requests of other programs become events `salt/netapi/hook/…`, like those
//! of rest_cherrypy.
//!
//! The answer `{"success": true}` is sent once the event is on the disk, so the reactor never
//! misses an event that its sender believes fired. Only a signature ([`signature`]) authorizes a
//! request; it is checked before the body is parsed ([`body`]). There is no TLS: the listener is
//! for this machine, or for a proxy in front of it.

pub(crate) mod body;
pub(crate) mod path;
mod seen;
mod settings;
mod signature;

use std::sync::Arc;

use value::{Map, jid};

use crate::http::{Answer, Head, Refusal, Request, Server, Service};
use crate::metrics::Metrics;
use crate::store::{Applied, Command, Store, now_ms};

pub(crate) use settings::{Error, Settings, listen};

use seen::{Seen, SignatureUse};
use signature::{RequestSignature, Signatures};

/// The answer to a request whose event is stored, as in Salt.
const SUCCESS: &str = "{\"success\": true}";

/// The hook of a master.
pub(crate) struct Hook {
    store: Store,
    metrics: Arc<Metrics>,
    /// The tags for which a signature of the body alone is enough.
    hub_tags: Vec<String>,
    signatures: Signatures,
    seen: Seen,
}

impl Hook {
    /// Listens as configured. Requests that were accepted before a restart of the master are not
    /// accepted again.
    ///
    /// # Errors
    /// When the event log cannot be read, or the address cannot be bound.
    pub(crate) async fn bind(
        store: Store,
        metrics: Arc<Metrics>,
        settings: Settings,
    ) -> Result<Server<Self>, String> {
        let log = store.clone();
        let (tolerance_s, is_hub) = (settings.tolerance_s, !settings.hub_tags.is_empty());
        let seen = smol::unblock(move || Seen::restored(&log, tolerance_s, is_hub, now_ms()));
        let hook = Self {
            seen: seen.await.map_err(|error| error.to_string())?,
            hub_tags: settings.hub_tags,
            signatures: Signatures::new(&settings.secrets, settings.tolerance_s),
            store,
            metrics,
        };
        let server = Server::bind(settings.address, hook, settings.limits, None).await;
        server.map_err(|error| format!("cannot listen on {}: {error}", settings.address))
    }

    /// Returns the signature in a head and the tag of the event.
    fn signature_and_tag(&self, head: &Head) -> Result<(RequestSignature, String), Refusal> {
        let (shown, tag) = (RequestSignature::from_head(head)?, path::tag(head.path())?);
        if matches!(shown, RequestSignature::Hub { .. }) && !self.hub_tags.contains(&tag) {
            let why =
                "X-Hub-Signature-256 is not accepted at this path: it is not in hook_github_paths";
            return Err(Refusal::new(401, why));
        }
        Ok((shown, tag))
    }
}

/// Stores an event. Waits until the store answers, even when the master is busy: a sender must
/// not believe a stored event lost.
pub(crate) async fn fire(store: &Store, tag: String, data: Map) -> Result<(), Refusal> {
    let kept = store.apply(Command::Event {
        tag,
        data,
        stamp: jid::stamp(),
        at_ms: now_ms(),
        origin: None,
    });
    match kept.await {
        Ok(Applied::Refused(why)) => Err(Refusal::new(413, why.to_string())),
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::later(503, 1, error.to_string())),
    }
}

impl Service for Hook {
    const NAME: &'static str = "hook_listen";

    fn check(&self, head: &Head) -> Result<(), Refusal> {
        path::tag(head.path())?;
        if head.method != "POST" {
            return Err(Refusal::method("POST"));
        }
        self.signature_and_tag(head).map(|_| ())
    }

    async fn answer(&self, request: Request) -> Result<Answer, Refusal> {
        let (head, bytes) = (&request.head, &request.body.bytes);
        let (shown, tag) = self.signature_and_tag(head)?;
        let until = self
            .signatures
            .check(&shown, head, bytes, now_ms() / 1000)?;
        let (text, post) = body::read(head.header("Content-Type"), bytes)?;
        let data = Map::new()
            .with("body", text)
            .with("post", post)
            .with("headers", head.headers.clone());
        match self.seen.take(shown.mac(), until, now_ms() / 1000) {
            SignatureUse::First => {}
            SignatureUse::Again => {
                let why = "the signature was already used: the request is a replay";
                return Err(Refusal::new(409, why));
            }
            SignatureUse::Full => {
                let why = "too many signed requests to remember (131072): lower hook_tolerance or hook_rate_all";
                return Err(Refusal::later(429, 1, why));
            }
        }
        let kept = fire(&self.store, tag, data).await;
        if kept.is_err() {
            self.seen.forget(shown.mac());
        }
        kept.map(|()| Answer::good("application/json", SUCCESS))
    }

    fn answered(&self, status: u16) {
        self.metrics.hook(status);
    }
}

#[cfg(test)]
mod tests;
