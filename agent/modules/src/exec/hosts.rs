//! The `hosts` execution module: `/etc/hosts`.

use std::path::{Path, PathBuf};

use machine::fs;
use python::text;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::config;

state::exec_module! {
    /// Manage the entries of `/etc/hosts`.
    mod hosts;

    /// Return the entries of the file: addresses with their names and comments.
    ///
    ///     salt-call hosts.list_hosts
    fn list_hosts(ListHosts {});

    /// Return the address of a name, or an empty text if it has none.
    ///
    ///     salt-call hosts.get_ip db1.example.com
    fn get_ip(GetIp {
        /// The name.
        host: String,
    });

    /// Return the names of an address.
    ///
    ///     salt-call hosts.get_alias 10.0.0.7
    fn get_alias(GetAlias {
        /// The address.
        ip: String,
    });

    /// Return True if an address has a name, or all of several names.
    ///
    ///     salt-call hosts.has_pair 10.0.0.7 db1.example.com
    fn has_pair(HasPair {
        /// The address.
        ip: String,
        /// The name, or a list of names.
        alias: Value,
    });

    /// Set the names of an address; other names are removed. Without names the address is removed.
    ///
    ///     salt-call hosts.set_host 10.0.0.7 db1.example.com
    fn set_host(SetHost {
        /// The address.
        ip: String,
        /// The names, separated by spaces.
        alias: String,
        /// A comment at the end of the line.
        comment: Option<String> = None,
    });

    /// Remove a name from an address.
    ///
    ///     salt-call hosts.rm_host 10.0.0.7 db1.example.com
    fn rm_host(RmHost {
        /// The address.
        ip: String,
        /// The name.
        alias: String,
    });

    /// Add a name to an address.
    ///
    ///     salt-call hosts.add_host 10.0.0.7 db1.example.com
    fn add_host(AddHost {
        /// The address.
        ip: String,
        /// The name.
        alias: String,
    });

    /// Set the comment of an address.
    ///
    ///     salt-call hosts.set_comment 10.0.0.7 database
    fn set_comment(SetComment {
        /// The address.
        ip: String,
        /// The comment.
        comment: String,
    });
}

/// Returns the path of the file, which the option `hosts.file` can change.
fn path(cx: &Exec) -> Result<PathBuf, Error> {
    let path = config::found(cx, "hosts.file")?;
    Ok(path.to_text().into())
}

/// Returns the text of the file; it is empty if the file does not exist.
fn read(path: &Path) -> Result<String, Error> {
    let bytes = fs::read_or_none(path)?.unwrap_or_default();
    Ok(text::decoded(&bytes))
}

fn write(cx: &Exec, path: &Path, contents: &str) -> Result<(), Error> {
    fs::write(cx, path, contents.as_bytes(), fs::Owner::default())
}

/// Returns the entries of the file in Salt's form: each address once, and comment lines under
/// generated names.
fn listed(contents: &str) -> Map {
    let (mut found, mut comments) = (Map::new(), 0);
    for line in contents.lines().map(str::trim) {
        if line.starts_with('#') {
            found.insert(format!("comment-{comments}"), Value::list([line.into()]));
            comments += 1;
            continue;
        }
        let (host, comment) = line.split_once('#').unwrap_or((line, ""));
        let mut words = host.split_whitespace();
        let Some(ip) = words.next() else {
            continue;
        };
        let entry = found.entry(ip, || Map::new().with("aliases", Value::list([])).into());
        let aliases = entry
            .as_map_mut()
            .and_then(|entry| entry.get_mut("aliases"));
        if let Some(aliases) = aliases.and_then(Value::as_list_mut) {
            aliases.extend(words.map(Value::from));
        }
        if let (false, Some(entry)) = (comment.trim().is_empty(), entry.as_map_mut()) {
            entry.insert("comment", comment.trim_start());
        }
    }
    found
}

/// Returns the contents of the file for these entries.
fn written(hosts: &Map) -> String {
    let mut contents = String::new();
    for (ip, entry) in hosts {
        let line = match entry {
            Value::Map(entry) => {
                let names = names(entry).join(" ");
                match entry.get("comment") {
                    Some(comment) => {
                        format!("{}\t\t{names}\t\t# {}", ip.to_text(), comment.to_text())
                    }
                    None => format!("{}\t\t{names}", ip.to_text()),
                }
            }
            other => crate::exec::service::providers::names(other).concat(),
        };
        contents.push_str(line.trim());
        contents.push('\n');
    }
    contents
}

fn names(entry: &Map) -> Vec<String> {
    entry
        .get("aliases")
        .map(crate::exec::service::providers::names)
        .unwrap_or_default()
}

fn aliases(hosts: &Map, ip: &str) -> Option<Vec<String>> {
    hosts.get(ip)?.as_map().map(names)
}

fn hosts(cx: &Exec) -> Result<Map, Error> {
    Ok(listed(&read(&path(cx)?)?))
}

fn list_hosts(cx: &Exec, _args: ListHosts) -> Result<Value, Error> {
    hosts(cx).map(Value::from)
}

fn get_ip(cx: &Exec, args: GetIp) -> Result<Value, Error> {
    let hosts = hosts(cx)?;
    let mut entries = hosts.iter();
    let found = entries.find(|(_, entry)| {
        let names = entry.as_map().map(names).unwrap_or_default();
        names.contains(&args.host)
    });
    Ok(found.map_or_else(|| "".into(), |(ip, _)| ip.clone()))
}

