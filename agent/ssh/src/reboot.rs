//! [`Reboot`]: a step with `reboot: True` waits until its hosts have booted.

use std::time::{Duration, Instant};

use state::boot;
use state::exec::Exec;
use value::jid;

use crate::output::Output;
use crate::output::reason;
use crate::roster::Host;
use crate::session::Caller;

/// The command that prints how long a host has been up.
const UPTIME: &str = "cat /proc/uptime";
/// The maximum time of the command.
const UPTIME_MAX: Duration = Duration::from_secs(30);
/// The time between two attempts.
const AGAIN: Duration = Duration::from_secs(1);

/// The wait for the reboot of a step's hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reboot {
    patience: Duration,
}

impl Reboot {
    /// Returns the wait of the step that a context runs, if it has the option `reboot`.
    pub(crate) fn of_step(cx: &Exec) -> Option<Self> {
        Some(Self {
            patience: boot::patience_of_step(cx)?,
        })
    }

    /// Waits until a host has booted after its job began, which has this id. Only periods of time
    /// are compared, so the host's clock may be wrong.
    ///
    /// # Errors
    /// When it has not booted in time.
    pub(crate) async fn wait(&self, caller: &Caller, host: &Host, job: &str) -> Result<(), String> {
        let (waits_since, earlier) = (Instant::now(), age(job));
        loop {
            let job_age = earlier + waits_since.elapsed();
            let done = caller.settings().run(host, UPTIME, b"", UPTIME_MAX).await;
            let why = match done {
                Ok(done) => match up(&done) {
                    Some(up) if up < job_age => return Ok(()),
                    Some(_) => "it is up and has not gone down".to_owned(),
                    None => reason(&done),
                },
                Err(error) => error.to_string(),
            };
            if waits_since.elapsed() >= self.patience {
                let seconds = self.patience.as_secs();
                return Err(format!(
                    "the host has not rebooted within {seconds} s: {why}; set `reboot: SECONDS` to wait longer"
                ));
            }
            smol::Timer::after(AGAIN).await;
        }
    }
}

/// Returns how long ago a job id was created.
fn age(job: &str) -> Duration {
    let (now, then) = (jid::to_micros(&jid::new()), jid::to_micros(job));
    let micros = now.zip(then).map(|(now, then)| now.saturating_sub(then));
    Duration::from_micros(micros.unwrap_or_default())
}

/// Returns how long a host has been up.
fn up(done: &Output) -> Option<Duration> {
    let seconds = done.out.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
