//! Clients that write and read registers, and what must hold in the end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cluster::raft::NotAgreed;

use crate::book::{Book, Write};
use crate::check::{self, Operation, Register};
use crate::site::{self, Masters, Shared, Story};
use crate::world::{self, Process};

const CLIENTS: u64 = 4;
const KEYS: u64 = 3;

/// The registers of a book.
struct Value;

impl Register for Value {
    type State = Option<u64>;
    type Call = Write;
    /// The value before the operation.
    type Answer = Option<u64>;

    fn step(before: &Option<u64>, write: &Write) -> (Option<u64>, Option<u64>) {
        (write.value.or(*before), *before)
    }
}

/// The results of the clients.
#[derive(Default)]
struct Seen {
    /// The operations whose result is known, or may be one.
    history: Vec<Operation<Value>>,
    /// The operations that were certainly not done.
    refused: BTreeSet<u64>,
    operations: u64,
}

/// Clients of a cluster whose state is a book.
#[derive(Clone)]
pub struct Registers {
    site: Shared<Book>,
    seen: Arc<Mutex<Seen>>,
}

impl Registers {
    /// Runs operations one after the other until the story is over.
    async fn client(self) {
        loop {
            world::sleep(Duration::from_millis(world::below(60))).await;
            if self.site.lock().unwrap().is_over {
                return;
            }
            let operation = self.number();
            let value = (world::below(3) > 0).then_some(operation);
            let write = Write {
                operation,
                key: world::below(KEYS),
                value,
            };
            let running = self.site.lock().unwrap().running();
            if !running.is_empty() {
                let at = usize::try_from(world::below(running.len() as u64)).unwrap();
                let (master, group) = running[at].clone();
                self.operate(master, group, write).await;
            }
        }
    }

    fn number(&self) -> u64 {
        let mut seen = self.seen.lock().unwrap();
        seen.operations += 1;
        seen.operations
    }

    /// Runs an operation on a master, and writes down what became of it. Returns whether its result is
    /// known.
    async fn operate(&self, master: Process, group: Masters<Book>, write: Write) -> bool {
        let called = world::now();
        let result = site::propose(&self.site, master, group, Book::command(write)).await;
        let operation = |returned| Operation {
            number: write.operation,
            called,
            returned,
            call: write,
        };
        let mut seen = self.seen.lock().unwrap();
        match result {
            Ok(Ok(found)) => {
                let known = operation(Some((world::now(), found)));
                seen.history.push(known);
                return true;
            }
            Ok(Err(NotAgreed::NoMajority | NotAgreed::Busy)) => {
                seen.refused.insert(write.operation);
            }
            // A read without a known result proves nothing.
            Ok(Err(_)) | Err(()) if write.value.is_none() => {}
            Ok(Err(_)) | Err(()) => seen.history.push(operation(None)),
        }
        false
    }
}

impl Story for Registers {
    type State = Book;

    const FAILING: Duration = Duration::from_secs(20);

    fn new(site: Shared<Book>) -> Self {
        Self {
            site,
            seen: Arc::default(),
        }
    }

    fn play(&self) {
        for _ in 0..CLIENTS {
            world::spawn_on(0, self.clone().client());
        }
    }

    async fn works(&self, master: Process, group: Masters<Book>) -> bool {
        let operation = self.number();
        let write = Write {
            operation,
            key: 0,
            value: Some(operation),
        };
        self.operate(master, group, write).await
    }

    fn checked(&self) -> Result<u64, String> {
        let site = self.site.lock().unwrap();
        let books = site.machines.values();
        let contents: Vec<_> = books.map(|machine| machine.state.content()).collect();
        let seen = self.seen.lock().unwrap();
        let first = contents.first().ok_or("no master is left")?;
        if contents.iter().any(|other| other != first) {
            return Err("masters that have applied the same have different states".to_owned());
        }
        check::each_once(&first.applied, &seen.history, &seen.refused)?;
        for key in 0..KEYS {
            let of_key = seen.history.iter().filter(|known| known.call.key == key);
            let done = of_key.filter(|known| first.applied.contains_key(&known.number));
            if !check::linearizable(done.cloned().collect()) {
                return Err(format!(
                    "the operations on the register {key} have no order"
                ));
            }
        }
        Ok(first.digest ^ seen.operations)
    }
}
