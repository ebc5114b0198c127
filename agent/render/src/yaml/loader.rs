//! Constructs values from nodes as `SaltYamlSafeLoader` does.

use std::collections::HashSet;
use std::sync::Arc;

use value::{Map, Value, python};

use super::compose::{Content, Graph, MAX_DEPTH, Node, NodeId, limit};
use super::error::{Error, Mark};
use super::resolve::Tag;
use super::scalar;

/// The maximum number of entries that all `<<` of a document may add together.
pub const MAX_MERGED: usize = 1_000_000;

const MAPPING: &str = "while constructing a mapping";

/// Returns the value of a document.
pub(super) fn construct(graph: Graph, root: NodeId) -> Result<Value, Error> {
    let states = vec![State::New; graph.len()];
    let mut loader = Loader {
        graph,
        states,
        waiting: Vec::new(),
        merged: 0,
    };
    loader.check(root)?;
    Ok(loader.build(root, 0)?.value)
}

#[derive(Clone)]
enum State {
    New,
    Checked,
    Building,
    Built(Built),
}

/// A value and the number of levels below it.
#[derive(Clone)]
struct Built {
    value: Value,
    height: usize,
}

struct Loader {
    graph: Graph,
    states: Vec<State>,
    waiting: Vec<NodeId>,
    merged: usize,
}

/// Checks everything first, level by level in the order in which PyYAML constructs it, so that of
/// several faults in a document the same one is reported. Then the values are built from the leaves
/// up; the only errors left then are recursion and too deep nesting.
impl Loader {
    fn check(&mut self, root: NodeId) -> Result<(), Error> {
        self.meet(root)?;
        while !self.waiting.is_empty() {
            for id in std::mem::take(&mut self.waiting) {
                self.expand(id)?;
            }
        }
        Ok(())
    }

    /// Checks a scalar at once, and queues a collection.
    fn meet(&mut self, id: NodeId) -> Result<(), Error> {
        if !matches!(self.state(id), State::New) {
            return Ok(());
        }
        let node = self.graph.node(id);
        let state = match (&node.tag, &node.content) {
            (tag, Content::Scalar(text)) => match scalar::construct(tag, text, node.mark)? {
                Some(value) => State::Built(Built { value, height: 0 }),
                None => State::Checked,
            },
            (Tag::Seq | Tag::Map | Tag::Omap | Tag::Pairs | Tag::Set, _) => State::Checked,
            (tag @ (Tag::Merge | Tag::Value | Tag::Other(_)), _) => {
                return Err(scalar::unknown(tag, node.mark));
            }
            // Salt tests for leading zeros before PyYAML checks that the node is a scalar.
            (Tag::Int, _) => {
                return Err(Error::value("'list' object has no attribute 'startswith'"));
            }
            (_, content) => return Err(expected("scalar", content, node.mark)),
        };
        if matches!(state, State::Checked) {
            self.waiting.push(id);
        }
        self.set_state(id, state);
        Ok(())
    }

    fn state(&self, id: NodeId) -> &State {
        self.states.get(id.index()).unwrap_or(&State::New)
    }

    fn set_state(&mut self, id: NodeId, state: State) {
        if let Some(slot) = self.states.get_mut(id.index()) {
            *slot = state;
        }
    }

    fn expand(&mut self, id: NodeId) -> Result<(), Error> {
        match self.graph.node(id).tag {
            Tag::Seq => self.expand_sequence(id),
            Tag::Omap => self.expand_pairs(id, "while constructing an ordered map"),
            Tag::Pairs => self.expand_pairs(id, "while constructing pairs"),
            _ => self.expand_mapping(id),
        }
    }

    fn expand_sequence(&mut self, id: NodeId) -> Result<(), Error> {
        let node = self.graph.node(id);
        let Content::Sequence(items) = &node.content else {
            return Err(expected("sequence", &node.content, node.mark));
        };
        for item in items.clone() {
            self.meet(item)?;
        }
        Ok(())
    }

    fn expand_pairs(&mut self, id: NodeId, context: &str) -> Result<(), Error> {
        let node = self.graph.node(id);
        let start = node.mark;
        let fault =
            |problem: String, mark| Err(Error::constructor(problem, mark).within(context, start));
        let Content::Sequence(items) = &node.content else {
            return fault(
                format!("expected a sequence, but found {}", node.content.id()),
                start,
            );
        };
        for item in items.clone() {
            let node = self.graph.node(item);
            let pairs = match &node.content {
                Content::Mapping(pairs) => pairs.as_slice(),
                other => {
                    return fault(
                        format!("expected a mapping of length 1, but found {}", other.id()),
                        node.mark,
                    );
                }
            };
            let [(key, value)] = *pairs else {
                return fault(
                    format!(
                        "expected a single mapping item, but found {} items",
                        pairs.len()
                    ),
                    node.mark,
                );
            };
            self.meet(key)?;
            self.meet(value)?;
        }
        Ok(())
    }

