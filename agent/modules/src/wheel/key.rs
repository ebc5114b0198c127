//! The `key` wheel module on the local pki folder.

use std::path::{Path, PathBuf};

use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value, log};

state::exec_module! {
    /// Manage the keys in this machine's pki folder.
    mod key;

    /// Return the keys of one status: accepted, pending, rejected, denied, or all.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.list match=all
    fn list(List {
        /// The status: `accepted`, `pre`, `rejected`, `denied` or `all`, or the beginning of one.
        r#match: String,
    });

    /// Return all keys by status.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.list_all
    fn list_all(ListAll {});

    /// Return the keys whose id matches a glob, by status.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.glob_match match='web*'
    fn glob_match(GlobMatch {
        /// The glob that the ids must match.
        r#match: String,
    });

    /// Return the keys whose id matches a glob. This is the older name of `key.glob_match`.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.name_match match=web1,web2
    fn name_match(NameMatch {
        /// The glob that the ids must match.
        r#match: String,
    });

    /// Accept pending keys.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.accept match=web1
    fn accept(Accept {
        /// The glob that the ids must match.
        r#match: String,
        /// Accept rejected keys as well.
        include_rejected: bool = false,
        /// Accept denied keys as well.
        include_denied: bool = false,
    });

    /// Accept the keys in a dictionary.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.accept_dict match='{minions_pre: [web1]}'
    fn accept_dict(AcceptDict {
        /// Lists of ids by status.
        r#match: Map,
        /// Accept rejected keys as well.
        include_rejected: bool = false,
        /// Accept denied keys as well.
        include_denied: bool = false,
    });

    /// Reject pending keys.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.reject match=web1
    fn reject(Reject {
        /// The glob that the ids must match.
        r#match: String,
        /// Reject accepted keys as well.
        include_accepted: bool = false,
        /// Reject denied keys as well.
        include_denied: bool = false,
    });

    /// Reject the keys in a dictionary.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.reject_dict match='{minions_pre: [web1]}'
    fn reject_dict(RejectDict {
        /// Lists of ids by status.
        r#match: Map,
        /// Reject accepted keys as well.
        include_accepted: bool = false,
        /// Reject denied keys as well.
        include_denied: bool = false,
    });

    /// Delete keys of any status.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.delete match=web1
    fn delete(Delete {
        /// The glob that the ids must match.
        r#match: String,
    });

    /// Delete the keys in a dictionary.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.delete_dict match='{minions: [web1]}'
    fn delete_dict(DeleteDict {
        /// Lists of ids by status.
        r#match: Map,
    });

    /// Return the text of the keys whose id matches a glob.
    ///
    ///     salt-run state.orchestrate_single salt.wheel key.print match=web1
    fn print(Print {
        /// The glob that the ids must match.
        r#match: String,
    });
}

/// The status of a key. Each status has its own folder, whose name is used in returns as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Accepted,
    Pending,
    Rejected,
    Denied,
}

impl Status {
    /// All statuses, in the order in which Salt shows them.
    const ALL: [Self; 4] = [Self::Pending, Self::Rejected, Self::Accepted, Self::Denied];

    const fn folder(self) -> &'static str {
        match self {
            Self::Accepted => "minions",
            Self::Pending => "minions_pre",
            Self::Rejected => "minions_rejected",
            Self::Denied => "minions_denied",
        }
    }

    fn from_folder(folder: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|status| status.folder() == folder)
    }
}

/// Returns the master's pki folder, which is next to the minion's.
fn pki(cx: &Exec) -> PathBuf {
    let own = cx.opts().path("pki_dir");
    if own.file_name().is_some_and(|name| name == "minion") {
        own.with_file_name("master")
    } else {
        own
    }
}

/// Returns true for a valid id. Ids are file names here, so their characters are restricted.
fn is_id(id: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    id.len() <= 253 && id.starts_with(|c: char| c.is_ascii_alphanumeric()) && id.chars().all(word)
}

