//! The `cmd` state module.

use std::path::Path;

use python::shlex;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value, json};

use crate::exec::cmd::{Success, run_all_with, run_chroot_with, script_with};

state::argument_group! {
    /// The arguments of `cmd.run` that a command has when a watched state changes something.
    pub(crate) struct Waiting {
        /// The directory to run it in. Default: the home directory of the user.
        cwd: Option<String> = None,
        /// The root directory of the command (chroot).
        root: Option<String> = None,
        /// The user to run it as.
        runas: Value = Value::Null,
        /// The shell. Default: the grain `shell`.
        shell: Option<String> = None,
        /// Environment variables for the command.
        env: Value = Value::list([]),
        /// True if the command reports its changes itself, as in `cmd.run`.
        stateful: Value = false.into(),
        /// The level at which the output is logged; `quiet` to log nothing.
        output_loglevel: Value = "debug".into(),
        /// True to omit the output from the return.
        hide_output: Value = false.into(),
        /// Whether to show the output while the command runs. Accepted but ignored.
        use_vt: Value = false.into(),
        #[group] success: Success,
    }
}

state::state_module! {
    /// Execution of arbitrary commands.
    ///
    /// A command runs each time, unless `unless`, `onlyif`, `creates` or a requisite prevents it.
    #[facts(effects = Effects::Command)]
    mod cmd;

    /// Run a command.
    ///
    ///     make install:
    ///       cmd.run:
    ///         - cwd: /usr/src/app
    ///         - creates: /usr/local/bin/app
    fn run(Run {
        /// The command line, run by the shell.
        name: String,
        /// The directory to run it in. Default: the home directory of the user.
        cwd: Option<String> = None,
        /// The root directory of the command (chroot).
        root: Option<String> = None,
        /// The user to run it as.
        runas: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        password: Value = Value::Null,
        /// The shell. Default: the grain `shell`.
        shell: Option<String> = None,
        /// Environment variables for the command: a dictionary or a list of single-key
        /// dictionaries.
        env: Value = Value::Null,
        /// Folders to put in front of `PATH`.
        prepend_path: Value = Value::Null,
        /// True if the command reports its changes itself: its last line is `changed=yes
        /// comment='…' key=value`, or it prints JSON. With `- test_name: COMMAND` that command runs
        /// in test mode.
        stateful: Value = false.into(),
        /// The level at which the output is logged; `quiet` to log nothing.
        output_loglevel: Value = "debug".into(),
        /// True to omit the output from the return.
        hide_output: Value = false.into(),
        /// The maximum number of seconds that the command may run.
        timeout: Value = Value::Null,
        /// True to treat a command that exceeds `timeout` as successful.
        ignore_timeout: bool = false,
        /// Whether to show the output while the command runs. Accepted but ignored.
        use_vt: Value = false.into(),
        #[group] success: Success,
        ..kwargs
    });

    /// Run a command only when a watched state changes something.
    ///
    ///     newaliases:
    ///       cmd.wait:
    ///         - watch:
    ///           - file: /etc/aliases
    fn wait(Wait {
        /// The command line, run by the shell.
        name: String,
        #[group] command: Waiting,
        ..kwargs
    });

    /// The same as `cmd.wait`.
    ///
    ///     newaliases:
    ///       cmd.watch:
    ///         - watch:
    ///           - file: /etc/aliases
    fn watch(Watch {
        /// The command line, run by the shell.
        name: String,
        #[group] command: Waiting,
        ..kwargs
    });

    /// Fetch a script and run it.
    ///
    ///     setup the database:
    ///       cmd.script:
    ///         - source: salt://setup.sh
    ///         - creates: /var/lib/app/ready
    fn script(Script {
        /// The script, followed by its arguments. If `source` is given, the script is not taken
        /// from here.
        name: String,
        /// The source of the script: `salt://…`, an absolute path, or a URL.
        source: Option<String> = None,
        /// The template engine that renders the script: `jinja`.
        template: Value = Value::Null,
        /// The directory to run it in.
        cwd: Option<String> = None,
        /// The user to run it as.
        runas: Value = Value::Null,
        /// Accepted but ignored; only Windows needs it.
        password: Value = Value::Null,
        /// The shell. Default: the grain `shell`.
        shell: Option<String> = None,
        /// Environment variables for the script.
        env: Value = Value::Null,
        /// True if the script reports its changes itself, as in `cmd.run`.
        stateful: Value = false.into(),
        /// The maximum number of seconds that the script may run.
        timeout: Value = Value::Null,
        /// Whether to show the output while the script runs. Accepted but ignored.
        use_vt: Value = false.into(),
        /// The level at which the output is logged; `quiet` to log nothing.
        output_loglevel: Value = "debug".into(),
        /// True to omit the output from the return.
        hide_output: Value = false.into(),
        /// Default variables of the template; those in `context` take precedence.
        defaults: Value = Value::Null,
        /// Variables of the template.
        context: Value = Value::Null,
        #[group] success: Success,
        ..kwargs
    });

    /// Fetch a script and run it only when a watched state changes something.
    ///
    ///     reindex:
    ///       cmd.wait_script:
    ///         - source: salt://reindex.sh
    ///         - watch:
    ///           - file: /etc/app.conf
    fn wait_script(WaitScript {
        /// The script, followed by its arguments. If `source` is given, the script is not taken
        /// from here.
        name: String,
        /// The source of the script: `salt://…`, an absolute path, or a URL.
        source: Option<String> = None,
        /// The template engine that renders the script: `jinja`.
        template: Value = Value::Null,
        /// The directory to run it in.
        cwd: Option<String> = None,
        /// The user to run it as.
        runas: Value = Value::Null,
        /// The shell. Default: the grain `shell`.
        shell: Option<String> = None,
        /// Environment variables for the script.
        env: Value = Value::Null,
        /// True if the script reports its changes itself, as in `cmd.run`.
        stateful: Value = false.into(),
        /// Whether to show the output while the script runs. Accepted but ignored.
        use_vt: Value = false.into(),
        /// The level at which the output is logged; `quiet` to log nothing.
        output_loglevel: Value = "debug".into(),
        /// True to omit the output from the return.
        hide_output: Value = false.into(),
        #[group] success: Success,
        ..kwargs
    });

    /// Call a Python function, which an SLS file cannot contain. `module.run` calls an execution
    /// function.
    ///
    ///     read the pillar again:
    ///       module.run:
    ///         - saltutil.refresh_pillar: []
    fn call(Call {
        /// Any name.
        name: String,
        /// The function.
        func: Value,
        /// Its positional arguments.
        args: Value = Value::list([]),
        /// Its keyword arguments.
        kws: Value = Value::Null,
        /// The level at which the output is logged; `quiet` to log nothing.
        output_loglevel: Value = "debug".into(),
        /// True to omit the output from the return.
        hide_output: Value = false.into(),
        /// Whether to show the output while the function runs. Accepted but ignored.
        use_vt: Value = false.into(),
        ..kwargs
    });

    /// Call a Python function when a watched state changes something. `module.wait` calls an
    /// execution function.
    ///
    ///     read the pillar again:
    ///       module.wait:
    ///         - saltutil.refresh_pillar: []
    ///         - watch:
    ///           - file: /etc/app.conf
    fn wait_call(WaitCall {
        /// Any name.
        name: String,
        /// The function.
        func: Value,
        /// Its positional arguments.
        args: Value = Value::list([]),
        /// Its keyword arguments.
        kws: Value = Value::Null,
        /// True if the function reports its changes itself, as in `cmd.run`.
        stateful: Value = false.into(),
        /// Whether to show the output while the function runs. Accepted but ignored.
        use_vt: Value = false.into(),
        /// The level at which the output is logged; `quiet` to log nothing.
        output_loglevel: Value = "debug".into(),
        /// True to omit the output from the return.
        hide_output: Value = false.into(),
        ..kwargs
    });

    /// Run the command because a watched state changed something.
    ///
    ///     systemctl daemon-reload:
    ///       cmd.wait:
    ///         - watch:
    ///           - file: /etc/app.conf
    fn mod_watch(ModWatch {
        /// The command line, as in `cmd.run`, which also describes the other arguments.
        name: String,
        /// The maximum number of seconds that the command may run.
        timeout: Value = Value::Null,
        ..kwargs
    });
}

