//! `--subset`: picks a random subset of the minions that have the function.

use std::ops::ControlFlow;

use value::{Map, Value, random};

use super::answer::Reply;
use super::{Asker, NO_MATCH};
use crate::commands::local_client::AskError;
use cli::output::Screen;

/// Asks all matching minions for their functions. Returns `count` random ones of those that have
/// this function.
pub(super) fn chosen(
    asker: &Asker<'_>,
    fun: &str,
    count: usize,
    screen: &mut Screen<'_>,
) -> Result<Vec<String>, AskError> {
    let mut able = Vec::new();
    let mut job = asker.job("sys.list_functions", Vec::new());
    job.ret = String::new();
    job.options = Map::new();
    asker.publish(job, &mut |said| {
        match said {
            Reply::Sent(sent) if sent.minions.is_empty() => screen.say(NO_MATCH),
            Reply::Answered(answer) if has(&answer.value, fun) => able.push(answer.id),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    let mut chosen = Vec::new();
    while chosen.len() < count && !able.is_empty() {
        chosen.push(able.swap_remove(random::index(able.len())?));
    }
    Ok(chosen)
}

fn has(functions: &Value, fun: &str) -> bool {
    let functions = functions.as_list().unwrap_or_default();
    fun.split(',')
        .all(|fun| functions.iter().any(|name| name.as_str() == Some(fun)))
}
