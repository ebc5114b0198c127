//! The part of the `postgres` execution module that manages databases and tablespaces.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Conn, Connection, Login, Server, cell, ident, quoted};

state::exec_module! {
    /// Manage PostgreSQL with `psql`.
    mod postgres;

    /// Return the databases.
    ///
    ///     salt-call postgres.db_list
    fn db_list(DbList {
        #[group] server: Connection,
    });

    /// Return whether a database exists.
    ///
    ///     salt-call postgres.db_exists shop
    fn db_exists(DbExists {
        /// The name of the database.
        name: String,
        #[group] server: Connection,
    });

    /// Create a database.
    ///
    ///     salt-call postgres.db_create shop owner=shop
    fn db_create(DbCreate {
        /// The name of the database.
        name: String,
        #[group] server: Server,
        /// The tablespace.
        tablespace: Option<String> = None,
        /// The encoding.
        encoding: Option<String> = None,
        /// The locale of its collation.
        lc_collate: Option<String> = None,
        /// The locale of its character classes.
        lc_ctype: Option<String> = None,
        /// The role that owns the database.
        owner: Option<String> = None,
        /// The template database to copy.
        template: Option<String> = None,
        /// The system account that runs the client.
        runas: Option<String> = None,
    });

    /// Change the tablespace or the owner of a database.
    ///
    ///     salt-call postgres.db_alter shop owner=alice
    fn db_alter(DbAlter {
        /// The name of the database.
        name: String,
        #[group] server: Server,
        /// The tablespace.
        tablespace: Option<String> = None,
        /// The role that owns the database.
        owner: Option<String> = None,
        /// True to change the owner of all objects in the database too.
        owner_recurse: bool = false,
        /// The system account that runs the client.
        runas: Option<String> = None,
    });

    /// Remove a database. Its open connections are terminated.
    ///
    ///     salt-call postgres.db_remove shop
    fn db_remove(DbRemove {
        /// The name of the database.
        name: String,
        #[group] server: Connection,
    });

    /// Make a role the owner of a database and of all objects in it.
    ///
    ///     salt-call postgres.owner_to shop alice
    fn owner_to(OwnerTo {
        /// The database.
        dbname: String,
        /// The new owner.
        ownername: String,
        #[group] login: Login,
    });

    /// Return the tablespaces.
    ///
    ///     salt-call postgres.tablespace_list
    fn tablespace_list(TablespaceList {
        #[group] server: Connection,
    });

    /// Return whether a tablespace exists.
    ///
    ///     salt-call postgres.tablespace_exists fast
    fn tablespace_exists(TablespaceExists {
        /// The name of the tablespace.
        name: String,
        #[group] server: Connection,
    });

    /// Create a tablespace.
    ///
    ///     salt-call postgres.tablespace_create fast /srv/fast
    fn tablespace_create(TablespaceCreate {
        /// The name of the tablespace.
        name: String,
        /// The path of the folder.
        location: String,
        /// The options of the tablespace.
        options: Option<Map> = None,
        /// The role that owns the tablespace.
        owner: Option<String> = None,
        #[group] server: Connection,
    });

    /// Change a tablespace.
    ///
    ///     salt-call postgres.tablespace_alter fast new_name=quick
    fn tablespace_alter(TablespaceAlter {
        /// The name of the tablespace.
        name: String,
        #[group] server: Server,
        /// The new name.
        new_name: Option<String> = None,
        /// The new owner.
        new_owner: Option<String> = None,
        /// An option to set, with its value.
        set_option: Option<Map> = None,
        /// The name of an option to reset.
        reset_option: Option<String> = None,
        /// The system account that runs the client.
        runas: Option<String> = None,
    });

    /// Remove a tablespace.
    ///
    ///     salt-call postgres.tablespace_remove fast
    fn tablespace_remove(TablespaceRemove {
        /// The name of the tablespace.
        name: String,
        #[group] server: Connection,
    });
}

const DATABASES: &str = "SELECT datname as \"Name\", pga.rolname as \"Owner\", pg_encoding_to_char(encoding) as \"Encoding\", \
    datcollate as \"Collate\", datctype as \"Ctype\", datacl as \"Access privileges\", spcname as \"Tablespace\" \
    FROM pg_database pgd, pg_roles pga, pg_tablespace pgts WHERE pga.oid = pgd.datdba AND pgts.oid = pgd.dattablespace";

const TABLESPACES: &str = "SELECT spcname as \"Name\", pga.rolname as \"Owner\", spcacl as \"ACL\", spcoptions as \"Opts\", \
    pg_tablespace_location(pgts.oid) as \"Location\" FROM pg_tablespace pgts, pg_roles pga WHERE pga.oid = pgts.spcowner";

