//! The `rabbitmq` execution module.

mod control;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

pub(crate) use control::{Policy, Rabbit, Upstream, client};

state::exec_module! {
    /// RabbitMQ, through `rabbitmqctl` and `rabbitmq-plugins`.
    mod rabbitmq;

    /// Return the users with their tags.
    fn list_users(ListUsers {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the virtual hosts.
    fn list_vhosts(ListVhosts {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the upstreams.
    fn list_upstreams(ListUpstreams {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a user exists.
    fn user_exists(UserExists {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a virtual host exists.
    fn vhost_exists(VhostExists {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether an upstream exists.
    fn upstream_exists(UpstreamExists {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Make a user.
    fn add_user(AddUser {
        /// Its name.
        name: String,
        /// Its password; none leaves it without one.
        password: Option<String> = None,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Remove a user.
    fn delete_user(DeleteUser {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Change a user's password.
    fn change_password(ChangePassword {
        /// Its name.
        name: String,
        /// Its password; none leaves it without one.
        password: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Take a user's password away.
    fn clear_password(ClearPassword {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a password is right.
    fn check_password(CheckPassword {
        /// Its name.
        name: String,
        /// Its password; none leaves it without one.
        password: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Make a virtual host.
    fn add_vhost(AddVhost {
        /// The virtual host.
        vhost: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Remove a virtual host.
    fn delete_vhost(DeleteVhost {
        /// The virtual host.
        vhost: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Say what a user may do in a virtual host.
    fn set_permissions(SetPermissions {
        /// The virtual host.
        vhost: String,
        /// The name of its node before the `@`.
        user: String,
        /// What it may configure.
        conf: String = ".*".into(),
        /// What it may write.
        write: String = ".*".into(),
        /// What it may read.
        read: String = ".*".into(),
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return what users may do in a virtual host.
    fn list_permissions(ListPermissions {
        /// The virtual host.
        vhost: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return what a user may do.
    fn list_user_permissions(ListUserPermissions {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Say which tags a user has.
    fn set_user_tags(SetUserTags {
        /// Its name.
        name: String,
        /// Its tags.
        tags: Value,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the server's status.
    fn status(Status {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the cluster's status.
    fn cluster_status(ClusterStatus {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Join a cluster.
    fn join_cluster(JoinCluster {
        /// A host of the cluster.
        host: String,
        /// The name of its node before the `@`.
        user: String = "rabbit".into(),
        /// Whether the node keeps nothing on its disk.
        ram_node: Option<bool> = None,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Stop the server, not its process.
    fn stop_app(StopApp {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Start the server again.
    fn start_app(StartApp {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Bring a node back to its beginning.
    fn reset(Reset {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// The same whatever the cluster says.
    fn force_reset(ForceReset {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the policies of a virtual host.
    fn list_policies(ListPolicies {
        /// The virtual host.
        vhost: String = "/".into(),
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Make or change a policy.
    fn set_policy(SetPolicy {
        /// The virtual host.
        vhost: String,
        /// Its name.
        name: String,
        /// What queues and exchanges it is for.
        pattern: String,
        /// What it sets, as JSON.
        definition: Value,
        /// Its priority.
        priority: Option<i64> = None,
        /// The account that runs the program.
        runas: Option<String> = None,
        /// `queues`, `exchanges` or `all`.
        apply_to: Option<String> = None,
    });

    /// Remove a policy.
    fn delete_policy(DeletePolicy {
        /// The virtual host.
        vhost: String,
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a policy exists.
    fn policy_exists(PolicyExists {
        /// The virtual host.
        vhost: String,
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the plugins.
    fn list_available_plugins(ListAvailablePlugins {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return the plugins that are enabled.
    fn list_enabled_plugins(ListEnabledPlugins {
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Return whether a plugin is enabled.
    fn plugin_is_enabled(PluginIsEnabled {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Enable a plugin.
    fn enable_plugin(EnablePlugin {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Disable a plugin.
    fn disable_plugin(DisablePlugin {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Make or change an upstream.
    fn set_upstream(SetUpstream {
        /// Its name.
        name: String,
        /// Where it is.
        uri: Value,
        /// As of the server's parameter.
        prefetch_count: Value = Value::Null,
        /// As of the server's parameter.
        reconnect_delay: Value = Value::Null,
        /// As of the server's parameter.
        ack_mode: Value = Value::Null,
        /// As of the server's parameter.
        trust_user_id: Value = Value::Null,
        /// As of the server's parameter.
        exchange: Value = Value::Null,
        /// As of the server's parameter.
        max_hops: Value = Value::Null,
        /// As of the server's parameter.
        expires: Value = Value::Null,
        /// As of the server's parameter.
        message_ttl: Value = Value::Null,
        /// As of the server's parameter.
        ha_policy: Value = Value::Null,
        /// As of the server's parameter.
        queue: Value = Value::Null,
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Remove an upstream.
    fn delete_upstream(DeleteUpstream {
        /// Its name.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });
}

/// What the arguments of a function or state say of an upstream.
macro_rules! upstream {
    ($args:ident) => {
        $crate::exec::rabbitmq::Upstream {
            name: $args.name,
            settings: vec![
                ("uri", $args.uri),
                ("prefetch-count", $args.prefetch_count),
                ("reconnect-delay", $args.reconnect_delay),
                ("ack-mode", $args.ack_mode),
                ("trust-user-id", $args.trust_user_id),
                ("exchange", $args.exchange),
                ("max-hops", $args.max_hops),
                ("expires", $args.expires),
                ("message-ttl", $args.message_ttl),
                ("ha-policy", $args.ha_policy),
                ("queue", $args.queue),
            ],
        }
    };
}

pub(crate) use upstream;

/// What the program says, under a word, as Salt returns it.
fn told(word: &str, said: Result<String, Error>) -> Result<Value, Error> {
    Ok(Map::new().with(word, said?).into())
}

fn list_users(cx: &Exec, args: ListUsers) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).users()?.into())
}

fn list_vhosts(cx: &Exec, args: ListVhosts) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).vhosts()?.into())
}

fn list_upstreams(cx: &Exec, args: ListUpstreams) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).upstreams()?.into())
}

fn user_exists(cx: &Exec, args: UserExists) -> Result<Value, Error> {
    let users = Rabbit::of(cx, args.runas).users()?;
    Ok(users.contains(&args.name).into())
}

fn vhost_exists(cx: &Exec, args: VhostExists) -> Result<Value, Error> {
    let vhosts = Rabbit::of(cx, args.runas).vhosts()?;
    Ok(vhosts.contains(&args.name).into())
}

fn upstream_exists(cx: &Exec, args: UpstreamExists) -> Result<Value, Error> {
    let upstreams = Rabbit::of(cx, args.runas).upstreams()?;
    Ok(upstreams.contains(&args.name).into())
}

fn add_user(cx: &Exec, args: AddUser) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    told(
        "Added",
        rabbit.add_user(&args.name, args.password.as_deref()),
    )
}

fn delete_user(cx: &Exec, args: DeleteUser) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    told("Deleted", rabbit.change(&["delete_user", &args.name]))
}

fn change_password(cx: &Exec, args: ChangePassword) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    let said = rabbit.with_password(&["change_password", &args.name], &args.password);
    told("Password Changed", said)
}

fn clear_password(cx: &Exec, args: ClearPassword) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    told(
        "Password Cleared",
        rabbit.change(&["clear_password", &args.name]),
    )
}

fn check_password(cx: &Exec, args: CheckPassword) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    Ok(rabbit.has_password(&args.name, &args.password)?.into())
}

fn add_vhost(cx: &Exec, args: AddVhost) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    told("Added", rabbit.change(&["add_vhost", &args.vhost]))
}

fn delete_vhost(cx: &Exec, args: DeleteVhost) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    told("Deleted", rabbit.change(&["delete_vhost", &args.vhost]))
}

fn set_permissions(cx: &Exec, args: SetPermissions) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    let what = [args.conf.as_str(), &args.write, &args.read];
    told(
        "Permissions Set",
        rabbit.permit(&args.vhost, &args.user, what),
    )
}

fn list_permissions(cx: &Exec, args: ListPermissions) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    let words = ["list_permissions", "--formatter=json", "-p", &args.vhost];
    Ok(rabbit.by(&words, "user")?.into())
}

fn list_user_permissions(cx: &Exec, args: ListUserPermissions) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).permissions(&args.name)?.into())
}

fn set_user_tags(cx: &Exec, args: SetUserTags) -> Result<Value, Error> {
    let tags = match &args.tags {
        Value::Str(tag) => vec![tag.to_string()],
        tags => tags.texts(),
    };
    told(
        "Tag(s) set",
        Rabbit::of(cx, args.runas).tag(&args.name, &tags),
    )
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).ask(&["status"])?.into())
}

fn cluster_status(cx: &Exec, args: ClusterStatus) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).ask(&["cluster_status"])?.into())
}

fn join_cluster(cx: &Exec, args: JoinCluster) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    let node = format!("{}@{}", args.user, args.host);
    told("Join", rabbit.join(&node, args.ram_node.unwrap_or(false)))
}

fn stop_app(cx: &Exec, args: StopApp) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).change(&["stop_app"])?.into())
}

fn start_app(cx: &Exec, args: StartApp) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).change(&["start_app"])?.into())
}

fn reset(cx: &Exec, args: Reset) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).change(&["reset"])?.into())
}

fn force_reset(cx: &Exec, args: ForceReset) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).change(&["force_reset"])?.into())
}

fn list_policies(cx: &Exec, args: ListPolicies) -> Result<Value, Error> {
    let policies = Rabbit::of(cx, args.runas).policies(&args.vhost)?;
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
    told("Set", Rabbit::of(cx, args.runas).set_policy(&policy))
}

fn delete_policy(cx: &Exec, args: DeletePolicy) -> Result<Value, Error> {
    let words = ["clear_policy", "-p", &args.vhost, &args.name];
    told("Deleted", Rabbit::of(cx, args.runas).change(&words))
}

fn policy_exists(cx: &Exec, args: PolicyExists) -> Result<Value, Error> {
    let policies = Rabbit::of(cx, args.runas).policies(&args.vhost)?;
    Ok(policies.contains(&args.name).into())
}

fn list_available_plugins(cx: &Exec, args: ListAvailablePlugins) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).plugins(&[])?.into())
}

fn list_enabled_plugins(cx: &Exec, args: ListEnabledPlugins) -> Result<Value, Error> {
    Ok(Rabbit::of(cx, args.runas).plugins(&["-e"])?.into())
}

fn plugin_is_enabled(cx: &Exec, args: PluginIsEnabled) -> Result<Value, Error> {
    let plugins = Rabbit::of(cx, args.runas).plugins(&["-e"])?;
    Ok(plugins.contains(&args.name).into())
}

fn enable_plugin(cx: &Exec, args: EnablePlugin) -> Result<Value, Error> {
    told(
        "Enabled",
        Rabbit::of(cx, args.runas).plugin("enable", &args.name),
    )
}

fn disable_plugin(cx: &Exec, args: DisablePlugin) -> Result<Value, Error> {
    told(
        "Disabled",
        Rabbit::of(cx, args.runas).plugin("disable", &args.name),
    )
}

fn set_upstream(cx: &Exec, args: SetUpstream) -> Result<Value, Error> {
    let rabbit = Rabbit::of(cx, args.runas);
    rabbit.set_upstream(&upstream!(args))?;
    Ok(true.into())
}

fn delete_upstream(cx: &Exec, args: DeleteUpstream) -> Result<Value, Error> {
    Rabbit::of(cx, args.runas).delete_upstream(&args.name)?;
    Ok(true.into())
}
