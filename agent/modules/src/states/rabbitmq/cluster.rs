//! The `rabbitmq_cluster` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::done;
use crate::exec::rabbitmq::Rabbit;

state::state_module! {
    /// Manage clusters of RabbitMQ.
    #[needs("rabbitmqctl", "Command not found: rabbitmqctl", "rabbitmq-server")]
    mod rabbitmq_cluster;

    /// Make sure that this node is a member of a cluster.
    ///
    ///     join rabbit1:
    ///       rabbitmq_cluster.joined:
    ///         - user: rabbit
    ///         - host: rabbit1
    fn joined(Joined {
        /// Any name.
        name: String,
        /// A host of the cluster.
        host: String,
        /// The name of the cluster's node before the `@`.
        user: String = "rabbit".into(),
        /// True for a node that stores its data only in memory.
        ram_node: Option<bool> = None,
        /// The account that runs the program.
        runas: Option<String> = Some("root".into()),
    });

    /// The same as `rabbitmq_cluster.joined`.
    ///
    ///     join rabbit1:
    ///       rabbitmq_cluster.join:
    ///         - user: rabbit
    ///         - host: rabbit1
    fn join(Join {
        /// Any name.
        name: String,
        /// A host of the cluster.
        host: String,
        /// The name of the cluster's node before the `@`.
        user: String = "rabbit".into(),
        /// True for a node that stores its data only in memory.
        ram_node: Option<bool> = None,
        /// The account that runs the program.
        runas: Option<String> = Some("root".into()),
    });
}

fn join(cx: &Exec, args: Join) -> Result<Ret, Error> {
    let args = Joined {
        name: args.name,
        host: args.host,
        user: args.user,
        ram_node: args.ram_node,
        runas: args.runas,
    };
    joined(cx, args)
}

fn joined(cx: &Exec, args: Joined) -> Result<Ret, Error> {
    let node = format!("{}@{}", args.user, args.host);
    if Rabbit::new(cx, None)
        .ask(&["cluster_status"])?
        .contains(&node)
    {
        return Ok(Ret::ok("Already in cluster"));
    }
    let told = (format!("Node is set to join cluster {node}"), None);
    let is_ram = args.ram_node.unwrap_or(false);
    done(cx, told, ("", &node), || {
        Rabbit::new(cx, args.runas).join(&node, is_ram)
    })
}
