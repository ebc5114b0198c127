//! Commands about keys: the keys of each id, their states, and the data that is stored with them.
//!
//! An id has one key, which is pending, accepted or rejected. It can have any number of other keys,
//! which are denied. Only a few of those are kept.

use link::key::PublicKey;
use value::Map;
use wire::Id;

use super::apply::{Failure, Outcome, row};
use super::batch::Batch;
use super::command::{Applied, Cache, Claim, Command, KeyState, Refusal};
use super::rows::{Key, Table, at, shown_row};

/// The maximum number of denied keys that are kept of an id, so that a peer with many keys gets no
/// more room.
const DENIED_MAX: usize = 16;
/// The prefix of the name of a row that records when a key was deleted.
pub(crate) const DELETED: &str = "deleted/";

/// Applies a command about a key.
pub(super) fn done(batch: &mut Batch<'_>, command: Command) -> Outcome {
    match command {
        Command::KeyOffered {
            id,
            key,
            at_ms,
            from,
            pending_max,
            pending_per_address,
            claim,
        } => {
            make_way(batch, &id, &key, at_ms, claim)?;
            let most = (pending_max, pending_per_address);
            offer(batch, id, key, at_ms, from, most)
        }
        Command::KeyWithdrawn { id, key } => withdraw(batch, &id, &key),
        Command::KeyAccepted {
            id,
            key,
            at_ms,
            bound,
            replace,
        } => accept(batch, id, key, at_ms, bound, replace),
        Command::KeyRejected { id, key, at_ms } => reject(batch, id, key, at_ms),
        Command::KeyDenied { id, key, at_ms } => deny(batch, id, key, at_ms),
        Command::KeyDeleted { id, key, at_ms } => delete(batch, &id, &key, at_ms),
        Command::KeyShown { id, files } => put_files(batch, &id, &files),
        _ => Ok(Applied::Done),
    }
}

/// Frees an id for a key that claims it, or refuses the claim.
fn make_way(
    batch: &mut Batch<'_>,
    id: &Id,
    key: &PublicKey,
    at_ms: u64,
    claim: Claim,
) -> Result<(), Failure> {
    let other = find_key(batch, id)?;
    match (claim, other) {
        (Claim::Nothing, _) | (_, None) => Ok(()),
        (Claim::Proved, Some(other)) if other.state != KeyState::Accepted => {
            if other.key != *key {
                deny(batch, id.clone(), other.key, at_ms)?;
            }
            Ok(())
        }
        (_, Some(other)) => Err(Refusal::Taken {
            id: id.clone(),
            key: other.key,
        }
        .into()),
    }
}

fn offer(
    batch: &mut Batch<'_>,
    id: Id,
    key: PublicKey,
    at_ms: u64,
    from: Option<String>,
    most: (u64, u64),
) -> Outcome {
    let Some(known) = find_key(batch, &id)? else {
        let displaced = make_room(batch, from.as_deref(), most)?;
        let before = forget_denied(batch, &id, &key)?;
        let new = Key {
            id,
            key,
            state: KeyState::Pending,
            at_ms,
            bound: Map::new(),
            from,
        };
        let put = put(batch, new, before)?;
        return Ok(displaced.unwrap_or(put));
    };
    if known.key != key {
        return deny(batch, id, key, at_ms);
    }
    Ok(Applied::Key {
        state: Some(known.state),
        before: Some(known.state),
    })
}

/// Makes room for one more pending key, by removing the oldest key of the address with most.
fn make_room(
    batch: &mut Batch<'_>,
    from: Option<&str>,
    (all, each): (u64, u64),
) -> Result<Option<Applied>, Failure> {
    let waiting = &batch.counts.waiting;
    if let Some(from) = from.filter(|from| waiting.count(from) >= each) {
        let from = from.to_owned();
        return Err(Refusal::FullOfAddress { limit: each, from }.into());
    }
    if waiting.len() < all {
        return Ok(None);
    }
    let oldest = waiting.oldest_of_fullest(from.unwrap_or_default());
    let (id, key) = oldest.ok_or(Refusal::Full { limit: all })?;
    forget(batch, &id, &key)?;
    Ok(Some(Applied::Displaced { id, key }))
}

