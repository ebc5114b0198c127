//! A command's own connection to the master, with the minion's key, for a machine where no daemon
//! runs. It ends with the command's process, so a request only succeeds once the master has it.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use link::unix::{Local, LocalRequest, Pipe};
use link::wait::pause;
use link::{Error, Handle, Incoming, Limits, Link, Question, Session, Status, Who};
use smol::channel::{Sender, bounded};
use smol::future::FutureExt;
use state::opts::Opts;
use value::{Value, log};
use wire::{Fire, Request};

use crate::local_socket::{forward, limits};
use crate::settings;
use crate::uplink::enroll;

/// The time that the master is waited for, unless `auth_timeout` is configured.
const PATIENCE: Duration = Duration::from_secs(60);

fn failed(text: String) -> Error {
    let (id, key, address, process) = (None, None, None, None);
    Error::Failed {
        who: Arc::new(Who {
            id,
            key,
            address,
            process,
        }),
        reason: "unreachable".to_owned(),
        text,
    }
}

/// Connects to the master, and serves the other end of the pipe until this process ends.
pub(crate) fn open(opts: &Opts) -> Result<Pipe, Error> {
    let program = env!("CARGO_PKG_VERSION");
    let options =
        settings::masters(opts).and_then(|masters| settings::session(opts, masters, 0, program));
    let options = options.map_err(|error| failed(error.to_string()))?;
    let evidence = enroll::evidence(opts, &options.pair.public());
    let evidence = evidence.map_err(|error| failed(error.to_string()))?;
    let mut session = Session::new(options);
    session.show(evidence);
    session.hello_mut().features = vec![wire::CALL.to_owned()];
    // Salt's default of five seconds is the limit of one attempt among many, so it counts as not
    // configured.
    let patience = match opts.int("auth_timeout").map(u64::try_from) {
        None | Some(Err(_) | Ok(5)) => PATIENCE,
        Some(Ok(seconds)) => Duration::from_secs(seconds),
    };
    let link = smol::block_on(connected(&mut session, patience))?;
    let pair = UnixStream::pair().map_err(|error| failed(error.to_string()));
    let (ours, its) = pair?;
    let local = Local::of_job(its, Limits::default())?;
    let master = link.handle();
    smol::spawn(read(link)).detach();
    smol::spawn(serve(master, local)).detach();
    Pipe::of_job(ours, limits())
}

/// Connects to a master. Each master is tried once. A master that has not accepted this minion's
/// key is an error at once.
async fn connected(session: &mut Session, patience: Duration) -> Result<Link, Error> {
    let (sender, given_up) = bounded(1);
    let mut last = None;
    let mut tell = |status: Status<'_>| told(&status, &mut last, &sender);
    let connect = async { Ok(session.connect(&mut tell).await.0) };
    let failure = async {
        // No deadline: this future races with `late`.
        let text = given_up.recv().await;
        Err(failed(text.unwrap_or_default()))
    };
    let late = async {
        pause(patience).await;
        let text = format!(
            "The master has not answered within {} s",
            patience.as_secs()
        );
        Err(failed(text))
    };
    connect.or(failure).or(late).await
}

fn told(status: &Status<'_>, last: &mut Option<String>, given_up: &Sender<String>) {
    match status {
        Status::Pending(..) => {
            let text =
                "Minion failed to authenticate with the master, has the minion key been accepted?";
            let _ = given_up.try_send(text.to_owned());
        }
        Status::Remembered(who) => log::warning(format_args!(
            "trusting the key of a master that is seen for the first time: {who}"
        )),
        Status::Failed(error) => *last = Some(error.to_string()),
        Status::Waiting(_) => {
            let _ = given_up.try_send(last.take().unwrap_or_default());
        }
        Status::Trying(..) => {}
    }
}

/// Reads the link until it ends. Questions of the master are refused, because a command does not
/// answer them.
async fn read(mut link: Link) {
    // No deadline: the link has its own (`idle`).
    while let Ok(incoming) = link.next().await {
        if let Incoming::Question(question) = incoming {
            let question: Question = *question;
            let _ = question
                .fail("refused", "this process is not a minion daemon")
                .await;
        }
    }
}

async fn serve(master: Handle, mut local: Local) {
    loop {
        // No deadline: the kernel closes the socket when the process is gone.
        let served = match local.next().await {
            Ok(Some(LocalRequest::Request(request))) => answer(&master, request, &mut local).await,
            Ok(Some(LocalRequest::Event(event))) => {
                let (tag, data) = (event.tag, event.data);
                let fired = async { master.ask(Fire { tag, data }).await?.done().await };
                fired.await.map(|_| ())
            }
            Ok(None) => return,
            Err(error) => Err(error),
        };
        if let Err(error) = served {
            log::debug(format_args!("{error}"));
        }
    }
}

/// Answers a request of the command. Without a daemon no job runs and there is nothing to refresh,
/// so such requests are answered here. The others go to the master.
async fn answer(master: &Handle, request: Request, local: &mut Local) -> Result<(), Error> {
    match request {
        Request::FindJob(_) | Request::Schedule(_) => local.done(Value::Null).await,
        Request::Running(_) => local.done(Value::list([])).await,
        Request::SignalJob(_) => local.done("").await,
        Request::Refresh(_) => local.done(true).await,
        request => forward(master, request, local).await,
    }
}
