//! The part of the `selinux` execution module that manages the types of files and ports.

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::pyre::{Flags, Regex};
use value::{Map, Value};

use super::run;

state::exec_module! {
    /// Manage the SELinux types of files and ports.
    mod selinux;

    /// Return the name of a kind of files.
    ///
    ///     salt-call selinux.filetype_id_to_string a
    fn filetype_id_to_string(FiletypeIdToString {
        /// The letter of the kind of files.
        filetype: String = "a".into(),
    });

    /// Return the rule for a file specification, or None if there is none.
    ///
    ///     salt-call selinux.fcontext_get_policy '/srv/www(/.*)?'
    fn fcontext_get_policy(FcontextGetPolicy {
        /// The file specification, a regular expression.
        name: String,
        /// The letter of the kind of files.
        filetype: Option<String> = None,
        /// The SELinux type.
        sel_type: Option<String> = None,
        /// The user.
        sel_user: Option<String> = None,
        /// The SELinux level.
        sel_level: Option<String> = None,
    });

    /// Add or change a rule for a file specification.
    ///
    ///     salt-call selinux.fcontext_add_policy '/srv/www(/.*)?' sel_type=httpd_sys_content_t
    fn fcontext_add_policy(FcontextAddPolicy {
        /// The file specification, a regular expression.
        name: String,
        /// The letter of the kind of files.
        filetype: Option<String> = None,
        /// The SELinux type.
        sel_type: Option<String> = None,
        /// The user.
        sel_user: Option<String> = None,
        /// The SELinux level.
        sel_level: Option<String> = None,
    });

    /// Remove a rule for a file specification.
    ///
    ///     salt-call selinux.fcontext_delete_policy '/srv/www(/.*)?'
    fn fcontext_delete_policy(FcontextDeletePolicy {
        /// The file specification, a regular expression.
        name: String,
        /// The letter of the kind of files.
        filetype: Option<String> = None,
        /// The SELinux type.
        sel_type: Option<String> = None,
        /// The user.
        sel_user: Option<String> = None,
        /// The SELinux level.
        sel_level: Option<String> = None,
    });

    /// Return the changes that applying the rules to files would make; empty if there are none.
    ///
    ///     salt-call selinux.fcontext_policy_is_applied /srv/www recursive=True
    fn fcontext_policy_is_applied(FcontextPolicyIsApplied {
        /// The path of the files.
        name: String,
        /// True to include everything below the path.
        recursive: bool = false,
    });

    /// Apply the rules to files.
    ///
    ///     salt-call selinux.fcontext_apply_policy /srv/www recursive=True
    fn fcontext_apply_policy(FcontextApplyPolicy {
        /// The path of the files.
        name: String,
        /// True to include everything below the path.
        recursive: bool = false,
    });

    /// Return the rule for a port, or None if there is none.
    ///
    ///     salt-call selinux.port_get_policy tcp/8080
    fn port_get_policy(PortGetPolicy {
        /// The port, such as `tcp/80`.
        name: String,
        /// The SELinux type.
        sel_type: Option<String> = None,
        /// The protocol, if the name does not contain it.
        protocol: Option<String> = None,
        /// The port number or range, if the name does not contain it.
        port: Option<String> = None,
    });

    /// Add a rule for a port.
    ///
    ///     salt-call selinux.port_add_policy tcp/8080 http_port_t
    fn port_add_policy(PortAddPolicy {
        /// The port, such as `tcp/80`.
        name: String,
        /// The SELinux type.
        sel_type: Option<String> = None,
        /// The protocol, if the name does not contain it.
        protocol: Option<String> = None,
        /// The port number or range, if the name does not contain it.
        port: Option<String> = None,
        /// The range of SELinux levels.
        sel_range: Option<String> = None,
    });

    /// Change the rule for a port.
    ///
    ///     salt-call selinux.port_modify_policy tcp/8080 http_cache_port_t
    fn port_modify_policy(PortModifyPolicy {
        /// The port, such as `tcp/80`.
        name: String,
        /// The SELinux type.
        sel_type: Option<String> = None,
        /// The protocol, if the name does not contain it.
        protocol: Option<String> = None,
        /// The port number or range, if the name does not contain it.
        port: Option<String> = None,
        /// The range of SELinux levels.
        sel_range: Option<String> = None,
    });

    /// Remove the rule for a port.
    ///
    ///     salt-call selinux.port_delete_policy tcp/8080
    fn port_delete_policy(PortDeletePolicy {
        /// The port, such as `tcp/80`.
        name: String,
        /// The protocol, if the name does not contain it.
        protocol: Option<String> = None,
        /// The port number or range, if the name does not contain it.
        port: Option<String> = None,
    });
}

const KINDS: [(&str, &str); 8] = [
    ("a", "all files"),
    ("f", "regular file"),
    ("d", "directory"),
    ("c", "character device"),
    ("b", "block device"),
    ("s", "socket"),
    ("l", "symbolic link"),
    ("p", "named pipe"),
];

