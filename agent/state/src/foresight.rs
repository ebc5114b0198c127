//! [`Foresight`]: who looks at a run before it happens, for `pinch plan` and `pinch apply`. An ordinary run has nobody who does.

use std::path::Path;

use value::Map;

use crate::compile::Plan;
use crate::exec::Exec;
use crate::low::Low;
use crate::module::Error;

/// Calls a chunk's function in a context.
pub type Call<'a> = &'a dyn Fn(&Exec) -> Result<Map, Error>;

/// Is asked at each place of a run where what was foreseen can differ from what is.
pub trait Foresight: Send + Sync {
    /// The chunks of a plan are about to run, in test mode or for good. A plan inside another has its step in `cx.low`.
    ///
    /// # Errors
    /// When they are not what was foreseen: none of them runs then.
    fn starts(&self, cx: &Exec, plan: &Plan) -> Result<(), Error>;

    /// The outermost plan has run in test mode: whether it is to run for good.
    fn tried(&self, cx: &Exec) -> bool;

    /// Calls a chunk's function, once or first in test mode, or not at all.
    ///
    /// # Errors
    /// Those of the function, and when it would do something else than was foreseen.
    fn called(&self, cx: &Exec, low: &Low, call: Call<'_>) -> Result<Map, Error>;

    /// A chunk has its final return.
    fn returned(&self, cx: &Exec, low: &Low, ret: &Map);

    /// In test mode: a file would hold this.
    fn would_hold(&self, cx: &Exec, path: &Path, contents: &[u8]);

    /// A file is written and about to be put in its place.
    ///
    /// # Errors
    /// When it does not hold what was foreseen.
    fn may_place(&self, cx: &Exec, path: &Path, new: &Path) -> std::io::Result<()>;
}
