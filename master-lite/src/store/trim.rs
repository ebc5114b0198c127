//! The choice of the rows that are removed when there are too many: the oldest ones of the holder with
//! most, and of those with nearly as much. Nothing is changed here. The chosen rows become a command
//! that names them: only this process knows the positions of its search, and all masters of a cluster
//! must remove the same rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{MutexGuard, PoisonError};

use wire::Id;

use super::command::{Command, JobRows};
use super::error::words;
use super::holders::{Holders, Size, Sizes};
use super::rows::{Table, at, holder};
use super::{Error, Retention, Shared, Store};

/// The maximum number of rows that one look examines to find those of one holder.
const LOOK: usize = 4096;
/// The maximum number of looks in one step.
const LOOKS: usize = 64;
/// The number of rows of one holder that are chosen before the fullest holder is determined again.
const CHUNK: u64 = 64;
/// The part of the size of the fullest holder by which others may have less and still lose their
/// oldest rows too. Otherwise, if ten thousand minions had equally many events, ten thousand events
/// would be examined to find one of the fullest minion.
const NEARLY: u64 = 8;
/// The maximum number of events that one command removes.
const EVENTS_MAX: u64 = 1024;
/// The maximum number of jobs and returns that one command removes. Even with the longest names, it
/// has less than half of the megabyte that a command of several masters may have.
const JOB_ROWS_MAX: u64 = 512;
/// The maximum number of holders whose positions in a table are kept.
const SEARCHED_MAX: usize = 1024;

/// The rows that exceed a limit.
#[derive(Debug)]
pub(super) struct Excess {
    /// The command that removes some of them, if there are any.
    pub(super) removal: Option<Command>,
    /// True if more of them are left after this command.
    pub(super) has_more: bool,
}

/// The position in each table up to which each holder's oldest rows have been searched. A search
/// without it only takes longer.
#[derive(Debug, Default)]
pub(super) struct Searched {
    events: HashMap<String, Vec<u8>>,
    jobs: HashMap<String, Vec<u8>>,
}

impl Shared {
    /// Forgets all positions, because chosen rows were not removed.
    pub(super) fn forget_searched(&self) {
        *self.searched() = Searched::default();
    }

    fn searched(&self) -> MutexGuard<'_, Searched> {
        self.searched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Searched {
    fn of(&mut self, table: Table) -> &mut HashMap<String, Vec<u8>> {
        match table {
            Table::Events => &mut self.events,
            _ => &mut self.jobs,
        }
    }
}

/// Keeps the position of a holder. If there are too many, the others are forgotten.
fn remember(searched: &mut HashMap<String, Vec<u8>>, of: String, upto: Vec<u8>) {
    if searched.len() >= SEARCHED_MAX {
        searched.clear();
    }
    searched.insert(of, upto);
}

/// A search for rows to be removed.
struct Search<'a> {
    store: &'a Store,
    table: Table,
    /// The key from which on the rows with the holders' oldest ones are.
    start: Vec<u8>,
    most: Size,
    rows_max: u64,
    /// The size of the chosen rows.
    chosen: Holders,
    /// The weight from which on a holder has nearly as much as the one with most.
    nearly_most: u64,
}

impl Store {
    /// Chooses events that exceed the limits. It reads files and may block.
    pub(super) fn excess_events(&self, keep: Retention) -> Result<Excess, Error> {
        let start = at::event(self.log_row()?.first);
        let mut search = Search::new(self, Table::Events, start, keep.most_events(), EVENTS_MAX);
        let mut sequences = BTreeSet::new();
        let has_more = search.run(&mut |search, of, place, event| {
            let sequence = place.try_into().map(u64::from_be_bytes).ok();
            let sequence = self.or_damaged("an event", sequence)?;
            let holder = holder(event);
            if search.is_due(holder, of) && sequences.insert(sequence) {
                search.chosen.add(holder, event.len());
            }
            Ok(())
        })?;
        let sequences: Vec<u64> = sequences.into_iter().collect();
        let is_any = !sequences.is_empty();
        Ok(Excess {
            removal: is_any.then_some(Command::EventsRemoved { sequences }),
            has_more,
        })
    }

    /// Chooses jobs and returns that exceed the limit. It reads files and may block.
    pub(super) fn excess_jobs(&self, keep: Retention) -> Result<Excess, Error> {
        let start = at::times().to_vec();
        let mut search = Search::new(self, Table::Jobs, start, keep.most_jobs(), JOB_ROWS_MAX);
        let mut jobs = BTreeMap::new();
        let has_more = search.run(&mut |search, of, place, _| {
            let time = self.or_damaged("the list of jobs", at::of_time(place))?;
            search.choose_of_job(of, time, &mut jobs)
        })?;
        let jobs: Vec<JobRows> = jobs.into_iter().map(ChosenJob::rows).collect();
        let is_any = !jobs.is_empty();
        Ok(Excess {
            removal: is_any.then_some(Command::JobsRemoved { jobs }),
            has_more,
        })
    }
}

/// The chosen rows of a job.
#[derive(Debug, Default)]
struct ChosenJob {
    returns: BTreeSet<Id>,
    is_whole: bool,
}

/// The chosen rows by the time and the id of their job.
type ChosenJobs = BTreeMap<(u64, String), ChosenJob>;

impl ChosenJob {
    fn rows(((at_ms, jid), chosen): ((u64, String), Self)) -> JobRows {
        JobRows {
            jid,
            returns: chosen.returns.into_iter().collect(),
            at_ms: chosen.is_whole.then_some(at_ms),
        }
    }
}

