//! The state modules of MySQL and MariaDB: `mysql_user`, `mysql_database` and the others.

pub(crate) mod database;
pub(crate) mod grants;
pub(crate) mod query;
pub(crate) mod user;

use state::module::{Error, Ret};

/// Returns a failure with the error message of the server.
fn failed(sentence: String, why: Result<(), Error>) -> Ret {
    match why {
        Ok(()) => Ret::failed(sentence),
        Err(why) => Ret::failed(format!("{sentence} ({why})")),
    }
}
