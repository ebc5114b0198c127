//! The `tuned` execution module: profiles of system settings. Salt 3008 no longer has this module;
//! the answers are those of the last version that had it.

use machine::process::Output;
use state::exec::Exec;
use state::module::Error;
use value::Value;

use crate::exec::tool;

state::exec_module! {
    /// Manage profiles of system settings with `tuned-adm`.
    #[needs(
        "tuned-adm",
        "The tuned execution module failed to load: the tuned-adm binary is not in the path.",
        "tuned"
    )]
    mod tuned;

    /// Return the available profiles.
    ///
    ///     salt-call tuned.list
    fn list(List {});

    /// Return the active profile, or `none` if there is none.
    ///
    ///     salt-call tuned.active
    fn active(Active {});

    /// Deactivate the current profile.
    ///
    ///     salt-call tuned.off
    fn off(Off {});

    /// Activate a profile.
    ///
    ///     salt-call tuned.profile throughput-performance
    fn profile(Profile {
        /// The name of the profile.
        profile_name: String,
    });
}

fn run(cx: &Exec, words: &[&str]) -> Result<Output, Error> {
    tool::run(cx, &[&["tuned-adm"], words].concat(), None, None)
}

/// Returns the available profiles.
///
/// # Errors
/// When the program is missing.
pub(crate) fn profiles(cx: &Exec) -> Result<Vec<String>, Error> {
    let said = run(cx, &["list"])?.into_stdout_regardless();
    let name = |line: &str| line.split("- ").nth(1).map(|name| name.trim().to_owned());
    // A heading precedes the profiles. The active profile or warnings follow them.
    let lines = said.lines().take_while(|line| !line.starts_with("** "));
    Ok(lines
        .filter(|line| line.starts_with('-'))
        .filter_map(name)
        .collect())
}

/// Returns the active profile.
///
/// # Errors
/// When the program is missing.
pub(crate) fn current(cx: &Exec) -> Result<String, Error> {
    let output = run(cx, &["active"])?;
    let profile = output
        .stdout_regardless()
        .strip_prefix("Current active profile: ");
    let profile = profile.and_then(|rest| rest.lines().next());
    Ok(match profile.filter(|_| output.success()) {
        Some(profile) => profile.to_owned(),
        None => "none".to_owned(),
    })
}

/// Deactivates the current profile and returns whether this succeeded.
///
/// # Errors
/// When the program is missing.
pub(crate) fn switched_off(cx: &Exec) -> Result<bool, Error> {
    Ok(run(cx, &["off"])?.success())
}

/// Activates a profile and returns its name, or False.
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
