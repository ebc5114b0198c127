//! Connections: frames that are no frames, bombs, slow and silent masters, probes.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use link::wait::pause;
use value::Map;

use super::master::{Master, Reaction, framed};
use crate::{Error, Kind, Transport};

/// The error of a request to which these bytes are the answer.
fn error_of(transport: Transport, bytes: &[u8]) -> Error {
    let mut master = Master::start(transport);
    master.settings.request_timeout = Duration::from_secs(20);
    let bytes = bytes.to_vec();
    smol::block_on(async {
        let session = master.session().await;
        master.change(move |_, _, _| Reaction::Bytes(bytes.clone()));
        session.request("_file_hash", Map::new()).await.unwrap_err()
    })
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_arrives() {
    let long = |length: u64| [&[2][..], &length.to_be_bytes()].concat();
    for bytes in [
        long(u64::MAX),
        long(17 << 20),
        [&[6][..], &(2048_u64.to_be_bytes())].concat(),
    ] {
        let error = error_of(Transport::ZeroMq, &bytes);
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(error.to_string().contains("limit"), "{error}");
    }
    // Many parts without an end.
    let error = error_of(Transport::ZeroMq, &[1, 0].repeat(9));
    assert!(error.to_string().contains("too many parts"), "{error}");
    let error = error_of(Transport::ZeroMq, &[0xf0, 0]);
    assert!(error.to_string().contains("unknown flags"), "{error}");
}

#[test]
fn a_frame_that_ends_early_is_a_lost_connection() {
    let whole = framed(Transport::ZeroMq, "", b"\xa5hello");
    for length in 0..whole.len() {
        let error = error_of(Transport::ZeroMq, &whole[..length]);
        assert_eq!(error.kind(), Kind::Lost, "{length}: {error}");
    }
    for bytes in [
        b"".as_slice(),
        b"\x82",
        b"\x82\xa4head\x80\xa4body\xdb\x00\xff\xff\xff12",
    ] {
        let error = error_of(Transport::Tcp, bytes);
        assert_eq!(error.kind(), Kind::Lost, "{error}");
    }
}

#[test]
fn bombs_of_msgpack_are_refused() {
    let bombs: [&[u8]; 5] = [
        // 300 levels.
        &[0x91; 300],
        // Four billion items, entries and bytes, of which none arrives.
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        // No value at all.
        b"\xc1",
    ];
    for bomb in bombs {
        let error = error_of(Transport::ZeroMq, &framed(Transport::ZeroMq, "", bomb));
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
    }
    let head = b"\x82\xa4head\x80\xa4body";
    for bomb in [[0x91; 300].as_slice(), b"\xc1"] {
        let error = error_of(Transport::Tcp, &[head, bomb].concat());
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
    }
    // 300,000 items in a list that claims more.
    let many = [b"\xdd\x7f\xff\xff\xff".as_slice(), &[0xc0; 300_000]].concat();
    for (transport, bytes) in [
        (Transport::ZeroMq, framed(Transport::ZeroMq, "", &many)),
        (Transport::Tcp, [head.as_slice(), &many].concat()),
    ] {
        let error = error_of(transport, &bytes);
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
    }
}

#[test]
fn an_answer_with_another_number_is_refused() {
    let other = framed(Transport::Tcp, "other", b"\xa2ok");
    let error = error_of(Transport::Tcp, &other);
    assert!(error.to_string().contains("another request"), "{error}");
}

#[test]
fn a_slow_master_does_not_get_more_time() {
    for transport in [Transport::ZeroMq, Transport::Tcp] {
        let mut master = Master::start(transport);
        master.settings.request_timeout = Duration::from_secs(1);
        smol::block_on(async {
            let session = master.session().await;
            master.change(|_, _, _| Reaction::Slowly(b"\x01\0\0\xffx".repeat(100)));
            let error = session.request("_file_hash", Map::new()).await.unwrap_err();
            assert!(
                matches!(error, Error::Silent { .. } | Error::Protocol { .. }),
                "{error}"
            );
            // The connection is not used again.
            master.change(|_, _, answer| Reaction::Answer(answer));
            session.request("_file_hash", Map::new()).await.unwrap();
        });
    }
}

#[test]
fn a_peer_that_is_no_master_is_named() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut master = Master::start(Transport::ZeroMq);
    master.settings.ret_port = other.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = other.accept().unwrap();
        stream
            .write_all(
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            )
            .unwrap();
        pause_forever();
    });
    let error = smol::block_on(master.join()).unwrap_err();
    assert!(
        error.to_string().contains("no greeting of ZeroMQ"),
        "{error}"
    );
    master.settings.ret_port = 1;
    let error = smol::block_on(master.join()).unwrap_err();
    assert_eq!(error.kind(), Kind::Lost, "{error}");
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

fn pause_forever() {
    std::thread::park();
}

#[test]
fn probes_are_answered_while_there_is_no_request() {
    let master = Master::start(Transport::ZeroMq);
    smol::block_on(async {
        let _session = master.session().await;
        let start = Instant::now();
        while master.pongs.load(Ordering::Relaxed) == 0 {
            assert!(start.elapsed() < Duration::from_secs(60));
            pause(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn a_command_opens_no_channel_of_publications() {
    for transport in [Transport::ZeroMq, Transport::Tcp] {
        let mut master = Master::start(transport);
        master.settings.publications = false;
        smol::block_on(async {
            let session = master.session().await;
            session.request("_file_hash", Map::new()).await.unwrap();
        });
        assert_eq!(master.peers.publications.lock().unwrap().len(), 0);
        master.settings.publications = true;
        smol::block_on(master.session());
        let start = Instant::now();
        while master.peers.publications.lock().unwrap().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn connections_come_from_the_address_that_is_named() {
    let mut master = Master::start(Transport::ZeroMq);
    let source = [127, 0, 0, 9].into();
    master.settings.source = Some(source);
    smol::block_on(async {
        let session = master.session().await;
        session.request("_file_hash", Map::new()).await.unwrap();
        master.publish(&"not sealed".into());
        let start = Instant::now();
        while master.peers.publications.lock().unwrap().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(60));
            pause(Duration::from_millis(10)).await;
        }
    });
    for peers in [&master.peers.requests, &master.peers.publications] {
        let peers = peers.lock().unwrap();
        assert!(peers.iter().all(|peer| *peer == source), "{peers:?}");
    }
    // An address of another machine, and one of the other family.
    for source in ["192.0.2.1", "::1"] {
        master.settings.source = Some(source.parse().unwrap());
        let error = smol::block_on(master.join()).unwrap_err();
        assert_eq!(error.kind(), Kind::Lost, "{error}");
        assert!(error.to_string().contains("source_address"), "{error}");
    }
}
