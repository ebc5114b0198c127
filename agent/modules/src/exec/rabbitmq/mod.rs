//! The `rabbitmq` execution module.

mod control;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

pub(crate) use control::{Policy, Rabbit, Upstream};

state::exec_module! {
    /// Manage RabbitMQ with `rabbitmqctl` and `rabbitmq-plugins`.
    #[needs(
        "rabbitmqctl",
        "Module rabbitmq: module only works when RabbitMQ is installed",
        "rabbitmq-server"
    )]
    mod rabbitmq;

    /// Return the users with their tags.
    ///
    ///     salt-call rabbitmq.list_users
    fn list_users(ListUsers {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the virtual hosts.
    ///
    ///     salt-call rabbitmq.list_vhosts
    fn list_vhosts(ListVhosts {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the upstreams.
    ///
    ///     salt-call rabbitmq.list_upstreams
    fn list_upstreams(ListUpstreams {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a user exists.
    ///
    ///     salt-call rabbitmq.user_exists shop
    fn user_exists(UserExists {
        /// The name of the user.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a virtual host exists.
    ///
    ///     salt-call rabbitmq.vhost_exists /shop
    fn vhost_exists(VhostExists {
        /// The name of the virtual host.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether an upstream exists.
    ///
    ///     salt-call rabbitmq.upstream_exists berlin
    fn upstream_exists(UpstreamExists {
        /// The name of the upstream.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Create a user.
    ///
    ///     salt-call rabbitmq.add_user shop S3cret
    fn add_user(AddUser {
        /// The name of the user.
        name: String,
        /// The password; if not given, the user has none.
        password: Option<String> = None,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Remove a user.
    ///
    ///     salt-call rabbitmq.delete_user guest
    fn delete_user(DeleteUser {
        /// The name of the user.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Change a user's password.
    ///
    ///     salt-call rabbitmq.change_password shop S3cret
    fn change_password(ChangePassword {
        /// The name of the user.
        name: String,
        /// The new password.
        password: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Remove the password of a user.
    ///
    ///     salt-call rabbitmq.clear_password shop
    fn clear_password(ClearPassword {
        /// The name of the user.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a password is valid for a user.
    ///
    ///     salt-call rabbitmq.check_password shop S3cret
    fn check_password(CheckPassword {
        /// The name of the user.
        name: String,
        /// The password to check.
        password: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Create a virtual host.
    ///
    ///     salt-call rabbitmq.add_vhost /shop
    fn add_vhost(AddVhost {
        /// The virtual host.
        vhost: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Remove a virtual host.
    ///
    ///     salt-call rabbitmq.delete_vhost /shop
    fn delete_vhost(DeleteVhost {
        /// The virtual host.
        vhost: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Set the permissions of a user in a virtual host.
    ///
    ///     salt-call rabbitmq.set_permissions / shop conf='.*' write='.*' read='.*'
    fn set_permissions(SetPermissions {
        /// The virtual host.
        vhost: String,
        /// The name of the user.
        user: String,
        /// A regular expression of the resources that the user may configure.
        conf: String = ".*".into(),
        /// A regular expression of the resources that the user may write to.
        write: String = ".*".into(),
        /// A regular expression of the resources that the user may read from.
        read: String = ".*".into(),
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the permissions of all users in a virtual host.
    ///
    ///     salt-call rabbitmq.list_permissions /
    fn list_permissions(ListPermissions {
        /// The virtual host.
        vhost: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the permissions of a user.
    ///
    ///     salt-call rabbitmq.list_user_permissions shop
    fn list_user_permissions(ListUserPermissions {
        /// The name of the user.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Set the tags of a user.
    ///
    ///     salt-call rabbitmq.set_user_tags shop monitoring
    fn set_user_tags(SetUserTags {
        /// The name of the user.
        name: String,
        /// The tags of the user.
        tags: Value,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the status of the server.
    ///
    ///     salt-call rabbitmq.status
    fn status(Status {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the status of the cluster.
    ///
    ///     salt-call rabbitmq.cluster_status
    fn cluster_status(ClusterStatus {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Join a cluster.
    ///
    ///     salt-call rabbitmq.join_cluster rabbit1
    fn join_cluster(JoinCluster {
        /// A host of the cluster.
        host: String,
        /// The name of the other node before the `@`.
        user: String = "rabbit".into(),
        /// True to join as a RAM node, which stores nothing on disk.
        ram_node: Option<bool> = None,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Stop the RabbitMQ application without stopping the Erlang process.
    ///
    ///     salt-call rabbitmq.stop_app
    fn stop_app(StopApp {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Start the RabbitMQ application.
    ///
    ///     salt-call rabbitmq.start_app
    fn start_app(StartApp {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Reset a node to its initial state.
    ///
    ///     salt-call rabbitmq.reset
    fn reset(Reset {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Reset a node to its initial state, regardless of the state of the cluster.
    ///
    ///     salt-call rabbitmq.force_reset
    fn force_reset(ForceReset {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the policies of a virtual host.
    ///
    ///     salt-call rabbitmq.list_policies
    fn list_policies(ListPolicies {
        /// The virtual host.
        vhost: String = "/".into(),
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Create or change a policy.
    ///
    ///     salt-call rabbitmq.set_policy / mirror '^orders' '{"ha-mode": "all"}'
    fn set_policy(SetPolicy {
        /// The virtual host.
        vhost: String,
        /// The name of the policy.
        name: String,
        /// A regular expression of the queues and exchanges that the policy applies to.
        pattern: String,
        /// The definition of the policy: JSON or a dictionary.
        definition: Value,
        /// The priority of the policy.
        priority: Option<i64> = None,
        /// The account that runs the program.
        runas: Option<String> = None,
        /// The kind of objects that the policy applies to: `queues`, `exchanges` or `all`.
        apply_to: Option<String> = None,
    });

    /// Remove a policy.
    ///
    ///     salt-call rabbitmq.delete_policy / mirror
    fn delete_policy(DeletePolicy {
        /// The virtual host.
        vhost: String,
        /// The name of the policy.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a policy exists.
    ///
    ///     salt-call rabbitmq.policy_exists / mirror
    fn policy_exists(PolicyExists {
        /// The virtual host.
        vhost: String,
        /// The name of the policy.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the available plugins.
    ///
    ///     salt-call rabbitmq.list_available_plugins
    fn list_available_plugins(ListAvailablePlugins {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the enabled plugins.
    ///
    ///     salt-call rabbitmq.list_enabled_plugins
    fn list_enabled_plugins(ListEnabledPlugins {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a plugin is enabled.
    ///
    ///     salt-call rabbitmq.plugin_is_enabled rabbitmq_management
    fn plugin_is_enabled(PluginIsEnabled {
        /// The name of the plugin.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Enable a plugin.
    ///
    ///     salt-call rabbitmq.enable_plugin rabbitmq_management
    fn enable_plugin(EnablePlugin {
        /// The name of the plugin.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Disable a plugin.
    ///
    ///     salt-call rabbitmq.disable_plugin rabbitmq_management
    fn disable_plugin(DisablePlugin {
        /// The name of the plugin.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Create or change an upstream of the federation.
    ///
    ///     salt-call rabbitmq.set_upstream berlin amqp://rabbit.example.com
    fn set_upstream(SetUpstream {
        #[group] upstream: UpstreamArgs,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Remove an upstream.
    ///
    ///     salt-call rabbitmq.delete_upstream berlin
    fn delete_upstream(DeleteUpstream {
        /// The name of the upstream.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });
}

state::argument_group! {
    /// The name and the parameters of an upstream.
    pub(crate) struct UpstreamArgs {
        /// The name of the upstream.
        name: String,
        /// The URI of the upstream.
        uri: Value,
        /// The server's parameter `prefetch-count`: the maximum number of unacknowledged messages
        /// on a link.
        prefetch_count: Value = Value::Null,
        /// The server's parameter `reconnect-delay`: the time in seconds before a link reconnects.
        reconnect_delay: Value = Value::Null,
        /// The server's parameter `ack-mode`: `on-confirm`, `on-publish` or `no-ack`.
        ack_mode: Value = Value::Null,
        /// The server's parameter `trust-user-id`: whether the user ID of messages is kept.
        trust_user_id: Value = Value::Null,
        /// The server's parameter `exchange`: the name of the upstream exchange.
        exchange: Value = Value::Null,
        /// The server's parameter `max-hops`: the maximum number of federation links that a message
        /// passes.
        max_hops: Value = Value::Null,
        /// The server's parameter `expires`: the time in milliseconds after which an unused
        /// upstream queue is deleted.
        expires: Value = Value::Null,
        /// The server's parameter `message-ttl`: the time to live of messages in the upstream
        /// queue, in milliseconds.
        message_ttl: Value = Value::Null,
        /// The server's parameter `ha-policy`: the policy of the upstream queue.
        ha_policy: Value = Value::Null,
        /// The server's parameter `queue`: the name of the upstream queue.
        queue: Value = Value::Null,
    }
}

impl From<UpstreamArgs> for Upstream {
    fn from(args: UpstreamArgs) -> Self {
        Self {
            name: args.name,
            settings: vec![
                ("uri", args.uri),
                ("prefetch-count", args.prefetch_count),
                ("reconnect-delay", args.reconnect_delay),
                ("ack-mode", args.ack_mode),
                ("trust-user-id", args.trust_user_id),
                ("exchange", args.exchange),
                ("max-hops", args.max_hops),
                ("expires", args.expires),
                ("message-ttl", args.message_ttl),
                ("ha-policy", args.ha_policy),
                ("queue", args.queue),
            ],
        }
    }
}

/// Returns the output of the program under a key, as Salt does.
fn under_key(word: &str, output: Result<String, Error>) -> Result<Value, Error> {
    Ok(Map::new().with(word, output?).into())
}

fn list_users(cx: &Exec, args: ListUsers) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).users()?.into())
}

fn list_vhosts(cx: &Exec, args: ListVhosts) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).vhosts()?.into())
}

fn list_upstreams(cx: &Exec, args: ListUpstreams) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).upstreams()?.into())
}

fn user_exists(cx: &Exec, args: UserExists) -> Result<Value, Error> {
    let users = Rabbit::new(cx, args.runas).users()?;
    Ok(users.contains(&args.name).into())
}

fn vhost_exists(cx: &Exec, args: VhostExists) -> Result<Value, Error> {
    let vhosts = Rabbit::new(cx, args.runas).vhosts()?;
    Ok(vhosts.contains(&args.name).into())
}

fn upstream_exists(cx: &Exec, args: UpstreamExists) -> Result<Value, Error> {
    let upstreams = Rabbit::new(cx, args.runas).upstreams()?;
    Ok(upstreams.contains(&args.name).into())
}

fn add_user(cx: &Exec, args: AddUser) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    under_key(
        "Added",
        rabbit.add_user(&args.name, args.password.as_deref()),
    )
}

fn delete_user(cx: &Exec, args: DeleteUser) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    under_key("Deleted", rabbit.change(&["delete_user", &args.name]))
}

fn change_password(cx: &Exec, args: ChangePassword) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    let output = rabbit.with_password(&["change_password", &args.name], &args.password);
    under_key("Password Changed", output)
}

fn clear_password(cx: &Exec, args: ClearPassword) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    under_key(
        "Password Cleared",
        rabbit.change(&["clear_password", &args.name]),
    )
}

fn check_password(cx: &Exec, args: CheckPassword) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    Ok(rabbit.has_password(&args.name, &args.password)?.into())
}

fn add_vhost(cx: &Exec, args: AddVhost) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    under_key("Added", rabbit.change(&["add_vhost", &args.vhost]))
}

fn delete_vhost(cx: &Exec, args: DeleteVhost) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    under_key("Deleted", rabbit.change(&["delete_vhost", &args.vhost]))
}

fn set_permissions(cx: &Exec, args: SetPermissions) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    let what = [args.conf.as_str(), &args.write, &args.read];
    under_key(
        "Permissions Set",
        rabbit.permit(&args.vhost, &args.user, what),
    )
}

fn list_permissions(cx: &Exec, args: ListPermissions) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    let words = ["list_permissions", "--formatter=json", "-p", &args.vhost];
    Ok(rabbit.by(&words, "user")?.into())
}

fn list_user_permissions(cx: &Exec, args: ListUserPermissions) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).permissions(&args.name)?.into())
}

fn set_user_tags(cx: &Exec, args: SetUserTags) -> Result<Value, Error> {
    let tags = match &args.tags {
        Value::Str(tag) => vec![tag.to_string()],
        tags => tags.texts(),
    };
    under_key(
        "Tag(s) set",
        Rabbit::new(cx, args.runas).tag(&args.name, &tags),
    )
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).ask(&["status"])?.into())
}

fn cluster_status(cx: &Exec, args: ClusterStatus) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).ask(&["cluster_status"])?.into())
}

fn join_cluster(cx: &Exec, args: JoinCluster) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    let node = format!("{}@{}", args.user, args.host);
    under_key("Join", rabbit.join(&node, args.ram_node.unwrap_or(false)))
}

fn stop_app(cx: &Exec, args: StopApp) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).change(&["stop_app"])?.into())
}

fn start_app(cx: &Exec, args: StartApp) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).change(&["start_app"])?.into())
}

fn reset(cx: &Exec, args: Reset) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).change(&["reset"])?.into())
}

fn force_reset(cx: &Exec, args: ForceReset) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).change(&["force_reset"])?.into())
}

fn list_policies(cx: &Exec, args: ListPolicies) -> Result<Value, Error> {
    let policies = Rabbit::new(cx, args.runas).policies(&args.vhost)?;
    Ok(match policies.is_empty() {
        true => Map::new().into(),
        false => Map::new().with(&args.vhost, policies).into(),
    })
}

fn set_policy(cx: &Exec, args: SetPolicy) -> Result<Value, Error> {
    let policy = Policy {
        vhost: args.vhost,
        name: args.name,
        pattern: args.pattern,
        definition: args.definition,
        priority: args.priority.unwrap_or(0),
        apply_to: args.apply_to,
    };
    under_key("Set", Rabbit::new(cx, args.runas).set_policy(&policy))
}

fn delete_policy(cx: &Exec, args: DeletePolicy) -> Result<Value, Error> {
    let words = ["clear_policy", "-p", &args.vhost, &args.name];
    under_key("Deleted", Rabbit::new(cx, args.runas).change(&words))
}

fn policy_exists(cx: &Exec, args: PolicyExists) -> Result<Value, Error> {
    let policies = Rabbit::new(cx, args.runas).policies(&args.vhost)?;
    Ok(policies.contains(&args.name).into())
}

fn list_available_plugins(cx: &Exec, args: ListAvailablePlugins) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).plugins(&[])?.into())
}

fn list_enabled_plugins(cx: &Exec, args: ListEnabledPlugins) -> Result<Value, Error> {
    Ok(Rabbit::new(cx, args.runas).plugins(&["-e"])?.into())
}

fn plugin_is_enabled(cx: &Exec, args: PluginIsEnabled) -> Result<Value, Error> {
    let plugins = Rabbit::new(cx, args.runas).plugins(&["-e"])?;
    Ok(plugins.contains(&args.name).into())
}

fn enable_plugin(cx: &Exec, args: EnablePlugin) -> Result<Value, Error> {
    under_key(
        "Enabled",
        Rabbit::new(cx, args.runas).plugin("enable", &args.name),
    )
}

fn disable_plugin(cx: &Exec, args: DisablePlugin) -> Result<Value, Error> {
    under_key(
        "Disabled",
        Rabbit::new(cx, args.runas).plugin("disable", &args.name),
    )
}

fn set_upstream(cx: &Exec, args: SetUpstream) -> Result<Value, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    rabbit.set_upstream(&args.upstream.into())?;
    Ok(true.into())
}

fn delete_upstream(cx: &Exec, args: DeleteUpstream) -> Result<Value, Error> {
    Rabbit::new(cx, args.runas).delete_upstream(&args.name)?;
    Ok(true.into())
}
