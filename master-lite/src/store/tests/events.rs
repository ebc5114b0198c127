//! Tests of the event log, jobs and watches.

use super::super::command::JobRows;
use super::super::command_bytes::encode;
use super::super::rows::Received;
use super::golden::{JID, map};
use super::*;

fn tags(world: &World, from: u64) -> Vec<String> {
    let events = world.store.events(from).unwrap();
    events.map(|event| event.unwrap().tag).collect()
}

#[test]
fn events_have_numbers_that_are_never_used_again() {
    let world = World::new();
    for number in 1..=3 {
        let applied = world.apply(event(&format!("e{number}"), number));
        assert_eq!(
            applied,
            Applied::Event {
                sequence: number,
                durable: 0
            }
        );
    }
    let world = world.again();
    assert_eq!(tags(&world, 2), ["e2", "e3"]);
    let drop_all = Command::EventsDropped {
        before: 100,
        limit: 100,
    };
    assert_eq!(world.apply(drop_all), Applied::Dropped { rows: 3 });
    let world = world.again();
    assert_eq!(world.store.log().unwrap(), (4, 4));
    assert_eq!(
        world.apply(event("e4", 4)),
        Applied::Event {
            sequence: 4,
            durable: 0
        }
    );
    assert_eq!(tags(&world, 0), ["e4"]);
    let kept = world.store.events(0).unwrap().next().unwrap().unwrap();
    assert_eq!((kept.sequence, kept.at_ms), (4, 4));
    assert_eq!(kept.data, Map::new().with("n", 4));
}

#[test]
fn what_was_sent_twice_is_kept_once() {
    let world = World::new();
    world.accept("m1", 1);
    let kept = |sequence, durable| Applied::Event { sequence, durable };
    assert_eq!(world.apply(sent("m1", 1, 9, 1)), kept(1, 1));
    assert_eq!(world.apply(sent("m1", 1, 9, 2)), kept(2, 2));
    let world = world.again();
    assert_eq!(
        world.apply(sent("m1", 1, 9, 1)),
        Applied::Duplicate { durable: 2 }
    );
    assert_eq!(
        world.apply(sent("m1", 1, 9, 2)),
        Applied::Duplicate { durable: 2 }
    );
    // Another spool, and another minion, are counted separately.
    assert_eq!(world.apply(sent("m1", 1, u64::MAX, 1)), kept(3, 1));
    world.accept("m2", 2);
    assert_eq!(world.apply(sent("m2", 2, 9, 1)), kept(4, 1));
    assert_eq!(world.store.durable(&id("m1"), &key(1), 9).unwrap(), 2);
    assert_eq!(world.store.durable(&id("m1"), &key(1), 8).unwrap(), 0);
    assert_eq!(tags(&world, 1).len(), 4);
}

#[test]
fn what_a_spool_leaves_out_is_not_waited_for() {
    let mut received = Received::default();
    assert!(!received.take(0));
    // The master was set up again, or the key was deleted: the minion continues at its position.
    assert!(received.take(30) && !received.take(30) && !received.take(29));
    assert_eq!(received.durable(), 30);
    // A full spool dropped some.
    assert!(received.take(1000));
    assert_eq!(received.durable(), 1000);
}

fn job(jid: &str, at_ms: u64) -> Command {
    Command::Job {
        jid: jid.to_owned(),
        load: Map::new().with("fun", "test.ping"),
        minions: vec![id("m1"), id("m2")],
        at_ms,
    }
}

fn returned(jid: &str, name: &str, origin: Option<Origin>) -> Command {
    Command::Return {
        jid: jid.to_owned(),
        id: id(name),
        data: Map::new().with("return", true),
        at_ms: 50,
        origin,
    }
}

#[test]
fn a_minion_cannot_make_a_job_of_others_its_own() {
    let world = World::new();
    let own = |jid: &str, name: &str| Command::Job {
        jid: jid.to_owned(),
        load: Map::new().with("fun", "my.fun").with("own", true),
        minions: vec![id(name)],
        at_ms: 20,
    };
    world.accept("m1", 1);
    world.accept("m3", 3);
    world.apply(job(JID, 10));
    // The master of m1 did not know the job yet, whose return it stores.
    let stored = world.apply(Command::All(vec![
        own(JID, "m1"),
        returned(JID, "m1", None),
    ]));
    assert!(stored.has_return(), "{stored:?}");
    // Attack: the job was not sent to m3.
    let refused = world.apply(Command::All(vec![
        own(JID, "m3"),
        returned(JID, "m3", None),
    ]));
    let why = refused.rejection().map(ToString::to_string).unwrap();
    assert!(why.contains("was not sent to this minion"), "{why}");
    let known = world.store.job(JID).unwrap().unwrap();
    assert_eq!(known.load.get("fun"), Some(&"test.ping".into()));
    assert_eq!(known.minions, [id("m1"), id("m2")]);
}

