//! The signals that the daemon obeys, and the thread that notices when it hangs.

use async_signal::{Signal, Signals};
use link::{Notify, Pulse};
use smol::stream::StreamExt;
use state::opts::Opts;
use value::log;

use super::Error;

/// A function that reads the configuration again, or returns a sentence if it cannot be used.
pub(crate) type Reread<'a> = &'a dyn Fn() -> Result<Opts, String>;

/// Starts a thread that checks whether the master still runs its tasks, and ends the process with
/// SIGABRT if it does not. A master that hangs serves no peer and does not even obey SIGTERM; the
/// service manager restarts it.
pub(super) fn watched() -> Result<Pulse, Error> {
    let pulse = Pulse::default();
    let hung = || {
        log::error("The master has run no task for 30 s: it hangs and aborts");
        std::process::abort();
    };
    let watched = pulse.watch(link::EVERY, hung);
    watched.map_err(|source| Error::Io {
        path: "watchdog".into(),
        source,
    })?;
    Ok(pulse)
}

/// Starts to catch the signals that the daemon obeys.
pub(super) fn caught() -> Result<Signals, Error> {
    let signals = Signals::new([Signal::Term, Signal::Int, Signal::Hup]);
    signals.map_err(|source| Error::Io {
        path: "signals".into(),
        source,
    })
}

/// Waits for a signal that ends the daemon. On SIGHUP it compares the configuration with the one in
/// use, and logs the differences.
pub(super) async fn obey(
    mut signals: Signals,
    notify: &Notify,
    configured: &Opts,
    reread: Reread<'_>,
) -> Result<(), Error> {
    // No deadline: signals arrive at any time.
    while let Some(Ok(Signal::Hup)) = signals.next().await {
        notify.reloading();
        tell_changed(configured, reread());
        notify.ready();
    }
    log::info(format_args!("The master was asked to stop"));
    Ok(())
}

/// Logs which options of the configuration have changed since the start. Options are read at the
/// start only; states, pillar and keys are always read in their current form.
fn tell_changed(configured: &Opts, read: Result<Opts, String>) {
    let changed = match read {
        Ok(read) => configured.changed(&read),
        Err(error) => {
            return log::error(format_args!("cannot use the configuration: {error}"));
        }
    };
    match changed.is_empty() {
        true => log::info("The configuration is unchanged since the master was started"),
        false => log::warning(format_args!(
            "These options have changed and take effect when the master is restarted: {}",
            changed.join(", ")
        )),
    }
}
