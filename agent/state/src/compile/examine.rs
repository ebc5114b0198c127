//! [`Examiner`]: finds all faults of SLS files without running them: those of all steps, not only
//! those of the first step that has any.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use render::jinja::Reached;
use render::{Kind, Place};
use value::{Map, Value};

use super::documents::{Document, Documents};
use super::plan::Plan;
use super::sls::{self, Library};
use super::{Checked, Fault, Problem, auto_order, check, extend, render as rendering};
use crate::exec::Exec;
use crate::host::{ExecHost, Tree};
use crate::low::LowChunk;
use crate::tree::{self, SlsFile};

/// The result of rendering one SLS.
type Outcome = Result<Option<Document>, Fault>;

/// Examines the SLS files of one tree. Each file is rendered only once.
pub struct Examiner<'a> {
    cx: &'a Exec,
    /// Records the branches of templates that are reached.
    reached: Arc<Reached>,
    rendered: RefCell<HashMap<(String, String), Outcome>>,
    names: RefCell<HashMap<String, Result<Vec<String>, Fault>>>,
}

/// The results for SLS files that belong together.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The faults that prevent compilation.
    pub faults: Vec<Fault>,
    /// The problems with single chunks.
    pub checked: Vec<Checked>,
    /// The chunks, not sorted.
    pub plan: Plan,
    /// True if all files could be rendered. Only then is it certain that a requisite without a
    /// target has none.
    pub whole: bool,
}

impl<'a> Examiner<'a> {
    /// Returns an examiner for the tree of this context.
    #[must_use]
    pub fn new(cx: &'a Exec, reached: Arc<Reached>) -> Self {
        Self {
            cx,
            reached,
            rendered: RefCell::default(),
            names: RefCell::default(),
        }
    }

    /// Returns the names of all SLS files of an environment.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub fn all(&self, saltenv: &str) -> Result<Vec<String>, Fault> {
        self.names(saltenv)
    }

    /// Returns whether an SLS renders on its own.
    #[must_use]
    pub fn renders(&self, sls: &str, saltenv: &str) -> bool {
        self.render(sls, saltenv).is_ok()
    }

    /// Examines SLS files that run together, with all their includes.
    #[must_use]
    pub fn examine(&self, matches: &[(String, Vec<String>)]) -> Examined {
        let rendered = sls::rendered(self, matches, auto_order(self.cx));
        let (mut high, mut faults) = (rendered.high, rendered.faults);
        let whole = faults.is_empty();
        let of_extend = high.extend(false, &extend::Origins::new());
        let of_form = high.faults();
        let well_formed = of_form.is_empty();
        faults.extend(of_form);
        let disabled = self.cx.opts().texts("disabled_requisites");
        let (high, more) = match well_formed {
            true => high.requisites_in_with_faults(&disabled),
            false => (high, Vec::new()),
        };
        let high = high.excluded();
        let chunks = high.chunks(&[]).chunks.into_iter();
        let plan = Plan {
            chunks: chunks.map(unordered).collect(),
            documents: high.documents.clone(),
            ..Plan::default()
        };
        let mut checked = check(&plan, self.cx);
        if !well_formed {
            // Misplaced data can look like an argument, so warnings are not reliable here.
            checked.retain(|one| !matches!(one.problem, Problem::Warning(_)));
        }
        if whole {
            faults.extend(of_extend);
            faults.extend(more);
            if well_formed && let Err(more) = high.ordered(self.cx) {
                faults.extend(more);
            }
        }
        Examined {
            faults,
            checked,
            plan,
            whole,
        }
    }

    /// Returns the record of the template branches that are reached.
    #[must_use]
    pub fn reached(&self) -> Arc<Reached> {
        Arc::clone(&self.reached)
    }

    /// Returns the place of a path of keys in an SLS.
    #[must_use]
    pub fn place(&self, sls: &str, saltenv: &str, path: &[Value]) -> Option<Place> {
        let document = self.render(sls, saltenv).ok()??;
        let mut documents = Documents::default();
        documents.keep(saltenv, sls, document);
        documents.place(saltenv, sls, path)
    }

    /// Returns the SLS files in the `include` of an SLS. Empty if the SLS does not render.
    #[must_use]
    pub fn includes(&self, name: &str, saltenv: &str) -> Vec<String> {
        let Ok(Some(document)) = self.render(name, saltenv) else {
            return Vec::new();
        };
        let include = document.value.get("include").and_then(Value::as_list);
        let items = include.unwrap_or_default().iter();
        let named = items.filter_map(|item| match item.as_map().and_then(Map::first) {
            Some((_, wanted)) => wanted.as_str().map(str::to_owned),
            None => item.as_str().map(str::to_owned),
        });
        named
            .filter_map(|wanted| sls::resolved(name, document.init, &wanted))
            .collect()
    }

    /// Renders one file of another tree, that of the pillar. Returns `None` if it does not exist.
    ///
    /// # Errors
    /// The fault that prevents it from rendering.
    pub fn other(&self, tree: &Tree, sls: &str, saltenv: &str) -> Result<Option<Value>, Fault> {
        let found = tree::find(self.cx, tree, sls, saltenv);
        let found = found.map_err(|error| Fault::new(error.to_string()))?;
        let Some(found) = found else {
            return Ok(None);
        };
        self.rendered(tree, &found, sls, saltenv)
            .map(|rendered| Some(rendered.value))
    }

    fn rendered(
        &self,
        tree: &Tree,
        found: &SlsFile,
        sls: &str,
        saltenv: &str,
    ) -> Result<render::Rendered, Fault> {
        let fault = |error: render::Error| {
            let text = match error.kind {
                Kind::Uncaught => format!("Rendering SLS {sls} failed, render error: {error}"),
                _ => format!("Rendering SLS '{saltenv}:{sls}' failed: {error}"),
            };
            let fault = Fault::of_render(text, &error);
            Fault {
                place: fault.place.or_else(|| beginning(found)),
                ..fault
            }
        };
        let text = tree.sources(self.cx).text(&found.file);
        let text = text.map_err(|error| Fault {
            place: beginning(found),
            ..Fault::new(error.to_string())
        })?;
        let default = self.cx.opts().text("renderer").unwrap_or("jinja|yaml");
        let mut context =
            tree::context(self.cx, found, sls, saltenv, &Map::new()).map_err(fault)?;
        context.reached = Some(Arc::clone(&self.reached));
        render::render(&text, default, &context, &ExecHost::in_tree(self.cx, tree)).map_err(fault)
    }

    fn document(&self, sls: &str, saltenv: &str) -> Outcome {
        let found = tree::find(self.cx, &Tree::State, sls, saltenv);
        let found = found.map_err(|error| Fault::new(error.to_string()))?;
        let Some(found) = found else {
            return Ok(None);
        };
        let rendered = self.rendered(&Tree::State, &found, sls, saltenv)?;
        Ok(Some(Document {
            value: rendered.value,
            init: found.path.ends_with("/init.sls"),
            tracer: Some(rendering::tracer(self.cx, &found, sls, saltenv)),
            rendered: rendered.text.into(),
        }))
    }
}