    fn expand_mapping(&mut self, id: NodeId) -> Result<(), Error> {
        let node = self.graph.node(id);
        let start = node.mark;
        if !matches!(node.content, Content::Mapping(_)) {
            return Err(expected("mapping", &node.content, start));
        }
        self.flatten(id, 0)?;
        let mut seen = Map::new();
        let mut index = 0;
        while let Some(&(key, value)) = self.graph.pairs(id).get(index) {
            index += 1;
            self.meet(key)?;
            let mark = self.graph.node(key).mark;
            let State::Built(Built { value: name, .. }) = self.state(key).clone() else {
                let problem = format!("found unacceptable key {}", self.python_value(key));
                return Err(Error::constructor(problem, mark).within(MAPPING, start));
            };
            self.meet(value)?;
            if seen.contains_value(&name) {
                let problem = format!("found conflicting ID '{}'", python::str(&name));
                return Err(Error::constructor(problem, mark).within(MAPPING, start));
            }
            if self.graph.pairs(id).len() > 1 {
                seen.insert(name, Value::Null);
            }
        }
        Ok(())
    }

    /// Removes the `<<` entries and inserts the entries of the mappings that they name at the
    /// front, without the keys that the mapping has itself.
    fn flatten(&mut self, id: NodeId, depth: usize) -> Result<(), Error> {
        let start = self.graph.node(id).mark;
        if depth > MAX_DEPTH {
            return Err(limit(
                format!("merge keys are nested deeper than {MAX_DEPTH} levels"),
                start,
            ));
        }
        let mut merge = Vec::new();
        let mut index = 0;
        while let Some(&(key, value)) = self.graph.pairs(id).get(index) {
            match self.graph.node(key).tag {
                Tag::Merge => {
                    if let Content::Mapping(pairs) = &mut self.graph.node_mut(id).content {
                        pairs.remove(index);
                    }
                    self.merge_from(value, start, depth, &mut merge)?;
                }
                Tag::Value => {
                    self.graph.node_mut(key).tag = Tag::Str;
                    index += 1;
                }
                _ => index += 1,
            }
        }
        self.prepend(id, merge);
        Ok(())
    }

    fn merge_from(
        &mut self,
        source: NodeId,
        start: Mark,
        depth: usize,
        merge: &mut Vec<(NodeId, NodeId)>,
    ) -> Result<(), Error> {
        let node = self.graph.node(source);
        let fault = |problem: &str, content: &Content, mark| {
            Err(
                Error::constructor(format!("{problem}, but found {}", content.id()), mark)
                    .within(MAPPING, start),
            )
        };
        let maps = match &node.content {
            Content::Mapping(_) => vec![source],
            Content::Sequence(items) => items.clone(),
            content => {
                return fault(
                    "expected a mapping or list of mappings for merging",
                    content,
                    node.mark,
                );
            }
        };
        for map in &maps {
            let node = self.graph.node(*map);
            if !matches!(node.content, Content::Mapping(_)) {
                return fault("expected a mapping for merging", &node.content, node.mark);
            }
            self.flatten(*map, depth + 1)?;
        }
        for map in maps.into_iter().rev() {
            let pairs = self.graph.pairs(map);
            self.merged += pairs.len() + 1;
            if self.merged > MAX_MERGED {
                return Err(limit(
                    format!("merge keys add more than {MAX_MERGED} entries"),
                    start,
                ));
            }
            merge.extend_from_slice(pairs);
        }
        Ok(())
    }

    fn prepend(&mut self, id: NodeId, merge: Vec<(NodeId, NodeId)>) {
        if merge.is_empty() {
            return;
        }
        let own = self.graph.pairs(id);
        let names: HashSet<&str> = own
            .iter()
            .filter_map(|(key, _)| self.graph.text(*key))
            .collect();
        let keep = |(key, _): &(NodeId, NodeId)| {
            !self
                .graph
                .text(*key)
                .is_some_and(|name| names.contains(name))
        };
        let mut pairs: Vec<_> = merge.into_iter().filter(keep).collect();
        pairs.extend_from_slice(own);
        self.graph.node_mut(id).content = Content::Mapping(pairs);
    }

    /// Returns Python's representation of the `value` of a key, for the message about it.
    fn python_value(&self, key: NodeId) -> String {
        match &self.graph.node(key).content {
            Content::Scalar(text) => text.to_string(),
            _ => {
                let mut out = String::new();
                self.write_value(&mut out, key, &mut Vec::new());
                out
            }
        }
    }

