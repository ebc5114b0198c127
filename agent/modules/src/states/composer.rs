//! The `composer` state module for PHP packages. Salt 3008 no longer has it; the returns are those
//! of Salt's last version of it.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::composer::{Composer, Flags, Program, is_installed};

state::state_module! {
    /// Manage PHP packages (`composer`).
    mod composer;

    /// Make sure that a folder contains the packages that it requires.
    ///
    ///     /srv/shop:
    ///       composer.installed:
    ///         - user: www-data
    ///         - no_dev: True
    fn installed(Installed {
        /// The folder with `composer.json`.
        name: String,
        /// The path of the program. Default: `composer` in `PATH`.
        composer: Option<String> = None,
        /// The path of the PHP program.
        php: Option<String> = None,
        /// The user who runs composer.
        user: Option<String> = None,
        #[group] flags: Flags,
        /// True to run composer even if the folder already contains packages.
        always_check: bool = true,
        /// Environment variables for composer.
        env: Map = Map::new(),
    });

    /// Update the packages that a folder requires.
    ///
    ///     /srv/shop:
    ///       composer.update:
    ///         - user: www-data
    fn update(Update {
        /// The folder with `composer.json`.
        name: String,
        /// The path of the program. Default: `composer` in `PATH`.
        composer: Option<String> = None,
        /// The path of the PHP program.
        php: Option<String> = None,
        /// The user who runs composer.
        user: Option<String> = None,
        #[group] flags: Flags,
        /// Environment variables for composer.
        env: Map = Map::new(),
    });
}

fn would(name: &str, old: String, new: String) -> Ret {
    Ret::would(format!("The state of \"{name}\" will be changed."))
        .change("old", old)
        .change("new", new)
}

fn run(cx: &Exec, composer: Composer, name: &str, action: &str) -> Result<Ret, Error> {
    let extra: &[&str] = match action {
        "update" => &["--no-progress"],
        _ => &[],
    };
    let said = match composer.run(cx, action, extra, Some(name)) {
        Ok(said) => said,
        Err(why) => {
            let why = format!("Error executing composer in '{name}': {why}");
            return Ok(Ret::failed(why));
        }
    };
    let done = format!("Composer {action} completed successfully");
    let part = |key: &str| said.get(key).cloned().unwrap_or_default();
    Ok(match said {
        Value::Bool(_) => Ret::ok(format!("{done}, output silenced by quiet flag")),
        _ => Ret::ok(done)
            .change("stderr", part("stderr"))
            .change("stdout", part("stdout")),
    })
}

fn installed(cx: &Exec, args: Installed) -> Result<Ret, Error> {
    let name = args.name.as_str();
    let is_installed = is_installed(name);
    if !args.always_check && is_installed {
        return Ok(Ret::ok("Composer already installed this directory"));
    }
    let not = if is_installed { "" } else { "not " };
    let would = would(
        name,
        format!("composer install has {not}been run in {name}"),
        format!("composer install will be run in {name}"),
    );
    let program = Program {
        composer: args.composer,
        php: args.php,
        runas: args.user,
        flags: args.flags,
        env: args.env,
    };
    cx.apply(would, || run(cx, program.into(), name, "install"))
}

fn update(cx: &Exec, args: Update) -> Result<Ret, Error> {
    let name = args.name.as_str();
    // The condition is the wrong way round, as in Salt.
    let not = if is_installed(name) { "not yet " } else { "" };
    let would = would(
        name,
        format!("composer install has {not}been run in {name}"),
        format!("composer install/update will be run in {name}"),
    );
    let program = Program {
        composer: args.composer,
        php: args.php,
        runas: args.user,
        flags: args.flags,
        env: args.env,
    };
    cx.apply(would, || run(cx, program.into(), name, "update"))
}
