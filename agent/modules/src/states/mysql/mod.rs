//! The state modules of MySQL and MariaDB: `mysql_user`, `mysql_database` and the others.

pub(crate) mod database;
pub(crate) mod grants;
pub(crate) mod query;
pub(crate) mod user;

use state::module::{Error, Ret};

/// A failure that says what the server has against it.
fn failed(sentence: String, why: Result<(), Error>) -> Ret {
    match why {
        Ok(()) => Ret::failed(sentence),
        Err(why) => Ret::failed(format!("{sentence} ({why})")),
    }
}
