//! [`Binary`]: the applets of `pinch`, and the commands of the program itself.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::{Exit, Failure};
use crate::options::{
    APPLY, About, DOCTOR, PLAN, Program, RUNS, SALT, SALT_CALL, SALT_KEY, SALT_MASTER, SALT_MINION,
    SALT_RUN, UNDO,
};
#[cfg(feature = "tree-tools")]
use crate::options::{GRAPH, LINT, MIGRATE};

/// The version of Salt that this program behaves like.
const SALT_VERSION: &str = "3008.5";

/// A command that a binary runs itself, without an applet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The first argument that selects it. An option may have two spellings.
    pub word: &'static str,
    /// The arguments that follow it.
    pub takes: &'static str,
    /// A one-line description.
    pub help: &'static str,
}

const fn command(word: &'static str, takes: &'static str, help: &'static str) -> Command {
    Command { word, takes, help }
}

/// The applets and commands that some builds lack, each with its cargo feature.
const OPTIONAL: [(&str, &str); 8] = [
    ("lint", "tree-tools"),
    ("graph", "tree-tools"),
    ("migrate", "tree-tools"),
    ("salt-minion", "daemon"),
    ("salt-master", "master"),
    ("salt", "master"),
    ("salt-run", "master"),
    ("salt-key", "master"),
];

/// The commands that every binary has.
const COMMANDS: [Command; 4] = [
    command(
        "install-links",
        "DIR",
        "create a link in DIR for each applet, to call it by its own name",
    ),
    command("--version", "", "print the version"),
    command(
        "--versions-report, -V",
        "",
        "print the versions of all components",
    ),
    command("--help, -h", "", "print this help"),
];

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
    /// The commands of this binary, in addition to [`COMMANDS`].
    own: &'static [Command],
    /// The option tables of the commands that have options.
    pub tables: &'static [Program],
    /// The files that the program reads, each with a one-line description.
    pub files: &'static [(&'static str, &'static str)],
}

/// The program without a master.
pub const AGENT: Binary = Binary {
    name: "pinch",
    about: "Salt's states and commands for small machines",
    description: "One program that runs Salt's SLS trees, pillars and orchestrations on a machine without a master, and runs the jobs of a master.",
    applets: if cfg!(feature = "daemon") {
        &[SALT_CALL, SALT_MINION]
    } else {
        &[SALT_CALL]
    },
    own: &[
        #[cfg(feature = "tree-tools")]
        command(
            "lint",
            "[TREE]",
            "check a tree of SLS files without running anything (lint --help)",
        ),
        command(
            "explain",
            if cfg!(feature = "tree-tools") {
                "CODE | run JID STATE"
            } else {
                "run JID STATE"
            },
            "explain a lint code, or why a state of a run ran or did not run",
        ),
        command(
            "runs",
            "list | show JID | diff JID JID | prune",
            "show recorded runs of states and orchestrations, and their results (runs --help)",
        ),
        command(
            "undo",
            "JID | last",
            "undo the changes of a run, if nothing has changed them since (undo --help)",
        ),
        #[cfg(feature = "tree-tools")]
        command(
            "graph",
            "SLS…",
            "draw states and their requisites: svg, dot, mermaid (graph --help)",
        ),
        command(
            "doctor",
            "",
            "check this machine for problems and show how to fix them (doctor --help)",
        ),
        #[cfg(feature = "tree-tools")]
        command(
            "migrate",
            "report|compare",
            "show which SLS files of a Salt tree run in Pinch, and where results differ (migrate --help)",
        ),
        command(
            "plan",
            "WHAT [-o FILE]",
            "show what highstate, SLS... or orchestrate ORCH would change (plan --help)",
        ),
        command(
            "apply",
            "FILE",
            "apply a plan, if nothing has changed since it was made (apply --help)",
        ),
        command(
            "install-python",
            "DIR",
            "install a Python package salt in DIR, with salt.client, salt.config and salt.output",
        ),
        command(
            "answer",
            "",
            "answer the JSON requests of that package on stdin",
        ),
    ],
    tables: &[
        #[cfg(feature = "tree-tools")]
        LINT,
        RUNS,
        UNDO,
        #[cfg(feature = "tree-tools")]
        GRAPH,
        DOCTOR,
        #[cfg(feature = "tree-tools")]
        MIGRATE,
        PLAN,
        APPLY,
    ],
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
        SALT_MASTER,
        SALT,
        SALT_RUN,
        SALT_KEY,
    ],
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
    /// Returns the commands that the binary runs itself.
    pub fn commands(&self) -> impl Iterator<Item = &'static Command> + use<> {
        let (first, rest) = COMMANDS.split_at(1);
        first.iter().chain(self.own).chain(rest)
    }

    /// Runs a command of the binary itself.
    ///
    /// # Errors
    /// If the first word is not a known command, or the links cannot be made.
    pub fn itself(&self, words: &[String]) -> Result<ExitCode, Failure> {
        let (first, rest) = match words.split_first() {
            Some((first, rest)) => (first.as_str(), rest),
            None => return Err(self.unknown(None)),
        };
        Ok(match first {
            "install-links" => return self.install_links(rest),
            "--version" => put(&self.version()),
            "--versions-report" | "-V" => put(&versions_report()),
            "--help" | "-h" => put(&self.usage()),
            other => return Err(self.unknown(Some(other))),
        })
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
        let optional = |word| OPTIONAL.iter().find(|(applet, _)| *applet == word);
        let error = match (word, word.and_then(optional)) {
            (_, Some((applet, feature))) => {
                format!("this build has no {applet}: it was built without the feature `{feature}`")
            }
            (Some(word), None) => format!("'{word}' is not an applet or command of {name}"),
            (None, _) => "missing the name of an applet".to_owned(),
        };
        let applets: Vec<&str> = self.applets.iter().map(|applet| applet.name).collect();
        let applets = applets.join(", ");
        let hint = format!("the applets are: {applets}; see {name} --help");
        Failure::new(Exit::Usage, error).hints([hint])
    }

    /// Returns the text that `--help` prints.
    #[must_use]
    pub fn usage(&self) -> String {
        let name = self.name;
        let mut out = format!("Usage: {name} APPLET [ARGUMENTS…]\n");
        for command in self.commands().filter(|command| !command.takes.is_empty()) {
            out.push_str(&format!(
                "       {name} {} {}\n",
                command.word, command.takes
            ));
        }
        out.push_str("\nApplets:\n");
        for applet in self.applets {
            out.push_str(&line(applet.name, &applet.brief()));
        }
        out.push_str("Commands:\n");
        for command in self.commands() {
            let words = format!("{} {}", command.word, command.takes);
            out.push_str(&line(&words, command.help));
        }
        if let Some(first) = self.applets.first() {
            let told = format!(
                "\n`{name} {} --help` shows the options of an applet.\n",
                first.name
            );
            out.push_str(&told);
        }
        out
    }

    /// Makes a symbolic link for each applet. It stops with an error at the first path that exists
    /// and is not such a link. It replaces nothing.
    fn install_links(&self, words: &[String]) -> Result<ExitCode, Failure> {
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
    let (target, rustc) = (env!("PINCH_TARGET"), env!("PINCH_RUSTC"));
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

fn line(words: &str, help: &str) -> String {
    format!("  {words:<20}{help}\n")
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
