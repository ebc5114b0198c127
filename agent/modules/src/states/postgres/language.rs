//! The `postgres_language` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::Access;
use crate::exec::postgres::schema::{create_language, has_language, remove_language};

state::state_module! {
    /// Manage languages in a database of PostgreSQL.
    #[module(virtual_ = super::missing)]
    mod postgres_language;

    /// Make sure that a language is installed.
    ///
    ///     plpgsql:
    ///       postgres_language.present:
    ///         - maintenance_db: shop
    fn present(Present {
        /// The name of the language.
        name: String,
        /// The database to connect to.
        maintenance_db: String,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        #[group] access: Access,
    });

    /// Make sure that a language is not installed.
    ///
    ///     plpgsql:
    ///       postgres_language.absent:
    ///         - maintenance_db: shop
    fn absent(Absent {
        /// The name of the language.
        name: String,
        /// The database to connect to.
        maintenance_db: String,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        #[group] access: Access,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name;
    let conn = args.access.conn(args.user, Some(args.maintenance_db));
    if has_language(cx, &conn, &name)? {
        return Ok(Ret::ok(format!("Language {name} is already installed")));
    }
    let would = Ret::would(format!("Language {name} is set to be installed"));
    cx.apply(would, || {
        Ok(match create_language(cx, &conn, &name)? {
            true => Ret::ok(format!("Language {name} has been installed")).change(&name, "Present"),
            false => Ret::failed(format!("Failed to install language {name}")),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let name = args.name;
    let conn = args.access.conn(args.user, Some(args.maintenance_db));
    if !has_language(cx, &conn, &name)? {
        return Ok(Ret::ok(format!(
            "Language {name} is not present so it cannot be removed"
        )));
    }
    let would = Ret::would(format!("Language {name} is set to be removed"));
    cx.apply(would, || {
        Ok(match remove_language(cx, &conn, &name)? {
            true => Ret::ok(format!("Language {name} has been removed")).change(&name, "Absent"),
            false => Ret::failed(format!("Failed to remove language {name}")),
        })
    })
}
