//! The `tuned` execution module: profiles of the kernel's settings. Salt 3008 has it no more; answers are those of its last one.

use state::exec::Exec;
use state::module::Error;
use value::Value;

use crate::exec::tool;
use crate::process::Output;

state::exec_module! {
    /// Profiles of the kernel's settings (`tuned-adm`).
    mod tuned;

    /// Return the profiles that there are.
    fn list(List {});

    /// Return the profile in force; `none` where there is none.
    fn active(Active {});

    /// Put no profile in force.
    fn off(Off {});

    /// Put a profile in force.
    fn profile(Profile {
        /// Its name.
        profile_name: String,
    });
}

fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    tool::run(cx, &[&["tuned-adm"], words].concat(), None, None)
}

/// The profiles that there are.
///
/// # Errors
/// When the program is missing.
pub(crate) fn profiles(cx: &Exec) -> Result<Vec<String>, Error> {
    let said = run(cx, &["list"])?.stdout;
    let name = |line: &str| line.split("- ").nth(1).map(|name| name.trim().to_owned());
    // A heading stands before them, the one in force or warnings behind.
    let lines = said.lines().take_while(|line| !line.starts_with("** "));
    Ok(lines
        .filter(|line| line.starts_with('-'))
        .filter_map(name)
        .collect())
}

/// The profile in force.
///
/// # Errors
/// When the program is missing.
pub(crate) fn current(cx: &Exec) -> Result<String, Error> {
    let output = run(cx, &["active"])?;
    let profile = output.stdout.strip_prefix("Current active profile: ");
    let profile = profile.and_then(|rest| rest.lines().next());
    Ok(match profile.filter(|_| output.success()) {
        Some(profile) => profile.to_owned(),
        None => "none".to_owned(),
    })
}

/// Puts no profile in force.
///
/// # Errors
/// When the program is missing.
pub(crate) fn switched_off(cx: &Exec) -> Result<bool, Error> {
    Ok(run(cx, &["off"])?.success())
}

/// Puts a profile in force: its name, or False.
///
/// # Errors
/// When the program is missing.
pub(crate) fn switched(cx: &Exec, profile: &str) -> Result<Value, Error> {
    tool::is_name("profile", profile)?;
    Ok(match run(cx, &["profile", profile])?.success() {
        true => profile.into(),
        false => Value::Bool(false),
    })
}

fn list(cx: &Exec, _: List) -> Result<Value, Error> {
    Ok(profiles(cx)?.into())
}

fn active(cx: &Exec, _: Active) -> Result<Value, Error> {
    Ok(current(cx)?.into())
}

fn off(cx: &Exec, _: Off) -> Result<Value, Error> {
    Ok(switched_off(cx)?.into())
}

fn profile(cx: &Exec, args: Profile) -> Result<Value, Error> {
    switched(cx, &args.profile_name)
}
