//! Copies the `_modules`, `_states`, `_grains` … of the tree to `extension_modules`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use machine::fs::{self, Owner};
use state::exec::Exec;
use state::module::Error;
use state::top;
use value::{Value, log};

use super::folder;

/// The kinds of modules that are copied, in Salt's order.
pub const KINDS: [&str; 21] = [
    "tops",
    "clouds",
    "beacons",
    "modules",
    "states",
    "sdb",
    "grains",
    "renderers",
    "returners",
    "output",
    "utils",
    "log_handlers",
    "executors",
    "proxymodules",
    "engines",
    "thorium",
    "serializers",
    "matchers",
    "resources",
    "pillar",
    "wrapper",
];

/// The kinds of modules that the runner `saltutil.sync_all` copies, in Salt's order. Salt does not
/// copy `auth`.
pub const RUNNER_KINDS: [&str; 25] = [
    "clouds",
    "modules",
    "states",
    "grains",
    "renderers",
    "returners",
    "output",
    "proxymodules",
    "runners",
    "wheel",
    "engines",
    "thorium",
    "queues",
    "pillar",
    "utils",
    "sdb",
    "cache",
    "fileserver",
    "tops",
    "tokens",
    "serializers",
    "executors",
    "wrapper",
    "roster",
    "auth",
];

/// The choice of the modules to copy.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The environments; `None` means those of the top files.
    pub saltenv: Option<Value>,
    /// `extmod_whitelist`: the only modules to copy, by kind; `None` means the option.
    pub whitelist: Option<Value>,
    /// `extmod_blacklist`: the modules not to copy, by kind; `None` means the option.
    pub blacklist: Option<Value>,
}

impl Wanted {
    /// Returns the environments of the call.
    ///
    /// # Errors
    /// When the top files do not render.
    pub fn environments(&self, cx: &Exec) -> Result<Vec<String>, Error> {
        match &self.saltenv {
            Some(Value::Str(envs)) => Ok(envs.split(',').map(str::to_owned).collect()),
            Some(envs) => Ok(envs.texts()),
            None => environments_of_top(cx),
        }
    }

    fn takes(&self, cx: &Exec, kind: &str, name: &str) -> bool {
        let listed = |given: &Option<Value>, option: &str| {
            let lists = given.clone().or_else(|| cx.opts().get(option).cloned())?;
            let names = match &lists {
                Value::Str(names) => names.split(',').map(str::to_owned).collect(),
                lists => names_of(lists.get(kind)?),
            };
            Some(names.iter().any(|listed| listed == name))
        };
        listed(&self.whitelist, "extmod_whitelist").unwrap_or(true)
            && !listed(&self.blacklist, "extmod_blacklist").unwrap_or(false)
    }
}

fn names_of(listed: &Value) -> Vec<String> {
    match listed.as_list() {
        Some(names) => names.iter().map(Value::to_text).collect(),
        None => vec![listed.to_text()],
    }
}

fn environments_of_top(cx: &Exec) -> Result<Vec<String>, Error> {
    // The sources of `master_tops` may be modules that are not copied yet.
    let matched = top::matched_by_files(cx, &top::Request::from_config(cx)).map_err(|faults| {
        let texts: Vec<&str> = faults.iter().map(|fault| fault.text.as_str()).collect();
        Error::refused(format!(
            "Unable to render top file(s): {}",
            texts.join("\n")
        ))
    })?;
    let envs: Vec<String> = matched.into_iter().map(|(env, _)| env).collect();
    Ok(if envs.is_empty() {
        vec!["base".into()]
    } else {
        envs
    })
}

/// Copies the new and changed modules of one kind, and returns their names as `modules.mymod`. With
/// `clean_dynamic_modules`, removes those that the tree no longer has. As in Salt, a module that
/// cannot be copied is an error in the log.
#[must_use]
pub fn sync(cx: &Exec, kind: &str, envs: &[String], wanted: &Wanted) -> Vec<String> {
    // For this one kind, Salt's name in the result differs from the folder's name.
    let kind = if kind == "proxymodules" {
        "proxy"
    } else {
        kind
    };
    let mut sync = Sync {
        cx,
        kind,
        folder: cx.opts().path("extension_modules").join(kind),
        copied: Vec::new(),
        kept: BTreeSet::new(),
        removed: false,
    };
    if let Err(error) = sync.run(envs, wanted) {
        log::error(format_args!("Failed to sync {kind} module: {error}"));
    }
    if !sync.copied.is_empty() || sync.removed {
        cx.shared.custom.refresh();
    }
    sync.copied
}

