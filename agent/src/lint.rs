//! `pinch lint` and `pinch explain`: reads the arguments, finds the roots of the tree and prints
//! the report.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cli::binary;
use cli::config;
use cli::failure::{Exit, Failure};
use cli::options::{LINT, Parsed};
use lint::{Buffers, Sample, Settings, Severity};
use render::yaml::SaltYaml;
use state::opts::Opts;
use value::hint::nearest;
use value::read::or_log;
use value::{Map, Value};

use crate::setup;

/// The folder of the configuration if the command line names no tree.
const CONFIG_DIR: &str = "/etc/salt";

/// A folder without a configuration, so that the defaults apply.
const NO_CONFIG: &str = "/nonexistent";

/// The folders of a tree that may be its file root.
const ROOTS: [&str; 4] = ["salt", "states", "srv/salt", "salt/states"];

/// Runs `pinch lint` with the arguments `words`.
///
/// # Errors
/// If the command line is wrong, or the tree, the configuration or a sample cannot be read.
pub(crate) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    setup::run(&LINT, words, examined)
}

fn examined(parsed: &Parsed) -> Result<ExitCode, Failure> {
    let file = match parsed.words.as_slice() {
        [one] => Some(Path::new(one)).filter(|path| path.is_file()),
        _ => None,
    };
    let words = match file {
        // The configuration names the tree.
        Some(_) if parsed.has("config_dir") => Vec::new(),
        Some(file) => vec![tree_of(file)?],
        None => parsed.words.clone(),
    };
    let settings = settings(parsed, &words)?;
    let mut report = lint::lint(&settings).map_err(|error| Failure::new(Exit::Generic, error))?;
    if report.files == 0 {
        return Err(no_files(&settings.opts));
    }
    if let Some(file) = file {
        let same = |found: &str| is_same(Path::new(found), file);
        report.findings.retain(|finding| same(&finding.file));
        report.unreached.retain(|branch| same(&branch.file));
        report.files = 1;
    }
    binary::put(&lint::formatted(
        &report,
        parsed.text("format").unwrap_or_default(),
    ));
    let warned = parsed.has("strict") && report.count(Severity::Warning) > 0;
    let failed = warned || report.count(Severity::Error) > 0;
    Ok(if failed { Exit::Generic } else { Exit::Ok }.into())
}

/// Returns the file root that contains an SLS file: the nearest folder above it with a `top.sls`, or
/// else its own folder.
fn tree_of(file: &Path) -> Result<String, Failure> {
    let failed = |error: String| Failure::new(Exit::Usage, error);
    if file.extension().is_none_or(|extension| extension != "sls") {
        let error = format!("{} is not an SLS file or a directory", file.display());
        return Err(failed(error));
    }
    let whole = std::path::absolute(file);
    let whole = whole.map_err(|error| failed(format!("{}: {error}", file.display())))?;
    let above = file.ancestors().chain(whole.ancestors()).skip(1);
    let mut above = above.map(|folder| match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    });
    let own = above.clone().next().unwrap_or_else(|| Path::new("."));
    let tree = above.find(|folder| folder.join("top.sls").is_file());
    Ok(tree.unwrap_or(own).display().to_string())
}

fn is_same(one: &Path, other: &Path) -> bool {
    let (one, other) = (one.canonicalize(), other.canonicalize());
    matches!((one, other), (Ok(one), Ok(other)) if one == other)
}

/// Returns the error of a tree without SLS files.
fn no_files(opts: &Opts) -> Failure {
    let roots = opts.get("file_roots").and_then(Value::as_map);
    let folders = roots.into_iter().flatten();
    let folders = folders.flat_map(|(_, folders)| folders.as_list().unwrap_or_default());
    let folders: Vec<String> = folders.map(Value::to_text).collect();
    let error = match folders.is_empty() {
        true => "the option file_roots names no folder".to_owned(),
        false => format!("no SLS files in {}", folders.join(", ")),
    };
    let hint = "name the folder of your states: pinch lint DIR";
    Failure::new(Exit::Generic, error).hints([hint.to_owned()])
}

