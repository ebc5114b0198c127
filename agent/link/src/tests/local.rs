use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;

use super::*;
use crate::unix::{Local, LocalListener, LocalRequest, Pipe};
use value::Value;
use wire::{FindJob, Fire, Listen, Way, Wheel};

#[test]
fn a_command_asks_the_master_of_its_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("master.sock");
    let listener = LocalListener::bind(&path, Way::ClientToMaster, patient()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let server = smol::spawn(async move {
        let mut local = listener.next().await.unwrap();
        let (user, process) = local.who().process.unwrap();
        assert_eq!(user, rustix::process::geteuid().as_raw());
        assert_eq!(process, std::process::id() as i32);
        let mut seen = Vec::new();
        while let Some(said) = local.next().await.unwrap() {
            match said {
                LocalRequest::Event(event) => seen.push(event.tag),
                LocalRequest::Request(wire::Request::Wheel(wheel)) => {
                    local.done(wheel.fun).await.unwrap();
                }
                LocalRequest::Request(wire::Request::Listen(_)) => {
                    local.data("one").await.unwrap();
                    local.data("two").await.unwrap();
                    local.done(Value::Null).await.unwrap();
                }
                LocalRequest::Request(request) => {
                    local.fail("missing", request.kind()).await.unwrap();
                }
            }
        }
        seen
    });
    let mut pipe = Pipe::connect(&path, Way::ClientToMaster, patient()).unwrap();
    let wheel = Wheel {
        fun: "key.accept".into(),
        arg: Vec::new(),
    };
    assert_eq!(pipe.call(wheel).unwrap(), Value::from("key.accept"));
    pipe.event(event(0)).unwrap();
    pipe.ask(Listen {
        tags: Vec::new(),
        from: None,
        since_ms: None,
        until_ms: None,
    })
    .unwrap();
    assert_eq!(pipe.next(None).unwrap(), Part::Data("one".into()));
    assert_eq!(pipe.next(Some(HELD_UP)).unwrap(), Part::Data("two".into()));
    assert_eq!(pipe.next(None).unwrap(), Part::Done(Value::Null));
    let error = pipe
        .call(Fire {
            tag: "x".into(),
            data: Map::new(),
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "fire");
    // A command may not send a request that only minions get.
    let error = pipe.call(FindJob { jid: String::new() }).unwrap_err();
    assert!(matches!(error, Error::NotAllowed { .. }), "{error}");
    let began = Instant::now();
    assert!(matches!(
        pipe.next(Some(ms(100))),
        Err(Error::Deadline { .. })
    ));
    assert!(began.elapsed() < HELD_UP);
    drop(pipe);
    assert_eq!(run(server), ["my/own"]);
}

fn a_job() -> wire::Job {
    wire::Job {
        jid: "1".into(),
        fun: "test.ping".into(),
        arg: Vec::new(),
        tgt: "*".into(),
        tgt_type: "glob".into(),
        ret: String::new(),
        user: "root".into(),
        options: Map::new(),
    }
}

#[test]
fn a_living_socket_is_left_alone_and_a_dead_one_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let first = LocalListener::bind(&path, Way::ClientToMinion, patient()).unwrap();
    assert!(LocalListener::bind(&path, Way::ClientToMinion, patient()).is_err());
    drop(first);
    assert!(!path.exists());
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    LocalListener::bind(&path, Way::ClientToMinion, patient()).unwrap();
}

#[test]
fn a_job_speaks_with_its_daemon_over_a_pair() {
    let (one, two) = UnixStream::pair().unwrap();
    let job = std::thread::spawn(move || {
        let mut pipe = Pipe::of_job(one, patient()).unwrap();
        assert_eq!(pipe.given().unwrap().jid, "1");
        let push = wire::Push {
            path: "/x".into(),
            size: 2,
            hash: String::new(),
        };
        pipe.ask(push).unwrap();
        pipe.data(Value::Bytes(b"ab".as_slice().into())).unwrap();
        pipe.sent().unwrap();
        pipe.next(None)
    });
    run(async {
        let mut local = Local::of_job(two, patient()).unwrap();
        local.give(a_job()).await.unwrap();
        assert!(matches!(
            local.next().await,
            Ok(Some(LocalRequest::Request(wire::Request::Push(_))))
        ));
        assert!(matches!(
            local.part().await,
            Ok(Part::Data(Value::Bytes(_)))
        ));
        assert!(matches!(local.part().await, Ok(Part::Done(_))));
        local.done(2).await.unwrap();
    });
    assert_eq!(job.join().unwrap().unwrap(), Part::Done(2.into()));
}

#[test]
fn garbage_from_a_local_process_ends_its_connection_alone() {
    use std::io::Write;
    let (mut one, two) = UnixStream::pair().unwrap();
    one.write_all(&[0xff; 100]).unwrap();
    let error = run(async {
        Local::of_job(two, patient())
            .unwrap()
            .next()
            .await
            .map(|_| ())
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("process {} of user", std::process::id())),
        "{error}"
    );
}
