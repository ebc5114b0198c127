//! The `config` runner.

use state::exec::Exec;
use state::module::Error;
use value::Value;

state::exec_module! {
    /// Read the configuration.
    mod config;

    /// Return an option, or the value at a path in an option.
    ///
    ///     salt-run config.get file_roots
    fn get(Get {
        /// The name of the option, or a path such as `a:b`.
        key: String,
        /// The value to return when the option is not set.
        default: Value = Value::Str("".into()),
        /// The separator of the path's parts.
        delimiter: String = ":".into(),
    });
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let all = Value::Map(cx.opts().map.clone());
    Ok(all
        .traverse(&args.key, &args.delimiter)
        .cloned()
        .unwrap_or(args.default))
}
