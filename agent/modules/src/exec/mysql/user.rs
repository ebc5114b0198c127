//! The users of a server.

use sha1::{Digest, Sha1};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, python};

use super::{Conn, or, quoted};
use crate::exec::pkg::version;

state::exec_module! {
    /// Manage users of MySQL and MariaDB.
    mod mysql;

    /// Return the users.
    ///
    ///     salt-call mysql.user_list
    fn user_list(UserList {
        ..kwargs
    });

    /// Return True if a user exists and has the given password.
    ///
    ///     salt-call mysql.user_exists shop localhost
    fn user_exists(UserExists {
        /// The user.
        user: String,
        /// The host that the user connects from.
        host: String = "localhost".into(),
        /// The password of the user.
        password: Option<String> = None,
        /// The hash of the password.
        password_hash: Option<String> = None,
        /// Whether the user has no password.
        passwordless: bool = false,
        /// Whether the user is authenticated by the account on the machine (`unix_socket`).
        unix_socket: bool = false,
        /// The column of `mysql.user` that contains the passwords.
        password_column: Option<String> = None,
        ..kwargs
    });

    /// Return information about a user.
    ///
    ///     salt-call mysql.user_info shop localhost
    fn user_info(UserInfo {
        /// The user.
        user: String,
        /// The host that the user connects from.
        host: String = "localhost".into(),
        ..kwargs
    });

    /// Create a user.
    ///
    ///     salt-call mysql.user_create shop localhost S3cret
    fn user_create(UserCreate {
        /// The user.
        user: String,
        /// The host that the user connects from.
        host: String = "localhost".into(),
        /// The password of the user.
        password: Option<String> = None,
        /// The hash of the password.
        password_hash: Option<String> = None,
        /// Whether the user may have no password.
        allow_passwordless: bool = false,
        /// Whether the user is authenticated by the account on the machine (`unix_socket`).
        unix_socket: bool = false,
        /// The column of `mysql.user` that contains the passwords.
        password_column: Option<String> = None,
        /// The plugin that checks the password.
        auth_plugin: String = "mysql_native_password".into(),
        ..kwargs
    });

    /// Change the password of a user.
    ///
    ///     salt-call mysql.user_chpass shop localhost S3cret
    fn user_chpass(UserChpass {
        /// The user.
        user: String,
        /// The host that the user connects from.
        host: String = "localhost".into(),
        /// The new password.
        password: Option<String> = None,
        /// The hash of the new password.
        password_hash: Option<String> = None,
        /// Whether the user may have no password.
        allow_passwordless: bool = false,
        /// Whether the user is authenticated by the account on the machine (`unix_socket`).
        unix_socket: Option<bool> = None,
        /// The column of `mysql.user` that contains the passwords.
        password_column: Option<String> = None,
        ..kwargs
    });

    /// Remove a user.
    ///
    ///     salt-call mysql.user_remove shop localhost
    fn user_remove(UserRemove {
        /// The user.
        user: String,
        /// The host that the user connects from.
        host: String = "localhost".into(),
        ..kwargs
    });

    /// Return True if a user can log in.
    ///
    ///     salt-call mysql.verify_login shop S3cret
    fn verify_login(VerifyLogin {
        /// The user.
        user: String,
        /// The password of the user.
        password: Option<String> = None,
        ..kwargs
    });
}

/// A user, and the requirements for the password.
#[derive(Clone, Default)]
pub(crate) struct UserOptions {
    pub user: String,
    pub host: String,
    pub password: Option<String>,
    pub password_hash: Option<String>,
    pub passwordless: bool,
    pub unix_socket: bool,
    pub password_column: Option<String>,
    pub auth_plugin: String,
}

/// The properties of the server that the statements depend on.
struct Server {
    is_mariadb: bool,
    version: String,
}

impl Server {
    fn is_since(&self, mariadb: &str, mysql: &str) -> bool {
        let since = if self.is_mariadb { mariadb } else { mysql };
        version::loose(&self.version, since).is_ge()
    }

    /// Returns the name of the plugin that authenticates users by their account on the machine.
    fn socket_plugin(&self) -> &'static str {
        match self.is_mariadb {
            true => "unix_socket",
            false => "auth_socket",
        }
    }
}

