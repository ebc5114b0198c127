//! Reads the options of `salt-ssh`.

use super::salt::{Target, exclusive, tgt_value};
use super::settings::{self, About, Settings};
use super::ssh_flags::SSH_TARGETS;
use super::{SALT_SSH, UsageError};

/// The request of a command line of `salt-ssh`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaltSshOptions {
    /// To print the help or the version.
    About(About),
    /// To list the hosts of the roster.
    Hosts,
    /// To run a function.
    Call {
        /// The hosts.
        target: Target,
        /// The function.
        fun: String,
        /// The arguments, not yet parsed.
        words: Vec<String>,
    },
    /// To run a command of the program, such as `plan` or `undo`.
    Command {
        /// The hosts.
        target: Target,
        /// The words of the command.
        words: Vec<String>,
    },
    /// To run a shell command.
    Raw {
        /// The hosts.
        target: Target,
        /// The command.
        line: String,
    },
}

/// A parsed command line of `salt-ssh`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaltSsh {
    /// The request.
    pub request: SaltSshOptions,
    /// The settings of the configuration.
    pub settings: Settings,
    /// The names of arguments whose values are not read as YAML.
    pub no_parse: Vec<String>,
    /// The job id to use.
    pub jid: Option<String>,
}

impl SaltSsh {
    /// Parses a command line without the program's name.
    ///
    /// # Errors
    /// If an option is wrong, or the target or the function is missing.
    pub fn parse(
        args: Vec<String>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, UsageError> {
        let parsed = SALT_SSH.parse(args)?;
        let jid = parsed.text("jid").map(str::to_owned);
        if let Some(wrong) = jid.as_deref().filter(|jid| !value::jid::is_jid(jid)) {
            return Err(UsageError::new(format!("'{wrong}' is not a valid JID")));
        }
        let tgt_type = exclusive(&parsed, SSH_TARGETS.flags)?;
        let request = match (settings::about(&parsed), tgt_type, parsed.words.as_slice()) {
            (Some(about), ..) => SaltSshOptions::About(about),
            (None, Some("list_hosts"), _) => SaltSshOptions::Hosts,
            (None, tgt_type, [tgt, fun, words @ ..]) => {
                let tgt_type = tgt_type.unwrap_or("glob");
                let target = Target {
                    tgt: tgt_value(tgt.clone(), tgt_type),
                    tgt_type,
                    delimiter: ":".to_owned(),
                };
                let rest = parsed.words.get(1..).unwrap_or_default();
                match (parsed.has("raw_shell"), parsed.has("pinch_command")) {
                    (true, true) => {
                        return Err(UsageError::new("--raw and --pinch exclude each other"));
                    }
                    (true, false) => SaltSshOptions::Raw {
                        target,
                        line: rest.join(" "),
                    },
                    (false, true) => SaltSshOptions::Command {
                        target,
                        words: rest.to_vec(),
                    },
                    (false, false) => SaltSshOptions::Call {
                        target,
                        fun: fun.clone(),
                        words: words.to_vec(),
                    },
                }
            }
            _ => {
                return Err(UsageError {
                    message: "a target and a function are required".to_owned(),
                    hint: Some("salt-ssh '*' test.ping; salt-ssh --help lists the options".into()),
                });
            }
        };
        Ok(Self {
            request,
            settings: Settings::from_parsed(&SALT_SSH, &parsed, &[SSH_TARGETS.flags], &env),
            no_parse: settings::no_parse(&parsed),
            jid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[&str]) -> Result<SaltSshOptions, UsageError> {
        let words = line.iter().map(|word| (*word).to_owned()).collect();
        SaltSsh::parse(words, |_| None).map(|line| line.request)
    }

    #[test]
    fn a_command_line_is_a_function_a_shell_command_or_a_list() {
        let called = read(&["-L", "a,b", "test.echo", "x"]).unwrap();
        let SaltSshOptions::Call { target, fun, words } = called else {
            panic!("{called:?}");
        };
        assert_eq!((target.tgt_type, fun.as_str()), ("list", "test.echo"));
        assert_eq!(words, ["x"]);
        let raw = read(&["-r", "*", "ls", "/"]).unwrap();
        assert!(matches!(raw, SaltSshOptions::Raw { line, .. } if line == "ls /"));
        assert_eq!(read(&["-H"]).unwrap(), SaltSshOptions::Hosts);
        for wrong in [
            &["*"][..],
            &[],
            &["-E", "-L", "*", "x"],
            &["--jid=x", "*", "y"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
