//! `cmd.shell_info`: returns the version of a shell or language.

use machine::process::{Process, Stderr, which};
use state::exec::Exec;
use state::module::Error;
use value::pyre::{Flags, Regex};
use value::{Map, Value, log};

state::exec_module! {
    /// Query shells and languages.
    mod cmd;

    /// Return whether a shell or a language is installed, its path and its version.
    ///
    ///     salt-call cmd.shell_info bash
    fn shell_info(ShellInfo {
        /// The name: `bash`, `perl`, `php`, `python`, `ruby`, `tcsh` or `zsh`.
        shell: String,
        /// Accepted and ignored: it concerns PowerShell on Windows.
        list_modules: bool = false,
    });
}

/// The known programs: the name, the regular expression that finds the version in the output, and
/// the command that prints the version.
const SHELLS: &[(&str, &str, &[&str])] = &[
    ("bash", r"version (\d\S*)", &["bash", "--version"]),
    ("zsh", r"^zsh (\d\S*)", &["zsh", "--version"]),
    ("tcsh", r"^tcsh (\d\S*)", &["tcsh", "--version"]),
    ("cmd", r"Version ([\d.]+)", &["cmd.exe", "/C", "ver"]),
    (
        "powershell",
        r"PSVersion\s+(\d\S*)",
        &["powershell", "-NonInteractive", "$PSVersionTable"],
    ),
    (
        "perl",
        r"^(\d\S*)",
        &["perl", "-e", r#"printf "%vd\n", $^V;"#],
    ),
    ("python", r"^Python (\d\S*)", &["python", "-V"]),
    ("ruby", r"^ruby (\d\S*)", &["ruby", "-v"]),
    ("php", r"^PHP (\d\S*)", &["php", "-v"]),
];

fn unknown(error: String, installed: impl Into<Value>) -> Value {
    Map::new()
        .with("error", error)
        .with("installed", installed)
        .into()
}

/// Returns the first three numbers of a version. A missing second number becomes a zero.
fn short(version: &str) -> String {
    let end = version.find(|c: char| !c.is_ascii_digit() && c != '.');
    let version = version.get(..end.unwrap_or(version.len()));
    let mut parts: Vec<&str> = version.unwrap_or_default().split('.').take(3).collect();
    if parts.len() == 1 {
        parts.push("0");
    }
    parts.join(".")
}

fn shell_info(cx: &Exec, args: ShellInfo) -> Result<Value, Error> {
    let shell = args.shell.as_str();
    let Some((_, pattern, words)) = SHELLS.iter().find(|(name, ..)| *name == shell) else {
        let error = format!("Salt does not know how to get the version number for {shell}");
        return Ok(unknown(error, Value::Null));
    };
    let (line, program) = (words.join(" "), words.first().copied().unwrap_or_default());
    let Some(path) = which(program) else {
        let reason = format!("[Errno 2] No such file or directory: '{program}'");
        let error = format!("Unable to run command '{line}' Reason: {reason}");
        return Ok(unknown(error, false));
    };
    let process = Process {
        stderr: Stderr::Merged,
        timeout: Some(10.into()),
        ..Process::words(words.iter().copied()).quiet()
    };
    let done = process.run(cx)?;
    if done.timed_out {
        let error = format!("Unable to run command '{line}' Reason: Timed out.");
        return Ok(unknown(error, false));
    }
    let found = Regex::new(pattern, Flags::IGNORECASE)?;
    let found = found.captures(done.stdout_regardless(), 0)?;
    let raw = found.and_then(|found| Some(found.get(1)?.as_str().to_owned()));
    Ok(answer(shell, path, raw, done.into_stdout_regardless()))
}

fn answer(shell: &str, path: String, raw: Option<String>, said: String) -> Value {
    let ret = Map::new()
        .with("installed", raw.as_ref().map(|_| true))
        .with("path", path);
    let ret = match raw {
        Some(raw) => ret
            .with("version_raw", raw.as_str())
            .with("version", short(&raw)),
        None => {
            let error = format!(
                "The version regex pattern for shell {shell}, could not find the version string"
            );
            log::error(&error);
            ret.with("error", error).with("stdout", said)
        }
    };
    ret.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_two_or_three_numbers() {
        for (raw, version) in [
            ("5.2.15(1)-release", "5.2.15"),
            ("7", "7.0"),
            ("5.9.1.2", "5.9.1"),
        ] {
            assert_eq!(short(raw), version);
        }
        let found = answer("zsh", "/bin/zsh".into(), None, "x".into());
        assert_eq!(found.get("installed"), Some(&Value::Null));
        assert_eq!(found.get("stdout"), Some(&"x".into()));
    }
}
