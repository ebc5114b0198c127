//! The `error` runner: a failure on purpose.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// A runner that fails.
    mod error;

    /// Fail with a message; without a name nothing fails.
    fn error(Raised {
        /// The name of Python's exception.
        name: Option<String> = None,
        /// What is said.
        message: String = String::new(),
    });
}

fn error(_cx: &Exec, args: Raised) -> Result<Value, Error> {
    match args.name {
        None => Ok(Map::new().into()),
        Some(_) => Err(Error::refused(args.message)),
    }
}
