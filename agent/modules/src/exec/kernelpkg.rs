//! The `kernelpkg` execution module: the kernel packages of apt, dnf and yum.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, sorted};

use crate::exec::pkg::providers::{self, Provider, Wanted, listing, transaction};
use crate::exec::pkg::repositories::{self, Kind};
use crate::exec::pkg::version::loose;

state::exec_module! {
    /// Manage kernel packages.
    mod kernelpkg;

    /// Return the release of the running kernel.
    ///
    ///     salt-call kernelpkg.active
    fn active(Active {});

    /// List the installed kernels, the newest last.
    ///
    ///     salt-call kernelpkg.list_installed
    fn list_installed(ListInstalled {});

    /// Return the newest kernel of the repositories.
    ///
    ///     salt-call kernelpkg.latest_available
    fn latest_available(LatestAvailable {});

    /// Return the newest installed kernel.
    ///
    ///     salt-call kernelpkg.latest_installed
    fn latest_installed(LatestInstalled {});

    /// Return True if a newer kernel is installed than the running one.
    ///
    ///     salt-call kernelpkg.needs_reboot
    fn needs_reboot(NeedsReboot {});

    /// Install the newest kernel.
    ///
    ///     salt-call kernelpkg.upgrade
    fn upgrade(Upgrade {
        /// Whether to reboot the machine if that is needed.
        reboot: bool = false,
        /// The time of the reboot, as for `system.reboot`.
        at_time: Value = Value::Null,
    });

    /// Return True if the repositories have a newer kernel than the installed ones.
    ///
    ///     salt-call kernelpkg.upgrade_available
    fn upgrade_available(UpgradeAvailable {});

    /// Remove a kernel that is not running.
    ///
    ///     salt-call kernelpkg.remove 6.1.0-9-amd64
    fn remove(Remove {
        /// The release of the kernel, as listed by `kernelpkg.list_installed`.
        release: String,
    });

    /// Remove all kernels that are not needed.
    ///
    ///     salt-call kernelpkg.cleanup keep_latest=False
    fn cleanup(Cleanup {
        /// Whether to keep the newest kernel.
        keep_latest: bool = true,
    });
}

/// The name of the kernel package for dnf and yum.
const KERNEL: &str = "kernel";

/// The prefix of the names of apt's kernel packages.
const PREFIX: &str = "linux-image-";

fn is_apt(cx: &Exec) -> bool {
    matches!(repositories::kind(cx), Some(Kind::Apt))
}

fn running(cx: &Exec, provider: &dyn Provider) -> String {
    provider.normalize(cx, &cx.grain("kernelrelease"))
}

/// Returns the flavour of the running kernel, such as `amd64` or `generic`.
fn flavour(running: &str) -> Result<&str, Error> {
    match running.rsplit_once('-') {
        Some((_, flavour)) if !flavour.is_empty() => Ok(flavour),
        _ => Err(Error::refused(format!(
            "Kernel release {running} does not end with a kernel type"
        ))),
    }
}

/// Returns the release of an apt package if it is a kernel of this flavour. Newer Debian kernels
/// have a part after `+`.
fn release_of<'a>(name: &'a str, flavour: &str) -> Option<&'a str> {
    let release = name.strip_prefix(PREFIX)?;
    let number = release.strip_suffix(flavour)?.strip_suffix('-')?;
    let (number, rest) = number.split_once('+').unwrap_or((number, ""));
    let is_number = |sign: char| sign.is_ascii_digit() || ".-".contains(sign);
    let is_release = !number.is_empty() && number.chars().all(is_number) && !rest.contains('-');
    is_release.then_some(release)
}

/// Returns the installed kernels, the newest last.
fn installed(cx: &Exec, provider: &dyn Provider) -> Result<Vec<String>, Error> {
    let here = listing::listed(cx, provider)?.here();
    let mut found = if is_apt(cx) {
        let running = running(cx, provider);
        let flavour = flavour(&running)?;
        let names = here.keys().filter_map(Value::as_str);
        let releases = names.filter_map(|name| release_of(name, flavour));
        releases.map(str::to_owned).collect()
    } else {
        listing::versions_of(&here, KERNEL)
    };
    sorted::sort_by(&mut found, |one, other| loose(one, other));
    Ok(found)
}

