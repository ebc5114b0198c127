//! The `postgres_group` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use super::Server;
use super::role::{self, Kind, Passwords};
use crate::exec::postgres::role::RoleOptions;

state::state_module! {
    /// Manage roles of PostgreSQL that may not log in.
    #[module(virtual_ = super::missing)]
    mod postgres_group;

    /// Make sure that a role exists with the given properties.
    ///
    ///     readers:
    ///       postgres_group.present
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
        #[group] server: Server,
    });

    /// Make sure that a role does not exist.
    ///
    ///     readers:
    ///       postgres_group.absent
    fn absent(Absent {
        /// The name of the role.
        name: String,
        #[group] server: Server,
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
    let options = RoleOptions {
        createdb: args.createdb,
        createroles: args.createroles,
        encrypted: args.encrypted,
        superuser: args.superuser,
        replication: args.replication,
        inherit: args.inherit,
        login: args.login,
        rolepassword: args.password,
        groups: args.groups,
        ..RoleOptions::default()
    };
    role::present(
        cx,
        &GROUP,
        &args.name,
        options,
        passwords,
        &args.server.conn(),
    )
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    role::absent(cx, &GROUP, &args.name, &args.server.conn())
}
