//! The `rabbitmq_user` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::failed;
use crate::exec::rabbitmq::Rabbit;

state::state_module! {
    /// Manage users of RabbitMQ.
    #[needs("rabbitmqctl", "Command not found: rabbitmqctl", "rabbitmq-server")]
    mod rabbitmq_user;

    /// Make sure that a user exists with the given properties.
    ///
    ///     shop:
    ///       rabbitmq_user.present:
    ///         - password: {{ pillar['shop_password'] }}
    ///         - perms:
    ///           - /: [.*, .*, .*]
    fn present(Present {
        /// The name of the user.
        name: String,
        /// The password of the user. Default: no password.
        password: Option<String> = None,
        /// True to set or clear the password even if it is correct already.
        force: bool = false,
        /// The tags of the user.
        tags: Value = Value::Null,
        /// The permissions of the user: a list of dictionaries. Each maps a virtual host to the
        /// patterns for what the user may configure, write and read.
        perms: Value = Value::list([]),
        /// The account that runs the program.
        runas: Option<String> = None,
    });

    /// Make sure that a user does not exist.
    ///
    ///     guest:
    ///       rabbitmq_user.absent
    fn absent(Absent {
        /// The name of the user.
        name: String,
        /// The account that runs the program.
        runas: Option<String> = None,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let rabbit = Rabbit::new(cx, args.runas.clone());
    let name = &args.name;
    let users = rabbit.users().map_err(failed)?;
    let is = users.get(name);
    let mut is_wrong = false;
    if let (Some(_), Some(password)) = (is, &args.password) {
        is_wrong = !rabbit.has_password(name, password).map_err(failed)?;
    }
    let asks_more = args.force || args.perms.is_true() || args.tags.is_true();
    if is.is_some() && !asks_more && !is_wrong {
        return Ok(Ret::ok(format!("User '{name}' is already present.")));
    }
    let mut changes = Map::new();
    if is.is_none() {
        let user = Map::new().with("old", "").with("new", name.as_str());
        changes.insert("user", user);
        if cx.test {
            let ret = Ret::would(format!("User '{name}' is set to be created."));
            return Ok(ret.changes(changes));
        }
        let password = args.password.as_deref();
        rabbit.add_user(name, password).map_err(failed)?;
    } else if args.force || is_wrong {
        set_password(cx, &rabbit, &args, &mut changes).map_err(failed)?;
    }
    set_tags(cx, &rabbit, &args, is, &mut changes).map_err(failed)?;
    permit(cx, &rabbit, &args, &mut changes).map_err(failed)?;
    let ret = match (changes.is_empty(), cx.test) {
        (true, _) => Ret::ok(format!("'{name}' is already in the desired state.")),
        (false, true) => Ret::would(format!("Configuration for '{name}' will change.")),
        (false, false) => Ret::ok(format!("'{name}' was configured.")),
    };
    Ok(ret.changes(changes))
}

fn set_password(
    cx: &Exec,
    rabbit: &Rabbit<'_>,
    args: &Present,
    changes: &mut Map,
) -> Result<(), Error> {
    let (old, new) = match &args.password {
        Some(_) => ("", "Set password."),
        None => ("Removed password.", ""),
    };
    changes.insert("password", Map::new().with("old", old).with("new", new));
    if cx.test {
        return Ok(());
    }
    match &args.password {
        Some(password) => rabbit.with_password(&["change_password", &args.name], password)?,
        None => rabbit.change(&["clear_password", &args.name])?,
    };
    Ok(())
}

fn set_tags(
    cx: &Exec,
    rabbit: &Rabbit<'_>,
    args: &Present,
    is: Option<&Value>,
    changes: &mut Map,
) -> Result<(), Error> {
    let tags = match &args.tags {
        Value::Null => return Ok(()),
        Value::Str(words) => words.split_whitespace().map(str::to_owned).collect(),
        list => list.texts(),
    };
    // A new user has no tags, which is represented by one empty tag.
    let now = is.map_or_else(|| vec![String::new()], Value::texts);
    let lacks = |one: &[String], other: &[String]| one.iter().any(|tag| !other.contains(tag));
    if !lacks(&tags, &now) && !lacks(&now, &tags) {
        return Ok(());
    }
    if !cx.test {
        rabbit.tag(&args.name, &tags)?;
    }
    changes.insert("tags", Map::new().with("old", now).with("new", tags));
    Ok(())
}

/// Returns the wanted permissions: virtual hosts, each with the patterns for configuring, writing
/// and reading.
fn wanted(perms: &Value) -> Result<Vec<(String, [String; 3])>, Error> {
    let mut all = Vec::new();
    let one = std::slice::from_ref(perms);
    let listed = perms.as_list().unwrap_or(one).iter();
    for (vhost, three) in listed.filter_map(Value::as_map).flat_map(Map::iter) {
        let three: [String; 3] = three.texts().try_into().map_err(|_| {
            Error::refused(format!(
                "perms: {} needs three patterns, for configure, write and read",
                vhost.to_text()
            ))
        })?;
        all.push((vhost.to_text(), three));
    }
    Ok(all)
}

fn permit(cx: &Exec, rabbit: &Rabbit<'_>, args: &Present, changes: &mut Map) -> Result<(), Error> {
    let is = rabbit.permissions(&args.name)?;
    let wanted = wanted(&args.perms)?;
    let as_map = |three: &[String; 3]| -> Map {
        let keys = ["configure", "write", "read"].into_iter();
        keys.zip(three.iter().cloned()).collect()
    };
    let differs = |(vhost, three): &(String, [String; 3])| {
        is.get(vhost).and_then(Value::as_map) != Some(&as_map(three))
    };
    if !wanted.iter().any(differs) {
        return Ok(());
    }
    let (mut old, mut new) = (Map::new(), Map::new());
    for (vhost, three) in &wanted {
        if !cx.test {
            let what = three.each_ref().map(String::as_str);
            rabbit.permit(vhost, &args.name, what)?;
        }
        match is.get(vhost).and_then(Value::as_map) {
            Some(now) if *now == as_map(three) => continue,
            Some(now) => old.update(now.clone()),
            None => {}
        }
        new.insert(vhost.as_str(), as_map(three));
    }
    let mut perms = Map::new();
    if !old.is_empty() {
        perms.insert("old", old);
    }
    changes.insert("perms", perms.with("new", new));
    Ok(())
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (rabbit, name) = (Rabbit::new(cx, args.runas), args.name);
    if !rabbit.users().map_err(failed)?.contains(&name) {
        return Ok(Ret::ok(format!("The user '{name}' is not present.")));
    }
    let change = Map::new().with("old", name.as_str()).with("new", "");
    let changed = |ret: Ret| ret.change("name", change.clone());
    let would = Ret::would(format!("The user '{name}' will be removed."));
    cx.apply(changed(would), || {
        rabbit.change(&["delete_user", &name]).map_err(failed)?;
        Ok(changed(Ret::ok(format!("The user '{name}' was removed."))))
    })
}
