//! A thread for the messages between masters, and its executor.
//!
//! All tasks for minions share one thread. When thousands of them answer at once, a task may wait there
//! for seconds, and a master would lose its majority although it is alive.

use std::future::Future;
use std::sync::{Arc, LazyLock};
use std::thread;

use smol::{Executor, Task};
use value::log;

/// The executor, once its thread runs; `None` if that cannot be started.
static EXECUTOR: LazyLock<Option<Arc<Executor<'static>>>> = LazyLock::new(|| {
    let executor = Arc::new(Executor::new());
    let own = executor.clone();
    // No deadline: the thread ends with the process.
    let run = move || smol::block_on(own.run(smol::future::pending::<()>()));
    match thread::Builder::new().name("masters".into()).spawn(run) {
        Ok(_) => Some(executor),
        Err(error) => {
            log::error(format_args!(
                "Cannot start a thread for other masters: {error}. Their messages wait for those of minions"
            ));
            None
        }
    }
});

/// Runs a task on the thread, which is started for the first one.
pub fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> Task<T> {
    match &*EXECUTOR {
        Some(executor) => executor.spawn(task),
        None => smol::spawn(task),
    }
}
