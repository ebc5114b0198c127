//! The `mine` runner: the data that minions share.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};
use wire::MineGet;

use super::runs;

state::exec_module! {
    /// The data that minions share.
    mod mine;

    /// Return mine data of the minions that match, by their ids.
    ///
    ///     salt-run mine.get 'web*' network.ip_addrs
    fn get(Get {
        /// The target.
        tgt: Value,
        /// One function, several with commas between them, or a list.
        fun: Value,
        /// The type of the target.
        tgt_type: String = "glob".into(),
    });
}

fn get(cx: &Exec, args: Get) -> Result<Value, Error> {
    let fun = args.fun.split_input();
    let several = fun.len() > 1 || args.fun.as_list().is_some();
    let asked = MineGet {
        tgt: args.tgt,
        tgt_type: args.tgt_type,
        fun: fun.clone(),
        exclude_minion: false,
    };
    let mut found = runs(cx)?.data.mined(None, &asked).map_err(Error::refused)?;
    match fun.first() {
        Some(only) if !several => Ok(found.remove(only).unwrap_or_else(|| Map::new().into())),
        _ => Ok(found.into()),
    }
}
