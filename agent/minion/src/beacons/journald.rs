//! Reports entries of the systemd journal that match the configuration.

use std::os::fd::BorrowedFd;

use value::{Map, Value, json};

use super::follow::{Follow, Output};
use super::{Ask, Beacon, Settings};

const PROGRAM: &str = "journalctl";

/// The fields whose values are numbers in systemd's own reader for Python. Salt compares with those
/// values.
const NUMBERS: &[&str] = &[
    "CODE_LINE",
    "COREDUMP_GID",
    "COREDUMP_PID",
    "COREDUMP_SESSION",
    "COREDUMP_SIGNAL",
    "COREDUMP_UID",
    "ERRNO",
    "EXIT_STATUS",
    "INITRD_USEC",
    "KERNEL_USEC",
    "LEADER",
    "PRIORITY",
    "SESSION_ID",
    "SYSLOG_FACILITY",
    "SYSLOG_PID",
    "USERSPACE_USEC",
    "_AUDIT_LOGINUID",
    "_AUDIT_SESSION",
    "_GID",
    "_PID",
    "_SOURCE_MONOTONIC_TIMESTAMP",
    "_SOURCE_REALTIME_TIMESTAMP",
    "_SYSTEMD_OWNER_UID",
    "_UID",
    "__MONOTONIC_TIMESTAMP",
    "__REALTIME_TIMESTAMP",
];

struct Journald {
    services: Vec<(String, Map)>,
    journal: Option<Follow>,
    /// The cursor of the last entry that was seen. If `journalctl` has ended, reading resumes
    /// there.
    cursor: Option<String>,
    /// The lines that arrived during a state run. They are handled after it.
    waiting: Vec<String>,
}

/// The maximum number of lines that are kept during a state run. Further lines are dropped.
const WAITING_MAX: usize = 10_000;

pub(super) fn make(settings: &Settings) -> Result<Box<dyn Beacon>, String> {
    let services = settings.get("services").and_then(Value::as_map);
    let services = services.into_iter().flat_map(Map::iter);
    let services = services.map(|(name, said)| {
        let said = said.as_map().cloned();
        let said = said
            .ok_or("Services configuration for journald beacon must be a list of dictionaries.")?;
        Ok::<_, String>((name.to_text(), said))
    });
    Ok(Box::new(Journald {
        services: services.collect::<Result<_, _>>()?,
        journal: None,
        cursor: None,
        waiting: Vec::new(),
    }))
}

/// Reads an entry, and turns its numeric fields into numbers.
fn entry(line: &str) -> Option<Map> {
    let Ok(Value::Map(mut entry)) = json::read(line) else {
        return None;
    };
    for (key, value) in entry.iter_mut() {
        if NUMBERS.contains(&key.as_text().as_ref())
            && let Some(number) = value.as_str().and_then(|text| text.parse::<i64>().ok())
        {
            *value = number.into();
        }
    }
    Some(entry)
}

fn is_as(entry: &Map, wanted: &Map) -> bool {
    let mut wanted = wanted.iter();
    wanted.all(|(key, value)| entry.get_value(key) == Some(value))
}

fn start(cursor: Option<&str>) -> Result<Follow, String> {
    let after = cursor.map(|cursor| format!("--after-cursor={cursor}"));
    let from = after.as_deref().unwrap_or("--lines=0");
    let words = ["--follow", "--output=json", "--quiet", "--no-pager", from];
    Follow::start(PROGRAM, &words, Output::Stdout)
}

impl Journald {
    fn lines(&mut self) -> Result<Vec<String>, String> {
        let mut lines = std::mem::take(&mut self.waiting);
        let journal = match &mut self.journal {
            Some(journal) => journal,
            none => none.insert(start(self.cursor.as_deref())?),
        };
        lines.extend(journal.lines());
        if journal.has_ended() {
            self.journal = None;
            if lines.is_empty() {
                return Err(format!("{PROGRAM} has exited."));
            }
        }
        Ok(lines)
    }

    fn events(&mut self, lines: &[String]) -> Vec<Map> {
        let mut told = Vec::new();
        for entry in lines.iter().filter_map(|line| entry(line)) {
            if let Some(cursor) = entry.get("__CURSOR").and_then(Value::as_str) {
                self.cursor = Some(cursor.to_owned());
            }
            let matching = self
                .services
                .iter()
                .filter(|(_, wanted)| is_as(&entry, wanted));
            told.extend(matching.map(|(name, _)| entry.clone().with("tag", name.as_str())));
        }
        told
    }
}

impl Beacon for Journald {
    fn poll(&mut self, _ask: &Ask<'_>) -> Result<Vec<Map>, String> {
        let lines = self.lines()?;
        Ok(self.events(&lines))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.journal.as_ref().map(Follow::descriptor)
    }

    fn pause(&mut self) {
        self.waiting = self.lines().unwrap_or_default();
        self.waiting.truncate(WAITING_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_told_under_each_service_that_it_is_as_wanted_of() {
        let said = r#"[{"services": {"sshd": {"SYSLOG_IDENTIFIER": "sshd", "PRIORITY": 6}, "text": {"PRIORITY": "6"}, "all": {}}}]"#;
        let said = json::read(said).unwrap();
        let settings = Settings::read("journald", &said).unwrap();
        make(&settings).unwrap();
        let services = settings.get("services").and_then(Value::as_map).unwrap();
        let mut beacon = Journald {
            services: services
                .iter()
                .map(|(name, said)| (name.to_text(), said.as_map().cloned().unwrap()))
                .collect(),
            journal: None,
            cursor: None,
            waiting: Vec::new(),
        };
        let lines = [
            r#"{"__CURSOR": "s=1", "SYSLOG_IDENTIFIER": "sshd", "PRIORITY": "6", "MESSAGE": "in"}"#,
            r#"{"__CURSOR": "s=2", "SYSLOG_IDENTIFIER": "cron", "PRIORITY": "6"}"#,
            "-- no entry --",
        ]
        .map(str::to_owned);
        let told = beacon.events(&lines);
        let told: Vec<String> = told
            .into_iter()
            .map(|event| json::write(&event.into(), Default::default()))
            .collect();
        let expected = [
            r#"{"__CURSOR": "s=1", "SYSLOG_IDENTIFIER": "sshd", "PRIORITY": 6, "MESSAGE": "in", "tag": "sshd"}"#,
            r#"{"__CURSOR": "s=1", "SYSLOG_IDENTIFIER": "sshd", "PRIORITY": 6, "MESSAGE": "in", "tag": "all"}"#,
            r#"{"__CURSOR": "s=2", "SYSLOG_IDENTIFIER": "cron", "PRIORITY": 6, "tag": "all"}"#,
        ];
        assert_eq!(told, expected);
        assert_eq!(beacon.cursor.as_deref(), Some("s=2"));
    }
}
