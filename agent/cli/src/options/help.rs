//! `--help`.

use super::{Flag, Program, Takes};

/// Where the line about an option starts.
const COLUMN: usize = 34;

impl Program {
    /// The usage line.
    #[must_use]
    pub fn usage_line(&self) -> String {
        format!("Usage: {} {}", self.name, self.usage)
    }

    /// What it does, as part of a sentence.
    #[must_use]
    pub fn brief(&self) -> String {
        let mut letters = self.about.trim_end_matches('.').chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        first.into_iter().chain(letters).collect()
    }

    /// What `--help` prints: every option with one line.
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
                let names = names(flag);
                let gap = COLUMN.saturating_sub(names.len() + 2);
                if gap < 2 {
                    out.push_str(&format!("  {names}\n{:COLUMN$}{}\n", "", flag.help));
                } else {
                    out.push_str(&format!("  {names}{:gap$}{}\n", "", flag.help));
                }
            }
        }
        out
    }
}

/// `-c DIR, --config-dir=DIR`.
fn names(flag: &Flag) -> String {
    let argument = match flag.takes {
        Takes::Nothing => None,
        Takes::Text(name)
        | Takes::Many(name)
        | Takes::Number(name)
        | Takes::Float(name)
        | Takes::Choice(name, _) => Some(name),
    };
    let short = flag
        .short
        .map(|c| argument.map_or_else(|| format!("-{c}"), |name| format!("-{c} {name}")));
    let long = flag.long.iter().map(|long| {
        argument.map_or_else(|| format!("--{long}"), |name| format!("--{long}={name}"))
    });
    short.into_iter().chain(long).collect::<Vec<_>>().join(", ")
}
