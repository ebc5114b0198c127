//! [`Feed`]: the events as server-sent events (`GET /events`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use value::json::{self, Layout};
use value::{Map, Value};

use super::checks::Checked;
use super::failure::Failure;
use super::stream::ClientEvents;
use crate::http::{Answer, Bytes, Head};
use crate::store::{Event, Store};

/// The first line, with the milliseconds after which a browser connects again.
const RETRY: &str = "retry: 400\n";

/// The maximum number of bytes of events that are kept for other streams.
const KEPT_MAX: usize = 1 << 20;

/// The lines of the newest events. All streams send the same bytes, so that an event takes the memory
/// and the work of one, however many streams there are.
#[derive(Default)]
pub(super) struct Lines(Mutex<VecDeque<(u64, Bytes)>>);

impl Lines {
    /// Returns the lines of an event.
    fn of(&self, event: &Event) -> Bytes {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().rev();
        let mut known = known.filter(|(sequence, _)| *sequence == event.sequence);
        if let Some((_, lines)) = known.next() {
            return lines.clone();
        }
        let lines = Bytes::from(lines(event));
        kept.push_back((event.sequence, lines.clone()));
        let mut bytes: usize = kept.iter().map(|(_, lines)| lines.len()).sum();
        while bytes > KEPT_MAX
            && let Some((_, oldest)) = kept.pop_front()
        {
            bytes -= oldest.len();
        }
        lines
    }
}

/// The events for one client, as long as its token is valid.
pub(super) struct Feed {
    events: ClientEvents,
    lines: Arc<Lines>,
    has_begun: bool,
}

/// Returns the data of an event as clients receive it.
pub(super) fn written(event: &Event) -> String {
    let data = Map::new()
        .with("tag", event.tag.as_str())
        .with("data", event.stamped());
    json::write(&Value::Map(data), Layout::default())
}

/// Returns the lines of an event. A line break in a tag would begin another field.
fn lines(event: &Event) -> String {
    let tag = event.tag.replace(['\r', '\n'], " ");
    let (id, data) = (event.sequence, written(event));
    format!("id: {id}\ntag: {tag}\ndata: {data}\n\n")
}

/// Returns the number of the first event that a client wants: the one after its last one.
fn first(head: &Head) -> Result<Option<u64>, Failure> {
    let Some(text) = head.header("Last-Event-Id").filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let last: Option<u64> = text.parse().ok();
    let next = last.and_then(|last| last.checked_add(1));
    let next = next.ok_or_else(|| Failure::bad("`Last-Event-ID` is not the number of an event"))?;
    Ok(Some(next))
}

impl Feed {
    /// Returns the answer that sends the events to a client.
    pub(super) fn answer(
        store: &Store,
        token: Arc<Checked>,
        lines: Arc<Lines>,
        head: &Head,
    ) -> Result<Answer, Failure> {
        let feed = Self {
            events: ClientEvents::new(store, token, first(head)?),
            lines,
            has_begun: false,
        };
        let pieces = smol::stream::unfold(feed, |mut feed| async {
            // No deadline: each piece comes within the pulse of `ClientEvents`.
            let piece = feed.next().await?;
            Some((piece, feed))
        });
        let answer = Answer::pieces("text/event-stream", pieces);
        Ok(answer.with("Cache-Control", "no-cache"))
    }

    /// Returns what is sent next. Returns `None` when the token is no longer valid, or the master ends.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            return Some(RETRY.into());
        }
        // No deadline: it comes within the pulse of `ClientEvents`.
        let next = self.events.next().await?;
        if !self.events.is_valid().await {
            return None;
        }
        Some(match next {
            None => ":\n\n".into(),
            Some(event) => self.lines.of(&event),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_three_lines_whatever_its_tag() {
        let event = Event {
            sequence: 7,
            tag: "a\ndata: b".to_owned(),
            stamp: "2026-11-27T00:00:00".to_owned(),
            at_ms: 0,
            data: Map::new().with("x", "1\n2"),
        };
        let text = lines(&event);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(
            text.starts_with("id: 7\ntag: a data: b\ndata: {\"tag\": "),
            "{text}"
        );
        assert!(
            text.contains(r#""x": "1\n2", "_stamp": "2026-11-27T00:00:00"}}"#),
            "{text}"
        );
    }

    #[test]
    fn streams_share_the_lines_of_an_event_and_few_are_kept() {
        let event = |sequence, length| Event {
            sequence,
            tag: "a".to_owned(),
            stamp: String::new(),
            at_ms: 0,
            data: Map::new().with("x", "y".repeat(length)),
        };
        let (all, small) = (Lines::default(), event(1, 9));
        let same = |one: Bytes, other: Bytes| one.as_ptr() == other.as_ptr();
        assert!(same(all.of(&small), all.of(&small)));
        for sequence in 2..5 {
            assert_eq!(
                all.of(&event(sequence, KEPT_MAX / 2)).slice(..5),
                "id: ".to_owned() + &sequence.to_string()
            );
        }
        let kept = all.0.lock().unwrap();
        assert_eq!(
            kept.iter()
                .map(|(sequence, _)| *sequence)
                .collect::<Vec<_>>(),
            [4]
        );
    }

    #[test]
    fn a_client_continues_after_its_last_event() {
        let first = |id: &str| {
            first(&Head::of(
                "GET",
                "/events",
                Map::new().with("Last-Event-Id", id),
            ))
        };
        assert_eq!(first(""), Ok(None));
        assert_eq!(first("41"), Ok(Some(42)));
        for bad in ["x", "-1", "18446744073709551615", "1 2"] {
            assert_eq!(first(bad).unwrap_err().status, 400, "{bad}");
        }
    }
}
