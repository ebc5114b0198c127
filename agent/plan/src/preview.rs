//! [`Preview`]: observes the test run of a plan, and checks that the real run follows the plan.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use python::difflib;
use state::compile::Plan;
use state::exec::Exec;
use state::facts::StepKind;
use state::low::LowChunk;
use state::module::Error;
use state::previewer::{Call, Previewer};
use value::read::or_none;
use value::{Map, Value, log};

use crate::compare;
use crate::document::{After, Basis, COMPENSATE, Chunk, Document, Key, Names, Outcome, path_text};
use crate::keyed_hash::KeyedHash;
use crate::scope::{Place, Scope, by_its_folder, local_sources, salt_sources};
use crate::sources_read::Seen;
use crate::{depends, path_state, providers};

/// The maximum size in bytes of contents for which a diff is made.
const DIFF_BYTES_MAX: usize = 1 << 20;

/// The maximum size in bytes of a template that is searched for calls of functions.
const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// The observer of one run.
pub struct Preview {
    seen: Arc<Seen>,
    /// The plan to apply; `None` if a plan is being made.
    planned: Option<Document>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// True once the run applies changes (not test mode).
    for_good: bool,
    /// The keys of the chunks, in the order of their compiled plans.
    order: Vec<Key>,
    chunks: HashMap<Key, Chunk>,
    made: Option<Document>,
    refusal: Vec<String>,
    /// The reason why nothing more is changed.
    broken: Option<String>,
    /// The states of the plan that is applied.
    expected: HashMap<Key, Value>,
    /// The tags of steps whose inner states no plan can predict.
    free: HashSet<String>,
    /// The key for the hashes of documents.
    blind: Arc<KeyedHash>,
    /// The forms of tags with secrets in documents.
    names: Names,
}

impl Inner {
    /// Returns whether no plan can predict the inner states of a step: the step depends on an
    /// earlier change, or it is a function that runs states.
    fn is_free(&self, step: &str) -> bool {
        let function =
            |state: &Value| state.get("function").and_then(Value::as_str) == Some("salt.state");
        let shown = self.names.display_name(step);
        let found = self.expected.values().find(|state| is_tag(state, &shown));
        self.free.contains(step) || found.is_some_and(|state| depends_on(state) || !function(state))
    }
}

impl Inner {
    /// Returns the state of this key in the plan that is applied.
    fn planned(&self, key: &Key) -> Option<&Value> {
        self.expected.get(&self.names.of_key(key))
    }
}

