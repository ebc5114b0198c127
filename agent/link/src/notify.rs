//! [`Notify`]: tells the service manager what a daemon does, as `sd_notify` of systemd does it.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use value::log;

/// The way to the service manager; to nobody where a daemon was started by something else.
#[derive(Debug, Default)]
pub struct Notify {
    address: Option<SocketAddr>,
    /// How often it wants to hear that the daemon runs.
    watchdog: Option<Duration>,
}

impl Notify {
    /// The socket that `NOTIFY_SOCKET` names: a path, or an abstract name after `@`.
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
            .map_err(|error| log::warning(format_args!("NOTIFY_SOCKET cannot be used: {error}")));
        Self {
            address: address.ok(),
            watchdog: None,
        }
    }

    /// The same with the microseconds of `WATCHDOG_USEC`, after which a daemon that was not heard is ended.
    #[must_use]
    pub fn with_watchdog(self, micros: Option<&str>) -> Self {
        let micros = micros.and_then(|micros| micros.parse().ok());
        let micros = micros.filter(|micros: &u64| *micros > 0 && self.address.is_some());
        Self {
            watchdog: micros.map(|micros| Duration::from_micros(micros / 2)),
            ..self
        }
    }

    /// How often the service manager wants to hear [`Notify::alive`]; `None` where it does not.
    #[must_use]
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The daemon still runs its tasks. Nothing is said where nobody wants to hear it.
    pub fn alive(&self) {
        if self.watchdog.is_some() {
            self.say("WATCHDOG=1");
        }
    }

    /// The daemon does its work.
    pub fn ready(&self) {
        self.say("READY=1");
    }

    /// It reads its configuration again; [`Notify::ready`] follows.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1_000;
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// It is about to end.
    pub fn stopping(&self) {
        self.say("STOPPING=1");
    }

    fn say(&self, text: &str) {
        let Some(address) = &self.address else { return };
        let said = UnixDatagram::unbound()
            .and_then(|socket| socket.send_to_addr(text.as_bytes(), address).map(drop));
        if let Err(error) = said {
            log::warning(format_args!("The service manager is not told: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(notify: &Notify, listener: &UnixDatagram) -> Vec<String> {
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
        let all = said(&Notify::to(Some(path.as_os_str())), &listener);
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
        assert_eq!(said(&notify, &listener)[1], "READY=1");
    }

    #[test]
    fn nobody_is_told_where_nobody_listens() {
        for socket in [None, Some(""), Some("/nonexistent/notify")] {
            Notify::to(socket.map(OsStr::new)).ready();
        }
    }
}
