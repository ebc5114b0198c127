//! Package repositories: a trait, and what each family of distributions has for them.

mod apk;
pub(crate) mod apt;
mod opkg;
mod yum;
mod zypper;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::pkg;

/// What is asked of [`Repos::modify`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// The repository: a definition, an alias, or a section's name.
    pub(crate) repo: &'a str,
    /// The environment that keys come from.
    pub(crate) saltenv: &'a str,
    /// Whether `apt-key` may be used.
    pub(crate) apt_key: bool,
    /// Further arguments, as the user gave them.
    pub(crate) kwargs: &'a Map,
}

/// The repositories of one kind of package manager.
pub(crate) trait Repos: Sync {
    /// All of them.
    fn list(&self, cx: &Exec, kwargs: &Map) -> Result<Map, Error>;

    /// One of them; empty when it is not there.
    fn get(&self, cx: &Exec, repo: &str, kwargs: &Map) -> Result<Map, Error>;

    /// What `get` will say after `modify`, of the things that the arguments are about. What means the same is spelled as it is there.
    fn wanted(&self, cx: &Exec, asked: &Request<'_>) -> Result<Map, Error>;

    /// Adds one, or changes it.
    fn modify(&self, cx: &Exec, asked: &Request<'_>) -> Result<Value, Error>;

    /// Removes one.
    fn delete(&self, cx: &Exec, repo: &str, kwargs: &Map) -> Result<Value, Error>;
}

/// The kinds of repositories that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// APT's.
    Apt,
    /// Those of dnf and yum.
    Yum,
    /// Zypper's.
    Zypper,
    /// Apk's.
    Apk,
    /// Opkg's feeds.
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

/// The kind of this machine's repositories; none where they cannot be managed.
pub(crate) fn kind(cx: &Exec) -> Option<Kind> {
    if let Some(name) = cx.provider("pkg") {
        return pkg::family_of(&name).and_then(|family| of_family(family, family));
    }
    let (os_family, os) = pkg::system(cx);
    of_family(&os_family, &os)
}

/// The kind that a family of distributions has.
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

/// What manages repositories of a kind.
pub(crate) fn of(kind: Kind) -> &'static dyn Repos {
    match kind {
        Kind::Apt => &apt::Apt,
        Kind::Yum => &yum::Yum,
        Kind::Zypper => &zypper::Zypper,
        Kind::Apk => &apk::Apk,
        Kind::Opkg => &opkg::Opkg,
    }
}

/// What manages the repositories of this machine.
///
/// # Errors
/// When nothing does.
pub(crate) fn here(cx: &Exec) -> Result<&'static dyn Repos, Error> {
    match kind(cx) {
        Some(kind) => Ok(of(kind)),
        None => Err("Repo management not implemented on this platform".into()),
    }
}

/// Salt's truth of an argument: a number above zero, or the word true.
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

/// A list of comments as one line.
pub(crate) fn one_comment(comments: &Value) -> String {
    let all: Vec<String> = match comments.as_list() {
        Some(list) => list.iter().map(Value::to_text).collect(),
        None => vec![comments.to_text()],
    };
    all.join(" ").trim().to_owned()
}

/// Whether the lists of packages are to be read again after a change.
pub(crate) fn wants_refresh(kwargs: &Map) -> bool {
    let given = kwargs.get("refresh_db").or_else(|| kwargs.get("refresh"));
    given.is_none_or(Value::is_true)
}

/// Reads the lists of packages again.
///
/// # Errors
/// When the package manager cannot.
pub(crate) fn refresh(cx: &Exec) -> Result<(), Error> {
    cx.call_internal("pkg.refresh_db", Vec::new(), Map::new())
        .map(drop)
}
