//! Repositories and their work trees: create them and list them.

use machine::fs;
use machine::process::Stderr;
use python::path;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Common, Git, line, options, plain};

state::exec_module! {
    /// Repositories of git and their work trees.
    #[needs("git", "The git execution module cannot be loaded: git unavailable.")]
    mod git;

    /// Create an archive with the files of a commit.
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
        ..kwargs
    });

    /// Create a repository.
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
        /// Options of `git init`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Return True if a folder is a work tree that belongs to a repository elsewhere.
    fn is_worktree(IsWorktree {
        /// The folder.
        cwd: String,
        ..kwargs
    });

    /// Return the work trees.
    fn list_worktrees(ListWorktrees {
        /// The path of the repository.
        cwd: String,
        /// Whether to return only the work trees whose folder is gone.
        stale: bool = false,
        ..kwargs
    });

    /// Return the version of git.
    fn version(Version {
        /// Whether to return the version as a list.
        versioninfo: bool = false,
    });

    /// Add a work tree.
    fn worktree_add(WorktreeAdd {
        /// The path of the repository.
        cwd: String,
        /// The folder of the new work tree.
        worktree_path: String,
        /// The branch or commit to check out.
        r#ref: Option<String> = None,
        /// Whether to reset a branch that exists already.
        reset_branch: bool = false,
        /// Whether to allow a branch that is checked out elsewhere.
        force: bool = false,
        /// Whether to check out the commit without a branch.
        detach: bool = false,
        /// Options of `git worktree add`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Remove the entries of work trees whose folder is gone.
    fn worktree_prune(WorktreePrune {
        /// The path of the repository.
        cwd: String,
        /// Whether to report only what would be removed.
        dry_run: bool = false,
        /// Whether to report what is removed.
        verbose: bool = true,
        /// The minimum age of the entries to remove, as git reads it.
        expire: Option<String> = None,
        /// Options of `git worktree prune`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Remove the folder of a work tree.
    fn worktree_rm(WorktreeRm {
        /// The folder of the work tree.
        cwd: String,
        ..kwargs
    });
}

fn archive(cx: &Exec, args: Archive) -> Result<Value, Error> {
    let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &["format"])?;
    let cwd = common.git.cwd.clone().unwrap_or_default();
    let mut words = common.words(&["archive"]);
    let prefix = args
        .prefix
        .unwrap_or_else(|| format!("{}/", path::basename(&cwd)));
    if !prefix.is_empty() {
        words.extend(["--prefix".to_owned(), prefix]);
    }
    if let Some(format) = args.kwargs.get("format").filter(|format| format.is_true()) {
        words.extend(["--format".to_owned(), format.to_text()]);
    }
    let output = path::join(&path::expanduser("~"), &args.output);
    words.extend(["--output".to_owned(), output, plain(&args.rev)?.to_owned()]);
    common.git.words(&words)?;
    Ok(true.into())
}

fn init(cx: &Exec, args: Init) -> Result<Value, Error> {
    let kwargs = args.kwargs;
    let mut common = Common::of(cx, Some(&args.cwd), &kwargs, &[])?;
    let folder = common.git.cwd.take().unwrap_or_default();
    let mut words = common.words(&["init"]);
    words.extend(init_options(
        args.bare,
        args.template.as_deref(),
        args.separate_git_dir.as_deref(),
        &args.shared,
    ));
    words.extend(options(&args.opts)?);
    words.push(folder);
    common.git.words(&words).map(Value::from)
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
    let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
    common.git.is_worktree().map(Value::from)
}

fn list_worktrees(cx: &Exec, mut args: ListWorktrees) -> Result<Value, Error> {
    let all = args.kwargs.remove("all").is_some_and(|all| all.is_true());
    if all && args.stale {
        return Err("'all' and 'stale' cannot both be set to True".into());
    }
    let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
    let out = common.git.git(&["worktree", "list", "--porcelain"])?;
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
            let tags = common.git.lines(&["tag", "--points-at", head])?;
            if !tags.is_empty() {
                tree.insert("tags", tags);
            }
        }
        trees.insert(path, tree);
    }
    Ok(trees.into())
}

fn version(cx: &Exec, args: Version) -> Result<Value, Error> {
    let common = Common::of(cx, None, &Map::new(), &[])?;
    let out = common.git.words(&line(&["--version"]))?;
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
    if branch.is_some() && args.detach {
        return Err("Only one of 'branch' and 'detach' is allowed".into());
    }
    let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
    let mut words = common.words(&["worktree", "add"]);
    if args.detach {
        words.push("--detach".into());
    } else {
        let branch = branch.unwrap_or_else(|| path::basename(&args.worktree_path).to_owned());
        words.extend([
            if args.reset_branch { "-B" } else { "-b" }.to_owned(),
            branch,
        ]);
        words.extend(args.force.then(|| "--force".to_owned()));
    }
    words.extend(options(&args.opts)?);
    words.push(plain(&args.worktree_path)?.to_owned());
    words.extend(args.r#ref.filter(|name| !name.is_empty()));
    common.git.merged(&words).map(Value::from)
}

fn worktree_prune(cx: &Exec, args: WorktreePrune) -> Result<Value, Error> {
    let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
    let mut words = common.words(&["worktree", "prune"]);
    words.extend(args.dry_run.then(|| "--dry-run".to_owned()));
    words.extend(args.verbose.then(|| "--verbose".to_owned()));
    if let Some(expire) = args.expire.filter(|expire| !expire.is_empty()) {
        words.extend(["--expire".to_owned(), expire]);
    }
    words.extend(options(&args.opts)?);
    // Older versions of git write the list to one output stream, newer ones to the other.
    common.git.merged(&words).map(Value::from)
}

fn worktree_rm(cx: &Exec, args: WorktreeRm) -> Result<Value, Error> {
    let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
    let cwd = common.git.cwd.clone().unwrap_or_default();
    if !path::exists(&cwd) {
        return Err(format!("{cwd} does not exist").into());
    }
    if !common.git.is_worktree()? {
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
