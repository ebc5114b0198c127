//! The `stateconf` state module: what a `#!stateconf` SLS keeps its settings in.

use state::exec::Exec;
use state::module::{Error, Ret};

state::state_module! {
    /// Settings of an SLS, and points that others can require.
    mod stateconf;

    /// Do nothing: the renderer `stateconf` reads the arguments.
    fn set(Set {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// The same.
    fn context(Context {
        /// Any name.
        name: String,
        ..kwargs
    });
}

fn set(_cx: &Exec, _args: Set) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn context(_cx: &Exec, _args: Context) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}
