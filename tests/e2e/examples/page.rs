//! The functions on the pages of the reference.

use std::fmt;
use std::fs;
use std::path::Path;

/// The kinds of functions, in the order in which their examples run: wheel functions delete keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    State,
    Function,
    Runner,
    Wheel,
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::State => "state",
            Self::Function => "function",
            Self::Runner => "runner",
            Self::Wheel => "wheel function",
        })
    }
}

/// A function as the reference shows it.
pub(super) struct Declared {
    pub(super) kind: Kind,
    /// Its name with the module's.
    pub(super) name: String,
    /// The names of its arguments, and whether they are required.
    pub(super) arguments: Vec<(String, bool)>,
    pub(super) varargs: bool,
    pub(super) kwargs: bool,
    pub(super) examples: Vec<String>,
}

impl Declared {
    fn new(kind: Kind, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            arguments: Vec::new(),
            varargs: false,
            kwargs: false,
            examples: Vec::new(),
        }
    }

    /// Adds a row of the table of arguments.
    fn row(&mut self, row: &str) {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let (name, default) = (cells.next().unwrap(), cells.next().unwrap());
        match name.trim_matches('`') {
            "argument" | "---" => {}
            "*args" => self.varargs = true,
            "**kwargs" => self.kwargs = true,
            name => self
                .arguments
                .push((name.to_owned(), default == "required")),
        }
    }
}

/// Returns all functions of the reference.
pub(super) fn functions() -> Vec<Declared> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/docs/reference/modules");
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let pages = paths.iter().map(|path| fs::read_to_string(path).unwrap());
    pages.flat_map(|page| on_page(&page)).collect()
}

fn on_page(page: &str) -> Vec<Declared> {
    let mut all: Vec<Declared> = Vec::new();
    let mut kind = Kind::State;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        match line {
            "## States" => kind = Kind::State,
            "## Execution functions" => kind = Kind::Function,
            "## Runners" => kind = Kind::Runner,
            "## Wheel functions" => kind = Kind::Wheel,
            _ => {}
        }
        if let Some(name) = line.strip_prefix("### ") {
            all.push(Declared::new(kind, name.trim_matches('`')));
        }
        let Some(function) = all.last_mut() else {
            continue;
        };
        if line.starts_with("```") {
            let example = lines.by_ref().take_while(|line| *line != "```");
            function
                .examples
                .push(example.collect::<Vec<_>>().join("\n"));
        } else if line.starts_with('|') {
            function.row(line);
        }
    }
    all
}
