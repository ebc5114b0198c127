//! The `system` execution module: taking the machine down, and up again.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Taking the machine down, and up again.
    mod system;

    /// Halt the machine.
    fn halt(Halt {});

    /// Change the runlevel, where there are any.
    fn init(Init {
        /// The runlevel.
        runlevel: Value,
    });

    /// Switch the machine off.
    fn poweroff(Poweroff {});

    /// Start the machine anew. In an orchestration on this machine the run goes on when it is up again.
    fn reboot(Reboot {
        /// In so many minutes; now where this is none.
        at_time: Value = Value::Null,
    });

    /// Shut the machine down.
    fn shutdown(Shutdown {
        /// In so many minutes; now where this is none.
        at_time: Value = Value::Null,
    });
}

/// What the machine's own program says.
fn told(cx: &Exec, words: &[&str]) -> Result<Value, Error> {
    let words = Value::list(words.iter().map(|word| (*word).into()));
    cx.call(
        "cmd.run",
        vec![words],
        Map::new().with("python_shell", false),
    )
}

fn time(given: &Value) -> String {
    match given.is_true() {
        true => given.to_text(),
        false => "now".to_owned(),
    }
}

fn halt(cx: &Exec, _: Halt) -> Result<Value, Error> {
    told(cx, &["halt"])
}

fn init(cx: &Exec, args: Init) -> Result<Value, Error> {
    told(cx, &["init", &args.runlevel.to_text()])
}

fn poweroff(cx: &Exec, _: Poweroff) -> Result<Value, Error> {
    told(cx, &["poweroff"])
}

fn reboot(cx: &Exec, args: Reboot) -> Result<Value, Error> {
    told(cx, &["shutdown", "-r", &time(&args.at_time)])
}

fn shutdown(cx: &Exec, args: Shutdown) -> Result<Value, Error> {
    told(cx, &["shutdown", "-h", &time(&args.at_time)])
}
