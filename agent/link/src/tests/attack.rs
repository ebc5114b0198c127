use super::*;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use wire::{Ack, Ping, Running};

#[test]
fn other_protocols_and_versions_are_not_spoken() {
    run(async {
        let world = World::new();
        let pair = KeyPair::generate().unwrap();
        let error = Raw::connect(world.address(), &pair, b"pinch/0")
            .await
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains("known protocol"), "{error}");
        for (min, max) in [(0, 0), (2, 9)] {
            let mut raw = world.raw().await;
            raw.say(
                &Hello {
                    version_min: min,
                    version_max: max,
                    ..hello("m1")
                }
                .into(),
            )
            .await;
            let Frame::Control(wire::Control::Refused(refused)) = raw.hear().await else {
                panic!("not refused")
            };
            assert_eq!(refused.reason, "version");
            assert_eq!(raw.closed().await, "version");
        }
        let mut raw = world.raw().await;
        raw.say(
            &Hello {
                role: "master".into(),
                ..hello("m1")
            }
            .into(),
        )
        .await;
        assert_eq!(raw.closed().await, "role");
        world.serves_others().await;
    });
}

/// A3: a client shows another's public key without having the private one.
#[test]
fn a_key_without_proof_is_refused() {
    run(async {
        let world = World::new();
        let (own, others) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let key = PrivatePkcs8KeyDer::from(own.pkcs8());
        let key = rustls::crypto::ring::sign::any_eddsa_type(&key).unwrap();
        let spki = CertificateDer::from(others.public().spki());
        let certified = Arc::new(rustls::sign::CertifiedKey::new(vec![spki], key));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Pinned::new(Vec::new()))
            .with_client_cert_resolver(Arc::new(
                rustls::client::AlwaysResolvesClientRawPublicKeys::new(certified),
            ));
        config.alpn_protocols = vec![wire::ALPN.to_vec()];
        let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(config).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(crypto));
        let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
        // The client learns that the server rejects its proof only after its own side of the
        // handshake is complete.
        if let Ok(connection) = endpoint
            .connect_with(config, world.address(), "x")
            .unwrap()
            .await
        {
            let error = connection.closed().await.to_string();
            assert!(error.contains("cryptographic handshake failed"), "{error}");
        }
        world.serves_others().await;
        assert_eq!(world.listener.pending(), 0);
    });
}

/// A client without any key.
#[test]
fn a_client_without_a_key_is_refused() {
    run(async {
        let world = World::new();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Pinned::new(Vec::new()))
            .with_no_client_auth();
        config.alpn_protocols = vec![wire::ALPN.to_vec()];
        let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(config).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(crypto));
        let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
        if let Ok(connection) = endpoint
            .connect_with(config, world.address(), "x")
            .unwrap()
            .await
        {
            let error = connection.closed().await.to_string();
            assert!(error.contains("handshake failed"), "{error}");
        }
        world.serves_others().await;
    });
}

/// A1: a pending key sends frames of every kind.
#[test]
fn a_pending_key_can_say_nothing() {
    run(async {
        let world = World::new();
        for (name, frame) in golden() {
            let (mut raw, mut peer) = world.pending("m1").await;
            raw.say(&frame).await;
            let error = peer.watch().await;
            match name.as_str() {
                "bye" => assert!(matches!(error, Error::Lost { .. }), "{name}: {error}"),
                "hello" | "unsupported" | "unknown" => {
                    assert!(matches!(error, Error::Unexpected { .. }), "{name}: {error}");
                }
                _ => assert!(matches!(error, Error::NotAllowed { .. }), "{name}: {error}"),
            }
            drop(peer);
            raw.connection.closed().await;
        }
        assert_eq!(
            (world.listener.connections(), world.listener.pending()),
            (0, 0)
        );
    });
}

#[test]
fn what_was_said_before_acceptance_is_not_believed_after_it() {
    run(async {
        let world = World::new();
        let (mut raw, peer) = world.pending("m1").await;
        raw.say(&event(1).into()).await;
        Timer::after(ms(100)).await;
        let error = peer.accept(welcome()).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
        assert_eq!(raw.closed().await, "not allowed");
        // Half a frame is refused as well.
        let (mut raw, peer) = world.pending("m1").await;
        raw.send.write_all(&[0, 0]).await.unwrap();
        Timer::after(ms(100)).await;
        assert!(peer.accept(welcome()).await.is_err());
    });
}

