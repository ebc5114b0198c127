//! The progress of a run in the daemon, sent as parts of the answer to the command that waits for
//! it.

use smol::channel::{Receiver, bounded};
use value::watch::{self, Event, State, Watcher};
use value::{Map, Value, channel};

/// The maximum number of events that wait for the command to read them. Further events are lost to
/// the command, and the run continues.
const MOST_WAITING: usize = 1024;

/// Returns an observer for a run, and the channel that receives the events.
pub(crate) fn pair() -> (Watcher, Receiver<Map>) {
    let (sender, receiver) = bounded(MOST_WAITING);
    let watcher = Watcher::new(move |worker, event| {
        // The run must not wait for its observer.
        channel::if_open(sender.try_send(written(event).with("worker", worker)));
    });
    (watcher, receiver)
}

fn written(event: Event<'_>) -> Map {
    let of = |kind: &str| Map::new().with("watch", kind);
    match event {
        Event::Started {
            jid,
            fun,
            test,
            chunks,
        } => of("started")
            .with("jid", jid)
            .with("fun", fun)
            .with("test", test)
            .with("chunks", chunks),
        Event::StateStarted(state) => of("state_started")
            .with("jid", state.jid)
            .with("tag", state.tag)
            .with("id", state.id)
            .with("name", state.name)
            .with("state", state.state)
            .with("fun", state.fun)
            .with("sls", state.sls)
            .with("tried", state.tried),
        Event::StateFinished { jid, tag, ret } => of("state_finished")
            .with("jid", jid)
            .with("tag", tag)
            .with("ret", ret.clone()),
        Event::Waits(what) => of("waits").with("what", what),
        Event::Finished { jid, good } => of("finished").with("jid", jid).with("good", good),
    }
}

/// Passes a progress event on to this process's observer. Returns false if the part is something
/// else.
pub(crate) fn relay(part: &Value) -> bool {
    let Some(kind) = part.get("watch").and_then(Value::as_str) else {
        return false;
    };
    if let Some(event) = read(kind, part) {
        let worker = part.get("worker").and_then(Value::as_int);
        let worker = worker.and_then(|worker| usize::try_from(worker).ok());
        watch::relay(worker.unwrap_or_default(), event);
    }
    true
}

/// Reads the event in a part. Returns `None` for a kind of a later version.
fn read<'a>(kind: &str, part: &'a Value) -> Option<Event<'a>> {
    let text = |key: &str| part.get(key).and_then(Value::as_str).unwrap_or_default();
    let flag = |key: &str| part.get(key).is_some_and(Value::is_true);
    let jid = text("jid");
    Some(match kind {
        "started" => Event::Started {
            jid,
            fun: text("fun"),
            test: flag("test"),
            chunks: usize::try_from(part.get("chunks")?.as_int()?).ok()?,
        },
        "state_started" => Event::StateStarted(State {
            jid,
            tag: text("tag"),
            id: text("id"),
            name: text("name"),
            state: text("state"),
            fun: text("fun"),
            sls: text("sls"),
            tried: flag("tried"),
        }),
        "state_finished" => Event::StateFinished {
            jid,
            tag: text("tag"),
            ret: part.get("ret")?.as_map()?,
        },
        "waits" => Event::Waits(part.get("what").and_then(Value::as_str)),
        "finished" => Event::Finished {
            jid,
            good: flag("good"),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives_as_it_was() {
        let ret = Map::new().with("result", true);
        let state = State {
            jid: "1",
            tag: "cmd_|-a_|-a_|-run",
            id: "a",
            name: "b",
            state: "cmd",
            fun: "run",
            sls: "c",
            tried: true,
        };
        let events = [
            Event::Started {
                jid: "1",
                fun: "state.orchestrate",
                test: true,
                chunks: 3,
            },
            Event::StateStarted(state),
            Event::Waits(Some("the minion a")),
            Event::Waits(None),
            Event::StateFinished {
                jid: "1",
                tag: state.tag,
                ret: &ret,
            },
            Event::Finished {
                jid: "1",
                good: true,
            },
        ];
        for event in events {
            let part = Value::from(written(event));
            let kind = part.get("watch").and_then(Value::as_str).unwrap();
            assert_eq!(
                format!("{:?}", read(kind, &part).unwrap()),
                format!("{event:?}")
            );
        }
    }

    #[test]
    fn what_nobody_reads_is_dropped() {
        let (watcher, told) = pair();
        watch::looked_on(Some(watcher), || {
            for _ in 0..=MOST_WAITING {
                watch::tell(Event::Waits(None));
            }
        });
        assert_eq!(told.len(), MOST_WAITING);
    }
}
