//! A master of Salt itself: `SALT_VENV=DIR cargo test -p saltlink -- --ignored`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use link::wait::{pause, within};
use value::{Map, Value};

use crate::{Error, Identity, Joined, Session, Settings, Transport, join};

/// The time that the master and its programs have.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running master, in a folder.
struct Master {
    child: Child,
    folder: tempfile::TempDir,
    settings: Settings,
    venv: PathBuf,
}

impl Master {
    fn start(transport: Transport, more: &str) -> Self {
        let venv = PathBuf::from(std::env::var_os("SALT_VENV").expect("set SALT_VENV"));
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().display();
        let free = || {
            TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap()
                .port()
        };
        let (ret, publish) = (free(), free());
        let name = match transport {
            Transport::ZeroMq => "zeromq",
            Transport::Tcp => "tcp",
        };
        let config = format!(
            "root_dir: {root}\npki_dir: {root}/pki\nsock_dir: {root}/run\ninterface: 127.0.0.1\n\
             user: root\nret_port: {ret}\npublish_port: {publish}\ntransport: {name}\n\
             worker_threads: 2\nfile_roots: {{base: [{root}/srv]}}\n\
             pillar_roots: {{base: [{root}/pillar]}}\nloop_interval: 1\n{more}"
        );
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("master", &config);
        put("srv/hello.txt", "hello");
        put("pillar/top.sls", "base: {'*': [data]}");
        put("pillar/data.sls", "secret: grüße");
        let mut settings = Settings::new("m1", "127.0.0.1", folder.path().join("minion"));
        settings.ret_port = ret;
        settings.transport = transport;
        let child = Command::new(venv.join("bin/salt-master"))
            .args(["-l", "debug", "-c"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(folder.path().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            folder,
            settings,
            venv,
        }
    }

    fn run(&self, program: &str, words: &[&str]) -> String {
        let output = Command::new(self.venv.join("bin").join(program))
            .arg("-c")
            .arg(self.folder.path())
            .args(words)
            .output()
            .unwrap();
        let all = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&all).into_owned()
    }

    fn path(&self, below: &str) -> PathBuf {
        Path::join(self.folder.path(), below)
    }

    /// Joins until the answer is the wanted one.
    async fn join(&self, identity: &Identity, wanted: fn(&Joined) -> bool) -> Joined {
        let start = Instant::now();
        loop {
            match join(&self.settings, identity).await {
                Ok(joined) if wanted(&joined) => return joined,
                other => assert!(start.elapsed() < PATIENCE, "{other:?}"),
            }
            pause(Duration::from_millis(500)).await;
        }
    }

    async fn session(&self, identity: &Identity) -> Session {
        let joined = self.join(identity, |joined| matches!(joined, Joined::Accepted(_)));
        match joined.await {
            Joined::Accepted(session) => session,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // SIGTERM, so that the master ends its processes.
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        drop(self.child.wait());
    }
}

async fn publications(master: &Master, session: &Session) {
    let (venv, folder) = (master.venv.clone(), master.folder.path().to_owned());
    let publish = move |fun: &'static str| {
        let mut salt = Command::new(venv.join("bin/salt"));
        salt.arg("-c").arg(&folder).args(["--async", "*", fun]);
        std::thread::spawn(move || salt.output())
    };
    let mut jids = Vec::new();
    for fun in ["test.ping", "test.version"] {
        let sent = publish(fun);
        loop {
            let next = within(PATIENCE, session.next_publication())
                .await
                .unwrap()
                .unwrap();
            if next.fun == [fun] {
                assert!((next.tgt, next.tgt_type.as_str()) == ("*".into(), "glob"));
                jids.push(next.jid);
                break;
            }
        }
        sent.join().unwrap().unwrap();
    }
    assert!(jids[0] != jids[1]);
}

fn grains() -> Map {
    Map::new().with("id", "m1").with("os", "Debian")
}

fn pillar_load() -> Map {
    Map::new()
        .with("grains", grains())
        .with("saltenv", "base")
        .with("pillarenv", Value::Null)
        .with("pillar_override", Map::new())
        .with("extra_minion_data", Map::new())
        .with("ver", "2")
}

async fn requests(session: &Session) {
    let saltenv = || Map::new().with("saltenv", "base");
    let files = session
        .request("_file_list", saltenv().with("prefix", ""))
        .await
        .unwrap();
    assert_eq!(files, Value::list(["hello.txt".into()]));
    let file = saltenv().with("path", "hello.txt").with("loc", 0);
    let served = session.request("_serve_file", file).await.unwrap();
    assert_eq!(served.get("data"), Some(&"hello".into()));
    let pillar = session.pillar(pillar_load()).await.unwrap();
    assert_eq!(pillar.get("secret"), Some(&"grüße".into()));
    let event = Map::new()
        .with("tag", "salt/minion/m1/start")
        .with("data", "started")
        .with("pretag", Value::Null);
    session.request("_minion_event", event).await.unwrap();
    let unknown = session.request("_no_such_request", Map::new()).await;
    assert!(
        matches!(
            unknown,
            Ok(Value::Map(_) | Value::Null) | Err(Error::Refused { .. })
        ),
        "{unknown:?}"
    );
}

fn whole(transport: Transport, algo: &str, more: &str) {
    let mut master = Master::start(transport, more);
    master.settings.enc_algo = crate::EncAlgo::parse(&format!("OAEP-{algo}")).unwrap();
    master.settings.sig_algo = crate::SigAlgo::parse(&format!("PKCS1v15-{algo}")).unwrap();
    let identity = Identity::load(&master.settings).unwrap();
    smol::block_on(async {
        master
            .join(&identity, |joined| matches!(joined, Joined::Pending))
            .await;
        let fingers = identity.fingers("sha256").unwrap();
        let shown = master.run("salt-key", &["-f", "m1"]);
        assert!(shown.contains(&fingers[1]), "{shown}: {fingers:?}");
        master.run("salt-key", &["-y", "-a", "m1"]);
        let session = master.session(&identity).await;
        requests(&session).await;
        publications(&master, &session).await;
        // Minutes without a message but the probes of both sides.
        if let Some(minutes) = std::env::var("SALT_IDLE")
            .ok()
            .and_then(|text| text.parse::<u32>().ok())
        {
            let idle = within(
                Duration::from_secs(60) * minutes,
                session.next_publication(),
            )
            .await;
            assert!(idle.is_none(), "{idle:?}");
            publications(&master, &session).await;
        }
        // The fleet gets a new key when one is deleted.
        let mut other = master.settings.clone();
        (other.id, other.pki_dir) = ("m2".to_owned(), master.path("other"));
        let key = Identity::load(&other).unwrap();
        assert!(matches!(join(&other, &key).await, Ok(Joined::Pending)));
        master.run("salt-key", &["-y", "-a", "m2"]);
        assert!(matches!(join(&other, &key).await, Ok(Joined::Accepted(_))));
        master.run("salt-key", &["-y", "-d", "m2"]);
        pause(Duration::from_secs(5)).await;
        publications(&master, &session).await;
        requests(&session).await;
    });
}

#[test]
#[ignore = "needs a Salt (SALT_VENV)"]
fn a_master_of_salt_over_zeromq() {
    whole(Transport::ZeroMq, "SHA1", "");
}

#[test]
#[ignore = "needs a Salt (SALT_VENV)"]
fn a_master_of_salt_over_tcp() {
    whole(
        Transport::Tcp,
        "SHA224",
        "publish_signing_algorithm: PKCS1v15-SHA224\n",
    );
}
