//! [`Binary`]: the applets of `pinch`, and the commands of the program itself.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use value::hint::nearest;

use crate::completion;
use crate::failure::{Exit, Failure};
use crate::options::{
    ANSWER, APPLY, About, BACKUP, COMPLETION, DOCTOR, EXPLAIN, Flag, HELP, HELP_COMMAND, INIT,
    INSTALL_LINKS, INSTALL_PYTHON, PLAN, Program, RESTORE, RUNS, SALT, SALT_CALL, SALT_CLOUD,
    SALT_CP, SALT_KEY, SALT_MASTER, SALT_MINION, SALT_RUN, SALT_SSH, SHOW_VERSION, SHOW_VERSIONS,
    UNDO, VERSION,
};
#[cfg(feature = "tree-tools")]
use crate::options::{GRAPH, LINT, MIGRATE};
#[cfg(feature = "lsp")]
use crate::options::{LSP, SCHEMA};

/// The version of Salt that this program behaves like.
const SALT_VERSION: &str = "3008.5";

/// The target of the compiler that this program was built for.
pub const TARGET: &str = env!("PINCH_TARGET");

/// The applets and commands that some builds lack, each with its cargo feature.
const OPTIONAL: [(&str, &str); 15] = [
    ("lsp", "lsp"),
    ("schema", "lsp"),
    ("lint", "tree-tools"),
    ("graph", "tree-tools"),
    ("migrate", "tree-tools"),
    ("salt-minion", "daemon"),
    ("salt-ssh", "daemon"),
    ("backup", "master"),
    ("restore", "master"),
    ("salt-master", "master"),
    ("salt", "master"),
    ("salt-run", "master"),
    ("salt-key", "master"),
    ("salt-cp", "master"),
    ("salt-cloud", "master"),
];

/// The package whose program contains the master.
const MASTER_PACKAGE: &str = "pinch-master";

/// The options of the binary itself.
const OPTIONS: &[Flag] = &[HELP, SHOW_VERSION, SHOW_VERSIONS];

/// A program that contains several applets and is called by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The name of the program.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// A longer description for the man page.
    pub description: &'static str,
    /// The applets. Their names are those of Salt's programs.
    pub applets: &'static [Program],
    /// The commands of the program itself.
    pub commands: &'static [Program],
    /// The files that the program reads, each with a one-line description.
    pub files: &'static [(&'static str, &'static str)],
}

/// Lists the commands of every build, and those of this one.
macro_rules! commands {
    ($($own:ident),*) => {
        &[
            INIT,
            #[cfg(feature = "tree-tools")]
            LINT,
            PLAN,
            APPLY,
            UNDO,
            RUNS,
            EXPLAIN,
            #[cfg(feature = "tree-tools")]
            GRAPH,
            DOCTOR,
            #[cfg(feature = "tree-tools")]
            MIGRATE,
            #[cfg(feature = "lsp")]
            LSP,
            #[cfg(feature = "lsp")]
            SCHEMA,
            $($own,)*
            INSTALL_LINKS,
            INSTALL_PYTHON,
            ANSWER,
            COMPLETION,
            HELP_COMMAND,
            VERSION,
        ]
    };
}

/// The program without a master.
pub const AGENT: Binary = Binary {
    name: "pinch",
    about: "Salt's states and commands for small machines",
    description: "One program that runs Salt's SLS trees, pillars and orchestrations on a machine without a master, and runs the jobs of a master.",
    applets: if cfg!(feature = "daemon") {
        &[SALT_CALL, SALT_MINION, SALT_SSH]
    } else {
        &[SALT_CALL]
    },
    commands: commands!(),
    files: &[
        (
            "/etc/salt/minion, /etc/salt/minion.d/*.conf",
            "the configuration",
        ),
        (
            "/srv/salt, /srv/pillar",
            "the state tree and the pillar, unless the configuration sets others",
        ),
    ],
};

/// The program with a master.
pub const WITH_MASTER: Binary = Binary {
    about: "Salt's states, commands and a small master",
    description: "One program that runs Salt's SLS trees, pillars and orchestrations on a machine without a master, runs the jobs of a master, and is a master: it manages the keys of minions, sends them jobs, and serves their files, pillar and events.",
    applets: &[
        SALT_CALL,
        SALT_MINION,
        SALT_SSH,
        SALT_MASTER,
        SALT,
        SALT_RUN,
        SALT_KEY,
        SALT_CP,
        SALT_CLOUD,
    ],
    commands: commands!(BACKUP, RESTORE),
    files: &[
        (
            "/etc/salt/minion, /etc/salt/minion.d/*.conf",
            "the configuration",
        ),
        (
            "/etc/salt/master, /etc/salt/master.d/*.conf",
            "the configuration of the master",
        ),
        (
            "/srv/salt, /srv/pillar",
            "the state tree and the pillar, unless the configuration sets others",
        ),
        (
            "/etc/salt/pki/master",
            "the keys of the master and of its minions",
        ),
        ("/var/cache/salt/master", "jobs, returns and events"),
    ],
    ..AGENT
};

