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
    ///
    ///     salt-call log.debug 'the cache is empty'
    fn debug(Debug {
        /// The message.
        message: Value,
    });

    /// Log a message at level INFO.
    ///
    ///     salt-call log.info 'the backup has begun'
    fn info(Info {
        /// The message.
        message: Value,
    });

    /// Log a message at level WARNING.
    ///
    ///     salt-call log.warning 'the disk is nearly full'
    fn warning(Warning {
        /// The message.
        message: Value,
    });

    /// Log a message at level ERROR.
    ///
    ///     salt-call log.error 'the backup failed'
    fn error(LogError {
        /// The message.
        message: Value,
    });

    /// Log a message at level CRITICAL.
    ///
    ///     salt-call log.critical 'the database is damaged'
    fn critical(Critical {
        /// The message.
        message: Value,
    });

    /// Log a message at level ERROR.
    ///
    ///     salt-call log.exception 'the backup failed'
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
