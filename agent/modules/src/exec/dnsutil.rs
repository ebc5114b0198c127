//! The `dnsutil` execution module: so far the serials of zones.

use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::grains;

state::exec_module! {
    /// Zones of the domain name system.
    mod dnsutil;

    /// Return the serial of a zone: the one that is kept in the grain `dnsserial_ZONE`, or today's first.
    fn serial(Serial {
        /// The zone, or any other word that tells serials apart.
        zone: String = String::new(),
        /// Keep today's first serial in the grain, or the next one when the kept one is no older.
        update: bool = false,
    });
}

fn serial(cx: &Exec, args: Serial) -> Result<Value, Error> {
    let key = match args.zone.as_str() {
        "" => "dnsserial".to_owned(),
        zone => format!("dnsserial_{zone}"),
    };
    let stored = cx.call("grains.get", vec![key.as_str().into()], value::Map::new())?;
    let stored = stored.is_true().then(|| stored.to_text());
    let present = jiff::Zoned::now().strftime("%Y%m%d01").to_string();
    if !args.update {
        return Ok(stored.unwrap_or(present).into());
    }
    let current = next(stored.as_deref(), present)?;
    grains::set_value(cx, &key, current.as_str().into(), false)?;
    Ok(current.into())
}

fn next(stored: Option<&str>, present: String) -> Result<String, Error> {
    match stored.filter(|stored| *stored >= present.as_str()) {
        None => Ok(present),
        Some(stored) => match stored.parse::<u64>() {
            Ok(number) => Ok((number + 1).to_string()),
            Err(_) => Err(Error::Refused(format!(
                "the kept serial '{stored}' is not a number: set the grain to one"
            ))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_is_todays_first_or_one_more_than_the_kept_one() {
        let next = |stored| next(stored, "2026112001".to_owned()).ok();
        assert_eq!(next(None).as_deref(), Some("2026112001"));
        assert_eq!(next(Some("2026111907")).as_deref(), Some("2026112001"));
        assert_eq!(next(Some("2026112001")).as_deref(), Some("2026112002"));
        assert_eq!(next(Some("x")), None);
    }
}
