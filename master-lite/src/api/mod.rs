//! The API: the paths of Salt's rest_cherrypy, for programs that speak with it (`rest_cherrypy`).
//!
//! A request passes one way: its route ([`routes`]), the token ([`session`]) that names its user,
//! its body ([`format`]) as chunks ([`chunk`]), and the clients ([`calls`]), which ask `access`
//! whether the user may do it. `access` decides the same for the commands on this machine.

mod answers;
pub(crate) mod calls;
mod checks;
mod chunk;
mod failure;
mod feed;
mod files;
mod format;
mod openapi;
mod page;
mod routes;
mod session;
mod settings;
mod stats;
mod stream;
mod tar;
mod ws;

use std::sync::Arc;

use value::Map;
use wire::Secret;

use crate::access::caller::Caller;
use crate::access::eauth::{Refusal as NotKnown, User};
use crate::http::{Answer, Head, Refusal, Request, Server, Service};
use crate::metrics::Metrics;

use calls::Calls;
use checks::Checks;
use chunk::Shown;
use failure::Failure;
use feed::Lines;
use format::Format;
use routes::{Found, Method, Missing, Proof};
use stats::Stats;

pub(crate) use settings::{Error, Settings};

/// The API of a master.
pub(crate) struct Api {
    settings: Settings,
    calls: Calls,
    metrics: Arc<Metrics>,
    stats: Stats,
    checks: Checks,
    lines: Arc<Lines>,
}

impl Api {
    /// Listens as configured.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub(crate) async fn bind(
        settings: Settings,
        calls: Calls,
        metrics: Arc<Metrics>,
    ) -> Result<Server<Self>, String> {
        let (address, limits) = (settings.address, settings.limits);
        let tls = settings.tls.clone();
        let api = Self {
            settings,
            calls,
            metrics,
            stats: Stats::new(),
            checks: Checks::default(),
            lines: Arc::default(),
        };
        let server = Server::bind(address, api, limits, tls).await;
        server.map_err(|error| format!("cannot listen on {address}: {error}"))
    }

    /// Returns the path of a request below the prefix of all paths.
    fn path<'a>(&self, head: &'a Head) -> Option<&'a str> {
        let path = head.path().strip_prefix(self.settings.prefix.as_str())?;
        match path {
            "" => Some("/"),
            path => path.starts_with('/').then_some(path),
        }
    }

    /// Answers a request.
    async fn reply(&self, request: &Request) -> Result<Answer, Failure> {
        let head = &request.head;
        let path = self.path(head);
        let path = path.ok_or_else(|| routes::unknown(head.path()))?;
        if head.method == "OPTIONS" {
            return Ok(preflight(head));
        }
        let method = Method::find(&head.method);
        if method == Some(Method::Get)
            && let Some(answer) = self.page(head, path).await
        {
            return answer;
        }
        let settings = &self.settings;
        let found = routes::find(method, path, &settings.hook, settings.has_sessions);
        match found {
            Ok(found) => self.of_route(found, request).await,
            Err(Missing::Path) => Err(routes::unknown(path)),
            Err(Missing::Rest) => Err(routes::unexpected()),
            Err(Missing::Method(allowed)) => {
                let text = "Specified method is invalid for this resource";
                let answer = format::failed(head, &Failure::new(405, text));
                Ok(answer.with("Allow", allowed.join(", ")))
            }
        }
    }

    /// Returns the answer with a file, if the path of a request is one of a file.
    async fn page(&self, head: &Head, path: &str) -> Option<Result<Answer, Failure>> {
        let pages = &self.settings.pages;
        if path == "/favicon.ico"
            && let Some(icon) = &pages.favicon
        {
            return Some(files::named(icon, path).await);
        }
        if let Some(folder) = &pages.folder
            && let Some(rest) = path.strip_prefix(pages.folder_path.as_str())
            && rest.starts_with('/')
        {
            return Some(files::below(folder, rest, path).await);
        }
        let is_app = path.trim_end_matches('/') == pages.app_path;
        match self.settings.app() {
            Some(app) if is_app || format::wants_html(head) => Some(files::named(app, path).await),
            None if is_app || (path == "/" && format::wants_html(head)) => Some(Ok(page::answer())),
            _ => None,
        }
    }

    async fn of_route(&self, found: Found, request: &Request) -> Result<Answer, Failure> {
        let (head, route) = (&request.head, found.route);
        query(head, &found)?;
        let needs_token = match route.proof {
            Proof::None | Proof::Chunks => false,
            Proof::Token => true,
            Proof::Configured => !self.is_open(route.action),
        };
        let session = match needs_token {
            true if route.action == routes::Action::Socket => {
                Some(self.session_of_socket(&found, head).await?)
            }
            true => Some(self.session(head).await.map_err(|failure| {
                // Only this path has the text of a chunk without a user.
                match route.action == routes::Action::Keys && failure == Failure::no_permission() {
                    true => Failure::no_credentials(),
                    false => failure,
                }
            })?),
            false => None,
        };
        let sent = format::read(head, &request.body.bytes)?;
        let format = match route.action {
            routes::Action::Events | routes::Action::Socket | routes::Action::NewKey => {
                Format::Json
            }
            _ => Format::accepted(head)?,
        };
        let asked = answers::Asked {
            head,
            session,
            sent,
            format,
            name: found.name.filter(|name| !name.is_empty()),
        };
        self.act(route.action, asked).await
    }

    /// Returns true if the configuration lets everyone use a route.
    fn is_open(&self, action: routes::Action) -> bool {
        match action {
            routes::Action::Hook => self.settings.is_hook_open,
            _ => self.settings.are_stats_open,
        }
    }

    /// Returns the user whose token a request has.
    async fn session(&self, head: &Head) -> Result<answers::Session, Failure> {
        self.session_of(session::token(head)?, head).await
    }

    /// Returns the user of a WebSocket. A browser cannot send a header with it, so the token may be in
    /// the path or in the query, as in Salt.
    async fn session_of_socket(
        &self,
        found: &Found,
        head: &Head,
    ) -> Result<answers::Session, Failure> {
        let mut query = head.query().into_iter();
        let in_query = query.find_map(|(name, text)| (name == "token").then_some(text));
        let text = found.name.clone().or(in_query);
        match text.as_deref().and_then(session::checked) {
            Some(token) => self.session_of(token, head).await,
            None => self.session(head).await,
        }
    }

    /// Returns the user of a token.
    async fn session_of(&self, token: Secret, head: &Head) -> Result<answers::Session, Failure> {
        let user = self.calls.access.user_of(&token, peer(head)).await;
        let user = user.map_err(|refusal| not_known(&refusal, Failure::no_permission()))?;
        Ok(answers::Session { token, user })
    }

    /// Returns the user that a chunk names.
    async fn caller(&self, map: &Map, head: &Head) -> Result<Caller, Failure> {
        let (access, from) = (&self.calls.access, peer(head));
        let user = match chunk::shown(map)? {
            Shown::Token(token) => access.user_of(&token, from).await,
            Shown::Password(credentials) => {
                self.permit_user(&credentials.username, head)?;
                access.authenticate(&credentials, from).await
            }
        };
        let refused = |refusal: NotKnown| {
            let text = Failure::new(401, "Authentication error occurred.");
            not_known(&refusal, text)
        };
        Ok(Caller::User(user.map_err(refused)?))
    }

    /// Checks that a user may log in from the address of a request (`api_acl`).
    fn permit_user(&self, user: &str, head: &Head) -> Result<(), Failure> {
        let Some(users) = &self.settings.users else {
            return Ok(());
        };
        let addresses = users.get(user).or_else(|| users.get("*"));
        let addresses = addresses.map(value::Value::texts).unwrap_or_default();
        let is_listed = |address: &String| address == "*" || address == peer(head);
        match addresses.iter().any(is_listed) {
            true => Ok(()),
            false => {
                let why = format!("the user {user:?} may not log in from here (api_acl)");
                self.calls.access.refusals.log(peer(head), why);
                Err(Failure::no_permission())
            }
        }
    }
}

