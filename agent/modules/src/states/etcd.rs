//! The `etcd` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::etcd::Etcd;

state::state_module! {
    /// Manage keys and values of etcd.
    #[facts(free_arguments = true)]
    mod etcd;

    /// Make sure that a key has a value.
    ///
    ///     /app/port:
    ///       etcd.set:
    ///         - value: '8080'
    ///         - profile: my_etcd
    fn set(Set {
        /// The key.
        name: String,
        /// The value of the key.
        value: Value,
        /// The profile of the configuration.
        profile: Option<String> = None,
        ..kwargs
    });

    /// Set a key when a watched state changes something.
    ///
    ///     /app/reload:
    ///       etcd.wait_set:
    ///         - value: 'yes'
    ///         - profile: my_etcd
    ///         - watch:
    ///           - file: /etc/app.conf
    fn wait_set(WaitSet {
        /// The key.
        name: String,
        /// The value of the key.
        value: Value,
        /// The profile of the configuration.
        profile: Option<String> = None,
        ..kwargs
    });

    /// Make sure that a directory exists.
    ///
    ///     /app:
    ///       etcd.directory:
    ///         - profile: my_etcd
    fn directory(Directory {
        /// The directory.
        name: String,
        /// The profile of the configuration.
        profile: Option<String> = None,
        ..kwargs
    });

    /// Make sure that a key does not exist.
    ///
    ///     /app:
    ///       etcd.rm:
    ///         - recurse: True
    ///         - profile: my_etcd
    fn rm(Rm {
        /// The key.
        name: String,
        /// True to remove also everything below the key.
        recurse: bool = false,
        /// The profile of the configuration.
        profile: Option<String> = None,
        ..kwargs
    });

    /// Delete a key when a watched state changes something.
    ///
    ///     /app/cache:
    ///       etcd.wait_rm:
    ///         - profile: my_etcd
    ///         - watch:
    ///           - file: /etc/app.conf
    fn wait_rm(WaitRm {
        /// The key.
        name: String,
        /// True to remove also everything below the key.
        recurse: bool = false,
        /// The profile of the configuration.
        profile: Option<String> = None,
        ..kwargs
    });

    /// Set or delete the key because a watched state changed something.
    ///
    ///     /app/reload:
    ///       etcd.wait_set:
    ///         - value: 'yes'
    ///         - profile: my_etcd
    ///         - watch:
    ///           - file: /etc/app.conf
    fn mod_watch(ModWatch {
        /// The key.
        name: String,
        ..kwargs
    });
}

const NO_PROFILE: &str = "No profile found, using a profile is always recommended";

fn set(cx: &Exec, args: Set) -> Result<Ret, Error> {
    let (name, profile) = (&args.name, args.profile.as_deref());
    let etcd = Etcd::from_profile(cx, profile, &args.kwargs)?;
    let current = etcd.get(cx, name)?;
    if current.is_null() && profile.is_none() {
        return Ok(Ret::failed(NO_PROFILE));
    }
    let changes = || Map::new().with(name, args.value.clone());
    let ok = "Key contains correct value";
    if current.to_text() == args.value.to_text() && !current.is_null() {
        return Ok(Ret::ok(ok));
    }
    let verb = if current.is_true() {
        "Key value updated"
    } else {
        "New key created"
    };
    let would = match current.is_true() {
        true => "Key value would be updated",
        false => "New key would be created",
    };
    cx.apply(Ret::would(would).changes(changes()), || {
        let done = etcd.set(cx, name, &args.value, None)?;
        Ok(match done.is_null() {
            true => Ret::failed(format!("Unable to set {name} in etcd: see the log")),
            false => Ret::ok(verb).changes(changes()),
        })
    })
}

fn wait_set(_: &Exec, _: WaitSet) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn directory(cx: &Exec, args: Directory) -> Result<Ret, Error> {
    let (name, profile) = (&args.name, args.profile.as_deref());
    let etcd = Etcd::from_profile(cx, profile, &args.kwargs)?;
    let current = etcd.tree(cx, name)?;
    if current.is_null() && profile.is_none() {
        return Ok(Ret::failed(NO_PROFILE));
    }
    if !current.is_null() {
        return Ok(Ret::ok("Directory exists"));
    }
    let changes = Map::new().with(name, "Created");
    let would = Ret::would("New directory would be created").changes(changes.clone());
    cx.apply(would, || {
        let done = etcd.directory(cx, name, None)?;
        Ok(match done.is_true() {
            true => Ret::ok("New directory created").changes(changes),
            false => Ret::failed(format!("Unable to create {name} in etcd: see the log")),
        })
    })
}

fn rm(cx: &Exec, args: Rm) -> Result<Ret, Error> {
    let (name, profile) = (&args.name, args.profile.as_deref());
    let etcd = Etcd::from_profile(cx, profile, &args.kwargs)?;
    let current = etcd.tree(cx, name)?;
    if current.is_null() && profile.is_none() {
        return Ok(Ret::failed(NO_PROFILE));
    }
    if current.is_null() {
        return Ok(Ret::ok("Key does not exist"));
    }
    let changes = Map::new().with(name, "Deleted");
    let would = Ret::would("Key would be removed").changes(changes.clone());
    cx.apply(would, || {
        Ok(match etcd.rm(cx, name, args.recurse)?.is_true() {
            true => Ret::ok("Key removed").changes(changes),
            false => Ret::failed("Unable to remove key"),
        })
    })
}

fn wait_rm(_: &Exec, _: WaitRm) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let (name, mut kwargs) = (args.name, args.kwargs);
    let profile = kwargs.remove("profile").filter(Value::is_true);
    let profile = profile.map(|profile| profile.to_text());
    let sfun = kwargs.remove("sfun").map(|sfun| sfun.to_text());
    match sfun.as_deref().unwrap_or_default() {
        "wait_set" => {
            let value = kwargs.remove("value").unwrap_or_default();
            set(
                cx,
                Set {
                    name,
                    value,
                    profile,
                    kwargs,
                },
            )
        }
        "wait_rm" => {
            let recurse = kwargs
                .remove("recurse")
                .is_some_and(|recurse| recurse.is_true());
            rm(
                cx,
                Rm {
                    name,
                    recurse,
                    profile,
                    kwargs,
                },
            )
        }
        other => Ok(Ret::failed(format!(
            "etcd.{other} does not work with the watch requisite, please use etcd.wait_set or etcd.wait_rm"
        ))),
    }
}
