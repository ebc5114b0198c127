//! Containers of the run that a template reads. Nothing in them is copied before the template
//! changes it.
//!
//! A container that was read from another one is remembered by its index there, so that every
//! holder of it sees the same changes.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use minijinja::{Error, Value};
use value::Map;

use super::containers::{from_scalar, from_value, leave};

thread_local! {
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    static CHANGES_OF_LENT: Cell<u64> = const { Cell::new(0) };
}

/// The number of changes that templates have made on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Changes {
    /// Changes of any list or dictionary.
    pub(super) all: u64,
    /// Changes of one that was lent to the template.
    pub(super) of_lent: u64,
}

impl Changes {
    /// Returns the current numbers.
    pub(super) fn now() -> Self {
        Self {
            all: CHANGES.get(),
            of_lent: CHANGES_OF_LENT.get(),
        }
    }

    /// Counts a change.
    pub(super) fn note(is_lent: bool) {
        CHANGES.set(CHANGES.get() + 1);
        if is_lent {
            CHANGES_OF_LENT.set(CHANGES_OF_LENT.get() + 1);
        }
    }
}

/// A list or dictionary of the run, with the containers in it that the template holds, by index.
pub(super) struct Borrowed<T> {
    pub(super) from: T,
    children: HashMap<usize, Value>,
}

impl<T> Borrowed<T> {
    /// Lends a list or dictionary of which the template holds no part yet.
    pub(super) fn new(from: T) -> Self {
        let children = HashMap::new();
        Self { from, children }
    }

    fn find(&self, place: usize, value: &value::Value) -> Option<Value> {
        from_scalar(value).or_else(|| self.children.get(&place).cloned())
    }

    /// Returns the containers that the template holds, by index.
    pub(super) fn children(&self) -> Vec<(usize, Value)> {
        let children = self.children.iter();
        children
            .map(|(place, child)| (*place, child.clone()))
            .collect()
    }
}

impl<T> Borrowed<T> {
    /// Removes and returns the containers that the template holds.
    pub(super) fn take_children(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.children).into_values().collect()
    }
}

/// Returns the template's view of a value; for the same index it is always the same object.
fn lend(children: &mut HashMap<usize, Value>, place: usize, value: &value::Value) -> Value {
    from_scalar(value).unwrap_or_else(|| {
        let child = children.entry(place).or_insert_with(|| from_value(value));
        child.clone()
    })
}

impl Borrowed<Arc<Vec<value::Value>>> {
    /// Returns an item that is a scalar or was lent already.
    pub(super) fn item(&self, place: usize) -> Option<Value> {
        self.find(place, self.from.get(place)?)
    }

    /// Lends an item.
    pub(super) fn lend(&mut self, place: usize) -> Option<Value> {
        let value = self.from.get(place)?;
        Some(lend(&mut self.children, place, value))
    }

    /// Lends all items.
    pub(super) fn lend_all(&mut self) -> Vec<Value> {
        let items = self.from.iter().enumerate();
        items
            .map(|(place, item)| lend(&mut self.children, place, item))
            .collect()
    }
}

impl Borrowed<Map> {
    /// Returns an item that is a scalar or was lent already.
    pub(super) fn item(&self, place: usize) -> Option<Value> {
        self.find(place, self.from.at(place)?.1)
    }

    /// Lends an item.
    pub(super) fn lend(&mut self, place: usize) -> Option<Value> {
        let (_, value) = self.from.at(place)?;
        Some(lend(&mut self.children, place, value))
    }

    /// Lends all items, with their keys.
    pub(super) fn lend_all(&mut self) -> Vec<(Value, Value)> {
        let items = self.from.iter().enumerate();
        items
            .map(|(place, (key, item))| (from_value(key), lend(&mut self.children, place, item)))
            .collect()
    }
}

/// Returns a lent list with the template's changes below it; without changes it is the same list.
pub(super) fn left_list(
    from: &Arc<Vec<value::Value>>,
    children: Vec<(usize, Value)>,
    depth: usize,
    count: &mut usize,
) -> Result<value::Value, Error> {
    let mut now = Arc::clone(from);
    for (place, child) in children {
        let left = leave(&child, depth + 1, count)?;
        let before = from.get(place);
        if before.is_some_and(|before| is_unchanged(before, &left)) {
            continue;
        }
        if let Some(item) = Arc::make_mut(&mut now).get_mut(place) {
            *item = left;
        }
    }
    Ok(value::Value::List(now))
}

/// Returns a lent dictionary with the template's changes below it; without changes it is the same
/// dictionary.
pub(super) fn left_map(
    from: &Map,
    children: Vec<(usize, Value)>,
    depth: usize,
    count: &mut usize,
) -> Result<value::Value, Error> {
    let mut now = from.clone();
    for (place, child) in children {
        let left = leave(&child, depth + 1, count)?;
        if let Some((key, before)) = from.at(place)
            && !is_unchanged(before, &left)
        {
            now.insert(key.clone(), left);
        }
    }
    Ok(value::Value::Map(now))
}

/// Returns true if two values are the same list or dictionary, and not only equal.
pub(super) fn is_same(one: &value::Value, other: &value::Value) -> bool {
    use value::Value as V;
    match (one, other) {
        (V::Map(one), V::Map(other)) => one.address() == other.address(),
        (V::List(one), V::List(other)) => Arc::ptr_eq(one, other),
        _ => false,
    }
}

/// True if a value did not change. Sets and tuples are created again when they leave a template, so
/// they are compared by their contents.
fn is_unchanged(before: &value::Value, left: &value::Value) -> bool {
    use value::Value as V;
    match (before, left) {
        (V::Set(_), V::Set(_)) | (V::Tuple(_), V::Tuple(_)) => before == left,
        _ => is_same(before, left),
    }
}
