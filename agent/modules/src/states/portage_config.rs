//! The `portage_config` state module. Salt 3008 has it no more; answers are those of its last one.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::Map;

use crate::exec::portage_config::{Conf, enforce};

state::state_module! {
    /// Gentoo's files of what packages are built with (`/etc/portage/package.*`).
    mod portage_config;

    /// Make sure that a package has flags. In test mode the result is true, as in Salt: what would change stands in the changes.
    fn flags(Flags {
        /// The package: an atom.
        name: String,
        /// USE flags.
        r#use: Vec<String> = Vec::new(),
        /// Keywords that are accepted; `~ARCH` is the machine's own.
        accept_keywords: Vec<String> = Vec::new(),
        /// Files with variables.
        env: Vec<String> = Vec::new(),
        /// Licences that are accepted.
        license: Vec<String> = Vec::new(),
        /// Properties that are accepted.
        properties: Vec<String> = Vec::new(),
        /// It is not masked.
        unmask: bool = false,
        /// It is masked.
        mask: bool = false,
    });
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
        let conf = Conf::of(cx, name)?;
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
        let conf = Conf::of(cx, name)?;
        if is && !conf.names(atom)? {
            if !cx.test {
                conf.append(atom, &[], false)?;
            }
            ret = ret.change(name, word);
        }
    }
    Ok(ret)
}
