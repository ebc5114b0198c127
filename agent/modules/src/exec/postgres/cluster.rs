//! The part of the `postgres` execution module that manages data directories, and the clusters of
//! Debian.

use std::path::Path;

use machine::fs::Temporary;
use machine::process::{Output, Process, which};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{owner, program, timeout};

state::exec_module! {
    /// Manage PostgreSQL with `psql`.
    mod postgres;

    /// Create the data directory of a server.
    ///
    ///     salt-call postgres.datadir_init /var/lib/postgresql/15/main auth=scram-sha-256 user=postgres
    fn datadir_init(DatadirInit {
        /// The path of the data directory.
        name: String,
        /// The method by which connections from this machine are authenticated.
        auth: String = "password".into(),
        /// The name of the superuser.
        user: Option<String> = None,
        /// The password of the superuser.
        password: Option<String> = None,
        /// The encoding.
        encoding: String = "UTF8".into(),
        /// The locale.
        locale: Option<String> = None,
        /// The folder of the write-ahead log.
        waldir: Option<String> = None,
        /// True to protect pages with checksums.
        checksums: bool = false,
        /// The system account that runs the client.
        runas: Option<String> = None,
    });

    /// Return whether a folder is the data directory of a server.
    ///
    ///     salt-call postgres.datadir_exists /var/lib/postgresql/15/main
    fn datadir_exists(DatadirExists {
        /// The path of the data directory.
        name: String,
    });

    /// Create a cluster with Debian's `pg_createcluster`.
    ///
    ///     salt-call postgres.cluster_create 15 main
    fn cluster_create(ClusterCreate {
        /// The version of the server.
        version: String,
        /// The name of the cluster.
        name: String = "main".into(),
        /// The port.
        port: Option<String> = None,
        /// The locale.
        locale: Option<String> = None,
        /// The encoding.
        encoding: Option<String> = None,
        /// The data directory.
        datadir: Option<String> = None,
        /// True to let the group of the data directory read it.
        allow_group_access: Option<bool> = None,
        /// True to protect pages with checksums.
        data_checksums: Option<bool> = None,
        /// The size of a segment of the write-ahead log, in megabytes.
        wal_segsize: Option<String> = None,
    });

    /// Return the clusters.
    ///
    ///     salt-call postgres.cluster_list
    fn cluster_list(ClusterList {
        /// True to return the details of each cluster.
        verbose: bool = false,
    });

    /// Return whether a cluster exists.
    ///
    ///     salt-call postgres.cluster_exists 15 main
    fn cluster_exists(ClusterExists {
        /// The version of the server.
        version: String,
        /// The name of the cluster.
        name: String = "main".into(),
    });

    /// Remove a cluster.
    ///
    ///     salt-call postgres.cluster_remove 15 main
    fn cluster_remove(ClusterRemove {
        /// The version of the server.
        version: String,
        /// The name of the cluster.
        name: String = "main".into(),
        /// True to stop the server first if it runs.
        stop: bool = false,
    });
}

/// The options for creating a data directory.
pub(crate) struct Init {
    pub name: String,
    pub auth: String,
    pub user: Option<String>,
    pub password: Option<String>,
    pub encoding: String,
    pub locale: Option<String>,
    pub waldir: Option<String>,
    pub checksums: bool,
    pub runas: Option<String>,
}

/// Returns whether a folder is the data directory of a server.
pub(crate) fn is_datadir(name: &str) -> bool {
    let has = |file: &str| Path::new(name).join(file).is_file();
    has("PG_VERSION") && has("postgresql.conf")
}

/// Creates a data directory as the account that will run the server.
pub(crate) fn init(cx: &Exec, options: Init) -> Result<bool, Error> {
    let runas = options.runas.unwrap_or_else(|| owner(cx).to_owned());
    let initdb = program(cx, "initdb").ok_or("initdb executable not found.")?;
    let mut words = vec![
        initdb,
        format!("--pgdata={}", options.name),
        format!("--username={}", options.user.as_ref().unwrap_or(&runas)),
        format!("--auth={}", options.auth),
        format!("--encoding={}", options.encoding),
    ];
    words.extend(options.locale.map(|locale| format!("--locale={locale}")));
    words.extend(options.waldir.map(|folder| format!("--waldir={folder}")));
    if options.checksums {
        words.push("--data-checksums".to_owned());
    }
    // The password is not passed as an argument: initdb reads it from a file that is removed
    // afterwards.
    let account = Value::from(runas.as_str());
    let keep = |text: String| Temporary::written("", text.as_bytes(), Some(&account));
    let file = options.password.map(keep).transpose()?;
    words.extend(
        file.as_ref()
            .map(|file| format!("--pwfile={}", file.path().display())),
    );
    let process = Process {
        runas: Some(runas),
        clean_env: true,
        timeout: timeout(cx)?,
        ..Process::words(words)
    };
    Ok(process.run(cx)?.success())
}