/// Returns a connection and the properties of its server. If the given connection fails, it uses
/// the password of the user.
fn reached(cx: &Exec, conn: &Conn, requested: &UserOptions) -> Result<(Conn, Server), Error> {
    let found = conn.version(cx).map(|version| (conn.clone(), version));
    let (conn, version) = match (found, &requested.password) {
        (Err(_), Some(password)) => {
            let own = conn.with("password", password);
            let version = own.version(cx)?;
            (own, version)
        }
        (found, _) => found?,
    };
    let is_mariadb = version.contains("MariaDB");
    Ok((
        conn,
        Server {
            is_mariadb,
            version,
        },
    ))
}

impl UserOptions {
    /// Returns a user without requirements for the password.
    pub(crate) fn user(user: &str, host: &str) -> Self {
        Self {
            user: user.to_owned(),
            host: host.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the account for SQL: `'user'@'host'`.
    pub(super) fn account(&self) -> String {
        format!("{}@{}", quoted(&self.user), quoted(&self.host))
    }

    fn is_this(&self) -> String {
        format!(
            "User = {} AND Host = {}",
            quoted(&self.user),
            quoted(&self.host)
        )
    }

    fn password(&self) -> Option<&str> {
        self.password
            .as_deref()
            .filter(|password| !password.is_empty())
    }

    fn hash(&self) -> Option<&str> {
        self.password_hash
            .as_deref()
            .filter(|hash| !hash.is_empty())
    }

    /// Returns the column that contains the password hashes.
    fn column(&self, cx: &Exec, conn: &Conn) -> Result<String, Error> {
        if let Some(column) = &self.password_column {
            return Ok(super::ident(column));
        }
        let sql = "SELECT column_name FROM information_schema.COLUMNS WHERE table_schema='mysql' AND table_name='user' AND column_name='Password'";
        Ok(match conn.has(cx, sql)? {
            true => "Password".to_owned(),
            false => "authentication_string".to_owned(),
        })
    }

    /// Returns the plugin that checks the user's password now.
    fn plugin(&self, cx: &Exec, conn: &Conn) -> Result<String, Error> {
        let sql = format!("SELECT plugin FROM mysql.user WHERE {}", self.is_this());
        let plugin = conn
            .table(cx, &sql)?
            .first("plugin")
            .map(|plugin| plugin.to_text());
        let plugin = plugin.filter(|plugin| !plugin.is_empty());
        Ok(plugin.unwrap_or_else(|| "mysql_native_password".to_owned()))
    }

    /// Returns the SQL condition on the password, in addition to the one on the name.
    fn condition(&self, cx: &Exec, conn: &Conn, server: &Server) -> Result<String, Error> {
        if self.passwordless {
            return Ok(match self.unix_socket {
                true => format!(" AND plugin = '{}'", server.socket_plugin()),
                false => format!(" AND {} = ''", self.column(cx, conn)?),
            });
        }
        let hash = match (self.password(), self.hash()) {
            (Some(password), _) if server.is_mariadb || !server.is_since("", "8.0.11") => {
                format!("PASSWORD({})", quoted(password))
            }
            (Some(password), _) => {
                if self.plugin(cx, conn)? != "mysql_native_password" {
                    return Err("Unable to verify password.".into());
                }
                quoted(&hash_of(password))
            }
            (None, Some(hash)) => quoted(hash),
            (None, None) => return Ok(String::new()),
        };
        Ok(format!(" AND {} = {hash}", self.column(cx, conn)?))
    }

    /// Returns the `IDENTIFIED` clause of the statement that creates the user.
    fn identified(&self, cx: &Exec, conn: &Conn, server: &Server) -> Result<String, Error> {
        if self.unix_socket {
            let plugin = self.socket(cx, conn, server)?;
            let by = if server.is_mariadb { "VIA" } else { "WITH" };
            return Ok(format!(" IDENTIFIED {by} {plugin}"));
        }
        if self.passwordless {
            return Ok(String::new());
        }
        let with = format!(" IDENTIFIED WITH {}", quoted(&self.auth_plugin));
        let is_new = !server.is_mariadb && server.is_since("", "8.0.11");
        Ok(match (&self.password, &self.password_hash) {
            (Some(password), _) if is_new => format!("{with} BY {}", quoted(password)),
            (Some(password), _) => format!(" IDENTIFIED BY {}", quoted(password)),
            (None, Some(hash)) if is_new => format!("{with} AS {}", quoted(hash)),
            (None, Some(hash)) => format!(" IDENTIFIED BY PASSWORD {}", quoted(hash)),
            (None, None) => {
                return Err(
                    "password or password_hash must be specified, unless allow_passwordless=True"
                        .into(),
                );
            }
        })
    }

    /// Returns the plugin that authenticates by the account on the machine, or an error if it
    /// cannot be used.
    fn socket(&self, cx: &Exec, conn: &Conn, server: &Server) -> Result<&'static str, Error> {
        let plugin = server.socket_plugin();
        if self.host != "localhost" {
            return Err("Auth via unix_socket can be set only for host=localhost".into());
        }
        match conn.plugin(cx, plugin)?.is_empty() {
            true => Err(Error::refused(format!(
                "The {plugin} plugin is not enabled."
            ))),
            false => Ok(plugin),
        }
    }

    /// Returns the statement that changes the password of an existing user.
    fn change(&self, cx: &Exec, conn: &Conn, server: &Server) -> Result<String, Error> {
        let (account, is_this) = (self.account(), self.is_this());
        let is_new = server.is_since("10.4", "8.0.11");
        if self.passwordless && self.unix_socket {
            let plugin = self.socket(cx, conn, server)?;
            return Ok(match (is_new, server.is_mariadb) {
                (true, true) => format!("ALTER USER {account} IDENTIFIED VIA {plugin}"),
                (true, false) => format!(
                    "ALTER USER {account} IDENTIFIED WITH {plugin} AS {}",
                    quoted(&self.user)
                ),
                _ => format!(
                    "UPDATE mysql.user SET {}='', plugin='{plugin}' WHERE {is_this}",
                    self.column(cx, conn)?
                ),
            });
        }
        let is_mysql_8 = is_new && !server.is_mariadb;
        let hash = match (&self.password, &self.password_hash) {
            (Some(password), _) if is_mysql_8 => format!(" BY {}", quoted(password)),
            (Some(password), _) => format!("PASSWORD({})", quoted(password)),
            (None, Some(hash)) if is_mysql_8 => format!(" AS {}", quoted(hash)),
            (None, Some(hash)) => quoted(hash),
            (None, None) if self.passwordless => "''".to_owned(),
            (None, None) => {
                return Err(
                    "password or password_hash must be specified, unless allow_passwordless=True"
                        .into(),
                );
            }
        };
        if !is_new {
            let column = self.column(cx, conn)?;
            return Ok(format!(
                "UPDATE mysql.user SET {column}={hash} WHERE {is_this}"
            ));
        }
        let plugin = quoted(&self.plugin(cx, conn)?);
        Ok(match (is_mysql_8, hash.as_str()) {
            (true, "''") => format!("ALTER USER {account} IDENTIFIED WITH {plugin} BY ''"),
            (true, hash) => format!("ALTER USER {account} IDENTIFIED WITH {plugin}{hash}"),
            (false, hash) => format!(
                "ALTER USER {account} IDENTIFIED VIA {} USING {hash}",
                plugin.trim_matches('\'')
            ),
        })
    }
}

/// Returns the hash that `mysql_native_password` stores.
fn hash_of(password: &str) -> String {
    let once = Sha1::digest(password.as_bytes());
    format!("*{}", python::hex(&Sha1::digest(once)).to_uppercase())
}

/// Returns whether a user exists and has the given password, if there is one.
pub(crate) fn exists(cx: &Exec, conn: &Conn, requested: &UserOptions) -> Result<bool, Error> {
    let (conn, server) = reached(cx, conn, requested)?;
    let condition = requested.condition(cx, &conn, &server)?;
    conn.has(
        cx,
        &format!(
            "SELECT User,Host FROM mysql.user WHERE {}{condition}",
            requested.is_this()
        ),
    )
}

/// Creates a user. Returns true if the user exists afterwards.
pub(crate) fn create(cx: &Exec, conn: &Conn, requested: &UserOptions) -> Result<bool, Error> {
    let (conn, server) = reached(cx, conn, requested)?;
    let how = requested.identified(cx, &conn, &server)?;
    conn.ask(cx, &format!("CREATE USER {}{how}", requested.account()))?;
    let plain = UserOptions {
        passwordless: false,
        ..requested.clone()
    };
    match server.is_mariadb || requested.auth_plugin == "mysql_native_password" {
        true => exists(cx, &conn, &plain),
        false => exists(
            cx,
            &conn,
            &UserOptions::user(&requested.user, &requested.host),
        ),
    }
}

/// Changes the password of an existing user.
pub(crate) fn change(cx: &Exec, conn: &Conn, requested: &UserOptions) -> Result<(), Error> {
    let (conn, server) = reached(cx, conn, requested)?;
    let sql = requested.change(cx, &conn, &server)?;
    conn.ask(cx, &format!("{sql};\nFLUSH PRIVILEGES"))?;
    Ok(())
}

/// Removes an existing user. Returns true if the user is gone afterwards.
pub(crate) fn remove(cx: &Exec, conn: &Conn, requested: &UserOptions) -> Result<bool, Error> {
    conn.ask(cx, &format!("DROP USER {}", requested.account()))?;
    Ok(!exists(cx, conn, requested)?)
}

fn user_list(cx: &Exec, args: UserList) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    or(
        conn.table(cx, "SELECT User,Host FROM mysql.user"),
        Value::list([]),
    )
}

