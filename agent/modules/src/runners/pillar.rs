//! The `pillar` runner.

use state::exec::Exec;
use state::module::Error;
use value::Value;

state::exec_module! {
    /// Show the pillar of this machine.
    mod pillar;

    /// Compile the pillar and return it.
    ///
    ///     salt-run pillar.show_pillar web1
    fn show_pillar(ShowPillar {
        /// The id of the minion, or a glob that matches it. Only this minion is possible.
        minion: String = "*".into(),
        ..kwargs
    });

    /// Return the merged top files of the pillar.
    ///
    ///     salt-run pillar.show_top
    fn show_top(ShowTop {
        /// The id of the minion, or a glob that matches it. Only this minion is possible.
        minion: Option<String> = None,
        /// The environment. Accepted for compatibility with Salt.
        saltenv: String = "base".into(),
    });
}

/// Refuses other minions, because only their master knows their pillar.
fn here(cx: &Exec, minion: &str) -> Result<(), Error> {
    if value::glob::fnmatch(minion, cx.opts().id()) {
        return Ok(());
    }
    let id = cx.opts().id();
    Err(Error::refused(format!(
        "The pillar of {minion} is not available: without a master, only that of {id} is"
    )))
}

fn show_pillar(cx: &Exec, args: ShowPillar) -> Result<Value, Error> {
    here(cx, &args.minion)?;
    let pillarenv = args
        .kwargs
        .get("pillarenv")
        .filter(|env| !env.is_null())
        .map(Value::to_text);
    let fresh = cx.with_pillarenv(pillarenv.or_else(|| cx.pillarenv.clone()), None);
    Ok(fresh.pillar()?.into())
}

fn show_top(cx: &Exec, args: ShowTop) -> Result<Value, Error> {
    here(cx, args.minion.as_deref().unwrap_or("*"))?;
    let tree = state::host::Tree::Other(std::sync::Arc::new(
        crate::fileserver::roots::Roots::pillar(cx.opts()),
    ));
    match state::pillar::top(cx, &tree) {
        Ok(top) => Ok(Value::Map(top)),
        Err(errors) => Ok(errors.into()),
    }
}