/// Copies the modules for a highstate before it is compiled, unless `autoload_dynamic_modules` is
/// False.
pub fn load_dynamic(cx: &Exec, envs: &[String]) {
    load(cx, envs, &KINDS);
}

/// Copies the modules for an orchestration. That includes runners and wheel modules, because no
/// master has synced them.
pub fn load_for_orchestration(cx: &Exec, envs: &[String]) {
    load(cx, envs, &KINDS);
    load(cx, envs, &["runners", "wheel", "roster"]);
}

fn load(cx: &Exec, envs: &[String], kinds: &[&str]) {
    let on = cx.opts().get("autoload_dynamic_modules");
    if on.is_some_and(|on| !on.is_true()) {
        return;
    }
    for kind in kinds {
        let copied = sync(cx, kind, envs, &Wanted::default());
        if *kind == "grains" && !copied.is_empty() {
            cx.refresh_grains();
        }
    }
}

struct Sync<'a> {
    cx: &'a Exec,
    kind: &'a str,
    folder: PathBuf,
    copied: Vec<String>,
    kept: BTreeSet<PathBuf>,
    removed: bool,
}

impl Sync<'_> {
    fn run(&mut self, envs: &[String], wanted: &Wanted) -> Result<(), Error> {
        let below = format!("_{}", self.kind);
        for env in envs {
            let sources = &self.cx.shared.sources;
            for path in sources.list_below(&below, env)? {
                let Some(relative) = path
                    .strip_prefix(&below)
                    .and_then(|rest| rest.strip_prefix("/"))
                else {
                    continue;
                };
                let Some(source) = sources.file(&path, env)? else {
                    continue;
                };
                if is_module(&source.path) {
                    self.copy(relative, &source.path, wanted)?;
                }
            }
        }
        if self.cx.opts().get("clean_dynamic_modules") != Some(&Value::Bool(false)) {
            self.clean(&self.folder.clone())?;
        }
        Ok(())
    }

    fn copy(&mut self, relative: &str, source: &Path, wanted: &Wanted) -> Result<(), Error> {
        let name = Path::new(relative).with_extension("");
        let name = name.to_string_lossy().replace('/', ".");
        if !wanted.takes(self.cx, self.kind, &name) {
            return Ok(());
        }
        let target = self.folder.join(relative);
        self.kept.insert(target.clone());
        let contents = fs::read(source)?;
        let program = folder::is_program(source) && source.extension().is_none();
        let same = fs::read_or_none(&target)?.is_some_and(|old| old == contents)
            && folder::is_program(&target) == program;
        if same {
            return Ok(());
        }
        if let Some(above) = target.parent() {
            fs::mkdirs_private(self.cx, above).map_err(Error::io(above))?;
        }
        let owner = Owner {
            mode: Some(if program { 0o700 } else { 0o600 }),
            ..Owner::default()
        };
        fs::write(self.cx, &target, &contents, owner)?;
        self.copied.push(format!("{}.{name}", self.kind));
        Ok(())
    }

    /// Removes every file that is not kept, and then the empty folders.
    fn clean(&mut self, folder: &Path) -> Result<(), Error> {
        let Some(entries) = fs::list_or_none(folder)? else {
            return Ok(());
        };
        for entry in entries {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                self.clean(&path)?;
            } else if !self.kept.contains(&path) {
                fs::remove(self.cx, &path).map_err(Error::io(&path))?;
                self.removed = true;
            }
        }
        if fs::list(folder)?.is_empty() {
            fs::rmdir(self.cx, folder).map_err(Error::io(folder))?;
            self.removed = true;
        }
        Ok(())
    }
}

/// Returns true for the files that Salt copies, and for programs: executable files without an
/// extension.
fn is_module(path: &Path) -> bool {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some(ending) => matches!(ending, "py" | "pyx" | "so" | "zip"),
        None => folder::is_program(path),
    }
}
