//! The external pillar `git`: top files and SLS files of repositories.
//!
//! Each repository without a mount point is compiled by its own top file. The others of the same
//! environment are further roots of it, unless `git_pillar_includes` is off.

use std::sync::Arc;

use state::exec::Exec;
use state::host::Tree;
use state::module::Error;
use value::merge::{Strategy, merge};
use value::{Map, Value, log};

use super::environment;
use crate::fileserver::roots::Roots;
use crate::git::{Checkout, Repositories, Role};

/// Returns the data of repositories.
///
/// # Errors
/// When the configuration is wrong, a repository has no commit or a tree does not compile.
pub(super) fn load(cx: &Exec, val: &Value, _pillar: &Map) -> Result<Map, Error> {
    let entries = val
        .as_list()
        .ok_or("its value must be a list of repositories")?;
    let repositories = Repositories::new(Role::Pillar, entries, cx.opts())?;
    let environment = environment(cx);
    log::debug(format_args!("git_pillar: __env__ is {environment}"));
    let checkouts = repositories.checkouts(&environment)?;
    let includes = cx.opts().get("git_pillar_includes");
    let includes = includes.is_none_or(Value::is_true);
    let opts = cx.opts();
    let renderer = opts.text("renderer").unwrap_or("yaml");
    let word = opts.text("pillar_source_merging_strategy");
    let strategy = Strategy::from_name(word.unwrap_or("smart"), renderer);
    let strategy = strategy.unwrap_or(Strategy::Recurse);
    let (mut pillar, mut errors) = (Map::new(), Vec::new());
    for (at, checkout) in checkouts.iter().enumerate() {
        let is_other = cx
            .pillarenv
            .as_ref()
            .is_some_and(|env| *env != checkout.env);
        if is_other || !checkout.mountpoint.is_empty() {
            continue;
        }
        let others = checkouts.iter().enumerate();
        let others = others.filter(|(other, _)| includes && *other != at);
        let others = others
            .map(|(_, other)| other)
            .filter(|other| other.env == checkout.env);
        let roots: Vec<&Checkout> = [checkout].into_iter().chain(others).collect();
        let tree = Roots::of_checkouts(opts, &checkout.env, &roots);
        let tree = Tree::Other(Arc::new(tree));
        let mut data = state::pillar::of_tree(cx, &tree, &checkout.env);
        let found = data.remove("_errors");
        errors.extend(found.iter().flat_map(Value::texts));
        pillar = merge(&pillar, &data, strategy, opts.flag("pillar_merge_lists"));
    }
    if !errors.is_empty() {
        pillar.insert("_errors", errors);
    }
    Ok(pillar)
}
