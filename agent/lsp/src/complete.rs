//! Completion of what is typed.

use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, MarkupContent,
    MarkupKind, Position, Range, TextEdit,
};
use state::exec::Registry;
use value::{Map, Value, secret};

use crate::cursor::{Element, Spot, typed};
use crate::documents::{byte_of, column_of};
use crate::outline::{self, Line};
use crate::texts;
use crate::tree::{Sls, Tree};

/// The maximum number of items of one answer.
const ITEMS_MAX: usize = 2000;

/// The input of a completion.
pub(crate) struct Completion<'a> {
    pub(crate) registry: &'static Registry,
    pub(crate) tree: Option<&'a Tree>,
    pub(crate) sls: Option<&'a Sls>,
    pub(crate) text: &'a str,
}

/// A word that can be typed here, and what follows it.
struct Word {
    text: String,
    /// The characters that are inserted after it.
    after: &'static str,
    kind: CompletionItemKind,
    detail: String,
    doc: String,
}

impl Word {
    fn new(text: impl Into<String>, kind: CompletionItemKind) -> Self {
        Self {
            text: text.into(),
            after: "",
            kind,
            detail: String::new(),
            doc: String::new(),
        }
    }

    fn before(self, after: &'static str) -> Self {
        Self { after, ..self }
    }
}

