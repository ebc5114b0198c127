//! The `sysctl` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Manage kernel parameters.
    #[facts(effects = Effects::MoreThanFiles { files_suffice: true })]
    mod sysctl;

    /// Make sure that a parameter has a value, now and after the next start of the system.
    ///
    ///     vm.swappiness:
    ///       sysctl.present:
    ///         - value: 10
    fn present(Present {
        /// The name of the parameter.
        name: String,
        /// The value of the parameter.
        value: Value,
        /// The file that stores the parameter.
        config: Option<String> = None,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let value = args.value.to_text();
    let config = match args.config {
        Some(config) => config.into(),
        None => cx.call_internal("sysctl.default_config", Vec::new(), Map::new())?,
    };
    if cx.test {
        return predicted(cx, name, &value, &config);
    }
    let given = vec![name.into(), args.value.clone(), config];
    Ok(
        match cx.call_internal("sysctl.persist", given, Map::new()) {
            Err(why) if why.is_of_command() => {
                Ret::failed(format!("Failed to set {name} to {value}: {why}"))
            }
            Err(error) => return Err(error),
            Ok(done) if done == "Updated".into() => {
                Ret::ok(format!("Updated sysctl value {name} = {value}")).change(name, args.value)
            }
            Ok(_) => Ret::ok(format!("Sysctl value {name} = {value} is already set")),
        },
    )
}

/// Returns the result of test mode, from the file and the kernel.
fn predicted(cx: &Exec, name: &str, value: &str, config: &Value) -> Result<Ret, Error> {
    let kwargs = Map::new().with("config_file", config.clone());
    let configured = cx.call_internal("sysctl.show", Vec::new(), kwargs)?;
    if configured.is_null() {
        return Ok(Ret::would(format!(
            "Sysctl option {name} might be changed, we failed to check config file at {}. The file is either unreadable, or missing.",
            config.to_text()
        )));
    }
    let current = cx.call_internal("sysctl.get", vec![name.into()], Map::new())?;
    let current = current.to_text();
    let is_configured = configured.get(name).is_some();
    let same = value.split_whitespace().eq(current.split_whitespace());
    Ok(match (current.is_empty(), is_configured) {
        (false, true) if same => Ret::ok(format!("Sysctl value {name} = {value} is already set")),
        (false, false) if same => Ret::would(format!(
            "Sysctl value is currently set on the running system but not in a config file. Sysctl option {name} set to be changed to {value} in config file."
        )),
        (false, false) => Ret::would(format!("Sysctl option {name} set to be changed to {value}")),
        (true, true) => Ret::would(format!(
            "Sysctl value {name} is present in configuration file but is not present in the running config. The value {name} is set to be changed to {value}"
        )),
        _ => Ret::would(format!("Sysctl option {name} would be changed to {value}")),
    })
}
