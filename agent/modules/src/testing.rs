//! A context for tests of modules: files below a scratch folder, a fixed pillar, recorded events.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use state::exec::{Exec, Registry};
use state::module::{Arguments, Error, Ret};
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use state::targets::{MinionReturn, Targets};
use value::{Map, Value};

/// A tree on the disk and a fixed pillar.
#[derive(Default)]
struct Tree {
    root: PathBuf,
    pillar: Map,
}

impl Sources for Tree {
    fn file(&self, path: &str, _saltenv: &str) -> Result<Option<SourceFile>, Error> {
        let path = self.root.join(path);
        let shown = path.display().to_string().into();
        Ok(path.is_file().then_some(SourceFile { path, shown }))
    }

    fn list(&self, _saltenv: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn environments(&self) -> Result<Vec<String>, Error> {
        Ok(vec!["base".into()])
    }

    fn pillar(&self, _cx: &Exec) -> Result<Map, Error> {
        Ok(self.pillar.clone())
    }
}

/// The modules of this crate with grains that are cheap to compute: the id and those of the grains
/// file.
static REGISTRY: Registry = Registry {
    grains,
    ..crate::REGISTRY
};

fn grains(opts: &Opts) -> Map {
    let mut grains = Map::new().with("id", opts.id());
    let file = opts.path("conf_file").with_file_name("grains");
    let said = std::fs::read_to_string(file).map(|text| render::yaml::load(&text));
    if let Ok(Ok(Value::Map(said))) = said {
        grains.update(said);
    }
    grains
}

/// The events that were fired.
pub(crate) type Events = Arc<Mutex<Vec<(String, Map)>>>;

#[derive(Default)]
struct Bus(Events);

impl Targets for Bus {
    fn resolve(&self, cx: &Exec, _tgt: &Value, _tgt_type: &str) -> Result<Vec<String>, Error> {
        Ok(vec![cx.opts().id().to_owned()])
    }

    fn run(
        &self,
        _cx: &Exec,
        _ids: &[String],
        _fun: &str,
        _args: Vec<Value>,
        _kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        Ok(Vec::new())
    }

    fn fire(&self, _cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        self.0.lock().unwrap().push((tag.to_owned(), data));
        Ok(())
    }
}

/// Returns an empty context.
pub(crate) fn exec() -> Exec {
    exec_with(Map::new(), Map::new())
}

/// Returns a context with these options and this pillar. `root_for_files` among the options is the
/// file root.
pub(crate) fn exec_with(opts: Map, pillar: Map) -> Exec {
    events_of(opts, pillar).0
}

/// Like [`exec_with`], and also returns the events that will be fired.
pub(crate) fn events_of(opts: Map, pillar: Map) -> (Exec, Events) {
    let root = opts
        .get("root_for_files")
        .map(Value::to_text)
        .unwrap_or_default();
    let tree = Tree {
        root: root.into(),
        pillar,
    };
    let events = Events::default();
    let bus = Bus(events.clone());
    let opts = Map::new()
        .with("id", "m1")
        .into_iter()
        .chain(opts)
        .collect();
    let cx = Exec::new(Opts::new(opts), &REGISTRY, Box::new(tree), Box::new(bus));
    (cx, events)
}

/// Calls a state function with these arguments.
pub(crate) fn apply(cx: &Exec, full: &str, kwargs: Map) -> Result<Ret, Error> {
    let function = cx.state_function(full).unwrap();
    function.invoke(full, cx, Arguments::new(Vec::new(), kwargs))
}

/// Parses arguments written as JSON.
pub(crate) fn json(text: &str) -> Map {
    let value = value::json::read(text).unwrap();
    value.as_map().unwrap().clone()
}
