//! The `composer` execution module: PHP's packages. Salt 3008 has it no more; answers are those of its last one.

use std::path::Path;

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::process::{Process, which};

state::exec_module! {
    /// PHP's packages (`composer`).
    mod composer;

    /// True when a folder has the packages that it needs.
    fn did_composer_install(DidComposerInstall {
        /// The folder with `composer.json`.
        dir: String,
    });

    /// Install what a folder needs.
    fn install(Install {
        /// The folder with `composer.json`.
        directory: String,
        /// The program, if it is not `composer` on the path.
        composer: Option<String> = None,
        /// PHP's program.
        php: Option<String> = None,
        /// The user who runs it.
        runas: Option<String> = None,
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

    /// Bring what a folder needs up to date.
    fn update(Update {
        /// The folder with `composer.json`.
        directory: String,
        /// The program, if it is not `composer` on the path.
        composer: Option<String> = None,
        /// PHP's program.
        php: Option<String> = None,
        /// The user who runs it.
        runas: Option<String> = None,
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

    /// Bring the program up to date.
    fn selfupdate(Selfupdate {
        /// The program, if it is not `composer` on the path.
        composer: Option<String> = None,
        /// PHP's program.
        php: Option<String> = None,
        /// The user who runs it.
        runas: Option<String> = None,
        /// Do not return what it says.
        quiet: bool = false,
        /// Its own folder.
        composer_home: String = "/root".into(),
    });
}

/// How the program is called.
pub(crate) struct Composer {
    pub(crate) composer: Option<String>,
    pub(crate) php: Option<String>,
    pub(crate) runas: Option<String>,
    /// Its options that say yes or no.
    pub(crate) flags: Vec<&'static str>,
    pub(crate) home: String,
    pub(crate) env: Map,
}

/// A `Composer` of the arguments that functions here and states have in common.
macro_rules! composer {
    ($args:expr, $runas:ident) => {{
        let flags = [
            ($args.quiet, "--quiet"),
            ($args.no_dev, "--no-dev"),
            ($args.prefer_source, "--prefer-source"),
            ($args.prefer_dist, "--prefer-dist"),
            ($args.no_scripts, "--no-scripts"),
            ($args.no_plugins, "--no-plugins"),
            ($args.optimize, "--optimize-autoloader"),
        ];
        let flags = flags.into_iter().filter(|(is, _)| *is);
        $crate::exec::composer::Composer {
            composer: $args.composer,
            php: $args.php,
            runas: $args.$runas,
            flags: flags.map(|(_, flag)| flag).collect(),
            home: $args.composer_home,
            env: $args.env,
        }
    }};
}
pub(crate) use composer;

/// Whether a folder has the packages that it needs.
pub(crate) fn is_installed(directory: &str) -> bool {
    Path::new(directory).join("vendor").exists()
}

impl Composer {
    /// Runs the program: what it says as `cmd.run_all` has it, or True where it was to be quiet.
    ///
    /// # Errors
    /// When it is missing, or what it says against it.
    pub(crate) fn run(
        self,
        cx: &Exec,
        action: &str,
        extra: &[&str],
        directory: Option<&str>,
    ) -> Result<Value, Error> {
        let php = match self.composer {
            Some(_) => Some(self.php.unwrap_or_else(|| "php".to_owned())),
            None => self.php,
        };
        let composer = self.composer.unwrap_or_else(|| "composer".to_owned());
        if which(&composer).is_none() {
            return Err(Error::refused(format!(
                "'composer.{action}' is not available. Couldn't find '{composer}'."
            )));
        }
        let mut words: Vec<&str> = php.as_deref().into_iter().collect();
        words.extend([&composer, action, "--no-interaction", "--no-ansi"]);
        words.extend(extra);
        words.extend(
            directory
                .into_iter()
                .flat_map(|path| ["--working-dir", path]),
        );
        words.extend(&self.flags);
        let process = Process {
            runas: self.runas,
            env: self.env.with("COMPOSER_HOME", self.home),
            ..Process::words(words)
        };
        let output = process.run(cx)?;
        if !output.success() {
            return Err(Error::refused(output.stderr));
        }
        Ok(match self.flags.contains(&"--quiet") {
            true => Value::Bool(true),
            false => output.to_map().into(),
        })
    }
}

fn did_composer_install(_: &Exec, args: DidComposerInstall) -> Result<Value, Error> {
    Ok(is_installed(&args.dir).into())
}

fn install(cx: &Exec, args: Install) -> Result<Value, Error> {
    composer!(args, runas).run(cx, "install", &[], Some(&args.directory))
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    composer!(args, runas).run(cx, "update", &["--no-progress"], Some(&args.directory))
}

fn selfupdate(cx: &Exec, args: Selfupdate) -> Result<Value, Error> {
    let flags = if args.quiet {
        vec!["--quiet"]
    } else {
        Vec::new()
    };
    let composer = Composer {
        composer: args.composer,
        php: args.php,
        runas: args.runas,
        flags,
        home: args.composer_home,
        env: Map::new(),
    };
    composer.run(cx, "selfupdate", &["--no-progress"], None)
}
