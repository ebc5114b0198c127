//! [`Call`]: what a chunk of a reactor asks for, from its low data, as Salt's `ReactWrap` reads it.

use value::{Map, Value, log};

/// What is to be called.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// A job for minions.
    Local(Local),
    /// A function on the machine that reacts.
    Caller(Caller),
    /// A runner, or a wheel function.
    Client(Client),
}

/// A job for minions.
#[derive(Clone, Debug, PartialEq)]
pub struct Local {
    /// Which minions.
    pub tgt: Value,
    /// How that is meant.
    pub tgt_type: String,
    /// The function.
    pub fun: String,
    /// Its arguments; those with names lie in a map that says so.
    pub arg: Vec<Value>,
    /// The returners.
    pub ret: String,
    /// What else belongs to the job.
    pub options: Map,
}

/// A function on the machine that reacts: a minion.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// Its name.
    pub fun: String,
    /// Its arguments, as those of [`Local`].
    pub arg: Vec<Value>,
}

/// A runner or a wheel function.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Whether it is a wheel function.
    pub is_wheel: bool,
    /// Its name.
    pub fun: String,
    /// Its arguments by their places.
    pub arg: Vec<Value>,
    /// Its arguments by their names.
    pub kwarg: Map,
}

impl Client {
    /// True when doing it once more changes nothing.
    pub fn may_be_done_again(&self) -> bool {
        self.is_wheel && self.fun.starts_with("key.")
    }
}

/// A chunk under the name that its type has now: `cmd` was `local`.
pub fn unaliased(low: &Map) -> Map {
    let is_old = low.get("state").and_then(Value::as_str) == Some("cmd");
    match is_old {
        true => low.clone().with("state", "local"),
        false => low.clone(),
    }
}

/// What a job takes besides its function's arguments.
const OPTIONS: [&str; 4] = ["metadata", "delimiter", "ret_config", "ret_kwargs"];

impl Call {
    /// The call of a chunk.
    ///
    /// # Errors
    /// When the chunk does not say what it must, in Salt's words where it has some.
    pub fn of(low: &Map) -> Result<Self, String> {
        let text = |key: &str| low.get(key).map(Value::to_text).unwrap_or_default();
        let (id, state, fun) = (text("__id__"), text("state"), text("fun"));
        let (arg, kwarg) = arguments(low, &id, &state, &fun)?;
        match state.as_str() {
            "local" => local(low, &id, fun, modules::call::joined(arg, kwarg)),
            "runner" | "wheel" => Ok(Self::Client(Client {
                is_wheel: state == "wheel",
                fun,
                arg,
                kwarg,
            })),
            "caller" => Ok(Self::Caller(Caller {
                fun,
                arg: modules::call::joined(arg, kwarg),
            })),
            other => Err(format!(
                "ReactWrap is missing a wrapper function for '{other}': the types are local, runner, wheel and caller"
            )),
        }
    }

    /// As dry runs and the history show it.
    pub fn shown(&self) -> Map {
        match self {
            Self::Local(local) => Map::new()
                .with("type", "local")
                .with("tgt", local.tgt.clone())
                .with("tgt_type", local.tgt_type.as_str())
                .with("fun", local.fun.as_str())
                .with("arg", local.arg.clone())
                .with("ret", local.ret.as_str()),
            Self::Caller(caller) => Map::new()
                .with("type", "caller")
                .with("fun", caller.fun.as_str())
                .with("arg", caller.arg.clone()),
            Self::Client(client) => Map::new()
                .with("type", if client.is_wheel { "wheel" } else { "runner" })
                .with("fun", client.fun.as_str())
                .with("arg", client.arg.clone())
                .with("kwarg", client.kwarg.clone()),
        }
    }
}

fn local(low: &Map, id: &str, fun: String, arg: Vec<Value>) -> Result<Call, String> {
    let Some(tgt) = low.get("tgt") else {
        return Err(format!(
            "Reactor '{id}' failed to execute local '{fun}': it has no `tgt`"
        ));
    };
    let text = |key: &str, default: &str| {
        let given = low.get(key).filter(|value| !value.is_null());
        given.map_or_else(|| default.to_owned(), Value::to_text)
    };
    // `expr_form` is what `tgt_type` was called before.
    let tgt_type = text("tgt_type", &text("expr_form", "glob"));
    let options = OPTIONS.iter();
    let options = options.filter_map(|name| Some(((*name).into(), low.get(name)?.clone())));
    Ok(Call::Local(Local {
        tgt: tgt.clone(),
        tgt_type,
        fun,
        arg,
        ret: text("ret", ""),
        options: options
            .collect::<Vec<(Value, Value)>>()
            .into_iter()
            .collect(),
    }))
}

/// Arguments by their place and by their name: of `args`, of the older `arg` and `kwarg`, and for a function of the master of the
/// chunk itself.
fn arguments(low: &Map, id: &str, state: &str, fun: &str) -> Result<(Vec<Value>, Map), String> {
    if let Some(args) = low.get("args") {
        for older in ["arg", "kwarg"].iter().filter(|name| low.contains(name)) {
            log::warning(format_args!(
                "Reactor '{id}' is ignoring '{older}' param due to presence of 'args' param. Check the Reactor System documentation for the correct argument format."
            ));
        }
        // A caller's `args` were a list of what stands by its place before they were names.
        if let ("caller", Value::List(args)) = (state, args)
            && !args.iter().all(is_pair)
        {
            return Ok((args.iter().cloned().collect(), Map::new()));
        }
        return match named(args) {
            Some(kwarg) => Ok((Vec::new(), kwarg)),
            None => Err(format!(
                "Reactor '{id}' failed to execute {state} '{fun}': Incorrect argument format, check the Reactor System documentation for the correct format."
            )),
        };
    }
    let arg = match low.get("arg") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::List(arg)) => arg.iter().cloned().collect(),
        Some(one) => vec![one.clone()],
    };
    let kwarg = match low.get("kwarg") {
        None | Some(Value::Null) => Map::new(),
        Some(given) => named(given).ok_or_else(|| {
            format!("Reactor '{id}' failed to execute {state} '{fun}': `kwarg` is no dictionary")
        })?,
    };
    let has_either = low.contains("arg") || low.contains("kwarg");
    let is_of_master = matches!(state, "runner" | "wheel");
    Ok(match is_of_master && !has_either {
        true => (arg, bare(low)),
        false => (arg, kwarg),
    })
}

/// One name with its value.
fn is_pair(arg: &Value) -> bool {
    arg.as_map().is_some_and(|arg| arg.len() == 1)
}

/// A dictionary, or a list of dictionaries put together.
fn named(args: &Value) -> Option<Map> {
    let mut named = Map::new();
    match args {
        Value::Map(args) => named = args.clone(),
        Value::List(args) => {
            for arg in args.iter() {
                named.update(arg.as_map()?.clone());
            }
        }
        _ => return None,
    }
    Some(named)
}

/// The arguments that stand in the chunk itself: all that is neither the compiler's nor a requisite.
fn bare(low: &Map) -> Map {
    const OWN: [&str; 8] = [
        "__id__",
        "__sls__",
        "name",
        "order",
        "fun",
        "key",
        "state",
        "name_order",
    ];
    let is_requisite = |key: &str| state::low::RequisiteKind::of(key).is_some();
    let given = low.iter().filter(|(key, _)| {
        let key = key.as_str().unwrap_or_default();
        // The name is the ID where no other one is given.
        let is_name = key == "name" && low.get("name") != low.get("__id__");
        is_name || !OWN.contains(&key) && !is_requisite(key)
    });
    given
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
