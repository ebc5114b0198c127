//! The `mysql_grants` state module. Salt 3008 no longer has it; the returns are those of Salt's
//! last version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use crate::exec::mysql::Conn;
use crate::exec::mysql::grants::{GrantOptions, add, exists, revoke, revoke_all};

state::state_module! {
    /// Manage privileges in MySQL and MariaDB. Each function also accepts `connection_user`,
    /// `connection_pass` and the other connection arguments.
    #[needs("mariadb|mysql", "mysql module could not be loaded", "mariadb-client")]
    #[facts(free_arguments = true)]
    mod mysql_grants;

    /// Make sure that a user has privileges.
    ///
    ///     shop access:
    ///       mysql_grants.present:
    ///         - grant: select,insert,update
    ///         - database: shop.*
    ///         - user: shop
    ///         - host: localhost
    fn present(Present {
        /// Any name for the privileges.
        name: String,
        #[group] granted: Granted,
        /// True to first revoke all privileges that the user has there.
        revoke_first: bool = false,
        /// The TLS requirements for the user's connections: a list of dictionaries.
        ssl_option: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a user does not have privileges.
    ///
    ///     shop access:
    ///       mysql_grants.absent:
    ///         - grant: insert,update
    ///         - database: shop.*
    ///         - user: shop
    ///         - host: localhost
    fn absent(Absent {
        /// Any name for the privileges.
        name: String,
        #[group] granted: Granted,
        ..kwargs
    });
}

state::argument_group! {
    /// The privileges, their object and the user.
    pub(crate) struct Granted {
        /// The privileges, separated by commas.
        grant: Option<String> = None,
        /// The object of the privileges, as `database.table`. Each part may be `*`.
        database: Option<String> = None,
        /// The user.
        user: Option<String> = None,
        /// The host of the user.
        host: String = "localhost".into(),
        /// True if the user may grant the privileges to others.
        grant_option: bool = false,
        /// True to quote the names of the database and table.
        escape: bool = true,
    }
}

impl Granted {
    /// Returns the request. As in Salt's functions, `grant`, `database` and `user` are required.
    fn into_options(self) -> Result<GrantOptions, Error> {
        Ok(GrantOptions {
            grant: self.grant.ok_or_else(|| Error::missing("grant"))?,
            database: self.database.ok_or_else(|| Error::missing("database"))?,
            user: self.user.ok_or_else(|| Error::missing("user"))?,
            host: self.host,
            grant_option: self.grant_option,
            escape: self.escape,
            ..GrantOptions::default()
        })
    }
}

/// Returns the text `GRANT on DATABASE WORD USER@HOST` for comments.
fn describe(requested: &GrantOptions, word: &str) -> String {
    let GrantOptions {
        grant,
        database,
        user,
        host,
        ..
    } = requested;
    format!("{grant} on {database} {word} {user}@{host}")
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let name = args.name;
    let mut requested = args.granted.into_options()?;
    requested.ssl_option = args.ssl_option;
    let what = describe(&requested, "to");
    if exists(cx, &conn, &requested)? {
        return Ok(Ret::ok(format!("Grant {what} is already present")));
    }
    let would = Ret::would(format!("MySQL grant {name} is set to be created"));
    cx.apply(would, || {
        if args.revoke_first {
            revoke_all(cx, &conn, &requested)?;
        }
        let failed = || {
            let (grant, on) = (&requested.grant, &requested.database);
            let who = format!("{}@{}", requested.user, requested.host);
            format!("Failed to execute: \"GRANT {grant} ON {on} TO {who}\"")
        };
        Ok(match add(cx, &conn, &requested) {
            Ok(true) => Ret::ok(format!("Grant {what} has been added")).change(&name, "Present"),
            Ok(false) => Ret::failed(failed()),
            Err(why) => super::failed(failed(), Err(why)),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let name = args.name;
    let requested = args.granted.into_options()?;
    let is_there = exists(cx, &conn, &requested).map_err(|why| {
        let what = describe(&requested, "for");
        Error::refused(format!(
            "Unable to determine if grant {what} exists ({why})"
        ))
    })?;
    if !is_there {
        let what = describe(&requested, "to");
        return Ok(Ret::ok(format!(
            "Grant {what} is not present, so it cannot be revoked"
        )));
    }
    let would = Ret::would(format!("MySQL grant {name} is set to be revoked"));
    cx.apply(would, || {
        let what = describe(&requested, "for");
        let failed = format!("Unable to revoke grant {what}");
        Ok(match revoke(cx, &conn, &requested) {
            Ok(true) => Ret::ok(format!("Grant {what} has been revoked")).change(&name, "Absent"),
            Ok(false) => Ret::failed(failed),
            Err(why) => super::failed(failed, Err(why)),
        })
    })
}
