//! The `mysql_database` state module. Salt 3008 no longer has it; the returns are those of Salt's
//! last version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::mysql::Conn;
use crate::exec::mysql::database::{alter, create, exists, get, remove};

state::state_module! {
    /// Manage databases of MySQL and MariaDB. Each function also accepts `connection_user`,
    /// `connection_pass` and the other connection arguments.
    #[needs("mariadb|mysql", "mysql module could not be loaded", "mariadb-client")]
    #[facts(free_arguments = true)]
    mod mysql_database;

    /// Make sure that a database exists with the given properties.
    ///
    ///     shop:
    ///       mysql_database.present:
    ///         - character_set: utf8mb4
    fn present(Present {
        /// The name of the database.
        name: String,
        /// The character set.
        character_set: Option<String> = None,
        /// The collation.
        collate: Option<String> = None,
        ..kwargs
    });

    /// Make sure that a database does not exist.
    ///
    ///     shop:
    ///       mysql_database.absent
    fn absent(Absent {
        /// The name of the database.
        name: String,
        ..kwargs
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let name = &args.name;
    let with = (args.character_set.as_deref(), args.collate.as_deref());
    if let Some(is) = get(cx, &conn, name)? {
        return altered(cx, &conn, name, with, &is);
    }
    let would = format!("Database {name} is not present and needs to be created");
    cx.apply(Ret::would(would), || {
        Ok(match create(cx, &conn, name, with) {
            Ok(()) => {
                Ret::ok(format!("The database {name} has been created")).change(name, "Present")
            }
            Err(why) => super::failed(format!("Failed to create database {name}"), Err(why)),
        })
    })
}

/// Sets the default character set and collation of a database.
fn altered(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    with: (Option<&str>, Option<&str>),
    is: &Map,
) -> Result<Ret, Error> {
    let mut comment = format!("Database {name} is already present");
    let differs = |key: &str, wanted: Option<&str>| {
        let now = is.get(key).map(Value::to_text).unwrap_or_default();
        let wanted = wanted.filter(|wanted| !wanted.is_empty() && *wanted != now);
        wanted.map(|wanted| (wanted.to_owned(), now))
    };
    let set = differs("character_set", with.0);
    let collate = differs("collate", with.1);
    if let Some((wanted, now)) = &set {
        comment = format!("Database character set {wanted} != {now} needs to be updated");
    }
    if let Some((wanted, now)) = &collate {
        comment.push_str(&format!(
            "\nDatabase collate {wanted} != {now} needs to be updated"
        ));
    }
    if set.is_none() && collate.is_none() {
        return Ok(Ret::ok(comment));
    }
    let more = match &collate {
        Some(_) => String::new(),
        None => format!("\nDatabase {name} is going to be updated"),
    };
    cx.apply(Ret::would(format!("{comment}{more}")), || {
        alter(cx, conn, name, with)?;
        let now = get(cx, conn, name)?.unwrap_or_default();
        let mut ret = Ret::ok(comment.as_str());
        for key in ["collate", "character_set"] {
            if now.get(key) != is.get(key) {
                let change = Map::new()
                    .with("before", is.get(key).cloned())
                    .with("now", now.get(key).cloned());
                ret = ret.change(key, change);
            }
        }
        Ok(ret)
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let name = &args.name;
    if !exists(cx, &conn, name)? {
        return Ok(Ret::ok(format!(
            "Database {name} is not present, so it cannot be removed"
        )));
    }
    let would = format!("Database {name} is present and needs to be removed");
    cx.apply(Ret::would(would), || {
        let failed = format!("Unable to remove database {name}");
        Ok(match remove(cx, &conn, name) {
            Ok(true) => Ret::ok(format!("Database {name} has been removed")).change(name, "Absent"),
            Ok(false) => Ret::failed(failed),
            Err(why) => super::failed(failed, Err(why)),
        })
    })
}
