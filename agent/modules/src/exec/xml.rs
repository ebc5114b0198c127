//! The `xml` execution module: elements of XML files, read and changed in their place. What else is in a file stays as it is.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Value, log};

use crate::fs::{self, Owner};
use crate::xml_path::find;
use crate::xml_tree::{Node, Tree};

state::exec_module! {
    /// Elements of XML files.
    mod xml;

    /// Return the text of an element; False where there is none.
    fn get_value(GetValue {
        /// The file.
        file: String,
        /// The element: a path of ElementTree, such as `./a/b[@id='1']`.
        element: String,
    });

    /// Set the text of an element; False where there is none.
    fn set_value(SetValue {
        /// The file.
        file: String,
        /// As of `xml.get_value`.
        element: String,
        /// The text.
        value: Value,
    });

    /// Return the attributes of an element; False where there is none.
    fn get_attribute(GetAttribute {
        /// The file.
        file: String,
        /// As of `xml.get_value`.
        element: String,
    });

    /// Set an attribute of an element; False where there is no such element.
    fn set_attribute(SetAttribute {
        /// The file.
        file: String,
        /// As of `xml.get_value`.
        element: String,
        /// The attribute.
        key: String,
        /// Its value.
        value: Value,
    });
}

fn tree(file: &str) -> Result<Tree, Error> {
    let text = std::fs::read_to_string(file).map_err(Error::io(file))?;
    Tree::parse(text).map_err(|problem| Error::refused(format!("{file}: {problem}")))
}

/// The first element that is meant; its absence is logged.
fn found<'a>(tree: &'a Tree, path: &str) -> Result<Option<&'a Node>, Error> {
    let node = find(tree, path)?;
    if node.is_none() {
        log::error(format_args!("Unable to find element matching {path}"));
    }
    Ok(node)
}

fn get_value(_cx: &Exec, args: GetValue) -> Result<Value, Error> {
    let tree = tree(&args.file)?;
    let Some(node) = found(&tree, &args.element)? else {
        return Ok(false.into());
    };
    let text = tree.text(node)?;
    Ok(Some(text).filter(|text| !text.is_empty()).into())
}

fn get_attribute(_cx: &Exec, args: GetAttribute) -> Result<Value, Error> {
    let tree = tree(&args.file)?;
    let Some(node) = found(&tree, &args.element)? else {
        return Ok(false.into());
    };
    let attributes = node.attributes.iter();
    Ok(attributes
        .map(|one| (one.name.as_str(), one.value.as_str()))
        .collect())
}

/// Writes a file with another text for that of one element.
fn changed(
    cx: &Exec,
    file: &str,
    path: &str,
    change: impl FnOnce(&Tree, &Node) -> Result<String, String>,
) -> Result<Value, Error> {
    let tree = tree(file)?;
    let Some(node) = found(&tree, path)? else {
        return Ok(false.into());
    };
    let text = change(&tree, node)?;
    fs::write(cx, Path::new(file), text.as_bytes(), Owner::default())?;
    Ok(true.into())
}

fn set_value(cx: &Exec, args: SetValue) -> Result<Value, Error> {
    let value = args.value.to_text();
    changed(cx, &args.file, &args.element, |tree, node| {
        Ok(tree.with_text(node, &value))
    })
}

fn set_attribute(cx: &Exec, args: SetAttribute) -> Result<Value, Error> {
    let value = args.value.to_text();
    changed(cx, &args.file, &args.element, |tree, node| {
        tree.with_attribute(node, &args.key, &value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_else_is_in_a_file_stays() {
        let text = "<?xml version='1.0'?>\n<!-- a -->\n<r xmlns:n='u:n'>\n <a id='1'/> <a id='2' >x<!-- y -->z<b/>t</a>\n <n:c n:k=\"v &amp; w\"/>\n</r>\n";
        let tree = Tree::parse(text.to_owned()).unwrap();
        let node = |path: &str| find(&tree, path).unwrap().unwrap();
        assert_eq!(tree.text(node("a[@id='2']")).unwrap(), "xz");
        assert_eq!(
            tree.with_text(node("a[2]"), "p<q"),
            text.replace("x<!-- y -->z", "p&lt;q")
        );
        assert_eq!(
            tree.with_text(node("./a"), "ö"),
            text.replace("<a id='1'/>", "<a id='1'>&#246;</a>")
        );
        assert_eq!(
            tree.with_attribute(node("a[last()]"), "id", "\"").unwrap(),
            text.replace("id='2'", "id=\"&quot;\"")
        );
        assert_eq!(
            tree.with_attribute(node(".//b"), "k", "1").unwrap(),
            text.replace("<b/>", "<b k=\"1\"/>")
        );
        let attribute = &node("{u:n}c").attributes[0];
        assert_eq!(
            (attribute.name.as_str(), attribute.value.as_str()),
            ("{u:n}k", "v & w")
        );
        assert!(tree.with_attribute(node("a"), "not a name", "1").is_err());
    }

    #[test]
    fn what_is_no_xml_is_refused_with_its_line() {
        for (text, problem) in [
            ("<a>\n<b></a>", "line 2: </a> stands where </b> should"),
            ("<a>", "line 1: no end of <a>"),
            ("", "line 1: no element found"),
            ("<a/>\nx", "line 2: a text outside of the element"),
            ("<a/><b/>", "line 1: a second element"),
            ("<a b=c/>", "line 1: 'b' has no value in quotes"),
            ("<n:a/>", "line 1: the prefix n is not declared"),
        ] {
            assert_eq!(Tree::parse(text.to_owned()).err().as_deref(), Some(problem));
        }
        let tree = Tree::parse("<a>&x;</a>".to_owned()).unwrap();
        assert!(tree.text(&tree.nodes[0]).is_err());
    }
}
