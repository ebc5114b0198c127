//! The `stateconf` state module: contains the settings of a `#!stateconf` SLS.

use state::exec::Exec;
use state::module::{Error, Ret};

state::state_module! {
    /// Define the settings of an SLS, and points that other states can require.
    #[facts(free_arguments = true)]
    mod stateconf;

    /// Do nothing: the renderer `stateconf` reads the arguments.
    ///
    ///     settings:
    ///       stateconf.set:
    ///         - port: 8080
    fn set(Set {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// The same as `stateconf.set`.
    ///
    ///     settings:
    ///       stateconf.context:
    ///         - port: 8080
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
