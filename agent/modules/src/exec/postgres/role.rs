//! The part of the `postgres` execution module that manages roles. Users are roles that may log in,
//! groups are roles that may not.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::password::Method;
use super::{Conn, Connection, Server, cell, csv, ident, quoted};
use crate::exec::pkg::version;

state::exec_module! {
    /// Manage PostgreSQL with `psql`.
    mod postgres;

    /// Return the roles.
    ///
    ///     salt-call postgres.user_list
    fn user_list(UserList {
        #[group] server: Connection,
        /// True to include the hashes of the passwords.
        return_password: bool = false,
    });

    /// Return a role, or None if it does not exist.
    ///
    ///     salt-call postgres.role_get shop
    fn role_get(RoleGet {
        /// The name of the role.
        name: String,
        #[group] server: Connection,
        /// True to include the hashes of the passwords.
        return_password: bool = false,
    });

    /// Return whether a role exists.
    ///
    ///     salt-call postgres.user_exists shop
    fn user_exists(UserExists {
        /// The name of the role.
        name: String,
        #[group] server: Connection,
    });

    /// Create a role that may log in.
    ///
    ///     salt-call postgres.user_create shop rolepassword=S3cret
    fn user_create(UserCreate {
        /// The name of the role.
        username: String,
        #[group] server: Server,
        /// True if the role may create databases.
        createdb: Option<bool> = None,
        /// True if the role may create roles.
        createroles: Option<bool> = None,
        /// True if the role inherits the privileges of its groups.
        inherit: Option<bool> = None,
        /// True if the role may log in.
        login: Option<bool> = None,
        /// The maximum number of connections of the role.
        connlimit: Option<i64> = None,
        /// The format in which the password is stored: True or `md5`, `scram-sha-256`, or False for
        /// plain text.
        encrypted: Value = Value::Null,
        /// True if the role is a superuser.
        superuser: Option<bool> = None,
        /// True if the role may replicate.
        replication: Option<bool> = None,
        /// The password of the role, or its hash.
        rolepassword: Option<String> = None,
        /// The time until which the password is valid.
        valid_until: Option<String> = None,
        /// The groups of the role: a list, or a text with commas.
        groups: Value = Value::Null,
        /// The system account that runs the client.
        runas: Option<String> = None,
    });

    /// Change a role.
    ///
    ///     salt-call postgres.user_update shop createdb=True
    fn user_update(UserUpdate {
        /// The name of the role.
        username: String,
        #[group] server: Server,
        /// True if the role may create databases.
        createdb: Option<bool> = None,
        /// True if the role may create roles.
        createroles: Option<bool> = None,
        /// The format in which the password is stored: True or `md5`, `scram-sha-256`, or False for
        /// plain text.
        encrypted: Value = Value::Null,
        /// True if the role is a superuser.
        superuser: Option<bool> = None,
        /// True if the role inherits the privileges of its groups.
        inherit: Option<bool> = None,
        /// True if the role may log in.
        login: Option<bool> = None,
        /// The maximum number of connections of the role.
        connlimit: Option<i64> = None,
        /// True if the role may replicate.
        replication: Option<bool> = None,
        /// The password of the role, or its hash.
        rolepassword: Option<String> = None,
        /// The time until which the password is valid.
        valid_until: Option<String> = None,
        /// The groups of the role: a list, or a text with commas.
        groups: Value = Value::Null,
        /// The system account that runs the client.
        runas: Option<String> = None,
    });

    /// Remove a role.
    ///
    ///     salt-call postgres.user_remove shop
    fn user_remove(UserRemove {
        /// The name of the role.
        username: String,
        #[group] server: Connection,
    });

    /// Create a role that may not log in.
    ///
    ///     salt-call postgres.group_create readers
    fn group_create(GroupCreate {
        /// The name of the role.
        groupname: String,
        #[group] server: Server,
        /// True if the role may create databases.
        createdb: Option<bool> = None,
        /// True if the role may create roles.
        createroles: Option<bool> = None,
        /// The format in which the password is stored: True or `md5`, `scram-sha-256`, or False for
        /// plain text.
        encrypted: Value = Value::Null,
        /// True if the role may log in.
        login: Option<bool> = None,
        /// True if the role inherits the privileges of its groups.
        inherit: Option<bool> = None,
        /// True if the role is a superuser.
        superuser: Option<bool> = None,
        /// True if the role may replicate.
        replication: Option<bool> = None,
        /// The password of the role, or its hash.
        rolepassword: Option<String> = None,
        /// The groups of the role: a list, or a text with commas.
        groups: Value = Value::Null,
        /// The system account that runs the client.
        runas: Option<String> = None,
    });

    /// Change a role.
    ///
    ///     salt-call postgres.group_update readers inherit=True
    fn group_update(GroupUpdate {
        /// The name of the role.
        groupname: String,
        #[group] server: Server,
        /// True if the role may create databases.
        createdb: Option<bool> = None,
        /// True if the role may create roles.
        createroles: Option<bool> = None,
        /// The format in which the password is stored: True or `md5`, `scram-sha-256`, or False for
        /// plain text.
        encrypted: Value = Value::Null,
        /// True if the role inherits the privileges of its groups.
        inherit: Option<bool> = None,
        /// True if the role may log in.
        login: Option<bool> = None,
        /// True if the role is a superuser.
        superuser: Option<bool> = None,
        /// True if the role may replicate.
        replication: Option<bool> = None,
        /// The password of the role, or its hash.
        rolepassword: Option<String> = None,
        /// The groups of the role: a list, or a text with commas.
        groups: Value = Value::Null,
        /// The system account that runs the client.
        runas: Option<String> = None,
    });

    /// Remove a role.
    ///
    ///     salt-call postgres.group_remove readers
    fn group_remove(GroupRemove {
        /// The name of the role.
        groupname: String,
        #[group] server: Connection,
    });
}

