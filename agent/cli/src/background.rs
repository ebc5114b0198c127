//! Starts daemons in the background (`-d`), and writes the file with a daemon's process id.
#![cfg_attr(
    not(test),
    expect(
        clippy::disallowed_methods,
        reason = "the child is this program, as a daemon; a file with a process id means nothing after a crash, so nothing of it must be on the disk"
    )
)]

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use value::{Map, log, remove};

use crate::binary;
use crate::failure::{Exit, Failure};
use crate::options::{Program, STARTED};

/// The maximum time to wait for a daemon to write its process id.
const BEGINNING: Duration = Duration::from_secs(30);

/// The interval between two checks of a daemon that is starting.
const LOOK: Duration = Duration::from_millis(10);

/// Starts this program again as a daemon that is detached from the terminal. Returns when the
/// daemon has written its process id.
///
/// # Errors
/// If the daemon cannot be started, or ends at once.
pub fn start(program: &Program, words: &[String], pidfile: &Path) -> Result<ExitCode, Failure> {
    let own = binary::own_program().map_err(|error| Failure::new(Exit::Software, error))?;
    let started = Command::new(own)
        .arg0("pinch")
        .args([program.name, STARTED])
        .args(words)
        .arg(format!("--pid-file={}", pidfile.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let began = started.and_then(|child| began(child, pidfile));
    match began.map_err(|error| Failure::new(Exit::Software, error))? {
        true => Ok(Exit::Ok.into()),
        false => {
            let error = format!("{} exited immediately after the start", program.name);
            Err(Failure::new(Exit::Software, error)
                .hints(["start it without -d to see the reason".to_owned()]))
        }
    }
}

/// Waits until the daemon has written its process id. Returns false if the daemon has ended, and
/// true if it still runs after [`BEGINNING`].
fn began(mut child: Child, pidfile: &Path) -> std::io::Result<bool> {
    let id = child.id().to_string();
    let since = Instant::now();
    while since.elapsed() < BEGINNING {
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        if std::fs::read_to_string(pidfile).is_ok_and(|text| text == id) {
            break;
        }
        sleep(LOOK);
    }
    Ok(true)
}

/// The file with a daemon's process id. It is removed when the daemon ends.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file that the command line names. If the file cannot be written, the error is
    /// logged and the daemon continues.
    #[must_use]
    pub fn asked_for(overrides: &Map) -> Option<Self> {
        let path = PathBuf::from(overrides.get("pidfile")?.to_text());
        let folder = path.parent().unwrap_or(&path);
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o755).create(folder);
        let written = made.and_then(|()| std::fs::write(&path, std::process::id().to_string()));
        match written {
            Ok(()) => Some(Self(path)),
            Err(error) => {
                let path = path.display();
                log::error(format_args!(
                    "cannot write the process id to {path}: {error}"
                ));
                None
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let own = std::process::id().to_string();
        if std::fs::read_to_string(&self.0).is_ok_and(|text| text == own) {
            remove::or_log(&self.0, std::fs::remove_file(&self.0));
        }
    }
}
