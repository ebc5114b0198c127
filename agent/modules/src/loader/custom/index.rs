//! The index of the functions of custom modules. A file is loaded once, when a wanted function may
//! be in it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use state::custom::Signature;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::folder::{self, File};
use super::host::Failed;
use super::{CustomModules, load_limit};

/// The contents of a loaded module.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The names that may precede the dot in the names of its functions.
    names: Vec<String>,
    functions: Vec<(String, Signature)>,
    /// The names that this file, and those loaded before it, registered with Jinja, by kind.
    jinja: Map,
    /// The reason why its functions cannot be called.
    problem: Option<String>,
}

impl Module {
    /// Returns the functions, under the first of the module's names.
    pub(super) fn functions(&self) -> impl Iterator<Item = (String, &Signature)> {
        let name = self.names.first().map_or("", String::as_str);
        let functions = self.functions.iter();
        functions.map(move |(function, signature)| (format!("{name}.{function}"), signature))
    }

    /// Returns true if the module gives Jinja a filter, test or global of this name.
    pub(super) fn adds(&self, kind: &str, name: &str) -> bool {
        let names = self.jinja.get(kind).and_then(Value::as_list);
        names
            .unwrap_or_default()
            .iter()
            .any(|known| known.as_str() == Some(name))
    }

    /// Returns the signature of a function by its full name.
    pub(super) fn signature(&self, full: &str) -> Option<&Signature> {
        let (module, function) = full.split_once('.')?;
        let found = self.functions.iter().find(|(name, _)| name == function);
        found
            .filter(|_| self.names.iter().any(|name| name == module))
            .map(|(_, signature)| signature)
    }
}

impl Module {
    /// Checks that the module has a function and can be used. The error is the module's own reason,
    /// if it has one.
    pub(super) fn has(&self, function: &str) -> Result<(), Option<String>> {
        let is_there = self.functions.iter().any(|(name, _)| name == function);
        match is_there {
            true => Ok(()),
            false => Err(self.problem.clone()),
        }
    }
}

enum Slot {
    /// A thread is loading the module. Its functions are not visible to that thread yet.
    Loading(ThreadId),
    Loaded(Arc<Module>),
}

#[derive(Default)]
struct Known {
    files: Option<Arc<Vec<File>>>,
    modules: Vec<(PathBuf, Slot)>,
}

/// The files of one kind, and the modules loaded from them so far.
pub(super) struct Index {
    folder: PathBuf,
    known: Mutex<Known>,
}

type Found = (File, Arc<Module>);

impl Index {
    /// Creates the index of the files in a folder. Nothing is read yet.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            known: Mutex::default(),
        }
    }

    /// Returns the folder of the files.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn with_known<T>(&self, work: impl FnOnce(&mut Known) -> T) -> T {
        work(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets every file and module.
    pub(super) fn forget(&self) {
        self.with_known(|known| {
            known.files = None;
            known.modules.clear();
        });
    }

    /// Finds a function in the file that has the name of its module.
    pub(super) fn find_by_name(
        &self,
        custom: &CustomModules,
        cx: &Exec,
        full: &str,
    ) -> Option<Found> {
        let file = self.named(full)?;
        let module = self.module(custom, cx, &file)?;
        module.signature(full)?;
        Some((file, module))
    }

    /// Finds a function in any file. As in Salt, the file with the name of the module is searched
    /// first, then those that have that name in their own.
    pub(super) fn find(&self, custom: &CustomModules, cx: &Exec, full: &str) -> Option<Found> {
        self.find_by_name(custom, cx, full).or_else(|| {
            let (module, _) = full.split_once('.')?;
            let files = self.files();
            let (near, others): (Vec<&File>, Vec<&File>) =
                files.iter().partition(|file| file.stem.contains(module));
            near.into_iter().chain(others).find_map(|file| {
                let module = self.module(custom, cx, file)?;
                module.signature(full)?;
                Some((file.clone(), module))
            })
        })
    }

    /// Returns the error for a function that does not exist. If there is a file of that name, it
    /// carries the module's own reason.
    pub(super) fn missing(&self, custom: &CustomModules, cx: &Exec, full: &str) -> Error {
        let module = self
            .named(full)
            .and_then(|file| self.module(custom, cx, &file));
        match module.and_then(|module| module.problem.clone()) {
            Some(problem) => Error::refused(problem),
            None => Error::not_available(full.to_owned()),
        }
    }

    /// Returns every module that can be loaded, with its file.
    pub(super) fn all(&self, custom: &CustomModules, cx: &Exec) -> Vec<Found> {
        let files = self.files();
        let found = |file: &File| Some((file.clone(), self.module(custom, cx, file)?));
        files.iter().filter_map(found).collect()
    }

    /// Returns all functions by their full names, sorted.
    pub(super) fn all_functions(
        &self,
        custom: &CustomModules,
        cx: &Exec,
    ) -> Vec<(String, Signature)> {
        let mut functions = Vec::new();
        for (_, module) in self.all(custom, cx) {
            for (function, signature) in &module.functions {
                let full = |name: &String| (format!("{name}.{function}"), signature.clone());
                functions.extend(module.names.iter().map(full));
            }
        }
        value::sorted::sort_by(&mut functions, |(one, _), (other, _)| one.cmp(other));
        functions.dedup_by(|second, first| second.0 == first.0);
        functions
    }

    /// Returns the file of this name, if there is one.
    pub(super) fn file(&self, stem: &str) -> Option<File> {
        let files = self.files();
        files.iter().find(|file| file.stem == stem).cloned()
    }

    fn named(&self, full: &str) -> Option<File> {
        self.file(full.split_once('.')?.0)
    }

    pub(super) fn files(&self) -> Arc<Vec<File>> {
        self.with_known(|known| {
            let read = || {
                let files = folder::files(&self.folder).unwrap_or_else(|refusal| {
                    log::error(refusal);
                    Vec::new()
                });
                Arc::new(files)
            };
            known.files.get_or_insert_with(read).clone()
        })
    }

    /// Returns the module of a file, which is loaded first if necessary. Returns `None` if the
    /// calling thread is already loading it.
    pub(super) fn module(
        &self,
        custom: &CustomModules,
        cx: &Exec,
        file: &File,
    ) -> Option<Arc<Module>> {
        let us = std::thread::current().id();
        loop {
            let other = self.with_known(|known| {
                let slot = known.modules.iter().find(|(path, _)| *path == file.path);
                match slot {
                    Some((_, Slot::Loaded(module))) => Some(Ok(module.clone())),
                    Some((_, Slot::Loading(thread))) => Some(Err(*thread)),
                    None => {
                        known.modules.push((file.path.clone(), Slot::Loading(us)));
                        None
                    }
                }
            });
            match other {
                Some(Ok(module)) => return Some(module),
                Some(Err(thread)) if thread == us => return None,
                // This loop ends, because loading has a time limit.
                Some(Err(_)) => std::thread::sleep(Duration::from_millis(2)),
                None => break,
            }
        }
        let module = Arc::new(load(custom, cx, file));
        self.with_known(|known| {
            known.modules.retain(|(path, _)| *path != file.path);
            known
                .modules
                .push((file.path.clone(), Slot::Loaded(module.clone())));
        });
        Some(module)
    }
}

