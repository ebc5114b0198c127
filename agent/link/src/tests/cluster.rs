//! Tests of a minion with the masters of a cluster.

use super::*;

fn one_master() -> wire::Masters {
    let master = Map::new()
        .with("name", "m1")
        .with("address", "127.0.0.1:4506");
    wire::Masters {
        index: 3,
        masters: vec![master.into()],
    }
}

#[test]
fn only_a_minion_that_understands_the_masters_is_sent_them() {
    run(async {
        let world = World::new();
        for features in [Vec::new(), vec![wire::MASTERS.to_owned()]] {
            let mut options = world.options("m1");
            let takes = !features.is_empty();
            options.hello.features = features;
            let mut session = Session::new(options);
            let minion = smol::spawn(async move { session.connect(&mut |_| ()).await.0 });
            let (mut minion, master) = let_in(&world.listener, minion).await;
            let handle = master.handle();
            assert_eq!(handle.takes_masters(), takes);
            handle.masters(one_master()).await.unwrap();
            handle.ack(1).await.unwrap();
            let first = minion.next().await.unwrap();
            match takes {
                true => assert!(matches!(first, Incoming::Masters(got) if got == one_master())),
                false => assert!(matches!(first, Incoming::Ack(1)), "{first:?}"),
            }
        }
    });
}
