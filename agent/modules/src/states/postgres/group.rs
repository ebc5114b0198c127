//! The `postgres_group` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use super::role::{self, Kind, Passwords, asked};
use crate::exec::postgres::db_conn;

state::state_module! {
    /// Manage roles of PostgreSQL that may not log in.
    #[module(virtual_ = super::missing)]
    mod postgres_group;

    /// Make sure that a role exists with the given properties.
    fn present(Present {
        /// The name of the role.
        name: String,
        /// True if the role may create databases.
        createdb: Option<bool> = None,
        /// True if the role may create roles.
        createroles: Option<bool> = None,
        /// The form in which the password is stored: True or `md5`, `scram-sha-256`, or False for
        /// plain text.
        encrypted: Value = Value::Null,
        /// True for a superuser.
        superuser: Option<bool> = None,
        /// True if the role inherits the privileges of its groups.
        inherit: Option<bool> = None,
        /// True if the role may log in.
        login: Option<bool> = None,
        /// True if the role may replicate.
        replication: Option<bool> = None,
        /// The password of the role, or its hash.
        password: Option<String> = None,
        /// True to set the password without comparing it with the current one.
        refresh_password: Option<bool> = None,
        /// The groups that the role must be a member of: a list, or names separated by commas.
        groups: Value = Value::Null,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        /// The password of the role that connects.
        db_password: Option<String> = None,
        /// The host, or the folder of the socket.
        db_host: Option<String> = None,
        /// The port.
        db_port: Option<String> = None,
        /// The role that connects.
        db_user: Option<String> = None,
    });

    /// Make sure that a role does not exist.
    fn absent(Absent {
        /// The name of the role.
        name: String,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        /// The password of the role that connects.
        db_password: Option<String> = None,
        /// The host, or the folder of the socket.
        db_host: Option<String> = None,
        /// The port.
        db_port: Option<String> = None,
        /// The role that connects.
        db_user: Option<String> = None,
    });
}

const GROUP: Kind = Kind {
    name: "Group",
    may_login: false,
};

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let passwords = Passwords {
        default: None,
        refresh: args.refresh_password.unwrap_or(false),
    };
    let asked = asked!(args);
    role::present(cx, &GROUP, &args.name, asked, passwords, &db_conn!(args))
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    role::absent(cx, &GROUP, &args.name, &db_conn!(args))
}
