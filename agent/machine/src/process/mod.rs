//! Runs commands. This is the only module that starts children.
//!
//! No setting is process-wide: directory, environment, user and umask apply to the child only.

mod become_user;
mod child;
mod environment;
mod options;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use ::python::shlex;
use state::exec::Exec;
use state::module::Error;
use value::log::{self, Level};
use value::{Map, Value, python, watch};

use crate::accounts::{self, users};

pub use become_user::{BECOME, become_user, set_own_program};
pub use child::{MAX_OUTPUT_BYTES, kill};

/// The command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A line of text.
    Text(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

/// The destination of a child's standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stderr {
    /// It is captured separately.
    Apart,
    /// It is merged into the standard output.
    Merged,
}

/// A command with its settings. The fields are Salt's arguments of `cmd.run`.
#[derive(Clone, Debug)]
pub struct Process {
    /// The command.
    pub line: Line,
    /// True to run it in a shell. Without a shell, a line of text is split into words.
    pub python_shell: bool,
    /// The shell.
    pub shell: String,
    /// The directory; `None` means the user's home.
    pub cwd: Option<String>,
    /// The text for the standard input; `None` passes on the caller's standard input.
    pub stdin: Option<String>,
    /// The user; `None` means the one of the state's `runas`.
    pub runas: Option<String>,
    /// The group.
    pub group: Option<String>,
    /// The variables to add to the environment.
    pub env: Map,
    /// True to give the child only those variables.
    pub clean_env: bool,
    /// The folders to put in front of `PATH`.
    pub prepend_path: Option<String>,
    /// True to set the locale to `C`, so that the output can be parsed.
    pub reset_system_locale: bool,
    /// The umask, in octal.
    pub umask: Option<u32>,
    /// The maximum run time in seconds.
    pub timeout: Option<Value>,
    /// The destination of the standard error.
    pub stderr: Stderr,
    /// True to run it in the background, without waiting for it.
    pub bg: bool,
    /// True to cut white space from the end of the output.
    pub rstrip: bool,
    /// The encoding of the output; `None` means UTF-8.
    pub output_encoding: Option<String>,
    /// The level at which the output is logged; `None` keeps the command out of the log.
    pub output_loglevel: Option<Level>,
    /// True if a failure is not logged as an error.
    pub ignore_retcode: bool,
    /// The return codes that count as success.
    pub success_retcodes: Vec<i64>,
    /// The texts in the output that mean success.
    pub success_stdout: Vec<String>,
    /// The texts in the standard error that mean success.
    pub success_stderr: Vec<String>,
}

/// The result of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The process id of the child.
    pub pid: u32,
    /// The return code, negative when a signal ended the child; `None` for a background command.
    pub retcode: Option<i64>,
    /// The text from the standard output. Readers decide about the return code: see
    /// [`Self::into_success`], [`Self::stdout_of_success`] and [`Self::stdout_regardless`].
    stdout: String,
    /// The text from the standard error.
    pub stderr: String,
    /// True if the command was killed after its maximum run time.
    pub timed_out: bool,
}

impl Output {
    /// Returns true when the return code is 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.retcode == Some(0)
    }

    /// Returns the standard output of a command that succeeded.
    ///
    /// # Errors
    /// When it failed: with the words of the call, and the standard error.
    pub fn stdout_of_success(self, call: &str) -> Result<String, Error> {
        if self.success() {
            return Ok(self.stdout);
        }
        let code = self.retcode.map_or_else(
            || "it was killed".to_owned(),
            |code| format!("exit code {code}"),
        );
        let said = match self.stderr.trim() {
            "" => self.stdout.trim(),
            said => said,
        };
        Err(Error::refused(format!("{call} failed ({code}): {said}")))
    }

    /// Returns the standard output of a command that succeeded.
    ///
    /// # Errors
    /// When it failed: with the whole output, for a caller that words the error itself.
    pub fn into_success(self) -> Result<String, Self> {
        match self.success() {
            true => Ok(self.stdout),
            false => Err(self),
        }
    }

    /// Returns the standard output, whether the command succeeded or not. This is for callers that
    /// have looked at the return code, and for programs whose return code is an answer.
    #[must_use]
    pub fn stdout_regardless(&self) -> &str {
        &self.stdout
    }

    /// Like [`Self::stdout_regardless`], without a copy.
    #[must_use]
    pub fn into_stdout_regardless(self) -> String {
        self.stdout
    }

    /// Returns the dictionary that `cmd.run_all` returns.
    #[must_use]
    pub fn to_map(&self) -> Map {
        let (pid, retcode) = (("pid", self.pid.into()), ("retcode", self.retcode.into()));
        let stdout = ("stdout", Value::from(&self.stdout));
        let stderr = ("stderr", Value::from(&self.stderr));
        if self.timed_out {
            [stdout, stderr, retcode, pid].into_iter().collect()
        } else {
            [pid, retcode, stdout, stderr].into_iter().collect()
        }
    }
}

