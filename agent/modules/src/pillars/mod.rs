//! External pillars: each file is one, with a line in the table.

mod arguments;
#[cfg(feature = "stores")]
mod consul;
#[cfg(feature = "stores")]
mod etcd;
mod git;
mod http;
#[cfg(feature = "databases")]
mod mysql;
#[cfg(feature = "databases")]
mod postgres;
#[cfg(feature = "databases")]
mod redis;
#[cfg(feature = "databases")]
mod sql;
#[cfg(feature = "databases")]
mod sqlite3;
#[cfg(feature = "stores")]
mod stack;
#[cfg(feature = "stores")]
mod vault;

use state::exec::{Exec, ExternalPillar};

/// All of them, sorted by name.
pub(crate) static PILLARS: &[ExternalPillar] = &[
    #[cfg(feature = "stores")]
    ExternalPillar {
        name: "consul",
        load: consul::load,
    },
    #[cfg(feature = "stores")]
    ExternalPillar {
        name: "etcd",
        load: etcd::load,
    },
    ExternalPillar {
        name: "git",
        load: git::load,
    },
    ExternalPillar {
        name: "http_json",
        load: http::load_json,
    },
    ExternalPillar {
        name: "http_yaml",
        load: http::load_yaml,
    },
    #[cfg(feature = "databases")]
    ExternalPillar {
        name: "mysql",
        load: mysql::load,
    },
    #[cfg(feature = "databases")]
    ExternalPillar {
        name: "postgres",
        load: postgres::load,
    },
    #[cfg(feature = "databases")]
    ExternalPillar {
        name: "redis",
        load: redis::load,
    },
    #[cfg(feature = "databases")]
    ExternalPillar {
        name: "sqlite3",
        load: sqlite3::load,
    },
    #[cfg(feature = "stores")]
    ExternalPillar {
        name: "stack",
        load: stack::load,
    },
    #[cfg(feature = "stores")]
    ExternalPillar {
        name: "vault",
        load: vault::load,
    },
];

/// Returns the environment that replaces `__env__`.
fn environment(cx: &Exec) -> String {
    let named = cx.pillarenv.clone().or_else(|| Some(cx.saltenv.clone()));
    let environment = named.filter(|env| !env.is_empty());
    environment.unwrap_or_else(|| "base".into())
}
