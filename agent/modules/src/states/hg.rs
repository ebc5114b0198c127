//! The `hg` state module for Mercurial. Salt 3008 no longer has it; the returns are those of Salt's
//! last version of it.

use std::path::Path;

use machine::fs;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::Value;

use crate::exec::hg::Hg;

state::state_module! {
    /// Manage Mercurial repositories.
    #[needs("hg", "Command hg not found", "mercurial")]
    mod hg;

    /// Make sure that a folder contains an up-to-date clone of a repository.
    ///
    ///     https://hg.example.com/app:
    ///       hg.latest:
    ///         - target: /srv/app
    ///         - rev: stable
    fn latest(Latest {
        /// The address of the repository.
        name: String,
        /// The branch, tag or hash.
        rev: Option<String> = None,
        /// The folder.
        target: Option<String> = None,
        /// True to discard changes in the folder.
        clean: bool = false,
        /// The user who runs hg.
        user: Option<String> = None,
        /// A private key for ssh.
        identity: Option<String> = None,
        /// True to clone even if the folder contains other files.
        force: bool = false,
        /// Options for hg.
        opts: Value = false.into(),
        /// True to update the files to the revision after a pull.
        update_head: bool = true,
    });
}

fn latest(cx: &Exec, args: Latest) -> Result<Ret, Error> {
    let Some(target) = args.target.clone().filter(|target| !target.is_empty()) else {
        return Ok(Ret::failed("\"target option is required"));
    };
    let hg = Hg {
        cx,
        user: args.user.clone(),
        identity: args.identity.clone(),
        opts: args.opts.is_true().then(|| args.opts.to_text()),
    };
    let done = match Path::new(&target).join(".hg").is_dir() {
        true => updated(&hg, &args, &target),
        false => cloned(&hg, &args, &target),
    };
    // The comment is hg's error message.
    done.or_else(|why| match why.is_of_command() {
        true => Ok(Ret::failed(why.to_string())),
        false => Err(why),
    })
}

fn updated(hg: &Hg<'_>, args: &Latest, target: &str) -> Result<Ret, Error> {
    let before = hg.revision(target, ".", false)?;
    if before.is_empty() {
        let why = format!("Seems that {target} is not a valid hg repo");
        return Ok(Ret::failed(why));
    }
    let would = Ret::would(format!(
        "Repository {target} update is probably required (current revision is {before})"
    ));
    hg.cx.apply(would, || {
        let pulled = hg.pull(target, Some(&args.name))?;
        if !args.update_head {
            return Ok(Ret::ok(match pulled.contains("no changes found") {
                true => "No changes found and update_head=False so will skip updating.",
                false => {
                    "Update is probably required but update_head=False so we will skip updating."
                }
            }));
        }
        let wanted = args.rev.as_deref().filter(|rev| !rev.is_empty());
        hg.update(target, wanted.unwrap_or("tip"), args.clean)?;
        let after = hg.revision(target, ".", false)?;
        Ok(if before != after {
            Ret::ok(format!("Repository {target} updated."))
                .change("revision", format!("{before} => {after}"))
        } else if pulled.contains("error:") {
            Ret::failed(format!("An error was thrown by hg:\n{pulled}"))
        } else {
            Ret::ok("")
        })
    })
}

fn cloned(hg: &Hg<'_>, args: &Latest, target: &str) -> Result<Ret, Error> {
    let (cx, path) = (hg.cx, Path::new(target));
    let is_there = path.is_dir();
    if is_there && !args.force && !fs::list(path)?.is_empty() {
        return Ok(Ret::failed("Directory exists, and is not empty"));
    }
    let name = args.name.as_str();
    let would = Ret::would(format!(
        "Repository {name} is about to be cloned to {target}"
    ));
    cx.apply(would, || {
        if is_there {
            fs::remove(cx, path).map_err(Error::io(path))?;
        }
        let said = hg.clone_to(target, name)?;
        if !path.is_dir() {
            return Ok(Ret::failed(said));
        }
        if let Some(rev) = args.rev.as_deref().filter(|rev| !rev.is_empty()) {
            hg.update(target, rev, false)?;
        }
        let revision = hg.revision(target, "tip", false)?;
        Ok(Ret::ok(format!("Repository {name} cloned to {target}"))
            .change("new", name)
            .change("revision", revision))
    })
}
