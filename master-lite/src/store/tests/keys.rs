//! Tests of keys and of the data that is stored with them.

use super::*;

fn state(world: &World, name: &str) -> Option<KeyState> {
    world.store.key(&id(name)).unwrap().map(|key| key.state)
}

fn becomes(state: KeyState, before: Option<KeyState>) -> Applied {
    Applied::Key {
        state: Some(state),
        before,
    }
}

#[test]
fn a_key_goes_its_way_and_is_still_there_later() {
    let world = World::new();
    let pending = becomes(KeyState::Pending, None);
    assert_eq!(world.apply(offered("m1", 1)), pending);
    let again = becomes(KeyState::Pending, Some(KeyState::Pending));
    assert_eq!(world.apply(offered("m1", 1)), again);
    let accept = Command::KeyAccepted {
        id: id("m1"),
        key: key(1),
        at_ms: 7,
        bound: Map::new().with("role", "web"),
        replace: false,
    };
    let accepted = becomes(KeyState::Accepted, Some(KeyState::Pending));
    assert_eq!(world.apply(accept), accepted);
    let world = world.again();
    let found = world.store.key(&id("m1")).unwrap().unwrap();
    assert_eq!(
        (found.key, found.at_ms, found.state),
        (key(1), 7, KeyState::Accepted)
    );
    assert_eq!(found.bound, Map::new().with("role", "web"));
    let reject = Command::KeyRejected {
        id: id("m1"),
        key: key(1),
        at_ms: 8,
    };
    world.apply(reject);
    assert_eq!(state(&world, "m1"), Some(KeyState::Rejected));
    let offered = world.apply(offered("m1", 1));
    assert_eq!(
        offered,
        becomes(KeyState::Rejected, Some(KeyState::Rejected))
    );
    let delete = Command::KeyDeleted {
        id: id("m1"),
        key: key(1),
        at_ms: 9,
    };
    let gone = Applied::Key {
        state: None,
        before: Some(KeyState::Rejected),
    };
    assert_eq!(world.apply(delete.clone()), gone);
    assert!(matches!(
        world.apply(delete),
        Applied::Refused(Refusal::Unknown { .. })
    ));
    assert_eq!(state(&world, "m1"), None);
}

#[test]
fn another_key_of_an_id_is_denied_and_takes_nothing_away() {
    let world = World::new();
    world.accept("m1", 1);
    assert_eq!(
        world.apply(offered("m1", 2)),
        becomes(KeyState::Denied, None)
    );
    assert_eq!(state(&world, "m1"), Some(KeyState::Accepted));
    let denied = world.store.denied(&id("m1")).unwrap();
    assert_eq!(denied.len(), 1);
    assert_eq!(denied.first().unwrap().key, key(2));
    let accept = |replace| Command::KeyAccepted {
        id: id("m1"),
        key: key(2),
        at_ms: 1,
        bound: Map::new(),
        replace,
    };
    let taken = world.apply(accept(false));
    assert!(
        matches!(taken, Applied::Refused(Refusal::Taken { .. })),
        "{taken:?}"
    );
    let reject = Command::KeyRejected {
        id: id("m1"),
        key: key(2),
        at_ms: 1,
    };
    assert!(matches!(
        world.apply(reject),
        Applied::Refused(Refusal::Taken { .. })
    ));
    assert_eq!(
        world.apply(accept(true)),
        becomes(KeyState::Accepted, Some(KeyState::Denied))
    );
    assert_eq!(world.store.key(&id("m1")).unwrap().unwrap().key, key(2));
    assert!(world.store.denied(&id("m1")).unwrap().is_empty());
    // A peer that presents many wrong keys gets no more room.
    for number in 10..60 {
        world.apply(offered("m1", number));
    }
    assert_eq!(world.store.denied(&id("m1")).unwrap().len(), 16);
    assert_eq!(world.store.keys(KeyState::Denied).unwrap().count(), 16);
}

#[test]
fn only_so_many_keys_wait() {
    let world = World::new();
    for number in 1..=3 {
        world.apply(offered(&format!("m{number}"), number));
    }
    let full = Applied::Refused(Refusal::Full { limit: 3 });
    assert_eq!(world.apply(offered("m4", 4)), full);
    let world = world.again();
    assert_eq!(world.apply(offered("m4", 4)), full);
    world.accept("m2", 2);
    assert_eq!(
        world.apply(offered("m4", 4)),
        becomes(KeyState::Pending, None)
    );
    assert_eq!(world.store.keys(KeyState::Pending).unwrap().count(), 3);
}

