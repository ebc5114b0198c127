//! The `pkgrepo` state module.

use std::path::Path;

use machine::fs;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, log};

use crate::exec::pkg::repo::remove_key;
use crate::exec::pkg::repositories::{self, Kind, Request, is_true};

state::state_module! {
    /// Management of package repositories.
    #[facts(effects = Effects::Files(&[]), free_arguments = true)]
    mod pkgrepo;

    /// Make sure that a repository is configured as described.
    ///
    ///     deb [signed-by=/etc/apt/keyrings/app.asc] https://deb.example.com stable main:
    ///       pkgrepo.managed:
    ///         - file: /etc/apt/sources.list.d/app.list
    ///         - key_url: salt://app.asc
    ///         - aptkey: False
    fn managed(Managed {
        /// The definition (APT), or the name of the repository.
        name: String,
        /// The personal archive `OWNER/NAME` (Ubuntu).
        ppa: Option<String> = None,
        /// The community repository `OWNER/NAME` (Fedora).
        copr: Option<String> = None,
        /// True to use apt-key if it exists.
        aptkey: bool = true,
        ..kwargs
    });

    /// Make sure that a repository does not exist.
    ///
    ///     deb https://deb.example.com stable main:
    ///       pkgrepo.absent
    fn absent(Absent {
        /// The definition (APT), or the name of the repository.
        name: String,
        ..kwargs
    });
}

const WARNING: &str = "This may cause pkg states to behave differently than stated if this action is repeated without test=True, due to the differences in the configured repositories.";

/// Returns whether the key is given in two ways. Salt rejects this only in test mode, and only by
/// its result; otherwise it configures the repository.
fn has_two_keys(kwargs: &Map) -> bool {
    let (url, text) = (kwargs.contains("key_url"), kwargs.contains("key_text"));
    let by_id = kwargs.contains("keyid") || kwargs.contains("keyserver");
    url && text || by_id && (url || text)
}

fn managed(cx: &Exec, args: Managed) -> Result<Ret, Error> {
    let Some(kind) = repositories::kind(cx) else {
        return Err("Repo management not implemented on this platform".into());
    };
    let (repo, kwargs) = repo_arguments(kind, &args)?;
    let request = Request {
        repo: &repo,
        saltenv: &cx.saltenv,
        apt_key: args.aptkey,
        kwargs: &kwargs,
    };
    let name = &args.name;
    let (before, wanted) = compared(cx, kind, &request)
        .map_err(|error| format!("Failed to configure repo '{name}': {error}"))?;
    let changes = differences(&wanted, &before);
    let there = !before.is_empty();
    let is_stale = kind == Kind::Apt && is_stale(name, &kwargs)?;
    if there && changes.is_empty() && !is_stale {
        return Ok(Ret::ok(format!("Package repo '{name}' already configured")));
    }
    let would = Ret::would(format!(
        "Package repo '{name}' would be configured. {WARNING}"
    ));
    let would = match there {
        true => would.changes(changes),
        false => would.change("repo", name.as_str()),
    };
    if cx.test && has_two_keys(&args.kwargs) {
        return Ok(Ret {
            result: Some(false),
            ..would
        });
    }
    cx.apply(would, || {
        configured(cx, kind, name, &request, &before, &wanted)
    })
}

/// Returns the repository's name for the package manager, and the arguments in the package
/// manager's terms.
fn repo_arguments(kind: Kind, args: &Managed) -> Result<(String, Map), Error> {
    let mut kwargs = args.kwargs.clone();
    if kwargs.contains("repo") {
        return Err("'repo' is not a supported argument for this state. The 'name' argument is probably what was intended.".into());
    }
    let given = |value: Option<Value>| value.filter(|value| !value.is_null());
    let enabled = given(kwargs.remove("enabled"));
    let disabled = given(kwargs.remove("disabled"));
    let enabled = match (enabled, disabled) {
        (Some(_), Some(_)) => return Err("Only one of enabled/disabled is allowed".into()),
        (Some(enabled), None) => is_true(&enabled),
        (None, Some(disabled)) => !is_true(&disabled),
        (None, None) => true,
    };
    check_key(&mut kwargs)?;
    kwargs.insert("name", args.name.as_str());
    let repo = match (kind, &args.ppa, &args.copr) {
        (Kind::Apt, Some(ppa), _) => format!("ppa:{ppa}"),
        (Kind::Yum, _, Some(copr)) => format!("copr:{copr}"),
        _ => args.name.clone(),
    };
    if let (Kind::Yum | Kind::Zypper, Some(human)) = (kind, kwargs.remove("humanname")) {
        kwargs.insert("name", human);
    }
    match kind {
        Kind::Apt => kwargs.insert("disabled", !enabled),
        _ => kwargs.insert("enabled", enabled),
    };
    Ok((repo, kwargs))
}

/// Checks that the key is not fetched over plain HTTP, where an attacker can replace it.
fn check_key(kwargs: &mut Map) -> Result<(), Error> {
    let allowed = kwargs.remove("allow_insecure_key");
    let url = kwargs.get("key_url").map(Value::to_text);
    if !url.is_some_and(|url| url.trim().starts_with("http:")) {
        return Ok(());
    }
    if allowed.is_none_or(|allowed| allowed.is_true()) {
        log::warning(format_args!(
            "allow_insecure_key will default to False: use an https URL for the key"
        ));
        return Ok(());
    }
    Err("Cannot have 'key_url' using http with 'allow_insecure_key' set to True".into())
}

/// Returns the current and the wanted settings of a repository. The file with the definition is not
/// compared.
fn compared(cx: &Exec, kind: Kind, request: &Request<'_>) -> Result<(Map, Map), Error> {
    let manager = repositories::for_kind(kind);
    let mut before = manager.get(cx, request.repo, request.kwargs)?;
    let mut wanted = manager.wanted(cx, request)?;
    before.remove("file");
    wanted.remove("file");
    Ok((before, wanted))
}

