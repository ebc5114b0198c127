use std::net::UdpSocket;

use super::*;

const TIME: Duration = Duration::from_secs(5);

fn pool(
    pair: &KeyPair,
    is_member: impl Fn(&PublicKey) -> bool + Send + Sync + 'static,
) -> Arc<Pool> {
    let address = "127.0.0.1:0".parse().unwrap();
    Arc::new(Pool::bind(address, pair, Arc::new(is_member)).unwrap())
}

/// Answers each request with its bytes in reverse.
fn answers(pool: &Arc<Pool>) {
    let pool = pool.clone();
    smol::spawn(async move {
        while let Some(request) = pool.next().await {
            let reversed: Vec<u8> = request.bytes.iter().rev().copied().collect();
            request.answer(&reversed).await;
        }
    })
    .detach();
}

#[test]
fn masters_ask_each_other() {
    let [one, other, stranger] = [(); 3].map(|()| KeyPair::generate().unwrap());
    let known = one.public();
    let server = pool(&other, move |key| *key == known);
    answers(&server);
    let address = server.address().unwrap();
    smol::block_on(async {
        let client = pool(&one, |_| false);
        for message in [b"abc".to_vec(), vec![7; 3 << 20]] {
            let answer = client
                .ask((address, other.public(), Lane::Log), &message, TIME)
                .await;
            let wanted: Vec<u8> = message.iter().rev().copied().collect();
            assert_eq!(answer, Ok(wanted));
        }
        // Attack: another key of the master.
        let wrong = client
            .ask((address, stranger.public(), Lane::Log), b"abc", TIME)
            .await;
        let wrong = wrong.unwrap_err().to_string();
        assert!(wrong.contains("it has the key"), "{wrong}");
    });
}

#[test]
fn a_stranger_has_one_short_request_and_both_ends_export_the_same_bytes() {
    let [member, stranger] = [(); 2].map(|()| KeyPair::generate().unwrap());
    let server = pool(&member, |_| false);
    let address = server.address().unwrap();
    smol::spawn(async move {
        while let Some(request) = server.next().await {
            let exported = request.exported;
            assert!(!request.is_member);
            request.answer(&exported).await;
        }
    })
    .detach();
    smol::block_on(async {
        let client = pool(&stranger, |_| false);
        let fingers = [member.public().finger()];
        let asked = client
            .ask_unknown(address, &fingers, |_| b"join".to_vec())
            .await;
        let (answered, exported) = asked.unwrap();
        assert_eq!(answered.key, member.public());
        assert_eq!(answered.bytes, exported);
        // Attack: a request that is too long, and a second one on the same connection.
        let long = vec![1; STRANGER_MAX + 1];
        assert!(client.ask_unknown(address, &[], |_| long).await.is_err());
        let first = client
            .ask((address, member.public(), Lane::Log), b"a", TIME)
            .await;
        assert!(first.is_ok(), "{first:?}");
        let short = Duration::from_millis(300);
        assert!(
            client
                .ask((address, member.public(), Lane::Log), b"b", short)
                .await
                .is_err()
        );
        // Attack: another master.
        let fingers = [stranger.public().finger()];
        let wrong = client.ask_unknown(address, &fingers, |_| Vec::new());
        let wrong = wrong.await.unwrap_err().to_string();
        assert!(wrong.contains("it has the key"), "{wrong}");
    });
}

/// Connects with another protocol, and returns the text of the error.
async fn connect_with(protocol: &[u8], address: SocketAddr) -> String {
    let pair = KeyPair::generate().unwrap();
    let crypto = tls::client(&pair, protocol, Pinned::new(Vec::new())).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let runtime = Arc::new(OnSmol::default());
    let endpoint = Endpoint::new(EndpointConfig::default(), None, socket, runtime).unwrap();
    let config = ClientConfig::new(Arc::new(crypto));
    let connecting = endpoint.connect_with(config, address, "pinch").unwrap();
    connecting.await.unwrap_err().to_string()
}

