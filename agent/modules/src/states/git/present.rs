//! `git.present`.

use std::path::Path;

use machine::fs;
use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};

use super::{Present, Work, joined};
use crate::exec::git::tree::init_options;
use crate::exec::git::{Git, line};

pub(super) fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = &args.name;
    let git = super::git(cx, name, args.user.as_ref(), args.output_encoding.as_ref());
    let mut work = Work::new();
    let exists = path::isdir(name);
    if exists {
        let below = |inside: &str| path::join(name, inside);
        let is_one = if args.bare {
            path::isfile(&below("HEAD"))
        } else {
            path::isdir(&below(".git")) || git.is_worktree()?
        };
        if is_one {
            return Ok(work.ok(""));
        }
    }
    let bare = if args.bare { "bare " } else { "" };
    if exists && !args.force && !fs::names(name)?.is_empty() {
        return Ok(work.failed(format!(
            "Target '{name}' exists, is non-empty, and is not a git repository. Set the 'force' option to True to remove this \
             directory's contents and proceed with initializing a repository"
        )));
    }
    let forced = exists && args.force;
    let would = if forced {
        Ret::would(format!(
            "Target directory {name} exists. Since force=True, the contents of {name} would be deleted, and a {bare}repository \
             would be initialized in its place."
        ))
        .change("new", name.as_str())
        .change("forced init", true)
    } else {
        Ret::would(format!("New {bare}repository would be created")).change("new", name.as_str())
    };
    cx.apply(would, || {
        if forced {
            fs::remove(cx, Path::new(name))
                .map_err(|error| Error::refused(format!("Unable to remove {name}: {error}")))?;
            work.change("forced init", true);
        }
        initialized(&git, &args)?;
        work.did(format!("Initialized {bare}repository in {name}"));
        if let Some(template) = args
            .template
            .as_deref()
            .filter(|template| !template.is_empty())
        {
            work.did(format!("Template directory set to {template}"));
        }
        if let Some(folder) = args
            .separate_git_dir
            .as_deref()
            .filter(|folder| !folder.is_empty())
        {
            work.did(format!("Gitdir set to {folder}"));
        }
        work.change("new", name.as_str());
        Ok(work.ok(joined(&work.comments)))
    })
}

fn initialized(git: &Git<'_>, args: &Present) -> Result<(), Error> {
    let mut words = line(&["init"]);
    words.extend(init_options(
        args.bare,
        args.template.as_deref(),
        args.separate_git_dir.as_deref(),
        &args.shared,
    ));
    words.push(args.name.clone());
    // The folder does not exist yet.
    Git {
        cwd: None,
        ..git.clone()
    }
    .words(&words)
    .map(|_| ())
}
