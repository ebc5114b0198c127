//! External pillar (`ext_pillar`): custom modules of `_pillar`, commands that print pillar data, and
//! files whose contents are pillar values. If a source fails, that is an error; its data is never
//! taken as empty.

use std::path::Path;

use render::Context;
use value::merge::Strategy;
use value::{Map, Value, glob, json};

use crate::custom::Kind;
use crate::exec::Exec;
use crate::host::ExecHost;
use crate::matcher;
use crate::module::Error;

/// The external pillars of the program.
const BUILT_IN: [&str; 5] = ["cmd_json", "cmd_yaml", "file_tree", "gpg", "nodegroups"];

/// The maximum depth of folders in `file_tree`.
const DEPTH_MAX: usize = 100;

/// Returns the data of one source. `key` is the kind of source, `val` its arguments, and `pillar`
/// the data so far.
///
/// # Errors
/// The reason why the source provides no data.
pub(super) fn load(cx: &Exec, key: &str, val: &Value, pillar: &Map) -> Result<Map, Error> {
    if cx.is_disabled(Kind::Pillar, key) {
        return Err("it is disabled by disable_pillars".into());
    }
    let mut others = cx.shared.registry.pillars.iter();
    let other = others.find(|other| other.name == key);
    let is_built_in = BUILT_IN.contains(&key) || other.is_some();
    let may_be_custom = !is_built_in || cx.shared.custom.has_file(Kind::Pillar, key);
    if may_be_custom && let Some(loaded) = custom(cx, key, val, pillar) {
        return loaded;
    }
    if let Some(other) = other {
        return (other.load)(cx, val, pillar);
    }
    let loaded = match key {
        "cmd_json" => command(cx, val, false, |text| {
            json::read(text).map_err(|error| error.to_string())
        }),
        "cmd_yaml" => command(cx, val, true, |text| {
            render::yaml::load(text).map_err(|error| error.salt_message())
        }),
        "file_tree" => FileTree::from_value(val).and_then(|tree| tree.pillar(cx)),
        "gpg" => {
            let host = ExecHost::in_state_tree(cx);
            let data = render::gpg::decrypted(&[], pillar.clone().into(), &host);
            data.map(|data| data.as_map().cloned().unwrap_or_default())
                .map_err(|error| error.message)
        }
        "nodegroups" => nodegroups(cx, val),
        _ => Err(format!(
            "unknown external pillar; expected one of {} or a file of _pillar that saltutil.sync_pillar has copied",
            names(cx).join(", ")
        )),
    };
    loaded.map_err(Error::refused)
}

/// Returns the names of the external pillars of the program, sorted.
fn names(cx: &Exec) -> Vec<&'static str> {
    let others = cx.shared.registry.pillars.iter();
    let mut all: Vec<&str> = others.map(|other| other.name).chain(BUILT_IN).collect();
    all.sort_unstable();
    all
}

/// Calls the custom module of `_pillar` with this name, as Salt does: a dictionary is named
/// arguments, a list is positional ones. Returns `None` if there is no such module. A module that
/// finds nothing may return any false value.
fn custom(cx: &Exec, key: &str, val: &Value, pillar: &Map) -> Option<Result<Map, Error>> {
    let mut args: Vec<Value> = vec![cx.opts().id().into(), pillar.clone().into()];
    let mut kwargs = Map::new();
    match val {
        Value::Map(named) => kwargs = named.clone(),
        Value::List(items) => args.extend(items.iter().cloned()),
        only => args.push(only.clone()),
    }
    let function = format!("{key}.ext_pillar");
    let custom = &cx.shared.custom;
    let called = custom.call_client(cx, Kind::Pillar, &function, args, kwargs)?;
    Some(match called {
        Ok(Value::Map(data)) => Ok(data),
        Ok(data) if !data.is_true() => Ok(Map::new()),
        Ok(other) => Err(Error::refused(format!(
            "it must return a dictionary, but returned a {}",
            other.type_name()
        ))),
        Err(error) => Err(error),
    })
}

