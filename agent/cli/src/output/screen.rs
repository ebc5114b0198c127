//! The output of a command.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};

use value::yaml::Yaml;
use value::{Map, Value};

use super::{Output, OutputFile, aside, display};

/// The two output streams of a command, and the form of returns. If a reader closes its end,
/// printing stops without an error.
pub struct Screen<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    how: Output,
    file: Option<File>,
    yaml: &'a dyn Yaml,
    closed: bool,
}

impl<'a> Screen<'a> {
    /// Creates the output as the options say. With `--out-file`, returns are written to that file,
    /// which is emptied first unless the option for appending is set.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn new(
        out: &'a mut dyn Write,
        err: &'a mut dyn Write,
        opts: &Map,
        file: Option<&OutputFile>,
        yaml: &'a dyn Yaml,
    ) -> io::Result<Self> {
        let open = |file: &OutputFile| {
            OpenOptions::new()
                .create(true)
                .write(true)
                .append(file.append)
                .truncate(!file.append)
                .open(&file.path)
        };
        Ok(Self {
            out,
            err,
            how: Output::from_opts(opts, io::stdout().is_terminal()),
            file: file.map(open).transpose()?,
            yaml,
            closed: false,
        })
    }

    /// Returns whether the reader has closed its end.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns whether the user named an outputter.
    #[must_use]
    pub fn has_outputter(&self) -> bool {
        self.how.outputter.is_some()
    }

    /// Prints text. On a terminal, control sequences in it are removed.
    pub fn put(&mut self, text: &str) {
        let text = aside(text, &self.how);
        let written = self
            .out
            .write_all(text.as_bytes())
            .and_then(|()| self.out.flush());
        self.closed |= written.is_err();
    }

    /// Prints a line.
    pub fn say(&mut self, line: &str) {
        self.put(&format!("{line}\n"));
    }

    /// Prints text on stderr.
    #[expect(
        clippy::let_underscore_must_use,
        reason = "a closed stderr stops nothing"
    )]
    pub fn complain(&mut self, text: &str) {
        let _ = self.err.write_all(text.as_bytes());
        let _ = self.err.flush();
    }

    /// Prints data with the outputter `wanted`, unless the user named another one. Empty output
    /// adds no line.
    pub fn show(&mut self, data: &Value, wanted: Option<&str>, retcode: i64) {
        let in_file = self.file.as_ref().map(|_| self.how.in_file());
        let how = in_file.as_ref().unwrap_or(&self.how);
        let text = display(data, wanted, how, retcode, self.yaml);
        if text.is_empty() {
            return;
        }
        match &mut self.file {
            Some(file) => {
                let written = writeln!(file, "{text}");
                self.closed |= written.is_err();
            }
            None => self.say(&text),
        }
    }
}
