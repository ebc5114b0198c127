//! The `helm` execution module.

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json};

/// The timeout of the program in seconds. It is long because helm may wait for a release to become
/// ready.
const SECONDS_MAX: i64 = 3600;

state::exec_module! {
    /// Manage charts and releases of Kubernetes with the program helm.
    #[needs("helm", "the program helm is not in the path", "")]
    mod helm;

    /// Install a release. Return True, or the error message of the program.
    ///
    ///     salt-call helm.install shop stable/shop namespace=web
    fn install(Install {
        /// The name of the release.
        release: String,
        /// The chart.
        chart: String,
        #[group] options: ChartOptions,
    });

    /// Upgrade a release. Return True, or the error message of the program.
    ///
    ///     salt-call helm.upgrade shop stable/shop namespace=web
    fn upgrade(Upgrade {
        /// The name of the release.
        release: String,
        /// The chart.
        chart: String,
        #[group] options: ChartOptions,
    });

    /// Uninstall a release. Return True, or the error message of the program.
    ///
    ///     salt-call helm.uninstall shop namespace=web
    fn uninstall(Uninstall {
        /// The name of the release.
        release: String,
        #[group] scope: Scope,
    });

    /// Return the status of a release, or the error message of the program.
    ///
    ///     salt-call helm.status shop namespace=web
    fn status(Status {
        /// The name of the release.
        release: String,
        #[group] scope: Scope,
    });

    /// Return the releases.
    ///
    ///     salt-call helm.list
    fn list(List {
        #[group] scope: Scope,
    });

    /// Return the repositories.
    ///
    ///     salt-call helm.repo_list
    fn repo_list(RepoList {
        #[group] scope: Scope,
    });

    /// Add a repository. Return True, or the error message of the program.
    ///
    ///     salt-call helm.repo_add stable https://charts.example.com
    fn repo_add(RepoAdd {
        /// The name of the repository.
        name: String,
        /// The address of the repository.
        url: String,
        #[group] scope: Scope,
    });

    /// Remove a repository. Return True, or the error message of the program.
    ///
    ///     salt-call helm.repo_remove stable
    fn repo_remove(RepoRemove {
        /// The name of the repository.
        name: String,
        #[group] scope: Scope,
    });

    /// Update the information about the charts of the repositories. Return True, or the error
    /// message of the program.
    ///
    ///     salt-call helm.repo_update
    fn repo_update(RepoUpdate {
        #[group] scope: Scope,
    });

    /// Add and remove repositories.
    ///
    ///     salt-call helm.repo_manage present='[{name: stable, url: https://charts.example.com}]'
    fn repo_manage(RepoManage {
        /// The repositories to add: a list of dictionaries with `name` and `url`.
        present: Vec<Value> = Vec::new(),
        /// The names of the repositories to remove.
        absent: Vec<String> = Vec::new(),
        /// Whether to remove all other repositories.
        prune: bool = false,
        #[group] scope: Scope,
    });
}

/// The options of a command.
struct Options {
    flags: Vec<String>,
    kvflags: Map,
}

impl Options {
    /// Returns the options, with arguments of a function that are passed as options too.
    fn with(flags: Vec<String>, mut kvflags: Map, more: &[(&str, Value)]) -> Self {
        for (key, value) in more.iter().filter(|(_, value)| value.is_true()) {
            kvflags.insert(*key, value.clone());
        }
        Self { flags, kvflags }
    }

    fn words(&self) -> Vec<String> {
        let long = |word: &str| match word.starts_with("--") {
            true => word.to_owned(),
            false => format!("--{word}"),
        };
        let mut words: Vec<String> = self.flags.iter().map(|flag| long(flag)).collect();
        for (key, value) in &self.kvflags {
            let values = match value {
                Value::List(_) => value.texts(),
                one => vec![one.to_text()],
            };
            let key = long(&key.to_text());
            words.extend(values.iter().map(|value| format!("{key}={value}")));
        }
        words
    }
}

fn run(cx: &Exec, words: &[&str], options: &Options, names: &[&str]) -> Result<Output, Error> {
    let mut all = vec!["helm".to_owned()];
    all.extend(words.iter().map(|word| (*word).to_owned()));
    all.extend(options.words());
    if !names.is_empty() {
        all.push("--".to_owned());
        all.extend(names.iter().map(|name| (*name).to_owned()));
    }
    let process = Process {
        timeout: Some(SECONDS_MAX.into()),
        ..Process::words(all).quiet()
    };
    let output = process.run(cx)?;
    match output.timed_out {
        true => Err(Error::refused(format!(
            "helm {} did not finish in {SECONDS_MAX} seconds; its result is unknown",
            words.join(" ")
        ))),
        false => Ok(output),
    }
}

/// Runs a command, and returns True or the error message of the program.
fn act(cx: &Exec, words: &[&str], options: &Options, names: &[&str]) -> Result<Value, Error> {
    let output = run(cx, words, options, names)?;
    Ok(match output.success() {
        true => true.into(),
        false => output.stderr.into(),
    })
}