/// Returns the data that a command prints. Its standard error is ignored, its exit status is not.
fn command(
    cx: &Exec,
    val: &Value,
    shell: bool,
    parse: fn(&str) -> Result<Value, String>,
) -> Result<Map, String> {
    let line = argument(val, 0, "command").unwrap_or_default().to_text();
    let line = line.replace("%s", cx.opts().id());
    let options = Map::new().with("python_shell", shell);
    let done = cx.call("cmd.run_all", vec![line.as_str().into()], options);
    let done = done.map_err(|error| error.to_string())?;
    let text = |key| done.get(key).map(Value::to_text).unwrap_or_default();
    if done.get("retcode") != Some(&Value::Int(0)) {
        let (code, stderr) = (text("retcode"), text("stderr"));
        return Err(format!("'{line}' failed with exit status {code}: {stderr}"));
    }
    match parse(&text("stdout"))? {
        Value::Map(map) => Ok(map),
        other => Err(format!(
            "'{line}' must print a dictionary, but printed a {}",
            other.type_name()
        )),
    }
}

/// Returns an argument of a source: by name, by position, or the only one.
fn argument(val: &Value, position: usize, name: &str) -> Option<Value> {
    match val {
        Value::Map(map) => map.get(name).cloned(),
        Value::List(items) => items.get(position).cloned(),
        Value::Null => None,
        only => Some(only.clone()).filter(|_| position == 0),
    }
}

/// Returns the node groups that this minion belongs to.
fn nodegroups(cx: &Exec, val: &Value) -> Result<Map, String> {
    let name = argument(val, 0, "pillar_name").filter(Value::is_true);
    let mut member = Vec::new();
    for (group, target) in groups(cx) {
        if matches(cx, &target)? {
            member.push(group);
        }
    }
    let name = name.unwrap_or_else(|| "nodegroups".into()).to_text();
    Ok(Map::new().with(&name, member))
}

fn groups(cx: &Exec) -> Vec<(String, Value)> {
    let groups = cx.opts().get("nodegroups").and_then(Value::as_map);
    let groups = groups.into_iter().flatten();
    groups
        .map(|(name, target)| (name.to_text(), target.clone()))
        .collect()
}

fn matches(cx: &Exec, target: &Value) -> Result<bool, String> {
    matcher::matches(cx, target, "compound").map_err(|error| error.to_string())
}

/// The source `file_tree`: `hosts/ID` and `nodegroups/NAME` below a folder. File names are keys,
/// file contents are values.
struct FileTree {
    root: String,
    follow: bool,
    /// Patterns of the paths whose contents keep their last newline. A boolean applies to all
    /// paths.
    keep_newline: Value,
    /// True if the files are templates.
    template: bool,
    renderer: Option<String>,
}

impl FileTree {
    fn from_value(val: &Value) -> Result<Self, String> {
        let names = [
            "root_dir",
            "follow_dir_links",
            "debug",
            "keep_newline",
            "render_default",
            "renderer_blacklist",
            "renderer_whitelist",
            "template",
        ];
        let get = |name: &str| {
            let position = names.iter().position(|known| *known == name);
            argument(val, position.unwrap_or(0), name).filter(|value| !value.is_null())
        };
        let truth = |name| get(name).is_some_and(|value| value.is_true());
        if truth("renderer_blacklist") || truth("renderer_whitelist") {
            return Err(
                "renderer_blacklist and renderer_whitelist are not supported here: set them in the configuration".into(),
            );
        }
        let keep_newline = get("keep_newline").unwrap_or_else(|| false.into());
        if keep_newline.as_bool().is_none() && keep_newline.as_list().is_none() {
            return Err("keep_newline must be either True/False or a list of file globs".into());
        }
        Ok(Self {
            root: get("root_dir").ok_or("no root_dir specified")?.to_text(),
            follow: truth("follow_dir_links"),
            keep_newline,
            template: truth("template"),
            renderer: get("render_default").map(|name| name.to_text()),
        })
    }

    fn pillar(&self, cx: &Exec) -> Result<Map, String> {
        let mut pillar = Map::new();
        for root in self.roots(cx)? {
            let found = self.below(cx, &root)?;
            pillar = value::merge::merge(&pillar, &found, Strategy::Recurse, false);
        }
        Ok(pillar)
    }

