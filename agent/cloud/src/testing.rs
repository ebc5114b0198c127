//! The contexts of tests.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ::tests::server;
use modules::fileserver::roots::Roots;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate::ThisMachine;
use state::exec::Exec;
use state::opts::Opts;
use tempfile::TempDir;
use value::{Map, Value, json};

use crate::config::Provider;
use crate::spec::{self, Spec};

/// A folder with a configuration and a cache.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of the configuration.
    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn cx(&self) -> Exec {
        self.cx_with(Map::new())
    }

    /// Returns a context with more options.
    pub(crate) fn cx_with(&self, more: Map) -> Exec {
        let path = |name: &str| Value::from(self.path().join(name).display().to_string());
        let mut map = Map::new()
            .with("conf_file", path("master"))
            .with("cachedir", path("cache"))
            .with("extension_modules", path("extmods"))
            .with("sock_dir", path("sock"))
            .with("id", "here");
        map.update(more);
        let opts = Opts::new(map);
        Exec::with_custom(
            opts.clone(),
            &modules::REGISTRY,
            Box::new(Roots::states(&opts)),
            Box::new(ThisMachine),
            Box::new(CustomModules::new(&opts)),
        )
    }
}

/// Returns what is wanted of a machine without settings.
pub(crate) fn spec_of(name: &str, alias: &str, driver: &str) -> Spec {
    Spec {
        name: spec::id(name).unwrap(),
        provider: Provider {
            alias: alias.to_owned(),
            driver: driver.to_owned(),
            settings: Map::new(),
        },
        profile: None,
        settings: Map::new().with("name", name),
    }
}

/// A request that a simulated cloud has received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The method and the path.
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asked {
    /// Returns the body as data.
    pub(crate) fn json(&self) -> Value {
        json::read(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Returns whether a header has this value.
    pub(crate) fn has(&self, header: &str, value: &str) -> bool {
        let line = format!("{header}: {value}").to_lowercase();
        self.head.to_lowercase().lines().any(|own| own == line)
    }
}

/// A simulated cloud, with the answers of its published description.
pub(crate) struct Cloud {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A method with a path, a status, and the body of the answer.
pub(crate) type Route<'a> = (&'a str, &'a str, &'a str);

impl Cloud {
    /// Starts a cloud. Requests that are alike get the answers in their order, and the last one again.
    pub(crate) fn start(routes: &[Route<'_>]) -> Self {
        let routes: Vec<(String, String)> = routes
            .iter()
            .map(|(line, status, body)| {
                let headers = "Content-Type: application/json\r\n";
                ((*line).to_owned(), server::text(status, headers, body))
            })
            .collect();
        let routes = Mutex::new(routes);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        let url = server::start(move |head, body| {
            let line = head.lines().next().unwrap_or_default();
            let line = line.trim_end_matches(" HTTP/1.1").to_owned();
            kept.lock().unwrap().push(Asked {
                line: line.clone(),
                head: head.to_owned(),
                body: body.to_owned(),
            });
            let mut routes = routes.lock().unwrap();
            let fits = |(own, _): &(String, String)| *own == line;
            let Some(at) = routes.iter().position(fits) else {
                return server::text("418 I'm a teapot", "", &format!("no route {line}"));
            };
            match routes.iter().skip(at + 1).any(fits) {
                true => routes.remove(at).1,
                false => routes[at].1.clone(),
            }
        });
        Self { url, asked }
    }

    /// Returns the requests since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }

    /// Returns the methods and paths of the requests since the last call.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

/// Returns the name, the state and the addresses of machines.
pub(crate) fn brief(machines: &[crate::driver::Machine]) -> Vec<String> {
    let brief = |machine: &crate::driver::Machine| {
        format!(
            "{} {} {} {} {} {:?} {:?} {}",
            machine.name,
            machine.id,
            machine.image,
            machine.size,
            machine.state,
            machine.public_ips,
            machine.private_ips,
            machine.token.as_deref().unwrap_or("-")
        )
    };
    machines.iter().map(brief).collect()
}
