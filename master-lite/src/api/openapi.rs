//! The description of the API in the form of OpenAPI, made from the declarations of the routes.

use value::{Map, Value};

use super::chunk::CLIENTS;
use super::routes::{Action, Method, Proof, ROUTES, Route};

/// Returns the description. `hook` is the path of the hook.
pub(super) fn description(hook: &str) -> Map {
    let mut paths = Map::new();
    for route in ROUTES {
        for (path, has_name) in paths_of(route, hook) {
            let operations = paths.entry(path.as_str(), || Map::new().into());
            if let Value::Map(operations) = operations {
                let method = route.method.name().to_lowercase();
                operations.insert(method, operation(route, has_name));
            }
        }
    }
    let info = Map::new()
        .with("title", "The API of a Salt master")
        .with("version", env!("CARGO_PKG_VERSION"));
    let token = Map::new()
        .with("type", "apiKey")
        .with("in", "header")
        .with("name", "X-Auth-Token");
    let components = Map::new()
        .with("securitySchemes", Map::new().with("token", token))
        .with("schemas", Map::new().with("call", call()));
    Map::new()
        .with("openapi", "3.0.3")
        .with("info", info)
        .with("paths", paths)
        .with("components", components)
}

/// Returns the paths of a route, and whether each ends with a name.
fn paths_of(route: &Route, hook: &str) -> Vec<(String, bool)> {
    let (base, name) = route.parts();
    let base = match route.action {
        Action::Hook => hook,
        _ => base,
    };
    let whole = |name: &str| (format!("{base}/{{{name}}}"), true);
    let named = name.map(whole);
    [(base.to_owned(), false)]
        .into_iter()
        .chain(named)
        .collect()
}

fn operation(route: &Route, has_name: bool) -> Map {
    let (_, name) = route.parts();
    let of_path = name
        .filter(|_| has_name)
        .map(|name| parameter(name, "path"));
    let of_query = route.query.iter().filter(|_| !has_name);
    let of_query = of_query.map(|name| parameter(name, "query"));
    let of_events = (route.action == Action::Events).then(|| parameter("Last-Event-ID", "header"));
    let parameters = of_path.into_iter().chain(of_query).chain(of_events);
    let answer = |text: &str| Value::from(Map::new().with("description", text));
    let (status, text) = match route.action {
        Action::MinionsJob => ("202", "The jobs have begun."),
        _ => ("200", "The request has succeeded."),
    };
    let mut answers = Map::new().with(status, answer(text));
    if route.proof != Proof::None || route.action == Action::Login {
        answers.insert(
            "401",
            answer("The token or the password is not valid, or not enough."),
        );
    }
    let mut operation = Map::new()
        .with("summary", route.doc)
        .with("parameters", Value::list(parameters.map(Value::from)))
        .with("responses", answers);
    if matches!(route.proof, Proof::Token | Proof::Configured) {
        let scheme = Map::new().with("token", Value::list([]));
        operation.insert("security", Value::list([scheme.into()]));
    }
    if route.method == Method::Post {
        operation.insert("requestBody", body(route.action));
    }
    operation
}

fn parameter(name: &str, place: &str) -> Map {
    Map::new()
        .with("name", name)
        .with("in", place)
        .with("required", place == "path")
        .with("schema", Map::new().with("type", "string"))
}

/// Returns the body of a route: calls, or any data.
fn body(action: Action) -> Map {
    let schema = match action {
        Action::Call | Action::Run | Action::MinionsJob => Map::new().with("type", "array").with(
            "items",
            Map::new().with("$ref", "#/components/schemas/call"),
        ),
        _ => Map::new(),
    };
    let content = Map::new().with("schema", schema);
    let kinds = [
        "application/json",
        "application/x-yaml",
        "application/x-www-form-urlencoded",
    ];
    let content = kinds.map(|kind| (kind, Value::from(content.clone())));
    Map::new().with("content", content.into_iter().collect::<Map>())
}

/// Returns the form of a call.
fn call() -> Map {
    let of = |kind: &str| Value::from(Map::new().with("type", kind));
    let names = CLIENTS.iter().map(|(name, _)| (*name).into());
    let client = Map::new()
        .with("type", "string")
        .with("enum", Value::list(names));
    let properties = Map::new()
        .with("client", client)
        .with("fun", of("string"))
        .with("tgt", Map::new())
        .with("tgt_type", of("string"))
        .with(
            "arg",
            of("array")
                .as_map()
                .cloned()
                .unwrap_or_default()
                .with("items", Map::new()),
        )
        .with("kwarg", of("object"))
        .with("timeout", of("number"))
        .with("full_return", of("boolean"));
    Map::new()
        .with("type", "object")
        .with("required", Value::list(["client".into(), "fun".into()]))
        .with("properties", properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_route_is_described() {
        let description = description("/in");
        let paths = description.get("paths").and_then(Value::as_map).unwrap();
        let names: Vec<String> = paths.keys().map(Value::to_text).collect();
        for path in [
            "/",
            "/in",
            "/in/{tag}",
            "/minions",
            "/minions/{mid}",
            "/run",
        ] {
            assert!(names.iter().any(|name| name == path), "{path}: {names:?}");
        }
        assert!(
            !names.iter().any(|name| name.starts_with("/hook")),
            "{names:?}"
        );
        let of = |path: &str, method: &str| paths.get(path).and_then(|path| path.get(method));
        assert!(of("/minions", "get").unwrap().get("security").is_some());
        assert!(of("/login", "post").unwrap().get("security").is_none());
        let count: usize = paths.values().filter_map(Value::as_map).map(Map::len).sum();
        let names = ROUTES
            .iter()
            .filter(|route| route.parts().1.is_some())
            .count();
        assert_eq!(count, ROUTES.len() + names);
    }
}
