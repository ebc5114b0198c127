//! The `hg` execution module for Mercurial. Salt 3008 no longer has it; the results are those of
//! its last version.

use machine::process::Output;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::tool;

state::exec_module! {
    /// Manage Mercurial repositories.
    #[needs("hg", "The hg execution module cannot be loaded: hg unavailable.", "mercurial")]
    mod hg;

    /// Return the long hash of a revision, or an empty text if there is none.
    ///
    ///     salt-call hg.revision /srv/app
    fn revision(Revision {
        /// The repository.
        cwd: String,
        /// The revision.
        rev: String = "tip".into(),
        /// Whether to return the short hash.
        short: bool = false,
        /// The user who runs hg.
        user: Option<String> = None,
    });

    /// Return the name of a revision, based on the latest tag before it.
    ///
    ///     salt-call hg.describe /srv/app
    fn describe(Describe {
        /// The repository.
        cwd: String,
        /// The revision.
        rev: String = "tip".into(),
        /// The user who runs hg.
        user: Option<String> = None,
    });

    /// Create an archive of a revision.
    ///
    ///     salt-call hg.archive /srv/app /srv/app.tar.gz
    fn archive(Archive {
        /// The repository.
        cwd: String,
        /// The path of the archive.
        output: String,
        /// The revision.
        rev: String = "tip".into(),
        /// The format of the archive.
        fmt: Option<String> = None,
        /// The folder that contains all files in the archive.
        prefix: Option<String> = None,
        /// The user who runs hg.
        user: Option<String> = None,
    });

    /// Fetch changes from another repository.
    ///
    ///     salt-call hg.pull /srv/app
    fn pull(Pull {
        /// The repository.
        cwd: String,
        /// Options of hg.
        opts: Option<String> = None,
        /// The user who runs hg.
        user: Option<String> = None,
        /// A private key for ssh.
        identity: Option<String> = None,
        /// The other repository. The default is the one that this one was cloned from.
        repository: Option<String> = None,
    });

    /// Update the files to a revision.
    ///
    ///     salt-call hg.update /srv/app stable
    fn update(Update {
        /// The repository.
        cwd: String,
        /// The revision.
        rev: String,
        /// Whether to overwrite changed files.
        force: bool = false,
        /// The user who runs hg.
        user: Option<String> = None,
    });

    /// Clone a repository.
    ///
    ///     salt-call hg.clone /srv/app https://hg.example.com/app
    fn clone(Clone_ {
        /// The folder of the new repository.
        cwd: String,
        /// The address of the repository to clone.
        repository: String,
        /// Options of hg.
        opts: Option<String> = None,
        /// The user who runs hg.
        user: Option<String> = None,
        /// A private key for ssh.
        identity: Option<String> = None,
    });

    /// Return the files that have changed.
    ///
    ///     salt-call hg.status /srv/app
    fn status(Status {
        /// The path of the repository, or a list of paths.
        cwd: Value,
        /// Options of hg.
        opts: Option<String> = None,
        /// The user who runs hg.
        user: Option<String> = None,
    });
}

/// The program hg with the options of one call.
pub(crate) struct Hg<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) user: Option<String>,
    pub(crate) identity: Option<String>,
    /// Additional options from the user.
    pub(crate) opts: Option<String>,
}

