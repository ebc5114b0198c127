//! [`ExecHost`]: the functions and data of a run that templates can use.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use render::{Context, Extension, Host};
use value::{Map, Value};

use crate::custom::Rendering;
use crate::exec::Exec;
use crate::module::Error;
use crate::sources::Sources;

/// The tree that a template belongs to. Its imports are looked up in this tree.
#[derive(Clone)]
pub enum Tree {
    /// The file roots of the run.
    State,
    /// Other roots: those of the pillar.
    Other(Arc<dyn Sources>),
}

impl Tree {
    /// Returns the provider of the tree's files.
    #[must_use]
    pub fn sources<'a>(&'a self, cx: &'a Exec) -> &'a dyn Sources {
        match self {
            Self::State => cx.shared.sources.as_ref(),
            Self::Other(sources) => sources.as_ref(),
        }
    }
}

/// A template host that answers from the context in which the templates are rendered.
pub struct ExecHost {
    cx: Exec,
    tree: Tree,
}

impl ExecHost {
    /// Returns the host for templates of the state tree that are rendered in this context.
    #[must_use]
    pub fn in_state_tree(cx: &Exec) -> Arc<dyn Host> {
        Self::in_tree(cx, &Tree::State)
    }

    /// Like [`ExecHost::in_state_tree`], for templates of another tree.
    #[must_use]
    pub fn in_tree(cx: &Exec, tree: &Tree) -> Arc<dyn Host> {
        Arc::new(Self {
            cx: cx.clone(),
            tree: tree.clone(),
        })
    }
}

impl ExecHost {
    /// Returns the path, relative to its root, of a template that is named by an absolute path
    /// below a root, as Salt's loader does. Returns any other name unchanged.
    fn below_roots<'a>(&self, name: &'a str, saltenv: &str) -> Cow<'a, str> {
        let opts = self.cx.opts();
        let option = match self.tree {
            Tree::State => "file_roots",
            Tree::Other(_) => "pillar_roots",
        };
        let mut roots = opts.roots(option, saltenv);
        // Files that a master has sent are cached below this folder.
        roots.push(opts.cachedir().join("files").join(saltenv));
        below(name, &roots)
    }
}

/// Returns the part of an absolute path below the first of these folders that contains it. Returns
/// any other path unchanged.
fn below<'a>(name: &'a str, folders: &[PathBuf]) -> Cow<'a, str> {
    let path = Path::new(name);
    let mut below = folders
        .iter()
        .filter_map(|root| path.strip_prefix(root).ok());
    match below.find(|_| path.is_absolute()) {
        Some(below) => below.to_string_lossy(),
        None => name.into(),
    }
}

impl Host for ExecHost {
    fn call(&self, function: &str, args: Vec<Value>, kwargs: Map) -> Result<Value, String> {
        self.cx
            .call(function, args, kwargs)
            .map_err(|error| error.to_string())
    }

    fn has_function(&self, function: &str) -> bool {
        self.cx.has_function(function)
    }

    fn has_module(&self, module: &str) -> bool {
        let names = self.cx.function_names();
        let own = |name: &String| name.split('.').next() == Some(module);
        names.iter().any(own)
    }

    fn template(&self, name: &str, saltenv: &str) -> Result<Option<Arc<str>>, String> {
        let name = self.below_roots(name, saltenv);
        let sources = self.tree.sources(&self.cx);
        let found = sources
            .file(&name, saltenv)
            .map_err(|error| error.to_string())?;
        found
            .map(|file| sources.text(&file).map_err(|error| error.to_string()))
            .transpose()
    }

    fn pillar(&self) -> Option<Map> {
        self.cx.pillar().ok()
    }

    fn set_pillar(&self, pillar: Map) {
        self.cx.set_pillar(pillar);
    }

    fn has_renderer(&self, name: &str) -> bool {
        self.cx.shared.custom.has_renderer(&self.cx, name)
    }

    fn renderer(
        &self,
        name: &str,
        argline: &str,
        input: Value,
        context: &Context,
    ) -> Result<Value, String> {
        let path = match context.variables.get("tplpath").and_then(Value::as_str) {
            Some(path) => path,
            None => &context.name,
        };
        let rendering = Rendering {
            name,
            argline,
            input,
            path: path.as_ref(),
            saltenv: &context.saltenv,
            variables: &context.variables,
        };
        let custom = &self.cx.shared.custom;
        custom
            .render(&self.cx, &rendering)
            .map_err(|error| error.to_string())
    }

    fn extensions(&self, template: &str) -> Option<Vec<(Extension, String)>> {
        self.cx.shared.custom.jinja(&self.cx, template)
    }

    fn extension(
        &self,
        kind: Extension,
        name: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Value, String> {
        let custom = &self.cx.shared.custom;
        custom
            .call_jinja(&self.cx, kind, name, args, kwargs)
            .map_err(|error| error.to_string())
    }
}

/// The maximum size of a template, in bytes.
const TEMPLATE_MAX: u64 = 16 << 20;

/// Reads a template as text.
///
/// # Errors
/// When it cannot be read, is not UTF-8, or exceeds the maximum size.
pub fn read(path: &Path) -> Result<Arc<str>, Error> {
    let size = path.metadata().map_err(Error::io(path))?.len();
    if size > TEMPLATE_MAX {
        let file = path.display();
        return Err(Error::refused(format!(
            "{file} has {size} bytes, more than the {TEMPLATE_MAX} that a template may have. Split it and include the parts."
        )));
    }
    let bytes = std::fs::read(path).map_err(Error::io(path))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text.into()),
        Err(error) => Err(Error::refused(not_utf8(path, &error))),
    }
}

/// Returns an error sentence that says where a text stops being UTF-8, and what to do.
fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> String {
    let (good, rest) = error
        .as_bytes()
        .split_at_checked(error.utf8_error().valid_up_to())
        .unwrap_or_default();
    let good = String::from_utf8_lossy(good);
    let line = good.matches('\n').count() + 1;
    let column = good
        .rsplit('\n')
        .next()
        .map_or(0, |line| line.chars().count())
        + 1;
    let byte = rest.first().copied().unwrap_or_default();
    let file = path.display();
    format!("{file}:{line}:{column}: the byte 0x{byte:02x} is not UTF-8. Save the file as UTF-8.")
}

#[cfg(test)]
mod tests {
    use super::{below, read};

    #[test]
    fn an_absolute_path_below_a_root_names_what_is_there() {
        let roots = ["/srv/salt".into(), "/srv/other".into()];
        assert_eq!(below("/srv/other/a/map.jinja", &roots), "a/map.jinja");
        for same in ["/etc/passwd", "/srv/salty/x", "a/map.jinja", "srv/salt/x"] {
            assert_eq!(below(same, &roots), same);
        }
    }

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test may fail")]
    fn a_template_in_another_encoding_is_told_where() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latin1.sls");
        std::fs::write(&path, b"a:\n  caf\xc3\xa9: caf\xe9\n").unwrap();
        let told = read(&path).unwrap_err().to_string();
        assert!(
            told.ends_with("latin1.sls:2:12: the byte 0xe9 is not UTF-8. Save the file as UTF-8."),
            "{told}"
        );
    }
}
