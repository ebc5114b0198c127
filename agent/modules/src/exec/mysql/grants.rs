//! The privileges of users.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::user::{self, UserOptions};
use super::{Conn, ident, or, quoted};
use crate::exec::pkg::version;

state::exec_module! {
    /// Manage the privileges of users of MySQL and MariaDB.
    mod mysql;

    /// Return the privileges of a user.
    ///
    ///     salt-call mysql.user_grants shop
    fn user_grants(UserGrants {
        /// The user.
        user: String,
        /// The host that the user connects from.
        host: String = "localhost".into(),
        ..kwargs
    });

    /// Return True if a user has privileges.
    ///
    ///     salt-call mysql.grant_exists SELECT,INSERT 'shop.*' shop localhost
    fn grant_exists(GrantExists {
        #[group] granted: Granted,
        ..kwargs
    });

    /// Grant privileges.
    ///
    ///     salt-call mysql.grant_add SELECT,INSERT 'shop.*' shop localhost
    fn grant_add(GrantAdd {
        #[group] granted: Granted,
        /// The requirements for encrypted connections of the user: a list of dictionaries.
        ssl_option: Value = false.into(),
        ..kwargs
    });

    /// Revoke privileges.
    ///
    ///     salt-call mysql.grant_revoke INSERT 'shop.*' shop localhost
    fn grant_revoke(GrantRevoke {
        #[group] granted: Granted,
        ..kwargs
    });

    /// Return the parts of a grant.
    ///
    ///     salt-call mysql.tokenize_grant "GRANT SELECT ON shop.* TO 'shop'@'localhost'"
    fn tokenize_grant(TokenizeGrant {
        /// The privileges, with commas between them.
        grant: String,
    });
}

/// The privileges that can be granted.
const KNOWN: &str = "ALL PRIVILEGES|ALTER|ALTER ROUTINE|BACKUP_ADMIN|BINLOG_ADMIN|BINLOG ADMIN|BINLOG MONITOR|BINLOG REPLAY|\
    CONNECTION_ADMIN|CONNECTION ADMIN|CREATE|CREATE ROLE|CREATE ROUTINE|CREATE TABLESPACE|CREATE TEMPORARY TABLES|CREATE USER|\
    CREATE VIEW|DELETE|DELETE HISTORY|DROP|DROP ROLE|ENCRYPTION_KEY_ADMIN|EVENT|EXECUTE|FEDERATED ADMIN|FILE|GRANT OPTION|\
    GROUP_REPLICATION_ADMIN|INDEX|INSERT|LOCK TABLES|PERSIST_RO_VARIABLES_ADMIN|PROCESS|READ_ONLY ADMIN|REFERENCES|RELOAD|\
    REPLICA MONITOR|REPLICATION CLIENT|REPLICATION MASTER ADMIN|REPLICATION REPLICA|REPLICATION SLAVE|REPLICATION_SLAVE_ADMIN|\
    REPLICATION SLAVE ADMIN|RESOURCE_GROUP_ADMIN|RESOURCE_GROUP_USER|ROLE_ADMIN|SELECT|SET USER|SET_USER_ID|SHOW DATABASES|\
    SHOW VIEW|SHUTDOWN|SLAVE MONITOR|SUPER|SYSTEM_VARIABLES_ADMIN|TRIGGER|UPDATE|USAGE|XA_RECOVER_ADMIN";

