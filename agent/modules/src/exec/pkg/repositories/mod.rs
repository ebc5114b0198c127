//! Package repositories: a trait, and its implementation for each family of distributions.

mod apk;
pub(crate) mod apt;
mod opkg;
mod yum;
mod zypper;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::pkg::providers;

/// The arguments of [`Repos::modify`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// The repository: a definition, an alias, or a section's name.
    pub(crate) repo: &'a str,
    /// The environment that keys come from.
    pub(crate) saltenv: &'a str,
    /// True if `apt-key` may be used.
    pub(crate) apt_key: bool,
    /// Further arguments of the user.
    pub(crate) kwargs: &'a Map,
}

/// The repositories of one kind of package manager.
pub(crate) trait Repos: Sync {
    /// Returns all repositories.
    fn list(&self, cx: &Exec, kwargs: &Map) -> Result<Map, Error>;

    /// Returns one repository; an empty map when it does not exist.
    fn get(&self, cx: &Exec, repo: &str, kwargs: &Map) -> Result<Map, Error>;

    /// Returns the future result of `get` after `modify`, limited to the properties in the
    /// arguments. If a value has the same meaning as the present one, the present notation is kept.
    fn wanted(&self, cx: &Exec, request: &Request<'_>) -> Result<Map, Error>;

    /// Adds or changes a repository.
    fn modify(&self, cx: &Exec, request: &Request<'_>) -> Result<Value, Error>;

    /// Removes a repository.
    fn delete(&self, cx: &Exec, repo: &str, kwargs: &Map) -> Result<Value, Error>;
}

/// The supported kinds of repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The repositories of APT.
    Apt,
    /// The repositories of dnf and yum.
    Yum,
    /// The repositories of Zypper.
    Zypper,
    /// The repositories of apk.
    Apk,
    /// The feeds of opkg.
    Opkg,
}

/// Distributions of other families that have dnf or yum.
const WITH_YUM: [&str; 8] = [
    "amazon",
    "xcp",
    "xenserver",
    "virtuozzolinux",
    "virtuozzo",
    "issabel pbx",
    "openeuler",
    "vmware photon os",
];

/// Returns the kind of this machine's repositories; `None` where they cannot be managed.
pub(crate) fn kind(cx: &Exec) -> Option<Kind> {
    if let Some(name) = cx.provider("pkg") {
        return providers::family_of(&name).and_then(|family| of_family(family, family));
    }
    let (os_family, os) = providers::system(cx);
    of_family(&os_family, &os)
}

/// Returns the kind for a family of distributions.
pub(crate) fn of_family(os_family: &str, os: &str) -> Option<Kind> {
    match os_family {
        "Debian" => Some(Kind::Apt),
        "RedHat" => Some(Kind::Yum),
        "Suse" => Some(Kind::Zypper),
        "Alpine" => Some(Kind::Apk),
        "OpenWrt" | "NILinuxRT" | "Poky" => Some(Kind::Opkg),
        _ if WITH_YUM.contains(&os.to_lowercase().as_str()) => Some(Kind::Yum),
        _ => None,
    }
}

/// Returns the implementation for a kind.
pub(crate) fn for_kind(kind: Kind) -> &'static dyn Repos {
    match kind {
        Kind::Apt => &apt::Apt,
        Kind::Yum => &yum::Yum,
        Kind::Zypper => &zypper::Zypper,
        Kind::Apk => &apk::Apk,
        Kind::Opkg => &opkg::Opkg,
    }
}

/// Returns the implementation for this machine.
///
/// # Errors
/// When the machine's repositories are not supported.
pub(crate) fn here(cx: &Exec) -> Result<&'static dyn Repos, Error> {
    match kind(cx) {
        Some(kind) => Ok(for_kind(kind)),
        None => Err("Repo management not implemented on this platform".into()),
    }
}

/// Returns true for a number above zero or the word true, as Salt does for an argument.
pub(crate) fn is_true(value: &Value) -> bool {
    match value {
        Value::Str(text) => match text.trim().parse::<f64>() {
            Ok(number) => number > 0.0,
            Err(_) => text.eq_ignore_ascii_case("true"),
        },
        Value::Int(_) | Value::Float(_) => value.as_float().is_some_and(|number| number > 0.0),
        other => other.is_true(),
    }
}

/// Joins a list of comments to one line.
pub(crate) fn one_comment(comments: &Value) -> String {
    let all: Vec<String> = match comments.as_list() {
        Some(list) => list.iter().map(Value::to_text).collect(),
        None => vec![comments.to_text()],
    };
    all.join(" ").trim().to_owned()
}

/// Returns true if the lists of packages must be updated after a change.
pub(crate) fn wants_refresh(kwargs: &Map) -> bool {
    let given = kwargs.get("refresh_db").or_else(|| kwargs.get("refresh"));
    given.is_none_or(Value::is_true)
}

/// Updates the lists of packages.
///
/// # Errors
/// When the package manager fails.
pub(crate) fn refresh(cx: &Exec) -> Result<(), Error> {
    cx.call_internal("pkg.refresh_db", Vec::new(), Map::new())
        .map(drop)
}