impl Hg<'_> {
    fn run(&self, words: &[&str], cwd: Option<&str>) -> Result<Output, Error> {
        let words: Vec<&str> = ["hg"].iter().chain(words).copied().collect();
        tool::run(self.cx, &words, cwd, self.user.as_deref())
    }

    /// Returns the options for commands that access another repository.
    fn options(&self) -> Vec<String> {
        let ssh = self.identity.iter();
        let ssh = ssh.flat_map(|path| ["--ssh".to_owned(), format!("ssh -i {path}")]);
        let own = self.opts.iter().flat_map(|opts| opts.split_whitespace());
        ssh.chain(own.map(str::to_owned)).collect()
    }

    fn change(
        &self,
        words: &[&str],
        options: &[String],
        names: &[&str],
        cwd: Option<&str>,
    ) -> Result<String, Error> {
        for name in names {
            tool::is_name("repository or revision", name)?;
        }
        let options = options.iter().map(String::as_str);
        let words = words.iter().copied().chain(options);
        let words: Vec<&str> = words.chain(names.iter().copied()).collect();
        tool::stdout(self.run(&words, cwd)?)
            .map_err(|why| Error::refused(format!("Hg command failed: {why}")))
    }

    /// Returns the hash of a revision; it is empty if there is none.
    ///
    /// # Errors
    /// When hg cannot be started.
    pub(crate) fn revision(&self, cwd: &str, rev: &str, short: bool) -> Result<String, Error> {
        let long = (!short).then_some("--debug");
        let words: Vec<&str> = ["id", "-i"].into_iter().chain(long).collect();
        let output = self.run(&[&words[..], &["-r", rev]].concat(), Some(cwd))?;
        Ok(tool::stdout(output).unwrap_or_default())
    }

    /// Fetches changes from another repository.
    ///
    /// # Errors
    /// The error message of hg.
    pub(crate) fn pull(&self, cwd: &str, repository: Option<&str>) -> Result<String, Error> {
        let names: Vec<&str> = repository.into_iter().collect();
        self.change(&["pull"], &self.options(), &names, Some(cwd))
    }

    /// Updates the files to a revision.
    ///
    /// # Errors
    /// The error message of hg.
    pub(crate) fn update(&self, cwd: &str, rev: &str, force: bool) -> Result<String, Error> {
        let clean = if force {
            vec!["-C".to_owned()]
        } else {
            Vec::new()
        };
        self.change(&["update"], &clean, &[rev], Some(cwd))
    }

    /// Clones a repository.
    ///
    /// # Errors
    /// The error message of hg.
    pub(crate) fn clone_to(&self, cwd: &str, repository: &str) -> Result<String, Error> {
        self.change(&["clone"], &self.options(), &[repository, cwd], None)
    }

    /// Returns the changed files, grouped by the kind of change.
    fn status(&self, cwd: &str) -> Result<Value, Error> {
        let options = self.options();
        let words = ["status"].into_iter();
        let words: Vec<&str> = words.chain(options.iter().map(String::as_str)).collect();
        let output = self.run(&words, Some(cwd))?;
        let mut all = Map::new();
        for line in output.stdout_regardless().lines() {
            let Some((mark, file)) = line.split_at_checked(1) else {
                continue;
            };
            let kind = KINDS.iter().find(|(one, _)| *one == mark);
            let Some((_, kind)) = kind else {
                return Err(Error::refused(format!(
                    "cannot parse the hg status line: {line}"
                )));
            };
            let files = all.entry(*kind, || Value::list([]));
            if let Some(files) = files.as_list_mut() {
                files.push(file.trim_start().into());
            }
        }
        Ok(all.into())
    }
}

const KINDS: [(&str, &str); 8] = [
    ("M", "modified"),
    ("A", "added"),
    ("R", "removed"),
    ("C", "clean"),
    ("!", "missing"),
    ("?", "not tracked"),
    ("I", "ignored"),
    (" ", "origin of the previous file"),
];

fn hg(cx: &Exec, user: Option<String>, identity: Option<String>, opts: Option<String>) -> Hg<'_> {
    Hg {
        cx,
        user,
        identity,
        opts,
    }
}

fn revision(cx: &Exec, args: Revision) -> Result<Value, Error> {
    let hg = hg(cx, args.user, None, None);
    Ok(hg.revision(&args.cwd, &args.rev, args.short)?.into())
}

fn describe(cx: &Exec, args: Describe) -> Result<Value, Error> {
    let hg = hg(cx, args.user, None, None);
    let template = "{latesttag}-{latesttagdistance}-{node|short}";
    let words = ["log", "-r", &args.rev, "--template", template];
    let said = hg.run(&words, Some(&args.cwd))?.into_stdout_regardless();
    Ok(match said.is_empty() {
        true => hg.revision(&args.cwd, &args.rev, true)?.into(),
        false => said.into(),
    })
}

fn archive(cx: &Exec, args: Archive) -> Result<Value, Error> {
    tool::is_name("archive", &args.output)?;
    let mut words = vec!["archive", args.output.as_str(), "--rev", &args.rev];
    words.extend(args.fmt.iter().flat_map(|fmt| ["--type", fmt]));
    words.extend(args.prefix.iter().flat_map(|prefix| ["--prefix", prefix]));
    let hg = hg(cx, args.user, None, None);
    Ok(hg
        .run(&words, Some(&args.cwd))?
        .into_stdout_regardless()
        .into())
}

fn pull(cx: &Exec, args: Pull) -> Result<Value, Error> {
    let hg = hg(cx, args.user, args.identity, args.opts);
    Ok(hg.pull(&args.cwd, args.repository.as_deref())?.into())
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let hg = hg(cx, args.user, None, None);
    Ok(hg.update(&args.cwd, &args.rev, args.force)?.into())
}

fn clone(cx: &Exec, args: Clone_) -> Result<Value, Error> {
    let hg = hg(cx, args.user, args.identity, args.opts);
    Ok(hg.clone_to(&args.cwd, &args.repository)?.into())
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let hg = hg(cx, args.user, None, args.opts);
    if args.cwd.as_list().is_none() {
        return hg.status(&args.cwd.to_text());
    }
    let mut all = Map::new();
    for cwd in args.cwd.texts() {
        let status = hg.status(&cwd)?;
        all.insert(cwd, status);
    }
    Ok(all.into())
}
