//! The `cmd` execution module: runs commands.

mod chroot;
mod options;
mod script;
pub(super) mod shell_info;

use machine::process::{self, Line, Output, Process, Stderr};
use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::log::{self, Level};
use value::{Map, Value};

use options::{
    ChrootOptions, ChrootStart, OutputOptions, PowershellOptions, RetcodeOptions, RunAllOptions,
    RunBgOptions, RunOptions, ScriptOptions, ScriptRetcodeOptions, ShellOptions, merged,
};

pub(crate) use chroot::run_chroot_with;
pub(crate) use options::Success;
pub(crate) use script::{rendered, script_with};

state::exec_module! {
    /// Run commands on this machine.
    ///
    /// All functions also accept `stdin_raw_newlines`, and the options of the others by name.
    mod cmd;

    /// Run a command and return its output, including its error output.
    ///
    ///     salt-call cmd.run 'ls -l /srv' cwd=/tmp
    fn run(Run {
        /// The command: a line, or a list of a program and its arguments.
        cmd: Value,
        #[group] options: RunOptions,
        ..kwargs
    });

    /// Run a command in the shell and return its output.
    ///
    ///     salt-call cmd.shell 'df -h | tail -n 1'
    fn shell(Shell {
        /// The command line.
        cmd: Value,
        #[group] options: ShellOptions,
        ..kwargs
    });

    /// Run a command and return its standard output.
    ///
    ///     salt-call cmd.run_stdout 'uname -r'
    fn run_stdout(RunStdout {
        /// The command: a line, or a list of a program and its arguments.
        cmd: Value,
        #[group] options: OutputOptions,
        ..kwargs
    });

    /// Run a command and return its standard error.
    ///
    ///     salt-call cmd.run_stderr 'nginx -t'
    fn run_stderr(RunStderr {
        /// The command: a line, or a list of a program and its arguments.
        cmd: Value,
        #[group] options: OutputOptions,
        ..kwargs
    });

    /// Run a command and return a dictionary with its pid, its return code and both outputs.
    ///
    ///     salt-call cmd.run_all 'systemctl is-active nginx'
    fn run_all(RunAll {
        /// The command: a line, or a list of a program and its arguments.
        cmd: Value,
        #[group] options: RunAllOptions,
        ..kwargs
    });

    /// Run a command and return its return code.
    ///
    ///     salt-call cmd.retcode 'test -e /etc/app.conf'
    fn retcode(Retcode {
        /// The command: a line, or a list of a program and its arguments.
        cmd: Value,
        #[group] options: RetcodeOptions,
        ..kwargs
    });

    /// Start a command in the background and return its pid.
    ///
    ///     salt-call cmd.run_bg '/usr/local/bin/report --all'
    fn run_bg(RunBg {
        /// The command: a line, or a list of a program and its arguments.
        cmd: Value,
        #[group] options: RunBgOptions,
        ..kwargs
    });

    /// Fetch a script and run it; return what `cmd.run_all` returns.
    ///
    ///     salt-call cmd.script salt://setup.sh
    fn script(Script {
        /// The location of the script: a `salt://` URL, an absolute path or another URL.
        source: String,
        /// The arguments of the script: a line or a list.
        args: Value = Value::Null,
        #[group] options: ScriptOptions,
        ..kwargs
    });

    /// Fetch a script, run it and return its return code.
    ///
    ///     salt-call cmd.script_retcode salt://check.sh args=--fast
    fn script_retcode(ScriptRetcode {
        /// The location of the script: a `salt://` URL, an absolute path or another URL.
        source: String,
        /// The arguments of the script: a line or a list.
        args: Value = Value::Null,
        #[group] options: ScriptRetcodeOptions,
        ..kwargs
    });

    /// Run code with its interpreter and return the output.
    ///
    ///     salt-call cmd.exec_code python3 'print(6 * 7)'
    fn exec_code(ExecCode {
        /// The interpreter.
        lang: String,
        /// The code to run.
        code: String,
        /// The directory to run it in.
        cwd: Value = Value::Null,
        /// The arguments of the code.
        args: Value = Value::Null,
        ..kwargs
    });

    /// Run code with its interpreter and return what `cmd.run_all` returns.
    ///
    ///     salt-call cmd.exec_code_all python3 'print(6 * 7)'
    fn exec_code_all(ExecCodeAll {
        /// The interpreter.
        lang: String,
        /// The code to run.
        code: String,
        /// The directory to run it in.
        cwd: Value = Value::Null,
        /// The arguments of the code.
        args: Value = Value::Null,
        ..kwargs
    });

    /// Run a command in another root directory, with `dev`, `proc` and `sys` mounted there, and
    /// return what `cmd.run_all` returns.
    ///
    ///     salt-call cmd.run_chroot /srv/chroot 'ls -l /'
    fn run_chroot(RunChroot {
        /// The path of the root directory.
        root: String,
        /// The command: a line, or a list of a program and its arguments.
        cmd: Value,
        #[group] start: ChrootStart,
        /// The folders of this machine to bind-mount in the root directory.
        binds: Option<Vec<String>> = None,
        #[group] options: ChrootOptions,
        ..kwargs
    });

    /// Return the path of a program.
    ///
    ///     salt-call cmd.which nginx
    fn which(Which {
        /// The name of the program.
        cmd: String,
    });

    /// Return the path of the first of several programs that is installed.
    ///
    ///     salt-call cmd.which_bin '[vim, nano]'
    fn which_bin(WhichBin {
        /// The names of the programs.
        cmds: Vec<String>,
    });

    /// Return True if a program is installed.
    ///
    ///     salt-call cmd.has_exec nginx
    fn has_exec(HasExec {
        /// The name of the program.
        cmd: String,
    });

    /// Return the shells listed in `/etc/shells`.
    ///
    ///     salt-call cmd.shells
    fn shells(Shells {});

    /// Write a text to a terminal.
    ///
    ///     salt-call cmd.tty tty1 'The server restarts soon.'
    fn tty(Tty {
        /// The terminal, such as `tty1` or `pts3`.
        device: String,
        /// The text to write.
        echo: String = String::new(),
    });

    /// Fail: PowerShell commands run only on Windows.
    ///
    ///     salt-call cmd.powershell 'Get-ChildItem /srv'
    fn powershell(Powershell {
        /// The command.
        cmd: Value,
        #[group] options: PowershellOptions,
        ..kwargs
    });
}

