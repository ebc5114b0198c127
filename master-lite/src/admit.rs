//! The admission of peers: each peer connects with a key that it has proved, and waits until the
//! key is accepted or refused.

use std::sync::Arc;
use std::time::Duration;

use link::wait::pause;
use link::{Link, Peer, PublicKey};
use smol::future::FutureExt;
use smol::lock::{Mutex, MutexGuard};
use state::opts::Opts;
use value::{Map, Value, channel, jid, log};
use wire::{Id, Welcome, tag};

use crate::events::Events;
use crate::jobs::minions::{Minion, Minions};
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::refusals::Refusals;
use crate::store::{self, Applied, Claim, Command, KeyState, Store, now_ms};

mod autosign;
mod deleted;
pub(crate) mod expire;
mod identity;
mod policy;
pub(crate) mod token;

use policy::{Action, Evidence, Rule};
pub(crate) use policy::{Policy, bound, milliseconds};

/// The decision that is sent to a peer.
enum Decision {
    In(Map),
    /// The key waits, for this reason if the peer may know one.
    Wait(Option<String>),
    No {
        act: &'static str,
        reason: &'static str,
        text: String,
    },
}

/// The terms of a key's acceptance.
struct Accept {
    /// The commands that count the acceptance, applied in the same change.
    counted: Vec<Command>,
    bound: Map,
    why: String,
    /// True if the peer has proved something that no other peer can. Its key then replaces another
    /// key of its id that is not accepted.
    is_proved: bool,
}

/// The judgement on a key that waits.
enum Judged {
    Accept(Accept),
    Reject(String),
    /// The key waits, for this reason if the peer may know one.
    Wait(Option<String>),
}

/// The interval at which a waiting key is judged again, since files and rules may accept it by
/// then.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// The number of seconds after which a refused minion may connect again. A rejected key is seldom
/// accepted within a minute.
const ASK_AGAIN_S: u64 = 60;
/// The same after a decision that failed on this master: it may only wait for a new leader.
const ASK_SOON_S: u64 = 10;

/// Returns the number of seconds after which a peer that is refused for this reason may ask again.
fn ask_again(reason: &str) -> u64 {
    match reason {
        "failed" => ASK_SOON_S,
        _ => ASK_AGAIN_S,
    }
}

/// Returns the maximum number of keys that may wait for a decision: in all, and from one address.
pub(crate) fn pending_limits(opts: &Opts) -> (usize, usize) {
    let option = |name: &str, default: usize| {
        let number = opts.int(name);
        number.map_or(default, |number| usize::try_from(number).unwrap_or(default))
    };
    (
        option("pending_keys_max", 1000),
        option("pending_keys_per_address", 100),
    )
}

/// Decides on the keys of peers.
pub(crate) struct Admission {
    opts: Arc<Opts>,
    store: Store,
    events: Events,
    refusals: Arc<Refusals>,
    metrics: Arc<Metrics>,
    minions: Minions,
    keys: Keys,
    policy: Policy,
    /// Locked during a decision on a key that is counted, so that each use is counted once.
    enrolling: Mutex<()>,
}

/// An accepted peer, and its connection.
pub(crate) struct Admitted {
    pub(crate) link: Link,
    pub(crate) minion: Minion,
    /// True for a call on a machine whose daemon does not run.
    pub(crate) is_call: bool,
}

impl Admission {
    pub(crate) fn new(
        opts: &Arc<Opts>,
        policy: Policy,
        events: &Events,
        refusals: &Arc<Refusals>,
        metrics: &Arc<Metrics>,
        minions: &Minions,
        keys: Keys,
    ) -> Self {
        Self {
            opts: opts.clone(),
            store: keys.store().clone(),
            events: events.clone(),
            refusals: refusals.clone(),
            metrics: metrics.clone(),
            minions: minions.clone(),
            keys,
            policy,
            enrolling: Mutex::new(()),
        }
    }

    /// Returns the command that offers the key of a peer.
    fn offer(&self, evidence: &Evidence, claim: Claim) -> Command {
        let limits = pending_limits(&self.opts);
        Command::KeyOffered {
            id: evidence.id.clone(),
            key: evidence.key,
            at_ms: now_ms(),
            from: Some(link::customer(evidence.address).to_string()),
            pending_max: limits.0 as u64,
            pending_per_address: limits.1 as u64,
            claim,
        }
    }

