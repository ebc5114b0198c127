//! The `apache_site` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::apache::switched;
use crate::exec::apache::Kind;

state::state_module! {
    /// Enable and disable sites of Debian's Apache.
    #[needs("a2ensite", "apache module could not be loaded", "apache2")]
    mod apache_site;

    /// Make sure that a site is enabled.
    ///
    ///     shop.example.com:
    ///       apache_site.enabled
    fn enabled(Enabled {
        /// The name of the site.
        name: String,
    });

    /// Make sure that a site is disabled.
    ///
    ///     000-default:
    ///       apache_site.disabled
    fn disabled(Disabled {
        /// The name of the site.
        name: String,
    });
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    switched(cx, Kind::Site, "en", &args.name)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    switched(cx, Kind::Site, "dis", &args.name)
}
