//! A listener on a minion's event bus.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

/// An event: its tag and data.
pub(crate) type Event = (String, Value);

/// A listener that records a minion's bus events from its creation until the caller collects them.
pub(crate) struct Ear {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Event>>,
}

impl Ear {
    /// Listens in a minion's `sock_dir`.
    pub(crate) fn on(sock_dir: &Path) -> Self {
        let folder = sock_dir.join("bus");
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&folder).unwrap();
        let socket = UnixDatagram::bind(folder.join("ear")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || hear(&socket, &stopped));
        Self { stop, thread }
    }

    /// Stops listening and returns the events received so far.
    pub(crate) fn heard(self) -> Vec<Event> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn hear(socket: &UnixDatagram, stop: &AtomicBool) -> Vec<Event> {
    let (mut events, mut buffer) = (Vec::new(), vec![0; 256 * 1024]);
    loop {
        // Read `stop` before the last receive loop, so that every event sent before the stop is
        // received.
        let last = stop.load(Ordering::Relaxed);
        while let Ok(length) = socket.recv(&mut buffer) {
            let text = std::str::from_utf8(&buffer[..length]).unwrap();
            let (tag, data) = text.split_once("\n\n").unwrap();
            events.push((tag.to_owned(), serde_json::from_str(data).unwrap()));
        }
        if last {
            return events;
        }
    }
}
