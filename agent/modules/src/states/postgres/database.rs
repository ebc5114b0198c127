//! The `postgres_database` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::Server;
use crate::exec::postgres::cell;
use crate::exec::postgres::database::{self, DatabaseOptions};

state::state_module! {
    /// Manage databases of PostgreSQL.
    #[module(virtual_ = super::missing)]
    mod postgres_database;

    /// Make sure that a database exists with the given properties.
    ///
    ///     shop:
    ///       postgres_database.present:
    ///         - owner: shop
    fn present(Present {
        /// The name of the database.
        name: String,
        /// The tablespace.
        tablespace: Option<String> = None,
        /// The encoding.
        encoding: Option<String> = None,
        /// The locale for the sort order.
        lc_collate: Option<String> = None,
        /// The locale for the classification of characters.
        lc_ctype: Option<String> = None,
        /// The role that owns it.
        owner: Option<String> = None,
        /// True to change the owner of everything in the database too.
        owner_recurse: bool = false,
        /// The template to copy the database from.
        template: Option<String> = None,
        #[group] server: Server,
    });

    /// Make sure that a database does not exist.
    ///
    ///     shop:
    ///       postgres_database.absent
    fn absent(Absent {
        /// The name of the database.
        name: String,
        #[group] server: Server,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (name, recurse) = (args.name, args.owner_recurse);
    let options = DatabaseOptions {
        tablespace: args.tablespace,
        encoding: args.encoding,
        lc_collate: args.lc_collate,
        lc_ctype: args.lc_ctype,
        owner: args.owner,
        template: args.template,
    };
    let conn = args.server.conn();
    let all = database::databases(cx, &conn)?;
    let Some(is) = all.get(&name).and_then(Value::as_map) else {
        let would = Ret::would(format!("Database {name} is set to be created"));
        return cx.apply(would, || {
            Ok(match database::create(cx, &conn, &name, &options)? {
                true => Ret::ok(format!("The database {name} has been created"))
                    .change(&name, "Present"),
                false => Ret::failed(format!("Failed to create database {name}")),
            })
        });
    };
    if is_fixed(is, &options) {
        return Ok(Ret::failed(format!(
            "Database {name} has wrong parameters which couldn't be changed on fly."
        )));
    }
    let space = other(is, "Tablespace", options.tablespace.as_ref());
    let owner = other(is, "Owner", options.owner.as_ref());
    if !space && !owner {
        return Ok(Ret::ok(format!("Database {name} is already present")));
    }
    let would = format!("Database {name} exists, but parameters need to be changed");
    cx.apply(Ret::would(would), || {
        let to = (options.tablespace.as_deref(), options.owner.as_deref());
        Ok(match database::alter(cx, &conn, &name, to, recurse)? {
            true => Ret::ok(format!("Parameters for database {name} have been changed"))
                .change(&name, "Parameters changed"),
            false => Ret::failed(format!("Failed to change parameters for database {name}")),
        })
    })
}

/// Returns whether a column differs from the wanted value.
fn other(is: &Map, column: &str, wanted: Option<&String>) -> bool {
    wanted.is_some_and(|wanted| !wanted.is_empty() && cell(is, column) != *wanted)
}

/// Returns whether a property differs that can be set only when the database is created.
fn is_fixed(is: &Map, options: &DatabaseOptions) -> bool {
    let encoding = cell(is, "Encoding");
    let is_other = |wanted: &String| !wanted.eq_ignore_ascii_case(&encoding);
    options.encoding.as_ref().is_some_and(is_other)
        || other(is, "Collate", options.lc_collate.as_ref())
        || other(is, "Ctype", options.lc_ctype.as_ref())
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, conn) = (args.name, args.server.conn());
    let is_there = database::databases(cx, &conn)?.contains(&name);
    super::absent(cx, "Database", &name, is_there, || {
        database::remove(cx, &conn, &name)
    })
}
