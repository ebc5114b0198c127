//! The `ddns` execution module: changes the records of a name server with `nsupdate`, and reads
//! them with `dig`.

use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json, python};

use super::config;

state::exec_module! {
    /// Change DNS records with dynamic updates (RFC 2136).
    #[needs("nsupdate", "the program nsupdate is not in the path", "bind9-dnsutils")]
    #[needs("dig", "the program dig is not in the path", "bind9-dnsutils")]
    mod ddns;

    /// Add a record, or replace the records of its name and type. Return None if the record exists,
    /// and False if the server refuses the update.
    ///
    ///     salt-call ddns.update example.com web1 300 A 192.0.2.10
    fn update(Update {
        /// The name of the zone.
        zone: String,
        /// The name of the record in the zone, or a full name that ends with a dot.
        name: String,
        /// The time to live of the record, in seconds.
        ttl: i64,
        /// The type of the record.
        rdtype: String,
        /// The data of the record.
        data: String,
        /// The address of the name server.
        nameserver: String = "127.0.0.1".into(),
        /// The timeout for an answer, in seconds.
        timeout: i64 = 5,
        /// True to remove other records of this name and type.
        replace: bool = false,
        /// The port of the name server.
        port: i64 = 53,
        ..kwargs
    });

    /// Remove records. Return None if there are none, and False if the server refuses the update.
    ///
    ///     salt-call ddns.delete example.com web1
    fn delete(Delete {
        /// The name of the zone.
        zone: String,
        /// The name of the record in the zone, or a full name that ends with a dot.
        name: String,
        /// The type of the records. The default is all types.
        rdtype: Option<String> = None,
        /// The data of the record. The default is all records.
        data: Option<String> = None,
        /// The address of the name server.
        nameserver: String = "127.0.0.1".into(),
        /// The timeout for an answer, in seconds.
        timeout: i64 = 5,
        /// The port of the name server.
        port: i64 = 53,
        ..kwargs
    });

    /// Add or replace the records of a host: the address record, and the reverse record of the
    /// address.
    ///
    ///     salt-call ddns.add_host example.com web1 300 192.0.2.10
    fn add_host(AddHost {
        /// The name of the zone.
        zone: String,
        /// The name of the host in the zone.
        name: String,
        /// The time to live of the records, in seconds.
        ttl: i64,
        /// The address of the host.
        ip: String,
        /// The address of the name server.
        nameserver: String = "127.0.0.1".into(),
        /// True to remove other records of this name.
        replace: bool = true,
        /// The timeout for an answer, in seconds.
        timeout: i64 = 5,
        /// The port of the name server.
        port: i64 = 53,
        ..kwargs
    });

    /// Remove the records of a host: its address records, and the reverse record of each address.
    ///
    ///     salt-call ddns.delete_host example.com web1
    fn delete_host(DeleteHost {
        /// The name of the zone.
        zone: String,
        /// The name of the host in the zone.
        name: String,
        /// The address of the name server.
        nameserver: String = "127.0.0.1".into(),
        /// The timeout for an answer, in seconds.
        timeout: i64 = 5,
        /// The port of the name server.
        port: i64 = 53,
        ..kwargs
    });
}

/// A name server, and the settings of the key that signs the updates.
struct Server<'a> {
    address: &'a str,
    port: i64,
    timeout: i64,
    keys: &'a Map,
}

/// A DNS record of an answer.
struct Record {
    ttl: i64,
    kind: String,
    data: String,
}

/// Returns a word for a line of nsupdate's input. Refuses a word with white space, since a line
/// break would start another command.
fn word<'a>(text: &'a str, what: &str) -> Result<&'a str, Error> {
    let is_odd =
        text.is_empty() || text.starts_with(['-', '@', '+']) || text.contains(char::is_whitespace);
    match is_odd {
        true => Err(format!("{text:?} is not a valid {what}").into()),
        false => Ok(text),
    }
}

/// Returns a TSIG secret. It is not quoted in the error, and it may begin with `+`, a digit of base64.
fn tsig_secret<'a>(secret: &'a str, file: &str) -> Result<&'a str, Error> {
    match secret.is_empty() || secret.contains(char::is_whitespace) {
        true => Err(format!("the secret of the key in {file} is empty or contains a space").into()),
        false => Ok(secret),
    }
}

/// Returns the data of a record. Refuses data with a line break.
fn line(data: &str) -> Result<&str, Error> {
    match data.is_empty() || data.contains(['\n', '\r']) {
        true => Err(format!("{data:?} is not valid record data").into()),
        false => Ok(data),
    }
}

/// Returns the data of a record in a form that allows comparison.
fn normal(data: &str) -> String {
    let data = data.trim().replace('"', "").to_lowercase();
    data.trim_end_matches('.').to_owned()
}

