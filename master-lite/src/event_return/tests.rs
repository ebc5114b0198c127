//! Tests of the filter, of the queue, and of what a read of the log returns.

use std::time::{Duration, Instant};

use value::{Map, Value, json};

use super::batch::{BYTES_MAX, Batch, EVENTS_MAX, Filter, Lost, Page, Queue, READ_MAX};
use crate::store::{Error, Event};

fn event(sequence: u64, tag: &str) -> Event {
    Event {
        sequence,
        tag: tag.to_owned(),
        stamp: "2026-01-01T00:00:00.000000".to_owned(),
        at_ms: 1,
        data: Map::new().with("n", sequence),
    }
}

/// A log with events of these numbers, each of `bytes` bytes.
fn log(
    numbers: impl IntoIterator<Item = u64>,
    bytes: usize,
) -> impl Iterator<Item = Result<(Event, usize), Error>> {
    let sized = move |number| Ok((event(number, &format!("my/{number}")), bytes));
    numbers.into_iter().map(sized)
}

fn page(numbers: impl IntoIterator<Item = u64>, place: (u64, u64), room: usize) -> Page {
    Page::read(log(numbers, 10), place, &Filter::default(), room).unwrap()
}

fn globs(globs: &[&str]) -> Vec<String> {
    globs.iter().map(|glob| (*glob).to_owned()).collect()
}

#[test]
fn a_blacklist_goes_before_a_whitelist_and_empty_lists_refuse_nothing() {
    let job = "salt/job/1/ret/m1";
    for (only, never, tag, is_wanted) in [
        (&[][..], &[][..], "any", true),
        (&["salt/job/*"], &[], job, true),
        (&["salt/job/*"], &[], "salt/auth", false),
        (&["salt/auth", "salt/job/*/ret/*"], &[], job, true),
        (&[], &["salt/*"], job, false),
        (&[], &["salt/*"], "my/tag", true),
        (&["salt/*"], &["*/ret/*"], job, false),
        (&["SALT/*"], &[], job, false),
        (&["salt/job/[0-9]/ret/m?"], &[], job, true),
    ] {
        let filter = Filter {
            only: globs(only),
            never: globs(never),
        };
        assert_eq!(filter.is_wanted(tag), is_wanted, "{only:?} {never:?} {tag}");
    }
}

#[test]
fn events_have_salts_form() {
    let page = page([7], (7, 8), 10);
    let wanted = r#"[{"data": {"n": 7, "_stamp": "2026-01-01T00:00:00.000000"}, "tag": "my/7"}]"#;
    assert_eq!(
        json::write(
            &Value::list(page.events.into_iter().map(|record| record.event)),
            json::Layout::default()
        ),
        wanted
    );
}

#[test]
fn a_page_ends_with_its_room_its_size_and_the_end_of_the_log() {
    let some = page(1..=9, (1, 10), 4);
    assert_eq!((some.events.len(), some.next, some.lost), (4, 5, None));
    let all = page(5..=9, (5, 10), 100);
    assert_eq!((all.events.len(), all.next, all.lost), (5, 10, None));
    // The event 8 is not known to be on the disk.
    let known = page(5..=9, (5, 8), 100);
    assert_eq!((known.events.len(), known.next, known.lost), (3, 8, None));
    let large = Page::read(log(1..=9, BYTES_MAX / 2), (1, 10), &Filter::default(), 100);
    assert_eq!(large.unwrap().next, 3);
    let filter = Filter {
        only: globs(&["other"]),
        ..Filter::default()
    };
    let most = READ_MAX as u64;
    let long = log(1..=most + 9, 10);
    let examined = Page::read(long, (1, most + 10), &filter, 100).unwrap();
    assert_eq!((examined.events.len(), examined.next), (0, most + 1));
}

#[test]
fn events_that_the_log_dropped_are_counted_wherever_they_were() {
    let lost = |numbers: &[u64], place| page(numbers.iter().copied(), place, 100).lost;
    let of = |count, first, last| Some(Lost { count, first, last });
    assert_eq!(lost(&[4, 5], (1, 6)), of(3, 1, 3));
    assert_eq!(lost(&[1, 2, 5], (1, 6)), of(2, 3, 4));
    assert_eq!(lost(&[1, 2], (1, 6)), of(3, 3, 5));
    assert_eq!(lost(&[2, 4], (1, 6)), of(3, 1, 5));
    assert_eq!(lost(&[], (1, 6)), of(5, 1, 5));
    assert_eq!(lost(&[1, 2, 3], (1, 4)), None);
    assert_eq!(lost(&[], (4, 4)), None);
}

#[test]
fn a_batch_is_due_when_it_has_enough_events_or_is_old() {
    let of = |count: u64| {
        let mut batch = Batch::default();
        batch.add(page(1..=count, (1, count + 1), EVENTS_MAX));
        batch
    };
    let is_due = |batch: &Batch, queue| batch.due(queue).is_some_and(|due| due <= Instant::now());
    let at_once = Queue::new(Some(0), None);
    assert!(!is_due(&of(0), at_once));
    assert!(is_due(&of(1), at_once));
    let ten = Queue::new(Some(10), None);
    assert_eq!(of(9).due(ten), None);
    assert!(is_due(&of(10), ten));
    let patient = Queue::new(Some(10), Some(3600));
    let due = of(9).due(patient).unwrap();
    assert!(due > Instant::now() + Duration::from_secs(3500));
    assert!(is_due(&of(10), patient));
    // A queue that is longer than the longest batch is as long as that.
    let endless = Queue::new(Some(i64::MAX), Some(0));
    let full = of(EVENTS_MAX as u64);
    assert_eq!(full.room(), 0);
    assert!(is_due(&full, endless));
    assert_eq!(Queue::new(Some(-5), Some(-1)), at_once);
}

#[test]
fn a_batch_of_large_events_has_no_room() {
    let mut batch = Batch::default();
    let large = Page::read(log([1], BYTES_MAX), (1, 2), &Filter::default(), 1);
    batch.add(large.unwrap());
    assert_eq!(batch.room(), 0);
    let queue = Queue::new(Some(10), None);
    assert!(batch.due(queue).is_some());
}
