//! The answers of the routes.

use std::sync::Arc;

use value::{Map, Value};
use wire::Secret;

use super::checks::Checked;
use super::chunk::{self, Chunk, Client};
use super::failure::Failure;
use super::feed::Feed;
use super::format::{Format, Sent};
use super::routes::Action;
use super::{Api, Settings, caller, not_known, openapi, peer, session, ws};
use crate::access::caller::Caller;
use crate::access::eauth::User;
use crate::access::eauth::sessions::{Issued, forget};
use crate::http::{Answer, Head};

/// A token with its user.
pub(super) struct Session {
    pub(super) token: Secret,
    pub(super) user: User,
}

/// A request to a route.
pub(super) struct Asked<'a> {
    pub(super) head: &'a Head,
    /// The user, if the route needs a token.
    pub(super) session: Option<Session>,
    pub(super) sent: Sent,
    /// The format of the answer.
    pub(super) format: Format,
    /// The name at the end of the path.
    pub(super) name: Option<String>,
}

impl Asked<'_> {
    /// Returns the user of the request's token.
    fn session(&self) -> Result<&Session, Failure> {
        self.session.as_ref().ok_or_else(Failure::no_permission)
    }

    fn caller(&self) -> Result<Caller, Failure> {
        Ok(caller(&self.session()?.user))
    }

    /// Returns the name at the end of the path, or else of a parameter of the query.
    fn named(&self, parameter: &str) -> Option<String> {
        let mut query = self.head.query().into_iter();
        let in_query = || query.find_map(|(name, text)| (name == parameter).then_some(text));
        self.name
            .clone()
            .or_else(in_query)
            .filter(|name| !name.is_empty())
    }

    /// Returns an answer with a value.
    fn answer(&self, value: impl Into<Value>) -> Answer {
        let answer = self.format.answer(200, &value.into());
        match self.session {
            Some(_) => answer.with("Cache-Control", "private"),
            None => answer,
        }
    }
}

fn of_return(value: impl Into<Value>) -> Map {
    Map::new().with("return", value)
}

fn first(mut all: Vec<Value>) -> Value {
    match all.is_empty() {
        true => Map::new().into(),
        false => all.swap_remove(0),
    }
}

impl Api {
    /// Answers a request to a route.
    pub(super) async fn act(&self, action: Action, asked: Asked<'_>) -> Result<Answer, Failure> {
        match action {
            Action::Welcome => Ok(asked.answer(welcome())),
            Action::Call => self.run_with_token(asked).await,
            Action::LoginForm => Ok(login_form(&asked)),
            Action::Login => self.login(asked).await,
            Action::Logout => self.logout(asked).await,
            Action::Run => self.run(asked).await,
            Action::Description => Ok(asked.answer(openapi::description(&self.settings.hook))),
            Action::Token => self.tokens(asked).await,
            Action::Minions => self.minions(asked).await,
            Action::MinionsJob => self.minions_job(asked).await,
            Action::Jobs => self.jobs(asked).await,
            Action::Keys => self.keys(asked).await,
            Action::NewKey => self.new_key(asked).await,
            Action::Events => {
                let token = self.checked(&asked)?;
                Feed::answer(&self.calls.store, token, self.lines.clone(), asked.head)
            }
            Action::Socket => {
                let token = self.checked(&asked)?;
                ws::answer(&self.calls.store, token, asked.head)
            }
            Action::Stats => {
                let Settings {
                    address, limits, ..
                } = &self.settings;
                Ok(asked.answer(self.stats.to_map(*address, limits.connections)))
            }
            Action::Hook => self.hook(asked).await,
        }
    }

    /// Returns the check of a stream's token.
    fn checked(&self, asked: &Asked<'_>) -> Result<Arc<Checked>, Failure> {
        let token = &asked.session()?.token;
        let access = &self.calls.access;
        let check = self.checks.of(access, token, peer(asked.head));
        check.ok_or_else(Failure::no_permission)
    }

    /// Runs one chunk for a caller with a client, which must be enabled.
    async fn chunk(&self, map: &Map, caller: &Caller) -> Result<Vec<Value>, Failure> {
        let client = chunk::client(map, &self.settings.clients)?;
        let chunk = Chunk::read(client, map)?;
        self.calls.run(chunk, caller, self.settings.wait).await
    }

    /// Runs the chunk of a route that has only one.
    async fn one(&self, map: Map, caller: &Caller) -> Result<Value, Failure> {
        Ok(first(self.chunk(&map, caller).await?))
    }

    async fn run_with_token(&self, mut asked: Asked<'_>) -> Result<Answer, Failure> {
        let mut all = Vec::new();
        for map in chunk::several(std::mem::take(&mut asked.sent.data))? {
            // The token may have been removed meanwhile.
            let token = &asked.session()?.token;
            let map = map.with("token", token.reveal());
            all.extend(self.chunk_of_user(&map, asked.head).await?);
        }
        Ok(asked.answer(of_return(Value::list(all))))
    }

