//! The pillar data that rows become.
//!
//! Later rows change dictionaries that earlier rows have made, also after a list has taken them in.
//! Therefore each container has a number for its lifetime, and is found by it.

use std::collections::HashMap;

use value::merge::recurse;
use value::{Map, Value, json};

use super::Table;
use super::query::Query;

/// The number of a node.
type Id = usize;

/// The number of the whole pillar.
const ROOT: Id = 0;

#[derive(Clone, Debug)]
enum Node {
    Map(Entries),
    List(Vec<Id>),
    Leaf(Value),
}

/// A dictionary in the order of its insertions.
#[derive(Clone, Debug, Default)]
struct Entries {
    keys: Vec<Value>,
    ids: HashMap<Value, Id>,
}

impl Entries {
    fn insert(&mut self, key: Value, id: Id) {
        if self.ids.insert(key.clone(), id).is_none() {
            self.keys.push(key);
        }
    }

    /// Returns the entries in their order.
    fn iter(&self) -> impl Iterator<Item = (&Value, Id)> {
        let keys = self.keys.iter();
        keys.filter_map(|key| Some((key, *self.ids.get(key)?)))
    }
}

/// The pillar data of several queries.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The dictionary that the present query fills.
    focus: Id,
}

/// The keys whose dictionaries become lists after the last row, by dictionary.
#[derive(Default)]
struct Lists {
    order: Vec<Id>,
    keys: HashMap<Id, Vec<Value>>,
}

impl Lists {
    fn note(&mut self, map: Id, key: &Value) {
        let keys = self.keys.entry(map).or_insert_with(|| {
            self.order.push(map);
            Vec::new()
        });
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        Self {
            nodes: vec![Node::Map(Entries::default())],
            focus: ROOT,
        }
    }

    pub(super) fn into_map(self) -> Map {
        match self.value(ROOT) {
            Value::Map(map) => map,
            _ => Map::new(),
        }
    }

    /// Begins a query. Its data go below the key `root`, whose earlier data are dropped.
    pub(super) fn enter(&mut self, root: Option<&str>) {
        self.focus = match root {
            Some(root) => self.new_map(ROOT, &root.into()),
            None => ROOT,
        };
    }

    /// Adds the rows of a query.
    ///
    /// # Errors
    /// When a row cannot have the form that the query asks for.
    pub(super) fn add(&mut self, query: &Query, table: Table) -> Result<(), String> {
        let is_document = |row: &Vec<Value>| row.len() == 1;
        if query.as_json && table.rows.iter().all(is_document) {
            return self.add_documents(query, table);
        }
        let mut lists = Lists::default();
        for row in &table.rows {
            if row.len() != table.names.len() || row.is_empty() {
                return Err(format!(
                    "it has returned {} values for {} columns",
                    row.len(),
                    table.names.len()
                ));
            }
            self.add_row(query, &table.names, row, &mut lists)?;
        }
        self.make_lists(&lists);
        Ok(())
    }

    /// Merges JSON documents.
    fn add_documents(&mut self, query: &Query, table: Table) -> Result<(), String> {
        let mut merged = match self.value(self.focus) {
            Value::Map(map) => map,
            _ => Map::new(),
        };
        for cell in table.rows.into_iter().flatten() {
            merged = recurse(&merged, &document(cell)?, query.as_list);
        }
        let mut entries = Entries::default();
        for (key, value) in &merged {
            let id = self.put(value.clone());
            entries.insert(key.clone(), id);
        }
        self.set_node(self.focus, Node::Map(entries));
        Ok(())
    }

    fn add_row(
        &mut self,
        query: &Query,
        names: &[String],
        row: &[Value],
        lists: &mut Lists,
    ) -> Result<(), String> {
        let last = names.len() - 1;
        let is_full = query.depth == 0 || query.depth >= names.len();
        let depth = if is_full { last } else { query.depth };
        let is_listed = |column: usize| query.with_lists.contains(&column);
        let mut map = self.focus;
        let above = row.iter().take(depth.saturating_sub(1));
        for (at, key) in above.enumerate() {
            let key = usable(key)?;
            if is_listed(at + 1) {
                lists.note(map, key);
            }
            map = self.descend(map, key, query.as_list);
        }
        let key = row
            .get(depth.saturating_sub(1))
            .ok_or("it has no columns")?;
        let key = usable(key)?;
        if depth == last {
            let value = row.last().cloned().unwrap_or_default();
            self.add_value(query, map, key, value, is_listed(last));
            return Ok(());
        }
        if self.child(map, key).is_none() {
            self.new_map(map, key);
        }
        if is_listed(depth) {
            lists.note(map, key);
        }
        let inner = self.child(map, key);
        let inner = inner.filter(|id| matches!(self.nodes.get(*id), Some(Node::Map(_))));
        let map = inner.ok_or_else(|| {
            let key = key.to_text();
            format!("an earlier row has set {key} to a value that is not a dictionary")
        })?;
        for (at, (name, value)) in names.iter().zip(row).enumerate().skip(depth) {
            let name = Value::from(name.as_str());
            if is_listed(at + 1) {
                lists.note(map, &name);
            }
            self.add_value(query, map, &name, value.clone(), false);
        }
        Ok(())
    }

