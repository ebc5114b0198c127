//! The filter `xml`.

use minijinja::{Error, Value};

use super::super::args::items;
use super::super::containers::{Dict, List};
use super::super::errors::runtime_error;
use super::super::{nesting, print};
use super::builtin::escaped;
use value::PushFmt;

#[derive(Default)]
struct Element {
    tag: String,
    attributes: Vec<(String, String)>,
    text: Option<String>,
    children: Vec<Self>,
}

/// Returns a dictionary of tags as an XML document, indented by one space per level.
pub(super) fn write(value: &Value) -> Result<Value, Error> {
    nesting::checked(value)?;
    let mut top = Element::default();
    for (tag, attributes) in entries(value)? {
        add(&mut top, &tag, &attributes)?;
    }
    let mut out = String::from("<?xml version=\"1.0\" ?>\n");
    match top.children.first() {
        Some(root) => put(&mut out, root, 0),
        None => {
            return Err(runtime_error(
                "Value is not a dict or list. Cannot render as XML",
            ));
        }
    }
    Ok(Value::from(out))
}

fn entries(value: &Value) -> Result<Vec<(String, Value)>, Error> {
    if let Some(dict) = value.downcast_object_ref::<Dict>() {
        return Ok(dict
            .snapshot()
            .into_iter()
            .map(|(key, value)| (print::str(&key), value))
            .collect());
    }
    if value.downcast_object_ref::<List>().is_none() && !value.is_tuple() {
        return Err(runtime_error(
            "Value is not a dict or list. Cannot render as XML",
        ));
    }
    let parts = items(value)?;
    match parts.as_slice() {
        [tag, rest, ..] if tag.as_str().is_some() => Ok(vec![(print::str(tag), rest.clone())]),
        _ => Ok(Vec::new()),
    }
}

fn is_container(value: &Value) -> bool {
    value.downcast_object_ref::<Dict>().is_some() || value.downcast_object_ref::<List>().is_some()
}

fn add(parent: &mut Element, tag: &str, content: &Value) -> Result<(), Error> {
    if content.downcast_object_ref::<List>().is_some() {
        for item in items(content)? {
            add(parent, tag, &item)?;
        }
        return Ok(());
    }
    let mut element = Element {
        tag: tag.to_owned(),
        ..Element::default()
    };
    if is_container(content) {
        for (key, value) in entries(content)? {
            if is_container(&value) {
                add(&mut element, &key, &value)?;
            } else {
                element.attributes.push((key, print::str(&value)));
            }
        }
    } else {
        element.text = Some(print::str(content));
    }
    parent.children.push(element);
    Ok(())
}

fn put(out: &mut String, element: &Element, depth: usize) {
    let pad = " ".repeat(depth);
    out.push_fmt(format_args!("{pad}<{}", element.tag));
    for (key, value) in &element.attributes {
        out.push_fmt(format_args!(" {key}=\"{}\"", escaped(value)));
    }
    match &element.text {
        Some(text) => {
            out.push_fmt(format_args!(">{}</{}>\n", escaped(text), element.tag));
        }
        None if element.children.is_empty() => out.push_str("/>\n"),
        None => {
            out.push_str(">\n");
            element
                .children
                .iter()
                .for_each(|child| put(out, child, depth + 1));
            out.push_fmt(format_args!("{pad}</{}>\n", element.tag));
        }
    }
}
