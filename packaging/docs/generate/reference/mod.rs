//! The reference pages, in Markdown.

use std::collections::BTreeMap;
use std::fs;
use std::io::Error;
use std::path::Path;

mod commands;
mod differences;
mod lint;
mod modules;
pub(super) mod options;

/// The first line of each page.
const GENERATED: &str = "<!-- Generated: `cargo run -p pinch --example docs` writes this page. -->";

/// Returns every page by its path in the folder of the reference.
///
/// # Errors
/// If a list that the pages are made from cannot be read.
pub(super) fn pages() -> std::io::Result<BTreeMap<String, String>> {
    let mut pages = modules::pages();
    let mut add = |name: &str, text| pages.insert(name.to_owned(), text);
    add("commands.md", commands::page());
    add("differences.md", differences::page()?);
    add("lint.md", lint::page());
    add("options.md", options::page()?);
    Ok(pages)
}

/// Returns the beginning of a page.
fn head(title: &str, about: &str) -> String {
    format!("{GENERATED}\n\n# {title}\n\n{about}\n")
}

/// Returns the tables of a TOML file in the repository.
fn toml(path: &Path) -> std::io::Result<toml::Table> {
    let failed = |error: String| Error::other(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    text.parse()
        .map_err(|error: toml::de::Error| failed(error.to_string()))
}

/// Returns text as code. A text with backticks gets longer quotes.
fn code(text: &str) -> String {
    match text.contains('`') {
        true => format!("`` {text} ``"),
        false => format!("`{text}`"),
    }
}

/// Returns text for a cell of a table.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}

/// Returns text with the characters escaped that Markdown would read as HTML or as emphasis. Code
/// is left alone: between backticks, and in lines with an indent of four.
fn prose(text: &str) -> String {
    let lines = text.lines().map(|line| match line.starts_with("    ") {
        true => line.to_owned(),
        false => escaped(line),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn escaped(line: &str) -> String {
    let parts = line.split('`').enumerate().map(|(index, part)| {
        if index % 2 == 1 {
            return part.to_owned();
        }
        let (indent, rest) = part.split_at(part.len() - part.trim_start().len());
        // An item of a list keeps its star.
        let (star, rest) = match rest.strip_prefix("* ") {
            Some(rest) if index == 0 => ("* ", rest),
            _ => ("", rest),
        };
        let rest = rest.replace('<', "&lt;").replace('*', "\\*");
        format!("{indent}{star}{rest}")
    });
    parts.collect::<Vec<_>>().join("`")
}

/// Returns the first paragraph of a text as one line.
fn first(text: &str) -> String {
    let lines = text.lines().map(str::trim);
    let lines = lines.skip_while(|line| line.is_empty());
    let lines: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}