/// Returns the clusters of this machine by version and name.
pub(crate) fn clusters(cx: &Exec) -> Result<Map, Error> {
    let output = Process::words([of_debian("pg_lsclusters")?, "--no-header".to_owned()]).run(cx)?;
    if !output.success() {
        return Err(Error::refused(format!(
            "Error listing clusters: {}",
            output.stderr
        )));
    }
    Ok(output
        .stdout_regardless()
        .lines()
        .filter_map(cluster)
        .collect())
}

fn cluster(line: &str) -> Option<(String, Map)> {
    let mut words = line.split_whitespace();
    let mut next = || words.next().map(str::to_owned);
    let id = format!("{}/{}", next()?, next()?);
    let port: Value = match next()?.parse::<i64>() {
        Ok(port) => port.into(),
        Err(_) => return None,
    };
    let mut facts = Map::new().with("port", port);
    for key in ["status", "user", "datadir", "log"] {
        facts.insert(key, next()?);
    }
    Some((id, facts))
}

fn of_debian(name: &str) -> Result<String, Error> {
    let reason = || {
        Error::refused(format!(
            "{name} command not found: install postgresql-common"
        ))
    };
    which(name).ok_or_else(reason)
}

/// Returns the version and the name, or an error if one of them would be read as an option.
fn checked<'a>(version: &'a str, name: &'a str) -> Result<[&'a str; 2], Error> {
    match [version, name].iter().any(|word| word.starts_with('-')) {
        true => Err(Error::refused(format!(
            "invalid cluster {version}/{name}: a part starts with `-`"
        ))),
        false => Ok([version, name]),
    }
}

/// Creates a cluster.
pub(crate) fn create(cx: &Exec, args: &ClusterCreate) -> Result<Output, Error> {
    let mut words = vec![of_debian("pg_createcluster")?];
    for (flag, value) in [
        ("--port", &args.port),
        ("--locale", &args.locale),
        ("--encoding", &args.encoding),
        ("--datadir", &args.datadir),
    ] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            words.extend([flag.to_owned(), value.clone()]);
        }
    }
    words.extend(checked(&args.version, &args.name)?.map(str::to_owned));
    let mut of_initdb = Vec::new();
    if args.allow_group_access == Some(true) {
        of_initdb.push("--allow-group-access".to_owned());
    }
    if args.data_checksums == Some(true) {
        of_initdb.push("--data-checksums".to_owned());
    }
    if let Some(size) = &args.wal_segsize {
        of_initdb.extend(["--wal-segsize".to_owned(), size.clone()]);
    }
    if !of_initdb.is_empty() {
        words.push("--".to_owned());
    }
    words.extend(of_initdb);
    Process::words(words).run(cx)
}

/// Removes a cluster.
pub(crate) fn remove(cx: &Exec, version: &str, name: &str, stop: bool) -> Result<Output, Error> {
    let mut words = vec![of_debian("pg_dropcluster")?];
    if stop {
        words.push("--stop".to_owned());
    }
    words.extend(checked(version, name)?.map(str::to_owned));
    Process::words(words).run(cx)
}

fn datadir_init(cx: &Exec, args: DatadirInit) -> Result<Value, Error> {
    if is_datadir(&args.name) {
        log::info(format_args!("{} already exists", args.name));
        return Ok(false.into());
    }
    let options = Init {
        name: args.name,
        auth: args.auth,
        user: args.user,
        password: args.password,
        encoding: args.encoding,
        locale: args.locale,
        waldir: args.waldir,
        checksums: args.checksums,
        runas: args.runas,
    };
    Ok(init(cx, options)?.into())
}

fn datadir_exists(_cx: &Exec, args: DatadirExists) -> Result<Value, Error> {
    Ok(is_datadir(&args.name).into())
}

fn cluster_create(cx: &Exec, args: ClusterCreate) -> Result<Value, Error> {
    let output = create(cx, &args)?;
    Ok(if output.success() {
        output.to_map().into()
    } else {
        Value::Bool(false)
    })
}

fn cluster_list(cx: &Exec, args: ClusterList) -> Result<Value, Error> {
    let all = clusters(cx)?;
    Ok(match args.verbose {
        true => all.into(),
        false => Value::list(all.keys().cloned()),
    })
}

fn cluster_exists(cx: &Exec, args: ClusterExists) -> Result<Value, Error> {
    let id = format!("{}/{}", args.version, args.name);
    Ok(clusters(cx)?.contains(&id).into())
}

fn cluster_remove(cx: &Exec, args: ClusterRemove) -> Result<Value, Error> {
    let output = remove(cx, &args.version, &args.name, args.stop)?;
    let mut ret = output.to_map();
    if output.success() {
        let done = format!(
            "Successfully removed cluster {}/{}",
            args.version, args.name
        );
        ret.insert("changes", done);
    }
    Ok(ret.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_of_clusters_is_read() {
        let line = "15 main 5432 online postgres /var/lib/postgresql/15/main /var/log/x.log";
        let (id, facts) = cluster(line).unwrap();
        assert_eq!(
            (id.as_str(), facts.get("port")),
            ("15/main", Some(&5432.into()))
        );
        assert_eq!(facts.get("user"), Some(&"postgres".into()));
        assert!(cluster("15 main x").is_none() && checked("15", "--stop").is_err());
    }
}
