//! Composes events to a graph of nodes: resolves aliases and plain scalars, and checks the limits.

use std::collections::HashMap;
use std::sync::Arc;

use super::engine::{Event, EventKind, Reader};
use super::error::{Class, Error, Mark};
use super::resolve::{Tag, resolve};

/// The maximum number of bytes of a document.
pub const MAX_BYTES: usize = 64 << 20;
/// The maximum nesting depth.
pub const MAX_DEPTH: usize = 200;
/// The maximum number of nodes, with each alias counted as the nodes that it refers to.
pub const MAX_NODES: usize = 1_000_000;
/// The maximum number of `%TAG` lines.
pub const MAX_DIRECTIVES: usize = 100;

/// The index of a node in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(u32);

/// The contents of a node.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Scalar(Arc<str>),
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
}

impl Content {
    /// Returns PyYAML's name for a node of this shape.
    pub(super) fn id(&self) -> &'static str {
        match self {
            Self::Scalar(_) => "scalar",
            Self::Sequence(_) => "sequence",
            Self::Mapping(_) => "mapping",
        }
    }
}

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) tag: Tag,
    pub(super) content: Content,
    pub(super) mark: Mark,
}

/// The nodes of a document. A [`NodeId`] of a graph always refers to one of its nodes.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    missing: Node,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            tag: Tag::Null,
            content: Content::Scalar(Arc::default()),
            mark: Mark::default(),
        }
    }
}

impl Graph {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.index()).unwrap_or(&self.missing)
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(id.index()).unwrap_or(&mut self.missing)
    }

    /// Returns the entries of a mapping; none for any other node.
    pub(super) fn pairs(&self, id: NodeId) -> &[(NodeId, NodeId)] {
        match &self.node(id).content {
            Content::Mapping(pairs) => pairs,
            _ => &[],
        }
    }

    /// Returns the text of a scalar.
    pub(super) fn text(&self, id: NodeId) -> Option<&str> {
        match &self.node(id).content {
            Content::Scalar(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn omaps_are_maps(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.tag == Tag::Omap) {
            node.tag = Tag::Map;
        }
    }

    fn add(&mut self, node: Node) -> Result<NodeId, Error> {
        let id = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        if self.nodes.len() >= MAX_NODES {
            return Err(limit(
                format!("the document has more than {MAX_NODES} nodes"),
                node.mark,
            ));
        }
        self.nodes.push(node);
        Ok(NodeId(id))
    }
}

impl NodeId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

pub(super) fn limit(problem: String, mark: Mark) -> Error {
    Error::at(Class::Limit, problem, mark)
}

/// Reads the only document of a text; `None` if there is none.
pub(super) fn compose(text: &str) -> Result<(Graph, Option<NodeId>), Error> {
    check_size(text)?;
    let mut composer = Composer {
        reader: Reader::new(text),
        graph: Graph::default(),
        anchors: HashMap::new(),
        sizes: Vec::new(),
    };
    let root = composer.document()?;
    Ok((composer.graph, root))
}

/// Refuses texts that would take too much time or memory before the first event.
fn check_size(text: &str) -> Result<(), Error> {
    if text.len() > MAX_BYTES {
        let problem = format!(
            "the document has {} bytes, more than the {MAX_BYTES} that are allowed",
            text.len()
        );
        return Err(limit(problem, Mark::default()));
    }
    // The engine compares each `%TAG` with all earlier ones.
    let is_directive = |line: &&str| line.starts_with("%TAG");
    let mut lines = text.lines().filter(is_directive);
    if text.contains('%') && lines.nth(MAX_DIRECTIVES).is_some() {
        let problem = format!("the document has more than {MAX_DIRECTIVES} %TAG directives");
        return Err(limit(problem, Mark::default()));
    }
    Ok(())
}

struct Composer<'a> {
    reader: Reader<'a>,
    graph: Graph,
    anchors: HashMap<String, NodeId>,
    /// The number of nodes that each node contains, with its aliases expanded.
    sizes: Vec<usize>,
}

