//! [`World`]: tasks, time and chance of a simulation. One seed gives one run: tasks run one at a
//! time, in an order that chance decides, and time passes only while all of them wait.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use cluster::raft::channels::{AnswerReceiver, Answers, Queues, TaskLock, Watched};
use cluster::raft::runtime::{Limited, NotReturned, TimeIsOver};
use openraft::async_runtime::{Oneshot, OneshotSender};
use openraft::{AsyncRuntime, Instant as _, OptionalSend};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::dice::Dice;

/// The number of a process. Its tasks end together.
pub type Process = u64;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    process: Process,
    /// Taken while it runs.
    job: Option<Job>,
    waker: Waker,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new(0));
}

/// The state of a simulation on this thread.
pub struct World {
    pub(crate) dice: Dice,
    now: u64,
    tasks: BTreeMap<u64, Task>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
    timers: BTreeMap<(u64, u64), Waker>,
    next: u64,
    current: Process,
    /// The processes that do not run, with the time at which they go on.
    paused: BTreeMap<Process, u64>,
}

struct Ready {
    task: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.ready.lock().unwrap().insert(self.task);
    }
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            dice: Dice(seed),
            now: 0,
            tasks: BTreeMap::new(),
            ready: Arc::default(),
            timers: BTreeMap::new(),
            next: 1,
            current: 0,
            paused: BTreeMap::new(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Does something with the world of this thread.
pub fn with<T>(act: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(act)
}

/// Begins a new world, without any task.
pub fn begin(seed: u64) {
    let old = WORLD.replace(World::new(seed));
    // Futures that are dropped may look at the world.
    drop(old);
}

/// Returns a random number below a limit.
pub fn below(limit: u64) -> u64 {
    with(|world| world.dice.below(limit))
}

/// Returns the time since the beginning.
pub fn now() -> Duration {
    Duration::from_nanos(with(|world| world.now))
}

/// Starts a task of a process.
pub fn spawn_on(process: Process, job: impl Future<Output = ()> + Send + 'static) {
    with(|world| {
        let number = world.number();
        let ready = world.ready.clone();
        ready.lock().unwrap().insert(number);
        let waker = Waker::from(Arc::new(Ready {
            task: number,
            ready,
        }));
        let task = Task {
            process,
            job: Some(Box::pin(job)),
            waker,
        };
        world.tasks.insert(number, task);
    });
}

/// Ends all tasks of a process at once, wherever they are.
pub fn kill(process: Process) {
    let ended: Vec<Task> = with(|world| {
        world.paused.remove(&process);
        let ended = world
            .tasks
            .extract_if(.., |_, task| task.process == process);
        ended.map(|(_, task)| task).collect()
    });
    drop(ended);
}

/// Lets no task of a process run for a while.
pub fn pause(process: Process, time: Duration) {
    with(|world| {
        let until = world.now + nanos(time);
        world.paused.insert(process, until);
    });
}

/// Runs a future to its end, and everything else meanwhile.
pub fn run<T: Send + 'static>(job: impl Future<Output = T> + Send + 'static) -> T {
    let result = Arc::new(Mutex::new(None));
    let own = result.clone();
    spawn_on(0, async move {
        let value = job.await;
        *own.lock().unwrap() = Some(value);
    });
    loop {
        if let Some(value) = result.lock().unwrap().take() {
            return value;
        }
        step();
    }
}

/// Runs one task, or lets time pass until the next timer.
fn step() {
    let chosen = with(|world| {
        let now = world.now;
        world.paused.retain(|_, until| *until > now);
        let ready = world.ready.clone();
        let mut ready = ready.lock().unwrap();
        ready.retain(|task| world.tasks.contains_key(task));
        let awake: Vec<u64> = ready
            .iter()
            .filter(|task| !world.paused.contains_key(&world.tasks[task].process))
            .copied()
            .collect();
        if awake.is_empty() {
            return None;
        }
        let chosen = awake[usize::try_from(world.dice.below(awake.len() as u64)).unwrap()];
        ready.remove(&chosen);
        let task = world.tasks.get_mut(&chosen).unwrap();
        world.current = task.process;
        Some((chosen, task.job.take().unwrap(), task.waker.clone()))
    });
    let Some((number, mut job, waker)) = chosen else {
        return pass_time();
    };
    let polled = job.as_mut().poll(&mut Context::from_waker(&waker));
    let ended = with(|world| {
        world.current = 0;
        match polled {
            Poll::Pending => match world.tasks.get_mut(&number) {
                Some(task) => {
                    task.job = Some(job);
                    None
                }
                // It was killed while it ran.
                None => Some(job),
            },
            Poll::Ready(()) => {
                world.tasks.remove(&number);
                Some(job)
            }
        }
    });
    drop(ended);
}

