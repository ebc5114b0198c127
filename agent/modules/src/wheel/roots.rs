//! The shared parts of `file_roots` and `pillar_roots`.

use std::path::{Component, Path, PathBuf};

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

/// The maximum depth of a listing.
const DEPTH_MAX: usize = 64;

fn inside(path: &str) -> bool {
    let clean = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    !path.is_empty() && Path::new(path).components().all(clean)
}

/// Returns true for text. As in Salt, only the beginning of a file is examined.
fn is_text(bytes: &[u8]) -> bool {
    let head = bytes.get(..512).unwrap_or(bytes);
    !head.contains(&0) && std::str::from_utf8(bytes).is_ok()
}

/// Returns the places of a path below the roots, with the contents of each file.
pub(super) fn find(
    cx: &Exec,
    option: &str,
    path: &str,
    saltenv: &str,
) -> Result<Vec<(PathBuf, Vec<u8>)>, Error> {
    if !inside(path) {
        return Ok(Vec::new());
    }
    let files = cx
        .opts()
        .roots(option, saltenv)
        .into_iter()
        .map(|root| root.join(path))
        .filter(|path| path.is_file());
    files
        .map(|path| machine::fs::read(&path).map(|bytes| (path, bytes)))
        .collect()
}

/// Returns the places of a path in Salt's form, each with `txt` or `bin`.
pub(super) fn found(cx: &Exec, option: &str, path: &str, saltenv: &str) -> Result<Value, Error> {
    let kind = |bytes: &[u8]| if is_text(bytes) { "txt" } else { "bin" };
    let files = find(cx, option, path, saltenv)?;
    Ok(Value::list(files.iter().map(|(path, bytes)| {
        Map::new()
            .with(&path.display().to_string(), kind(bytes))
            .into()
    })))
}

/// Returns the text of each file at a path below the roots.
pub(super) fn read(cx: &Exec, option: &str, path: &str, saltenv: &str) -> Result<Value, Error> {
    let files = find(cx, option, path, saltenv)?;
    let texts = files.into_iter().filter(|(_, bytes)| is_text(bytes));
    Ok(Value::list(texts.map(|(path, bytes)| {
        Map::new()
            .with(
                &path.display().to_string(),
                String::from_utf8_lossy(&bytes).into_owned(),
            )
            .into()
    })))
}

/// Returns the folders of an environment as nested dictionaries, with files marked `f`.
pub(super) fn list_env(cx: &Exec, option: &str, saltenv: &str) -> Result<Value, Error> {
    let mut roots = Map::new();
    for root in cx.opts().roots(option, saltenv) {
        let listing = if root.is_dir() {
            listing(&root, 0)?
        } else {
            Map::new()
        };
        roots.insert(root.display().to_string(), listing);
    }
    Ok(roots.into())
}

fn listing(folder: &Path, depth: usize) -> Result<Map, Error> {
    let mut names = Map::new();
    if depth > DEPTH_MAX {
        return Ok(names);
    }
    let entries = machine::fs::list(folder)?.into_iter();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let is_folder = path.is_dir() && !path.is_symlink();
        let entry: Value = if is_folder {
            listing(&path, depth + 1)?.into()
        } else {
            "f".into()
        };
        names.insert(name, entry);
    }
    Ok(names)
}

/// Returns the listings of all environments.
pub(super) fn list_roots(cx: &Exec, option: &str) -> Result<Value, Error> {
    let mut all = Map::new();
    for saltenv in cx.opts().environments(option) {
        let listing = list_env(cx, option, &saltenv)?;
        all.insert(saltenv, Value::list([listing]));
    }
    Ok(all.into())
}

/// Writes a file below one of the roots. Returns Salt's message about the result.
pub(super) fn write(
    cx: &Exec,
    option: &str,
    data: &str,
    path: &str,
    saltenv: &str,
    index: i64,
) -> Result<Value, Error> {
    let roots = cx.opts().roots(option, saltenv);
    if roots.is_empty() {
        return Ok(format!("Named environment {saltenv} is not present").into());
    }
    let Some(root) = usize::try_from(index)
        .ok()
        .and_then(|index| roots.get(index))
    else {
        return Ok(
            format!("Specified index {index} in environment {saltenv} is not present").into(),
        );
    };
    if path.starts_with('/') {
        return Ok(format!(
            "The path passed in {path} is not relative to the environment {saltenv}"
        )
        .into());
    }
    if !inside(path) {
        return Ok(format!("Invalid path: {path}").into());
    }
    let target = root.join(path);
    if let Some(folder) = target.parent() {
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
    }
    machine::fs::write(cx, &target, data.as_bytes(), machine::fs::Owner::default())?;
    cx.barrier();
    Ok(format!("Wrote data to file {}", target.display()).into())
}