/// A5: an accepted minion sends frames of every kind as requests.
#[test]
fn a_minion_asks_what_minions_may_ask() {
    run(async {
        let world = World::with(Limits {
            bad_frames_max: 1000,
            ..patient()
        });
        let mut raw = world.raw().await;
        raw.say(&hello("m1").into()).await;
        let peer = world.listener.next().await.unwrap();
        let mut master = peer.accept(welcome()).await.unwrap();
        raw.hear().await;
        smol::spawn(async move {
            while let Ok(incoming) = master.next().await {
                if let Incoming::Question(question) = incoming {
                    question.done("handled").await.unwrap();
                }
            }
        })
        .detach();
        for (name, frame) in golden() {
            let (mut send, mut receive) = raw.connection.open_bi().await.unwrap();
            let mut bytes = Vec::new();
            frame.encode(wire::Limits::STREAM, &mut bytes).unwrap();
            send.write_all(&bytes).await.unwrap();
            // A golden of a kind with later fields is named `KIND+FIELDS`.
            let kind = name.split('+').next();
            let rule = wire::rule::rules().find(|rule| Some(rule.kind) == kind);
            let may = rule.is_some_and(|rule| rule.ways.contains(&wire::Way::MinionToMaster));
            match (&frame, hear(&mut receive).await) {
                (Frame::Request(_), Frame::Answer(wire::Answer::Done(_))) => assert!(may, "{name}"),
                (Frame::Unknown { .. }, answer) => {
                    assert_eq!(
                        answer,
                        Frame::Unsupported {
                            kind: "later".into()
                        }
                    );
                }
                (_, Frame::Answer(wire::Answer::Failed(failed))) => {
                    let word = if may || rule.is_none() {
                        "invalid"
                    } else {
                        "refused"
                    };
                    assert_eq!(failed.reason, word, "{name}");
                }
                (_, other) => panic!("{name}: {other:?}"),
            }
        }
        world.serves_others().await;
    });
}

/// A16: malformed frames.
#[test]
fn garbage_is_counted_and_then_cut_off() {
    run(async {
        let world = World::new();
        let mut raw = world.raw().await;
        raw.say(&hello("m1").into()).await;
        let peer = world.listener.next().await.unwrap();
        let mut master = peer.accept(welcome()).await.unwrap();
        for bad in [
            &[0, 0, 0, 1, 0xc1],
            &[0, 0, 0, 1, 0x80],
            &[0, 0, 0, 1, 0xff],
        ] {
            raw.send.write_all(bad).await.unwrap();
        }
        raw.say(&event(1).into()).await;
        assert!(matches!(master.next().await, Ok(Incoming::Event(_))));
        assert_eq!(master.handle().bad_frames(), 3);
        raw.say(&Ack { sequence: 1 }.into()).await;
        let error = master.next().await.unwrap_err();
        assert!(
            matches!(error, Error::TooManyBad { limit: 3, .. }),
            "{error}"
        );
        assert!(
            error.to_string().contains("m1") && error.to_string().contains("key "),
            "{error}"
        );
        assert_eq!(raw.closed().await, "bad_frames_max");
        world.serves_others().await;
    });
}

#[test]
fn bad_requests_count_for_the_connection() {
    run(async {
        let world = World::new();
        let mut raw = world.raw().await;
        raw.say(&hello("m1").into()).await;
        let peer = world.listener.next().await.unwrap();
        let mut master = peer.accept(welcome()).await.unwrap();
        let masters = smol::spawn(async move { master.next().await });
        for _ in 0..4 {
            let Ok((mut send, mut receive)) = raw.connection.open_bi().await else {
                break;
            };
            let _ = send.write_all(&[0, 0, 0, 1, 0xc1]).await;
            let _ = receive.read_to_end(1000).await;
        }
        assert_eq!(raw.closed().await, "bad_frames_max");
        assert!(masters.await.is_err());
    });
}