/// This program.
#[cfg(feature = "master")]
pub const PINCH: Binary = WITH_MASTER;
/// This program.
#[cfg(not(feature = "master"))]
pub const PINCH: Binary = AGENT;

/// Returns the name that this program was called by, which is that of its link or its own, and the
/// arguments.
#[must_use]
pub fn called() -> (String, Vec<String>) {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    (name.to_string_lossy().into_owned(), words.collect())
}

/// Returns the path of this program's executable, to be the target of links.
///
/// # Errors
/// If the path cannot be found.
pub fn own_path() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .or_else(|_| called_path())
        .map_err(|error| Failure::new(Exit::Generic, error))
}

/// Returns a path by which this program can start itself, even if a newer version has replaced its
/// file. Both processes must speak the same protocol.
///
/// # Errors
/// If the path cannot be found: `/proc` is missing, and the program was not started by a path or
/// from a folder of `PATH`.
pub fn own_program() -> std::io::Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() {
        return Ok(running.to_owned());
    }
    called_path()
}

/// Returns the path that this program was called by. The program never changes its working
/// directory.
fn called_path() -> std::io::Result<PathBuf> {
    let called = std::env::args_os().next().unwrap_or_default();
    let called = Path::new(&called);
    if called.components().count() > 1 {
        return std::path::absolute(called);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&folders).map(|folder| folder.join(called));
    paths.find(|path| path.is_file()).ok_or_else(|| {
        std::io::Error::other(format!(
            "cannot find the program {} itself: mount /proc, or start it by its full path",
            called.display()
        ))
    })
}

/// Writes text to stdout with secrets masked. Errors, such as a closed pipe, are ignored.
#[expect(
    clippy::let_underscore_must_use,
    reason = "a reader such as `head` may close the pipe early"
)]
pub fn put(text: &str) -> ExitCode {
    let text = value::secret::text(text);
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Exit::Ok.into()
}

