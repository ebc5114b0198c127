//! A command's own connection to the master, with the minion's key, for a machine where no daemon
//! runs. It ends with the command's process, so a request only succeeds once the master has it.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use link::unix::{Local, LocalRequest, Pipe};
use link::{Error, Limits, PeerInfo};
use state::opts::Opts;
use value::{Value, log};
use wire::{Fire, Request};

use super::limits;
use super::requests::forward;
use crate::uplink::{self, Handle, Incoming, Link, next_key};

fn failed(text: String) -> Error {
    let (id, key, address, process) = (None, None, None, None);
    Error::Failed {
        who: Arc::new(PeerInfo {
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
pub(super) fn open(opts: &Opts) -> Result<Pipe, Error> {
    let link = smol::block_on(uplink::connect_once(opts)).map_err(failed)?;
    let pair = UnixStream::pair().map_err(|error| failed(error.to_string()));
    let (ours, its) = pair?;
    let local = Local::of_job(its, Limits::default())?;
    let master = link.handle();
    smol::spawn(read(link, opts.clone())).detach();
    smol::spawn(serve(master, local)).detach();
    Pipe::of_job(ours, limits())
}

/// Reads the link until it ends. A command keeps the master's next key. Other requests of the master
/// are refused.
async fn read(mut link: Link, opts: Opts) {
    // No deadline: the link has its own (`idle`).
    while let Ok(incoming) = link.next().await {
        let (request, answerer) = match incoming {
            Incoming::Request(request, answerer) => (request, answerer),
            Incoming::Masters(masters) => {
                uplink::take_masters(&opts, link.key(), masters);
                continue;
            }
            Incoming::Ack(_) | Incoming::Bye(_) => continue,
        };
        let answered = match *request {
            Request::NextKey(next) => next_key::keep(&opts, next, answerer).await,
            _ => {
                let text = "this process is not a minion daemon";
                answerer.fail("refused", text).await
            }
        };
        if let Err(error) = answered {
            log::debug(format_args!("{error}"));
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
                if let Err(error) = fired.await {
                    log::debug(format_args!("{error}"));
                }
                continue;
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
