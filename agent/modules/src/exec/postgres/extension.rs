//! The part of the `postgres` execution module that manages extensions of a database.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{Conn, Connection, cell, ident};
use crate::exec::pkg::version;

state::exec_module! {
    /// Manage PostgreSQL with `psql`.
    mod postgres;

    /// Return the extensions that can be installed.
    ///
    ///     salt-call postgres.available_extensions
    fn available_extensions(AvailableExtensions {
        #[group] server: Connection,
    });

    /// Return the installed extensions.
    ///
    ///     salt-call postgres.installed_extensions
    fn installed_extensions(InstalledExtensions {
        #[group] server: Connection,
    });

    /// Return an extension that can be installed, or None if it does not exist.
    ///
    ///     salt-call postgres.get_available_extension pg_trgm
    fn get_available_extension(GetAvailableExtension {
        /// The name of the extension.
        name: String,
        #[group] server: Connection,
    });

    /// Return an installed extension, or None if it is not installed.
    ///
    ///     salt-call postgres.get_installed_extension pg_trgm
    fn get_installed_extension(GetInstalledExtension {
        /// The name of the extension.
        name: String,
        #[group] server: Connection,
    });

    /// Return whether an extension can be installed.
    ///
    ///     salt-call postgres.is_available_extension pg_trgm
    fn is_available_extension(IsAvailableExtension {
        /// The name of the extension.
        name: String,
        #[group] server: Connection,
    });

    /// Return whether an extension is installed.
    ///
    ///     salt-call postgres.is_installed_extension pg_trgm
    fn is_installed_extension(IsInstalledExtension {
        /// The name of the extension.
        name: String,
        #[group] server: Connection,
    });

    /// Return the changes that an extension needs: whether it is installed, and whether it must be
    /// upgraded or moved.
    ///
    ///     salt-call postgres.create_metadata pg_trgm
    fn create_metadata(CreateMetadata {
        /// The name of the extension.
        name: String,
        /// The version of the extension.
        ext_version: Option<String> = None,
        /// The schema of the extension.
        schema: Option<String> = None,
        #[group] server: Connection,
    });

    /// Install an extension, move it to another schema, or upgrade it.
    ///
    ///     salt-call postgres.create_extension pg_trgm maintenance_db=shop
    fn create_extension(CreateExtension {
        /// The name of the extension.
        name: String,
        /// True to accept an extension that is already installed.
        if_not_exists: Option<bool> = None,
        /// The schema of the extension.
        schema: Option<String> = None,
        /// The version of the extension.
        ext_version: Option<String> = None,
        /// The version to upgrade from.
        from_version: Option<String> = None,
        #[group] server: Connection,
    });

    /// Remove an extension.
    ///
    ///     salt-call postgres.drop_extension pg_trgm maintenance_db=shop
    fn drop_extension(DropExtension {
        /// The name of the extension.
        name: String,
        /// True to accept an extension that is not installed.
        if_exists: Option<bool> = None,
        /// True to keep the extension if other objects depend on it.
        restrict: Option<bool> = None,
        /// True to remove the objects that depend on the extension too.
        cascade: Option<bool> = None,
        #[group] server: Connection,
    });
}

/// The changes that an extension needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub is_installed: bool,
    pub to_upgrade: bool,
    pub to_move: bool,
}

/// The options for installing an extension.
#[derive(Default)]
pub(crate) struct ExtensionOptions {
    pub if_not_exists: Option<bool>,
    pub schema: Option<String>,
    pub ext_version: Option<String>,
    pub from_version: Option<String>,
}

fn available(cx: &Exec, conn: &Conn) -> Result<Map, Error> {
    extensions(cx, conn, "select * from pg_available_extensions();", "name")
}

fn installed(cx: &Exec, conn: &Conn) -> Result<Map, Error> {
    let query = "select a.*, b.nspname as schema_name from pg_extension a,  pg_namespace b where a.extnamespace = b.oid;";
    extensions(cx, conn, query, "extname")
}

/// Returns the extensions by name. The name stays in each row.
fn extensions(cx: &Exec, conn: &Conn, query: &str, key: &str) -> Result<Map, Error> {
    let rows = conn.query(cx, query)?.into_iter();
    Ok(rows.map(|row| (cell(&row, key), row)).collect())
}

pub(crate) fn is_installed(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    Ok(installed(cx, conn)?.contains(name))
}

pub(crate) fn metadata(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    options: &ExtensionOptions,
) -> Result<Metadata, Error> {
    let all = installed(cx, conn)?;
    let Some(found) = all.get(name).and_then(Value::as_map) else {
        return Ok(Metadata::default());
    };
    let is_older = |wanted: &String| version::loose(&cell(found, "extversion"), wanted).is_lt();
    let is_elsewhere = |wanted: &String| cell(found, "schema_name") != *wanted;
    let can_move = cell(found, "extrelocatable") == "t";
    Ok(Metadata {
        is_installed: true,
        to_upgrade: options.ext_version.as_ref().is_some_and(is_older),
        to_move: can_move && options.schema.as_ref().is_some_and(is_elsewhere),
    })
}

/// Returns a version quoted for SQL. A version that is already in quotes is not changed.
fn version_word(version: &str) -> String {
    match version.starts_with(['\'', '"']) {
        true => version.to_owned(),
        false => super::quoted(version),
    }
}