/// Runs a command, and returns its parsed output or its error message.
fn ask(cx: &Exec, words: &[&str], mut options: Options, names: &[&str]) -> Result<Value, Error> {
    let form = ["output", "--output"];
    let form = form
        .iter()
        .find_map(|key| options.kvflags.get(key))
        .map(Value::to_text);
    let is_json = form.as_deref().is_none_or(|form| form == "json");
    if form.is_none() {
        options.kvflags.insert("output", "json");
    }
    let output = run(cx, words, &options, names)?;
    match (output.success(), is_json) {
        (false, _) => Ok(output.stderr.into()),
        (true, false) => Ok(output.into_stdout_regardless().into()),
        (true, true) => json::read(output.stdout_regardless())
            .map_err(|why| Error::refused(format!("cannot parse the output of helm: {why}"))),
    }
}

state::argument_group! {
    /// The namespace, and other options of the program.
    pub(crate) struct Scope {
        /// The namespace.
        namespace: Value = Value::Null,
        /// Options that have no value.
        flags: Vec<String> = Vec::new(),
        /// Options that have values.
        kvflags: Map = Map::new(),
    }
}

state::argument_group! {
    /// The values of a chart, and other options of the program.
    pub(crate) struct ChartOptions {
        /// The path of a file with values.
        values: Value = Value::Null,
        /// The version of the chart.
        version: Value = Value::Null,
        /// The namespace.
        namespace: Value = Value::Null,
        /// Values to set, each as `NAME=VALUE`.
        set: Value = Value::Null,
        /// Options that have no value.
        flags: Vec<String> = Vec::new(),
        /// Options that have values.
        kvflags: Map = Map::new(),
    }
}

impl Scope {
    fn options(self) -> Options {
        Options::with(self.flags, self.kvflags, &[("namespace", self.namespace)])
    }
}

impl ChartOptions {
    fn joined(self) -> Options {
        let more = [
            ("values", self.values),
            ("version", self.version),
            ("namespace", self.namespace),
            ("set", self.set),
        ];
        Options::with(self.flags, self.kvflags, &more)
    }
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    let options = args.options.joined();
    act(cx, &["install"], &options, &[&args.release, &args.chart])
}

fn upgrade(cx: &Exec, args: Upgrade) -> Result<Value, Error> {
    let options = args.options.joined();
    act(cx, &["upgrade"], &options, &[&args.release, &args.chart])
}

fn uninstall(cx: &Exec, args: Uninstall) -> Result<Value, Error> {
    let options = args.scope.options();
    act(cx, &["uninstall"], &options, &[&args.release])
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let options = args.scope.options();
    ask(cx, &["status"], options, &[&args.release])
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let options = args.scope.options();
    ask(cx, &["list"], options, &[])
}

fn repo_list(cx: &Exec, args: RepoList) -> Result<Value, Error> {
    let options = args.scope.options();
    ask(cx, &["repo", "list"], options, &[])
}

fn repo_add(cx: &Exec, args: RepoAdd) -> Result<Value, Error> {
    let options = args.scope.options();
    act(cx, &["repo", "add"], &options, &[&args.name, &args.url])
}

fn repo_remove(cx: &Exec, args: RepoRemove) -> Result<Value, Error> {
    let options = args.scope.options();
    act(cx, &["repo", "remove"], &options, &[&args.name])
}

fn repo_update(cx: &Exec, args: RepoUpdate) -> Result<Value, Error> {
    let options = args.scope.options();
    act(cx, &["repo", "update"], &options, &[])
}

fn repo_manage(cx: &Exec, args: RepoManage) -> Result<Value, Error> {
    let namespace = ("namespace", args.scope.namespace.clone());
    let plain = || Options::with(Vec::new(), Map::new(), std::slice::from_ref(&namespace));
    let options = || args.scope.clone().options();
    let known = ask(cx, &["repo", "list"], options(), &[])?;
    let mut known = known.as_list().unwrap_or_default().to_vec();
    let (mut present, mut added, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for repo in args.present {
        let part = |key: &str| repo.get(key).map(Value::to_text);
        let (Some(name), Some(url)) = (part("name"), part("url")) else {
            return Err("Parameter present have to be formatted like [{'name': '<myRepoName>', 'url': '<myRepoUrl>'}]".into());
        };
        let same =
            |one: &Value| one.get("name") == repo.get("name") && one.get("url") == repo.get("url");
        if let Some(place) = known.iter().position(same) {
            known.remove(place);
            present.push(repo);
        } else if act(cx, &["repo", "add"], &options(), &[&name, &url])? == Value::Bool(true) {
            added.push(repo);
        } else {
            failed.push(repo);
        }
    }
    let mut absent = args.absent;
    for repo in known {
        let name = repo.get("name").map(Value::to_text).unwrap_or_default();
        if args.prune {
            absent.push(name);
        } else if !absent.contains(&name) {
            present.push(repo);
        }
    }
    let (mut removed, mut was_absent) = (Vec::new(), Vec::new());
    for name in absent {
        let done = act(cx, &["repo", "remove"], &plain(), &[&name])?;
        (if done == Value::Bool(true) {
            &mut removed
        } else {
            &mut was_absent
        })
        .push(name);
    }
    Ok(Map::new()
        .with("present", present)
        .with("added", added)
        .with("absent", was_absent)
        .with("removed", removed)
        .with("failed", failed)
        .into())
}