    fn write_value(&self, out: &mut String, id: NodeId, open: &mut Vec<NodeId>) {
        const LONG: usize = 100_000;
        if open.contains(&id) || out.len() > LONG {
            out.push_str("[...]");
            return;
        }
        open.push(id);
        match &self.graph.node(id).content {
            Content::Scalar(text) => out.push_str(&scalar::repr(text)),
            Content::Sequence(items) => {
                Self::write_list(out, items, |out, item| self.write_node(out, *item, open));
            }
            Content::Mapping(pairs) => Self::write_list(out, pairs, |out, (key, value)| {
                out.push('(');
                self.write_node(out, *key, open);
                out.push_str(", ");
                self.write_node(out, *value, open);
                out.push(')');
            }),
        }
        open.pop();
    }

    fn write_list<T>(out: &mut String, items: &[T], mut write: impl FnMut(&mut String, &T)) {
        out.push('[');
        for (index, item) in items.iter().enumerate() {
            out.push_str(if index > 0 { ", " } else { "" });
            write(out, item);
        }
        out.push(']');
    }

    fn write_node(&self, out: &mut String, id: NodeId, open: &mut Vec<NodeId>) {
        let node = self.graph.node(id);
        let name = match &node.content {
            Content::Scalar(_) => "ScalarNode",
            Content::Sequence(_) => "SequenceNode",
            Content::Mapping(_) => "MappingNode",
        };
        out.push_str(&format!(
            "{name}(tag={}, value=",
            scalar::repr(&node.tag.name())
        ));
        self.write_value(out, id, open);
        out.push(')');
    }

    fn build(&mut self, id: NodeId, depth: usize) -> Result<Built, Error> {
        let mark = self.graph.node(id).mark;
        match self.state(id) {
            State::Built(built) => return Ok(built.clone()),
            State::Building => {
                return Err(Error::constructor(
                    "found unconstructable recursive node",
                    mark,
                ));
            }
            State::New | State::Checked => {}
        }
        self.set_state(id, State::Building);
        // An alias adds no level here, but it nests the nodes that it names, so their height counts
        // as well.
        let deep = || {
            limit(
                format!("the document is nested deeper than {MAX_DEPTH} levels"),
                mark,
            )
        };
        let built = if depth > MAX_DEPTH {
            Err(deep())
        } else {
            self.build_collection(id, depth + 1)
        }?;
        if built.height > MAX_DEPTH {
            return Err(deep());
        }
        self.set_state(id, State::Built(built.clone()));
        Ok(built)
    }

    /// Returns the pairs of an ordered map; each item of its list contains one.
    fn single_pairs(&self, node: &Node) -> Vec<(NodeId, NodeId)> {
        match (&node.tag, &node.content) {
            (Tag::Omap | Tag::Pairs, Content::Sequence(items)) => items
                .iter()
                .flat_map(|item| self.graph.pairs(*item))
                .copied()
                .collect(),
            _ => Vec::new(),
        }
    }

    fn build_collection(&mut self, id: NodeId, depth: usize) -> Result<Built, Error> {
        let node = self.graph.node(id).clone();
        let pairs = self.single_pairs(&node);
        let mut height = 0;
        let mut child = |id| {
            let built = self.build(id, depth)?;
            height = height.max(built.height + 1);
            Ok(built.value)
        };
        let value = match (node.tag, node.content) {
            (Tag::Omap | Tag::Pairs, Content::Sequence(_)) => {
                let mut tuples = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    tuples.push(Value::Tuple(Arc::new(vec![child(key)?, child(value)?])));
                }
                Value::list(tuples)
            }
            (_, Content::Sequence(items)) => Value::List(Arc::new(
                items.into_iter().map(child).collect::<Result<_, _>>()?,
            )),
            (tag, Content::Mapping(pairs)) => {
                let mut entries = Vec::with_capacity(pairs.len());
                for (key, value) in pairs {
                    entries.push((child(key)?, child(value)?));
                }
                match tag {
                    Tag::Set => Value::Set(
                        entries
                            .into_iter()
                            .map(|(key, _)| (key, Value::Null))
                            .collect(),
                    ),
                    _ => Value::Map(entries.into_iter().collect()),
                }
            }
            (_, Content::Scalar(_)) => Value::Null,
        };
        Ok(Built { value, height })
    }
}

fn expected(shape: &str, content: &Content, mark: Mark) -> Error {
    Error::constructor(
        format!("expected a {shape} node, but found {}", content.id()),
        mark,
    )
}