fn statement(name: &str, options: &ExtensionOptions, metadata: Metadata) -> String {
    let name = ident(name);
    let schema = options.schema.as_deref().map(ident);
    let version = options.ext_version.as_deref().map(version_word);
    let mut sql = String::new();
    if metadata.is_installed {
        if let Some(schema) = schema.filter(|_| metadata.to_move) {
            sql.push_str(&format!("ALTER EXTENSION {name} SET SCHEMA {schema};"));
        }
        if let Some(version) = version.filter(|_| metadata.to_upgrade) {
            sql.push_str(&format!("ALTER EXTENSION {name} UPDATE TO {version};"));
        }
        return sql;
    }
    let unless = match options.if_not_exists {
        Some(false) => "",
        _ => "IF NOT EXISTS ",
    };
    sql.push_str(&format!("CREATE EXTENSION {unless}{name}"));
    let from = options.from_version.as_deref().map(version_word);
    for (word, value) in [("SCHEMA", schema), ("VERSION", version), ("FROM", from)] {
        if let Some(value) = value {
            sql.push_str(&format!(" {word} {value}"));
        }
    }
    sql.push(';');
    sql
}

/// Installs, moves or upgrades an extension and returns whether it is as requested.
pub(crate) fn create(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    options: &ExtensionOptions,
) -> Result<bool, Error> {
    let lower = name.to_lowercase();
    let known = available(cx, conn)?;
    if known
        .keys()
        .any(|one| one.to_text().to_lowercase() == lower)
    {
        let sql = statement(name, options, metadata(cx, conn, name, options)?);
        if !sql.is_empty() {
            conn.change(cx, &sql)?;
        }
    }
    let done = metadata(cx, conn, name, options)?;
    let is_done = done.is_installed && !done.to_move && !done.to_upgrade;
    if !is_done {
        log::info(format_args!("Failed to create ext: {name}"));
    }
    Ok(is_done)
}

/// Removes an extension. The last argument is `(if_exists, restrict, cascade)`.
pub(crate) fn remove(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    (if_exists, restrict, cascade): (Option<bool>, Option<bool>, Option<bool>),
) -> Result<bool, Error> {
    let word = |is_on: bool, word: &'static str| if is_on { word } else { "" };
    if is_installed(cx, conn, name)? {
        let sql = format!(
            "DROP EXTENSION {}{}{}{};",
            word(if_exists.unwrap_or(false), "IF EXISTS "),
            ident(name),
            word(cascade.unwrap_or(true), " CASCADE"),
            word(restrict.unwrap_or(false), " RESTRICT"),
        );
        conn.change(cx, &sql)?;
    }
    let is_gone = !is_installed(cx, conn, name)?;
    if !is_gone {
        log::info(format_args!("Failed to drop ext: {name}"));
    }
    Ok(is_gone)
}

fn available_extensions(cx: &Exec, args: AvailableExtensions) -> Result<Value, Error> {
    Ok(available(cx, &args.server.conn())?.into())
}

fn installed_extensions(cx: &Exec, args: InstalledExtensions) -> Result<Value, Error> {
    Ok(installed(cx, &args.server.conn())?.into())
}

fn get_available_extension(cx: &Exec, args: GetAvailableExtension) -> Result<Value, Error> {
    Ok(available(cx, &args.server.conn())?
        .remove(&args.name)
        .into())
}

fn get_installed_extension(cx: &Exec, args: GetInstalledExtension) -> Result<Value, Error> {
    Ok(installed(cx, &args.server.conn())?
        .remove(&args.name)
        .into())
}

fn is_available_extension(cx: &Exec, args: IsAvailableExtension) -> Result<Value, Error> {
    let name = args.name.to_lowercase();
    let known = available(cx, &args.server.conn())?;
    let is_known = known.keys().any(|one| one.to_text().to_lowercase() == name);
    Ok(is_known.into())
}

fn is_installed_extension(cx: &Exec, args: IsInstalledExtension) -> Result<Value, Error> {
    Ok(is_installed(cx, &args.server.conn(), &args.name)?.into())
}

fn create_metadata(cx: &Exec, args: CreateMetadata) -> Result<Value, Error> {
    let options = ExtensionOptions {
        schema: args.schema,
        ext_version: args.ext_version,
        ..ExtensionOptions::default()
    };
    let found = metadata(cx, &args.server.conn(), &args.name, &options)?;
    let flags = [
        (!found.is_installed, "EXTENSION NOT INSTALLED"),
        (found.is_installed, "EXTENSION INSTALLED"),
        (found.to_upgrade, "EXTENSION TO UPGRADE"),
        (found.to_move, "EXTENSION TO MOVE"),
    ];
    let flags = flags.into_iter().filter(|flag| flag.0);
    Ok(Value::list(flags.map(|flag| flag.1.into())))
}

fn create_extension(cx: &Exec, args: CreateExtension) -> Result<Value, Error> {
    let options = ExtensionOptions {
        if_not_exists: args.if_not_exists,
        schema: args.schema,
        ext_version: args.ext_version,
        from_version: args.from_version,
    };
    Ok(create(cx, &args.server.conn(), &args.name, &options)?.into())
}

fn drop_extension(cx: &Exec, args: DropExtension) -> Result<Value, Error> {
    let how = (args.if_exists, args.restrict, args.cascade);
    Ok(remove(cx, &args.server.conn(), &args.name, how)?.into())
}
