//! Sends each return as a message to the machine's syslog.

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use jiff::Zoned;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::Returner;

/// The socket of the syslog daemon.
const SOCKET: &str = "/dev/log";
/// The maximum length of a tag in Salt.
const TAG_MAX: usize = 32;
const TAG: &str = "salt-minion";

const LEVELS: [&str; 8] = [
    "LOG_EMERG",
    "LOG_ALERT",
    "LOG_CRIT",
    "LOG_ERR",
    "LOG_WARNING",
    "LOG_NOTICE",
    "LOG_INFO",
    "LOG_DEBUG",
];

const FACILITIES: &[(&str, u8)] = &[
    ("LOG_AUTH", 4),
    ("LOG_AUTHPRIV", 10),
    ("LOG_CRON", 9),
    ("LOG_DAEMON", 3),
    ("LOG_FTP", 11),
    ("LOG_KERN", 0),
    ("LOG_LOCAL0", 16),
    ("LOG_LOCAL1", 17),
    ("LOG_LOCAL2", 18),
    ("LOG_LOCAL3", 19),
    ("LOG_LOCAL4", 20),
    ("LOG_LOCAL5", 21),
    ("LOG_LOCAL6", 22),
    ("LOG_LOCAL7", 23),
    ("LOG_LPR", 6),
    ("LOG_MAIL", 2),
    ("LOG_NEWS", 7),
    ("LOG_SYSLOG", 5),
    ("LOG_USER", 1),
    ("LOG_UUCP", 8),
];

/// The options. Only one of them changes a message.
const OPTIONS: [&str; 6] = [
    "LOG_CONS",
    "LOG_NDELAY",
    "LOG_NOWAIT",
    "LOG_ODELAY",
    "LOG_PERROR",
    "LOG_PID",
];

struct Message {
    priority: usize,
    tag: String,
    has_pid: bool,
}

impl Message {
    fn read(option: &dyn Fn(&str) -> Option<Value>) -> Result<Self, Error> {
        let text = |name: &str, default: &str| {
            option(name).map_or_else(|| default.to_owned(), |value| value.to_text())
        };
        let (level, facility) = (text("level", "LOG_INFO"), text("facility", "LOG_USER"));
        let unknown = |name: &str| Error::refused(format!("syslog has no attribute {name}"));
        let number = LEVELS.iter().position(|known| *known == level);
        let number = number.ok_or_else(|| unknown(&level))?;
        let kind = FACILITIES.iter().find(|(known, _)| *known == facility);
        let (_, kind) = kind.ok_or_else(|| unknown(&facility))?;
        let options = option("options")
            .map(|options| options.texts())
            .unwrap_or_default();
        if let Some(other) = options
            .iter()
            .find(|name| !OPTIONS.contains(&name.as_str()))
        {
            return Err(unknown(other));
        }
        let tag = text("tag", TAG);
        if tag.chars().count() > TAG_MAX {
            return Err(Error::refused(format!(
                "tag size is limited to {TAG_MAX} characters"
            )));
        }
        Ok(Self {
            priority: usize::from(*kind) * 8 + number,
            tag,
            has_pid: options.iter().any(|name| name == "LOG_PID"),
        })
    }

    /// Returns the message in syslog's format.
    fn text(&self, body: &str) -> String {
        let time = Zoned::now().strftime("%b %e %H:%M:%S").to_string();
        let pid = match self.has_pid {
            true => format!("[{}]", std::process::id()),
            false => String::new(),
        };
        format!("<{}>{time} {}{pid}: {body}", self.priority, self.tag)
    }
}

fn send(socket: &Path, text: &str) -> std::io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    sender.send_to(text.as_bytes(), socket).map(drop)
}

pub(super) const RETURNER: Returner = Returner {
    name: "syslog",
    doc: "Send the return to the system's log as JSON.",
    store: returner,
};

fn returner(cx: &Exec, ret: &Map) -> Result<(), Error> {
    let message = Message::read(&|name| super::option(cx, ret, "syslog", name))?;
    send(Path::new(SOCKET), &message.text(&super::json(ret))).map_err(Error::io(SOCKET))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(options: &str) -> Result<Message, String> {
        let options = value::json::read(options).unwrap();
        Message::read(&|name| options.get(name).cloned()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_message_has_its_priority_tag_and_number() {
        let plain = message("{}").unwrap().text("{}");
        assert!(plain.starts_with("<14>"), "{plain}");
        assert!(plain.ends_with(" salt-minion: {}"), "{plain}");
        let other = r#"{"level": "LOG_ERR", "facility": "LOG_DAEMON", "tag": "mysalt", "options": ["LOG_PID"]}"#;
        let other = message(other).unwrap().text("x");
        assert!(other.starts_with("<27>"), "{other}");
        let end = format!(" mysalt[{}]: x", std::process::id());
        assert!(other.ends_with(&end), "{other}");
    }

    #[test]
    fn what_syslog_does_not_have_is_named() {
        let problem = |options: &str| message(options).err().unwrap();
        assert_eq!(
            problem(r#"{"level": "LOG_LOUD"}"#),
            "syslog has no attribute LOG_LOUD"
        );
        assert_eq!(problem(r#"{"facility": "X"}"#), "syslog has no attribute X");
        assert_eq!(
            problem(r#"{"options": ["Y"]}"#),
            "syslog has no attribute Y"
        );
        let long = "x".repeat(33);
        assert_eq!(
            problem(&format!(r#"{{"tag": "{long}"}}"#)),
            "tag size is limited to 32 characters"
        );
    }

    #[test]
    fn a_message_arrives_in_one_piece() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let listener = UnixDatagram::bind(&path).unwrap();
        let body = "x".repeat(5000);
        send(&path, &body).unwrap();
        let mut buffer = [0; 8192];
        let length = listener.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], body.as_bytes());
        drop(listener);
        assert!(send(&path, "x").is_err());
    }
}