impl Composer<'_> {
    fn document(&mut self) -> Result<Option<NodeId>, Error> {
        let mut root = None;
        loop {
            let event = self.reader.next()?;
            match (&event.kind, root) {
                (EventKind::StreamEnd, _) => return Ok(root),
                (EventKind::DocumentStart, Some(first)) => {
                    let first = self.graph.node(first).mark;
                    let error =
                        Error::at(Class::Composer, "but found another document", event.mark);
                    return Err(error.within("expected a single document in the stream", first));
                }
                (EventKind::StreamStart | EventKind::DocumentStart | EventKind::DocumentEnd, _) => {
                }
                _ => root = Some(self.node(event, 0)?),
            }
        }
    }

    fn node(&mut self, event: Event, depth: usize) -> Result<NodeId, Error> {
        let mark = event.mark;
        if depth > MAX_DEPTH {
            return Err(limit(
                format!("the document is nested deeper than {MAX_DEPTH} levels"),
                mark,
            ));
        }
        match event.kind {
            EventKind::Scalar {
                text,
                tag,
                anchor,
                plain,
            } => {
                let tag =
                    given(tag).unwrap_or_else(|| if plain { resolve(&text) } else { Tag::Str });
                self.add(tag, Content::Scalar(text), mark, anchor)
            }
            EventKind::SequenceStart { tag, anchor } => {
                let tag = given(tag).unwrap_or(Tag::Seq);
                let id = self.add(tag, Content::Sequence(Vec::new()), mark, anchor)?;
                let items = self.items(depth)?;
                self.weigh(id, items.iter())?;
                self.graph.node_mut(id).content = Content::Sequence(items);
                Ok(id)
            }
            EventKind::MappingStart { tag, anchor } => {
                let tag = given(tag).unwrap_or(Tag::Map);
                let id = self.add(tag, Content::Mapping(Vec::new()), mark, anchor)?;
                let pairs = self.entries(depth)?;
                self.weigh(id, pairs.iter().flat_map(|(key, value)| [key, value]))?;
                self.graph.node_mut(id).content = Content::Mapping(pairs);
                Ok(id)
            }
            EventKind::Alias(name) => {
                let known = self.anchors.get(&name).copied();
                known.ok_or_else(|| Error::at(Class::Composer, "found undefined alias", mark))
            }
            _ => Err(Error::at(
                Class::Parser,
                "did not find expected node content",
                mark,
            )),
        }
    }

    /// Limits the expanded size of a node. Code that walks the document visits a node once for each
    /// reference, so a few lines of aliases can expand to an enormous number of nodes.
    fn weigh<'i>(
        &mut self,
        id: NodeId,
        children: impl Iterator<Item = &'i NodeId>,
    ) -> Result<(), Error> {
        let sizes = children.filter_map(|child| self.sizes.get(child.index()));
        let size = sizes.fold(1, |sum: usize, size| sum.saturating_add(*size));
        if size > MAX_NODES {
            let problem =
                format!("the document has more than {MAX_NODES} nodes with its aliases expanded");
            return Err(limit(problem, self.graph.node(id).mark));
        }
        if let Some(slot) = self.sizes.get_mut(id.index()) {
            *slot = size;
        }
        Ok(())
    }

    fn items(&mut self, depth: usize) -> Result<Vec<NodeId>, Error> {
        let mut items = Vec::new();
        loop {
            let event = self.reader.next()?;
            match event.kind {
                EventKind::SequenceEnd => return Ok(items),
                _ => items.push(self.node(event, depth + 1)?),
            }
        }
    }

    fn entries(&mut self, depth: usize) -> Result<Vec<(NodeId, NodeId)>, Error> {
        let mut pairs = Vec::new();
        loop {
            let event = self.reader.next()?;
            if matches!(event.kind, EventKind::MappingEnd) {
                return Ok(pairs);
            }
            let key = self.node(event, depth + 1)?;
            let event = self.reader.next()?;
            pairs.push((key, self.node(event, depth + 1)?));
        }
    }

    fn add(
        &mut self,
        tag: Tag,
        content: Content,
        mark: Mark,
        anchor: Option<String>,
    ) -> Result<NodeId, Error> {
        let first = anchor.as_ref().and_then(|name| self.anchors.get(name));
        if let Some(first) = first {
            let first = self.graph.node(*first).mark;
            let error = Error::at(Class::Composer, "second occurrence", mark);
            return Err(error.within("found duplicate anchor; first occurrence", first));
        }
        let id = self.graph.add(Node { tag, content, mark })?;
        self.sizes.push(1);
        if let Some(name) = anchor {
            self.anchors.insert(name, id);
        }
        Ok(id)
    }
}

/// Returns the tag as written; `!` alone counts as none.
fn given(tag: Option<String>) -> Option<Tag> {
    tag.filter(|tag| tag != "!").map(|tag| Tag::from_name(&tag))
}
