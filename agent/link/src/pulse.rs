//! [`Pulse`]: shows the service manager and a watchdog thread that a daemon's threads still run its
//! tasks.

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::Notify;
use crate::wait::pause;

/// The interval between two beats, unless the service manager expects them more often.
pub const EVERY: Duration = Duration::from_secs(10);
/// The number of checks without a beat after which the daemon counts as hung. A machine that was
/// suspended and resumes has missed one check at most.
const LOOKS: u32 = 3;
/// The stack size of the watchdog thread in bytes. The thread only sleeps and compares.
const STACK: usize = 64 << 10;

/// A counter that increases as long as the daemon's threads run their tasks.
#[derive(Debug, Default)]
pub struct Pulse(Arc<AtomicU32>);

impl Pulse {
    /// Beats while it is polled, and notifies the service manager. Each beat needs both a turn of
    /// the executor's thread and one of the thread that polls this future.
    pub async fn beat(&self, notify: &Notify) -> Infallible {
        let every = notify.watchdog().map_or(EVERY, |often| often.min(EVERY));
        loop {
            let beats = self.0.clone();
            // No deadline: if the executor does not run this task, the watchdogs end the daemon.
            smol::spawn(async move { beats.fetch_add(1, Ordering::Relaxed) }).await;
            notify.alive();
            pause(every).await;
        }
    }

    /// Starts a separate thread that checks for a beat once in each `look`, and calls `hung` after
    /// `LOOKS` checks without one.
    ///
    /// # Errors
    /// When the system cannot start another thread.
    pub fn watch(&self, look: Duration, hung: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let beats = Arc::downgrade(&self.0);
        let thread = std::thread::Builder::new().name("watchdog".to_owned());
        let watch = move || {
            if stands_still(&beats, look) {
                hung();
            }
        };
        thread.stack_size(STACK).spawn(watch).map(drop)
    }
}

/// Waits until several checks in a row see no beat (true), or the pulse is dropped (false).
fn stands_still(beats: &Weak<AtomicU32>, look: Duration) -> bool {
    let (mut last, mut missed) = (None, 0);
    while missed < LOOKS {
        // The time for which the machine is suspended does not count here.
        std::thread::sleep(look);
        let Some(beats) = beats.upgrade() else {
            return false;
        };
        let now = Some(beats.load(Ordering::Relaxed));
        missed = if now == last { missed + 1 } else { 0 };
        last = now;
    }
    true
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use smol::future::FutureExt;

    use super::*;

    const LOOK: Duration = Duration::from_millis(200);

    #[test]
    fn a_thread_that_runs_no_task_is_noticed() {
        let (pulse, (said, hung)) = (Pulse::default(), channel());
        let tell = move || {
            value::channel::if_open(said.send(()));
        };
        pulse.watch(LOOK, tell).unwrap();
        // First a task that lets others run, on a separate executor, then one that never does.
        let beats = pulse.0.clone();
        let executor = smol::Executor::new();
        let beating = executor.spawn(async move {
            for _ in 0..16 {
                beats.fetch_add(1, Ordering::Relaxed);
                pause(LOOK / 4).await;
            }
        });
        smol::block_on(executor.run(beating));
        assert!(hung.try_recv().is_err(), "it was running all the time");
        let holding = executor.spawn(async move { hung.recv_timeout(Duration::from_secs(30)) });
        assert_eq!(smol::block_on(executor.run(holding)), Ok(()));
        // This keeps the pulse, and so the watch, alive until here.
        drop(pulse);
    }

    #[test]
    fn a_daemon_that_has_ended_is_not_watched() {
        let (pulse, (said, hung)) = (Pulse::default(), channel());
        let tell = move || {
            value::channel::if_open(said.send(()));
        };
        pulse.watch(LOOK, tell).unwrap();
        drop(pulse);
        // The other end is dropped with the thread, which has sent nothing.
        assert!(hung.recv_timeout(Duration::from_secs(30)).is_err());
    }

    #[test]
    fn the_pulse_beats_on_the_executor_and_tells_the_service_manager() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let notify = Notify::to(Some(path.as_os_str())).with_watchdog(Some("40000"));
        let pulse = Pulse::default();
        let beat = async { Some(pulse.beat(&notify).await) };
        let beaten = async {
            while pulse.0.load(Ordering::Relaxed) < 2 {
                pause(Duration::from_millis(5)).await;
            }
            None
        };
        let late = async {
            pause(Duration::from_secs(30)).await;
            panic!("two beats take 20 ms");
        };
        let ended = smol::block_on(beat.or(beaten).or(late));
        assert!(ended.is_none());
        let mut text = [0; 32];
        let length = listener.recv(&mut text).unwrap();
        assert_eq!(&text[..length], b"WATCHDOG=1");
    }
}
