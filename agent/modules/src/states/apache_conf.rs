//! The `apache_conf` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::apache::switched;
use crate::exec::apache::Kind;

state::state_module! {
    /// Enable and disable configuration files of Debian's Apache.
    #[needs("a2enconf", "apache module could not be loaded", "apache2")]
    mod apache_conf;

    /// Make sure that a configuration file is enabled.
    ///
    ///     security:
    ///       apache_conf.enabled
    fn enabled(Enabled {
        /// The name of the configuration.
        name: String,
    });

    /// Make sure that a configuration file is disabled.
    ///
    ///     serve-cgi-bin:
    ///       apache_conf.disabled
    fn disabled(Disabled {
        /// The name of the configuration.
        name: String,
    });
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    switched(cx, Kind::Conf, "en", &args.name)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    switched(cx, Kind::Conf, "dis", &args.name)
}
