//! [`RunOptions`]: the global state arguments, which say how a chunk is run.

use value::{Map, Value};

/// How a chunk is run: `unless`, `retry`, `failhard` and their like.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Skip when all of these are true.
    pub unless: Option<Value>,
    /// Skip when one of these is false.
    pub onlyif: Option<Value>,
    /// Skip when all of these paths are there.
    pub creates: Option<Value>,
    /// Commands that decide whether it succeeded.
    pub check_cmd: Option<Value>,
    /// Try again.
    pub retry: Option<Retry>,
    /// Run beside the others.
    pub parallel: bool,
    /// Stop the run when it fails; the option of the configuration holds where this is none.
    pub failhard: Option<bool>,
    /// Fire an event with the return.
    pub fire_event: Option<Value>,
    /// Stop calling a handled failure a failure when false.
    pub onfail_stop: bool,
    /// The user that commands of this chunk run as.
    pub runas: Option<String>,
    /// The umask of this chunk's commands and new files, in octal.
    pub umask: Option<Value>,
    /// Seconds that a command may take.
    pub timeout: Option<Value>,
    /// Read the grains again after it.
    pub reload_grains: bool,
    /// Read the pillar again after it.
    pub reload_pillar: bool,
    /// Look for modules again after it.
    pub reload_modules: bool,
    /// Put it together with its like; the option `state_aggregate` holds where this is none.
    pub aggregate: Option<Value>,
    /// Keep its output out of logs and returns.
    pub no_log: bool,
}

/// How often, how long and until when a chunk is tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// How many tries in all.
    pub attempts: i64,
    /// Seconds between two.
    pub interval: f64,
    /// The result to wait for.
    pub until: bool,
    /// Up to so many seconds more, by chance.
    pub splay: f64,
}

impl RunOptions {
    /// Reads them from low data. Wrong types mean what they mean in Salt: mostly the default.
    #[must_use]
    pub fn of(data: &Map) -> Self {
        let given = |key: &str| data.get(key).filter(|value| !value.is_null()).cloned();
        let truth = |key: &str| data.get(key).is_some_and(Value::is_true);
        Self {
            unless: given("unless"),
            onlyif: given("onlyif"),
            creates: given("creates"),
            check_cmd: given("check_cmd"),
            retry: data.get("retry").map(Retry::of),
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
    /// Returns the umask as a number, or Salt's sentence about one that is not octal.
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

    /// What is no retry means the default, as does what is of a wrong type in one; `False` means no try at all.
    fn of(value: &Value) -> Self {
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