    /// Runs a chunk for the user that it names.
    async fn chunk_of_user(&self, map: &Map, head: &Head) -> Result<Vec<Value>, Failure> {
        // An unknown client is the first error, as in Salt.
        let client = chunk::client(map, &self.settings.clients)?;
        let caller = self.caller(map, head).await?;
        let chunk = Chunk::read(client, map)?;
        self.calls.run(chunk, &caller, self.settings.wait).await
    }

    async fn run(&self, mut asked: Asked<'_>) -> Result<Answer, Failure> {
        let mut all = Vec::new();
        for map in chunk::several(std::mem::take(&mut asked.sent.data))? {
            all.extend(self.chunk_of_user(&map, asked.head).await?);
        }
        Ok(asked.answer(of_return(Value::list(all))))
    }

    /// Checks the credentials in a dictionary, and returns a new token.
    async fn issue(&self, map: &Map, head: &Head) -> Result<Issued, Failure> {
        let credentials = chunk::credentials(map)?;
        self.permit_user(&credentials.username, head)?;
        let issued = self.calls.access.login(&credentials, peer(head)).await;
        issued.map_err(|refusal| not_known(&refusal, Failure::no_login()))
    }

    async fn login(&self, mut asked: Asked<'_>) -> Result<Answer, Failure> {
        let maps = chunk::several(std::mem::take(&mut asked.sent.data));
        let maps = maps.map_err(|_| Failure::no_login())?;
        let map = maps.first().ok_or_else(Failure::no_login)?;
        let Issued {
            token,
            user,
            start,
            expire,
        } = self.issue(map, asked.head).await?;
        let login = Map::new()
            .with("token", token.reveal())
            .with("expire", expire)
            .with("start", start)
            .with("user", user.name.as_str())
            .with("eauth", user.eauth.as_str())
            .with("perms", perms(&user.rules));
        let answer = asked.answer(of_return(Value::list([login.into()])));
        let answer = answer.with("X-Auth-Token", token.reveal());
        let answer = answer.with("Cache-Control", "no-store");
        if !session::is_own_page(asked.head) {
            return Ok(answer);
        }
        let seconds = (expire - start).max(0.0) as u64;
        let cookie = session::kept(&token, seconds, self.settings.tls.is_some());
        Ok(answer.with("Set-Cookie", cookie))
    }

    async fn logout(&self, asked: Asked<'_>) -> Result<Answer, Failure> {
        let token = &asked.session()?.token;
        let removed = forget(&self.calls.store, token.reveal()).await;
        removed.map_err(|why| Failure::new(503, format!("Cannot remove the token: {why}")))?;
        let answer = asked.answer(of_return("Your token has been cleared"));
        Ok(answer.with("Set-Cookie", session::cleared(self.settings.tls.is_some())))
    }

    async fn tokens(&self, mut asked: Asked<'_>) -> Result<Answer, Failure> {
        let mut all = Vec::new();
        for map in chunk::several(std::mem::take(&mut asked.sent.data))? {
            let has = |key: &&str| map.contains(key);
            if !["username", "password", "eauth"].iter().all(has) {
                let text = "Require \"username\", \"password\", and \"eauth\" params";
                return Err(Failure::bad(text));
            }
            let issued = self.issue(&map, asked.head).await;
            let issued = issued.map_err(|failure| match failure == Failure::no_login() {
                true => Failure::no_user(&map),
                false => failure,
            })?;
            let token = Map::new()
                .with("start", issued.start)
                .with("expire", issued.expire)
                .with("name", issued.user.name.as_str())
                .with("eauth", issued.user.eauth.as_str())
                .with("token", issued.token.reveal());
            all.push(token.into());
        }
        let answer = asked.answer(Value::list(all));
        Ok(answer.with("Cache-Control", "no-store"))
    }

    async fn minions(&self, asked: Asked<'_>) -> Result<Answer, Failure> {
        let mid = asked.named("mid").unwrap_or_else(|| "*".to_owned());
        let map = Map::new()
            .with("client", "local")
            .with("tgt", mid)
            .with("fun", "grains.items");
        let grains = self.one(map, &asked.caller()?).await?;
        Ok(asked.answer(of_return(Value::list([grains]))))
    }

    async fn minions_job(&self, mut asked: Asked<'_>) -> Result<Answer, Failure> {
        let caller = asked.caller()?;
        let mut all = Vec::new();
        for map in chunk::several(std::mem::take(&mut asked.sent.data))? {
            let map = map.with("client", Client::LocalAsync.name());
            all.push(self.one(map, &caller).await?);
        }
        let jids = all.iter().filter_map(|begun| begun.get("jid")?.as_str());
        let link = |jid: &str| Map::new().with("href", format!("/jobs/{jid}")).into();
        let links = Map::new().with("jobs", Value::list(jids.map(link)));
        let value = of_return(Value::list(all)).with("_links", links);
        let answer = asked.format.answer(202, &value.into());
        Ok(answer.with("Cache-Control", "private"))
    }

