//! The `sync_…` functions of the `saltutil` execution module.

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::loader::custom::sync::{KINDS, Wanted, sync};

state::exec_module! {
    /// Sync custom modules from the file server.
    mod saltutil;

    /// Sync all kinds of custom modules and return what changed, for each kind.
    ///
    ///     salt-call saltutil.sync_all
    fn sync_all(SyncAll {
        /// The environments, separated by commas; the environments of the top files if not given.
        saltenv: Option<Value> = None,
        /// True to compile the pillar again when it is next needed.
        refresh: bool = true,
        /// The only modules to sync: a dictionary with a list for each kind.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to sync: a dictionary with a list for each kind.
        extmod_blacklist: Option<Value> = None,
        /// Accepted and ignored: no pillar is kept between runs.
        clean_pillar_cache: bool = false,
    });

    /// Sync custom cloud modules.
    ///
    ///     salt-call saltutil.sync_clouds
    fn sync_clouds(SyncClouds {
        #[group] modules: Modules,
    });

    /// Sync custom beacons.
    ///
    ///     salt-call saltutil.sync_beacons
    fn sync_beacons(SyncBeacons {
        #[group] modules: Modules,
    });

    /// Sync custom execution modules.
    ///
    ///     salt-call saltutil.sync_modules
    fn sync_modules(SyncModules {
        #[group] modules: Modules,
    });

    /// Sync custom state modules.
    ///
    ///     salt-call saltutil.sync_states
    fn sync_states(SyncStates {
        #[group] modules: Modules,
    });

    /// Sync custom sdb modules.
    ///
    ///     salt-call saltutil.sync_sdb
    fn sync_sdb(SyncSdb {
        /// The environments, separated by commas; the environments of the top files if not given.
        saltenv: Option<Value> = None,
        /// The only modules to sync.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to sync.
        extmod_blacklist: Option<Value> = None,
    });

    /// Sync custom grains. The grains are collected again when they are next needed.
    ///
    ///     salt-call saltutil.sync_grains
    fn sync_grains(SyncGrains {
        #[group] modules: Modules,
        /// Accepted and ignored: no pillar is kept between runs.
        clean_pillar_cache: bool = false,
    });

    /// Sync custom renderers.
    ///
    ///     salt-call saltutil.sync_renderers
    fn sync_renderers(SyncRenderers {
        #[group] modules: Modules,
    });

    /// Sync custom returners.
    ///
    ///     salt-call saltutil.sync_returners
    fn sync_returners(SyncReturners {
        #[group] modules: Modules,
    });

    /// Sync custom outputters.
    ///
    ///     salt-call saltutil.sync_output
    fn sync_output(SyncOutput {
        #[group] modules: Modules,
    });

    /// Sync custom utilities.
    ///
    ///     salt-call saltutil.sync_utils
    fn sync_utils(SyncUtils {
        #[group] modules: Modules,
    });

    /// Sync custom log handlers.
    ///
    ///     salt-call saltutil.sync_log_handlers
    fn sync_log_handlers(SyncLogHandlers {
        #[group] modules: Modules,
    });

    /// Sync custom executors.
    ///
    ///     salt-call saltutil.sync_executors
    fn sync_executors(SyncExecutors {
        #[group] modules: Modules,
    });

    /// Sync custom proxy modules.
    ///
    ///     salt-call saltutil.sync_proxymodules
    fn sync_proxymodules(SyncProxymodules {
        #[group] modules: Later,
    });

    /// Sync custom engines.
    ///
    ///     salt-call saltutil.sync_engines
    fn sync_engines(SyncEngines {
        #[group] modules: Later,
    });

    /// Sync custom thorium modules.
    ///
    ///     salt-call saltutil.sync_thorium
    fn sync_thorium(SyncThorium {
        #[group] modules: Later,
    });

    /// Sync custom serializers.
    ///
    ///     salt-call saltutil.sync_serializers
    fn sync_serializers(SyncSerializers {
        #[group] modules: Modules,
    });

    /// Sync custom matchers.
    ///
    ///     salt-call saltutil.sync_matchers
    fn sync_matchers(SyncMatchers {
        #[group] modules: Later,
    });

    /// Sync custom resource modules.
    ///
    ///     salt-call saltutil.sync_resources
    fn sync_resources(SyncResources {
        #[group] modules: Modules,
    });

    /// Sync custom master tops.
    ///
    ///     salt-call saltutil.sync_tops
    fn sync_tops(SyncTops {
        #[group] modules: Modules,
    });

    /// Sync custom external pillars.
    ///
    ///     salt-call saltutil.sync_pillar
    fn sync_pillar(SyncPillar {
        #[group] modules: Modules,
        /// Accepted and ignored: no pillar is kept between runs.
        clean_pillar_cache: bool = false,
    });

    /// Sync custom wrapper modules.
    ///
    ///     salt-call saltutil.sync_wrapper
    fn sync_wrapper(SyncWrapper {
        #[group] modules: Modules,
    });

    /// Sync custom outputters.
    ///
    ///     salt-call saltutil.sync_outputters
    fn sync_outputters(SyncOutputters {
        #[group] modules: Modules,
    });
}

state::argument_group! {
    /// The modules to sync.
    pub(crate) struct Modules {
        /// The environments, separated by commas; the environments of the top files if not given.
        saltenv: Option<Value> = None,
        /// True to refresh the data that depends on the modules.
        refresh: bool = true,
        /// The only modules to sync.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to sync.
        extmod_blacklist: Option<Value> = None,
    }
}

