//! The `rbenv` state module. Salt 3008 has it no more; answers are those of its last one.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::pyenv::{RBENV, Versioned};
use crate::states::pyenv::{Words, program_installed, version_absent, version_installed};

state::state_module! {
    /// Several versions of Ruby (`rbenv`).
    mod rbenv;

    /// Make sure that a version of Ruby is installed; rbenv is, where it is not there.
    fn installed(Installed {
        /// The version.
        name: String,
        /// Use it where no other is asked for.
        default: bool = false,
        /// The user; for all users where none is named.
        user: Option<String> = None,
    });

    /// Make sure that a version of Ruby is not installed.
    fn absent(Absent {
        /// The version.
        name: String,
        /// The user; for all users where none is named.
        user: Option<String> = None,
    });

    /// Make sure that rbenv is installed.
    fn install_rbenv(InstallRbenv {
        /// Any name.
        name: String,
        /// The user; for all users where none is named.
        user: Option<String> = None,
    });
}

const WORDS: Words = Words {
    program: "Rbenv",
    language: "Ruby",
    exists: "Requested ruby exists",
    not_installed: "Failed to install ruby",
    looks: true,
};

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let one = Versioned::of(cx, RBENV, args.user)?;
    version_installed(&one, &WORDS, cx, &args.name, args.default)
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let one = Versioned::of(cx, RBENV, args.user)?;
    version_absent(&one, &WORDS, cx, &args.name)
}

fn install_rbenv(cx: &Exec, args: InstallRbenv) -> Result<Ret, Error> {
    program_installed(&Versioned::of(cx, RBENV, args.user)?, &WORDS, cx)
}
