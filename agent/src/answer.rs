//! `pinch answer`: answers the requests of another program, one line of JSON each. The package of
//! `pinch install-python` starts it.

use std::io::{BufRead, Write};
#[cfg(feature = "master")]
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cli::config::{self, ConfigError};
use cli::failure::{Exit, Failure};
use cli::heap;
use cli::log::Logger;
use cli::output::{Output, display};
use modules::loader::custom;
use state::exec::Exec;
use state::opts::Opts;
use value::{Map, Value};

use crate::call;
use render::yaml::SaltYaml;

/// The folder of the configuration if a request names none.
const CONFIG: &str = "/etc/salt";

/// Answers one line after the other until the input ends.
///
/// # Errors
/// If an answer cannot be written to stdout.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    heap::claim();
    let mut known = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let answer = answered(&line, &mut known);
        put(&answer).map_err(|error| Failure::new(Exit::Generic, error))?;
    }
    Ok(Exit::Ok.into())
}

fn put(answer: &Map) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(custom::line(answer).as_bytes())?;
    stdout.flush()
}

/// A context and the options that it was made from.
type CachedContext = Option<(Option<Map>, Exec)>;

fn answered(line: &str, known: &mut CachedContext) -> Map {
    let answer = custom::read(line).and_then(|asked| {
        if let Some(data) = asked.get("output") {
            return Ok(Map::new().with("return", format_data(data, &asked)));
        }
        if let Some(path) = asked.get("config") {
            let is_master = asked.get("role").and_then(Value::as_str) == Some("master");
            let opts = options(Path::new(&path.to_text()), is_master)?;
            return Ok(Map::new().with("return", opts));
        }
        #[cfg(feature = "master")]
        if asked.contains("master") {
            return Ok(of_master(&asked));
        }
        let cx = context(&asked, known)?;
        let answer = custom::outside(&cx, &asked);
        cx.barrier();
        Ok(answer)
    });
    answer.unwrap_or_else(|text| error("SaltConfigurationError", text))
}

fn error(kind: &str, text: String) -> Map {
    let error = Map::new().with("type", kind).with("text", text);
    Map::new().with("error", error)
}

/// Passes a request to the master of this machine. Writes each part of its answer, and returns the
/// end.
#[cfg(feature = "master")]
fn of_master(asked: &Map) -> Map {
    let answer = |value: Value| Map::new().with("return", value);
    let mut each = |part| match put(&answer(part).with("more", true)) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    master::master_request(asked, &mut each).map_or_else(|(kind, text)| error(kind, text), answer)
}

/// Returns data as the requested outputter formats it.
fn format_data(data: &Value, asked: &Map) -> String {
    let opts = asked.get("opts").and_then(Value::as_map);
    let how = Output::from_opts(&opts.cloned().unwrap_or_default(), false);
    let wanted = asked.get("out").and_then(Value::as_str);
    display(data, wanted, &how, 0, &SaltYaml)
}

/// Returns the options of the configuration folder at `path`, or of the folder that contains the
/// file at `path`. They are those of a master if asked for, and this build has a master.
fn options(path: &Path, is_master: bool) -> Result<Map, String> {
    let folder = match path.parent() {
        Some(parent) if !path.is_dir() => parent,
        _ => path,
    };
    #[cfg(feature = "master")]
    if is_master {
        return master::master_options(folder);
    }
    #[cfg(not(feature = "master"))]
    let _ = is_master;
    let said = |error: ConfigError| error.to_string();
    let loaded = config::load(folder, Map::new(), &SaltYaml).map_err(said)?;
    config::obeyed(&loaded, folder).map_err(said)?;
    Ok(loaded.opts)
}

/// Returns the context for a request. It reuses the context of the previous request if the options
/// are the same.
fn context(asked: &Map, known: &mut CachedContext) -> Result<Exec, String> {
    let given = asked.get("opts").and_then(Value::as_map).cloned();
    if let Some((options, cx)) = known
        && (given.is_none() || *options == given)
    {
        return Ok(cx.apart());
    }
    let file = given.as_ref().and_then(|given| given.get("conf_file"));
    let file = file.map_or_else(|| CONFIG.into(), |file| PathBuf::from(file.to_text()));
    let mut opts = options(&file, false)?;
    opts.update(given.clone().unwrap_or_default());
    let _first = Logger::from_opts(&opts).install();
    let (cx, _) = call::context(Opts::new(opts), false).map_err(|error| error.to_string())?;
    *known = Some((given, cx.clone()));
    Ok(cx)
}
