//! The step that shows a plan to the previewer of `pinch plan` and `pinch apply`.

use state::run::{self, Unobserved};
use value::watch;

use super::Stop;
use super::resume::Ready;

impl Ready {
    /// Shows the plan to the previewer, if there is one. The outermost plan also runs in test mode
    /// first. If no changes are to be applied, the return of the test run is the function's.
    pub(super) fn preview(self) -> Result<Self, Stop> {
        let cx = &self.run.cx;
        let Some(previewer) = &cx.previewer else {
            return Ok(self);
        };
        previewer.starts(cx, &self.plan)?;
        if cx.run.is_some() {
            return Ok(self);
        }
        let mut trial = cx.clone();
        trial.test = true;
        // Data that the test run stores for later states must not reach the real run.
        let before = cx.context(|context| context.clone());
        let jid = &self.run.request.jid;
        let running = watch::hushed(|| run::run_as(&trial, &self.plan, &Unobserved, jid));
        cx.context(|context| *context = before);
        match previewer.tried(cx) {
            true => Ok(self),
            false => Err(Stop::Refused(running.into())),
        }
    }
}
