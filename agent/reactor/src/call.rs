//! [`Call`]: the call that a chunk of a reaction asks for. It is read from the chunk's low data as
//! Salt's `ReactWrap` does it.

use value::{Map, Value, log};

/// A call that a chunk asks for.
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
    /// The minions that are targeted.
    pub tgt: Value,
    /// The type of the target.
    pub tgt_type: String,
    /// The function.
    pub fun: String,
    /// The function's arguments. Named ones are in a map that is marked as such.
    pub arg: Vec<Value>,
    /// The returners.
    pub ret: String,
    /// The other options of the job.
    pub options: Map,
}

/// A function on the machine that reacts: a minion.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// The function's name.
    pub fun: String,
    /// The function's arguments, in the form of [`Local::arg`].
    pub arg: Vec<Value>,
}

/// A runner or a wheel function.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// True for a wheel function, false for a runner.
    pub is_wheel: bool,
    /// The function's name.
    pub fun: String,
    /// The positional arguments.
    pub arg: Vec<Value>,
    /// The named arguments.
    pub kwarg: Map,
}

impl Client {
    /// Returns true if doing it once more changes nothing.
    pub fn may_be_done_again(&self) -> bool {
        self.is_wheel && self.fun.starts_with("key.")
    }
}

/// Returns a chunk with the current name of its type: `cmd` is the old name of `local`.
pub fn unaliased(low: &Map) -> Map {
    let is_old = low.get("state").and_then(Value::as_str) == Some("cmd");
    match is_old {
        true => low.clone().with("state", "local"),
        false => low.clone(),
    }
}

/// The options that a job takes in addition to its function's arguments.
const OPTIONS: [&str; 4] = ["metadata", "delimiter", "ret_config", "ret_kwargs"];

impl Call {
    /// Reads the call of a chunk.
    ///
    /// # Errors
    /// When the chunk lacks something that its call needs. The error is in Salt's words where Salt
    /// has some.
    pub fn from_low(low: &Map) -> Result<Self, String> {
        let text = |key: &str| low.get(key).map(Value::to_text).unwrap_or_default();
        let (id, state, fun) = (text("__id__"), text("state"), text("fun"));
        let (arg, kwarg) = arguments(low, &id, &state, &fun)?;
        match state.as_str() {
            "local" => local(low, &id, fun, modules::loader::call::joined(arg, kwarg)),
            "runner" | "wheel" => Ok(Self::Client(Client {
                is_wheel: state == "wheel",
                fun,
                arg,
                kwarg,
            })),
            "caller" => Ok(Self::Caller(Caller {
                fun,
                arg: modules::loader::call::joined(arg, kwarg),
            })),
            other => Err(format!(
                "ReactWrap is missing a wrapper function for '{other}': the types are local, runner, wheel and caller"
            )),
        }
    }

    /// Returns the call as dry runs and the history show it.
    pub fn to_map(&self) -> Map {
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
            "Reactor '{id}' failed to execute local '{fun}': `tgt` is missing"
        ));
    };
    let text = |key: &str, default: &str| {
        let given = low.get(key).filter(|value| !value.is_null());
        given.map_or_else(|| default.to_owned(), Value::to_text)
    };
    // `expr_form` is the old name of `tgt_type`.
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

/// Returns the positional and the named arguments. They are in `args`, in the older `arg` and
/// `kwarg`, or, for a function of the master, in the chunk itself.
fn arguments(low: &Map, id: &str, state: &str, fun: &str) -> Result<(Vec<Value>, Map), String> {
    if let Some(args) = low.get("args") {
        for older in ["arg", "kwarg"].iter().filter(|name| low.contains(name)) {
            log::warning(format_args!(
                "Reactor '{id}' is ignoring '{older}' param due to presence of 'args' param. Check the Reactor System documentation for the correct argument format."
            ));
        }
        // In the older form, the `args` of a caller are a list of positional arguments.
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
            format!(
                "Reactor '{id}' failed to execute {state} '{fun}': `kwarg` must be a dictionary"
            )
        })?,
    };
    let has_either = low.contains("arg") || low.contains("kwarg");
    let is_of_master = matches!(state, "runner" | "wheel");
    Ok(match is_of_master && !has_either {
        true => (arg, bare(low)),
        false => (arg, kwarg),
    })
}

/// Returns true for a dictionary with one name and its value.
fn is_pair(arg: &Value) -> bool {
    arg.as_map().is_some_and(|arg| arg.len() == 1)
}

/// Returns a dictionary, or the dictionaries of a list merged into one. Returns `None` for other
/// values.
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

/// Returns the arguments that are in the chunk itself: everything that is neither the compiler's
/// nor a requisite.
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
    let is_requisite = |key: &str| state::low::RequisiteKind::from_word(key).is_some();
    let given = low.iter().filter(|(key, _)| {
        let key = key.as_str().unwrap_or_default();
        // Without a separate name, the compiler sets the name to the ID.
        let is_name = key == "name" && low.get("name") != low.get("__id__");
        is_name || !OWN.contains(&key) && !is_requisite(key)
    });
    given
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