fn load(custom: &CustomModules, cx: &Exec, file: &File) -> Module {
    let path = file.path.display().to_string();
    let request = Map::new().with("load", path.as_str());
    let what = format!("The custom module {path} cannot be loaded");
    let problem = match custom.ask(cx, file, &what, &request, load_limit()) {
        Ok(Ok(reply)) => return described(file, reply.get("return").unwrap_or(&Value::Null)),
        Ok(Err(failed)) => not_loaded(&what, failed),
        Err(error) => {
            log::error(&error);
            error.to_string()
        }
    };
    Module {
        problem: Some(problem),
        ..Module::default()
    }
}

/// Returns the reason why a module was not loaded. As in Salt, a failed import is not logged and
/// only reported to callers of the module's functions: modules may be meant for other machines.
fn not_loaded(what: &str, failed: Failed) -> String {
    let Some((missing, python)) = failed.missing else {
        if let Some(trace) = &failed.trace {
            log::error(format_args!("{what}: {}", trace.trim_end()));
        }
        return format!("{what}: {}: {}", failed.kind, failed.text);
    };
    let problem = if missing.split('.').next() == Some("salt") {
        format!(
            "{what}: it imports '{missing}', which this program does not provide: install Salt for {python}, or remove the import"
        )
    } else {
        format!(
            "{what}: it imports '{missing}', which {python} cannot find: install it for that Python"
        )
    };
    log::debug(&problem);
    problem
}

/// Reads the description that a module gives of itself.
pub(super) fn described(file: &File, said: &Value) -> Module {
    let text = |key: &str| said.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").unwrap_or_else(|| file.stem.clone());
    if let Some(reason) = said.get("virtual") {
        let reason = reason.as_str().map(|reason| format!(": {reason}"));
        let problem = format!(
            "'{name}' __virtual__ returned False{}",
            reason.unwrap_or_default()
        );
        return Module {
            problem: Some(problem),
            ..Module::default()
        };
    }
    let aliases = said.get("aliases").and_then(Value::as_list);
    let aliases = aliases.unwrap_or_default().iter().map(Value::to_text);
    let functions = said.get("functions").and_then(Value::as_map);
    Module {
        names: std::iter::once(name).chain(aliases).collect(),
        functions: functions
            .cloned()
            .unwrap_or_default()
            .iter()
            .map(|(name, said)| (name.to_text(), signature(said)))
            .collect(),
        jinja: said
            .get("jinja")
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default(),
        problem: None,
    }
}

fn signature(said: &Value) -> Signature {
    let truth = |key: &str| said.get(key).is_some_and(Value::is_true);
    let args = said.get("args").and_then(Value::as_list);
    // Without a list of arguments, the function may accept any.
    let unknown = args.is_none();
    Signature {
        args: args.unwrap_or_default().iter().filter_map(arg).collect(),
        varargs: unknown || truth("varargs"),
        kwargs: unknown || truth("kwargs"),
        doc: said.get("doc").map(Value::to_text).unwrap_or_default(),
    }
}

fn arg(said: &Value) -> Option<(String, Option<Value>)> {
    match said.as_list()? {
        [name] => Some((name.to_text(), None)),
        [name, default] => Some((name.to_text(), Some(default.clone()))),
        _ => None,
    }
}