/// The options for creating a database.
#[derive(Default)]
pub(crate) struct DatabaseOptions {
    pub tablespace: Option<String>,
    pub encoding: Option<String>,
    pub lc_collate: Option<String>,
    pub lc_ctype: Option<String>,
    pub owner: Option<String>,
    pub template: Option<String>,
}

/// Returns the databases by name.
pub(crate) fn databases(cx: &Exec, conn: &Conn) -> Result<Map, Error> {
    conn.by(cx, DATABASES, "Name")
}

pub(crate) fn create(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    options: &DatabaseOptions,
) -> Result<bool, Error> {
    let with = [
        ("TABLESPACE", options.tablespace.as_deref().map(ident)),
        ("OWNER", options.owner.as_deref().map(ident)),
        ("TEMPLATE", options.template.clone()),
        ("ENCODING", options.encoding.as_deref().map(quoted)),
        ("LC_COLLATE", options.lc_collate.as_deref().map(quoted)),
        ("LC_CTYPE", options.lc_ctype.as_deref().map(quoted)),
    ];
    let with = with
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    let with: Vec<String> = with
        .map(|(key, value)| format!(" {key} = {value}"))
        .collect();
    let word = if with.is_empty() { "" } else { " WITH" };
    let sql = format!("CREATE DATABASE {}{word}{}", ident(name), with.concat());
    conn.change(cx, &sql)
}

pub(crate) fn alter(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    (tablespace, owner): (Option<&str>, Option<&str>),
    recurse: bool,
) -> Result<bool, Error> {
    let mut is_done = true;
    if let Some(owner) = owner {
        is_done = if recurse {
            give(cx, conn, name, owner)?
        } else {
            let sql = format!("ALTER DATABASE {} OWNER TO {}", ident(name), ident(owner));
            conn.change(cx, &sql)?
        };
    }
    if let Some(to) = tablespace {
        let sql = format!(
            "ALTER DATABASE {} SET TABLESPACE {}",
            ident(name),
            ident(to)
        );
        is_done &= conn.change(cx, &sql)?;
    }
    Ok(is_done)
}

/// The kinds of objects that change their owner with a database, each with the query that lists
/// them.
const OWNED: [(&str, &str); 5] = [
    (
        "SCHEMA",
        "select quote_ident(nspname) as n from pg_catalog.pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'",
    ),
    (
        "TABLE",
        "select quote_ident(table_schema)||'.'||quote_ident(table_name) as n from information_schema.tables \
         where table_schema not in ('pg_catalog', 'information_schema')",
    ),
    (
        "ROUTINE",
        "select p.oid::regprocedure::text as n from pg_catalog.pg_proc p join pg_catalog.pg_namespace ns on p.pronamespace=ns.oid \
         where ns.nspname not in ('pg_catalog', 'information_schema') and p.oid not in (select aggfnoid from pg_catalog.pg_aggregate)",
    ),
    (
        "AGGREGATE",
        "select p.oid::regprocedure::text as n from pg_catalog.pg_proc p join pg_catalog.pg_namespace ns on p.pronamespace=ns.oid \
         where ns.nspname not in ('pg_catalog', 'information_schema') and p.oid in (select aggfnoid from pg_catalog.pg_aggregate)",
    ),
    (
        "SEQUENCE",
        "select quote_ident(sequence_schema)||'.'||quote_ident(sequence_name) as n from information_schema.sequences",
    ),
];

/// Changes the owner of a database and of the objects in it, in one transaction.
fn give(cx: &Exec, conn: &Conn, name: &str, owner: &str) -> Result<bool, Error> {
    let inside = Conn {
        maintenance_db: Some(name.to_owned()),
        ..conn.clone()
    };
    let owner = ident(owner);
    let mut sql = format!("ALTER DATABASE {} OWNER TO {owner};\n", ident(name));
    for (what, query) in OWNED {
        for row in inside.query(cx, query)? {
            let one = cell(&row, "n");
            sql.push_str(&format!("ALTER {what} {one} OWNER TO {owner};\n"));
        }
    }
    inside.change_unseen(cx, sql)
}

pub(crate) fn remove(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    let (database, text) = (ident(name), quoted(name));
    for sql in [
        format!("REVOKE CONNECT ON DATABASE {database} FROM public;"),
        format!(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {text} AND pid <> pg_backend_pid();"
        ),
        format!("DROP DATABASE {database};"),
    ] {
        let output = conn.run(cx, &["-c", &sql], None)?;
        if !output.success() {
            let ret = value::python::repr(&output.to_map().into());
            return Err(Error::refused(format!("Failed: ret={ret}")));
        }
    }
    Ok(true)
}

