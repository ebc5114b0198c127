//! The option `refuse_deleted_keys_seconds`: for this time after its deletion a key is neither
//! accepted nor kept as pending. Without it, a node that still runs after its auto-scaling group
//! has given it up would reconnect at once. The same id may come back with another key.

use std::sync::Arc;

use link::PublicKey;
use value::{Map, Value, log};
use wire::Id;

use super::Admission;
use crate::store::{Command, DELETED, Error, deleted_key, now_ms};

fn at_ms(row: &Map) -> u64 {
    let at = row.get("at_ms").and_then(Value::as_int);
    at.and_then(|at| u64::try_from(at).ok()).unwrap_or_default()
}

impl Admission {
    fn refuses_deleted_ms(&self) -> u64 {
        let seconds = self.opts.int("refuse_deleted_keys_seconds");
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.unwrap_or_default().saturating_mul(1000)
    }

    /// Returns the reason to refuse a key that was deleted within `refuse_deleted_keys_seconds`, or
    /// `None` if it was not, or if an administrator has restored it since.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) async fn is_deleted(
        &self,
        id: &Id,
        key: PublicKey,
    ) -> Result<Option<String>, Error> {
        let window_ms = self.refuses_deleted_ms();
        if window_ms == 0 {
            return Ok(None);
        }
        self.keys.look_at_files().await;
        let is_back = self.store.key(id)?.is_some_and(|known| known.key == key);
        let row = self.store.token(&deleted_key(&key))?;
        let ago_ms = row.map(|row| now_ms().saturating_sub(at_ms(&row)));
        let ago_ms = ago_ms.filter(|ago_ms| !is_back && *ago_ms < window_ms);
        Ok(ago_ms.map(|ago_ms| {
            format!(
                "the key of {id} was deleted {} s ago, and refuse_deleted_keys_seconds is {}",
                ago_ms / 1000,
                window_ms / 1000
            )
        }))
    }

    /// Removes the deleted keys that are no longer refused from the store.
    pub(crate) async fn forget_deleted(self: &Arc<Self>) {
        let admission = self.clone();
        let old = smol::unblock(move || admission.deleted_long_ago()).await;
        let forgotten = match old {
            Ok(old) if old.is_empty() => return,
            Ok(old) => self.store.apply_in_batches(old).await,
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = forgotten {
            log::error(format_args!(
                "cannot remove old deleted keys from the store: {error}"
            ));
        }
    }

    fn deleted_long_ago(&self) -> Result<Vec<Command>, Error> {
        let since_ms = now_ms().saturating_sub(self.refuses_deleted_ms());
        let mut old = Vec::new();
        for row in self.store.tokens()? {
            let (name, row) = row?;
            if name.starts_with(DELETED) && at_ms(&row) < since_ms {
                old.push(Command::Token {
                    name,
                    data: None,
                    expected: Some(row),
                });
            }
        }
        Ok(old)
    }
}
