//! The state modules of PostgreSQL: `postgres_user`, `postgres_database` and the others.

pub(crate) mod cluster;
pub(crate) mod database;
pub(crate) mod extension;
pub(crate) mod group;
pub(crate) mod initdb;
pub(crate) mod language;
pub(crate) mod privileges;
mod role;
pub(crate) mod schema;
pub(crate) mod tablespace;
pub(crate) mod user;

use state::exec::Exec;
use state::facts::Missing;
use state::module::{Error, Ret};

use crate::exec::postgres::{self, Conn, DbLogin};

/// Returns what is missing without the client.
fn missing(cx: &Exec, _: &str) -> Option<Missing> {
    without(cx, "psql")
}

/// Returns what is missing without Debian's programs for clusters.
fn cluster_missing(cx: &Exec, _: &str) -> Option<Missing> {
    without(cx, "pg_createcluster")
}

fn without(cx: &Exec, program: &str) -> Option<Missing> {
    let reason = "Unable to load postgres module.  Make sure `postgres.bins_dir` is set.";
    (!postgres::has_program(cx, program)).then(|| Missing::Module(reason.to_owned()))
}

state::argument_group! {
    /// The server, and the accounts that connect to it.
    pub(crate) struct Server {
        /// The account of the operating system that runs the client.
        user: Option<String> = None,
        /// The database to connect to.
        maintenance_db: Option<String> = None,
        #[group] access: Access,
    }
}

state::argument_group! {
    /// The server, and the role that connects.
    pub(crate) struct Access {
        /// The password of the role that connects.
        db_password: Option<String> = None,
        /// The host, or the folder of the socket.
        db_host: Option<String> = None,
        /// The port.
        db_port: Option<String> = None,
        /// The role that connects.
        db_user: Option<String> = None,
    }
}

impl Server {
    fn conn(self) -> Conn {
        self.access.conn(self.user, self.maintenance_db)
    }
}

impl Access {
    /// Returns the connection of a system account to a database.
    fn conn(self, runas: Option<String>, maintenance_db: Option<String>) -> Conn {
        let login = DbLogin {
            db_user: self.db_user,
            db_password: self.db_password,
            db_host: self.db_host,
            db_port: self.db_port,
        };
        login.conn(runas, maintenance_db)
    }
}

/// Makes sure that an object does not exist. `what` is its kind, in the form that begins a comment.
fn absent(
    cx: &Exec,
    what: &str,
    name: &str,
    is_there: bool,
    remove: impl FnOnce() -> Result<bool, Error>,
) -> Result<Ret, Error> {
    let what = format!("{what} {name}");
    if !is_there {
        return Ok(Ret::ok(format!(
            "{what} is not present, so it cannot be removed"
        )));
    }
    cx.apply(Ret::would(format!("{what} is set to be removed")), || {
        Ok(match remove()? {
            true => Ret::ok(format!("{what} has been removed")).change(name, "Absent"),
            false => Ret::failed(format!("{what} failed to be removed")),
        })
    })
}