/// Returns the full name, which ends with a dot.
fn full(name: &str, zone: &str) -> String {
    let zone = zone.trim_end_matches('.');
    match name.ends_with('.') {
        true => name.to_owned(),
        false => format!("{name}.{zone}."),
    }
}

impl Server<'_> {
    /// Returns the records that the server has for a name.
    fn look(&self, cx: &Exec, name: &str, kind: &str) -> Result<Vec<Record>, Error> {
        let server = format!("@{}", word(self.address, "name server")?);
        let (port, time) = (self.port.to_string(), format!("+time={}", self.timeout));
        let words = [
            "dig",
            &server,
            "-p",
            &port,
            "+noall",
            "+answer",
            "+tries=1",
            &time,
            "-q",
            word(name, "name")?,
            "-t",
            word(kind, "type")?,
        ];
        let done = Process::words(words).quiet().run(cx)?;
        if !done.success() {
            return Err(format!(
                "cannot look up {name} at {}: {}{}",
                self.address,
                done.stdout_regardless(),
                done.stderr
            )
            .into());
        }
        let record = |line: &str| {
            let mut words = line.split_whitespace();
            let (_, ttl, _, kind) = (words.next()?, words.next()?, words.next()?, words.next()?);
            Some(Record {
                ttl: ttl.parse().ok()?,
                kind: kind.to_owned(),
                data: words.collect::<Vec<_>>().join(" "),
            })
        };
        let lines = done
            .stdout_regardless()
            .lines()
            .filter(|line| !line.starts_with(';'));
        Ok(lines.filter_map(record).collect())
    }

    /// Returns the line of nsupdate's input with the key, or `None` if no key is configured. Other
    /// users cannot see the key, since it is passed through standard input.
    fn key(&self, cx: &Exec) -> Result<Option<String>, Error> {
        let option = |name: &str| match self.keys.get(name) {
            Some(given) => Ok::<_, Error>(Some(given.clone())),
            None => Ok(Some(config::found(cx, &format!("ddns.{name}"))?).filter(Value::is_true)),
        };
        let Some(file) = option("keyfile")?.filter(Value::is_true) else {
            return Ok(None);
        };
        let file = python::str(&file);
        let text = machine::fs::text(&file)?;
        let keys = json::read(&text)
            .map_err(|error| format!("cannot read the keys in {file} as JSON: {error}"))?;
        let name = option("keyname")?.map(|name| python::str(&name));
        let keys = keys.as_map().cloned().unwrap_or_default();
        let is_it = |key: &Value| {
            let known = key.to_text();
            name.as_ref()
                .is_none_or(|name| known.trim_end_matches('.') == name.trim_end_matches('.'))
        };
        let mut known = keys.iter().filter(|(key, _)| is_it(key));
        let (key, secret) = known
            .next()
            .ok_or_else(|| format!("{file} has no key {}", name.as_deref().unwrap_or_default()))?;
        let algorithm = option("keyalgorithm")?.map(|name| python::str(&name).to_lowercase());
        let algorithm = match algorithm.as_deref().map(|name| name.trim_end_matches('.')) {
            None | Some("hmac-md5.sig-alg.reg.int") => "hmac-md5".to_owned(),
            Some(other) => other.to_owned(),
        };
        let (key, secret) = (key.to_text(), secret.to_text());
        Ok(Some(format!(
            "key {}:{} {}\n",
            word(&algorithm, "algorithm")?,
            word(&key, "key")?,
            tsig_secret(&secret, &file)?
        )))
    }

    /// Sends changes of a zone to the server, and returns whether the server has accepted them.
    fn change(&self, cx: &Exec, zone: &str, lines: &str) -> Result<bool, Error> {
        let key = self.key(cx)?.unwrap_or_default();
        let (server, port) = (word(self.address, "name server")?, self.port);
        let zone = word(zone, "zone")?.trim_end_matches('.');
        let stdin = format!("server {server} {port}\n{key}zone {zone}.\n{lines}send\n");
        let wait = self.timeout.to_string();
        let process = Process {
            stdin: Some(stdin),
            ..Process::words(["nsupdate", "-t", &wait, "-u", &wait]).quiet()
        };
        let done = process.run(cx)?;
        if done.success() {
            return Ok(true);
        }
        value::log::error(format_args!(
            "{server} refused the update of {zone}: {}",
            done.stderr
        ));
        match done.stderr.contains("update failed") {
            true => Ok(false),
            // It is not known whether the server has applied the change.
            false => Err(format!("nsupdate: {}", done.stderr).into()),
        }
    }

    fn update(
        &self,
        cx: &Exec,
        zone: &str,
        name: &str,
        (ttl, kind, data): (i64, &str, &str),
        replace: bool,
    ) -> Result<Option<bool>, Error> {
        let (name, data) = (full(name, zone), line(data)?);
        let known = self.look(cx, &name, kind)?;
        let is_it = |it: &Record| {
            it.ttl == ttl && it.kind.eq_ignore_ascii_case(kind) && normal(&it.data) == normal(data)
        };
        if !replace && known.iter().any(is_it) {
            return Ok(None);
        }
        let gone = match replace {
            true => format!("update delete {name} {kind}\n"),
            false => String::new(),
        };
        let lines = format!("{gone}update add {name} {ttl} {kind} {data}\n");
        self.change(cx, zone, &lines).map(Some)
    }

    fn delete(
        &self,
        cx: &Exec,
        zone: &str,
        name: &str,
        kind: Option<&str>,
        data: Option<&str>,
    ) -> Result<Option<bool>, Error> {
        let name = full(name, zone);
        if self.look(cx, &name, kind.unwrap_or("ANY"))?.is_empty() {
            return Ok(None);
        }
        let rest = match (kind, data) {
            (None, _) => String::new(),
            (Some(kind), None) => format!(" {kind}"),
            (Some(kind), Some(data)) => format!(" {kind} {}", line(data)?),
        };
        self.change(cx, zone, &format!("update delete {name}{rest}\n"))
            .map(Some)
    }
}

