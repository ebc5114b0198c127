//! Daemons in the background (`-d`), and the file that tells a daemon's process id.
#![cfg_attr(
    not(test),
    expect(
        clippy::disallowed_methods,
        reason = "a file with a process id means nothing after a crash: nothing of it must be on the disk"
    )
)]

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use value::{Map, log};

use crate::binary;
use crate::failure::{Exit, Failure};
use crate::options::{Program, STARTED};

/// How long a daemon may take until it is waited for no more.
const BEGINNING: Duration = Duration::from_secs(30);

/// How often it is looked at until then.
const LOOK: Duration = Duration::from_millis(10);

/// Starts a daemon of this program anew, apart from this terminal, and leaves it alone when it has written its process id.
///
/// # Errors
/// When it cannot be started, or ends at once.
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
            let error = format!("{} has ended as soon as it was started", program.name);
            Err(Failure::new(Exit::Software, error).hints(["without -d it says why".to_owned()]))
        }
    }
}

/// Whether a daemon runs: its file is there, or it has not ended in a while.
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

/// The file that tells a daemon's process id; it goes with the daemon.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file that the command line names. One that cannot be written is told in the log, and the daemon goes on.
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
                    "The process id is not written to {path}: {error}"
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
            let _ = std::fs::remove_file(&self.0);
        }
    }
}