fn newest_installed(cx: &Exec, provider: &dyn Provider) -> Result<Option<String>, Error> {
    Ok(installed(cx, provider)?.pop())
}

/// Returns the newest kernel, or an error if there is none to compare with.
fn there(newest: Option<String>) -> Result<String, Error> {
    newest.ok_or_else(|| "No kernel package is installed or available".into())
}

/// Returns the newest kernel of the repositories; the newest installed one if they have no newer
/// one.
fn newest_available(cx: &Exec, provider: &dyn Provider) -> Result<Option<String>, Error> {
    let running = running(cx, provider);
    let flavour = match is_apt(cx) {
        true => Some(flavour(&running)?),
        false => None,
    };
    let name = match flavour {
        Some(flavour) => format!("{PREFIX}{flavour}"),
        None => KERNEL.to_owned(),
    };
    let latest = cx.call_internal("pkg.latest_version", vec![name.as_str().into()], Map::new())?;
    match (latest.to_text(), flavour) {
        (latest, _) if latest.is_empty() => newest_installed(cx, provider),
        (latest, None) => Ok(Some(latest)),
        (latest, Some(flavour)) => match release_in(&latest) {
            Some(release) => Ok(Some(format!("{release}-{flavour}"))),
            None => brought(cx, provider, &name, &latest).map(Some),
        },
    }
}

/// Returns the release that is part of an Ubuntu version: `5.15.0-91` for `5.15.0.91.88`.
fn release_in(version: &str) -> Option<String> {
    let (numbers, rest) = version.match_indices('.').nth(2).and_then(|(at, _)| {
        let rest = version.get(at + 1..)?;
        Some((version.get(..at)?, rest))
    })?;
    let end = rest.find(|sign: char| !sign.is_ascii_digit());
    let abi = rest.get(..end.unwrap_or(rest.len()))?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|sign| sign.is_ascii_digit());
    (is_number(abi) && numbers.split('.').all(is_number)).then(|| format!("{numbers}-{abi}"))
}

/// Returns the release of the kernel that a meta package depends on. Debian's versions do not
/// contain it.
fn brought(cx: &Exec, provider: &dyn Provider, name: &str, version: &str) -> Result<String, Error> {
    let descriptions = provider.require(provider.descriptions(), "show")?;
    let shown = descriptions.describe(cx, &[name.to_owned()], &Map::new())?;
    let about = shown.get(name).and_then(|versions| versions.get(version));
    let depends = about
        .and_then(|about| about.get("Depends"))
        .map(Value::to_text);
    let depends = depends.unwrap_or_default();
    let mut names = depends
        .split([',', '|'])
        .filter_map(|one| one.split_whitespace().next());
    let release = names.find_map(|name| name.strip_prefix(PREFIX));
    release.map(str::to_owned).ok_or_else(|| {
        Error::refused(format!(
            "The package {name} {version} does not depend on a kernel"
        ))
    })
}

fn active(cx: &Exec, _: Active) -> Result<Value, Error> {
    Ok(running(cx, providers::provider(cx)?).into())
}

fn list_installed(cx: &Exec, _: ListInstalled) -> Result<Value, Error> {
    Ok(installed(cx, providers::provider(cx)?)?.into())
}

fn latest_available(cx: &Exec, _: LatestAvailable) -> Result<Value, Error> {
    Ok(newest_available(cx, providers::provider(cx)?)?.into())
}

fn latest_installed(cx: &Exec, _: LatestInstalled) -> Result<Value, Error> {
    Ok(newest_installed(cx, providers::provider(cx)?)?.into())
}

fn is_outdated(cx: &Exec, provider: &dyn Provider) -> Result<bool, Error> {
    let newest = there(newest_installed(cx, provider)?)?;
    Ok(loose(&running(cx, provider), &newest).is_lt())
}

fn needs_reboot(cx: &Exec, _: NeedsReboot) -> Result<Value, Error> {
    Ok(is_outdated(cx, providers::provider(cx)?)?.into())
}