state::argument_group! {
    /// The modules to sync, of a kind whose data is refreshed later.
    pub(crate) struct Later {
        /// The environments, separated by commas; the environments of the top files if not given.
        saltenv: Option<Value> = None,
        /// True to refresh the data that depends on the modules.
        refresh: bool = false,
        /// The only modules to sync.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to sync.
        extmod_blacklist: Option<Value> = None,
    }
}

impl Modules {
    /// Copies the modules of one kind, and returns those that changed.
    fn sync(self, cx: &Exec, kind: &str) -> Result<Value, Error> {
        let refresh = self.refresh;
        one(cx, kind, &self.wanted(), refresh)
    }

    fn wanted(self) -> Wanted {
        wanted(self.saltenv, self.extmod_whitelist, self.extmod_blacklist)
    }
}

impl Later {
    /// Copies the modules of one kind, and returns those that changed.
    fn sync(self, cx: &Exec, kind: &str) -> Result<Value, Error> {
        let wanted = wanted(self.saltenv, self.extmod_whitelist, self.extmod_blacklist);
        one(cx, kind, &wanted, self.refresh)
    }
}

/// Returns the request that the arguments of a call describe.
fn wanted(saltenv: Option<Value>, whitelist: Option<Value>, blacklist: Option<Value>) -> Wanted {
    let given = |value: Option<Value>| value.filter(|value| !value.is_null());
    Wanted {
        saltenv: given(saltenv),
        whitelist: given(whitelist),
        blacklist: given(blacklist),
    }
}

/// The maximum time in seconds to wait until the daemon and the master have the new grains, because
/// they match targets on them.
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

/// The kinds that only the master of a minion uses, or a machine without a master.
const OF_MASTER: [&str; 3] = ["pillar", "tops", "wrapper"];

fn sync_all(cx: &Exec, args: SyncAll) -> Result<Value, Error> {
    let mut wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    // The environments are computed once, because this reads the top files.
    wanted.saltenv = Some(wanted.environments(cx)?.into());
    let mut all = Map::new();
    let is_local = cx.opts().text("file_client") == Some("local");
    for kind in KINDS {
        if is_local || !OF_MASTER.contains(&kind) {
            all.insert(kind, one(cx, kind, &wanted, false)?);
        }
    }
    if args.refresh {
        cx.refresh_pillar();
    }
    Ok(all.into())
}

fn sync_clouds(cx: &Exec, args: SyncClouds) -> Result<Value, Error> {
    args.modules.sync(cx, "clouds")
}

fn sync_beacons(cx: &Exec, args: SyncBeacons) -> Result<Value, Error> {
    args.modules.sync(cx, "beacons")
}

fn sync_modules(cx: &Exec, args: SyncModules) -> Result<Value, Error> {
    args.modules.sync(cx, "modules")
}

fn sync_states(cx: &Exec, args: SyncStates) -> Result<Value, Error> {
    args.modules.sync(cx, "states")
}

fn sync_sdb(cx: &Exec, args: SyncSdb) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "sdb", &wanted, false)
}

fn sync_grains(cx: &Exec, args: SyncGrains) -> Result<Value, Error> {
    args.modules.sync(cx, "grains")
}

fn sync_renderers(cx: &Exec, args: SyncRenderers) -> Result<Value, Error> {
    args.modules.sync(cx, "renderers")
}

fn sync_returners(cx: &Exec, args: SyncReturners) -> Result<Value, Error> {
    args.modules.sync(cx, "returners")
}

fn sync_output(cx: &Exec, args: SyncOutput) -> Result<Value, Error> {
    args.modules.sync(cx, "output")
}

fn sync_utils(cx: &Exec, args: SyncUtils) -> Result<Value, Error> {
    args.modules.sync(cx, "utils")
}

fn sync_log_handlers(cx: &Exec, args: SyncLogHandlers) -> Result<Value, Error> {
    args.modules.sync(cx, "log_handlers")
}

fn sync_executors(cx: &Exec, args: SyncExecutors) -> Result<Value, Error> {
    args.modules.sync(cx, "executors")
}

fn sync_proxymodules(cx: &Exec, args: SyncProxymodules) -> Result<Value, Error> {
    args.modules.sync(cx, "proxymodules")
}

fn sync_engines(cx: &Exec, args: SyncEngines) -> Result<Value, Error> {
    args.modules.sync(cx, "engines")
}

fn sync_thorium(cx: &Exec, args: SyncThorium) -> Result<Value, Error> {
    args.modules.sync(cx, "thorium")
}

fn sync_serializers(cx: &Exec, args: SyncSerializers) -> Result<Value, Error> {
    args.modules.sync(cx, "serializers")
}

fn sync_matchers(cx: &Exec, args: SyncMatchers) -> Result<Value, Error> {
    args.modules.sync(cx, "matchers")
}

fn sync_resources(cx: &Exec, args: SyncResources) -> Result<Value, Error> {
    args.modules.sync(cx, "resources")
}

fn sync_tops(cx: &Exec, args: SyncTops) -> Result<Value, Error> {
    args.modules.sync(cx, "tops")
}

fn sync_pillar(cx: &Exec, args: SyncPillar) -> Result<Value, Error> {
    args.modules.sync(cx, "pillar")
}

fn sync_wrapper(cx: &Exec, args: SyncWrapper) -> Result<Value, Error> {
    args.modules.sync(cx, "wrapper")
}

fn sync_outputters(cx: &Exec, args: SyncOutputters) -> Result<Value, Error> {
    args.modules.sync(cx, "output")
}
