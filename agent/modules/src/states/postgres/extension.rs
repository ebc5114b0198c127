//! The `postgres_extension` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::postgres::DbLogin;
use crate::exec::postgres::extension::{self, ExtensionOptions};

state::state_module! {
    /// Manage extensions in a database of PostgreSQL.
    #[module(virtual_ = super::missing)]
    mod postgres_extension;

    /// Make sure that an extension is installed.
    ///
    ///     pg_trgm:
    ///       postgres_extension.present:
    ///         - maintenance_db: shop
    fn present(Present {
        /// The name of the extension.
        name: String,
        /// True if an existing extension is no error.
        if_not_exists: Option<bool> = None,
        /// The schema for the extension.
        schema: Option<String> = None,
        /// The version of the extension.
        ext_version: Option<String> = None,
        /// The version of an old form of the extension to update from.
        from_version: Option<String> = None,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        #[group] login: DbLogin,
    });

    /// Make sure that an extension is not installed.
    ///
    ///     pg_trgm:
    ///       postgres_extension.absent:
    ///         - maintenance_db: shop
    fn absent(Absent {
        /// The name of the extension.
        name: String,
        /// True if a missing extension is no error.
        if_exists: Option<bool> = None,
        /// True to keep the extension if other objects depend on it.
        restrict: Option<bool> = None,
        /// True to remove the objects that depend on the extension too.
        cascade: Option<bool> = None,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        #[group] login: DbLogin,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name;
    let options = ExtensionOptions {
        if_not_exists: args.if_not_exists,
        schema: args.schema,
        ext_version: args.ext_version,
        from_version: args.from_version,
    };
    let conn = args.login.conn(args.user, args.maintenance_db);
    let is = extension::metadata(cx, &conn, &name, &options)?;
    let (mode, done) = if !is.is_installed {
        ("install", "Installed")
    } else if is.to_move || is.to_upgrade {
        ("upgrade", "Upgraded")
    } else {
        return Ok(Ret::ok(format!("Extension {name} is already present")));
    };
    let participle = done.to_lowercase();
    let would = Ret::would(format!("Extension {name} is set to be {participle}"));
    cx.apply(would, || {
        Ok(match extension::create(cx, &conn, &name, &options)? {
            true => {
                Ret::ok(format!("The extension {name} has been {participle}")).change(&name, done)
            }
            false => Ret::failed(format!("Failed to {mode} extension {name}")),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, how) = (args.name, (args.if_exists, args.restrict, args.cascade));
    let conn = args.login.conn(args.user, args.maintenance_db);
    let is_there = extension::is_installed(cx, &conn, &name)?;
    super::absent(cx, "Extension", &name, is_there, || {
        extension::remove(cx, &conn, &name, how)
    })
}
