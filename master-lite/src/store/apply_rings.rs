//! Commands about rings of masters and the routes to them.

use cluster::core::Rings;

use super::apply::{Outcome, damaged, row};
use super::batch::Batch;
use super::command::{Applied, Refusal};
use super::rows::{Table, at, decode};

/// Changes the rings, or refuses the command with the reason why they cannot be changed this way.
pub(super) fn change(
    batch: &mut Batch<'_>,
    change: impl FnOnce(&mut Rings) -> Result<(), String>,
) -> Outcome {
    let mut rings = match batch.get(Table::Keys, at::RINGS)? {
        Some(bytes) => {
            let rings = decode(&bytes).and_then(|map| Rings::from_map(&map));
            rings.ok_or_else(|| damaged("the rings"))?
        }
        None => Rings::default(),
    };
    change(&mut rings).map_err(|why| Refusal::Ring { why })?;
    let bytes = row("the rings", rings.to_map())?;
    batch.put(Table::Keys, at::RINGS.to_vec(), bytes);
    Ok(Applied::Done)
}
