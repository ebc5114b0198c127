//! State runs as a whole: the shared parts of `state.apply`, `state.highstate`, `state.single` and
//! orchestrations. Each file is one step, which takes the result of the previous step and returns
//! the next one, or the reason why the run stops.

mod compile;
pub mod job_events;
pub mod orchestrate;
mod prepare;
mod preview;
mod record;
mod request;
mod resume;
mod run;
#[cfg(test)]
mod tests;
mod unknown_argument;

use state::compile::{Fault, Plan};
use state::exec::Exec;
use state::module::Error;
use value::{Value, log};

pub use request::Request;
pub use unknown_argument::{UnknownArgument, unknown_argument};

/// The exit codes that a state function sets (`salt.defaults.exitcodes`).
pub mod retcode {
    /// The SLS does not compile.
    pub const COMPILE: i64 = 1;
    /// A state failed.
    pub const FAILED: i64 = 2;
    /// The pillar does not render.
    pub const PILLAR: i64 = 5;
}

/// The reason why a run does not start.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The function returns this value, which is no error.
    Refused(Value),
    /// The function fails.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Stop {
    /// Returns the refusal with these messages, and sets the exit code.
    pub(crate) fn messages(cx: &Exec, messages: Vec<String>) -> Self {
        cx.set_retcode(retcode::COMPILE);
        Self::Refused(messages.into())
    }

    /// Returns the refusal of SLS that do not compile; see [`refused`].
    pub(crate) fn faults(cx: &Exec, faults: &[Fault]) -> Self {
        Self::Refused(refused(cx, faults))
    }
}

/// Returns Salt's messages as a list, the return of a function that cannot start, and sets the exit
/// code. The positions in the SLS are logged.
#[must_use]
pub(crate) fn refused(cx: &Exec, faults: &[Fault]) -> Value {
    cx.set_retcode(retcode::COMPILE);
    for fault in faults.iter().filter(|fault| !fault.follows) {
        log::error(fault.to_text());
    }
    Value::list(faults.iter().map(|fault| fault.text.as_str().into()))
}

impl Request {
    /// Runs the plan that `compile` returns, as the only state run on this machine. A nested run is
    /// part of the outer one.
    ///
    /// # Errors
    /// The errors of `compile`, and when the lock, the pillar, the events or the record are not
    /// available.
    pub(crate) fn run(
        self,
        cx: &Exec,
        compile: impl FnOnce(&Exec, &Self) -> Result<Plan, Stop>,
    ) -> Result<Value, Error> {
        match self.steps(cx, compile) {
            Ok(ret) | Err(Stop::Refused(ret)) => Ok(ret),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn steps(
        self,
        cx: &Exec,
        compile: impl FnOnce(&Exec, &Self) -> Result<Plan, Stop>,
    ) -> Result<Value, Stop> {
        let finished = self
            .lock(cx)?
            .find_earlier()?
            .with_pillar()?
            .compile(compile)?
            .check()?
            .resume()?
            .preview()?
            .record()?
            .run();
        Ok(finished.into_return())
    }
}
