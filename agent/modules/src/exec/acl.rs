//! The `acl` execution module: access lists of files (`getfacl`, `setfacl`).

use machine::process::{Output, Process, Stderr};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Read and change the access control lists (ACL) of files.
    #[needs(
        "getfacl",
        "The linux_acl execution module cannot be loaded: the getfacl binary is not in the path.",
        "acl"
    )]
    mod acl;

    /// Return the version of the program `getfacl`.
    ///
    ///     salt-call acl.version
    fn version(Version {});

    /// Return the access control lists of files in full detail.
    ///
    ///     salt-call acl.getfacl /srv/reports
    fn getfacl(Getfacl {
        *args,
        ..kwargs
    });

    /// Remove the access control lists of files.
    ///
    ///     salt-call acl.wipefacls /srv/reports
    fn wipefacls(Wipefacls {
        *args,
        ..kwargs
    });

    /// Add an entry to the access control lists of files, or change it.
    ///
    ///     salt-call acl.modfacl user alice rwx /srv/reports
    fn modfacl(Modfacl {
        /// The kind of the entry: `user`, `group` or `mask`. The prefix `default:` makes it an
        /// entry that new files inherit.
        acl_type: String,
        /// The name of the user or group.
        acl_name: String = String::new(),
        /// The permissions, such as `rwx`.
        perms: String = String::new(),
        *args,
        ..kwargs
    });

    /// Remove an entry from the access control lists of files.
    ///
    ///     salt-call acl.delfacl user alice /srv/reports
    fn delfacl(Delfacl {
        /// The kind of the entry: `user`, `group` or `mask`. The prefix `default:` makes it an
        /// entry that new files inherit.
        acl_type: String,
        /// The name of the user or group.
        acl_name: String = String::new(),
        *args,
        ..kwargs
    });
}

/// Runs a program on files. Standard error is merged into standard output.
fn run(cx: &Exec, words: &[&str], files: &[Value], recursive: bool) -> Result<Output, Error> {
    if files.is_empty() {
        return Err("You need to specify at least one file or directory to work with!".into());
    }
    let mut all: Vec<String> = words
        .iter()
        .take(1)
        .map(|word| (*word).to_owned())
        .collect();
    all.extend(Some("-R".to_owned()).filter(|_| recursive));
    all.extend(words.iter().skip(1).map(|word| (*word).to_owned()));
    all.push("--".to_owned());
    all.extend(files.iter().map(Value::to_text));
    let process = Process {
        stderr: Stderr::Merged,
        ..Process::words(all)
    };
    process.run(cx)
}

fn is_set(kwargs: &Map, key: &str) -> bool {
    kwargs.get(key).is_some_and(Value::is_true)
}

fn version(cx: &Exec, _: Version) -> Result<Value, Error> {
    let said = Process::words(["getfacl", "--version"])
        .run(cx)?
        .stdout_of_success("getfacl --version")?;
    Ok(said.split_whitespace().nth(1).map(str::to_owned).into())
}

/// Returns the access control list of each file; with `recursive`, also of all files below.
///
/// # Errors
/// When the program is missing.
pub(crate) fn lists(cx: &Exec, files: &[Value], recursive: bool) -> Result<Map, Error> {
    let done = run(cx, &["getfacl", "--absolute-names"], files, recursive)?;
    Ok(parsed(done.stdout_regardless()))
}

fn parsed(text: &str) -> Map {
    let mut all = Map::new();
    let mut name = String::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("getfacl"))
    {
        if let Some(file) = line.strip_prefix("# file: ") {
            file.clone_into(&mut name);
            let entry = Map::new().with("comment", Map::new());
            let none = || Vec::<Value>::new();
            all.insert(file, entry.with("user", none()).with("group", none()));
        }
        if let Some(entry) = all.get_mut(&name).and_then(Value::as_map_mut) {
            match line.strip_prefix("# ") {
                Some(about) => comment(entry, about),
                None => rule(entry, line),
            }
        }
    }
    all
}

