//! The `webutil` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use machine::process::Output;
use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::webutil::File;

state::state_module! {
    /// Manage user and password files for web servers (`htpasswd`).
    #[needs("htpasswd", "Command not found: htpasswd", "apache2-utils")]
    mod webutil;

    /// Make sure that a file contains a user.
    ///
    ///     alice:
    ///       webutil.user_exists:
    ///         - htpasswd_file: /etc/nginx/htpasswd
    ///         - password: {{ pillar['shop_password'] }}
    fn user_exists(UserExists {
        /// The user.
        name: String,
        /// The password.
        password: String = String::new(),
        /// The file.
        htpasswd_file: String,
        /// Options of `htpasswd`, one letter each.
        options: String = String::new(),
        /// True to set the password even if the user exists.
        force: bool = false,
        /// The user who runs `htpasswd`.
        runas: Option<String> = None,
        /// True to set the password if it differs.
        update: bool = false,
    });

    /// Make sure that a file does not contain a user.
    ///
    ///     bob:
    ///       webutil.user_absent:
    ///         - htpasswd_file: /etc/nginx/htpasswd
    fn user_absent(UserAbsent {
        /// The user.
        name: String,
        /// The file.
        htpasswd_file: String,
        /// The user who runs `htpasswd`.
        runas: Option<String> = None,
    });
}

/// Returns whether a file contains a user. A file that does not exist contains none.
fn has(path: &str, user: &str) -> Result<bool, Error> {
    let Some(bytes) = machine::fs::read_or_none(path)? else {
        return Ok(false);
    };
    let text = python::text::decoded(&bytes);
    let user = format!("{user}:");
    Ok(text.lines().any(|line| line.starts_with(&user)))
}

/// Returns the result of `htpasswd`, which prints its messages on the standard error.
fn outcome(output: Output, name: &str) -> Ret {
    match output.success() {
        true => Ret::ok(output.stderr).change(name, true),
        false => Ret::failed(output.stderr),
    }
}

fn user_exists(cx: &Exec, args: UserExists) -> Result<Ret, Error> {
    let (name, password) = (args.name.as_str(), args.password.as_str());
    let file = File {
        cx,
        path: &args.htpasswd_file,
        opts: &args.options,
        runas: args.runas.as_deref(),
    };
    let is_there = has(file.path, name)?;
    let is_good = is_there && !args.force;
    if is_good && (!args.update || file.verify(name, password)?) {
        return Ok(Ret::ok("User already known"));
    }
    let would = Ret::would(format!("User '{name}' is set to be added to htpasswd file"));
    cx.apply(would.change(name, true), || {
        Ok(outcome(file.add(name, password)?, name))
    })
}

fn user_absent(cx: &Exec, args: UserAbsent) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let file = File {
        cx,
        path: &args.htpasswd_file,
        opts: "",
        runas: args.runas.as_deref(),
    };
    if !has(file.path, name)? {
        // In test mode Salt returns None here even if nothing would change.
        let result = (!cx.test).then_some(true);
        return Ok(Ret {
            result,
            ..Ret::ok("User already not in file")
        });
    }
    let would = Ret::would(format!(
        "User '{name}' is set to be removed from htpasswd file"
    ));
    cx.apply(would.change(name, true), || {
        Ok(outcome(file.remove(name)?, name))
    })
}
