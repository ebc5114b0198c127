//! The `postgres_user` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use super::Server;
use super::role::{self, Kind, Passwords};
use crate::exec::postgres::role::RoleOptions;

state::state_module! {
    /// Manage roles of PostgreSQL that may log in.
    #[module(virtual_ = super::missing)]
    mod postgres_user;

    /// Make sure that a role exists with the given properties.
    ///
    ///     shop:
    ///       postgres_user.present:
    ///         - password: {{ pillar['shop_password'] }}
    ///         - createdb: True
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
        /// True if the role may replicate.
        replication: Option<bool> = None,
        /// True if the role inherits the privileges of its groups.
        inherit: Option<bool> = None,
        /// True if the role may log in.
        login: Option<bool> = None,
        /// The password of the role, or its hash.
        password: Option<String> = None,
        /// The password of a new role if `password` is not given.
        default_password: Option<String> = None,
        /// True to set the password without comparing it with the current one.
        refresh_password: Option<bool> = None,
        /// The time at which the password expires.
        valid_until: Option<String> = None,
        /// The groups that the role must be a member of: a list, or names separated by commas.
        groups: Value = Value::Null,
        #[group] server: Server,
    });

    /// Make sure that a role does not exist.
    ///
    ///     shop:
    ///       postgres_user.absent
    fn absent(Absent {
        /// The name of the role.
        name: String,
        #[group] server: Server,
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
    let options = RoleOptions {
        createdb: args.createdb,
        createroles: args.createroles,
        encrypted: args.encrypted,
        superuser: args.superuser,
        replication: args.replication,
        inherit: args.inherit,
        login: args.login,
        rolepassword: args.password,
        valid_until: args.valid_until,
        groups: args.groups,
        ..RoleOptions::default()
    };
    role::present(
        cx,
        &USER,
        &args.name,
        options,
        passwords,
        &args.server.conn(),
    )
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    role::absent(cx, &USER, &args.name, &args.server.conn())
}