/// Returns the names of the files in a folder, sorted; none when it does not exist.
fn names(folder: &Path) -> Result<Vec<String>, Error> {
    let entries = machine::fs::list_or_none(folder)?.unwrap_or_default();
    let names = entries.into_iter();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

fn of_status(cx: &Exec, status: Status) -> Result<Vec<String>, Error> {
    let mut ids = names(&pki(cx).join(status.folder()))?;
    ids.retain(|id| is_id(id));
    Ok(ids)
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let word = args.r#match.as_str();
    let wanted: &[Status] = match word {
        _ if word.starts_with("acc") => &[Status::Accepted],
        _ if word.starts_with("pre") || word.starts_with("un") => &[Status::Pending],
        _ if word.starts_with("rej") => &[Status::Rejected],
        _ if word.starts_with("den") => &[Status::Denied],
        _ if word.starts_with("all") => return list_all(cx, ListAll {}),
        _ => &[],
    };
    let mut found = Map::new();
    for status in wanted {
        found.insert(status.folder(), of_status(cx, *status)?);
    }
    Ok(found.into())
}

fn list_all(cx: &Exec, _args: ListAll) -> Result<Value, Error> {
    let mut found = Map::new();
    for status in Status::ALL {
        found.insert(status.folder(), of_status(cx, status)?);
    }
    let mut local = names(&pki(cx))?;
    local.retain(|name| name.ends_with(".pub") || name.ends_with(".pem"));
    Ok(found.with("local", local).into())
}

/// Returns the matching ids by status, only for the given statuses.
fn matching(
    cx: &Exec,
    glob: &str,
    statuses: &[Status],
) -> Result<Vec<(Status, Vec<String>)>, Error> {
    let mut found = Vec::new();
    for status in statuses {
        let mut ids = of_status(cx, *status)?;
        ids.retain(|id| fnmatch(glob, id));
        if !ids.is_empty() {
            found.push((*status, ids));
        }
    }
    Ok(found)
}

fn ids_by_folder(found: Vec<(Status, Vec<String>)>) -> Value {
    found
        .into_iter()
        .map(|(status, ids)| (status.folder(), ids))
        .collect()
}

fn glob_match(cx: &Exec, args: GlobMatch) -> Result<Value, Error> {
    matching(cx, &args.r#match, &Status::ALL).map(ids_by_folder)
}

fn name_match(cx: &Exec, args: NameMatch) -> Result<Value, Error> {
    matching(cx, &args.r#match, &Status::ALL).map(ids_by_folder)
}

/// Returns the ids in a dictionary whose keys exist, by status.
fn named(cx: &Exec, given: &Map, statuses: &[Status]) -> Result<Vec<(Status, Vec<String>)>, Error> {
    let mut found = Vec::new();
    for (folder, ids) in given {
        let Some(status) =
            Status::from_folder(&folder.to_text()).filter(|status| statuses.contains(status))
        else {
            continue;
        };
        let wanted: Vec<String> = ids.texts();
        let mut there = of_status(cx, status)?;
        there.retain(|id| wanted.contains(id));
        found.push((status, there));
    }
    Ok(found)
}

/// Moves keys to another status, and returns their ids under that status, as Salt does.
fn moved(cx: &Exec, found: Vec<(Status, Vec<String>)>, to: Status) -> Result<Value, Error> {
    let root = pki(cx);
    let target = root.join(to.folder());
    let mut done = Vec::new();
    for (status, ids) in found.into_iter().filter(|(status, _)| *status != to) {
        std::fs::create_dir_all(&target).map_err(Error::io(&target))?;
        for id in ids {
            let (from, to) = (root.join(status.folder()).join(&id), target.join(&id));
            machine::fs::rename(cx, &from, &to).map_err(Error::io(&from))?;
            log::info(format_args!(
                "Key for minion {id} is now in {}",
                to.display()
            ));
            done.push(id);
        }
    }
    cx.barrier();
    Ok(if done.is_empty() {
        Map::new().into()
    } else {
        Map::new().with(to.folder(), done).into()
    })
}

fn with(first: Status, more: &[(bool, Status)]) -> Vec<Status> {
    let wanted = more
        .iter()
        .filter(|(wanted, _)| *wanted)
        .map(|(_, status)| *status);
    std::iter::once(first).chain(wanted).collect()
}

fn accept(cx: &Exec, args: Accept) -> Result<Value, Error> {
    let from = with(
        Status::Pending,
        &[
            (args.include_rejected, Status::Rejected),
            (args.include_denied, Status::Denied),
        ],
    );
    moved(cx, matching(cx, &args.r#match, &from)?, Status::Accepted)
}

fn accept_dict(cx: &Exec, args: AcceptDict) -> Result<Value, Error> {
    let from = with(
        Status::Pending,
        &[
            (args.include_rejected, Status::Rejected),
            (args.include_denied, Status::Denied),
        ],
    );
    moved(cx, named(cx, &args.r#match, &from)?, Status::Accepted)
}

fn reject(cx: &Exec, args: Reject) -> Result<Value, Error> {
    let from = with(
        Status::Pending,
        &[
            (args.include_accepted, Status::Accepted),
            (args.include_denied, Status::Denied),
        ],
    );
    moved(cx, matching(cx, &args.r#match, &from)?, Status::Rejected)
}

fn reject_dict(cx: &Exec, args: RejectDict) -> Result<Value, Error> {
    let from = with(
        Status::Pending,
        &[
            (args.include_accepted, Status::Accepted),
            (args.include_denied, Status::Denied),
        ],
    );
    moved(cx, named(cx, &args.r#match, &from)?, Status::Rejected)
}

fn removed(cx: &Exec, found: Vec<(Status, Vec<String>)>) -> Result<Value, Error> {
    let root = pki(cx);
    for (status, ids) in &found {
        let folder = root.join(status.folder());
        for id in ids {
            let path = folder.join(id);
            machine::fs::remove(cx, &path).map_err(Error::io(&path))?;
        }
    }
    cx.barrier();
    Ok(Map::new().into())
}

fn delete(cx: &Exec, args: Delete) -> Result<Value, Error> {
    removed(cx, matching(cx, &args.r#match, &Status::ALL)?)
}

fn delete_dict(cx: &Exec, args: DeleteDict) -> Result<Value, Error> {
    removed(cx, named(cx, &args.r#match, &Status::ALL)?)
}

fn print(cx: &Exec, args: Print) -> Result<Value, Error> {
    let root = pki(cx);
    let mut found = Map::new();
    for (status, ids) in matching(cx, &args.r#match, &Status::ALL)? {
        let mut texts = Map::new();
        for id in ids {
            let path = root.join(status.folder()).join(&id);
            texts.insert(id, machine::fs::text(&path)?);
        }
        found.insert(status.folder(), texts);
    }
    Ok(found.into())
}