/// Parses a comment line such as `owner: root` or `flags: -s-`.
fn comment(entry: &mut Map, line: &str) {
    let Some((key, text)) = line.split_once(": ") else {
        return;
    };
    if let Some(comments) = entry.get_mut("comment").and_then(Value::as_map_mut) {
        comments.insert(key, text);
    }
    if key == "flags" {
        for ((name, letter), set) in [("suid", 's'), ("sgid", 's'), ("sticky", 't')]
            .into_iter()
            .zip(text.chars())
        {
            if letter == set {
                entry.insert(name, true);
            }
        }
    }
}

/// Parses an entry such as `user:bob:rwx` or `default:mask::rwx`. An entry may end with
/// `#effective:r-x`.
fn rule(entry: &mut Map, line: &str) {
    let owner = |key: &str| {
        entry
            .get("comment")
            .and_then(|all| all.get(key))
            .map(Value::to_text)
    };
    let (is_default, line) = match line.strip_prefix("default:") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let mut parts = line.split(':');
    let (Some(kind), Some(named)) = (parts.next(), parts.next()) else {
        return;
    };
    let perms = parts.next_back().unwrap_or_default();
    let who = match (kind, named) {
        ("user", "") => owner("owner").unwrap_or_default(),
        ("group", "") => owner("group").unwrap_or_default(),
        _ => named.to_owned(),
    };
    let about = Map::new().with(&who, permissions(perms));
    let place = match is_default {
        true => entry.entry("defaults", || Map::new().into()).as_map_mut(),
        false => Some(entry),
    };
    if let Some(place) = place {
        let list = place.entry(kind, || Vec::<Value>::new().into());
        if let Some(list) = list.as_list_mut() {
            list.push(about.into());
        }
    }
}

fn permissions(text: &str) -> Map {
    let has = |letter: char| text.contains(letter);
    let octal = i64::from(has('r')) * 4 + i64::from(has('w')) * 2 + i64::from(has('x'));
    let each = Map::new().with("read", has('r')).with("write", has('w'));
    Map::new()
        .with("permissions", each.with("execute", has('x')))
        .with("octal", octal)
}

fn getfacl(cx: &Exec, args: Getfacl) -> Result<Value, Error> {
    Ok(lists(cx, &args.args, is_set(&args.kwargs, "recursive"))?.into())
}

fn wipefacls(cx: &Exec, args: Wipefacls) -> Result<Value, Error> {
    let done = run(
        cx,
        &["setfacl", "-b"],
        &args.args,
        is_set(&args.kwargs, "recursive"),
    )?;
    finished(&done, is_set(&args.kwargs, "raise_err"))
}

fn finished(done: &Output, raise: bool) -> Result<Value, Error> {
    match raise && !done.success() {
        true => Err(done.stdout_regardless().into()),
        false => Ok(true.into()),
    }
}

/// Returns the short form of an entry's kind: `d:u` for `default:user`.
fn prefix(kind: &str) -> String {
    let (default, kind) = match kind
        .strip_prefix("default:")
        .or_else(|| kind.strip_prefix("d:"))
    {
        Some(kind) => ("d:", kind),
        None => ("", kind),
    };
    let short = match kind {
        "user" | "u" => "u",
        "group" | "g" => "g",
        "mask" | "m" => "m",
        _ => "",
    };
    format!("{default}{short}")
}

fn modfacl(cx: &Exec, args: Modfacl) -> Result<Value, Error> {
    let entry = format!(
        "{}:{}:{}",
        prefix(&args.acl_type),
        args.acl_name,
        args.perms
    );
    let done = run(
        cx,
        &["setfacl", "-m", &entry],
        &args.args,
        is_set(&args.kwargs, "recursive"),
    )?;
    finished(&done, is_set(&args.kwargs, "raise_err"))
}

fn delfacl(cx: &Exec, args: Delfacl) -> Result<Value, Error> {
    let entry = format!("{}:{}", prefix(&args.acl_type), args.acl_name);
    let done = run(
        cx,
        &["setfacl", "-x", &entry],
        &args.args,
        is_set(&args.kwargs, "recursive"),
    )?;
    finished(&done, is_set(&args.kwargs, "raise_err"))
}
