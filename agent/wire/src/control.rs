//! The frames of a control stream: who one is, whether one is let in, events and how far they are safe.

use value::Map;

use crate::kinds::kinds;
use crate::{Id, Secret};

kinds! {
    /// A frame of a control stream.
    enum Control;

    /// The first frame of a session.
    "hello" Hello [MinionToMaster] before {
        /// The oldest protocol version that the sender speaks.
        version_min: u64,
        /// The newest one.
        version_max: u64,
        /// What it can do beyond the version, by name.
        features: Vec<String>,
        /// What it wants to be called. The master binds it to the session's key, and never reads an id again.
        id: Id,
        /// `minion`. A session that says another word is refused.
        role: String,
        /// Its program's version, for `manage.versions`.
        program: String,
        /// Since when it runs, as `_stamp` has it.
        started: String,
        /// The number of its spool: sequence numbers count within it.
        epoch: u64,
        /// What an enrolment token proves.
        token: Option<Secret>,
        /// Grains for `autosign_grains`: what the minion says of itself, believed by nobody for anything else.
        grains: Map,
        /// Other evidence by name: documents that others signed, of `EVIDENCE_MAX` bytes together. `aws` has texts `document`, `signature`
        /// and `rsa2048` as the metadata of an instance give them; `gcp` is an identity token, `azure` an attested document's signature.
        evidence: Map,
    }

    /// The session is let in.
    "welcome" Welcome [MasterToMinion] {
        /// The protocol version that both speak from here on.
        version: u64,
        /// The features that both have.
        features: Vec<String>,
        /// What the key is bound to: role, grains and pillar that the minion cannot change.
        bound: Map,
        /// The spool of which the master knows events.
        epoch: u64,
        /// The last sequence number of that spool that is durable on the master: what it covers is not sent again.
        durable: u64,
        /// The master's program version.
        program: String,
        /// The master's time as `_stamp` has it, for who has no clock.
        stamp: String,
    }

    /// The key waits for acceptance. The session stays open, and the welcome will come on it.
    "pending" Pending [MasterToMinion] {
        /// Why it is not accepted yet, for the minion's log.
        reason: String,
    }

    /// The session is not let in, and ends.
    "refused" Refused [MasterToMinion] {
        /// One word for programs: `rejected`, `denied`, `full`, `version`, `id`, `policy`.
        reason: String,
        /// A sentence for the minion's log.
        text: String,
        /// After how many seconds it may ask again; left out, as its own settings say.
        retry_s: Option<u64>,
    }

    /// An event. From a minion it has a sequence number and is safe when that is acked; from a job or a command it has none.
    "event" Event [MinionToMaster JobToMinion ClientToMinion ClientToMaster] {
        /// Its place in the sender's spool, from 1; 0 for an event that nobody waits for.
        sequence: u64,
        /// Its tag.
        tag: String,
        /// When it was made, as `_stamp` has it.
        stamp: String,
        /// What it says.
        data: Map,
    }

    /// All events up to this one are durable.
    "ack" Ack [MasterToMinion] {
        /// The last one.
        sequence: u64,
    }

    /// The sender will close the session; what is under way may end.
    "bye" Bye [MinionToMaster MasterToMinion] before {
        /// Why, for the other's log.
        reason: String,
        /// In how many seconds to come back; left out, as one's own settings say.
        retry_s: Option<u64>,
    }
}