#[test]
fn a_number_belongs_to_one_job() {
    let world = World::new();
    world.apply(job(JID, 10));
    // With `batch`, the same job goes to other minions later.
    assert_eq!(world.apply(job(JID, 20)), Applied::Done);
    let other = Command::Job {
        jid: JID.to_owned(),
        load: Map::new().with("fun", "test.echo"),
        minions: vec![id("m3")],
        at_ms: 30,
    };
    let refused = world.apply(other);
    let why = refused.rejection().map(ToString::to_string).unwrap();
    assert!(why.contains("is the number of another job"), "{why}");
    assert_eq!(
        world.store.job(JID).unwrap().unwrap().minions,
        [id("m1"), id("m2")]
    );
}

#[test]
fn a_job_and_its_returns_are_kept_together() {
    let world = World::new();
    world.apply(job("20260101000000000001", 10));
    world.apply(job("20260101000000000002", 20));
    let kept = Applied::Returned { durable: 0 };
    for name in ["m2", "m1"] {
        assert_eq!(
            world.apply(returned("20260101000000000001", name, None)),
            kept
        );
    }
    // Only the first return is kept.
    let again = world.apply(returned("20260101000000000001", "m1", None));
    assert_eq!(again, Applied::Duplicate { durable: 0 });
    // A job that this master did not publish can have returns too.
    assert_eq!(world.apply(returned("other", "m3", None)), kept);
    let world = world.again();
    let found = world.store.job("20260101000000000001").unwrap().unwrap();
    assert_eq!((found.minions, found.at_ms), (vec![id("m1"), id("m2")], 10));
    let returns = world.store.returns("20260101000000000001").unwrap();
    let returns: Vec<_> = returns.map(|found| found.unwrap().id).collect();
    assert_eq!(returns, [id("m1"), id("m2")]);
    let jobs = world.store.jobs().unwrap();
    let jobs: Vec<_> = jobs.map(|found| found.unwrap().jid).collect();
    assert_eq!(
        jobs,
        ["other", "20260101000000000002", "20260101000000000001"]
    );
    assert!(world.store.returned("other", &id("m3")).unwrap().is_some());
    assert!(world.store.returned("other", &id("m1")).unwrap().is_none());
}

#[test]
fn several_commands_are_one_and_end_at_the_first_that_does_nothing() {
    let world = World::new();
    world.accept("m1", 1);
    let both = Command::All(vec![
        returned("j1", "m1", Some(origin("m1", 1, 9, 1))),
        event("salt/job/j1/ret/m1", 1),
    ]);
    let Applied::All(all) = world.apply(both.clone()) else {
        panic!()
    };
    assert_eq!(
        all.last(),
        Some(&Applied::Event {
            sequence: 1,
            durable: 0
        })
    );
    let again = world.apply(both);
    assert_eq!(again, Applied::All(vec![Applied::Duplicate { durable: 1 }]));
    assert!(again.is_void());
    assert_eq!(tags(&world, 1).len(), 1);
}

#[test]
fn the_oldest_go_by_count_size_and_age() {
    let world = World::new();
    for number in 1..=600 {
        smol::block_on(world.store.later(event("e", number * 1000))).unwrap();
        let jid = format!("{number}");
        smol::block_on(world.store.later(job(&jid, number * 1000))).unwrap();
        let back = returned(&jid, "m1", None);
        smol::block_on(world.store.later(back)).unwrap();
    }
    let all = Retention {
        events: u64::MAX,
        events_bytes: u64::MAX,
        events_seconds: u64::MAX,
        jobs_seconds: 0,
        jobs_bytes: u64::MAX,
    };
    let retain = |keep| {
        let mut steps = 1;
        while smol::block_on(world.store.retain(keep, 601_000)).unwrap() {
            steps += 1;
        }
        steps
    };
    assert_eq!(retain(all), 1);
    assert_eq!(world.store.log().unwrap(), (1, 601));
    assert_eq!(retain(Retention { events: 500, ..all }), 1);
    assert_eq!(world.store.log().unwrap(), (101, 601));
    assert_eq!(
        retain(Retention {
            events_seconds: 100,
            ..all
        }),
        1
    );
    assert_eq!(world.store.log().unwrap(), (501, 601));
    let bytes = world.store.log_row().unwrap().bytes;
    retain(Retention {
        events_bytes: bytes / 2,
        ..all
    });
    assert_eq!(world.store.log().unwrap(), (551, 601));
    assert!(
        retain(Retention {
            jobs_seconds: 10,
            ..all
        }) > 1
    );
    assert_eq!(world.store.jobs().unwrap().count(), 10);
    assert!(world.store.job("590").unwrap().is_none());
    assert_eq!(world.store.returns("590").unwrap().count(), 0);
    assert_eq!(world.store.returns("591").unwrap().count(), 1);
    assert_eq!(tags(&world, 0).len(), 50);
}

