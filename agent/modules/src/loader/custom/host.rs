//! A child that runs custom functions. It works on one request at a time and may send requests back
//! meanwhile.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::process;
use state::module::Error;
use value::log::{self, Level};
use value::{Map, Value};

use super::engine::Process;
use super::{carried, marks};

/// The maximum length of a line from a child, in bytes.
const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The maximum length of a line from an engine. An event may have less.
const ENGINE_LINE_BYTES_MAX: u64 = 1024 * 1024;

/// The maximum length of a line of standard error. The rest becomes another line.
const ERROR_LINE_BYTES_MAX: u64 = 64 * 1024;

/// The time that a child has to end once it is no longer needed.
const GRACE: Duration = Duration::from_millis(500);

/// The number of lines of a child's standard error that are kept for the message about its end.
const LAST_LINES: usize = 20;

/// The host of Python modules.
const PYTHON_HOST: &str = include_str!("host.py");

/// The program that is started for a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// A Python that loads modules by their path.
    Python(PathBuf),
    /// A module that is a program itself.
    Executable(PathBuf),
}

impl Program {
    #[expect(
        clippy::disallowed_methods,
        reason = "a host lives as long as the run, and speaks over pipes"
    )]
    fn command(&self) -> Command {
        match self {
            // PYTHONPATH counts, as for Salt. The host removes the current folder from the path.
            Self::Python(python) => {
                let mut command = Command::new(python);
                command.args(["-B", "-c", PYTHON_HOST]);
                command
            }
            Self::Executable(path) => Command::new(path),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Python(path) | Self::Executable(path) => path,
        }
    }
}

/// The purpose of a child.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// It runs functions. The number is its place among the children of the run.
    Functions(usize),
    /// It is the engine of this name, and leads a process group.
    Engine(String),
}

impl Role {
    fn line_bytes_max(&self) -> u64 {
        match self {
            Self::Functions(_) => LINE_BYTES_MAX,
            Self::Engine(_) => ENGINE_LINE_BYTES_MAX,
        }
    }

    /// Returns the text before each line of the child's standard error in the log.
    fn label(&self) -> String {
        match self {
            Self::Functions(_) => String::new(),
            Self::Engine(name) => format!("engine {name}: "),
        }
    }
}

/// The error of a function that failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Failed {
    /// The type of the exception.
    pub(super) kind: String,
    /// The text of the exception.
    pub(super) text: String,
    /// The module that an import did not find, and the Python that looked for it.
    pub(super) missing: Option<(String, String)>,
    /// The traceback.
    pub(super) trace: Option<String>,
    /// True for one of Salt's exceptions, which users understand without a traceback.
    pub(super) salt: bool,
}

/// The reply to a request, or the error.
pub(super) type Answer = Result<Map, Failed>;

/// A running child.
pub(super) struct Host {
    pub(super) program: Program,
    role: Role,
    child: Arc<Mutex<Child>>,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: Option<JoinHandle<()>>,
    words: LastWords,
}

/// The last lines of a child's standard error before it ended.
#[derive(Clone, Default)]
struct LastWords(Arc<Mutex<Vec<String>>>);

impl LastWords {
    fn heard(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= LAST_LINES {
            lines.remove(0);
        }
        lines.push(line.to_owned());
    }

    /// Returns the lines as the end of a sentence, without the frames of our own host.
    fn describe(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ours =
            |line: &str| line.contains("File \"<string>\"") || line.contains("File \"<salt/");
        let lines = lines.iter().map(String::as_str);
        let kept: Vec<&str> = lines.filter(|line| !ours(line)).collect();
        if kept.is_empty() {
            String::new()
        } else {
            format!("; the end of its stderr:\n{}", kept.join("\n"))
        }
    }

    fn forget(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

impl Host {
    pub(super) fn start(program: &Program, folder: &Path, role: Role) -> Result<Self, Error> {
        let mut child = spawned(program, &role).map_err(|error| unable(program, &error))?;
        let (send, lines) = mpsc::sync_channel(1);
        let most = role.line_bytes_max();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || read_lines(stdout, most, &send));
        }
        let words = LastWords::default();
        let log = child.stderr.take().map(|stderr| {
            let (words, label) = (words.clone(), role.label());
            std::thread::spawn(move || pass_on(stderr, &label, &words))
        });
        let mut host = Self {
            program: program.clone(),
            role,
            stdin: child.stdin.take(),
            child: Arc::new(Mutex::new(child)),
            lines,
            log,
            words,
        };
        if let Program::Python(python) = program {
            let own = std::env::current_exe().unwrap_or_default();
            let carried = Map::new()
                .with("sources", carried::sources())
                .with("extmods", folder.display().to_string())
                .with("program", own.display().to_string());
            let what = format!("The host process for Python modules ({})", python.display());
            // The start of the child does not count as work of the function that it is started for.
            let begun = host.ask(&what, &carried, super::load_limit(), &mut |_| None)?;
            begun.map_err(Failed::into_error)?;
        }
        Ok(host)
    }