/// The argument `stateful`: whether the command reports its changes itself, and the command for
/// test mode.
struct Stateful {
    on: bool,
    test_name: Option<String>,
}

impl Stateful {
    fn parse(given: &Value) -> Self {
        match given.as_list() {
            Some(items) => Self {
                on: !items.is_empty(),
                test_name: items
                    .first()
                    .and_then(|item| item.get("test_name"))
                    .map(Value::to_text),
            },
            None => Self {
                on: *given == Value::Bool(true) && given.as_bool().is_some(),
                test_name: None,
            },
        }
    }

    /// Returns the command to run. In test mode it is `test_name`, if that is given.
    fn name(&self, cx: &Exec, name: String) -> String {
        match &self.test_name {
            Some(test_name) if cx.test => test_name.clone(),
            _ => name,
        }
    }
}

fn run(cx: &Exec, args: Run) -> Result<Ret, Error> {
    let stateful = Stateful::parse(&args.stateful);
    let name = stateful.name(cx, args.name);
    if wrong_env(&args.env) {
        return Ok(Ret::failed(WRONG_ENV));
    }
    let options = merged(
        args.kwargs,
        args.success,
        [
            ("cwd", args.cwd.clone().into()),
            ("runas", args.runas),
            ("use_vt", args.use_vt),
            ("shell", shell(cx, args.shell)),
            ("env", args.env),
            ("prepend_path", args.prepend_path),
            ("output_loglevel", args.output_loglevel),
            ("hide_output", args.hide_output),
            ("timeout", args.timeout),
            ("python_shell", true.into()),
        ],
    );
    let would = Ret::would(format!("Command \"{name}\" would have been executed"))
        .change("cmd", name.as_str());
    gated(cx, &stateful, would, || {
        if let Some(refused) = unavailable(args.cwd.as_deref()) {
            return Ok(refused);
        }
        let command = Value::from(&name);
        let result = match &args.root {
            Some(root) => run_chroot_with(cx, root, &command, &[], options),
            None => run_all_with(cx, &command, &options),
        };
        Ok(match result {
            Ok(result) => {
                let result = forgiven(result, args.ignore_timeout);
                reported(result, format!("Command \"{name}\" run"))
            }
            Err(error) => Ret::failed(error.to_string()),
        })
    })
}

