//! `git.cloned`.

use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::Map;

use super::clone::clone;
use super::{Cloned, error_text, identities};
use crate::exec::git::{Git, plain, with_login};

pub(super) fn cloned(cx: &Exec, args: Cloned) -> Result<Ret, Error> {
    let Some(target) = args.target.as_deref() else {
        return Err("'target' argument is required".into());
    };
    if !path::isabs(target) {
        return Err("'target' path must be absolute".into());
    }
    if args.branch.as_deref() == Some("") {
        return Err("Invalid 'branch' argument".into());
    }
    let git = super::git(
        cx,
        target,
        args.user.as_ref(),
        args.output_encoding.as_ref(),
    );
    if !path::exists(target) {
        return anew(&git, &args, target);
    }
    git.git(&["status", "-z", "--porcelain"])?;
    let Some(branch) = args.branch.as_deref() else {
        return Ok(Ret::ok(format!("Repository already exists at {target}")));
    };
    let current = git.git(&["rev-parse", "--abbrev-ref", "HEAD"])?;
    if current == branch {
        return Ok(Ret::ok(format!(
            "Repository already exists at {target} and is checked out to branch '{branch}'"
        )));
    }
    let change = Map::new().with("old", current).with("new", branch);
    let would = Ret::would(format!("Branch would be changed to '{branch}'"))
        .change("branch", change.clone());
    cx.apply(would, || {
        let there = git.git(&["rev-parse", plain(branch)?]).is_ok();
        let start = format!("origin/{branch}");
        let words: &[&str] = if there {
            &["checkout", branch]
        } else {
            &["checkout", "-b", branch, &start]
        };
        let words = crate::exec::git::line(words);
        Ok(match git.merged(&words) {
            Ok(_) => Ret::ok(format!("Branch changed to '{branch}'")).change("branch", change),
            Err(error) => Ret::failed(format!("Failed to change branch to '{branch}': {error}")),
        })
    })
}

fn anew(git: &Git<'_>, args: &Cloned, target: &str) -> Result<Ret, Error> {
    let name = &args.name;
    let new = format!("{name} => {target}");
    let with = args
        .branch
        .as_ref()
        .map(|branch| format!(" with branch '{branch}'"))
        .unwrap_or_default();
    let would =
        Ret::would(format!("{name} would be cloned to {target}{with}")).change("new", new.as_str());
    git.cx.apply(would, || {
        let net = git.with_identity(&identities(&args.identity, "identity")?);
        let opts: Vec<&str> = args
            .branch
            .iter()
            .flat_map(|branch| ["--branch", branch])
            .collect();
        let (url, login) =
            with_login(name, args.https_user.as_deref(), args.https_pass.as_deref())?;
        let net = net.with_login(login);
        Ok(match clone(&net, target, &url, &opts) {
            Ok(()) => Ret::ok(format!("{name} cloned to {target}{with}")).change("new", new),
            Err(error) => Ret::failed(format!("Clone failed: {}", error_text(&error))),
        })
    })
}
