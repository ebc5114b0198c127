//! A text of XML with its elements, each with where it stands: what is changed is changed there.

use std::ops::Range;

use crate::xml::split_tag;

/// An attribute.
pub(crate) struct Attribute {
    /// Its name, with that of its namespace in braces where it has one.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: String,
    /// Where the value stands, with its quotes.
    place: Range<usize>,
}

/// An element.
pub(crate) struct Node {
    /// Its name, with that of its namespace in braces where it has one.
    pub(crate) name: String,
    /// Its attributes, without those that declare namespaces.
    pub(crate) attributes: Vec<Attribute>,
    /// The element that it is in.
    pub(crate) parent: Option<usize>,
    /// The elements in it.
    pub(crate) children: Vec<usize>,
    /// Its name as it is written.
    written: String,
    /// The prefixes that it declares.
    prefixes: Vec<(String, String)>,
    /// Its start tag.
    tag: Range<usize>,
    /// What is between its tags; none where it is one tag.
    inside: Option<Range<usize>>,
}

/// A text and its elements, each before those that are in it.
pub(crate) struct Tree {
    source: String,
    /// The elements; the first has all others in it.
    pub(crate) nodes: Vec<Node>,
}

/// What a text is cut into.
enum Piece<'a> {
    Text(&'a str),
    Literal(&'a str),
    Open(&'a str),
    Close(&'a str),
    Other,
}

/// The first piece of a text, and its length.
fn piece(text: &str) -> Result<(Piece<'_>, usize), String> {
    const WHOLE: [(&str, &str); 3] = [("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>")];
    if !text.starts_with('<') {
        let end = text.find('<').unwrap_or(text.len());
        return Ok((Piece::Text(text.get(..end).unwrap_or_default()), end));
    }
    for (start, end) in WHOLE {
        if let Some(rest) = text.strip_prefix(start) {
            let (inside, _) = rest
                .split_once(end)
                .ok_or_else(|| format!("no end of {start}"))?;
            let length = start.len() + inside.len() + end.len();
            let is_literal = start == "<![CDATA[";
            return Ok(match is_literal {
                true => (Piece::Literal(inside), length),
                false => (Piece::Other, length),
            });
        }
    }
    let tag = text.get(1..).unwrap_or_default();
    let (inside, after) = split_tag(tag).ok_or("no end of a tag")?;
    let length = text.len() - after.len();
    Ok(match inside.as_bytes().first() {
        Some(b'/') => (Piece::Close(inside.get(1..).unwrap_or_default()), length),
        Some(b'!') if inside.contains('[') => return Err("a DOCTYPE with declarations".into()),
        Some(b'!') => (Piece::Other, length),
        _ => (Piece::Open(inside), length),
    })
}

/// A text with the signs that its references stand for.
fn unescaped(text: &str) -> Result<String, String> {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(';').ok_or("a lone '&'")?;
        let sign = match name {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            name => name.strip_prefix('#').and_then(|number| {
                let number = match number.strip_prefix('x') {
                    Some(digits) => u32::from_str_radix(digits, 16).ok(),
                    None => number.parse().ok(),
                };
                char::from_u32(number?)
            }),
        };
        plain.push(sign.ok_or_else(|| format!("undefined entity &{name};"))?);
        plain += rest;
    }
    Ok(plain)
}

/// The text between tags, without what is no text.
fn plain(mut source: &str) -> Result<String, String> {
    let mut text = String::new();
    while !source.is_empty() {
        let (piece, length) = piece(source)?;
        match piece {
            Piece::Text(words) => text += &unescaped(words)?,
            Piece::Literal(words) => text += words,
            _ => {}
        }
        source = source.get(length..).unwrap_or_default();
    }
    Ok(text)
}

/// What may not stand so in a text is written as ElementTree writes it.
fn escaped(text: &str, more: &[char]) -> String {
    let sign = |sign: char| match sign {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' if more.contains(&'"') => "&quot;".to_owned(),
        '\t' if more.contains(&'\t') => "&#09;".to_owned(),
        sign if !sign.is_ascii() || more.contains(&sign) => format!("&#{};", u32::from(sign)),
        sign => sign.to_string(),
    };
    text.chars().map(sign).collect()
}

/// The name that a tag begins with.
fn name_of(tag: &str) -> &str {
    let end = tag.find(|sign: char| sign.is_whitespace() || sign == '/');
    tag.get(..end.unwrap_or(tag.len())).unwrap_or_default()
}

/// The attributes of a tag that stands at a place, as they are written.
fn attributes(tag: &str, at: usize) -> Result<Vec<Attribute>, String> {
    let mut all = Vec::new();
    let mut rest = tag.get(name_of(tag).len()..).unwrap_or_default();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() || rest == "/" {
            return Ok(all);
        }
        let (name, after) = rest.split_once('=').unwrap_or((rest, ""));
        let (name, after) = (name.trim_end(), after.trim_start());
        let value = after
            .chars()
            .next()
            .filter(|sign| matches!(sign, '"' | '\''));
        let value = value.and_then(|quote| after.get(1..)?.split_once(quote));
        let (value, further) = value.ok_or_else(|| format!("'{name}' has no value in quotes"))?;
        let start = at + tag.len() - after.len();
        all.push(Attribute {
            name: name.to_owned(),
            value: unescaped(&value.replace(['\t', '\n', '\r'], " "))?,
            place: start..start + value.len() + 2,
        });
        rest = further;
    }
}

impl Tree {
    /// Reads a text; what is wrong is told with its line.
    pub(crate) fn parse(source: String) -> Result<Self, String> {
        let mut tree = Self {
            nodes: Vec::new(),
            source: String::new(),
        };
        let (mut at, mut open) = (0, None);
        let problem = loop {
            let rest = source.get(at..).unwrap_or_default();
            if rest.is_empty() {
                break tree.end_problem(open);
            }
            let read = piece(rest).and_then(|(piece, length)| {
                open = tree.take(piece, at..at + length, open)?;
                Ok(length)
            });
            match read {
                Ok(length) => at += length,
                Err(problem) => break Some(problem),
            }
        };
        if let Some(problem) = problem {
            let rest = source.get(at..).unwrap_or_default();
            let at = source.len() - rest.trim_start().len();
            let line = 1 + source.get(..at).unwrap_or_default().matches('\n').count();
            return Err(format!("line {line}: {problem}"));
        }
        tree.source = source;
        Ok(tree)
    }

    /// What is missing at the end of the text.
    fn end_problem(&self, open: Option<usize>) -> Option<String> {
        match open.and_then(|open| self.nodes.get(open)) {
            Some(open) => Some(format!("no end of <{}>", open.written)),
            None if self.nodes.is_empty() => Some("no element found".into()),
            None => None,
        }
    }

    /// Takes one more piece, within the element that is open; which one is open then.
    fn take(
        &mut self,
        piece: Piece<'_>,
        place: Range<usize>,
        open: Option<usize>,
    ) -> Result<Option<usize>, String> {
        match piece {
            Piece::Text(text) if open.is_none() && !text.trim().is_empty() => {
                Err("a text outside of the element".into())
            }
            Piece::Literal(_) if open.is_none() => Err("a text outside of the element".into()),
            Piece::Open(_) if open.is_none() && !self.nodes.is_empty() => {
                Err("a second element".into())
            }
            Piece::Open(tag) => self.opened(tag, place, open),
            Piece::Close(name) => self.closed(name.trim_end(), place.start, open),
            _ => Ok(open),
        }
    }

    fn opened(
        &mut self,
        tag: &str,
        place: Range<usize>,
        parent: Option<usize>,
    ) -> Result<Option<usize>, String> {
        let mut all = attributes(tag, place.start + 1)?;
        let declared = |one: &mut Attribute| one.name == "xmlns" || one.name.starts_with("xmlns:");
        let prefixes = all.extract_if(.., declared).map(|one| {
            let prefix = one.name.strip_prefix("xmlns:").unwrap_or_default();
            (prefix.to_owned(), one.value)
        });
        let number = self.nodes.len();
        self.nodes.push(Node {
            name: String::new(),
            prefixes: prefixes.collect(),
            attributes: Vec::new(),
            parent,
            children: Vec::new(),
            written: name_of(tag).to_owned(),
            inside: (!tag.ends_with('/')).then_some(place.end..place.end),
            tag: place,
        });
        for one in &mut all {
            if one.name.contains(':') {
                one.name = self.full_name(number, &one.name)?;
            }
        }
        let name = self.full_name(number, name_of(tag))?;
        if let Some(node) = self.nodes.get_mut(number) {
            (node.name, node.attributes) = (name, all);
        }
        if let Some(parent) = parent.and_then(|parent| self.nodes.get_mut(parent)) {
            parent.children.push(number);
        }
        Ok(match tag.ends_with('/') {
            true => parent,
            false => Some(number),
        })
    }

    fn closed(
        &mut self,
        name: &str,
        at: usize,
        open: Option<usize>,
    ) -> Result<Option<usize>, String> {
        let node = open.and_then(|open| self.nodes.get_mut(open));
        let node = node.ok_or_else(|| format!("</{name}> ends nothing"))?;
        if node.written != name {
            return Err(format!("</{name}> stands where </{}> should", node.written));
        }
        if let Some(inside) = &mut node.inside {
            inside.end = at;
        }
        Ok(node.parent)
    }

    /// A name with that of its namespace in the place of its prefix.
    fn full_name(&self, node: usize, name: &str) -> Result<String, String> {
        let (prefix, local) = name.split_once(':').unwrap_or(("", name));
        let mut at = self.nodes.get(node);
        while let Some(node) = at {
            let known = node.prefixes.iter().find(|(known, _)| known == prefix);
            if let Some((_, space)) = known {
                return Ok(match space.as_str() {
                    "" => local.to_owned(),
                    space => format!("{{{space}}}{local}"),
                });
            }
            at = node.parent.and_then(|parent| self.nodes.get(parent));
        }
        match prefix {
            "" => Ok(local.to_owned()),
            "xml" => Ok(format!("{{http://www.w3.org/XML/1998/namespace}}{local}")),
            _ => Err(format!("the prefix {prefix} is not declared")),
        }
    }

    /// Where the text of an element stands: before the first element in it.
    fn place_of_text(&self, node: &Node) -> Option<Range<usize>> {
        let inside = node.inside.clone()?;
        let first = node
            .children
            .first()
            .and_then(|first| self.nodes.get(*first));
        Some(inside.start..first.map_or(inside.end, |first| first.tag.start))
    }

    fn part(&self, place: Range<usize>) -> &str {
        self.source.get(place).unwrap_or_default()
    }

    /// The text of an element, before the first element in it.
    pub(crate) fn text(&self, node: &Node) -> Result<String, String> {
        plain(self.part(self.place_of_text(node).unwrap_or_default()))
    }

    /// All text in an element.
    pub(crate) fn all_text(&self, node: &Node) -> Result<String, String> {
        plain(self.part(node.inside.clone().unwrap_or_default()))
    }

    /// The whole text with another part in the place of one.
    fn with(&self, place: Range<usize>, part: &str) -> String {
        let (before, after) = (0..place.start, place.end..self.source.len());
        format!("{}{part}{}", self.part(before), self.part(after))
    }

    /// The whole text with another text of an element.
    pub(crate) fn with_text(&self, node: &Node, text: &str) -> String {
        let text = escaped(text, &[]);
        match self.place_of_text(node) {
            Some(place) => self.with(place, &text),
            None => {
                let tag = self
                    .part(node.tag.clone())
                    .trim_end_matches("/>")
                    .trim_end();
                let name = &node.written;
                self.with(node.tag.clone(), &format!("{tag}>{text}</{name}>"))
            }
        }
    }

    /// The whole text with another value of an attribute of an element.
    pub(crate) fn with_attribute(
        &self,
        node: &Node,
        key: &str,
        value: &str,
    ) -> Result<String, String> {
        let value = format!("\"{}\"", escaped(value, &['"', '\r', '\n', '\t']));
        if let Some(known) = node.attributes.iter().find(|known| known.name == key) {
            return Ok(self.with(known.place.clone(), &value));
        }
        let is_sign = |sign: char| sign.is_alphanumeric() || matches!(sign, '_' | '-' | '.');
        if !key.starts_with(|sign: char| sign.is_alphabetic() || sign == '_')
            || !key.chars().all(is_sign)
        {
            return Err(format!("'{key}' is no name of a new attribute"));
        }
        let tag = self.part(node.tag.clone());
        let end = if node.inside.is_some() { ">" } else { "/>" };
        let start = tag.strip_suffix(end).unwrap_or(tag);
        let (start, space) = start.split_at(start.trim_end().len());
        Ok(self.with(
            node.tag.clone(),
            &format!("{start} {key}={value}{space}{end}"),
        ))
    }
}