/// Marks a command that exceeded its time as successful if `ignore_timeout` is set.
fn forgiven(mut result: Map, ignore_timeout: bool) -> Map {
    let stdout = result.get("stdout").and_then(Value::as_str).unwrap_or("");
    let over = result.get("retcode") == Some(&Value::Int(1)) && stdout.contains("Timed out after");
    if ignore_timeout && over {
        result.insert("retcode", 0);
    }
    result
}

fn reported(result: Map, comment: String) -> Ret {
    let failed = result.get("retcode").is_some_and(Value::is_true);
    Ret {
        result: Some(!failed),
        ..Ret::ok(comment).changes(result)
    }
}

const WRONG_ENV: &str = "Invalidly-formatted 'env' parameter. See documentation.";

fn wrong_env(env: &Value) -> bool {
    !matches!(env, Value::Null | Value::List(_) | Value::Map(_))
}

fn shell(cx: &Exec, given: Option<String>) -> Value {
    given
        .filter(|shell| !shell.is_empty())
        .map(Value::from)
        .or_else(|| cx.grains().get("shell").cloned())
        .unwrap_or_default()
}

fn merged<const N: usize>(mut kwargs: Map, success: Success, declared: [(&str, Value); N]) -> Map {
    kwargs.extend(success.0);
    kwargs.extend(declared.into_iter().filter(|(_, value)| !value.is_null()));
    kwargs
}

