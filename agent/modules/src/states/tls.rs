//! The `tls` state module.

use jiff::Timestamp;
use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::tls::{read, seconds};

state::state_module! {
    /// Check certificates for TLS.
    #[needs("openssl", "The program openssl is not in the path: install it")]
    mod tls;

    /// Make sure that a certificate is valid, and remains valid for some time.
    ///
    ///     /etc/ssl/shop.crt:
    ///       tls.valid_certificate:
    ///         - weeks: 2
    fn valid_certificate(ValidCertificate {
        /// The certificate: a file or the text of the certificate.
        name: String,
        /// The weeks of the minimum remaining time.
        weeks: f64 = 0.0,
        /// The days of the minimum remaining time.
        days: f64 = 0.0,
        /// The hours of the minimum remaining time.
        hours: f64 = 0.0,
        /// The minutes of the minimum remaining time.
        minutes: f64 = 0.0,
        /// The seconds of the minimum remaining time.
        seconds: f64 = 0.0,
    });
}

const DAY_S: i64 = 24 * 60 * 60;

/// Returns a time in Python's format: `2 days, 3:04:05.000006`.
fn format_timedelta(microseconds: i128) -> String {
    let (all, rest) = (
        microseconds.div_euclid(1_000_000) as i64,
        microseconds.rem_euclid(1_000_000),
    );
    let (days, seconds) = (all.div_euclid(DAY_S), all.rem_euclid(DAY_S));
    let days = match days {
        0 => String::new(),
        1 | -1 => format!("{days} day, "),
        _ => format!("{days} days, "),
    };
    let rest = if rest == 0 {
        String::new()
    } else {
        format!(".{rest:06}")
    };
    format!(
        "{days}{}:{:02}:{:02}{rest}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

fn valid_certificate(_: &Exec, args: ValidCertificate) -> Result<Ret, Error> {
    let parts = match read(&args.name) {
        Ok(parts) => parts,
        Err(error) => return Ok(Ret::failed(error.to_string())),
    };
    let micros = |seconds: i64| i128::from(seconds) * 1_000_000;
    let now = i128::from(Timestamp::now().as_microsecond());
    if now < micros(seconds(&parts.not_before)?) {
        return Ok(Ret::failed("Certificate is not yet valid"));
    }
    let left = micros(seconds(&parts.not_after)?) - now;
    if left < 0 {
        return Ok(Ret::failed("Certificate is expired"));
    }
    let hours = (args.weeks * 7.0 + args.days) * 24.0 + args.hours;
    let wanted = (hours * 60.0 + args.minutes) * 60.0 + args.seconds;
    let wanted = (wanted * 1e6) as i128;
    let left_shown = format_timedelta(left);
    Ok(match left < wanted {
        true => Ret::failed(format!(
            "Certificate will expire in {left_shown}, which is less than {}",
            format_timedelta(wanted)
        )),
        false => Ret::ok(format!("Certificate is valid for {left_shown}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_python_does() {
        assert_eq!(format_timedelta(0), "0:00:00");
        assert_eq!(
            format_timedelta(86_400_000_000 + 3_661_000_001),
            "1 day, 1:01:01.000001"
        );
        assert_eq!(format_timedelta(30 * 86_400_000_000), "30 days, 0:00:00");
    }
}
