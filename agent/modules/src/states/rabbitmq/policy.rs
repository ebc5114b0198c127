//! The `rabbitmq_policy` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, json};

use crate::exec::rabbitmq::{Policy, Rabbit};

state::state_module! {
    /// Manage policies of RabbitMQ.
    #[needs("rabbitmqctl", "Command not found: rabbitmqctl", "rabbitmq-server")]
    mod rabbitmq_policy;

    /// Make sure that a policy exists with the given properties.
    ///
    ///     mirror:
    ///       rabbitmq_policy.present:
    ///         - pattern: ^orders
    ///         - definition: '{"ha-mode": "all"}'
    fn present(Present {
        /// The name of the policy.
        name: String,
        /// A regular expression for the queues and exchanges that the policy applies to.
        pattern: String,
        /// The settings of the policy, as JSON.
        definition: Value,
        /// The priority of the policy.
        priority: i64 = 0,
        /// The virtual host.
        vhost: String = "/".into(),
        /// The account that runs the program.
        runas: Option<String> = None,
        /// The kind of objects that the policy applies to: `queues`, `exchanges` or `all`.
        apply_to: Option<String> = None,
    });

    /// Make sure that a policy does not exist.
    ///
    ///     mirror:
    ///       rabbitmq_policy.absent
    fn absent(Absent {
        /// The name of the policy.
        name: String,
        /// The virtual host.
        vhost: String = "/".into(),
        /// The account that runs the program.
        runas: Option<String> = None,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    let policy = Policy {
        vhost: args.vhost,
        name: args.name,
        pattern: args.pattern,
        definition: args.definition,
        priority: args.priority,
        apply_to: args.apply_to,
    };
    let what = format!("Policy {} {}", policy.vhost, policy.name);
    let all = policies(cx, &rabbit, &policy.vhost)?;
    let (would, changes) = match all.get(&policy.name).and_then(Value::as_map) {
        None => (
            format!("{what} is set to be created"),
            Map::new()
                .with("old", Map::new())
                .with("new", policy.name.as_str()),
        ),
        Some(is) => {
            let updates = updates(is, &policy)?;
            if updates.is_empty() {
                return Ok(Ret::ok(format!("{what} is already present")));
            }
            let changes = Map::new().with("old", is.clone()).with("new", updates);
            (format!("{what} is set to be updated"), changes)
        }
    };
    let changed = |ret: Ret| ret.changes(Value::from(changes.clone()));
    cx.apply(changed(Ret::would(would)), || {
        Ok(changed(Ret::ok(rabbit.set_policy(&policy)?)))
    })
}

/// Returns the policies of a virtual host. In test mode a virtual host that does not exist has
/// none, since an earlier state of the run may create it.
fn policies(cx: &Exec, rabbit: &Rabbit<'_>, vhost: &str) -> Result<Map, Error> {
    if cx.test && !rabbit.vhosts()?.iter().any(|one| one == vhost) {
        return Ok(Map::new());
    }
    rabbit.policies(vhost)
}

/// Returns the properties of a policy that differ from the wanted ones.
fn updates(is: &Map, policy: &Policy) -> Result<Vec<String>, Error> {
    let cell = |key: &str| is.get(key).map(Value::to_text).unwrap_or_default();
    let read = |text: &str| match text.is_empty() {
        true => Ok(Value::from("")),
        false => json::read(text).map_err(|why| {
            Error::refused(format!(
                "the definition of {} is not valid JSON: {why}",
                policy.name
            ))
        }),
    };
    let differs = [
        ("Pattern", cell("pattern") != policy.pattern),
        (
            "Definition",
            read(&cell("definition"))? != read(&policy.json()?)?,
        ),
        (
            "Applyto",
            policy
                .apply_to
                .as_ref()
                .is_some_and(|kind| cell("apply_to") != *kind),
        ),
        ("Priority", cell("priority") != policy.priority.to_string()),
    ];
    let differs = differs.into_iter().filter(|(_, differs)| *differs);
    Ok(differs.map(|(name, _)| name.to_owned()).collect())
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let rabbit = Rabbit::new(cx, args.runas);
    let (name, vhost) = (args.name, args.vhost);
    if !policies(cx, &rabbit, &vhost)?.contains(&name) {
        return Ok(Ret::ok(format!("Policy '{vhost} {name}' is not present.")));
    }
    let told = (
        format!("Policy '{vhost} {name}' will be removed."),
        Some("Deleted".to_owned()),
    );
    super::done(cx, told, (&name, ""), || {
        rabbit.change(&["clear_policy", "-p", &vhost, &name])
    })
}