#[test]
fn long_frames_end_the_connection_before_they_are_read() {
    run(async {
        let world = World::new();
        let mut raw = world.raw().await;
        raw.send.write_all(&[0, 1, 0, 1]).await.unwrap();
        assert_eq!(raw.closed().await, "frame");
        let mut raw = world.raw().await;
        raw.say(&hello("m1").into()).await;
        let peer = world.listener.next().await.unwrap();
        let mut master = peer.accept(welcome()).await.unwrap();
        raw.send.write_all(&[0xff; 4]).await.unwrap();
        let error = master.next().await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("4294967295 bytes exceed the limit of 1048576"),
            "{error}"
        );
        world.serves_others().await;
    });
}

#[test]
fn who_is_slow_on_purpose_is_cut_off() {
    run(async {
        let world = World::with(strict());
        // One client sends nothing after the handshake, one a hello that never ends, one a frame
        // that never ends.
        let silent = world.raw().await;
        let mut slow = world.raw().await;
        slow.send.write_all(&[0, 0, 1]).await.unwrap();
        let mut accepted = world.raw().await;
        accepted.say(&hello("m1").into()).await;
        let peer = world.listener.next().await.unwrap();
        let mut master = peer.accept(welcome()).await.unwrap();
        accepted.send.write_all(&[0, 0, 1]).await.unwrap();
        world.serves_others().await;
        let error = master.next().await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Deadline {
                    wait: Wait::Frame,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(silent.closed().await, "deadline");
        assert_eq!(slow.closed().await, "deadline");
        drop(master);
        soon(|| world.listener.connections() == 0).await;
    });
}

#[test]
fn streams_are_counted() {
    run(async {
        let world = World::with(Limits {
            streams_max: 4,
            ..patient()
        });
        // A pending peer may have one stream.
        let (raw, peer) = world.pending("m1").await;
        let second = raw.connection.open_bi();
        assert!(stream::within(ms(200), second).await.is_none());
        let mut master = peer.accept(welcome()).await.unwrap();
        let mut open = Vec::new();
        while let Some(Ok(streams)) = stream::within(ms(200), raw.connection.open_bi()).await {
            open.push(streams);
            assert!(open.len() < 10);
        }
        // The control stream counts as one of them until it ends.
        assert!((3..=4).contains(&open.len()), "{}", open.len());
        world.serves_others().await;
        // No frame arrives on these streams, and the master does not wait for one.
        let (mut send, mut receive) = open.pop().unwrap();
        let (mut send2, _receive2) = open.pop().unwrap();
        send2.write_all(&[0]).await.unwrap();
        let mut bytes = Vec::new();
        Frame::from(Ping {})
            .encode(wire::Limits::HELLO, &mut bytes)
            .unwrap();
        send.write_all(&bytes).await.unwrap();
        let Ok(Incoming::Question(question)) = master.next().await else {
            panic!("no question")
        };
        question.done(1).await.unwrap();
        hear(&mut receive).await;
    });
}

/// A7: another connection, with another key, repeats the hello of the first one.
#[test]
fn a_hello_is_worth_nothing_with_another_key() {
    run(async {
        let world = World::new();
        let (raw, first) = world.pending("m1").await;
        let (again, second) = world.pending("m1").await;
        assert_eq!(first.hello(), second.hello());
        assert_ne!(first.key(), second.key());
        // A second hello on one connection is rejected as well.
        let mut master = first.accept(welcome()).await.unwrap();
        let mut raw = raw;
        raw.say(&hello("m2").into()).await;
        assert!(master.next().await.is_err());
        drop((second, again));
    });
}

#[test]
fn connections_and_pending_keys_of_one_address_are_counted() {
    run(async {
        let world = World::with(Limits {
            pending_per_address: 2,
            ..patient()
        });
        let (_raw1, peer1) = world.pending("m1").await;
        let (_raw2, peer2) = world.pending("m2").await;
        let mut raw = world.raw().await;
        raw.say(&hello("m3").into()).await;
        let mut peer = world.listener.next().await.unwrap();
        let error = peer.pend("wait").await.unwrap_err();
        assert!(
            error.to_string().contains("(pending_per_address)"),
            "{error}"
        );
        peer.refuse("full", "too many keys wait", Some(60));
        assert!(matches!(
            raw.hear().await,
            Frame::Control(wire::Control::Refused(_))
        ));
        assert_eq!(world.listener.pending(), 2);
        drop((peer1, peer2));
        assert_eq!(world.listener.pending(), 0);

        let world = World::with(Limits {
            connections_per_address: 2,
            ..patient()
        });
        let (_one, _two) = (world.raw().await, world.raw().await);
        let third = KeyPair::generate().unwrap();
        assert!(
            Raw::connect(world.address(), &third, wire::ALPN)
                .await
                .is_err()
        );
    });
}

/// A flood of handshakes. Beyond a number of them, each address must prove itself first; an honest
/// client does so automatically.
#[test]
fn unproved_addresses_must_send_a_token_back() {
    run(async {
        let world = World::with(Limits {
            unproved_max: 0,
            ..patient()
        });
        world.serves_others().await;
        let world = World::with(Limits {
            handshakes_per_address: 2,
            unproved_max: 100,
            ..strict()
        });
        let (_silent, _silent2) = (world.raw().await, world.raw().await);
        let pair = KeyPair::generate().unwrap();
        let third = Raw::connect(world.address(), &pair, wire::ALPN);
        assert!(stream::within(STRICT / 2, third).await.is_none());
        // The places are free after the handshakes' deadline.
        Timer::after(STRICT + ms(500)).await;
        world.serves_others().await;
    });
}

/// R12: a peer that reads nothing.
#[test]
fn a_slow_reader_holds_up_nobody_and_is_cut_off() {
    run(async {
        let world = World::with(Limits {
            queue: 4,
            ..strict()
        });
        let mut raw = world.raw().await;
        raw.say(&hello("m1").into()).await;
        let peer = world.listener.next().await.unwrap();
        let master = peer.accept(welcome()).await.unwrap();
        let handle = master.handle();
        let flood = smol::spawn(async move {
            let mut sent = 0_u64;
            while handle.bye(&"x".repeat(60_000), None).await.is_ok() {
                sent += 1;
            }
            sent
        });
        world.serves_others().await;
        let sent = flood.await;
        assert!(sent < 60, "{sent}");
        assert_eq!(raw.closed().await, "deadline");
    });
}

#[test]
fn large_frames_share_their_room() {
    run(async {
        let world = World::with(Limits {
            large_bytes_max: 400_000,
            large_bytes_per_key: 300_000,
            streams_max: 8,
            frame: 4 * STRICT,
            ..strict()
        });
        let (minion, mut master) = world.connected("m1").await;
        let masters = smol::spawn(async move {
            let mut count = 0;
            while let Ok(Incoming::Question(question)) = master.next().await {
                question.done(true).await.unwrap();
                count += 1;
            }
            count
        });
        let ask = |size: usize| {
            let (handle, data) = (minion.handle(), Map::new().with("x", "x".repeat(size)));
            smol::spawn(async move {
                handle
                    .ask(wire::Grains { grains: data })
                    .await?
                    .done()
                    .await
            })
        };
        // Four of them do not fit at once, so some wait for their turn.
        let all: Vec<_> = (0..4).map(|_| ask(200_000)).collect();
        for one in all {
            one.await.unwrap();
        }
        let error = ask(400_000).await.unwrap_err();
        assert!(
            matches!(
                &error,
                Error::Failed { .. } | Error::Lost { .. } | Error::Deadline { .. }
            ),
            "{error}"
        );
        minion.handle().close("");
        assert_eq!(masters.await, 4);
    });
}

#[test]
fn an_accepted_minion_that_asks_nothing_allowed_is_told() {
    run(async {
        let world = World::new();
        let (minion, mut master) = world.connected("m1").await;
        smol::spawn(async move { while master.next().await.is_ok() {} }).detach();
        // Only masters may send `running`.
        let error = minion
            .handle()
            .ask(Running {})
            .await
            .map(|_| ())
            .unwrap_err();
        assert_eq!(
            error.to_string().split(": ").last(),
            Some("this side may not send `running`")
        );
    });
}
