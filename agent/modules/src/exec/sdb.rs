//! The `sdb` execution module: values behind `sdb://PROFILE/KEY` URIs, read from the environment,
//! YAML files, Vault, etcd, Consul, or by a custom module of `_sdb`.

use render::gpg;
use state::custom::Kind;
use state::exec::Exec;
use state::host::ExecHost;
use state::module::Error;
use value::merge::{Strategy, merge};
use value::{Map, Value, random, secret};

use super::environ;
#[cfg(feature = "stores")]
use super::etcd::Etcd;

state::exec_module! {
    /// Read and write values that are stored outside of pillar and configuration.
    mod sdb;

    /// Return the value that an SDB URI refers to. Any other text is returned unchanged.
    ///
    ///     salt-call sdb.get sdb://mysdb/password
    fn get(Get {
        /// The URI: `sdb://PROFILE/KEY`.
        uri: Value,
        /// True to fail if the value is not a valid SDB URI.
        strict: bool = false,
    });

    /// Set the value that an SDB URI refers to.
    ///
    ///     salt-call sdb.set sdb://mysdb/password S3cret
    fn set(Set {
        /// The URI: `sdb://PROFILE/KEY`.
        uri: Value,
        /// The value to store.
        value: Value,
    });

    /// Remove the value that an SDB URI refers to.
    ///
    ///     salt-call sdb.delete sdb://mysdb/password
    fn delete(Delete {
        /// The URI: `sdb://PROFILE/KEY`.
        uri: Value,
    });

    /// Return the value that an SDB URI refers to. If there is none, generate a random value and
    /// store it.
    ///
    ///     salt-call sdb.get_or_set_hash sdb://mysdb/password length=20
    fn get_or_set_hash(GetOrSetHash {
        /// The URI: `sdb://PROFILE/KEY`.
        uri: Value,
        /// The number of characters of a new value.
        length: i64 = 8,
        /// The characters of a new value.
        chars: String = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)".into(),
    });
}

/// The drivers of this build.
const DRIVERS: &[&str] = if cfg!(feature = "stores") {
    &["env", "yaml", "vault", "etcd", "consul"]
} else {
    &["env", "yaml"]
};

/// The location of a value: the driver, the profile with its settings, and the key.
struct Place {
    driver: String,
    profile: Map,
    key: String,
}

impl Place {
    /// Looks up the profile in the configuration, then in the pillar. The inner error is the reason
    /// why the URI is not valid.
    fn resolve(cx: &Exec, uri: &Value) -> Result<Result<Self, String>, Error> {
        let Some(rest) = uri.as_str().and_then(|uri| uri.strip_prefix("sdb://")) else {
            return Ok(Err("SDB uri must start with \"sdb://\"".into()));
        };
        let Some((name, key)) = rest.split_once('/').filter(|(_, key)| !key.is_empty()) else {
            return Ok(Err(
                "SDB uri must have a profile name as a first part of the uri before the /".into(),
            ));
        };
        let profile = match cx.opts().get(name).filter(|profile| profile.is_true()) {
            Some(profile) => Some(profile.clone()),
            None => cx.pillar()?.get(name).cloned(),
        };
        let profile = profile.as_ref().and_then(Value::as_map);
        let driver = profile.and_then(|profile| profile.get("driver"));
        Ok(match (profile, driver) {
            (Some(profile), Some(driver)) => Ok(Self {
                driver: driver.to_text(),
                profile: profile.clone(),
                key: key.to_owned(),
            }),
            _ => Err(format!(
                "SDB profile \"{name}\" wasnt found in the minion configuration"
            )),
        })
    }

    /// Returns the value and registers it as a secret.
    fn get(&self, cx: &Exec) -> Result<Value, Error> {
        let found = self.look_up(cx)?;
        secret::keep(&[], &found);
        Ok(found)
    }

    /// Calls a function of the custom module of `_sdb` that is this driver. Returns `None` if there
    /// is no such module.
    fn custom(&self, cx: &Exec, fun: &str, args: Vec<Value>) -> Option<Result<Value, Error>> {
        if cx.is_disabled(Kind::Sdb, &self.driver) {
            let text = format!(
                "The sdb driver '{}' is disabled by disable_sdbs",
                self.driver
            );
            return Some(Err(Error::refused(text)));
        }
        let driver = self.driver.as_str();
        if DRIVERS.contains(&driver) && !cx.shared.custom.has_file(Kind::Sdb, driver) {
            return None;
        }
        let function = format!("{driver}.{fun}");
        let profile = Map::new().with("profile", self.profile.clone());
        let custom = &cx.shared.custom;
        custom.call_client(cx, Kind::Sdb, &function, args, profile)
    }

    fn look_up(&self, cx: &Exec) -> Result<Value, Error> {
        if let Some(found) = self.custom(cx, "get", vec![self.key.as_str().into()]) {
            return found;
        }
        match self.driver.as_str() {
            "env" => Ok(environ::all(cx).get(&self.key).cloned().into()),
            "yaml" => self.in_files(cx),
            #[cfg(feature = "stores")]
            "vault" => super::vault::value_at(cx, &self.key),
            #[cfg(feature = "stores")]
            "etcd" => self.etcd(cx)?.get(cx, &self.key),
            #[cfg(feature = "stores")]
            "consul" => super::consul::value_at(cx, &self.profile, &self.key),
            _ => Err(self.unavailable()),
        }
    }

