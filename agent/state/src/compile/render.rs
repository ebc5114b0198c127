//! Renders the SLS files of a run's own sources.

use std::path::Path;
use std::sync::Arc;

use render::{Kind, Place, jinja};
use value::Map;

use super::Fault;
use super::documents::{Document, Tracer};
use super::sls::Library;
use crate::exec::Exec;
use crate::host::{ExecHost, Tree};
use crate::sources::SourceFile;
use crate::tree::{self, SlsFile};

/// The SLS files of the file roots.
pub(crate) struct Roots<'a>(pub(crate) &'a Exec);

impl Library for Roots<'_> {
    fn environments(&self) -> Result<Vec<String>, Fault> {
        let all = self.0.shared.sources.environments();
        all.map_err(|error| Fault::new(error.to_string()))
    }

    fn names(&self, saltenv: &str) -> Result<Vec<String>, Fault> {
        tree::names(self.0, &Tree::State, saltenv).map_err(|error| Fault::new(error.to_string()))
    }

    fn has(&self, sls: &str, saltenv: &str) -> Result<bool, Fault> {
        tree::has(self.0, &Tree::State, sls, saltenv).map_err(|error| Fault::new(error.to_string()))
    }

    fn render(&self, sls: &str, saltenv: &str) -> Result<Option<Document>, Fault> {
        let found = tree::find(self.0, &Tree::State, sls, saltenv);
        let found = found.map_err(|error| Fault::new(error.to_string()))?;
        found
            .map(|found| document(self.0, &found, sls, saltenv))
            .transpose()
    }
}

/// One file by its path on this machine (`state.template`). Its includes come from the file roots.
pub(crate) struct Single<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) path: &'a str,
}

impl Library for Single<'_> {
    fn environments(&self) -> Result<Vec<String>, Fault> {
        Roots(self.cx).environments()
    }

    fn names(&self, saltenv: &str) -> Result<Vec<String>, Fault> {
        Roots(self.cx).names(saltenv)
    }

    fn has(&self, sls: &str, saltenv: &str) -> Result<bool, Fault> {
        Roots(self.cx).has(sls, saltenv)
    }

    fn render(&self, sls: &str, saltenv: &str) -> Result<Option<Document>, Fault> {
        if sls != self.path {
            return Roots(self.cx).render(sls, saltenv);
        }
        if !Path::new(sls).is_file() {
            let text = format!("Specified SLS {sls} on local filesystem cannot be found.");
            return Err(Fault::new(text));
        }
        let found = SlsFile {
            file: SourceFile {
                path: sls.into(),
                shown: sls.into(),
            },
            path: sls.to_owned(),
        };
        document(self.cx, &found, sls, saltenv).map(Some)
    }
}

fn document(cx: &Exec, found: &SlsFile, sls: &str, saltenv: &str) -> Result<Document, Fault> {
    let rendered = tree::render(cx, &Tree::State, found, sls, saltenv, &Map::new());
    let rendered = rendered.map_err(|error| {
        let text = match error.kind {
            Kind::Uncaught => format!("Rendering SLS {sls} failed, render error: {error}"),
            _ => format!("Rendering SLS '{saltenv}:{sls}' failed: {error}"),
        };
        Fault::of_render(text, &error)
    })?;
    Ok(Document {
        value: rendered.value,
        init: found.path.ends_with("/init.sls"),
        tracer: Some(tracer(cx, found, sls, saltenv)),
        rendered: rendered.text.into(),
    })
}

pub(super) fn tracer(cx: &Exec, found: &SlsFile, sls: &str, saltenv: &str) -> Tracer {
    let (cx, found) = (cx.clone(), found.clone());
    let (sls, saltenv) = (sls.to_owned(), saltenv.to_owned());
    Arc::new(move |line| {
        let text = cx.shared.sources.text(&found.file).ok()?;
        let context = tree::context(&cx, &found, &sls, &saltenv, &Map::new()).ok()?;
        let traced = jinja::trace::trace(&text, &context, &ExecHost::in_state_tree(&cx), line);
        traced.or_else(|| plain(&text, &found, line))
    })
}

/// Returns the place of a line in a template without Jinja, which is identical to the rendered
/// text.
fn plain(text: &str, found: &SlsFile, line: u32) -> Option<Place> {
    if ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let number = usize::try_from(line).ok()?.checked_sub(1)?;
    Some(Place {
        file: found.file.shown.clone(),
        line,
        column: 1,
        source: text.lines().nth(number)?.to_owned(),
    })
}
