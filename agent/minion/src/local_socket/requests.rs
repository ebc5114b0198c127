//! [`LocalRequests`]: the daemon's end of the sockets of jobs and commands.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use link::unix::{Local, LocalListener, LocalRequest};
use link::wait::unblock;
use link::{Error, Limits, Part};
use smol::channel::Receiver;
use state::opts::Opts;
use state::record;
use value::{Value, log};
use wire::{Job, Request, Way};

use super::{ANSWER, socket_path};
use crate::launcher::{JobProcess, ReturnTo, how_it_ended, without_return};
use crate::own_requests::OwnRequests;
use crate::uplink::{Handle, PendingRequest, Upstreams, event};

/// Serves the processes of this machine.
#[derive(Debug)]
pub(crate) struct LocalRequests {
    pub(crate) opts: Opts,
    pub(crate) upstreams: Upstreams,
    pub(crate) own: OwnRequests,
}

impl LocalRequests {
    /// Opens the socket at which commands of this machine find the daemon.
    pub(crate) fn listen(&self) -> Result<LocalListener, Error> {
        let path = socket_path(&self.opts);
        LocalListener::bind(&path, Way::ClientToMinion, Limits::default())
    }

    /// Serves the commands that connect. Returns the error that ends the socket.
    pub(crate) async fn attend_all(self: &Arc<Self>, socket: LocalListener) -> Error {
        loop {
            // No deadline: a command may connect at any time.
            match socket.next().await {
                Ok(local) => smol::spawn(self.clone().attend(local)).detach(),
                Err(error) => return error,
            }
        }
    }

