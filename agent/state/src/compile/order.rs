//! Resolves the requisites of chunks and sorts the chunks (Salt's `order_chunks`).

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use value::glob::{fnmatch, is_glob};
use value::hash::Keyed;
use value::{Map, Value};

use super::graph::{Graph, Node};
use super::hint::did_you_mean;
use super::plan::{Plan, Step};
use super::rank::key;
use super::{Fault, HighData};
use crate::low::{LowChunk, Requisite, RequisiteKind, When};

mod compensate;

pub(crate) use compensate::compensating;

/// The requisite kinds that create edges, in the order in which Salt evaluates them.
const KINDS: [RequisiteKind; 10] = [
    RequisiteKind::Require,
    RequisiteKind::RequireAny,
    RequisiteKind::Watch,
    RequisiteKind::WatchAny,
    RequisiteKind::Prereq,
    RequisiteKind::Onfail,
    RequisiteKind::OnfailAny,
    RequisiteKind::OnfailAll,
    RequisiteKind::Onchanges,
    RequisiteKind::OnchangesAny,
];

/// The settings that the order depends on, in addition to the chunks.
pub(crate) struct Rules<'a> {
    /// Returns whether a state function exists. Without `mod_watch`, a watch is a require.
    pub(crate) has: &'a dyn Fn(&str) -> bool,
    /// The requisites that the configuration disables.
    pub(crate) disabled: &'a [String],
    /// The items that disabled and excluded states name in `compensate`.
    pub(crate) left_out: &'a [Value],
    /// The option `state_aggregate`.
    pub(crate) aggregate: &'a Value,
}

/// Returns the plan of these chunks. `high` provides the places of faults.
pub(crate) fn ordered(
    chunks: Vec<Map>,
    high: &HighData,
    rules: &Rules<'_>,
) -> Result<Plan, Vec<Fault>> {
    let mut order = Order::new(chunks, high);
    order.turns(rules.left_out);
    let mut cap = 1;
    for chunk in 0..order.chunks.len() {
        order.reconcile_watch(chunk, rules.has);
        match order.requisites(chunk, rules.disabled) {
            Err(fault) => order.faults.push(fault),
            Ok(()) => cap = order.raised(cap, chunk),
        }
    }
    order.finished(cap, rules)
}

/// Nodes by name.
type Named = IndexMap<String, Vec<usize>, Keyed>;

struct Order<'a> {
    high: &'a HighData,
    chunks: Vec<Map>,
    graph: Graph,
    /// The node of each chunk.
    node_of: Vec<usize>,
    /// The nodes by module (or `id`) and by name or ID.
    named: HashMap<String, Named, Keyed>,
    /// The nodes by the SLS that declares or includes them.
    of_sls: Named,
    /// The requisites that each node declares. Their `chunks` are node numbers.
    declared: Vec<Vec<Requisite>>,
    /// The phase in which each node runs.
    when: Vec<When>,
    faults: Vec<Fault>,
}

impl<'a> Order<'a> {
    fn new(chunks: Vec<Map>, high: &'a HighData) -> Self {
        let mut order = Self {
            high,
            chunks: Vec::new(),
            graph: Graph::default(),
            node_of: Vec::new(),
            named: HashMap::default(),
            of_sls: Named::default(),
            declared: Vec::new(),
            when: Vec::new(),
            faults: Vec::new(),
        };
        let mut tags: HashMap<String, usize, Keyed> = HashMap::default();
        for (index, chunk) in chunks.iter().enumerate() {
            let tag = tag(chunk);
            let node = match tags.get(&tag) {
                // If a tag occurs again, the later chunk replaces the earlier one.
                Some(node) => {
                    order.graph.stands_for(*node, index);
                    *node
                }
                None => order.graph.add(Node {
                    tag: tag.clone(),
                    chunk: index,
                    test: false,
                }),
            };
            tags.insert(tag, node);
            order.node_of.push(node);
            order.register(chunk, node);
        }
        order.declared.resize(order.graph.nodes().len(), Vec::new());
        order.chunks = chunks;
        order
    }

