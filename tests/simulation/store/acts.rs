//! [`Act`]: what clients do, as commands for the store and as the rules by which their answers are
//! checked. The rules are written here a second time, without the store's rows.

use std::collections::BTreeSet;

use link::PublicKey;
use value::{Map, Value};
use wire::Id;

use crate::check::{Operation, Register};
use crate::store::{Applied, Claim, Command, KeyState, RunOwner, Store};

/// The number of times that a token may be used.
pub(crate) const USES: u64 = 3;
/// The number by which that of an orchestration's owner grows with each claim.
pub(crate) const CLAIM: u64 = 10;
/// The prefix of the tags of the events that show which operations were done.
pub(crate) const MARK: &str = "simulated/";

/// Something that clients read and change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    Minion(u64),
    Token(u64),
    Job(u64),
    Run(u64),
    Ring(u64),
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Offer {
        key: u8,
    },
    Accept {
        key: u8,
    },
    Reject {
        key: u8,
    },
    Delete {
        key: u8,
    },
    /// A token is created.
    Create,
    /// A new minion is accepted with a token, after a number of uses.
    Enrol {
        used: u64,
    },
    /// A job is published, of the function of this number.
    Publish {
        fun: u64,
    },
    /// A master begins an orchestration.
    Begin {
        owner: u64,
    },
    Copy {
        owner: u64,
    },
    Step {
        owner: u64,
    },
    Claim {
        owner: u64,
        expected: u64,
    },
    End {
        owner: u64,
    },
    RingCreate,
    RingDestroy,
    /// The content of a store is read.
    Look(Content),
}

/// An act on a thing.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) thing: Thing,
    pub(crate) act: Act,
}

/// The content of a thing. Which fields are used depends on the thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Content {
    /// A minion's key.
    key: Option<(u8, KeyState)>,
    /// A minion's denied keys.
    denied: BTreeSet<u8>,
    /// The number of uses of a token, the function of a job, the owner of an orchestration, or 1 for a
    /// ring.
    number: Option<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Done,
    /// The state of a key, and the one before it.
    Key(Option<KeyState>, Option<KeyState>),
    Refused,
    Unexpected(String),
}

impl Content {
    fn state(&self, key: u8) -> Option<KeyState> {
        match self.key {
            Some((known, state)) if known == key => Some(state),
            _ => self.denied.contains(&key).then_some(KeyState::Denied),
        }
    }

    fn put(&mut self, key: u8, state: KeyState) -> Answer {
        let before = self.state(key);
        self.denied.remove(&key);
        self.key = Some((key, state));
        Answer::Key(Some(state), before)
    }

    fn other(&self, key: u8) -> Option<KeyState> {
        let other = self.key.filter(|(known, _)| *known != key);
        other.map(|(_, state)| state)
    }

    fn offer(&mut self, key: u8) -> Answer {
        let before = self.state(key);
        match self.key {
            None => self.put(key, KeyState::Pending),
            Some((known, state)) if known == key => Answer::Key(Some(state), before),
            Some(_) => {
                self.denied.insert(key);
                Answer::Key(Some(KeyState::Denied), before)
            }
        }
    }

    fn delete(&mut self, key: u8) -> Answer {
        let before = self.state(key);
        if before.is_none() {
            return Answer::Refused;
        }
        self.key = self.key.filter(|(known, _)| *known != key);
        self.denied.remove(&key);
        Answer::Key(None, before)
    }

    /// Changes the number if it is the expected one.
    fn change(&mut self, expected: Option<u64>, new: Option<u64>) -> Answer {
        if self.number != expected {
            return Answer::Refused;
        }
        self.number = new;
        Answer::Done
    }

    fn act(&mut self, act: &Act) -> Answer {
        match act {
            Act::Offer { key } => self.offer(*key),
            Act::Accept { key } => match (self.state(*key), self.other(*key)) {
                (_, Some(KeyState::Accepted)) | (None, _) => Answer::Refused,
                _ => self.put(*key, KeyState::Accepted),
            },
            Act::Reject { key } => match (self.state(*key), self.other(*key)) {
                (_, Some(_)) | (None, _) => Answer::Refused,
                _ => self.put(*key, KeyState::Rejected),
            },
            Act::Delete { key } => self.delete(*key),
            Act::Create => self.change(None, Some(0)),
            Act::Enrol { used } => self.change(Some(*used), Some(used + 1)),
            Act::Publish { fun } => {
                let before = self.number.or(Some(*fun));
                self.number = before;
                self.change(Some(*fun), Some(*fun))
            }
            Act::Begin { owner } => {
                let before = self.number.or(Some(*owner));
                self.number = before;
                self.change(Some(*owner), Some(*owner))
            }
            Act::Copy { owner } | Act::Step { owner } => self.change(Some(*owner), Some(*owner)),
            Act::Claim { owner, expected } => self.change(Some(*expected), Some(*owner)),
            Act::End { owner } => self.change(Some(*owner), None),
            Act::RingCreate => self.change(None, Some(1)),
            Act::RingDestroy => self.change(Some(1), None),
            Act::Look(content) if self == content => Answer::Done,
            Act::Look(_) => Answer::Refused,
        }
    }
}

