//! The `pillar` runner: compiles the pillar of a minion as for the minion itself.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};
use wire::{Id, Pillar};

use super::{runs, unreadable};
use crate::store::Cache;

state::exec_module! {
    /// The pillar of the minions.
    mod pillar;

    /// Return the pillar of a minion, compiled now. Without an id, the master's id is used.
    ///
    ///     salt-run pillar.show_pillar web1
    fn show_pillar(ShowPillar {
        /// The minion's id.
        minion: String = "*".into(),
        ..kwargs
    });
}

fn show_pillar(cx: &Exec, args: ShowPillar) -> Result<Value, Error> {
    let runs = runs(cx)?;
    let text = |key: &str| {
        let value = args.kwargs.get(key).filter(|value| value.is_true());
        value.map(Value::to_text)
    };
    let name = match args.minion.as_str() {
        "*" => cx.opts().id(),
        other => other,
    };
    let id: Id = name
        .parse()
        .map_err(|_| Error::argument("minion", format!("invalid minion id {name:?}")))?;
    let grains = runs.store.cached(Cache::Grains, &id);
    let grains = grains.map_err(unreadable)?;
    let asked = Pillar {
        saltenv: text("saltenv"),
        pillarenv: text("pillarenv"),
        // For a minion that has never connected, Salt gives templates only this grain.
        grains: grains.unwrap_or_else(|| Map::new().with("fqdn", name)),
        pillar_override: Map::new(),
        secrets: false,
    };
    let pillar = smol::block_on(runs.data.pillars.compile(&id, asked));
    pillar.map(Value::Map).map_err(Error::refused)
}