/// The privileges that MySQL 8 lists for `ALL PRIVILEGES` on `*.*`.
const ALL_OF_MYSQL_8: &str = "ALTER|ALTER ROUTINE|BACKUP_ADMIN|BINLOG_ADMIN|CONNECTION_ADMIN|CREATE|CREATE ROLE|CREATE ROUTINE|\
    CREATE TABLESPACE|CREATE TEMPORARY TABLES|CREATE USER|CREATE VIEW|DELETE|DROP|DROP ROLE|ENCRYPTION_KEY_ADMIN|EVENT|EXECUTE|FILE|\
    GROUP_REPLICATION_ADMIN|INDEX|INSERT|LOCK TABLES|PERSIST_RO_VARIABLES_ADMIN|PROCESS|REFERENCES|RELOAD|REPLICATION CLIENT|\
    REPLICATION SLAVE|REPLICATION_SLAVE_ADMIN|RESOURCE_GROUP_ADMIN|RESOURCE_GROUP_USER|ROLE_ADMIN|SELECT|SET_USER_ID|SHOW DATABASES|\
    SHOW VIEW|SHUTDOWN|SUPER|SYSTEM_VARIABLES_ADMIN|TRIGGER|UPDATE|XA_RECOVER_ADMIN";

state::argument_group! {
    /// The privileges, their object and the user.
    pub(crate) struct Granted {
        /// The privileges, with commas between them.
        grant: String,
        /// The object of the privileges: `database.table`. Each part may be `*`.
        database: String,
        /// The user.
        user: String,
        /// The host that the user connects from.
        host: String = "localhost".into(),
        /// Whether the user may grant the privileges to others.
        grant_option: bool = false,
        /// Whether to quote the names of database and table.
        escape: bool = true,
    }
}

impl From<Granted> for GrantOptions {
    fn from(granted: Granted) -> Self {
        Self {
            grant: granted.grant,
            database: granted.database,
            user: granted.user,
            host: granted.host,
            grant_option: granted.grant_option,
            escape: granted.escape,
            ..Self::default()
        }
    }
}

/// Requested privileges: their object and the user.
#[derive(Clone, Default)]
pub(crate) struct GrantOptions {
    pub grant: String,
    /// The object, as `database.table`.
    pub database: String,
    pub user: String,
    pub host: String,
    pub grant_option: bool,
    /// True if the names are quoted.
    pub escape: bool,
    pub ssl_option: Value,
}

/// The parts of a grant in the form in which they are compared.
#[derive(Clone, Debug, Default, PartialEq)]
struct Tokens {
    user: String,
    host: String,
    grant: Vec<String>,
    database: String,
}

/// Splits a text at a separator, but not inside of quotes and parentheses.
fn parts(text: &str, at: char) -> Vec<&str> {
    let (mut all, mut start, mut depth, mut quote) = (Vec::new(), 0, 0, None);
    for (index, sign) in text.char_indices() {
        match (quote, sign) {
            (Some(open), _) if open == sign => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '`') => quote = Some(sign),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            (None, _) if sign == at && depth == 0 => {
                all.extend(text.get(start..index));
                start = index + sign.len_utf8();
            }
            _ => {}
        }
    }
    all.extend(text.get(start..));
    all
}

/// Returns a name without its quotes.
fn bare(name: &str) -> String {
    name.replace(['\'', '"', '`', '\\'], "")
}

/// Splits a grant into single privileges. A privilege on a column becomes `SELECT.column`.
fn privileges(grant: &str) -> Vec<String> {
    let mut all = Vec::new();
    for part in parts(grant, ',') {
        let (word, columns) = part.split_once('(').unwrap_or((part, ""));
        let words: Vec<&str> = word.split_whitespace().collect();
        let word = words.join(" ");
        let columns = columns.trim_end().trim_end_matches(')');
        let columns = columns.split(',').map(|column| bare(column.trim()));
        let columns = columns.filter(|column| !column.is_empty());
        let of_columns: Vec<String> = columns.map(|column| format!("{word}.{column}")).collect();
        all.push(word);
        all.extend(of_columns);
    }
    all
}

