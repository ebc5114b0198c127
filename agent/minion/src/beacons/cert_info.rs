//! Reports certificates in files that expire soon.

use std::fs::File;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use modules::exec::x509::format::print::{CERTIFICATE_MAX, Certificate};
use value::{Map, Value, log};

use super::{Ask, Beacon, Settings};

/// The number of days before its expiry from which a certificate is reported, unless configured.
const NOTIFY_DAYS: f64 = 45.0;
const DAY_S: i64 = 24 * 60 * 60;

struct CertInfo(Vec<(String, f64)>);

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let files = settings
        .get("files")
        .ok_or("Configuration for cert_info beacon must contain files option.")?;
    let days = |of: Option<&Value>| of.and_then(Value::as_float);
    let all = days(settings.get("notify_days")).unwrap_or(NOTIFY_DAYS);
    let files = files.as_list().unwrap_or_default().iter();
    let files = files.map(|file| match file.as_map().and_then(Map::first) {
        Some((file, said)) => (file.to_text(), days(said.get("notify_days")).unwrap_or(all)),
        None => (file.to_text(), all),
    });
    Ok(Box::new(CertInfo(files.collect())))
}

fn read(path: &str) -> Result<Certificate, String> {
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(CERTIFICATE_MAX as u64)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    let der = first_of(&text).ok_or("the file contains no certificate")?;
    Certificate::read(&der).ok_or_else(|| "not a valid X.509 certificate".to_owned())
}

/// Returns the first certificate of a file in PEM.
fn first_of(text: &str) -> Option<Vec<u8>> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| {
        let label = line.strip_prefix("-----BEGIN ");
        label.is_some_and(|label| matches!(label, "CERTIFICATE-----" | "X509 CERTIFICATE-----"))
    })?;
    let body: String = lines
        .take_while(|line| !line.starts_with("-----"))
        .collect();
    STANDARD.decode(body).ok()
}

/// Reads a date `YYYYMMDDhhmmssZ`. Returns its text for the event, and the timestamp.
fn date(raw: &str) -> Option<(String, Timestamp)> {
    let part = |from: usize, to: usize| raw.get(from..to);
    let day = format!("{}-{}-{}", part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let time = format!("{}:{}:{}Z", part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let shown = format!("{day} {time}");
    let moment = format!("{day}T{time}").parse().ok()?;
    Some((shown, moment))
}

fn name(parts: &[(String, String)]) -> (String, Map) {
    let shown = parts
        .iter()
        .map(|(name, value)| format!("{name}=\"{value}\""));
    let shown = shown.collect::<Vec<_>>().join(",");
    let map = parts.iter();
    let map = map.map(|(name, value)| (Value::from(name), Value::from(value)));
    (shown, map.collect())
}

fn number(digits: &str) -> Value {
    match digits.parse::<i64>() {
        Ok(number) => number.into(),
        Err(_) => Value::Big(digits.into()),
    }
}

/// Returns the report of a certificate, or `None` if it expires more than `days` days from now.
fn report(path: &str, days: f64, certificate: &Certificate, now: Timestamp) -> Option<Map> {
    let (not_after, end) = date(&certificate.not_after)?;
    let (not_before, _) = date(&certificate.not_before)?;
    let left = (end.as_second() - now.as_second()).div_euclid(DAY_S);
    if days >= 0.0 && left as f64 > days {
        return None;
    }
    let (issuer, issuer_dict) = name(&certificate.issuer);
    let (subject, subject_dict) = name(&certificate.subject);
    let extensions = certificate.extensions.iter().map(|(name, data)| {
        let extension = Map::new().with("ext_name", name.as_str());
        Value::from(extension.with("ext_data", data.as_str()))
    });
    Some(
        Map::new()
            .with("cert_path", path)
            .with("issuer", issuer)
            .with("issuer_dict", issuer_dict)
            .with("notAfter_raw", certificate.not_after.as_str())
            .with("notAfter", not_after)
            .with("notBefore_raw", certificate.not_before.as_str())
            .with("notBefore", not_before)
            .with("serial_number", number(&certificate.serial))
            .with(
                "signature_algorithm",
                certificate.signature_algorithm.as_str(),
            )
            .with("subject", subject)
            .with("subject_dict", subject_dict)
            .with("version", certificate.version)
            .with("extensions", Value::list(extensions))
            .with("has_expired", end < now),
    )
}

impl Beacon for CertInfo {
    fn poll(&mut self, _ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let now = Timestamp::now();
        let mut certificates = Vec::new();
        for (path, days) in &self.0 {
            match read(path) {
                Ok(certificate) => certificates.extend(report(path, *days, &certificate, now)),
                Err(error) => {
                    log::error(format_args!("Unable to load certificate {path} ({error})"));
                }
            }
        }
        if certificates.is_empty() {
            return Ok(Vec::new());
        }
        let certificates = Value::list(certificates.into_iter().map(Value::from));
        Ok(vec![Map::new().with("certificates", certificates)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the events of Salt's beacon for the same files.
    #[test]
    fn certificates_are_told_as_salt_tells_them() {
        let corpus = super::super::tests::corpus("cert_info.json");
        let cases = corpus.as_list().unwrap();
        assert!(cases.len() > 5);
        let now = "2026-11-22T06:00:00Z".parse().unwrap();
        for case in cases {
            let pem = case.get("pem").and_then(Value::as_str).unwrap();
            let certificate = Certificate::read(&first_of(pem).unwrap()).unwrap();
            let expected = case.get("certificate").and_then(Value::as_map).unwrap();
            let path = expected.get("cert_path").unwrap().to_text();
            let mut found = report(&path, -1.0, &certificate, now).unwrap();
            // The recorded JSON has the number as text, because it is too large for an integer.
            let serial = found.get("serial_number").unwrap().to_text();
            found.insert("serial_number", serial);
            assert_eq!(&found, expected, "{path}");
        }
    }

    #[test]
    fn one_that_lasts_is_told_when_its_days_have_come() {
        let corpus = super::super::tests::corpus("cert_info.json");
        let pem = corpus.as_list().unwrap()[0].get("pem").unwrap().to_text();
        let mut certificate = Certificate::read(&first_of(&pem).unwrap()).unwrap();
        certificate.not_after = "20300110120000Z".to_owned();
        let is_told =
            |days: f64, now: &str| report("x", days, &certificate, now.parse().unwrap()).is_some();
        assert!(!is_told(45.0, "2029-01-01T00:00:00Z"));
        assert!(!is_told(9.0, "2029-12-31T12:00:00Z"));
        assert!(is_told(9.0, "2029-12-31T12:00:01Z"));
        assert!(is_told(-1.0, "2000-01-01T00:00:00Z"));
        assert!(is_told(0.0, "2031-01-01T00:00:00Z"));
    }

    #[test]
    fn what_is_cut_or_changed_is_no_certificate_and_no_panic() {
        let corpus = super::super::tests::corpus("cert_info.json");
        for case in corpus.as_list().unwrap() {
            let der = first_of(&case.get("pem").unwrap().to_text()).unwrap();
            for at in 0..der.len() {
                Certificate::read(&der[..at]);
                let mut other = der.clone();
                other[at] ^= 0xff;
                Certificate::read(&other);
            }
        }
    }
}
