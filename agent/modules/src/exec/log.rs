//! The `log` execution module.

use state::exec::Exec;
use state::module::Error;
use value::Value;
use value::log::{self, Level};

state::exec_module! {
    /// Write to the log from templates.
    #[facts(pure = true)]
    mod log;

    /// Log a message at level DEBUG.
    fn debug(Debug {
        /// The message.
        message: Value,
    });

    /// Log a message at level INFO.
    fn info(Info {
        /// The message.
        message: Value,
    });

    /// Log a message at level WARNING.
    fn warning(Warning {
        /// The message.
        message: Value,
    });

    /// Log a message at level ERROR.
    fn error(LogError {
        /// The message.
        message: Value,
    });

    /// Log a message at level CRITICAL.
    fn critical(Critical {
        /// The message.
        message: Value,
    });

    /// Log a message at level ERROR.
    fn exception(Exception {
        /// The message.
        message: Value,
    });
}

fn written(level: Level, message: &Value) -> Result<Value, Error> {
    log::write(level, message.to_text());
    Ok(true.into())
}

fn debug(_cx: &Exec, args: Debug) -> Result<Value, Error> {
    written(Level::Debug, &args.message)
}

fn info(_cx: &Exec, args: Info) -> Result<Value, Error> {
    written(Level::Info, &args.message)
}

fn warning(_cx: &Exec, args: Warning) -> Result<Value, Error> {
    written(Level::Warning, &args.message)
}

fn error(_cx: &Exec, args: LogError) -> Result<Value, Error> {
    written(Level::Error, &args.message)
}

fn critical(_cx: &Exec, args: Critical) -> Result<Value, Error> {
    written(Level::Critical, &args.message)
}

fn exception(_cx: &Exec, args: Exception) -> Result<Value, Error> {
    written(Level::Error, &args.message)
}