/// Returns the reverse zones that an IPv4 address may belong to, each with the name of the address
/// in it. The smallest zone comes first.
fn reverse(ip: &str) -> Vec<(String, String)> {
    let parts: Vec<&str> = ip.split('.').rev().collect();
    let at = |count: usize| {
        let (name, zone) = parts.split_at_checked(count)?;
        Some((format!("{}.in-addr.arpa.", zone.join(".")), name.join(".")))
    };
    (1..parts.len()).filter_map(at).collect()
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let server = Server {
        address: &args.nameserver,
        port: args.port,
        timeout: args.timeout,
        keys: &args.kwargs,
    };
    let record = (args.ttl, args.rdtype.as_str(), args.data.as_str());
    let done = server.update(cx, &args.zone, &args.name, record, args.replace)?;
    Ok(done.map_or(Value::Null, Value::from))
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    let server = Server {
        address: &args.nameserver,
        port: args.port,
        timeout: args.timeout,
        keys: &args.kwargs,
    };
    let (kind, data) = (args.rdtype.as_deref(), args.data.as_deref());
    let done = server.delete(cx, &args.zone, &args.name, kind, data)?;
    Ok(done.map_or(Value::Null, Value::from))
}

fn add_host(cx: &Exec, args: AddHost) -> Result<Value, Error> {
    let server = Server {
        address: &args.nameserver,
        port: args.port,
        timeout: args.timeout,
        keys: &args.kwargs,
    };
    let done = server.update(
        cx,
        &args.zone,
        &args.name,
        (args.ttl, "A", &args.ip),
        args.replace,
    )?;
    if done == Some(false) {
        return Ok(false.into());
    }
    let host = full(&args.name, &args.zone);
    for (zone, name) in reverse(&args.ip) {
        let record = (args.ttl, "PTR", host.as_str());
        if server.update(cx, &zone, &name, record, args.replace)? == Some(true) {
            return Ok(true.into());
        }
    }
    Ok(done.map_or(Value::Null, Value::from))
}

fn delete_host(cx: &Exec, args: DeleteHost) -> Result<Value, Error> {
    let server = Server {
        address: &args.nameserver,
        port: args.port,
        timeout: args.timeout,
        keys: &args.kwargs,
    };
    let host = full(&args.name, &args.zone);
    let known = server.look(cx, &host, "A")?;
    let mut done = server.delete(cx, &args.zone, &args.name, None, None)?;
    for ip in known.iter().filter(|record| record.kind == "A") {
        for (zone, name) in reverse(&ip.data) {
            if server.delete(cx, &zone, &name, Some("PTR"), Some(&host))? == Some(true) {
                done = Some(true);
            }
        }
    }
    Ok(done.map_or(Value::Null, Value::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_several_zones() {
        let zones = reverse("10.1.2.3");
        assert_eq!(
            zones[0],
            ("2.1.10.in-addr.arpa.".to_owned(), "3".to_owned())
        );
        assert_eq!(
            zones[2],
            ("10.in-addr.arpa.".to_owned(), "3.2.1".to_owned())
        );
        assert_eq!(zones.len(), 3);
    }

    #[test]
    fn nothing_becomes_a_command_of_its_own() {
        assert!(line("10.0.0.1\nupdate delete example.com").is_err());
        assert!(word("a b", "name").is_err() && word("-x", "name").is_err());
        assert_eq!(full("web", "example.com."), "web.example.com.");
        assert_eq!(full("web.example.com.", "example.com"), "web.example.com.");
    }
}
