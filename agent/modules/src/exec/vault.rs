//! The `vault` execution module: secrets of HashiCorp Vault and OpenBao, with a token or an AppRole
//! from the configuration of the minion.

use std::sync::Mutex;

use machine::net::http::quoted;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, secret};

use crate::exec::json_api::{Answer, Question};

/// The value that marks that no default was given.
const UNSET: &str = "__unset__";

state::exec_module! {
    /// Read and write secrets of a Vault.
    mod vault;

    /// Return a secret, or one value of it.
    ///
    ///     salt-call vault.read_secret secret/shop
    fn read_secret(ReadSecret {
        /// The path of the secret, such as `secret/my/secret`.
        path: String,
        /// The key of the value to return; the whole secret if not given.
        key: Option<String> = None,
        /// True to include the metadata of version 2 of the secrets engine.
        metadata: bool = false,
        /// The value to return if there is no secret; without it, this is an error.
        default: Value = UNSET.into(),
    });

    /// Return the names of the secrets below a path.
    ///
    ///     salt-call vault.list_secrets secret
    fn list_secrets(ListSecrets {
        /// The path, such as `secret/my/`.
        path: String,
        /// The value to return if there are no secrets; without it, this is an error.
        default: Value = UNSET.into(),
        /// True to return a list of names.
        keys_only: bool = false,
    });

    /// Write a secret whose values are given as keywords.
    ///
    ///     salt-call vault.write_secret secret/shop user=shop password=S3cret
    fn write_secret(WriteSecret {
        /// The path of the secret.
        path: String,
        ..kwargs
    });

    /// Write a secret whose values are given as a dictionary.
    ///
    ///     salt-call vault.write_raw secret/shop '{user: shop}'
    fn write_raw(WriteRaw {
        /// The path of the secret.
        path: String,
        /// The values of the secret.
        raw: Value,
    });

    /// Change some values of a secret and keep the others. Values that are None are removed.
    ///
    ///     salt-call vault.patch_secret secret/shop password=S3cret
    fn patch_secret(PatchSecret {
        /// The path of the secret.
        path: String,
        ..kwargs
    });

    /// Delete a secret. If the engine keeps versions, delete only the given versions, by default
    /// the latest one.
    ///
    ///     salt-call vault.delete_secret secret/shop
    fn delete_secret(DeleteSecret {
        /// The path of the secret.
        path: String,
        *versions,
    });

    /// Destroy versions of a secret permanently.
    ///
    ///     salt-call vault.destroy_secret secret/shop 1
    fn destroy_secret(DestroySecret {
        /// The path of the secret.
        path: String,
        *versions,
    });

    /// Discard the token that was obtained with an AppRole.
    ///
    ///     salt-call vault.clear_token_cache
    fn clear_token_cache(ClearTokenCache {});

    /// Send any request to the Vault.
    ///
    ///     salt-call vault.query GET sys/health
    fn query(Query {
        /// The HTTP method, such as `GET` or `POST`.
        method: String,
        /// The path of the endpoint, without `/v1/`.
        endpoint: String,
        /// The data to send.
        payload: Value = Value::Null,
    });

    /// Return the text of a policy, or None if it does not exist.
    ///
    ///     salt-call vault.policy_fetch shop
    fn policy_fetch(PolicyFetch {
        /// The name of the policy.
        policy: String,
    });

    /// Write a policy.
    ///
    ///     salt-call vault.policy_write shop 'path "secret/shop" { capabilities = ["read"] }'
    fn policy_write(PolicyWrite {
        /// The name of the policy.
        policy: String,
        /// The text of the policy.
        rules: String,
    });

    /// Delete a policy.
    ///
    ///     salt-call vault.policy_delete shop
    fn policy_delete(PolicyDelete {
        /// The name of the policy.
        policy: String,
    });

    /// Return the names of all policies.
    ///
    ///     salt-call vault.policies_list
    fn policies_list(PoliciesList {});
}

/// The token that an AppRole has obtained in this run, with the address and the role it belongs to.
#[derive(Debug, Default)]
struct Token(Mutex<Option<(String, String)>>);

