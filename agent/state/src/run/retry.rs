//! `retry`: calls a chunk again until it returns the requested result.

use value::{Map, Value, random};

use super::clock;
use crate::low::LowChunk;
use crate::options::Retry;

/// Calls a chunk again until it returns the result that its `retry` requests. In test mode it only
/// adds a comment about that.
pub(super) fn repeated(
    first: Map,
    low: &LowChunk,
    test: bool,
    mut again: impl FnMut() -> Map,
) -> Map {
    let Some(retry) = low.options.retry else {
        return first;
    };
    if test {
        return announced(first, retry);
    }
    let start_time = first.get("start_time").cloned();
    let (mut ret, mut told, mut duration) = (first, String::new(), 0.0);
    let mut attempt = 1;
    while !reached(&ret, retry) && retry.attempts > attempt {
        let interval = waited(retry);
        told.push_str(&tried(&ret, attempt));
        told.push('\n');
        duration += spent(&ret) + interval * 1000.0;
        ret = again();
        attempt += 1;
    }
    if attempt > 1 {
        let comment = told + &text(&ret, "comment");
        ret.insert("comment", comment);
        ret.insert("duration", spent(&ret) + duration);
        ret.insert("start_time", start_time);
    }
    ret
}

/// Like [`repeated`], for a parallel chunk: its comment lists the attempts after the first return.
pub(super) fn repeated_beside(
    first: Map,
    low: &LowChunk,
    test: bool,
    mut again: impl FnMut() -> Map,
) -> Map {
    let Some(retry) = low.options.retry else {
        return first;
    };
    if test {
        return announced(first, retry);
    }
    let start_time = first.get("start_time").cloned();
    let mut ret = first;
    let mut attempt = 1;
    while !reached(&ret, retry) && retry.attempts >= attempt {
        let interval = waited(retry);
        let mut next = again();
        // Salt marks only the first return.
        next.remove("__parallel__");
        let this = match text(&next, "comment") {
            comment if comment.is_empty() => comment,
            _ => tried(&next, attempt),
        };
        next.insert("comment", format!("{}\n{this}", text(&ret, "comment")));
        next.insert("duration", spent(&next) + spent(&ret) + interval * 1000.0);
        next.insert("start_time", start_time.clone());
        ret = next;
        attempt += 1;
    }
    ret
}

fn reached(ret: &Map, retry: Retry) -> bool {
    ret.get("result").and_then(Value::as_bool) == Some(retry.until)
}

fn text(ret: &Map, key: &str) -> String {
    ret.get(key).map(Value::to_text).unwrap_or_default()
}

fn spent(ret: &Map) -> f64 {
    ret.get("duration")
        .and_then(Value::as_float)
        .unwrap_or_default()
}

fn tried(ret: &Map, attempt: i64) -> String {
    format!(
        "Attempt {attempt}: Returned a result of \"{}\", with the following comment: \"{}\"",
        text(ret, "result"),
        text(ret, "comment")
    )
}

/// Waits between two attempts, and returns the number of seconds.
fn waited(retry: Retry) -> f64 {
    let interval = retry.interval + by_chance(retry.splay);
    clock::sleep(interval);
    interval
}

/// Returns a random whole number of seconds up to `most`.
fn by_chance(most: f64) -> f64 {
    random::jitter(most.max(0.0) as u64) as f64
}

fn announced(mut ret: Map, retry: Retry) -> Map {
    let until = if retry.until { "True" } else { "False" };
    let comment = format!(
        "{}  The state would be retried every {} seconds (with a splay of up to {} seconds) a maximum of {} times or until a result of {until} is returned",
        text(&ret, "comment"),
        retry.interval,
        retry.splay,
        retry.attempts,
    );
    ret.insert("comment", comment);
    ret
}
