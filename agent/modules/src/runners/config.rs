//! The `config` runner.

use state::exec::Exec;
use state::module::Error;
use value::Value;

state::exec_module! {
    /// The configuration.
    mod config;

    /// An option, or what stands at a path in one.
    fn get(Get {
        /// The option, or a path.
        key: String,
        /// What to return when it is not set.
        default: Value = Value::Str("".into()),
        /// What parts the path.
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