fn unavailable(cwd: Option<&str>) -> Option<Ret> {
    let cwd = cwd.filter(|cwd| !cwd.is_empty())?;
    (!Path::new(cwd).is_dir()).then(|| {
        Ret::failed(format!(
            "Desired working directory \"{cwd}\" is not available"
        ))
    })
}

/// Runs the change. In test mode runs nothing except the command of `test_name`, if there is one.
fn gated(
    cx: &Exec,
    stateful: &Stateful,
    would: Ret,
    change: impl FnOnce() -> Result<Ret, Error>,
) -> Result<Ret, Error> {
    let reinterpret = |ret| {
        if stateful.on {
            reinterpreted(ret)
        } else {
            Ok(ret)
        }
    };
    if stateful.test_name.is_none() {
        return cx.apply(would, change).and_then(reinterpret);
    }
    let ret = change()?;
    let succeeded = ret.changes.get("retcode") == Some(&Value::Int(0));
    let mut ret = reinterpret(ret)?;
    if cx.test && succeeded && ret.changes.is_true() {
        ret.result = None;
    }
    Ok(ret)
}

/// Replaces the return by the one that the command reports: JSON, or pairs on its last line.
fn reinterpreted(mut ret: Ret) -> Result<Ret, Error> {
    let Value::Map(result) = std::mem::replace(&mut ret.changes, Map::new().into()) else {
        return Ok(ret);
    };
    ret.comment.clear();
    let text = |key| result.get(key).and_then(Value::as_str).unwrap_or_default();
    let out = text("stdout");
    if out.is_empty() {
        ret.comment = text("stderr").to_owned();
        return Ok(ret);
    }
    let (mut data, rest) = match json::read(out) {
        Ok(Value::Map(data)) => (data, String::new()),
        Ok(_) => {
            let comment = "script JSON output must be a JSON object (e.g., {})!";
            return Ok(Ret::failed(comment));
        }
        Err(_) => match last_line(out) {
            Some(found) => found,
            None => {
                let comment = "Failed parsing script output! Stdout must be JSON or a line of name=value pairs.";
                return Ok(Ret::failed(comment).changes(result));
            }
        },
    };
    let changed = truth(data.get("changed"))?;
    if let Some(comment) = data.remove("comment") {
        ret.comment = comment.to_text();
    }
    if changed {
        let said = data.get("stdout").cloned();
        for (key, value) in &result {
            data.entry(key.clone(), || value.clone());
        }
        data.insert("stdout", said.map_or(rest, |said| said.to_text()));
        ret.changes = data.into();
    }
    Ok(ret)
}

/// Returns the pairs on the last line, and the text before that line.
fn last_line(out: &str) -> Option<(Map, String)> {
    // Salt slices a single line at -1: its stdout is the line without its last letter, and is kept so.
    let mut all_but_one = out.chars();
    all_but_one.next_back();
    let (before, line) = out
        .trim_end()
        .rsplit_once('\n')
        .unwrap_or((all_but_one.as_str(), out));
    let mut data = Map::new();
    for word in shlex::split(line).ok()? {
        let (key, value) = word
            .split_once('=')
            .filter(|(_, value)| !value.contains('='))?;
        data.insert(key, value);
    }
    Some((data, before.to_owned()))
}

fn truth(changed: Option<&Value>) -> Result<bool, Error> {
    let text = changed.map_or_else(|| "no".into(), Value::to_text);
    match text.to_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(Error::refused(format!(
            "Failed parsing boolean value: {text}"
        ))),
    }
}

