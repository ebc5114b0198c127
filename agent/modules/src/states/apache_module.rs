//! The `apache_module` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::apache::switched;
use crate::exec::apache::Kind;

state::state_module! {
    /// What Debian's Apache has enabled: each module.
    mod apache_module;

    /// Make sure that a module is enabled.
    fn enabled(Enabled {
        /// Its name.
        name: String,
    });

    /// Make sure that a module is not enabled.
    fn disabled(Disabled {
        /// Its name.
        name: String,
    });
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    switched(cx, Kind::Mod, "en", &args.name)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    switched(cx, Kind::Mod, "dis", &args.name)
}