impl Register for Call {
    type State = Content;
    type Call = Self;
    type Answer = Answer;

    fn step(before: &Content, call: &Self) -> (Content, Answer) {
        let mut after = before.clone();
        let answer = after.act(&call.act);
        (after, answer)
    }
}

/// Returns the answer to an act in the result of its command.
pub(crate) fn answer(applied: &Applied) -> Answer {
    let Applied::All(all) = applied else {
        return Answer::Unexpected(format!("{applied:?}"));
    };
    match all.last() {
        Some(Applied::Done) => Answer::Done,
        Some(Applied::Key { state, before }) if all.len() == 2 => Answer::Key(*state, *before),
        // A minion that was accepted with a token.
        Some(Applied::Key { .. }) => Answer::Done,
        Some(Applied::Refused(_)) => Answer::Refused,
        other => Answer::Unexpected(format!("{other:?}")),
    }
}

pub(crate) fn id(text: &str) -> Id {
    text.parse().unwrap()
}

/// Returns a key. Those of minions that clients enrol have higher numbers.
pub(crate) fn key(number: u64) -> PublicKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(number + 1).to_be_bytes());
    PublicKey::from_bytes(bytes)
}

fn minion(number: u64) -> Id {
    id(&format!("m{number}"))
}

fn jid(number: u64) -> String {
    format!("2026112700000000{number:04}")
}

pub(crate) fn token(number: u64) -> String {
    format!("token/{number}")
}

fn token_row(used: u64) -> Map {
    Map::new().with("uses", USES).with("used", used)
}

/// Returns an event that shows that an operation was done.
pub(crate) fn mark(number: u64, at_ms: u64) -> Command {
    event(format!("{MARK}{number}"), Map::new(), at_ms)
}

/// Returns an event of a master.
pub(crate) fn event(tag: String, data: Map, at_ms: u64) -> Command {
    Command::Event {
        tag,
        data,
        stamp: String::new(),
        at_ms,
        origin: None,
    }
}

/// Returns the owner of a number: that of a master, and [`CLAIM`] for each one before it.
fn owner(number: u64) -> RunOwner {
    RunOwner {
        node: number % CLAIM,
        boot: 1,
        claim: number / CLAIM,
    }
}

impl Call {
    /// Returns the command of an operation, at the time of the master that gets it.
    pub(crate) fn command(&self, number: u64, at_ms: u64) -> Command {
        let mut all = vec![mark(number, at_ms)];
        match &self.thing {
            Thing::Minion(minion) => all.push(self.of_minion(*minion, at_ms)),
            Thing::Token(token) => all.extend(self.of_token(*token, number, at_ms)),
            Thing::Job(job) => all.push(self.of_job(*job, number, at_ms)),
            Thing::Run(run) => all.push(self.of_run(*run, number)),
            Thing::Ring(ring) => all.push(self.of_ring(*ring)),
        }
        Command::All(all)
    }

    fn of_minion(&self, number: u64, at_ms: u64) -> Command {
        let id = minion(number);
        match self.act {
            Act::Offer { key: of } => offer(id, key(of.into()), at_ms, Claim::Nothing),
            Act::Accept { key: of } => Command::KeyAccepted {
                id,
                key: key(of.into()),
                at_ms,
                bound: Map::new(),
                replace: false,
            },
            Act::Reject { key: of } => Command::KeyRejected {
                id,
                key: key(of.into()),
                at_ms,
            },
            Act::Delete { key: of } => Command::KeyDeleted {
                id,
                key: key(of.into()),
                at_ms,
            },
            _ => unreachable!("{self:?}"),
        }
    }

