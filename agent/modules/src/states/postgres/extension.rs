//! The `postgres_extension` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::postgres::db_conn;
use crate::exec::postgres::extension::{self, Asked};

state::state_module! {
    /// Extensions of a database of PostgreSQL.
    mod postgres_extension;

    /// Make sure that an extension is installed.
    fn present(Present {
        /// Its name.
        name: String,
        /// Whether one that is there is no error.
        if_not_exists: Option<bool> = None,
        /// The schema that it is in.
        schema: Option<String> = None,
        /// The version.
        ext_version: Option<String> = None,
        /// The version that it is made from.
        from_version: Option<String> = None,
        /// The account of the machine that runs the client.
        user: Option<String> = None,
        /// The database that is connected to.
        maintenance_db: Option<String> = None,
        /// The role that connects.
        db_user: Option<String> = None,
        /// The password of the role that connects.
        db_password: Option<String> = None,
        /// The host, or the folder of the socket.
        db_host: Option<String> = None,
        /// The port.
        db_port: Option<String> = None,
    });

    /// Make sure that an extension is not installed.
    fn absent(Absent {
        /// Its name.
        name: String,
        /// Whether one that is not there is no error.
        if_exists: Option<bool> = None,
        /// Whether it stays where something needs it.
        restrict: Option<bool> = None,
        /// Whether what needs it goes too.
        cascade: Option<bool> = None,
        /// The account of the machine that runs the client.
        user: Option<String> = None,
        /// The database that is connected to.
        maintenance_db: Option<String> = None,
        /// The role that connects.
        db_user: Option<String> = None,
        /// The password of the role that connects.
        db_password: Option<String> = None,
        /// The host, or the folder of the socket.
        db_host: Option<String> = None,
        /// The port.
        db_port: Option<String> = None,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name;
    let asked = Asked {
        if_not_exists: args.if_not_exists,
        schema: args.schema,
        ext_version: args.ext_version,
        from_version: args.from_version,
    };
    let conn = db_conn!(args);
    let is = extension::metadata(cx, &conn, &name, &asked)?;
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
        Ok(match extension::create(cx, &conn, &name, &asked)? {
            true => {
                Ret::ok(format!("The extension {name} has been {participle}")).change(&name, done)
            }
            false => Ret::failed(format!("Failed to {mode} extension {name}")),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, how) = (args.name, (args.if_exists, args.restrict, args.cascade));
    let conn = db_conn!(args);
    let is_there = extension::is_installed(cx, &conn, &name)?;
    super::absent(cx, "Extension", &name, is_there, || {
        extension::remove(cx, &conn, &name, how)
    })
}