fn cached(what: Cache, name: &str, number: u8, change: Change) -> Command {
    Command::Cached {
        id: id(name),
        key: key(number),
        what,
        change,
    }
}

fn with(text: &str) -> Map {
    Map::new().with("secret", text)
}

#[test]
fn who_gets_an_id_next_sees_nothing_of_the_one_before() {
    let world = World::new();
    world.accept("m1", 1);
    for what in [Cache::Grains, Cache::Pillar, Cache::Mine] {
        let set = cached(what, "m1", 1, Change::Set(with("old")));
        assert_eq!(world.apply(set), Applied::Done);
        assert_eq!(
            world.store.cached(what, &id("m1")).unwrap(),
            Some(with("old"))
        );
    }
    world.apply(sent("m1", 1, 5, 1));
    assert_eq!(world.store.durable(&id("m1"), &key(1), 5).unwrap(), 1);
    world.apply(Command::KeyDeleted {
        id: id("m1"),
        key: key(1),
        at_ms: 9,
    });
    let world = world.again();
    // The same key, accepted again, starts from the beginning as well.
    world.accept("m1", 1);
    assert_eq!(world.store.durable(&id("m1"), &key(1), 5).unwrap(), 0);
    for what in [Cache::Grains, Cache::Pillar, Cache::Mine] {
        assert_eq!(world.store.cached(what, &id("m1")).unwrap(), None);
    }
    // A session of the old key that is still open cannot write.
    world.accept("m1", 2);
    let late = world.apply(cached(Cache::Grains, "m1", 1, Change::Set(with("late"))));
    assert!(matches!(
        late,
        Applied::Refused(Refusal::NotAccepted { .. })
    ));
    assert!(matches!(
        world.apply(sent("m1", 1, 5, 2)),
        Applied::Refused(_)
    ));
    assert_eq!(world.store.cached(Cache::Grains, &id("m1")).unwrap(), None);
}

#[test]
fn caches_are_changed_in_parts_and_read_one_after_the_other() {
    let world = World::new();
    for number in 1..=4 {
        let name = format!("m{number}");
        world.accept(&name, number);
        let grains = Map::new().with("n", u64::from(number));
        let set = cached(Cache::Grains, &name, number, Change::Set(grains));
        smol::block_on(world.store.later(set)).unwrap();
    }
    world.apply(Command::KeyRejected {
        id: id("m3"),
        key: key(3),
        at_ms: 1,
    });
    let all = world.store.all_cached(Cache::Grains).unwrap();
    let all: Vec<_> = all.map(|found| found.unwrap().0.id.to_string()).collect();
    assert_eq!(all, ["m1", "m2", "m4"]);
    let mine = |change| world.apply(cached(Cache::Mine, "m1", 1, change));
    mine(Change::Update(Map::new().with("a", 1).with("b", 2)));
    mine(Change::Update(Map::new().with("b", 3)));
    mine(Change::Without("a".to_owned()));
    let found = world.store.cached(Cache::Mine, &id("m1")).unwrap();
    assert_eq!(found, Some(Map::new().with("b", 3)));
    mine(Change::Clear);
    assert_eq!(world.store.cached(Cache::Mine, &id("m1")).unwrap(), None);
}

#[test]
fn what_is_decided_for_a_new_key_is_not_done_where_the_id_has_one() {
    let world = World::new();
    let enrolled = |number| {
        let Command::KeyOffered { id, key, at_ms, .. } = offered("m1", number) else {
            unreachable!()
        };
        let offer = Command::KeyOffered {
            id: id.clone(),
            key,
            at_ms,
            pending_max: 3,
            pending_per_address: u64::MAX,
            from: None,
            claim: Claim::New,
        };
        let accept = Command::KeyAccepted {
            id,
            key,
            at_ms,
            bound: Map::new(),
            replace: false,
        };
        Command::All(vec![offer, accept])
    };
    assert!(!world.apply(enrolled(1)).is_void());
    assert_eq!(state(&world, "m1"), Some(KeyState::Accepted));
    let refused = world.apply(enrolled(2));
    assert!(matches!(refused.rejection(), Some(Refusal::Taken { .. })));
    assert_eq!(world.store.key(&id("m1")).unwrap().unwrap().key, key(1));
    assert!(world.store.denied(&id("m1")).unwrap().is_empty());
}

