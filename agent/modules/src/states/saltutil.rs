//! The `saltutil` state module: copies custom modules to the minion.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Copy custom modules from the state tree to the minion.
    mod saltutil;

    /// Copy custom modules of all kinds.
    ///
    ///     sync everything:
    ///       saltutil.sync_all:
    ///         - refresh: True
    fn sync_all(SyncAll {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom beacons.
    ///
    ///     sync beacons:
    ///       saltutil.sync_beacons
    fn sync_beacons(SyncBeacons {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom cloud modules.
    ///
    ///     sync clouds:
    ///       saltutil.sync_clouds
    fn sync_clouds(SyncClouds {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom engines.
    ///
    ///     sync engines:
    ///       saltutil.sync_engines
    fn sync_engines(SyncEngines {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom grains.
    ///
    ///     sync grains:
    ///       saltutil.sync_grains
    fn sync_grains(SyncGrains {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom executors.
    ///
    ///     sync executors:
    ///       saltutil.sync_executors
    fn sync_executors(SyncExecutors {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom log handlers.
    ///
    ///     sync log handlers:
    ///       saltutil.sync_log_handlers
    fn sync_log_handlers(SyncLogHandlers {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom execution modules.
    ///
    ///     sync modules:
    ///       saltutil.sync_modules
    fn sync_modules(SyncModules {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom outputters.
    ///
    ///     sync outputters:
    ///       saltutil.sync_output
    fn sync_output(SyncOutput {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom outputters.
    ///
    ///     sync outputters:
    ///       saltutil.sync_outputters
    fn sync_outputters(SyncOutputters {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom external pillars.
    ///
    ///     sync pillar modules:
    ///       saltutil.sync_pillar
    fn sync_pillar(SyncPillar {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom proxy modules.
    ///
    ///     sync proxy modules:
    ///       saltutil.sync_proxymodules
    fn sync_proxymodules(SyncProxymodules {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom matchers.
    ///
    ///     sync matchers:
    ///       saltutil.sync_matchers
    fn sync_matchers(SyncMatchers {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom renderers.
    ///
    ///     sync renderers:
    ///       saltutil.sync_renderers
    fn sync_renderers(SyncRenderers {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom returners.
    ///
    ///     sync returners:
    ///       saltutil.sync_returners
    fn sync_returners(SyncReturners {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom sdb modules.
    ///
    ///     sync sdb modules:
    ///       saltutil.sync_sdb
    fn sync_sdb(SyncSdb {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom state modules.
    ///
    ///     sync states:
    ///       saltutil.sync_states
    fn sync_states(SyncStates {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom master tops.
    ///
    ///     sync top modules:
    ///       saltutil.sync_tops
    fn sync_tops(SyncTops {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom resource modules.
    ///
    ///     sync resources:
    ///       saltutil.sync_resources
    fn sync_resources(SyncResources {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom thorium modules.
    ///
    ///     sync thorium modules:
    ///       saltutil.sync_thorium
    fn sync_thorium(SyncThorium {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom utilities.
    ///
    ///     sync utils:
    ///       saltutil.sync_utils
    fn sync_utils(SyncUtils {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom serializers.
    ///
    ///     sync serializers:
    ///       saltutil.sync_serializers
    fn sync_serializers(SyncSerializers {
        /// Any name.
        name: String,
        ..kwargs
    });

    /// Copy custom wrapper modules.
    ///
    ///     sync wrappers:
    ///       saltutil.sync_wrapper
    fn sync_wrapper(SyncWrapper {
        /// Any name.
        name: String,
        ..kwargs
    });
}

/// Calls the execution function of this name and returns its result. `changes` extracts the copied
/// files from the function's return.
fn synced(
    cx: &Exec,
    function: &str,
    kwargs: Map,
    comment: &str,
    changes: impl Fn(Value) -> Map,
) -> Result<Ret, Error> {
    let would = Ret::would(format!("saltutil.{function} would have been run"));
    cx.apply(would, || {
        let copied = match cx.call_internal(&format!("saltutil.{function}"), Vec::new(), kwargs) {
            Ok(copied) => changes(copied),
            Err(error) => return Ok(Ret::failed(format!("Failed to run {function}: {error}"))),
        };
        let comment = if copied.is_empty() {
            "No updates to sync"
        } else {
            comment
        };
        Ok(Ret::ok(comment).changes(copied))
    })
}

fn one(cx: &Exec, kind: &str, kwargs: Map) -> Result<Ret, Error> {
    let comment = format!("Updated {kind}.");
    synced(cx, &format!("sync_{kind}"), kwargs, &comment, |copied| {
        let copied = Some(copied).filter(Value::is_true);
        copied.map_or_else(Map::new, |copied| Map::new().with(kind, copied))
    })
}

fn sync_all(cx: &Exec, args: SyncAll) -> Result<Ret, Error> {
    synced(cx, "sync_all", args.kwargs, "Sync performed", |copied| {
        let mut copied = copied.as_map().cloned().unwrap_or_default();
        copied.retain(|_, files| files.is_true());
        copied
    })
}

fn sync_beacons(cx: &Exec, args: SyncBeacons) -> Result<Ret, Error> {
    one(cx, "beacons", args.kwargs)
}

fn sync_clouds(cx: &Exec, args: SyncClouds) -> Result<Ret, Error> {
    one(cx, "clouds", args.kwargs)
}

fn sync_engines(cx: &Exec, args: SyncEngines) -> Result<Ret, Error> {
    one(cx, "engines", args.kwargs)
}

fn sync_grains(cx: &Exec, args: SyncGrains) -> Result<Ret, Error> {
    one(cx, "grains", args.kwargs)
}

fn sync_executors(cx: &Exec, args: SyncExecutors) -> Result<Ret, Error> {
    one(cx, "executors", args.kwargs)
}

fn sync_log_handlers(cx: &Exec, args: SyncLogHandlers) -> Result<Ret, Error> {
    one(cx, "log_handlers", args.kwargs)
}

fn sync_modules(cx: &Exec, args: SyncModules) -> Result<Ret, Error> {
    one(cx, "modules", args.kwargs)
}

fn sync_output(cx: &Exec, args: SyncOutput) -> Result<Ret, Error> {
    one(cx, "output", args.kwargs)
}

fn sync_outputters(cx: &Exec, args: SyncOutputters) -> Result<Ret, Error> {
    one(cx, "outputters", args.kwargs)
}

fn sync_pillar(cx: &Exec, args: SyncPillar) -> Result<Ret, Error> {
    one(cx, "pillar", args.kwargs)
}

fn sync_proxymodules(cx: &Exec, args: SyncProxymodules) -> Result<Ret, Error> {
    one(cx, "proxymodules", args.kwargs)
}

fn sync_matchers(cx: &Exec, args: SyncMatchers) -> Result<Ret, Error> {
    one(cx, "matchers", args.kwargs)
}

fn sync_renderers(cx: &Exec, args: SyncRenderers) -> Result<Ret, Error> {
    one(cx, "renderers", args.kwargs)
}

fn sync_returners(cx: &Exec, args: SyncReturners) -> Result<Ret, Error> {
    one(cx, "returners", args.kwargs)
}

fn sync_sdb(cx: &Exec, args: SyncSdb) -> Result<Ret, Error> {
    one(cx, "sdb", args.kwargs)
}

fn sync_states(cx: &Exec, args: SyncStates) -> Result<Ret, Error> {
    one(cx, "states", args.kwargs)
}

fn sync_tops(cx: &Exec, args: SyncTops) -> Result<Ret, Error> {
    one(cx, "tops", args.kwargs)
}

fn sync_resources(cx: &Exec, args: SyncResources) -> Result<Ret, Error> {
    one(cx, "resources", args.kwargs)
}

fn sync_thorium(cx: &Exec, args: SyncThorium) -> Result<Ret, Error> {
    one(cx, "thorium", args.kwargs)
}

fn sync_utils(cx: &Exec, args: SyncUtils) -> Result<Ret, Error> {
    one(cx, "utils", args.kwargs)
}

fn sync_serializers(cx: &Exec, args: SyncSerializers) -> Result<Ret, Error> {
    one(cx, "serializers", args.kwargs)
}

fn sync_wrapper(cx: &Exec, args: SyncWrapper) -> Result<Ret, Error> {
    one(cx, "wrapper", args.kwargs)
}
