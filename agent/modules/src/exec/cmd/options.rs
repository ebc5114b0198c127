//! The options that the functions of `cmd` have in common. The functions pass them on by name.

use value::{Map, Value};

state::argument_group! {
    /// The user, the folder, the shell and the environment of a command.
    pub(crate) struct Start(Map) {
        /// The directory to run it in. The default is the home directory of the user.
        cwd: Value = Value::Null,
        /// The text for its standard input.
        stdin: Value = Value::Null,
        /// The user to run it as.
        runas: Value = Value::Null,
        /// The group to run it as.
        group: Value = Value::Null,
        /// The shell to run it with.
        shell: Value = Value::Null,
        /// True to run it in a shell. The default is true for a call from the command line, and
        /// false for a call from a template or another function.
        python_shell: Value = Value::Null,
        /// Variables to add to its environment.
        env: Value = Value::Null,
    }
}

state::argument_group! {
    /// The template of a command, and its environment.
    pub(crate) struct Text(Map) {
        /// True to start it with no other variables than those of `env`.
        clean_env: Value = false.into(),
        /// The template engine that renders the command and `cwd`, such as `jinja`.
        template: Value = Value::Null,
    }
}

state::argument_group! {
    /// The log of the output.
    pub(crate) struct Log(Map) {
        /// The encoding of the output. The default is UTF-8.
        output_encoding: Value = Value::Null,
        /// The level at which the output is logged; `quiet` to log nothing.
        output_loglevel: Value = "debug".into(),
        /// Accepted for Salt's sake: only Python code can pass a function that changes the log.
        log_callback: Value = Value::Null,
    }
}

state::argument_group! {
    /// The limits of a command, and its locale.
    pub(crate) struct Limits(Map) {
        /// The maximum number of seconds that the command may run.
        timeout: Value = Value::Null,
        /// False to keep the locale of the minion.
        reset_system_locale: Value = true.into(),
        /// True to treat a return code other than 0 as no failure of the call.
        ignore_retcode: Value = false.into(),
        /// The environment of the file roots.
        saltenv: Value = Value::Null,
        /// Accepted for Salt's sake: the output is not shown while the command runs.
        use_vt: Value = false.into(),
    }
}

state::argument_group! {
    /// The results that count as success.
    pub(crate) struct Success(Map) {
        /// Return codes that count as success, in addition to 0.
        success_retcodes: Value = Value::Null,
        /// Texts in the standard output that count as success.
        success_stdout: Value = Value::Null,
        /// Texts in the standard error that count as success.
        success_stderr: Value = Value::Null,
    }
}

state::argument_group! {
    /// The treatment of the output, and the limits of the run.
    pub(crate) struct OutputAndLimits(Map) {
        #[group] text: Text,
        /// True to remove white space at the end of the output.
        rstrip: Value = true.into(),
        /// The umask, in octal.
        umask: Value = Value::Null,
        #[group] log: Log,
        /// True to return no output.
        hide_output: Value = false.into(),
        #[group] limits: Limits,
    }
}

state::argument_group! {
    /// The options of `cmd.run`.
    pub(crate) struct RunOptions(Map) {
        #[group] start: Start,
        #[group] output: OutputAndLimits,
        /// True to merge the standard error into the standard output.
        redirect_stderr: Value = true.into(),
        /// True to run it in the background, without waiting for it.
        bg: Value = false.into(),
        /// Accepted for Salt's sake; without effect on Linux.
        password: Value = Value::Null,
        /// Accepted for Salt's sake; without effect on Linux.
        encoded_cmd: Value = false.into(),
        /// True to fail if the return code is not 0.
        raise_err: Value = false.into(),
        /// The folders to put in front of `PATH`.
        prepend_path: Value = Value::Null,
        #[group] success: Success,
    }
}