impl Completion<'_> {
    /// Returns the completions at a position.
    pub(crate) fn at(&self, position: Position) -> Vec<CompletionItem> {
        let lines: Vec<&str> = self.text.lines().collect();
        let line = usize::try_from(position.line).ok();
        let line = line
            .and_then(|at| lines.get(at))
            .copied()
            .unwrap_or_default();
        let byte = byte_of(line, position);
        let Some(spot) = typed(&lines, position) else {
            return Vec::new();
        };
        let (words, from) = match &spot {
            Spot::Jinja { before } => {
                let (words, typed) = self.jinja(before);
                (words, byte - typed.len())
            }
            Spot::Key(element) => (self.keys(element, &lines), element.from),
            Spot::Value { key, value } => (self.values(key, value), value.from),
        };
        let typed = line.get(from..byte).unwrap_or_default();
        let rest = line.get(byte..).unwrap_or_default();
        let range = Range {
            start: Position::new(position.line, column_of(line, from)),
            end: position,
        };
        let matching = words
            .into_iter()
            .filter(|word| word.text.starts_with(typed));
        matching
            .take(ITEMS_MAX)
            .map(|word| item(word, range, rest))
            .collect()
    }

    fn keys(&self, element: &Element<'_>, lines: &[&str]) -> Vec<Word> {
        let path = element.path.as_slice();
        match (path, element.is_item) {
            ([], false) => {
                let words = ["include", "extend", "exclude"].into_iter();
                words
                    .map(|word| Word::new(word, CompletionItemKind::KEYWORD).before(":"))
                    .collect()
            }
            (["include"], true) => self.sls_names(),
            (["extend"], false) => self.ids("id", ":"),
            ([_, _], true) if self.is_top() => self.sls_names(),
            _ => match element.in_id() {
                Some((_, [])) if !element.is_item && !self.is_top() => self.state_functions(),
                Some((_, [function])) if element.is_item => {
                    self.arguments(function, element, lines)
                }
                Some((_, [_, option])) if element.is_item && texts::is_requisite(option) => {
                    self.state_modules()
                }
                _ => Vec::new(),
            },
        }
    }

    fn values(&self, key: &str, value: &Element<'_>) -> Vec<Word> {
        match value.in_id() {
            Some((_, [_, option])) if value.is_item && texts::is_requisite(option) => match key {
                "sls" => self.sls_names(),
                group => self.ids(group, ""),
            },
            _ => Vec::new(),
        }
    }

    /// Returns whether the document is a top file.
    fn is_top(&self) -> bool {
        self.sls.is_some_and(|sls| sls.name == "top")
    }

    fn sls_names(&self) -> Vec<Word> {
        let names = self.tree.map(|tree| tree.names("sls"));
        sorted(names.unwrap_or_default())
            .map(|name| Word::new(name, CompletionItemKind::MODULE))
            .collect()
    }

    /// Returns the IDs and names of states of a module; those of this text are included.
    fn ids(&self, group: &str, after: &'static str) -> Vec<Word> {
        let mut names = self.tree.map_or_else(Vec::new, |tree| tree.names(group));
        let own = outline::ids(self.text).into_iter();
        let own = own.filter(|(_, _, modules)| group == "id" || modules.contains(&group));
        names.extend(own.map(|(_, id, _)| id.to_owned()));
        sorted(names)
            .map(|name| Word::new(name, CompletionItemKind::REFERENCE).before(after))
            .collect()
    }

    fn state_functions(&self) -> Vec<Word> {
        let all = texts::states(self.registry);
        all.map(|(name, function)| Word {
            detail: texts::first_line(function.doc).to_owned(),
            ..Word::new(name, CompletionItemKind::FUNCTION).before(":")
        })
        .collect()
    }

    fn state_modules(&self) -> Vec<Word> {
        let modules = self.registry.states.iter().map(|module| module.name);
        let words = ["id", "sls"].into_iter().chain(modules);
        words
            .map(|word| Word::new(word, CompletionItemKind::MODULE).before(": "))
            .collect()
    }

    /// Returns the arguments of a function of a state, and the options of all states. In the long
    /// form, an item of the list names the function.
    fn arguments(&self, key: &str, element: &Element<'_>, lines: &[&str]) -> Vec<Word> {
        let parent = element.lines.last().copied().unwrap_or_default();
        let Some(full) = full_name(key, parent, lines) else {
            let functions = texts::states(self.registry);
            let own = functions.filter_map(|(name, _)| {
                let (module, function) = name.split_once('.')?;
                (module == key).then(|| Word::new(function, CompletionItemKind::FUNCTION))
            });
            return own.collect();
        };
        let function = state::exec::find(self.registry.states, &full);
        let args = function.map_or(&[][..], |function| function.args);
        let own = args.iter().map(|arg| Word {
            detail: texts::first_line(arg.doc).to_owned(),
            doc: texts::argument(&full, arg),
            ..Word::new(arg.name, CompletionItemKind::PROPERTY).before(": ")
        });
        let is_own = |word: &str| args.iter().any(|arg| arg.name == word);
        let options = texts::OPTIONS.iter().filter(|(word, _)| !is_own(word));
        let options = options.map(|(word, text)| Word {
            detail: (*text).to_owned(),
            ..Word::new(*word, CompletionItemKind::KEYWORD).before(
                match texts::is_requisite(word) {
                    true => ":",
                    false => ": ",
                },
            )
        });
        own.chain(options).collect()
    }

    /// Returns the words for a tag of Jinja, and the part of the word that is typed.
    fn jinja<'t>(&self, before: &'t str) -> (Vec<Word>, &'t str) {
        if let Some((path, typed)) = pillar_path(before) {
            return (self.pillar_keys(&path), typed);
        }
        let typed = before.rsplit("salt['").next().unwrap_or_default();
        let typed = typed.rsplit("salt[\"").next().unwrap_or_default();
        let is_call = typed.len() < before.len() && !typed.contains(['\'', '"']);
        if !is_call {
            return (Vec::new(), "");
        }
        let modules = self.registry.functions.iter();
        let all = modules.flat_map(|module| {
            let functions = module.functions.iter();
            functions.map(move |function| Word {
                detail: texts::first_line(function.doc).to_owned(),
                ..Word::new(
                    format!("{}.{}", module.name, function.name),
                    CompletionItemKind::FUNCTION,
                )
            })
        });
        (all.collect(), typed)
    }

    /// Returns the keys of the pillar below a path.
    fn pillar_keys(&self, path: &[&str]) -> Vec<Word> {
        let report = self.tree.and_then(|tree| tree.report.as_ref());
        let pillars = report.iter().flat_map(|report| report.pillars.iter());
        let keys = pillars
            .filter_map(|pillar| below(pillar, path))
            .flat_map(Map::keys);
        let keys = keys
            .filter_map(Value::as_str)
            .filter(|key| !key.starts_with('_'));
        sorted(keys.map(|key| secret::text(key).into_owned()).collect())
            .map(|key| Word::new(key, CompletionItemKind::FIELD))
            .collect()
    }
}

/// Returns the full name of the function of a state: the key, or the key with the item of its list
/// that is a name.
pub(crate) fn full_name(key: &str, parent: usize, lines: &[&str]) -> Option<String> {
    if key.contains('.') {
        return Some(key.to_owned());
    }
    let level = Line::read(lines.get(parent)?)?.column;
    let below = lines.get(parent + 1..)?.iter();
    let items = below
        .filter_map(|line| Line::read(line))
        .take_while(|line| line.column > level);
    let mut items = items.filter(|line| line.dash.is_some() && line.value.is_none());
    let function = items.find(|line| !line.key.is_empty())?.key;
    Some(format!("{key}.{function}"))
}