/// Returns the address of the peer.
fn peer(head: &Head) -> &str {
    head.header("Remote-Addr").unwrap_or_default()
}

/// Returns the failure of an unknown user.
fn not_known(refusal: &NotKnown, otherwise: Failure) -> Failure {
    match refusal {
        NotKnown::Later(seconds) => Failure::later(429, *seconds, refusal.to_string()),
        NotKnown::Authentication => otherwise,
    }
}

/// Returns the name and the groups of a user as a caller.
fn caller(user: &User) -> Caller {
    Caller::User(user.clone())
}

/// Refuses parameters in a query that the route does not have. A token there would get into logs.
fn query(head: &Head, found: &Found) -> Result<(), Failure> {
    let known = found.route.query;
    let is_known = |(name, _): &(String, String)| known.contains(&name.as_str());
    if head.query().iter().all(is_known) || found.route.method == Method::Post {
        return Ok(());
    }
    if found.route.action == routes::Action::Events {
        let text = "The path /events takes no query parameters. Send a token in the header `X-Auth-Token`, or as the cookie of a login.";
        return Err(Failure::bad(text));
    }
    Err(routes::unexpected())
}

/// Returns the answer to a browser that asks whether a page of another server may send a request.
fn preflight(head: &Head) -> Answer {
    let answer = Answer::new(200, "", Vec::new());
    let method = head.header("Access-Control-Request-Method");
    match method.and_then(Method::find) {
        None => answer,
        Some(_) => answer
            .with("Access-Control-Allow-Methods", "GET, POST")
            .with(
                "Access-Control-Allow-Headers",
                "Content-Type, X-Auth-Token, X-Requested-With, Last-Event-ID",
            )
            .with("Access-Control-Max-Age", "1400"),
    }
}

/// Adds the headers with which browsers let pages of other servers read an answer. Such a page has
/// to send the token itself: cookies do not count for it.
fn shared(head: &Head, answer: Answer) -> Answer {
    let origin = head.header("Origin").unwrap_or("*");
    let answer = answer
        .with("Access-Control-Allow-Origin", origin)
        .with("Access-Control-Expose-Headers", "GET, POST")
        .with("Vary", "Origin");
    match session::is_own_page(head) {
        true => answer.with("Access-Control-Allow-Credentials", "true"),
        false => answer,
    }
}

impl Service for Api {
    const NAME: &'static str = "rest_cherrypy";
    const KEEPS_ALIVE: bool = true;

    fn check(&self, head: &Head) -> Result<(), Refusal> {
        let is_listed = |list: &Vec<String>| list.iter().any(|address| address == peer(head));
        match self.settings.addresses.as_ref().is_none_or(is_listed) {
            true => Ok(()),
            false => Err(Refusal::new(403, "Bad IP")),
        }
    }

    async fn answer(&self, request: Request) -> Result<Answer, Refusal> {
        let mut running = self.stats.begin(request.body.bytes.len());
        let answered = self.reply(&request).await;
        let head = &request.head;
        let answer = answered.unwrap_or_else(|failure| format::failed(head, &failure));
        running.wrote(answer.length());
        Ok(shared(head, answer))
    }

    fn refused(&self, head: &Head, refusal: &Refusal) -> Answer {
        let failure = Failure::from_refusal(refusal);
        let data = format::failed(head, &failure);
        shared(head, refusal.add_to(data))
    }

    fn answered(&self, status: u16) {
        self.metrics.api(status);
    }
}
