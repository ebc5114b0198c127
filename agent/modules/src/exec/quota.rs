//! The `quota` execution module: limits of users and groups on file systems.

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Manage the limits of users and groups on file systems.
    #[needs(
        "setquota",
        "The quota execution module cannot be loaded: the module is only available on POSIX-like systems with the setquota binary available.",
        "quota"
    )]
    mod quota;

    /// Return the usage and the limits of users and groups on a file system.
    ///
    ///     salt-call quota.report /home
    fn report(Report {
        /// The mount point or device of the file system.
        mount: String,
    });

    /// Set limits of a user or a group: `block-soft-limit`, `block-hard-limit`, `file-soft-limit`
    /// and `file-hard-limit`.
    ///
    ///     salt-call quota.set /dev/vdb1 user=alice block-soft-limit=1048576
    fn set(Set {
        /// The mount point or device of the file system.
        device: String,
        ..kwargs
    });

    /// Send mail to the users who exceed their limits.
    ///
    ///     salt-call quota.warn
    fn warn(Warn {});

    /// Return the statistics of the kernel's quota system.
    ///
    ///     salt-call quota.stats
    fn stats(Stats {});

    /// Enforce limits on a file system.
    ///
    ///     salt-call quota.on /home
    fn on(On {
        /// The mount point or device of the file system.
        device: String,
    });

    /// Stop enforcing limits on a file system.
    ///
    ///     salt-call quota.off /home
    fn off(Off {
        /// The mount point or device of the file system.
        device: String,
    });

    /// Return whether limits are enforced, for users and for groups.
    ///
    ///     salt-call quota.get_mode /home
    fn get_mode(GetMode {
        /// The mount point or device of the file system.
        device: String,
    });
}

/// The columns of `repquota -vp` after the name and the marks.
const COLUMNS: [&str; 8] = [
    "block-used",
    "block-soft-limit",
    "block-hard-limit",
    "block-grace",
    "file-used",
    "file-soft-limit",
    "file-hard-limit",
    "file-grace",
];

/// The limits that can be set, in the order in which setquota expects them.
const LIMITS: [&str; 4] = [
    "block-soft-limit",
    "block-hard-limit",
    "file-soft-limit",
    "file-hard-limit",
];

fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    let wrong = words
        .iter()
        .skip(1)
        .find(|word| word.starts_with('-') && word.len() > 3);
    match wrong {
        Some(word) => {
            Err(format!("'{word}' is not the name of a file system, user or group").into())
        }
        None => Process::words(words.iter().copied()).run(cx),
    }
}

/// Returns the report of `repquota` about users (`-u`) or groups (`-g`).
fn used(cx: &Exec, mount: &str, option: &str) -> Result<Map, Error> {
    let said = run(cx, &["repquota", "-vp", option, mount])?.into_stdout_regardless();
    let mut report = Map::new();
    let mut all = Map::new();
    let mut lines = said.lines().filter(|line| !line.is_empty());
    for line in lines.by_ref().take_while(|line| !line.starts_with('-')) {
        if let Some((block, inode)) = line
            .split_once(';')
            .filter(|_| line.contains("Block grace time"))
        {
            let last = |text: &str| vec![text.rsplit(": ").next().unwrap_or_default().to_owned()];
            report.insert("Block Grace Time", last(block));
            report.insert("Inode Grace Time", last(inode));
        }
    }
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((name, columns)) = words.split_first().filter(|(_, rest)| rest.len() > 8) {
            let row: Map = COLUMNS
                .iter()
                .zip(columns.iter().skip(1))
                .map(|(key, value)| (*key, *value))
                .collect();
            all.insert(*name, row);
        }
    }
    report.insert(if option == "-u" { "Users" } else { "Groups" }, all);
    Ok(report)
}

fn report(cx: &Exec, args: Report) -> Result<Value, Error> {
    let users = used(cx, &args.mount, "-u")?;
    let groups = used(cx, &args.mount, "-g")?;
    let both = Map::new()
        .with("User Quotas", users)
        .with("Group Quotas", groups);
    Ok(Map::new().with(&args.mount, both).into())
}