/// Returns the dictionary of a pillar below a path of keys.
fn below<'a>(pillar: &'a Map, path: &[&str]) -> Option<&'a Map> {
    let mut map = pillar;
    for key in path {
        map = map.get(key)?.as_map()?;
    }
    Some(map)
}

/// Returns the keys of a pillar that an expression names before the cursor, and the part of a key
/// that is typed: `pillar['a']['b`, `pillar.a.b`, `pillar.get('a:b` and `salt['pillar.get']('a:b`.
fn pillar_path(before: &str) -> Option<(Vec<&str>, &str)> {
    let at = before.rfind("pillar")?;
    let rest = before.get(at + "pillar".len()..)?;
    let quoted = rest
        .strip_prefix(".get")
        .and_then(|rest| rest.trim_start_matches(['\'', '"', ']']).strip_prefix('('))
        .and_then(|rest| rest.trim_start().strip_prefix(['\'', '"']));
    if let Some(keys) = quoted {
        let mut keys: Vec<&str> = keys.split(':').collect();
        let typed = keys.pop()?;
        return (!typed.contains(['\'', '"'])).then_some((keys, typed));
    }
    // A function is being typed, such as `salt['pillar.g`.
    let before = before.get(..at)?;
    if before.ends_with(['\'', '"', '.']) {
        return None;
    }
    let mut keys: Vec<&str> = Vec::new();
    let mut rest = rest;
    loop {
        let (key, after) = if let Some(inside) = rest.strip_prefix("['") {
            split_key(inside, "']")
        } else if let Some(inside) = rest.strip_prefix("[\"") {
            split_key(inside, "\"]")
        } else {
            let inside = rest.strip_prefix('.')?;
            let end = inside.find(['.', '[']).unwrap_or(inside.len());
            let (key, after) = inside.split_at_checked(end)?;
            (key, (!after.is_empty()).then_some(after))
        };
        match after {
            Some(after) => {
                keys.push(key);
                rest = after;
            }
            None if key.contains([' ', '(', ')', '|', '\'', '"', ']']) => return None,
            None => return Some((keys, key)),
        }
    }
}

/// Splits a text at the end of a quoted key; there is no rest if the key is not closed.
fn split_key<'a>(inside: &'a str, end: &str) -> (&'a str, Option<&'a str>) {
    match inside.split_once(end) {
        Some((key, rest)) => (key, Some(rest)),
        None => (inside, None),
    }
}

fn sorted(mut names: Vec<String>) -> impl Iterator<Item = String> {
    names.sort();
    names.dedup();
    names.into_iter()
}

fn item(word: Word, range: Range, rest: &str) -> CompletionItem {
    let after = match rest.starts_with(word.after.trim_end()) {
        true => "",
        false => word.after,
    };
    let new_text = format!("{}{after}", word.text);
    let doc = (!word.doc.is_empty()).then_some(Documentation::MarkupContent(MarkupContent {
        kind: MarkupKind::Markdown,
        value: word.doc,
    }));
    CompletionItem {
        label: word.text,
        kind: Some(word.kind),
        detail: (!word.detail.is_empty()).then_some(word.detail),
        documentation: doc,
        text_edit: Some(CompletionTextEdit::Edit(TextEdit { range, new_text })),
        ..CompletionItem::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_pillar_keys() {
        for (before, path, typed) in [
            ("pillar['a']['b", &["a"][..], "b"),
            ("pillar[\"", &[], ""),
            ("x in pillar.a.b", &["a"], "b"),
            ("pillar.get('a:b:", &["a", "b"], ""),
            ("salt['pillar.get']('a:b", &["a"], "b"),
            ("salt.pillar.get(\"x", &[], "x"),
        ] {
            assert_eq!(
                pillar_path(before),
                Some((path.to_vec(), typed)),
                "{before}"
            );
        }
        for before in [
            "grains['a",
            "pillar['a'] | ",
            "pillar.get('a') ~ '",
            "pillars",
            "salt['pillar.g",
        ] {
            assert_eq!(pillar_path(before), None, "{before}");
        }
    }

    #[test]
    fn the_long_form_of_a_state_has_its_function_in_the_list() {
        let lines = ["a:", "  pkg:", "    - name: x", "    - installed", "b:"];
        assert_eq!(full_name("pkg", 1, &lines).unwrap(), "pkg.installed");
        assert_eq!(full_name("file", 4, &lines), None);
        assert_eq!(full_name("a.b", 0, &lines).unwrap(), "a.b");
    }
}
