//! The `ipset` execution module: manages the kernel's sets of addresses, networks and ports with
//! the program `ipset`.

use std::net::IpAddr;

use ::python::shlex;
use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::networks::Network;
use value::{Map, Value, python};

state::exec_module! {
    /// Manage sets of addresses, networks and ports for the packet filter (`ipset`).
    #[needs("ipset", "The ipset execution modules cannot be loaded: ipset binary not in path.")]
    mod ipset;

    /// Return the version of the program.
    ///
    ///     salt-call ipset.version
    fn version(Version {});

    /// Create a set. Further options of the type, such as `range`, `timeout` or `maxelem`, are
    /// passed by name.
    ///
    ///     salt-call ipset.new_set blocked hash:ip
    fn new_set(NewSet {
        /// The name of the set.
        name: Option<String> = None,
        /// The type of the set, such as `hash:ip`.
        set_type: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        /// Whether the entries may have comments.
        comment: bool = false,
        ..kwargs
    });

    /// Remove a set.
    ///
    ///     salt-call ipset.delete_set blocked
    fn delete_set(DeleteSet {
        /// The set.
        name: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Rename a set.
    ///
    ///     salt-call ipset.rename_set blocked refused
    fn rename_set(RenameSet {
        /// The set.
        name: Option<String> = None,
        /// The new name of the set.
        new_set: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Return the sets without their entries.
    ///
    ///     salt-call ipset.list_sets
    fn list_sets(ListSets {
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Return True if a set of this name exists.
    ///
    ///     salt-call ipset.check_set blocked
    fn check_set(CheckSet {
        /// The set.
        name: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Add an entry to a set.
    ///
    ///     salt-call ipset.add blocked 198.51.100.7
    fn add(Add {
        /// The set.
        name: Option<String> = None,
        /// The entry, followed by its options.
        entry: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Remove an entry from a set.
    ///
    ///     salt-call ipset.delete blocked 198.51.100.7
    fn delete(Delete {
        /// The set.
        name: Option<String> = None,
        /// The entry.
        entry: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Return True if a set contains an entry, either itself or as a part of another entry.
    ///
    ///     salt-call ipset.check blocked 198.51.100.7
    fn check(Check {
        /// The set.
        name: Option<String> = None,
        /// The entry, or a list of entries.
        entry: Value = Value::Null,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });

    /// Return True if the kernel finds an entry in a set.
    ///
    ///     salt-call ipset.test blocked 198.51.100.7
    fn test(Test {
        /// The set.
        name: Option<String> = None,
        /// The entry.
        entry: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Remove all entries from a set, or from all sets.
    ///
    ///     salt-call ipset.flush blocked
    fn flush(Flush {
        /// The set. The default is all sets.
        name: Option<String> = None,
        /// The address family: `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
    });
}

const NO_SET: &str = "Error: Set needs to be specified";
const NO_ENTRY: &str = "Error: Entry needs to be specified";

/// The types of sets that contain addresses of one family.
const HASHES: &str = "hash:ip hash:net hash:net,net hash:net,port hash:net,port,net hash:ip,port,ip hash:ip,port,net \
    hash:ip,port hash:net,iface";

/// The options that have no value.
const FLAGS: [&str; 4] = ["comment", "counters", "skbinfo", "nomatch"];

/// Returns the options that a set of this type can be created with; `None` if there is no such
/// type.
fn creating(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "bitmap:ip" => "range netmask timeout counters comment skbinfo",
        "bitmap:ip,mac" | "bitmap:port" => "range timeout counters comment skbinfo",
        "hash:mac" => "hashsize maxelem timeout counters comment skbinfo",
        "hash:ip,mark" => "family markmask hashsize maxelem timeout counters comment skbinfo",
        "list:set" => "size timeout counters comment",
        _ if HASHES.split(' ').any(|known| known == kind) => {
            "family hashsize maxelem netmask timeout counters comment skbinfo"
        }
        _ => return None,
    })
}

/// The options of an entry, each with the option that its set must have been created with.
const ADDING: [(&str, &str); 8] = [
    ("timeout", "timeout"),
    ("packets", "counters"),
    ("bytes", "counters"),
    ("comment", "comment"),
    ("skbmark", "skbinfo"),
    ("skbprio", "skbinfo"),
    ("skbqueue", "skbinfo"),
    ("nomatch", ""),
];

/// Runs the program. The names of sets and entries are never interpreted as options.
fn run(cx: &Exec, command: &[&str], rest: &[String]) -> Result<Output, Error> {
    if let Some(word) = rest
        .iter()
        .find(|word| word.starts_with('-') && *word != "-exist")
    {
        return Err(format!("'{word}' is not the name of a set, an entry or a value").into());
    }
    let rest = rest.iter().map(String::as_str);
    Process::words(["ipset"].iter().chain(command).copied().chain(rest))
        .quiet()
        .run(cx)
}

/// Returns the output of the program; it is not empty if the program fails.
fn output_text(done: Output) -> String {
    let said = [done.stdout_regardless(), done.stderr.as_str()];
    let said = said.into_iter().filter(|text| !text.is_empty());
    let said: Vec<&str> = said.collect();
    match (said.is_empty(), done.success()) {
        (true, false) => format!("ipset exited with status {}", done.retcode.unwrap_or(-1)),
        _ => said.join("\n"),
    }
}

/// Returns True, or the output of the program if there is any.
fn true_or(done: Output) -> Value {
    let said = output_text(done);
    match said.is_empty() {
        true => true.into(),
        false => said.into(),
    }
}

/// Returns information about a set; `None` if it does not exist.
fn find_set(cx: &Exec, name: &str) -> Result<Option<Map>, Error> {
    let done = run(cx, &["list", "-t"], &[name.to_owned()])?;
    let pair = |line: &str| {
        let (key, value) = line.split_once(':')?;
        Some((
            key.to_owned(),
            value.get(1..).unwrap_or_default().to_owned(),
        ))
    };
    Ok(done
        .success()
        .then(|| done.stdout_regardless().lines().filter_map(pair).collect()))
}

fn text(known: &Map, key: &str) -> String {
    known.get(key).map(Value::to_text).unwrap_or_default()
}

/// Returns whether a set of this name exists.
///
/// # Errors
/// When the program is missing.
pub(crate) fn exists(cx: &Exec, name: &str) -> Result<bool, Error> {
    Ok(find_set(cx, name)?.is_some())
}

/// Creates a set. Returns an error message if that fails.
///
/// # Errors
/// When the program is missing.
pub(crate) fn make(
    cx: &Exec,
    name: &str,
    kind: &str,
    family: &str,
    options: &Map,
) -> Result<Option<String>, Error> {
    let inet = match family {
        "ipv4" | "ip4" => "inet",
        "ipv6" | "ip6" => "inet6",
        _ => {
            return Ok(Some(format!(
                "Error: unknown family {family}: expected ipv4 or ipv6"
            )));
        }
    };
    let refused = match (name, kind, creating(kind)) {
        ("", ..) => Some("Error: Set Name needs to be specified"),
        (_, "", _) => Some("Error: Set Type needs to be specified"),
        (.., None) => Some("Error: Set Type is invalid"),
        (_, kind, _) if kind.starts_with("bitmap") && !options.contains("range") => {
            Some("Error: range is a required argument")
        }
        _ => None,
    };
    if let Some(refused) = refused {
        return Ok(Some(refused.to_owned()));
    }
    let mut words = vec![name.to_owned(), kind.to_owned()];
    for option in creating(kind).unwrap_or_default().split(' ') {
        match (option, options.get(option)) {
            ("family", _) => words.extend(["family".to_owned(), inet.to_owned()]),
            (_, None) => {}
            ("comment", Some(value)) if !value.is_true() => {}
            (_, Some(_)) if FLAGS.contains(&option) => words.push(option.to_owned()),
            (_, Some(value)) => words.extend([option.to_owned(), python::str(value)]),
        }
    }
    let said = output_text(run(cx, &["create"], &words)?);
    Ok(Some(said).filter(|said| !said.is_empty()))
}

/// Runs a command, such as `flush` or `destroy`, on a set. Returns the output of the program, which
/// is empty on success.
///
/// # Errors
/// When the program is missing.
pub(crate) fn run_on(cx: &Exec, command: &str, name: &str) -> Result<String, Error> {
    Ok(output_text(run(cx, &[command], &[name.to_owned()])?))
}

/// Returns the options of an entry: each with its value, which is empty for a flag.
fn options(words: &[String]) -> Vec<(&str, &str)> {
    let mut words = words.iter().map(String::as_str);
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let is_flag = word == "nomatch";
        found.push((
            word,
            if is_flag {
                ""
            } else {
                words.next().unwrap_or_default()
            },
        ));
    }
    found
}

/// A part of an entry.
#[derive(PartialEq)]
enum Part {
    Ip(IpAddr),
    Net(Network),
    /// The range from the first address to the second one.
    Range(IpAddr, IpAddr),
    Text(String),
}

fn part(text: &str, kind: &str) -> Part {
    let ip = |text: &str| text.parse::<IpAddr>().ok();
    let range = text
        .split_once('-')
        .and_then(|(from, to)| Some((ip(from)?, ip(to)?)));
    match (ip(text), range, Network::parse(text, false)) {
        _ if kind != "ip" && kind != "net" => Part::Text(text.to_owned()),
        (Some(ip), ..) => Part::Ip(ip),
        (_, Some((from, to)), _) => Part::Range(from, to),
        (.., Ok(net)) => Part::Net(net),
        _ => Part::Text(text.to_owned()),
    }
}

/// An entry: its parts, which depend on the type of the set, and its options.
struct Entry {
    parts: Vec<Part>,
    options: Vec<String>,
}

impl Entry {
    fn parse(text: &str, kind: &str) -> Result<Self, Error> {
        let mut words = shlex::split(text)?.into_iter();
        let entry = words.next().unwrap_or_default();
        let kinds = kind.split_once(':').map_or("", |(_, kinds)| kinds);
        let parts = entry.split(',').zip(kinds.split(','));
        Ok(Self {
            parts: parts.map(|(text, kind)| part(text, kind)).collect(),
            options: words.collect(),
        })
    }

    /// Returns whether this entry contains another one. Parts and options that the other one does
    /// not name are ignored.
    fn has(&self, other: &Self) -> bool {
        let own = options(&self.options);
        let is_same = |option: &(&str, &str)| own.contains(option);
        self.parts.len() >= other.parts.len()
            && self
                .parts
                .iter()
                .zip(&other.parts)
                .all(|(a, b)| covers(a, b))
            && options(&other.options).iter().all(is_same)
    }
}

/// Returns whether a part of an entry equals or contains another one. An address also matches a
/// network that it belongs to.
fn covers(member: &Part, entry: &Part) -> bool {
    match (member, entry) {
        _ if member == entry => true,
        (Part::Ip(ip), Part::Net(net)) | (Part::Net(net), Part::Ip(ip)) => net.contains(*ip),
        (Part::Net(net), Part::Range(from, to)) => net.contains(*from) && net.contains(*to),
        (Part::Ip(ip), Part::Range(from, to)) => from == ip && to == ip,
        _ => false,
    }
}

/// Returns whether a set contains one of these entries; an error message in Salt's words if the set
/// does not exist.
///
/// # Errors
/// When the program is missing, or an entry is invalid.
pub(crate) fn has(cx: &Exec, name: &str, wanted: &[String]) -> Result<Result<bool, String>, Error> {
    let Some(known) = find_set(cx, name)? else {
        return Ok(Err(format!("Error: Set {name} does not exist")));
    };
    let kind = text(&known, "Type");
    let done = run(cx, &["list"], &[name.to_owned()])?;
    let listed = done.stdout_of_success("ipset list")?;
    let members = listed.split_once("Members:\n");
    let members = members.map_or("", |(_, members)| members);
    let entry = |text: &str| Entry::parse(text, &kind);
    let members: Vec<Entry> = members.lines().map(entry).collect::<Result<_, _>>()?;
    for wanted in wanted {
        let wanted = entry(wanted)?;
        if members.iter().any(|member| member.has(&wanted)) {
            return Ok(Ok(true));
        }
    }
    Ok(Ok(false))
}

/// Adds an entry to a set. Returns `Success` or an error message.
///
/// # Errors
/// When the program is missing, or the entry is invalid.
pub(crate) fn put(cx: &Exec, name: &str, entry: &str, given: &Map) -> Result<String, Error> {
    let Some(known) = find_set(cx, name)? else {
        return Ok(format!("Error: Set {name} does not exist"));
    };
    let (header, words) = (text(&known, "Header"), shlex::split(entry)?);
    let mut all = vec!["-exist".to_owned(), name.to_owned()];
    all.extend(words.iter().cloned());
    for (option, needed) in ADDING {
        let Some(value) = given.get(option) else {
            continue;
        };
        if !header.split(' ').any(|word| word == needed) && !needed.is_empty() {
            return Ok(format!(
                "Error: Set {name} not created with {needed} support"
            ));
        }
        match () {
            () if words.iter().skip(1).any(|word| word == option) => {}
            () if option == "nomatch" => all.extend(value.is_true().then(|| option.to_owned())),
            () => all.extend([option.to_owned(), python::str(value)]),
        }
    }
    done(run(cx, &["add"], &all)?)
}

/// Removes an entry from a set. Returns `Success` or an error message.
///
/// # Errors
/// When the program is missing.
pub(crate) fn take(cx: &Exec, name: &str, entry: &str) -> Result<String, Error> {
    match exists(cx, name)? {
        true => done(run(cx, &["del"], &[name.to_owned(), entry.to_owned()])?),
        false => Ok(format!("Error: Set {name} does not exist")),
    }
}

fn done(done: Output) -> Result<String, Error> {
    let said = output_text(done);
    Ok(match said.is_empty() {
        true => "Success".to_owned(),
        false => format!("Error: {said}"),
    })
}

/// Returns an argument, or Salt's error message if it is missing.
fn given<'a>(text: Option<&'a String>, sentence: &'static str) -> Result<&'a str, Value> {
    let text = text.filter(|text| !text.is_empty());
    text.map(String::as_str).ok_or_else(|| sentence.into())
}

/// Runs a function on the named set; returns Salt's error message if no name is given.
fn on(
    name: Option<&String>,
    work: impl FnOnce(&str) -> Result<Value, Error>,
) -> Result<Value, Error> {
    given(name, NO_SET).map_or_else(Ok, work)
}

/// Like [`on`], for an entry of the set.
fn on_entry(
    name: Option<&String>,
    entry: Option<&String>,
    work: impl FnOnce(&str, &str) -> Result<Value, Error>,
) -> Result<Value, Error> {
    on(name, |name| {
        given(entry, NO_ENTRY).map_or_else(Ok, |entry| work(name, entry))
    })
}

fn version(cx: &Exec, _args: Version) -> Result<Value, Error> {
    let said = run(cx, &["--version"], &[])?.into_stdout_regardless();
    let version = said.split_whitespace().nth(1);
    Ok(version
        .ok_or_else(|| format!("cannot read the version in the output of ipset: {said:?}"))?
        .into())
}

fn new_set(cx: &Exec, args: NewSet) -> Result<Value, Error> {
    let mut options = args.kwargs;
    if args.comment {
        options.insert("comment", true);
    }
    let (name, kind) = (
        args.name.unwrap_or_default(),
        args.set_type.unwrap_or_default(),
    );
    let refused = make(cx, &name, &kind, &args.family, &options)?;
    Ok(refused.map_or_else(|| true.into(), Value::from))
}

fn delete_set(cx: &Exec, args: DeleteSet) -> Result<Value, Error> {
    on(args.name.as_ref(), |name| {
        Ok(true_or(run(cx, &["destroy"], &[name.to_owned()])?))
    })
}

fn rename_set(cx: &Exec, args: RenameSet) -> Result<Value, Error> {
    on(args.name.as_ref(), |name| {
        let new = match given(
            args.new_set.as_ref(),
            "Error: New name for set needs to be specified",
        ) {
            Ok(new) => new,
            Err(sentence) => return Ok(sentence),
        };
        if !exists(cx, name)? {
            return Ok("Error: Set does not exist".into());
        }
        if exists(cx, new)? {
            return Ok("Error: New Set already exists".into());
        }
        let words = [name.to_owned(), new.to_owned()];
        Ok(true_or(run(cx, &["rename"], &words)?))
    })
}

fn list_sets(cx: &Exec, _args: ListSets) -> Result<Value, Error> {
    let done = run(cx, &["list", "-t"], &[])?;
    let pair = |line: &str| {
        let (key, value) = line.split_once(':')?;
        Some((
            key.to_owned(),
            value.get(1..).unwrap_or_default().to_owned(),
        ))
    };
    let sets = done.stdout_regardless().split("\n\n");
    let sets = sets.map(|set| set.lines().filter_map(pair).collect::<Map>().into());
    Ok(Value::list(sets))
}

fn check_set(cx: &Exec, args: CheckSet) -> Result<Value, Error> {
    on(args.name.as_ref(), |name| Ok(exists(cx, name)?.into()))
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    on_entry(
        args.name.as_ref(),
        args.entry.as_ref(),
        |name, entry| match has(cx, name, &[entry.to_owned()])? {
            Ok(true) => Ok(format!("Warn: Entry {entry} already exists in set {name}").into()),
            _ => Ok(put(cx, name, entry, &args.kwargs)?.into()),
        },
    )
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    on_entry(args.name.as_ref(), args.entry.as_ref(), |name, entry| {
        Ok(take(cx, name, entry)?.into())
    })
}

fn check(cx: &Exec, args: Check) -> Result<Value, Error> {
    on(args.name.as_ref(), |name| {
        let wanted = match args.entry.as_list() {
            Some(_) => args.entry.texts(),
            None if args.entry.is_true() => vec![python::str(&args.entry)],
            None => return Ok(NO_ENTRY.into()),
        };
        Ok(has(cx, name, &wanted)?.map_or_else(Value::from, Value::from))
    })
}

fn test(cx: &Exec, args: Test) -> Result<Value, Error> {
    on_entry(args.name.as_ref(), args.entry.as_ref(), |name, entry| {
        if !exists(cx, name)? {
            return Ok(format!("Error: Set {name} does not exist").into());
        }
        let words = [name.to_owned(), entry.to_owned()];
        Ok(run(cx, &["test"], &words)?.success().into())
    })
}

fn flush(cx: &Exec, args: Flush) -> Result<Value, Error> {
    let name: Vec<String> = args
        .name
        .filter(|name| !name.is_empty())
        .into_iter()
        .collect();
    Ok(output_text(run(cx, &["flush"], &name)?).is_empty().into())
}