fn run(cx: &Exec, args: Run) -> Result<Value, Error> {
    run_with(cx, &args.cmd, merged(args.kwargs, [args.options.0]))
}

fn shell(cx: &Exec, args: Shell) -> Result<Value, Error> {
    let mut options = merged(args.kwargs, [args.options.0]);
    if options.get("python_shell").is_none_or(Value::is_null) {
        options.insert("python_shell", true);
    }
    run_with(cx, &args.cmd, options)
}

fn run_with(cx: &Exec, cmd: &Value, options: Map) -> Result<Value, Error> {
    let apart = options
        .get("redirect_stderr")
        .is_some_and(|value| !value.is_true());
    let (process, output) = execute(
        cx,
        cmd,
        &options,
        if apart { Stderr::Apart } else { Stderr::Merged },
    )?;
    log_run(&process, &output, &options)?;
    Ok(visible_output(&options, output.stdout_regardless()))
}

/// Logs the output and, a second time as in Salt, a failure. Returns an error for a failure if
/// `raise_err` is set.
fn log_run(process: &Process, output: &Output, options: &Map) -> Result<(), Error> {
    let Some(mut level) = process.output_loglevel else {
        return Ok(());
    };
    let code = output.retcode.unwrap_or(0);
    if !process.ignore_retcode && code != 0 {
        level = level.max(Level::Error);
        log::error(format_args!(
            "Command '{}' failed with return code: {code}",
            process.first_word()
        ));
        if options.get("raise_err").is_some_and(Value::is_true) {
            return Err(Error::refused(
                visible_output(options, output.stdout_regardless()).to_text(),
            ));
        }
    }
    log::write(
        level,
        format_args!("output: {}", output.stdout_regardless()),
    );
    Ok(())
}

