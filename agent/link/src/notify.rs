//! [`Notify`]: sends the state of a daemon to the service manager, like `sd_notify` of systemd.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use value::log;

/// A connection to the service manager. It sends nothing if the daemon was not started by one.
#[derive(Debug, Default)]
pub struct Notify {
    address: Option<SocketAddr>,
    /// The interval at which the service manager expects [`Notify::alive`].
    watchdog: Option<Duration>,
}

impl Notify {
    /// Returns a connection to the socket that `NOTIFY_SOCKET` names: a path, or an abstract name
    /// after `@`.
    #[must_use]
    pub fn to(socket: Option<&OsStr>) -> Self {
        let Some(name) = socket.map(OsStr::as_bytes).filter(|name| !name.is_empty()) else {
            return Self::default();
        };
        let address = match name.strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name),
            None => SocketAddr::from_pathname(OsStr::from_bytes(name)),
        };
        let address = address
            .map_err(|error| log::warning(format_args!("cannot use NOTIFY_SOCKET: {error}")));
        Self {
            address: address.ok(),
            watchdog: None,
        }
    }

    /// Sets the watchdog from the microseconds of `WATCHDOG_USEC`, after which the service manager
    /// ends a daemon that has sent nothing.
    #[must_use]
    pub fn with_watchdog(self, micros: Option<&str>) -> Self {
        let micros = micros.and_then(|micros| micros.parse().ok());
        let micros = micros.filter(|micros: &u64| *micros > 0 && self.address.is_some());
        Self {
            watchdog: micros.map(|micros| Duration::from_micros(micros / 2)),
            ..self
        }
    }

    /// Returns the interval at which the service manager expects [`Notify::alive`]; `None` if it
    /// does not.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Reports that the daemon still runs its tasks. Sends nothing if the service manager does not
    /// expect it.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            self.say("WATCHDOG=1");
        }
    }

    /// Reports that the daemon is ready.
    pub fn ready(&self) {
        self.say("READY=1");
    }

    /// Asks the service manager to wait this much longer for the daemon to be ready.
    pub fn extend(&self, time: Duration) {
        self.say(&format!("EXTEND_TIMEOUT_USEC={}", time.as_micros()));
    }

    /// Reports that the daemon reads its configuration again; [`Notify::ready`] follows.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// Reports that the daemon is about to end.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, text: &str) {
        let Some(address) = &self.address else { return };
        let said = UnixDatagram::unbound()
            .and_then(|socket| socket.send_to_addr(text.as_bytes(), address).map(drop));
        if let Err(error) = said {
            log::warning(format_args!("cannot notify systemd: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_messages(notify: &Notify, listener: &UnixDatagram) -> Vec<String> {
        notify.reloading();
        notify.ready();
        notify.stopping();
        let mut buffer = [0; 256];
        let mut next = || {
            let length = listener.recv(&mut buffer).unwrap();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        (0..3).map(|_| next()).collect()
    }

    #[test]
    fn what_is_done_is_told_at_paths_and_abstract_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listener = UnixDatagram::bind(&path).unwrap();
        let all = sent_messages(&Notify::to(Some(path.as_os_str())), &listener);
        assert!(
            all[0].starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{all:?}"
        );
        let since: u64 = all[0].rsplit('=').next().unwrap().parse().unwrap();
        assert!(since > 0);
        assert_eq!(all[1..], ["READY=1", "STOPPING=1"]);
        let name = path.display().to_string();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixDatagram::bind_addr(&address).unwrap();
        let notify = Notify::to(Some(OsStr::new(&format!("@{name}"))));
        assert_eq!(sent_messages(&notify, &listener)[1], "READY=1");
    }

    #[test]
    fn nobody_is_told_where_nobody_listens() {
        for socket in [None, Some(""), Some("/nonexistent/notify")] {
            Notify::to(socket.map(OsStr::new)).ready();
        }
    }
}
