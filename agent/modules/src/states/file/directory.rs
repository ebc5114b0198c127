//! `file.directory`.

use std::path::Path;

use machine::accounts::users;
use machine::fs;
use machine::fs::Walked;
use machine::fs::handle::{Folder, Links, Place};
use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::clean;
use super::{absolute, check_user, gate, owner};
use crate::exec::file::makedirs;
use crate::exec::file::perms::{self, Spot, Wanted, note};
use crate::exec::file::stat::{self, normalized};
use crate::fileserver::patterns::excluded;

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::TreeIf(&["clean", "recurse"]))]
    mod file;

    /// Make sure that a folder exists with the given owner and mode, with `recurse` also for its
    /// contents.
    ///
    ///     /srv/www:
    ///       file.directory:
    ///         - user: www-data
    ///         - mode: '0755'
    ///         - makedirs: True
    fn directory(Directory {
        /// The folder.
        name: String,
        /// The user that owns it.
        user: Value = Value::Null,
        /// The group that owns it.
        group: Value = Value::Null,
        /// The properties to set below the folder too: `user`, `group`, `mode`, and `ignore_files`,
        /// `ignore_dirs`, `silent`.
        recurse: Value = Value::Null,
        /// The maximum depth of `recurse`.
        max_depth: Option<i64> = None,
        /// The mode of folders.
        dir_mode: Value = Value::Null,
        /// The mode of files below the folder.
        file_mode: Value = Value::Null,
        /// True to create the parent folders.
        makedirs: bool = false,
        /// True to remove everything that no required state manages.
        clean: bool = false,
        /// The states whose files `clean` keeps.
        require: Value = Value::Null,
        /// The paths that `clean` keeps: a glob, or a regular expression after `E@`, or a list of
        /// these.
        exclude_pat: Value = Value::Null,
        /// True to change the targets of links.
        follow_symlinks: bool = false,
        /// True to replace an existing file with the folder.
        force: bool = false,
        /// The new name of an existing file at the folder's path.
        backupname: Option<String> = None,
        /// True to accept a link to a folder.
        allow_symlink: bool = true,
        /// True to leave the folder itself unchanged.
        children_only: bool = false,
        /// Accepted but ignored; only Windows needs it.
        win_owner: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_perms: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_deny_perms: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_inheritance: bool = true,
        /// Accepted but ignored; only Windows needs it.
        win_perms_reset: bool = false,
        ..kwargs
    });
}

/// The wanted state of a folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) user: Value,
    pub(crate) group: Value,
    pub(crate) dir_mode: Option<String>,
    pub(crate) file_mode: Option<String>,
    pub(crate) makedirs: bool,
    recurse: Value,
    max_depth: Option<usize>,
    clean: bool,
    require: Value,
    exclude_pat: Value,
    follow: bool,
    children_only: bool,
}

fn directory(cx: &Exec, mut args: Directory) -> Result<Ret, Error> {
    let mut name = path::expanduser(&args.name);
    if name.is_empty() {
        return Err("Must provide name to file.directory".into());
    }
    let shown = name.clone();
    if name.ends_with('/') && name != "/" {
        name.pop();
    }
    if args.max_depth.is_some() && args.clean {
        return Err("Cannot specify both max_depth and clean".into());
    }
    let user = owner(args.user, &args.kwargs);
    if let Some(mode) = args.kwargs.get("mode").filter(|_| !args.dir_mode.is_true()) {
        args.dir_mode = mode.clone();
    }
    if !args.file_mode.is_true() {
        args.file_mode = args.dir_mode.clone();
    }
    check_user(cx, &user, &args.group)?;
    absolute(cx, &name)?;
    let mut start = Ret::ok("");
    start.name = Some(shown);
    let way = In::detect(&name, args.force, args.allow_symlink);
    if let Some(done) = way.cleared(
        cx,
        &name,
        args.backupname.as_deref(),
        args.force,
        &mut start,
    )? {
        return Ok(done);
    }
    let plan = Plan {
        name,
        user,
        group: args.group,
        dir_mode: normalized(&args.dir_mode),
        file_mode: normalized(&args.file_mode),
        makedirs: args.makedirs,
        recurse: args.recurse,
        max_depth: args
            .max_depth
            .map(|depth| usize::try_from(depth).unwrap_or(0)),
        clean: args.clean,
        require: args.require,
        exclude_pat: args.exclude_pat,
        follow: args.follow_symlinks,
        children_only: args.children_only,
    };
    plan.run(cx, start)
}

/// The object at the folder's path that must be replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    Nothing,
    File,
    Link,
}

impl In {
    fn detect(name: &str, force: bool, allow_symlink: bool) -> Self {
        let link = path::islink(name);
        if path::isfile(name) {
            Self::File
        } else if link && (force || !allow_symlink) {
            Self::Link
        } else {
            Self::Nothing
        }
    }

