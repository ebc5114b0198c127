//! Why the configuration cannot be used.

use std::path::PathBuf;

use crate::failure::{Exit, Failure};

/// Why the configuration cannot be used; nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file is there and cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not YAML.
    #[error("{path}:{line}:{column}: {message}", path = .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What the YAML reader says.
        message: String,
    },
    /// A file holds something else than options.
    #[error("{path}: expected options as `name: value`, found {found}", path = .path.display())]
    NotAMapping {
        /// The file.
        path: PathBuf,
        /// The type of what is in it.
        found: &'static str,
    },
    /// An option restricts what the program does, and is not supported.
    #[error(
        "{place}: option `{option}` restricts what may be done and is not supported: remove it to start without that restriction"
    )]
    Restricting {
        /// Where it is set.
        place: String,
        /// Its name.
        option: String,
    },
    /// An option has a value of a type that it cannot take.
    #[error("{place}: option `{option}` needs {expected}, found {value} ({found})")]
    WrongType {
        /// The file and line, or that it came from the command line.
        place: String,
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// Its type.
        found: &'static str,
        /// What it should be.
        expected: String,
    },
    /// Somebody else may write to what is obeyed.
    #[error(transparent)]
    Untrusted(#[from] value::trust::Untrusted),
    /// Files include each other without end.
    #[error("{path}: files are included more than {limit} deep", path = .path.display())]
    TooDeep {
        /// The file at the limit.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let hint = match &error {
            ConfigError::WrongType {
                found: "str",
                expected,
                value,
                ..
            } if expected == "True or False" => {
                Some(format!("write {} without quotes", value.trim_matches('\'')))
            }
            ConfigError::WrongType { .. } => {
                Some("nothing was run; Salt would only warn and go on".to_owned())
            }
            ConfigError::Untrusted(error) => error
                .hint()
                .map(|hint| format!("{hint} (or the user that the daemon runs as)")),
            ConfigError::Syntax { .. } => {
                Some("check the indentation, and that values with `:` or `#` are quoted".to_owned())
            }
            _ => None,
        };
        Self::new(Exit::Generic, error).hints(hint)
    }
}
