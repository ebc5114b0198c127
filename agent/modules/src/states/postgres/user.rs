//! The `postgres_user` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use super::role::{self, Kind, Passwords, asked};
use crate::exec::postgres::db_conn;

state::state_module! {
    /// Roles of PostgreSQL that may log in.
    mod postgres_user;

    /// Make sure that a role is there, and is as asked.
    fn present(Present {
        /// Its name.
        name: String,
        /// Whether it may make databases.
        createdb: Option<bool> = None,
        /// Whether it may make roles.
        createroles: Option<bool> = None,
        /// How the password is kept: True or `md5`, `scram-sha-256`, False for in clear.
        encrypted: Value = Value::Null,
        /// Whether it is a superuser.
        superuser: Option<bool> = None,
        /// Whether it may replicate.
        replication: Option<bool> = None,
        /// Whether it has what its groups may.
        inherit: Option<bool> = None,
        /// Whether it may log in.
        login: Option<bool> = None,
        /// Its password, or the hash of one.
        password: Option<String> = None,
        /// The password that a new one gets where `password` says none.
        default_password: Option<String> = None,
        /// Whether the password is set without a look at the one that is there.
        refresh_password: Option<bool> = None,
        /// Until when the password holds.
        valid_until: Option<String> = None,
        /// The groups that it is to be in: a list, or names with commas between them.
        groups: Value = Value::Null,
        /// The account of the machine that runs the client.
        user: Option<String> = None,
        /// The database that is connected to.
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

    /// Make sure that a role is not there.
    fn absent(Absent {
        /// Its name.
        name: String,
        /// The account of the machine that runs the client.
        user: Option<String> = None,
        /// The database that is connected to.
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

const USER: Kind = Kind {
    name: "User",
    may_login: true,
};

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let passwords = Passwords {
        default: args.default_password,
        refresh: args.refresh_password.unwrap_or(false),
    };
    let asked = asked!(args, valid_until);
    role::present(cx, &USER, &args.name, asked, passwords, &db_conn!(args))
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    role::absent(cx, &USER, &args.name, &db_conn!(args))
}