fn get_alias(cx: &Exec, args: GetAlias) -> Result<Value, Error> {
    Ok(aliases(&hosts(cx)?, &args.ip).unwrap_or_default().into())
}

fn has_pair(cx: &Exec, args: HasPair) -> Result<Value, Error> {
    let wanted = match &args.alias {
        Value::List(_) => crate::exec::service::providers::names(&args.alias),
        one => vec![one.to_text()],
    };
    let aliases = aliases(&hosts(cx)?, &args.ip);
    let has_all = |names: Vec<String>| wanted.iter().all(|name| names.contains(name));
    Ok(aliases.is_some_and(has_all).into())
}

/// Returns an error if a value would result in more than one line, or in another entry.
fn check(ip: &str, alias: &str) -> Result<(), Error> {
    let is_word = |text: &str| !text.is_empty() && !text.contains([' ', '\t', '\n', '#']);
    if is_word(ip) && !alias.contains(['\n', '#']) {
        return Ok(());
    }
    Err(Error::refused(format!(
        "'{ip}' and '{alias}' are not a valid entry of a hosts file"
    )))
}

fn set_host(cx: &Exec, args: SetHost) -> Result<Value, Error> {
    check(&args.ip, &args.alias)?;
    let path = path(cx)?;
    let before = read(&path)?;
    let mut line = match args.comment.filter(|comment| !comment.is_empty()) {
        Some(comment) => format!("{}\t\t{}\t\t# {comment}\n", args.ip, args.alias),
        None => format!("{}\t\t{}\n", args.ip, args.alias),
    };
    if args.alias.trim().is_empty() {
        line.clear();
    }
    let (mut after, mut is_set) = (String::new(), false);
    for each in text::lines(&before) {
        if each.split_whitespace().next() != Some(&args.ip) {
            after.push_str(each);
        } else if !is_set {
            after.push_str(&line);
            is_set = true;
        }
    }
    if !is_set {
        if !after.is_empty() && !after.ends_with('\n') {
            after.push('\n');
        }
        after.push_str(&line);
    }
    write(cx, &path, &after)?;
    Ok(true.into())
}

fn rm_host(cx: &Exec, args: RmHost) -> Result<Value, Error> {
    let path = path(cx)?;
    let before = read(&path)?;
    let has = aliases(&listed(&before), &args.ip).is_some_and(|names| names.contains(&args.alias));
    if !has {
        return Ok(true.into());
    }
    let after: String = text::lines(&before)
        .into_iter()
        .map(|line| without(line, &args.ip, &args.alias))
        .collect();
    write(cx, &path, &after)?;
    Ok(true.into())
}

/// Returns a line without a name. The result is empty if that was the only name.
fn without(line: &str, ip: &str, alias: &str) -> String {
    let (host, comment) = line.split_once('#').unwrap_or((line, ""));
    let mut words = host.split_whitespace();
    if words.next() != Some(ip) {
        return line.to_owned();
    }
    let kept: Vec<&str> = words.filter(|name| *name != alias).collect();
    match (kept.is_empty(), comment.trim()) {
        (true, _) => String::new(),
        (false, "") => format!("{ip}\t\t{} \n", kept.join(" ")),
        (false, comment) => format!("{ip}\t\t{} # {comment}\n", kept.join(" ")),
    }
}

fn add_host(cx: &Exec, args: AddHost) -> Result<Value, Error> {
    check(&args.ip, &args.alias)?;
    let path = path(cx)?;
    let mut hosts = listed(&read(&path)?);
    let mut names = aliases(&hosts, &args.ip).unwrap_or_default();
    if names.contains(&args.alias) {
        return Ok(true.into());
    }
    names.push(args.alias);
    let entry = hosts.entry(args.ip, || Map::new().into());
    if let Some(entry) = entry.as_map_mut() {
        entry.insert("aliases", names);
    }
    write(cx, &path, &written(&hosts))?;
    Ok(true.into())
}

fn set_comment(cx: &Exec, args: SetComment) -> Result<Value, Error> {
    check(&args.ip, &args.comment)?;
    let path = path(cx)?;
    let mut hosts = listed(&read(&path)?);
    let Some(entry) = hosts.get_mut(&args.ip).and_then(Value::as_map_mut) else {
        return Ok(false.into());
    };
    let comment = Value::from(args.comment);
    if entry.get("comment") != Some(&comment) {
        entry.insert("comment", comment);
        write(cx, &path, &written(&hosts))?;
    }
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_listed_once_and_comments_stay() {
        let file = "# top\n\n127.0.0.1 localhost\n10.0.0.1\ta b # two\n127.0.0.1 again\n#end\n";
        let hosts = listed(file);
        assert_eq!(
            aliases(&hosts, "127.0.0.1").unwrap(),
            ["localhost", "again"]
        );
        assert_eq!(
            written(&hosts),
            "# top\n127.0.0.1\t\tlocalhost again\n10.0.0.1\t\ta b\t\t# two\n#end\n"
        );
    }

    #[test]
    fn a_name_is_taken_from_its_line() {
        assert_eq!(
            without("1.1.1.1 a b # c\n", "1.1.1.1", "a"),
            "1.1.1.1\t\tb # c\n"
        );
        assert_eq!(without("1.1.1.1 a\n", "1.1.1.1", "a"), "");
        assert_eq!(without("# 1.1.1.1 a\n", "1.1.1.1", "a"), "# 1.1.1.1 a\n");
    }
}
