//! The source `pam`: the accounts of this machine and of its directories. A static program cannot load
//! the modules of PAM, so a helper program does, which reads the password from its standard input.

use std::path::Path;

use machine::accounts;
use machine::process::{Output, Process, which};
use state::module::Error;
use value::Value;

use super::Known;
use super::source::Source;

/// The helper in Python, as in Salt.
const SCRIPT: &str = include_str!("pam.py");
/// The maximum run time of a helper in seconds. Modules of PAM delay failures by some seconds.
const TIMEOUT_S: i64 = 20;
/// The longest password that PAM's own conversations accept, in bytes.
const PASSWORD_MAX: usize = 511;
/// The exit code of the script when PAM cannot be used.
const UNUSABLE: i64 = 2;

/// Checks a password, and that the account may be used.
pub(super) fn check(source: &Source, name: &str, password: &str) -> Result<Option<Known>, Error> {
    if password.len() > PASSWORD_MAX || password.contains('\n') {
        return Ok(None);
    }
    let service = source.opts().text("auth.pam.service").unwrap_or("login");
    for helper in Helper::chosen(source)?.calls(service, name, password) {
        let done = run(source, helper)?;
        if done.timed_out || !done.success() {
            return failure(&done);
        }
    }
    let groups = accounts::user(name).map(|user| accounts::groups_of(&user));
    let groups = groups.unwrap_or_default().into_iter();
    Ok(Some(Known {
        groups: groups.map(|group| group.name).collect(),
        acl: None,
    }))
}

fn failure(done: &Output) -> Result<Option<Known>, Error> {
    match done.retcode {
        _ if done.timed_out => Err(format!("PAM did not answer within {TIMEOUT_S} s").into()),
        Some(UNUSABLE) => {
            Err("the helper of auth.pam.helper cannot use PAM: does libpam exist?".into())
        }
        _ => Ok(None),
    }
}

/// Runs a helper without a shell, and without anything in the log.
fn run(source: &Source, (words, stdin): (Vec<String>, String)) -> Result<Output, Error> {
    let process = Process {
        stdin: Some(stdin),
        cwd: Some("/".to_owned()),
        timeout: Some(Value::from(TIMEOUT_S)),
        ..Process::words(words).quiet()
    };
    process.run(&source.cx)
}

/// A program that checks passwords.
#[derive(Debug, PartialEq, Eq)]
enum Helper {
    /// Python, with a script that loads libpam.
    Python(String),
    /// `pamtester`.
    Tester(String),
    /// `unix_chkpwd`: it knows only the passwords of this machine, and no service.
    Chkpwd(String),
    /// Any other program, with the service and the user as arguments.
    Other(String),
}

/// The arguments of a program, and its standard input.
type Call = (Vec<String>, String);

impl Helper {
    /// Returns the program of `auth.pam.helper`, or one that this machine has.
    fn chosen(source: &Source) -> Result<Self, Error> {
        let option = |name: &str| source.opts().text(name).filter(|text| !text.is_empty());
        if let Some(program) = option("auth.pam.helper") {
            let found = which(program);
            let found = found.ok_or_else(|| {
                Error::refused(format!(
                    "the program {program} of auth.pam.helper does not exist"
                ))
            })?;
            return Ok(Self::of(found));
        }
        let python = option("auth.pam.python").map(str::to_owned);
        if let Some(python) = python.or_else(|| which("python3")) {
            return Ok(Self::Python(python));
        }
        which("pamtester").map(Self::Tester).ok_or_else(|| {
            "external_auth with pam needs python3 or pamtester: install one, or set auth.pam.helper".into()
        })
    }

    fn of(program: String) -> Self {
        let name = Path::new(&program)
            .file_name()
            .and_then(|name| name.to_str());
        match name {
            Some("pamtester") => Self::Tester(program),
            Some("unix_chkpwd") => Self::Chkpwd(program),
            Some(name) if name.starts_with("python") => Self::Python(program),
            _ => Self::Other(program),
        }
    }

    /// Returns the calls that must all succeed.
    fn calls(self, service: &str, user: &str, password: &str) -> Vec<Call> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let line = format!("{password}\n");
        match self {
            Self::Python(program) => {
                let call = words(&[&program, "-I", "-c", SCRIPT, service, user]);
                vec![(call, password.to_owned())]
            }
            Self::Tester(program) => {
                let call = words(&[&program, service, user, "authenticate", "acct_mgmt"]);
                vec![(call, line)]
            }
            Self::Chkpwd(program) => vec![
                (words(&[&program, user, "nonull"]), format!("{password}\0")),
                (words(&[&program, user, "chkexpiry"]), String::new()),
            ],
            Self::Other(program) => vec![(words(&[&program, service, user]), line)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_an_argument() {
        for program in [
            "/usr/bin/python3",
            "/usr/bin/pamtester",
            "/sbin/unix_chkpwd",
            "/opt/own",
        ] {
            let helper = Helper::of(program.to_owned());
            let calls = helper.calls("login", "joe", "s3cret");
            assert!(
                calls
                    .iter()
                    .all(|(words, _)| words.first().is_some_and(|word| word == program))
            );
            assert!(
                calls
                    .iter()
                    .flat_map(|(words, _)| words)
                    .all(|word| !word.contains("s3cret"))
            );
            assert!(
                calls
                    .first()
                    .is_some_and(|(_, stdin)| stdin.starts_with("s3cret"))
            );
        }
    }
}