    fn of_token(&self, number: u64, operation: u64, at_ms: u64) -> Vec<Command> {
        let name = token(number);
        let Act::Enrol { used } = self.act else {
            return vec![Command::Token {
                name,
                data: Some(token_row(0)),
                expected: None,
            }];
        };
        let (id, key) = (enrolled(operation), key(1000 + operation));
        vec![
            Command::Token {
                name: name.clone(),
                data: Some(token_row(used + 1)),
                expected: Some(token_row(used)),
            },
            offer(id.clone(), key, at_ms, Claim::New),
            Command::KeyAccepted {
                id,
                key,
                at_ms,
                bound: Map::new().with("token", name),
                replace: false,
            },
        ]
    }

    fn of_job(&self, number: u64, operation: u64, at_ms: u64) -> Command {
        let Act::Publish { fun } = self.act else {
            unreachable!("{self:?}");
        };
        Command::Job {
            jid: jid(number),
            load: Map::new().with("fun", fun).with("user", "root"),
            minions: vec![minion(operation % 3)],
            at_ms,
        }
    }

    fn of_run(&self, number: u64, operation: u64) -> Command {
        let jid = jid(5000 + number);
        match self.act {
            Act::Begin { owner: of } => Command::RunBegun {
                jid,
                owner: owner(of),
                lines: format!("{operation}\n"),
            },
            Act::Copy { owner: of } => Command::RunCopied {
                jid,
                owner: owner(of),
                offset: 0,
                lines: format!("{operation}\n"),
            },
            Act::Step { owner: of } => Command::RunStep {
                jid,
                owner: owner(of),
                step: "step".to_owned(),
                job: operation.to_string(),
            },
            Act::Claim {
                owner: of,
                expected,
            } => Command::RunClaimed {
                jid,
                owner: owner(of),
                expected: owner(expected),
            },
            Act::End { owner: of } => Command::RunEnded {
                jid,
                owner: owner(of),
            },
            _ => unreachable!("{self:?}"),
        }
    }

    fn of_ring(&self, number: u64) -> Command {
        let name = format!("ring{number}");
        match self.act {
            Act::RingDestroy => Command::RingDestroyed { name },
            _ => Command::RingCreated {
                name,
                voters: vec!["m1".to_owned(), "m2".to_owned()],
            },
        }
    }
}

/// Returns the id of the minion that an operation accepts with a token.
pub(crate) fn enrolled(operation: u64) -> Id {
    id(&format!("e{operation}"))
}

pub(crate) fn offer(id: Id, key: PublicKey, at_ms: u64, claim: Claim) -> Command {
    Command::KeyOffered {
        id,
        key,
        at_ms,
        from: None,
        pending_max: 1000,
        pending_per_address: 1000,
        claim,
    }
}

/// Returns a number in a row.
pub(crate) fn number(row: &Map, name: &str) -> Option<u64> {
    u64::try_from(row.get(name).and_then(Value::as_int)?).ok()
}

/// Reads the content of a thing in a store.
pub(crate) fn content(store: &Store, thing: &Thing) -> Content {
    let mut content = Content::default();
    let of = |key: &PublicKey| key.bytes()[7] - 1;
    match thing {
        Thing::Minion(number) => {
            let known = store.key(&minion(*number)).unwrap();
            content.key = known.map(|known| (of(&known.key), known.state));
            let denied = store.denied(&minion(*number)).unwrap();
            content.denied = denied.iter().map(|known| of(&known.key)).collect();
        }
        Thing::Token(name) => {
            let row = store.token(&token(*name)).unwrap();
            content.number = row.map(|row| number(&row, "used").unwrap());
        }
        Thing::Job(name) => {
            let job = store.job(&jid(*name)).unwrap();
            content.number = job.map(|job| number(&job.load, "fun").unwrap());
        }
        Thing::Run(name) => {
            let (jid, runs) = (jid(5000 + name), store.runs().unwrap());
            let run = runs.into_iter().find(|(known, _)| *known == jid);
            content.number = run.map(|(_, owner)| owner.node + owner.claim * CLAIM);
        }
        Thing::Ring(name) => {
            let rings = store.rings().unwrap();
            let is_active = rings.active(&format!("ring{name}")).is_ok();
            content.number = is_active.then_some(1);
        }
    }
    content
}

/// The number of a thing in a store.
pub(crate) fn number_of(store: &Store, thing: &Thing) -> Option<u64> {
    content(store, thing).number
}

/// An operation of a client.
pub(crate) type Known = Operation<Call>;
