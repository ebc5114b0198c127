//! Reads of the store. All functions here read files and may block: async code calls them inside
//! `smol::unblock`.

use std::collections::BTreeSet;

use cluster::core::Rings;
use fjall::{Iter, Readable, Slice};
use link::key::PublicKey;
use reactor::Place;
use value::Map;
use wire::Id;

use super::Store;
use super::command::{Cache, KeyState};
use super::elsewhere::StoredReturn;
use super::error::{Error, words};
use super::rows::{
    Event, Job, Key, Log, Received, Returned, Table, at, decode, from_shown_row, number,
};

impl Store {
    /// Returns the key of an id that is pending, accepted or rejected.
    pub(crate) fn key(&self, id: &Id) -> Result<Option<Key>, Error> {
        let row = self.row(Table::Keys, &at::key(id))?;
        row.map(|bytes| self.or_damaged("a key", Key::from_row(id.clone(), &bytes)))
            .transpose()
    }

    /// Returns the denied keys of an id.
    pub(crate) fn denied(&self, id: &Id) -> Result<Vec<Key>, Error> {
        let prefix = at::denied(id);
        self.rows(Table::Keys, &prefix, move |key, value| {
            Key::from_row(at::id(key, 1)?, value)
        })?
        .collect()
    }

    /// Returns all keys of a state, in the order of their ids.
    pub(crate) fn keys(
        &self,
        state: KeyState,
    ) -> Result<impl Iterator<Item = Result<Key, Error>> + use<>, Error> {
        let prefix: &[u8] = match state {
            KeyState::Denied => b"d",
            _ => b"i",
        };
        let keys = self.rows(Table::Keys, prefix, |key, value| {
            Key::from_row(at::id(key, 1)?, value)
        })?;
        Ok(keys.filter(move |key| key.as_ref().map_or(true, |key| key.state == state)))
    }

    /// Returns the number of keys in each state, in the order of [`KeyState::ALL`].
    pub(crate) fn key_counts(&self) -> Result<[u64; 4], Error> {
        let mut counts = [0; 4];
        for (count, state) in counts.iter_mut().zip(KeyState::ALL) {
            for key in self.keys(state)? {
                key?;
                *count += 1;
            }
        }
        Ok(counts)
    }

    /// Returns the files that show an id's keys, as recorded when they were last written.
    pub(crate) fn key_files(&self, id: &Id) -> Result<Vec<(KeyState, PublicKey)>, Error> {
        match self.row(Table::Keys, &at::key_files(id))? {
            Some(bytes) => self.or_damaged("the files of a key", from_shown_row(&bytes)),
            None => Ok(Vec::new()),
        }
    }

    /// Returns all ids for which such files are recorded.
    pub(crate) fn all_shown(
        &self,
    ) -> Result<impl Iterator<Item = Result<Id, Error>> + use<>, Error> {
        self.rows(Table::Keys, b"v", |key, _| at::id(key, 1))
    }

    /// Returns the highest durable position of a spool; 0 for an unknown spool.
    pub(crate) fn durable(&self, id: &Id, key: &PublicKey, epoch: u64) -> Result<u64, Error> {
        let Some(bytes) = self.row(Table::Keys, &at::spool(id, key, epoch))? else {
            return Ok(0);
        };
        let received = self.or_damaged("a spool's number", Received::from_row(&bytes))?;
        Ok(received.durable())
    }

    /// Returns the cached data of a minion whose key is accepted.
    pub(crate) fn cached(&self, what: Cache, id: &Id) -> Result<Option<Map>, Error> {
        match self.key(id)? {
            Some(key) if key.state == KeyState::Accepted => self.cached_of(what, &key),
            _ => Ok(None),
        }
    }

    /// Returns the cached data of a minion with exactly this key.
    pub(crate) fn cached_of(&self, what: Cache, key: &Key) -> Result<Option<Map>, Error> {
        let row = self.row(Table::Caches, &at::cache(what, &key.id, &key.key))?;
        row.map(|bytes| self.or_damaged("a cache", decode(&bytes)))
            .transpose()
    }

    /// Returns all accepted minions that have data in this cache, in the order of their ids. They
    /// are read one at a time.
    pub(crate) fn all_cached(
        &self,
        what: Cache,
    ) -> Result<impl Iterator<Item = Result<(Key, Map), Error>> + use<>, Error> {
        let store = self.clone();
        let keys = self.keys(KeyState::Accepted)?;
        Ok(keys.filter_map(move |key| {
            let cached = key.and_then(|key| Ok((store.cached_of(what, &key)?, key)));
            cached
                .map(|(map, key)| map.map(|map| (key, map)))
                .transpose()
        }))
    }

    /// Returns a job.
    pub(crate) fn job(&self, jid: &str) -> Result<Option<Job>, Error> {
        let row = self.row(Table::Jobs, &at::job(jid))?;
        row.map(|bytes| self.or_damaged("a job", Job::from_row(jid, &bytes)))
            .transpose()
    }