/// Returns an offer of a key from an address, with limits of three pending keys in all and two of
/// each address.
fn from(name: &str, number: u8, at_ms: u64, from: &str, claim: Claim) -> Command {
    Command::KeyOffered {
        id: id(name),
        key: key(number),
        at_ms,
        from: Some(from.to_owned()),
        pending_max: 3,
        pending_per_address: 2,
        claim,
    }
}

fn ids(world: &World, state: KeyState) -> Vec<String> {
    let keys = world.store.keys(state).unwrap();
    keys.map(|key| key.unwrap().id.to_string()).collect()
}

#[test]
fn waiting_keys_of_one_address_keep_no_newcomer_of_another_out() {
    let world = World::new();
    let offer =
        |name, number, at_ms, of| world.apply(from(name, number, at_ms, of, Claim::Nothing));
    offer("a1", 1, 1, "10.0.0.1");
    offer("a2", 2, 2, "10.0.0.1");
    let refused = offer("a3", 3, 3, "10.0.0.1");
    let words = refused.rejection().unwrap().to_string();
    assert!(words.contains("2 keys of 10.0.0.1") && words.contains("pending_keys_per_address"));
    offer("b1", 4, 4, "10.0.0.2");
    let displaced = Applied::Displaced {
        id: id("a1"),
        key: key(1),
    };
    assert_eq!(offer("c1", 5, 5, "10.0.0.3"), displaced);
    assert_eq!(ids(&world, KeyState::Pending), ["a2", "b1", "c1"]);
    // If each address has one, the oldest is removed for an address that has none, and no address
    // gets a second one.
    offer("d1", 6, 6, "10.0.0.4");
    assert_eq!(ids(&world, KeyState::Pending), ["b1", "c1", "d1"]);
    assert!(offer("d2", 7, 7, "10.0.0.4").is_void());
    // The rows contain the addresses: a store that is opened again has the same counts.
    let world = world.again();
    let again = world.apply(from("e1", 8, 8, "10.0.0.5", Claim::Nothing));
    assert_eq!(
        again,
        Applied::Displaced {
            id: id("b1"),
            key: key(4)
        }
    );
}

#[test]
fn proof_beats_a_key_that_waits_or_was_rejected_and_no_accepted_one() {
    let world = World::new();
    world.apply(from("m1", 1, 1, "10.0.0.1", Claim::Nothing));
    world.apply(from("m1", 2, 2, "10.0.0.2", Claim::Proved));
    let known = world.store.key(&id("m1")).unwrap().unwrap();
    assert_eq!((known.key, known.state), (key(2), KeyState::Pending));
    let denied = world.store.denied(&id("m1")).unwrap();
    assert_eq!(denied[0].key, key(1));
    world.apply(Command::KeyRejected {
        id: id("m1"),
        key: key(2),
        at_ms: 3,
    });
    world.apply(from("m1", 3, 4, "10.0.0.2", Claim::Proved));
    assert_eq!(world.store.key(&id("m1")).unwrap().unwrap().key, key(3));
    world.apply(accepted("m1", 3));
    let refused = world.apply(from("m1", 4, 5, "10.0.0.2", Claim::Proved));
    assert!(matches!(refused, Applied::Refused(Refusal::Taken { .. })));
    assert_eq!(world.store.key(&id("m1")).unwrap().unwrap().key, key(3));
}

#[test]
fn only_a_key_that_waits_can_be_withdrawn() {
    let world = World::new();
    world.apply(from("m1", 1, 1, "10.0.0.1", Claim::Nothing));
    world.apply(accepted("m2", 2));
    let withdraw = |name: &str, number| Command::KeyWithdrawn {
        id: id(name),
        key: key(number),
    };
    assert!(world.apply(withdraw("m2", 2)).is_void());
    assert!(!world.apply(withdraw("m1", 1)).is_void());
    assert_eq!(ids(&world, KeyState::Pending), Vec::<String>::new());
    assert_eq!(ids(&world, KeyState::Accepted), ["m2"]);
}
