//! Formats the text of `--help`.

use super::{Flag, Program, Takes};

/// The column of an option's description.
const COLUMN: usize = 34;

impl Program {
    /// Returns the usage line.
    #[must_use]
    pub fn usage_line(&self) -> String {
        let line = format!("Usage: {} {}", self.name, self.usage);
        line.trim_end().to_owned()
    }

    /// Returns the first sentence of the description, in the form of a part of a sentence.
    #[must_use]
    pub fn brief(&self) -> String {
        let first = self.about.split(". ").next().unwrap_or(self.about);
        let mut letters = first.trim_end_matches('.').chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        first.into_iter().chain(letters).collect()
    }

    /// Returns the text that `--help` prints, with one line for each option.
    #[must_use]
    pub fn help(&self) -> String {
        let mut out = format!("{}\n\n{}\n", self.usage_line(), self.about);
        let mut title = "";
        for group in self.groups {
            if group.title != title {
                title = group.title;
                out.push_str(&format!("\n{title}:\n"));
            }
            for flag in group.flags {
                out.push_str(&flag.line());
            }
        }
        out
    }
}

impl Flag {
    /// Returns the option's line of the help. A long name has a separate line.
    #[must_use]
    pub fn line(&self) -> String {
        let (names, help) = (self.names(), self.help);
        let gap = COLUMN.saturating_sub(names.len() + 2);
        if gap < 2 {
            format!("  {names}\n{:COLUMN$}{help}\n", "")
        } else {
            format!("  {names}{:gap$}{help}\n", "")
        }
    }

    /// Returns the words that select the option, such as `-c` and `--config-dir`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let short = self.short.map(|short| format!("-{short}"));
        let long = self.long.iter().map(|long| format!("--{long}"));
        short.into_iter().chain(long).collect()
    }

    /// Returns an option's names and its value, such as `-c DIR, --config-dir=DIR`.
    #[must_use]
    pub fn names(&self) -> String {
        let argument = match self.takes {
            Takes::Nothing => None,
            Takes::Text(name)
            | Takes::Many(name)
            | Takes::Number(name)
            | Takes::Float(name)
            | Takes::Choice(name, _) => Some(name),
        };
        let short = self
            .short
            .map(|c| argument.map_or_else(|| format!("-{c}"), |name| format!("-{c} {name}")));
        let long = self.long.iter().map(|long| {
            argument.map_or_else(|| format!("--{long}"), |name| format!("--{long}={name}"))
        });
        short.into_iter().chain(long).collect::<Vec<_>>().join(", ")
    }
}
