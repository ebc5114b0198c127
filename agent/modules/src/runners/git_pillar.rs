//! The `git_pillar` runner: the repositories of the external pillar `git`.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::git::Repositories;

state::exec_module! {
    /// Update the repositories of the pillar.
    mod git_pillar;

    /// Fetch the repositories. Returns for each whether there was anything new: `None` if not, and
    /// `False` if it could not be fetched.
    ///
    ///     salt-run git_pillar.update
    fn update(Update {
        /// Only those with this branch.
        branch: Option<String> = None,
        /// Only those with this address or name.
        repo: Option<String> = None,
    });
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let all = Repositories::of_pillar(cx.opts())?;
    let updated = all.update_each(args.branch.as_deref(), args.repo.as_deref());
    if updated.is_empty() {
        return Err(match args.branch.is_some() || args.repo.is_some() {
            true => "Specified git branch/repo not found in ext_pillar config".into(),
            false => "No git_pillar remotes are configured".into(),
        });
    }
    let mut answer = Map::new();
    for (id, updated) in updated {
        let value = match updated {
            Ok(true) => true.into(),
            Ok(false) => Value::Null,
            Err(error) => {
                value::log::error(error.sentence());
                false.into()
            }
        };
        answer.insert(id, value);
    }
    Ok(answer.into())
}