    fn register(&mut self, chunk: &Map, node: usize) {
        let text = |key| chunk.get(key).and_then(Value::as_str);
        let (state, name, id) = (text("state"), text("name"), text("__id__"));
        for (group, word) in [
            (state, name),
            (state, id),
            (Some("id"), id),
            (Some("id"), name),
        ] {
            if let (Some(group), Some(word)) = (group, word) {
                if !self.named.contains_key(group) {
                    self.named.insert(group.to_owned(), Named::default());
                }
                if let Some(group) = self.named.get_mut(group) {
                    put(group, word, node);
                }
            }
        }
        let from = chunk.get("__sls_included_from__").and_then(Value::as_list);
        let from = from.unwrap_or_default().iter().filter_map(Value::as_str);
        for sls in text("__sls__").into_iter().chain(from) {
            put(&mut self.of_sls, sls, node);
        }
    }

    /// Converts the watches of a module without `mod_watch` to requires.
    fn reconcile_watch(&mut self, chunk: usize, has: &dyn Fn(&str) -> bool) {
        let Some(chunk) = self.chunks.get_mut(chunk) else {
            return;
        };
        for (watch, require) in [("watch", "require"), ("watch_any", "require_any")] {
            let state = || chunk.get("state").map(Value::to_text).unwrap_or_default();
            if chunk.contains(watch) && !has(&format!("{}.mod_watch", state())) {
                let watched = chunk.remove(watch).unwrap_or_default();
                let required = chunk.entry(require, || Value::list([]));
                if let (Some(required), Some(watched)) = (required.as_list_mut(), watched.as_list())
                {
                    required.extend(watched.iter().cloned());
                }
            }
        }
    }

    fn requisites(&mut self, chunk: usize, disabled: &[String]) -> Result<(), Fault> {
        for kind in KINDS {
            let items = self
                .chunks
                .get(chunk)
                .and_then(|chunk| chunk.get(kind.word()));
            let Some(Value::List(items)) = items.cloned() else {
                continue;
            };
            if !disabled.iter().any(|word| word == kind.word()) {
                for (place, item) in items.iter().enumerate() {
                    self.requisite(chunk, kind, place, item)
                        .map_err(|fault| at_key_without_value(fault, &items, place))?;
                }
            }
        }
        self.heard_in_time(chunk)?;
        self.listen(chunk);
        Ok(())
    }

    fn requisite(
        &mut self,
        chunk: usize,
        kind: RequisiteKind,
        place: usize,
        item: &Value,
    ) -> Result<(), Fault> {
        let Some((group, name, found)) = self.named_by(chunk, kind, place, item)? else {
            return Ok(());
        };
        let found = self.in_turn(chunk, kind, place, (&group, &name), found)?;
        self.connect(chunk, kind, &found);
        self.declare(chunk, kind, group, &name, found);
        Ok(())
    }

    /// Resolves an item of a requisite: returns its module, its name, and the matching nodes.
    fn named_by(
        &self,
        chunk: usize,
        kind: RequisiteKind,
        place: usize,
        item: &Value,
    ) -> Result<Option<(String, String, Vec<usize>)>, Fault> {
        let Some((group, target)) = item_of(item) else {
            return Ok(None);
        };
        if target.is_null() {
            return Ok(None);
        }
        let Some(name) = target.as_str() else {
            let head = format!("Requisite [{}: {group}]", kind.word());
            let tail = "must have a string as the value";
            return Err(self.fault(chunk, kind, place, |low| format!("{head} {low} {tail}")));
        };
        let Some(found) = self.find(&group, name) else {
            let word = kind.word();
            let head = format!(
                "Referenced state does not exist for requisite [{word}: ({group}: {name})]"
            );
            let fault = self.fault(chunk, kind, place, |low| format!("{head} {low}"));
            return Err(fault.hint(self.meant(&group, name)));
        };
        let name = name.to_owned();
        Ok(Some((group, name, found)))
    }

    fn declare(
        &mut self,
        chunk: usize,
        kind: RequisiteKind,
        state: String,
        name: &str,
        chunks: Vec<usize>,
    ) {
        let node = self.node_of.get(chunk).copied().unwrap_or_default();
        if let Some(declared) = self.declared.get_mut(node) {
            let name = name.to_owned();
            declared.push(Requisite {
                kind,
                state,
                name,
                chunks,
            });
        }
    }

