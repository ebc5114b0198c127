//! The items of a list that a template created.

use std::sync::Arc;

use minijinja::Value;

/// The minimum length of a list that is shared: copying a shorter one costs less.
const SHARED_MIN: usize = 64;

/// The items of a list. The list and those that `+` made from it share the first items.
///
/// `{% set l = l + [x] %}` in a loop copies only the tail, whose squared length is at most that of
/// the head: n additions cost n√n steps.
#[derive(Default)]
pub(super) struct Pieces {
    head: Option<Arc<Vec<Value>>>,
    tail: Vec<Value>,
}

impl From<Vec<Value>> for Pieces {
    fn from(tail: Vec<Value>) -> Self {
        Self { head: None, tail }
    }
}

impl Pieces {
    fn head(&self) -> &[Value] {
        self.head.as_ref().map_or(&[], |head| head.as_slice())
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> usize {
        self.head().len() + self.tail.len()
    }

    /// Returns the item at an index.
    pub(super) fn get(&self, place: usize) -> Option<&Value> {
        let head = self.head();
        match place.checked_sub(head.len()) {
            Some(place) => self.tail.get(place),
            None => head.get(place),
        }
    }

    /// Returns a copy of all items, with room for more.
    pub(super) fn copied(&self, more: usize) -> Vec<Value> {
        let mut items = Vec::with_capacity(self.len() + more);
        items.extend_from_slice(self.head());
        items.extend_from_slice(&self.tail);
        items
    }

    /// Returns all items, mutably; from then on no other list shares them.
    pub(super) fn own(&mut self) -> &mut Vec<Value> {
        if let Some(head) = self.head.take() {
            let mut items = Arc::unwrap_or_clone(head);
            items.append(&mut self.tail);
            self.tail = items;
        }
        &mut self.tail
    }

    /// Removes and returns the items that no other list shares.
    pub(super) fn take(&mut self) -> Vec<Value> {
        let head = self.head.take().and_then(|head| Arc::try_unwrap(head).ok());
        let mut items = head.unwrap_or_default();
        items.append(&mut self.tail);
        items
    }

    /// Returns these items followed by more.
    pub(super) fn and(&self, more: Vec<Value>) -> Self {
        let tail = self.tail.len() + more.len();
        if tail.saturating_mul(tail) > self.head().len() {
            let mut items = self.copied(more.len());
            items.extend(more);
            return match items.len() < SHARED_MIN {
                true => items.into(),
                false => Self {
                    head: Some(Arc::new(items)),
                    tail: Vec::new(),
                },
            };
        }
        let mut items = Vec::with_capacity(tail);
        items.extend_from_slice(&self.tail);
        items.extend(more);
        Self {
            head: self.head.clone(),
            tail: items,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_grows_by_one_shares_what_it_had() {
        let (mut list, mut copied) = (Pieces::default(), 0);
        let mut before = Vec::new();
        for n in 0..10_000_usize {
            let next = list.and(vec![Value::from(n)]);
            copied += match (&list.head, &next.head) {
                (Some(old), Some(new)) if Arc::ptr_eq(old, new) => next.tail.len(),
                _ => next.len(),
            };
            if n % 1000 == 0 {
                before.push(std::mem::replace(&mut list, next));
            } else {
                list = next;
            }
        }
        assert!(copied < 10_000 * 250, "{copied} copies");
        let numbers = |list: &Pieces| -> Vec<usize> {
            let items = list.copied(0).into_iter();
            items.map(|item| usize::try_from(item).unwrap()).collect()
        };
        assert_eq!(numbers(&list), (0..10_000).collect::<Vec<_>>());
        for (index, list) in before.iter_mut().enumerate() {
            list.own().push(Value::from(7));
            let wanted: Vec<usize> = (0..index * 1000).chain([7]).collect();
            assert_eq!(numbers(list), wanted);
        }
        assert_eq!(list.get(9_999).and_then(Value::as_i64), Some(9_999));
        assert!(list.get(10_000).is_none());
    }
}
