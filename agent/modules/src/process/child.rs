//! Starting a child, reading what it writes, and ending it when it takes too long.

use std::io::{PipeReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Gid, Pid, Signal, Uid};
use state::module::Error;
use value::{Map, Value, log, python};

use super::{Identity, Output, Plan, Process, Stderr, environment, python_errno};

/// What a command may write on each of its outputs; more is an error, because it is all kept in memory.
pub const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// How often a child that has closed its outputs is looked at until its time is over.
const POLL: Duration = Duration::from_millis(5);

/// Sets the umask given as `$0`, then becomes the rest: a child has one of its own only before it starts.
const WITH_UMASK: &str = "umask \"$0\" && exec \"$@\"";

pub(super) fn run(process: &Process, plan: &Plan) -> Result<Output, Error> {
    let mut command = command(process, plan)?;
    let pipes = if process.bg {
        // Nobody reads what it says, and our own output is for data.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Vec::new()
    } else {
        pipes(process, &mut command)?
    };
    let mut child = start(&mut command, plan.identity.as_ref())
        .map_err(|error| unable(process, plan, &error))?;
    // The writing ends that we hold would keep the pipes open.
    drop(command);
    let pid = child.id();
    if process.bg {
        return Ok(Output {
            pid,
            ..Output::default()
        });
    }
    feed(process, &mut child);
    let Some((texts, status)) = finish(&mut child, pipes, plan.deadline) else {
        end(&mut child, plan.deadline.is_some());
        return Ok(timed_out(process, plan, pid));
    };
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

fn command(process: &Process, plan: &Plan) -> Result<Command, Error> {
    let umask = plan.umask.map(|umask| format!("{umask:04o}"));
    let through_shell: Vec<&str> = match &umask {
        Some(umask) => vec!["/bin/sh", "-c", WITH_UMASK, umask],
        None => Vec::new(),
    };
    let mut words = through_shell
        .into_iter()
        .chain(plan.words.iter().map(String::as_str));
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).env_clear().current_dir(&plan.cwd);
    let variables = plan.env.iter();
    command.envs(
        variables
            .filter(|(key, value)| !environment::has_null(key) && !environment::has_null(value)),
    );
    if process.stdin.is_some() && !process.bg {
        command.stdin(Stdio::piped());
    }
    if plan.deadline.is_some() {
        // A group of its own, so that its children can be ended with it.
        command.process_group(0);
    }
    Ok(command)
}

/// The reading ends of what the child writes: one where both outputs go the same way.
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

/// Starts the child. To become someone else, a thread does so and the child is its copy: on Linux each thread has an identity of
/// its own, and the rest of this program keeps the one it has.
fn start(command: &mut Command, identity: Option<&Identity>) -> std::io::Result<Child> {
    let Some(identity) = identity else {
        return command.spawn();
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            assume(identity)?;
            command.spawn()
        });
        other
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("the starting thread failed")))
    })
}

fn assume(identity: &Identity) -> std::io::Result<()> {
    let groups: Vec<Gid> = identity
        .groups
        .iter()
        .map(|gid| Gid::from_raw(*gid))
        .collect();
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_gid(Gid::from_raw(identity.gid))?;
    rustix::thread::set_thread_uid(Uid::from_raw(identity.uid))?;
    Ok(())
}

fn feed(process: &Process, child: &mut Child) {
    if let (Some(text), Some(mut stdin)) = (process.stdin.clone(), child.stdin.take()) {
        // A child that does not read to the end is no error.
        std::thread::spawn(move || {
            let _ = stdin.write_all(text.as_bytes());
        });
    }
}

/// What was written and how it ended; none when the time is over first.
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
        let _ = pipe
            .by_ref()
            .take(MAX_OUTPUT_BYTES + 1)
            .read_to_end(&mut bytes);
        // Closed before the child is waited for: one that has too much to say is stopped by it.
        drop(pipe);
        let _ = done.send(bytes);
    });
    output
}

/// Ends the child and, where it leads a group, all that it has started.
fn end(child: &mut Child, leads: bool) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| leads) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

fn timed_out(process: &Process, plan: &Plan, pid: u32) -> Output {
    let timeout = process.timeout.as_ref().map(Value::to_text);
    let shown = process.shown(&plan.words);
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

/// Salt's sentence on a program that cannot be started, with the arguments of its call.
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
    let shown = if plan.shown {
        process.shown(&plan.words)
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
