//! `pinch install-links DIR`: a link for each applet; `pinch install-python DIR`: a package `salt` for Python programs.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::ExitCode;

use cli::failure::{Exit, Failure};
use cli::options::APPLETS;

use crate::own_path;

/// Makes the links. What is already there and no link of ours is left alone and named.
///
/// # Errors
/// When the folder is not named or not there, or a name in it is taken.
pub(crate) fn install(words: &[String]) -> Result<ExitCode, Failure> {
    let [folder] = words else {
        return Err(Failure::new(
            Exit::Usage,
            "install-links takes one folder: pinch install-links DIR",
        ));
    };
    let program = own_path().map_err(|error| Failure::new(Exit::Generic, error))?;
    for applet in APPLETS {
        link(&program, &Path::new(folder).join(applet.name))?;
    }
    Ok(Exit::Ok.into())
}

/// Puts the package `salt` into a folder of Python's path; its functions are answered by this program.
///
/// # Errors
/// When the folder is not named, holds another Salt, or cannot be written.
pub(crate) fn install_python(words: &[String]) -> Result<ExitCode, Failure> {
    let [folder] = words else {
        return Err(Failure::new(
            Exit::Usage,
            "install-python takes one folder: pinch install-python DIR",
        ));
    };
    let program = own_path().map_err(|error| Failure::new(Exit::Generic, error))?;
    modules::custom::install(Path::new(folder), &program)
        .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    Ok(Exit::Ok.into())
}

fn link(program: &Path, link: &Path) -> Result<(), Failure> {
    if std::fs::read_link(link).is_ok_and(|target| target == program) {
        return Ok(());
    }
    if link.symlink_metadata().is_ok() {
        let error = format!("{} is already there; it is not replaced", link.display());
        return Err(Failure::new(Exit::CantCreate, error)
            .hints(["remove it first, or name another folder".to_owned()]));
    }
    symlink(program, link)
        .map_err(|error| Failure::new(Exit::CantCreate, format!("{}: {error}", link.display())))
}
