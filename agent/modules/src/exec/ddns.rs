//! The `ddns` execution module: records of a name server, changed through `nsupdate` and looked at with `dig`.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, json, python};

use super::config;
use crate::process::Process;

state::exec_module! {
    /// Dynamic updates of DNS (RFC 2136).
    mod ddns;

    /// Add a record, or replace those of its name and type. None where it is there, False where the server refuses.
    fn update(Update {
        /// The zone.
        zone: String,
        /// The name in it, or a whole name with a full stop at its end.
        name: String,
        /// Seconds that the record may be kept.
        ttl: i64,
        /// Its type.
        rdtype: String,
        /// What it says.
        data: String,
        /// The server.
        nameserver: String = "127.0.0.1".into(),
        /// Seconds to wait for an answer.
        timeout: i64 = 5,
        /// Whether other records of this name and type go.
        replace: bool = false,
        /// The server's port.
        port: i64 = 53,
        ..kwargs
    });

    /// Remove records. None where there are none, False where the server refuses.
    fn delete(Delete {
        /// The zone.
        zone: String,
        /// The name in it, or a whole name with a full stop at its end.
        name: String,
        /// The type; all of them where none is named.
        rdtype: Option<String> = None,
        /// What the record says; all of them where nothing is named.
        data: Option<String> = None,
        /// The server.
        nameserver: String = "127.0.0.1".into(),
        /// Seconds to wait for an answer.
        timeout: i64 = 5,
        /// The server's port.
        port: i64 = 53,
        ..kwargs
    });

    /// Add or replace the records of a host: its address, and the name of the address.
    fn add_host(AddHost {
        /// The zone.
        zone: String,
        /// The name in it.
        name: String,
        /// Seconds that the records may be kept.
        ttl: i64,
        /// The address.
        ip: String,
        /// The server.
        nameserver: String = "127.0.0.1".into(),
        /// Whether other records of this name go.
        replace: bool = true,
        /// Seconds to wait for an answer.
        timeout: i64 = 5,
        /// The server's port.
        port: i64 = 53,
        ..kwargs
    });

    /// Remove the records of a host: its addresses, and the name of each.
    fn delete_host(DeleteHost {
        /// The zone.
        zone: String,
        /// The name in it.
        name: String,
        /// The server.
        nameserver: String = "127.0.0.1".into(),
        /// Seconds to wait for an answer.
        timeout: i64 = 5,
        /// The server's port.
        port: i64 = 53,
        ..kwargs
    });
}

/// A name server, and with which key it is spoken to.
struct Server<'a> {
    address: &'a str,
    port: i64,
    timeout: i64,
    keys: &'a Map,
}

/// A record of an answer.
struct Record {
    ttl: i64,
    kind: String,
    data: String,
}

/// A word of a line of nsupdate: a line of its own would be a command of its own.
fn word<'a>(text: &'a str, what: &str) -> Result<&'a str, Error> {
    let is_odd =
        text.is_empty() || text.starts_with(['-', '@', '+']) || text.contains(char::is_whitespace);
    match is_odd {
        true => Err(format!("{text:?} cannot be a {what}").into()),
        false => Ok(text),
    }
}

/// What a record says, in one line.
fn line(data: &str) -> Result<&str, Error> {
    match data.is_empty() || data.contains(['\n', '\r']) {
        true => Err(format!("{data:?} cannot be the data of a record").into()),
        false => Ok(data),
    }
}

/// What records say, so that the same is the same text.
fn normal(data: &str) -> String {
    let data = data.trim().replace('"', "").to_lowercase();
    data.trim_end_matches('.').to_owned()
}

/// A whole name.
fn full(name: &str, zone: &str) -> String {
    let zone = zone.trim_end_matches('.');
    match name.ends_with('.') {
        true => name.to_owned(),
        false => format!("{name}.{zone}."),
    }
}

impl Server<'_> {
    /// The records of a name that the server itself has.
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
                "{} tells nothing of {name}: {}{}",
                self.address, done.stdout, done.stderr
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
        let lines = done.stdout.lines().filter(|line| !line.starts_with(';'));
        Ok(lines.filter_map(record).collect())
    }

    /// The line that names the key; nothing where none is configured. It is read from nsupdate's input: no other account sees it.
    fn key(&self, cx: &Exec) -> Result<Option<String>, Error> {
        let option = |name: &str| match self.keys.get(name) {
            Some(given) => Ok::<_, Error>(Some(given.clone())),
            None => Ok(Some(config::found(cx, &format!("ddns.{name}"))?).filter(Value::is_true)),
        };
        let Some(file) = option("keyfile")?.filter(Value::is_true) else {
            return Ok(None);
        };
        let file = python::str(&file);
        let text = crate::fs::text(&file)?;
        let keys =
            json::read(&text).map_err(|error| format!("{file} holds no keys in JSON: {error}"))?;
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
            word(&secret, "key")?
        )))
    }

    /// Changes the zone: whether the server has taken it.
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
            "{server} does not take a change of {zone}: {}",
            done.stderr
        ));
        match done.stderr.contains("update failed") {
            true => Ok(false),
            // Whether it was taken is not known.
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

/// The zones of addresses that one may be in, with the name in each: from the smallest on.
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
