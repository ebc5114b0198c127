//! The `pillar` runner.

use state::exec::Exec;
use state::module::Error;
use value::Value;

state::exec_module! {
    /// The pillar of this machine.
    mod pillar;

    /// The pillar as it compiles now.
    fn show_pillar(ShowPillar {
        /// The minion: this one.
        minion: String = "*".into(),
        ..kwargs
    });

    /// The merged top files of the pillar.
    fn show_top(ShowTop {
        /// The minion: this one.
        minion: Option<String> = None,
        /// Accepted for Salt's sake.
        saltenv: String = "base".into(),
    });
}

/// Other minions' pillar is their master's business.
fn here(cx: &Exec, minion: &str) -> Result<(), Error> {
    if value::glob::fnmatch(minion, cx.opts().id()) {
        return Ok(());
    }
    let id = cx.opts().id();
    Err(Error::refused(format!(
        "The pillar of {minion} is not known here: without a master there is only {id}"
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
    let tree =
        state::host::Tree::Other(std::sync::Arc::new(crate::roots::Roots::pillar(cx.opts())));
    match state::pillar::top(cx, &tree) {
        Ok(top) => Ok(Value::Map(top)),
        Err(errors) => Ok(errors.into()),
    }
}
