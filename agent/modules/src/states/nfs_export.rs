//! The `nfs_export` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::nfs3::{client, listed, reload, write};

state::state_module! {
    /// Manage the folders that NFS exports.
    #[needs(
        "exportfs",
        "The nfs_exports state module failed to load: the exportfs binary is not in the path",
        "nfs-kernel-server"
    )]
    mod nfs_export;

    /// Make sure that a path is exported to exactly these hosts with these options.
    ///
    ///     /srv/share:
    ///       nfs_export.present:
    ///         - hosts: 10.0.0.0/24
    ///         - options: [rw, sync]
    fn present(Present {
        /// The path.
        name: String,
        /// A list of dictionaries with `hosts` and their `options`.
        clients: Value = Value::Null,
        /// The hosts, instead of `clients`.
        hosts: Option<String> = None,
        /// The options for `hosts`.
        options: Value = Value::Null,
        /// The file.
        exports: String = "/etc/exports".into(),
    });

    /// Make sure that a path is not exported.
    ///
    ///     /srv/share:
    ///       nfs_export.absent
    fn absent(Absent {
        /// The path.
        name: String,
        /// The file.
        exports: String = "/etc/exports".into(),
    });
}

/// Returns the clients in the form of the exports file. Each has hosts and a list of options; a
/// client without options has one empty option.
fn clients(given: &Value) -> Result<Value, Error> {
    let one = |it: &Value| {
        let hosts = it
            .get("hosts")
            .map(python::str)
            .ok_or_else(|| Error::missing("hosts"))?;
        let options = it.get("options").map(Value::texts).unwrap_or_default();
        let options = if options.is_empty() {
            vec![String::new()]
        } else {
            options
        };
        Ok(client(&hosts, options.into()))
    };
    let all = given.as_list().unwrap_or_default().iter().map(one);
    Ok(Value::list(all.collect::<Result<Vec<_>, Error>>()?))
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (path, file) = (args.name.as_str(), args.exports.as_str());
    let given = match (
        args.clients.is_true(),
        args.hosts.filter(|hosts| !hosts.is_empty()),
    ) {
        (true, _) => args.clients,
        (_, Some(hosts)) => Value::list([client(&hosts, args.options)]),
        _ => return Ok(Ret::failed("Either 'clients' or 'hosts' must be defined")),
    };
    let (wanted, mut all) = (clients(&given)?, listed(file)?);
    let old = all.remove(path);
    let (changes, verb) = match &old {
        Some(old) if *old == wanted => {
            return Ok(Ret::ok(format!("Export {path} already configured")));
        }
        Some(old) => (
            Map::new().with("new", given).with("old", old.clone()),
            "changed",
        ),
        None => (
            Map::new().with("old", Value::Null).with("new", given),
            "added",
        ),
    };
    let would = Ret::would(format!("Export {path} would be {verb}")).changes(changes.clone());
    cx.apply(would, || {
        all.insert(path, wanted);
        write(cx, file, &all)?;
        let (_, stderr) = reload(cx)?;
        let ret = Ret {
            result: Some(stderr.is_empty()),
            ..Ret::ok(stderr)
        };
        Ok(ret.changes(changes))
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (path, file) = (args.name.as_str(), args.exports.as_str());
    let mut all = listed(file)?;
    let Some(old) = all.remove(path) else {
        return Ok(Ret::ok(format!("Export {path} already absent")));
    };
    let would = Ret::would(format!("Export {path} would be removed")).change(path, old.clone());
    cx.apply(would, || {
        write(cx, file, &all)?;
        let (_, stderr) = reload(cx)?;
        let ret = match stderr.is_empty() {
            true => Ret::ok(format!("Export {path} removed")),
            false => Ret::failed(stderr),
        };
        Ok(ret.change(path, old))
    })
}
