//! [`Documents`]: the rendered SLS files of a run, kept to say where a fault stands.

use std::collections::HashMap;
use std::sync::Arc;

use render::{Place, yaml};
use value::{Map, Value};

use super::Fault;

/// Finds the place in a template that made a line of the rendered text, by rendering it again.
pub(crate) type Tracer = Arc<dyn Fn(u32) -> Option<Place> + Send + Sync>;

/// One SLS file as it was rendered.
#[derive(Clone, Default)]
pub(crate) struct Document {
    /// What it renders to.
    pub(crate) value: Value,
    /// True when its file is an `init.sls`: leading dots of its includes count from its own folder.
    pub(crate) init: bool,
    /// Finds lines of the template; none where the text was not rendered.
    pub(crate) tracer: Option<Tracer>,
    /// What the YAML loader read.
    pub(crate) rendered: Arc<str>,
}

/// The documents of a run by environment and SLS name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Documents(Arc<HashMap<(String, String), Document>>);

impl Documents {
    /// Keeps a document.
    pub(crate) fn keep(&mut self, saltenv: &str, sls: &str, document: Document) {
        Arc::make_mut(&mut self.0).insert((saltenv.to_owned(), sls.to_owned()), document);
    }

    /// A fault that stands in an SLS, at a path of keys and list indexes or as near to it as the document goes.
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

    /// A fault about an ID: `body` names its SLS and environment, `path` begins with the ID.
    pub(crate) fn fault_in(&self, text: impl Into<String>, body: &Map, path: &[Value]) -> Fault {
        let word = |key| body.get(key).and_then(Value::as_str).unwrap_or_default();
        self.fault(text, word("__env__"), word("__sls__"), path)
    }

    /// Where a path of keys and list indexes leads in an SLS, or its longest beginning that leads somewhere.
    pub(crate) fn place(&self, saltenv: &str, sls: &str, path: &[Value]) -> Option<Place> {
        let document = self.0.get(&(saltenv.to_owned(), sls.to_owned()))?;
        let (line, column) = located(&document.rendered, path)?;
        document.traced(line, column)
    }

    /// The place of an argument in the list of a state, `path` leading there.
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
    /// A place of the rendered text in the template.
    fn traced(&self, line: u32, column: u32) -> Option<Place> {
        let number = usize::try_from(line).ok()?.checked_sub(1)?;
        let rendered = self.rendered.lines().nth(number)?;
        let place = self.tracer.as_ref()?(line)?;
        // The column holds as far as the template's line reads like what it made.
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

/// The path with its state as the SLS has it: with the function that was cut off (`file.managed`).
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