/// Returns the name of a kind of files.
///
/// # Errors
/// When the letter is unknown.
pub(crate) fn kind(letter: &str) -> Result<&'static str, Error> {
    let found = KINDS.iter().find(|(known, _)| *known == letter);
    found.map(|(_, words)| *words).ok_or_else(|| {
        let all = KINDS.map(|(letter, _)| letter).join(", ");
        format!("Invalid file type code '{letter}'; expected one of: {all}").into()
    })
}

fn filetype_id_to_string(_: &Exec, args: FiletypeIdToString) -> Result<Value, Error> {
    Ok(kind(&args.filetype)?.into())
}

const CONTEXT: [&str; 4] = ["sel_user", "sel_role", "sel_type", "sel_level"];

/// Splits `user:role:type:level` into a dictionary.
fn context(text: &str) -> Option<Map> {
    let parts: Vec<&str> = text.splitn(4, ':').collect();
    let is_whole = parts.len() == CONTEXT.len() && parts.iter().all(|part| !part.is_empty());
    is_whole.then(|| CONTEXT.into_iter().zip(parts).collect())
}

fn listed(cx: &Exec, what: &str) -> Result<String, Error> {
    let done = run(cx, &["semanage", what, "--list"], &[])?.into_success();
    done.map_err(|failed| failed.stderr.into())
}

fn fcontext_get_policy(cx: &Exec, args: FcontextGetPolicy) -> Result<Value, Error> {
    let wanted = match args.filetype.as_deref().filter(|letter| !letter.is_empty()) {
        Some(letter) => Some(kind(letter)?),
        None => None,
    };
    let parts = [
        ("sel_user", args.sel_user),
        ("sel_type", args.sel_type),
        ("sel_level", args.sel_level),
    ];
    let rule = |line: &str| {
        let rest = line.strip_prefix(args.name.as_str())?.strip_prefix(' ')?;
        let (kind, labels) = rest.trim().rsplit_once(' ')?;
        let (kind, labels) = (kind.trim(), context(labels)?);
        let fits = |(key, wanted): &(&str, Option<String>)| {
            let wanted = wanted.as_deref().filter(|wanted| !wanted.is_empty());
            wanted.is_none_or(|wanted| labels.get(key).and_then(Value::as_str) == Some(wanted))
        };
        let is_it = wanted.is_none_or(|wanted| wanted == kind) && parts.iter().all(fits);
        let mut about = Map::new()
            .with("filespec", args.name.as_str())
            .with("filetype", kind);
        about.update(labels);
        is_it.then(|| Value::from(about))
    };
    Ok(listed(cx, "fcontext")?.lines().find_map(rule).into())
}

fn fcontext_add_policy(cx: &Exec, args: FcontextAddPolicy) -> Result<Value, Error> {
    let start = format!("{} ", args.name);
    let is_known = listed(cx, "fcontext")?
        .lines()
        .any(|line| line.contains(&start));
    let action = if is_known { "--modify" } else { "--add" };
    let labels = [args.sel_type, args.sel_user, args.sel_level];
    fcontext(cx, action, &args.name, args.filetype.as_deref(), &labels)
}

fn fcontext_delete_policy(cx: &Exec, args: FcontextDeletePolicy) -> Result<Value, Error> {
    let labels = [args.sel_type, args.sel_user, args.sel_level];
    fcontext(
        cx,
        "--delete",
        &args.name,
        args.filetype.as_deref(),
        &labels,
    )
}

fn fcontext(
    cx: &Exec,
    action: &str,
    name: &str,
    letter: Option<&str>,
    labels: &[Option<String>; 3],
) -> Result<Value, Error> {
    let mut words = vec!["semanage", "fcontext", action];
    // CentOS 6 does not know `--ftype a`.
    if let Some(letter) = letter.filter(|letter| *letter != "a") {
        kind(letter)?;
        words.extend(["--ftype", letter]);
    }
    for (option, label) in ["--type", "--seuser", "--range"].into_iter().zip(labels) {
        words.extend(label.iter().flat_map(|label| [option, label.as_str()]));
    }
    Ok(run(cx, &words, &[name])?.to_map().into())
}

fn restorecon(cx: &Exec, options: &[&str], name: &str, recursive: bool) -> Result<Output, Error> {
    let words = ["restorecon"].iter().chain(options);
    let words: Vec<&str> = words
        .chain(Some(&"-R").filter(|_| recursive))
        .copied()
        .collect();
    run(cx, &words, &[name])
}

fn fcontext_policy_is_applied(cx: &Exec, args: FcontextPolicyIsApplied) -> Result<Value, Error> {
    Ok(restorecon(cx, &["-n", "-v"], &args.name, args.recursive)?
        .stdout_regardless()
        .into())
}

