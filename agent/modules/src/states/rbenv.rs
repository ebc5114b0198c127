//! The `rbenv` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::pyenv::{RBENV, Versioned};
use crate::states::pyenv::{Words, program_installed, version_absent, version_installed};

state::state_module! {
    /// Manage several versions of Ruby (`rbenv`).
    mod rbenv;

    /// Make sure that a version of Ruby is installed. A missing rbenv is installed too.
    ///
    ///     '3.3.4':
    ///       rbenv.installed:
    ///         - default: True
    fn installed(Installed {
        /// The version.
        name: String,
        /// True to make it the default version.
        default: bool = false,
        /// The user. Default: for all users.
        user: Option<String> = None,
    });

    /// Make sure that a version of Ruby is not installed.
    ///
    ///     '3.1.6':
    ///       rbenv.absent
    fn absent(Absent {
        /// The version.
        name: String,
        /// The user. Default: for all users.
        user: Option<String> = None,
    });

    /// Make sure that rbenv is installed.
    ///
    ///     /opt/rbenv:
    ///       rbenv.install_rbenv:
    ///         - user: deploy
    fn install_rbenv(InstallRbenv {
        /// Any name.
        name: String,
        /// The user. Default: for all users.
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
    let one = Versioned::from_config(cx, RBENV, args.user)?;
    version_installed(&one, &WORDS, cx, &args.name, args.default)
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let one = Versioned::from_config(cx, RBENV, args.user)?;
    version_absent(&one, &WORDS, cx, &args.name)
}

fn install_rbenv(cx: &Exec, args: InstallRbenv) -> Result<Ret, Error> {
    program_installed(&Versioned::from_config(cx, RBENV, args.user)?, &WORDS, cx)
}
