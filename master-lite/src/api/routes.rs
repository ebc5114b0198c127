//! [`Route`]: the declarations of the API's paths.

use super::failure::Failure;

/// The method of a route. A route for GET also answers HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
}

impl Method {
    /// Returns the method with this name.
    pub(super) fn find(name: &str) -> Option<Self> {
        match name {
            "GET" | "HEAD" => Some(Self::Get),
            "POST" => Some(Self::Post),
            _ => None,
        }
    }

    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// The proof that a request to a route must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// None.
    None,
    /// A token in a header or in the cookie.
    Token,
    /// A token, or a user and a password, in each chunk of the body.
    Chunks,
    /// A token, unless an entry of the configuration says otherwise.
    Configured,
}

/// The function that answers a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Welcome,
    Call,
    LoginForm,
    Login,
    Logout,
    Run,
    Token,
    Description,
    Minions,
    MinionsJob,
    Jobs,
    Keys,
    NewKey,
    Events,
    Socket,
    Stats,
    Hook,
}

/// A path of the API.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) method: Method,
    /// The path, with the place of a name at its end in braces.
    pub(super) path: &'static str,
    pub(super) proof: Proof,
    pub(super) action: Action,
    /// The parameters of the query.
    pub(super) query: &'static [&'static str],
    /// One sentence about it, for the description of the API.
    pub(super) doc: &'static str,
}

const fn route(
    method: Method,
    path: &'static str,
    proof: Proof,
    action: Action,
    doc: &'static str,
) -> Route {
    Route {
        method,
        path,
        proof,
        action,
        query: &[],
        doc,
    }
}

impl Route {
    const fn query(mut self, names: &'static [&'static str]) -> Self {
        self.query = names;
        self
    }

    /// Returns the path without the name at its end, and that name without its braces.
    pub(super) fn parts(&self) -> (&'static str, Option<&'static str>) {
        match self.path.split_once("/{") {
            Some((base, name)) => (base, name.strip_suffix('}')),
            None => (self.path, None),
        }
    }
}

/// The path of the hook, which the configuration can change.
const HOOK: &str = "/hook/{tag}";

/// All routes, sorted by path.
pub(super) const ROUTES: &[Route] = &[
    route(
        Method::Get,
        "/",
        Proof::None,
        Action::Welcome,
        "Return the names of the clients.",
    ),
    route(
        Method::Post,
        "/",
        Proof::Token,
        Action::Call,
        "Run calls with the token of the request.",
    ),
    route(
        Method::Get,
        "/events",
        Proof::Token,
        Action::Events,
        "Send events as they arrive, as server-sent events.",
    ),
    route(
        Method::Post,
        HOOK,
        Proof::Configured,
        Action::Hook,
        "Fire an event with the body of the request.",
    ),
    route(
        Method::Get,
        "/jobs/{jid}",
        Proof::Token,
        Action::Jobs,
        "Return the jobs, or one job with its returns.",
    )
    .query(&["jid", "timeout"]),
    route(
        Method::Get,
        "/keys/{mid}",
        Proof::Token,
        Action::Keys,
        "Return the names of the keys, or the fingerprint of one.",
    )
    .query(&["mid"]),
    route(
        Method::Post,
        "/keys",
        Proof::Chunks,
        Action::NewKey,
        "Generate a key pair for a minion, accept its public key, and return both as a tar.",
    ),
    route(
        Method::Get,
        "/login",
        Proof::None,
        Action::LoginForm,
        "Return a request to log in.",
    ),
    route(
        Method::Post,
        "/login",
        Proof::None,
        Action::Login,
        "Check a password, and return a token.",
    ),
    route(
        Method::Post,
        "/logout",
        Proof::Token,
        Action::Logout,
        "Remove the token of the request.",
    ),
    route(
        Method::Get,
        "/minions/{mid}",
        Proof::Token,
        Action::Minions,
        "Return the grains of all minions, or of one.",
    )
    .query(&["mid"]),
    route(
        Method::Post,
        "/minions",
        Proof::Token,
        Action::MinionsJob,
        "Start jobs, and return their ids.",
    ),
    route(
        Method::Get,
        "/openapi.json",
        Proof::None,
        Action::Description,
        "Return this description of the API.",
    ),
    route(
        Method::Post,
        "/run",
        Proof::Chunks,
        Action::Run,
        "Run calls, each with its own token or password.",
    ),
    route(
        Method::Get,
        "/stats",
        Proof::Configured,
        Action::Stats,
        "Return the counters of the API, in the form of CherryPy's statistics.",
    ),
    route(
        Method::Post,
        "/token",
        Proof::Chunks,
        Action::Token,
        "Check passwords, and return a token for each.",
    ),
    route(
        Method::Get,
        "/ws/{token}",
        Proof::Token,
        Action::Socket,
        "Send events as they arrive, as messages of a WebSocket.",
    )
    .query(&["token"]),
];

