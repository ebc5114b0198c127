//! Lists and dictionaries that a template can change, with Python's methods.
//!
//! Values from outside are only lent: they stay part of the shared tree until the template changes
//! them. Then the template gets its own copy of that single level. See [`lent`].

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use indexmap::IndexMap;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use value::Map;

use super::args::{self, Args};
use super::errors::{self, key_error, type_error, value_error};
use super::lent::{self, Borrowed, Changes};
use super::pieces::Pieces;
use super::{methods, nesting, print, strings};

/// The maximum nesting depth of a value that leaves a template.
const DEPTH_MAX: usize = 200;

/// The kind of Python sequence that a [`List`] represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    List,
    Set,
    Keys,
    Values,
    Items,
}

enum Items {
    Borrowed(Borrowed<Arc<Vec<value::Value>>>),
    Own(Pieces),
}

enum Entries {
    Borrowed(Borrowed<Map>),
    Own(IndexMap<Value, Value>),
}

/// A Python list, or another sequence that behaves alike but prints differently.
pub(super) struct List {
    sort: Sort,
    /// True if it came from the run.
    is_lent: bool,
    items: RwLock<Items>,
}

/// A Python dictionary.
pub(super) struct Dict {
    /// True if it came from the run.
    is_lent: bool,
    entries: RwLock<Entries>,
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("List")
    }
}

impl fmt::Debug for Dict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dict")
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let items = self.items.get_mut().unwrap_or_else(PoisonError::into_inner);
        nesting::give_back(match items {
            Items::Own(items) => items.take(),
            Items::Borrowed(lent) => lent.take_children(),
        });
    }
}

impl Drop for Dict {
    fn drop(&mut self) {
        let entries = self.entries.get_mut();
        let entries = entries.unwrap_or_else(PoisonError::into_inner);
        nesting::give_back(match entries {
            Entries::Own(entries) => {
                let entries = std::mem::take(entries);
                entries.into_iter().flat_map(|(k, v)| [k, v]).collect()
            }
            Entries::Borrowed(lent) => lent.take_children(),
        });
    }
}

/// Returns the address of a list or dictionary, as its identity; 0 for other values.
pub(super) fn address(value: &Value) -> usize {
    let list = value.downcast_object_ref::<List>();
    let dict = value.downcast_object_ref::<Dict>();
    list.map(|list| std::ptr::from_ref(list).addr())
        .or_else(|| dict.map(|dict| std::ptr::from_ref(dict).addr()))
        .unwrap_or_default()
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl List {
    /// Creates a list that belongs to the template.
    pub(super) fn value(items: Vec<Value>) -> Value {
        Self::with_sort(Sort::List, items)
    }

    /// Like [`Self::value`], for another kind of sequence.
    pub(super) fn with_sort(sort: Sort, items: Vec<Value>) -> Value {
        Self::made(sort, false, Items::Own(items.into()))
    }

    fn made(sort: Sort, is_lent: bool, items: Items) -> Value {
        Value::from_object(Self {
            sort,
            is_lent,
            items: RwLock::new(items),
        })
    }

    /// Returns a list of these items and more: `a + b`.
    pub(super) fn and(&self, more: Vec<Value>) -> Result<Value, Error> {
        strings::checked_items(self.len() + more.len())?;
        let known = match &*read(&self.items) {
            Items::Own(items) => Ok(items.and(more)),
            Items::Borrowed(_) => Err(more),
        };
        let items = known.unwrap_or_else(|more| Pieces::from(self.snapshot()).and(more));
        Ok(Self::made(Sort::List, false, Items::Own(items)))
    }

    pub(super) fn sort(&self) -> Sort {
        self.sort
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self.sort {
            Sort::List => "list",
            Sort::Set => "set",
            Sort::Keys => "dict_keys",
            Sort::Values => "dict_values",
            Sort::Items => "dict_items",
        }
    }

    /// Returns the current items.
    pub(super) fn snapshot(&self) -> Vec<Value> {
        if let Items::Own(items) = &*read(&self.items) {
            return items.copied(0);
        }
        match &mut *write(&self.items) {
            Items::Borrowed(lent) => lent.lend_all(),
            Items::Own(items) => items.copied(0),
        }
    }

    /// Changes the items.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Vec<Value>) -> T) -> T {
        Changes::note(self.is_lent);
        let mut items = write(&self.items);
        if let Items::Borrowed(lent) = &mut *items {
            *items = Items::Own(lent.lend_all().into());
        }
        match &mut *items {
            Items::Own(items) => change(items.own()),
            Items::Borrowed(_) => change(&mut Vec::new()),
        }
    }

    fn len(&self) -> usize {
        match &*read(&self.items) {
            Items::Borrowed(lent) => lent.from.len(),
            Items::Own(items) => items.len(),
        }
    }

    fn get(&self, index: i64) -> Option<Value> {
        let index = place(index, self.len())?;
        match &*read(&self.items) {
            Items::Own(items) => return items.get(index).cloned(),
            Items::Borrowed(lent) => {
                if let Some(known) = lent.item(index) {
                    return Some(known);
                }
            }
        }
        match &mut *write(&self.items) {
            Items::Own(items) => items.get(index).cloned(),
            Items::Borrowed(lent) => lent.lend(index),
        }
    }
}