/// The requested attributes of a role. An attribute that is `None` stays unchanged; for a new role,
/// the server chooses the default.
#[derive(Clone, Default)]
pub(crate) struct RoleOptions {
    pub createdb: Option<bool>,
    pub createroles: Option<bool>,
    pub encrypted: Value,
    pub superuser: Option<bool>,
    pub replication: Option<bool>,
    pub inherit: Option<bool>,
    pub login: Option<bool>,
    pub connlimit: Option<i64>,
    pub rolepassword: Option<String>,
    pub valid_until: Option<String>,
    pub groups: Value,
}

impl RoleOptions {
    /// Returns the groups from either notation.
    pub(crate) fn groups(&self) -> Vec<String> {
        match &self.groups {
            Value::Null => Vec::new(),
            Value::Str(names) => names.split(',').map(str::to_owned).collect(),
            list => list.texts(),
        }
        .into_iter()
        .filter(|name| !name.is_empty())
        .collect()
    }

    fn flags(&self, is_superuser: Option<bool>) -> String {
        let superuser = self
            .superuser
            .filter(|_| is_superuser.is_none_or(|is| is != self.superuser.unwrap_or(false)));
        let mut words = String::new();
        for (word, value) in [
            ("INHERIT", self.inherit),
            ("CREATEDB", self.createdb),
            ("CREATEROLE", self.createroles),
            ("SUPERUSER", superuser),
            ("REPLICATION", self.replication),
            ("LOGIN", self.login),
        ] {
            match value {
                Some(true) => words.push_str(&format!(" {word}")),
                Some(false) => words.push_str(&format!(" NO{word}")),
                None => {}
            }
        }
        if let Some(limit) = self.connlimit {
            words.push_str(&format!(" CONNECTION LIMIT {limit}"));
        }
        words
    }

    /// Returns the part after the name in the statement that creates or changes a role.
    fn clauses(&self, name: &str, is_superuser: Option<bool>) -> Result<String, Error> {
        let mut words = self.flags(is_superuser);
        let password = self.rolepassword.as_deref();
        if let Some(password) = password.filter(|password| !password.is_empty()) {
            let method = Method::parse(&self.encrypted)?;
            let word = match method {
                Method::Clear => "UNENCRYPTED",
                _ => "ENCRYPTED",
            };
            let password = quoted(&method.encrypt(name, password)?);
            words.push_str(&format!(" {word} PASSWORD {password}"));
        }
        if let Some(until) = self.valid_until.as_deref().filter(|text| !text.is_empty()) {
            words.push_str(&format!(" VALID UNTIL {}", quoted(until)));
        }
        for group in self.groups() {
            words.push_str(&format!("; GRANT {} TO {}", ident(&group), ident(name)));
        }
        Ok(words)
    }
}

/// The beginning of the query for roles, without the passwords and the columns that depend on the
/// release.
const ROLES: &str = "SELECT pg_roles.rolname as \"name\", pg_roles.rolsuper as \"superuser\", pg_roles.rolinherit as \"inherits privileges\", \
    pg_roles.rolcreaterole as \"can create roles\", pg_roles.rolcreatedb as \"can create databases\", \
    pg_roles.rolcanlogin as \"can login\", pg_roles.rolconnlimit as \"connections\", \
    (SELECT array_agg(pg_roles2.rolname) FROM pg_catalog.pg_auth_members JOIN pg_catalog.pg_roles pg_roles2 \
    ON (pg_auth_members.roleid = pg_roles2.oid) WHERE pg_auth_members.member = pg_roles.oid) as \"groups\", \
    pg_roles.rolvaliduntil::timestamp(0) as \"expiry time\", pg_roles.rolconfig as \"defaults variables\"";

