//! The `ipset` state module.

use ::python::shlex;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::ipset::{exists, has, make, put, run_on, take};

state::state_module! {
    /// Manage sets of addresses, networks and ports for the packet filter (`ipset`).
    #[needs("ipset", "ipset module could not be loaded")]
    #[facts(free_arguments = true)]
    mod ipset;

    /// Make sure that a set exists. Options of its type, such as `range`, `timeout`, `maxelem` or
    /// `comment`, are given by name.
    ///
    ///     blocked:
    ///       ipset.set_present:
    ///         - set_type: hash:ip
    fn set_present(SetPresent {
        /// The set.
        name: String,
        /// The type of the set, such as `hash:ip`.
        set_type: String,
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        /// The number of seconds after which entries without a timeout are removed.
        timeout: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that a set does not exist, even if it has entries.
    ///
    ///     blocked:
    ///       ipset.set_absent
    fn set_absent(SetAbsent {
        /// The set.
        name: String,
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });

    /// Make sure that entries are in the set `set_name`. `timeout`, `comment` and similar options
    /// apply to all of them.
    ///
    ///     blocked peer:
    ///       ipset.present:
    ///         - set_name: blocked
    ///         - entry: 198.51.100.7
    fn present(Present {
        /// Any name.
        name: String,
        /// An entry, or a list of entries.
        entry: Value = Value::Null,
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        /// The number of seconds after which entries without a timeout are removed.
        timeout: Value = Value::Null,
        ..kwargs
    });

    /// Make sure that entries are not in the set `set_name`.
    ///
    ///     blocked peer:
    ///       ipset.absent:
    ///         - set_name: blocked
    ///         - entry: 198.51.100.7
    fn absent(Absent {
        /// Any name.
        name: String,
        /// An entry, or a list of entries.
        entry: Value = Value::Null,
        /// Ignored, as in Salt.
        entries: Value = Value::Null,
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        /// The number of seconds after which entries without a timeout are removed.
        timeout: Value = Value::Null,
        ..kwargs
    });

    /// Remove all entries of a set.
    ///
    ///     blocked:
    ///       ipset.flush
    fn flush(Flush {
        /// The set.
        name: String,
        /// `ipv4` or `ipv6`.
        family: String = "ipv4".into(),
        ..kwargs
    });
}

/// Returns the named options with `timeout` among them. `timeout` is declared as an argument, since
/// otherwise it would be an option of the chunk itself.
fn with_timeout(mut given: Map, timeout: Value) -> Map {
    if !timeout.is_null() {
        given.insert("timeout", timeout);
    }
    given
}

fn set_present(cx: &Exec, args: SetPresent) -> Result<Ret, Error> {
    let (name, family) = (args.name.as_str(), &args.family);
    let given = with_timeout(args.kwargs, args.timeout);
    if exists(cx, name)? {
        return Ok(Ret::ok(format!(
            "ipset set {name} already exists for {family}"
        )));
    }
    cx.apply(
        Ret::would(format!("ipset set {name} would be added for {family}")),
        || {
            Ok(match make(cx, name, &args.set_type, family, &given)? {
                None => Ret::ok(format!(
                    "ipset set {name} created successfully for {family}"
                ))
                .change("locale", name),
                Some(said) => Ret::failed(format!(
                    "Failed to create set {name} for {family}: {}",
                    said.trim()
                )),
            })
        },
    )
}

fn set_absent(cx: &Exec, args: SetAbsent) -> Result<Ret, Error> {
    let (name, family) = (args.name.as_str(), &args.family);
    if !exists(cx, name)? {
        return Ok(Ret::ok(format!(
            "ipset set {name} for {family} is already absent"
        )));
    }
    cx.apply(
        Ret::would(format!("ipset set {name} for {family} would be removed")),
        || {
            for (command, verb) in [("flush", "flush"), ("destroy", "delete")] {
                let said = run_on(cx, command, name)?;
                if !said.is_empty() {
                    return Ok(Ret::failed(format!(
                        "Failed to {verb} set {name} for {family}: {}",
                        said.trim()
                    )));
                }
            }
            let comment = format!("ipset set {name} deleted successfully for family {family}");
            Ok(Ret::ok(comment).change("locale", name))
        },
    )
}

/// An entry in two forms: bare, and with its options and those that apply to all entries.
struct Entry {
    bare: String,
    whole: String,
}

impl Entry {
    fn parse(text: &str, given: &Map) -> Self {
        let (bare, options) = text.split_once(' ').unwrap_or((text, ""));
        let mut options = options.to_owned();
        let value = |name: &str| given.get(name).map(python::str);
        if let Some(timeout) = value("timeout").filter(|_| !options.contains("timeout")) {
            options = format!("timeout {timeout} {options}");
        }
        if let Some(comment) = value("comment").filter(|_| !options.contains("comment")) {
            options = format!("{options} comment {}", shlex::quote(&comment));
        }
        Self {
            bare: bare.to_owned(),
            whole: format!("{bare} {}", options.trim()).trim().to_owned(),
        }
    }

    /// Returns the given entries and the set that they belong to. Returns `None` if no entry is
    /// given.
    fn all(entry: &Value, given: &Map) -> Result<Option<(Vec<Self>, String)>, Error> {
        if !entry.is_true() {
            return Ok(None);
        }
        let set = given
            .get("set_name")
            .ok_or_else(|| Error::missing("set_name"))?;
        let entries = match entry.as_list() {
            Some(_) => entry.texts(),
            None => vec![python::str(entry)],
        };
        let entries = entries
            .iter()
            .map(|text| Self::parse(text, given))
            .collect();
        Ok(Some((entries, python::str(set))))
    }
}

const NO_ENTRY: &str = "ipset entry must be specified";

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (family, given) = (&args.family, &with_timeout(args.kwargs, args.timeout));
    let Some((entries, set)) = Entry::all(&args.entry, given)? else {
        return Ok(Ret::failed(NO_ENTRY));
    };
    let mut ret = Ret::ok("");
    for Entry { bare, whole } in entries {
        if has(cx, &set, std::slice::from_ref(&whole))? == Ok(true) {
            ret.comment += &format!("entry for {bare} already in set {set} for {family}\n");
            continue;
        }
        let would = format!(
            "{}entry {bare} would be added to set {set} for family {family}\n",
            ret.comment
        );
        let so_far = ret.clone();
        ret = cx.apply(Ret::would(would), || {
            let said = put(cx, &set, &whole, given)?;
            Ok(match said.contains("Error") {
                false => Ret {
                    comment: format!(
                        "{}entry {whole} added to set {set} for family {family}\n",
                        so_far.comment
                    ),
                    ..so_far.change("locale", args.name.as_str())
                },
                true => Ret {
                    result: Some(false),
                    comment: format!(
                        "Failed to add to entry {whole} to set {set} for family {family}.\n{said}"
                    ),
                    ..so_far
                },
            })
        })?;
    }
    Ok(ret)
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (family, given) = (&args.family, with_timeout(args.kwargs, args.timeout));
    let Some((entries, set)) = Entry::all(&args.entry, &given)? else {
        return Ok(Ret::failed(NO_ENTRY));
    };
    let mut ret = Ret::ok("");
    for Entry { bare, whole } in entries {
        if has(cx, &set, std::slice::from_ref(&whole))? != Ok(true) {
            ret.comment +=
                &format!("ipset entry for {whole} not present in set {set} for {family}\n");
            continue;
        }
        let would = format!(
            "{}ipset entry {bare} would be removed from set {set} for {family}\n",
            ret.comment
        );
        let so_far = ret.clone();
        ret = cx.apply(Ret::would(would), || {
            let said = take(cx, &set, &bare)?;
            Ok(match said.contains("Error") {
                false => Ret {
                    comment: format!("{}ipset entry {whole} removed from set {set} for {family}\n", so_far.comment),
                    ..so_far.change("locale", args.name.as_str())
                },
                true => Ret {
                    result: Some(false),
                    comment: format!("Failed to delete ipset entry from set {set} for {family}. Attempted entry was {whole}.\n{said}\n"),
                    ..so_far
                },
            })
        })?;
    }
    Ok(ret)
}

fn flush(cx: &Exec, args: Flush) -> Result<Ret, Error> {
    let (name, family) = (args.name.as_str(), &args.family);
    if !exists(cx, name)? {
        return Ok(Ret::failed(format!(
            "ipset set {name} does not exist for {family}"
        )));
    }
    cx.apply(
        Ret::would(format!(
            "ipset entries in set {name} for {family} would be flushed"
        )),
        || {
            Ok(match run_on(cx, "flush", name)?.is_empty() {
                true => Ret::ok(format!(
                    "Flushed ipset entries from set {name} for {family}"
                ))
                .change("locale", name),
                false => Ret::failed(format!(
                    "Failed to flush ipset entries from set {name} for {family}"
                )),
            })
        },
    )
}
