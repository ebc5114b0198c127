//! `_schedule.conf`, a part of the minion's configuration: the jobs of a minion's schedule that
//! were added or changed, by a running minion or while none ran.

use std::path::PathBuf;

use machine::fs;
use render::yaml::{self, Dump};
use state::exec::Exec;
use state::module::Error;
use state::opts::Opts;
use value::{Map, Value};

fn path(opts: &Opts) -> PathBuf {
    beside(opts, "_schedule.conf")
}

/// Returns the path of a file in the folder of included configuration files.
pub(crate) fn beside(opts: &Opts, name: &str) -> PathBuf {
    let include = opts.text("default_include").unwrap_or("minion.d/*.conf");
    let folder = include.rsplit_once('/').map_or("", |(folder, _)| folder);
    let conf = opts.path("conf_file");
    conf.with_file_name(folder).join(name)
}

/// Returns the jobs of the file; none where there is no file.
///
/// # Errors
/// When it cannot be read, or is not YAML.
pub fn read(opts: &Opts) -> Result<Map, Error> {
    let path = path(opts);
    let Some(text) = fs::text_or_none(&path)? else {
        return Ok(Map::new());
    };
    let data = yaml::load(&text)
        .map_err(|error| Error::refused(format!("{}: {}", path.display(), error.salt_message())))?;
    let jobs = data.get("schedule").and_then(Value::as_map);
    Ok(jobs.cloned().unwrap_or_default())
}

/// Writes the jobs.
///
/// # Errors
/// When the file cannot be written.
pub fn write(cx: &Exec, jobs: &Map) -> Result<(), Error> {
    let path = path(cx.opts());
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        fs::mkdir(cx, folder).map_err(Error::io(folder))?;
    }
    let text = dumped(jobs, None)?;
    fs::write(cx, &path, text.as_bytes(), fs::Owner::default())?;
    Ok(())
}

/// Formats the jobs as a configuration file.
pub(crate) fn dumped(jobs: &Map, flow: Option<bool>) -> Result<String, Error> {
    let data = Map::new().with("schedule", jobs.clone());
    let layout = Dump {
        default_flow_style: flow,
        sort_keys: true,
        ..Dump::default()
    };
    yaml::dump(&data.into(), &layout).map_err(|error| Error::refused(error.to_string()))
}
