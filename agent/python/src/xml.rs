//! XML, as far as the output of zypper requires it: elements in order, each with its attributes and
//! the text at its beginning.

/// A start tag, and the text after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The name.
    pub name: String,
    attributes: Vec<(String, String)>,
    /// The text up to the next tag.
    pub text: String,
}

impl Element {
    /// Returns the value of an attribute; an empty text if it is missing.
    pub fn get(&self, name: &str) -> &str {
        let mut attributes = self.attributes.iter();
        let found = attributes.find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Returns the elements of a text. Inner elements follow those that contain them. Text before and
/// after the XML is skipped.
pub fn elements(text: &str) -> Vec<Element> {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some((_, tag)) = rest.split_once('<') {
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some((inside, after)) = split_tag(tag) else {
            break;
        };
        rest = after;
        if !inside.starts_with(['/', '?', '!']) {
            let words = after.split('<').next().unwrap_or_default();
            let inside = inside.trim_end_matches('/');
            all.push(Element {
                text: unescaped(words),
                ..element(inside)
            });
        }
    }
    all
}

/// Splits the inside of a tag from the rest. A `>` in quotes is part of the tag.
fn split_tag(tag: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (place, letter) in tag.char_indices() {
        match (letter, quote) {
            ('>', None) => return Some((tag.get(..place)?, tag.get(place + 1..)?)),
            ('"' | '\'', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            _ => {}
        }
    }
    None
}

fn element(inside: &str) -> Element {
    let (name, mut rest) = match inside.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, rest),
        None => (inside, ""),
    };
    let mut attributes = Vec::new();
    while let Some((key, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let Some(quote) = after.chars().next().filter(|c| *c == '"' || *c == '\'') else {
            break;
        };
        let Some((value, further)) = after.get(1..).and_then(|a| a.split_once(quote)) else {
            break;
        };
        attributes.push((key.trim().to_owned(), unescaped(value)));
        rest = further;
    }
    Element {
        name: name.to_owned(),
        attributes,
        text: String::new(),
    }
}

fn unescaped(text: &str) -> String {
    let named = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#10;", "\n"),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    named.iter().fold(text.to_owned(), |text, (code, letter)| {
        text.replace(code, letter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_attributes_and_text() {
        let text = "<?xml version='1.0'?>\n<stream>\n<!-- <no> -->\n<message type=\"error\">File &apos;x&apos; &amp; more</message>\n<solvable name=\"a>b\" edition='1-2'/>\n</stream>\nrest";
        let all = elements(text);
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["stream", "message", "solvable"]);
        assert_eq!(all[1].text, "File 'x' & more");
        assert_eq!(all[1].get("type"), "error");
        assert_eq!((all[2].get("name"), all[2].get("edition")), ("a>b", "1-2"));
        assert!(elements("<broken attr=\"").is_empty());
    }
}
