//! Carries out the plan of an undo: restores paths and things to their state before a run.

use std::fs::{File, FileTimes};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use machine::fs::image::{self, Image};
use machine::fs::{self, Owner};
use rustix::fs::FileType;
use state::exec::Exec;
use state::module::Error;
use state::record;
use value::{Map, Value};

use crate::changes::{self, PathChange, difference};
use crate::plan::{Item, Plan};
use crate::text;

/// Carries out a plan, and reports each item to `tell` in the form of a state's return. Stops at
/// the first item that fails.
///
/// # Errors
/// The error of the item that failed. Items before it stay restored.
pub fn done(cx: &Exec, plan: &Plan, tell: &mut dyn FnMut(&str, Map)) -> Result<(), Error> {
    let kept = record::kept(&record::folder(cx.opts()).join(&plan.jid));
    if kept.exists() {
        record::trusted(&kept)?;
    }
    for (number, item) in (0_i64..).zip(&plan.items) {
        let (name, result) = match item {
            Item::PathChange(place, now) => {
                let done = still(place, now).and_then(|()| restored(cx, place, now, &kept));
                (place.path.display().to_string(), done)
            }
            Item::Resource(thing, now) => {
                // The program that restores the thing may read files that were written before.
                cx.barrier();
                (thing.title(), thing.restore(cx, now))
            }
        };
        let comment = match &result {
            Ok(()) => text::line(item),
            Err(error) => error.to_string(),
        };
        let data = text::item(item, None);
        let changes = if result.is_ok() { data } else { Map::new() };
        let ret = Map::new()
            .with("name", name.as_str())
            .with("changes", changes)
            .with("result", result.is_ok())
            .with("comment", comment)
            .with("__id__", name.as_str())
            .with("__run_num__", number)
            .with("__sls__", "");
        tell(&format!("undo_|-{name}_|-{name}_|-restored"), ret);
        result?;
    }
    Ok(())
}

/// Checks that a place is still as the plan found it.
fn still(place: &PathChange, now: &Image) -> Result<(), Error> {
    let path = &place.path;
    let found = changes::now(path).map_err(Error::io(path))?;
    match difference(path, &found, now) {
        None => Ok(()),
        Some(why) => Err(Error::refused(format!(
            "{}: {why}: it was changed during the undo",
            path.display()
        ))),
    }
}

fn restored(cx: &Exec, place: &PathChange, now: &Image, kept: &Path) -> Result<(), Error> {
    let (path, goal) = (place.path.as_path(), place.goal());
    if place.is_whole() {
        put(cx, path, now, &goal, kept)?;
    }
    looks(cx, path, &goal)
}

/// Restores what was at a path.
fn put(cx: &Exec, path: &Path, now: &Image, goal: &Image, kept: &Path) -> Result<(), Error> {
    let io = || Error::io(path);
    let (is, was) = (image::kind(now), image::kind(goal));
    if is == "directory" && was != is {
        goes(cx, path).map_err(io())?;
    } else if was == "absent" || !["file", "symlink", is].contains(&was) && is != "absent" {
        fs::remove(cx, path).map_err(io())?;
    }
    match was {
        "file" => {
            let hash = goal.get("sha256").map(Value::to_text).unwrap_or_default();
            let from = kept.join(hash);
            let mut contents = File::open(&from).map_err(Error::io(&from))?;
            let owner = Owner {
                mode: number(goal, "mode"),
                uid: number(goal, "uid"),
                gid: number(goal, "gid"),
            };
            fs::replace_from(cx, path, &mut contents, owner)
        }
        "symlink" => {
            let target = goal.get("target").map(Value::to_text).unwrap_or_default();
            fs::replace_with_symlink(cx, Path::new(&target), path).map_err(io())
        }
        "directory" if is != was => fs::mkdir(cx, path).map_err(io()),
        "node" if is != was => {
            let kind = FileType::from_raw_mode(number(goal, "type").unwrap_or_default());
            let device = goal
                .get("device")
                .and_then(Value::as_int)
                .unwrap_or_default();
            let device = u64::try_from(device).unwrap_or_default();
            let device = (rustix::fs::major(device), rustix::fs::minor(device));
            let mode = number(goal, "mode").unwrap_or(0o600);
            fs::mknod(cx, path, kind, mode, device).map_err(io())
        }
        _ => Ok(()),
    }
}

/// Restores the owner, mode and times of a path, where they differ.
fn looks(cx: &Exec, path: &Path, goal: &Image) -> Result<(), Error> {
    let io = || Error::io(path);
    if image::kind(goal) == "absent" {
        return Ok(());
    }
    let now = image::read(path).map_err(io())?;
    let other = |key| number(goal, key).filter(|id| number(&now, key) != Some(*id));
    let (uid, gid) = (other("uid"), other("gid"));
    if uid.is_some() || gid.is_some() {
        fs::chown(cx, path, uid, gid, false).map_err(io())?;
    }
    let now = image::read(path).map_err(io())?;
    if let Some(mode) = number(goal, "mode").filter(|mode| number(&now, "mode") != Some(*mode)) {
        fs::chmod(cx, path, mode, false).map_err(io())?;
    }
    if let Some(times) = goal.get("times").and_then(Value::as_list) {
        let at = |at| {
            times
                .get(at)
                .and_then(Value::as_int)
                .and_then(|n| u64::try_from(n).ok())
        };
        let time = |first| {
            Some(UNIX_EPOCH + Duration::new(at(first)?, u32::try_from(at(first + 1)?).ok()?))
        };
        if let (Some(accessed), Some(modified)) = (time(0), time(2)) {
            let times = FileTimes::new()
                .set_accessed(accessed)
                .set_modified(modified);
            fs::touch(cx, path, times).map_err(io())?;
        }
    }
    Ok(())
}

/// Removes a folder that is empty except for leftovers of writes.
fn goes(cx: &Exec, path: &Path) -> std::io::Result<()> {
    fs::sweep(path);
    fs::rmdir(cx, path)
}

fn number(image: &Image, key: &str) -> Option<u32> {
    u32::try_from(image.get(key)?.as_int()?).ok()
}