/// Converts a chunk that has not been sorted. Sorting would have removed `name_order`.
fn unordered(mut chunk: Map) -> Arc<LowChunk> {
    chunk.remove("name_order");
    Arc::new(LowChunk::from_map(chunk))
}

/// Returns the beginning of a file, as the place of a fault of the whole file.
fn beginning(found: &SlsFile) -> Option<Place> {
    Some(Place {
        file: found.file.shown.clone(),
        line: 1,
        column: 1,
        source: String::new(),
    })
}

impl Library for Examiner<'_> {
    fn environments(&self) -> Result<Vec<String>, Fault> {
        let all = self.cx.shared.sources.environments();
        all.map_err(|error| Fault::new(error.to_string()))
    }

    fn names(&self, saltenv: &str) -> Result<Vec<String>, Fault> {
        let known = self.names.borrow().get(saltenv).cloned();
        known.unwrap_or_else(|| {
            let names = tree::names(self.cx, &Tree::State, saltenv);
            let names = names.map_err(|error| Fault::new(error.to_string()));
            let mut all = self.names.borrow_mut();
            all.insert(saltenv.to_owned(), names.clone());
            names
        })
    }

    fn has(&self, sls: &str, saltenv: &str) -> Result<bool, Fault> {
        let names = self.names(saltenv)?;
        Ok(names
            .binary_search_by(|name| name.as_str().cmp(sls))
            .is_ok())
    }

    fn render(&self, sls: &str, saltenv: &str) -> Outcome {
        let key = (sls.to_owned(), saltenv.to_owned());
        if let Some(known) = self.rendered.borrow().get(&key) {
            return known.clone();
        }
        let outcome = self.document(sls, saltenv);
        self.rendered.borrow_mut().insert(key, outcome.clone());
        outcome
    }
}

impl std::fmt::Debug for Examiner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Examiner").finish_non_exhaustive()
    }
}