impl Tokens {
    /// Parses a line of `SHOW GRANTS`. Returns `None` for roles and proxies.
    fn read(line: &str) -> Option<Self> {
        let words = parts(line, ' ');
        let at = |word: &str| words.iter().position(|one| *one == word);
        let (on, to) = (at("ON")?, at("TO")?);
        let between = |from: usize, to: usize| Some(words.get(from..to)?.join(" "));
        let (user, host) = {
            let account = parts(words.get(to + 1)?, '@');
            (
                bare(account.first()?),
                bare(account.get(1).copied().unwrap_or("%")),
            )
        };
        Some(Self {
            user,
            host,
            grant: privileges(&between(1, on)?),
            database: between(on + 1, to)?,
        })
    }
}

/// Returns the name that a server uses for a privilege with several names.
fn resolved(word: &str, server: &str) -> String {
    let since =
        |release: &str| server.contains("MariaDB") && version::loose(server, release).is_ge();
    match word {
        "REPLICATION REPLICA" if since("10.5.1") => "REPLICATION SLAVE",
        "REPLICATION CLIENT" if since("10.5.2") => "BINLOG MONITOR",
        "REPLICA MONITOR" if since("10.5.9") => "SLAVE MONITOR",
        word => word,
    }
    .to_owned()
}

impl GrantOptions {
    fn account(&self) -> String {
        UserOptions::user(&self.user, &self.host).account()
    }

    /// Returns the database and the table.
    fn place(&self) -> (&str, &str) {
        self.database
            .rsplit_once('.')
            .unwrap_or(("", &self.database))
    }

    /// Returns the database and the table, quoted for SQL. For all tables of a database, its name
    /// is a pattern.
    fn object(&self, escape: bool) -> String {
        let (database, table) = self.place();
        let database = match database {
            name if name == "*" || !escape => name.to_owned(),
            name if table == "*" => ident(name).replace('_', "\\_"),
            name => ident(name),
        };
        let table = match table {
            name if name == "*" || !escape => name.to_owned(),
            name => ident(name),
        };
        format!("{database}.{table}")
    }

    /// Returns the privileges for SQL, or an error if one is unknown.
    fn checked(grant: &str) -> Result<String, Error> {
        let upper = grant.trim().to_uppercase();
        let grant = match upper.as_str() {
            "ALL" => "ALL PRIVILEGES".to_owned(),
            _ => upper,
        };
        for part in parts(&grant, ',') {
            let word = part.split('(').next().unwrap_or_default().trim();
            if !word.is_empty() && !KNOWN.split('|').any(|known| known == word) {
                return Err(Error::refused(format!("Invalid grant : '{word}'")));
            }
        }
        Ok(grant)
    }

    fn requirements(&self) -> Result<String, Error> {
        let Some(options) = self.ssl_option.as_list() else {
            return Ok(String::new());
        };
        let mut all = Vec::new();
        for option in options {
            let Some((key, value)) = option.as_map().and_then(Map::first) else {
                return Err("ssl_option: expected a list of dictionaries".into());
            };
            let key = key.to_text().trim().to_uppercase();
            match key.as_str() {
                "CIPHER" | "ISSUER" | "SUBJECT" => {
                    all.push(format!(
                        "{key} {}",
                        quoted(&value.to_text().replace('\'', ""))
                    ));
                }
                "SSL" | "X509" if value.is_true() => all.push(key),
                "SSL" | "X509" => {}
                _ => return Err(Error::refused(format!("Invalid SSL option : '{key}'"))),
            }
        }
        Ok(format!(" REQUIRE {}", all.join(" AND ")))
    }

    fn statement(&self) -> Result<String, Error> {
        let option = if self.grant_option {
            " WITH GRANT OPTION"
        } else {
            ""
        };
        Ok(format!(
            "GRANT {} ON {} TO {}{}{option}",
            Self::checked(&self.grant)?,
            self.object(self.escape),
            self.account(),
            self.requirements()?,
        ))
    }

