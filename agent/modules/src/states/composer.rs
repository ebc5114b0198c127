//! The `composer` state module: PHP's packages. Salt 3008 has it no more; answers are those of its last one.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::composer::{Composer, composer, is_installed};

state::state_module! {
    /// PHP's packages (`composer`).
    mod composer;

    /// Make sure that a folder has the packages that it needs.
    fn installed(Installed {
        /// The folder with `composer.json`.
        name: String,
        /// The program, if it is not `composer` on the path.
        composer: Option<String> = None,
        /// PHP's program.
        php: Option<String> = None,
        /// The user who runs it.
        user: Option<String> = None,
        /// Take sources.
        prefer_source: bool = false,
        /// Take archives.
        prefer_dist: bool = false,
        /// Run no scripts of packages.
        no_scripts: bool = false,
        /// Use no plugins.
        no_plugins: bool = false,
        /// Make a faster list of classes.
        optimize: bool = false,
        /// Without what only developers need.
        no_dev: bool = false,
        /// Do not return what it says.
        quiet: bool = false,
        /// Its own folder.
        composer_home: String = "/root".into(),
        /// Run it where the folder has packages already, too.
        always_check: bool = true,
        /// Variables of its environment.
        env: Map = Map::new(),
    });

    /// Bring the packages that a folder needs up to date.
    fn update(Update {
        /// The folder with `composer.json`.
        name: String,
        /// The program, if it is not `composer` on the path.
        composer: Option<String> = None,
        /// PHP's program.
        php: Option<String> = None,
        /// The user who runs it.
        user: Option<String> = None,
        /// Take sources.
        prefer_source: bool = false,
        /// Take archives.
        prefer_dist: bool = false,
        /// Run no scripts of packages.
        no_scripts: bool = false,
        /// Use no plugins.
        no_plugins: bool = false,
        /// Make a faster list of classes.
        optimize: bool = false,
        /// Without what only developers need.
        no_dev: bool = false,
        /// Do not return what it says.
        quiet: bool = false,
        /// Its own folder.
        composer_home: String = "/root".into(),
        /// Variables of its environment.
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
    cx.apply(would, || run(cx, composer!(args, user), name, "install"))
}

fn update(cx: &Exec, args: Update) -> Result<Ret, Error> {
    let name = args.name.as_str();
    // The other way round in Salt, too.
    let not = if is_installed(name) { "not yet " } else { "" };
    let would = would(
        name,
        format!("composer install has {not}been run in {name}"),
        format!("composer install/update will be run in {name}"),
    );
    cx.apply(would, || run(cx, composer!(args, user), name, "update"))
}
