//! Hover, and the places of definitions.

use std::path::Path;

use lsp_types::Position;
use state::exec::{Registry, find};

use crate::complete::full_name;
use crate::cursor::{Element, Spot, on};
use crate::documents::byte_of;
use crate::outline::unquoted;
use crate::texts;
use crate::tree::{Sls, Target, Tree};

/// Returns the documentation of the word at a position, in Markdown.
pub(crate) fn hover(registry: &'static Registry, text: &str, at: Position) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let element = match on(&lines, at)? {
        Spot::Jinja { .. } => {
            let word = word(&lines, at)?;
            let full = word.strip_prefix("salt.").unwrap_or(word);
            return texts::function(registry, full, false);
        }
        Spot::Key(element) => element,
        Spot::Value { .. } => return None,
    };
    let (_, path) = element.in_id()?;
    match path {
        [] if element.text.contains('.') => texts::function(registry, element.text, true),
        [] => of_module(registry, element.text),
        [key] => {
            let parent = element.lines.last().copied()?;
            let full = full_name(key, parent, &lines)?;
            of_argument(registry, &full, element.text)
        }
        [_, option] if texts::is_requisite(option) => of_module(registry, element.text),
        _ => None,
    }
}

fn of_module(registry: &'static Registry, name: &str) -> Option<String> {
    let module = registry.states.iter().find(|module| module.name == name)?;
    let functions = module.functions.iter();
    let names: Vec<String> = functions
        .map(|one| format!("`{name}.{}`", one.name))
        .collect();
    Some(format!("{}\n\nStates: {}", module.doc, names.join(", ")))
}

fn of_argument(registry: &'static Registry, full: &str, name: &str) -> Option<String> {
    let function = find(registry.states, full);
    let arg = function.and_then(|function| function.args.iter().find(|arg| arg.name == name));
    if let Some(arg) = arg {
        return Some(texts::argument(full, arg));
    }
    if full.ends_with(&format!(".{name}")) {
        return texts::function(registry, full, true);
    }
    texts::option(name).map(|text| format!("`{name}`: an option of all states\n\n{text}"))
}

/// Returns the word at a position: it ends at spaces, quotes and brackets.
fn word<'a>(lines: &[&'a str], at: Position) -> Option<&'a str> {
    let line = lines.get(usize::try_from(at.line).ok()?)?;
    let (before, after) = line.split_at_checked(byte_of(line, at))?;
    let ends = |sign: char| sign.is_whitespace() || "'\"()[]{},|".contains(sign);
    let from = before.rfind(ends).map_or(0, |end| end + 1);
    let to = after.find(ends).unwrap_or(after.len());
    line.get(from..before.len() + to)
}

/// Returns the place of what the word at a position names.
pub(crate) fn definition(
    tree: &Tree,
    (path, text): (&Path, &str),
    sls: &Sls,
    at: Position,
) -> Option<Target> {
    let lines: Vec<&str> = text.lines().collect();
    let word = word(&lines, at)?;
    let beginning = |path| Target { path, line: 0 };
    if let Some(source) = word.strip_prefix("salt://") {
        let file = tree.file(source, sls.saltenv());
        return file.map(|file| beginning(file.path));
    }
    let state = |group: &str, name: &str| tree.declaration((path, text), sls, (group, name));
    let included = |name: &str| {
        let file = tree.included(sls, unquoted(name));
        file.map(|file| beginning(file.path))
    };
    match on(&lines, at)? {
        Spot::Jinja { .. } => tree
            .file(word, sls.saltenv())
            .map(|file| beginning(file.path)),
        Spot::Key(element) if names_sls(&element, sls) => included(element.text),
        Spot::Key(element) => match (element.path.as_slice(), element.in_id()) {
            // The ID is in another SLS.
            (["extend"], _) => tree.declaration((path, ""), sls, ("id", element.text)),
            (_, Some((_, [_, option]))) if texts::is_requisite(option) => state("id", element.text),
            _ => None,
        },
        Spot::Value { key, value } => {
            let name = unquoted(value.text);
            match value.in_id() {
                Some((_, [_, option])) if texts::is_requisite(option) => match key {
                    "sls" => included(name),
                    group => state(group, name),
                },
                _ => None,
            }
        }
    }
}

/// Returns whether an item names an SLS: of `include`, or of a top file.
fn names_sls(element: &Element<'_>, sls: &Sls) -> bool {
    let is_included = element.path == ["include"];
    element.is_item && (is_included || sls.name == "top" && element.path.len() == 2)
}
