//! Compares and drops values that nest deeply or contain themselves, without endless recursion.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;

use minijinja::{Error, Value};

use super::containers::{Dict, List};
use super::errors::value_error;
use super::strings;

/// The maximum depth to which two values are compared. Deeper values count as equal; Python raises
/// a `RecursionError`.
const DEPTH_MAX: usize = 200;

/// The maximum number of pairs of values in one comparison.
const STEPS_MAX: usize = 5_000_000;

/// The maximum number of containers that are dropped inside each other.
const DROPS_MAX: usize = 50;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static STEPS: Cell<usize> = const { Cell::new(0) };
    static DROPS: Cell<usize> = const { Cell::new(0) };
    static WAITING: RefCell<Vec<Vec<Value>>> = const { RefCell::new(Vec::new()) };
}

/// Refuses a value that contains itself, or that has too many parts, each counted once for every
/// place where it occurs.
pub(super) fn checked(value: &Value) -> Result<(), Error> {
    walk(value, 0, &mut 0)
}

fn walk(value: &Value, depth: usize, count: &mut usize) -> Result<(), Error> {
    *count += 1;
    strings::checked_items(*count)?;
    if depth > DEPTH_MAX {
        return Err(value_error("Circular reference detected"));
    }
    let parts = if let Some(list) = value.downcast_object_ref::<List>() {
        list.snapshot()
    } else if let Some(dict) = value.downcast_object_ref::<Dict>() {
        dict.pairs().into_iter().map(|(_, item)| item).collect()
    } else if value.is_tuple() {
        value.try_iter()?.collect()
    } else {
        return Ok(());
    };
    parts
        .iter()
        .try_for_each(|part| walk(part, depth + 1, count))
}

/// Returns the order of two lists.
pub(super) fn compare_lists(a: &List, b: &List) -> Ordering {
    deeper(|| compare_all(a.snapshot(), b.snapshot()))
}

/// Returns the order of two dictionaries, whatever the order of their keys.
pub(super) fn compare_dicts(a: &Dict, b: &Dict) -> Ordering {
    let sorted = |dict: &Dict| {
        let mut entries = dict.pairs();
        value::sorted::sort_by(&mut entries, |(a, _), (b, _)| a.cmp(b));
        entries.into_iter().unzip::<_, _, Vec<_>, Vec<_>>()
    };
    deeper(|| {
        let ((a_keys, a_values), (b_keys, b_values)) = (sorted(a), sorted(b));
        let keys = || compare_all(a_keys, b_keys);
        let values = || compare_all(a_values, b_values);
        a.len().cmp(&b.len()).then_with(keys).then_with(values)
    })
}

fn deeper(compare: impl FnOnce() -> Ordering) -> Ordering {
    let depth = DEPTH.get();
    if depth == 0 {
        STEPS.set(0);
    }
    if depth >= DEPTH_MAX {
        STEPS.set(STEPS_MAX);
    }
    if STEPS.get() >= STEPS_MAX {
        return Ordering::Equal;
    }
    DEPTH.set(depth + 1);
    let order = compare();
    DEPTH.set(depth);
    order
}

fn compare_all(a: Vec<Value>, b: Vec<Value>) -> Ordering {
    let orders = a.iter().zip(&b).map(|(a, b)| compare(a, b));
    let first = orders.into_iter().find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Compares two values for equality and order at once: separate comparisons would double the work
/// at each level.
fn compare(a: &Value, b: &Value) -> Ordering {
    STEPS.set(STEPS.get() + 1);
    if STEPS.get() >= STEPS_MAX {
        return Ordering::Equal;
    }
    if let (Some(a), Some(b)) = (a.downcast_object_ref(), b.downcast_object_ref()) {
        return compare_lists(a, b);
    }
    if let (Some(a), Some(b)) = (a.downcast_object_ref(), b.downcast_object_ref()) {
        return compare_dicts(a, b);
    }
    if a.is_tuple() && b.is_tuple() {
        let items = |value: &Value| value.try_iter().into_iter().flatten().collect();
        return deeper(|| compare_all(items(a), items(b)));
    }
    if a == b { Ordering::Equal } else { a.cmp(b) }
}

/// Drops the contents of a container, without a nested call for each level.
pub(super) fn give_back(items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let depth = DROPS.get();
    if depth >= DROPS_MAX {
        WAITING.with_borrow_mut(|waiting| waiting.push(items));
        return;
    }
    DROPS.set(depth + 1);
    drop(items);
    if depth == 0 {
        while let Some(items) = WAITING.with_borrow_mut(Vec::pop) {
            drop(items);
        }
    }
    DROPS.set(depth);
}