fn pass_time() {
    let woken = with(|world| {
        let timer = world.timers.first_key_value().map(|(key, _)| key.0);
        let pause = world.paused.values().min().copied();
        let next = [timer, pause].into_iter().flatten().min();
        let next = next.expect("every task waits, and no timer will wake one");
        world.now = world.now.max(next);
        let now = world.now;
        let due = world.timers.extract_if(..=(now, u64::MAX), |_, _| true);
        due.map(|(_, waker)| waker).collect::<Vec<_>>()
    });
    woken.into_iter().for_each(Waker::wake);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap()
}

/// The runtime of a simulated process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sim;

/// A simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(u64);

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(nanos(time)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, time: Duration) {
        *self = *self + time;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(time)))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, time: Duration) {
        *self = *self - time;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl openraft::Instant for Instant {
    fn now() -> Self {
        Self(with(|world| world.now))
    }
}

/// A period of simulated time.
#[derive(Debug)]
pub struct Sleep {
    deadline: Instant,
    timer: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        with(|world| {
            if let Some(timer) = self.timer.take() {
                world.timers.remove(&timer);
            }
            if world.now >= self.deadline.0 {
                return Poll::Ready(());
            }
            let timer = (self.deadline.0, world.number());
            world.timers.insert(timer, cx.waker().clone());
            self.timer = Some(timer);
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take() {
            // The world may be one that begins, which has no such timer.
            let timer = with(|world| world.timers.remove(&timer));
            drop(timer);
        }
    }
}

/// A task of a simulated process.
#[derive(Debug)]
pub struct Handle<T>(AnswerReceiver<T>);

impl<T> Future for Handle<T> {
    type Output = Result<T, NotReturned>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.0).poll(cx);
        answer.map(|answer| answer.map_err(|_| NotReturned))
    }
}

impl AsyncRuntime for Sim {
    type JoinError = NotReturned;
    type JoinHandle<T: OptionalSend + 'static> = Handle<T>;
    type Sleep = Sleep;
    type Instant = Instant;
    type TimeoutError = TimeIsOver;
    type Timeout<R, T: Future<Output = R> + OptionalSend> = Limited<T, Sleep>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = Queues;
    type Watch = Watched;
    type Oneshot = Answers;
    type Mutex<T: OptionalSend + 'static> = TaskLock<T>;

    fn spawn<T>(future: T) -> Handle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        let (sender, receiver) = Answers::channel();
        let process = with(|world| world.current);
        spawn_on(process, async move {
            // The handle may be gone.
            let _ = sender.send(future.await);
        });
        Handle(receiver)
    }

    fn sleep(time: Duration) -> Sleep {
        Self::sleep_until(Instant::now() + time)
    }

    fn sleep_until(deadline: Instant) -> Sleep {
        Sleep {
            deadline,
            timer: None,
        }
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        time: Duration,
        future: F,
    ) -> Limited<F, Sleep> {
        Limited::new(future, Self::sleep(time))
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

    fn thread_rng() -> SmallRng {
        SmallRng::seed_from_u64(below(u64::MAX))
    }

    fn new(_threads: usize) -> Self {
        Self
    }

    fn block_on<F, T>(&mut self, _future: F) -> T
    where
        F: Future<Output = T>,
    {
        unreachable!("nothing blocks in a simulation")
    }
}

/// Waits for a period of simulated time.
pub async fn sleep(time: Duration) {
    Sim::sleep(time).await;
}
