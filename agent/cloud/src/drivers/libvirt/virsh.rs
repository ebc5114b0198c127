//! [`Virsh`]: calls of libvirt's program, with its arguments as a vector.

use std::time::Duration;

use machine::process::{Process, which};
use state::exec::Exec;
use value::Map;

use super::LIBVIRT;
use crate::drivers::text;
use crate::fault::Fault;

/// The maximum time of a call.
pub(super) const CALL_MAX: Duration = Duration::from_secs(60);
/// The maximum time of a call that copies a disk.
pub(super) const COPY_MAX: Duration = Duration::from_secs(1_800);
/// Parts of messages after which a call may have been carried out.
const LOST: [&str; 5] = [
    "failed to connect",
    "unable to connect",
    "cannot recv data",
    "end of file",
    "connection reset",
];

/// A hypervisor.
pub(super) struct Virsh {
    pub(super) program: String,
    /// The address of the connection.
    pub(super) url: String,
}

impl Virsh {
    /// Reads the address of the hypervisor.
    ///
    /// # Errors
    /// When it is missing or not well formed.
    pub(super) fn of(settings: &Map) -> Result<Self, Fault> {
        let missing = || Fault::wrong(format!("{LIBVIRT}: the provider has no `url`"));
        let url = text(settings, "url").ok_or_else(missing)?;
        match url.contains(':') && !url.contains(|c: char| c.is_control() || c == ' ') {
            true => Ok(Self {
                program: "virsh".to_owned(),
                url,
            }),
            false => Err(Fault::wrong(format!(
                "{LIBVIRT}: url is {url:?}; expected an address such as qemu:///system"
            ))),
        }
    }

    /// Runs a command of `virsh`. An option has its value in the same word.
    ///
    /// # Errors
    /// When it fails, with libvirt's text.
    pub(super) fn run(&self, cx: &Exec, words: &[&str]) -> Result<String, Fault> {
        self.fed(cx, words, None, CALL_MAX)
    }

    /// Runs a command of `virsh` with a text as its input, for at most this time.
    ///
    /// # Errors
    /// When it fails, with libvirt's text, or takes longer.
    pub(super) fn fed(
        &self,
        cx: &Exec,
        words: &[&str],
        stdin: Option<String>,
        most: Duration,
    ) -> Result<String, Fault> {
        if which(&self.program).is_none() {
            let text = "the program virsh is not installed (Debian: libvirt-clients)";
            return Err(Fault::wrong(format!("{LIBVIRT}: {text}")));
        }
        let command = words.first().copied().unwrap_or_default();
        let url = format!("--connect={}", self.url);
        let all = [&self.program, "--quiet", &url];
        let all = all.map(str::to_owned).into_iter();
        let all = all.chain(words.iter().map(|word| (*word).to_owned()));
        let process = Process {
            stdin: Some(stdin.unwrap_or_default()),
            timeout: Some(i64::try_from(most.as_secs()).unwrap_or(i64::MAX).into()),
            ..Process::words(all).quiet()
        };
        let output = process.run(cx)?;
        if output.timed_out {
            let text = format!("virsh {command} has not ended after {} s", most.as_secs());
            return Err(Fault::unanswered(LIBVIRT, &text));
        }
        output
            .into_success()
            .map_err(|output| fault(command, &output.stderr))
    }

    /// Runs a command that lists words, and returns the lines that are not empty.
    ///
    /// # Errors
    /// When it fails, with libvirt's text.
    pub(super) fn lines(&self, cx: &Exec, words: &[&str]) -> Result<Vec<String>, Fault> {
        let text = self.run(cx, words)?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        Ok(lines.map(str::to_owned).collect())
    }
}

/// Returns the fault of a failed command.
fn fault(command: &str, stderr: &str) -> Fault {
    let lines = stderr
        .lines()
        .map(|line| line.trim().trim_start_matches("error: "));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = format!("virsh {command}: {}", lines.join("; "));
    let small = text.to_lowercase();
    match LOST.iter().any(|part| small.contains(part)) {
        true => Fault::unanswered(LIBVIRT, &text),
        false => Fault::refused(LIBVIRT, "", &text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_libvirts_text() {
        let stderr = "error: Failed to start domain 'web1'\nerror: internal error: no memory\n\n";
        let failed = fault("start", stderr);
        let text = "libvirt: virsh start: Failed to start domain 'web1'; internal error: no memory";
        assert_eq!(failed.to_string(), text);
        assert!(matches!(failed, Fault::Refused { .. }), "{failed:?}");
        let lost = fault(
            "list",
            "error: failed to connect to the hypervisor\nerror: refused",
        );
        assert!(matches!(lost, Fault::Unanswered { .. }), "{lost:?}");
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        for wrong in ["", "system", "qemu:///a b", "qemu:///\n"] {
            assert!(
                Virsh::of(&Map::new().with("url", wrong)).is_err(),
                "{wrong:?}"
            );
        }
        assert!(Virsh::of(&Map::new().with("url", "qemu:///system")).is_ok());
    }
}
