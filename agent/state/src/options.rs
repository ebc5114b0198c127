//! [`RunOptions`]: the global state arguments, which control how a chunk runs.

use value::{Map, Value};

/// The options that control how a chunk runs: `unless`, `retry`, `failhard` and so on.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Conditions: the chunk is skipped if all are true.
    pub unless: Option<Value>,
    /// Conditions: the chunk is skipped if one is false.
    pub onlyif: Option<Value>,
    /// Paths: the chunk is skipped if all exist.
    pub creates: Option<Value>,
    /// Commands that decide whether the chunk succeeded.
    pub check_cmd: Option<Value>,
    /// Settings for further attempts after a failure.
    pub retry: Option<Retry>,
    /// True if the chunk runs in parallel with the others.
    pub parallel: bool,
    /// True if a failure stops the run; `None` to use the option of the configuration.
    pub failhard: Option<bool>,
    /// True, or a tag, if an event with the return is fired.
    pub fire_event: Option<Value>,
    /// False if a failure that an `onfail` state handles does not count as a failure of the run.
    pub onfail_stop: bool,
    /// False if failures that this `onfail` chunk handles are not failures of the run.
    pub runas: Option<String>,
    /// The umask of this chunk's commands and new files, in octal.
    pub umask: Option<Value>,
    /// The maximum number of seconds for a command.
    pub timeout: Option<Value>,
    /// True if the grains are read again after the chunk.
    pub reload_grains: bool,
    /// True if the pillar is compiled again after the chunk.
    pub reload_pillar: bool,
    /// True if modules are looked up again after the chunk.
    pub reload_modules: bool,
    /// Settings for combining the chunk with others of its module; `None` to use the option
    /// `state_aggregate`.
    pub aggregate: Option<Value>,
    /// True if the output is kept out of logs and returns.
    pub no_log: bool,
}

/// The limits and the condition for further attempts of a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// The total number of attempts.
    pub attempts: i64,
    /// The number of seconds between two attempts.
    pub interval: f64,
    /// The result that ends the attempts.
    pub until: bool,
    /// The maximum of a random number of seconds added to each interval.
    pub splay: f64,
}

impl RunOptions {
    /// Parses the options of low data. As in Salt, a value of a wrong type mostly means the
    /// default.
    #[must_use]
    pub fn from_map(data: &Map) -> Self {
        let given = |key: &str| data.get(key).filter(|value| !value.is_null()).cloned();
        let truth = |key: &str| data.get(key).is_some_and(Value::is_true);
        Self {
            unless: given("unless"),
            onlyif: given("onlyif"),
            creates: given("creates"),
            check_cmd: given("check_cmd"),
            retry: data.get("retry").map(Retry::from_value),
            parallel: truth("parallel"),
            failhard: data.get("failhard").map(Value::is_true),
            fire_event: given("fire_event").filter(Value::is_true),
            onfail_stop: data.get("onfail_stop").is_none_or(Value::is_true),
            runas: given("runas").map(|user| user.to_text()),
            umask: given("umask"),
            timeout: given("timeout"),
            reload_grains: truth("reload_grains"),
            reload_pillar: truth("reload_pillar"),
            reload_modules: truth("reload_modules") || truth("force_reload_modules"),
            aggregate: data.get("aggregate").cloned(),
            no_log: truth("no_log"),
        }
    }
}

impl RunOptions {
    /// Returns the umask as a number, or Salt's sentence about a value that is not octal.
    ///
    /// # Errors
    /// When the umask is not an octal number.
    pub fn umask(&self) -> Result<Option<u32>, String> {
        let Some(umask) = &self.umask else {
            return Ok(None);
        };
        let text = umask.to_text();
        let digits = text.trim();
        let mask = u32::from_str_radix(digits.strip_prefix("0o").unwrap_or(digits), 8);
        match mask {
            Ok(mask) => Ok(Some(mask & 0o777)),
            Err(_) => Err(format!("Invalid umask: {text}")),
        }
    }
}

impl Retry {
    const DEFAULT: Self = Self {
        attempts: 2,
        interval: 30.0,
        until: true,
        splay: 0.0,
    };

    /// Parses `retry`. `False` means no attempts. Any other value that is not a map, and a setting
    /// of a wrong type, mean the default.
    fn from_value(value: &Value) -> Self {
        let whole = |key| match value.get(key) {
            Some(Value::Bool(truth)) => Some(i64::from(*truth)),
            other => other.and_then(Value::as_int),
        };
        let seconds = |key| whole(key).map(|seconds| seconds as f64);
        let until = value.get("until").and_then(Value::as_bool);
        Self {
            attempts: match value {
                Value::Bool(false) => 0,
                _ => whole("attempts").unwrap_or(Self::DEFAULT.attempts),
            },
            interval: seconds("interval").unwrap_or(Self::DEFAULT.interval),
            until: until.unwrap_or(Self::DEFAULT.until),
            splay: seconds("splay").unwrap_or(Self::DEFAULT.splay),
        }
    }
}