    /// Decides on a peer, and returns it once it is accepted. Returns `None` if it is refused, or
    /// disconnects before.
    pub(crate) async fn admit(self: &Arc<Self>, mut peer: Peer) -> Option<Admitted> {
        let (id, key) = (peer.hello().id.clone(), peer.key());
        let evidence = Evidence {
            id: id.clone(),
            key,
            address: peer.address().ip(),
            grains: peer.hello().grains.clone(),
            token: peer.hello().token.clone(),
            documents: identity::Documents::new(&peer.hello().evidence),
        };
        let mut waits = false;
        loop {
            let changed = self.keys.pending().wait(key);
            match self.decide(&evidence, waits).await {
                Decision::In(bound) => {
                    self.auth(&id, &key, "accept").await;
                    return self.let_in(peer, bound).await;
                }
                Decision::No { act, reason, text } => {
                    let why = format!("{} is refused: {text}", peer.who());
                    self.refusals.log(id.as_str(), why);
                    self.auth(&id, &key, act).await;
                    peer.refuse(reason, &text, Some(ask_again(reason)));
                    return None;
                }
                Decision::Wait(_) if waits => {}
                Decision::Wait(why) => {
                    waits = true;
                    self.auth(&id, &key, "pend").await;
                    let accept = "an administrator has to accept the key";
                    let text = match why {
                        Some(why) => format!("{why}; {accept}"),
                        None => accept.to_owned(),
                    };
                    if let Err(error) = peer.pend(&text).await {
                        self.refusals.log(id.as_str(), error);
                        peer.refuse("full", "too many keys are pending", Some(ASK_AGAIN_S));
                        return None;
                    }
                }
            }
            let gone = async { Some(peer.watch().await) };
            let decided = async {
                // No deadline: a key waits until it is decided on or its minion disconnects.
                channel::or_closed(changed.recv().await);
                None
            };
            let again = async {
                pause(LOOK_AGAIN).await;
                None
            };
            if let Some(gone) = decided.or(again).or(gone).await {
                log::info(format_args!("A pending minion has disconnected: {gone}"));
                return None;
            }
        }
    }

    /// Decides on a key. `again` is true if the peer already waits for a decision.
    async fn decide(self: &Arc<Self>, evidence: &Evidence, again: bool) -> Decision {
        let (id, key) = (&evidence.id, evidence.key);
        let no = |act, reason, text: String| Decision::No { act, reason, text };
        match self.is_deleted(id, key).await {
            Ok(None) => {}
            Ok(Some(why)) => return no("reject", "rejected", why),
            Err(error) => return no("error", "failed", error.to_string()),
        }
        // A key is judged before it is offered if its id has no key yet, so that the store takes
        // offer and acceptance as one change. A key is also judged first if the id has another key
        // that is not accepted, since this one may have proof.
        let claim = match self.store.key(id) {
            Ok(None) if again => {
                let why = "the pending key was deleted, or displaced by newer pending keys";
                return no("reject", "rejected", why.to_owned());
            }
            Ok(None) => Claim::New,
            Ok(Some(other)) if other.key != key && other.state != KeyState::Accepted => {
                Claim::Proved
            }
            _ => Claim::Nothing,
        };
        if claim != Claim::Nothing
            && let Some(decision) = self.enrol(evidence, claim).await
        {
            return decision;
        }
        let known = match self.offered(evidence).await {
            Ok(known) => known,
            Err(decision) => return decision,
        };
        match known.as_ref().map(|known| known.state) {
            Some(KeyState::Accepted) => {
                Decision::In(known.map(|known| known.bound).unwrap_or_default())
            }
            Some(KeyState::Rejected) => no(
                "reject",
                "rejected",
                format!("the key of {id} was rejected"),
            ),
            Some(KeyState::Denied) => no(
                "denied",
                "denied",
                format!("{id} has another key on this master: delete that key to accept this one"),
            ),
            Some(KeyState::Pending) => self.judge(evidence, again).await,
            None => Decision::Wait(None),
        }
    }

    /// Decides on a pending key by the configuration.
    async fn judge(self: &Arc<Self>, evidence: &Evidence, again: bool) -> Decision {
        let _turn = self.turn_of(evidence).await;
        match self.judgement(evidence, again).await {
            Judged::Wait(why) => Decision::Wait(why),
            Judged::Reject(why) => self.reject_now(evidence, &why).await,
            Judged::Accept(accept) => self.accept_now(evidence, accept).await,
        }
    }

    /// Accepts a key whose id has no key, or that has proof while the id's other key is not
    /// accepted. The store takes the offer and the acceptance as one change. Returns `None` in
    /// every other case: the caller then offers the key and decides on it.
    async fn enrol(self: &Arc<Self>, evidence: &Evidence, claim: Claim) -> Option<Decision> {
        let _turn = self.turn_of(evidence).await;
        let Judged::Accept(mut accept) = self.judgement(evidence, claim == Claim::New).await else {
            return None;
        };
        if claim == Claim::Proved && !accept.is_proved {
            return None;
        }
        accept.counted.insert(0, self.offer(evidence, claim));
        let decision = self.accept_now(evidence, accept).await;
        matches!(decision, Decision::In(_)).then_some(decision)
    }

