//! The files that minions have sent to this master (`cp.push`), as roots of the file server
//! (`minionfs`). The files of each minion appear below its id.

use std::ffi::OsString;
use std::path::PathBuf;

use machine::fs;
use state::module::Error;
use state::opts::Opts;
use value::glob::passes_lists;

use super::fetch::salt_path;
use super::roots::below;

/// The name of the file that is never served, as in Salt: a minion must not choose the states of
/// others.
const TOP: &str = "top.sls";

/// The files of one minion.
pub(super) struct MinionRoot {
    pub(super) folder: PathBuf,
    /// The path below which the files appear.
    pub(super) mountpoint: String,
}

/// Returns whether a file of a minion may be served.
pub(super) fn serves(path: &str) -> bool {
    path.rsplit('/').next() != Some(TOP)
}

/// Returns the environment that has the files. `None` if this master accepts no files (`file_recv`).
pub(super) fn environment(opts: &Opts) -> Option<String> {
    let env = opts.text("minionfs_env").unwrap_or("base");
    opts.flag("file_recv").then(|| env.to_owned())
}

/// Returns the roots of all minions that have sent files and are exposed, sorted by id. With a path,
/// only that of the minion whose file it may be.
///
/// # Errors
/// When the folder of the minions cannot be read.
pub(super) fn roots(opts: &Opts, path: Option<&str>) -> Result<Vec<MinionRoot>, Error> {
    let (mountpoint, _) = salt_path(opts.text("minionfs_mountpoint").unwrap_or_default());
    let mountpoint = mountpoint.trim_matches('/');
    let whitelist = opts.texts("minionfs_whitelist");
    let blacklist = opts.texts("minionfs_blacklist");
    let minions = opts.cachedir().join("minions");
    let ids = match path {
        Some(path) => below(mountpoint, path)
            .and_then(first)
            .into_iter()
            .collect(),
        None => fs::names(&minions)?,
    };
    let mut roots = Vec::new();
    for id in ids {
        let folder = minions.join(&id).join("files");
        let id = id.to_string_lossy();
        if passes_lists(&id, &whitelist, &blacklist) && folder.is_dir() {
            let mountpoint = match mountpoint {
                "" => id.into_owned(),
                mountpoint => format!("{mountpoint}/{id}"),
            };
            roots.push(MinionRoot { folder, mountpoint });
        }
    }
    Ok(roots)
}

fn first(path: &str) -> Option<OsString> {
    path.split('/').next().map(OsString::from)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use state::sources::Sources;
    use value::{Map, Value};

    use super::super::roots::Roots;
    use super::*;

    /// Returns the configuration of a master whose minions have sent files, among them links, which
    /// only another program can have made.
    fn master(scratch: &tempfile::TempDir) -> Map {
        let cachedir = scratch.path();
        let files = |id: &str| cachedir.join("minions").join(id).join("files");
        for (id, path) in [
            ("web1", "var/log/a.log"),
            ("web1", "states/top.sls"),
            ("web2", "y"),
            ("db", "z~"),
        ] {
            let file = files(id).join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, id).unwrap();
        }
        fs::create_dir_all(cachedir.join("minions/nothing-sent")).unwrap();
        symlink("/etc/passwd", files("web2").join("out")).unwrap();
        symlink(
            "../../web1/files/var/log/a.log",
            files("web2").join("other"),
        )
        .unwrap();
        Map::new()
            .with("__role", "master")
            .with("cachedir", cachedir.display().to_string())
            .with("file_recv", true)
            .with("file_ignore_glob", Value::list(["*~".into()]))
            .with("fileserver_backend", Value::list(["minion".into()]))
    }

    fn tree(opts: &Map) -> Roots {
        Roots::states(&Opts::new(opts.clone()))
    }

    fn list(opts: &Map) -> Vec<String> {
        tree(opts).list("base").unwrap()
    }

    #[test]
    fn files_of_minions_appear_below_their_ids_but_no_top_file_and_no_link_out_of_them() {
        let scratch = tempfile::tempdir().unwrap();
        let opts = master(&scratch).with("minionfs_mountpoint", "salt://sent/");
        let served = ["sent/web1/var/log/a.log", "sent/web2/y"];
        assert_eq!(list(&opts), served);
        let tree = tree(&opts);
        assert_eq!(tree.environments().unwrap(), ["base"]);
        for path in served {
            assert!(tree.opened(path, "base").unwrap().is_some(), "{path}");
        }
        for path in [
            "sent/web1/states/top.sls",
            "sent/web2/out",
            "sent/web2/other",
            "sent/db/z~",
            "sent/nothing-sent",
            "web2/y",
        ] {
            assert!(tree.opened(path, "base").unwrap().is_none(), "{path}");
        }
        assert!(tree.opened(served[0], "dev").unwrap().is_none());
        let below = tree.list_below("sent/web1", "base").unwrap();
        assert_eq!(below, ["sent/web1/var/log/a.log"]);
    }

    #[test]
    fn only_exposed_minions_of_a_master_that_accepts_files_are_served() {
        let scratch = tempfile::tempdir().unwrap();
        let opts = master(&scratch);
        let names = |names: &[&str]| Value::list(names.iter().map(|name| (*name).into()));
        let white = opts.clone().with("minionfs_whitelist", names(&["web2"]));
        assert_eq!(list(&white), ["web2/y"]);
        let black = opts.clone().with("minionfs_blacklist", names(&[r"web\d"]));
        assert!(list(&black).is_empty());
        let dev = opts.clone().with("minionfs_env", "dev");
        assert!(list(&dev).is_empty());
        assert_eq!(tree(&dev).list("dev").unwrap().len(), 2);
        assert!(list(&opts.with("file_recv", false)).is_empty());
    }

    #[test]
    fn a_backend_that_is_not_supported_is_an_error_of_each_request() {
        let backends = Value::list(["roots".into(), "hgfs".into()]);
        let tree = tree(&Map::new().with("fileserver_backend", backends));
        let error = tree.file("a", "base").unwrap_err().sentence();
        assert!(error.contains("backend hgfs is not supported"), "{error}");
        assert!(tree.list("base").is_err() && tree.environments().is_err());
    }
}
