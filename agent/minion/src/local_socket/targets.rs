//! [`OfMinion`]: the questions of a job or command that go to the daemon, or through it to the
//! master.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use link::Part;
use machine::hashes;
use modules::state_run::orchestrate::ThisMachine;
use state::ask::Ask;
use state::exec::Exec;
use state::module;
use state::targets::{MinionReturn, Sink, Subscription, Targets};
use value::{Map, Value, log, secret};
use wire::{Refresh, Request};

use super::{ANSWER, Error, Uplink};

/// This machine as the target of the orchestrations that it runs. Its events go to the master.
#[derive(Debug)]
pub struct OfMinion(Uplink);

impl OfMinion {
    /// Creates the target. Its events go through this daemon.
    #[must_use]
    pub fn new(daemon: Uplink) -> Self {
        Self(daemon)
    }
}

impl Targets for OfMinion {
    fn resolve(
        &self,
        cx: &Exec,
        tgt: &Value,
        tgt_type: &str,
    ) -> Result<Vec<String>, module::Error> {
        ThisMachine.resolve(cx, tgt, tgt_type)
    }

    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, module::Error> {
        ThisMachine.run(cx, ids, fun, args, kwargs)
    }

    fn fire(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), module::Error> {
        if let Err(error) = ThisMachine.fire(cx, tag, data.clone()) {
            log::debug(format_args!(
                "cannot fire the event {tag} on the local event bus: {error}"
            ));
        }
        // The daemon answers when the event is on disk. An event that is only written to a socket
        // may be lost if the reader dies.
        let (tag, data) = (secret::text(tag).into_owned(), secret::event(data));
        let kept = self.0.call(wire::Fire { tag, data });
        let refused = |error| {
            module::Error::refused(format!("the minion daemon cannot store the event: {error}"))
        };
        kept.map(drop).map_err(refused)
    }

    fn subscribe(
        &self,
        cx: &Exec,
        from: Option<u64>,
        sink: Sink,
    ) -> Result<Box<dyn Subscription>, module::Error> {
        ThisMachine.subscribe(cx, from, sink)
    }

    fn ask(&self, _cx: &Exec, ask: Ask) -> Result<Option<Value>, module::Error> {
        if let Ask::Push { file, path } = &ask {
            return push(&self.0, file, path).map(Some);
        }
        let is_publish = matches!(ask, Ask::Publish { .. });
        // There is no request for the master's wheel: on a minion, wheel functions are this
        // machine's own.
        let Some(request) = request(ask) else {
            return Ok(None);
        };
        let mut parts = Vec::new();
        let mut take = |part| {
            parts.push(part);
            Ok(())
        };
        let asked = self.0.parts(request, &mut take);
        let (end, taken) = asked.map_err(|error| module::Error::refused(error.to_string()))?;
        taken.map_err(module::Error::io("the daemon's answer"))?;
        Ok(Some(if is_publish { parts.into() } else { end }))
    }
}

/// The number of bytes of a file that are sent in one frame.
const PIECE: usize = 64 << 10;

/// Sends a file to the master.
fn push(uplink: &Uplink, file: &Path, path: &str) -> Result<Value, module::Error> {
    let said = |error: Error| module::Error::refused(error.to_string());
    let mut open = File::open(file).map_err(module::Error::io(file))?;
    let size = open.metadata().map_err(module::Error::io(file))?.len();
    let hash = hashes::of_file(&file.to_string_lossy(), "sha256")?;
    let mut socket = uplink.socket();
    let pipe = socket.open().map_err(said)?;
    let path = path.to_owned();
    pipe.ask(wire::Push { path, size, hash }).map_err(said)?;
    let mut piece = vec![0; PIECE];
    loop {
        let length = match open.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) => {
                // The parts stay shorter than announced, so the master refuses the file.
                log::error(format_args!("{}: {error}", file.display()));
                break;
            }
        };
        let bytes = piece.get(..length).unwrap_or_default();
        pipe.data(Value::Bytes(bytes.into())).map_err(said)?;
    }
    pipe.sent().map_err(said)?;
    match pipe.next(Some(ANSWER)).map_err(said)? {
        Part::Done(value) | Part::Data(value) => Ok(value),
    }
}

/// Returns the request frame of a question, or `None` if a minion does not send that question to
/// its master.
fn request(ask: Ask) -> Option<Request> {
    Some(match ask {
        // A file is sent in parts, by `push`.
        Ask::Wheel { .. } | Ask::Push { .. } => return None,
        Ask::MineGet {
            tgt,
            tgt_type,
            fun,
            exclude_minion,
        } => wire::MineGet {
            tgt,
            tgt_type,
            fun,
            exclude_minion,
        }
        .into(),
        Ask::MinePut { data, clear } => wire::MinePut { data, clear }.into(),
        Ask::MineDelete { fun } => wire::MineDelete { fun }.into(),
        Ask::Publish {
            tgt,
            tgt_type,
            fun,
            arg,
            timeout_s,
        } => wire::Publish {
            tgt,
            tgt_type,
            fun,
            arg,
            ret: String::new(),
            jid: None,
            timeout_s,
            options: Map::new(),
        }
        .into(),
        Ask::Runner { fun, arg } => wire::Runner {
            fun,
            arg,
            jid: None,
            asynchronous: false,
            watched: false,
        }
        .into(),
        Ask::Running => wire::Running {}.into(),
        Ask::FindJob { jid } => wire::FindJob { jid }.into(),
        Ask::SignalJob { jid, signal } => wire::SignalJob { jid, signal }.into(),
        Ask::Beacons { fun, name, data } => wire::Beacons {
            fun: fun.to_owned(),
            name,
            data,
        }
        .into(),
        Ask::Schedule { fun, name, data } => wire::Schedule {
            fun: fun.to_owned(),
            name,
            data,
        }
        .into(),
        Ask::Refresh { what, wait_s } => Refresh {
            what: what.to_owned(),
            wait_s,
        }
        .into(),
    })
}