/// Resolves a Python index, which counts from the end if it is negative.
pub(super) fn place(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 {
        index.checked_add(i64::try_from(len).ok()?)?
    } else {
        index
    };
    usize::try_from(index).ok().filter(|index| *index < len)
}

impl Dict {
    /// Creates a dictionary that belongs to the template.
    pub(super) fn value(entries: IndexMap<Value, Value>) -> Value {
        Value::from_object(Self {
            is_lent: false,
            entries: RwLock::new(Entries::Own(entries)),
        })
    }

    /// Returns the current entries.
    pub(super) fn snapshot(&self) -> IndexMap<Value, Value> {
        if let Entries::Own(entries) = &*read(&self.entries) {
            return entries.clone();
        }
        self.pairs().into_iter().collect()
    }

    /// Returns the current entries, as a list.
    pub(super) fn pairs(&self) -> Vec<(Value, Value)> {
        if let Entries::Own(entries) = &*read(&self.entries) {
            let entries = entries.iter();
            return entries.map(|(k, v)| (k.clone(), v.clone())).collect();
        }
        match &mut *write(&self.entries) {
            Entries::Borrowed(lent) => lent.lend_all(),
            Entries::Own(entries) => entries.clone().into_iter().collect(),
        }
    }

    /// Changes the entries.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut IndexMap<Value, Value>) -> T) -> T {
        Changes::note(self.is_lent);
        let mut entries = write(&self.entries);
        if let Entries::Borrowed(lent) = &mut *entries {
            *entries = Entries::Own(lent.lend_all().into_iter().collect());
        }
        match &mut *entries {
            Entries::Own(entries) => change(entries),
            Entries::Borrowed(_) => change(&mut IndexMap::new()),
        }
    }

    /// Applies the changes that a function made; dictionaries inside keep their identity.
    pub(super) fn updated_to(&self, map: &Map) {
        for (key, value) in map {
            let key = from_value(key);
            let here = self.get(&key);
            let dict = here
                .as_ref()
                .and_then(|here| here.downcast_object_ref::<Self>());
            match (dict, value.as_map()) {
                (Some(dict), Some(map)) => dict.updated_to(map),
                _ if same(here.as_ref(), value) => {}
                _ => self.change(|entries| {
                    entries.insert(key, from_value(value));
                }),
            }
        }
    }

    /// Replaces the values of these keys.
    pub(super) fn set_all(&self, map: &Map) {
        self.change(|entries| {
            for (key, value) in map {
                entries.insert(from_value(key), from_value(value));
            }
        });
    }

    /// Returns the keys in order.
    pub(super) fn keys(&self) -> Vec<Value> {
        match &*read(&self.entries) {
            Entries::Borrowed(lent) => lent.from.keys().map(from_value).collect(),
            Entries::Own(entries) => entries.keys().cloned().collect(),
        }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        match &*read(&self.entries) {
            Entries::Borrowed(lent) => lent.from.len(),
            Entries::Own(entries) => entries.len(),
        }
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &Value) -> Option<Value> {
        let place = match &*read(&self.entries) {
            Entries::Own(entries) => return entries.get(key).cloned(),
            Entries::Borrowed(lent) => {
                let place = match key.as_str() {
                    Some(text) => lent.from.position(text),
                    None => lent.from.position_value(&to_value(key).ok()?),
                }?;
                if let Some(known) = lent.item(place) {
                    return Some(known);
                }
                place
            }
        };
        match &mut *write(&self.entries) {
            Entries::Own(entries) => entries.get(key).cloned(),
            Entries::Borrowed(lent) => lent.lend(place),
        }
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let found = key.as_i64().and_then(|index| self.get(index));
        if found.is_none() {
            errors::note_miss("list object", key);
        }
        found
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.snapshot())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.len())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match self.sort {
            Sort::List => methods::list(self, method, &Args::new(args)?),
            Sort::Set => methods::set(self, method, &Args::new(args)?),
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Self>()?;
        Some(nesting::compare_lists(self, other))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::str(&Value::from_dyn_object(Arc::clone(self))))
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let found = self.get(key);
        if found.is_none() {
            errors::note_miss("dict object", key);
        }
        found
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.keys())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.len())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        methods::dict(self, method, &Args::new(args)?)
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Self>()?;
        Some(nesting::compare_dicts(self, other))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::str(&Value::from_dyn_object(Arc::clone(self))))
    }
}

