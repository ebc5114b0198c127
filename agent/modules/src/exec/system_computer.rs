//! The description of the machine, `PRETTY_HOSTNAME` in `/etc/machine-info`.

use std::path::Path;

use machine::fs;
use machine::process::{Process, which};
use machine::systemd::booted;
use state::exec::Exec;
use state::module::Error;

const FILE: &str = "/etc/machine-info";

/// Returns the description; `None` if there is none.
///
/// # Errors
/// When `hostnamectl` fails, or the file cannot be read.
pub(super) fn description(cx: &Exec) -> Result<Option<String>, Error> {
    let text = match hostnamectl() {
        Some(hostnamectl) => {
            let asked = Process::words([hostnamectl.as_str(), "status", "--pretty"]).run(cx)?;
            Some(asked.stdout_of_success("hostnamectl status --pretty")?)
        }
        None => {
            let text = fs::text_or_none(FILE)?.unwrap_or_default();
            text.lines().filter_map(value).next_back().map(unquoted)
        }
    };
    Ok(text.map(|text| read(&text)))
}

/// Sets the description. Returns false if `hostnamectl` fails.
///
/// # Errors
/// When the file cannot be read or written.
pub(super) fn describe(cx: &Exec, desc: &str) -> Result<bool, Error> {
    let desc = written(desc);
    if let Some(hostnamectl) = hostnamectl() {
        let words = [hostnamectl.as_str(), "set-hostname", "--pretty", &desc];
        return Ok(Process::words(words).run(cx)?.success());
    }
    let text = fs::text_or_none(FILE)?.unwrap_or_default();
    let new = with_description(&text, &desc);
    let owner = fs::Owner::default();
    fs::write(cx, Path::new(FILE), new.as_bytes(), owner)?;
    Ok(true)
}

/// Returns `hostnamectl`, if systemd has started the machine. Elsewhere it has nothing to speak with.
fn hostnamectl() -> Option<String> {
    which("hostnamectl").filter(|_| booted())
}

/// Returns the value of a line `PRETTY_HOSTNAME=VALUE`.
fn value(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("PRETTY_HOSTNAME=")
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.unwrap_or(text).to_owned()
}

fn read(text: &str) -> String {
    text.replace("\\\\", "\\")
        .replace("\\\"", "\"")
        .replace("\\n", "\n")
        .replace("\\t", "\t")
}

fn written(text: &str) -> String {
    text.replace('"', "\\\"")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

/// Returns the text of the file with the description in place of the first one, or at its end.
fn with_description(text: &str, desc: &str) -> String {
    let new = format!("PRETTY_HOSTNAME=\"{desc}\"");
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter_mut().find(|line| value(line).is_some()) {
        Some(line) => *line = &new,
        None => lines.push(&new),
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_replaces_the_first_one_and_leaves_the_other_lines() {
        let text = "CHASSIS=vm\n PRETTY_HOSTNAME='old'\nLOCATION=here\n";
        let new = "CHASSIS=vm\nPRETTY_HOSTNAME=\"new\"\nLOCATION=here\n";
        assert_eq!(with_description(text, "new"), new);
        let last = "CHASSIS=vm\nPRETTY_HOSTNAME=\"new\"\n";
        assert_eq!(with_description("CHASSIS=vm", "new"), last);
        assert_eq!(with_description("", "new"), "PRETTY_HOSTNAME=\"new\"\n");
    }

    #[test]
    fn a_description_is_read_as_it_was_given() {
        for text in ["Michael's laptop", "a \"b\"", "one\ntwo\tthree", "'"] {
            let line = with_description("", &written(text));
            let found = line.lines().find_map(value).map(unquoted);
            assert_eq!(found.map(|found| read(&found)).as_deref(), Some(text));
        }
        assert_eq!(unquoted("'a'"), "a");
    }
}
