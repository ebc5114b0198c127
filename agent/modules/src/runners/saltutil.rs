//! The `saltutil` runner: copying custom modules of a tree.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::loader::custom::sync::{RUNNER_KINDS, Wanted, sync};

state::exec_module! {
    /// Copy custom modules of the tree.
    mod saltutil;

    /// Copy custom modules of all kinds, and return the changes by kind.
    ///
    ///     salt-run saltutil.sync_all
    fn sync_all(SyncAll {
        #[group] modules: Modules,
    });

    /// Copy custom execution modules.
    ///
    ///     salt-run saltutil.sync_modules
    fn sync_modules(SyncModules {
        #[group] modules: Modules,
    });

    /// Copy custom state modules.
    ///
    ///     salt-run saltutil.sync_states
    fn sync_states(SyncStates {
        #[group] modules: Modules,
    });

    /// Copy custom grains.
    ///
    ///     salt-run saltutil.sync_grains
    fn sync_grains(SyncGrains {
        #[group] modules: Modules,
    });

    /// Copy custom renderers.
    ///
    ///     salt-run saltutil.sync_renderers
    fn sync_renderers(SyncRenderers {
        #[group] modules: Modules,
    });

    /// Copy custom returners.
    ///
    ///     salt-run saltutil.sync_returners
    fn sync_returners(SyncReturners {
        #[group] modules: Modules,
    });

    /// Copy custom outputters.
    ///
    ///     salt-run saltutil.sync_output
    fn sync_output(SyncOutput {
        #[group] modules: Modules,
    });

    /// Copy custom proxy modules.
    ///
    ///     salt-run saltutil.sync_proxymodules
    fn sync_proxymodules(SyncProxymodules {
        #[group] modules: Modules,
    });

    /// Copy custom runners.
    ///
    ///     salt-run saltutil.sync_runners
    fn sync_runners(SyncRunners {
        #[group] modules: Modules,
    });

    /// Copy custom wheel modules.
    ///
    ///     salt-run saltutil.sync_wheel
    fn sync_wheel(SyncWheel {
        #[group] modules: Modules,
    });

    /// Copy custom engines.
    ///
    ///     salt-run saltutil.sync_engines
    fn sync_engines(SyncEngines {
        #[group] modules: Modules,
    });

    /// Copy custom thorium modules.
    ///
    ///     salt-run saltutil.sync_thorium
    fn sync_thorium(SyncThorium {
        #[group] modules: Modules,
    });

    /// Copy custom queues.
    ///
    ///     salt-run saltutil.sync_queues
    fn sync_queues(SyncQueues {
        #[group] modules: Modules,
    });

    /// Copy custom external pillars.
    ///
    ///     salt-run saltutil.sync_pillar
    fn sync_pillar(SyncPillar {
        #[group] modules: Modules,
    });

    /// Copy custom utilities.
    ///
    ///     salt-run saltutil.sync_utils
    fn sync_utils(SyncUtils {
        #[group] modules: Modules,
    });

    /// Copy custom sdb modules.
    ///
    ///     salt-run saltutil.sync_sdb
    fn sync_sdb(SyncSdb {
        #[group] modules: Modules,
    });

    /// Copy custom master tops.
    ///
    ///     salt-run saltutil.sync_tops
    fn sync_tops(SyncTops {
        #[group] modules: Modules,
    });

    /// Copy custom cache modules.
    ///
    ///     salt-run saltutil.sync_cache
    fn sync_cache(SyncCache {
        #[group] modules: Modules,
    });

    /// Copy custom file servers.
    ///
    ///     salt-run saltutil.sync_fileserver
    fn sync_fileserver(SyncFileserver {
        #[group] modules: Modules,
    });

    /// Copy custom cloud modules.
    ///
    ///     salt-run saltutil.sync_clouds
    fn sync_clouds(SyncClouds {
        #[group] modules: Modules,
    });

    /// Copy custom modules for external authentication.
    ///
    ///     salt-run saltutil.sync_auth
    fn sync_auth(SyncAuth {
        #[group] modules: Modules,
    });

    /// Copy custom rosters.
    ///
    ///     salt-run saltutil.sync_roster
    fn sync_roster(SyncRoster {
        #[group] modules: Modules,
    });

    /// Copy custom token stores.
    ///
    ///     salt-run saltutil.sync_eauth_tokens
    fn sync_eauth_tokens(SyncEauthTokens {
        #[group] modules: Modules,
    });

    /// Copy custom serializers.
    ///
    ///     salt-run saltutil.sync_serializers
    fn sync_serializers(SyncSerializers {
        #[group] modules: Modules,
    });

    /// Copy custom executors.
    ///
    ///     salt-run saltutil.sync_executors
    fn sync_executors(SyncExecutors {
        #[group] modules: Modules,
    });

    /// Copy custom wrapper modules.
    ///
    ///     salt-run saltutil.sync_wrapper
    fn sync_wrapper(SyncWrapper {
        #[group] modules: Modules,
    });
}