    /// Returns the nodes that a requisite names; `None` if nothing matches.
    fn find(&self, group: &str, name: &str) -> Option<Vec<usize>> {
        let glob = is_glob(name) || name.contains(']');
        let empty = Named::default();
        let (names, sls) = match group {
            "sls" => (&self.of_sls, true),
            _ => (self.named.get(group).unwrap_or(&empty), false),
        };
        if !glob {
            return names.get(name).cloned();
        }
        let matching = names.iter().filter(|(key, _)| fnmatch(name, key));
        let mut found: Vec<usize> = Vec::new();
        let mut any = sls;
        for (_, nodes) in matching {
            any = true;
            found.extend(nodes);
        }
        found.sort_unstable();
        found.dedup();
        any.then_some(found)
    }

    fn connect(&mut self, chunk: usize, kind: RequisiteKind, found: &[usize]) {
        let node = self.node_of.get(chunk).copied().unwrap_or_default();
        for target in found {
            if kind == RequisiteKind::Prereq {
                self.mark(node, "__prerequiring__");
                self.mark(*target, "__prereq__");
                self.graph.prereq(node, *target);
            } else {
                self.graph.require(*target, node, kind);
            }
        }
    }

    fn mark(&mut self, node: usize, key: &str) {
        let chunk = self.graph.nodes().get(node).map(|node| node.chunk);
        if let Some(chunk) = chunk.and_then(|chunk| self.chunks.get_mut(chunk)) {
            chunk.insert(key, true);
        }
    }

    /// Adds the listeners of a chunk. They create no edges, because they are evaluated after all
    /// chunks have run. Names are compared literally, not as globs.
    fn listen(&mut self, chunk: usize) {
        for (group, target) in self.items(chunk, "listen").iter().filter_map(item_of) {
            let name = target.to_text();
            let found = self.listed(&group, &name);
            // Salt ignores a bare word that names nothing.
            if group != "id" || !found.is_empty() {
                self.declare(chunk, RequisiteKind::Listen, group, &name, found);
            }
        }
        let listeners = self.items(chunk, "listen_in");
        if listeners.is_empty() {
            return;
        }
        let text = |key| {
            self.chunks
                .get(chunk)?
                .get(key)?
                .as_str()
                .map(str::to_owned)
        };
        let (Some(state), Some(id)) = (text("state"), text("__id__")) else {
            return;
        };
        for (group, target) in listeners.iter().filter_map(item_of) {
            let found = self.listed(&state, &id);
            for listener in self.listed(&group, &target.to_text()) {
                let (state, name, chunks) = (state.clone(), id.clone(), found.clone());
                let kind = RequisiteKind::Listen;
                if let Some(declared) = self.declared.get_mut(listener) {
                    declared.push(Requisite {
                        kind,
                        state,
                        name,
                        chunks,
                    });
                }
            }
        }
    }

    fn items(&self, chunk: usize, key: &str) -> Vec<Value> {
        let items = self.chunks.get(chunk).and_then(|chunk| chunk.get(key));
        items.and_then(Value::as_list).unwrap_or_default().to_vec()
    }

    fn listed(&self, group: &str, name: &str) -> Vec<usize> {
        let names = self.named.get(group);
        let found = names.and_then(|names| names.get(name));
        found.cloned().unwrap_or_default()
    }

    fn raised(&self, cap: i64, chunk: usize) -> i64 {
        match self.chunks.get(chunk).and_then(|chunk| chunk.get("order")) {
            Some(Value::Int(order)) if *order > cap - 1 && *order > 0 => order + 100,
            _ => cap,
        }
    }

    fn fault(
        &self,
        chunk: usize,
        kind: RequisiteKind,
        place: usize,
        text: impl FnOnce(&str) -> String,
    ) -> Fault {
        let empty = Map::new();
        let chunk = self.chunks.get(chunk).unwrap_or(&empty);
        let word = |key| chunk.get(key).unwrap_or(&Value::Null).to_text();
        let low = format!("in state [{}] in SLS [{}]", word("name"), word("__sls__"));
        let path = self.path(chunk, kind, place);
        self.high.documents.fault_in(text(&low), chunk, &path)
    }

