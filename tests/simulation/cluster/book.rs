//! [`Book`]: a state that remembers what was done to it, in which order.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::core::Proposal;
use cluster::raft::Machine;
use serde::{Deserialize, Serialize};

use crate::site::{Sabotage, State};
use crate::world;

/// The size of the pieces of a snapshot.
const PIECE: usize = 2048;

/// A command: what a client does to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The number of the operation.
    pub operation: u64,
    pub key: u64,
    /// The new value; `None` only reads.
    pub value: Option<u64>,
}

/// The content of a book.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub control: Option<Vec<u8>>,
    pub registers: BTreeMap<u64, u64>,
    /// The number of times that each operation was applied.
    pub applied: BTreeMap<u64, u64>,
    /// A hash of all commands in their order.
    pub digest: u64,
}

#[derive(Default)]
struct Pages {
    now: Content,
    /// The content on the disk.
    durable: Content,
}

/// A state whose changes reach the disk some time later. It outlives the processes of its machine.
#[derive(Clone, Default)]
pub struct Book {
    pages: Arc<Mutex<Pages>>,
    /// True for a book that does not sync when it must.
    lies: bool,
}

/// A snapshot that is sent or received.
pub struct Pieces {
    bytes: Vec<u8>,
    sent: usize,
}

impl Book {
    pub fn content(&self) -> Content {
        self.pages.lock().unwrap().now.clone()
    }

    /// Returns the bytes that a state changes.
    pub fn command(write: Write) -> Vec<u8> {
        serde_json::to_vec(&write).unwrap()
    }
}

impl State for Book {
    fn new(sabotage: Option<Sabotage>) -> Self {
        Self {
            lies: sabotage == Some(Sabotage::CutBeforeSync),
            ..Self::default()
        }
    }

    fn start(&self) {}

    fn fail(&self) {
        let mut pages = self.pages.lock().unwrap();
        pages.now = pages.durable.clone();
    }
}

impl Machine for Book {
    /// The value of the register before the command.
    type Outcome = Option<u64>;
    type Rows = Pieces;

    fn control(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.pages.lock().unwrap().now.control.clone())
    }

    async fn apply(
        &self,
        commands: Vec<Proposal>,
        control: Vec<u8>,
    ) -> io::Result<Vec<Option<u64>>> {
        if world::below(4) == 0 {
            world::sleep(Duration::from_micros(world::below(2000))).await;
        }
        let mut pages = self.pages.lock().unwrap();
        let mut outcomes = Vec::new();
        for proposal in commands {
            let write: Write = serde_json::from_slice(&proposal.command).unwrap();
            let content = &mut pages.now;
            let before = match write.value {
                Some(value) => content.registers.insert(write.key, value),
                None => content.registers.get(&write.key).copied(),
            };
            *content.applied.entry(write.operation).or_default() += 1;
            content.digest = (content.digest ^ write.operation)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(7);
            outcomes.push(before);
        }
        pages.now.control = Some(control);
        // The system writes it back whenever it likes.
        if world::below(20) == 0 {
            pages.durable = pages.now.clone();
        }
        Ok(outcomes)
    }

    async fn sync(&self) -> io::Result<()> {
        world::sleep(Duration::from_micros(world::below(5000))).await;
        let mut pages = self.pages.lock().unwrap();
        if !self.lies {
            pages.durable = pages.now.clone();
        }
        Ok(())
    }

    fn rows(&self) -> io::Result<Pieces> {
        let bytes = serde_json::to_vec(&self.content()).unwrap();
        Ok(Pieces { bytes, sent: 0 })
    }

    async fn next_piece(&self, rows: &mut Pieces) -> io::Result<Option<Vec<u8>>> {
        let rest = &rows.bytes[rows.sent..];
        let piece = rest[..rest.len().min(PIECE)].to_vec();
        rows.sent += piece.len();
        Ok((!piece.is_empty()).then_some(piece))
    }

    fn receive(&self) -> io::Result<Pieces> {
        Ok(Pieces {
            bytes: Vec::new(),
            sent: 0,
        })
    }

    async fn add_piece(&self, rows: &mut Pieces, piece: Vec<u8>) -> io::Result<()> {
        rows.bytes.extend(piece);
        Ok(())
    }

    fn received_control(&self, rows: &mut Pieces) -> io::Result<Option<Vec<u8>>> {
        let content = serde_json::from_slice::<Content>(&rows.bytes);
        Ok(content.map_err(io::Error::other)?.control)
    }

    async fn install(&self, rows: Pieces) -> io::Result<()> {
        let content: Content = serde_json::from_slice(&rows.bytes).map_err(io::Error::other)?;
        world::sleep(Duration::from_micros(world::below(5000))).await;
        let mut pages = self.pages.lock().unwrap();
        pages.now = content;
        pages.durable = pages.now.clone();
        Ok(())
    }
}