fn differences(wanted: &Map, before: &Map) -> Map {
    let old = |key: &Value| before.get_value(key).cloned().unwrap_or_default();
    wanted
        .iter()
        .filter(|(key, new)| old(key) != **new)
        .map(|(key, new)| {
            let change = Map::new().with("new", new.clone()).with("old", old(key));
            (key.clone(), Value::from(change))
        })
        .collect()
}

/// Returns true if `clean_file` is set and the file contains other definitions.
fn is_stale(name: &str, kwargs: &Map) -> Result<bool, Error> {
    let Some(file) = clean_file(kwargs) else {
        return Ok(false);
    };
    let text = fs::text_or_none(file)?.unwrap_or_default();
    Ok(text
        .lines()
        .map(str::trim)
        .any(|line| !line.is_empty() && !line.starts_with('#') && line != name.trim()))
}

fn clean_file(kwargs: &Map) -> Option<String> {
    let clean = kwargs.get("clean_file").is_some_and(Value::is_true);
    let file = kwargs.get("file").filter(|file| file.is_true());
    file.filter(|_| clean).map(Value::to_text)
}

fn configured(
    cx: &Exec,
    kind: Kind,
    name: &str,
    request: &Request<'_>,
    before: &Map,
    wanted: &Map,
) -> Result<Ret, Error> {
    let manager = repositories::for_kind(kind);
    if let (Some(file), true) = (clean_file(request.kwargs), kind != Kind::Apt) {
        fs::write(cx, Path::new(&file), b"", fs::Owner::default())?;
    }
    manager
        .modify(cx, request)
        .map_err(|error| format!("Failed to configure repo '{name}': {error}"))?;
    let after = manager
        .get(cx, request.repo, request.kwargs)
        .map_err(|error| format!("Failed to confirm config of repo '{name}': {error}"))?;
    let done = Ret::ok(format!("Configured package repo '{name}'"));
    if before.is_empty() {
        return Ok(done.change("repo", request.repo));
    }
    let looked_at = |key: &Value| after.get_value(key).cloned().unwrap_or_default();
    let now = wanted.keys().map(|key| (key.clone(), looked_at(key)));
    Ok(done.changes(differences(&now.collect(), before)))
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let Some(kind) = repositories::kind(cx) else {
        return Err("Repo management not implemented on this platform".into());
    };
    let mut kwargs = args.kwargs;
    let name = named(cx, kind, args.name, &mut kwargs);
    let keys = ["keyid", "keyid_ppa"];
    let remove = keys
        .iter()
        .any(|key| kwargs.get(key).is_some_and(|value| !value.is_null()));
    if remove && kind != Kind::Apt {
        return Err("Repo key management is not implemented for this platform".into());
    }
    let repo = match kind {
        Kind::Apt => without_slash(&name),
        _ => name.clone(),
    };
    let manager = repositories::for_kind(kind);
    let found = manager
        .get(cx, &repo, &kwargs)
        .map_err(|error| format!("Failed to configure repo '{name}': {error}"))?;
    let other = kind == Kind::Apt && !repositories::apt::same_architectures(&repo, &found);
    if found.is_empty() || other {
        return Ok(Ret::ok(format!("Package repo {name} is absent")));
    }
    let would = Ret::would(format!("Package repo '{name}' will be removed. {WARNING}"));
    cx.apply(would, || {
        manager.delete(cx, &repo, &kwargs)?;
        let left = manager.list(cx, &Map::new())?;
        if left.contains(&repo) {
            return Err(Error::refused(format!("Failed to remove repo {name}")));
        }
        let done = Ret::ok(format!("Removed repo {name}")).change("repo", name.as_str());
        match remove {
            true => Ok(key_removed(cx, done, &repo, &kwargs)),
            false => Ok(done),
        }
    })
}

fn named(cx: &Exec, kind: Kind, name: String, kwargs: &mut Map) -> String {
    let os = cx.grains().get("os").map(Value::to_text);
    let has_ppa =
        kind == Kind::Apt && os.is_some_and(|os| ["Ubuntu", "Mint"].contains(&os.as_str()));
    let prefixed = |prefix: &str, value: &Value| {
        let text = value.to_text();
        match text.starts_with(prefix) {
            true => text,
            false => format!("{prefix}{text}"),
        }
    };
    match (kwargs.get("ppa").cloned(), kwargs.get("copr").cloned()) {
        (Some(ppa), _) if has_ppa => {
            kwargs.remove("ppa");
            prefixed("ppa:", &ppa)
        }
        (_, Some(copr)) if kind == Kind::Yum => {
            kwargs.remove("copr");
            prefixed("copr:", &copr)
        }
        _ => name,
    }
}

/// Returns a definition without the slash at the end of its address.
fn without_slash(repo: &str) -> String {
    let words = repo.split_whitespace().map(|word| {
        let schemes = ["http://", "https://", "ftp://"];
        match schemes.iter().any(|scheme| word.starts_with(scheme)) {
            true => word.trim_end_matches('/'),
            false => word,
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn key_removed(cx: &Exec, done: Ret, repo: &str, kwargs: &Map) -> Ret {
    let comment = done.comment.clone();
    match remove_key(cx, Some(repo), true, None, kwargs) {
        Ok(id) => Ret {
            comment: format!("{comment}, and keyid {}", id.to_text()),
            ..done.change("keyid", id)
        },
        Err(error) => Ret {
            result: Some(false),
            comment: format!("{comment}, but failed to remove key: {error}"),
            ..done
        },
    }
}