impl Process {
    fn of_line(line: Line, python_shell: bool) -> Self {
        Self {
            line,
            python_shell,
            shell: environment::default_shell(),
            cwd: None,
            stdin: None,
            runas: None,
            group: None,
            env: Map::new(),
            clean_env: false,
            prepend_path: None,
            reset_system_locale: true,
            umask: None,
            timeout: None,
            stderr: Stderr::Apart,
            bg: false,
            rstrip: true,
            output_encoding: None,
            output_loglevel: Some(Level::Debug),
            ignore_retcode: false,
            success_retcodes: vec![0],
            success_stdout: Vec::new(),
            success_stderr: Vec::new(),
        }
    }

    /// Creates a command from a program and its arguments, without a shell.
    #[must_use]
    pub fn words<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        let words = words.into_iter().map(Into::into).collect();
        Self::of_line(Line::Words(words), false)
    }

    /// Creates a command from a line for the shell.
    #[must_use]
    pub fn shell_line(line: impl Into<String>) -> Self {
        Self::of_line(Line::Text(line.into()), true)
    }

    /// Keeps the command out of the log. This is for queries whose failure is an answer.
    #[must_use]
    pub fn quiet(self) -> Self {
        Self {
            output_loglevel: None,
            ignore_retcode: true,
            ..self
        }
    }

    /// Runs the command and waits for its end. A return code other than 0 is logged and is not an
    /// error.
    ///
    /// # Errors
    /// When it cannot be started with these settings, or writes more than [`MAX_OUTPUT_BYTES`].
    pub fn run(&self, cx: &Exec) -> Result<Output, Error> {
        let plan = self.planned(cx)?;
        cx.barrier();
        let began = Instant::now();
        let waiting = watch::waits(|| format!("the command {}", self.told_word()));
        let output = child::run(self, &plan)?;
        drop(waiting);
        if plan.is_visible {
            self.log_end(cx, &plan, &output, began);
        }
        if !output.timed_out {
            self.log_output(&output);
        }
        Ok(output)
    }

    /// Makes all checks that precede the start, in Salt's order.
    fn planned(&self, cx: &Exec) -> Result<Plan, Error> {
        let runas = self.runas.clone().or_else(|| chunk_runas(cx));
        let quiet = cx.chunk.as_ref().is_some_and(|low| low.options.no_log);
        let level = self.output_loglevel.filter(|_| !quiet);
        let cwd = self
            .cwd
            .clone()
            .unwrap_or_else(|| environment::home(runas.as_deref()));
        if level.is_some() && environment::is_valid_shell(&self.shell) == Some(false) {
            log::warning(format_args!(
                "Attempt to run a shell command with what may be an invalid shell! Check to ensure that the shell <{}> is valid for this user.",
                self.shell
            ));
        }
        environment::check_shell(&self.shell)?;
        if level.is_some() {
            self.log_start(runas.as_deref(), &cwd);
        }
        let identity = Identity::find(runas.as_deref(), self.group.as_deref())?;
        let env = environment::build(cx, self, runas.as_deref());
        if !Path::new(&cwd).is_absolute() || !Path::new(&cwd).is_dir() {
            return Err(Error::refused(format!(
                "Specified cwd '{cwd}' either not absolute or does not exist"
            )));
        }
        Ok(Plan {
            words: self.argv()?,
            cwd: cwd.into(),
            identity,
            env,
            umask: self.umask.or_else(|| chunk_umask(cx)),
            deadline: self.deadline()?,
            is_visible: level.is_some(),
        })
    }

    fn argv(&self) -> Result<Vec<String>, Error> {
        let words = match (&self.line, self.python_shell) {
            (Line::Text(text), false) => shlex::split(text)?,
            (Line::Words(words), false) => words.clone(),
            (Line::Text(text), true) => vec![self.shell.clone(), "-c".into(), text.clone()],
            (Line::Words(words), true) => {
                let mut all = vec![self.shell.clone(), "-c".into()];
                all.extend(words.iter().cloned());
                all
            }
        };
        if words.is_empty() {
            return Err("The command is empty: name a program to run".into());
        }
        Ok(words)
    }

    fn deadline(&self) -> Result<Option<Instant>, Error> {
        let Some(timeout) = self.timeout.as_ref().filter(|timeout| timeout.is_true()) else {
            return Ok(None);
        };
        let seconds = match timeout {
            Value::Bool(_) => Some(1.0),
            other => other.as_float(),
        };
        let seconds = seconds.ok_or_else(|| {
            let timeout = timeout.to_text();
            Error::refused(format!("Error: timeout {timeout} must be a number"))
        })?;
        let wait = std::time::Duration::try_from_secs_f64(seconds.max(0.0)).ok();
        Ok(wait.and_then(|wait| Instant::now().checked_add(wait)))
    }

    /// Returns the command for error messages, in the form in which Python prints its arguments.
    fn display(&self, words: &[String]) -> String {
        match &self.line {
            Line::Text(text) if self.python_shell => text.clone(),
            Line::Words(words) => python::repr(&words.clone().into()),
            Line::Text(_) => python::repr(&words.to_vec().into()),
        }
    }

    /// Returns only the first word, because the rest may contain a password.
    pub fn first_word(&self) -> &str {
        match &self.line {
            Line::Text(text) => text.split_whitespace().next().unwrap_or_default(),
            Line::Words(words) => words.first().map_or("", |word| word.trim()),
        }
    }

    /// Like [`Self::first_word`], but for a command in a scope of systemd returns the first word
    /// inside the scope.
    fn told_word(&self) -> &str {
        match &self.line {
            Line::Words(words) => match words.as_slice() {
                [scope, _, _, _, word, ..] if scope == "systemd-run" => word,
                _ => self.first_word(),
            },
            Line::Text(_) => self.first_word(),
        }
    }

    fn log_start(&self, runas: Option<&str>, cwd: &str) {
        let mark = match self.line {
            Line::Text(_) => "'",
            Line::Words(_) => "",
        };
        let user = runas.map(|user| format!("as user '{user}' "));
        let group = self
            .group
            .as_ref()
            .map(|group| format!("in group '{group}' "));
        let bg = if self.bg {
            ". Executing command in the background, no output will be logged."
        } else {
            ""
        };
        log::info(format_args!(
            "Executing command {mark}{}{mark} {}{}in directory '{cwd}'{bg}",
            self.first_word(),
            user.unwrap_or_default(),
            group.unwrap_or_default(),
        ));
    }

    /// Logs a command that has ended: its first word, because the rest may contain a password.
    fn log_end(&self, cx: &Exec, plan: &Plan, output: &Output, began: Instant) {
        let runas = self.runas.clone().or_else(|| chunk_runas(cx));
        let user =
            runas.unwrap_or_else(|| users::of_uid(rustix::process::geteuid().as_raw()).to_text());
        let status = match (output.timed_out, output.retcode) {
            (true, _) => "timed out".to_owned(),
            (false, Some(code)) => format!("exit status {code}"),
            (false, None) => "started in the background".to_owned(),
        };
        let (word, ms) = (self.first_word(), began.elapsed().as_millis());
        log::debug(format_args!(
            "command '{word}' of user {user} in directory {}: {status}, {ms} ms",
            plan.cwd.display()
        ));
    }

    fn log_output(&self, output: &Output) {
        let Some(mut level) = self.output_loglevel else {
            return;
        };
        let code = output.retcode.unwrap_or(0);
        if !self.ignore_retcode && code != 0 {
            level = level.max(Level::Error);
            log::error(format_args!(
                "Command '{}' failed with return code: {code}",
                self.first_word()
            ));
        }
        if !output.stdout.is_empty() {
            log::write(level, format_args!("stdout: {}", output.stdout));
        }
        if !output.stderr.is_empty() {
            log::write(level, format_args!("stderr: {}", output.stderr));
        }
        if code != 0 {
            log::write(level, format_args!("retcode: {code}"));
        }
    }
}

