//! Starts a child, reads its output, and ends it when it exceeds its time.

use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use state::module::Error;
use value::{Map, Value, channel, log, python};

use super::become_user::{self, Beginning};
use super::{Output, Plan, Process, Stderr, python_errno};

/// The maximum number of bytes that a command may write to each of its outputs. More is an error,
/// because the output is held in memory.
pub const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// The interval at which a child that has closed its outputs is checked until its time is over.
const POLL: Duration = Duration::from_millis(5);

/// The time in which a program may be open for writing. A script that this process has just written is
/// held open by the children of other threads, until each of them runs its own program.
const BUSY_MAX: Duration = Duration::from_secs(1);

pub(super) fn run(process: &Process, plan: &Plan) -> Result<Output, Error> {
    let mut command = command(plan).map_err(|error| unable(process, plan, &error))?;
    let input = input(process)?;
    let pipes = if process.bg {
        // No one reads the output of a background command, and our own standard output is for data.
        let null = || super::null().map_err(Error::io(super::NULL));
        command.stdout(null()?).stderr(null()?);
        Vec::new()
    } else {
        pipes(process, &mut command)?
    };
    let unable = |error| unable(process, plan, &error);
    let (reader, writer) = input.unzip();
    let (mut child, beginning) = start(command, plan, reader).map_err(unable)?;
    let pid = child.id();
    if process.bg {
        failed(beginning).map_or(Ok(()), |error| Err(unable(error)))?;
        return Ok(Output {
            pid,
            ..Output::default()
        });
    }
    feed(process, writer);
    let Some((texts, status)) = finish(&mut child, pipes, plan.deadline) else {
        end(&mut child, plan.deadline.is_some());
        return Ok(timed_out(process, plan, pid));
    };
    failed(beginning).map_or(Ok(()), |error| Err(unable(error)))?;
    let mut texts = texts.into_iter();
    let mut text = |name| decoded(process, name, texts.next().unwrap_or_default());
    let (stdout, stderr) = (text("stdout")?, text("stderr")?);
    let mut output = Output {
        pid,
        retcode: code(status),
        stdout,
        stderr,
        timed_out: false,
    };
    if succeeded(process, &output) {
        output.retcode = Some(0);
    }
    Ok(output)
}

/// Returns the command itself, or the helper that becomes it.
#[expect(
    clippy::disallowed_methods,
    reason = "every child of a module is started here"
)]
fn command(plan: &Plan) -> std::io::Result<Command> {
    let mut command = match plan.identity {
        Some(_) => become_user::helper()?,
        None => {
            let words = plan.argv();
            let mut command = Command::new(words.first().map_or("", String::as_str));
            command.args(words.iter().skip(1)).env_clear();
            command.envs(plan.variables()).current_dir(&plan.cwd);
            command
        }
    };
    if plan.deadline.is_some() {
        // In a separate process group, the child's own children can be ended with it.
        command.process_group(0);
    }
    Ok(command)
}

/// Returns the reading ends of the child's outputs: one if both outputs are merged.
fn pipes(process: &Process, command: &mut Command) -> Result<Vec<PipeReader>, Error> {
    let failed = |error| Error::io("pipe")(error);
    let (stdout, writer) = std::io::pipe().map_err(failed)?;
    if process.stderr == Stderr::Merged {
        let both = writer
            .try_clone()
            .map_err(|error| Error::io("pipe")(error))?;
        command.stdout(writer).stderr(both);
        return Ok(vec![stdout]);
    }
    let (stderr, second) = std::io::pipe().map_err(|error| Error::io("pipe")(error))?;
    command.stdout(writer).stderr(second);
    Ok(vec![stdout, stderr])
}

/// Returns the pipe for the child's standard input, if there is text for it.
fn input(process: &Process) -> Result<Option<(PipeReader, PipeWriter)>, Error> {
    if process.stdin.is_none() || process.bg {
        return Ok(None);
    }
    std::io::pipe().map(Some).map_err(Error::io("pipe"))
}

/// Starts the child. If it must run as another user, it changes the user itself. The command is
/// dropped, because its copies of the writing ends would keep the pipes open.
fn start(
    mut command: Command,
    plan: &Plan,
    input: Option<PipeReader>,
) -> std::io::Result<(Child, Option<Beginning>)> {
    let Some(identity) = &plan.identity else {
        if let Some(input) = input {
            command.stdin(input);
        }
        return Ok((while_busy(|| command.spawn())?, None));
    };
    let ours = rustix::stdio::stdin();
    let input = input.as_ref().map_or(ours, AsFd::as_fd);
    let (child, beginning) = become_user::begin(&mut command, plan, identity, input)?;
    Ok((child, Some(beginning)))
}

/// Repeats the start of a program while its file is open for writing.
pub(super) fn while_busy<T>(mut start: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    let until = Instant::now() + BUSY_MAX;
    loop {
        let started = start();
        let is_busy =
            matches!(&started, Err(error) if error.kind() == ErrorKind::ExecutableFileBusy);
        if !is_busy || Instant::now() >= until {
            return started;
        }
        std::thread::sleep(POLL);
    }
}

/// Returns the reason why a command that was to run as another user did not begin.
fn failed(beginning: Option<Beginning>) -> Option<std::io::Error> {
    beginning.and_then(Beginning::failure)
}

