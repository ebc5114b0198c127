//! The `sync_…` functions of the `saltutil` execution module.

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::custom::sync::{KINDS, Wanted, sync};

state::exec_module! {
    /// Copying custom modules.
    mod saltutil;

    /// Copy all kinds of custom modules; what changed, by kind.
    fn sync_all(SyncAll {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Compile the pillar anew when it is next needed.
        refresh: bool = true,
        /// Copy only these: a dictionary of lists by kind.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these: a dictionary of lists by kind.
        extmod_blacklist: Option<Value> = None,
        /// Accepted: no pillar is kept between runs.
        clean_pillar_cache: bool = false,
    });

    /// Copy custom cloud modules.
    fn sync_clouds(SyncClouds {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom beacons.
    fn sync_beacons(SyncBeacons {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom execution modules.
    fn sync_modules(SyncModules {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom state modules.
    fn sync_states(SyncStates {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom sdb modules.
    fn sync_sdb(SyncSdb {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom grains. They are collected anew when they are next needed.
    fn sync_grains(SyncGrains {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
        /// Accepted: no pillar is kept between runs.
        clean_pillar_cache: bool = false,
    });

    /// Copy custom renderers.
    fn sync_renderers(SyncRenderers {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom returners.
    fn sync_returners(SyncReturners {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom outputters.
    fn sync_output(SyncOutput {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom utilities.
    fn sync_utils(SyncUtils {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom log handlers.
    fn sync_log_handlers(SyncLogHandlers {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom executors.
    fn sync_executors(SyncExecutors {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom proxy modules.
    fn sync_proxymodules(SyncProxymodules {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom engines.
    fn sync_engines(SyncEngines {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom thorium modules.
    fn sync_thorium(SyncThorium {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom serializers.
    fn sync_serializers(SyncSerializers {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom matchers.
    fn sync_matchers(SyncMatchers {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom resource modules.
    fn sync_resources(SyncResources {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom master tops.
    fn sync_tops(SyncTops {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom external pillars.
    fn sync_pillar(SyncPillar {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
        /// Accepted: no pillar is kept between runs.
        clean_pillar_cache: bool = false,
    });

    /// Copy custom wrapper modules.
    fn sync_wrapper(SyncWrapper {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom outputters.
    fn sync_outputters(SyncOutputters {
        /// The environments, separated by commas; those of the top files when none is named.
        saltenv: Option<Value> = None,
        /// Read again what depends on them.
        refresh: bool = true,
        /// Copy only these.
        extmod_whitelist: Option<Value> = None,
        /// Do not copy these.
        extmod_blacklist: Option<Value> = None,
    });
}

/// What a call asks for.
fn wanted(saltenv: Option<Value>, whitelist: Option<Value>, blacklist: Option<Value>) -> Wanted {
    let given = |value: Option<Value>| value.filter(|value| !value.is_null());
    Wanted {
        saltenv: given(saltenv),
        whitelist: given(whitelist),
        blacklist: given(blacklist),
    }
}

/// For how many seconds the daemon and the master are waited for, which match on the new grains then.
const GRAINS_WAIT_S: f64 = 30.0;

fn one(cx: &Exec, kind: &str, wanted: &Wanted, refresh: bool) -> Result<Value, Error> {
    let envs = wanted.environments(cx)?;
    let copied = sync(cx, kind, &envs, wanted);
    if kind == "grains" {
        cx.refresh_grains();
        let (what, wait_s) = ("grains", Some(GRAINS_WAIT_S));
        cx.ask(Ask::Refresh { what, wait_s })?;
    }
    if refresh && matches!(kind, "grains" | "pillar") {
        cx.refresh_pillar();
    }
    Ok(Value::list(copied.into_iter().map(Value::from)))
}

fn sync_all(cx: &Exec, args: SyncAll) -> Result<Value, Error> {
    let mut wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    // The top files are read once.
    wanted.saltenv = Some(wanted.environments(cx)?.into());
    let mut all = Map::new();
    for kind in KINDS {
        all.insert(kind, one(cx, kind, &wanted, false)?);
    }
    if args.refresh {
        cx.refresh_pillar();
    }
    Ok(all.into())
}

fn sync_clouds(cx: &Exec, args: SyncClouds) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "clouds", &wanted, args.refresh)
}

fn sync_beacons(cx: &Exec, args: SyncBeacons) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "beacons", &wanted, args.refresh)
}

fn sync_modules(cx: &Exec, args: SyncModules) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "modules", &wanted, args.refresh)
}

fn sync_states(cx: &Exec, args: SyncStates) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "states", &wanted, args.refresh)
}

fn sync_sdb(cx: &Exec, args: SyncSdb) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "sdb", &wanted, false)
}

fn sync_grains(cx: &Exec, args: SyncGrains) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "grains", &wanted, args.refresh)
}

fn sync_renderers(cx: &Exec, args: SyncRenderers) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "renderers", &wanted, args.refresh)
}

fn sync_returners(cx: &Exec, args: SyncReturners) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "returners", &wanted, args.refresh)
}

fn sync_output(cx: &Exec, args: SyncOutput) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "output", &wanted, args.refresh)
}

fn sync_utils(cx: &Exec, args: SyncUtils) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "utils", &wanted, args.refresh)
}

fn sync_log_handlers(cx: &Exec, args: SyncLogHandlers) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "log_handlers", &wanted, args.refresh)
}

fn sync_executors(cx: &Exec, args: SyncExecutors) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "executors", &wanted, args.refresh)
}

fn sync_proxymodules(cx: &Exec, args: SyncProxymodules) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "proxymodules", &wanted, args.refresh)
}

fn sync_engines(cx: &Exec, args: SyncEngines) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "engines", &wanted, args.refresh)
}

fn sync_thorium(cx: &Exec, args: SyncThorium) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "thorium", &wanted, args.refresh)
}

fn sync_serializers(cx: &Exec, args: SyncSerializers) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "serializers", &wanted, args.refresh)
}

fn sync_matchers(cx: &Exec, args: SyncMatchers) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "matchers", &wanted, args.refresh)
}

fn sync_resources(cx: &Exec, args: SyncResources) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "resources", &wanted, args.refresh)
}

fn sync_tops(cx: &Exec, args: SyncTops) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "tops", &wanted, args.refresh)
}

fn sync_pillar(cx: &Exec, args: SyncPillar) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "pillar", &wanted, args.refresh)
}

fn sync_wrapper(cx: &Exec, args: SyncWrapper) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "wrapper", &wanted, args.refresh)
}

fn sync_outputters(cx: &Exec, args: SyncOutputters) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "output", &wanted, args.refresh)
}