    /// Returns the dictionary at a key, which is made if there is none. A list gets a new one. Another
    /// value is replaced, or with `as_list` joined.
    fn descend(&mut self, map: Id, key: &Value, as_list: bool) -> Id {
        let Some(id) = self.child(map, key) else {
            return self.new_map(map, key);
        };
        match self.nodes.get(id) {
            Some(Node::Map(_)) => id,
            Some(Node::List(_)) => {
                let inner = self.push_node(Node::Map(Entries::default()));
                self.append(id, inner);
                inner
            }
            _ if as_list => {
                let inner = self.push_node(Node::Map(Entries::default()));
                let list = self.push_node(Node::List(vec![id, inner]));
                self.set(map, key, list);
                inner
            }
            _ => self.new_map(map, key),
        }
    }

    /// Sets the value of a key. With `as_list`, or if the column is listed, it is appended.
    fn add_value(&mut self, query: &Query, map: Id, key: &Value, value: Value, is_listed: bool) {
        let found = self.child(map, key);
        if !(is_listed || query.as_list && found.is_some()) {
            if !(query.ignore_null && value.is_null()) {
                let id = self.put(value);
                self.set(map, key, id);
            }
            return;
        }
        let list = match found {
            Some(id) if matches!(self.nodes.get(id), Some(Node::List(_))) => id,
            found => {
                let list = self.push_node(Node::List(found.into_iter().collect()));
                self.set(map, key, list);
                list
            }
        };
        let id = self.put(value);
        self.append(list, id);
    }

    /// Turns the noted dictionaries into lists of their values, inner ones first. A list becomes a list
    /// of one.
    fn make_lists(&mut self, lists: &Lists) {
        for map in lists.order.iter().rev() {
            for key in lists.keys.get(map).into_iter().flatten() {
                let Some(id) = self.child(*map, key) else {
                    continue;
                };
                let items = match self.nodes.get(id) {
                    Some(Node::Map(entries)) => entries.iter().map(|(_, id)| id).collect(),
                    Some(Node::List(_)) => vec![id],
                    _ => continue,
                };
                let list = self.push_node(Node::List(items));
                self.set(*map, key, list);
            }
        }
    }

    fn push_node(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    fn set_node(&mut self, id: Id, node: Node) {
        if let Some(place) = self.nodes.get_mut(id) {
            *place = node;
        }
    }

    fn child(&self, map: Id, key: &Value) -> Option<Id> {
        match self.nodes.get(map)? {
            Node::Map(entries) => entries.ids.get(key).copied(),
            Node::List(_) | Node::Leaf(_) => None,
        }
    }

    fn set(&mut self, map: Id, key: &Value, id: Id) {
        if let Some(Node::Map(entries)) = self.nodes.get_mut(map) {
            entries.insert(key.clone(), id);
        }
    }

    fn append(&mut self, list: Id, id: Id) {
        if let Some(Node::List(items)) = self.nodes.get_mut(list) {
            items.push(id);
        }
    }

    fn new_map(&mut self, map: Id, key: &Value) -> Id {
        let id = self.push_node(Node::Map(Entries::default()));
        self.set(map, key, id);
        id
    }

    /// Stores a value; dictionaries and lists in it can be changed by later rows.
    fn put(&mut self, value: Value) -> Id {
        let node = match value {
            Value::Map(map) => {
                let mut entries = Entries::default();
                for (key, value) in &map {
                    let id = self.put(value.clone());
                    entries.insert(key.clone(), id);
                }
                Node::Map(entries)
            }
            Value::List(items) => {
                Node::List(items.iter().map(|item| self.put(item.clone())).collect())
            }
            leaf => Node::Leaf(leaf),
        };
        self.push_node(node)
    }

    fn value(&self, id: Id) -> Value {
        match self.nodes.get(id) {
            Some(Node::Map(entries)) => {
                let pairs = entries
                    .iter()
                    .map(|(key, id)| (key.clone(), self.value(id)));
                pairs.collect::<Map>().into()
            }
            Some(Node::List(items)) => Value::list(items.iter().map(|id| self.value(*id))),
            Some(Node::Leaf(value)) => value.clone(),
            None => Value::Null,
        }
    }
}

/// Returns a value that can be a key.
fn usable(key: &Value) -> Result<&Value, String> {
    match key {
        Value::Map(_) | Value::List(_) => Err(format!(
            "a {} cannot be a key: select it as the last column",
            key.type_name()
        )),
        key => Ok(key),
    }
}

/// Returns the dictionary of a JSON document.
fn document(cell: Value) -> Result<Map, String> {
    let text = match &cell {
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        other => other.as_str().map(str::to_owned),
    };
    let value = match text {
        Some(text) => json::read(&text).map_err(|error| format!("as_json: {error}"))?,
        None => cell,
    };
    match value {
        Value::Map(map) => Ok(map),
        other => Err(format!(
            "as_json: each row must be a dictionary, but one is a {}",
            other.type_name()
        )),
    }
}