    /// Returns the returns of a job, in the order of the ids.
    pub(crate) fn returns(
        &self,
        jid: &str,
    ) -> Result<impl Iterator<Item = Result<Returned, Error>> + use<>, Error> {
        let (store, jid) = (self.clone(), jid.to_owned());
        let mut fetched = None;
        Ok(self.stored_returns(&jid)?.map(move |stored| match stored? {
            StoredReturn::Here(returned) => Ok(returned),
            StoredReturn::Elsewhere(id) => {
                let mut all = match fetched.take() {
                    Some(all) => all,
                    None => store.fetched(&jid, &store.returns_of(&jid)?.elsewhere)?,
                };
                let returned = store.taken_from(&mut all, &jid, &id);
                fetched = Some(all);
                returned
            }
        }))
    }

    /// Returns the rows of a job's returns, in the order of the ids.
    pub(super) fn stored_returns(
        &self,
        jid: &str,
    ) -> Result<impl Iterator<Item = Result<StoredReturn, Error>> + use<>, Error> {
        let prefix = at::returns(jid);
        let length = prefix.len();
        self.rows(Table::Jobs, &prefix, move |key, value| {
            StoredReturn::from_row(at::id(key, length)?, value)
        })
    }

    /// Returns whether a minion has returned a job.
    pub(crate) fn has_returned(&self, jid: &str, id: &Id) -> Result<bool, Error> {
        Ok(self.row(Table::Jobs, &at::returned(jid, id))?.is_some())
    }

    /// Returns the rings of masters and the routes to them.
    pub(crate) fn rings(&self) -> Result<Rings, Error> {
        match self.row(Table::Keys, at::RINGS)? {
            Some(bytes) => {
                let rings = decode(&bytes).and_then(|map| Rings::from_map(&map));
                self.or_damaged("the rings", rings)
            }
            None => Ok(Rings::default()),
        }
    }

    /// Returns one minion's return of a job.
    pub(crate) fn returned(&self, jid: &str, id: &Id) -> Result<Option<Returned>, Error> {
        let row = self.row(Table::Jobs, &at::returned(jid, id))?;
        let stored = row
            .map(|bytes| self.or_damaged("a return", StoredReturn::from_row(id.clone(), &bytes)));
        match stored.transpose()? {
            None => Ok(None),
            Some(StoredReturn::Here(returned)) => Ok(Some(returned)),
            Some(StoredReturn::Elsewhere(id)) => {
                let mut fetched = self.fetched(jid, &BTreeSet::from([id.clone()]))?;
                self.taken_from(&mut fetched, jid, &id).map(Some)
            }
        }
    }

    /// Returns the jobs, newest first.
    pub(crate) fn jobs(&self) -> Result<impl Iterator<Item = Result<Job, Error>> + use<>, Error> {
        let store = self.clone();
        let times = self.iter(Table::Jobs, at::times())?.rev();
        Ok(times.filter_map(move |entry| {
            let key = entry.key().map_err(|error| store.unreadable(words(&error)));
            let job = key.and_then(|key| {
                let (_, jid) = store.or_damaged("the list of jobs", at::of_time(&key))?;
                store.job(&jid)
            });
            job.transpose()
        }))
    }

    /// Returns the number of the first event in the log, and the number that the next event gets.
    pub(crate) fn log(&self) -> Result<(u64, u64), Error> {
        let log = self.log_row()?;
        Ok((log.first, log.next))
    }

    /// Returns the total size in bytes of the events in the log.
    pub(crate) fn log_bytes(&self) -> Result<u64, Error> {
        Ok(self.log_row()?.bytes)
    }

    pub(super) fn log_row(&self) -> Result<Log, Error> {
        match self.row(Table::Keys, at::LOG)? {
            Some(bytes) => self.or_damaged("the log", Log::from_row(&bytes)),
            None => Ok(Log::EMPTY),
        }
    }

    /// Returns the events from a number on.
    pub(crate) fn events(
        &self,
        from: u64,
    ) -> Result<impl Iterator<Item = Result<Event, Error>> + use<>, Error> {
        let events = self.sized_events(from)?;
        Ok(events.map(|event| event.map(|(event, _)| event)))
    }

    /// Returns the events from a number on, each with its size in bytes.
    pub(crate) fn sized_events(
        &self,
        from: u64,
    ) -> Result<impl Iterator<Item = Result<(Event, usize), Error>> + use<>, Error> {
        // Removed rows leave tombstones, which take time to skip.
        let from = from.max(self.log_row()?.first);
        let disk = self.disk()?;
        let range = at::event(from)..;
        let events = disk.table(Table::Events);
        let entries = disk.database().snapshot().range(events, range);
        Ok(self.decoded(entries, |key, row| {
            Some((Event::from_row(key, row)?, row.len()))
        }))
    }

