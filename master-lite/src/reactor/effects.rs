//! What the chunks of a reaction do: jobs for minions, runners, wheel functions.

use std::sync::Arc;

use modules::orchestrate;
use value::{Map, Value};
use wire::{Id, Publish};

use super::COMING_BACK;
use super::act::Board;
use super::call::{Client, Local};
use super::reaction::State;
use crate::daemon::Master;
use crate::jobs::{Came, GivenUp, Published, Whom, job_commands};
use crate::store;

/// What a chunk came to, and what there is to say.
pub(super) type Outcome = (State, String);

/// Who asks for a reactor's runners and wheel functions: the reactor does not answer their events.
const USER: &str = "Reactor";
/// How much of a return stands in a comment.
const COMMENT_MAX: usize = 400;

fn failed(text: impl Into<String>) -> Outcome {
    (State::Failed, text.into())
}

impl Master {
    /// A job. It is done when every minion that is there has taken it; where another chunk needs it, when all have returned.
    pub(super) async fn react_local(
        self: &Arc<Self>,
        board: &Arc<Board>,
        at: usize,
        local: Local,
    ) -> Outcome {
        let jid = board.jid(at).await;
        let asked = publish(local, &jid);
        let user = self.opts().text("user").unwrap_or("root").to_owned();
        let sent = match self.known_job(board, at, &jid).await {
            Ok(Some(whom)) => {
                board.began(at);
                Ok(whom)
            }
            Ok(None) => self.new_job(board, at, &asked, &user).await,
            Err(error) => Err(error),
        };
        let whom = match sent {
            Ok(whom) => whom,
            Err(error) => return failed(error),
        };
        let mut published = self.hand_out(&asked, &user, jid, whom);
        board.began(at);
        let is_needed = board.is_needed(at).await;
        let given_up = published.handed_out().await.to_vec();
        match is_needed {
            true => returned(published).await,
            false => taken(&published, &given_up),
        }
    }

    /// The job of a chunk that was begun before the master was started again: the minions that have not returned get it once more,
    /// and do not do it twice, for they know its id.
    async fn known_job(
        self: &Arc<Self>,
        board: &Arc<Board>,
        at: usize,
        jid: &str,
    ) -> Result<Option<Whom>, String> {
        if !board.was_begun(at).await {
            return Ok(None);
        }
        let (store, jid) = (self.store().clone(), jid.to_owned());
        let left = smol::unblock(move || -> Result<Option<Vec<Id>>, store::Error> {
            let Some(job) = store.job(&jid)? else {
                return Ok(None);
            };
            let mut left = Vec::new();
            for id in job.minions {
                if store.returned(&jid, &id)?.is_none() {
                    left.push(id);
                }
            }
            Ok(Some(left))
        });
        let left = left.await.map_err(|error| error.to_string())?;
        Ok(left.map(|minions| Whom {
            minions,
            missing: Vec::new(),
            patience: COMING_BACK,
        }))
    }

    /// Keeps a job together with the reaction that it belongs to.
    async fn new_job(
        self: &Arc<Self>,
        board: &Arc<Board>,
        at: usize,
        asked: &Publish,
        user: &str,
    ) -> Result<Whom, String> {
        let matched = self.matched(&asked.tgt, &asked.tgt_type, &asked.options);
        let (minions, missing) = matched.await?;
        let jid = asked.jid.clone().unwrap_or_default();
        let commands = job_commands(asked, user, &jid, &minions, &missing);
        board.begin(self, at, commands).await?;
        let since = self.reactor().began.elapsed();
        let patience = match board.has_needs(at).await {
            // It was waited for something: a key that was accepted belongs to a minion that is about to come.
            true => COMING_BACK,
            false => COMING_BACK.saturating_sub(since),
        };
        Ok(Whom {
            minions,
            missing,
            patience,
        })
    }

    /// A runner or a wheel function.
    pub(super) async fn react_client(
        self: &Arc<Self>,
        board: &Arc<Board>,
        at: usize,
        client: Client,
    ) -> Outcome {
        if !client.may_be_done_again() {
            if board.was_begun(at).await {
                let text = format!(
                    "the master ended while {} ran: whether it was done is not known, and it is not done again",
                    client.fun
                );
                return (State::Unknown, text);
            }
            if let Err(error) = board.begin(self, at, Vec::new()).await {
                return failed(error);
            }
        }
        board.began(at);
        let (cx, jid) = (self.runners(), board.jid(at).await);
        let called = smol::unblock(move || {
            let Client {
                is_wheel,
                fun,
                arg,
                kwarg,
            } = client;
            let by = match is_wheel {
                true => orchestrate::wheel_by,
                false => orchestrate::runner_by,
            };
            let called = by(&cx, &USER.into(), jid, &fun, arg, kwarg);
            cx.barrier();
            called
        });
        let called = called.await;
        match called.success {
            true => (State::Done, String::new()),
            false => failed(shortened(&called.ret.to_text())),
        }
    }
}

fn publish(local: Local, jid: &str) -> Publish {
    Publish {
        tgt: local.tgt,
        tgt_type: local.tgt_type,
        fun: local.fun,
        arg: local.arg,
        ret: local.ret,
        jid: Some(jid.to_owned()),
        timeout_s: None,
        options: local.options,
    }
}

/// What became of a job that nobody waits for. Who was not there does not get it, as in Salt.
fn taken(published: &Published, given_up: &[(Id, GivenUp)]) -> Outcome {
    let said: Vec<String> = given_up
        .iter()
        .map(|(id, why)| format!("{id}: {}", why.word()))
        .collect();
    let is_lost = given_up.iter().any(|(_, why)| *why == GivenUp::Lost);
    let is_refused = given_up.iter().any(|(_, why)| *why == GivenUp::Refused);
    match (published.minions.is_empty(), is_refused, is_lost) {
        (true, _, _) => (State::Done, "no minion has it to do".to_owned()),
        (_, true, _) => failed(said.join(", ")),
        (_, _, true) => (State::Unknown, said.join(", ")),
        _ => (State::Done, said.join(", ")),
    }
}

/// What became of a job that another chunk needs.
async fn returned(mut published: Published) -> Outcome {
    if published.minions.is_empty() {
        return failed("no minion matched the target");
    }
    let mut said = Vec::new();
    let mut is_unknown = false;
    while let Some(came) = published.next().await {
        match came {
            Came::Return(data) if is_good(&data) => {}
            Came::Return(data) => {
                let id = data.get("id").map(Value::to_text).unwrap_or_default();
                let ret = data.get("return").map(Value::to_text).unwrap_or_default();
                said.push(format!("{id}: {}", shortened(&ret)));
            }
            Came::GivenUp(id, why) => {
                is_unknown |= matches!(why, GivenUp::Lost | GivenUp::NoReturn);
                said.push(format!("{id}: {}", why.word()));
            }
        }
    }
    match (said.is_empty(), is_unknown) {
        (true, _) => (State::Done, String::new()),
        (false, true) => (State::Unknown, said.join(", ")),
        (false, false) => failed(said.join(", ")),
    }
}

fn is_good(data: &Map) -> bool {
    let is_zero = data
        .get("retcode")
        .and_then(Value::as_int)
        .unwrap_or_default()
        == 0;
    is_zero && data.get("success").is_none_or(Value::is_true)
}

fn shortened(text: &str) -> String {
    text.chars().take(COMMENT_MAX).collect()
}
