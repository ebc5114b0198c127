//! The `postgres_initdb` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::postgres::cluster::{Init, init, is_datadir};

state::state_module! {
    /// Initialize data folders of PostgreSQL.
    #[module(virtual_ = super::missing)]
    mod postgres_initdb;

    /// Make sure that a folder is an initialized data folder of a server.
    ///
    ///     /var/lib/postgresql/15/main:
    ///       postgres_initdb.present:
    ///         - auth: scram-sha-256
    ///         - user: postgres
    ///         - password: {{ pillar['shop_password'] }}
    fn present(Present {
        /// The folder.
        name: String,
        /// The name of the superuser.
        user: Option<String> = None,
        /// The password of the superuser.
        password: Option<String> = None,
        /// The authentication method for connections from this machine.
        auth: String = "password".into(),
        /// The encoding.
        encoding: String = "UTF8".into(),
        /// The locale.
        locale: Option<String> = None,
        /// The account of the operating system that runs the program.
        runas: Option<String> = None,
        /// The folder for the write-ahead log.
        waldir: Option<String> = None,
        /// True to use checksums for data pages.
        checksums: bool = false,
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name;
    let what = format!("Postgres data directory {name}");
    if is_datadir(&name) {
        return Ok(Ret::ok(format!("{what} is already present")));
    }
    let asked = Init {
        name: name.clone(),
        auth: args.auth,
        user: args.user,
        password: args.password,
        encoding: args.encoding,
        locale: args.locale,
        waldir: args.waldir,
        checksums: args.checksums,
        runas: args.runas,
    };
    let would = Ret::would(format!("{what} is set to be initialized"));
    cx.apply(would, || {
        Ok(match init(cx, asked)? {
            true => Ret::ok(format!("{what} has been initialized")).change(&name, "Present"),
            false => Ret::failed(format!("{what} initialization failed")),
        })
    })
}