impl Preview {
    /// Returns an observer for making a plan, or for applying the plan that is given.
    #[must_use]
    pub fn new(seen: Arc<Seen>, planned: Option<Document>) -> Self {
        Self {
            seen,
            planned,
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the plan that was made; `None` if nothing was compiled.
    #[must_use]
    pub fn document(&self) -> Option<Document> {
        self.inner().made.clone()
    }

    /// Returns what changed since the plan was made. If there is anything, no change was applied.
    #[must_use]
    pub fn rejection(&self) -> Vec<String> {
        let inner = self.inner();
        match (&inner.made, &self.planned) {
            // The states do not even compile any more.
            (None, Some(planned)) => compare::moved_tree(&planned.parts("tree"), &self.seen.tree()),
            _ => inner.refusal.clone(),
        }
    }

    /// Returns the reason why the run stopped before its end.
    #[must_use]
    pub fn broken(&self) -> Option<String> {
        self.inner().broken.clone()
    }

    /// Records the chunks of a compiled plan, and the current state of the paths that they work on.
    fn prepare(&self, cx: &Exec, plan: &Plan, step: Option<&str>) -> Result<(), Error> {
        let key = |low: &LowChunk| (step.map(str::to_owned), low.tag());
        for low in plan.chunks() {
            self.read_sources(cx, low)?;
            let mut chunk = chunk(cx, low, key(low))?;
            for requisite in &low.requisites {
                let targets = requisite
                    .chunks
                    .iter()
                    .filter_map(|at| plan.chunks().get(*at));
                chunk
                    .needs
                    .extend(targets.map(|target| (requisite.kind, key(target))));
            }
            chunk.asks = asks(cx, low);
            let mut inner = self.inner();
            if inner.chunks.insert(chunk.key.clone(), chunk).is_none() {
                inner.order.push(key(low));
            }
        }
        Ok(())
    }

    /// Reads the files of the tree that a chunk names, so that they are recorded. A run that
    /// applies changes reads them all; a test run might skip some.
    fn read_sources(&self, cx: &Exec, low: &LowChunk) -> Result<(), Error> {
        for (saltenv, path) in salt_sources(low) {
            cx.shared.sources.file(&path, &saltenv)?;
        }
        Ok(())
    }

    /// Returns the chunks in the order in which they run, those of a step after the step.
    fn in_order(inner: &mut Inner) -> Vec<Chunk> {
        let order = std::mem::take(&mut inner.order);
        let mut sequence = Vec::new();
        placed(&order, None, &mut sequence);
        let chunks = &mut inner.chunks;
        sequence
            .iter()
            .filter_map(|key| chunks.remove(key))
            .collect()
    }

    fn compile(&self, cx: &Exec) -> Result<Document, Error> {
        let pillar = cx.pillar()?;
        let blind = Arc::new(KeyedHash::decide(cx)?);
        let basis = Basis {
            tree: self.seen.tree(),
            pillar: blind.hashes(&hashes(&pillar)),
            grains: hashes(&steady(cx.grains())),
        };
        let mut chunks = Self::in_order(&mut self.inner());
        depends::judge(&mut chunks);
        let names = Names::of_all(&chunks);
        let document = Document::from_chunks(cx.opts().id(), basis, &chunks, (&names, &blind));
        let mut inner = self.inner();
        (inner.names, inner.blind) = (names, blind);
        drop(inner);
        Ok(document)
    }

    fn blind(&self) -> Arc<KeyedHash> {
        self.inner().blind.clone()
    }

    /// Compares the test run with the plan to be applied. Returns true if they agree; the run may
    /// then apply changes.
    fn agrees(&self, now: &Document) -> bool {
        let Some(planned) = &self.planned else {
            return false;
        };
        let moved = compare::moved(planned, now);
        let good = moved.is_empty() && planned.failures() == 0;
        let mut inner = self.inner();
        inner.refusal = moved;
        if good {
            self.seen.hold_to(planned.parts("tree"));
            inner.for_good = true;
            inner.expected = planned
                .states()
                .iter()
                .map(|state| (key_of(state), state.clone()))
                .collect();
        }
        good
    }

    /// Compares the chunks that a step has compiled with those in the plan.
    fn compare_chunks(&self, plan: &Plan, step: Option<String>) -> Result<(), Error> {
        let mut inner = self.inner();
        if step.as_ref().is_some_and(|step| inner.is_free(step)) {
            inner.free.extend(plan.chunks().iter().map(|low| low.tag()));
            return Ok(());
        }
        let other = plan.chunks().iter().find(|low| {
            let state = inner.planned(&(step.clone(), low.tag()));
            let hash = inner.blind.hash(&crate::hash_of(&low.data.clone().into()));
            state.and_then(|state| state.get("low")?.as_str()) != Some(&hash)
        });
        let Some(low) = other else {
            return Ok(());
        };
        drop(inner);
        Err(self.stop(format!(
            "{} ({}) differs from the plan",
            low.id,
            low.function()
        )))
    }

    /// Returns the planned state of a chunk. For a `mod_watch`, it is that of the state that
    /// watches.
    fn expected(&self, cx: &Exec, low: &LowChunk) -> Option<Value> {
        let within = within(cx);
        let inner = self.inner();
        let found = inner.planned(&(within.clone(), low.tag()));
        let watching = || {
            let fun = low.data.get("sfun")?.to_text();
            let low = LowChunk { fun, ..low.clone() };
            inner.planned(&(within.clone(), low.tag()))
        };
        found.or_else(watching).cloned()
    }

    /// Returns whether a chunk belongs to a step whose inner states no plan can predict.
    fn is_of_free_step(&self, cx: &Exec) -> bool {
        within(cx).is_some_and(|step| self.inner().is_free(&step))
    }

    /// Records that the plan is no longer valid, and returns the error.
    fn stop(&self, why: String) -> Error {
        self.inner().broken.get_or_insert_with(|| why.clone());
        why.into()
    }

    /// Calls a chunk (not in test mode) if the plan is still valid for it.
    fn held(&self, cx: &Exec, low: &LowChunk, call: Call<'_>) -> Result<Map, Error> {
        if let Some(why) = self.broken() {
            return Err(format!("not run, because the run differs from the plan: {why}").into());
        }
        if self.is_of_free_step(cx) {
            return call(cx);
        }
        let called = format!("{} ({})", low.id, low.function());
        let Some(state) = self.expected(cx, low) else {
            return Err(self.stop(format!("{called} is not in the plan")));
        };
        // The inner states of a step are checked one by one.
        if depends_on(&state) || cx.shared.registry.step(low) == Some(StepKind::State) {
            return call(cx);
        }
        let mut trial = cx.clone();
        trial.test = true;
        let ret = call(&trial)?;
        if Outcome::from_return(Some(&ret)) == Outcome::Unchanged {
            return call(cx);
        }
        let blind = self.blind();
        if let Some(moved) = moved_file(&state, &blind)? {
            return Err(self.stop(format!("{called}: {moved}")));
        }
        let returns = blind.hash(&crate::hash_of(&crate::settled(&ret.clone().into())));
        if state.get("returns").and_then(Value::as_str) != Some(&returns) {
            let comment = |ret: Option<&Value>| ret.map(Value::to_text).unwrap_or_default();
            let (old, new) = (comment(state.get("comment")), comment(ret.get("comment")));
            return Err(self.stop(format!(
                "{called} would make other changes; planned: {old}; now: {new}"
            )));
        }
        call(cx)
    }
}

fn is_tag(state: &Value, tag: &str) -> bool {
    state.get("tag").and_then(Value::as_str) == Some(tag)
}

fn depends_on(state: &Value) -> bool {
    state.get("outcome").and_then(Value::as_str) == Some(Outcome::Depends.word())
        || is_compensating(state)
}

/// Returns whether a state runs only if a later one fails.
pub(crate) fn is_compensating(state: &Value) -> bool {
    let because = state.get("because").and_then(Value::as_list);
    let reason = |one: &Value| one.get("reason").and_then(Value::as_str) == Some(COMPENSATE);
    because.unwrap_or_default().iter().any(reason)
}

fn key_of(state: &Value) -> Key {
    let text = |key: &str| state.get(key).and_then(Value::as_str).map(str::to_owned);
    (text("step"), text("tag").unwrap_or_default())
}

/// Returns the step that contains the run of a context; `None` for the outermost run.
fn within(cx: &Exec) -> Option<String> {
    cx.run.as_ref()?.within.clone()
}

/// The grains that depend on the calling process, and those of interfaces and disks, which can
/// change at any time. If a state uses one of them, the comparison of the state itself shows the
/// difference.
const UNSTEADY: &[&str] = &[
    "cwd",
    "disks",
    "dns",
    "fqdn_ip4",
    "fqdn_ip6",
    "fqdns",
    "hwaddr_interfaces",
    "ip4_gw",
    "ip4_interfaces",
    "ip6_gw",
    "ip6_interfaces",
    "ip_gw",
    "ip_interfaces",
    "ipv4",
    "ipv6",
    "path",
    "pid",
    "ppid",
    "ps",
    "pythonpath",
    "shell",
    "ssds",
    "systempath",
    "uptime",
];

fn steady(mut grains: Map) -> Map {
    grains.retain(|key, _| !key.as_str().is_some_and(|key| UNSTEADY.contains(&key)));
    grains
}

fn hashes(map: &Map) -> Map {
    let entries = map.iter();
    entries
        .map(|(key, value)| (key.to_text(), crate::hash_of(value)))
        .collect()
}

fn placed(order: &[Key], step: Option<&str>, sequence: &mut Vec<Key>) {
    for key in order.iter().filter(|key| key.0.as_deref() == step) {
        if !sequence.contains(key) {
            sequence.push(key.clone());
            placed(order, Some(&key.1), sequence);
        }
    }
}

/// Returns a chunk with the current state of the paths that it works on.
fn chunk(cx: &Exec, low: &Arc<LowChunk>, key: Key) -> Result<Chunk, Error> {
    let found = Scope::from_chunk(cx.shared.registry, low);
    let mut files = Vec::new();
    for place in found.places() {
        files.push((
            place.path.clone(),
            path_state::read(&place.path, place.deep)?,
        ));
    }
    let scope = match found {
        Scope::Files(places) => Scope::Files(places.iter().map(Place::made).collect()),
        other => other,
    };
    let mut sources = Vec::new();
    for path in local_sources(low) {
        let now = path_state::read(&path, true)?;
        sources.push((path, now));
    }
    Ok(Chunk {
        key,
        low: Arc::clone(low),
        needs: Vec::new(),
        scope,
        files,
        sources,
        then: Vec::new(),
        returns: None,
        ret: None,
        asks: false,
        more: Map::new(),
        outcome: Outcome::default(),
        because: Vec::new(),
        is_step: false,
    })
}

/// Returns whether the templates of a chunk may call execution functions. Such a call can depend on
/// an earlier change.
fn asks(cx: &Exec, low: &LowChunk) -> bool {
    if !low.data.get("template").is_some_and(Value::is_true) {
        return false;
    }
    let mut texts: Vec<String> = ["contents", "text", "content"]
        .into_iter()
        .filter_map(|key| low.data.get(key).map(Value::to_text))
        .collect();
    for (saltenv, path) in salt_sources(low) {
        if let Ok(Some(file)) = cx.shared.sources.file(&path, &saltenv) {
            texts.push(beginning(&file.path));
        }
    }
    texts.extend(local_sources(low).iter().map(|path| beginning(path)));
    let calls = |text: &String| {
        ["salt", "import", "include", "extends"]
            .iter()
            .any(|word| text.contains(word))
    };
    texts.iter().any(calls)
}

/// Returns the text of a template to search for calls. A template that is too long or cannot
/// be read counts as one that calls functions.
fn beginning(path: &Path) -> String {
    match path.metadata() {
        Ok(found) if found.len() <= TEMPLATE_BYTES_MAX => {
            let bytes = std::fs::read(path);
            bytes.map_or_else(
                |_| "salt".into(),
                |bytes| String::from_utf8_lossy(&bytes).into_owned(),
            )
        }
        Ok(found) if found.is_file() => "salt".into(),
        // This is a folder of templates, or a path that cannot be examined.
        _ => "salt".into(),
    }
}

/// Describes the first change of a planned state's files; `None` if there is none.
fn moved_file(state: &Value, blind: &KeyedHash) -> Result<Option<String>, Error> {
    let files = state
        .get("files")
        .and_then(Value::as_list)
        .unwrap_or_default();
    for file in files {
        let path = PathBuf::from(file.get("path").map(Value::to_text).unwrap_or_default());
        let planned = file.get("now");
        let deep = planned.is_some_and(|planned| planned.get("entries").is_some());
        let now = blind.image(&path_state::read(&path, deep)?);
        if Some(&now) != planned {
            let what = compare::differing(planned, Some(&now));
            return Ok(Some(format!("{} {what}", path.display())));
        }
    }
    Ok(None)
}

impl Previewer for Preview {
    fn starts(&self, cx: &Exec, plan: &Plan) -> Result<(), Error> {
        let step = cx
            .run
            .as_ref()
            .and(cx.chunk.as_ref())
            .map(|step| step.tag());
        if self.inner().for_good {
            self.compare_chunks(plan, step)
        } else {
            self.prepare(cx, plan, step.as_deref())
        }
    }

    fn tried(&self, cx: &Exec) -> bool {
        match self.compile(cx) {
            Ok(now) => {
                let goes = self.agrees(&now);
                self.inner().made = Some(now);
                goes
            }
            Err(error) => {
                self.inner().refusal = vec![error.to_string()];
                false
            }
        }
    }

    fn called(&self, cx: &Exec, low: &LowChunk, call: Call<'_>) -> Result<Map, Error> {
        if cx.test {
            let ret = call(cx);
            let mut inner = self.inner();
            if let (false, Ok(ret), Some(chunk)) = (
                inner.for_good,
                &ret,
                inner.chunks.get_mut(&(within(cx), low.tag())),
            ) {
                chunk.returns = Some(crate::hash_of(&crate::settled(&ret.clone().into())));
            }
            return ret;
        }
        self.held(cx, low, call)
    }

    fn returned(&self, cx: &Exec, low: &LowChunk, ret: &Map) {
        if self.inner().for_good {
            return;
        }
        let key = (within(cx), low.tag());
        let more = providers::at(cx, low, ret);
        let mut inner = self.inner();
        if !inner.chunks.contains_key(&key) {
            // This is a listener, which is created only when something that it listens to would
            // change.
            if let Ok(chunk) = chunk(cx, &Arc::new(low.clone()), key.clone()) {
                inner.chunks.insert(key.clone(), chunk);
                inner.order.push(key.clone());
            }
        }
        if let Some(chunk) = inner.chunks.get_mut(&key) {
            chunk.ret = Some(ret.clone());
            chunk.more = more;
        }
    }

    fn would_hold(&self, cx: &Exec, path: &Path, contents: &[u8]) {
        let Some(low) = cx.chunk.as_ref().filter(|_| !self.inner().for_good) else {
            return;
        };
        let path = &by_its_folder(path);
        let hidden =
            low.options.no_log || low.data.get("show_changes") == Some(&Value::Bool(false));
        let then = After {
            path: path.to_path_buf(),
            sha256: crate::hash(contents),
            size: contents.len(),
            diff: (!hidden).then(|| difference(path, contents)).flatten(),
        };
        let mut inner = self.inner();
        if let Some(chunk) = inner.chunks.get_mut(&(within(cx), low.tag())) {
            if !chunk.files.iter().any(|(known, _)| known == path)
                && let Ok(now) = path_state::read(path, false)
            {
                chunk.files.push((path.clone(), now));
            }
            chunk.then.retain(|other| other.path != then.path);
            chunk.then.push(then);
        }
    }

    fn may_place(&self, cx: &Exec, path: &Path, new: &Path) -> std::io::Result<()> {
        let Some(low) = cx
            .chunk
            .as_ref()
            .filter(|_| self.inner().for_good && !cx.test)
        else {
            return Ok(());
        };
        let state = self.expected(cx, low).filter(|state| !depends_on(state));
        let named = path_text(&by_its_folder(path));
        let then = state.as_ref().and_then(|state| {
            let mut files = state.get("files")?.as_list()?.iter();
            files
                .find(|file| file.get("path").and_then(Value::as_str) == Some(&named))?
                .get("then")?
                .get("sha256")
        });
        let Some(planned) = then.and_then(Value::as_str) else {
            return Ok(());
        };
        match machine::hashes::of_file(&new.to_string_lossy(), "sha256") {
            Ok(hash) if self.blind().hash(&hash) == planned => Ok(()),
            Ok(_) => Err(std::io::Error::other(
                self.stop(format!("{named} would get other contents than planned"))
                    .to_string(),
            )),
            Err(error) => Err(std::io::Error::other(error.to_string())),
        }
    }
}

/// Returns the diff between the current and the new contents of a path; `None` if they are too
/// large or cannot be read.
fn difference(path: &Path, new: &[u8]) -> Option<String> {
    let size = path.metadata().map_or(0, |found| found.len());
    let fits = usize::try_from(size).is_ok_and(|size| size.max(new.len()) <= DIFF_BYTES_MAX);
    let old = fits.then(|| or_none(std::fs::read(path)))?;
    let old = old
        .inspect_err(|error| log::error(format_args!("cannot read {}: {error}", path.display())));
    Some(difflib::of_files(&old.ok()?.unwrap_or_default(), new))
}
