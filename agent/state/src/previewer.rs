//! [`Previewer`]: an observer that examines a run before it happens, for `pinch plan` and `pinch
//! apply`. An ordinary run has none.

use std::path::Path;

use value::Map;

use crate::compile::Plan;
use crate::exec::Exec;
use crate::low::LowChunk;
use crate::module::Error;

/// Calls a chunk's function in a context.
pub type Call<'a> = &'a dyn Fn(&Exec) -> Result<Map, Error>;

/// An observer that the engine calls at each point of a run where the actual run can differ from
/// the plan.
pub trait Previewer: Send + Sync {
    /// Called before the chunks of a plan run, in test mode or to apply changes. For a plan inside
    /// another one, `cx.chunk` is the step that runs it.
    ///
    /// # Errors
    /// When the chunks are not the planned ones: none of them runs then.
    fn starts(&self, cx: &Exec, plan: &Plan) -> Result<(), Error>;

    /// Called after the outermost plan has run in test mode. Returns true if it shall now run again
    /// and apply its changes.
    fn tried(&self, cx: &Exec) -> bool;

    /// Called in place of a chunk's function. The implementation calls it once, or first in test
    /// mode, or not at all.
    ///
    /// # Errors
    /// Those of the function. Also when the function would do something else than planned.
    fn called(&self, cx: &Exec, low: &LowChunk, call: Call<'_>) -> Result<Map, Error>;

    /// Called when a chunk has its final return.
    fn returned(&self, cx: &Exec, low: &LowChunk, ret: &Map);

    /// Called in test mode with the contents that a file would have.
    fn would_hold(&self, cx: &Exec, path: &Path, contents: &[u8]);

    /// Called when the new version of a file is written, before it is renamed to its place.
    ///
    /// # Errors
    /// When it does not hold the planned contents.
    fn may_place(&self, cx: &Exec, path: &Path, new: &Path) -> std::io::Result<()>;
}