/// The data of a start after all checks have passed.
struct Plan {
    words: Vec<String>,
    cwd: PathBuf,
    identity: Option<Identity>,
    env: environment::Environment,
    umask: Option<u32>,
    deadline: Option<Instant>,
    is_visible: bool,
}

/// A shell script that sets the umask given as `$0`, then becomes the rest. The umask can only be
/// set in the child, before the command begins.
const WITH_UMASK: &str = "umask \"$0\" && exec \"$@\"";

impl Plan {
    /// Returns the program and its arguments, preceded by the script that sets the umask.
    fn argv(&self) -> Vec<String> {
        let mut argv = match self.umask {
            Some(umask) => vec![
                "/bin/sh".into(),
                "-c".into(),
                WITH_UMASK.into(),
                format!("{umask:04o}"),
            ],
            None => Vec::new(),
        };
        argv.extend(self.words.iter().cloned());
        argv
    }

    /// Returns the environment without the variables that the kernel cannot accept.
    fn variables(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        let variables = self.env.iter();
        variables
            .filter(|(key, value)| !environment::has_null(key) && !environment::has_null(value))
    }
}

/// The user and groups that the child takes.
struct Identity {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Identity {
    fn find(runas: Option<&str>, group: Option<&str>) -> Result<Option<Self>, Error> {
        let me = rustix::process::getuid().as_raw();
        let user = match runas {
            Some(name) => Some(
                accounts::user(name)
                    .ok_or_else(|| Error::refused(format!("User '{name}' is not available")))?,
            ),
            None => None,
        };
        let gid = match group {
            Some(name) => Some(
                accounts::group(name)
                    .ok_or_else(|| Error::refused(format!("Group '{name}' is not available")))?
                    .gid,
            ),
            None => None,
        };
        let user = match (user, gid) {
            (Some(user), None) if user.uid == me => return Ok(None),
            (None, None) => return Ok(None),
            (Some(user), _) => user,
            (None, Some(_)) => accounts::user_of(me)
                .ok_or_else(|| Error::refused(format!("User '{me}' is not available")))?,
        };
        Ok(Some(Self {
            uid: user.uid,
            gid: gid.unwrap_or(user.gid),
            groups: accounts::groups_of(&user).iter().map(|g| g.gid).collect(),
        }))
    }
}

fn chunk_runas(cx: &Exec) -> Option<String> {
    cx.chunk.as_ref()?.options.runas.clone()
}

/// Returns the umask of the state. The engine has refused an invalid one before the state ran.
fn chunk_umask(cx: &Exec) -> Option<u32> {
    cx.chunk.as_ref()?.options.umask().ok().flatten()
}

/// Returns the path of an executable program. It is searched in `PATH` unless it has a slash.
#[must_use]
pub fn which(program: &str) -> Option<String> {
    environment::which(program)
}

/// Returns a destination for unwanted output: `/dev/null`, or the program's own output in a chroot
/// without `/dev`.
#[must_use]
pub fn nowhere() -> Stdio {
    null().map_or_else(|_| Stdio::inherit(), Stdio::from)
}

/// Opens `/dev/null`.
fn null() -> std::io::Result<File> {
    File::options().read(true).write(true).open(NULL)
}

/// The device that discards all output.
const NULL: &str = "/dev/null";

/// Returns Python's text of a system error: `[Errno 2] No such file or directory: 'x'`.
#[must_use]
pub fn python_errno(error: &std::io::Error, path: &str) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => {
            let text = text.split(" (os error").next().unwrap_or_default();
            format!("[Errno {code}] {text}: {}", python::repr(&path.into()))
        }
        None => text,
    }
}

#[cfg(test)]
mod tests;