fn query_of(version: &str, with_password: bool) -> String {
    let since = |release: &str| version::loose(version, release).is_ge();
    let replication = match since("9.1") {
        true => "pg_roles.rolreplication",
        false => "NULL",
    };
    let catalogs = match since("9.5") {
        true => "NULL",
        false => "pg_roles.rolcatupdate",
    };
    let (column, tables) = match with_password {
        true => (
            ", COALESCE(pg_shadow.passwd, pg_authid.rolpassword) as \"password\"",
            " LEFT JOIN pg_authid ON pg_roles.oid = pg_authid.oid LEFT JOIN pg_shadow ON pg_roles.oid = pg_shadow.usesysid",
        ),
        false => ("", ""),
    };
    format!(
        "{ROLES}, {catalogs} as \"can update system catalogs\", {replication} as \"replication\"{column} FROM pg_roles{tables}"
    )
}

/// Returns the roles by name, or `None` if the server does not report its version.
pub(crate) fn roles(cx: &Exec, conn: &Conn, passwords: bool) -> Result<Option<Map>, Error> {
    let Some(version) = conn.version(cx)?.filter(|version| !version.is_empty()) else {
        log::error("Could not retrieve Postgres version. Is Postgresql server running?");
        return Ok(None);
    };
    let rows = conn.query(cx, &query_of(&version, passwords))?;
    let named = rows.iter().map(|row| (cell(row, "name"), role(row)));
    Ok(Some(named.collect()))
}

fn role(row: &Map) -> Map {
    let mut role = Map::new();
    for key in [
        "superuser",
        "inherits privileges",
        "can create roles",
        "can create databases",
        "can update system catalogs",
        "can login",
        "replication",
        "connections",
    ] {
        let truth = match cell(row, key).as_str() {
            "t" => Value::Bool(true),
            "f" => Value::Bool(false),
            _ => Value::Null,
        };
        role.insert(key, truth);
    }
    role.insert("expiry time", stamp(&cell(row, "expiry time")));
    role.insert("defaults variables", cell(row, "defaults variables"));
    if row.contains("password") {
        role.insert("password", cell(row, "password"));
    }
    let groups = cell(row, "groups");
    let groups = csv(groups.trim_matches(['{', '}'])).into_iter().next();
    role.insert("groups", groups.unwrap_or_default());
    role
}

/// Returns a timestamp of the server, such as `2030-01-31 00:00:00`. Returns `None` for other
/// texts, such as `infinity`.
pub(crate) fn stamp(text: &str) -> Value {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let fits = |(byte, form): (u8, u8)| match form {
        b'0' => is_digit(byte),
        other => byte == other,
    };
    let form = "0000-00-00 00:00:00";
    let is_stamp = text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits);
    if is_stamp { text.into() } else { Value::Null }
}

/// Returns the role of this name.
pub(crate) fn find(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    password: bool,
) -> Result<Option<Map>, Error> {
    let Some(mut roles) = roles(cx, conn, password)? else {
        log::error("Could not retrieve Postgres role. Is Postgres running?");
        return Ok(None);
    };
    Ok(roles.remove(name).and_then(|role| role.as_map().cloned()))
}

/// Creates a role.
pub(crate) fn create(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    options: &RoleOptions,
    may_login: bool,
) -> Result<bool, Error> {
    let options = RoleOptions {
        inherit: options.inherit.or(Some(true)),
        login: options.login.or(Some(may_login)),
        ..options.clone()
    };
    let clauses = options.clauses(name, None)?;
    write(
        cx,
        conn,
        &options,
        format!("CREATE ROLE {} WITH{clauses};", ident(name)),
    )
}

/// Changes an existing role.
pub(crate) fn update(
    cx: &Exec,
    conn: &Conn,
    name: &str,
    options: &RoleOptions,
    role: &Map,
) -> Result<bool, Error> {
    let is_superuser = role.get("superuser").is_some_and(Value::is_true);
    let clauses = options.clauses(name, Some(is_superuser))?;
    write(
        cx,
        conn,
        options,
        format!("ALTER ROLE {} WITH{clauses};", ident(name)),
    )
}

fn write(cx: &Exec, conn: &Conn, options: &RoleOptions, sql: String) -> Result<bool, Error> {
    match options.rolepassword {
        Some(_) => conn.change_unseen(cx, sql),
        None => conn.change(cx, &sql),
    }
}