    /// Removes or renames the object. Returns the result if the state ends there.
    fn cleared(
        self,
        cx: &Exec,
        name: &str,
        backup: Option<&str>,
        force: bool,
        ret: &mut Ret,
    ) -> Result<Option<Ret>, Error> {
        if self == Self::Nothing {
            return Ok(None);
        }
        if let Some(backup) = backup {
            return backed_up(cx, name, backup, force, ret);
        }
        if !force {
            let what = if self == Self::File {
                "file"
            } else {
                "symlink"
            };
            return Err(format!("Specified location {name} exists and is a {what}").into());
        }
        let what = if self == Self::File {
            "File"
        } else {
            "Symlink"
        };
        if cx.test {
            note(ret, "forced", format!("{what} would be forcibly replaced"));
        } else {
            fs::remove(cx, Path::new(name)).map_err(Error::io(name))?;
            note(ret, "forced", format!("{what} was forcibly replaced"));
        }
        Ok(None)
    }
}

fn backed_up(
    cx: &Exec,
    name: &str,
    backup: &str,
    force: bool,
    ret: &mut Ret,
) -> Result<Option<Ret>, Error> {
    if path::lexists(backup) {
        if !force {
            return Err(format!("File exists where the backup target {backup} should go").into());
        }
        if cx.test {
            let text = format!("Existing file at backup path {backup} would be removed");
            note(ret, "forced", text);
        } else {
            fs::remove(cx, Path::new(backup)).map_err(Error::io(backup))?;
        }
    }
    if !cx.test {
        fs::rename(cx, Path::new(name), Path::new(backup)).map_err(Error::io(name))?;
        return Ok(None);
    }
    note(
        ret,
        "backup",
        format!("{name} would be renamed to {backup}"),
    );
    note(ret, name, Map::new().with("directory", "new"));
    ret.comment = format!("{name} would be backed up and replaced with a new directory");
    ret.result = None;
    cx.apply(ret.clone(), || Ok(ret.clone())).map(Some)
}

/// The properties in `recurse`.
#[derive(Clone, Debug, Default)]
struct Recurse(Vec<String>);

const RECURSE_TYPES: [&str; 6] = [
    "user",
    "group",
    "mode",
    "ignore_files",
    "ignore_dirs",
    "silent",
];

impl Recurse {
    fn parse(value: &Value) -> Result<Self, String> {
        if !value.is_true() {
            return Ok(Self::default());
        }
        let Some(items) = value.as_list() else {
            return Err("\"recurse\" must be formed as a list of strings".into());
        };
        let names: Vec<String> = items.iter().map(Value::to_text).collect();
        if names
            .iter()
            .any(|name| !RECURSE_TYPES.contains(&name.as_str()))
        {
            let quoted = RECURSE_TYPES.map(|name| format!("\"{name}\""));
            return Err(format!(
                "Types for \"recurse\" limited to {}.",
                quoted.join(", ")
            ));
        }
        let both = Self(names);
        if both.has("ignore_files") && both.has("ignore_dirs") {
            return Err("Must not specify \"recurse\" options \"ignore_files\" and \"ignore_dirs\" at the same time.".into());
        }
        Ok(both)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|known| known == name)
    }
}

