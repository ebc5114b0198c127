//! The `saltutil` execution module: the functions that a machine without a master has a use for.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use state::targets::MinionReturn;
use value::{Map, Value, log};

use crate::{fs, orchestrate};

state::exec_module! {
    /// Reading things again, copying custom modules, and calling runners.
    mod saltutil;

    /// Compile the pillar anew when it is next needed.
    fn refresh_pillar(RefreshPillar {
        /// Accepted: it is done when this returns.
        wait: bool = false,
        /// Accepted.
        timeout: i64 = 30,
        /// Accepted: no pillar is kept between runs.
        clean_cache: bool = true,
    });

    /// Collect the grains anew when they are next needed.
    fn refresh_grains(RefreshGrains {
        ..kwargs
    });

    /// Read the custom modules anew when they are next needed.
    fn refresh_modules(RefreshModules {
        ..kwargs
    });

    /// Return True: what a machine without a master has no use for is as fresh as it can be.
    fn refresh_matchers(RefreshMatchers {
        /// Accepted.
        wait: bool = false,
        /// Accepted.
        timeout: i64 = 30,
        ..kwargs
    });

    /// Return the custom modules that are synced, by kind.
    fn list_extmods(ListExtmods {});

    /// Remove what is cached; the records of runs stay.
    fn clear_cache(ClearCache {});

    /// Call a runner on this machine.
    fn runner(Runner {
        /// Which.
        name: String,
        /// Its positional arguments.
        arg: Vec<Value> = Vec::new(),
        /// Its named arguments.
        kwarg: Map = Map::new(),
        /// Whether its return code goes along.
        full_return: bool = false,
        /// The environment that it works in.
        saltenv: String = "base".into(),
        /// Accepted.
        jid: Value = Value::Null,
        ..kwargs
    });

    /// Call an execution function on what a target names, and return what each minion returned.
    fn cmd(Cmd {
        /// Which minions.
        tgt: Value,
        /// The function.
        fun: String,
        /// Its positional arguments.
        arg: Vec<Value> = Vec::new(),
        /// Accepted.
        timeout: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// Accepted.
        ret: Value = "".into(),
        /// Its named arguments.
        kwarg: Option<Map> = None,
        /// Accepted.
        ssh: bool = false,
        ..kwargs
    });

    /// The same as a list with an entry for each minion.
    fn cmd_iter(CmdIter {
        /// Which minions.
        tgt: Value,
        /// The function.
        fun: String,
        /// Its positional arguments.
        arg: Vec<Value> = Vec::new(),
        /// Accepted.
        timeout: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// Accepted.
        ret: Value = "".into(),
        /// Its named arguments.
        kwarg: Option<Map> = None,
        /// Accepted.
        ssh: bool = false,
        ..kwargs
    });

    /// Call a wheel function on this machine.
    fn wheel(Wheel {
        /// Which.
        name: String,
        *rest,
        ..kwargs
    });
}

fn refresh_pillar(cx: &Exec, _args: RefreshPillar) -> Result<Value, Error> {
    cx.refresh_pillar();
    Ok(true.into())
}

fn refresh_grains(cx: &Exec, args: RefreshGrains) -> Result<Value, Error> {
    cx.refresh_grains();
    if args.kwargs.get("refresh_pillar").is_none_or(Value::is_true) {
        cx.refresh_pillar();
    }
    Ok(true.into())
}

fn refresh_modules(cx: &Exec, _args: RefreshModules) -> Result<Value, Error> {
    cx.shared.custom.refresh();
    Ok(true.into())
}

fn refresh_matchers(_cx: &Exec, _args: RefreshMatchers) -> Result<Value, Error> {
    Ok(true.into())
}

fn list_extmods(cx: &Exec, _args: ListExtmods) -> Result<Value, Error> {
    let folder = cx.opts().path("extension_modules");
    let kinds = std::fs::read_dir(&folder).map_err(Error::io(&folder))?;
    let kinds = kinds.filter_map(Result::ok).map(|kind| {
        let mut names = Vec::new();
        walk(&kind.path(), &mut |file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            names.push(name.split('.').next().unwrap_or_default().to_owned());
            Ok(())
        })?;
        names.sort();
        names.dedup();
        let kind = kind.file_name().to_string_lossy().into_owned();
        Ok((kind, Value::from(names)))
    });
    kinds.collect::<Result<Map, Error>>().map(Value::from)
}

fn clear_cache(cx: &Exec, _args: ClearCache) -> Result<Value, Error> {
    let records = state::record::folder(cx.opts());
    let cleared = walk(&cx.opts().cachedir(), &mut |file| {
        if file.starts_with(&records) {
            return Ok(());
        }
        fs::remove(cx, file).map_err(Error::io(file))
    });
    cx.shared.custom.refresh();
    if let Err(error) = &cleared {
        log::error(format_args!(
            "Attempt to clear cache with saltutil.clear_cache FAILED with: {error}"
        ));
    }
    Ok(cleared.is_ok().into())
}

/// Does something for each file below a folder; links are not followed.
fn walk(folder: &Path, each: &mut dyn FnMut(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            walk(&path, each)?;
        } else {
            each(&path)?;
        }
    }
    Ok(())
}

/// What Salt adds to a call goes no further.
fn own(mut kwargs: Map) -> Map {
    kwargs.retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with("__")));
    kwargs
}

fn runner(cx: &Exec, args: Runner) -> Result<Value, Error> {
    let mut kwargs = args.kwarg;
    kwargs.update(own(args.kwargs));
    let mut cx = cx.apart();
    cx.saltenv = args.saltenv;
    let called = orchestrate::runner(&cx, &args.name, args.arg, kwargs);
    match called {
        called if args.full_return => Ok(called.data.into()),
        called if called.raised => Err(Error::refused(called.ret.to_text())),
        called => Ok(called.ret),
    }
}

fn wheel(cx: &Exec, args: Wheel) -> Result<Value, Error> {
    let called = orchestrate::wheel(cx, &args.name, args.rest, own(args.kwargs));
    Ok(called.data.into())
}

/// What each minion returned: here that is this one, where the target names it.
fn returns(cx: &Exec, args: Cmd) -> Result<Vec<(String, Value)>, Error> {
    let ids = orchestrate::targeted(cx, &args.tgt, &args.tgt_type, "function")?;
    let kwarg = args.kwarg.unwrap_or_default();
    let is_run = args.fun.starts_with("state.");
    let targets = &cx.shared.targets;
    let returns = targets.run(cx, &ids, &args.fun, args.arg, kwarg)?;
    let shown = |minion: MinionReturn| {
        let mut data = Map::new()
            .with("ret", minion.ret)
            .with("retcode", minion.retcode)
            .with("jid", minion.jid);
        if is_run {
            data.insert("out", "highstate");
        }
        (minion.id, data.into())
    };
    Ok(returns.into_iter().map(shown).collect())
}

fn cmd(cx: &Exec, args: Cmd) -> Result<Value, Error> {
    Ok(returns(cx, args)?.into_iter().collect())
}

fn cmd_iter(cx: &Exec, args: CmdIter) -> Result<Value, Error> {
    let CmdIter {
        tgt,
        fun,
        arg,
        timeout,
        tgt_type,
        ret,
        kwarg,
        ssh,
        kwargs,
    } = args;
    let args = Cmd {
        tgt,
        fun,
        arg,
        timeout,
        tgt_type,
        ret,
        kwarg,
        ssh,
        kwargs,
    };
    let one = |(id, data): (String, Value)| Map::new().with(&id, data).into();
    Ok(Value::list(returns(cx, args)?.into_iter().map(one)))
}
