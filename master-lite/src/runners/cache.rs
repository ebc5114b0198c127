//! The `cache` runner: what the master remembers of its minions.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};
use wire::Id;

use super::{master, matching, unreadable};
use crate::store::{Cache, Change, Command};

state::exec_module! {
    /// What the master remembers of its minions.
    mod cache;

    /// The grains of the minions that match.
    fn grains(Grains {
        /// Which minions.
        tgt: Value,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        ..kwargs
    });

    /// The pillar that the minions that match got last.
    fn pillar(Pillar {
        /// Which minions; all without it.
        tgt: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        ..kwargs
    });

    /// What the minions that match share.
    fn mine(Mine {
        /// Which minions; all without it.
        tgt: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        ..kwargs
    });

    /// Forget the grains of the minions that match.
    fn clear_grains(ClearGrains {
        /// Which minions.
        tgt: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
    });

    /// Forget the pillar of the minions that match.
    fn clear_pillar(ClearPillar {
        /// Which minions.
        tgt: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
    });

    /// Forget what the minions that match share.
    fn clear_mine(ClearMine {
        /// Which minions.
        tgt: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
    });

    /// Forget what one function of the minions that match shares.
    fn clear_mine_func(ClearMineFunc {
        /// Which minions.
        tgt: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
        /// The function.
        clear_mine_func_flag: Option<String> = None,
    });

    /// Forget grains, pillar and mine of the minions that match.
    fn clear_all(ClearAll {
        /// Which minions.
        tgt: Value = Value::Null,
        /// How `tgt` is to be read.
        tgt_type: String = "glob".into(),
    });

    /// The minions of which something is remembered.
    fn list(List {
        /// `grains`, `pillar` or `mine`.
        bank: String,
        /// Accepted for Salt's sake: there is one store.
        cachedir: Value = Value::Null,
    });

    /// What is remembered of one minion.
    fn fetch(Fetch {
        /// `grains`, `pillar` or `mine`.
        bank: String,
        /// The minion's id.
        key: String,
        /// Accepted for Salt's sake: there is one store.
        cachedir: Value = Value::Null,
    });
}

/// The caches by their names.
const BANKS: [(&str, Cache); 3] = [
    ("grains", Cache::Grains),
    ("pillar", Cache::Pillar),
    ("mine", Cache::Mine),
];

fn bank(name: &str) -> Result<Cache, Error> {
    let found = BANKS.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, cache)| cache).ok_or_else(|| {
        let problem = format!("{name:?} is not kept here: grains, pillar and mine are");
        Error::argument("bank", problem)
    })
}

/// No target is everybody.
fn everybody(tgt: Value) -> Value {
    if tgt.is_true() { tgt } else { "*".into() }
}

fn remembered(cx: &Exec, what: Cache, tgt: Value, tgt_type: &str) -> Result<Value, Error> {
    let master = master(cx)?;
    let mut found = Map::new();
    for id in matching(master, &everybody(tgt), tgt_type)? {
        let cached = master.store().cached(what, &id).map_err(unreadable)?;
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

/// Forgets; without a target nothing, as in Salt.
fn forgotten(
    cx: &Exec,
    caches: &[Cache],
    tgt: &Value,
    tgt_type: &str,
    change: &Change,
) -> Result<Value, Error> {
    let master = master(cx)?;
    if !tgt.is_true() {
        return Ok(false.into());
    }
    for id in matching(master, tgt, tgt_type)? {
        let Some(key) = master.store().key(&id).map_err(unreadable)? else {
            continue;
        };
        for what in caches {
            let command = Command::Cached {
                id: id.clone(),
                key: key.key,
                what: *what,
                change: change.clone(),
            };
            master.store().apply_blocking(command).map_err(unreadable)?;
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
    let all = master(cx)?.store().all_cached(bank(&args.bank)?);
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
    let cached = master(cx)?.store().cached(what, &id).map_err(unreadable)?;
    Ok(cached.unwrap_or_default().into())
}