    /// Takes the lock for acceptances that are counted, so that they are counted one after the
    /// other. Returns `None` if nothing is counted: the peer shows no token, and there is no
    /// `autosign_policy`.
    async fn turn_of(&self, evidence: &Evidence) -> Option<MutexGuard<'_, ()>> {
        let may_count = evidence.token.is_some() || !self.policy.is_empty();
        match may_count {
            true => Some(self.enrolling.lock().await),
            false => None,
        }
    }

    async fn judgement(self: &Arc<Self>, evidence: &Evidence, again: bool) -> Judged {
        let (admission, peer) = (self.clone(), evidence.clone());
        smol::unblock(move || {
            let judged = admission.judged(&peer, again);
            log_judgement(&peer.name(), &judged);
            judged
        })
        .await
    }

    /// Judges a key in Salt's order: rejection comes first. It reads files.
    fn judged(&self, peer: &Evidence, again: bool) -> Judged {
        if autosign::rejects(&self.opts, &peer.id) {
            return Judged::Reject("by autoreject_file".to_owned());
        }
        let mut problem = None;
        let token = peer.token.as_ref().and_then(|shown| {
            let good = token::find_usable(&self.store, shown, &peer.id, now_ms());
            good.map_err(|why| {
                if !again {
                    self.refusals.log(&peer.name(), &why);
                }
                problem = Some(format!("the token was not accepted: {why}"));
            })
            .ok()
        });
        if let Some(judged) = self.judged_by_policy(peer, token.as_ref(), again) {
            return judged;
        }
        if let Some(option) = autosign::accepts(&self.opts, &peer.id, &peer.grains) {
            return Judged::Accept(Accept {
                counted: Vec::new(),
                bound: Map::new(),
                why: format!("by {option}"),
                is_proved: false,
            });
        }
        match token {
            // If `autosign_policy` has rules, they alone decide what a token is good for.
            Some(token) if self.policy.is_empty() => Judged::Accept(Accept {
                counted: vec![token.used()],
                bound: token.bound(),
                why: "by its token".to_owned(),
                is_proved: true,
            }),
            Some(_) => Judged::Wait(Some("no rule of autosign_policy accepts it".to_owned())),
            None => Judged::Wait(problem),
        }
    }

    /// Returns the judgement of the first rule that holds.
    fn judged_by_policy(
        &self,
        peer: &Evidence,
        token: Option<&token::UsableToken>,
        again: bool,
    ) -> Option<Judged> {
        let passed_over = |rule: &Rule, why: String| {
            if !again {
                let why = format!(
                    "the rule {} of autosign_policy does not apply: {why}",
                    rule.name
                );
                self.refusals.log(&peer.name(), why);
            }
            None
        };
        let mut holding = self.policy.holding(peer, token.is_some());
        holding.find_map(|rule| {
            let judged = self.judged_by(rule, peer, token);
            judged.unwrap_or_else(|why| passed_over(rule, why))
        })
    }

    /// Returns the judgement of a rule whose plain conditions hold, or `None` if the rule needs a
    /// signed document and the peer shows none. Returns an error if the document, an earlier use of
    /// the instance or the rule's count forbids acceptance.
    fn judged_by(
        &self,
        rule: &Rule,
        peer: &Evidence,
        token: Option<&token::UsableToken>,
    ) -> Result<Option<Judged>, String> {
        let proven = match &rule.identity {
            Some(wanted) if peer.documents.has(wanted) => Some(wanted.check(peer, now_ms())?),
            Some(_) => return Ok(None),
            None => None,
        };
        let why = format!("by the rule {} of autosign_policy", rule.name);
        match rule.action {
            Action::Pend => return Ok(Some(Judged::Wait(Some(format!("it waits {why}"))))),
            Action::Reject => return Ok(Some(Judged::Reject(why))),
            Action::Accept => {}
        }
        let (mut counted, mut bound) = (Vec::new(), Map::new());
        if let Some(max) = rule.max {
            let count = token::counted(&self.store, &rule.name, max, now_ms())?;
            counted.push(count.ok_or("it has reached its `max`")?);
        }
        if let Some(token) = token.filter(|_| rule.token) {
            counted.push(token.used());
            bound = token.bound();
        }
        bound.update(rule.bound.clone());
        if let Some(proven) = &proven {
            counted.push(identity::used(&self.store, proven, peer, now_ms())?);
            if rule.binds_identity {
                identity::bind(&mut bound, proven);
            }
        }
        Ok(Some(Judged::Accept(Accept {
            counted,
            bound,
            why,
            is_proved: rule.proves(),
        })))
    }

    /// Returns the stored row of a key that was shown under an id. A key that is shown for the
    /// first time is stored.
    async fn offered(
        self: &Arc<Self>,
        evidence: &Evidence,
    ) -> Result<Option<store::Key>, Decision> {
        let (id, key) = (&evidence.id, evidence.key);
        let no = |act, reason, text| Decision::No { act, reason, text };
        let failed = |text| no("error", "failed", text);
        self.keys.look_at_files().await;
        let known = self
            .store
            .key(id)
            .map_err(|error| failed(error.to_string()))?;
        if let Some(known) = known
            && known.key == key
        {
            return Ok(Some(known));
        }
        let state = match self
            .keys
            .change(self.offer(evidence, Claim::Nothing))
            .await
            .map_err(failed)?
        {
            Applied::Refused(refusal) => return Err(no("full", "full", refusal.to_string())),
            Applied::Key { state, .. } => state,
            Applied::Displaced { .. } => Some(KeyState::Pending),
            _ => None,
        };
        Ok(state.map(|state| store::Key {
            id: id.clone(),
            key,
            state,
            at_ms: now_ms(),
            bound: Map::new(),
            from: None,
        }))
    }

    /// Accepts a key, in one change with the commands that count the acceptance.
    async fn accept_now(self: &Arc<Self>, evidence: &Evidence, accept: Accept) -> Decision {
        let Accept {
            counted: mut steps,
            bound,
            why,
            ..
        } = accept;
        steps.push(Command::KeyAccepted {
            id: evidence.id.clone(),
            key: evidence.key,
            at_ms: now_ms(),
            bound: bound.clone(),
            replace: false,
        });
        match self.keys.change(Command::All(steps)).await {
            Ok(applied) if !applied.is_void() => {
                let id = &evidence.id;
                log::info(format_args!("The key of {id} is accepted {why}"));
                Decision::In(bound)
            }
            Ok(_) => Decision::Wait(None),
            Err(text) => Decision::No {
                act: "error",
                reason: "failed",
                text,
            },
        }
    }

    async fn reject_now(self: &Arc<Self>, evidence: &Evidence, why: &str) -> Decision {
        let rejected = self.keys.change(Command::KeyRejected {
            id: evidence.id.clone(),
            key: evidence.key,
            at_ms: now_ms(),
        });
        let text = match rejected.await {
            Ok(_) => format!("the key of {} is rejected {why}", evidence.id),
            Err(error) => error,
        };
        Decision::No {
            act: "reject",
            reason: "rejected",
            text,
        }
    }

    /// Counts a decision, and fires `salt/auth` unless `auth_events` is off.
    async fn auth(&self, id: &Id, key: &PublicKey, act: &str) {
        self.metrics.auth(act);
        if !self.opts.get("auth_events").is_none_or(Value::is_true) {
            return;
        }
        let is_good = !matches!(act, "reject" | "denied" | "full" | "error");
        let data = Map::new()
            .with("result", is_good)
            .with("act", act)
            .with("id", id.as_str())
            .with("pub", key.pem());
        self.events.fire(tag::AUTH, data).await;
    }

    /// Welcomes an accepted peer.
    async fn let_in(&self, peer: Peer, bound: Map) -> Option<Admitted> {
        let (id, key) = (peer.hello().id.clone(), peer.key());
        let epoch = peer.hello().epoch;
        let is_call = peer.hello().features.iter().any(|name| name == wire::CALL);
        let durable = match self.store.durable(&id, &key, epoch) {
            Ok(durable) => durable,
            Err(error) => {
                log::error(format_args!("{error}"));
                let text = "the master cannot read its store";
                peer.refuse("failed", text, Some(ASK_AGAIN_S));
                return None;
            }
        };
        let welcome = Welcome {
            version: 0,
            features: Vec::new(),
            bound: bound.clone(),
            epoch,
            durable,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            stamp: jid::stamp(),
        };
        let link = peer.accept(welcome).await;
        let link = link.inspect_err(|error| log::info(format_args!("{error}")));
        let minion = Minion {
            id,
            key,
            epoch,
            bound,
        };
        Some(Admitted {
            link: link.ok()?,
            minion,
            is_call,
        })
    }
}

/// Logs what was decided about a key, and by which rule.
fn log_judgement(name: &str, judged: &Judged) {
    let decision = match judged {
        Judged::Accept(accept) => format!("accepted {}", accept.why),
        Judged::Reject(why) => format!("rejected {why}"),
        Judged::Wait(_) => "left pending, because no rule accepts it".to_owned(),
    };
    log::debug(format_args!("the key of {name} is {decision}"));
}

#[cfg(test)]
mod tests;