/// A Vault server, and the credentials for it.
struct Vault {
    url: String,
    namespace: Option<String>,
    verify: Option<Value>,
    auth: Map,
}

/// The location of a secret, according to the version of its engine.
struct Place {
    is_v2: bool,
    path: String,
    mount: String,
}

impl Vault {
    /// Returns the Vault of the configuration: `vault:server:url` and `vault:auth`, or the older
    /// `vault:url`.
    fn from_config(cx: &Exec) -> Result<Self, Error> {
        let config = cx.opts().get("vault").cloned().unwrap_or_default();
        let server = config.get("server").cloned().unwrap_or_default();
        let setting = |name: &str| {
            let found = server.get(name).or_else(|| config.get(name));
            found.filter(|value| !value.is_null()).cloned()
        };
        let url = setting("url").ok_or(
            "vault is not configured: set vault:server:url and vault:auth (token or approle) in the minion's configuration; the master does not issue tokens",
        )?;
        let auth = config.get("auth").and_then(Value::as_map).cloned();
        Ok(Self {
            url: url.to_text().trim_end_matches('/').to_owned(),
            namespace: setting("namespace").map(|name| name.to_text()),
            verify: setting("verify"),
            auth: auth.ok_or(
                "Minion has \"vault\" config section, but could not find key 'auth' within",
            )?,
        })
    }

    fn setting(&self, name: &str) -> Option<String> {
        let found = self.auth.get(name).filter(|value| value.is_true());
        found.map(Value::to_text)
    }

    fn needed(&self, name: &str) -> Result<String, Error> {
        self.setting(name).ok_or_else(|| {
            Error::refused(format!(
                "Minion has \"vault\" config section, but could not find key '{name}' within"
            ))
        })
    }

    fn send(
        &self,
        cx: &Exec,
        (method, resource): (&str, &str),
        body: Option<Value>,
        token: Option<&str>,
    ) -> Result<Answer, Error> {
        let url = format!("{}/v1/{resource}", self.url);
        let mut question = Question::new(method, &url, body);
        let mut header = |name: &str, value: &str| {
            question.headers.push((name.to_owned(), value.to_owned()));
        };
        if let Some(token) = token {
            header("X-Vault-Token", token);
        }
        if let Some(namespace) = &self.namespace {
            header("X-Vault-Namespace", namespace);
        }
        question.verify = self.verify.clone();
        question.ask(cx)
    }

    fn token(&self, cx: &Exec) -> Result<String, Error> {
        let method = self.setting("method").unwrap_or_else(|| "token".into());
        match method.as_str() {
            "token" => self.needed("token"),
            "approle" => self.of_role(cx),
            other => Err(Error::refused(format!(
                "vault:auth:method {other} is not supported: use token or approle"
            ))),
        }
    }

    /// Returns the token of the AppRole, after logging in if there is none yet.
    fn of_role(&self, cx: &Exec) -> Result<String, Error> {
        let role = self.needed("role_id")?;
        let who = format!("{} {role}", self.url);
        let known = cx
            .of_run::<Token>()
            .0
            .lock()
            .ok()
            .and_then(|token| token.clone());
        if let Some((_, token)) = known.filter(|(known, _)| *known == who) {
            return Ok(token);
        }
        let mount = self
            .setting("approle_mount")
            .unwrap_or_else(|| "approle".into());
        let mut body = Map::new().with("role_id", role);
        if let Some(id) = self.setting("secret_id") {
            secret::keep(&[], &id.as_str().into());
            body.insert("secret_id", id);
        }
        let resource = format!("auth/{mount}/login");
        let answer = self.send(cx, ("POST", &resource), Some(body.into()), None)?;
        let told = answer.accepted().map_err(|error| {
            Error::refused(format!(
                "An error occurred while getting a token from approle: {error}"
            ))
        })?;
        let token = told.traverse("auth:client_token", ":").map(Value::to_text);
        let token = token.ok_or("An error occurred while getting a token from approle")?;
        secret::keep(&[], &token.as_str().into());
        if let Ok(mut kept) = cx.of_run::<Token>().0.lock() {
            *kept = Some((who, token.clone()));
        }
        Ok(token)
    }