/// Removes an existing role.
pub(crate) fn remove(cx: &Exec, conn: &Conn, name: &str) -> Result<bool, Error> {
    conn.change(cx, &format!("DROP ROLE {}", ident(name)))?;
    Ok(find(cx, conn, name, false)?.is_none())
}

fn created(
    cx: &Exec,
    conn: &Conn,
    (name, options): (&str, &RoleOptions),
    login: bool,
) -> Result<Value, Error> {
    if find(cx, conn, name, false)?.is_some() {
        log::info(format_args!("Role '{name}' already exists"));
        return Ok(false.into());
    }
    Ok(create(cx, conn, name, options, login)?.into())
}

fn updated(cx: &Exec, conn: &Conn, name: &str, options: &RoleOptions) -> Result<Value, Error> {
    let Some(role) = find(cx, conn, name, false)? else {
        log::info(format_args!("Role '{name}' could not be found"));
        return Ok(false.into());
    };
    Ok(update(cx, conn, name, options, &role)?.into())
}

fn removed(cx: &Exec, conn: &Conn, name: &str) -> Result<Value, Error> {
    if find(cx, conn, name, false)?.is_none() {
        log::info(format_args!("User '{name}' does not exist"));
        return Ok(false.into());
    }
    Ok(remove(cx, conn, name)?.into())
}

/// Returns the attributes of a role that the arguments of a function request.
macro_rules! options {
    ($args:ident) => {
        RoleOptions {
            createdb: $args.createdb,
            createroles: $args.createroles,
            encrypted: $args.encrypted,
            superuser: $args.superuser,
            replication: $args.replication,
            inherit: $args.inherit,
            login: $args.login,
            rolepassword: $args.rolepassword,
            groups: $args.groups,
            ..RoleOptions::default()
        }
    };
}

fn user_list(cx: &Exec, args: UserList) -> Result<Value, Error> {
    let all = roles(cx, &args.server.conn(), args.return_password)?;
    Ok(all.map_or(Value::Bool(false), Value::from))
}

fn role_get(cx: &Exec, args: RoleGet) -> Result<Value, Error> {
    Ok(find(cx, &args.server.conn(), &args.name, args.return_password)?.into())
}

fn user_exists(cx: &Exec, args: UserExists) -> Result<Value, Error> {
    Ok(find(cx, &args.server.conn(), &args.name, false)?
        .is_some()
        .into())
}

fn user_create(cx: &Exec, args: UserCreate) -> Result<Value, Error> {
    let mut options = options!(args);
    (options.connlimit, options.valid_until) = (args.connlimit, args.valid_until);
    created(
        cx,
        &args.server.conn(args.runas),
        (&args.username, &options),
        true,
    )
}

fn user_update(cx: &Exec, args: UserUpdate) -> Result<Value, Error> {
    let mut options = options!(args);
    (options.connlimit, options.valid_until) = (args.connlimit, args.valid_until);
    updated(cx, &args.server.conn(args.runas), &args.username, &options)
}

fn user_remove(cx: &Exec, args: UserRemove) -> Result<Value, Error> {
    removed(cx, &args.server.conn(), &args.username)
}

fn group_create(cx: &Exec, args: GroupCreate) -> Result<Value, Error> {
    let options = options!(args);
    created(
        cx,
        &args.server.conn(args.runas),
        (&args.groupname, &options),
        false,
    )
}

fn group_update(cx: &Exec, args: GroupUpdate) -> Result<Value, Error> {
    let options = options!(args);
    updated(cx, &args.server.conn(args.runas), &args.groupname, &options)
}

fn group_remove(cx: &Exec, args: GroupRemove) -> Result<Value, Error> {
    removed(cx, &args.server.conn(), &args.groupname)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_says_what_is_asked_and_nothing_else() {
        let options = RoleOptions {
            createdb: Some(true),
            superuser: Some(false),
            encrypted: false.into(),
            rolepassword: Some("it's".to_owned()),
            valid_until: Some("infinity".to_owned()),
            groups: "a,b\"".into(),
            ..RoleOptions::default()
        };
        assert_eq!(
            options.clauses("x", Some(false)).unwrap(),
            " CREATEDB UNENCRYPTED PASSWORD 'it''s' VALID UNTIL 'infinity'; GRANT \"a\" TO \"x\"; GRANT \"b\"\"\" TO \"x\""
        );
        assert!(options.clauses("x", None).unwrap().contains("NOSUPERUSER"));
        assert_eq!(RoleOptions::default().clauses("x", None).unwrap(), "");
    }
}
