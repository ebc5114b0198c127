//! [`Tree`]: the files of the tree with the texts of the editor, and the last report about it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lint::{Report, Settings};
use state::compile::resolved;
use state::opts::Opts;
use state::sources::{SourceFile, Sources};

use crate::outline;

/// The tree as the editor has it.
pub(crate) struct Tree {
    opts: Opts,
    sources: Box<dyn Sources>,
    /// The last report about it; `None` until the first check has ended.
    pub(crate) report: Option<Arc<Report>>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    /// The line, from 0.
    pub(crate) line: usize,
}

/// An SLS that a file contains.
pub(crate) struct Sls {
    pub(crate) name: String,
    is_init: bool,
    saltenv: String,
}

impl Tree {
    pub(crate) fn new(settings: &Settings, report: Option<Arc<Report>>) -> Self {
        Self {
            opts: settings.opts.clone(),
            sources: Box::new(lint::sources(settings)),
            report,
        }
    }

    /// Returns the SLS that a file contains; `None` if the file is not below the file roots.
    pub(crate) fn sls(&self, path: &Path) -> Option<Sls> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let whole = real(path);
        let all = self.sources.environments().unwrap_or_default();
        all.into_iter().find_map(|saltenv| {
            let roots = self.opts.roots("file_roots", &saltenv);
            let below = roots
                .iter()
                .find_map(|root| whole.strip_prefix(real(root)).ok());
            let below = below?.to_str()?.strip_suffix(".sls")?;
            let stem = below.strip_suffix("/init");
            Some(Sls {
                name: stem.unwrap_or(below).replace('/', "."),
                is_init: stem.is_some(),
                saltenv,
            })
        })
    }

    /// Returns the file of an SLS that another one names.
    pub(crate) fn included(&self, from: &Sls, wanted: &str) -> Option<SourceFile> {
        let name = resolved(&from.name, from.is_init, wanted)?;
        self.file_of(&name, &from.saltenv)
    }

    /// Returns the file of an SLS.
    fn file_of(&self, name: &str, saltenv: &str) -> Option<SourceFile> {
        let stem = name.replace('.', "/");
        let paths = [format!("{stem}.sls"), format!("{stem}/init.sls")];
        let mut paths = paths.iter();
        paths.find_map(|path| self.sources.file(path, saltenv).ok().flatten())
    }

    /// Returns a file of the tree by its path.
    pub(crate) fn file(&self, path: &str, saltenv: &str) -> Option<SourceFile> {
        self.sources.file(path, saltenv).ok().flatten()
    }

    /// Returns the names of the states of a module, or of all if it is `id`.
    pub(crate) fn names(&self, group: &str) -> Vec<String> {
        let states = self.report.iter().flat_map(|report| report.states.keys());
        let of_group = states.filter(|(of, _)| of == group);
        of_group.map(|(_, name)| name.clone()).collect()
    }

    /// Returns the place where a state is declared: in this text of an SLS, or else in the SLS that
    /// the report names.
    pub(crate) fn declaration(
        &self,
        (path, text): (&Path, &str),
        from: &Sls,
        (group, name): (&str, &str),
    ) -> Option<Target> {
        if let Some(line) = declared(text, group, name) {
            let path = path.to_owned();
            return Some(Target { path, line });
        }
        let states = &self.report.as_ref()?.states;
        let sls = states.get(&(group.to_owned(), name.to_owned()))?;
        let file = self.file_of(sls, &from.saltenv)?;
        let text = self.sources.text(&file).ok()?;
        // An ID that a template makes is not in the text.
        let line = declared(&text, group, name).unwrap_or(0);
        let path = file.path;
        Some(Target { path, line })
    }
}

impl Sls {
    /// Returns the environment.
    pub(crate) fn saltenv(&self) -> &str {
        &self.saltenv
    }
}

/// Returns the line of an SLS that declares a state: by its ID, or else by its name.
fn declared(text: &str, group: &str, name: &str) -> Option<usize> {
    let ids = outline::ids(text);
    let has_module = |modules: &[&str]| group == "id" || modules.contains(&group);
    let by_id = ids
        .iter()
        .find(|(_, id, modules)| *id == name && has_module(modules));
    if let Some((line, ..)) = by_id {
        return Some(*line);
    }
    let mut lines = text.lines().enumerate();
    let named = lines.find(|(_, line)| {
        let line = outline::Line::read(line);
        let line = line.filter(|line| line.key == "name");
        line.and_then(|line| line.value)
            .is_some_and(|value| outline::unquoted(value) == name)
    });
    named.map(|(line, _)| line)
}