/// The routes that need sessions (`enable_sessions`).
const OF_SESSIONS: [&str; 4] = ["/login", "/logout", "/minions", "/jobs"];

/// A route that a request names, with the name at the end of its path.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) route: &'static Route,
    pub(super) name: Option<String>,
}

/// The failure of a path that is unknown.
pub(super) fn unknown(path: &str) -> Failure {
    let path: String = path.chars().take(200).collect();
    Failure::new(404, format!("The path '{path}' was not found."))
}

/// The failure of a request with a part of its path, or of its query, that no route has.
pub(super) fn unexpected() -> Failure {
    Failure::new(404, "Nothing matches the given URI")
}

/// The methods of a path, for the header `Allow`.
#[derive(Debug)]
pub(super) enum Missing {
    /// No route has the path.
    Path,
    /// A route has the beginning of the path.
    Rest,
    Method(Vec<&'static str>),
}

/// Returns the route of a method and a path. `hook` is the path of the hook.
pub(super) fn find(
    method: Option<Method>,
    path: &str,
    hook: &str,
    has_sessions: bool,
) -> Result<Found, Missing> {
    let fitting: Vec<Found> = ROUTES
        .iter()
        .filter_map(|route| {
            let name = fits(route, path, hook)?;
            Some(Found { route, name })
        })
        .filter(|found| has_sessions || !OF_SESSIONS.contains(&found.route.parts().0))
        .collect();
    if fitting.is_empty() {
        let begins = |route: &Route| {
            let base = route.parts().0;
            base != "/"
                && path
                    .strip_prefix(base)
                    .is_some_and(|rest| rest.starts_with('/'))
        };
        return Err(match ROUTES.iter().any(begins) {
            true => Missing::Rest,
            false => Missing::Path,
        });
    }
    let allowed = fitting
        .iter()
        .map(|found| found.route.method.name())
        .collect();
    let mut fitting = fitting.into_iter();
    let found = fitting.find(|found| Some(found.route.method) == method);
    found.ok_or(Missing::Method(allowed))
}

/// Returns the name at the end of a path, if the path is one of the route's.
fn fits(route: &Route, path: &str, hook: &str) -> Option<Option<String>> {
    let (base, parameter) = route.parts();
    if route.action == Action::Hook {
        let rest = path.strip_prefix(hook)?;
        let is_below = rest.is_empty() || rest.starts_with('/');
        return is_below.then(|| Some(rest.to_owned()));
    }
    if base == "/" {
        return path.chars().all(|c| c == '/').then_some(None);
    }
    let rest = path.strip_prefix(base)?;
    match (rest.trim_end_matches('/'), parameter) {
        ("", _) => Some(None),
        (rest, Some(_)) => {
            let name = rest.strip_prefix('/')?;
            let text = String::from_utf8(crate::http::quoted::unquoted(name)).ok()?;
            (!name.contains('/')).then_some(Some(text))
        }
        (_, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, path: &str) -> Result<(Action, Option<String>), u16> {
        let found = find(Method::find(method), path, "/hook", true);
        match found {
            Ok(found) => Ok((found.route.action, found.name)),
            Err(Missing::Path | Missing::Rest) => Err(404),
            Err(Missing::Method(_)) => Err(405),
        }
    }

    #[test]
    fn a_path_is_one_route_of_its_method() {
        let name = |name: &str| Some(name.to_owned());
        for (method, path, expected) in [
            ("GET", "/", Ok((Action::Welcome, None))),
            ("HEAD", "/", Ok((Action::Welcome, None))),
            ("POST", "/", Ok((Action::Call, None))),
            ("POST", "/run/", Ok((Action::Run, None))),
            ("GET", "/minions", Ok((Action::Minions, None))),
            ("GET", "/minions/a%20b", Ok((Action::Minions, name("a b")))),
            ("POST", "/hook", Ok((Action::Hook, name("")))),
            ("POST", "/hook/a/b", Ok((Action::Hook, name("/a/b")))),
            ("POST", "/hooks", Err(404)),
            ("GET", "/minions/a/b", Err(404)),
            ("GET", "/login/x", Err(404)),
            ("GET", "/nothing", Err(404)),
            ("GET", "/run", Err(405)),
            ("PUT", "/", Err(405)),
        ] {
            assert_eq!(found(method, path), expected, "{method} {path}");
        }
        assert!(find(Some(Method::Post), "/login", "/hook", false).is_err());
        assert!(find(Some(Method::Post), "/run", "/hook", false).is_ok());
    }

    #[test]
    fn routes_are_sorted_and_described() {
        assert!(ROUTES.is_sorted_by_key(|route| route.parts().0));
        assert!(ROUTES.iter().all(|route| route.doc.ends_with('.')));
    }
}