    /// Returns the process, for signals.
    pub(super) fn process(&self) -> Process {
        Process(self.child.clone())
    }

    /// Returns the place of this child among the children of the run.
    pub(super) fn number(&self) -> usize {
        match self.role {
            Role::Functions(number) => number,
            Role::Engine(_) => 0,
        }
    }

    /// Kills the child; an engine with its own children.
    fn kill(&self) {
        if let Role::Engine(_) = self.role {
            self.process().signal(rustix::process::Signal::KILL);
        }
        process::kill(&mut self.child());
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and handles the child's own messages until the reply arrives; `answer`
    /// returns `None` for a message that has no answer. After an error the child cannot be used any
    /// more.
    pub(super) fn ask(
        &mut self,
        what: &str,
        request: &Map,
        limit: Limit,
        answer: &mut dyn FnMut(&Map) -> Option<Map>,
    ) -> Result<Answer, Error> {
        self.words.forget();
        self.send(what, request)?;
        let mut left = limit.time;
        loop {
            let since = Instant::now();
            let line = self.line(what, left, &limit)?;
            left = left.map(|left| left.saturating_sub(since.elapsed()));
            let message = marks::read(&line).map_err(|problem| {
                let start: String = line.trim_end().chars().take(200).collect();
                self.refuse(
                    what,
                    &format!("wrote a line that is not a message ({problem}): {start}"),
                )
            })?;
            if let Some(error) = message.get("error") {
                return Ok(Err(Failed::from_value(error)));
            }
            if message.contains("return") {
                return Ok(Ok(message));
            }
            if message.contains("log") {
                record(&message);
                continue;
            }
            if let Some(reply) = answer(&message) {
                self.send(what, &reply)?;
            }
        }
    }

    fn send(&mut self, what: &str, message: &Map) -> Result<(), Error> {
        let line = marks::line(message);
        let sent = self.stdin.as_mut().map(|stdin| {
            stdin
                .write_all(line.as_bytes())
                .and_then(|()| stdin.flush())
        });
        match sent {
            Some(Ok(())) => Ok(()),
            // An engine need not read its input. Its end shows in its output.
            _ if matches!(self.role, Role::Engine(_)) => {
                self.stdin = None;
                Ok(())
            }
            _ => Err(self.died(what)),
        }
    }

    fn line(&mut self, what: &str, left: Option<Duration>, limit: &Limit) -> Result<String, Error> {
        let got = match left {
            Some(left) => self.lines.recv_timeout(left),
            None => self.lines.recv().map_err(RecvTimeoutError::from),
        };
        match got {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                let seconds = limit.time.unwrap_or_default().as_secs();
                let limit = limit.name;
                self.ask_where();
                Err(self.refuse(
                    what,
                    &format!("took longer than {seconds} seconds ({limit}) and was killed"),
                ))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.died(what)),
        }
    }

    fn died(&mut self, what: &str) -> Error {
        self.stdin = None;
        let how = match wait(&self.child, GRACE) {
            Some(status) => format!("ended unexpectedly ({status})"),
            None => "stopped communicating".to_owned(),
        };
        self.refuse(what, &how)
    }

    /// Makes a Python that is about to be ended write its traceback.
    fn ask_where(&self) {
        if let (Program::Python(_), Ok(id)) = (&self.program, i32::try_from(self.child().id()))
            && let Some(pid) = rustix::process::Pid::from_raw(id)
        {
            if let Err(error) = rustix::process::kill_process(pid, rustix::process::Signal::USR1) {
                log::debug(format_args!(
                    "cannot ask the process {id} for its traceback: {error}"
                ));
            }
            std::thread::sleep(GRACE / 4);
        }
    }

    fn refuse(&mut self, what: &str, how: &str) -> Error {
        self.kill();
        self.let_log_end();
        let (program, words) = (self.program.path().display(), self.words.describe());
        Error::refused(format!("{what}: the process {program} {how}{words}"))
    }

