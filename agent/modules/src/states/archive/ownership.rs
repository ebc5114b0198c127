//! Sets the owners of extracted files.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use machine::accounts::users;
use machine::fs;
use python::path;
use state::module::Ret;
use value::{Map, Value};

use super::{Job, call_state};
use crate::exec::archive::Contents;

/// The paths whose owners could not be set.
#[derive(Default)]
struct Failures {
    missing: Vec<String>,
    failed: Vec<String>,
}

/// Sets the owners of the archive's top level, or of the one given path.
pub(super) fn enforce(job: &Job<'_>, contents: &Contents, ret: &mut Ret) {
    if !job.args.user.is_true() && !job.args.group.is_true() {
        return;
    }
    let (mut trouble, mut changed) = (Failures::default(), false);
    let (dirs, others) = paths(job, contents);
    for path in &dirs {
        changed |= directory(job, path, &mut trouble);
    }
    for path in &others {
        changed |= single(job, path, &mut trouble);
    }
    if let Some(changes) = ret.changes.as_map_mut().filter(|_| changed) {
        changes.insert("updated ownership", true);
    }
    if !trouble.missing.is_empty() {
        if !job.args.if_missing.is_true() {
            ret.result = Some(false);
        }
        ret.comment.push_str(
            "\n\nWhile trying to enforce user/group ownership, the following paths were missing:\n",
        );
        trouble
            .missing
            .iter()
            .for_each(|path| ret.comment.push_str(&format!("\n- {path}")));
    }
    if !trouble.failed.is_empty() {
        ret.result = Some(false);
        ret.comment.push_str(
            "\n\nWhile trying to enforce user/group ownership, Salt was unable to change ownership on the following paths:\n",
        );
        trouble
            .failed
            .iter()
            .for_each(|path| ret.comment.push_str(&format!("\n- {path}")));
    }
}

/// Returns the folders to change recursively, and the other paths.
fn paths(job: &Job<'_>, contents: &Contents) -> (Vec<String>, Vec<String>) {
    if let Some(path) = job.args.enforce_ownership_on.as_str() {
        let one = vec![path.to_owned()];
        return if path::isdir(path) {
            (one, Vec::new())
        } else {
            (Vec::new(), one)
        };
    }
    let verbose = contents.verbose();
    let all = |keys: &[&str]| {
        let found = keys
            .iter()
            .filter_map(|key| verbose.get(key)?.as_list())
            .flatten();
        found
            .map(|name| path::join(&job.name, &name.to_text()))
            .collect()
    };
    (
        all(&["top_level_dirs"]),
        all(&["top_level_files", "top_level_links"]),
    )
}

fn directory(job: &Job<'_>, path: &str, trouble: &mut Failures) -> bool {
    if !path::isdir(path) {
        if !job.cx.test {
            trouble.missing.push(path.to_owned());
        }
        return false;
    }
    let (user, group) = (&job.args.user, &job.args.group);
    let recurse = [("user", user), ("group", group)].into_iter();
    let recurse = recurse
        .filter(|(_, owner)| owner.is_true())
        .map(|(name, _)| name.into());
    let kwargs = Map::new()
        .with("recurse", Value::list(recurse))
        .with("user", user.clone())
        .with("group", group.clone());
    let Ok(done) = call_state(job.cx, "file.directory", path, kwargs) else {
        return false;
    };
    if done.result == Some(false) {
        trouble.failed.push(path.to_owned());
    }
    done.changes.is_true()
}

fn single(job: &Job<'_>, path: &str, trouble: &mut Failures) -> bool {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        if !job.cx.test {
            trouble.missing.push(path.to_owned());
            trouble.failed.push(path.to_owned());
        }
        return false;
    };
    let uid = users::uid(&job.args.user).filter(|uid| *uid != found.uid());
    let gid = users::gid(&job.args.group).filter(|gid| *gid != found.gid());
    if uid.is_none() && gid.is_none() {
        return false;
    }
    let done = job.cx.test || fs::chown(job.cx, Path::new(path), uid, gid, false).is_ok();
    if !done {
        trouble.failed.push(path.to_owned());
    }
    done
}