fn user_exists(cx: &Exec, args: UserExists) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let requested = UserOptions {
        user: args.user,
        host: args.host,
        password: args.password,
        password_hash: args.password_hash,
        passwordless: args.passwordless,
        unix_socket: args.unix_socket,
        password_column: args.password_column,
        ..UserOptions::default()
    };
    or(exists(cx, &conn, &requested), false)
}

fn user_info(cx: &Exec, args: UserInfo) -> Result<Value, Error> {
    let is_this = UserOptions::user(&args.user, &args.host).is_this();
    let sql = format!("SELECT * FROM mysql.user WHERE {is_this}");
    let found = Conn::from_kwargs(cx, &args.kwargs)?.table(cx, &sql);
    or(
        found.map(|table| Value::from(table.rows.into_iter().next())),
        false,
    )
}

fn user_create(cx: &Exec, args: UserCreate) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let requested = UserOptions {
        user: args.user,
        host: args.host,
        password: args.password,
        password_hash: args.password_hash,
        passwordless: args.allow_passwordless,
        unix_socket: args.unix_socket,
        password_column: args.password_column,
        auth_plugin: args.auth_plugin,
    };
    let created = || {
        if exists(
            cx,
            &conn,
            &UserOptions::user(&requested.user, &requested.host),
        )? {
            log::info(format_args!("User {} already exists", requested.account()));
            return Ok(false);
        }
        create(cx, &conn, &requested)
    };
    or(created(), false)
}

