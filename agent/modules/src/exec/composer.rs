//! The `composer` execution module: PHP packages. Salt 3008 no longer has this module; the results
//! are those of the last version that had it.

use std::path::Path;

use machine::process::{Process, which};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Manage PHP packages (`composer`).
    mod composer;

    /// Return True if a folder has its packages installed.
    ///
    ///     salt-call composer.did_composer_install /srv/shop
    fn did_composer_install(DidComposerInstall {
        /// The path of the folder with `composer.json`.
        dir: String,
    });

    /// Install the packages that a folder needs.
    ///
    ///     salt-call composer.install /srv/shop no_dev=True
    fn install(Install {
        /// The path of the folder with `composer.json`.
        directory: String,
        #[group] composer: Program,
    });

    /// Update the packages that a folder needs.
    ///
    ///     salt-call composer.update /srv/shop
    fn update(Update {
        /// The path of the folder with `composer.json`.
        directory: String,
        #[group] composer: Program,
    });

    /// Update composer itself.
    ///
    ///     salt-call composer.selfupdate
    fn selfupdate(Selfupdate {
        /// The path of the program. The default is `composer` in the search path.
        composer: Option<String> = None,
        /// The path of the PHP interpreter.
        php: Option<String> = None,
        /// The user who runs composer.
        runas: Option<String> = None,
        /// True to return True instead of the output of composer.
        quiet: bool = false,
        /// The home folder of composer (`COMPOSER_HOME`).
        composer_home: String = "/root".into(),
    });
}

state::argument_group! {
    /// The settings with which composer runs.
    pub(crate) struct Program {
        /// The path of the program. The default is `composer` in the search path.
        composer: Option<String> = None,
        /// The path of the PHP interpreter.
        php: Option<String> = None,
        /// The user who runs composer.
        runas: Option<String> = None,
        #[group] flags: Flags,
        /// Environment variables for composer.
        env: Map = Map::new(),
    }
}

state::argument_group! {
    /// The flags of composer.
    pub(crate) struct Flags {
        /// True to prefer sources.
        prefer_source: bool = false,
        /// True to prefer archives.
        prefer_dist: bool = false,
        /// True to skip the scripts of packages.
        no_scripts: bool = false,
        /// True to disable plugins.
        no_plugins: bool = false,
        /// True to build an optimized class loader.
        optimize: bool = false,
        /// True to skip packages that only developers need.
        no_dev: bool = false,
        /// True to return True instead of the output of composer.
        quiet: bool = false,
        /// The home folder of composer (`COMPOSER_HOME`).
        composer_home: String = "/root".into(),
    }
}

/// The settings with which composer runs.
pub(crate) struct Composer {
    pub(crate) composer: Option<String>,
    pub(crate) php: Option<String>,
    pub(crate) runas: Option<String>,
    /// The flags, such as `--no-dev`.
    pub(crate) flags: Vec<&'static str>,
    pub(crate) home: String,
    pub(crate) env: Map,
}

impl From<Program> for Composer {
    fn from(program: Program) -> Self {
        let flags = program.flags;
        let words = [
            (flags.quiet, "--quiet"),
            (flags.no_dev, "--no-dev"),
            (flags.prefer_source, "--prefer-source"),
            (flags.prefer_dist, "--prefer-dist"),
            (flags.no_scripts, "--no-scripts"),
            (flags.no_plugins, "--no-plugins"),
            (flags.optimize, "--optimize-autoloader"),
        ];
        let words = words.into_iter().filter(|(is, _)| *is);
        Self {
            composer: program.composer,
            php: program.php,
            runas: program.runas,
            flags: words.map(|(_, flag)| flag).collect(),
            home: flags.composer_home,
            env: program.env,
        }
    }
}

/// Reports whether a folder has its packages installed.
pub(crate) fn is_installed(directory: &str) -> bool {
    Path::new(directory).join("vendor").exists()
}

impl Composer {
    /// Runs composer. Returns its output in the form of `cmd.run_all`, or True if it was to be
    /// quiet.
    ///
    /// # Errors
    /// When the program is missing, or its message when it fails.
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
    Composer::from(args.composer).run(cx, "install", &[], Some(&args.directory))
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    Composer::from(args.composer).run(cx, "update", &["--no-progress"], Some(&args.directory))
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
