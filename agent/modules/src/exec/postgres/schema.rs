//! The part of the `postgres` execution module that manages schemas and languages of a database.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{Conn, DbLogin, Login, ident};

state::exec_module! {
    /// Manage PostgreSQL with `psql`.
    mod postgres;

    /// Create a schema.
    ///
    ///     salt-call postgres.schema_create shop stock owner=shop
    fn schema_create(SchemaCreate {
        /// The database.
        dbname: String,
        /// The name of the schema.
        name: String,
        /// The role that owns it.
        owner: Option<String> = None,
        /// The system account that runs the client.
        user: Option<String> = None,
        #[group] login: DbLogin,
    });

    /// Remove a schema.
    ///
    ///     salt-call postgres.schema_remove shop stock
    fn schema_remove(SchemaRemove {
        /// The database.
        dbname: String,
        /// The name of the schema.
        name: String,
        /// The system account that runs the client.
        user: Option<String> = None,
        #[group] login: DbLogin,
    });

    /// Return whether a schema exists.
    ///
    ///     salt-call postgres.schema_exists shop stock
    fn schema_exists(SchemaExists {
        /// The name of the schema.
        dbname: String,
        /// The name of the schema.
        name: String,
        /// The system account that runs the client.
        user: Option<String> = None,
        #[group] login: DbLogin,
    });

    /// Return a schema, or None if it does not exist.
    ///
    ///     salt-call postgres.schema_get shop stock
    fn schema_get(SchemaGet {
        /// The name of the schema.
        dbname: String,
        /// The name of the schema.
        name: String,
        /// The system account that runs the client.
        user: Option<String> = None,
        #[group] login: DbLogin,
    });

    /// Return the schemas of a database.
    ///
    ///     salt-call postgres.schema_list shop
    fn schema_list(SchemaList {
        /// The database.
        dbname: String,
        /// The system account that runs the client.
        user: Option<String> = None,
        #[group] login: DbLogin,
    });

    /// Return the languages of a database.
    ///
    ///     salt-call postgres.language_list shop
    fn language_list(LanguageList {
        /// The database to connect to.
        maintenance_db: String,
        #[group] login: Login,
    });

    /// Return whether a database has a language.
    ///
    ///     salt-call postgres.language_exists plpgsql shop
    fn language_exists(LanguageExists {
        /// The name of the language.
        name: String,
        /// The database to connect to.
        maintenance_db: String,
        #[group] login: Login,
    });

    /// Install a language.
    ///
    ///     salt-call postgres.language_create plpgsql shop
    fn language_create(LanguageCreate {
        /// The name of the language.
        name: String,
        /// The database to connect to.
        maintenance_db: String,
        #[group] login: Login,
    });

    /// Remove a language.
    ///
    ///     salt-call postgres.language_remove plpgsql shop
    fn language_remove(LanguageRemove {
        /// The name of the language.
        name: String,
        /// The database to connect to.
        maintenance_db: String,
        #[group] login: Login,
    });
}

/// Returns the schemas of the connected database by name.
pub(crate) fn schemas(cx: &Exec, conn: &Conn) -> Result<Map, Error> {
    let query = "SELECT pg_namespace.nspname as \"name\", pg_roles.rolname as \"owner\", pg_namespace.nspacl as \"acl\" \
        FROM pg_namespace LEFT JOIN pg_roles ON pg_roles.oid = pg_namespace.nspowner ";
    conn.by(cx, query, "name")
}

pub(crate) fn create(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    owner: Option<&str>,
) -> Result<bool, Error> {
    let owner = owner.map(|owner| format!(" AUTHORIZATION {}", ident(owner)));
    let owner = owner.unwrap_or_default();
    conn.change(cx, &format!("CREATE SCHEMA {}{owner}", ident(name)))
}

pub(crate) fn remove(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    conn.change(cx, &format!("DROP SCHEMA {}", ident(name)))
}

/// Returns whether the connected database has a language.
pub(crate) fn has_language(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    Ok(languages(cx, conn)?.contains(name))
}

fn languages(cx: &Exec, conn: &Conn) -> Result<Map, Error> {
    let mut all = Map::new();
    for row in conn.query(cx, "SELECT lanname AS \"Name\" FROM pg_language")? {
        if let Some(name) = row.get("Name") {
            all.insert(name.clone(), name.clone());
        }
    }
    Ok(all)
}

pub(crate) fn create_language(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    conn.change(cx, &format!("CREATE LANGUAGE {}", ident(name)))
}

pub(crate) fn remove_language(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    conn.change(cx, &format!("DROP LANGUAGE {}", ident(name)))
}

fn schema_create(cx: &Exec, args: SchemaCreate) -> Result<Value, Error> {
    let conn = args.login.conn(args.user, Some(args.dbname));
    if schemas(cx, &conn)?.contains(&args.name) {
        log::info(format_args!("Schema '{}' already exists", args.name));
        return Ok(false.into());
    }
    Ok(create(cx, &conn, &args.name, args.owner.as_deref())?.into())
}

fn schema_remove(cx: &Exec, args: SchemaRemove) -> Result<Value, Error> {
    let conn = args.login.conn(args.user, Some(args.dbname));
    if !schemas(cx, &conn)?.contains(&args.name) {
        log::info(format_args!("Schema '{}' does not exist", args.name));
        return Ok(false.into());
    }
    Ok(remove(cx, &conn, &args.name)?.into())
}

fn schema_exists(cx: &Exec, args: SchemaExists) -> Result<Value, Error> {
    let all = schemas(cx, &args.login.conn(args.user, Some(args.dbname)))?;
    Ok(all.contains(&args.name).into())
}

fn schema_get(cx: &Exec, args: SchemaGet) -> Result<Value, Error> {
    let mut all = schemas(cx, &args.login.conn(args.user, Some(args.dbname)))?;
    Ok(all.remove(&args.name).into())
}

fn schema_list(cx: &Exec, args: SchemaList) -> Result<Value, Error> {
    Ok(schemas(cx, &args.login.conn(args.user, Some(args.dbname)))?.into())
}

fn language_list(cx: &Exec, args: LanguageList) -> Result<Value, Error> {
    Ok(languages(cx, &args.login.conn(Some(args.maintenance_db)))?.into())
}

fn language_exists(cx: &Exec, args: LanguageExists) -> Result<Value, Error> {
    let conn = args.login.conn(Some(args.maintenance_db));
    Ok(has_language(cx, &conn, &args.name)?.into())
}

fn language_create(cx: &Exec, args: LanguageCreate) -> Result<Value, Error> {
    let conn = args.login.conn(Some(args.maintenance_db));
    let is_there = has_language(cx, &conn, &args.name)?;
    Ok((!is_there && create_language(cx, &conn, &args.name)?).into())
}

fn language_remove(cx: &Exec, args: LanguageRemove) -> Result<Value, Error> {
    let conn = args.login.conn(Some(args.maintenance_db));
    let is_there = has_language(cx, &conn, &args.name)?;
    Ok((is_there && remove_language(cx, &conn, &args.name)?).into())
}
