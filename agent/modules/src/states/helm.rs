//! The `helm` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Manage charts and releases of Kubernetes with the program helm.
    #[needs("helm", "the program helm is not in the path", "")]
    mod helm;

    /// Make sure that repositories exist or do not exist.
    ///
    ///     charts:
    ///       helm.repo_managed:
    ///         - present:
    ///           - name: stable
    ///             url: https://charts.example.com
    fn repo_managed(RepoManaged {
        /// Any name.
        name: String,
        /// The repositories that must exist: a list of dictionaries with `name` and `url`.
        present: Value = Value::Null,
        /// The names of the repositories that must not exist.
        absent: Value = Value::Null,
        /// True to remove all other repositories.
        prune: bool = false,
        /// True to update the repositories if some have changed.
        repo_update: bool = false,
        /// The namespace.
        namespace: Value = Value::Null,
        /// Options of helm without a value.
        flags: Value = Value::Null,
        /// Options of helm with values.
        kvflags: Value = Value::Null,
    });

    /// Update the information about the repositories' charts.
    ///
    ///     update charts:
    ///       helm.repo_updated
    fn repo_updated(RepoUpdated {
        /// Any name.
        name: String,
        /// The namespace.
        namespace: Value = Value::Null,
        /// Options of helm without a value.
        flags: Value = Value::Null,
        /// Options of helm with values.
        kvflags: Value = Value::Null,
    });

    /// Make sure that a release is installed in the given version and with the given values.
    ///
    ///     shop:
    ///       helm.release_present:
    ///         - chart: stable/shop
    ///         - namespace: web
    fn release_present(ReleasePresent {
        /// The name of the release.
        name: String,
        /// The chart.
        chart: String,
        /// A file of values.
        values: Value = Value::Null,
        /// The version of the chart.
        version: Value = Value::Null,
        /// The namespace.
        namespace: Value = Value::Null,
        /// Values, each in the form `NAME=VALUE`.
        set: Value = Value::Null,
        /// Options of helm without a value.
        flags: Value = Value::Null,
        /// Options of helm with values.
        kvflags: Value = Value::Null,
    });

    /// Make sure that a release does not exist.
    ///
    ///     shop:
    ///       helm.release_absent:
    ///         - namespace: web
    fn release_absent(ReleaseAbsent {
        /// The name of the release.
        name: String,
        /// The namespace.
        namespace: Value = Value::Null,
        /// Options of helm without a value.
        flags: Value = Value::Null,
        /// Options of helm with values.
        kvflags: Value = Value::Null,
    });
}

fn call(cx: &Exec, function: &str, kwargs: Map) -> Result<Value, Error> {
    cx.call_internal(&format!("helm.{function}"), Vec::new(), kwargs)
}

fn options(namespace: Value, flags: Value, kvflags: Value) -> Map {
    Map::new()
        .with("namespace", namespace)
        .with("flags", flags)
        .with("kvflags", kvflags)
}

fn is_done(told: &Value) -> bool {
    matches!(told, Value::Bool(true))
}

fn repo_managed(cx: &Exec, args: RepoManaged) -> Result<Ret, Error> {
    let would = Ret::would("Helm repo would have been managed.");
    cx.apply(would, || {
        let options = options(args.namespace, args.flags, args.kvflags);
        let kwargs = options
            .clone()
            .with("present", args.present)
            .with("absent", args.absent)
            .with("prune", args.prune);
        let told = match call(cx, "repo_manage", kwargs) {
            Ok(told) => told,
            Err(why) => {
                return Ok(Ret::failed(format!(
                    "Failed to add some repositories: {why}."
                )));
            }
        };
        let has = |key: &str| told.get(key).is_some_and(Value::is_true);
        if has("failed") {
            return Ok(Ret::failed("Failed to add or remove some repositories.").changes(told));
        }
        if !has("added") && !has("removed") {
            return Ok(Ret::ok("Helm repo is managed."));
        }
        let ret = Ret::ok("Repositories were added or removed.").changes(told);
        if !args.repo_update {
            return Ok(ret);
        }
        Ok(ret.change("repo_update", call(cx, "repo_update", options)?))
    })
}

fn repo_updated(cx: &Exec, args: RepoUpdated) -> Result<Ret, Error> {
    let would = Ret::would("Helm repo would have been updated.");
    cx.apply(would, || {
        let options = options(args.namespace, args.flags, args.kvflags);
        Ok(match call(cx, "repo_update", options) {
            Ok(told) if is_done(&told) => Ret::ok("Helm repo is updated."),
            // Salt's state returns the text as `changes`, which must be a dictionary.
            Ok(told) => Ret::failed("Failed to sync some repositories.").change("error", told),
            Err(why) => Ret::failed(format!("Failed to update some repositories: {why}.")),
        })
    })
}

fn release_present(cx: &Exec, args: ReleasePresent) -> Result<Ret, Error> {
    let would = Ret::would("Helm release would have been installed or updated.");
    cx.apply(would, || {
        let status = || {
            let kwargs = Map::new()
                .with("release", args.name.as_str())
                .with("namespace", args.namespace.clone());
            call(cx, "status", kwargs)
        };
        let function = match status()? {
            Value::Map(_) => "upgrade",
            _ => "install",
        };
        let kwargs = options(args.namespace.clone(), args.flags, args.kvflags)
            .with("release", args.name.as_str())
            .with("chart", args.chart)
            .with("values", args.values)
            .with("version", args.version)
            .with("set", args.set);
        let done = call(cx, function, kwargs)?;
        if !is_done(&done) {
            return Ok(Ret::failed(done.to_text()));
        }
        Ok(match status()? {
            Value::Map(mut told) => {
                told.remove("manifest");
                Ret::ok(format!("Helm release {} is present", args.name)).changes(told)
            }
            told => Ret::failed(told.to_text()),
        })
    })
}

fn release_absent(cx: &Exec, args: ReleaseAbsent) -> Result<Ret, Error> {
    let would = Ret::would("Helm release would have been uninstalled.");
    cx.apply(would, || {
        let release = Map::new().with("release", args.name.as_str());
        let status = release.clone().with("namespace", args.namespace.clone());
        let absent = Ret::ok(format!("Helm release {} is absent.", args.name));
        if call(cx, "status", status)?.as_map().is_none() {
            return Ok(absent);
        }
        let mut kwargs = options(args.namespace, args.flags, args.kvflags);
        kwargs.update(release);
        let done = call(cx, "uninstall", kwargs)?;
        Ok(match is_done(&done) {
            true => absent.change("absent", args.name),
            false => Ret::failed(done.to_text()),
        })
    })
}
