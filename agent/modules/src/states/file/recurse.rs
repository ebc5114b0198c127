//! `file.recurse`.

use std::path::Path;

use machine::fs;
use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Arguments, Error, Ret};
use value::{Map, Value};

use super::directory::Plan;
use super::link::Link;
use super::tree::{self, Options, Tree};
use super::{absolute, check_user, clean, owner};
use crate::exec::file::makedirs;
use crate::exec::file::stat::normalized;

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Trees(&["name"]))]
    mod file;

    /// Copy a folder of the file roots with its contents.
    ///
    ///     /etc/nginx:
    ///       file.recurse:
    ///         - source: salt://nginx
    ///         - clean: True
    fn recurse(Recurse {
        /// The folder.
        name: String,
        /// The `salt://` URL of the folder in the file roots, or a list of URLs.
        source: Value,
        /// True to keep the fetched files in the cache.
        keep_source: bool = true,
        /// True to remove everything that is neither in the source nor managed by a required state.
        clean: bool = false,
        /// The states whose files `clean` keeps.
        require: Value = Value::Null,
        /// The user that owns everything.
        user: Value = Value::Null,
        /// The group that owns everything.
        group: Value = Value::Null,
        /// The mode of folders.
        dir_mode: Value = Value::Null,
        /// The mode of files, or `keep` to use the mode of the source.
        file_mode: Value = Value::Null,
        /// The mode of the parent folders of links.
        sym_mode: Value = Value::Null,
        /// The template engine that renders every file.
        template: Option<String> = None,
        /// Variables of the template.
        context: Value = Value::Null,
        /// True to replace the contents of existing files.
        replace: bool = true,
        /// Default variables of the template; those in `context` take precedence.
        defaults: Value = Value::Null,
        /// True to create also folders that contain no files.
        include_empty: bool = false,
        /// The backup of replaced files: `minion` to keep one.
        backup: String = String::new(),
        /// The paths to include: a glob, or a regular expression after `E@`, or a list of these.
        include_pat: Value = Value::Null,
        /// The paths to exclude. `clean` keeps them.
        exclude_pat: Value = Value::Null,
        /// The maximum depth.
        maxdepth: Option<i64> = None,
        /// True to create the links of the source as links.
        keep_symlinks: bool = false,
        /// True to replace whatever exists at the path of a link.
        force_symlinks: bool = false,
        /// Accepted but ignored; only Windows needs it.
        win_owner: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_perms: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_deny_perms: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        win_inheritance: bool = true,
        /// True to merge all sources. The files of earlier sources take precedence.
        merge: bool = false,
        ..kwargs
    });
}

/// The combined result of many states.
#[derive(Default)]
struct Sum {
    result: Option<bool>,
    changes: Map,
    comments: Map,
}

impl Sum {
    fn comment(&mut self, path: &str, text: &str) {
        let list = self.comments.entry(path, || Value::list([]));
        if let Some(list) = list.as_list_mut() {
            list.push(text.into());
        }
    }

    fn add(&mut self, path: &str, ret: Result<Ret, Error>) {
        let ret = ret.unwrap_or_else(|error| Ret::failed(error.to_string()));
        if ret.result == Some(false) || self.result == Some(true) {
            self.result = ret.result;
        }
        if ret.result != Some(true) && !ret.comment.is_empty() {
            self.comment(path, &ret.comment);
        }
        if ret.changes.is_true() {
            self.changes.insert(path, ret.changes);
        }
    }

    fn finished(self, name: &str) -> Ret {
        let mut comment = String::new();
        for (path, lines) in self.comments.iter() {
            let lines: Vec<String> = lines.texts();
            let path = path.to_text();
            comment.push_str(&format!("\n\n#### {path} ####\n{}", lines.join("\n")));
        }
        comment = comment.trim().to_owned();
        if comment.is_empty() {
            comment = format!("Recursively updated {name}");
        }
        if self.changes.is_empty() && self.result == Some(true) {
            comment = format!("The directory {name} is in the correct state");
        }
        Ret {
            result: self.result,
            comment,
            changes: self.changes.into(),
            name: Some(name.to_owned()),
            ..Ret::default()
        }
    }
}

fn recurse(cx: &Exec, mut args: Recurse) -> Result<Ret, Error> {
    let name = path::expanduser(&args.name);
    args.user = owner(args.user, &args.kwargs);
    if args.kwargs.contains("mode") {
        return Err(
            "'mode' is not allowed in 'file.recurse'. Please use 'file_mode' and 'dir_mode'."
                .into(),
        );
    }
    check_user(cx, &args.user, &args.group)?;
    absolute(cx, &name)?;
    let failed = |error: Error| Error::refused(format!("Recurse failed: {error}"));
    let sources = tree::sources(cx, &args.source).map_err(failed)?;
    if !path::isdir(&name) {
        if path::exists(&name) {
            return Err(format!("The path {name} exists and is not a directory").into());
        }
        let mode = normalized(&args.dir_mode);
        cx.apply(Ret::default(), || {
            makedirs::all(cx, &name, &args.user, &args.group, mode)?;
            Ok(Ret::default())
        })?;
    }
    let options = Options {
        keep_symlinks: args.keep_symlinks,
        include_pat: args.include_pat.clone(),
        exclude_pat: args.exclude_pat.clone(),
        maxdepth: args.maxdepth,
        include_empty: args.include_empty,
        merge: args.merge,
    };
    let tree = tree::read(cx, &name, &sources, &options)?;
    let mut sum = Sum {
        result: Some(true),
        ..Sum::default()
    };
    make(cx, &args, &tree, &mut sum)?;
    if args.clean {
        sweep(cx, &args, &name, &tree, &mut sum)?;
    }
    Ok(sum.finished(&name))
}

