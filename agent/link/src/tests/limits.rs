//! A hostile peer uses up its own share of a limit, and excludes no other peer.

use super::*;

/// Connects a client from a separate loopback address.
async fn raw_from(world: &World, last: u8, pair: &KeyPair) -> Option<Raw> {
    let local = ([127, 0, 0, last], 0).into();
    let connecting = Raw::connect_from(local, world.address(), pair, wire::ALPN);
    stream::within(ms(1_500), connecting).await?.ok()
}

/// Connects strangers from one address that finish the handshake and send nothing.
async fn silent(world: &World, last: u8, count: usize) -> Vec<Raw> {
    let mut held = Vec::new();
    for _ in 0..count {
        held.extend(raw_from(world, last, &KeyPair::generate().unwrap()).await);
    }
    held
}

/// Opens streams that each announce the largest frame and send little of it.
async fn announce(minion: &Link, streams: usize, sent: usize) -> Vec<SendStream> {
    let mut open = Vec::new();
    for _ in 0..streams {
        let (mut send, _receive) = minion.handle().connection().open_bi().await.unwrap();
        send.write_all(&16_777_215_u32.to_be_bytes()).await.unwrap();
        send.write_all(&vec![0; sent]).await.unwrap();
        open.push(send);
    }
    open
}

/// Answers each question at the master's end.
fn serve(mut master: Link) {
    smol::spawn(async move {
        while let Ok(incoming) = master.next().await {
            if let Incoming::Question(question) = incoming {
                let _ = question.done(true).await;
            }
        }
    })
    .detach();
}

async fn large(minion: &Link, bytes: usize) -> Result<value::Value, Error> {
    let grains = Map::new().with("x", "x".repeat(bytes));
    let asked = minion.handle().ask(wire::Grains { grains }).await?;
    asked.done().await
}

#[test]
fn a_key_that_announces_large_frames_holds_only_its_own_share() {
    run(async {
        let world = World::new();
        let (evil, master) = world.connected("evil").await;
        serve(master);
        let _streams = announce(&evil, 4, 1000).await;
        let (minion, master) = world.connected("m1").await;
        serve(master);
        Timer::after(ms(200)).await;
        let began = Instant::now();
        large(&minion, 100_000).await.unwrap();
        assert!(began.elapsed() < HELD_UP, "{:?}", began.elapsed());
    });
}

#[test]
fn a_large_frame_that_stands_still_loses_its_place_within_a_window() {
    run(async {
        let world = World::with(Limits {
            rate_window: STRICT,
            ..patient()
        });
        let (evil, master) = world.connected("evil").await;
        serve(master);
        let streams = announce(&evil, 1, 100_000).await;
        let began = Instant::now();
        assert!(streams[0].stopped().await.is_ok());
        assert!(began.elapsed() >= STRICT / 2 && began.elapsed() < HELD_UP);
        large(&evil, 16_000_000).await.unwrap();
    });
}

#[test]
fn when_all_room_is_taken_the_fullest_key_loses_its_frame() {
    run(async {
        let world = World::with(Limits {
            large_bytes_max: 1 << 20,
            ..patient()
        });
        let (evil, master) = world.connected("evil").await;
        serve(master);
        let mut streams = announce(&evil, 1, 900_000).await;
        let (minion, master) = world.connected("m1").await;
        serve(master);
        large(&minion, 300_000).await.unwrap();
        assert!(
            stream::within(HELD_UP, streams[0].stopped())
                .await
                .is_some()
        );
        assert!(streams[0].write_all(&[0; 100]).await.is_err());
    });
}

#[test]
fn who_is_refused_for_want_of_room_reads_that_it_is_busy() {
    run(async {
        let world = World::with(Limits {
            large_bytes_per_key: 200_000,
            ..patient()
        });
        let (minion, master) = world.connected("m1").await;
        serve(master);
        let error = large(&minion, 3_000_000).await.unwrap_err();
        let Error::Failed { reason, text, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(reason, "busy");
        assert!(
            text.contains("200000 bytes") && text.contains("(large_bytes_per_key)"),
            "{text}"
        );
    });
}

#[test]
fn silent_handshakes_of_one_address_keep_no_other_address_out() {
    run(async {
        let world = World::with(Limits {
            handshakes_max: 24,
            handshakes_per_address: 8,
            ..patient()
        });
        let mut held = Vec::new();
        for last in 2..6 {
            held.extend(silent(&world, last, 8).await);
        }
        assert!(
            raw_from(&world, 5, &KeyPair::generate().unwrap())
                .await
                .is_none()
        );
        world.serves_others().await;
        let is_dropped = |raw: &&Raw| raw.connection.close_reason().is_some();
        soon(|| held.iter().filter(is_dropped).count() >= 6).await;
    });
}

#[test]
fn an_address_that_is_full_of_silent_handshakes_gives_the_oldest_up() {
    run(async {
        let world = World::with(Limits {
            handshakes_per_address: 4,
            ..patient()
        });
        let held = silent(&world, 1, 4).await;
        let stranger = KeyPair::generate().unwrap();
        assert!(raw_from(&world, 1, &stranger).await.is_none());
        Timer::after(ms(2_100)).await;
        world.serves_others().await;
        assert!(held[0].connection.close_reason().is_some());
    });
}

#[test]
fn a_known_key_needs_no_place_among_strangers() {
    run(async {
        let world = World::with(Limits {
            handshakes_per_address: 2,
            ..patient()
        });
        let known = KeyPair::generate().unwrap();
        world.listener.know([known.public()]);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.extend(raw_from(&world, 1, &known).await);
        }
        assert_eq!(held.len(), 4);
        assert_eq!(silent(&world, 1, 3).await.len(), 2);
    });
}

#[test]
fn a_hello_that_has_begun_has_no_more_time_than_one_that_has_not() {
    run(async {
        let world = World::with(Limits {
            hello: STRICT,
            ..patient()
        });
        let mut slow = world.raw().await;
        let began = Instant::now();
        slow.send.write_all(&[0, 0, 1]).await.unwrap();
        while slow.connection.close_reason().is_none() {
            assert!(began.elapsed() < HELD_UP, "it is still let go on");
            let _ = slow.send.write_all(&[0]).await;
            Timer::after(ms(200)).await;
        }
        assert_eq!(slow.closed().await, "deadline");
    });
}

#[test]
fn waiting_keys_of_one_address_keep_no_other_address_from_waiting() {
    run(async {
        let world = World::with(Limits {
            pending_max: 4,
            pending_per_address: 3,
            ..patient()
        });
        let mut waiting = Vec::new();
        for (number, last) in [2, 2, 2, 3, 4, 5].into_iter().enumerate() {
            let pair = KeyPair::generate().unwrap();
            let mut raw = raw_from(&world, last, &pair).await.unwrap();
            raw.say(&hello(&format!("m{number}")).into()).await;
            let mut peer = world.listener.next().await.unwrap();
            peer.pend("wait").await.unwrap();
            waiting.push((raw, peer));
        }
        assert_eq!(world.listener.pending(), 4);
        let (_, oldest) = &mut waiting[0];
        let error = stream::within(HELD_UP, oldest.watch()).await.unwrap();
        assert!(error.to_string().contains("(pending_max)"), "{error}");
    });
}
