//! The `apache` state module.

use std::path::PathBuf;

use machine::fs::{self, Owner};
use python::text::decoded;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, log};

use crate::exec::apache::{Kind, text_of};

state::state_module! {
    /// Configure the Apache web server.
    // Debian and SUSE have the first, others the second.
    #[needs("apache2ctl|apachectl", "apache module could not be loaded", "apache2")]
    mod apache;

    /// Make sure that a configuration file contains exactly the given directives.
    ///
    ///     /etc/apache2/conf-available/status.conf:
    ///       apache.configfile:
    ///         - config:
    ///           - Location:
    ///               this: /server-status
    ///               SetHandler: server-status
    fn configfile(Configfile {
        /// The file.
        name: String,
        /// The directives and sections, in the order of the file.
        config: Vec<Map>,
    });
}

fn configfile(cx: &Exec, args: Configfile) -> Result<Ret, Error> {
    let new = text_of(&args.config)?;
    let path = PathBuf::from(&args.name);
    let old = match path.exists() {
        true => decoded(&fs::read(&path)?),
        false => String::new(),
    };
    if old.trim() == new.trim() {
        return Ok(Ret::ok("Configuration is up to date."));
    }
    let contents = format!("{new}\n");
    let changed = |ret: Ret| ret.change("old", old.as_str()).change("new", new.as_str());
    fs::would_hold(cx, &path, || Ok(contents.as_bytes()));
    cx.apply(changed(Ret::would("Configuration will update.")), || {
        Ok(
            match fs::write(cx, &path, contents.as_bytes(), Owner::default()) {
                Ok(()) => changed(Ret::ok("Successfully created configuration.")),
                Err(why) => {
                    log::error(format_args!("{why}"));
                    Ret::failed("Failed to create apache configuration.")
                }
            },
        )
    })
}

/// Enables or disables a configuration, module or site with Debian's programs. This is the shared
/// implementation of all three state modules.
pub(super) fn switched(cx: &Exec, kind: Kind, verb: &str, name: &str) -> Result<Ret, Error> {
    let what = match kind {
        Kind::Conf => "conf",
        Kind::Mod => "module",
        Kind::Site => "site",
    };
    let enable = verb == "en";
    if kind.is_enabled(name) == enable {
        return Ok(Ret::ok(format!("{name} already {verb}abled.")));
    }
    let changed = |ret: Ret| {
        let [old, new] = match enable {
            true => [Value::Null, name.into()],
            false => [name.into(), Value::Null],
        };
        ret.change("old", old).change("new", new)
    };
    let would = Ret::would(format!("Apache {what} {name} is set to be {verb}abled."));
    cx.apply(changed(would), || {
        let told = kind.switch(cx, verb, name)?;
        let status = told
            .get("Status")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if status.contains(&format!("{verb}abled")) {
            return Ok(changed(Ret::ok("")));
        }
        let failed = format!("Failed to {verb}able {name} Apache {what}");
        Ok(Ret::failed(match status {
            "" => failed,
            status => format!("{failed} ({status})"),
        }))
    })
}
