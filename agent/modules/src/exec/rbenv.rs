//! The `rbenv` execution module.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::pyenv::{RBENV, Versioned};

state::exec_module! {
    /// Several versions of Ruby (`rbenv`).
    mod rbenv;

    /// Install rbenv.
    fn install(Install {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
        /// Its folder.
        path: Option<String> = None,
    });

    /// Bring rbenv up to date.
    fn update(Update {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
        /// Its folder.
        path: Option<String> = None,
    });

    /// True when rbenv is installed.
    fn is_installed(IsInstalled {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Install a version of Ruby.
    fn install_ruby(InstallRuby {
        /// The version.
        ruby: String,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Remove a version of Ruby.
    fn uninstall_ruby(UninstallRuby {
        /// The version.
        ruby: String,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Return the installed versions.
    fn versions(Versions {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Return the version that is used, or set it.
    fn default(Default_ {
        /// The version.
        ruby: Option<String> = None,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Return the versions that there are.
    fn list(List {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Make the programs of all versions callable.
    fn rehash(Rehash {
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });

    /// Run a command with rbenv's programs.
    fn r#do(Do {
        /// The command.
        cmdline: String,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
        /// Variables of its environment.
        env: Map = Map::new(),
    });

    /// Run a command with those of one version.
    fn do_with_ruby(DoWithRuby {
        /// The version.
        ruby: String,
        /// The command.
        cmdline: String,
        /// The user; for all users where none is named.
        runas: Option<String> = None,
    });
}

fn of(cx: &Exec, runas: Option<String>) -> Result<Versioned<'_>, Error> {
    Versioned::of(cx, RBENV, runas)
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    of(cx, args.runas)?.at(args.path).install().map(Value::from)
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    of(cx, args.runas)?.at(args.path).update().map(Value::from)
}

fn is_installed(cx: &Exec, args: IsInstalled) -> Result<Value, Error> {
    Ok(of(cx, args.runas)?.is_installed().into())
}

fn install_ruby(cx: &Exec, args: InstallRuby) -> Result<Value, Error> {
    of(cx, args.runas)?.install_version(&args.ruby)
}

fn uninstall_ruby(cx: &Exec, args: UninstallRuby) -> Result<Value, Error> {
    of(cx, args.runas)?.uninstall_version(&args.ruby)
}

fn versions(cx: &Exec, args: Versions) -> Result<Value, Error> {
    of(cx, args.runas)?.versions().map(Value::from)
}

fn default(cx: &Exec, args: Default_) -> Result<Value, Error> {
    of(cx, args.runas)?.default_or(args.ruby)
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    of(cx, args.runas)?.list()
}

fn rehash(cx: &Exec, args: Rehash) -> Result<Value, Error> {
    of(cx, args.runas)?.rehash()
}

fn r#do(cx: &Exec, args: Do) -> Result<Value, Error> {
    of(cx, args.runas)?.run_with(None, &args.cmdline, args.env)
}

fn do_with_ruby(cx: &Exec, args: DoWithRuby) -> Result<Value, Error> {
    of(cx, args.runas)?.run_with(Some(&args.ruby), &args.cmdline, Map::new())
}
