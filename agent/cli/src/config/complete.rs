//! Completes the options as Salt does after reading them: paths below the root, roots as lists, old
//! names.

use std::path::Path;

use value::{Map, Value};

use super::error::ConfigError;
use super::glob::{glob, has_magic};
use super::id;

/// The options of a minion whose paths are moved below `root_dir`.
pub(super) const BELOW_ROOT: [&str; 5] = [
    "pki_dir",
    "cachedir",
    "sock_dir",
    "extension_modules",
    "pidfile",
];

/// The options of a master whose paths are moved below `root_dir`.
pub(super) const MASTER_BELOW_ROOT: [&str; 9] = [
    "pki_dir",
    "cachedir",
    "sock_dir",
    "extension_modules",
    "pidfile",
    "autosign_file",
    "autoreject_file",
    "autosign_grains_dir",
    "sqlite_queue_dir",
];

/// The old names of file server backends, each with the new one.
const BACKENDS: [(&str, &str); 4] = [
    ("git", "gitfs"),
    ("hg", "hgfs"),
    ("svn", "svnfs"),
    ("minion", "minionfs"),
];

/// Converts `environment`, the old name of `saltenv`.
pub(super) fn environment(opts: &mut Map, role: &str, warnings: &mut Vec<String>) {
    let Some(environment) = opts.get("environment").cloned() else {
        return;
    };
    let saltenv = opts
        .get("saltenv")
        .filter(|saltenv| !saltenv.is_null())
        .cloned();
    if let Some(saltenv) = saltenv {
        warnings.push(format!("The 'saltenv' and 'environment' {role} config options cannot both be used. Ignoring 'environment' in favor of 'saltenv'."));
        opts.insert("environment", saltenv);
    } else {
        warnings.push(format!(
            "The 'environment' {role} config option has been renamed to 'saltenv'. Using {} as the 'saltenv' config value.",
            environment.to_text()
        ));
        opts.insert("saltenv", environment);
    }
}

/// Sets the options that depend on the id: the id with its domain, and the folders of this id.
pub(super) fn id_and_folders(opts: &mut Map) {
    let mut name = text(opts, "id");
    if let Some(domain) = opts.get("append_domain").and_then(Value::as_str) {
        name = id::with_domain(&name, domain);
        opts.insert("id", name.as_str());
    }
    let folders = opts
        .get("append_minionid_config_dirs")
        .and_then(Value::as_list)
        .unwrap_or_default()
        .to_vec();
    for option in folders.iter().filter_map(Value::as_str) {
        match option {
            "pki_dir" | "cachedir" | "extension_modules" => {
                let folder = join(&text(opts, option), &name);
                opts.insert(option, folder);
            }
            "pidfile" => {
                let file = text(opts, option);
                let (folder, file) = file.rsplit_once('/').unwrap_or(("", &file));
                let moved = format!("{folder}/salt/{name}/{file}");
                opts.insert(option, moved);
            }
            _ => {}
        }
    }
}

/// Sets a master's id, which names its part in an orchestration's return: the machine's id with
/// `_master`.
pub(super) fn master_id(opts: &mut Map) -> Result<(), ConfigError> {
    if opts.get("id").is_some_and(Value::is_true) {
        return Ok(());
    }
    let name = id::id(opts, &text(opts, "root_dir"))?.name;
    let name = match opts.get("append_domain").and_then(Value::as_str) {
        Some(domain) => id::with_domain(&name, domain),
        None => name,
    };
    opts.insert("id", name + "_master");
    Ok(())
}

/// Converts `nodegroups` from a list of mappings to one mapping. A missing value becomes an empty
/// one.
pub(super) fn nodegroups(opts: &mut Map) {
    let mut groups = Map::new();
    match opts.get("nodegroups") {
        Some(Value::Map(_)) => return,
        Some(Value::List(items)) => {
            let maps = items.iter().filter_map(Value::as_map);
            maps.for_each(|map| groups.update(map.clone()));
        }
        _ => {}
    }
    opts.insert("nodegroups", groups);
}