fn fcontext_apply_policy(cx: &Exec, args: FcontextApplyPolicy) -> Result<Value, Error> {
    let would = restorecon(cx, &["-n", "-v"], &args.name, args.recursive)?.into_stdout_regardless();
    let done = restorecon(cx, &["-v", "-F"], &args.name, args.recursive)?;
    let ret = done.to_map();
    if !done.success() {
        return Ok(ret.into());
    }
    Ok(match relabelled(&would)? {
        Some(changes) if changes.is_empty() => ret.into(),
        Some(changes) => ret.with("changes", changes).into(),
        None => ret
            .with("retcode", 1)
            .with("error", "Unrecognized response from restorecon command.")
            .into(),
    })
}

/// Returns the changes of labels for each file, or `None` if the format of the output is unknown.
fn relabelled(text: &str) -> Result<Option<Map>, Error> {
    let words = match text {
        _ if text.starts_with("Would relabel") => "^Would relabel (.*) from (.*) to (.*)$",
        _ if text.starts_with("restorecon reset") => "^restorecon reset (.*) context (.*)->(.*)$",
        _ => return Ok(None),
    };
    let regex = Regex::new(words, Flags::NONE)?;
    let mut changes = Map::new();
    for line in text.lines() {
        let Some(found) = regex.captures(line, 0)? else {
            continue;
        };
        let part = |number| {
            found
                .get(number)
                .map(|part| part.as_str())
                .unwrap_or_default()
        };
        let (Some(mut old), Some(mut new)) = (context(part(2)), context(part(3))) else {
            continue;
        };
        for label in CONTEXT {
            if old.get(label) == new.get(label) {
                old.remove(label);
                new.remove(label);
            }
        }
        changes.insert(part(1), Map::new().with("old", old).with("new", new));
    }
    Ok(Some(changes))
}

/// Returns the name, such as `tcp/80` or `udp/20-21`, and the protocol, from the name or from the
/// two arguments.
fn of_port(
    name: &str,
    protocol: Option<&str>,
    port: Option<&str>,
) -> Result<(String, String), Error> {
    let (protocol, port) = (protocol.unwrap_or("None"), port.unwrap_or("None"));
    let given = format!("{protocol}/{port}");
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let right = |text: &str| {
        let (protocol, port) = text.split_once('/')?;
        let (from, to) = port.split_once('-').unwrap_or((port, port));
        let is_port = is_number(from) && is_number(to);
        (["tcp", "udp"].contains(&protocol) && is_port)
            .then(|| (protocol.to_owned(), port.to_owned()))
    };
    right(name).or_else(|| right(&given)).ok_or_else(|| {
        let why = format!("Invalid name \"{name}\" format and protocol and port not provided or invalid: \"{protocol}\" \"{port}\".");
        why.into()
    })
}

fn port_get_policy(cx: &Exec, args: PortGetPolicy) -> Result<Value, Error> {
    let (protocol, port) = of_port(&args.name, args.protocol.as_deref(), args.port.as_deref())?;
    let wanted = args.sel_type.as_deref().filter(|wanted| !wanted.is_empty());
    let rule = |line: &str| {
        let (kind, rest) = line.split_once(' ')?;
        let (of, ports) = rest.trim_start().split_once(' ')?;
        let ports = ports.trim();
        let is_it = of == protocol && wanted.is_none_or(|wanted| wanted == kind);
        let has = ports.split(',').any(|one| one.trim() == port);
        let about = Map::new().with("sel_type", kind).with("protocol", of);
        (is_it && has).then(|| Value::from(about.with("port", ports)))
    };
    Ok(listed(cx, "port")?.lines().find_map(rule).into())
}

fn port_add_policy(cx: &Exec, args: PortAddPolicy) -> Result<Value, Error> {
    if args.sel_type.as_deref().unwrap_or_default().is_empty() {
        return Err("SELinux Type is required to add a policy".into());
    }
    let place = of_port(&args.name, args.protocol.as_deref(), args.port.as_deref())?;
    set_port(cx, "--add", place, args.sel_type, args.sel_range)
}

fn port_modify_policy(cx: &Exec, args: PortModifyPolicy) -> Result<Value, Error> {
    let place = of_port(&args.name, args.protocol.as_deref(), args.port.as_deref())?;
    set_port(cx, "--modify", place, args.sel_type, args.sel_range)
}

fn port_delete_policy(cx: &Exec, args: PortDeletePolicy) -> Result<Value, Error> {
    let place = of_port(&args.name, args.protocol.as_deref(), args.port.as_deref())?;
    set_port(cx, "--delete", place, None, None)
}

fn set_port(
    cx: &Exec,
    action: &str,
    (protocol, port): (String, String),
    kind: Option<String>,
    range: Option<String>,
) -> Result<Value, Error> {
    let mut words = vec!["semanage", "port", action, "--proto", protocol.as_str()];
    for (option, label) in [("--type", &kind), ("--range", &range)] {
        let label = label.as_deref().filter(|label| !label.is_empty());
        words.extend(label.into_iter().flat_map(|label| [option, label]));
    }
    words.push(&port);
    Ok(Process::words(words).run(cx)?.to_map().into())
}
