//! The `dig` execution module: looks up names and addresses with the program dig.
#![allow(
    non_snake_case,
    reason = "the functions have the names of the records that they ask for"
)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};

use machine::process::{Process, which};
use state::exec::Exec;
use state::module::Error;
use value::{Value, log};

state::exec_module! {
    /// Look up names and addresses.
    #[needs("dig", "The dig execution module cannot be loaded: the dig binary is not in the path.", "bind9-dnsutils")]
    mod dig;

    /// Return True for an address, or for a network in CIDR notation.
    ///
    ///     salt-call dig.check_ip 192.0.2.10
    fn check_ip(CheckIp {
        /// The address.
        addr: Value,
    });

    /// Return the IPv4 addresses of a name.
    ///
    ///     salt-call dig.A example.com
    fn A(RecordA {
        /// The name to look up.
        host: String,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the IPv6 addresses of a name.
    ///
    ///     salt-call dig.AAAA example.com
    fn AAAA(RecordAaaa {
        /// The name to look up.
        host: String,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the canonical name of an alias.
    ///
    ///     salt-call dig.CNAME www.example.com
    fn CNAME(RecordCname {
        /// The name to look up.
        host: String,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the mail servers of a domain, with their preference.
    ///
    ///     salt-call dig.MX example.com
    fn MX(RecordMx {
        /// The domain to look up.
        domain: String,
        /// True to return the addresses of the mail servers instead of their names.
        resolve: bool = false,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the name servers of a domain.
    ///
    ///     salt-call dig.NS example.com
    fn NS(RecordNs {
        /// The domain to look up.
        domain: String,
        /// True to return the addresses of the name servers instead of their names.
        resolve: bool = true,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the names of an address.
    ///
    ///     salt-call dig.PTR 192.0.2.10
    fn PTR(RecordPtr {
        /// The address to look up.
        host: String,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the networks that may send mail for a domain.
    ///
    ///     salt-call dig.SPF example.com
    fn SPF(RecordSpf {
        /// The domain to look up.
        domain: String,
        /// The type of the record to query: `SPF` or `TXT`.
        record: String = "SPF".into(),
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });

    /// Return the text records of a name.
    ///
    ///     salt-call dig.TXT example.com
    fn TXT(RecordTxt {
        /// The name to look up.
        host: String,
        /// The name server to query. The default is that of the system.
        nameserver: Option<String> = None,
    });
}

/// Returns true for an address, or for a network in CIDR notation.
pub(crate) fn is_ip(text: &str) -> bool {
    let (address, bits) = text
        .rsplit_once('/')
        .map_or((text, None), |(address, bits)| (address, Some(bits)));
    let within = |least: u8, most: u8| {
        bits.is_none_or(|bits| {
            bits.parse::<u8>()
                .is_ok_and(|bits| (least..=most).contains(&bits))
        })
    };
    (address.parse::<Ipv4Addr>().is_ok() && within(1, 32))
        || (address.parse::<Ipv6Addr>().is_ok() && within(8, 128))
}

fn check_ip(_cx: &Exec, args: CheckIp) -> Result<Value, Error> {
    Ok(args.addr.as_str().is_some_and(is_ip).into())
}

/// Returns the lines that `dig +short` prints, or `None` if it fails.
fn query(
    cx: &Exec,
    question: &[&str],
    nameserver: Option<&str>,
) -> Result<Option<Vec<String>>, Error> {
    if which("dig").is_none() {
        return Err(
            "The dig execution module cannot be loaded: the dig binary is not in the path.".into(),
        );
    }
    if let Some(odd) = question
        .iter()
        .find(|word| word.starts_with(['-', '@', '+']) && **word != "-x")
    {
        return Err(format!("'{odd}' is not a name").into());
    }
    let server = nameserver.map(|server| format!("@{server}"));
    let words = ["dig", "+short"]
        .into_iter()
        .chain(question.iter().copied())
        .chain(server.as_deref());
    let done = Process::words(words).run(cx)?;
    if !done.success() {
        log::warning(format_args!(
            "dig returned exit code '{}'. Returning empty list as fallback.",
            done.retcode.unwrap_or(-1)
        ));
        return Ok(None);
    }
    Ok(Some(
        done.stdout_regardless()
            .split('\n')
            .map(str::to_owned)
            .collect(),
    ))
}

/// Returns the addresses of a name. Uses dig, or the system's resolver if dig is missing and no
/// name server is given.
pub(crate) fn addresses(
    cx: &Exec,
    host: &str,
    four: bool,
    nameserver: Option<&str>,
) -> Result<Value, Error> {
    if which("dig").is_none() && nameserver.is_none() {
        return Ok(resolved(host, four)
            .map_or_else(|| format!("Unable to resolve {host}").into(), Value::from));
    }
    let kind = if four { "A" } else { "AAAA" };
    let mut found = query(cx, &[host, kind], nameserver)?.unwrap_or_default();
    found.retain(|line| is_ip(line));
    Ok(found.into())
}

/// Returns the distinct addresses that a name has in an address family.
fn resolved(host: &str, four: bool) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for address in (host, 0)
        .to_socket_addrs()
        .ok()?
        .map(|address| address.ip())
        .filter(|ip| ip.is_ipv4() == four)
    {
        let text = IpAddr::to_string(&address);
        if !found.contains(&text) {
            found.push(text);
        }
    }
    (!found.is_empty()).then_some(found)
}

fn A(cx: &Exec, args: RecordA) -> Result<Value, Error> {
    addresses(cx, &args.host, true, args.nameserver.as_deref())
}

fn AAAA(cx: &Exec, args: RecordAaaa) -> Result<Value, Error> {
    addresses(cx, &args.host, false, args.nameserver.as_deref())
}

fn lines(found: Option<Vec<String>>) -> Value {
    found.unwrap_or_default().into()
}

fn CNAME(cx: &Exec, args: RecordCname) -> Result<Value, Error> {
    let found = query(cx, &[&args.host, "CNAME"], args.nameserver.as_deref())?;
    Ok(found.map_or_else(|| Value::list([]), |lines| lines.join("\n").into()))
}

/// Returns the mail servers of a domain, each with its preference.
pub(crate) fn mail(
    cx: &Exec,
    domain: &str,
    resolve: bool,
    nameserver: Option<&str>,
) -> Result<Value, Error> {
    let mut hosts = Vec::new();
    for line in query(cx, &[domain, "MX"], nameserver)?.unwrap_or_default() {
        let mut words: Vec<Value> = line.split_whitespace().map(Value::from).collect();
        if resolve && let Some(host) = words.get_mut(1) {
            let found = addresses(cx, &host.to_text(), true, nameserver)?;
            *host = found
                .as_list()
                .and_then(<[_]>::first)
                .cloned()
                .unwrap_or_default();
        }
        hosts.push(Value::list(words));
    }
    Ok(Value::list(hosts))
}

fn MX(cx: &Exec, args: RecordMx) -> Result<Value, Error> {
    mail(cx, &args.domain, args.resolve, args.nameserver.as_deref())
}

/// Returns the name servers of a domain.
pub(crate) fn servers(
    cx: &Exec,
    domain: &str,
    resolve: bool,
    nameserver: Option<&str>,
) -> Result<Value, Error> {
    let names = query(cx, &[domain, "NS"], nameserver)?;
    if !resolve {
        return Ok(lines(names));
    }
    let mut found = Vec::new();
    for name in names
        .unwrap_or_default()
        .iter()
        .filter(|name| !name.is_empty())
    {
        let ips = addresses(cx, name, true, nameserver)?;
        found.extend(ips.as_list().unwrap_or_default().iter().cloned());
    }
    Ok(Value::list(found))
}

fn NS(cx: &Exec, args: RecordNs) -> Result<Value, Error> {
    servers(cx, &args.domain, args.resolve, args.nameserver.as_deref())
}

fn PTR(cx: &Exec, args: RecordPtr) -> Result<Value, Error> {
    Ok(lines(query(
        cx,
        &["-x", &args.host],
        args.nameserver.as_deref(),
    )?))
}

fn TXT(cx: &Exec, args: RecordTxt) -> Result<Value, Error> {
    Ok(lines(query(
        cx,
        &[&args.host, "TXT"],
        args.nameserver.as_deref(),
    )?))
}

/// The maximum number of domains that may include or redirect to one another.
const MAX_SPF: usize = 10;

/// Returns the networks that may send mail for a domain.
pub(crate) fn senders(
    cx: &Exec,
    domain: &str,
    record: &str,
    nameserver: Option<&str>,
    depth: usize,
) -> Result<Vec<Value>, Error> {
    if depth > MAX_SPF {
        return Ok(Vec::new());
    }
    let Some(text) = query(cx, &[domain, record], nameserver)?.map(|lines| lines.join("\n")) else {
        return Ok(Vec::new());
    };
    if text.is_empty() && record == "SPF" {
        return senders(cx, domain, "TXT", nameserver, depth + 1);
    }
    let text = text.replace('"', "");
    let mut sections = text.split_whitespace();
    if sections.next() != Some("v=spf1") {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for section in sections {
        if let Some(other) = section
            .strip_prefix("redirect=")
            .filter(|_| found.is_empty())
        {
            return senders(cx, other, "SPF", nameserver, depth + 1);
        }
        match section.trim_start_matches(['+', '~']).split_once(':') {
            Some(("include", other)) => {
                found.extend(senders(cx, other, "SPF", nameserver, depth + 1)?);
            }
            Some(("ip4" | "ip6", network)) if is_ip(network) => found.push(network.into()),
            _ => {}
        }
    }
    Ok(found)
}

fn SPF(cx: &Exec, args: RecordSpf) -> Result<Value, Error> {
    senders(
        cx,
        &args.domain,
        &args.record,
        args.nameserver.as_deref(),
        0,
    )
    .map(Value::list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_are_told_from_names() {
        for (text, wanted) in [
            ("10.0.0.1", true),
            ("10.0.0.0/24", true),
            ("10.0.0.0/0", false),
            ("fe80::1/64", true),
            ("::/4", false),
            ("example.org", false),
            ("10.0.0.1/x", false),
        ] {
            assert_eq!(is_ip(text), wanted, "{text}");
        }
        assert_eq!(
            resolved("127.0.0.1", true),
            Some(vec!["127.0.0.1".to_owned()])
        );
        assert_eq!(resolved("127.0.0.1", false), None);
    }
}