state::argument_group! {
    /// The options of `cmd.shell`.
    pub(crate) struct ShellOptions(Map) {
        /// The directory to run it in. The default is the home directory of the user.
        cwd: Value = Value::Null,
        /// The text for its standard input.
        stdin: Value = Value::Null,
        /// The user to run it as.
        runas: Value = Value::Null,
        /// The group to run it as.
        group: Value = Value::Null,
        /// The shell to run it with.
        shell: Value = Value::Null,
        /// Variables to add to its environment.
        env: Value = Value::Null,
        #[group] output: OutputAndLimits,
        /// True to run it in the background, without waiting for it.
        bg: Value = false.into(),
        /// Accepted for Salt's sake; without effect on Linux.
        password: Value = Value::Null,
        /// The folders to put in front of `PATH`.
        prepend_path: Value = Value::Null,
        #[group] success: Success,
    }
}

state::argument_group! {
    /// The options of `cmd.run_stdout` and `cmd.run_stderr`.
    pub(crate) struct OutputOptions(Map) {
        #[group] start: Start,
        #[group] output: OutputAndLimits,
        /// Accepted for Salt's sake; without effect on Linux.
        password: Value = Value::Null,
        /// The folders to put in front of `PATH`.
        prepend_path: Value = Value::Null,
        #[group] success: Success,
    }
}

state::argument_group! {
    /// The options of `cmd.run_all`.
    pub(crate) struct RunAllOptions(Map) {
        #[group] start: Start,
        #[group] output: OutputAndLimits,
        /// True to merge the standard error into the standard output.
        redirect_stderr: Value = false.into(),
        /// Accepted for Salt's sake; without effect on Linux.
        password: Value = Value::Null,
        /// Accepted for Salt's sake; without effect on Linux.
        encoded_cmd: Value = false.into(),
        /// The folders to put in front of `PATH`.
        prepend_path: Value = Value::Null,
        #[group] success: Success,
    }
}

state::argument_group! {
    /// The options of `cmd.retcode`.
    pub(crate) struct RetcodeOptions(Map) {
        #[group] start: Start,
        #[group] text: Text,
        /// The umask, in octal.
        umask: Value = Value::Null,
        #[group] log: Log,
        #[group] limits: Limits,
        /// Accepted for Salt's sake; without effect on Linux.
        password: Value = Value::Null,
        #[group] success: Success,
    }
}

state::argument_group! {
    /// The options of `cmd.run_bg`.
    pub(crate) struct RunBgOptions(Map) {
        /// The directory to run it in. The default is the home directory of the user.
        cwd: Value = Value::Null,
        /// The user to run it as.
        runas: Value = Value::Null,
        /// The group to run it as.
        group: Value = Value::Null,
        /// The shell to run it with.
        shell: Value = Value::Null,
        /// True to run it in a shell. The default is true for a call from the command line, and
        /// false for a call from a template or another function.
        python_shell: Value = Value::Null,
        /// Variables to add to its environment.
        env: Value = Value::Null,
        #[group] text: Text,
        /// The umask, in octal.
        umask: Value = Value::Null,
        /// The maximum number of seconds that the command may run.
        timeout: Value = Value::Null,
        #[group] log: Log,
        /// False to keep the locale of the minion.
        reset_system_locale: Value = true.into(),
        /// True to treat a return code other than 0 as no failure of the call.
        ignore_retcode: Value = false.into(),
        /// The environment of the file roots.
        saltenv: Value = Value::Null,
        /// Accepted for Salt's sake; without effect on Linux.
        password: Value = Value::Null,
        /// The folders to put in front of `PATH`.
        prepend_path: Value = Value::Null,
        #[group] success: Success,
    }
}

state::argument_group! {
    /// The options of `cmd.script`.
    pub(crate) struct ScriptOptions(Map) {
        #[group] start: Start,
        /// The template engine that renders the script, such as `jinja`.
        template: Value = Value::Null,
        /// The umask, in octal.
        umask: Value = Value::Null,
        #[group] log: Log,
        /// True to return no output.
        hide_output: Value = false.into(),
        /// The maximum number of seconds that the command may run.
        timeout: Value = Value::Null,
        /// False to keep the locale of the minion.
        reset_system_locale: Value = true.into(),
        /// The environment of the file roots.
        saltenv: Value = Value::Null,
        /// Accepted for Salt's sake: the output is not shown while the command runs.
        use_vt: Value = false.into(),
        /// True to run it in the background, without waiting for it.
        bg: Value = false.into(),
        /// Accepted for Salt's sake; without effect on Linux.
        password: Value = Value::Null,
        #[group] success: Success,
    }
}