#[test]
fn who_watches_sees_each_event_in_order_once_it_is_durable() {
    let world = World::new();
    world.apply(event("before", 1));
    let watch = world.store.watch();
    assert_eq!(watch.first(), 2);
    for number in 2..=5 {
        world.apply(event("e", number));
        let Some(Seen::Event(seen)) = smol::block_on(watch.next()) else {
            panic!()
        };
        assert_eq!((seen.sequence, seen.at_ms), (number, number));
    }
    let World {
        folder: _folder,
        store,
    } = world;
    drop(store);
    assert_eq!(smol::block_on(watch.next()), None);
}

#[test]
fn a_slow_one_is_told_what_it_missed_and_finds_it_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        watch_max: 4,
        ..Limits::default()
    };
    let store = Store::open(folder.path(), limits).unwrap();
    let (slow, fast) = (store.watch(), store.watch());
    for number in 1..=10 {
        store.apply_blocking(event("e", number)).unwrap();
        assert!(matches!(smol::block_on(fast.next()), Some(Seen::Event(_))));
    }
    for number in 1..=4 {
        let seen = smol::block_on(slow.next());
        assert!(matches!(seen, Some(Seen::Event(event)) if event.sequence == number));
    }
    let missed = smol::block_on(slow.next());
    assert_eq!(missed, Some(Seen::Missed { from: 5, to: 10 }));
    assert_eq!(store.events(5).unwrap().count(), 6);
    store.apply_blocking(event("e", 11)).unwrap();
    let seen = smol::block_on(slow.next());
    assert!(matches!(seen, Some(Seen::Event(event)) if event.sequence == 11));
}

/// Returns an event with `bytes` bytes of data, of a minion that was accepted with `accept(name,
/// 1)`.
fn large(name: &str, sequence: u64, bytes: usize) -> Command {
    Command::Event {
        tag: format!("{name}/{sequence}"),
        data: Map::new().with("x", "x".repeat(bytes)),
        stamp: String::new(),
        at_ms: sequence,
        origin: Some(origin(name, 1, 9, sequence)),
    }
}

fn retained(world: &World, keep: Retention) {
    while smol::block_on(world.store.retain(keep, 1000)).unwrap() {}
    assert!(!world.store.is_over(keep));
}

#[test]
fn a_flood_of_one_minion_drops_its_own_events_and_nobody_elses() {
    let world = World::new();
    world.accept("evil", 1);
    world.accept("m1", 1);
    for number in 1..=20 {
        world.apply(large("m1", number, 10));
        for more in 1..=5 {
            world.apply(large("evil", number * 5 + more, 10_000));
        }
    }
    let keep = Retention {
        events_bytes: 300_000,
        jobs_seconds: 0,
        events_seconds: u64::MAX,
        ..Retention::default()
    };
    // The counts are the same when they are computed from the disk.
    let world = world.again();
    assert!(world.store.is_over(keep));
    retained(&world, keep);
    let of = |name: &str| {
        let all = tags(&world, 0).into_iter();
        all.filter(|tag| tag.starts_with(name)).collect::<Vec<_>>()
    };
    assert_eq!(of("m1").len(), 20);
    let left = of("evil");
    assert!((20..30).contains(&left.len()), "{}", left.len());
    assert_eq!(left.last().unwrap(), "evil/105");
    // Many small events are removed because of their number.
    retained(&world, Retention { events: 30, ..keep });
    assert_eq!((of("m1").len(), of("evil").len()), (20, 10));
}