fn user_chpass(cx: &Exec, args: UserChpass) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let requested = UserOptions {
        user: args.user,
        host: args.host,
        password: args.password,
        password_hash: args.password_hash,
        passwordless: args.allow_passwordless,
        unix_socket: args.unix_socket == Some(true),
        password_column: args.password_column,
        ..UserOptions::default()
    };
    let changed = || {
        let is_there = exists(
            cx,
            &conn,
            &UserOptions::user(&requested.user, &requested.host),
        )?;
        if is_there {
            change(cx, &conn, &requested)?;
        }
        Ok(is_there)
    };
    or(changed(), false)
}

fn user_remove(cx: &Exec, args: UserRemove) -> Result<Value, Error> {
    let conn = Conn::from_kwargs(cx, &args.kwargs)?;
    let requested = UserOptions::user(&args.user, &args.host);
    let removed = || Ok(exists(cx, &conn, &requested)? && remove(cx, &conn, &requested)?);
    or(removed(), false)
}

fn verify_login(cx: &Exec, args: VerifyLogin) -> Result<Value, Error> {
    let kwargs: Map = args
        .kwargs
        .with("connection_user", args.user)
        .with("connection_pass", args.password);
    Ok(Conn::from_kwargs(cx, &kwargs)?.version(cx).is_ok().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_hashed_as_the_server_does() {
        assert_eq!(
            hash_of("secret"),
            "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7"
        );
    }

    #[test]
    fn statements_fit_the_server() {
        let is = |version: &str| Server {
            is_mariadb: version.contains("MariaDB"),
            version: version.to_owned(),
        };
        assert!(is("10.11.19-MariaDB-0+deb12u1").is_since("10.4", "8.0.11"));
        assert!(!is("10.3.2-MariaDB").is_since("10.4", "8.0.11"));
        assert!(
            is("8.0.36").is_since("10.4", "8.0.11") && !is("5.7.44").is_since("10.4", "8.0.11")
        );
    }
}