state::argument_group! {
    /// The options of `cmd.script_retcode`.
    pub(crate) struct ScriptRetcodeOptions(Map) {
        #[group] start: Start,
        /// The template engine that renders the script.
        template: Value = "jinja".into(),
        /// The umask, in octal.
        umask: Value = Value::Null,
        /// The maximum number of seconds that the command may run.
        timeout: Value = Value::Null,
        /// False to keep the locale of the minion.
        reset_system_locale: Value = true.into(),
        /// The environment of the file roots.
        saltenv: Value = Value::Null,
        #[group] log: Log,
        /// Accepted for Salt's sake: the output is not shown while the command runs.
        use_vt: Value = false.into(),
        /// Accepted for Salt's sake; without effect on Linux.
        password: Value = Value::Null,
        #[group] success: Success,
    }
}

state::argument_group! {
    /// The options of `cmd.run_chroot` before `binds`.
    pub(crate) struct ChrootStart(Map) {
        /// The directory to run it in. The default is the home directory of the user.
        cwd: Value = Value::Null,
        /// The text for its standard input.
        stdin: Value = Value::Null,
        /// The user to run it as.
        runas: Value = Value::Null,
        /// The group to run it as.
        group: Value = Value::Null,
        /// The shell to run it with.
        shell: Value = Value::Null,
        /// True to run it in a shell, which is the default.
        python_shell: Value = true.into(),
    }
}

state::argument_group! {
    /// The options of `cmd.run_chroot` after `binds`.
    pub(crate) struct ChrootOptions(Map) {
        /// Variables to add to its environment.
        env: Value = Value::Null,
        #[group] text: Text,
        /// True to remove white space at the end of the output.
        rstrip: Value = true.into(),
        /// The umask, in octal.
        umask: Value = Value::Null,
        /// The encoding of the output. The default is UTF-8.
        output_encoding: Value = Value::Null,
        /// The level at which the output is logged; `quiet` to log nothing.
        output_loglevel: Value = "quiet".into(),
        /// Accepted for Salt's sake: only Python code can pass a function that changes the log.
        log_callback: Value = Value::Null,
        /// True to return no output.
        hide_output: Value = false.into(),
        #[group] limits: Limits,
        /// True to run it in the background, without waiting for it.
        bg: Value = false.into(),
        #[group] success: Success,
    }
}

state::argument_group! {
    /// The options of `cmd.powershell`.
    pub(crate) struct PowershellOptions(Map) {
        /// The directory to run it in. The default is the home directory of the user.
        cwd: Value = Value::Null,
        /// The text for its standard input.
        stdin: Value = Value::Null,
        /// The user to run it as.
        runas: Value = Value::Null,
        /// The shell to run it with.
        shell: Value = "powershell".into(),
        /// Variables to add to its environment.
        env: Value = Value::Null,
        #[group] text: Text,
        /// True to remove white space at the end of the output.
        rstrip: Value = true.into(),
        /// The umask, in octal.
        umask: Value = Value::Null,
        /// The encoding of the output. The default is UTF-8.
        output_encoding: Value = Value::Null,
        /// The level at which the output is logged; `quiet` to log nothing.
        output_loglevel: Value = "debug".into(),
        /// True to return no output.
        hide_output: Value = false.into(),
        #[group] limits: Limits,
        /// Accepted for Salt's sake; without effect on Linux.
        password: Value = Value::Null,
        /// Without effect on Linux.
        depth: Value = Value::Null,
        /// Without effect on Linux.
        encode_cmd: Value = false.into(),
        #[group] success: Success,
    }
}

/// Merges the declared options into the other keywords, as `Process::with_options` reads them.
pub(super) fn merged<const N: usize>(mut kwargs: Map, declared: [Map; N]) -> Map {
    kwargs.extend(declared.into_iter().flatten());
    kwargs
}
