//! [`Smol`]: the runtime of the daemon.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use openraft::{AsyncRuntime, OptionalSend};

use super::channels::{Answers, Queues, TaskLock, Watched};

/// A runtime for groups of masters: tasks, time and chance.
pub trait Runtime:
    AsyncRuntime + Clone + Copy + Default + Ord + Debug + Send + Sync + Unpin + 'static
{
}

impl<R> Runtime for R where
    R: AsyncRuntime + Clone + Copy + Default + Ord + Debug + Send + Sync + Unpin + 'static
{
}

/// The timers of smol, and the executor for messages between masters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Smol;

/// A task that continues when its handle is dropped.
#[derive(Debug)]
pub struct Task<T>(Option<smol::Task<T>>);

/// A task that did not return. It cannot happen: a panic ends the program.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a task did not return")]
pub struct NotReturned;

impl<T> Future for Task<T> {
    type Output = Result<T, NotReturned>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Some(task) => {
                let value = ready!(Pin::new(task).poll(cx));
                self.0 = None;
                Poll::Ready(Ok(value))
            }
            None => Poll::Ready(Err(NotReturned)),
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.detach();
        }
    }
}

/// A period of time that passes.
#[derive(Debug)]
pub struct Sleep(smol::Timer);

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

/// The time for a future is over.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the time is over")]
pub struct TimeIsOver;

/// A future with a limit of time.
#[derive(Debug)]
pub struct Limited<F, S> {
    future: Pin<Box<F>>,
    sleep: S,
}

impl<F, S> Limited<F, S> {
    /// Limits a future by one that ends when its time is over.
    pub fn new(future: F, sleep: S) -> Self {
        Self {
            future: Box::pin(future),
            sleep,
        }
    }
}

impl<F: Future, S: Future<Output = ()> + Unpin> Future for Limited<F, S> {
    type Output = Result<F::Output, TimeIsOver>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(value) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        Pin::new(&mut self.sleep).poll(cx).map(|()| Err(TimeIsOver))
    }
}

impl AsyncRuntime for Smol {
    type JoinError = NotReturned;
    type JoinHandle<T: OptionalSend + 'static> = Task<T>;
    type Sleep = Sleep;
    type Instant = Instant;
    type TimeoutError = TimeIsOver;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Limited<T, Sleep>;
    type ThreadLocalRng = rand::rngs::ThreadRng;
    type Mpsc = Queues;
    type Watch = Watched;
    type Oneshot = Answers;
    type Mutex<T: OptionalSend + 'static> = TaskLock<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        Task(Some(link::masters_thread::spawn(future)))
    }

    fn sleep(duration: Duration) -> Sleep {
        Sleep(smol::Timer::after(duration))
    }

    fn sleep_until(deadline: Instant) -> Sleep {
        Sleep(smol::Timer::at(deadline))
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Limited<F, Sleep> {
        Limited::new(future, Self::sleep(duration))
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Instant,
        future: F,
    ) -> Limited<F, Sleep> {
        Limited::new(future, Self::sleep_until(deadline))
    }

    fn is_panic(_error: &NotReturned) -> bool {
        false
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        rand::rng()
    }

    fn new(_threads: usize) -> Self {
        Self
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        smol::block_on(future)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The requirements of openraft for its runtimes.
    #[test]
    fn smol_is_a_runtime_for_openraft() {
        openraft::rt::testing::Suite::<Smol>::test_all();
    }
}