    /// Sends a request. If the token has lost its rights, it is renewed once.
    fn ask(&self, cx: &Exec, what: (&str, &str), body: Option<Value>) -> Result<Answer, Error> {
        let token = self.token(cx)?;
        secret::keep(&[], &token.as_str().into());
        let answer = self.send(cx, what, body.clone(), Some(&token))?;
        if answer.status != 403 || !forget(cx) {
            return Ok(answer);
        }
        self.send(cx, what, body, Some(&self.token(cx)?))
    }

    /// Returns the engine of a path and its version. If the Vault does not report them, version 1
    /// is assumed.
    fn place(&self, cx: &Exec, path: &str) -> Result<Place, Error> {
        let path = path.trim_matches('/');
        let resource = format!("sys/internal/ui/mounts/{}", escaped(path));
        let answer = self.ask(cx, ("GET", &resource), None)?;
        let told = match answer.accepted() {
            Ok(told) => told.get("data").cloned().unwrap_or_default(),
            Err(error) => {
                log::error(format_args!("Failed to get secret metadata: {error}"));
                Value::Null
            }
        };
        let version = told.traverse("options:version", ":").map(Value::to_text);
        let mount = told.get("path").map_or_else(String::new, Value::to_text);
        Ok(Place {
            is_v2: version.as_deref() == Some("2"),
            path: path.to_owned(),
            mount: mount.trim_matches('/').to_owned(),
        })
    }
}

impl Place {
    /// Returns the path for one of `data`, `metadata`, `delete` and `destroy`, if the engine has
    /// such paths.
    fn path_for(&self, kind: &str) -> String {
        let rest = self.path.strip_prefix(&self.mount).unwrap_or(&self.path);
        let rest = rest.trim_start_matches('/');
        if !self.is_v2 {
            return escaped(&self.path);
        }
        // A path that already contains the engine's prefix has the same meaning.
        let rest = ["data/", "metadata/"]
            .iter()
            .find_map(|own| rest.strip_prefix(own))
            .unwrap_or(rest);
        escaped(&format!("{}/{kind}/{rest}", self.mount))
    }
}

fn escaped(path: &str) -> String {
    path.split('/').map(quoted).collect::<Vec<_>>().join("/")
}

/// Discards the token of an AppRole and returns whether there was one.
fn forget(cx: &Exec) -> bool {
    let token = cx.of_run::<Token>();
    token.0.lock().is_ok_and(|mut token| token.take().is_some())
}

/// Returns `data` of a successful answer. The error text begins with the name of Python's
/// exception.
fn data(answer: Result<Answer, Error>) -> Result<Value, String> {
    let answer = answer.map_err(|error| format!("ConnectionError: {error}"))?;
    let told = answer
        .accepted()
        .map_err(|error| format!("HTTPError: {error}"))?;
    told.get("data")
        .cloned()
        .ok_or_else(|| "KeyError: 'data'".to_owned())
}

/// Returns the value found or, if it is missing, the default if one is given.
fn or_default(found: Result<Value, String>, default: Value, what: &str) -> Result<Value, Error> {
    match found {
        Ok(found) => Ok(found),
        Err(_) if default.as_str() != Some(UNSET) => Ok(default),
        Err(why) => Err(Error::refused(format!("{what} {why}"))),
    }
}

fn read_secret(cx: &Exec, args: ReadSecret) -> Result<Value, Error> {
    let found = found(cx, &args);
    or_default(found, args.default, "Failed to read secret!")
}

fn found(cx: &Exec, args: &ReadSecret) -> Result<Value, String> {
    let vault = Vault::from_config(cx).map_err(|error| error.to_string())?;
    let place = vault
        .place(cx, &args.path)
        .map_err(|error| error.to_string())?;
    let told = data(vault.ask(cx, ("GET", &place.path_for("data")), None))?;
    let values = match place.is_v2 {
        true => told.get("data").cloned().unwrap_or_default(),
        false => told.clone(),
    };
    secret::keep(&[], &values);
    match &args.key {
        Some(key) => values
            .get(key)
            .cloned()
            .ok_or_else(|| format!("KeyError: '{key}'")),
        None if args.metadata => Ok(told),
        None => Ok(values),
    }
}

