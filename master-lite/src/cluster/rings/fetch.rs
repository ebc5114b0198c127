//! Reads the data of returns from the masters that have it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use value::Value;
use wire::Id;

use super::Rows;
use super::ask::{of_pieces, pieces};
use crate::cluster::requests::Ask;
use crate::cluster::{ASK_MAX, Cluster};
use crate::store::Returned;
use crate::store::elsewhere::Elsewhere;

/// The size in bytes, in the memory, from which on an answer has no further return.
const PIECE: usize = 4 << 20;
/// The maximum number of returns of an answer.
const PIECE_MAX: usize = 1000;

/// The other masters as a source of returns.
struct Others(Cluster);

impl Elsewhere for Others {
    fn fetch(&self, jid: &str, ids: &BTreeSet<Id>) -> Result<Vec<Returned>, String> {
        smol::block_on(self.0.fetch(jid, ids))
    }
}

impl Cluster {
    /// Makes the store read returns from other masters whose data is not here.
    pub(in crate::cluster) fn read_elsewhere(&self) {
        let store = &self.0.store;
        store.read_elsewhere(Arc::new(Others(self.clone())));
    }

    /// Returns these returns of a job: from the masters that keep them, or else from any other.
    pub(super) async fn fetch(
        &self,
        jid: &str,
        ids: &BTreeSet<Id>,
    ) -> Result<Vec<Returned>, String> {
        let view = self.view()?;
        let owners = view.owners(jid).unwrap_or_default();
        let members = self.status().members;
        let mut others: Vec<(u64, String)> = members
            .into_iter()
            .filter(|(number, _)| *number != self.0.node.number)
            .map(|(number, member)| (number, member.name))
            .collect();
        others.sort_by_key(|(_, name)| !owners.contains(&name.as_str()));
        let (mut found, mut failures) = (BTreeMap::new(), Vec::new());
        for (number, name) in others {
            if let Err(error) = self.fetch_from(number, jid, ids, &mut found).await {
                failures.push(format!("{name}: {error}"));
            }
            if found.len() == ids.len() {
                return Ok(found.into_values().collect());
            }
        }
        Err(match (failures.is_empty(), &view.routed) {
            (false, _) => failures.join("; "),
            (true, Some((ring, of, ..))) => {
                let masters: Vec<&str> = of.voters.iter().map(String::as_str).collect();
                format!(
                    "no master of the cluster has them, and the ring {ring} is {}: if one of these was removed, its disk has them",
                    masters.join(", ")
                )
            }
            (true, None) => "no master of the cluster has them".to_owned(),
        })
    }

    /// Adds to `found` what a master has of these returns.
    async fn fetch_from(
        &self,
        number: u64,
        jid: &str,
        ids: &BTreeSet<Id>,
        found: &mut BTreeMap<Id, Returned>,
    ) -> Result<(), String> {
        let mut after = None;
        let only = ids.first().filter(|_| ids.len() == 1).cloned();
        loop {
            let rows = Rows::Returns {
                jid: jid.to_owned(),
                only: only.clone(),
                after: after.take(),
            };
            let answer = self.ask(number, &Ask::Rows(rows), ASK_MAX).await?;
            let (returns, has_more) = of_pieces(&answer).ok_or("the answer has an unknown form")?;
            after = returns.last().map(|returned| returned.id.clone());
            let wanted = returns.into_iter().filter(|of| ids.contains(&of.id));
            found.extend(wanted.map(|returned| (returned.id.clone(), returned)));
            if !has_more || after.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns the next returns of a job whose data is here.
    pub(super) async fn give(
        &self,
        jid: String,
        only: Option<Id>,
        after: Option<Id>,
    ) -> Result<Value, String> {
        let store = self.0.store.clone();
        let read = move || {
            let (mut given, mut bytes) = (Vec::new(), 0);
            for returned in store.returns_here(&jid, after.as_ref())? {
                let returned = returned?;
                if only.as_ref().is_some_and(|only| *only != returned.id) {
                    continue;
                }
                if bytes >= PIECE || given.len() >= PIECE_MAX {
                    return Ok((given, true));
                }
                bytes += Value::Map(returned.data.clone()).to_text().len();
                given.push(returned);
            }
            Ok((given, false))
        };
        let read: Result<_, crate::store::Error> = smol::unblock(read).await;
        let (given, has_more) = read.map_err(|error| error.to_string())?;
        Ok(pieces(&given, has_more))
    }

    /// Fetches the data of all returns that is missing here. Returns the number of jobs.
    ///
    /// # Errors
    /// When some of it cannot be fetched. The rest is here then.
    pub(crate) async fn collect(&self) -> Result<u64, String> {
        match self.restore(true).await? {
            (count, None) => Ok(count),
            (count, Some(failure)) => Err(format!(
                "The returns of {count} jobs were fetched, but not all: {failure}"
            )),
        }
    }

    /// Restores missing data of returns: that of `all` jobs, or of those that this master keeps. Returns
    /// the number of jobs, and the first failure.
    pub(super) async fn restore(&self, all: bool) -> Result<(u64, Option<String>), String> {
        let store = self.0.store.clone();
        let jids = smol::unblock(move || store.jobs_elsewhere()).await;
        let (mut count, mut failure) = (0, None);
        for jid in jids.map_err(|error| error.to_string())? {
            if !all && !self.view()?.keeps(&self.0.settings.name, &jid) {
                continue;
            }
            match self.restore_job(&jid).await {
                Ok(()) => count += 1,
                Err(error) => {
                    failure.get_or_insert_with(|| format!("the job {jid}: {error}"));
                }
            }
        }
        Ok((count, failure))
    }

    async fn restore_job(&self, jid: &str) -> Result<(), String> {
        let (store, of) = (self.0.store.clone(), jid.to_owned());
        let missing = smol::unblock(move || store.returns_of(&of)).await;
        let missing = missing.map_err(|error| error.to_string())?.elsewhere;
        let returns = match missing.is_empty() {
            true => Vec::new(),
            false => self.fetch(jid, &missing).await?,
        };
        let _removing = self.0.rings.removing.lock().await;
        let restored = self.0.store.restore_data(jid, returns).await;
        restored.map(drop).map_err(|error| error.to_string())
    }
}
