//! The `postgres_privileges` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::Access;
use crate::exec::postgres::privileges::{Privileges, grant, has, revoke};

state::state_module! {
    /// Manage privileges on objects of PostgreSQL.
    #[module(virtual_ = super::missing)]
    mod postgres_privileges;

    /// Make sure that a role has privileges.
    ///
    ///     shop:
    ///       postgres_privileges.present:
    ///         - object_name: orders
    ///         - object_type: table
    ///         - privileges: [SELECT, INSERT]
    ///         - maintenance_db: shop
    fn present(Present {
        /// The role.
        name: String,
        /// The name of the object; `ALL` for all objects of a schema.
        object_name: String,
        /// The type of the object: `table`, `sequence`, `schema`, `tablespace`, `language`,
        /// `database`, `group` or `function`.
        object_type: String,
        /// The privileges.
        privileges: Option<Vec<String>> = None,
        /// True if the role may grant the privileges to others.
        grant_option: Option<bool> = None,
        /// The schema of the object.
        prepend: String = "public".into(),
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        #[group] access: Access,
    });

    /// Make sure that a role does not have privileges.
    ///
    ///     shop:
    ///       postgres_privileges.absent:
    ///         - object_name: orders
    ///         - object_type: table
    ///         - privileges: [INSERT]
    ///         - maintenance_db: shop
    fn absent(Absent {
        /// The role.
        name: String,
        /// The name of the object; `ALL` for all objects of a schema.
        object_name: String,
        /// The type of the object: `table`, `sequence`, `schema`, `tablespace`, `language`,
        /// `database`, `group` or `function`.
        object_type: String,
        /// The privileges.
        privileges: Option<Vec<String>> = None,
        /// The schema of the object.
        prepend: String = "public".into(),
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        #[group] access: Access,
    });
}

fn joined(privileges: Option<Vec<String>>) -> Option<String> {
    let privileges = privileges.unwrap_or_default();
    (!privileges.is_empty()).then(|| privileges.join(","))
}

/// Returns the privileges for comments. The privilege of a group is the group itself.
fn privilege_text(requested: &Privileges) -> &str {
    match requested.object_type.as_str() {
        "group" => &requested.object_name,
        _ => requested.privileges.as_deref().unwrap_or("None"),
    }
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let requested = Privileges {
        name: args.name,
        object_name: args.object_name,
        object_type: args.object_type,
        privileges: joined(args.privileges),
        grant_option: args.grant_option,
        prepend: args.prepend,
    };
    let conn = args.access.conn(args.user, args.maintenance_db);
    if has(cx, &conn, &requested)? {
        return Ok(Ret::ok("The requested privilege(s) are already set"));
    }
    let (what, name) = (privilege_text(&requested), &requested.name);
    let would = format!("The privilege(s): {what} are set to be granted to {name}");
    cx.apply(Ret::would(would), || {
        Ok(match grant(cx, &conn, &requested)? {
            true => Ret::ok(format!(
                "The privilege(s): {what} have been granted to {name}"
            ))
            .change(name, "Present"),
            false => Ret::failed(format!("Failed to grant privilege(s): {what} to {name}")),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let requested = Privileges {
        name: args.name,
        object_name: args.object_name,
        object_type: args.object_type,
        privileges: joined(args.privileges),
        grant_option: None,
        prepend: args.prepend,
    };
    let conn = args.access.conn(args.user, args.maintenance_db);
    if !has(cx, &conn, &requested)? {
        return Ok(Ret::ok(
            "The requested privilege(s) are not set so cannot be revoked",
        ));
    }
    let (what, name) = (privilege_text(&requested), &requested.name);
    let would = format!("The privilege(s): {what} are set to be revoked from {name}");
    cx.apply(Ret::would(would), || {
        Ok(match revoke(cx, &conn, &requested)? {
            true => Ret::ok(format!(
                "The privilege(s): {what} have been revoked from {name}"
            ))
            .change(name, "Absent"),
            false => Ret::failed(format!("Failed to revoke privilege(s): {what} from {name}")),
        })
    })
}
