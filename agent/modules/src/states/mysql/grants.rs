//! The `mysql_grants` state module. Salt 3008 has it no more; answers are those of its last one.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use crate::exec::mysql::Conn;
use crate::exec::mysql::grants::{Asked, add, exists, revoke, revoke_all};

state::state_module! {
    /// Privileges in MySQL and MariaDB. Each function takes `connection_user`, `connection_pass` and so on.
    mod mysql_grants;

    /// Make sure that a user has privileges.
    fn present(Present {
        /// Its name.
        name: String,
        /// The privileges, with commas between them.
        grant: Option<String> = None,
        /// On what: `database.table`; each may be `*`.
        database: Option<String> = None,
        /// The user.
        user: Option<String> = None,
        /// The host that it comes from.
        host: String = "localhost".into(),
        /// Whether they may be granted further.
        grant_option: bool = false,
        /// Whether the names of database and table are quoted.
        escape: bool = true,
        /// Whether what the user has there is taken away first.
        revoke_first: bool = false,
        /// What its connections must have: a list of dictionaries.
        ssl_option: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a user does not have privileges.
    fn absent(Absent {
        /// Its name.
        name: String,
        /// The privileges, with commas between them.
        grant: Option<String> = None,
        /// On what: `database.table`; each may be `*`.
        database: Option<String> = None,
        /// The user.
        user: Option<String> = None,
        /// The host that it comes from.
        host: String = "localhost".into(),
        /// Whether they may be granted further.
        grant_option: bool = false,
        /// Whether the names of database and table are quoted.
        escape: bool = true,
        ..kwargs
    });
}

/// What the arguments ask; Salt's functions cannot do without these three either.
macro_rules! asked {
    ($args:ident) => {
        Asked {
            grant: $args.grant.ok_or_else(|| Error::missing("grant"))?,
            database: $args.database.ok_or_else(|| Error::missing("database"))?,
            user: $args.user.ok_or_else(|| Error::missing("user"))?,
            host: $args.host,
            grant_option: $args.grant_option,
            escape: $args.escape,
            ..Asked::default()
        }
    };
}

/// `Grant WHAT on WHERE WORD USER@HOST`.
fn told(asked: &Asked, word: &str) -> String {
    let Asked {
        grant,
        database,
        user,
        host,
        ..
    } = asked;
    format!("{grant} on {database} {word} {user}@{host}")
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let conn = Conn::of(cx, &args.kwargs)?;
    let name = args.name;
    let mut asked = asked!(args);
    asked.ssl_option = args.ssl_option;
    let what = told(&asked, "to");
    if exists(cx, &conn, &asked)? {
        return Ok(Ret::ok(format!("Grant {what} is already present")));
    }
    let would = Ret::would(format!("MySQL grant {name} is set to be created"));
    cx.apply(would, || {
        if args.revoke_first {
            revoke_all(cx, &conn, &asked)?;
        }
        let failed = || {
            let (grant, on) = (&asked.grant, &asked.database);
            let who = format!("{}@{}", asked.user, asked.host);
            format!("Failed to execute: \"GRANT {grant} ON {on} TO {who}\"")
        };
        Ok(match add(cx, &conn, &asked) {
            Ok(true) => Ret::ok(format!("Grant {what} has been added")).change(&name, "Present"),
            Ok(false) => Ret::failed(failed()),
            Err(why) => super::failed(failed(), Err(why)),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let conn = Conn::of(cx, &args.kwargs)?;
    let name = args.name;
    let asked = asked!(args);
    let is_there = exists(cx, &conn, &asked).map_err(|why| {
        let what = told(&asked, "for");
        Error::refused(format!(
            "Unable to determine if grant {what} exists ({why})"
        ))
    })?;
    if !is_there {
        let what = told(&asked, "to");
        return Ok(Ret::ok(format!(
            "Grant {what} is not present, so it cannot be revoked"
        )));
    }
    let would = Ret::would(format!("MySQL grant {name} is set to be revoked"));
    cx.apply(would, || {
        let what = told(&asked, "for");
        let failed = format!("Unable to revoke grant {what}");
        Ok(match revoke(cx, &conn, &asked) {
            Ok(true) => Ret::ok(format!("Grant {what} has been revoked")).change(&name, "Absent"),
            Ok(false) => Ret::failed(failed),
            Err(why) => super::failed(failed, Err(why)),
        })
    })
}
