//! The `webutil` state module. Salt 3008 has it no more; answers are those of its last one.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::webutil::File;
use crate::process::Output;

state::state_module! {
    /// Files of users and passwords for web servers (`htpasswd`).
    mod webutil;

    /// Make sure that a file has a user.
    fn user_exists(UserExists {
        /// The user.
        name: String,
        /// The password.
        password: String = String::new(),
        /// The file.
        htpasswd_file: String,
        /// Options of `htpasswd`, a letter each.
        options: String = String::new(),
        /// Set the password where the user is there, too.
        force: bool = false,
        /// The user who runs `htpasswd`.
        runas: Option<String> = None,
        /// Set the password where it is another one.
        update: bool = false,
    });

    /// Make sure that a file does not have a user.
    fn user_absent(UserAbsent {
        /// The user.
        name: String,
        /// The file.
        htpasswd_file: String,
        /// The user who runs `htpasswd`.
        runas: Option<String> = None,
    });
}

/// Whether a file names a user; one that is not there names nobody.
fn has(path: &str, user: &str) -> Result<bool, Error> {
    let Some(bytes) = crate::fs::read_or_none(path)? else {
        return Ok(false);
    };
    let text = python::text::decoded(&bytes);
    let user = format!("{user}:");
    Ok(text.lines().any(|line| line.starts_with(&user)))
}

/// What the program came to: it speaks on its standard error.
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
        // Salt has no word for "as it should be" in test mode here.
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