fn feed(process: &Process, stdin: Option<PipeWriter>) {
    if let (Some(text), Some(mut stdin)) = (process.stdin.clone(), stdin) {
        std::thread::spawn(move || {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "a child that does not read all its input is not an error"
            )]
            let _ = stdin.write_all(text.as_bytes());
        });
    }
}

/// Returns the outputs and the exit status; `None` when the deadline passes first.
fn finish(
    child: &mut Child,
    pipes: Vec<PipeReader>,
    deadline: Option<Instant>,
) -> Option<(Vec<Vec<u8>>, ExitStatus)> {
    let outputs: Vec<Receiver<Vec<u8>>> = pipes.into_iter().map(reader).collect();
    let mut texts = Vec::new();
    for output in outputs {
        let text = match deadline {
            None => output.recv().ok(),
            Some(deadline) => output
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
                .ok(),
        };
        texts.push(text?);
    }
    let Some(deadline) = deadline else {
        return Some((texts, child.wait().ok()?));
    };
    loop {
        if let Some(status) = child.try_wait().ok()? {
            return Some((texts, status));
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(POLL);
    }
}

fn reader(mut pipe: PipeReader) -> Receiver<Vec<u8>> {
    let (done, output) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe
            .by_ref()
            .take(MAX_OUTPUT_BYTES + 1)
            .read_to_end(&mut bytes);
        if let Err(error) = read {
            log::error(format_args!("cannot read a command's output: {error}"));
        }
        // Close the pipe before waiting for the child, so that a child with too much output fails
        // to write and stops.
        drop(pipe);
        channel::if_open(done.send(bytes));
    });
    output
}

/// Kills the child and, if it leads a process group, all processes of that group.
fn end(child: &mut Child, leads: bool) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| leads)
        && let Err(error) = rustix::process::kill_process_group(pid, Signal::KILL)
    {
        log::warning(format_args!(
            "cannot kill the process group {}: {error}",
            child.id()
        ));
    }
    kill(child);
}

/// Kills a child and waits for its end. A child that has ended already needs no signal.
pub fn kill(child: &mut Child) {
    if let Err(error) = child.kill().and_then(|()| child.wait()) {
        log::warning(format_args!(
            "cannot kill the process {}: {error}",
            child.id()
        ));
    }
}

fn timed_out(process: &Process, plan: &Plan, pid: u32) -> Output {
    let timeout = process.timeout.as_ref().map(Value::to_text);
    let shown = process.display(&plan.words);
    Output {
        pid,
        retcode: Some(1),
        stdout: format!(
            "{shown} : Timed out after {} seconds",
            timeout.unwrap_or_default()
        ),
        stderr: String::new(),
        timed_out: true,
    }
}

fn code(status: ExitStatus) -> Option<i64> {
    let signal = status.signal().map(|signal| -i64::from(signal));
    status.code().map(i64::from).or(signal)
}

fn succeeded(process: &Process, output: &Output) -> bool {
    let listed = output
        .retcode
        .is_some_and(|code| process.success_retcodes.contains(&code));
    let says =
        |text: &str, wanted: &[String]| wanted.iter().any(|part| text.contains(part.as_str()));
    listed
        || says(&output.stdout, &process.success_stdout)
        || says(&output.stderr, &process.success_stderr)
}

fn decoded(process: &Process, name: &str, bytes: Vec<u8>) -> Result<String, Error> {
    if bytes.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(Error::refused(format!(
            "Command '{}' wrote more than {MAX_OUTPUT_BYTES} bytes to its {name}: redirect it to a file",
            process.first_word()
        )));
    }
    let encoding = process
        .output_encoding
        .as_deref()
        .map(str::to_ascii_lowercase);
    let text = match encoding.as_deref() {
        Some("latin-1" | "latin1" | "iso-8859-1" | "iso8859-1" | "l1") => {
            bytes.iter().copied().map(char::from).collect()
        }
        _ => String::from_utf8(bytes)
            .unwrap_or_else(|wrong| replaced(process, name, wrong.as_bytes())),
    };
    Ok(if process.rstrip {
        text.trim_end().to_owned()
    } else {
        text
    })
}

fn replaced(process: &Process, name: &str, bytes: &[u8]) -> String {
    if process.output_loglevel.is_some() {
        log::error(format_args!(
            "Failed to decode {name} from command {}, non-decodable characters have been replaced",
            process.first_word()
        ));
    }
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns Salt's error message about a program that cannot be started, with the arguments of its
/// call.
fn unable(process: &Process, plan: &Plan, error: &std::io::Error) -> Error {
    let context = Map::new()
        .with("cwd", plan.cwd.display().to_string())
        .with("shell", process.python_shell)
        .with("stdout", -1)
        .with(
            "stderr",
            if process.stderr == Stderr::Merged {
                -2
            } else {
                -1
            },
        )
        .with("with_communicate", !process.bg)
        .with("timeout", process.timeout.clone())
        .with("bg", process.bg)
        .with("close_fds", true);
    let shown = if plan.is_visible {
        process.display(&plan.words)
    } else {
        "REDACTED".into()
    };
    let program = plan.words.first().map_or("", String::as_str);
    Error::refused(format!(
        "Unable to run command '{shown}' with the context '{}', reason: {}",
        python::repr(&context.into()),
        python_errno(error, program)
    ))
}
