//! [`ReactorFolder`]: the reactor's files, one for each event that a rule matches.
#![expect(
    clippy::disallowed_methods,
    reason = "files that are removed here are no longer needed, so the removal need not be synced"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reactor::{Event, Place, Reaction};
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value, log, remove};

/// The number of finished reactions that are kept for later questions about them.
const ENDED_MAX: usize = 200;

/// The name of the file whose existence means that reactions are only observed.
const OBSERVE: &str = "observe";

/// The folder of the reactor.
#[derive(Clone, Debug)]
pub(crate) struct ReactorFolder(PathBuf);

/// The state of an event that a rule matches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Row {
    /// An event that waits for its turn.
    Event(Event),
    /// A reaction, which the rule has made from the event.
    Reaction(Reaction),
}

impl Row {
    fn is_final(&self) -> bool {
        matches!(self, Self::Reaction(reaction) if reaction.state.is_final())
    }
}

impl ReactorFolder {
    pub(crate) fn new(opts: &Opts) -> Self {
        Self(opts.cachedir().join("reactor"))
    }

    pub(super) fn write(&self, place: Place, row: &Row) -> io::Result<()> {
        let map = match row {
            Row::Event(event) => Map::new()
                .with("tag", event.tag.as_str())
                .with("data", event.data.clone()),
            Row::Reaction(reaction) => Map::new().with("reaction", reaction.row()),
        };
        let text = json::write(&map.into(), Layout::default());
        machine::durable::write(&self.0, &name(place), text.as_bytes())
    }

    pub(super) fn read(&self, place: Place) -> io::Result<Row> {
        let text = fs::read_to_string(self.0.join(name(place)))?;
        let row = json::read(&text).map_err(io::Error::other)?;
        let row = row.as_map().and_then(|row| row_of(place, row));
        row.ok_or_else(|| io::Error::other("not a reaction in a format that this version supports"))
    }

    pub(crate) fn remove(&self, place: Place) {
        let path = self.0.join(name(place));
        remove::or_log(&path, fs::remove_file(&path));
    }

    /// Returns all events and reactions, the oldest first.
    pub(crate) fn all(&self) -> Vec<(Place, Row)> {
        let files = machine::fs::list_or_none(&self.0).unwrap_or_else(|error| {
            log::error(error);
            None
        });
        let names = files
            .into_iter()
            .flatten()
            .map(|file| file.file_name().to_string_lossy().into_owned());
        let mut places: Vec<Place> = names.filter_map(|name| place(&name)).collect();
        value::sorted::sort_by_key(&mut places, |place| (place.sequence, place.rule));
        let known = places
            .into_iter()
            .filter_map(|place| match self.read(place) {
                Ok(row) => Some((place, row)),
                Err(error) => {
                    let path = self.0.join(name(place));
                    log::error(format_args!("cannot read {}: {error}", path.display()));
                    None
                }
            });
        known.collect()
    }

    /// Removes all but the newest of the finished reactions. Returns what has not finished, the
    /// oldest first.
    pub(super) fn prune(&self) -> Vec<(Place, Row)> {
        let (ended, open): (Vec<_>, Vec<_>) =
            self.all().into_iter().partition(|(_, row)| row.is_final());
        for (place, _) in ended.iter().rev().skip(ENDED_MAX) {
            self.remove(*place);
        }
        open
    }

    /// Returns true if reactions are only observed. A file stores this, so that it survives a
    /// restart of the daemon.
    pub(crate) fn is_observing(&self) -> bool {
        self.0.join(OBSERVE).exists()
    }

    /// Lets reactions act, or makes them only be observed.
    pub(crate) fn enforce(&self, enforce: bool) -> io::Result<()> {
        if !enforce {
            return machine::durable::write(&self.0, OBSERVE, b"");
        }
        match fs::remove_file(self.0.join(OBSERVE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the path of the folder.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

fn name(place: Place) -> String {
    format!("{:016x}.{:016x}", place.sequence, place.rule)
}

fn place(name: &str) -> Option<Place> {
    let (sequence, rule) = name.split_once('.')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Place {
        rule: number(rule)?,
        sequence: number(sequence)?,
    })
}

fn row_of(place: Place, row: &Map) -> Option<Row> {
    if let Some(reaction) = row.get("reaction").and_then(Value::as_map) {
        return Reaction::from_row(place, reaction).map(Row::Reaction);
    }
    Some(Row::Event(Event {
        sequence: place.sequence,
        tag: row.get("tag")?.as_str()?.to_owned(),
        data: row.get("data")?.as_map()?.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use reactor::State;

    use super::*;

    fn kept() -> (tempfile::TempDir, ReactorFolder) {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().display().to_string();
        let opts = Opts::new(Map::new().with("cachedir", cache));
        (folder, ReactorFolder::new(&opts))
    }

    fn event(sequence: u64) -> Event {
        Event {
            sequence,
            tag: "my/tag".to_owned(),
            data: Map::new().with("n", sequence),
        }
    }

    #[test]
    fn what_was_not_done_is_found_again_in_its_order() {
        let (_folder, kept) = kept();
        let place = |sequence| Place { rule: 7, sequence };
        for sequence in [3, 20, 1] {
            let row = Row::Event(event(sequence));
            kept.write(place(sequence), &row).unwrap();
        }
        let mut reaction = Reaction::new(place(3), "my/*", &event(3), 0, 5);
        reaction.state = State::Done;
        kept.write(place(3), &Row::Reaction(reaction)).unwrap();
        let began = Reaction::new(place(20), "my/*", &event(20), 0, 5);
        kept.write(place(20), &Row::Reaction(began.clone()))
            .unwrap();
        // Neither a file that was incomplete when power failed nor one that cannot be read is an
        // event.
        fs::write(kept.path().join(format!("{}.new", name(place(2)))), "{").unwrap();
        fs::write(kept.path().join(name(place(4))), "{").unwrap();
        let expected = [
            (place(1), Row::Event(event(1))),
            (place(20), Row::Reaction(began)),
        ];
        assert_eq!(kept.prune(), expected);
        assert_eq!(kept.all().len(), 3);
        kept.remove(place(1));
        assert!(kept.read(place(1)).is_err());
    }

    #[test]
    fn of_what_has_ended_the_newest_stay() {
        let (_folder, kept) = kept();
        let count = ENDED_MAX as u64 + 5;
        for sequence in 0..count {
            let place = Place { rule: 7, sequence };
            let mut reaction = Reaction::new(place, "my/*", &event(sequence), 0, 5);
            reaction.state = State::Failed;
            kept.write(place, &Row::Reaction(reaction)).unwrap();
        }
        assert!(kept.prune().is_empty());
        let left = kept.all();
        assert_eq!(left.len(), ENDED_MAX);
        assert_eq!(left[0].0.sequence, 5);
    }
}
