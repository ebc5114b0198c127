//! The errors of reading the configuration.

use std::path::PathBuf;

use crate::failure::{Exit, Failure};

/// An error in the configuration. No run starts after one.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file exists and cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// The file that cannot be read.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file is not YAML.
    #[error("{path}:{line}:{column}: {message}", path = .path.display())]
    Syntax {
        /// The file with the error.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The message of the YAML reader.
        message: String,
    },
    /// A file contains something other than options.
    #[error("{path}: expected options as `name: value`, found {found}", path = .path.display())]
    NotAMapping {
        /// The file without options.
        path: PathBuf,
        /// The type of its content.
        found: &'static str,
    },
    /// An unsupported option that restricts what the program does.
    #[error(
        "{place}: option `{option}` is a restriction that is not supported: remove it to start without that restriction"
    )]
    Restricting {
        /// The place where it is set.
        place: String,
        /// The option.
        option: String,
    },
    /// An option has a value of a wrong type.
    #[error("{place}: option `{option}` needs {expected}, found {value} ({found})")]
    WrongType {
        /// The file and line of the value, or `command line`.
        place: String,
        /// The option.
        option: String,
        /// The value.
        value: String,
        /// The type of the value.
        found: &'static str,
        /// The type or values that the option accepts.
        expected: String,
    },
    /// Another user could change the configuration or the code that it loads.
    #[error(transparent)]
    Untrusted(#[from] value::trust::Untrusted),
    /// Files include each other more than `limit` deep.
    #[error("{path}: includes are nested more than {limit} deep", path = .path.display())]
    TooDeep {
        /// The file at the limit.
        path: PathBuf,
        /// The maximum depth.
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
                Some("nothing was run; Salt would only warn and continue".to_owned())
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