    /// Returns the privileges that must be among the grants of the user.
    fn wanted(&self, server: &str) -> Result<Vec<String>, Error> {
        let upper = self.grant.to_uppercase();
        let is_mysql_8 = !server.contains("MariaDB") && version::loose(server, "8.0").is_ge();
        let grant = match upper.contains("ALL") {
            true if is_mysql_8 && self.database == "*.*" => ALL_OF_MYSQL_8.replace('|', ","),
            true => "ALL PRIVILEGES".to_owned(),
            false => upper,
        };
        Ok(privileges(&Self::checked(&grant)?))
    }
}

/// Returns the `SHOW GRANTS` lines of a user; `None` if the user does not exist.
pub(crate) fn of_user(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    host: &str,
) -> Result<Option<Vec<String>>, Error> {
    let requested = UserOptions::user(name, host);
    if !user::exists(cx, conn, &requested)? {
        log::info(format_args!("User {} does not exist", requested.account()));
        return Ok(None);
    }
    let table = conn.table(cx, &format!("SHOW GRANTS FOR {}", requested.account()))?;
    let cells = table.rows.iter().filter_map(|row| row.values().next());
    let line = |cell: &Value| {
        let whole = cell.to_text();
        let line = whole.split(" IDENTIFIED BY").next().unwrap_or_default();
        let is_lost = whole.contains("WITH GRANT OPTION") && !line.contains("WITH GRANT OPTION");
        format!("{line}{}", if is_lost { " WITH GRANT OPTION" } else { "" })
    };
    Ok(Some(cells.map(line).collect()))
}

/// Returns whether a user has the privileges.
pub(crate) fn exists(cx: &Exec, conn: &Conn, requested: &GrantOptions) -> Result<bool, Error> {
    let server = conn.version(cx)?;
    let Some(lines) = of_user(cx, conn, &requested.user, &requested.host)? else {
        return Ok(false);
    };
    let wanted = match requested.wanted(&server) {
        Ok(wanted) => wanted,
        Err(problem) => {
            log::error(format_args!("Error during grant generation. {problem}"));
            return Ok(false);
        }
    };
    let place = bare(&requested.object(requested.escape));
    let given = lines.iter().filter_map(|line| Tokens::read(line));
    let given = given.filter(|tokens| {
        let here = (bare(&tokens.database), &tokens.user, &tokens.host);
        here == (
            place.clone(),
            &bare(&requested.user),
            &bare(&requested.host),
        )
    });
    let given: Vec<String> = given
        .flat_map(|tokens| tokens.grant)
        .map(|word| resolved(&word, &server).to_uppercase())
        .collect();
    let has = |word: &String| given.contains(&resolved(word, &server).to_uppercase());
    Ok(!given.is_empty() && wanted.iter().all(has))
}

/// Grants the privileges. Returns true if the user has them afterwards.
pub(crate) fn add(cx: &Exec, conn: &Conn, requested: &GrantOptions) -> Result<bool, Error> {
    match requested.statement() {
        Ok(sql) => conn.ask(cx, &sql)?,
        Err(problem) => {
            log::error(format_args!("Error during grant generation: {problem}"));
            return Ok(false);
        }
    };
    exists(cx, conn, requested)
}

/// Revokes the privileges. Returns true if the user does not have them afterwards.
pub(crate) fn revoke(cx: &Exec, conn: &Conn, requested: &GrantOptions) -> Result<bool, Error> {
    let option = if requested.grant_option {
        ", GRANT OPTION"
    } else {
        ""
    };
    let grant = GrantOptions::checked(&requested.grant)?;
    let (object, account) = (requested.object(true), requested.account());
    conn.ask(
        cx,
        &format!("REVOKE {grant}{option} ON {object} FROM {account}"),
    )?;
    Ok(!exists(cx, conn, requested)?)
}

