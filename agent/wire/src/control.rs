//! The frames of a control stream: the hello and its answers, events, and acks of the events that
//! are durable.

use value::{Map, Value};

use crate::kinds::kinds;
use crate::{Id, Secret};

kinds! {
    /// A frame of a control stream.
    enum Control;

    /// The first frame of a session.
    "hello" Hello [MinionToMaster] before {
        /// The oldest protocol version that the sender supports.
        version_min: u64,
        /// The newest protocol version that the sender supports.
        version_max: u64,
        /// The sender's features beyond the version, by name.
        features: Vec<String>,
        /// The id that the minion asks for. The master binds it to the session's key, and never
        /// reads an id from a frame again.
        id: Id,
        /// The role of the sender: `minion`. A session with another role is refused.
        role: String,
        /// The version of the minion's program, for `manage.versions`.
        program: String,
        /// The time at which the minion's program started, in the format of `_stamp`.
        started: String,
        /// The number of the minion's spool. Sequence numbers count within one spool.
        epoch: u64,
        /// The enrolment token, if the minion has one.
        token: Option<Secret>,
        /// Grains for `autosign_grains`. They are the minion's own claims, and are trusted for
        /// nothing else.
        grains: Map,
        /// Other evidence by name: documents that others have signed, of at most `EVIDENCE_MAX`
        /// bytes together. `aws` has the texts `document`, `signature` and `rsa2048`, as the
        /// metadata of an instance return them; `gcp` is an identity token, `azure` the signature
        /// of an attested document.
        evidence: Map,
    }

    /// The acceptance of the session.
    "welcome" Welcome [MasterToMinion] {
        /// The protocol version that both sides use from here on.
        version: u64,
        /// The features that both sides have.
        features: Vec<String>,
        /// The data that the key is bound to: role, grains and pillar that the minion cannot
        /// change.
        bound: Map,
        /// The number of the spool whose events the master knows.
        epoch: u64,
        /// The last sequence number of that spool that is durable on the master. The minion does
        /// not send the events up to it again.
        durable: u64,
        /// The version of the master's program.
        program: String,
        /// The master's time in the format of `_stamp`, for a minion without a clock.
        stamp: String,
    }

    /// The notice that the key waits for acceptance. The session stays open, and the welcome
    /// follows on it.
    "pending" Pending [MasterToMinion] {
        /// The reason why the key is not accepted yet, for the minion's log.
        reason: String,
    }

    /// The refusal of the session, which ends.
    "refused" Refused [MasterToMinion] {
        /// One word for programs: `rejected`, `denied`, `full`, `version`, `id`, `policy`.
        reason: String,
        /// A sentence for the minion's log.
        text: String,
        /// The number of seconds after which the minion may ask again. If it is absent, the minion
        /// uses its own settings.
        retry_s: Option<u64>,
    }

    /// An event. A minion's event has a sequence number and is safe once that is acknowledged. An
    /// event of a job or a command has none.
    "event" Event [MinionToMaster JobToMinion ClientToMinion ClientToMaster] {
        /// The position in the sender's spool, from 1; 0 for an event that is not acknowledged.
        sequence: u64,
        /// The tag of the event.
        tag: String,
        /// The time of the event, in the format of `_stamp`.
        stamp: String,
        /// The data of the event.
        data: Map,
    }

    /// The acknowledgement that all events up to this one are durable.
    "ack" Ack [MasterToMinion] {
        /// The sequence number of the last one.
        sequence: u64,
    }

    /// The masters of the cluster that the sender belongs to. A master sends it after the welcome,
    /// and again when the list changes, to a minion whose hello has the feature [`crate::MASTERS`].
    "masters" Masters [MasterToMinion] {
        /// A number that grows with each change of the list, also when the cluster is restored from
        /// a backup.
        index: u64,
        /// All masters, as maps: `name`, `address` (`host:port`, where minions connect) and `finger`
        /// (the fingerprint of the master's key, as `master_finger` has it).
        masters: Vec<Value>,
    }

    /// The notice that the sender is about to close the session. Exchanges in progress may finish.
    "bye" Bye [MinionToMaster MasterToMinion] before {
        /// The reason, for the log of the other side.
        reason: String,
        /// The number of seconds after which the receiver may reconnect. If it is absent, the
        /// receiver uses its own settings.
        retry_s: Option<u64>,
    }
}

impl Hello {
    /// Returns whether the sender has a feature.
    #[must_use]
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|own| own == feature)
    }
}
