//! The `postgres_initdb` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::postgres::cluster::{Init, init, is_datadir};

state::state_module! {
    /// Folders of data of PostgreSQL.
    mod postgres_initdb;

    /// Make sure that a folder is that of a server's data.
    fn present(Present {
        /// The folder.
        name: String,
        /// The superuser's name.
        user: Option<String> = None,
        /// The superuser's password.
        password: Option<String> = None,
        /// How connections from this machine prove who they are.
        auth: String = "password".into(),
        /// The encoding.
        encoding: String = "UTF8".into(),
        /// The locale.
        locale: Option<String> = None,
        /// The account of the machine that runs the client.
        runas: Option<String> = None,
        /// The folder of the write-ahead log.
        waldir: Option<String> = None,
        /// Whether pages have checksums.
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
