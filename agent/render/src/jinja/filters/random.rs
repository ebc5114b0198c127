//! Filters that return random values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::{Error, State, Value};
use value::random;

use super::super::args::{Args, items};
use super::super::containers::List;
use super::super::errors::value_error;
use super::super::strings;
use super::{Table, hashing};

/// The filters of this topic.
pub(super) const FILTERS: Table = &[
    ("random", |_, a| {
        let items = items(a.subject()?)?;
        if items.is_empty() {
            return Ok(Value::default());
        }
        let at = below(items.len())?;
        Ok(items.get(at).cloned().unwrap_or_default())
    }),
    ("random_sample", |_, a| {
        sample(
            a,
            usize::try_from(a.int_or(1, "size", 1)?).map_err(|_| too_many())?,
        )
    }),
    ("random_shuffle", |_, a| {
        sample(a, items(a.subject()?)?.len())
    }),
    ("random_str", random_str),
    ("random_hash", random_hash),
    ("rand_str", random_hash),
    ("gen_mac", gen_mac),
];

fn bytes(count: usize) -> Result<Vec<u8>, Error> {
    random::vec(count).map_err(|error| value_error(error.to_string()))
}

/// Returns a random number from zero to below `count`.
fn below(count: usize) -> Result<usize, Error> {
    random::index(count).map_err(|error| value_error(error.to_string()))
}

fn too_many() -> Error {
    value_error("Sample larger than population or is negative")
}

fn sample(args: &Args, size: usize) -> Result<Value, Error> {
    let mut rest = items(args.subject()?)?;
    if size > rest.len() {
        return Err(too_many());
    }
    let mut chosen = Vec::with_capacity(size);
    for _ in 0..size {
        let at = below(rest.len())?;
        chosen.push(rest.swap_remove(at));
    }
    Ok(List::value(chosen))
}

fn random_str(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let size = usize::try_from(args.int_or(0, "size", 32)?).unwrap_or(32);
    strings::checked_len(size)?;
    let text = STANDARD.encode(bytes(size)?);
    Ok(Value::from(
        text.replace('\n', "")
            .chars()
            .take(size)
            .collect::<String>(),
    ))
}

fn random_hash(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let size = usize::try_from(args.int_or(0, "size", 9_999_999_999)?).unwrap_or(0);
    let chosen = below(size.saturating_add(1))?.to_string();
    Ok(Value::from(hashing::hash(
        &args.text_or(1, "hash_type", "md5")?,
        chosen.as_bytes(),
    )?))
}

fn gen_mac(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let parts: String = bytes(3)?
        .iter()
        .map(|byte| format!(":{byte:02X}"))
        .collect();
    Ok(Value::from(args.text_or(0, "prefix", "AC:DE:48")? + &parts))
}
