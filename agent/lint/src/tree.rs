//! The replacement of a run's file sources and custom modules while a tree is checked: its files,
//! and the names of its modules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use state::custom::{Custom, Kind, Rendering, Signature};
use state::exec::{Exec, facts, find};
use state::host::Tree;
use state::module::{Error, Extra, Function, Ret};
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use value::{Map, Value};

use crate::buffers::{Buffers, Edited};

/// The beginning of the message about a call that linting does not make, because it runs nothing.
pub(crate) const NOT_ASKED: &str = "not called, because lint runs nothing: ";

/// The files of the roots; each list of them is read once.
pub(crate) struct Files {
    roots: Edited,
    pillar: Arc<dyn Sources>,
    lists: Mutex<HashMap<String, Vec<String>>>,
    /// A folder inside the tree that is not part of it, such as the pillar.
    without: Option<String>,
}

impl Files {
    pub(crate) fn new(opts: &Opts, without: Option<String>, buffers: &Buffers) -> Self {
        Self {
            roots: Edited::states(opts, buffers),
            pillar: Arc::new(Edited::pillar(opts, buffers)),
            lists: Mutex::default(),
            without,
        }
    }
}

impl Sources for Files {
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error> {
        let found = self.roots.file(path, saltenv)?;
        Ok(found.map(|file| SourceFile {
            shown: file.shown.strip_prefix("./").unwrap_or(&file.shown).into(),
            path: file.path,
        }))
    }

    /// A source may run a command or contact a server, so none is called.
    fn master_tops(&self, _cx: &Exec) -> Result<Map, Error> {
        Ok(Map::new())
    }

    fn text(&self, file: &SourceFile) -> Result<Arc<str>, Error> {
        self.roots.text(file)
    }

    fn list(&self, saltenv: &str) -> Result<Vec<String>, Error> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.get(saltenv) {
            return Ok(known.clone());
        }
        let mut all = self.roots.list(saltenv)?;
        all.retain(|path| !path.starts_with('.'));
        if let Some(without) = &self.without {
            all.retain(|path| !path.starts_with(without.as_str()));
        }
        lists.insert(saltenv.to_owned(), all.clone());
        Ok(all)
    }

    fn links(&self, saltenv: &str) -> Result<BTreeMap<String, String>, Error> {
        self.roots.links(saltenv)
    }

    fn environments(&self) -> Result<Vec<String>, Error> {
        self.roots.environments()
    }

    fn pillar(&self, cx: &Exec) -> Result<Map, Error> {
        let tree = Tree::Other(Arc::clone(&self.pillar));
        Ok(state::pillar::compile(cx, &tree))
    }
}

/// The modules of the tree, as read from the text of their files, and the functions that may be
/// called.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    functions: BTreeSet<String>,
    states: BTreeSet<String>,
    renderers: BTreeSet<String>,
    /// True when a file adds filters, tests or globals to Jinja: unknown ones may then be defined
    /// there.
    pub(crate) adds_to_jinja: bool,
}

impl Modules {
    /// Reads the names in `_modules`, `_states`, `_renderers` and `_utils`.
    pub(crate) fn read(files: &Files) -> Self {
        let mut all = Self::default();
        for saltenv in files.environments().unwrap_or_default() {
            for path in files.list(&saltenv).unwrap_or_default() {
                let Some(name) = path.strip_suffix(".py") else {
                    continue;
                };
                let mut parts = name.split('/');
                let (Some(folder), Some(last)) = (parts.next(), parts.next_back()) else {
                    continue;
                };
                if folder.starts_with('_')
                    && let Ok(Some(file)) = files.file(&path, &saltenv)
                    && let Ok(text) = files.text(&file)
                {
                    all.file(folder, last, &text);
                }
            }
        }
        all
    }

    fn file(&mut self, folder: &str, name: &str, text: &str) {
        self.adds_to_jinja |= text.contains("jinja_filter") || text.contains("jinja_test");
        self.adds_to_jinja |= text.contains("jinja_global");
        let names = match folder {
            "_modules" => &mut self.functions,
            "_states" => &mut self.states,
            "_renderers" => {
                self.renderers.insert(name.to_owned());
                return;
            }
            _ => return,
        };
        let virtual_name = text.lines().find_map(|line| {
            let value = line.strip_prefix("__virtualname__")?.trim_start();
            Some(value.strip_prefix('=')?.trim().trim_matches(['"', '\'']))
        });
        for module in std::iter::once(name).chain(virtual_name) {
            names.extend(functions(text).map(|function| format!("{module}.{function}")));
        }
    }

