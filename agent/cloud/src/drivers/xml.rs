//! [`Element`]: XML as a tree, which can be changed and written again.

use quick_xml::escape::{escape, resolve_xml_entity};
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// The maximum depth of elements.
const DEPTH_MAX: usize = 64;

/// An element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    /// The name, with its prefix.
    pub(super) name: String,
    /// The attributes in their order.
    pub(super) attributes: Vec<(String, String)>,
    /// The elements in it.
    pub(super) inner: Vec<Self>,
    /// The text in it, without that of its elements.
    pub(super) text: String,
}

impl Element {
    /// Reads a document, and returns its outermost element.
    ///
    /// # Errors
    /// When it is not well formed, or too deep.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut reader = Reader::from_str(text);
        let mut open: Vec<Self> = Vec::new();
        loop {
            let event = reader.read_event().map_err(|error| error.to_string())?;
            let closed = match event {
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
                Event::Start(_) if open.len() >= DEPTH_MAX => {
                    return Err(format!("elements are more than {DEPTH_MAX} deep"));
                }
                Event::Start(tag) => {
                    open.push(opened(&tag)?);
                    continue;
                }
                Event::Empty(tag) => opened(&tag)?,
                Event::End(_) => open.pop().ok_or("an element ends that has not begun")?,
                Event::Eof => return Err("it has no element, or ends in one".to_owned()),
                other => {
                    add_text(open.last_mut(), &text_of(&other)?)?;
                    continue;
                }
            };
            match open.last_mut() {
                Some(outer) => outer.inner.push(closed),
                None => return Ok(closed),
            }
        }
    }

    /// Creates an element without contents.
    pub(super) fn new(name: &str, attributes: &[(&str, &str)]) -> Self {
        let attributes = attributes.iter();
        Self {
            name: name.to_owned(),
            attributes: attributes
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Self::default()
        }
    }

    /// Returns the element with a text.
    pub(super) fn with_text(mut self, text: &str) -> Self {
        text.clone_into(&mut self.text);
        self
    }

    /// Returns an attribute; empty if there is none.
    pub(super) fn attribute(&self, name: &str) -> &str {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value)
    }

    /// Sets an attribute.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.attributes.retain(|(key, _)| key != name);
        self.attributes.push((name.to_owned(), value.to_owned()));
    }

    /// Returns the first element with a name in this one.
    pub(super) fn find(&self, name: &str) -> Option<&Self> {
        self.inner.iter().find(|element| element.name == name)
    }

    /// Returns the text of the first element with a name in this one; empty if there is none.
    pub(super) fn text_of(&self, name: &str) -> &str {
        self.find(name).map_or("", |element| element.text.trim())
    }

    /// Removes the elements with a name from this one.
    pub(super) fn remove(&mut self, name: &str) {
        self.inner.retain(|element| element.name != name);
    }

    /// Returns the first element with a name in this one, which is created if there is none.
    pub(super) fn at(&mut self, name: &str) -> &mut Self {
        let found = self.inner.iter().position(|element| element.name == name);
        let at = found.unwrap_or_else(|| {
            self.inner.push(Self::new(name, &[]));
            self.inner.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the element was found or added")]
        &mut self.inner[at]
    }

    /// Returns the element as a document.
    pub(super) fn written(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        out.push('<');
        *out += &self.name;
        for (key, value) in &self.attributes {
            *out += &format!(" {key}=\"{}\"", coded(value));
        }
        out.push('>');
        *out += &coded(self.text.trim());
        self.inner.iter().for_each(|element| element.write(out));
        *out += &format!("</{}>", self.name);
    }
}

/// Creates the element of a tag.
fn opened(tag: &BytesStart<'_>) -> Result<Element, String> {
    let mut element = Element::new(tag.name().as_ref(), &[]);
    for attribute in tag.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.normalized_value(XmlVersion::Implicit1_0);
        let value = value.map_err(|error| error.to_string())?;
        let key = attribute.key.as_ref().to_owned();
        element.attributes.push((key, value.into_owned()));
    }
    Ok(element)
}

/// Returns the text of a part of a document.
fn text_of(part: &Event<'_>) -> Result<String, String> {
    match part {
        Event::Text(text) => Ok(text.xml10_content().into_owned()),
        Event::CData(text) => Ok(text.xml10_content().into_owned()),
        Event::GeneralRef(reference) => referenced(reference),
        _ => Err("a document type is not supported".to_owned()),
    }
}

/// Adds a text to the element that it is in.
fn add_text(inside: Option<&mut Element>, text: &str) -> Result<(), String> {
    match inside {
        Some(element) => element.text += text,
        None if text.trim().is_empty() => {}
        None => return Err("there is text outside of the element".to_owned()),
    }
    Ok(())
}

/// Returns the text of a reference.
fn referenced(reference: &BytesRef<'_>) -> Result<String, String> {
    let letter = reference.resolve_char_ref();
    match letter.map_err(|error| error.to_string())? {
        Some(letter) => Ok(letter.to_string()),
        None => resolve_xml_entity(reference)
            .map(str::to_owned)
            .ok_or_else(|| format!("&{}; is not known", &**reference)),
    }
}

/// Returns a text in the form that a document has. Control characters are left out, because XML has
/// none.
fn coded(text: &str) -> String {
    let is_allowed = |c: &char| !c.is_control() || ['\n', '\t'].contains(c);
    let text: String = text.chars().filter(is_allowed).collect();
    escape(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_and_written_again() {
        let text = "<?xml version='1.0'?>\n<!-- x -->\n<domain type='kvm'>\n  <name>a &amp; &#65;</name><!-- y --><d file='/a>b \"c\"' x = \"'\"/></domain>";
        let read = Element::read(text).unwrap();
        assert_eq!(read.attribute("type"), "kvm");
        assert_eq!(read.text_of("name"), "a & A");
        assert_eq!(read.find("d").unwrap().attribute("file"), "/a>b \"c\"");
        let written = read.written();
        assert_eq!(
            written,
            "<domain type=\"kvm\"><name>a &amp; A</name><d file=\"/a&gt;b &quot;c&quot;\" x=\"&apos;\"></d></domain>"
        );
        let mut again = Element::read(&written).unwrap();
        again.at("name").text = "web1".to_owned();
        again.at("uuid").set("x", "1");
        again.remove("d");
        assert_eq!(
            again.written(),
            "<domain type=\"kvm\"><name>web1</name><uuid x=\"1\"></uuid></domain>"
        );
    }

    #[test]
    fn what_is_not_well_formed_is_an_error() {
        for wrong in [
            "",
            "no",
            "<html><p></html>",
            "<a>",
            "<a",
            "<a><b></a></b>",
            "<>",
            "<a b></a>",
            "<a b=c></a>",
            "<a b='c></a>",
            "<!DOCTYPE a><a/>",
        ] {
            assert!(Element::read(wrong).is_err(), "{wrong}");
        }
        let deep = "<a>".repeat(100) + &"</a>".repeat(100);
        assert!(Element::read(&deep).unwrap_err().contains("deep"));
    }
}