fn make(cx: &Exec, args: &Recurse, tree: &Tree, sum: &mut Sum) -> Result<(), Error> {
    for path in &tree.dirs {
        if let Some(ret) = in_the_way(cx, args, path, true)? {
            let stop = ret.result.is_none();
            sum.add(path, Ok(ret));
            if stop {
                continue;
            }
        }
        let plan = Plan::single(path, &args.user, &args.group, normalized(&args.dir_mode));
        sum.add(path, plan.run(cx, Ret::ok("")));
    }
    for (path, url) in &tree.files {
        if let Some(ret) = in_the_way(cx, args, path, false)? {
            let stop = ret.result.is_none();
            sum.add(path, Ok(ret));
            if stop {
                continue;
            }
        }
        sum.add(path, managed(cx, args, path, url));
    }
    for path in ordered(tree) {
        let target = tree.links.get(&path).cloned().unwrap_or_default();
        let link = Link {
            name: path.clone(),
            target,
            force: args.force_symlinks,
            backupname: None,
            makedirs: true,
            user: args.user.clone(),
            group: args.group.clone(),
            mode: normalized(&args.sym_mode),
            atomic: false,
            copies: true,
            inherit: false,
            follow: true,
        };
        sum.add(&path, link.run(cx));
    }
    Ok(())
}

/// Returns the links in an order in which each link comes after its target.
fn ordered(tree: &Tree) -> Vec<String> {
    let leads = |path: &str| {
        let target = tree.links.get(path).map(String::as_str).unwrap_or_default();
        path::normpath(&path::join(path::dirname(path), target))
    };
    let mut done: Vec<String> = Vec::new();
    while done.len() < tree.links.len() {
        let before = done.len();
        for path in tree.links.keys() {
            let ahead = leads(path);
            let waits = tree.links.contains_key(&ahead) && !done.contains(&ahead);
            if !waits && !done.contains(path) {
                done.push(path.clone());
            }
        }
        if done.len() == before {
            break;
        }
    }
    done
}

/// With `clean`, replaces a folder at the path of a file, and a file at the path of a folder.
fn in_the_way(
    cx: &Exec,
    args: &Recurse,
    path: &str,
    wants_dir: bool,
) -> Result<Option<Ret>, Error> {
    let other = path::exists(path) && path::isdir(path) != wants_dir;
    if !args.clean || !other || !(wants_dir || args.replace) {
        return Ok(None);
    }
    let (would, done) = if wants_dir {
        (
            format!("Replacing {path} with a directory"),
            "Replaced file with a directory",
        )
    } else {
        (
            format!("Replacing directory {path} with a file"),
            "Replaced directory with a new file",
        )
    };
    cx.apply(Ret::would(would), || {
        fs::remove(cx, Path::new(path)).map_err(Error::io(path))?;
        Ok(Ret::ok("").change("diff", done))
    })
    .map(Some)
}

fn managed(cx: &Exec, args: &Recurse, path: &str, url: &str) -> Result<Ret, Error> {
    let mut kwargs = args.kwargs.clone();
    kwargs.remove("makedirs");
    let kwargs = kwargs
        .with("name", path)
        .with("source", url)
        .with("keep_source", args.keep_source)
        .with("user", args.user.clone())
        .with("group", args.group.clone())
        .with("mode", args.file_mode.clone())
        .with("template", args.template.clone())
        .with("makedirs", true)
        .with("replace", args.replace)
        .with("context", args.context.clone())
        .with("defaults", args.defaults.clone())
        .with("backup", args.backup.as_str());
    let function = super::managed::MODULE
        .function("managed")
        .ok_or_else(|| Error::not_available("file.managed".into()))?;
    function.invoke("file.managed", cx, Arguments::new(Vec::new(), kwargs))
}

fn sweep(cx: &Exec, args: &Recurse, name: &str, tree: &Tree, sum: &mut Sum) -> Result<(), Error> {
    let mut keep: Vec<String> = tree.keep.iter().cloned().collect();
    keep.extend(clean::kept_in(cx, name, &args.require, &[])?);
    let removed = clean::remove(cx, name, &keep, &args.exclude_pat)?;
    if removed.is_empty() {
        return Ok(());
    }
    if !cx.test {
        sum.changes.insert("removed", Value::from(removed));
        return Ok(());
    }
    if sum.result == Some(true) {
        sum.result = None;
    }
    for path in &removed {
        sum.comment("removed", path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_the_whole_and_one_test_answer_leaves_it_open() {
        let mut sum = Sum {
            result: Some(true),
            ..Sum::default()
        };
        sum.add("/a", Ok(Ret::would("later")));
        assert_eq!(sum.result, None);
        sum.add("/b", Err("no".into()));
        sum.add("/c", Ok(Ret::ok("")));
        let ret = sum.finished("/x");
        assert_eq!(ret.result, Some(false));
        assert_eq!(ret.comment, "#### /a ####\nlater\n\n#### /b ####\nno");
    }
}
