//! Prints the return of a call.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use value::{Map, Value};

use super::{Output, display};
use value::yaml::Yaml;

/// The return of a call, and how to print it.
#[derive(Clone, Debug, Default)]
pub struct Return {
    /// The returned data.
    pub value: Value,
    /// The outputter of the function, such as `highstate` for state runs.
    pub out: Option<String>,
    /// The exit code of the call. If it is not 0, nested data is red.
    pub retcode: i64,
    /// All data about the call, which is printed instead of the return. It is set for `--metadata`.
    pub metadata: Option<Map>,
}

/// The file of `--out-file`, for the output instead of stdout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// The path of the file.
    pub path: PathBuf,
    /// True to append to the file's contents.
    pub append: bool,
}

impl OutputFile {
    /// Opens the file, and creates it if it does not exist.
    ///
    /// # Errors
    /// The system's error, with the file's name.
    pub(crate) fn opened(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options
            .create(true)
            .write(true)
            .append(self.append)
            .truncate(!self.append);
        let opened = options.open(&self.path);
        opened.map_err(|error| named(&self.path.display().to_string(), &error))
    }
}

/// Formats the return of a call as `salt-call` prints it.
///
/// An orchestration is formatted as `salt-run` prints it, without `local` around it. In JSON it has
/// `local`, as `salt-call` prints it.
#[must_use]
pub fn return_text(ret: &Return, how: &Output, yaml: &dyn Yaml) -> String {
    let local = |value: Value| Value::Map(Map::new().with("local", value));
    if let Some(metadata) = &ret.metadata {
        return display(
            &local(Value::Map(metadata.clone())),
            Some("nested"),
            how,
            ret.retcode,
            yaml,
        );
    }
    let orchestration = ret
        .value
        .get("data")
        .and_then(|_| ret.value.get("outputter"))
        .and_then(Value::as_str);
    let wanted = ret.out.as_deref().or(orchestration).unwrap_or("nested");
    // JSON is for programs, so its outer key is the same for every function.
    if orchestration.is_some() && how.choose(Some(wanted)) != "json" {
        return display(&ret.value, Some(wanted), how, ret.retcode, yaml);
    }
    display(
        &local(ret.value.clone()),
        Some(wanted),
        how,
        ret.retcode,
        yaml,
    )
}

/// Prints the return of a call to stdout or to the output file.
///
/// # Errors
/// If the text cannot be written. A closed pipe is not an error.
pub fn print_return(
    ret: &Return,
    how: &Output,
    file: Option<&OutputFile>,
    yaml: &dyn Yaml,
) -> io::Result<()> {
    let in_file = file.map(|_| how.in_file());
    let text = return_text(ret, in_file.as_ref().unwrap_or(how), yaml);
    match file {
        Some(file) => write_file(file, &text),
        None if text.is_empty() => Ok(()),
        None => match writeln!(io::stdout().lock(), "{text}") {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| named("standard output", &error)),
        },
    }
}

/// Adds the name of the output to its error.
fn named(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn write_file(file: &OutputFile, text: &str) -> io::Result<()> {
    let mut opened = file.opened()?;
    if text.is_empty() {
        return Ok(());
    }
    let written = writeln!(opened, "{text}");
    written.map_err(|error| named(&file.path.display().to_string(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::corpus::NoYaml;

    #[test]
    fn an_orchestration_prints_as_highstate_and_as_data_in_local() {
        let value = value::json::read(
            r#"{"data": {"m1": ["no such sls"]}, "outputter": "highstate", "retcode": 1}"#,
        )
        .unwrap();
        let ret = Return {
            value,
            ..Return::default()
        };
        let text = |out: Option<&str>| {
            let how = Output {
                outputter: out.map(str::to_owned),
                ..Output::default()
            };
            return_text(&ret, &how, &NoYaml)
        };
        assert_eq!(
            text(None),
            "m1:\n    Data failed to compile:\n----------\n    no such sls"
        );
        assert!(text(Some("json")).starts_with("{\n    \"local\": {\n        \"data\": {"));
    }
}