fn withdraw(batch: &mut Batch<'_>, id: &Id, key: &PublicKey) -> Outcome {
    let known = find_key(batch, id)?;
    let waits = |known: &Key| known.key == *key && known.state == KeyState::Pending;
    if !known.is_some_and(|known| waits(&known)) {
        return Err(unknown(id, key));
    }
    forget(batch, id, key)?;
    Ok(Applied::Key {
        state: None,
        before: Some(KeyState::Pending),
    })
}

fn accept(
    batch: &mut Batch<'_>,
    id: Id,
    key: PublicKey,
    at_ms: u64,
    bound: Map,
    replace: bool,
) -> Outcome {
    let known = find_key(batch, &id)?;
    let before = state(batch, &id, &key, known.as_ref())?;
    let other = known.filter(|known| known.key != key);
    if !replace {
        if let Some(other) = other
            .as_ref()
            .filter(|other| other.state == KeyState::Accepted)
        {
            return Err(Refusal::Taken { id, key: other.key }.into());
        }
        if before.is_none() {
            return Err(unknown(&id, &key));
        }
    }
    if let Some(other) = other {
        forget(batch, &id, &other.key)?;
    }
    forget_denied(batch, &id, &key)?;
    let new = Key {
        id,
        key,
        state: KeyState::Accepted,
        at_ms,
        bound,
        from: None,
    };
    put(batch, new, before)
}

fn reject(batch: &mut Batch<'_>, id: Id, key: PublicKey, at_ms: u64) -> Outcome {
    let known = find_key(batch, &id)?;
    let before = state(batch, &id, &key, known.as_ref())?;
    if before.is_none() {
        return Err(unknown(&id, &key));
    }
    if let Some(other) = known.filter(|known| known.key != key) {
        // A denied key was named: to reject it must not remove the key that the id has.
        return Err(Refusal::Taken { id, key: other.key }.into());
    }
    forget_denied(batch, &id, &key)?;
    let new = Key {
        id,
        key,
        state: KeyState::Rejected,
        at_ms,
        bound: Map::new(),
        from: None,
    };
    put(batch, new, before)
}

fn deny(batch: &mut Batch<'_>, id: Id, key: PublicKey, at_ms: u64) -> Outcome {
    let known = find_key(batch, &id)?;
    let before = state(batch, &id, &key, known.as_ref())?;
    if known.is_some_and(|known| known.key == key) {
        forget(batch, &id, &key)?;
    }
    let applied = Applied::Key {
        state: Some(KeyState::Denied),
        before,
    };
    let place = at::denied_key(&id, &key);
    let kept = batch.keys(Table::Keys, &at::denied(&id), DENIED_MAX)?;
    if kept.len() >= DENIED_MAX || kept.contains(&place) {
        return Ok(applied);
    }
    let denied = Key {
        id,
        key,
        state: KeyState::Denied,
        at_ms,
        bound: Map::new(),
        from: None,
    };
    batch.put(Table::Keys, place, row("a key", denied.row())?);
    Ok(applied)
}

fn delete(batch: &mut Batch<'_>, id: &Id, key: &PublicKey, at_ms: u64) -> Outcome {
    let known = find_key(batch, id)?;
    let before = state(batch, id, key, known.as_ref())?;
    if before.is_none() {
        return Err(unknown(id, key));
    }
    if known.is_some_and(|known| known.key == *key) {
        forget(batch, id, key)?;
    }
    forget_denied(batch, id, key)?;
    if before == Some(KeyState::Accepted) {
        let deleted = Map::new().with("at_ms", at_ms);
        batch.put(
            Table::Keys,
            at::token(&deleted_key(key)),
            row("a key", deleted)?,
        );
    }
    Ok(Applied::Key {
        state: None,
        before,
    })
}

