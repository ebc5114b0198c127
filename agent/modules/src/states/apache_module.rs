//! The `apache_module` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::apache::switched;
use crate::exec::apache::Kind;

state::state_module! {
    /// Enable and disable modules of Debian's Apache.
    #[needs("a2enmod", "apache module could not be loaded", "apache2")]
    mod apache_module;

    /// Make sure that a module is enabled.
    ///
    ///     rewrite:
    ///       apache_module.enabled
    fn enabled(Enabled {
        /// The name of the module.
        name: String,
    });

    /// Make sure that a module is disabled.
    ///
    ///     autoindex:
    ///       apache_module.disabled
    fn disabled(Disabled {
        /// The name of the module.
        name: String,
    });
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    switched(cx, Kind::Mod, "en", &args.name)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    switched(cx, Kind::Mod, "dis", &args.name)
}
