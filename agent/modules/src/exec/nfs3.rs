//! The `nfs3` execution module: the folders that NFS exports.

use std::path::Path;

use machine::fs;
use machine::process::Process;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, python};

state::exec_module! {
    /// Manage the folders that NFS exports (`/etc/exports`).
    #[needs(
        "showmount",
        "The nfs3 execution module failed to load: the showmount binary is not in the path.",
        "nfs-common"
    )]
    mod nfs3;

    /// Return the exports in a file: each path with its hosts and their options.
    ///
    ///     salt-call nfs3.list_exports
    fn list_exports(ListExports {
        /// The path of the file.
        exports: String = "/etc/exports".into(),
    });

    /// Remove an export from a file.
    ///
    ///     salt-call nfs3.del_export path=/srv/share
    fn del_export(DelExport {
        /// The path of the file.
        exports: String = "/etc/exports".into(),
        /// The path of the exported folder.
        path: Option<String> = None,
    });

    /// Add an export of a path to hosts.
    ///
    ///     salt-call nfs3.add_export path=/srv/share hosts=10.0.0.0/24
    fn add_export(AddExport {
        /// The path of the file.
        exports: String = "/etc/exports".into(),
        /// The path of the exported folder.
        path: Option<String> = None,
        /// The hosts that may mount the folder.
        hosts: Option<String> = None,
        /// The list of options for these hosts.
        options: Value = Value::Null,
    });

    /// Make the server reload its exports from the file.
    ///
    ///     salt-call nfs3.reload_exports
    fn reload_exports(ReloadExports {});
}

/// Returns the exports in a file: each path with its hosts and their options. Several paths in a
/// line share these.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn listed(file: &str) -> Result<Map, Error> {
    let text = fs::text(file)?;
    let mut all = Map::new();
    let is_export = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    for line in text.lines().filter(is_export) {
        let (mut paths, mut clients) = (Vec::new(), Vec::new());
        for (number, word) in line.split_whitespace().enumerate() {
            if number == 0 || word.starts_with('/') {
                paths.push(word);
                continue;
            }
            let (hosts, options) = word.split_once('(').unwrap_or((word, ""));
            let options = options.trim_end_matches(')');
            clients.push(client(
                hosts,
                Value::list(options.split(',').map(Value::from)),
            ));
        }
        for path in paths {
            let known = all.entry(path, || Value::list([]));
            if let Some(known) = known.as_list_mut() {
                known.extend(clients.iter().cloned());
            }
        }
    }
    Ok(all)
}

/// Returns an entry for hosts with their options.
pub(crate) fn client(hosts: &str, options: Value) -> Value {
    let map = Map::new().with("hosts", hosts);
    map.with("options", options).into()
}

/// Writes exports, with one line for each path. As in Salt, comments are lost.
///
/// # Errors
/// When a path or a client is not a single word and would be misread, or the file cannot be
/// written.
pub(crate) fn write(cx: &Exec, file: &str, exports: &Map) -> Result<(), Error> {
    let mut text = String::new();
    let word =
        |value: &str, what: &str| match value.is_empty() || value.contains(char::is_whitespace) {
            true => Err(Error::refused(format!(
                "{value:?} is not valid as {what} in {file}"
            ))),
            false => Ok(()),
        };
    for (path, clients) in exports {
        let path = path.to_text();
        word(&path, "a path")?;
        text += &path;
        for client in clients.as_list().unwrap_or_default() {
            let hosts = client.get("hosts").map(python::str).unwrap_or_default();
            word(&hosts, "hosts")?;
            let options = client
                .get("options")
                .map(Value::texts)
                .unwrap_or_default()
                .join(",");
            if options.contains(char::is_whitespace) {
                return Err(format!(
                    "invalid options {options:?} in {file}: they contain white space"
                )
                .into());
            }
            text += &format!(" {hosts}({options})");
        }
        text += "\n";
    }
    fs::write(cx, Path::new(file), text.as_bytes(), fs::Owner::default())
}

/// Makes the server reload its exports. Returns the output and the error message of the program;
/// the latter is empty on success.
///
/// # Errors
/// When the program is missing.
pub(crate) fn reload(cx: &Exec) -> Result<(String, String), Error> {
    let done = Process::words(["exportfs", "-r"]).run(cx)?;
    let failed = !done.success() && done.stderr.is_empty();
    let stderr = match failed {
        true => format!("exportfs exited with status {}", done.retcode.unwrap_or(-1)),
        false => done.stderr.clone(),
    };
    Ok((done.into_stdout_regardless(), stderr))
}

fn list_exports(_cx: &Exec, args: ListExports) -> Result<Value, Error> {
    Ok(listed(&args.exports)?.into())
}

fn del_export(cx: &Exec, args: DelExport) -> Result<Value, Error> {
    let path = args.path.ok_or_else(|| Error::missing("path"))?;
    let mut all = listed(&args.exports)?;
    if all.remove(&path).is_none() {
        return Err(format!("{path} is not in {}", args.exports).into());
    }
    write(cx, &args.exports, &all)?;
    Ok(all.into())
}

fn add_export(cx: &Exec, args: AddExport) -> Result<Value, Error> {
    let path = args.path.ok_or_else(|| Error::missing("path"))?;
    let hosts = args.hosts.ok_or_else(|| Error::missing("hosts"))?;
    let options = match args.options {
        Value::Null => Value::list([]),
        options => options,
    };
    let mut all = listed(&args.exports)?;
    let new = client(&hosts, options);
    let known = all.entry(path, || Value::list([]));
    if let Some(known) = known.as_list_mut() {
        known.push(new.clone());
    }
    write(cx, &args.exports, &all)?;
    Ok(new)
}

fn reload_exports(cx: &Exec, _args: ReloadExports) -> Result<Value, Error> {
    let (stdout, stderr) = reload(cx)?;
    let result = stderr.is_empty();
    let map = Map::new().with("stdout", stdout).with("stderr", stderr);
    Ok(map.with("result", result).into())
}