#[test]
fn a_flood_of_returns_or_arguments_drops_its_own_jobs_and_nobody_elses() {
    let world = World::new();
    world.accept("evil", 1);
    let load = |user: &str, bytes: usize| {
        Map::new()
            .with("user", user)
            .with("arg", Value::list(["x".repeat(bytes).into()]))
    };
    let job = |jid: String, load: Map| Command::Job {
        jid,
        load,
        minions: vec![id("m1"), id("evil")],
        at_ms: 5,
    };
    let back = |jid: &str, name: &str, bytes: usize| Command::Return {
        jid: jid.to_owned(),
        id: id(name),
        data: Map::new().with("return", "x".repeat(bytes)),
        at_ms: 5,
        origin: None,
    };
    for number in 0..20 {
        world.apply(job(format!("root{number}"), load("root", 10)));
        world.apply(back(&format!("root{number}"), "m1", 10));
        world.apply(back(&format!("root{number}"), "evil", 5_000));
        world.apply(job(format!("guest{number}"), load("nobody", 10_000)));
        world.apply(back(&format!("own{number}"), "evil", 10_000));
    }
    let keep = Retention {
        jobs_bytes: 100_000,
        jobs_seconds: 0,
        ..Retention::default()
    };
    let world = world.again();
    retained(&world, keep);
    for number in 0..20 {
        let jid = format!("root{number}");
        assert!(world.store.job(&jid).unwrap().is_some(), "{jid}");
        assert!(world.store.returned(&jid, &id("m1")).unwrap().is_some());
    }
    let jobs = world.store.jobs().unwrap().map(|job| job.unwrap().jid);
    let guests = jobs.filter(|jid| jid.starts_with("guest")).count();
    assert!((1..10).contains(&guests), "{guests}");
}

#[test]
fn of_many_holders_with_equally_much_the_oldest_events_go_in_few_steps() {
    let world = World::new();
    for number in 0..5000 {
        let Command::Event {
            tag, stamp, at_ms, ..
        } = event("e", 1)
        else {
            panic!()
        };
        let of = Command::Event {
            tag,
            data: map("id", format!("m{}", number % 1000)),
            stamp,
            at_ms,
            origin: None,
        };
        smol::block_on(world.store.later(of)).unwrap();
    }
    world.apply(Command::All(Vec::new()));
    let keep = Retention {
        events: 4000,
        events_seconds: u64::MAX,
        ..Retention::default()
    };
    assert!(!smol::block_on(world.store.retain(keep, 1000)).unwrap());
    assert_eq!(world.store.log().unwrap(), (1001, 5001));
    assert_eq!(tags(&world, 0).len(), 4000);
}

#[test]
fn a_removal_names_rows_that_may_be_gone_or_have_come() {
    let world = World::new();
    for number in 1..=4 {
        world.apply(event(&format!("e{number}"), number));
    }
    let remove = |sequences: &[u64]| {
        let sequences = sequences.to_vec();
        world.apply(Command::EventsRemoved { sequences })
    };
    assert_eq!(remove(&[1, 3, 9]), Applied::Dropped { rows: 2 });
    assert_eq!(remove(&[1, 3, 9]), Applied::Dropped { rows: 0 });
    assert_eq!(world.store.log().unwrap(), (2, 5));
    assert_eq!(tags(&world, 0), ["e2", "e4"]);

    let removed = |returns: &[&str], at_ms| {
        let rows = JobRows {
            jid: "j".to_owned(),
            returns: returns.iter().map(|name| id(name)).collect(),
            at_ms,
        };
        let jobs = vec![rows];
        let Applied::Dropped { rows } = world.apply(Command::JobsRemoved { jobs }) else {
            panic!()
        };
        rows
    };
    world.apply(job("j", 10));
    for name in ["m1", "m2"] {
        world.apply(returned("j", name, None));
    }
    // The return of m2 came after the rows were chosen.
    assert_eq!(removed(&["m1", "m3"], Some(10)), 1);
    assert!(world.store.job("j").unwrap().is_some());
    // Another job has this id.
    assert_eq!(removed(&["m2"], Some(9)), 1);
    assert!(world.store.job("j").unwrap().is_some());
    assert_eq!(removed(&[], Some(10)), 1);
    assert!(world.store.job("j").unwrap().is_none());
    assert_eq!(world.store.jobs().unwrap().count(), 0);
    let none = Retention {
        jobs_bytes: 0,
        ..Retention::default()
    };
    assert!(!world.store.is_over(none));
}

#[test]
fn a_removal_of_rows_with_long_names_is_a_short_command() {
    let world = World::new();
    let (long, name) = ("j".repeat(NAME_MAX - 4), "m".repeat(253));
    for number in 1000..1700 {
        let back = Command::Return {
            jid: format!("{long}{number}"),
            id: id(&name),
            data: map("return", "x".repeat(1000)),
            at_ms: 50,
            origin: None,
        };
        smol::block_on(world.store.later(back)).unwrap();
    }
    world.apply(Command::All(Vec::new()));
    let none = Retention {
        jobs_bytes: 0,
        ..Retention::default()
    };
    let excess = world.store.excess_jobs(none).unwrap();
    assert!(excess.has_more);
    let removal = excess.removal.unwrap();
    let bytes = encode(&removal).unwrap().len();
    assert!((300_000..500_000).contains(&bytes), "{bytes}");
    assert_eq!(world.apply(removal), Applied::Dropped { rows: 512 });
}