    /// Returns the path of a requisite of a chunk in the high data.
    fn path(&self, chunk: &Map, kind: RequisiteKind, place: usize) -> Vec<Value> {
        let (id, state) = (chunk.get("__id__"), chunk.get("state"));
        let (Some(id), Some(state)) = (id, state) else {
            return Vec::new();
        };
        let body = self.high.map.get_value(id).and_then(Value::as_map);
        let arguments = body.and_then(|body| body.get_value(state)?.as_list());
        let mut arguments = arguments.unwrap_or_default().iter();
        let mut path = vec![id.clone(), state.clone()];
        if let Some(index) = arguments.position(|argument| argument.get(kind.word()).is_some()) {
            path.extend([index.into(), kind.word().into(), place.into()]);
        }
        path
    }

    fn meant(&self, group: &str, name: &str) -> Option<String> {
        let names = match group {
            "sls" => Some(&self.of_sls),
            _ => self.named.get(group),
        };
        let near = names.and_then(|names| did_you_mean(name, names.keys().map(String::as_str)));
        near.or_else(|| {
            let elsewhere = self.named.iter().filter(|(group, _)| *group != "id");
            let mut holders: Vec<&str> = elsewhere
                .filter(|(_, names)| names.contains_key(name))
                .map(|(group, _)| group.as_str())
                .collect();
            holders.sort_unstable();
            let holder = holders.first()?;
            Some(format!("did you mean '{holder}: {name}'?"))
        })
    }

    fn finished(mut self, cap: i64, rules: &Rules<'_>) -> Result<Plan, Vec<Fault>> {
        let mut chunks = std::mem::take(&mut self.chunks);
        let graph = &self.graph;
        let mut sorted = graph.sorted(|node| key(graph, &mut chunks, cap, node));
        self.chunks = chunks;
        if let Some(sorted) = &mut sorted {
            // No chunk of the ordinary phase needs one of a later phase, so this keeps the order
            // valid.
            sorted.sort_by_key(|node| self.turn_of(*node));
        }
        if sorted.is_none() {
            let fault = self.cycle();
            self.faults.push(fault);
        }
        match sorted {
            Some(sorted) if self.faults.is_empty() => Ok(self.plan(&sorted, rules)),
            _ => Err(self.faults),
        }
    }

    fn cycle(&self) -> Fault {
        let cycle = self.graph.cycle();
        let chunk = |node: usize| {
            let node = self.graph.nodes().get(node)?;
            self.chunks.get(node.chunk)
        };
        let mut edges = Vec::new();
        let mut first = None;
        for (needed, needing, kind) in cycle {
            let (Some(needed), Some(needing)) = (chunk(needed), chunk(needing)) else {
                continue;
            };
            let declared = needing.contains(kind.word());
            let kind = match kind {
                RequisiteKind::Require if !declared => RequisiteKind::Prereq,
                kind => kind,
            };
            edges.push(format!(
                "({}, '{}', {})",
                named(needing),
                kind.word(),
                named(needed)
            ));
            first.get_or_insert((needing, kind));
        }
        let text = format!("Recursive requisites were found: {}", edges.join(", "));
        match first {
            Some((chunk, kind)) => {
                let path = self.path(chunk, kind, 0);
                self.high.documents.fault_in(text, chunk, &path)
            }
            None => Fault::new(text),
        }
    }

