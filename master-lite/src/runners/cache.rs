//! The `cache` runner: the data that the master caches about its minions.

use modules::git::Repositories;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};
use wire::Id;

use super::{matching, runs, unreadable};
use crate::store::{Cache, Change, Command};

state::exec_module! {
    /// The data that the master caches about its minions.
    mod cache;

    /// Return the grains of the minions that match.
    ///
    ///     salt-run cache.grains 'web*'
    fn grains(Grains {
        /// The target.
        tgt: Value,
        /// The type of the target.
        tgt_type: String = "glob".into(),
        ..kwargs
    });

    /// Return the pillar that the minions that match received last.
    ///
    ///     salt-run cache.pillar 'web*'
    fn pillar(Pillar {
        /// The target; all minions by default.
        tgt: Value = Value::Null,
        /// The type of the target.
        tgt_type: String = "glob".into(),
        ..kwargs
    });

    /// Return the mine data of the minions that match.
    ///
    ///     salt-run cache.mine 'web*'
    fn mine(Mine {
        /// The target; all minions by default.
        tgt: Value = Value::Null,
        /// The type of the target.
        tgt_type: String = "glob".into(),
        ..kwargs
    });

    /// Clear the cached grains of the minions that match.
    ///
    ///     salt-run cache.clear_grains web1
    fn clear_grains(ClearGrains {
        /// The target.
        tgt: Value = Value::Null,
        /// The type of the target.
        tgt_type: String = "glob".into(),
    });

    /// Clear the cached pillar of the minions that match.
    ///
    ///     salt-run cache.clear_pillar web1
    fn clear_pillar(ClearPillar {
        /// The target.
        tgt: Value = Value::Null,
        /// The type of the target.
        tgt_type: String = "glob".into(),
    });

    /// Clear the mine data of the minions that match.
    ///
    ///     salt-run cache.clear_mine web1
    fn clear_mine(ClearMine {
        /// The target.
        tgt: Value = Value::Null,
        /// The type of the target.
        tgt_type: String = "glob".into(),
    });

    /// Clear the mine data of one function of the minions that match.
    ///
    ///     salt-run cache.clear_mine_func web1 clear_mine_func_flag=network.ip_addrs
    fn clear_mine_func(ClearMineFunc {
        /// The target.
        tgt: Value = Value::Null,
        /// The type of the target.
        tgt_type: String = "glob".into(),
        /// The function.
        clear_mine_func_flag: Option<String> = None,
    });

    /// Clear the cached grains, pillar and mine data of the minions that match.
    ///
    ///     salt-run cache.clear_all web1
    fn clear_all(ClearAll {
        /// The target.
        tgt: Value = Value::Null,
        /// The type of the target.
        tgt_type: String = "glob".into(),
    });

    /// Remove the locks that keep git repositories from being updated. Further arguments: `type`, the
    /// types of locks; only `update` exists here.
    ///
    ///     salt-run cache.clear_git_lock gitfs
    fn clear_git_lock(ClearGitLock {
        /// `gitfs` or `git_pillar`.
        role: String,
        /// The pattern of the addresses; by default all.
        remote: Option<String> = None,
        ..kwargs
    });

    /// Return the minions that have data in a cache.
    ///
    ///     salt-run cache.list grains
    fn list(List {
        /// `grains`, `pillar` or `mine`.
        bank: String,
        /// Accepted for compatibility with Salt: there is only one store.
        cachedir: Value = Value::Null,
    });

    /// Return the cached data of one minion.
    ///
    ///     salt-run cache.fetch grains web1
    fn fetch(Fetch {
        /// `grains`, `pillar` or `mine`.
        bank: String,
        /// The minion's id.
        key: String,
        /// Accepted for compatibility with Salt: there is only one store.
        cachedir: Value = Value::Null,
    });
}

fn clear_git_lock(cx: &Exec, args: ClearGitLock) -> Result<Value, Error> {
    let mut given = args.kwargs;
    let types = given.remove("type").map(|types| types.split_input());
    let repositories = match args.role.as_str() {
        "gitfs" => Repositories::of_fileserver(cx.opts())?,
        "git_pillar" => Repositories::of_pillar(cx.opts())?,
        other => return Err(Error::refused(format!("Invalid role '{other}'"))),
    };
    let has_update = types.is_none_or(|types| types.iter().any(|name| name == "update"));
    let cleared = match has_update {
        true => repositories.clear_locks(args.remote.as_deref())?,
        false => Vec::new(),
    };
    Ok(match cleared.is_empty() {
        true => "No locks were removed".into(),
        false => Map::new().with("cleared", cleared).into(),
    })
}

