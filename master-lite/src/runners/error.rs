//! The `error` runner: fails on purpose.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Fail on purpose.
    mod error;

    /// Fail with a message, or do nothing if there is no name.
    ///
    ///     salt-run error.error name=TypeError message='it failed'
    fn error(Raised {
        /// The name of a Python exception.
        name: Option<String> = None,
        /// The message.
        message: String = String::new(),
    });
}

fn error(_cx: &Exec, args: Raised) -> Result<Value, Error> {
    match args.name {
        None => Ok(Map::new().into()),
        Some(_) => Err(Error::refused(args.message)),
    }
}