    fn plan(self, sorted: &[usize], rules: &Rules<'_>) -> Plan {
        let nodes = self.graph.nodes();
        let real = sorted
            .iter()
            .copied()
            .filter(|node| nodes.get(*node).is_some_and(|node| !node.test));
        let order: Vec<usize> = real.collect();
        let mut place_of_chunk = vec![0; self.chunks.len()];
        for (place, node) in order.iter().enumerate() {
            let chunk = nodes.get(*node).map(|node| node.chunk);
            if let Some(slot) = chunk.and_then(|chunk| place_of_chunk.get_mut(chunk)) {
                *slot = place;
            }
        }
        let place = |node: usize| {
            let chunk = nodes.get(node).map(|node| node.chunk);
            chunk
                .and_then(|chunk| place_of_chunk.get(chunk))
                .copied()
                .unwrap_or_default()
        };
        let step = |node: &usize| Step {
            chunk: place(*node),
            test: nodes.get(*node).is_some_and(|node| node.test),
            needs: self
                .graph
                .needs(*node)
                .map(|(node, kind)| (kind, place(node)))
                .collect(),
        };
        let low = |node: &usize| {
            let chunk = nodes
                .get(*node)
                .and_then(|node| self.chunks.get(node.chunk));
            let mut low = LowChunk::from_map(chunk.cloned().unwrap_or_default());
            low.requisites = self.declared.get(*node).cloned().unwrap_or_default();
            low.when = self.turn_of(*node);
            for requisite in &mut low.requisites {
                if requisite.kind == RequisiteKind::Listen && requisite.state == "id" {
                    self.only_first(&mut requisite.chunks, &place);
                }
                let chunks = requisite.chunks.iter_mut();
                chunks.for_each(|chunk| *chunk = place(*chunk));
            }
            Arc::new(low)
        };
        let ordinary = sorted.iter().copied();
        let ordinary = ordinary.filter(|node| self.turn_of(*node) == When::Ordinary);
        let ordinary: Vec<usize> = ordinary.collect();
        Plan {
            chunks: order.iter().map(low).collect(),
            steps: sorted.iter().map(step).collect(),
            groups: super::aggregate::groups(&self.graph, &self.chunks, &ordinary, rules)
                .into_iter()
                .map(|group| group.into_iter().map(place).collect())
                .collect(),
            disabled: Vec::new(),
            documents: self.high.documents.clone(),
        }
    }
}

impl Order<'_> {
    /// Keeps only the nodes that a bare word after `listen` means: the first chunk to run that
    /// matches, and those of the same module.
    fn only_first(&self, nodes: &mut Vec<usize>, place: &impl Fn(usize) -> usize) {
        let state = |node: usize| {
            let node = self.graph.nodes().get(node)?;
            self.chunks.get(node.chunk)?.get("state")
        };
        if let Some(first) = nodes.iter().copied().min_by_key(|node| place(*node)) {
            nodes.retain(|node| state(*node) == state(first));
        }
    }
}

fn put(names: &mut Named, name: &str, node: usize) {
    match names.get_mut(name) {
        Some(nodes) if nodes.last() == Some(&node) => {}
        Some(nodes) => nodes.push(node),
        None => {
            names.insert(name.to_owned(), vec![node]);
        }
    }
}

/// Explains the fault of an item that follows a key without a value, such as `- sls:`: the item is
/// the value, which is not indented.
fn at_key_without_value(fault: Fault, items: &[Value], place: usize) -> Fault {
    let before = place.checked_sub(1).and_then(|before| items.get(before));
    let key = before.and_then(Value::as_map).and_then(Map::first);
    match (key, items.get(place).and_then(Value::as_str)) {
        (Some((key, Value::Null)), Some(name)) => {
            let key = key.to_text();
            fault.explained(
                format!("'{key}:' on the line above has no value, and '{name}' is not indented"),
                format!("write - {key}: {name}"),
            )
        }
        _ => fault,
    }
}

/// Parses an item of a requisite list: a module (its function is removed), `sls` or `id`, and the
/// name. A bare word is an ID.
fn item_of(item: &Value) -> Option<(String, Value)> {
    if item.as_str().is_some() {
        return Some(("id".into(), item.clone()));
    }
    let (group, target) = item.as_map()?.first()?;
    let group = group.to_text();
    let module = group.split_once('.').map(|(module, _)| module.to_owned());
    Some((module.unwrap_or(group), target.clone()))
}

/// Returns Salt's tag of low data.
pub(crate) fn tag(chunk: &Map) -> String {
    let text = |key| chunk.get(key).map(Value::as_text).unwrap_or_default();
    ["state", "__id__", "name", "fun"].map(text).join("_|-")
}

/// Returns the description of a chunk in the error about a cycle.
fn named(chunk: &Map) -> String {
    let get = |key| chunk.get(key).cloned().unwrap_or_default();
    let mut shown = Map::new()
        .with("SLS", get("__sls__"))
        .with("ID", get("__id__"));
    if get("name") != get("__id__") {
        shown.insert("NAME", get("name"));
    }
    value::python::repr(&Value::Map(shown))
}
