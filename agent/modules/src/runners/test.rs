//! The `test` runner.

use std::time::Duration;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Test runners.
    mod test;

    /// Return the positional and named arguments.
    ///
    ///     salt-run test.arg web 80
    fn arg(Arguments {
        *rest,
        ..kwargs
    });

    /// Return all positional and named arguments, including internal ones.
    ///
    ///     salt-run test.raw_arg web 80
    fn raw_arg(RawArguments {
        *rest,
        ..kwargs
    });

    /// Wait for a time.
    ///
    ///     salt-run test.sleep 1
    fn sleep(Sleep {
        /// The time to wait in seconds.
        s_time: f64 = 10.0,
    });

    /// Return every option of the configuration.
    ///
    ///     salt-run test.get_opts
    fn get_opts(Options {});

    /// Return metasyntactic words.
    ///
    ///     salt-run test.metasyntactic
    fn metasyntactic(Metasyntactic {
        /// The set of words: `us` or `uk`.
        locality: String = "us".into(),
    });
}

fn given(args: Vec<Value>, kwargs: Map) -> Value {
    Map::new().with("args", args).with("kwargs", kwargs).into()
}

fn arg(_cx: &Exec, mut args: Arguments) -> Result<Value, Error> {
    args.kwargs
        .retain(|key, _| !key.as_str().is_some_and(|key| key.starts_with("__")));
    Ok(given(args.rest, args.kwargs))
}

fn raw_arg(_cx: &Exec, args: RawArguments) -> Result<Value, Error> {
    Ok(given(args.rest, args.kwargs))
}

fn sleep(_cx: &Exec, args: Sleep) -> Result<Value, Error> {
    let time = Duration::try_from_secs_f64(args.s_time).map_err(|_| {
        let problem = format!("expected a number of seconds, got {}", args.s_time);
        Error::argument("s_time", problem)
    })?;
    std::thread::sleep(time);
    Ok(true.into())
}

fn get_opts(cx: &Exec, _args: Options) -> Result<Value, Error> {
    Ok(cx.opts().map.clone().into())
}

fn metasyntactic(_cx: &Exec, args: Metasyntactic) -> Result<Value, Error> {
    let words: &[&str] = match args.locality.as_str() {
        "us" => &[
            "foo", "bar", "baz", "qux", "quux", "quuz", "corge", "grault", "garply", "waldo",
            "fred", "plugh", "xyzzy", "thud",
        ],
        "uk" => &["wibble", "wobble", "wubble", "flob"],
        _ => return Ok(Value::Null),
    };
    Ok(Value::from(words.to_vec()))
}