    #[cfg(feature = "stores")]
    fn etcd(&self, cx: &Exec) -> Result<Etcd, Error> {
        Etcd::of_settings(cx, &self.profile)
    }

    fn set(&self, cx: &Exec, value: &Value) -> Result<Value, Error> {
        let args = vec![self.key.as_str().into(), value.clone()];
        if let Some(done) = self.custom(cx, "set", args) {
            return done;
        }
        match self.driver.as_str() {
            "env" => {
                if let Some(known) = environ::all(cx).get(&self.key) {
                    return Ok(known.clone());
                }
                let wanted = Map::new().with(&self.key, value.to_text());
                environ::set_all(cx, &wanted, false, false);
                Ok(value.clone())
            }
            #[cfg(feature = "stores")]
            "vault" => super::vault::set_value_at(cx, &self.key, value).map(|()| true.into()),
            #[cfg(feature = "stores")]
            "etcd" => self.etcd(cx)?.set(cx, &self.key, value, None),
            #[cfg(feature = "stores")]
            "consul" => super::consul::set_value_at(cx, &self.profile, &self.key, value),
            "yaml" => Err("the sdb driver yaml cannot set values: edit its files".into()),
            _ => Err(self.unavailable()),
        }
    }

    fn delete(&self, cx: &Exec) -> Result<Value, Error> {
        if let Some(done) = self.custom(cx, "delete", vec![self.key.as_str().into()]) {
            return done;
        }
        match self.driver.as_str() {
            #[cfg(feature = "stores")]
            "etcd" => self.etcd(cx)?.rm(cx, &self.key, false),
            driver => Err(Error::refused(format!(
                "The sdb driver '{driver}' cannot delete values"
            ))),
        }
    }

    fn unavailable(&self) -> Error {
        Error::refused(format!(
            "The sdb driver '{}' is not available: use {}, or a file of _sdb that saltutil.sync_sdb has copied",
            self.driver,
            DRIVERS.join(", ")
        ))
    }

    /// Returns the value of a key in the merged files of the profile. A file that cannot be read is
    /// an error, because its keys would seem to be unset.
    fn in_files(&self, cx: &Exec) -> Result<Value, Error> {
        let mut data = Map::new();
        let files = self.profile.get("files").and_then(Value::as_list);
        let options = self.profile.get("merge");
        let option = |name| options.and_then(|options| options.get(name));
        let strategy = option("strategy").map_or_else(|| "smart".into(), Value::to_text);
        let strategy = Strategy::from_name(&strategy, "yaml").unwrap_or(Strategy::Recurse);
        let lists = option("merge_lists").is_some_and(Value::is_true);
        for file in files.unwrap_or_default() {
            let file = file.to_text();
            let text = machine::fs::text(&file)?;
            let contents = render::yaml::load(&text);
            let contents = contents
                .map_err(|error| Error::refused(format!("{file}: {}", error.salt_message())))?;
            match contents {
                Value::Map(contents) => data = merge(&data, &contents, strategy, lists),
                Value::Null => {}
                _ => return Err(Error::refused(format!("{file} is not a dictionary"))),
            }
        }
        let mut data = Value::Map(data);
        if self.profile.get("gpg").is_some_and(Value::is_true) {
            data = gpg::decrypted(&[], data, &ExecHost::in_state_tree(cx))
                .map_err(|error| Error::refused(error.message))?;
        }
        Ok(data.traverse(&self.key, ":").cloned().into())
    }
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    match Place::resolve(cx, &args.uri)? {
        Ok(place) => place.get(cx),
        Err(problem) if args.strict => Err(Error::refused(problem)),
        Err(_) => Ok(args.uri),
    }
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    match Place::resolve(cx, &args.uri)? {
        Ok(place) => place.set(cx, &args.value),
        Err(_) => Ok(false.into()),
    }
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    match Place::resolve(cx, &args.uri)? {
        Ok(place) => place.delete(cx),
        Err(_) => Ok(false.into()),
    }
}

fn get_or_set_hash(cx: &Exec, args: GetOrSetHash) -> Result<Value, Error> {
    let Ok(place) = Place::resolve(cx, &args.uri)? else {
        let is_uri = args
            .uri
            .as_str()
            .is_some_and(|uri| uri.starts_with("sdb://"));
        return Ok(if is_uri { args.uri } else { false.into() });
    };
    let known = place.get(cx)?;
    if known.is_true() {
        return Ok(known);
    }
    let chars: Vec<char> = args.chars.chars().collect();
    let mut new = String::new();
    for _ in 0..args.length {
        new.extend(chars.get(random::index(chars.len())?));
    }
    secret::keep(&[], &new.as_str().into());
    place.set(cx, &new.as_str().into())?;
    Ok(new.into())
}
