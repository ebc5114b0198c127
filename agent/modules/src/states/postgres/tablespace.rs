//! The `postgres_tablespace` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::Server;
use crate::exec::postgres::database::{
    alter_tablespace, drop_tablespace, make_tablespace, setting, tablespaces,
};
use crate::exec::postgres::{Conn, DbLogin, cell, ident};

state::state_module! {
    /// Manage tablespaces of PostgreSQL.
    #[module(virtual_ = super::missing)]
    mod postgres_tablespace;

    /// Make sure that a tablespace exists with the given properties.
    ///
    ///     fast:
    ///       postgres_tablespace.present:
    ///         - directory: /srv/fast
    ///         - owner: shop
    fn present(Present {
        /// The name of the tablespace.
        name: String,
        /// The folder for the tablespace.
        directory: String,
        /// The options of the tablespace.
        options: Option<Map> = None,
        /// The role that owns it.
        owner: Option<String> = None,
        #[group] server: Server,
    });

    /// Make sure that a tablespace does not exist.
    ///
    ///     fast:
    ///       postgres_tablespace.absent
    fn absent(Absent {
        /// The name of the tablespace.
        name: String,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        #[group] login: DbLogin,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (name, directory) = (args.name, args.directory);
    let owner = args.owner.filter(|owner| !owner.is_empty());
    let options = args.options.unwrap_or_default();
    let conn = args.server.conn();
    let all = tablespaces(cx, &conn)?;
    if let Some(is) = all.get(&name).and_then(Value::as_map) {
        if cell(is, "Location") != directory && !cx.test {
            return Ok(Ret::failed(format!(
                "Tablespace {name} is not at the right location. This is\n            unfixable without dropping and recreating the tablespace."
            )));
        }
        return altered(cx, &conn, &name, is, (owner, options));
    }
    let would = Ret::would(format!("Tablespace {name} is set to be created"));
    cx.apply(would, || {
        let what = (name.as_str(), directory.as_str());
        Ok(
            match make_tablespace(cx, &conn, what, &options, owner.as_deref())? {
                true => Ret::ok(format!("The tablespace {name} has been created"))
                    .change(&name, "Present"),
                false => Ret::failed(format!("Failed to create tablespace {name}")),
            },
        )
    })
}

/// Sets the owner and options of a tablespace. The comment describes only the last change.
fn altered(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    is: &Map,
    (owner, options): (Option<String>, Map),
) -> Result<Ret, Error> {
    let mut ret = Ret::ok(format!("Tablespace {name} is already present"));
    let mut changes = Map::new();
    if let Some(owner) = owner.filter(|owner| cell(is, "Owner") != *owner) {
        let would = Ret::would(format!("Tablespace {name} owner to be altered"));
        let how = format!("OWNER TO {}", ident(&owner));
        ret = cx.apply(would, || set(cx, conn, name, &how, "owner"))?;
        changes.insert("owner", owner);
    }
    let mut set_options = Map::new();
    let kept = cell(is, "Opts");
    for (key, value) in &options {
        let is_set = kept.contains(&format!("{}={}", key.to_text(), value.to_text()));
        if is_set || ret.result == Some(false) {
            continue;
        }
        let would = Ret::would(format!(
            "Tablespace {name} options to be\n                        altered"
        ));
        let how = setting(key, value);
        ret = cx.apply(would, || set(cx, conn, name, &how, "opts"))?;
        set_options.insert(key.clone(), value.clone());
    }
    if !set_options.is_empty() {
        changes.insert("options", set_options);
    }
    Ok(match ret.result {
        Some(true) if !changes.is_empty() => ret.change(name, changes),
        _ => ret,
    })
}

fn set(cx: &Exec, conn: &Conn, name: &str, how: &str, what: &str) -> Result<Ret, Error> {
    Ok(match alter_tablespace(cx, conn, name, how)? {
        true => Ret::ok(format!("Tablespace {name} {what} changed")),
        false => Ret::failed(format!("Tablespace {name} {what} failed to be changed")),
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, conn) = (args.name, args.login.conn(args.user, args.maintenance_db));
    let is_there = tablespaces(cx, &conn)?.contains(&name);
    super::absent(cx, "Tablespace", &name, is_there, || {
        drop_tablespace(cx, &conn, &name)
    })
}
