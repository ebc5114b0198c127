//! [`Documents`]: the rendered SLS files of a run, kept to find the places of faults.

use std::collections::HashMap;
use std::sync::Arc;

use render::{Place, yaml};
use value::{Map, Value};

use super::Fault;

/// Returns the place in a template that produced a line of the rendered text. It renders the
/// template again.
pub(crate) type Tracer = Arc<dyn Fn(u32) -> Option<Place> + Send + Sync>;

/// One rendered SLS file.
#[derive(Clone, Default)]
pub(crate) struct Document {
    /// The data that it renders to.
    pub(crate) value: Value,
    /// True if its file is an `init.sls`: leading dots in its includes are relative to its own
    /// folder.
    pub(crate) init: bool,
    /// Finds lines of the template; `None` if the text is not rendered from one.
    pub(crate) tracer: Option<Tracer>,
    /// The text that the YAML loader parsed.
    pub(crate) rendered: Arc<str>,
}

/// The documents of a run by environment and SLS name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents(Arc<HashMap<(String, String), Document>>);

impl Documents {
    /// Adds a document.
    pub(crate) fn keep(&mut self, saltenv: &str, sls: &str, document: Document) {
        Arc::make_mut(&mut self.0).insert((saltenv.to_owned(), sls.to_owned()), document);
    }

    /// Returns a fault in an SLS, with the place of a path of keys and list indexes. If the
    /// document does not contain the whole path, the place is that of its longest existing part.
    pub(crate) fn fault(
        &self,
        text: impl Into<String>,
        saltenv: &str,
        sls: &str,
        path: &[Value],
    ) -> Fault {
        Fault {
            place: self.place(saltenv, sls, path),
            ..Fault::new(text)
        }
    }

    /// Returns a fault about an ID: `body` names its SLS and environment, `path` begins with the
    /// ID.
    pub(crate) fn fault_in(&self, text: impl Into<String>, body: &Map, path: &[Value]) -> Fault {
        let word = |key| body.get(key).and_then(Value::as_str).unwrap_or_default();
        self.fault(text, word("__env__"), word("__sls__"), path)
    }

    /// Returns the place of a path of keys and list indexes in an SLS, or of the longest part of
    /// the path that exists.
    pub(crate) fn place(&self, saltenv: &str, sls: &str, path: &[Value]) -> Option<Place> {
        let document = self.0.get(&(saltenv.to_owned(), sls.to_owned()))?;
        let (line, column) = located(&document.rendered, path)?;
        document.traced(line, column)
    }

    /// Returns the index of an argument in the argument list of a state. `path` is the path of that
    /// list.
    pub(crate) fn argument(&self, body: &Map, path: &[Value], argument: &str) -> Option<usize> {
        let word = |key| body.get(key).and_then(Value::as_str).map(str::to_owned);
        let document = self.0.get(&(word("__env__")?, word("__sls__")?))?;
        let path = as_written(&document.rendered, path).unwrap_or_else(|| path.to_vec());
        let mut here = &yaml::load(&document.rendered).ok()?;
        for key in &path {
            here = here.as_map()?.get_value(key)?;
        }
        let mut arguments = here.as_list()?.iter();
        arguments.position(|given| given.get(argument).is_some())
    }
}

impl Document {
    /// Returns the place in the template of a place in the rendered text.
    fn traced(&self, line: u32, column: u32) -> Option<Place> {
        let number = usize::try_from(line).ok()?.checked_sub(1)?;
        let rendered = self.rendered.lines().nth(number)?;
        let place = self.tracer.as_ref()?(line)?;
        // The column is only valid as far as the template's line is identical to the rendered one.
        let same = rendered.chars().zip(place.source.chars());
        let same = same.take_while(|(a, b)| a == b).count();
        let column = match usize::try_from(column) {
            Ok(wanted) if wanted <= same + 1 => column,
            _ => place.column,
        };
        Some(Place { column, ..place })
    }
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document")
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

fn located(text: &str, path: &[Value]) -> Option<(u32, u32)> {
    if path.is_empty() {
        return Some((1, 1));
    }
    (1..=path.len()).rev().find_map(|length| {
        let path = path.get(..length)?;
        yaml::locate(text, path).or_else(|| yaml::locate(text, &as_written(text, path)?))
    })
}

/// Returns the path with the key of its state as the SLS contains it, which includes the function
/// (`file.managed`).
fn as_written(text: &str, path: &[Value]) -> Option<Vec<Value>> {
    let document = yaml::load(text).ok()?;
    let at = usize::from(path.first()?.as_str() == Some("extend"));
    let mut body = document.as_map()?;
    for key in path.get(..=at)? {
        body = body.get_value(key)?.as_map()?;
    }
    let module = path.get(at + 1)?.as_str()?;
    let written = body.keys().find(|key| {
        let dotted = key.as_str().and_then(|key| key.split_once('.'));
        dotted.is_some_and(|(of, _)| of == module)
    })?;
    let mut path = path.to_vec();
    *path.get_mut(at + 1)? = written.clone();
    Some(path)
}
