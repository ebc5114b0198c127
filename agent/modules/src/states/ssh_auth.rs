//! The `ssh_auth` state module.

use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::ssh::auth::{self, CONFIG, Done, Key, Place};

state::state_module! {
    /// Manage the keys that may log in with ssh.
    #[facts(effects = Effects::Files(&[]))]
    mod ssh_auth;

    /// Ensure that a key may log in as a user.
    ///
    ///     AAAAC3NzaC1lZDI1NTE5AAAAIGOxv4QFNJ8e0o2Nq3mZzqSLb1Hn9u7dVZlDk2gkT8sV:
    ///       ssh_auth.present:
    ///         - user: deploy
    ///         - enc: ssh-ed25519
    ///         - comment: alice@laptop
    fn present(Present {
        /// The key, with or without its type and comment.
        name: String,
        /// The user.
        user: String,
        /// The type of the key.
        enc: String = "ssh-rsa".into(),
        /// The comment of the key.
        comment: String = String::new(),
        /// A file with keys, instead of `name`.
        source: String = String::new(),
        /// The options of the key.
        options: Option<Vec<String>> = None,
        /// The file with the user's keys, relative to the home folder.
        config: String = CONFIG.into(),
        /// The hash type of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
        ..kwargs
    });

    /// Ensure that a key may not log in as a user.
    ///
    ///     AAAAC3NzaC1lZDI1NTE5AAAAIGOxv4QFNJ8e0o2Nq3mZzqSLb1Hn9u7dVZlDk2gkT8sV:
    ///       ssh_auth.absent:
    ///         - user: deploy
    fn absent(Absent {
        /// The key, with or without its type and comment.
        name: String,
        /// The user.
        user: String,
        /// The type of the key.
        enc: String = "ssh-rsa".into(),
        /// The comment of the key.
        comment: String = String::new(),
        /// A file with keys, instead of `name`.
        source: String = String::new(),
        /// The options of the key.
        options: Option<Vec<String>> = None,
        /// The file with the user's keys, relative to the home folder.
        config: String = CONFIG.into(),
        /// The hash type of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
    });

    /// Ensure that exactly these keys may log in as a user.
    ///
    ///     keys of deploy:
    ///       ssh_auth.manage:
    ///         - user: deploy
    ///         - ssh_keys:
    ///           - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGOxv4QFNJ8e0o2Nq3mZzqSLb1Hn9u7dVZlDk2gkT8sV alice
    fn manage(Manage {
        /// Any name.
        name: String,
        /// The keys.
        ssh_keys: Vec<String>,
        /// The user.
        user: String,
        /// The type of the keys.
        enc: String = "ssh-rsa".into(),
        /// The comment of the keys.
        comment: String = String::new(),
        /// A file with keys, instead of the keys in the list.
        source: String = String::new(),
        /// The options of the keys.
        options: Option<Vec<String>> = None,
        /// The file with the user's keys, relative to the home folder.
        config: String = CONFIG.into(),
        /// The hash type of the fingerprints.
        fingerprint_hash_type: Option<String> = None,
        ..kwargs
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let place = Place {
        user: &args.user,
        config: &args.config,
        fingerprint: args.fingerprint_hash_type.as_deref(),
    };
    let options = args.options.unwrap_or_default();
    if !args.source.is_empty() {
        return from_file(cx, &place, &args.name, &args.source, &options);
    }
    one(
        cx,
        &place,
        &Key::of_name(&args.name, &args.enc, &args.comment, &options),
    )
}

fn one(cx: &Exec, place: &Place<'_>, key: &Key) -> Result<Ret, Error> {
    let (name, user) = (&key.key, place.user);
    let status = place.check(key)?;
    if cx.test && status == "exists" {
        return Ok(Ret::ok(already(name, user)));
    }
    let what = if status == "add" { "added" } else { "updated" };
    let would = Ret::would(format!("Key {name} for user {user} is set to be {what}"));
    cx.apply(would, || Ok(report(place.set(cx, key)?, name, user, "")))
}

fn already(name: &str, user: &str) -> String {
    format!("The authorized host key {name} is already present for user {user}")
}

fn report(done: Done, name: &str, user: &str, source: &str) -> Ret {
    let key = format!("The authorized host key {name} for user {user}");
    match done {
        Done::New => Ret::ok(format!("{key} was added")).change(name, "New"),
        Done::Replaced => Ret::ok(format!("{key} was updated")).change(name, "Updated"),
        Done::Same => Ret::ok(already(name, user)),
        Done::NoKeys => Ret::failed(auth::no_keys(source)),
        Done::Failed => Ret::failed(
            "Failed to add the ssh key. Is the home directory available, and/or does the key file exist?",
        ),
        Done::Invalid => {
            Ret::failed("Invalid public ssh key, most likely has spaces or invalid syntax")
        }
    }
}

fn missing(source: &str) -> Ret {
    Ret::failed(format!(
        "Failed to add the ssh key. Source file {source} is missing"
    ))
}

fn from_file(
    cx: &Exec,
    place: &Place<'_>,
    name: &str,
    source: &str,
    options: &[String],
) -> Result<Ret, Error> {
    let Some(file) = auth::fetched(cx, source, &cx.saltenv)? else {
        return Ok(missing(source));
    };
    let keys = auth::keys_of(&file, place.fingerprint)?;
    if !cx.test {
        let would = Ret::would("");
        return cx.apply(would, || {
            let done = place.set_all(cx, &keys, options)?;
            Ok(report(done, name, place.user, source))
        });
    }
    let mut would = String::new();
    for key in &keys {
        let mut key = key.clone();
        if !options.is_empty() {
            key.options = options.to_vec();
        }
        match place.check(&key)? {
            "exists" => {}
            status => would.push_str(&format!("Set to {status}: {}\n", key.key)),
        }
    }
    Ok(match would.is_empty() {
        _ if keys.is_empty() => Ret::failed(auth::no_keys(source)),
        true => Ret::ok(format!(
            "All host keys in file {source} are already present"
        )),
        false => Ret::would(would),
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let place = Place {
        user: &args.user,
        config: &args.config,
        fingerprint: args.fingerprint_hash_type.as_deref(),
    };
    if !args.source.is_empty() {
        return absent_from_file(cx, &place, &args.name, &args.source);
    }
    let key = Key::of_name(&args.name, &args.enc, "", &[]).key;
    let is_there = place.keys()?.iter().any(|known| known.key == key);
    if cx.test && !is_there {
        return Ok(Ret::ok("Key is already absent"));
    }
    let would = format!("Key {key} for user {} is set for removal", args.user);
    cx.apply(Ret::would(would), || {
        Ok(gone(place.remove(cx, &key)?, &key))
    })
}

fn gone(said: &str, name: &str) -> Ret {
    let ret = Ret::ok(said);
    if said == "Key removed" {
        return ret.change(name, "Removed");
    }
    ret
}

fn absent_from_file(cx: &Exec, place: &Place<'_>, name: &str, source: &str) -> Result<Ret, Error> {
    let Some(file) = auth::fetched(cx, source, &cx.saltenv)? else {
        return Ok(missing(source));
    };
    let keys = auth::keys_of(&file, place.fingerprint)?;
    if keys.is_empty() {
        return Ok(Ret::failed(auth::no_keys(source)));
    }
    let known = place.keys()?;
    let there = keys
        .iter()
        .filter(|key| known.iter().any(|known| known.key == key.key));
    let would: String = there
        .map(|key| format!("Set to remove: {}\n", key.key))
        .collect();
    if would.is_empty() && cx.test {
        return Ok(Ret::ok(format!(
            "All host keys in file {source} are already absent"
        )));
    }
    cx.apply(Ret::would(would), || {
        Ok(gone(place.remove_all(cx, &keys)?, name))
    })
}

fn manage(cx: &Exec, args: Manage) -> Result<Ret, Error> {
    let place = Place {
        user: &args.user,
        config: &args.config,
        fingerprint: args.fingerprint_hash_type.as_deref(),
    };
    let mut all = Ret {
        name: Some(String::new()),
        ..Ret::ok("")
    };
    let words: Vec<&str> = args
        .ssh_keys
        .iter()
        .flat_map(|key| key.split(' '))
        .collect();
    for key in place.keys()? {
        if words.contains(&key.key.as_str()) {
            continue;
        }
        let would = Ret::would(format!("{} Key set for removal", key.key));
        let done = cx.apply(would, || Ok(gone(place.remove(cx, &key.key)?, &key.key)))?;
        match done.result {
            None => (all.result, all.comment) = (None, done.comment),
            _ => all = all.change(&key.key, done.comment),
        }
    }
    for name in &args.ssh_keys {
        let done = present(
            cx,
            Present {
                name: name.clone(),
                user: args.user.clone(),
                enc: args.enc.clone(),
                comment: args.comment.clone(),
                source: args.source.clone(),
                options: args.options.clone(),
                config: args.config.clone(),
                fingerprint_hash_type: args.fingerprint_hash_type.clone(),
                kwargs: Map::new(),
            },
        )?;
        merge(&mut all, done);
    }
    Ok(all)
}

fn merge(all: &mut Ret, done: Ret) {
    match done.changes.as_map().filter(|changes| !changes.is_empty()) {
        Some(new) => {
            if let Value::Map(changes) = &mut all.changes {
                changes.update(new.clone());
            }
        }
        None => {
            all.comment = format!("{}\n{}", all.comment, done.comment)
                .trim()
                .to_owned();
        }
    }
    if done.result != Some(true) {
        all.result = done.result;
    }
}
