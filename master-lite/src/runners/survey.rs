//! The `survey` runner: groups minions by their returns.

use modules::state_run::orchestrate;
use python::difflib;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Group minions by their returns.
    mod survey;

    /// Call a function on minions (a target, the function, its arguments), and return the groups of
    /// minions with equal returns, the largest group first. `survey_sort=up`: the smallest first;
    /// `tgt_type`: `compound` or `pcre`.
    ///
    ///     salt-run survey.hash 'web*' file.get_hash /etc/hosts
    fn hash(Hash {
        *rest,
        ..kwargs
    });

    /// Like `survey.hash`, but each further group also has the differences between its return and
    /// that of the first group.
    ///
    ///     salt-run survey.diff 'web*' file.read /etc/hosts
    fn diff(Diff {
        *rest,
        ..kwargs
    });
}

/// Minions with equal returns, and the return as Python prints it.
struct Pool {
    ids: Vec<String>,
    result: String,
}

impl Pool {
    fn to_map(&self) -> Map {
        Map::new()
            .with("pool", self.ids.clone())
            .with("result", self.result.as_str())
    }
}

fn pools(cx: &Exec, rest: Vec<Value>, mut kwargs: Map) -> Result<Vec<Pool>, Error> {
    let mut rest = rest.into_iter();
    let (Some(tgt), Some(fun)) = (rest.next(), rest.next()) else {
        let problem = "a survey needs a target and a function".to_owned();
        return Err(Error::argument("tgt", problem));
    };
    let (sort, tgt_type) = (kwargs.remove("survey_sort"), kwargs.remove("tgt_type"));
    let is = |said: &Option<Value>, word| said.as_ref().and_then(Value::as_str) == Some(word);
    let tgt_type = match is(&tgt_type, "pcre") {
        true => "pcre",
        false => "compound",
    };
    kwargs.retain(|key, _| !key.to_text().starts_with('_'));
    let ids = orchestrate::targeted(cx, &tgt, tgt_type, "function")?;
    let targets = &cx.shared.targets;
    let mut returns = targets.run(cx, &ids, &fun.to_text(), rest.collect(), kwargs)?;
    value::sorted::sort_by_key(&mut returns, |minion| minion.id.clone());
    let mut pools: Vec<Pool> = Vec::new();
    for minion in returns {
        let result = minion.ret.to_text();
        match pools.iter_mut().find(|pool| pool.result == result) {
            Some(pool) => pool.ids.push(minion.id),
            None => pools.push(Pool {
                ids: vec![minion.id],
                result,
            }),
        }
    }
    let is_up = is(&sort, "up");
    value::sorted::sort_by_key(&mut pools, |pool| match pool.ids.len() {
        size if is_up => size,
        size => usize::MAX - size,
    });
    Ok(pools)
}

fn hash(cx: &Exec, args: Hash) -> Result<Value, Error> {
    let pools = pools(cx, args.rest, args.kwargs)?;
    Ok(Value::list(pools.iter().map(|pool| pool.to_map().into())))
}

fn diff(cx: &Exec, args: Diff) -> Result<Value, Error> {
    let pools = pools(cx, args.rest, args.kwargs)?;
    let Some(first) = pools.first() else {
        return Ok(Value::list([]));
    };
    let shown = pools.iter().enumerate().map(|(at, pool)| {
        let shown = pool.to_map();
        match at {
            0 => shown.into(),
            _ => shown.with("diff", differences(first, pool)).into(),
        }
    });
    Ok(Value::list(shown))
}

fn differences(first: &Pool, other: &Pool) -> String {
    let lines = |pool: &Pool| -> Vec<String> {
        let lines = pool.result.lines();
        lines.map(|line| format!("{line}\n")).collect()
    };
    let name = |pool: &Pool| pool.ids.first().cloned().unwrap_or_default();
    difflib::get_diff(&lines(first), &lines(other), &name(first), &name(other))
}
