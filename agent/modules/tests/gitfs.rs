//! Compares trees and pillars from git with those of Salt 3008.5 for the same configurations
//! (`tests/corpus/gitfs`).

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may break"
)]

mod pillar;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use modules::fileserver::roots::Roots;
use sha2::{Digest, Sha256};
use state::opts::Opts;
use state::sources::Sources;
use value::{Map, Value, json};

/// The environments that are compared. `SHA_V1` is the number of a commit.
const ENVIRONMENTS: [&str; 15] = [
    "SHA_V1",
    "base",
    "dev",
    "feature/x",
    "main",
    "master",
    "nosuch",
    "pr/7",
    "prod",
    "qa",
    "release-1",
    "staging",
    "v1",
    "v1.0.0",
    "v2",
];

/// The contents of an environment.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tree {
    /// The files with the beginnings of their hashes; `None` if they cannot be served.
    files: BTreeMap<String, Option<String>>,
    folders: BTreeSet<String>,
    links: BTreeMap<String, String>,
}

/// The repositories, and the words of the cases that depend on them.
struct Repositories {
    scratch: tempfile::TempDir,
    words: Vec<(&'static str, String)>,
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/gitfs")
}

impl Repositories {
    fn create() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("repositories");
        let own = scratch.path().join("srv");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(own.join("web/files")).unwrap();
        std::fs::write(own.join("web/files/a.txt"), "own\n").unwrap();
        std::fs::write(own.join("own.sls"), "own: {}\n").unwrap();
        let script = corpus().join("repositories.sh");
        let made = Command::new("sh").arg(script).arg(&folder).status();
        assert!(made.unwrap().success());
        let commit = |name: &str| {
            let mut git = Command::new("git");
            git.arg("-C").arg(folder.join("states"));
            let output = git.args(["rev-parse", name]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let words = vec![
            ("SHA_V1", commit("v1^{commit}")),
            ("SHA_DEV", commit("dev")),
            ("FOLDER", folder.display().to_string()),
        ];
        Self { scratch, words }
    }

    fn replaced(&self, text: &str) -> String {
        let words = self.words.iter();
        words.fold(text.to_owned(), |text, (word, value)| {
            text.replace(word, value)
        })
    }

    /// Returns the roots of a configuration.
    fn roots(&self, name: &str, options: &Map) -> Roots {
        let path = |below: &str| self.scratch.path().join(below).display().to_string();
        let own = Map::new().with("base", Value::list([path("srv").into()]));
        let mut opts = Map::new()
            .with("id", "m")
            .with("root_dir", "/")
            .with("cachedir", path(&format!("cache-{name}")))
            .with("file_roots", own)
            .with("fileserver_backend", Value::list(["gitfs".into()]));
        opts.update(options.clone());
        Roots::states(&Opts::new(opts))
    }
}

fn served(roots: &Roots, env: &str) -> Tree {
    let hash = |path: &String| {
        let file = roots.file(path, env).unwrap()?;
        let bytes = std::fs::read(file.path).unwrap();
        Some(value::python::hex(&Sha256::digest(bytes))[..12].to_owned())
    };
    let files = roots.list(env).unwrap();
    let folders = roots.folders(env).unwrap();
    Tree {
        files: files
            .into_iter()
            .map(|path| (path.clone(), hash(&path)))
            .collect(),
        folders: folders.into_iter().filter(|path| path != ".").collect(),
        links: roots.links(env).unwrap(),
    }
}

/// Returns a recorded answer.
fn recorded(answer: &Value) -> Tree {
    let map = |key: &str| answer.get(key).unwrap().as_map().unwrap().clone();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let files = map("files");
    let files = files
        .iter()
        .map(|(path, hash)| (path.to_text(), text(hash)));
    let links = map("links");
    let links = links
        .iter()
        .map(|(path, to)| (path.to_text(), to.to_text()));
    Tree {
        files: files.collect(),
        folders: answer.get("dirs").unwrap().texts().into_iter().collect(),
        links: links.collect(),
    }
}

/// Leaves out of a recorded answer and of ours what differs on purpose (`tests/corpus/differences.toml`).
fn without_differences(mut salt: Tree, mut ours: Tree) -> (Tree, Tree) {
    let of_folders: Vec<String> = ours
        .links
        .keys()
        .filter(|link| ours.folders.contains(*link))
        .cloned()
        .collect();
    let is_behind = |path: &str| {
        of_folders.iter().any(|link| {
            path.strip_prefix(link.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    for tree in [&mut salt, &mut ours] {
        // Links to folders: Salt lists them as files, and cannot serve them.
        tree.files.retain(|path, _| !is_behind(path));
        tree.folders.retain(|path| !is_behind(path));
        // Links to nothing and out of the commit: Salt lists them, and cannot serve them.
        tree.files.retain(|_, hash| hash.is_some());
        tree.links.retain(|path, _| !path.ends_with("outward"));
    }
    // Links of several backends, and of environments that only a `fallback` serves: Salt lists none.
    if salt.links.is_empty() {
        ours.links.clear();
    }
    // The parents of a mount point: Salt does not list them.
    let listed = salt.folders.clone();
    let is_parent = |path: &String| {
        let below = format!("{path}/");
        listed.iter().any(|folder| folder.starts_with(&below))
    };
    ours.folders
        .retain(|path| listed.contains(path) || !is_parent(path));
    (salt, ours)
}

#[test]
fn environments_files_folders_and_links_are_those_of_salt() {
    let repositories = Repositories::create();
    let read = |name: &str| std::fs::read_to_string(corpus().join(name)).unwrap();
    let cases = render::yaml::load(&repositories.replaced(&read("cases.yaml"))).unwrap();
    let answers = json::read(&read("answers.json")).unwrap();
    let mut wrong = Vec::new();
    for (name, options) in cases.as_map().unwrap().iter() {
        let name = name.to_text();
        let roots = repositories.roots(&name, options.as_map().unwrap());
        let answer = answers.get(&name).unwrap();
        let mut environments = roots.environments().unwrap();
        environments.sort();
        let wanted = answer.get("environments").unwrap().texts();
        if environments != wanted {
            wrong.push(format!("{name}: {environments:?}, not {wanted:?}"));
        }
        for env in ENVIRONMENTS {
            let ours = served(&roots, &repositories.replaced(env));
            let salt = answer.get(env).map(recorded).unwrap_or_default();
            let (salt, ours) = without_differences(salt, ours);
            if salt != ours {
                wrong.push(format!(
                    "{name}, {env}:\n  Salt: {salt:?}\n  ours: {ours:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the pillar of a configuration.
fn pillar_of(repositories: &Repositories, name: &str, options: &Map) -> Map {
    let path = |below: &str| {
        repositories
            .scratch
            .path()
            .join(below)
            .display()
            .to_string()
    };
    let own = Map::new().with("base", Value::list([path("pillar").into()]));
    let mut opts = Map::new()
        .with("id", "m")
        .with("root_dir", "/")
        .with("cachedir", path(&format!("cache-{name}")))
        .with("pillar_roots", own)
        .with("renderer", "jinja|yaml");
    opts.update(options.clone());
    pillar::compiled(opts)
}

/// The cases in which Salt leaves out a repository that cannot be used, which is an error of ours.
const REFUSED: [&str; 2] = ["a_missing_branch", "a_missing_root"];

#[test]
fn pillars_of_repositories_are_those_of_salt() {
    let repositories = Repositories::create();
    let own = repositories.scratch.path().join("pillar");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("top.sls"), "base:\n  '*':\n    - own\n").unwrap();
    let text = "own: here\nwho: own\nmap: {d: own}\n";
    std::fs::write(own.join("own.sls"), text).unwrap();
    let read = |name: &str| std::fs::read_to_string(corpus().join(name)).unwrap();
    let cases = render::yaml::load(&repositories.replaced(&read("pillars.yaml"))).unwrap();
    let answers = json::read(&read("pillars.json")).unwrap();
    let mut wrong = Vec::new();
    for (name, options) in cases.as_map().unwrap().iter() {
        let name = name.to_text();
        let ours = pillar_of(&repositories, &name, options.as_map().unwrap());
        let salt = answers.get(&name).unwrap();
        let is_as_wanted = match REFUSED.contains(&name.as_str()) {
            true => ours.contains("_errors"),
            false => sorted(&ours.clone().into()) == sorted(salt),
        };
        if !is_as_wanted {
            let ours = json::write(&ours.into(), json::Layout::default());
            let salt = json::write(salt, json::Layout::default());
            wrong.push(format!("{name}:\n  Salt: {salt}\n  ours: {ours}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the texts of all values, with sorted keys.
fn sorted(value: &Value) -> String {
    match value {
        Value::Map(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| (key.to_text(), sorted(value)));
            format!("{:?}", entries.collect::<BTreeMap<_, _>>())
        }
        other => json::write(other, json::Layout::default()),
    }
}
