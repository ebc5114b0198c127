//! Reads and writes `index.txt`, the list of an authority's certificates in the format of `openssl
//! ca`, one certificate a line.

use jiff::Timestamp;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

use super::folder::written;
use super::seconds;
use crate::exec::x509::format::parts::Parts;
use crate::exec::x509::format::print::Certificate;

/// Returns a number in hexadecimal digits without leading zeros.
pub(super) fn digits(number: &[u8]) -> String {
    let all: String = number.iter().map(|byte| format!("{byte:02X}")).collect();
    all.trim_start_matches('0').to_owned()
}

fn path(folder: &str) -> String {
    format!("{folder}/index.txt")
}

/// Returns a time in the form that the index uses, in which the year has two digits.
fn short(stamp: &str) -> &str {
    stamp.get(2..).unwrap_or_default()
}

/// Returns the subject in the notation that Salt writes, because Salt only finds such lines:
/// Python's bytes, as in `/b'C'=b'US'`.
fn subject(certificate: &Parts) -> Result<String, Error> {
    let shown = Certificate::read(&certificate.der).ok_or("the certificate is invalid")?;
    let bytes = |text: &str| python::repr(&Value::Bytes(text.as_bytes().into()));
    let parts = shown.subject.iter();
    let parts: Vec<String> = parts
        .map(|(name, value)| format!("{}={}", bytes(name), bytes(value)))
        .collect();
    Ok(format!("/{}", parts.join("/")))
}

fn line(certificate: &Parts, revoked: Option<&str>) -> Result<String, Error> {
    Ok(format!(
        "{}\t{}\t{}\t{}\tunknown\t{}\n",
        if revoked.is_some() { "R" } else { "V" },
        short(&certificate.not_after),
        revoked.unwrap_or_default(),
        digits(&certificate.serial),
        subject(certificate)?
    ))
}

/// Returns the text of the index; empty if it does not exist.
fn text(folder: &str) -> Result<String, Error> {
    let path = path(folder);
    let bytes = machine::fs::read_or_none(path)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Adds a certificate to the index.
pub(super) fn add(cx: &Exec, folder: &str, certificate: &Parts) -> Result<(), Error> {
    let all = text(folder)? + &line(certificate, None)?;
    written(cx, &path(folder), all.as_bytes(), None)
}

/// Returns the status, the time of the revocation and the serial number of a line.
fn fields(line: &str) -> Option<(&str, &str, &str)> {
    let mut all = line.split('\t');
    let status = all.next()?;
    all.next()?;
    Some((status, all.next()?, all.next()?))
}

fn is_of(line: &str, serial: &[u8]) -> bool {
    let is = |number: &str| {
        number
            .trim_start_matches('0')
            .eq_ignore_ascii_case(&digits(serial))
    };
    fields(line).is_some_and(|(_, _, number)| is(number))
}

/// Returns whether the certificate with a serial number is revoked.
pub(super) fn is_revoked(folder: &str, serial: &[u8]) -> Result<bool, Error> {
    let all = text(folder)?;
    let mut own = all.lines().filter(|line| is_of(line, serial));
    Ok(own.any(|line| line.starts_with('R')))
}

/// Marks a certificate as revoked now. A certificate that is not in the index is added to it,
/// because the revocation list would not contain it otherwise.
pub(super) fn revoke(cx: &Exec, folder: &str, certificate: &Parts) -> Result<(), Error> {
    let now = crate::exec::x509::format::der::stamp(Timestamp::now());
    let new = line(certificate, Some(short(&now)))?;
    let mut all = text(folder)?;
    match all.lines().find(|line| is_of(line, &certificate.serial)) {
        Some(old) => all = all.replacen(old, new.trim_end_matches('\n'), 1),
        None => all.push_str(&new),
    }
    written(cx, &path(folder), all.as_bytes(), None)
}

/// Returns the revoked certificates as the entries of a revocation list.
pub(super) fn revoked(folder: &str) -> Result<Value, Error> {
    let text = text(folder)?;
    let lines = text.lines().filter(|line| line.starts_with('R'));
    let entries: Result<Vec<Value>, Error> = lines.map(entry).collect();
    Ok(Value::list(entries?))
}

/// Returns a line as an entry of a revocation list. `openssl ca` writes a reason after the time,
/// which is ignored.
fn entry(line: &str) -> Result<Value, Error> {
    let (_, date, serial) = fields(line).unwrap_or_default();
    let date = date.split(',').next().unwrap_or_default();
    let wrong = || {
        Error::refused(format!(
            "Revocation date '{date}' does not matchformat '%y%m%d%H%M%SZ'"
        ))
    };
    // As in Python, years from 69 on belong to the last century.
    let year: u8 = date
        .get(..2)
        .and_then(|year| year.parse().ok())
        .ok_or_else(wrong)?;
    let century = if year < 69 { "20" } else { "19" };
    let moment = seconds(&format!("{century}{date}")).map_err(|_| wrong())?;
    let moment = Timestamp::from_second(moment).map_err(|_| wrong())?;
    let serial = match serial.len() % 2 {
        0 => serial.to_owned(),
        _ => format!("0{serial}"),
    };
    Ok(Map::new()
        .with("serial_number", serial)
        .with(
            "revocation_date",
            moment.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        )
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_salt_and_of_openssl_are_read() {
        let ours = "R\t271123202822Z\t261123202842Z\t302E3F\tunknown\t/b'CN'=b'x'";
        let told = entry(ours).unwrap();
        assert_eq!(
            told.get("revocation_date"),
            Some(&"2026-11-23 20:28:42".into())
        );
        assert!(is_of(ours, &[0x30, 0x2e, 0x3f]) && !is_of(ours, &[0x30]));
        let theirs = "R\t271123202822Z\t991123202842Z,keyCompromise\t01\tunknown\t/CN=x";
        let told = entry(theirs).unwrap();
        assert_eq!(
            told.get("revocation_date"),
            Some(&"1999-11-23 20:28:42".into())
        );
        assert!(is_of(theirs, &[1]) && entry("R\t\tnever\t01\tunknown\t/").is_err());
        assert_eq!(digits(&[0, 0x0a, 0x10]), "A10");
    }
}