/// Revokes all privileges that a user has on the requested object.
pub(crate) fn revoke_all(cx: &Exec, conn: &Conn, requested: &GrantOptions) -> Result<(), Error> {
    let lines = of_user(cx, conn, &requested.user, &requested.host)?.unwrap_or_default();
    let place = bare(&requested.object(true));
    for tokens in lines.iter().filter_map(|line| Tokens::read(line)) {
        if bare(&tokens.database) != place {
            continue;
        }
        let words = tokens.grant.iter().filter(|word| !word.contains('.'));
        let words: Vec<&str> = words.map(String::as_str).collect();
        let there = GrantOptions {
            grant: words.join(","),
            ..requested.clone()
        };
        revoke(cx, conn, &there)?;
    }
    Ok(())
}

fn user_grants(cx: &Exec, args: UserGrants) -> Result<Value, Error> {
    let found = of_user(
        cx,
        &Conn::from_kwargs(cx, &args.kwargs)?,
        &args.user,
        &args.host,
    );
    or(
        found.map(|lines| lines.map_or(Value::Bool(false), Value::from)),
        false,
    )
}

fn grant_exists(cx: &Exec, args: GrantExists) -> Result<Value, Error> {
    let requested = args.granted.into();
    or(
        exists(cx, &Conn::from_kwargs(cx, &args.kwargs)?, &requested),
        false,
    )
}

fn grant_add(cx: &Exec, args: GrantAdd) -> Result<Value, Error> {
    let requested = GrantOptions {
        ssl_option: args.ssl_option,
        ..args.granted.into()
    };
    or(
        add(cx, &Conn::from_kwargs(cx, &args.kwargs)?, &requested),
        false,
    )
}

fn grant_revoke(cx: &Exec, args: GrantRevoke) -> Result<Value, Error> {
    let requested = args.granted.into();
    or(
        revoke(cx, &Conn::from_kwargs(cx, &args.kwargs)?, &requested),
        false,
    )
}

fn tokenize_grant(_cx: &Exec, args: TokenizeGrant) -> Result<Value, Error> {
    let tokens = Tokens::read(&args.grant).unwrap_or_default();
    Ok(Map::new()
        .with("user", tokens.user)
        .with("host", tokens.host)
        .with("grant", tokens.grant)
        .with("database", tokens.database)
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_taken_apart() {
        let line = "GRANT SELECT (`a`, `b c`), INSERT, CREATE TEMPORARY TABLES ON `d\\_b`.`t` TO `me`@`%` WITH GRANT OPTION";
        let tokens = Tokens::read(line).unwrap();
        assert_eq!(
            tokens.grant,
            [
                "SELECT",
                "SELECT.a",
                "SELECT.b c",
                "INSERT",
                "CREATE TEMPORARY TABLES"
            ]
        );
        assert_eq!((tokens.user.as_str(), tokens.host.as_str()), ("me", "%"));
        assert_eq!(
            (tokens.database.as_str(), bare(&tokens.database).as_str()),
            ("`d\\_b`.`t`", "d_b.t")
        );
        assert_eq!(Tokens::read("GRANT `role` TO `me`@`%`"), None);
    }

    #[test]
    fn a_statement_names_what_is_meant() {
        let requested = GrantOptions {
            grant: "select (a_b), insert".to_owned(),
            database: "d_b.*".to_owned(),
            user: "it's".to_owned(),
            host: "%".to_owned(),
            grant_option: true,
            escape: true,
            ssl_option: Value::list([Value::from(Map::new().with("issuer", "me"))]),
        };
        assert_eq!(
            requested.statement().unwrap(),
            "GRANT SELECT (A_B), INSERT ON `d\\_b`.* TO 'it''s'@'%' REQUIRE ISSUER 'me' WITH GRANT OPTION"
        );
        assert!(GrantOptions::checked("FLY").is_err() && GrantOptions::checked("all").is_ok());
        assert_eq!(
            resolved("REPLICATION CLIENT", "10.11.2-MariaDB"),
            "BINLOG MONITOR"
        );
        assert_eq!(
            resolved("REPLICATION CLIENT", "8.0.36"),
            "REPLICATION CLIENT"
        );
    }
}
