//! The `pecl` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use crate::exec::pecl;

state::state_module! {
    /// Manage PHP extensions (`pecl`).
    #[needs("pecl", "pecl module could not be loaded", "php-pear")]
    mod pecl;

    /// Make sure that an extension is installed.
    ///
    ///     redis:
    ///       pecl.installed:
    ///         - version: 6.1.0
    fn installed(Installed {
        /// The name of the extension, optionally with `CHANNEL/`.
        name: String,
        /// The version of the extension.
        version: Option<String> = None,
        /// True to answer pecl's questions with the defaults.
        defaults: bool = false,
        /// True to install it despite all objections of pecl.
        force: bool = false,
        /// The minimum stability of a version.
        preferred_state: String = "stable".into(),
    });

    /// Make sure that an extension is not installed.
    ///
    ///     redis:
    ///       pecl.removed
    fn removed(Removed {
        /// The name of the extension.
        name: String,
    });
}

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let (channel, package) = match args.name.split_once('/') {
        Some((channel, package)) => (Some(channel), package),
        None => (None, args.name.as_str()),
    };
    let known = pecl::listed(cx, channel)?;
    let about = known.get(package).map(Value::texts).unwrap_or_default();
    let is_version = args.version.as_ref().is_none_or(|one| about.contains(one));
    if is_version && about.contains(&args.preferred_state) {
        let comment = format!("Pecl extension {} is already installed.", args.name);
        return Ok(Ret::ok(comment));
    }
    let name = match &args.version {
        Some(version) => format!("{}-{version}", args.name),
        None => args.name,
    };
    let would = format!("Pecl extension {name} would have been installed");
    cx.apply(Ret::would(would), || {
        let (names, state) = (vec![name.clone()], &args.preferred_state);
        let done = pecl::installed(cx, &names, args.defaults, args.force, state)?;
        Ok(match done.is_true() {
            true => Ret::ok(format!("Pecl extension {name} was successfully installed"))
                .change(&name, "Installed"),
            false => Ret::failed(format!("Could not install pecl extension {name}.")),
        })
    })
}

fn removed(cx: &Exec, args: Removed) -> Result<Ret, Error> {
    let name = args.name;
    if !pecl::listed(cx, None)?.contains(&name) {
        return Ok(Ret::ok(format!("Pecl extension {name} is not installed.")));
    }
    let would = format!("Pecl extension {name} would have been removed");
    cx.apply(Ret::would(would), || {
        let said = pecl::removed(cx, std::slice::from_ref(&name))?;
        Ok(match said.is_empty() {
            false => Ret::ok(format!("Pecl extension {name} was successfully removed."))
                .change(&name, "Removed"),
            true => Ret::failed(format!("Could not remove pecl extension {name}.")),
        })
    })
}