fn same(here: Option<&Value>, value: &value::Value) -> bool {
    here.is_some_and(|here| to_value(here).is_ok_and(|here| here == *value))
}

/// Returns the template's view of a value; containers are not copied.
pub(super) fn from_value(value: &value::Value) -> Value {
    use value::Value as V;
    match value {
        V::List(items) => {
            let items = Items::Borrowed(Borrowed::new(Arc::clone(items)));
            List::made(Sort::List, true, items)
        }
        V::Map(map) => Value::from_object(from_map(map)),
        V::Set(set) => {
            let items: Vec<Value> = set.keys().map(from_value).collect();
            List::made(Sort::Set, true, Items::Own(items.into()))
        }
        V::Tuple(items) => Value::from(Tuple::new(items.iter().map(from_value).collect())),
        scalar => from_scalar(scalar).unwrap_or_default(),
    }
}

/// Returns the template's view of a value that is not a container.
pub(super) fn from_scalar(value: &value::Value) -> Option<Value> {
    use value::Value as V;
    Some(match value {
        V::Null => Value::from(()),
        V::Bool(truth) => Value::from(*truth),
        V::Int(number) => Value::from(*number),
        V::Big(digits) => digits
            .parse::<i128>()
            .map_or_else(|_| Value::from(Arc::clone(digits)), Value::from),
        V::Float(number) => Value::from(*number),
        V::Str(text) => Value::from(Arc::clone(text)),
        V::Bytes(bytes) => Value::from_bytes(bytes.to_vec()),
        V::List(_) | V::Map(_) | V::Set(_) | V::Tuple(_) => return None,
    })
}

/// Converts a value of the template.
///
/// # Errors
/// When something in it is undefined, or when it contains itself.
pub(super) fn to_value(value: &Value) -> Result<value::Value, Error> {
    leave(value, 0, &mut 0)
}

/// Converts a value that leaves the template. `count` is the number of values so far; a value
/// counts once for each place where it occurs.
pub(super) fn leave(value: &Value, depth: usize, count: &mut usize) -> Result<value::Value, Error> {
    use value::Value as V;
    *count += 1;
    strings::checked_items(*count)?;
    if depth > DEPTH_MAX {
        return Err(value_error("Circular reference detected"));
    }
    if let Some(list) = value.downcast_object_ref::<List>() {
        return list.leave(depth, count);
    }
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        return dict.leave(depth, count);
    }
    Ok(match value.kind() {
        ValueKind::Undefined => return Err(args::undefined(value)),
        ValueKind::None => V::Null,
        ValueKind::Bool => V::Bool(value.is_true()),
        ValueKind::Number if value.is_integer() => match value.as_i64() {
            Some(number) => V::Int(number),
            None => V::Big(value.to_string().into()),
        },
        ValueKind::Number => V::Float(f64::try_from(value.clone())?),
        ValueKind::String => V::Str(value.to_str().unwrap_or_default()),
        ValueKind::Bytes => V::Bytes(value.as_bytes().unwrap_or_default().into()),
        ValueKind::Seq if value.is_tuple() => {
            V::Tuple(Arc::new(leave_all(value.try_iter()?, depth, count)?))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            V::List(Arc::new(leave_all(value.try_iter()?, depth, count)?))
        }
        ValueKind::Map if !print::is_opaque(value) => V::Map(leave_map(value, depth, count)?),
        _ => V::from(value.to_string()),
    })
}

fn leave_all(
    items: impl Iterator<Item = Value>,
    depth: usize,
    count: &mut usize,
) -> Result<Vec<value::Value>, Error> {
    items.map(|item| leave(&item, depth + 1, count)).collect()
}