/// Returns what to examine: the tree that `words` names, or that of the configuration.
///
/// # Errors
/// If the folder does not exist, or the configuration or a sample cannot be read.
pub(crate) fn settings(parsed: &Parsed, words: &[String]) -> Result<Settings, Failure> {
    let tree = match words {
        [] => None,
        [tree] => Some(Path::new(tree)),
        _ => return Err(Failure::new(Exit::Usage, "expected at most one folder")),
    };
    let default = if tree.is_some() {
        NO_CONFIG
    } else {
        CONFIG_DIR
    };
    let dir = parsed.text("config_dir").unwrap_or(default);
    let loaded = config::load(Path::new(dir), Map::new(), &SaltYaml)?;
    let mut opts = loaded.opts;
    let without = tree.map(|tree| roots(tree, &mut opts)).transpose()?;
    Ok(Settings {
        opts: Opts::new(opts),
        registry: lint::without_machine(crate::uplink::registry()),
        without: without.flatten(),
        samples: samples(parsed)?,
        buffers: Buffers::default(),
    })
}

/// Sets `file_roots` and `pillar_roots` to the folders of a tree. If the pillar is inside the file
/// root, returns the pillar's folder within it.
fn roots(tree: &Path, opts: &mut Map) -> Result<Option<String>, Failure> {
    if !tree.is_dir() {
        let error = format!("{} is not a directory or an SLS file", tree.display());
        return Err(Failure::new(Exit::Usage, error));
    }
    let inside = || ROOTS.iter().map(|name| tree.join(name));
    let root = match holds_sls(tree) {
        true => tree.to_path_buf(),
        false => inside()
            .find(|root| root.is_dir())
            .unwrap_or_else(|| tree.to_path_buf()),
    };
    let pillars = [
        tree.join("pillar"),
        root.join("../pillar"),
        tree.join("../pillar"),
    ];
    let pillar = pillars
        .into_iter()
        .find(|folder| folder.join("top.sls").is_file());
    let within = pillar.as_ref() == Some(&root.join("pillar"));
    opts.insert("file_roots", base(Some(root)));
    opts.insert("pillar_roots", base(pillar));
    Ok(within.then(|| "pillar/".to_owned()))
}

/// Returns a map that gives the environment `base` one folder, or none.
fn base(folder: Option<PathBuf>) -> Value {
    let folders = folder.map(|folder| folder.display().to_string().into());
    Map::new().with("base", Value::list(folders)).into()
}

fn holds_sls(folder: &Path) -> bool {
    let entries = or_log(folder, std::fs::read_dir(folder));
    let entries = entries.into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| path.extension().is_some_and(|extension| extension == "sls"))
}

/// Returns this machine and the machines in the files of `--grains` as samples.
fn samples(parsed: &Parsed) -> Result<Vec<Sample>, Failure> {
    let mut all = vec![Sample {
        name: "this machine".into(),
        grains: None,
    }];
    for file in parsed.all("grains") {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Failure::new(Exit::Generic, format!("cannot read {file}: {error}")))?;
        let samples = lint::samples(file, &text);
        all.extend(samples.map_err(|error| Failure::new(Exit::Generic, error))?);
    }
    Ok(all)
}

/// Runs `pinch explain CODE`.
///
/// # Errors
/// If the code does not exist.
pub(crate) fn explain(word: &str) -> Result<ExitCode, Failure> {
    let Some(code) = lint::code(word) else {
        let all: Vec<&str> = lint::CODES.iter().map(|code| code.code).collect();
        let names = lint::CODES.iter().map(|code| code.name);
        let hint = match nearest(word, all.iter().copied().chain(names)) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("the codes are: {}", all.join(", ")),
        };
        return Err(Failure::new(Exit::Usage, format!("unknown lint code {word}")).hints([hint]));
    };
    Ok(binary::put(&code.page()))
}