fn set(cx: &Exec, args: Set) -> Result<Value, Error> {
    let who = |key: &str| args.kwargs.get(key).map(Value::to_text);
    let (option, kind, title, name) = match (who("user"), who("group")) {
        (Some(_), Some(_)) => return Err("Please specify a user or group, not both.".into()),
        (Some(user), None) => ("-u", "Users", "User", user),
        (None, Some(group)) => ("-g", "Groups", "Group", group),
        (None, None) => return Err("A valid user or group was not found".into()),
    };
    let all = used(cx, &args.device, option)?;
    let known = all.get(kind).and_then(|all| all.get(&name));
    let mut limits = Map::new();
    for limit in LIMITS {
        let given = args.kwargs.get(limit);
        let given = given.or_else(|| known.and_then(|known| known.get(limit)));
        limits.insert(limit, given.cloned().unwrap_or_else(|| 0.into()));
    }
    let amounts = LIMITS.map(|limit| limits.get(limit).map(Value::to_text).unwrap_or_default());
    let mut words = vec!["setquota", option, name.as_str()];
    words.extend(amounts.iter().map(String::as_str));
    words.push(&args.device);
    let done = run(cx, &words)?;
    if !done.success() {
        return Err(format!(
            "Unable to set desired quota. Error follows: \n{}",
            done.stderr
        )
        .into());
    }
    Ok(Map::new().with(&format!("{title}: {name}"), limits).into())
}

fn warn(cx: &Exec, _: Warn) -> Result<Value, Error> {
    let done = run(cx, &["warnquota"])?;
    match done.success() {
        true => Ok(Value::Null),
        false => Err(done.stderr.into()),
    }
}

fn stats(cx: &Exec, _: Stats) -> Result<Value, Error> {
    let said = run(cx, &["quotastats"])?.into_stdout_regardless();
    Ok(said
        .lines()
        .filter_map(|line| line.split_once(": "))
        .collect())
}

fn on(cx: &Exec, args: On) -> Result<Value, Error> {
    run(cx, &["quotaon", &args.device])?;
    Ok(true.into())
}

fn off(cx: &Exec, args: Off) -> Result<Value, Error> {
    run(cx, &["quotaoff", &args.device])?;
    Ok(true.into())
}

fn get_mode(cx: &Exec, args: GetMode) -> Result<Value, Error> {
    let done = run(cx, &["quotaon", "-p", &args.device])?;
    Ok(modes(
        &args.device,
        &format!("{}\n{}", done.stdout_regardless(), done.stderr),
    )
    .into())
}

/// Parses lines such as `user quota on / (/dev/sda1) is off`, and the message that a file system
/// has no quotas.
fn modes(device: &str, text: &str) -> Map {
    let mut all = Map::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [
                kind @ ("user" | "group" | "project"),
                _,
                _,
                mount,
                source,
                _,
                mode,
                ..,
            ] => {
                let source = source.trim_matches(['(', ')']);
                let entry = all.entry(*mount, || Map::new().with("device", source).into());
                if let Some(entry) = entry.as_map_mut() {
                    entry.insert(*kind, *mode);
                }
            }
            [program, "Cannot", ..] if program.starts_with("quotaon") => {
                return Map::new().with(device, "Not found");
            }
            [program, "Mountpoint", _, _, mount, ..] if program.starts_with("quotaon") => {
                all.insert(*mount, "disabled");
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_modes_of_a_file_system_are_read() {
        let text = "group quota on /srv (/dev/vdb) is off\nuser quota on /srv (/dev/vdb) is on\n";
        let modes = super::modes("/srv", text);
        let shown = value::python::repr(&modes.into());
        assert_eq!(
            shown,
            "{'/srv': {'device': '/dev/vdb', 'group': 'off', 'user': 'on'}}"
        );
        let none = "quotaon: Cannot find mountpoint for device /nowhere\n";
        assert!(super::modes("/nowhere", none).get("/nowhere").is_some());
    }
}