impl Binary {
    /// Returns the tables of all applets and commands.
    pub fn tables(&self) -> impl Iterator<Item = &'static Program> + use<> {
        self.applets.iter().chain(self.commands)
    }

    /// Returns the options of the binary itself.
    pub fn options(&self) -> impl Iterator<Item = &'static Flag> + use<> {
        OPTIONS.iter()
    }

    /// Returns the table of an applet or a command.
    ///
    /// # Errors
    /// If there is none with this name.
    pub fn table(&self, word: &str) -> Result<&'static Program, Failure> {
        let found = self.tables().find(|table| table.word() == word);
        found.ok_or_else(|| self.unknown(Some(word)))
    }

    /// Runs an option of the binary itself, or fails if the first word is neither that nor a
    /// command.
    ///
    /// # Errors
    /// If the first word is not known.
    pub fn itself(&self, words: &[String]) -> Result<ExitCode, Failure> {
        Ok(match words.first().map(String::as_str) {
            Some("--version") => put(&self.version()),
            Some("--versions-report" | "-V") => put(&versions_report()),
            Some("--help" | "-h") => put(&self.usage()),
            other => return Err(self.unknown(other)),
        })
    }

    /// Runs `pinch help`.
    ///
    /// # Errors
    /// If the command does not exist.
    pub fn help(&self, words: &[String]) -> Result<ExitCode, Failure> {
        let text = match words {
            [] => self.usage(),
            [word, ..] => self.table(word)?.help(),
        };
        Ok(put(&text))
    }

    /// Runs `pinch version`.
    pub fn print_version(&self) -> ExitCode {
        put(&self.version())
    }

    /// Runs `pinch completion`.
    ///
    /// # Errors
    /// If there is no script for the shell.
    pub fn completion(&self, words: &[String]) -> Result<ExitCode, Failure> {
        let shells = completion::SHELLS.join(", ");
        let [shell] = words else {
            let error = format!("completion needs exactly one shell: {shells}");
            return Err(Failure::new(Exit::Usage, error));
        };
        match completion::script(shell, self) {
            Some(script) => Ok(put(&script)),
            None => {
                let near = nearest(shell, completion::SHELLS);
                let near = near.map(|near| format!("did you mean {near}?"));
                let error = format!("no completion for the shell '{shell}'; choose from {shells}");
                Err(Failure::new(Exit::Usage, error).hints(near))
            }
        }
    }

    /// Prints the help or the versions of an applet.
    pub fn tell(&self, applet: &Program, about: About) -> ExitCode {
        match about {
            About::Help => put(&applet.help()),
            About::Version => put(&self.version()),
            About::VersionsReport => put(&versions_report()),
        }
    }

    fn version(&self) -> String {
        let (name, version) = (self.name, env!("CARGO_PKG_VERSION"));
        format!("{name} {version} (behaves as salt {SALT_VERSION})\n")
    }

    fn unknown(&self, word: Option<&str>) -> Failure {
        let name = self.name;
        let all = || format!("`{name} --help` lists all commands");
        let Some(word) = word else {
            let error = "no command given";
            return Failure::new(Exit::Usage, error).hints([all()]);
        };
        let optional = OPTIONAL.iter().find(|(applet, _)| *applet == word);
        let (error, hint) = match optional {
            Some((_, feature @ "master")) => (
                format!(
                    "this build of {name} has no {word}: it was built without the feature `{feature}`"
                ),
                format!("the program of the package {MASTER_PACKAGE} has it"),
            ),
            Some((_, feature)) => (
                format!(
                    "this build of {name} has no {word}: it was built without the feature `{feature}`"
                ),
                all(),
            ),
            None => {
                let near = nearest(word, self.tables().map(Program::word));
                let near = near.map(|near| format!("did you mean `{name} {near}`?"));
                (
                    format!("unknown command '{word}'"),
                    near.unwrap_or_else(all),
                )
            }
        };
        Failure::new(Exit::Usage, error).hints([hint])
    }

    /// Returns the text that `--help` prints.
    #[must_use]
    pub fn usage(&self) -> String {
        let name = self.name;
        let mut out = format!("Usage: {name} (COMMAND | APPLET) [ARGUMENTS…]\n\nCommands:\n");
        for command in self.commands {
            out.push_str(&line(command));
        }
        out.push_str("\nApplets, which behave as the programs of Salt:\n");
        for applet in self.applets {
            out.push_str(&line(applet));
        }
        out.push_str("\nOptions:\n");
        for flag in self.options() {
            out.push_str(&flag.line());
        }
        out.push_str(&format!(
            "\n`{name} help COMMAND` shows the arguments and options of a command or an applet.\n"
        ));
        out
    }

    /// Makes a symbolic link for each applet. It stops with an error at the first path that exists
    /// and is not such a link. It replaces nothing.
    ///
    /// # Errors
    /// If the folder is not given, or a link cannot be made.
    pub fn install_links(&self, words: &[String]) -> Result<ExitCode, Failure> {
        let [folder] = words else {
            let error = format!(
                "install-links needs exactly one folder: {} install-links DIR",
                self.name
            );
            return Err(Failure::new(Exit::Usage, error));
        };
        let program = own_path()?;
        for applet in self.applets {
            link(&program, &Path::new(folder).join(applet.name))?;
        }
        Ok(Exit::Ok.into())
    }
}

fn versions_report() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let commit = option_env!("PINCH_COMMIT").unwrap_or("unknown (local build)");
    let (target, rustc) = (TARGET, env!("PINCH_RUSTC"));
    let features = if cfg!(feature = "master") {
        "master, daemon, store"
    } else if cfg!(feature = "store") {
        "daemon, store"
    } else if cfg!(feature = "daemon") {
        "daemon"
    } else {
        "none"
    };
    format!(
        "Pinch: {version}\nBehaves as Salt: {SALT_VERSION}\nCommit: {commit}\nTarget: {target}\nFeatures: {features}\nCompiler and std: {rustc}\n"
    )
}

/// Returns the line of a command or an applet.
fn line(table: &Program) -> String {
    format!("  {:<16}{}\n", table.word(), table.brief())
}

fn link(program: &Path, link: &Path) -> Result<(), Failure> {
    if std::fs::read_link(link).is_ok_and(|target| target == program) {
        return Ok(());
    }
    if link.symlink_metadata().is_ok() {
        let error = format!("{} already exists and is not replaced", link.display());
        return Err(Failure::new(Exit::CantCreate, error)
            .hints(["remove it first, or use another folder".to_owned()]));
    }
    symlink(program, link)
        .map_err(|error| Failure::new(Exit::CantCreate, format!("{}: {error}", link.display())))
}