state::argument_group! {
    /// The modules to copy.
    pub(crate) struct Modules {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy; for all kinds, a dictionary of lists by kind.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy; for all kinds, a dictionary of lists by kind.
        extmod_blacklist: Option<Value> = None,
    }
}

impl From<Modules> for Wanted {
    fn from(modules: Modules) -> Self {
        let given = |value: Option<Value>| value.filter(|value| !value.is_null());
        let saltenv = match modules.saltenv {
            Value::Null => "base".into(),
            saltenv => saltenv,
        };
        Self {
            saltenv: Some(saltenv),
            whitelist: given(modules.extmod_whitelist),
            blacklist: given(modules.extmod_blacklist),
        }
    }
}

fn one(cx: &Exec, kind: &str, wanted: &Wanted) -> Result<Value, Error> {
    let copied = sync(cx, kind, &wanted.environments(cx)?, wanted);
    if kind == "grains" {
        cx.refresh_grains();
    }
    Ok(Value::list(copied.into_iter().map(Value::from)))
}

fn sync_all(cx: &Exec, args: SyncAll) -> Result<Value, Error> {
    let wanted = args.modules.into();
    let mut all = Map::new();
    for kind in RUNNER_KINDS {
        all.insert(kind, one(cx, kind, &wanted)?);
    }
    Ok(all.into())
}

fn sync_modules(cx: &Exec, args: SyncModules) -> Result<Value, Error> {
    one(cx, "modules", &args.modules.into())
}

fn sync_states(cx: &Exec, args: SyncStates) -> Result<Value, Error> {
    one(cx, "states", &args.modules.into())
}

fn sync_grains(cx: &Exec, args: SyncGrains) -> Result<Value, Error> {
    one(cx, "grains", &args.modules.into())
}

fn sync_renderers(cx: &Exec, args: SyncRenderers) -> Result<Value, Error> {
    one(cx, "renderers", &args.modules.into())
}

fn sync_returners(cx: &Exec, args: SyncReturners) -> Result<Value, Error> {
    one(cx, "returners", &args.modules.into())
}

fn sync_output(cx: &Exec, args: SyncOutput) -> Result<Value, Error> {
    one(cx, "output", &args.modules.into())
}

fn sync_proxymodules(cx: &Exec, args: SyncProxymodules) -> Result<Value, Error> {
    one(cx, "proxymodules", &args.modules.into())
}

fn sync_runners(cx: &Exec, args: SyncRunners) -> Result<Value, Error> {
    one(cx, "runners", &args.modules.into())
}

fn sync_wheel(cx: &Exec, args: SyncWheel) -> Result<Value, Error> {
    one(cx, "wheel", &args.modules.into())
}

fn sync_engines(cx: &Exec, args: SyncEngines) -> Result<Value, Error> {
    one(cx, "engines", &args.modules.into())
}

fn sync_thorium(cx: &Exec, args: SyncThorium) -> Result<Value, Error> {
    one(cx, "thorium", &args.modules.into())
}

fn sync_queues(cx: &Exec, args: SyncQueues) -> Result<Value, Error> {
    one(cx, "queues", &args.modules.into())
}

fn sync_pillar(cx: &Exec, args: SyncPillar) -> Result<Value, Error> {
    one(cx, "pillar", &args.modules.into())
}

fn sync_utils(cx: &Exec, args: SyncUtils) -> Result<Value, Error> {
    one(cx, "utils", &args.modules.into())
}

fn sync_sdb(cx: &Exec, args: SyncSdb) -> Result<Value, Error> {
    one(cx, "sdb", &args.modules.into())
}

fn sync_tops(cx: &Exec, args: SyncTops) -> Result<Value, Error> {
    one(cx, "tops", &args.modules.into())
}

fn sync_auth(cx: &Exec, args: SyncAuth) -> Result<Value, Error> {
    one(cx, "auth", &args.modules.into())
}

fn sync_cache(cx: &Exec, args: SyncCache) -> Result<Value, Error> {
    one(cx, "cache", &args.modules.into())
}

fn sync_fileserver(cx: &Exec, args: SyncFileserver) -> Result<Value, Error> {
    one(cx, "fileserver", &args.modules.into())
}

fn sync_clouds(cx: &Exec, args: SyncClouds) -> Result<Value, Error> {
    one(cx, "clouds", &args.modules.into())
}

fn sync_roster(cx: &Exec, args: SyncRoster) -> Result<Value, Error> {
    one(cx, "roster", &args.modules.into())
}

fn sync_eauth_tokens(cx: &Exec, args: SyncEauthTokens) -> Result<Value, Error> {
    one(cx, "tokens", &args.modules.into())
}

fn sync_serializers(cx: &Exec, args: SyncSerializers) -> Result<Value, Error> {
    one(cx, "serializers", &args.modules.into())
}

fn sync_executors(cx: &Exec, args: SyncExecutors) -> Result<Value, Error> {
    one(cx, "executors", &args.modules.into())
}

fn sync_wrapper(cx: &Exec, args: SyncWrapper) -> Result<Value, Error> {
    one(cx, "wrapper", &args.modules.into())
}
