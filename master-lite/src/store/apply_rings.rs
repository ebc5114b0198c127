//! Commands about rings of masters and the routes to them.

use cluster::core::Rings;

use super::apply::{Outcome, damaged, row};
use super::batch::Batch;
use super::command::{Applied, Command, Refusal};
use super::rows::{Table, at, decode};

/// Applies a command about rings or routes.
pub(super) fn done(batch: &mut Batch<'_>, command: Command) -> Outcome {
    change(batch, |rings| match command {
        Command::RingCreated { name, voters } => rings.create(&name, voters.into_iter().collect()),
        Command::RingDestroyed { name } => rings.destroy(&name),
        Command::RingSet {
            name,
            keep,
            replicas,
        } => rings.set(&name, keep, replicas),
        Command::RouteSet {
            data_type,
            ring,
            at_ms,
        } => rings.route(&data_type, ring, at_ms),
        _ => Err("this command is not about rings".to_owned()),
    })
}

/// Changes the rings, or refuses the command with the reason why they cannot be changed this way.
fn change(batch: &mut Batch<'_>, change: impl FnOnce(&mut Rings) -> Result<(), String>) -> Outcome {
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