fn upgrade(cx: &Exec, args: Upgrade) -> Result<Value, Error> {
    let provider = providers::provider(cx)?;
    let (function, name) = match is_apt(cx) {
        true => {
            let newest = there(newest_available(cx, provider)?)?;
            ("pkg.install", format!("{PREFIX}{newest}"))
        }
        false => ("pkg.upgrade", KERNEL.to_owned()),
    };
    let upgrades = cx.call_internal(function, Vec::new(), Map::new().with("name", name))?;
    let is_outdated = is_outdated(cx, provider)?;
    if args.reboot && is_outdated {
        log::warning("Rebooting system due to kernel upgrade");
        let at_time = Map::new().with("at_time", args.at_time);
        cx.call_internal("system.reboot", Vec::new(), at_time)?;
    }
    Ok(Map::new()
        .with("upgrades", upgrades)
        .with("active", running(cx, provider))
        .with("latest_installed", newest_installed(cx, provider)?)
        .with("reboot_requested", args.reboot)
        .with("reboot_required", is_outdated)
        .into())
}

fn upgrade_available(cx: &Exec, _: UpgradeAvailable) -> Result<Value, Error> {
    let provider = providers::provider(cx)?;
    let newest = there(newest_available(cx, provider)?)?;
    let installed = there(newest_installed(cx, provider)?)?;
    Ok(loose(&newest, &installed).is_gt().into())
}

/// Removes a kernel, and returns the name of its package.
fn removed(cx: &Exec, provider: &dyn Provider, release: &str) -> Result<Value, Error> {
    let (name, version) = match is_apt(cx) {
        true => (format!("{PREFIX}{release}"), None),
        false => (KERNEL.to_owned(), Some(release.to_owned())),
    };
    let target = match &version {
        Some(version) => format!("{name}-{version}"),
        None => name.clone(),
    };
    log::info(format_args!("Removing kernel package {target}"));
    let wanted = Wanted {
        name,
        version,
        path: None,
    };
    transaction::remove(cx, provider, &[wanted], is_apt(cx), &Map::new())?;
    Ok(target.into())
}

fn removed_map(removed: Vec<Value>) -> Value {
    Map::new().with("removed", removed).into()
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    let (provider, release) = (providers::provider(cx)?, args.release);
    if !installed(cx, provider)?.contains(&release) {
        return Err(format!("Kernel release '{release}' is not installed").into());
    }
    if release == running(cx, provider) {
        return Err("Active kernel cannot be removed".into());
    }
    Ok(removed_map(vec![removed(cx, provider, &release)?]))
}

fn cleanup(cx: &Exec, args: Cleanup) -> Result<Value, Error> {
    let provider = providers::provider(cx)?;
    let mut kernels = installed(cx, provider)?;
    if args.keep_latest {
        kernels.pop();
    }
    let running = running(cx, provider);
    kernels.retain(|kernel| *kernel != running);
    let removed = kernels.iter().map(|kernel| removed(cx, provider, kernel));
    Ok(removed_map(removed.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_from_other_packages() {
        let release = |name| release_of(name, "amd64");
        assert_eq!(
            release("linux-image-6.1.0-18-amd64"),
            Some("6.1.0-18-amd64")
        );
        assert_eq!(
            release("linux-image-6.12.57+deb13-amd64"),
            Some("6.12.57+deb13-amd64")
        );
        for other in [
            "linux-image-amd64",
            "linux-image-6.1.0-18-cloud-amd64",
            "linux-image-6.12.57+deb13-cloud-amd64",
            "linux-headers-6.1.0-18-amd64",
        ] {
            assert_eq!(release(other), None, "{other}");
        }
    }

    #[test]
    fn versions_of_ubuntu_tell_a_release() {
        assert_eq!(release_in("5.15.0.91.88").as_deref(), Some("5.15.0-91"));
        assert_eq!(release_in("6.8.0.31+1").as_deref(), Some("6.8.0-31"));
        assert_eq!(release_in("6.1.148-1"), None);
        assert_eq!(release_in("6.12.57-1.2.3"), None);
    }
}
