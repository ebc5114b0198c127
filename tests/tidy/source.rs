//! The sources as tests see them: lines that are code, and functions with their lengths.

use std::fs;
use std::path::{Path, PathBuf};

/// The workspace's folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

/// One file, mostly of Rust.
pub(crate) struct Source {
    /// Its path in the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A function and its number of lines.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) lines: usize,
}

/// Every file of Rust below a folder of the workspace.
pub(crate) fn below(folder: &str) -> Vec<Source> {
    of_kind(folder, "rs")
}

/// Every file with this extension below a folder of the workspace, except for those that a build
/// wrote.
pub(crate) fn of_kind(folder: &str, extension: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![workspace().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let is_of_build = path.file_name().is_some_and(|name| name == "target");
                folders.extend((!is_of_build).then_some(path));
            } else if path.extension().is_some_and(|ext| ext == extension) {
                let inside = path.strip_prefix(workspace()).unwrap();
                found.push(Source {
                    path: inside.display().to_string(),
                    text: fs::read_to_string(&path).unwrap(),
                });
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has no .{extension} files");
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

impl Source {
    /// True for files that hold tests and what only tests use.
    pub(crate) fn is_test(&self) -> bool {
        let path = Path::new(&self.path);
        let name = path.file_stem().unwrap().to_str().unwrap();
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.test_modules().contains(&name.to_owned())
    }

    /// Returns the lines before the tests, with comment lines left empty.
    pub(crate) fn code(&self) -> Vec<&str> {
        let lines = self.text.lines();
        let mut code: Vec<&str> = lines
            .map(|line| {
                if line.trim_start().starts_with("//") {
                    ""
                } else {
                    line
                }
            })
            .collect();
        let starts = |pair: &[&str]| {
            pair[0].trim() == "#[cfg(test)]" && pair[1].contains("mod ") && pair[1].ends_with('{')
        };
        if let Some(tests) = code.windows(2).position(starts) {
            code.truncate(tests);
        }
        code
    }

    /// Returns the names of the modules in this file's folder that their parent declares as tests
    /// (`#[cfg(test)] mod corpus;`).
    fn test_modules(&self) -> Vec<String> {
        let file = workspace().join(&self.path);
        let folder = file.parent().unwrap();
        let beside = folder.with_extension("rs");
        let owners = [folder.join("mod.rs"), folder.join("lib.rs"), beside];
        let mut names = Vec::new();
        for text in owners
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok())
        {
            let lines: Vec<&str> = text.lines().collect();
            let pairs = lines
                .windows(2)
                .filter(|pair| pair[0].trim() == "#[cfg(test)]");
            names.extend(pairs.filter_map(|pair| {
                let declared = pair[1].rsplit_once("mod ")?.1;
                Some(declared.strip_suffix(';')?.to_owned())
            }));
        }
        names
    }

    /// Every function with a body of more than one line.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut found = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = function_name(line) else {
                continue;
            };
            let indent = &line[..line.len() - line.trim_start().len()];
            let end = format!("{indent}}}");
            let length = lines[at..].iter().position(|line| *line == end);
            // A declaration of a module's function ends otherwise, and has no body here.
            let declared = lines[at..]
                .iter()
                .position(|line| line.starts_with(indent) && line.ends_with("});"));
            if line.ends_with(';') || declared.is_some_and(|end| length.is_none_or(|l| end < l)) {
                continue;
            }
            if let Some(length) = length {
                found.push(Function {
                    name,
                    lines: length + 1,
                });
            }
        }
        found
    }
}

fn function_name(line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let name = loop {
        match words.next()? {
            "fn" => break words.next()?,
            "pub" | "const" | "async" | "unsafe" => {}
            word if word.starts_with("pub(") => {}
            "super)" | "super::super)" => {}
            _ => return None,
        }
    };
    let end = name.find(['(', '<'])?;
    Some(name[..end].to_owned())
}

#[test]
fn functions_are_found_with_their_lengths() {
    let source = Source {
        path: "x.rs".into(),
        text: "impl X {\n    pub fn a(&self) {\n        b();\n    }\n}\nfn c<T>(\n) {\n}\n".into(),
    };
    let found: Vec<(String, usize)> = source
        .functions()
        .into_iter()
        .map(|function| (function.name, function.lines))
        .collect();
    assert_eq!(found, [("a".to_owned(), 3), ("c".to_owned(), 3)]);
}
