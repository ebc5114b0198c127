//! Paths: checks whether they exist, splits and joins them, and lists open files.

use std::collections::{BTreeMap, BTreeSet};

use machine::fs;
use python::path;
use state::exec::Exec;
use state::module::Error;
use value::glob::{fnmatch, is_glob};
use value::{Map, Value};

use super::stat::absolute;

state::exec_module! {
    /// Check, split and join paths.
    mod file;

    /// Return whether a path is a file.
    ///
    ///     salt-call file.file_exists /etc/app.conf
    fn file_exists(FileExists {
        /// The path.
        path: String,
    });

    /// Return whether a path is a folder.
    ///
    ///     salt-call file.directory_exists /srv/www
    fn directory_exists(DirectoryExists {
        /// The path.
        path: String,
    });

    /// Return whether a glob matches any path.
    ///
    ///     salt-call file.path_exists_glob '/etc/*.conf'
    fn path_exists_glob(PathExistsGlob {
        /// The glob.
        path: String,
    });

    /// Return the names in a folder, including `.` and `..`.
    ///
    ///     salt-call file.readdir /srv
    fn readdir(Readdir {
        /// The path of the folder.
        path: String,
    });

    /// Return the name of the parent folder: `..`.
    ///
    ///     salt-call file.pardir
    fn pardir(Pardir {});

    /// Return a path without redundant `.`, `..` and slashes.
    ///
    ///     salt-call file.normpath /srv/www/../app
    #[facts(pure = true)]
    fn normpath(Normpath {
        /// The path.
        path: String,
    });

    /// Return the last part of a path.
    ///
    ///     salt-call file.basename /etc/app.conf
    #[facts(pure = true)]
    fn basename(Basename {
        /// The path.
        path: String,
    });

    /// Return a path without its last part.
    ///
    ///     salt-call file.dirname /etc/app.conf
    #[facts(pure = true)]
    fn dirname(Dirname {
        /// The path.
        path: String,
    });

    /// Join the parts of a path.
    ///
    ///     salt-call file.join /srv www index.html
    #[facts(pure = true)]
    fn join(Join {
        *parts,
    });

    /// Return the files that processes have open.
    ///
    ///     salt-call file.open_files
    fn open_files(OpenFiles {
        /// True to return the files of each process, False to return the processes of each file.
        by_pid: bool = false,
    });
}

fn file_exists(_cx: &Exec, args: FileExists) -> Result<Value, Error> {
    Ok(path::isfile(&path::expanduser(&args.path)).into())
}

fn directory_exists(_cx: &Exec, args: DirectoryExists) -> Result<Value, Error> {
    Ok(path::isdir(&path::expanduser(&args.path)).into())
}

/// Returns the paths that match a pattern, sorted, like Python's `glob.glob`. Names that begin with
/// a dot match only if the pattern begins with a dot.
#[must_use]
pub fn globbed(pattern: &str) -> Vec<String> {
    if !is_glob(pattern) {
        let there = path::lexists(pattern);
        return there.then(|| pattern.to_owned()).into_iter().collect();
    }
    let (head, tail) = path::split(pattern);
    let folders = if head.is_empty() {
        vec![".".to_owned()]
    } else if head == pattern {
        vec![head.to_owned()]
    } else {
        globbed(head)
    };
    let mut found = Vec::new();
    for folder in folders {
        if !is_glob(tail) {
            let path = path::join(&folder, tail);
            if path::lexists(&path) {
                found.push(path);
            }
            continue;
        }
        let here = fs::here_if_readable(&folder).unwrap_or_default();
        let hidden = tail.starts_with('.');
        let names = here.dirs.iter().chain(&here.files);
        let fits = names
            .filter(|name| hidden || !name.starts_with('.'))
            .filter(|name| fnmatch(tail, name));
        found.extend(fits.map(|name| match head {
            "" => name.clone(),
            _ => path::join(&folder, name),
        }));
    }
    found.sort();
    found
}

fn path_exists_glob(_cx: &Exec, args: PathExistsGlob) -> Result<Value, Error> {
    Ok((!globbed(&path::expanduser(&args.path)).is_empty()).into())
}

fn readdir(_cx: &Exec, args: Readdir) -> Result<Value, Error> {
    let path = absolute(&args.path, "Dir path must be absolute.")?;
    let Some(here) = fs::here(&path)? else {
        return Err(format!("A valid directory was not specified: {path}").into());
    };
    let mut names = here.dirs;
    names.extend(here.files);
    names.sort();
    let dots = [".", ".."].map(str::to_owned);
    Ok(Value::from(
        dots.into_iter().chain(names).collect::<Vec<String>>(),
    ))
}

fn pardir(_cx: &Exec, _args: Pardir) -> Result<Value, Error> {
    Ok("..".into())
}

fn normpath(_cx: &Exec, args: Normpath) -> Result<Value, Error> {
    Ok(path::normpath(&args.path).into())
}

fn basename(_cx: &Exec, args: Basename) -> Result<Value, Error> {
    Ok(path::basename(&args.path).into())
}

fn dirname(_cx: &Exec, args: Dirname) -> Result<Value, Error> {
    Ok(path::dirname(&args.path).into())
}

fn join(_cx: &Exec, args: Join) -> Result<Value, Error> {
    let mut parts = args.parts.iter().map(Value::to_text);
    let first = parts.next().ok_or_else(|| Error::missing("parts"))?;
    Ok(parts
        .fold(first, |path, part| path::join(&path, &part))
        .into())
}

fn names_in(folder: &str) -> Vec<String> {
    machine::procfs::list(folder)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Returns the paths that a process has open, including its program.
fn open_by(pid: i64) -> BTreeSet<String> {
    let mut handles: Vec<String> = Vec::new();
    let folder = format!("/proc/{pid}");
    handles.extend(
        names_in(&format!("{folder}/fd"))
            .iter()
            .map(|fd| format!("{folder}/fd/{fd}")),
    );
    for task in names_in(&format!("{folder}/task")) {
        let task = format!("{folder}/task/{task}");
        handles.push(format!("{task}/exe"));
        handles.extend(
            names_in(&format!("{task}/fd"))
                .iter()
                .map(|fd| format!("{task}/fd/{fd}")),
        );
    }
    let real = |handle: &String| machine::procfs::link_target(handle);
    handles
        .iter()
        .filter_map(real)
        .map(|path| path.to_string_lossy().into_owned())
        .filter(|path| path::exists(path))
        .collect()
}

fn open_files(_cx: &Exec, args: OpenFiles) -> Result<Value, Error> {
    let pids = names_in("/proc")
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect::<Vec<i64>>();
    let mut by_pid = Map::new();
    let mut by_file: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for pid in pids {
        let files = open_by(pid);
        for file in &files {
            by_file.entry(file.clone()).or_default().push(pid);
        }
        by_pid.insert(pid, files.into_iter().collect::<Vec<String>>());
    }
    if args.by_pid {
        return Ok(by_pid.into());
    }
    Ok(by_file.into_iter().collect())
}