fn wait(_cx: &Exec, _args: Wait) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn watch(_cx: &Exec, _args: Watch) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn wait_script(_cx: &Exec, _args: WaitScript) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn wait_call(_cx: &Exec, _args: WaitCall) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn call(_cx: &Exec, _args: Call) -> Result<Ret, Error> {
    Err("cmd.call takes a Python function, which an SLS file cannot contain: use module.run to call an execution function".into())
}

fn script(cx: &Exec, args: Script) -> Result<Ret, Error> {
    let stateful = Stateful::parse(&args.stateful);
    let name = stateful.name(cx, args.name.clone());
    if let Some(comment) = wrong_script(&args) {
        return Ok(Ret::failed(comment));
    }
    let source = args.source.clone().unwrap_or_else(|| name.clone());
    let mut context = map(&args.defaults);
    context.update(map(&args.context));
    let mut words = args.kwargs.get("args").cloned().unwrap_or_default();
    if let Some((_, rest)) = name.split_once(' ').filter(|_| !words.is_true()) {
        words = rest.into();
    }
    let options = merged(
        args.kwargs,
        args.success,
        [
            ("cwd", args.cwd.clone().into()),
            ("runas", args.runas),
            ("shell", shell(cx, args.shell)),
            ("env", args.env),
            ("template", args.template),
            ("timeout", args.timeout),
            ("output_loglevel", args.output_loglevel),
            ("hide_output", args.hide_output),
            ("use_vt", args.use_vt),
            ("context", context.into()),
            ("saltenv", cx.saltenv.as_str().into()),
            ("python_shell", true.into()),
        ],
    );
    let would = Ret::would(format!("Command '{name}' would have been executed"));
    let ret = gated(cx, &stateful, would, || {
        if let Some(refused) = unavailable(args.cwd.as_deref()) {
            return Ok(refused);
        }
        let result = match script_with(cx, &source, &words, &options) {
            Ok(result) => result,
            Err(error) => return Ok(Ret::failed(error.to_string())),
        };
        let comment = if result.contains("cache_error") {
            let saltenv = &cx.saltenv;
            format!("Unable to cache script {source} from saltenv '{saltenv}'")
        } else {
            format!("Command '{name}' run")
        };
        Ok(reported(result, comment))
    })?;
    Ok(Ret {
        name: (name != args.name).then_some(name),
        ..ret
    })
}

fn wrong_script(args: &Script) -> Option<&'static str> {
    let no_map = |value: &Value| value.is_true() && value.as_map().is_none();
    if wrong_env(&args.env) {
        Some(WRONG_ENV)
    } else if no_map(&args.context) {
        Some("Invalidly-formatted 'context' parameter. Must be formed as a dict.")
    } else if no_map(&args.defaults) {
        Some("Invalidly-formatted 'defaults' parameter. Must be formed as a dict.")
    } else {
        None
    }
}

fn map(value: &Value) -> Map {
    value.as_map().cloned().unwrap_or_default()
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let mut kwargs = args.kwargs.with("name", args.name);
    if !args.timeout.is_null() {
        kwargs.insert("timeout", args.timeout);
    }
    let sfun = kwargs.remove("sfun").map(|sfun| sfun.to_text());
    let stateful = kwargs
        .remove("stateful")
        .is_some_and(|value| value.is_true());
    let function = match sfun.as_deref().unwrap_or_default() {
        "wait" | "run" | "watch" => "cmd.run",
        "wait_script" | "script" => "cmd.script",
        other => {
            return Ok(Ret::failed(format!(
                "cmd.{other} does not work with the watch requisite, please use cmd.wait or cmd.wait_script"
            )));
        }
    };
    let function_of = cx.state_function(function);
    let function_of = function_of.ok_or_else(|| Error::not_available(function.into()))?;
    let given = state::module::Arguments::new(Vec::new(), kwargs);
    let ret = function_of.invoke(function, cx, given)?;
    if stateful {
        reinterpreted(ret)
    } else {
        Ok(ret)
    }
}

#[cfg(test)]
mod tests;