/// Returns the tablespaces by name.
pub(crate) fn tablespaces(cx: &Exec, conn: &Conn) -> Result<Map, Error> {
    conn.by(cx, TABLESPACES, "Name")
}

pub(crate) fn make_tablespace(
    cx: &Exec,
    conn: &Conn,
    (name, location): (&str, &str),
    options: &Map,
    owner: Option<&str>,
) -> Result<bool, Error> {
    let mut sql = format!("CREATE TABLESPACE {}", ident(name));
    if let Some(owner) = owner {
        sql.push_str(&format!(" OWNER {}", ident(owner)));
    }
    sql.push_str(&format!(" LOCATION {}", quoted(location)));
    if !options.is_empty() {
        let options = options.iter().map(|(key, value)| option(key, value));
        let options: Vec<String> = options.collect();
        sql.push_str(&format!(" WITH ( {} )", options.join(", ")));
    }
    conn.change(cx, &sql)
}

fn option(key: &Value, value: &Value) -> String {
    format!("{} = {}", key.to_text(), value.to_text())
}

/// Changes a tablespace. `how` is the part of the statement after the name.
pub(crate) fn alter_tablespace(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    how: &str,
) -> Result<bool, Error> {
    conn.change(cx, &format!("ALTER TABLESPACE {} {how}", ident(name)))
}

/// Returns the part of the statement that sets an option of a tablespace.
pub(crate) fn setting(key: &Value, value: &Value) -> String {
    format!("SET ({})", option(key, value))
}

pub(crate) fn drop_tablespace(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    conn.change(cx, &format!("DROP TABLESPACE {}", ident(name)))
}

fn db_list(cx: &Exec, args: DbList) -> Result<Value, Error> {
    Ok(databases(cx, &args.server.conn())?.into())
}

fn db_exists(cx: &Exec, args: DbExists) -> Result<Value, Error> {
    Ok(databases(cx, &args.server.conn())?
        .contains(&args.name)
        .into())
}

fn db_create(cx: &Exec, args: DbCreate) -> Result<Value, Error> {
    let options = DatabaseOptions {
        tablespace: args.tablespace,
        encoding: args.encoding,
        lc_collate: args.lc_collate,
        lc_ctype: args.lc_ctype,
        owner: args.owner,
        template: args.template,
    };
    Ok(create(cx, &args.server.conn(args.runas), &args.name, &options)?.into())
}

fn db_alter(cx: &Exec, args: DbAlter) -> Result<Value, Error> {
    let to = (args.tablespace.as_deref(), args.owner.as_deref());
    let conn = args.server.conn(args.runas);
    Ok(alter(cx, &conn, &args.name, to, args.owner_recurse)?.into())
}

fn db_remove(cx: &Exec, args: DbRemove) -> Result<Value, Error> {
    Ok(remove(cx, &args.server.conn(), &args.name)?.into())
}

fn owner_to(cx: &Exec, args: OwnerTo) -> Result<Value, Error> {
    let conn = args.login.conn(None);
    Ok(give(cx, &conn, &args.dbname, &args.ownername)?.into())
}

fn tablespace_list(cx: &Exec, args: TablespaceList) -> Result<Value, Error> {
    Ok(tablespaces(cx, &args.server.conn())?.into())
}

fn tablespace_exists(cx: &Exec, args: TablespaceExists) -> Result<Value, Error> {
    Ok(tablespaces(cx, &args.server.conn())?
        .contains(&args.name)
        .into())
}

fn tablespace_create(cx: &Exec, args: TablespaceCreate) -> Result<Value, Error> {
    let what = (args.name.as_str(), args.location.as_str());
    let (conn, options) = (args.server.conn(), args.options.unwrap_or_default());
    Ok(make_tablespace(cx, &conn, what, &options, args.owner.as_deref())?.into())
}

fn tablespace_alter(cx: &Exec, args: TablespaceAlter) -> Result<Value, Error> {
    let set = args.set_option.as_ref().and_then(Map::first);
    let ways = [
        args.new_name.map(|to| format!("RENAME TO {}", ident(&to))),
        args.new_owner.map(|to| format!("OWNER TO {}", ident(&to))),
        set.map(|(key, value)| setting(key, value)),
        args.reset_option.map(|key| format!("RESET ({key})")),
    ];
    let conn = args.server.conn(args.runas);
    for how in ways.iter().flatten() {
        if !alter_tablespace(cx, &conn, &args.name, how)? {
            return Ok(false.into());
        }
    }
    Ok(true.into())
}

fn tablespace_remove(cx: &Exec, args: TablespaceRemove) -> Result<Value, Error> {
    Ok(drop_tablespace(cx, &args.server.conn(), &args.name)?.into())
}