fn leave_map(value: &Value, depth: usize, count: &mut usize) -> Result<Map, Error> {
    let mut map = Map::new();
    for key in value.try_iter()? {
        map.insert(
            leave(&key, depth + 1, count)?,
            leave(&value.get_item(&key)?, depth + 1, count)?,
        );
    }
    Ok(map)
}

impl List {
    fn leave(&self, depth: usize, count: &mut usize) -> Result<value::Value, Error> {
        let lent = match &*read(&self.items) {
            Items::Borrowed(lent) => Some((Arc::clone(&lent.from), lent.children())),
            Items::Own(_) => None,
        };
        if let Some((from, children)) = lent {
            return lent::left_list(&from, children, depth, count);
        }
        let items = leave_all(self.snapshot().into_iter(), depth, count)?;
        Ok(match self.sort {
            Sort::Set => value::Value::Set(
                items
                    .into_iter()
                    .map(|item| (item, value::Value::Null))
                    .collect(),
            ),
            _ => value::Value::list(items),
        })
    }
}

impl Dict {
    fn leave(&self, depth: usize, count: &mut usize) -> Result<value::Value, Error> {
        let lent = match &*read(&self.entries) {
            Entries::Borrowed(lent) => Some((lent.from.clone(), lent.children())),
            Entries::Own(_) => None,
        };
        if let Some((from, children)) = lent {
            return lent::left_map(&from, children, depth, count);
        }
        let mut map = Map::new();
        for (key, item) in self.pairs() {
            map.insert(
                leave(&key, depth + 1, count)?,
                leave(&item, depth + 1, count)?,
            );
        }
        Ok(value::Value::Map(map))
    }
}

/// Converts the result of a literal or an expression to a list or dictionary that can be changed;
/// other values are returned unchanged.
pub(super) fn mutable(value: Value) -> Result<Value, Error> {
    if value.downcast_object_ref::<List>().is_some()
        || value.downcast_object_ref::<Dict>().is_some()
    {
        return Ok(value);
    }
    strings::checked_len(value.as_str().map_or(0, str::len))?;
    match value.kind() {
        ValueKind::Seq if value.is_tuple() => {
            strings::checked_items(value.len().unwrap_or(0))?;
            Ok(value)
        }
        ValueKind::Seq | ValueKind::Iterable => Ok(List::value(args::items(&value)?)),
        ValueKind::Map if !print::is_opaque(&value) => {
            let mut entries = IndexMap::new();
            for key in value.try_iter()? {
                hashable(&key)?;
                let item = value.get_item(&key)?;
                entries.insert(key, item);
            }
            Ok(Dict::value(entries))
        }
        _ => Ok(value),
    }
}

/// Refuses lists and dictionaries as keys, as Python's dictionaries do.
pub(super) fn hashable(key: &Value) -> Result<(), Error> {
    let mutable =
        key.downcast_object_ref::<List>().is_some() || key.downcast_object_ref::<Dict>().is_some();
    if mutable {
        return Err(type_error(format!(
            "unhashable type: '{}'",
            print::type_name(key)
        )));
    }
    Ok(())
}

/// Returns the pairs for `dict(…)` and `update(…)`, from dictionaries, lists of pairs and named
/// arguments.
pub(super) fn pairs(args: &Args) -> Result<Vec<(Value, Value)>, Error> {
    let mut pairs = Vec::new();
    for source in args.pos() {
        let source = args::defined(source)?;
        if let Some(dict) = source.downcast_object_ref::<Dict>() {
            pairs.extend(dict.pairs());
        } else if source.kind() == ValueKind::Map {
            for key in source.try_iter()? {
                let item = source.get_item(&key)?;
                pairs.push((key, item));
            }
        } else {
            for pair in args::items(source)? {
                pairs.push(pair_of(&pair)?);
            }
        }
    }
    pairs.extend(
        args.all_named()
            .iter()
            .map(|(key, item)| (Value::from(key.as_str()), item.clone())),
    );
    Ok(pairs)
}

fn pair_of(pair: &Value) -> Result<(Value, Value), Error> {
    let mut items = args::items(pair)?.into_iter();
    match (items.next(), items.next(), items.next()) {
        (Some(key), Some(value), None) => {
            hashable(&key)?;
            Ok((key, value))
        }
        _ => Err(key_error(
            "dictionary update sequence element has not length 2; 2 is required",
        )),
    }
}

/// Returns the lent dictionary of a shared map.
pub(super) fn from_map(map: &Map) -> Dict {
    Dict {
        is_lent: true,
        entries: RwLock::new(Entries::Borrowed(Borrowed::new(map.clone()))),
    }
}