#[test]
fn other_versions_of_the_protocol_are_refused_and_named() {
    let [one, member] = [(); 2].map(|()| KeyPair::generate().unwrap());
    let server = pool(&member, |_| true);
    answers(&server);
    let address = server.address().unwrap();
    smol::block_on(async {
        // Attacks: an older and a newer version, the protocol of minions, and none.
        for protocol in [
            b"pinch-cluster/0".as_slice(),
            b"pinch-cluster/2",
            wire::ALPN,
            b"h3",
        ] {
            let error = connect_with(protocol, address).await;
            assert!(error.contains("handshake failed"), "{error}");
        }
        // The same from a master of this release, which connects to one of another release.
        let crypto = tls::server(&member, b"pinch-cluster/2").unwrap();
        let config = ServerConfig::with_crypto(Arc::new(crypto));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let runtime = Arc::new(OnSmol::default());
        let of_later = socket.local_addr().unwrap();
        let later = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime);
        let later = later.unwrap();
        smol::spawn(async move {
            while let Some(incoming) = later.accept().await {
                incoming.accept().unwrap().await.ok();
            }
        })
        .detach();
        let client = pool(&one, |_| false);
        let refused = client
            .ask((of_later, member.public(), Lane::Log), b"ab", TIME)
            .await;
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("it does not speak pinch-cluster/1"),
            "{refused}"
        );
        let message = client
            .ask((address, member.public(), Lane::Log), b"ab", TIME)
            .await;
        assert_eq!(message, Ok(b"ba".to_vec()));
    });
}

#[test]
fn a_request_of_a_member_is_limited_and_the_others_are_served() {
    let [one, member] = [(); 2].map(|()| KeyPair::generate().unwrap());
    let server = pool(&member, |_| true);
    answers(&server);
    let address = server.address().unwrap();
    smol::block_on(async {
        let client = pool(&one, |_| false);
        let long = vec![7; MESSAGE_MAX + 1];
        let refused = client
            .ask((address, member.public(), Lane::Log), &long, TIME)
            .await;
        assert!(refused.is_err(), "{refused:?}");
        let answer = client
            .ask((address, member.public(), Lane::Log), b"ab", TIME)
            .await;
        assert_eq!(answer, Ok(b"ba".to_vec()));
    });
}

#[test]
fn a_request_without_an_answer_does_not_end_a_long_one() {
    let [one, other] = [(); 2].map(|()| KeyPair::generate().unwrap());
    smol::block_on(async {
        let (client, server) = (pool(&one, |_| false), pool(&other, |_| true));
        let (address, key) = (server.address().unwrap(), other.public());
        let long = client.ask((address, key, Lane::Bulk), b"long", TIME);
        let short = async {
            let held = server.next().await.unwrap();
            let time = Duration::from_millis(100);
            let lost = client.ask((address, key, Lane::Log), b"short", time).await;
            held.answer(b"done").await;
            lost
        };
        let (long, lost) = smol::future::zip(long, short).await;
        assert_eq!((long, lost.is_err()), (Ok(b"done".to_vec()), true));
    });
}

#[test]
fn many_requests_for_minions_that_wait_hold_up_no_message_of_the_log() {
    let [one, other] = [(); 2].map(|()| KeyPair::generate().unwrap());
    smol::block_on(async {
        let (client, server) = (pool(&one, |_| false), pool(&other, |_| true));
        let (address, key) = (server.address().unwrap(), other.public());
        let held: Vec<_> = (0..2 * STREAMS_MAX)
            .map(|_| {
                let client = client.clone();
                let to = (address, key, Lane::Minions);
                smol::spawn(async move { client.ask(to, b"minion", TIME).await })
            })
            .collect();
        let mut waiting = Vec::new();
        while waiting.len() < STREAMS_MAX as usize {
            waiting.push(server.next().await.unwrap());
        }
        let to = (address, key, Lane::Log);
        let log = client.ask(to, b"log", TIME);
        let answered = async {
            let request = server.next().await.unwrap();
            assert_eq!(request.bytes, b"log");
            request.answer(b"done").await;
        };
        let (log, ()) = smol::future::zip(log, answered).await;
        assert_eq!(log, Ok(b"done".to_vec()));
        drop((held, waiting));
    });
}

#[test]
fn a_restarted_master_is_reached_again() {
    let [one, other] = [(); 2].map(|()| KeyPair::generate().unwrap());
    smol::block_on(async {
        let client = pool(&one, |_| false);
        let server = pool(&other, |_| true);
        answers(&server);
        let address = server.address().unwrap();
        let key = other.public();
        assert!(
            client
                .ask((address, key, Lane::Log), b"a", TIME)
                .await
                .is_ok()
        );
        server.close();
        server.endpoint.wait_idle().await;
        drop(server);
        let short = Duration::from_millis(300);
        assert!(
            client
                .ask((address, key, Lane::Log), b"b", short)
                .await
                .is_err()
        );
        let again = loop {
            match Pool::bind(address, &other, Arc::new(|_: &PublicKey| true)) {
                Ok(again) => break Arc::new(again),
                // The task that accepts connections still holds the socket.
                Err(_) => crate::wait::pause(Duration::from_millis(10)).await,
            }
        };
        answers(&again);
        assert_eq!(
            client.ask((address, key, Lane::Log), b"cd", TIME).await,
            Ok(b"dc".to_vec())
        );
    });
}
