//! The order in which places are restored: the latest change first, but a folder before the paths
//! to be created in it, and after the paths to be removed from it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use machine::fs::image;

use crate::changes::{ChangeIndex, Changes, PathChange};

/// Returns all changes in the order in which they are undone.
pub(crate) fn undo_order(noted: &Changes) -> Vec<ChangeIndex> {
    let mut order = Order {
        noted,
        places: (0..)
            .zip(&noted.places)
            .map(|(at, place)| (place.path.as_path(), at))
            .collect(),
        done: vec![false; noted.places.len()],
        all: Vec::with_capacity(noted.order.len()),
    };
    for which in noted.order.iter().rev() {
        match which {
            ChangeIndex::Resource(_) => order.all.push(*which),
            ChangeIndex::PathChange(at) => order.place(*at),
        }
    }
    order.all
}

struct Order<'a> {
    noted: &'a Changes,
    /// The places by path. Paths below a folder follow it directly.
    places: BTreeMap<&'a Path, usize>,
    done: Vec<bool>,
    all: Vec<ChangeIndex>,
}

impl Order<'_> {
    fn place(&mut self, at: usize) {
        let (Some(done), Some(place)) = (self.done.get_mut(at), self.noted.places.get(at)) else {
            return;
        };
        if std::mem::replace(done, true) {
            return;
        }
        self.above(&place.path);
        if is_folder(place) && !was_folder(place) {
            self.below(&place.path);
        }
        self.all.push(ChangeIndex::PathChange(at));
    }

    /// Adds the folder that contains a path, if the run removed or replaced the folder.
    fn above(&mut self, path: &Path) {
        let above = path.parent().and_then(|above| self.places.get(above));
        let Some(at) = above.copied() else {
            return;
        };
        let place = self.noted.places.get(at);
        if place.is_some_and(|place| was_folder(place) && place.is_whole()) {
            self.place(at);
        }
    }

    /// Adds the paths in a folder that is to be removed.
    fn below(&mut self, path: &Path) {
        let after = self
            .places
            .range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
        let inside = after.take_while(|(one, _)| one.starts_with(path));
        let inside: Vec<usize> = inside.map(|(_, at)| *at).collect();
        for at in inside {
            self.place(at);
        }
    }
}

fn was_folder(place: &PathChange) -> bool {
    image::kind(&place.was) == "directory"
}

fn is_folder(place: &PathChange) -> bool {
    place.is.iter().any(|is| image::kind(is) == "directory")
}
