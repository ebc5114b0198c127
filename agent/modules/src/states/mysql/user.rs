//! The `mysql_user` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::mysql::Conn;
use crate::exec::mysql::user::{UserOptions, change, create, exists, remove};

state::state_module! {
    /// Manage users of MySQL and MariaDB. Each function also accepts `connection_user`,
    /// `connection_pass` and the other connection arguments.
    #[needs("mariadb|mysql", "mysql module could not be loaded", "mariadb-client")]
    #[facts(free_arguments = true)]
    mod mysql_user;

    /// Make sure that a user exists with the given password.
    ///
    ///     shop:
    ///       mysql_user.present:
    ///         - host: localhost
    ///         - password: {{ pillar['shop_password'] }}
    fn present(Present {
        /// The name of the user.
        name: String,
        /// The host of the user.
        host: String = "localhost".into(),
        /// The password of the user.
        password: Option<String> = None,
        /// The hash of the password.
        password_hash: Option<String> = None,
        /// True to allow a user without a password.
        allow_passwordless: bool = false,
        /// True to authenticate the user by the account of the operating system.
        unix_socket: bool = false,
        /// The column of `mysql.user` that contains the passwords.
        password_column: Option<String> = None,
        /// The plugin that authenticates the user.
        auth_plugin: String = "mysql_native_password".into(),
        ..kwargs
    });

    /// Make sure that a user does not exist.
    ///
    ///     shop:
    ///       mysql_user.absent:
    ///         - host: localhost
    fn absent(Absent {
        /// The name of the user.
        name: String,
        /// The host of the user.
        host: String = "localhost".into(),
        ..kwargs
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let requested = UserOptions {
        user: args.name,
        host: args.host,
        password: filled(args.password),
        password_hash: filled(args.password_hash),
        passwordless: args.allow_passwordless,
        unix_socket: args.unix_socket,
        password_column: args.password_column,
        auth_plugin: args.auth_plugin,
    };
    let is_open = requested.password.is_none() && requested.password_hash.is_none();
    if is_open && !requested.passwordless && !requested.unix_socket {
        return Ok(Ret::failed(
            "Either password or password_hash must be specified, unless allow_passwordless is True",
        ));
    }
    let exact = UserOptions {
        passwordless: is_open,
        ..requested.clone()
    };
    if exists(cx, &conn, &exact)? {
        return Ok(Ret::ok(already(&requested, is_open)));
    }
    match exists(
        cx,
        &conn,
        &UserOptions::user(&requested.user, &requested.host),
    )? {
        true => changed(cx, &conn, &requested, is_open),
        false => added(cx, &conn, &requested),
    }
}

fn already(requested: &UserOptions, is_open: bool) -> String {
    let comment = format!(
        "User {}@{} is already present",
        requested.user, requested.host
    );
    let more = if is_open {
        if requested.passwordless {
            " with passwordless login"
        } else {
            ""
        }
    } else if requested.auth_plugin != "mysql_native_password" {
        ". Unable to verify password."
    } else if requested.password.is_some() {
        " with the desired password"
    } else {
        " with the desired password hash"
    };
    comment + more
}

fn changed(cx: &Exec, conn: &Conn, requested: &UserOptions, is_open: bool) -> Result<Ret, Error> {
    let (user, who) = (
        &requested.user,
        format!("{}@{}", requested.user, requested.host),
    );
    let (verb, done) = match is_open {
        true => ("clear", "cleared"),
        false => ("change", "changed"),
    };
    let comment = format!("Password for user {who} is set to be {done}");
    if cx.test && is_open && !requested.passwordless {
        return Ok(Ret::failed(format!(
            "{comment}, but allow_passwordless != True"
        )));
    }
    cx.apply(Ret::would(comment), || {
        let why = change(cx, conn, requested);
        if why.is_ok() {
            let comment = format!("Password for user {who} has been {done}");
            return Ok(Ret::ok(comment).change(user, "Updated"));
        }
        let mut ret = super::failed(format!("Failed to {verb} password for user {who}"), why);
        if is_open && !requested.passwordless {
            ret.comment
                .push_str(". Note: allow_passwordless must be True to permit passwordless login.");
        }
        Ok(ret)
    })
}

fn added(cx: &Exec, conn: &Conn, requested: &UserOptions) -> Result<Ret, Error> {
    let who = format!("{}@{}", requested.user, requested.host);
    let open = if requested.passwordless {
        " with passwordless login"
    } else {
        ""
    };
    let socket = if requested.unix_socket {
        " using unix_socket"
    } else {
        ""
    };
    let would = format!("User {who} is set to be added{open}{socket}");
    cx.apply(Ret::would(would), || {
        let failed = format!("Failed to create user {who}");
        Ok(match create(cx, conn, requested) {
            Ok(true) => Ret::ok(format!("The user {who} has been added{open}{socket}"))
                .change(&requested.user, "Present"),
            Ok(false) => Ret::failed(failed),
            Err(why) => super::failed(failed, Err(why)),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let requested = UserOptions::user(&args.name, &args.host);
    let who = format!("User {}@{}", args.name, args.host);
    if !exists(cx, &conn, &requested)? {
        return Ok(Ret::ok(format!(
            "{who} is not present, so it cannot be removed"
        )));
    }
    cx.apply(Ret::would(format!("{who} is set to be removed")), || {
        Ok(match remove(cx, &conn, &requested)? {
            true => Ret::ok(format!("{who} has been removed")).change(&args.name, "Absent"),
            false => Ret::failed(format!("{who} failed to be removed")),
        })
    })
}
