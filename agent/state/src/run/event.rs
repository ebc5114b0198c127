//! Events about returns: `fire_event` and the option `state_events`.

use value::{Map, Value, log};

use crate::exec::Exec;
use crate::low::LowChunk;
use crate::targets::minion_event;

/// Fires the event that a chunk requests, or that the configuration requests for all chunks.
pub(super) fn fire(cx: &Exec, jid: &str, low: &LowChunk, ret: &Map, length: usize) {
    let is_asked = low.options.fire_event.is_some()
        || cx
            .state_events
            .unwrap_or_else(|| cx.opts().flag("state_events"));
    if !is_asked {
        return;
    }
    let data = Map::new().with("ret", ret.clone());
    let id = cx.opts().id();
    let text = |key| ret.get(key).map(Value::to_text).unwrap_or_default();
    let (tag, data) = match &low.options.fire_event {
        Some(Value::Str(tag)) => (format!("salt/state_result/{jid}/{id}/{tag}"), data),
        Some(Value::Bool(true)) => {
            let name = text("name");
            (format!("salt/state_result/{jid}/{id}/{name}"), data)
        }
        _ => {
            let number = text("__run_num__");
            let tag = format!("salt/job/{jid}/prog/{id}/{number}");
            (tag, data.with("len", length))
        }
    };
    let data = minion_event(cx.opts().id(), &tag, data).with("jid", jid);
    if let Err(error) = cx.shared.targets.fire(cx, &tag, data) {
        log::warning(format_args!("cannot fire the event {tag}: {error}"));
    }
}
