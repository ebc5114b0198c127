//! The `rabbitmq_vhost` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::done;
use crate::exec::rabbitmq::Rabbit;

state::state_module! {
    /// Manage virtual hosts of RabbitMQ.
    #[needs("rabbitmqctl", "Command not found: rabbitmqctl", "rabbitmq-server")]
    mod rabbitmq_vhost;

    /// Make sure that a virtual host exists.
    ///
    ///     /shop:
    ///       rabbitmq_vhost.present
    fn present(Present {
        /// The name of the virtual host.
        name: String,
    });

    /// Make sure that a virtual host does not exist.
    ///
    ///     /shop:
    ///       rabbitmq_vhost.absent
    fn absent(Absent {
        /// The name of the virtual host.
        name: String,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (rabbit, name) = (Rabbit::new(cx, None), args.name);
    if rabbit.vhosts()?.contains(&name) {
        return Ok(Ret::ok(format!("Virtual Host '{name}' already exists.")));
    }
    let told = (format!("Virtual Host '{name}' will be created."), None);
    done(cx, told, ("", &name), || {
        rabbit.change(&["add_vhost", &name])
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (rabbit, name) = (Rabbit::new(cx, None), args.name);
    if !rabbit.vhosts()?.contains(&name) {
        return Ok(Ret::ok(format!("Virtual Host '{name}' is not present.")));
    }
    let told = (format!("Virtual Host '{name}' will be removed."), None);
    done(cx, told, (&name, ""), || {
        rabbit.change(&["delete_vhost", &name])
    })
}