    /// Serves a command until it disconnects.
    async fn attend(self: Arc<Self>, mut local: Local) {
        loop {
            // No deadline: the kernel closes the socket when the process is gone.
            let obeyed = match local.next().await {
                Ok(Some(said)) => self.obey(said, &mut local, &ReturnTo::Nobody).await,
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = obeyed {
                return log::debug(format_args!("{error}"));
            }
        }
    }

    /// Serves the processes of jobs, each from its start.
    pub(crate) async fn accompany_all(self: Arc<Self>, started: Receiver<JobProcess>) {
        // No deadline: a job may start at any time.
        while let Ok(process) = started.recv().await {
            smol::spawn(self.clone().accompany(process)).detach();
        }
    }

    /// Serves a job's process until it ends. If the process ends without a return, the daemon
    /// creates a return that says so.
    async fn accompany(self: Arc<Self>, process: JobProcess) {
        let JobProcess {
            job,
            mut child,
            socket,
            return_to,
            running: _running,
        } = process;
        let spoken = self.converse(&job, socket, &return_to).await;
        // No deadline: a job takes as long as it takes; it can be killed.
        let status = child.status().await;
        self.own.jobs.ended(&job.jid);
        if let Ok(true) = spoken {
            return;
        }
        let why = match (spoken, status) {
            (Err(error), _) => error.to_string(),
            (_, Ok(status)) => how_it_ended(status),
            (_, Err(error)) => error.to_string(),
        };
        log::error(format_args!(
            "job {} ended without a return: {why}",
            job.jid
        ));
        // The run continues after the reboot, and returns then.
        let path = record::folder(&self.opts).join(&job.jid);
        let recorded = unblock(move || record::read(&path)).await;
        if recorded.is_ok_and(|run| run.waits_for_boot()) {
            return;
        }
        return_to
            .take(without_return(&job, &why), &self.upstreams)
            .await;
    }

    /// Serves a job's process on its socket. Returns true if the job's return arrived.
    async fn converse(
        &self,
        job: &Job,
        socket: UnixStream,
        return_to: &ReturnTo,
    ) -> Result<bool, Error> {
        let mut local = Local::of_job(socket, Limits::default())?;
        local.give(job.clone()).await?;
        let mut has_returned = false;
        // No deadline: the kernel closes the socket when the process is gone.
        while let Some(said) = local.next().await? {
            match said {
                LocalRequest::Request(Request::Return(answer)) => {
                    has_returned = true;
                    return_to.take(answer, &self.upstreams).await;
                    local.done(Value::Null).await?;
                }
                other => self.obey(other, &mut local, return_to).await?,
            }
        }
        Ok(has_returned)
    }

    /// Handles a message from a process of this machine.
    async fn obey(
        &self,
        said: LocalRequest,
        local: &mut Local,
        return_to: &ReturnTo,
    ) -> Result<(), Error> {
        let request = match said {
            LocalRequest::Event(event) => {
                self.upstreams.keep(event).await;
                return Ok(());
            }
            LocalRequest::Request(request) => request,
        };
        match request {
            Request::Fire(fire) => match self.fire(fire).await {
                Ok(()) => local.done(true).await,
                Err(reason) => local.fail("failed", &reason).await,
            },
            Request::Return(answer) => {
                self.upstreams.keep_return(answer).await;
                local.done(true).await
            }
            Request::Ping(_) => local.done(self.upstreams.handle().is_some()).await,
            request => match self.own.answer(&request).await {
                Some(answer) => local.done(answer).await,
                None => self.ask_master(request, local, return_to).await,
            },
        }
    }

    /// Stores an event for the masters. An event that they would refuse is refused here, so that
    /// the caller sees the reason.
    async fn fire(&self, fire: wire::Fire) -> Result<(), String> {
        if !self.upstreams.is_empty()
            && let Ok(id) = self.opts.id().parse()
        {
            wire::tag::may_send(&id, &fire.tag).map_err(|refused| refused.to_string())?;
        }
        let is_kept = self.upstreams.keep(event(&fire.tag, fire.data)).await;
        is_kept
            .then_some(())
            .ok_or_else(|| "cannot store the event".to_owned())
    }

    /// Forwards a request of a process to the master that the process works for.
    async fn ask_master(
        &self,
        request: Request,
        to: &mut Local,
        return_to: &ReturnTo,
    ) -> Result<(), Error> {
        if let (Request::MinePut(_) | Request::MineDelete(_), 2..) =
            (&request, self.upstreams.len())
        {
            self.upstreams.tell(&request).await;
            return to.done(true).await;
        }
        let Some(master) = return_to.master(&self.upstreams) else {
            if matches!(request, Request::Push(_)) {
                hand_on(to, None).await?;
            }
            let text = self.upstreams.unreachable();
            return to.fail("unreachable", text).await;
        };
        forward(&master, request, to).await
    }
}

/// Forwards a request of a process of this machine to the master, and passes the answer on part by
/// part as it arrives.
pub(super) async fn forward(
    master: &Handle,
    request: Request,
    to: &mut Local,
) -> Result<(), Error> {
    let has_parts = matches!(request, Request::Push(_));
    let asked = master.ask(request).await;
    let mut asked = asked.map(|asked| asked.waiting(ANSWER));
    if has_parts {
        hand_on(to, asked.as_mut().ok()).await?;
    }
    let mut asked = match asked {
        Ok(asked) => asked,
        Err(error) => return to.fail("unreachable", error.to_string()).await,
    };
    loop {
        // No deadline: the question has its own (`ANSWER`).
        match asked.next().await {
            Ok(Part::Data(part)) => to.data(part).await?,
            Ok(Part::Done(end)) => return to.done(end).await,
            Err(error) => {
                return match error.answered() {
                    Some((reason, text)) => to.fail(reason, text).await,
                    None => to.fail("unreachable", error.to_string()).await,
                };
            }
        }
    }
}

/// Passes the parts that follow a request on to the master. After an error the remaining parts are
/// still read; the master's answer has the reason.
async fn hand_on(from: &mut Local, mut to: Option<&mut PendingRequest>) -> Result<(), Error> {
    while let Part::Data(part) = from.part().await? {
        if let Some(asked) = &mut to
            && asked.data(part).await.is_err()
        {
            to = None;
        }
    }
    if let Some(asked) = to {
        #[expect(
            clippy::let_underscore_must_use,
            reason = "a master that has already refused does not accept the end of the parts"
        )]
        let _ = asked.sent().await;
    }
    Ok(())
}
