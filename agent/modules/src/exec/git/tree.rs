//! Repositories and their work trees: create them and list them.

use machine::fs;
use machine::process::Stderr;
use python::path;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Caller, Git, Options, User, line, options, plain, refuse_others};

state::exec_module! {
    /// Repositories of git and their work trees.
    #[needs("git", "The git execution module cannot be loaded: git unavailable.")]
    mod git;

    /// Create an archive with the files of a commit.
    ///
    ///     salt-call git.archive /srv/app /srv/app.tar.gz
    fn archive(Archive {
        /// The path of the repository.
        cwd: String,
        /// The path of the archive.
        output: String,
        /// The commit.
        rev: String = "HEAD".into(),
        /// The folder that contains all files in the archive. The default is the name of the
        /// repository's folder.
        prefix: Option<String> = None,
        /// Options of git itself, before the command.
        git_opts: Value = "".into(),
        #[group] caller: Caller,
        ..kwargs
    });

    /// Create a repository.
    ///
    ///     salt-call git.init /srv/git/app.git bare=True
    fn init(Init {
        /// The folder of the new repository.
        cwd: String,
        /// Whether to create a repository without a work tree.
        bare: bool = false,
        /// The folder with the files to copy into the new repository.
        template: Option<String> = None,
        /// The folder for the repository's data, if it is not inside of `cwd`.
        separate_git_dir: Option<String> = None,
        /// The permissions for other users: a value of git's option `--shared`.
        shared: Value = Value::Null,
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Return True if a folder is a work tree that belongs to a repository elsewhere.
    ///
    ///     salt-call git.is_worktree /srv/app
    fn is_worktree(IsWorktree {
        /// The folder.
        cwd: String,
        #[group] user: User,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    });

    /// Return the work trees.
    ///
    ///     salt-call git.list_worktrees /srv/app
    fn list_worktrees(ListWorktrees {
        /// The path of the repository.
        cwd: String,
        /// Whether to return only the work trees whose folder is gone.
        stale: bool = false,
        #[group] user: User,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
        ..kwargs
    });

    /// Return the version of git.
    ///
    ///     salt-call git.version
    fn version(Version {
        /// Whether to return the version as a list.
        versioninfo: bool = false,
    });

    /// Add a work tree.
    ///
    ///     salt-call git.worktree_add /srv/app /srv/app-fix ref=fix
    fn worktree_add(WorktreeAdd {
        /// The path of the repository.
        cwd: String,
        /// The folder of the new work tree.
        worktree_path: String,
        /// The branch or commit to check out.
        r#ref: Option<String> = None,
        /// Whether to reset a branch that exists already.
        reset_branch: Option<bool> = None,
        /// Whether to allow a branch that is checked out elsewhere.
        force: Option<bool> = None,
        /// Whether to check out the commit without a branch.
        detach: bool = false,
        #[group] options: Options,
        #[group] caller: Caller,
        ..kwargs
    });

    /// Remove the entries of work trees whose folder is gone.
    ///
    ///     salt-call git.worktree_prune /srv/app
    fn worktree_prune(WorktreePrune {
        /// The path of the repository.
        cwd: String,
        /// Whether to report only what would be removed.
        dry_run: bool = false,
        /// Whether to report what is removed.
        verbose: bool = true,
        /// The minimum age of the entries to remove, as git reads it.
        expire: Option<String> = None,
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Remove the folder of a work tree.
    ///
    ///     salt-call git.worktree_rm /srv/app-fix
    fn worktree_rm(WorktreeRm {
        /// The folder of the work tree.
        cwd: String,
        /// The user who runs git.
        user: Option<String> = None,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    });
}

fn archive(cx: &Exec, mut args: Archive) -> Result<Value, Error> {
    let format = args.kwargs.remove("format");
    refuse_others(&args.kwargs)?;
    let git = args.caller.git(cx, &args.cwd);
    let cwd = git.cwd.clone().unwrap_or_default();
    let mut words = line(&[]);
    words.extend(options(&args.git_opts)?);
    words.push("archive".into());
    let prefix = args
        .prefix
        .unwrap_or_else(|| format!("{}/", path::basename(&cwd)));
    if !prefix.is_empty() {
        words.extend(["--prefix".to_owned(), prefix]);
    }
    if let Some(format) = format.filter(Value::is_true) {
        words.extend(["--format".to_owned(), format.to_text()]);
    }
    let output = path::join(&path::expanduser("~"), &args.output);
    words.extend(["--output".to_owned(), output, plain(&args.rev)?.to_owned()]);
    git.words(&words)?;
    Ok(true.into())
}

fn init(cx: &Exec, args: Init) -> Result<Value, Error> {
    let mut git = args.caller.git(cx, &args.cwd);
    let folder = git.cwd.take().unwrap_or_default();
    let chosen = init_options(
        args.bare,
        args.template.as_deref(),
        args.separate_git_dir.as_deref(),
        &args.shared,
    );
    let chosen: Vec<&str> = ["init"]
        .into_iter()
        .chain(chosen.iter().map(String::as_str))
        .collect();
    let words = args.options.words(&chosen, &[&folder])?;
    git.words(&words).map(Value::from)
}

/// Returns the options of `git init`.
pub(crate) fn init_options(
    bare: bool,
    template: Option<&str>,
    git_dir: Option<&str>,
    shared: &Value,
) -> Vec<String> {
    let shared = match shared {
        Value::Null => None,
        Value::Int(mode) => Some(format!("0{mode}")),
        other => Some(other.to_text().to_lowercase()),
    };
    let all = [
        bare.then(|| "--bare".to_owned()),
        template.map(|template| format!("--template={template}")),
        git_dir.map(|folder| format!("--separate-git-dir={folder}")),
        shared.map(|shared| format!("--shared={shared}")),
    ];
    all.into_iter().flatten().collect()
}

impl Git<'_> {
    /// Returns whether the folder is a work tree whose repository is elsewhere.
    ///
    /// # Errors
    /// When the file `.git` cannot be read.
    pub(crate) fn is_worktree(&self) -> Result<bool, Error> {
        let cwd = self.cwd.as_deref().unwrap_or_default();
        if !path::isdir(cwd) {
            return Ok(false);
        }
        let Ok(top) = self.git(&["rev-parse", "--show-toplevel"]) else {
            return Ok(false);
        };
        let file = path::join(&top, ".git");
        if !path::isfile(&file) {
            return Ok(false);
        }
        let text = fs::text(&file)?;
        let folder = text.strip_prefix("gitdir:");
        Ok(folder.is_some_and(|path| path::isabs(path.trim_start())))
    }
}

fn is_worktree(cx: &Exec, args: IsWorktree) -> Result<Value, Error> {
    let git = args.user.git(cx, Some(&args.cwd), args.output_encoding);
    git.is_worktree().map(Value::from)
}

fn list_worktrees(cx: &Exec, mut args: ListWorktrees) -> Result<Value, Error> {
    let all = args.kwargs.remove("all").is_some_and(|all| all.is_true());
    refuse_others(&args.kwargs)?;
    if all && args.stale {
        return Err("'all' and 'stale' cannot both be set to True".into());
    }
    let git = args.user.git(cx, Some(&args.cwd), args.output_encoding);
    let out = git.git(&["worktree", "list", "--porcelain"])?;
    let mut trees = Map::new();
    for part in out.trim().split("\n\n") {
        let of = |key: &str| {
            part.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))
        };
        let (Some(path), Some(head)) = (of("worktree"), of("HEAD")) else {
            continue;
        };
        let stale = !path::isdir(path);
        if stale != args.stale && !all {
            continue;
        }
        let branch =
            of("branch").map(|branch| branch.strip_prefix("refs/heads/").unwrap_or(branch));
        let mut tree = Map::new()
            .with("stale", stale)
            .with("HEAD", head)
            .with("detached", branch.is_none())
            .with("branch", branch);
        if branch.is_none() {
            let tags = git.lines(&["tag", "--points-at", head])?;
            if !tags.is_empty() {
                tree.insert("tags", tags);
            }
        }
        trees.insert(path, tree);
    }
    Ok(trees.into())
}

fn version(cx: &Exec, args: Version) -> Result<Value, Error> {
    let user = User {
        user: None,
        password: None,
    };
    let out = user.git(cx, None, None).git(&["--version"])?;
    let out = out.split('(').next().unwrap_or_default();
    let version = out.split_whitespace().last().unwrap_or("unknown");
    if !args.versioninfo {
        return Ok(version.into());
    }
    let parts = version
        .split('.')
        .map(|part| part.parse::<i64>().map_or_else(|_| part.into(), Value::Int));
    Ok(Value::list(parts))
}

fn worktree_add(cx: &Exec, mut args: WorktreeAdd) -> Result<Value, Error> {
    let branch = args
        .kwargs
        .remove("branch")
        .filter(Value::is_true)
        .map(|branch| branch.to_text());
    refuse_others(&args.kwargs)?;
    if branch.is_some() && args.detach {
        return Err("Only one of 'branch' and 'detach' is allowed".into());
    }
    let branch = branch.unwrap_or_else(|| path::basename(&args.worktree_path).to_owned());
    let mut command = vec!["worktree", "add"];
    if args.detach {
        command.push("--detach");
    } else {
        let reset = args.reset_branch == Some(true);
        command.extend([if reset { "-B" } else { "-b" }, &branch]);
        command.extend((args.force == Some(true)).then_some("--force"));
    }
    let mut words = args
        .options
        .words(&command, &[plain(&args.worktree_path)?])?;
    words.extend(args.r#ref.filter(|name| !name.is_empty()));
    args.caller
        .git(cx, &args.cwd)
        .merged(&words)
        .map(Value::from)
}

fn worktree_prune(cx: &Exec, args: WorktreePrune) -> Result<Value, Error> {
    let mut command = vec!["worktree", "prune"];
    command.extend(args.dry_run.then_some("--dry-run"));
    command.extend(args.verbose.then_some("--verbose"));
    if let Some(expire) = args.expire.as_deref().filter(|expire| !expire.is_empty()) {
        command.extend(["--expire", expire]);
    }
    let words = args.options.words(&command, &[])?;
    // Older versions of git write the list to one output stream, newer ones to the other.
    args.caller
        .git(cx, &args.cwd)
        .merged(&words)
        .map(Value::from)
}

fn worktree_rm(cx: &Exec, args: WorktreeRm) -> Result<Value, Error> {
    let user = User {
        user: args.user,
        password: None,
    };
    let git = user.git(cx, Some(&args.cwd), args.output_encoding);
    let cwd = git.cwd.clone().unwrap_or_default();
    if !path::exists(&cwd) {
        return Err(format!("{cwd} does not exist").into());
    }
    if !git.is_worktree()? {
        return Err(format!("{cwd} is not a git worktree").into());
    }
    fs::remove(cx, std::path::Path::new(&cwd))
        .map_err(|error| Error::refused(format!("Unable to remove {cwd}: {error}")))?;
    Ok(true.into())
}

/// Returns whether a folder is a repository, or a work tree of one.
pub(crate) fn is_repository(git: &Git<'_>, bare: bool) -> Result<bool, Error> {
    let cwd = git.cwd.as_deref().unwrap_or_default();
    let inside = path::join(cwd, if bare { "refs" } else { ".git" });
    Ok(path::isdir(&inside) || git.is_worktree()?)
}

/// Runs a command and returns whether it succeeds.
pub(crate) fn succeeds(git: &Git<'_>, command: &[&str]) -> Result<bool, Error> {
    Ok(git.run(&line(command), Stderr::Apart)?.success())
}