    /// Returns the configured folder. A relative one is returned once for each root of the pillar's
    /// environment.
    fn roots(&self, cx: &Exec) -> Result<Vec<String>, String> {
        if self.root.starts_with('/') {
            return Ok(vec![self.root.clone()]);
        }
        let env = cx.pillarenv.as_deref();
        let env = env.ok_or("root_dir is relative but pillarenv is not set")?;
        let roots = cx.opts().roots("pillar_roots", env);
        if roots.is_empty() {
            return Err(format!(
                "root_dir is relative but no pillar_roots are specified for pillarenv {env}"
            ));
        }
        let join = |root: &std::path::PathBuf| root.join(&self.root).display().to_string();
        Ok(roots.iter().map(join).collect())
    }

    fn below(&self, cx: &Exec, root: &str) -> Result<Map, String> {
        if !Path::new(root).is_dir() {
            return Err(format!(
                "root_dir {root} does not exist or is not a directory"
            ));
        }
        let mut pillar = Map::new();
        for (group, target) in groups(cx) {
            let folder = format!("{root}/nodegroups/{group}");
            if Path::new(&folder).is_dir() && matches(cx, &target)? {
                let found = self.folder(cx, Path::new(&folder), "", 0)?;
                pillar = value::merge::merge(&pillar, &found, Strategy::Recurse, false);
            }
        }
        let host = format!("{root}/hosts/{}", cx.opts().id());
        if !Path::new(&host).exists() {
            return Ok(pillar);
        }
        let found = self.folder(cx, Path::new(&host), "", 0)?;
        Ok(value::merge::merge(
            &pillar,
            &found,
            Strategy::Recurse,
            false,
        ))
    }

    fn folder(&self, cx: &Exec, folder: &Path, below: &str, depth: usize) -> Result<Map, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        if depth > DEPTH_MAX {
            return Err(format!("{} is nested too deep", folder.display()));
        }
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            entries.push((
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            ));
        }
        value::sorted::sort(&mut entries);
        let mut pillar = Map::new();
        for (name, path) in entries {
            let shown = match below {
                "" => format!("./{name}"),
                below => format!("{below}/{name}"),
            };
            if path.is_dir() {
                let inner = if path.is_symlink() && !self.follow {
                    Map::new()
                } else {
                    let below = shown.trim_start_matches("./");
                    self.folder(cx, &path, below, depth + 1)?
                };
                pillar.insert(name, inner);
            } else if path.is_file() {
                pillar.insert(name, self.file(cx, &path, &shown)?);
            } else {
                return Err(format!("{}: not a regular file", path.display()));
            }
        }
        Ok(pillar)
    }

    fn file(&self, cx: &Exec, path: &Path, shown: &str) -> Result<Value, String> {
        let failed =
            |why: &dyn std::fmt::Display| format!("Error reading {}: {why}", path.display());
        let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
        let text = String::from_utf8(bytes).map_err(|_| failed(&"it is not UTF-8 text"))?;
        let text = match text.strip_suffix('\n') {
            Some(text) if !self.keeps(shown) => text.to_owned(),
            _ => text,
        };
        if !self.template {
            return Ok(text.into());
        }
        let default = self.renderer.as_deref();
        let default = default.or_else(|| cx.opts().text("renderer"));
        let context = Context {
            name: path.display().to_string(),
            variables: Map::new()
                .with("grains", cx.grains())
                .with("opts", cx.opts().map.clone()),
            ..Context::default()
        };
        let default = default.unwrap_or("jinja|yaml");
        let rendered = render::render(&text, default, &context, &ExecHost::in_state_tree(cx));
        rendered
            .map(|rendered| rendered.value)
            .map_err(|error| failed(&error))
    }

    fn keeps(&self, shown: &str) -> bool {
        match self.keep_newline.as_list() {
            Some(patterns) => {
                let mut patterns = patterns.iter().map(Value::to_text);
                patterns.any(|pattern| glob::fnmatch(&pattern, shown))
            }
            None => self.keep_newline.is_true(),
        }
    }
}
