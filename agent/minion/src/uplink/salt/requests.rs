//! Answers the requests of the minion by commands of Salt's protocol.

use std::time::Duration;

use link::Part;
use link::wait::pause;
use modules::served::options::{HAS_TOPS, NAMES};
use smol::channel::{Receiver, Sender};
use value::{Map, Value, log};
use wire::{Grains, MineDelete, Pillar, Request, Return, Tops};

use super::files::{self, Parts};
use super::{Error, Inner, peers};

/// The wait of new grains for a pillar request that carries them.
const GRAINS_WAIT: Duration = Duration::from_secs(5);
/// An option of the master that a Salt minion takes over.
const STATE_EVENTS: &str = "state_events";
/// The job id by which a Salt master knows a return of a job that it has not sent.
const NO_JOB: &str = "req";

/// Answers a request. `following` are the parts that come after it. Parts of the answer go to
/// `parts`, and the result is the end of the answer.
pub(super) async fn answer(
    inner: &Inner,
    request: Request,
    following: &Receiver<Part>,
    parts: &Sender<Result<Part, Error>>,
) -> Result<Value, Error> {
    let parts = &Parts(parts);
    match request {
        Request::Return(asked) => give_back(inner, asked).await,
        Request::Pillar(asked) => pillar(inner, asked).await,
        Request::Grains(asked) => grains(inner, &asked),
        Request::Options(_) => options(inner).await,
        Request::Tops(asked) => tops(inner, asked).await,
        Request::List(asked) => files::list(inner, asked, parts).await,
        Request::Stat(asked) => files::stat(inner, asked).await,
        Request::File(asked) => files::file(inner, asked, parts).await,
        Request::Push(asked) => files::push(inner, asked, following).await,
        Request::MineGet(asked) => peers::mine_get(inner, asked).await,
        Request::MinePut(asked) => {
            let load = Map::new()
                .with("data", asked.data)
                .with("clear", asked.clear);
            Ok(inner.session.request("_mine", load).await?)
        }
        Request::MineDelete(MineDelete { fun: Some(fun) }) => {
            let load = Map::new().with("fun", fun);
            Ok(inner.session.request("_mine_delete", load).await?)
        }
        Request::MineDelete(_) => Ok(inner.session.request("_mine_flush", Map::new()).await?),
        Request::Publish(asked) => peers::publish(inner, asked, parts).await,
        Request::Runner(asked) => peers::runner(inner, asked).await,
        Request::Fire(asked) => {
            let load = asked.data.with("tag", asked.tag);
            Ok(inner.session.request("_minion_event", load).await?)
        }
        Request::Ping(_) => Ok(true.into()),
        other => {
            let text = format!(
                "the protocol of Salt masters has no request `{}`",
                other.kind()
            );
            Err(Error::new("refused", text))
        }
    }
}

/// Sends a return. The master has it when it has answered. A return that it refuses is tried again
/// later, because the refusal may be about the master's own trouble.
async fn give_back(inner: &Inner, asked: Return) -> Result<Value, Error> {
    let mut load = asked.data;
    if !inner.jobs.was_sent(&asked.jid) {
        load.insert("jid", NO_JOB);
    }
    match inner.session.request("_return", load).await {
        Ok(_) => Ok(Value::Null),
        Err(error) => Err(match Error::from(error) {
            Error::Answered { text, .. } => Error::new("busy", text),
            lost => lost,
        }),
    }
}

async fn pillar(inner: &Inner, asked: Pillar) -> Result<Value, Error> {
    let is_own = asked.pillar_override.is_empty() && asked.pillarenv.is_none();
    let load = Map::new()
        .with("grains", asked.grains.clone())
        .with("saltenv", asked.saltenv)
        .with("pillarenv", asked.pillarenv)
        .with("pillar_override", asked.pillar_override)
        .with("extra_minion_data", Map::new());
    let pillar = inner.session.pillar(load).await?;
    inner.facts.has_sent(&asked.grains);
    let Value::Map(pillar) = pillar else {
        let text = "the Salt master sent a pillar that is not a dictionary";
        return Err(Error::new("invalid", text));
    };
    if is_own {
        inner.facts.has_pillar(&pillar);
    }
    Ok(pillar.into())
}

/// Records new grains. A Salt master takes grains only together with a request for the pillar, so they
/// are sent with the next one, or with a separate one if there is none soon.
fn grains(inner: &Inner, asked: &Grains) -> Result<Value, Error> {
    inner.facts.has_grains(&asked.grains);
    let (session, facts) = (inner.session.clone(), inner.facts.clone());
    smol::spawn(async move {
        pause(GRAINS_WAIT).await;
        let Some(grains) = facts.unsent() else { return };
        let load = Map::new()
            .with("grains", grains.clone())
            .with("saltenv", Value::Null)
            .with("pillarenv", Value::Null)
            .with("pillar_override", Map::new())
            .with("extra_minion_data", Map::new());
        match session.pillar(load).await {
            Ok(_) => facts.has_sent(&grains),
            Err(error) => log::warning(format_args!("cannot send the grains: {error}")),
        }
    })
    .detach();
    Ok(true.into())
}

/// Returns the settings of the master that runs on minions depend on, and no others.
async fn options(inner: &Inner) -> Result<Value, Error> {
    let load = Map::new().with("env_only", false);
    let Value::Map(all) = inner.session.request("_master_opts", load).await? else {
        let text = "the Salt master sent settings that are not a dictionary";
        return Err(Error::new("invalid", text));
    };
    let mut taken = Map::new();
    for name in NAMES.iter().copied().chain([STATE_EVENTS]) {
        if let Some(value) = all.get(name) {
            taken.insert(name, value.clone());
        }
    }
    // A Salt master does not state whether it has `master_tops`, so each run asks for them.
    Ok(taken.with(HAS_TOPS, true).into())
}

async fn tops(inner: &Inner, asked: Tops) -> Result<Value, Error> {
    let opts = Map::new()
        .with("id", inner.id.as_str())
        .with("grains", asked.grains);
    let load = Map::new().with("opts", opts);
    match inner.session.request("_master_tops", load).await? {
        Value::Map(tops) => Ok(tops.into()),
        _ => {
            let text = "the Salt master sent data of master_tops that is not a dictionary";
            Err(Error::new("invalid", text))
        }
    }
}