    /// Waits for the child's last lines. A process that it left running may keep the pipe open.
    fn let_log_end(&self) {
        let until = Instant::now() + GRACE;
        while self.log.as_ref().is_some_and(|log| !log.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Closing its input makes the child end.
        self.stdin = None;
        if wait(&self.child, GRACE).is_none() {
            self.kill();
        }
        self.let_log_end();
    }
}

/// The time that a child may take for one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// The name of the limit, for error messages.
    pub(super) name: &'static str,
    /// The limit. The time that this program takes for the child's own requests does not count.
    pub(super) time: Option<Duration>,
}

impl Failed {
    /// Converts the error of a function for its caller. An exception that is not one of Salt's also
    /// gets its traceback.
    pub(super) fn into_error(self) -> Error {
        if matches!(self.kind.as_str(), "Arguments" | "SaltInvocationError") {
            return Error::unexpected(self.text);
        }
        let text = if self.text.is_empty() {
            self.kind
        } else {
            self.text
        };
        match self.trace.filter(|_| !self.salt) {
            Some(trace) => Error::raised(text, trace.trim_end().to_owned()),
            None => Error::refused(text),
        }
    }

    fn from_value(error: &Value) -> Self {
        let text = |key: &str| error.get(key).map(Value::to_text);
        match error {
            Value::Map(_) => Self {
                kind: text("type").unwrap_or_default(),
                text: text("text").unwrap_or_default(),
                missing: text("missing").zip(text("python")),
                trace: text("trace"),
                salt: error.get("salt").is_some_and(Value::is_true),
            },
            other => Self {
                text: other.to_text(),
                ..Self::default()
            },
        }
    }
}

/// Starts the program. A program that was copied just now may be busy for a moment, because another
/// child that starts at the same time inherits the open file until its `exec`.
fn spawned(program: &Program, role: &Role) -> std::io::Result<Child> {
    let mut left = 20;
    loop {
        let mut command = program.command();
        if let Role::Engine(_) = role {
            command.process_group(0);
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        match child {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy && left > 0 => {
                left -= 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

fn wait(child: &Mutex<Child>, time: Duration) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + time;
    loop {
        let ended = child
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .try_wait();
        if let Some(status) = ended.ok()? {
            return Some(status);
        }
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn unable(program: &Program, error: &std::io::Error) -> Error {
    let (path, what) = match program {
        Program::Python(path) => (path, "check that it is a working Python 3"),
        Program::Executable(path) => (
            path,
            "check its execute permission, its #! line and whether its file system is mounted noexec",
        ),
    };
    Error::refused(format!("cannot start {}: {error}; {what}", path.display()))
}

/// Reads line by line until the child closes its output or exceeds the maximum length of a line.
fn read_lines(stdout: ChildStdout, most: u64, send: &mpsc::SyncSender<String>) {
    let mut lines = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let mut part = lines.by_ref().take(most);
        match part.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) if line.last() != Some(&b'\n') && line.len() as u64 >= most => {
                log::error(format_args!(
                    "a custom module wrote a line longer than {most} bytes"
                ));
                return;
            }
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        if !line.trim().is_empty() && send.send(line).is_err() {
            return;
        }
    }
}

/// Writes the child's standard error to the log.
fn pass_on(stderr: ChildStderr, label: &str, words: &LastWords) {
    let mut lines = BufReader::new(stderr);
    loop {
        let mut line = Vec::new();
        let mut part = lines.by_ref().take(ERROR_LINE_BYTES_MAX);
        if let Ok(0) | Err(_) = part.read_until(b'\n', &mut line) {
            return;
        }
        let line = String::from_utf8_lossy(&line);
        words.heard(line.trim_end());
        log::warning(format_args!("{label}{}", line.trim_end()));
    }
}

/// Writes a record of Python's logging to the log, at its level.
fn record(record: &Map) {
    let text = |key: &str| record.get(key).map(Value::to_text).unwrap_or_default();
    let level = level(&text("log"));
    log::log(level, &text("name"), format_args!("{}", text("text")));
}

fn level(name: &str) -> Level {
    match name {
        "CRITICAL" => Level::Critical,
        "ERROR" => Level::Error,
        "WARNING" => Level::Warning,
        "INFO" => Level::Info,
        _ => Level::Debug,
    }
}