/// The caches by name.
const BANKS: [(&str, Cache); 3] = [
    ("grains", Cache::Grains),
    ("pillar", Cache::Pillar),
    ("mine", Cache::Mine),
];

fn bank(name: &str) -> Result<Cache, Error> {
    let found = BANKS.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, cache)| cache).ok_or_else(|| {
        let problem = format!("unknown bank {name:?}: use grains, pillar or mine");
        Error::argument("bank", problem)
    })
}

/// Returns the target, or one that matches all minions if there is none.
fn everybody(tgt: Value) -> Value {
    if tgt.is_true() { tgt } else { "*".into() }
}

fn remembered(cx: &Exec, what: Cache, tgt: Value, tgt_type: &str) -> Result<Value, Error> {
    let runs = runs(cx)?;
    let mut found = Map::new();
    for id in matching(runs, &everybody(tgt), tgt_type)? {
        let cached = runs.store.cached(what, &id).map_err(unreadable)?;
        found.insert(id.as_str(), cached.unwrap_or_default());
    }
    Ok(found.into())
}

fn grains(cx: &Exec, args: Grains) -> Result<Value, Error> {
    remembered(cx, Cache::Grains, args.tgt, &args.tgt_type)
}

fn pillar(cx: &Exec, args: Pillar) -> Result<Value, Error> {
    remembered(cx, Cache::Pillar, args.tgt, &args.tgt_type)
}

fn mine(cx: &Exec, args: Mine) -> Result<Value, Error> {
    remembered(cx, Cache::Mine, args.tgt, &args.tgt_type)
}

/// Changes caches. Without a target it changes nothing, as in Salt.
fn forgotten(
    cx: &Exec,
    caches: &[Cache],
    tgt: &Value,
    tgt_type: &str,
    change: &Change,
) -> Result<Value, Error> {
    let runs = runs(cx)?;
    if !tgt.is_true() {
        return Ok(false.into());
    }
    for id in matching(runs, tgt, tgt_type)? {
        let Some(key) = runs.store.key(&id).map_err(unreadable)? else {
            continue;
        };
        for what in caches {
            let command = Command::Cached {
                id: id.clone(),
                key: key.key,
                what: *what,
                change: change.clone(),
            };
            runs.store.apply_blocking(command).map_err(unreadable)?;
        }
    }
    Ok(true.into())
}

fn clear_grains(cx: &Exec, args: ClearGrains) -> Result<Value, Error> {
    forgotten(
        cx,
        &[Cache::Grains],
        &args.tgt,
        &args.tgt_type,
        &Change::Clear,
    )
}

fn clear_pillar(cx: &Exec, args: ClearPillar) -> Result<Value, Error> {
    forgotten(
        cx,
        &[Cache::Pillar],
        &args.tgt,
        &args.tgt_type,
        &Change::Clear,
    )
}

fn clear_mine(cx: &Exec, args: ClearMine) -> Result<Value, Error> {
    forgotten(
        cx,
        &[Cache::Mine],
        &args.tgt,
        &args.tgt_type,
        &Change::Clear,
    )
}

fn clear_mine_func(cx: &Exec, args: ClearMineFunc) -> Result<Value, Error> {
    let Some(fun) = args.clear_mine_func_flag.filter(|fun| !fun.is_empty()) else {
        return Ok(false.into());
    };
    let change = Change::Without(fun);
    forgotten(cx, &[Cache::Mine], &args.tgt, &args.tgt_type, &change)
}

fn clear_all(cx: &Exec, args: ClearAll) -> Result<Value, Error> {
    let all = BANKS.map(|(_, cache)| cache);
    forgotten(cx, &all, &args.tgt, &args.tgt_type, &Change::Clear)
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let all = runs(cx)?.store.all_cached(bank(&args.bank)?);
    let ids = all.map_err(unreadable)?.map(|entry| {
        let (key, _) = entry.map_err(unreadable)?;
        Ok(Value::from(key.id.as_str()))
    });
    Ok(Value::list(ids.collect::<Result<Vec<_>, Error>>()?))
}

fn fetch(cx: &Exec, args: Fetch) -> Result<Value, Error> {
    let what = bank(&args.bank)?;
    let Ok(id) = args.key.parse::<Id>() else {
        return Ok(Map::new().into());
    };
    let cached = runs(cx)?.store.cached(what, &id).map_err(unreadable)?;
    Ok(cached.unwrap_or_default().into())
}