/// Returns the values of a secret, for `sdb` and the external pillar. `None` means that there is no
/// such secret.
///
/// # Errors
/// When the Vault does not answer, or refuses the request.
pub(crate) fn secret_at(cx: &Exec, path: &str) -> Result<Option<Map>, Error> {
    let vault = Vault::from_config(cx)?;
    let place = vault.place(cx, path)?;
    let answer = vault.ask(cx, ("GET", &place.path_for("data")), None)?;
    if answer.status == 404 {
        return Ok(None);
    }
    let told = data(Ok(answer)).map_err(Error::refused)?;
    let values = match place.is_v2 {
        true => told.get("data").cloned().unwrap_or_default(),
        false => told,
    };
    Ok(values.as_map().cloned())
}

/// Returns the value at `PATH/KEY` or `PATH?KEY`, for `sdb`.
///
/// # Errors
/// When the Vault does not answer, or refuses the request.
pub(crate) fn value_at(cx: &Exec, key: &str) -> Result<Value, Error> {
    let (path, key) = split(key)?;
    let values = secret_at(cx, path)?;
    Ok(values
        .and_then(|values| values.get(key).cloned())
        .unwrap_or_default())
}

fn split(key: &str) -> Result<(&str, &str), Error> {
    let parts = key.split_once('?').or_else(|| key.rsplit_once('/'));
    parts.ok_or_else(|| {
        Error::refused(format!(
            "invalid vault key {key:?}: expected PATH/KEY or PATH?KEY"
        ))
    })
}

/// Sets one value, for `sdb`.
///
/// # Errors
/// When the Vault does not answer, or refuses the request.
pub(crate) fn set_value_at(cx: &Exec, key: &str, value: &Value) -> Result<(), Error> {
    let (path, key) = split(key)?;
    write(cx, path, &Map::new().with(key, value.clone()).into()).map(drop)
}

fn list_secrets(cx: &Exec, args: ListSecrets) -> Result<Value, Error> {
    let vault = Vault::from_config(cx)?;
    let place = vault.place(cx, &args.path)?;
    let found = data(vault.ask(cx, ("LIST", &place.path_for("metadata")), None));
    let found = found.map(|told| match args.keys_only {
        true => told.get("keys").cloned().unwrap_or_default(),
        false => told,
    });
    or_default(found, args.default, "Failed to list secrets!")
}

/// Writes a secret. Returns the Vault's answer, or true if it is empty.
fn write(cx: &Exec, path: &str, values: &Value) -> Result<Value, Error> {
    secret::keep(&[], values);
    let vault = Vault::from_config(cx)?;
    let place = vault.place(cx, path)?;
    let body = match place.is_v2 {
        true => Map::new().with("data", values.clone()).into(),
        false => values.clone(),
    };
    let told = vault
        .ask(cx, ("POST", &place.path_for("data")), Some(body))?
        .accepted()?;
    Ok(told.get("data").cloned().unwrap_or_else(|| true.into()))
}

/// Logs an error and returns false instead, as Salt does.
fn or_false(done: Result<Value, Error>, what: &str) -> Result<Value, Error> {
    done.or_else(|error| {
        log::error(format_args!("{what} {error}"));
        Ok(false.into())
    })
}

fn own(kwargs: Map) -> Map {
    let mut own = kwargs;
    own.retain(|name, _| !name.to_text().starts_with("__"));
    own
}

fn write_secret(cx: &Exec, args: WriteSecret) -> Result<Value, Error> {
    let values = own(args.kwargs).into();
    or_false(write(cx, &args.path, &values), "Failed to write secret!")
}

fn write_raw(cx: &Exec, args: WriteRaw) -> Result<Value, Error> {
    or_false(write(cx, &args.path, &args.raw), "Failed to write secret!")
}

