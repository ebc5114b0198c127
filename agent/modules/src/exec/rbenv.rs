//! The `rbenv` execution module.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::pyenv::{RBENV, Versioned};

state::exec_module! {
    /// Manage several versions of Ruby with `rbenv`.
    mod rbenv;

    /// Install rbenv.
    ///
    ///     salt-call rbenv.install
    fn install(Install {
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
        /// The folder of rbenv.
        path: Option<String> = None,
    });

    /// Update rbenv.
    ///
    ///     salt-call rbenv.update
    fn update(Update {
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
        /// The folder of rbenv.
        path: Option<String> = None,
    });

    /// True when rbenv is installed.
    ///
    ///     salt-call rbenv.is_installed
    fn is_installed(IsInstalled {
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Install a version of Ruby.
    ///
    ///     salt-call rbenv.install_ruby 3.3.4
    fn install_ruby(InstallRuby {
        /// The version of Ruby.
        ruby: String,
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Remove a version of Ruby.
    ///
    ///     salt-call rbenv.uninstall_ruby 3.1.6
    fn uninstall_ruby(UninstallRuby {
        /// The version of Ruby.
        ruby: String,
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Return the installed versions of Ruby.
    ///
    ///     salt-call rbenv.versions
    fn versions(Versions {
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Return the default version of Ruby, or set it.
    ///
    ///     salt-call rbenv.default 3.3.4
    fn default(Default_ {
        /// The version to set; the current default is returned if not given.
        ruby: Option<String> = None,
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Return the versions of Ruby that can be installed.
    ///
    ///     salt-call rbenv.list
    fn list(List {
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Update the shims, so that the programs of all versions can be called.
    ///
    ///     salt-call rbenv.rehash
    fn rehash(Rehash {
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });

    /// Run a command with the programs of rbenv in its PATH.
    ///
    ///     salt-call rbenv.do 'gem list'
    fn r#do(Do {
        /// The command.
        cmdline: String,
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
        /// Environment variables for the command.
        env: Map = Map::new(),
    });

    /// Run a command with the programs of one version of Ruby in its PATH.
    ///
    ///     salt-call rbenv.do_with_ruby 3.3.4 'gem list'
    fn do_with_ruby(DoWithRuby {
        /// The version of Ruby.
        ruby: String,
        /// The command.
        cmdline: String,
        /// The user whose rbenv is used; the system-wide one if not given.
        runas: Option<String> = None,
    });
}

fn rbenv(cx: &Exec, runas: Option<String>) -> Result<Versioned<'_>, Error> {
    Versioned::from_config(cx, RBENV, runas)
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    rbenv(cx, args.runas)?
        .at(args.path)
        .install()
        .map(Value::from)
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    rbenv(cx, args.runas)?
        .at(args.path)
        .update()
        .map(Value::from)
}

fn is_installed(cx: &Exec, args: IsInstalled) -> Result<Value, Error> {
    Ok(rbenv(cx, args.runas)?.is_installed().into())
}

fn install_ruby(cx: &Exec, args: InstallRuby) -> Result<Value, Error> {
    rbenv(cx, args.runas)?.install_version(&args.ruby)
}

fn uninstall_ruby(cx: &Exec, args: UninstallRuby) -> Result<Value, Error> {
    rbenv(cx, args.runas)?.uninstall_version(&args.ruby)
}

fn versions(cx: &Exec, args: Versions) -> Result<Value, Error> {
    rbenv(cx, args.runas)?.versions().map(Value::from)
}

fn default(cx: &Exec, args: Default_) -> Result<Value, Error> {
    rbenv(cx, args.runas)?.default_or(args.ruby)
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    rbenv(cx, args.runas)?.list()
}

fn rehash(cx: &Exec, args: Rehash) -> Result<Value, Error> {
    rbenv(cx, args.runas)?.rehash()
}

fn r#do(cx: &Exec, args: Do) -> Result<Value, Error> {
    rbenv(cx, args.runas)?.run_with(None, &args.cmdline, args.env)
}

fn do_with_ruby(cx: &Exec, args: DoWithRuby) -> Result<Value, Error> {
    rbenv(cx, args.runas)?.run_with(Some(&args.ruby), &args.cmdline, Map::new())
}
