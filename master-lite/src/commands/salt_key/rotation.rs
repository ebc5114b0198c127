//! `salt-key --rotate-master-key`, `--finish-rotation` and `--cancel-rotation`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use cli::options::KeyAction;
use value::{Map, Value};

use super::{Call, Line};
use crate::commands::local_client::AskError;

/// The wheel function of all three.
const FUNCTION: &str = "key.rotate_master";
/// The time that connected minions have to accept the next key before the command prints its state.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two questions to the master about it.
const PAUSE: Duration = Duration::from_millis(100);

/// The ids that are printed. More are counted only.
const SHOWN: usize = 20;

/// Runs one of the actions. Unlike a change of a minion's key in Salt, a failure is an exit code.
pub(super) fn run(
    call: &mut Call<'_, '_>,
    action: &KeyAction,
    answer: &mut Line<'_>,
) -> Result<u8, AskError> {
    let done = match action {
        KeyAction::FinishRotation => finish(call, answer),
        KeyAction::CancelRotation => cancel(call),
        _ => rotate(call),
    };
    match done {
        Err(AskError::Failed { text, .. }) => {
            call.screen.complain(&format!("error: {text}\n"));
            Ok(1)
        }
        done => done,
    }
}

/// Begins or continues a rotation, and prints its state.
fn rotate(call: &mut Call<'_, '_>) -> Result<u8, AskError> {
    let until = Instant::now() + PATIENCE;
    let mut state = (call.wheel)(FUNCTION, Map::new())?;
    while !is_done(&state) && Instant::now() < until {
        sleep(PAUSE);
        state = (call.wheel)(FUNCTION, Map::new().with("action", "look"))?;
    }
    for line in lines(&state) {
        call.screen.say(&line);
    }
    Ok(0)
}

/// Replaces the master's key, after a question if minions would be locked out.
fn finish(call: &mut Call<'_, '_>, answer: &mut Line<'_>) -> Result<u8, AskError> {
    let state = (call.wheel)(FUNCTION, Map::new().with("action", "look"))?;
    let waiting = ids(&state, "waiting");
    if state.get("next").is_some_and(Value::is_true) && !waiting.is_empty() {
        call.screen.say(&format!(
            "These minions do not accept the next key and are going to be locked out: {}",
            listed(&waiting)
        ));
        match call.confirmed(false, answer) {
            Some(true) => {}
            Some(false) => return Ok(0),
            None => return Ok(call.no_answer()),
        }
    }
    let state = (call.wheel)(FUNCTION, Map::new().with("action", "finish"))?;
    for line in lines(&state) {
        call.screen.say(&line);
    }
    Ok(0)
}

/// Deletes the next key.
fn cancel(call: &mut Call<'_, '_>) -> Result<u8, AskError> {
    let state = (call.wheel)(FUNCTION, Map::new().with("action", "cancel"))?;
    call.screen
        .say(&format!("The master keeps its key {}", text(&state, "key")));
    Ok(0)
}

fn is_done(state: &Value) -> bool {
    !state.get("next").is_some_and(Value::is_true)
}

fn text(state: &Value, name: &str) -> String {
    state.get(name).map(Value::to_text).unwrap_or_default()
}

fn ids(state: &Value, name: &str) -> Vec<String> {
    state.get(name).map(Value::texts).unwrap_or_default()
}

/// Returns the ids as a text, or the first ones and the number of the others.
fn listed(ids: &[String]) -> String {
    let shown = ids.iter().take(SHOWN).map(String::as_str);
    let shown = shown.collect::<Vec<_>>().join(", ");
    match ids.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn lines(state: &Value) -> Vec<String> {
    if is_done(state) {
        return vec![format!("The master's key is now {}", text(state, "key"))];
    }
    let (ready, waiting) = (ids(state, "ready"), ids(state, "waiting"));
    vec![
        format!("The master's next key is {}", text(state, "next")),
        format!("{} minions accept it, {} do not yet: {}", ready.len(), waiting.len(), listed(&waiting)),
        "The master uses it as soon as all accepted minions accept it. Until then it keeps its key."
            .to_owned(),
        "Delete the keys of minions that do not come back (salt-key -d), or lock them out (salt-key --finish-rotation)."
            .to_owned(),
    ]
}
