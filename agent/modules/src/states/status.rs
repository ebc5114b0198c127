//! The `status` state module. It only checks, and changes nothing.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

state::state_module! {
    /// Check the state of the machine.
    mod status;

    /// Check that the load is within limits.
    ///
    ///     5-min:
    ///       status.loadavg:
    ///         - maximum: 4.0
    fn loadavg(Loadavg {
        /// The load to check: `1-min`, `5-min` or `15-min`.
        name: String,
        /// The maximum load.
        maximum: Value = Value::Null,
        /// The minimum load.
        minimum: Value = Value::Null,
    });

    /// Check that a process runs whose line in the list of processes contains a text.
    ///
    ///     nginx:
    ///       status.process
    fn process(Process {
        /// The text.
        name: String,
    });
}

fn number(name: &'static str, given: &Value) -> Result<Option<f64>, Error> {
    if !given.is_true() {
        return Ok(None);
    }
    let text = given.to_text();
    let number = text
        .parse()
        .map_err(|_| Error::argument(name, format!("expected a number, got {text}")));
    number.map(Some)
}

fn loadavg(cx: &Exec, args: Loadavg) -> Result<Ret, Error> {
    let all = cx.call_internal("status.loadavg", Vec::new(), Map::new())?;
    let Some(data) = all.get(&args.name) else {
        let why = format!("Requested load average {} not available ", args.name);
        return Ok(Ret::failed(why).with("data", Map::new()));
    };
    let (least, most) = (
        number("minimum", &args.minimum)?,
        number("maximum", &args.maximum)?,
    );
    if least.zip(most).is_some_and(|(least, most)| least >= most) {
        return Ok(Ret::failed("Min must be less than max").with("data", Map::new()));
    }
    let load = number("data", data)?.unwrap_or_default();
    let shown = value::python::float(load);
    let ret = if least.is_some_and(|least| load < least) {
        Ret::failed(format!(
            "Load avg is below minimum of {} at {shown}",
            args.minimum.to_text()
        ))
    } else if most.is_some_and(|most| load > most) {
        Ret::failed(format!(
            "Load avg above maximum of {} at {shown}",
            args.maximum.to_text()
        ))
    } else {
        Ret::ok("Load avg in acceptable range")
    };
    Ok(ret.with("data", data.clone()))
}

fn process(cx: &Exec, args: Process) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let data = cx.call_internal("status.pid", vec![name.into()], Map::new())?;
    Ok(match data.is_true() {
        true => Ret::ok(format!("Process signature \"{name}\" was found ")).with("data", data),
        false => {
            Ret::failed(format!("Process signature \"{name}\" not found ")).with("data", Map::new())
        }
    })
}
