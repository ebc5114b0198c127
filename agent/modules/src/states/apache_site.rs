//! The `apache_site` state module.

use state::exec::Exec;
use state::module::{Error, Ret};

use super::apache::switched;
use crate::exec::apache::Kind;

state::state_module! {
    /// What Debian's Apache has enabled: each site.
    mod apache_site;

    /// Make sure that a site is enabled.
    fn enabled(Enabled {
        /// Its name.
        name: String,
    });

    /// Make sure that a site is not enabled.
    fn disabled(Disabled {
        /// Its name.
        name: String,
    });
}

fn enabled(cx: &Exec, args: Enabled) -> Result<Ret, Error> {
    switched(cx, Kind::Site, "en", &args.name)
}

fn disabled(cx: &Exec, args: Disabled) -> Result<Ret, Error> {
    switched(cx, Kind::Site, "dis", &args.name)
}
