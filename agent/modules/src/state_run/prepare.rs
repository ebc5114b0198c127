//! The steps before the SLS are read: the lock of this machine, and the context of the run.

use state::exec::Exec;
use state::lock::{Lock, Refusal};
use value::Value;

use super::resume::PreviousRun;
use super::{Request, Stop, retcode};

/// A request that holds the lock of this machine.
pub(super) struct Locked {
    /// The context of the call.
    pub(super) cx: Exec,
    /// The arguments.
    pub(super) request: Request,
    /// The lock. It is held until the run has ended.
    pub(super) lock: Lock,
}

/// A request whose run is known: a new one, or one that is resumed.
pub(super) struct Identified {
    /// The context of the call.
    pub(super) cx: Exec,
    /// The arguments. Those of the earlier run are filled in.
    pub(super) request: Request,
    /// The run that is resumed.
    pub(super) earlier: Option<PreviousRun>,
    /// The lock.
    pub(super) lock: Lock,
}

/// A request with the context that its SLS are compiled and run in.
pub(super) struct Prepared {
    /// The context of the run: test mode, pillar, environments.
    pub(super) cx: Exec,
    /// The arguments.
    pub(super) request: Request,
    /// The run that is resumed.
    pub(super) earlier: Option<PreviousRun>,
    /// The lock. It is released when the run has ended, which is when this is dropped.
    pub(super) _lock: Lock,
}

impl Request {
    /// Takes the lock of this machine. A nested run needs none: the outer run holds it.
    pub(super) fn lock(self, cx: &Exec) -> Result<Locked, Stop> {
        match Lock::take(cx, &self.jid, self.fun, self.if_locked(cx)) {
            Ok(lock) => Ok(Locked {
                cx: cx.clone(),
                request: self,
                lock,
            }),
            Err(Refusal::Held(holder)) => Err(Stop::messages(cx, vec![holder.sentence()])),
            Err(Refusal::Failed(error)) => Err(error.into()),
        }
    }
}

impl Identified {
    /// Creates the context of the run. Refuses a pillar that does not render.
    pub(super) fn with_pillar(self) -> Result<Prepared, Stop> {
        let cx = self.request.context(&self.cx)?;
        let faults = self.request.pillar_faults(&cx)?;
        if !faults.is_empty() {
            cx.set_retcode(retcode::PILLAR);
            let messages = faults.iter().map(|fault| fault.text.as_str().into());
            return Err(Stop::Refused(Value::list(messages)));
        }
        Ok(Prepared {
            cx,
            request: self.request,
            earlier: self.earlier,
            _lock: self.lock,
        })
    }
}

impl Prepared {
    /// Returns the job id of the run. A resumed run keeps its job id.
    pub(super) fn jid(&self) -> &str {
        self.earlier
            .as_ref()
            .map_or(&self.request.jid, |run| &run.jid)
    }
}
