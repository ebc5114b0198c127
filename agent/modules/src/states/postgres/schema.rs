//! The `postgres_schema` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::postgres::{DbLogin, schema};

state::state_module! {
    /// Manage schemas in a database of PostgreSQL.
    #[module(virtual_ = super::missing)]
    mod postgres_schema;

    /// Make sure that a schema exists.
    ///
    ///     stock:
    ///       postgres_schema.present:
    ///         - dbname: shop
    ///         - owner: shop
    fn present(Present {
        /// The database.
        dbname: String,
        /// The name of the schema.
        name: String,
        /// The role that owns it.
        owner: Option<String> = None,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        #[group] login: DbLogin,
    });

    /// Make sure that a schema does not exist.
    ///
    ///     stock:
    ///       postgres_schema.absent:
    ///         - dbname: shop
    fn absent(Absent {
        /// The database.
        dbname: String,
        /// The name of the schema.
        name: String,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        #[group] login: DbLogin,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (name, dbname) = (args.name, args.dbname);
    let conn = args.login.conn(args.user, Some(dbname.clone()));
    let ret = if schema::schemas(cx, &conn)?.contains(&name) {
        Ret::ok(format!("Schema {name} already exists in database {dbname}"))
    } else {
        let would = format!("Schema {name} is set to be created in database {dbname}.");
        cx.apply(Ret::would(would), || {
            Ok(
                match schema::create(cx, &conn, &name, args.owner.as_deref())? {
                    true => Ret::ok(format!(
                        "Schema {name} has been created in database {dbname}"
                    ))
                    .change(&name, "Present"),
                    false => Ret::failed(format!(
                        "Failed to create schema {name} in database {dbname}"
                    )),
                },
            )
        })?
    };
    Ok(ret.with("dbname", dbname))
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, dbname) = (args.name, args.dbname);
    let conn = args.login.conn(args.user, Some(dbname.clone()));
    let ret = if schema::schemas(cx, &conn)?.contains(&name) {
        let would = format!("Schema {name} is set to be removed from database {dbname}");
        cx.apply(Ret::would(would), || {
            Ok(match schema::remove(cx, &conn, &name)? {
                true => Ret::ok(format!(
                    "Schema {name} has been removed from database {dbname}"
                ))
                .change(&name, "Absent"),
                false => Ret::failed(format!("Schema {name} failed to be removed")),
            })
        })?
    } else {
        Ret::ok(format!(
            "Schema {name} is not present in database {dbname}, so it cannot be removed"
        ))
    };
    Ok(ret.with("dbname", dbname))
}
