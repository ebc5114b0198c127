//! runit: `sv`, and links to services in the folder that `runsvdir` watches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use machine::fs;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log};

use super::{Boot, Provider, Which, ask, folder, run, runnable, script_name};

pub(super) struct Runit;

/// The folders that `runsvdir` watches on various systems.
const WATCHED: [&str; 3] = ["/service", "/var/service", "/etc/service"];
/// The folder of the services that can be linked there.
const AVAILABLE: &str = "/etc/sv";
/// The number of checks for a new service. `runsvdir` looks every five seconds.
const LOOKS: u32 = 20;

fn watched() -> Result<&'static Path, Error> {
    let mut folders = WATCHED.iter().map(Path::new);
    folders
        .find(|folder| folder.exists())
        .ok_or_else(|| "Could not find service directory.".into())
}

/// Returns the path of a service in the watched folder.
fn linked(name: &str) -> Result<PathBuf, Error> {
    script_name(name)?;
    Ok(watched()?.join(name))
}

fn is_service(path: &Path) -> bool {
    runnable(&path.join("run"))
}

/// Returns true if a service starts with the system: it is linked and has no file `down`.
fn starts(path: &Path) -> bool {
    is_service(path) && !path.join("down").exists()
}

fn services(which: Which) -> Result<Vec<String>, Error> {
    let watched = watched()?;
    let mut names = folder(&watched.to_string_lossy())?;
    names.extend(folder(AVAILABLE)?);
    names.sort();
    names.dedup();
    names.retain(|name| {
        let starts = starts(&watched.join(name));
        match which {
            Which::All => is_service(&watched.join(name)) || exists(name),
            Which::Enabled => starts,
            Which::Disabled => !starts && (is_service(&watched.join(name)) || exists(name)),
        }
    });
    Ok(names)
}

fn exists(name: &str) -> bool {
    is_service(&Path::new(AVAILABLE).join(name))
}

fn sv(cx: &Exec, verb: &str, path: &Path) -> Result<bool, Error> {
    Ok(run(cx, &["sv", verb, &path.to_string_lossy()])?.success())
}

/// Links a service. With a file `down`, `runsvdir` does not start it.
fn link(cx: &Exec, name: &str, down: bool) -> Result<bool, Error> {
    let (service, link) = (Path::new(AVAILABLE).join(name), linked(name)?);
    let file = service.join("down");
    if down && !file.exists() {
        fs::write(cx, &file, b"", fs::Owner::default())?;
    }
    fs::symlink(cx, &service, &link).map_err(Error::io(&link))?;
    cx.barrier();
    let seen = seen(cx, &link)?;
    if !seen {
        log::error(format_args!(
            "runsvdir does not supervise {}: it is not running or watches another directory",
            link.display()
        ));
        fs::remove(cx, &link).map_err(Error::io(&link))?;
    }
    Ok(seen)
}

/// Makes a linked service start with the system.
fn remove_down(cx: &Exec, link: &Path) -> Result<(), Error> {
    let down = link.join("down");
    if down.exists() {
        fs::remove(cx, &down).map_err(Error::io(&down))?;
    }
    Ok(())
}

fn seen(cx: &Exec, link: &Path) -> Result<bool, Error> {
    let link = link.to_string_lossy();
    for _ in 0..LOOKS {
        if ask(cx, &["sv", "status", &link])?.success() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(false)
}

impl Provider for Runit {
    fn name(&self) -> &'static str {
        "runit"
    }

    fn act(&self, cx: &Exec, verb: &str, name: &str, _options: &Map) -> Result<bool, Error> {
        let path = linked(name)?;
        let verb = match verb {
            "full-restart" => "restart",
            // A service must be linked before it can run. It still does not start with the system.
            "start" if !is_service(&path) && exists(name) && !link(cx, name, true)? => {
                return Ok(false);
            }
            verb => verb,
        };
        sv(cx, verb, &path)
    }

    fn runs(&self, cx: &Exec, name: &str) -> Result<Value, Error> {
        let path = linked(name)?;
        let out = ask(cx, &["sv", "status", &path.to_string_lossy()])?;
        Ok((path.exists() && out.stdout_regardless().starts_with("run: ")).into())
    }

    fn list(&self, _cx: &Exec, which: Which, _options: &Map) -> Result<Value, Error> {
        Ok(services(which)?.into())
    }

    fn actions(&self) -> &'static [&'static str] {
        &["full_restart"]
    }

    fn boot(&self) -> Option<&dyn Boot> {
        Some(self)
    }
}

impl Boot for Runit {
    fn enable(&self, cx: &Exec, name: &str, on: bool, options: &Map) -> Result<bool, Error> {
        let path = linked(name)?;
        let is_linked = is_service(&path);
        if !(is_linked || on && exists(name)) {
            return Ok(false);
        }
        let flag = |name: &str| options.get(name).is_some_and(Value::is_true);
        if !is_linked && !link(cx, name, !flag("start"))? {
            return Ok(false);
        }
        if on {
            remove_down(cx, &path)?;
            return Ok(true);
        }
        if flag("stop") {
            sv(cx, "stop", &path)?;
        }
        fs::write(cx, &path.join("down"), b"", fs::Owner::default())?;
        Ok(true)
    }

    fn enabled(&self, _cx: &Exec, name: &str, _options: &Map) -> Result<bool, Error> {
        Ok(starts(&linked(name)?))
    }
}