    /// Returns the number of the first event that arrived at a time or later, by a binary search: the
    /// events of the log arrived one after another.
    pub(crate) fn first_since(&self, since_ms: u64) -> Result<u64, Error> {
        let (mut low, mut high) = self.log()?;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.events(middle)?.next().transpose()? {
                Some(event) if event.at_ms < since_ms => low = event.sequence + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Returns the last event that a reader has finished.
    pub(crate) fn cursor(&self, name: &str) -> Result<Option<u64>, Error> {
        let row = self.row(Table::Keys, &at::cursor(name))?;
        let sequence = |bytes: Slice| number(&decode(&bytes)?, "sequence");
        row.map(|bytes| self.or_damaged("a cursor", sequence(bytes)))
            .transpose()
    }

    /// Returns the names of all readers of the log.
    pub(crate) fn cursors(&self) -> Result<Vec<String>, Error> {
        let names = self.rows(Table::Keys, &at::cursor(""), |key, _| {
            Some(std::str::from_utf8(key.get(1..)?).ok()?.to_owned())
        });
        names?.collect()
    }

    /// Returns one event, if it is still in the log.
    pub(crate) fn event(&self, sequence: u64) -> Result<Option<Event>, Error> {
        let row = self.row(Table::Events, &at::event(sequence))?;
        let event = |bytes: Slice| Event::from_row(&at::event(sequence), &bytes);
        row.map(|bytes| self.or_damaged("an event", event(bytes)))
            .transpose()
    }

    /// Returns the stored state of a reaction.
    pub(crate) fn reaction(&self, place: Place) -> Result<Option<Map>, Error> {
        let row = self.row(Table::Jobs, &at::reaction(place))?;
        row.map(|bytes| self.or_damaged("a reaction", decode(&bytes)))
            .transpose()
    }

    /// Returns the reactions of a rule, in the order of their events, or those of all rules.
    pub(crate) fn reactions(
        &self,
        rule: Option<u64>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(Place, Map), Error>> + use<>, Error> {
        let mut prefix = b"x".to_vec();
        prefix.extend(rule.map(u64::to_be_bytes).into_iter().flatten());
        let store = self.clone();
        let entries = self.iter(Table::Jobs, &prefix)?;
        Ok(entries.map(move |entry| {
            let (key, value) = entry
                .into_inner()
                .map_err(|error| store.unreadable(words(&error)))?;
            let read = at::of_reaction(&key).zip(decode(&value));
            store.or_damaged("a reaction", read)
        }))
    }

    /// Returns the data of a token.
    pub(crate) fn token(&self, name: &str) -> Result<Option<Map>, Error> {
        let row = self.row(Table::Keys, &at::token(name))?;
        row.map(|bytes| self.or_damaged("a token", decode(&bytes)))
            .transpose()
    }

    /// Returns all tokens, by name.
    pub(crate) fn tokens(
        &self,
    ) -> Result<impl Iterator<Item = Result<(String, Map), Error>> + use<>, Error> {
        self.rows(Table::Keys, &at::token(""), |key, value| {
            let name = std::str::from_utf8(key.get(1..)?).ok()?;
            Some((name.to_owned(), decode(value)?))
        })
    }

    pub(super) fn row(&self, table: Table, key: &[u8]) -> Result<Option<Slice>, Error> {
        let row = self.disk()?.table(table).get(key);
        row.map_err(|error| self.unreadable(words(&error)))
    }

    pub(super) fn rows<T, D: Fn(&[u8], &[u8]) -> Option<T>>(
        &self,
        table: Table,
        prefix: &[u8],
        decode: D,
    ) -> Result<impl Iterator<Item = Result<T, Error>> + use<T, D>, Error> {
        Ok(self.decoded(self.iter(table, prefix)?, decode))
    }

    fn iter(&self, table: Table, prefix: &[u8]) -> Result<Iter, Error> {
        let disk = self.disk()?;
        Ok(disk.database().snapshot().prefix(disk.table(table), prefix))
    }

    fn decoded<T, D: Fn(&[u8], &[u8]) -> Option<T>>(
        &self,
        entries: Iter,
        decode: D,
    ) -> impl Iterator<Item = Result<T, Error>> + use<T, D> {
        let store = self.clone();
        entries.map(move |entry| {
            let (key, value) = entry
                .into_inner()
                .map_err(|error| store.unreadable(words(&error)))?;
            store.or_damaged("a row", decode(&key, &value))
        })
    }

    /// Returns the value, or an error that the store is damaged.
    pub(super) fn or_damaged<T>(&self, what: &str, read: Option<T>) -> Result<T, Error> {
        read.ok_or_else(|| self.unreadable(format!("cannot read {what}")))
    }
}