fn visible_output(options: &Map, text: &str) -> Value {
    if hidden(options) {
        "".into()
    } else {
        text.into()
    }
}

fn hidden(options: &Map) -> bool {
    options.get("hide_output").is_some_and(Value::is_true)
}

fn run_stdout(cx: &Exec, args: RunStdout) -> Result<Value, Error> {
    let options = merged(args.kwargs, [args.options.0]);
    let (_, output) = execute(cx, &args.cmd, &options, Stderr::Apart)?;
    Ok(visible_output(&options, output.stdout_regardless()))
}

fn run_stderr(cx: &Exec, args: RunStderr) -> Result<Value, Error> {
    let options = merged(args.kwargs, [args.options.0]);
    let (_, output) = execute(cx, &args.cmd, &options, Stderr::Apart)?;
    Ok(visible_output(&options, &output.stderr))
}

fn run_all(cx: &Exec, args: RunAll) -> Result<Value, Error> {
    let options = merged(args.kwargs, [args.options.0]);
    run_all_with(cx, &args.cmd, &options).map(Value::from)
}

/// Runs `cmd.run_all` with its options in a dictionary.
pub(crate) fn run_all_with(cx: &Exec, cmd: &Value, options: &Map) -> Result<Map, Error> {
    let merged = options.get("redirect_stderr").is_some_and(Value::is_true);
    let (_, output) = execute(
        cx,
        cmd,
        options,
        if merged {
            Stderr::Merged
        } else {
            Stderr::Apart
        },
    )?;
    Ok(hide(options, output.to_map()))
}

fn hide(options: &Map, mut result: Map) -> Map {
    if hidden(options) {
        result.insert("stdout", "");
        result.insert("stderr", "");
    }
    result
}

fn retcode(cx: &Exec, args: Retcode) -> Result<Value, Error> {
    let options = merged(args.kwargs, [args.options.0]);
    let (_, output) = execute(cx, &args.cmd, &options, Stderr::Merged)?;
    Ok(output.retcode.into())
}

fn run_bg(cx: &Exec, args: RunBg) -> Result<Value, Error> {
    let options = merged(args.kwargs.with("bg", true), [args.options.0]);
    let (_, output) = execute(cx, &args.cmd, &options, Stderr::Apart)?;
    Ok(Map::new().with("pid", output.pid).into())
}

/// Runs a command with Salt's options, and makes its return code the exit code of the call.
fn execute(
    cx: &Exec,
    cmd: &Value,
    options: &Map,
    stderr: Stderr,
) -> Result<(Process, Output), Error> {
    let mut process = Process::with_options(cmd, options)?;
    process.stderr = stderr;
    process.python_shell = python_shell(cx, options);
    render(cx, &mut process, options)?;
    check_available(cx, &process, options)?;
    let output = process.run(cx)?;
    if !output.timed_out {
        let code = output.retcode.filter(|_| !process.ignore_retcode);
        cx.set_retcode(code.unwrap_or(0));
    }
    Ok((process, output))
}

/// Returns whether the shell runs the command by default. A call from outside has a jid and uses
/// the shell. A call from a template or a module uses it only if `cmd_safe` is off.
fn python_shell(cx: &Exec, options: &Map) -> bool {
    let given = options.get("python_shell").filter(|value| !value.is_null());
    given.map_or_else(
        || from_outside(options) || cx.opts().get("cmd_safe") == Some(&Value::Bool(false)),
        Value::is_true,
    )
}

fn from_outside(options: &Map) -> bool {
    options.get("__pub_jid").is_some_and(Value::is_true)
}

fn render(cx: &Exec, process: &mut Process, options: &Map) -> Result<(), Error> {
    let Some(engine) = options.get("template").filter(|engine| engine.is_true()) else {
        return Ok(());
    };
    let render = |text: &str| rendered(cx, text, &engine.to_text(), options);
    if let Line::Text(text) = &process.line {
        process.line = Line::Text(render(text)?);
    }
    if let Some(cwd) = &process.cwd {
        process.cwd = Some(render(cwd)?);
    }
    Ok(())
}

