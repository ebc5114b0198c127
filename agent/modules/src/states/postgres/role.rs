//! The code that the states for users and groups share, since both are roles.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::postgres::password::Method;
use crate::exec::postgres::role::{self, RoleOptions};
use crate::exec::postgres::{Conn, cell, quoted};

/// The kind of a role: its name in comments, and whether it may log in.
pub(super) struct Kind {
    pub name: &'static str,
    pub may_login: bool,
}

/// The arguments about passwords that only some of the states have.
#[derive(Default)]
pub(super) struct Passwords {
    /// The password of a new role if no other is given.
    pub default: Option<String>,
    /// True to set the password without comparing it with the current one.
    pub refresh: bool,
}

/// Makes sure that a role exists with the given properties.
pub(super) fn present(
    cx: &Exec,
    kind: &Kind,
    name: &str,
    mut options: RoleOptions,
    passwords: Passwords,
    conn: &Conn,
) -> Result<Ret, Error> {
    let method = Method::parse(&options.encrypted)?;
    let is = role::find(cx, conn, name, !passwords.refresh)?;
    if is.is_none() && options.rolepassword.is_none() {
        options.rolepassword = passwords.default;
    }
    if let (Some(is), false) = (&is, passwords.refresh) {
        let kept = cell(is, "password");
        let differs = |password: &String| !method.verify(name, password, &kept);
        options.rolepassword = options.rolepassword.filter(differs);
    }
    let update = match &is {
        Some(is) => changes(cx, &options, is, conn)?,
        None => Map::new(),
    };
    let (what, lower) = (kind.name, kind.name.to_lowercase());
    if is.is_some() && update.is_empty() {
        return Ok(Ret::ok(format!("{what} {name} is already present")));
    }
    let mode = if is.is_some() { "update" } else { "create" };
    let changed = |ret: Ret| match update.is_empty() {
        true => ret,
        false => ret.change(name, update.clone()),
    };
    let would = Ret::would(format!("{what} {name} is set to be {mode}d"));
    cx.apply(changed(would), || {
        let is_done = match &is {
            Some(is) => role::update(cx, conn, name, &options, is)?,
            None => role::create(cx, conn, name, &options, kind.may_login)?,
        };
        if !is_done {
            return Ok(Ret::failed(format!("Failed to {mode} {lower} {name}")));
        }
        let ret = Ret::ok(format!("The {lower} {name} has been {mode}d"));
        Ok(changed(ret.change(name, "Present")))
    })
}

/// Returns the properties of a role that differ from the wanted ones.
fn changes(cx: &Exec, options: &RoleOptions, is: &Map, conn: &Conn) -> Result<Map, Error> {
    let mut update = Map::new();
    for (key, wanted, column) in [
        ("createdb", options.createdb, "can create databases"),
        ("inherit", options.inherit, "inherits privileges"),
        ("login", options.login, "can login"),
        ("createroles", options.createroles, "can create roles"),
        ("replication", options.replication, "replication"),
        ("superuser", options.superuser, "superuser"),
    ] {
        if let Some(wanted) = wanted.filter(|wanted| is.get(column) != Some(&(*wanted).into())) {
            update.insert(key, wanted);
        }
    }
    if options.rolepassword.is_some() {
        update.insert("password", true);
    }
    if let Some(until) = &options.valid_until
        && is.get("expiry time") != Some(&stamp(cx, until, conn)?)
    {
        update.insert("valid_until", until.as_str());
    }
    let mut missing = options.groups();
    let groups = is.get("groups").map(Value::texts).unwrap_or_default();
    missing.retain(|group| !groups.contains(group));
    if !missing.is_empty() {
        update.insert("groups", missing);
    }
    Ok(update)
}

/// Returns a time in the form in which the server stores it.
fn stamp(cx: &Exec, until: &str, conn: &Conn) -> Result<Value, Error> {
    let query = format!("SELECT {}::timestamp(0) as dt;", quoted(until));
    let rows = conn.query(cx, &query)?;
    let row = rows.first().ok_or_else(|| {
        Error::refused(format!(
            "valid_until: the server does not accept {until} as a time"
        ))
    })?;
    Ok(role::stamp(&cell(row, "dt")))
}

/// Makes sure that a role does not exist.
pub(super) fn absent(cx: &Exec, kind: &Kind, name: &str, conn: &Conn) -> Result<Ret, Error> {
    let is_there = role::find(cx, conn, name, false)?.is_some();
    super::absent(cx, kind.name, name, is_there, || {
        role::remove(cx, conn, name)
    })
}
