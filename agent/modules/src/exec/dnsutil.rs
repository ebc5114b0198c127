//! The `dnsutil` execution module: looks up names and addresses, and edits the hosts file.
#![allow(
    non_snake_case,
    reason = "some functions have the names of the records that they ask for"
)]

use std::path::Path;

use machine::fs::{self, Owner};
use machine::process::which;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{dig, grains};

state::exec_module! {
    /// Look up names, addresses and zones of the Domain Name System.
    mod dnsutil;

    /// Return the host names in a hosts file, by address.
    ///
    ///     salt-call dnsutil.parse_hosts
    fn parse_hosts(ParseHosts {
        /// The path of the hosts file.
        hostsfile: String = "/etc/hosts".into(),
        /// The text to parse instead of the file.
        hosts: Option<String> = None,
    });

    /// Add a line to a hosts file.
    ///
    ///     salt-call dnsutil.hosts_append /etc/hosts 10.0.0.7 db1,db1.example.com
    fn hosts_append(HostsAppend {
        /// The path of the hosts file.
        hostsfile: String = "/etc/hosts".into(),
        /// The IP address of the names.
        ip_addr: Option<String> = None,
        /// The names, separated by commas.
        entries: Option<String> = None,
    });

    /// Remove names from a hosts file.
    ///
    ///     salt-call dnsutil.hosts_remove /etc/hosts db1.example.com
    fn hosts_remove(HostsRemove {
        /// The path of the hosts file.
        hostsfile: String = "/etc/hosts".into(),
        /// The names, separated by commas.
        entries: Option<String> = None,
    });

    /// Return True for an address, or for a network in CIDR notation.
    ///
    ///     salt-call dnsutil.check_ip 192.0.2.10
    fn check_ip(CheckIp {
        /// The address to check.
        ip_addr: Value,
    });

    /// Return the IPv4 addresses of a name.
    ///
    ///     salt-call dnsutil.A example.com
    fn A(RecordA {
        /// The name to look up.
        host: String,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the IPv6 addresses of a name.
    ///
    ///     salt-call dnsutil.AAAA example.com
    fn AAAA(RecordAaaa {
        /// The name to look up.
        host: String,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the name servers of a domain.
    ///
    ///     salt-call dnsutil.NS example.com
    fn NS(RecordNs {
        /// The domain to look up.
        domain: String,
        /// True to return the addresses of the name servers instead of their names.
        resolve: bool = true,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the networks that may send mail for a domain.
    ///
    ///     salt-call dnsutil.SPF example.com
    fn SPF(RecordSpf {
        /// The domain to look up.
        domain: String,
        /// The type of the record to query: `SPF` or `TXT`.
        record: String = "SPF".into(),
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the mail servers of a domain, with their preference.
    ///
    ///     salt-call dnsutil.MX example.com
    fn MX(RecordMx {
        /// The domain to look up.
        domain: String,
        /// True to return the addresses of the mail servers instead of their names.
        resolve: bool = false,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the serial number of a zone: the one stored in the grain `dnsserial_ZONE`, or the
    /// first one of today.
    ///
    ///     salt-call dnsutil.serial example.com update=True
    fn serial(Serial {
        /// The name of the zone, or any other name that distinguishes serial numbers.
        zone: String = String::new(),
        /// True to store a new serial number in the grain: the first one of today, or the next one
        /// if the stored number is not older.
        update: bool = false,
    });
}

/// Returns the host names of a hosts file, by address.
fn names(text: &str) -> Map {
    let mut hosts = Map::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some(ip) = words.next() else {
            continue;
        };
        if let Some(list) = hosts.entry(ip, || Value::list([])).as_list_mut() {
            list.extend(words.map(Value::from));
        }
    }
    hosts
}

fn parse_hosts(_cx: &Exec, args: ParseHosts) -> Result<Value, Error> {
    let given = args.hosts.filter(|hosts| !hosts.is_empty());
    let text = given.map_or_else(|| fs::text(&args.hostsfile), Ok);
    Ok(text.map_or_else(
        |_| "Error: hosts data was not found".into(),
        |text| names(&text).into(),
    ))
}

fn hosts_append(cx: &Exec, args: HostsAppend) -> Result<Value, Error> {
    let file = &args.hostsfile;
    let ip = &args.ip_addr.ok_or_else(|| Error::missing("ip_addr"))?;
    let entries = args.entries.ok_or_else(|| Error::missing("entries"))?;
    let text = fs::text(file)?;
    let known = names(&text);
    let known = known.get(ip).and_then(Value::as_list).unwrap_or_default();
    let new: Vec<&str> = entries
        .split(',')
        .filter(|name| !known.contains(&(*name).into()))
        .collect();
    if new.is_empty() {
        return Ok(format!("No additional hosts were added to {file}").into());
    }
    let line = format!("\n{ip} {}", new.join(" "));
    fs::write(
        cx,
        Path::new(file),
        format!("{text}{line}").as_bytes(),
        Owner::default(),
    )?;
    Ok(format!("The following line was added to {file}:{line}").into())
}

fn hosts_remove(cx: &Exec, args: HostsRemove) -> Result<Value, Error> {
    let file = &args.hostsfile;
    let entries = args.entries.ok_or_else(|| Error::missing("entries"))?;
    let text = fs::text(file)?;
    let gone: Vec<&str> = entries.split(',').collect();
    let mut left = String::new();
    for line in text.lines() {
        let plain = line.is_empty() || line.trim().starts_with('#');
        let mut words = line.split_whitespace();
        let ip = words.next();
        let names: Vec<&str> = words.filter(|name| !gone.contains(name)).collect();
        if plain {
            left.push_str(line);
        } else if let Some(ip) = ip.filter(|_| !names.is_empty()) {
            left.push_str(&format!("{ip} {}", names.join(" ")));
        } else {
            continue;
        }
        left.push('\n');
    }
    fs::write(cx, Path::new(file), left.as_bytes(), Owner::default())?;
    Ok(Value::Null)
}

/// Calls `ask`, or returns Salt's message if dig is not installed.
fn needs_dig(ask: impl FnOnce() -> Result<Value, Error>) -> Result<Value, Error> {
    match which("dig") {
        Some(_) => ask(),
        None => Ok("This function requires dig, which is not currently available".into()),
    }
}

fn check_ip(_cx: &Exec, args: CheckIp) -> Result<Value, Error> {
    Ok(args.ip_addr.as_str().is_some_and(dig::is_ip).into())
}

fn addresses(cx: &Exec, host: &str, four: bool, nameserver: Option<&str>) -> Result<Value, Error> {
    match nameserver {
        None => dig::addresses(cx, host, four, None),
        Some(_) => needs_dig(|| dig::addresses(cx, host, four, nameserver)),
    }
}

fn A(cx: &Exec, args: RecordA) -> Result<Value, Error> {
    addresses(cx, &args.host, true, args.nameserver.as_deref())
}

fn AAAA(cx: &Exec, args: RecordAaaa) -> Result<Value, Error> {
    addresses(cx, &args.host, false, args.nameserver.as_deref())
}

fn NS(cx: &Exec, args: RecordNs) -> Result<Value, Error> {
    needs_dig(|| dig::servers(cx, &args.domain, args.resolve, args.nameserver.as_deref()))
}

fn SPF(cx: &Exec, args: RecordSpf) -> Result<Value, Error> {
    needs_dig(|| {
        dig::senders(
            cx,
            &args.domain,
            &args.record,
            args.nameserver.as_deref(),
            0,
        )
        .map(Value::list)
    })
}

fn MX(cx: &Exec, args: RecordMx) -> Result<Value, Error> {
    needs_dig(|| dig::mail(cx, &args.domain, args.resolve, args.nameserver.as_deref()))
}

fn serial(cx: &Exec, args: Serial) -> Result<Value, Error> {
    let key = match args.zone.as_str() {
        "" => "dnsserial".to_owned(),
        zone => format!("dnsserial_{zone}"),
    };
    let stored = cx.call_internal("grains.get", vec![key.as_str().into()], Map::new())?;
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
            Err(_) => Err(Error::refused(format!(
                "the stored serial '{stored}' is not a number: set the grain to a number"
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

    #[test]
    fn a_hosts_file_is_not_changed_without_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hosts");
        std::fs::write(&file, "::1 me\n").unwrap();
        let cx = crate::testing::exec();
        let file = file.to_str().unwrap();
        for (function, args) in [
            ("dnsutil.hosts_append", vec![file, "::2"]),
            ("dnsutil.hosts_remove", vec![file]),
        ] {
            let args = args.into_iter().map(Value::from).collect();
            let error = cx.call(function, args, Map::new()).unwrap_err();
            assert_eq!(error.to_string(), "Missing parameter entries");
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), "::1 me\n");
    }
}
