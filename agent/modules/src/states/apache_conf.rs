//! The `apache_conf` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::apache::switched;
use crate::exec::apache::Kind;

state::state_module! {
    /// What Debian's Apache has enabled: each part of the configuration.
    mod apache_conf;

    /// Make sure that a part of the configuration is enabled.
    fn enabled(Enabled {
        /// Its name.
        name: String,
    });

    /// Make sure that a part of the configuration is not enabled.
    fn disabled(Disabled {
        /// Its name.
        name: String,
    });
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    switched(cx, Kind::Conf, "en", &args.name)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    switched(cx, Kind::Conf, "dis", &args.name)
}
