//! The paths by which Python's ElementTree finds an element: `./a//b[@id='1'][2]/..`.

use crate::xml_tree::{Node, Tree};

/// What is in brackets.
enum Only {
    /// `[2]`, `[last()]`: among the elements of its name; the second counts from the end.
    Place(usize),
    FromEnd(usize),
    /// `[@a]`, `[tag]`, `[.='x']` and the like: of what, and what it must be or must not be.
    Has(String, Option<(bool, String)>),
}

/// One step: whether elements may lie deeper, which, and which of those only.
struct Step {
    deep: bool,
    name: String,
    only: Vec<Only>,
}

fn only(inside: &str) -> Option<Only> {
    let inside = inside.trim();
    if let Ok(place) = inside.parse::<usize>() {
        return place.checked_sub(1).map(Only::Place);
    }
    if let Some(rest) = inside.strip_prefix("last()") {
        let back = match rest.trim() {
            "" => Some(0),
            rest => rest.strip_prefix('-')?.trim().parse().ok(),
        };
        return back.map(Only::FromEnd);
    }
    let Some((what, value)) = inside.split_once('=') else {
        return Some(Only::Has(inside.to_owned(), None));
    };
    let value = value.trim();
    let quote = value
        .chars()
        .next()
        .filter(|sign| matches!(sign, '"' | '\''))?;
    let value = value.strip_prefix(quote)?.strip_suffix(quote)?;
    let (what, same) = match what.strip_suffix('!') {
        Some(what) => (what, false),
        None => (what, true),
    };
    Some(Only::Has(
        what.trim().to_owned(),
        Some((same, value.to_owned())),
    ))
}

/// Where a step's name ends: slashes in the braces of a namespace are part of it.
fn end_of_name(path: &str) -> usize {
    let after = path.starts_with('{').then(|| path.find('}')).flatten();
    let start = after.unwrap_or(0);
    let end = path.get(start..).and_then(|rest| rest.find(['/', '[']));
    end.map_or(path.len(), |end| start + end)
}

/// Where brackets end: one in quotes does not count.
fn end_of_brackets(path: &str) -> Option<usize> {
    let mut quote = None;
    path.char_indices().find_map(|(at, sign)| {
        match (sign, quote) {
            (']', None) => return Some(at),
            ('"' | '\'', None) => quote = Some(sign),
            (sign, Some(open)) if sign == open => quote = None,
            _ => {}
        }
        None
    })
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    // A path from the top is one from the element that has all others in it, and a slash at the end means what is there.
    let mut rest = path
        .strip_prefix('/')
        .filter(|rest| !rest.starts_with('/'))
        .unwrap_or(path);
    let whole = rest.ends_with('/').then(|| format!("{rest}*"));
    rest = whole.as_deref().unwrap_or(rest);
    while !rest.is_empty() {
        let deep = rest.starts_with('/') && (steps.is_empty() || rest.starts_with("//"));
        rest = rest.trim_start_matches('/');
        let (name, after) = rest.split_at_checked(end_of_name(rest))?;
        let mut step = Step {
            deep,
            name: name.to_owned(),
            only: Vec::new(),
        };
        rest = after;
        while let Some(inside) = rest.strip_prefix('[') {
            let (inside, after) = inside.split_at_checked(end_of_brackets(inside)?)?;
            step.only.push(only(inside)?);
            rest = after.strip_prefix(']')?;
        }
        if step.name.is_empty() || !(rest.is_empty() || rest.starts_with('/')) {
            return None;
        }
        steps.push(step);
    }
    (!steps.is_empty()).then_some(steps)
}

/// Whether an element has a name: `*` is any, `{*}a` is any namespace, `{a}*` any of a namespace.
fn is_named(node: &Node, wanted: &str) -> bool {
    let local = node.name.rsplit('}').next().unwrap_or_default();
    match (wanted.strip_prefix("{*}"), wanted.strip_suffix('*')) {
        (Some("*"), _) | (_, Some("")) => true,
        (Some(wanted), _) => wanted == local,
        (None, Some(space)) => node.name.starts_with(space),
        (None, None) => node.name == wanted,
    }
}

struct Search<'a>(&'a Tree);

impl<'a> Search<'a> {
    fn node(&self, number: usize) -> Option<&'a Node> {
        self.0.nodes.get(number)
    }

    fn below(&self, number: usize, found: &mut Vec<usize>) {
        for child in self
            .node(number)
            .into_iter()
            .flat_map(|node| &node.children)
        {
            found.push(*child);
            self.below(*child, found);
        }
    }

    /// Those to which a step leads from one.
    fn step(&self, from: usize, step: &Step) -> Vec<usize> {
        let Some(node) = self.node(from) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        match (step.name.as_str(), step.deep) {
            (".", false) => return vec![from],
            ("..", false) => return node.parent.into_iter().collect(),
            (_, true) => self.below(from, &mut found),
            (_, false) => found.extend(&node.children),
        }
        found.retain(|number| {
            self.node(*number)
                .is_some_and(|node| is_named(node, &step.name))
        });
        found
    }

    /// Whether an element is the one of a place among those of its name.
    fn stands(&self, number: usize, place: impl Fn(usize) -> Option<usize>) -> bool {
        let node = self.node(number);
        let parent = node.and_then(|node| self.node(node.parent?));
        let (Some(node), Some(parent)) = (node, parent) else {
            return false;
        };
        let same = |other: &&usize| {
            self.node(**other)
                .is_some_and(|other| other.name == node.name)
        };
        let all: Vec<&usize> = parent.children.iter().filter(same).collect();
        let meant = place(all.len()).and_then(|place| all.get(place));
        meant.is_some_and(|meant| **meant == number)
    }

    fn has(
        &self,
        number: usize,
        what: &str,
        value: Option<&(bool, String)>,
    ) -> Result<bool, String> {
        let Some(node) = self.node(number) else {
            return Ok(false);
        };
        let is = |text: &str| value.is_none_or(|(same, value)| (value == text) == *same);
        if let Some(name) = what.strip_prefix('@') {
            let mut attributes = node.attributes.iter();
            return Ok(attributes.any(|one| one.name == name && is(&one.value)));
        }
        if what == "." {
            return Ok(is(&self.0.all_text(node)?));
        }
        for child in node.children.iter().filter_map(|child| self.node(*child)) {
            if is_named(child, what) && is(&self.0.all_text(child)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_kept(&self, number: usize, only: &Only) -> Result<bool, String> {
        match only {
            Only::Place(place) => Ok(self.stands(number, |_| Some(*place))),
            Only::FromEnd(back) => Ok(self.stands(number, |all| all.checked_sub(back + 1))),
            Only::Has(what, value) => self.has(number, what, value.as_ref()),
        }
    }
}

/// The first element that a path leads to.
pub(crate) fn find<'a>(tree: &'a Tree, path: &str) -> Result<Option<&'a Node>, String> {
    let steps = steps(path).ok_or_else(|| format!("'{path}' is no path to an element"))?;
    let search = Search(tree);
    let mut current = vec![0];
    for step in &steps {
        let mut next: Vec<usize> = Vec::new();
        for number in current {
            for number in search.step(number, step) {
                if !next.contains(&number) {
                    next.push(number);
                }
            }
        }
        for only in &step.only {
            let mut kept = Vec::new();
            for number in next {
                if search.is_kept(number, only)? {
                    kept.push(number);
                }
            }
            next = kept;
        }
        current = next;
    }
    Ok(current.first().and_then(|number| tree.nodes.get(*number)))
}
