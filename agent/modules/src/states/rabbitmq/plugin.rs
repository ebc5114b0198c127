//! The `rabbitmq_plugin` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::{done, failed};
use crate::exec::rabbitmq::Rabbit;

state::state_module! {
    /// Manage plugins of RabbitMQ.
    #[needs("rabbitmqctl", "Command not found: rabbitmqctl", "rabbitmq-server")]
    mod rabbitmq_plugin;

    /// Make sure that a plugin is enabled.
    ///
    ///     rabbitmq_management:
    ///       rabbitmq_plugin.enabled
    fn enabled(Enabled {
        /// The name of the plugin.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Make sure that a plugin is disabled.
    ///
    ///     rabbitmq_management:
    ///       rabbitmq_plugin.disabled
    fn disabled(Disabled {
        /// The name of the plugin.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    set(cx, &args.name, args.runas, true)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    set(cx, &args.name, args.runas, false)
}

fn set(cx: &Exec, name: &str, runas: Option<String>, on: bool) -> Result<Ret, Error> {
    let (how, what) = match on {
        true => ("enable", "enabled"),
        false => ("disable", "disabled"),
    };
    let rabbit = Rabbit::new(cx, runas);
    let all = rabbit.plugins(&["-e"]).map_err(failed)?;
    if all.iter().any(|one| one == name) == on {
        return Ok(Ret::ok(format!("Plugin '{name}' is already {what}.")));
    }
    let told = (
        format!("Plugin '{name}' is set to be {what}."),
        Some(format!("Plugin '{name}' was {what}.")),
    );
    let changes = if on { ("", name) } else { (name, "") };
    done(cx, told, changes, || {
        rabbit.plugin(how, name).map_err(failed)
    })
}
