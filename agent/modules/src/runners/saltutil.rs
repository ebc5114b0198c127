//! The `saltutil` runner: copying custom modules of a tree, which the execution module of this name does on this machine.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Copying custom modules.
    mod saltutil;

    /// Copy custom modules of all kinds.
    fn sync_all(SyncAll {
        ..kwargs
    });

    /// Copy custom modules.
    fn sync_modules(SyncModules {
        ..kwargs
    });

    /// Copy custom states.
    fn sync_states(SyncStates {
        ..kwargs
    });

    /// Copy custom grains.
    fn sync_grains(SyncGrains {
        ..kwargs
    });

    /// Copy custom renderers.
    fn sync_renderers(SyncRenderers {
        ..kwargs
    });

    /// Copy custom returners.
    fn sync_returners(SyncReturners {
        ..kwargs
    });

    /// Copy custom output.
    fn sync_output(SyncOutput {
        ..kwargs
    });

    /// Copy custom utils.
    fn sync_utils(SyncUtils {
        ..kwargs
    });

    /// Copy custom pillar.
    fn sync_pillar(SyncPillar {
        ..kwargs
    });

    /// Copy custom runners.
    fn sync_runners(SyncRunners {
        ..kwargs
    });

    /// Copy custom wheel.
    fn sync_wheel(SyncWheel {
        ..kwargs
    });

    /// Copy custom engines.
    fn sync_engines(SyncEngines {
        ..kwargs
    });

    /// Copy custom tops.
    fn sync_tops(SyncTops {
        ..kwargs
    });

    /// Copy custom sdb.
    fn sync_sdb(SyncSdb {
        ..kwargs
    });

    /// Copy custom serializers.
    fn sync_serializers(SyncSerializers {
        ..kwargs
    });
}

/// Only what the execution module knows can be copied; of other kinds there is nothing.
fn synced(cx: &Exec, full: &str, kwargs: Map) -> Result<Value, Error> {
    match cx.call(full, Vec::new(), kwargs) {
        Err(Error::NotAvailable(_)) => Ok(Value::list([])),
        synced => synced,
    }
}

fn sync_all(cx: &Exec, args: SyncAll) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_all", args.kwargs)
}

fn sync_modules(cx: &Exec, args: SyncModules) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_modules", args.kwargs)
}

fn sync_states(cx: &Exec, args: SyncStates) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_states", args.kwargs)
}

fn sync_grains(cx: &Exec, args: SyncGrains) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_grains", args.kwargs)
}

fn sync_renderers(cx: &Exec, args: SyncRenderers) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_renderers", args.kwargs)
}

fn sync_returners(cx: &Exec, args: SyncReturners) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_returners", args.kwargs)
}

fn sync_output(cx: &Exec, args: SyncOutput) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_outputters", args.kwargs)
}

fn sync_utils(cx: &Exec, args: SyncUtils) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_utils", args.kwargs)
}

fn sync_pillar(cx: &Exec, args: SyncPillar) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_pillar", args.kwargs)
}

fn sync_runners(cx: &Exec, args: SyncRunners) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_runners", args.kwargs)
}

fn sync_wheel(cx: &Exec, args: SyncWheel) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_wheel", args.kwargs)
}

fn sync_engines(cx: &Exec, args: SyncEngines) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_engines", args.kwargs)
}

fn sync_tops(cx: &Exec, args: SyncTops) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_tops", args.kwargs)
}

fn sync_sdb(cx: &Exec, args: SyncSdb) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_sdb", args.kwargs)
}

fn sync_serializers(cx: &Exec, args: SyncSerializers) -> Result<Value, Error> {
    synced(cx, "saltutil.sync_serializers", args.kwargs)
}