    async fn jobs(&self, asked: Asked<'_>) -> Result<Answer, Failure> {
        let runner = Map::new().with("client", "runner");
        let Some(jid) = asked.named("jid") else {
            let map = runner.with("fun", "jobs.list_jobs");
            let jobs = self.one(map, &asked.caller()?).await?;
            return Ok(asked.answer(of_return(Value::list([jobs]))));
        };
        let map = runner.with("fun", "jobs.list_job").with("jid", jid);
        let job = self.one(map, &asked.caller()?).await?;
        let results = job.get("Result").and_then(Value::as_map);
        let results = results.cloned().unwrap_or_default();
        let mut returns = Map::new();
        for (id, result) in &results {
            let ret = result.get("return").cloned().unwrap_or_default();
            returns.insert(id.to_text(), ret);
        }
        let value = Map::new()
            .with("info", Value::list([job]))
            .with("return", Value::list([returns.into()]));
        Ok(asked.answer(value))
    }

    async fn keys(&self, asked: Asked<'_>) -> Result<Answer, Failure> {
        let wheel = Map::new().with("client", "wheel");
        let map = match asked.named("mid") {
            Some(mid) => wheel.with("fun", "key.finger").with("match", mid),
            None => wheel.with("fun", "key.list_all"),
        };
        let called = self.one(map, &asked.caller()?).await?;
        let ret = called.get("data").and_then(|data| data.get("return"));
        let ret = ret.cloned().unwrap_or_else(|| Map::new().into());
        Ok(asked.answer(of_return(ret)))
    }

    async fn new_key(&self, mut asked: Asked<'_>) -> Result<Answer, Failure> {
        let maps = chunk::several(std::mem::take(&mut asked.sent.data))?;
        let map = maps.first();
        let mut map = map.cloned().ok_or_else(Failure::no_credentials)?;
        if let Some(mid) = map.remove("mid") {
            map.insert("id_", mid);
        }
        let map = map.with("client", "wheel").with("fun", "key.gen_accept");
        let id = map.get("id_").map(Value::to_text).unwrap_or_default();
        let called = first(self.chunk_of_user(&map, asked.head).await?);
        let data = called.get("data").cloned().unwrap_or_default();
        let ret = data.get("return").cloned().unwrap_or_default();
        let key = |name: &str| ret.get(name).and_then(Value::as_str);
        let (Some(public), Some(private)) = (key("pub"), key("priv")) else {
            return Err(Failure::bad(ret.to_text()));
        };
        let files = [("minion.pub", public), ("minion.pem", private)];
        let answer = Answer::new(200, "application/x-tar", super::tar::archive(&files));
        let name = format!("attachment; filename=\"saltkeys-{id}.tar\"");
        let answer = answer.with("Content-Disposition", name);
        Ok(answer.with("Cache-Control", "no-store"))
    }

    async fn hook(&self, mut asked: Asked<'_>) -> Result<Answer, Failure> {
        let path = asked.name.take().unwrap_or_default();
        let tag = crate::hook::path::tag(&format!("/hook{path}"));
        let tag = tag.map_err(|refusal| Failure::from_refusal(&refusal))?;
        let post = match asked.sent.data.is_true() {
            true => std::mem::take(&mut asked.sent.data),
            false => Map::new().into(),
        };
        let data = Map::new()
            .with("body", std::mem::take(&mut asked.sent.text))
            .with("post", post)
            .with("headers", without_secrets(asked.head));
        let fired = crate::hook::fire(&self.calls.store, tag, data).await;
        fired.map_err(|refusal| Failure::from_refusal(&refusal))?;
        Ok(asked.answer(Map::new().with("success", true)))
    }
}

/// Returns the rules of a user as a login has them: each once, names before dictionaries.
fn perms(rules: &[Value]) -> Value {
    if rules.is_empty() {
        return Map::new().into();
    }
    let mut names: Vec<String> = rules
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    let mut all: Vec<Value> = names.into_iter().map(Value::from).collect();
    for rule in rules.iter().filter(|rule| rule.as_str().is_none()) {
        if !all.contains(rule) {
            all.push(rule.clone());
        }
    }
    Value::list(all)
}

/// The headers that an event must not have, because every user may read events.
const SECRET_HEADERS: [&str; 4] = [
    "Authorization",
    "Cookie",
    "Proxy-Authorization",
    "X-Auth-Token",
];

fn without_secrets(head: &Head) -> Map {
    let mut headers = head.headers.clone();
    for name in SECRET_HEADERS {
        headers.remove(name);
    }
    headers
}

fn welcome() -> Map {
    let names = chunk::CLIENTS.iter().map(|(name, _)| (*name).into());
    of_return("Welcome").with("clients", Value::list(names))
}

fn login_form(asked: &Asked<'_>) -> Answer {
    let form = Map::new()
        .with("status", Value::Null)
        .with("return", "Please log in");
    asked.answer(form).with("Www-Authenticate", "Session")
}
