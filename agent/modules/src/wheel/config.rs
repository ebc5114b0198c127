//! The `config` wheel module.

use state::exec::Exec;
use state::module::Error;
use value::Value;

state::exec_module! {
    /// Read the configuration.
    mod config;

    /// Return every option.
    ///
    ///     salt-run state.orchestrate_single salt.wheel config.values
    fn values(Values {});
}

fn values(cx: &Exec, _args: Values) -> Result<Value, Error> {
    Ok(cx.opts().map.clone().into())
}
