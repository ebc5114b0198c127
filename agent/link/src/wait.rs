//! Waits on the clock. Each of them suspends its task at least once, so a loop around one cannot
//! keep the executor's thread for itself, whatever number an option or a peer supplies. A tidy test
//! allows `smol::Timer` in this file only.

use std::any::Any;
use std::future::Future;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;
use smol::Timer;
use smol::future::FutureExt;
use value::log;

/// The shortest wait. A shorter one would be over before the task is suspended.
pub const SHORTEST: Duration = Duration::from_millis(1);
/// The longest wait that a number of seconds can ask for: about eleven days.
pub const LONGEST: Duration = Duration::from_secs(1_000_000);

/// The time by which the sleeps of async-io's thread may be late, in nanoseconds.
const SLACK: u64 = 1_000_000;

/// Starts the thread of async-io so that its sleeps may be late. Timers and sockets are not late,
/// because the kernel reports them by events.
///
/// A program calls this before it uses a timer or a socket; later it has no effect. After each event
/// that another thread has received, that thread sleeps ten times, from 50 µs to 10 ms, before it
/// waits for events again. These sleeps were a third of the processor time of an idle master of a
/// cluster.
pub fn start_calmly() {
    let set = set_current_timer_slack(NonZeroU64::new(SLACK));
    // The first use of a timer starts the thread, which inherits the setting from this one.
    smol::block_on(pause(SHORTEST));
    if let Err(error) = set.and_then(|()| set_current_timer_slack(None)) {
        log::debug(format_args!("cannot set the timer slack: {error}"));
    }
}

/// Waits for `time`, but at least [`SHORTEST`].
pub async fn pause(time: Duration) {
    Timer::after(time.max(SHORTEST)).await;
}

/// Waits until `at`, but at least [`SHORTEST`].
pub async fn until(at: Instant) {
    pause(at.saturating_duration_since(Instant::now())).await;
}

/// Returns the output of the future, or `None` when it takes longer than `limit`.
pub async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let late = async {
        pause(limit).await;
        None
    };
    async { Some(future.await) }.or(late).await
}

/// Runs work that blocks, on a thread for such work. This is `smol::unblock` with one task type for
/// all callers: each further type costs kilobytes of code.
pub async fn unblock<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    type Work = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;
    let boxed: Work = Box::new(move || Box::new(work()));
    match smol::unblock(boxed).await.downcast() {
        Ok(done) => *done,
        // No deadline: the work returns no other type.
        Err(_) => smol::future::pending().await,
    }
}

/// Converts a number of seconds to a duration between 0 and [`LONGEST`]; `None` for NaN.
#[must_use]
pub fn seconds(number: f64) -> Option<Duration> {
    let longest = LONGEST.as_secs_f64();
    Duration::try_from_secs_f64(number.clamp(0.0, longest)).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Runs a wait again and again together with a task of the same thread. Returns true when that
    /// task had its turn.
    fn lets_others_run<W: Future<Output = ()>>(wait: impl Fn() -> W) -> bool {
        let executor = smol::LocalExecutor::new();
        let has_run = Arc::new(AtomicBool::new(false));
        let seen = has_run.clone();
        let other = async move { seen.store(true, Ordering::Relaxed) };
        smol::block_on(executor.run(async {
            executor.spawn(other).detach();
            for _ in 0..3 {
                wait().await;
            }
        }));
        has_run.load(Ordering::Relaxed)
    }

    #[test]
    fn a_wait_for_no_time_lets_others_run() {
        assert!(lets_others_run(|| pause(Duration::ZERO)));
        assert!(lets_others_run(|| pause(Duration::from_nanos(1))));
        let past = Instant::now();
        assert!(lets_others_run(|| until(past)));
        assert!(lets_others_run(|| async move {
            within(Duration::ZERO, std::future::pending::<()>()).await;
        }));
    }

    #[test]
    fn work_that_blocks_delays_no_other_task() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let blocks = unblock(move || receiver.recv().unwrap());
        let other = async { sender.send("done".to_owned()).unwrap() };
        let (done, ()) = smol::block_on(smol::future::zip(blocks, other));
        assert_eq!(done, "done");
    }

    #[test]
    fn any_number_of_seconds_is_a_time_or_none() {
        assert_eq!(seconds(1.5), Some(Duration::from_millis(1500)));
        for zero in [0.0, -0.0, -1.0, f64::NEG_INFINITY] {
            assert_eq!(seconds(zero), Some(Duration::ZERO), "{zero}");
        }
        for long in [1e6, 1e300, f64::INFINITY] {
            assert_eq!(seconds(long), Some(LONGEST), "{long}");
        }
        assert_eq!(seconds(f64::NAN), None);
    }
}
