//! The `gem` state module. Salt 3008 no longer has it; the returns are those of Salt's last version
//! of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::log;

use crate::exec::gem::{Gem, Wanted, names};
use crate::exec::pkg::version::loose;

state::state_module! {
    /// Manage Ruby packages (`gem`).
    mod gem;

    /// Make sure that a gem is installed.
    ///
    ///     rake:
    ///       gem.installed:
    ///         - version: 13.2.1
    fn installed(Installed {
        /// The name of the gem.
        name: String,
        /// The Ruby version for rvm or rbenv. Accepted but ignored: neither program is used.
        ruby: Option<String> = None,
        /// The path of the program `gem`.
        gem_bin: Option<String> = None,
        /// The user who runs the program.
        user: Option<String> = None,
        /// The version: exactly this one, or a limit with `>=`, `>`, `<` or `<=` in front.
        version: Option<String> = None,
        /// True to generate RDoc documentation.
        rdoc: bool = false,
        /// True to generate ri documentation.
        ri: bool = false,
        /// True to allow prerelease versions.
        pre_releases: bool = false,
        /// The address of a proxy.
        proxy: Option<String> = None,
        /// The source to install from.
        source: Option<String> = None,
    });

    /// Make sure that a gem is not installed.
    ///
    ///     rake:
    ///       gem.removed
    fn removed(Removed {
        /// The name of the gem.
        name: String,
        /// The Ruby version for rvm or rbenv. Accepted but ignored: neither program is used.
        ruby: Option<String> = None,
        /// The user who runs the program.
        user: Option<String> = None,
        /// The path of the program `gem`.
        gem_bin: Option<String> = None,
    });

    /// Make sure that an address is one of the sources of gems.
    ///
    ///     https://gems.example.com/:
    ///       gem.sources_add
    fn sources_add(SourcesAdd {
        /// The address of the source.
        name: String,
        /// The Ruby version for rvm or rbenv. Accepted but ignored: neither program is used.
        ruby: Option<String> = None,
        /// The user who runs the program.
        user: Option<String> = None,
    });

    /// Make sure that an address is not one of the sources of gems.
    ///
    ///     https://rubygems.org/:
    ///       gem.sources_remove
    fn sources_remove(SourcesRemove {
        /// The address of the source.
        name: String,
        /// The Ruby version for rvm or rbenv. Accepted but ignored: neither program is used.
        ruby: Option<String> = None,
        /// The user who runs the program.
        user: Option<String> = None,
    });
}

/// Returns the result of a change: `comment` if the program printed something, otherwise the
/// failure `failed`.
fn done(said: &str, name: &str, change: &str, comment: &str, failed: &str) -> Ret {
    match said.is_empty() {
        true => Ret::failed(failed),
        false => Ret::ok(comment).change(name, change),
    }
}

/// Returns the comment that the gem is installed already, or `None` if no installed version
/// satisfies `version`.
fn satisfied(version: Option<&str>, installed: &[String]) -> Option<&'static str> {
    const ALREADY: &str = "Gem is already installed.";
    let Some(version) = version else {
        return Some(ALREADY);
    };
    let signs = [">=", "<=", ">", "<"];
    let Some(sign) = signs.into_iter().find(|sign| version.starts_with(sign)) else {
        return installed
            .iter()
            .any(|one| one == version)
            .then_some(ALREADY);
    };
    let first = installed.first()?.replace("default: ", "");
    let wanted = version.replace(sign, "");
    let order = loose(first.trim(), wanted.trim());
    let holds = match sign {
        ">=" => order.is_ge(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_lt(),
    };
    holds.then_some("Installed Gem meets version requirements.")
}

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    if args.ruby.is_some() {
        log::warning(format_args!(
            "Use of argument ruby found, but neither rvm or rbenv is installed"
        ));
    }
    let gem = Gem {
        cx,
        runas: args.user,
        gem_bin: args.gem_bin,
    };
    let name = args.name.as_str();
    if let Some(versions) = gem.list(name)?.get(name)
        && let Some(comment) = satisfied(args.version.as_deref(), &versions.texts())
    {
        return Ok(Ret::ok(comment));
    }
    let would = Ret::would(format!("The gem {name} would have been installed"));
    cx.apply(would, || {
        let wanted = Wanted {
            version: args.version,
            rdoc: args.rdoc,
            ri: args.ri,
            pre_releases: args.pre_releases,
            proxy: args.proxy,
            source: args.source,
        };
        let said = gem.install(&names(&name.into()), &wanted)?;
        let [good, bad] = ["Gem was successfully installed", "Could not install gem."];
        Ok(done(&said, name, "Installed", good, bad))
    })
}

fn removed(cx: &Exec, args: Removed) -> Result<Ret, Error> {
    let gem = Gem {
        cx,
        runas: args.user,
        gem_bin: args.gem_bin,
    };
    let name = args.name.as_str();
    if !gem.list(name)?.contains(name) {
        return Ok(Ret::ok("Gem is not installed."));
    }
    let would = Ret::would(format!("The gem {name} would have been removed"));
    cx.apply(would, || {
        let said = gem.uninstall(&names(&name.into()))?;
        let [good, bad] = ["Gem was successfully removed.", "Could not remove gem."];
        Ok(done(&said, name, "Removed", good, bad))
    })
}

fn sources_add(cx: &Exec, args: SourcesAdd) -> Result<Ret, Error> {
    let (gem, name) = (of_user(cx, args.user), args.name);
    if gem.sources()?.contains(&name) {
        return Ok(Ret::ok("Gem source is already added."));
    }
    let would = Ret::would(format!("The gem source {name} would have been added."));
    cx.apply(would, || {
        let said = gem.source("--add", &name)?;
        let [good, bad] = [
            "Gem source was successfully added.",
            "Could not add gem source.",
        ];
        Ok(done(&said, &name, "Installed", good, bad))
    })
}

fn sources_remove(cx: &Exec, args: SourcesRemove) -> Result<Ret, Error> {
    let (gem, name) = (of_user(cx, args.user), args.name);
    if !gem.sources()?.contains(&name) {
        return Ok(Ret::ok("Gem source is already removed."));
    }
    let would = Ret::would("The gem source would have been removed.");
    cx.apply(would, || {
        let said = gem.source("--remove", &name)?;
        let [good, bad] = [
            "Gem source was successfully removed.",
            "Could not remove gem source.",
        ];
        Ok(done(&said, &name, "Removed", good, bad))
    })
}

fn of_user(cx: &Exec, runas: Option<String>) -> Gem<'_> {
    Gem {
        cx,
        runas,
        gem_bin: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_may_be_exact_or_a_bound() {
        let installed = ["default: 2.1".to_owned(), "2.0".to_owned()];
        assert!(satisfied(None, &installed).is_some());
        assert!(satisfied(Some("2.0"), &installed).is_some());
        assert!(satisfied(Some(">=2.1"), &installed).is_some());
        assert!(satisfied(Some("< 2.1"), &installed).is_none());
        assert!(satisfied(Some("1.9"), &installed).is_none());
    }
}