    fn has_module(names: &BTreeSet<String>, full: &str) -> bool {
        let module = full.split('.').next().unwrap_or_default();
        let mut from = names.range(format!("{module}.")..);
        from.next()
            .is_some_and(|name| name.split('.').next() == Some(module))
    }
}

/// Returns the functions that a Python file defines or assigns at its outermost level.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let name = match line.strip_prefix("def ") {
            Some(rest) => rest.split_once('(')?.0.trim(),
            None => line.split_once(" = ")?.0,
        };
        let name = name.trim_end_matches('_');
        (name.chars().all(word) && !name.starts_with('_')).then_some(name)
    })
}

/// A placeholder for a state function of the tree; it accepts any arguments.
static ANY: Function<Ret> = Function {
    name: "",
    doc: "",
    args: &[],
    varargs: true,
    extra: Extra::Accept,
    facts: None,
    call: |_, _| Ok(Ret::default()),
};

/// Returns the signature for a function whose arguments are unknown.
fn anything() -> Signature {
    Signature {
        varargs: true,
        kwargs: true,
        ..Signature::default()
    }
}

impl Custom for Modules {
    fn replaces(&self, cx: &Exec, full: &str) -> bool {
        !facts(cx.shared.registry.functions, full).pure
    }

    fn signature(&self, cx: &Exec, full: &str) -> Option<Signature> {
        let known = self.functions.contains(full) || Self::has_module(&self.functions, full);
        (known || find(cx.shared.registry.functions, full).is_some()).then(anything)
    }

    fn call(&self, cx: &Exec, full: &str, _: Vec<Value>, _: Map) -> Result<Value, Error> {
        if self.signature(cx, full).is_none() {
            return Err(Error::not_available(full.to_owned()));
        }
        Err(Error::refused(format!("{NOT_ASKED}{full}")))
    }

    fn functions(&self, _: &Exec, _: Kind) -> Vec<(String, Signature)> {
        let names = self.functions.iter();
        names.map(|name| (name.clone(), anything())).collect()
    }

    fn has_file(&self, _: Kind, _: &str) -> bool {
        // Sources of data are not called, whether they are built in or not.
        true
    }

    fn call_client(
        &self,
        _: &Exec,
        _: Kind,
        full: &str,
        _: Vec<Value>,
        _: Map,
    ) -> Option<Result<Value, Error>> {
        Some(Err(Error::refused(format!("{NOT_ASKED}{full}"))))
    }

    fn has_renderer(&self, _: &Exec, _: &str) -> bool {
        // Salt itself has more renderers in Python, so every name counts as known.
        true
    }

    fn render(&self, _: &Exec, rendering: &Rendering<'_>) -> Result<Value, Error> {
        let name = rendering.name;
        let text = format!("{NOT_ASKED}the renderer {name}");
        Err(Error::refused(text))
    }

    fn jinja(&self, _: &Exec, _: &str) -> Option<Vec<(render::Extension, String)>> {
        None
    }

    fn call_jinja(
        &self,
        _: &Exec,
        _: render::Extension,
        name: &str,
        _: Vec<Value>,
        _: Map,
    ) -> Result<Value, Error> {
        Err(Error::refused(format!("{NOT_ASKED}{name}")))
    }

    fn state_function(&self, cx: &Exec, full: &str, named: bool) -> Option<&'static Function<Ret>> {
        if named {
            return self.states.contains(full).then_some(&ANY);
        }
        let module = full.split('.').next().unwrap_or_default();
        let own = !cx.has_state_module(module) && Self::has_module(&self.states, full);
        own.then_some(&ANY)
    }

    fn call_state(&self, _: &Exec, full: &str, _: Map) -> Result<Ret, Error> {
        Err(Error::not_available(full.to_owned()))
    }

    fn grains(&self, _: &Exec, built_in: Map) -> Map {
        built_in
    }

    fn refresh(&self) {}
}