/// Examines a row, given its key and its value, for a holder.
type Examine<'a, 's> = dyn FnMut(&mut Search<'s>, &str, &[u8], &[u8]) -> Result<(), Error> + 'a;

impl<'s> Search<'s> {
    fn new(store: &'s Store, table: Table, start: Vec<u8>, most: Size, rows_max: u64) -> Self {
        Self {
            store,
            table,
            start,
            most,
            rows_max,
            chosen: Holders::default(),
            nearly_most: 0,
        }
    }

    /// Searches for rows of the fullest holder, and repeats this until enough rows are chosen or many
    /// were examined. Returns true if too many rows are left.
    fn run(&mut self, examine: &mut Examine<'_, 's>) -> Result<bool, Error> {
        let mut searched = self.store.shared.searched();
        let searched = searched.of(self.table);
        let mut is_again = false;
        for _ in 0..LOOKS {
            if !self.needs_more() {
                break;
            }
            let Some((of, most)) = self.fullest() else {
                break;
            };
            self.nearly_most = most - most / NEARLY;
            let before = self.rows();
            let from = searched.get(&of).unwrap_or(&self.start);
            let (upto, is_end) = self.look(&of, from.clone(), examine)?;
            remember(searched, of.clone(), upto);
            if self.rows() == before && is_end {
                // The holder's remaining rows were added before the position of the search, or are
                // not on the disk yet: search once more from the beginning.
                if std::mem::replace(&mut is_again, true) {
                    break;
                }
                searched.remove(&of);
            }
        }
        Ok(self.is_over() && self.rows() > 0)
    }

    /// Examines the rows from a key on. Returns the last key, and whether it is the table's last one.
    fn look(
        &mut self,
        of: &str,
        from: Vec<u8>,
        examine: &mut Examine<'_, 's>,
    ) -> Result<(Vec<u8>, bool), Error> {
        let disk = self.store.disk()?;
        let enough = self.rows() + CHUNK;
        let from = from.max(self.start.clone());
        let mut upto = from.clone();
        let mut looked = 0;
        for row in disk.table(self.table).range(from..).take(LOOK) {
            let row = row.into_inner();
            let (place, value) = row.map_err(|error| self.store.unreadable(words(&error)))?;
            if self.table == Table::Jobs && !place.starts_with(at::times()) {
                break;
            }
            looked += 1;
            examine(self, of, &place, &value)?;
            upto = place.to_vec();
            if !self.needs_more() || self.rows() >= enough {
                break;
            }
        }
        Ok((upto, looked < LOOK))
    }

    /// Chooses the whole job if its owner is due, otherwise only the return of the holder `of`.
    fn choose_of_job(
        &mut self,
        of: &str,
        time: (u64, String),
        jobs: &mut ChosenJobs,
    ) -> Result<(), Error> {
        let (_, jid) = &time;
        let job = self.store.row(Table::Jobs, &at::job(jid))?;
        if let Some(job) = job.filter(|job| self.is_due(holder(job), of)) {
            let returns = at::returns(jid);
            return self.choose_job(&job, &returns, jobs.entry(time).or_default());
        }
        // A user has no returns.
        let Ok(id) = of.parse::<Id>() else {
            return Ok(());
        };
        if let Some(returned) = self.store.row(Table::Jobs, &at::returned(jid, &id))? {
            self.choose_return(id, &returned, jobs.entry(time).or_default());
        }
        Ok(())
    }

    /// Chooses a job after its returns, as far as one command can remove them.
    fn choose_job(
        &mut self,
        job: &[u8],
        returns: &[u8],
        chosen: &mut ChosenJob,
    ) -> Result<(), Error> {
        if chosen.is_whole {
            return Ok(());
        }
        let disk = self.store.disk()?;
        for row in disk.table(Table::Jobs).prefix(returns) {
            if self.rows() >= self.rows_max {
                return Ok(());
            }
            let row = row.into_inner();
            let (place, returned) = row.map_err(|error| self.store.unreadable(words(&error)))?;
            let id = self
                .store
                .or_damaged("a return", at::id(&place, returns.len()))?;
            self.choose_return(id, &returned, chosen);
        }
        if self.rows() < self.rows_max {
            chosen.is_whole = true;
            self.chosen.add(holder(job), job.len());
        }
        Ok(())
    }

    fn choose_return(&mut self, id: Id, returned: &[u8], chosen: &mut ChosenJob) {
        if chosen.returns.insert(id.clone()) {
            self.chosen.add(id.as_str(), returned.len());
        }
    }

    /// Returns the number of chosen rows.
    fn rows(&self) -> u64 {
        self.chosen.all().rows
    }

    fn needs_more(&self) -> bool {
        self.rows() < self.rows_max && self.is_over()
    }

    fn is_over(&self) -> bool {
        let sizes = self.store.shared.sizes();
        let left = self.holders(&sizes).all().without(self.chosen.all());
        left.is_over(self.most)
    }

    fn fullest(&self) -> Option<(String, u64)> {
        let sizes = self.store.shared.sizes();
        let fullest = self.holders(&sizes).fullest_without(&self.chosen);
        fullest.map(|(holder, weight)| (holder.to_owned(), weight))
    }

    /// Returns whether a holder loses its oldest rows while those of the holder `of` are searched.
    fn is_due(&self, holder: &str, of: &str) -> bool {
        let weight = || {
            let sizes = self.store.shared.sizes();
            self.holders(&sizes).weight_without(holder, &self.chosen)
        };
        holder == of || weight() >= self.nearly_most
    }

    fn holders<'a>(&self, sizes: &'a Sizes) -> &'a Holders {
        match self.table {
            Table::Events => &sizes.events,
            _ => &sizes.jobs,
        }
    }
}