/// Converts paths, roots and spellings to the form that the rest of the program expects.
pub(super) fn paths(opts: &mut Map, role: &str, below: &[&str], warnings: &mut Vec<String>) {
    let (sock_dir, cachedir) = (text(opts, "sock_dir"), text(opts, "cachedir"));
    // The path of a socket has a small maximum length. Like Salt, this moves the sockets into the
    // cache if that path is shorter.
    if sock_dir.len() > cachedir.len() + 10 {
        opts.insert("sock_dir", join(&cachedir, ".salt-unix"));
    }
    for key in ["file_roots", "pillar_roots"] {
        let given = opts
            .get(key)
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default();
        warnings.extend(without_folders(key, &given));
        opts.insert(key, roots(&given));
    }
    if !opts.get("extension_modules").is_some_and(Value::is_true) {
        opts.insert("extension_modules", join(&cachedir, "extmods"));
    }
    if !opts.get("utils_dirs").is_some_and(Value::is_true) {
        let utils = join(&text(opts, "extension_modules"), "utils");
        opts.insert("utils_dirs", vec![utils]);
    }
    log_file(opts, role);
    below_root(opts, below);
    for key in ["log_file", "key_logfile"] {
        if opts
            .get(key)
            .and_then(Value::as_str)
            .is_some_and(|path| !has_scheme(path))
        {
            below_root(opts, &[key]);
        }
    }
    let spelled = [
        ("hash_type", text(opts, "hash_type").to_lowercase()),
        ("__cachedir", text(opts, "cachedir")),
    ];
    for (key, value) in spelled {
        opts.insert(key, value);
    }
    let returners = opts.get("return").and_then(Value::as_list).map(|names| {
        names
            .iter()
            .map(Value::to_text)
            .collect::<Vec<_>>()
            .join(",")
    });
    if let Some(returners) = returners {
        opts.insert("return", returners);
    }
    backends(opts);
}

fn backends(opts: &mut Map) {
    let Some(names) = opts
        .get_mut("fileserver_backend")
        .and_then(Value::as_list_mut)
    else {
        return;
    };
    for name in names {
        if let Some((_, new)) = BACKENDS.iter().find(|(old, _)| name.as_str() == Some(old)) {
            *name = Value::from(*new);
        }
    }
}

/// Puts a relative `log_file` into `log_dir`.
fn log_file(opts: &mut Map, role: &str) {
    let Some(folder) = opts
        .get("log_dir")
        .and_then(Value::as_str)
        .filter(|dir| !dir.is_empty())
        .map(str::to_owned)
    else {
        return;
    };
    let file = text(opts, "log_file");
    if file == format!("/var/log/salt/{role}") {
        opts.insert("log_file", join(&folder, role));
    } else if !file.starts_with('/') {
        opts.insert("log_file", join(&folder, &file));
    }
}

/// Reports whether a path is a URL, such as `file:///dev/log`.
fn has_scheme(path: &str) -> bool {
    path.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// Moves paths below `root_dir`, unless they are there already.
pub(super) fn below_root(opts: &mut Map, keys: &[&str]) {
    let root = text(opts, "root_dir");
    let root = root.trim_end_matches('/');
    for key in keys {
        let Some(path) = opts.get(key).and_then(Value::as_str).map(str::to_owned) else {
            continue;
        };
        let inside = !root.is_empty()
            && path
                .strip_prefix(root)
                .is_some_and(|rest| rest.starts_with('/'));
        if !inside {
            opts.insert(*key, format!("{root}/{}", path.trim_start_matches('/')));
        }
    }
}

/// Returns file or pillar roots with environments as text, folders as lists, and glob patterns
/// replaced by their matches.
pub(super) fn roots(roots: &Map) -> Map {
    let folders = |value: &Value| expanded(value.as_list().unwrap_or_default());
    roots
        .iter()
        .map(|(saltenv, value)| (saltenv.to_text(), folders(value)))
        .collect()
}

/// Returns a warning for each environment whose folders are not a list. Salt treats it as an
/// environment without folders, and does not warn.
fn without_folders(key: &str, roots: &Map) -> Vec<String> {
    let wrong = roots
        .iter()
        .filter(|(_, folders)| folders.as_list().is_none() && !folders.is_null());
    wrong
        .map(|(saltenv, folders)| {
            let (saltenv, found) = (saltenv.to_text(), folders.type_name());
            format!("option `{key}`: environment `{saltenv}` needs a list of folders, found {found}; using an empty list")
        })
        .collect()
}

fn expanded(folders: &[Value]) -> Value {
    let one = |folder: &Value| match folder.as_str() {
        Some(path) if has_magic(path) => glob(Path::new(path))
            .iter()
            .map(|path| Value::from(&*path.to_string_lossy()))
            .collect(),
        _ => vec![folder.clone()],
    };
    Value::list(folders.iter().flat_map(one))
}

pub(super) fn text(opts: &Map, key: &str) -> String {
    opts.get(key)
        .filter(|value| !value.is_null())
        .map(Value::to_text)
        .unwrap_or_default()
}

pub(super) fn join(folder: &str, name: &str) -> String {
    Path::new(folder).join(name).to_string_lossy().into_owned()
}