fn patch_secret(cx: &Exec, args: PatchSecret) -> Result<Value, Error> {
    let read = ReadSecret {
        path: args.path.clone(),
        key: None,
        metadata: false,
        default: UNSET.into(),
    };
    let patched = found(cx, &read).map_err(Error::refused).and_then(|known| {
        let mut values = known.as_map().cloned().unwrap_or_default();
        values.update(own(args.kwargs));
        values.retain(|_, value| !value.is_null());
        write(cx, &args.path, &values.into())
    });
    or_false(patched, "Failed to patch secret!")
}

fn versions(args: &[Value]) -> Value {
    Map::new()
        .with("versions", Value::list(args.iter().cloned()))
        .into()
}

fn delete_secret(cx: &Exec, args: DeleteSecret) -> Result<Value, Error> {
    let deleted = || {
        let vault = Vault::from_config(cx)?;
        let place = vault.place(cx, &args.path)?;
        let answer = match args.versions.is_empty() || !place.is_v2 {
            true => vault.ask(cx, ("DELETE", &place.path_for("data")), None),
            false => vault.ask(
                cx,
                ("POST", &place.path_for("delete")),
                Some(versions(&args.versions)),
            ),
        };
        answer?.accepted().map(|_| true.into())
    };
    or_false(deleted(), "Failed to delete secret!")
}

fn destroy_secret(cx: &Exec, args: DestroySecret) -> Result<Value, Error> {
    let destroyed = || {
        let vault = Vault::from_config(cx)?;
        let place = vault.place(cx, &args.path)?;
        if !place.is_v2 {
            return Err("Destroy operation is only supported on KV version 2".into());
        }
        let answer = vault.ask(
            cx,
            ("POST", &place.path_for("destroy")),
            Some(versions(&args.versions)),
        );
        answer?.accepted().map(|_| true.into())
    };
    or_false(destroyed(), "Failed to destroy secret!")
}

fn clear_token_cache(cx: &Exec, _: ClearTokenCache) -> Result<Value, Error> {
    Ok(forget(cx).into())
}

fn query(cx: &Exec, args: Query) -> Result<Value, Error> {
    let body = Some(args.payload).filter(|payload| !payload.is_null());
    let endpoint = args.endpoint.trim_start_matches('/');
    let answer = Vault::from_config(cx)?.ask(cx, (&args.method.to_uppercase(), endpoint), body)?;
    let told = answer.accepted()?;
    if let Some(data) = told.get("data") {
        secret::keep(&[], data);
    }
    Ok(match told {
        Value::Null => true.into(),
        told => told,
    })
}

fn policy(name: &str) -> String {
    format!("sys/policy/{}", quoted(name))
}

fn policy_fetch(cx: &Exec, args: PolicyFetch) -> Result<Value, Error> {
    let answer = Vault::from_config(cx)?.ask(cx, ("GET", &policy(&args.policy)), None)?;
    if answer.status == 404 {
        return Ok(Value::Null);
    }
    let told = answer.accepted()?;
    let rules = told
        .get("rules")
        .or_else(|| told.traverse("data:rules", ":"));
    Ok(rules.cloned().unwrap_or_default())
}

fn policy_write(cx: &Exec, args: PolicyWrite) -> Result<Value, Error> {
    let body = Map::new().with("policy", args.rules);
    let answer =
        Vault::from_config(cx)?.ask(cx, ("POST", &policy(&args.policy)), Some(body.into()))?;
    answer.accepted().map(|_| true.into())
}

fn policy_delete(cx: &Exec, args: PolicyDelete) -> Result<Value, Error> {
    let answer = Vault::from_config(cx)?.ask(cx, ("DELETE", &policy(&args.policy)), None)?;
    match answer.status {
        404 => Ok(false.into()),
        _ => answer.accepted().map(|_| true.into()),
    }
}

fn policies_list(cx: &Exec, _: PoliciesList) -> Result<Value, Error> {
    let told = Vault::from_config(cx)?
        .ask(cx, ("GET", "sys/policy"), None)?
        .accepted()?;
    Ok(told.get("policies").cloned().unwrap_or_default())
}