fn put_files(batch: &mut Batch<'_>, id: &Id, files: &[(KeyState, PublicKey)]) -> Outcome {
    let place = at::key_files(id);
    match files.is_empty() {
        true => batch.remove(Table::Keys, place),
        false => batch.put(Table::Keys, place, row("a key", shown_row(files))?),
    }
    Ok(Applied::Done)
}

/// Returns an error unless the key is the accepted key of this id.
pub(super) fn accepted(batch: &mut Batch<'_>, id: &Id, key: &PublicKey) -> Result<(), Failure> {
    let accepted = batch.get(Table::Keys, &at::accepted(id))?;
    match accepted.is_some_and(|accepted| *accepted == *key.bytes()) {
        true => Ok(()),
        false => Err(Refusal::NotAccepted { id: id.clone() }.into()),
    }
}

/// Returns the name under which the deletion of an accepted key is recorded. The row is stored next
/// to tokens and counters, and is removed in the same manner as those.
pub(crate) fn deleted_key(key: &PublicKey) -> String {
    format!("{DELETED}{}", key.finger())
}

fn unknown(id: &Id, key: &PublicKey) -> Failure {
    Failure::Refused(Refusal::Unknown {
        id: id.clone(),
        key: *key,
    })
}

/// Returns the id's key, which is pending, accepted or rejected.
fn find_key(batch: &mut Batch<'_>, id: &Id) -> Result<Option<Key>, Failure> {
    let Some(bytes) = batch.get(Table::Keys, &at::key(id))? else {
        return Ok(None);
    };
    let key = Key::from_row(id.clone(), &bytes);
    let key = key.ok_or_else(|| Failure::Read(format!("cannot read the key of {id}")))?;
    Ok(Some(key))
}

fn state(
    batch: &mut Batch<'_>,
    id: &Id,
    key: &PublicKey,
    known: Option<&Key>,
) -> Result<Option<KeyState>, Failure> {
    if let Some(known) = known.filter(|known| known.key == *key) {
        return Ok(Some(known.state));
    }
    let denied = batch.get(Table::Keys, &at::denied_key(id, key))?;
    Ok(denied.map(|_| KeyState::Denied))
}

fn put(batch: &mut Batch<'_>, new: Key, before: Option<KeyState>) -> Outcome {
    let bytes = row("a key", new.row())?;
    if let Some(known) = find_key(batch, &new.id)? {
        batch.counts.waiting.remove(&known);
    }
    batch.counts.waiting.add(&new);
    // The accepted key has a separate row, because it is read for every event.
    match new.state {
        KeyState::Accepted => {
            batch.put(Table::Keys, at::accepted(&new.id), new.key.bytes().to_vec());
        }
        _ => batch.remove(Table::Keys, at::accepted(&new.id)),
    }
    batch.put(Table::Keys, at::key(&new.id), bytes);
    Ok(Applied::Key {
        state: Some(new.state),
        before,
    })
}

/// Removes the id's key and all data that is stored for it, so that the next owner of the id cannot
/// see it.
fn forget(batch: &mut Batch<'_>, id: &Id, key: &PublicKey) -> Result<(), Failure> {
    if let Some(known) = find_key(batch, id)? {
        batch.counts.waiting.remove(&known);
    }
    batch.remove(Table::Keys, at::key(id));
    batch.remove(Table::Keys, at::accepted(id));
    for what in Cache::ALL {
        batch.remove(Table::Caches, at::cache(what, id, key));
    }
    for place in batch.keys(Table::Keys, &at::spools(id, key), usize::MAX)? {
        batch.remove(Table::Keys, place);
    }
    Ok(())
}

fn forget_denied(
    batch: &mut Batch<'_>,
    id: &Id,
    key: &PublicKey,
) -> Result<Option<KeyState>, Failure> {
    let place = at::denied_key(id, key);
    let was = batch.get(Table::Keys, &place)?;
    if was.is_none() {
        return Ok(None);
    }
    batch.remove(Table::Keys, place);
    Ok(Some(KeyState::Denied))
}
