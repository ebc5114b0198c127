//! The logger: formats the messages that crates send through `value::log` as Salt formats them, and
//! writes them to stderr and to the log file.

mod format;
mod time;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use value::log::{Level, RETURNS, Record, set_sink};
use value::{Map, Value, secret, visible};

use format::Format;

/// The names of the log levels.
pub const LEVELS: &[&str] = &[
    "all", "debug", "error", "critical", "garbage", "info", "profile", "quiet", "trace", "warning",
];

/// Returns the level of a name. The inner `None` is `quiet`; the outer `None` means that no level
/// has this name.
#[must_use]
pub fn level(name: &str) -> Option<Option<Level>> {
    Some(Some(match name.to_lowercase().as_str() {
        "all" | "garbage" => Level::Garbage,
        "trace" => Level::Trace,
        "debug" => Level::Debug,
        "profile" => Level::Profile,
        "info" => Level::Info,
        "warning" => Level::Warning,
        "error" => Level::Error,
        "critical" => Level::Critical,
        "quiet" => return Some(None),
        _ => return None,
    }))
}

/// One destination of messages.
#[derive(Clone, Debug)]
struct Target {
    /// The lowest level that is written; `None` writes nothing.
    level: Option<Level>,
    format: Format,
}

impl Target {
    fn from_opts(opts: &Map, level_keys: &[&str], format: &str, dates: &[&str]) -> Self {
        let text = |key: &str| opts.get(key).and_then(Value::as_str);
        let named = level_keys
            .iter()
            .find_map(|key| text(key))
            .unwrap_or("warning");
        let dates = dates.iter().find_map(|key| text(key)).unwrap_or("%H:%M:%S");
        Self {
            level: level(named).unwrap_or(Some(Level::Warning)),
            format: Format::new(format, dates, text("id").unwrap_or_default()),
        }
    }

    fn wants(&self, level: Level) -> bool {
        self.level.is_some_and(|lowest| level >= lowest)
    }
}

/// The logger: its destinations and their lowest levels.
#[derive(Clone, Debug)]
pub struct Logger {
    console: Target,
    file: Target,
    path: Option<PathBuf>,
    /// A `log_file` that is a URL instead of a path.
    elsewhere: Option<String>,
}

impl Logger {
    /// Reads the logger's settings from the options of a run: `log_level`, `log_file`,
    /// `log_fmt_console` and so on.
    #[must_use]
    pub fn from_opts(opts: &Map) -> Self {
        let text = |key: &str, default: &str| {
            opts.get(key)
                .and_then(Value::as_str)
                .unwrap_or(default)
                .to_owned()
        };
        let console = text("log_fmt_console", "[%(levelname)-8s] %(message)s");
        let file = text(
            "log_fmt_logfile",
            "%(asctime)s,%(msecs)03d [%(name)-17s:%(lineno)-4d][%(levelname)-8s][%(process)d] %(message)s",
        );
        let path = text("log_file", "");
        Self {
            console: Target::from_opts(
                opts,
                &["log_level"],
                &console,
                &["log_datefmt_console", "log_datefmt"],
            ),
            file: Target::from_opts(
                opts,
                &["log_level_logfile", "log_level"],
                &file,
                &["log_datefmt_logfile", "log_datefmt"],
            ),
            elsewhere: Some(path.clone()).filter(|path| path.contains("://")),
            path: Some(path)
                .filter(|path| path.starts_with('/'))
                .map(PathBuf::from),
        }
    }

    /// Makes this the logger of the program. Returns false if the program already had one.
    #[must_use]
    pub fn install(self) -> bool {
        let opened = self.open();
        let failed = opened.as_ref().err().map(|error| error.to_string());
        let path = self.path.clone().unwrap_or_default();
        let file = Mutex::new(opened.ok().flatten());
        let elsewhere = self.elsewhere.clone();
        value::log::set_lowest(
            [self.console.level, self.file_level()]
                .into_iter()
                .flatten()
                .min(),
        );
        let set = set_sink(move |record| self.write(record, &file));
        if let Some(error) = failed {
            value::log::warning(format_args!(
                "Failed to open log file {}: {error}",
                path.display()
            ));
        }
        if let Some(place) = elsewhere {
            value::log::warning(format_args!(
                "`log_file` must be a file path, {place} is not supported"
            ));
        }
        set
    }

    /// Returns the lowest level that is written to the log file; `None` without a file.
    fn file_level(&self) -> Option<Level> {
        self.path.as_ref().and(self.file.level)
    }

    fn open(&self) -> std::io::Result<Option<File>> {
        let Some(path) = self.path.as_deref().filter(|_| self.file.level.is_some()) else {
            return Ok(None);
        };
        let folder = path.parent().unwrap_or_else(|| Path::new("/"));
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o755).create(folder)?;
        // Whatever the umask is, only the owner can write to the file, and other users cannot read
        // it.
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            .open(path)
            .map(Some)
    }

    fn write(&self, record: &Record<'_>, file: &Mutex<Option<File>>) {
        if !self.console.wants(record.level) && !self.file.wants(record.level) {
            return;
        }
        let text = message(record);
        let message = format_args!("{text}");
        self.put(&Record { message, ..*record }, file);
    }

    fn put(&self, record: &Record<'_>, file: &Mutex<Option<File>>) {
        let now = time::now();
        let is_shown = record.target == RETURNS && crate::progress::is_live();
        if self.console.wants(record.level) && !is_shown {
            let line = self.console.format.line(record, &now);
            crate::progress::above(&line);
        }
        if self.file.wants(record.level)
            && let Ok(mut file) = file.lock()
            && let Some(file) = file.as_mut()
        {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "there is no other place for a report about the log file"
            )]
            let _ = writeln!(file, "{}", self.file.format.line(record, &now));
        }
    }
}

/// Returns the message of a record with secrets masked and terminal control sequences escaped.
fn message(record: &Record<'_>) -> String {
    let message = record.message.to_string();
    let message = match secret::is_any() {
        true => secret::text(&message),
        false => message.into(),
    };
    visible::log_message(&message).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_salts_names() {
        assert_eq!(level("all"), Some(Some(Level::Garbage)));
        assert_eq!(level("INFO"), Some(Some(Level::Info)));
        assert_eq!((level("quiet"), level("loud")), (Some(None), None));
        let opts = Map::new().with("log_level", "error");
        let logger = Logger::from_opts(&opts);
        assert!(
            logger.console.wants(Level::Error)
                && !logger.console.wants(Level::Warning)
                && !logger.file.wants(Level::Warning)
        );
        assert!(
            !Logger::from_opts(&opts.with("log_level_logfile", "quiet"))
                .file
                .wants(Level::Critical)
        );
    }

    #[test]
    fn a_message_cannot_write_lines_of_its_own_into_the_log() {
        let forged = "2026-01-01 00:00:00,000 [pinch            :0   ][CRITICAL] all is lost";
        let said = format!("bye: \x1b[2J\n{forged}\r\n{forged}\rx\u{9b}31m");
        let text = message(&Record {
            level: Level::Info,
            target: "pinch",
            message: format_args!("{said}"),
        });
        assert_eq!(text.lines().count(), 3, "{text}");
        for line in text.lines() {
            let is_ours = line.starts_with("bye: \\u001b[2J");
            assert!(is_ours || line.starts_with("    2026"), "{line}");
        }
        assert!(!text.contains(['\x1b', '\r', '\u{9b}']), "{text}");
    }
}