/// Applies `cmd_blacklist_glob` and `cmd_whitelist_glob`, which restrict calls from outside.
fn check_available(cx: &Exec, process: &Process, options: &Map) -> Result<(), Error> {
    if !options.contains("__pub_jid") {
        return Ok(());
    }
    let line = match &process.line {
        Line::Text(text) => text.clone(),
        Line::Words(words) => words.join(" "),
    };
    let listed = |name| {
        cx.opts()
            .texts(name)
            .iter()
            .any(|glob| fnmatch(glob, &line))
    };
    let unlimited = cx.opts().texts("cmd_whitelist_glob").is_empty();
    if listed("cmd_blacklist_glob") || !(unlimited || listed("cmd_whitelist_glob")) {
        return Err(Error::refused(format!(
            "The shell command \"{line}\" is not permitted"
        )));
    }
    Ok(())
}

fn script(cx: &Exec, args: Script) -> Result<Value, Error> {
    let options = merged(args.kwargs, [args.options.0]);
    script_with(cx, &args.source, &args.args, &options).map(Value::from)
}

fn script_retcode(cx: &Exec, args: ScriptRetcode) -> Result<Value, Error> {
    let options = merged(args.kwargs, [args.options.0]);
    let result = script_with(cx, &args.source, &args.args, &options)?;
    Ok(result.get("retcode").cloned().unwrap_or_default())
}

fn exec_code(cx: &Exec, args: ExecCode) -> Result<Value, Error> {
    let kwargs = args.kwargs.with("cwd", args.cwd);
    let result = script::code(cx, &args.lang, &args.code, &args.args, kwargs)?;
    Ok(result.get("stdout").cloned().unwrap_or_default())
}

fn exec_code_all(cx: &Exec, args: ExecCodeAll) -> Result<Value, Error> {
    let kwargs = args.kwargs.with("cwd", args.cwd);
    script::code(cx, &args.lang, &args.code, &args.args, kwargs).map(Value::from)
}

fn run_chroot(cx: &Exec, args: RunChroot) -> Result<Value, Error> {
    let options = merged(args.kwargs, [args.start.0, args.options.0]);
    let binds = args.binds.unwrap_or_default();
    run_chroot_with(cx, &args.root, &args.cmd, &binds, options).map(Value::from)
}

fn which(_cx: &Exec, args: Which) -> Result<Value, Error> {
    Ok(process::which(&args.cmd).into())
}

fn which_bin(_cx: &Exec, args: WhichBin) -> Result<Value, Error> {
    Ok(args.cmds.iter().find_map(|cmd| process::which(cmd)).into())
}

fn has_exec(_cx: &Exec, args: HasExec) -> Result<Value, Error> {
    Ok(process::which(&args.cmd).is_some().into())
}

fn shells(_cx: &Exec, _args: Shells) -> Result<Value, Error> {
    let text = machine::fs::text_or_none("/etc/shells")?.unwrap_or_default();
    let lines = text.lines().map(str::trim);
    let shells = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(Value::list(shells.map(Value::from)))
}

fn tty(_cx: &Exec, args: Tty) -> Result<Value, Error> {
    let device = &args.device;
    let path = if device.starts_with("tty") {
        format!("/dev/{device}")
    } else if device.starts_with("pts") {
        format!("/dev/{}", device.replace("pts", "pts/"))
    } else {
        let error = "The specified device is not a valid TTY";
        return Ok(Map::new().with("Error", error).into());
    };
    let open = std::fs::OpenOptions::new().write(true).open(&path);
    let written =
        open.and_then(|mut tty| std::io::Write::write_all(&mut tty, args.echo.as_bytes()));
    Ok(match written {
        Ok(()) => Map::new().with(
            "Success",
            format!("Message was successfully echoed to {path}"),
        ),
        Err(_) => Map::new().with("Error", format!("Echoing to {path} returned error")),
    }
    .into())
}

fn powershell(_cx: &Exec, _args: Powershell) -> Result<Value, Error> {
    Err("cmd.powershell runs on Windows only; use cmd.run with the program `pwsh` where that is installed".into())
}

#[cfg(test)]
mod tests;