impl Plan {
    /// Returns the plan for a single folder of a state that manages many: it creates the parent
    /// folders and changes nothing below.
    pub(crate) fn single(name: &str, user: &Value, group: &Value, mode: Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            user: user.clone(),
            group: group.clone(),
            dir_mode: mode.clone(),
            file_mode: mode,
            makedirs: true,
            ..Self::default()
        }
    }

    /// Brings the folder to the wanted state.
    pub(crate) fn run(&self, cx: &Exec, start: Ret) -> Result<Ret, Error> {
        let checked = self.checked(cx, start)?;
        if checked.result == Some(true) || checked.result == Some(false) {
            return Ok(checked);
        }
        gate(
            cx,
            || Ok(checked.clone()),
            || self.change(cx, checked.clone()),
        )
    }

    /// Returns the result without a change: correct, failed, or the changes to be made.
    fn checked(&self, cx: &Exec, mut ret: Ret) -> Result<Ret, Error> {
        let walked = self.walked()?;
        let recurse = match Recurse::parse(&self.recurse) {
            Ok(recurse) => recurse,
            Err(problem) => {
                return Ok(Ret {
                    result: Some(false),
                    comment: problem,
                    ..ret
                });
            }
        };
        let mut changes = Map::new();
        let named = |name: &str, value: &Value| {
            if self.recurse.is_true() && !recurse.has(name) {
                Value::Null
            } else {
                value.clone()
            }
        };
        let modes = !self.recurse.is_true() || recurse.has("mode");
        let dir = Wanted::new(
            &named("user", &self.user),
            &named("group", &self.group),
            self.dir_mode.clone().filter(|_| modes),
        );
        if self.recurse.is_true() {
            let file = Wanted {
                mode: self.file_mode.clone().filter(|_| modes),
                ..dir.clone()
            };
            for folder in &walked {
                self.check_children(folder, &recurse, &dir, &file, &mut changes);
            }
        }
        if !self.children_only {
            self.difference(&self.name, &dir, true, &mut changes);
        }
        if self.clean {
            self.check_clean(cx, &walked, &mut changes)?;
        }
        if !path::isdir(&self.name) {
            changes.insert(self.name.as_str(), Map::new().with("directory", "new"));
        }
        if changes.is_empty() {
            ret.comment = format!("The directory {} is in the correct state", self.name);
            return Ok(ret);
        }
        ret.result = None;
        ret.comment = listed(&changes);
        if let Some(all) = ret.changes.as_map_mut() {
            all.update(changes);
        }
        Ok(ret)
    }

    fn walked(&self) -> Result<Vec<Walked>, Error> {
        if self.recurse.is_true() || self.clean {
            fs::walk(&self.name, self.max_depth)
        } else {
            Ok(Vec::new())
        }
    }

    fn check_children(
        &self,
        folder: &Walked,
        recurse: &Recurse,
        dir: &Wanted,
        file: &Wanted,
        changes: &mut Map,
    ) {
        if !recurse.has("ignore_files") {
            for name in &folder.files {
                self.difference(&path::join(&folder.root, name), file, false, changes);
            }
        }
        if !recurse.has("ignore_dirs") {
            for name in &folder.dirs {
                self.difference(&path::join(&folder.root, name), dir, true, changes);
            }
        }
    }

    /// Records the differences between a path and its wanted state.
    fn difference(&self, path: &str, wanted: &Wanted, new: bool, changes: &mut Map) {
        let mut here = Map::new();
        match stat::read(path, self.follow) {
            Ok(now) => {
                if now.user_differs(&wanted.user) {
                    here.insert("user", wanted.user.clone());
                }
                if now.group_differs(&wanted.group) {
                    here.insert("group", wanted.group.clone());
                }
                let mode = wanted.mode.as_ref().filter(|mode| **mode != now.mode);
                if let Some(mode) = mode.filter(|_| self.follow || now.kind != "link") {
                    here.insert("mode", mode.as_str());
                }
            }
            Err(_) if new => {
                here.insert("directory", "new");
            }
            Err(_) => {}
        }
        if !here.is_empty() {
            changes.insert(path, here);
        }
    }

    fn check_clean(&self, cx: &Exec, walked: &[Walked], changes: &mut Map) -> Result<(), Error> {
        let keep = clean::kept_in(cx, &self.name, &self.require, walked)?;
        for folder in walked {
            for name in folder.files.iter().chain(&folder.dirs) {
                let path = path::join(&folder.root, name);
                let kept = keep.iter().any(|kept| kept.contains(&path));
                if !kept && !excluded(&path::relpath(&path, &self.name), &self.exclude_pat) {
                    changes.insert(path, Map::new().with("removed", "Removed due to clean"));
                }
            }
        }
        Ok(())
    }

    fn change(&self, cx: &Exec, mut ret: Ret) -> Result<Ret, Error> {
        ret.result = Some(true);
        ret.comment = String::new();
        if !path::isdir(&self.name) {
            return self.create(cx, ret);
        }
        let own =
            Wanted::new(&self.user, &self.group, self.dir_mode.clone()).following(self.follow);
        if !self.children_only {
            perms::check(cx, &self.name, &mut ret, &own, None)?;
        }
        let walked = self.walked()?;
        let mut errors = Vec::new();
        if let Ok(recurse) = Recurse::parse(&self.recurse)
            && !recurse.0.is_empty()
        {
            self.set_below(cx, &walked, &recurse, &mut ret, &mut errors);
        }
        if self.clean {
            let keep = clean::kept_in(cx, &self.name, &self.require, &walked)?;
            let removed = clean::remove(cx, &self.name, &keep, &self.exclude_pat)?;
            if !removed.is_empty() {
                note(&mut ret, "removed", Value::from(removed));
                ret.comment = format!("Files cleaned from directory {}", self.name);
            }
        }
        Ok(self.with_comment(ret, &errors))
    }

    fn with_comment(&self, mut ret: Ret, errors: &[String]) -> Ret {
        let name = &self.name;
        if ret.comment.is_empty() {
            if self.children_only {
                ret.comment = format!("Directory {name}/* updated");
            } else if ret.changes.is_true() {
                ret.comment = format!("Directory {name} updated");
            }
        }
        if !ret.changes.is_true() && ret.result == Some(true) {
            let before = std::mem::take(&mut ret.comment);
            ret.comment = format!("The directory {name} is in the correct state");
            if !before.is_empty() {
                ret.comment = format!("Directory {name} is in the correct state\n{before}");
            }
        }
        if !errors.is_empty() {
            ret.result = Some(false);
            ret.comment
                .push_str("\n\nThe following errors were encountered:\n");
            for error in errors {
                ret.comment.push_str(&format!("\n- {error}"));
            }
        }
        ret
    }

    fn create(&self, cx: &Exec, mut ret: Ret) -> Result<Ret, Error> {
        let name = &self.name;
        if !path::isdir(path::dirname(name)) {
            if !self.makedirs {
                return Ok(Ret {
                    result: Some(false),
                    comment: format!("No directory to create {name} in"),
                    ..ret
                });
            }
            makedirs::above(cx, name, &self.user, &self.group, self.dir_mode.clone())?;
        }
        makedirs::all(cx, name, &self.user, &self.group, self.dir_mode.clone())?;
        note(&mut ret, name, Map::new().with("directory", "new"));
        Ok(ret)
    }

    /// Sets the owner and mode of the contents, as far as `recurse` names them.
    fn set_below(
        &self,
        cx: &Exec,
        walked: &[Walked],
        recurse: &Recurse,
        ret: &mut Ret,
        errors: &mut Vec<String>,
    ) {
        let owner = |what: &str, value: &Value, known: bool, ret: &mut Ret| {
            if !recurse.has(what) {
                return Value::Null;
            }
            let given = value.is_true() || value.as_int().is_some();
            if !given || !known {
                ret.result = Some(false);
                ret.comment = unknown_owner(what, value, given);
            }
            value.clone()
        };
        let user = owner("user", &self.user, users::uid(&self.user).is_some(), ret);
        let group = owner("group", &self.group, users::gid(&self.group).is_some(), ret);
        let mode = |mode: &Option<String>| mode.clone().filter(|_| recurse.has("mode"));
        let dir = Wanted::new(&user, &group, mode(&self.dir_mode)).following(self.follow);
        let file = Wanted::new(&user, &group, mode(&self.file_mode)).following(self.follow);
        if recurse.has("silent") {
            ret.changes = Map::new().with("recursion", "Changes silenced").into();
        }
        let top = match self.top(cx) {
            Ok(top) => top,
            Err(error) => return errors.push(error.to_string()),
        };
        for walked in walked {
            let names = [
                (&walked.files, &file, "ignore_files"),
                (&walked.dirs, &dir, "ignore_dirs"),
            ];
            for (names, wanted, _) in names.iter().filter(|(.., no)| !recurse.has(no)) {
                for name in *names {
                    if let Err(error) = self.set_one(cx, &top, &walked.root, name, wanted, ret) {
                        errors.push(error.to_string());
                    }
                }
            }
        }
    }

    /// Opens the folder. It follows a symlink only if the path was one when it was examined.
    fn top(&self, cx: &Exec) -> Result<Folder, Error> {
        let (path, links) = (Path::new(&self.name), Links::from_config(cx));
        let opened = match path::islink(&self.name) {
            true => Folder::open(path, links),
            false => Folder::open_itself(path, links),
        };
        opened.map_err(Error::io(path))
    }

    /// Sets the owner and mode of one entry through the handles of its parent folders, since the
    /// owner of a parent folder may replace it with a symlink at any time.
    fn set_one(
        &self,
        cx: &Exec,
        top: &Folder,
        root: &str,
        name: &str,
        wanted: &Wanted,
        ret: &mut Ret,
    ) -> Result<(), Error> {
        let path = path::join(root, name);
        let rest = Path::new(root).strip_prefix(&self.name);
        let rest = rest.map_err(|error| Error::refused(error.to_string()))?;
        let folder = top.below(rest).map_err(Error::io(root))?;
        let name = name.into();
        let place = Place { folder, name };
        match perms::check_spot(cx, Spot::In(&place, &path), ret, wanted, None) {
            Err(error) if !error.to_string().starts_with("Path not found") => Err(error),
            _ => Ok(()),
        }
    }
}

fn unknown_owner(what: &str, value: &Value, given: bool) -> String {
    if !given {
        return format!(
            "{what} not specified, but configured as a target for recursive ownership management"
        );
    }
    match what {
        "user" => format!(
            "Failed to enforce ownership for user {} (user does not exist)",
            value.to_text()
        ),
        _ => format!(
            "Failed to enforce group ownership for group {}",
            value.to_text()
        ),
    }
}

fn listed(changes: &Map) -> String {
    let mut text = "The following files will be changed:\n".to_owned();
    for (path, change) in changes.iter() {
        for (key, value) in change.as_map().into_iter().flat_map(Map::iter) {
            let (path, key) = (path.to_text(), key.to_text());
            text.push_str(&format!("{path}: {key} - {}\n", value.to_text()));
        }
    }
    text
}
