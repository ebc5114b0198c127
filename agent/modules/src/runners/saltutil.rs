//! The `saltutil` runner: copying custom modules of a tree.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::loader::custom::sync::{RUNNER_KINDS, Wanted, sync};

state::exec_module! {
    /// Copy custom modules of the tree.
    mod saltutil;

    /// Copy custom modules of all kinds, and return the changes by kind.
    fn sync_all(SyncAll {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy: a dictionary of lists by kind.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy: a dictionary of lists by kind.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom execution modules.
    fn sync_modules(SyncModules {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom state modules.
    fn sync_states(SyncStates {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom grains.
    fn sync_grains(SyncGrains {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom renderers.
    fn sync_renderers(SyncRenderers {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom returners.
    fn sync_returners(SyncReturners {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom outputters.
    fn sync_output(SyncOutput {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom proxy modules.
    fn sync_proxymodules(SyncProxymodules {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom runners.
    fn sync_runners(SyncRunners {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom wheel modules.
    fn sync_wheel(SyncWheel {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom engines.
    fn sync_engines(SyncEngines {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom thorium modules.
    fn sync_thorium(SyncThorium {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom queues.
    fn sync_queues(SyncQueues {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom external pillars.
    fn sync_pillar(SyncPillar {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom utilities.
    fn sync_utils(SyncUtils {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom sdb modules.
    fn sync_sdb(SyncSdb {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom master tops.
    fn sync_tops(SyncTops {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom cache modules.
    fn sync_cache(SyncCache {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom file servers.
    fn sync_fileserver(SyncFileserver {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom cloud modules.
    fn sync_clouds(SyncClouds {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom rosters.
    fn sync_roster(SyncRoster {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom token stores.
    fn sync_eauth_tokens(SyncEauthTokens {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom serializers.
    fn sync_serializers(SyncSerializers {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom executors.
    fn sync_executors(SyncExecutors {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });

    /// Copy custom wrapper modules.
    fn sync_wrapper(SyncWrapper {
        /// The environments, separated by commas.
        saltenv: Value = "base".into(),
        /// The only modules to copy.
        extmod_whitelist: Option<Value> = None,
        /// The modules not to copy.
        extmod_blacklist: Option<Value> = None,
    });
}

fn wanted(saltenv: Value, whitelist: Option<Value>, blacklist: Option<Value>) -> Wanted {
    let given = |value: Option<Value>| value.filter(|value| !value.is_null());
    Wanted {
        saltenv: Some(if saltenv.is_null() {
            "base".into()
        } else {
            saltenv
        }),
        whitelist: given(whitelist),
        blacklist: given(blacklist),
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
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    let mut all = Map::new();
    for kind in RUNNER_KINDS {
        all.insert(kind, one(cx, kind, &wanted)?);
    }
    Ok(all.into())
}

fn sync_modules(cx: &Exec, args: SyncModules) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "modules", &wanted)
}

fn sync_states(cx: &Exec, args: SyncStates) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "states", &wanted)
}

fn sync_grains(cx: &Exec, args: SyncGrains) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "grains", &wanted)
}

fn sync_renderers(cx: &Exec, args: SyncRenderers) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "renderers", &wanted)
}

fn sync_returners(cx: &Exec, args: SyncReturners) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "returners", &wanted)
}

fn sync_output(cx: &Exec, args: SyncOutput) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "output", &wanted)
}

fn sync_proxymodules(cx: &Exec, args: SyncProxymodules) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "proxymodules", &wanted)
}

fn sync_runners(cx: &Exec, args: SyncRunners) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "runners", &wanted)
}

fn sync_wheel(cx: &Exec, args: SyncWheel) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "wheel", &wanted)
}

fn sync_engines(cx: &Exec, args: SyncEngines) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "engines", &wanted)
}

fn sync_thorium(cx: &Exec, args: SyncThorium) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "thorium", &wanted)
}

fn sync_queues(cx: &Exec, args: SyncQueues) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "queues", &wanted)
}

fn sync_pillar(cx: &Exec, args: SyncPillar) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "pillar", &wanted)
}

fn sync_utils(cx: &Exec, args: SyncUtils) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "utils", &wanted)
}

fn sync_sdb(cx: &Exec, args: SyncSdb) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "sdb", &wanted)
}

fn sync_tops(cx: &Exec, args: SyncTops) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "tops", &wanted)
}

fn sync_cache(cx: &Exec, args: SyncCache) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "cache", &wanted)
}

fn sync_fileserver(cx: &Exec, args: SyncFileserver) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "fileserver", &wanted)
}

fn sync_clouds(cx: &Exec, args: SyncClouds) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "clouds", &wanted)
}

fn sync_roster(cx: &Exec, args: SyncRoster) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "roster", &wanted)
}

fn sync_eauth_tokens(cx: &Exec, args: SyncEauthTokens) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "tokens", &wanted)
}

fn sync_serializers(cx: &Exec, args: SyncSerializers) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "serializers", &wanted)
}

fn sync_executors(cx: &Exec, args: SyncExecutors) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "executors", &wanted)
}

fn sync_wrapper(cx: &Exec, args: SyncWrapper) -> Result<Value, Error> {
    let wanted = wanted(args.saltenv, args.extmod_whitelist, args.extmod_blacklist);
    one(cx, "wrapper", &wanted)
}
