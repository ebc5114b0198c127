//! The `portage_config` state module. Salt 3008 no longer has it; the returns are those of Salt's
//! last version of it.

use state::exec::Exec;
use state::facts::Missing;
use state::module::{Error, Ret};
use value::Map;

use crate::exec::makeconf::without_gentoo;
use crate::exec::portage_config::{Conf, enforce};

state::state_module! {
    /// Manage the settings for building packages on Gentoo (`/etc/portage/package.*`).
    #[module(virtual_ = missing)]
    mod portage_config;

    /// Make sure that a package has flags. In test mode the result is true, as in Salt; the changes
    /// contain what would change.
    ///
    ///     dev-vcs/git:
    ///       portage_config.flags:
    ///         - use: [curl, perl]
    fn flags(Flags {
        /// The package, as an atom.
        name: String,
        /// USE flags.
        r#use: Vec<String> = Vec::new(),
        /// The accepted keywords. `~ARCH` means the keyword of the machine's architecture.
        accept_keywords: Vec<String> = Vec::new(),
        /// Files with variables.
        env: Vec<String> = Vec::new(),
        /// The accepted licences.
        license: Vec<String> = Vec::new(),
        /// The accepted properties.
        properties: Vec<String> = Vec::new(),
        /// True to unmask the package.
        unmask: bool = false,
        /// True to mask the package.
        mask: bool = false,
    });
}

/// Returns what is missing on a machine without Gentoo.
fn missing(cx: &Exec, _: &str) -> Option<Missing> {
    without_gentoo(cx, "portage module could not be loaded")
}

fn flags(cx: &Exec, args: Flags) -> Result<Ret, Error> {
    if !cx.test {
        enforce(cx)?;
    }
    let (atom, mut ret) = (args.name.as_str(), Ret::ok(""));
    for (name, flags) in [
        ("use", args.r#use),
        ("accept_keywords", args.accept_keywords),
        ("env", args.env),
        ("license", args.license),
        ("properties", args.properties),
    ] {
        let conf = Conf::new(cx, name)?;
        let missing = match flags.is_empty() {
            true => continue,
            false => conf.missing(atom, &flags)?,
        };
        if missing.is_empty() {
            continue;
        }
        let about = Map::new().with("old", conf.flags(atom)?);
        if !cx.test {
            conf.append(atom, &missing, false)?;
        }
        ret = ret.change(name, about.with("new", missing));
    }
    for (name, is, word) in [
        ("mask", args.mask, "masked"),
        ("unmask", args.unmask, "unmasked"),
    ] {
        let conf = Conf::new(cx, name)?;
        if is && !conf.names(atom)? {
            if !cx.test {
                conf.append(atom, &[], false)?;
            }
            ret = ret.change(name, word);
        }
    }
    Ok(ret)
}
