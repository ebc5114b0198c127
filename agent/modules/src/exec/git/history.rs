//! Commits, branches, tags and the files of a repository.

use machine::process::Stderr;
use python::shlex;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Common, list_of, options, plain};

state::exec_module! {
    /// Commits, branches and tags of a git repository.
    mod git;

    /// Add files to the index.
    fn add(Add {
        /// The path of the repository.
        cwd: String,
        /// The file or folder.
        filename: String,
        /// Options of `git add`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Manage branches.
    fn branch(Branch {
        /// The path of the repository.
        cwd: String,
        /// The branch.
        name: Option<String> = None,
        /// Options of `git branch`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Check out a branch, a tag or a commit.
    fn checkout(Checkout {
        /// The path of the repository.
        cwd: String,
        /// The branch, tag or commit to check out.
        rev: Option<String> = None,
        /// Whether changes of files may be discarded.
        force: bool = false,
        /// Options of `git checkout`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Create a commit.
    fn commit(Commit {
        /// The path of the repository.
        cwd: String,
        /// The message of the commit.
        message: String,
        /// Options of `git commit`.
        opts: Value = "".into(),
        /// The only file to commit. The default is everything that is in the index.
        filename: Option<String> = None,
        ..kwargs
    });

    /// Return the name of the branch that is checked out.
    fn current_branch(CurrentBranch {
        /// The path of the repository.
        cwd: String,
        ..kwargs
    });

    /// Return a human-readable name of a commit, based on tags.
    fn describe(Describe {
        /// The path of the repository.
        cwd: String,
        /// The commit.
        rev: String = "HEAD".into(),
        ..kwargs
    });

    /// Return the differences between commits, the index and the work tree.
    fn diff(Diff {
        /// The path of the repository.
        cwd: String,
        /// The first commit.
        item1: Option<String> = None,
        /// The second commit.
        item2: Option<String> = None,
        /// Options of `git diff`.
        opts: Value = "".into(),
        /// Whether to compare two paths outside of a repository.
        no_index: bool = false,
        /// Whether to compare with the index.
        cached: bool = false,
        /// The only paths to compare. The default is all of them.
        paths: Value = Value::Null,
        ..kwargs
    });

    /// Discard the changes that were not added to the index.
    fn discard_local_changes(Discard {
        /// The path of the repository.
        cwd: String,
        /// The path below which changes are discarded.
        path: String = ".".into(),
        ..kwargs
    });

    /// Return the branches.
    fn list_branches(ListBranches {
        /// The path of the repository.
        cwd: String,
        /// Whether to return the remote branches instead of the local ones.
        remote: bool = false,
        ..kwargs
    });

    /// Return the tags.
    fn list_tags(ListTags {
        /// The path of the repository.
        cwd: String,
        ..kwargs
    });

    /// Merge a branch or a commit.
    fn merge(Merge {
        /// The path of the repository.
        cwd: String,
        /// The branch or commit to merge.
        rev: Option<String> = None,
        /// Options of `git merge`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Return the common ancestor of commits, or with `is_ancestor` whether the first commit is an
    /// ancestor of the second.
    fn merge_base(MergeBase {
        /// The path of the repository.
        cwd: String,
        /// The commits.
        refs: Value = Value::Null,
        /// Whether to find the best common ancestor of more than two commits.
        octopus: bool = false,
        /// Whether to return True if the first commit is an ancestor of the second.
        is_ancestor: bool = false,
        /// Whether to return only the commits that cannot be reached from any other one.
        independent: bool = false,
        /// A reference. The commit where a branch was forked from it is returned.
        fork_point: Option<String> = None,
        /// Options of `git merge-base`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Return the result of merging two commits, without merging them.
    fn merge_tree(MergeTree {
        /// The path of the repository.
        cwd: String,
        /// The first commit.
        ref1: String,
        /// The second commit.
        ref2: String,
        /// The common ancestor. By default it is looked up.
        base: Option<String> = None,
        ..kwargs
    });

    /// Rebase the current branch onto another commit.
    fn rebase(Rebase {
        /// The path of the repository.
        cwd: String,
        /// The branch or commit to rebase onto.
        rev: String = "master".into(),
        /// Options of `git rebase`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Reset the branch or the index.
    fn reset(Reset {
        /// The path of the repository.
        cwd: String,
        /// Options of `git reset`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Return the output of `git rev-parse`.
    fn rev_parse(RevParse {
        /// The path of the repository.
        cwd: String,
        /// The name of a commit, such as a branch or a tag.
        rev: Option<String> = None,
        /// Options of `git rev-parse`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Return a commit's hash.
    fn revision(Revision {
        /// The path of the repository.
        cwd: String,
        /// The commit.
        rev: String = "HEAD".into(),
        /// Whether to return the abbreviated hash.
        short: bool = false,
        ..kwargs
    });

    /// Remove files from the work tree and from the index.
    fn rm(Rm {
        /// The path of the repository.
        cwd: String,
        /// The file.
        filename: String,
        /// Options of `git rm`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Stash changes, or restore them.
    fn stash(Stash {
        /// The path of the repository.
        cwd: String,
        /// The action, such as `save`, `pop` or `list`.
        action: String = "save".into(),
        /// Options of the action.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Return the changed files, grouped by the kind of change.
    fn status(Status {
        /// The path of the repository.
        cwd: String,
        ..kwargs
    });

    /// Read or write a symbolic reference.
    fn symbolic_ref(SymbolicRef {
        /// The path of the repository.
        cwd: String,
        /// The reference.
        r#ref: String,
        /// The reference to point to.
        value: Option<String> = None,
        /// Options of `git symbolic-ref`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Create or remove a tag.
    fn tag(Tag {
        /// The path of the repository.
        cwd: String,
        /// The tag.
        name: String,
        /// The commit that the tag points to.
        r#ref: String = "HEAD".into(),
        /// The message of an annotated tag.
        message: Option<String> = None,
        /// Options of `git tag`.
        opts: Value = "".into(),
        ..kwargs
    });
}

/// Runs a command with its options and these words, and returns the output of git. The output
/// includes standard error where git writes the message there.
fn said(
    cx: &Exec,
    cwd: &str,
    kwargs: Map,
    command: &[&str],
    more: Vec<String>,
    stderr: Stderr,
) -> Result<Value, Error> {
    let common = Common::of(cx, Some(cwd), &kwargs, &[])?;
    let mut words = common.words(command);
    words.extend(more);
    let out = match stderr {
        Stderr::Merged => common.git.merged(&words),
        Stderr::Apart => common.git.words(&words),
    };
    out.map(Value::from)
}

/// Like [`said`], for a command that takes options.
fn opted(
    cx: &Exec,
    cwd: &str,
    kwargs: Map,
    opts: Value,
    command: &[&str],
    more: Vec<String>,
) -> Result<Value, Error> {
    said(
        cx,
        cwd,
        kwargs.with("opts", opts),
        command,
        more,
        Stderr::Apart,
    )
}

fn named(name: Option<String>) -> Result<Vec<String>, Error> {
    name.map(|name| plain(&name).map(str::to_owned))
        .into_iter()
        .collect()
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let more = vec!["--".to_owned(), args.filename];
    opted(
        cx,
        &args.cwd,
        args.kwargs,
        args.opts,
        &["add", "--verbose"],
        more,
    )
}

fn branch(cx: &Exec, args: Branch) -> Result<Value, Error> {
    opted(
        cx,
        &args.cwd,
        args.kwargs,
        args.opts,
        &["branch"],
        named(args.name)?,
    )?;
    Ok(true.into())
}

fn checkout(cx: &Exec, args: Checkout) -> Result<Value, Error> {
    let opts = options(&args.opts)?;
    if args.rev.is_none() && !opts.iter().any(|word| word == "-b" || word == "-B") {
        return Err("'rev' argument is required unless -b or -B in opts".into());
    }
    let command: &[&str] = if args.force {
        &["checkout", "--force"]
    } else {
        &["checkout"]
    };
    let kwargs = args.kwargs.with("opts", opts);
    said(
        cx,
        &args.cwd,
        kwargs,
        command,
        named(args.rev)?,
        Stderr::Merged,
    )
}

fn commit(cx: &Exec, args: Commit) -> Result<Value, Error> {
    let more = args
        .filename
        .map_or_else(Vec::new, |name| vec!["--".to_owned(), name]);
    opted(
        cx,
        &args.cwd,
        args.kwargs,
        args.opts,
        &["commit", "-m", &args.message],
        more,
    )
}

fn current_branch(cx: &Exec, args: CurrentBranch) -> Result<Value, Error> {
    said(
        cx,
        &args.cwd,
        args.kwargs,
        &["rev-parse", "--abbrev-ref", "HEAD"],
        Vec::new(),
        Stderr::Apart,
    )
}

fn describe(cx: &Exec, args: Describe) -> Result<Value, Error> {
    said(
        cx,
        &args.cwd,
        args.kwargs,
        &["describe", "--always"],
        named(Some(args.rev))?,
        Stderr::Apart,
    )
}

fn diff(cx: &Exec, args: Diff) -> Result<Value, Error> {
    if args.no_index && args.cached {
        return Err("The 'no_index' and 'cached' options cannot be used together".into());
    }
    let kwargs = args.kwargs.with("opts", args.opts);
    let common = Common::of(cx, Some(&args.cwd), &kwargs, &[])?;
    let mut words = common.words(&["diff"]);
    if args.no_index {
        words.push("--no-index".into());
    } else {
        words.extend(args.cached.then(|| "--cached".to_owned()));
        words.extend(named(args.item1)?);
        words.extend(named(args.item2.filter(|_| !args.cached))?);
    }
    let paths = list_of(&args.paths);
    if !paths.is_empty() {
        words.push("--".into());
        words.extend(paths);
    }
    if args.no_index {
        // The command fails when there are differences, which is no error here.
        return Ok(common.git.run(&words, Stderr::Merged)?.stdout.into());
    }
    common.git.merged(&words).map(Value::from)
}

fn discard_local_changes(cx: &Exec, args: Discard) -> Result<Value, Error> {
    said(
        cx,
        &args.cwd,
        args.kwargs,
        &["checkout", "--", &args.path],
        Vec::new(),
        Stderr::Merged,
    )
}

fn refs(cx: &Exec, cwd: &str, kwargs: &Map, below: &str) -> Result<Value, Error> {
    let common = Common::of(cx, Some(cwd), kwargs, &[])?;
    Ok(common.git.refs_below(below)?.into())
}

impl super::Git<'_> {
    /// Returns the short names of the references below a path.
    pub(crate) fn refs_below(&self, below: &str) -> Result<Vec<String>, Error> {
        self.lines(&["for-each-ref", "--format", "%(refname:short)", below])
    }
}

fn list_branches(cx: &Exec, args: ListBranches) -> Result<Value, Error> {
    let below = if args.remote {
        "refs/remotes/"
    } else {
        "refs/heads/"
    };
    refs(cx, &args.cwd, &args.kwargs, below)
}

fn list_tags(cx: &Exec, args: ListTags) -> Result<Value, Error> {
    refs(cx, &args.cwd, &args.kwargs, "refs/tags/")
}

fn merge(cx: &Exec, args: Merge) -> Result<Value, Error> {
    opted(
        cx,
        &args.cwd,
        args.kwargs,
        args.opts,
        &["merge"],
        named(args.rev)?,
    )
}

fn merge_base(cx: &Exec, mut args: MergeBase) -> Result<Value, Error> {
    let all = args.kwargs.remove("all").is_some_and(|all| all.is_true());
    let mut refs: Vec<String> = list_of(&args.refs)
        .iter()
        .map(|name| name.trim().to_owned())
        .collect();
    if all && (args.independent || args.is_ancestor || args.fork_point.is_some()) {
        return Err("The 'all' argument is not compatible with 'independent', 'is_ancestor', or 'fork_point'".into());
    }
    let kinds = [
        args.octopus,
        args.independent,
        args.is_ancestor,
        args.fork_point.is_some(),
    ];
    if kinds.iter().filter(|kind| **kind).count() > 1 {
        return Err(
            "Only one of 'octopus', 'independent', 'is_ancestor', and 'fork_point' is permitted"
                .into(),
        );
    }
    if args.is_ancestor && refs.len() != 2 {
        return Err("Two refs/commits are required if 'is_ancestor' is True".into());
    }
    if args.fork_point.is_some() && refs.len() > 1 {
        return Err("At most one ref/commit can be passed if 'fork_point' is specified".into());
    }
    if args.fork_point.is_some() && refs.is_empty() {
        refs.push("HEAD".into());
    }
    let kwargs = args.kwargs.with("opts", args.opts);
    let common = Common::of(cx, Some(&args.cwd), &kwargs, &[])?;
    let mut words = common.words(&["merge-base"]);
    let flags = [
        (all, "--all"),
        (args.octopus, "--octopus"),
        (args.is_ancestor, "--is-ancestor"),
        (args.independent, "--independent"),
        (args.fork_point.is_some(), "--fork-point"),
    ];
    words.extend(
        flags
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, flag)| (*flag).to_owned()),
    );
    words.extend(named(args.fork_point)?);
    for name in &refs {
        words.push(plain(name)?.to_owned());
    }
    if args.is_ancestor {
        return Ok(common.git.run(&words, Stderr::Apart)?.success().into());
    }
    let out = common.git.words(&words)?;
    let mut bases = out.lines().map(Value::from);
    Ok(if all {
        Value::list(bases)
    } else {
        bases.next().unwrap_or_default()
    })
}

fn merge_tree(cx: &Exec, args: MergeTree) -> Result<Value, Error> {
    let refs = [plain(&args.ref1)?, plain(&args.ref2)?];
    let base = match args.base {
        Some(base) => plain(&base)?.to_owned(),
        None => {
            let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
            let mut words = common.words(&["merge-base"]);
            words.extend(refs.map(str::to_owned));
            let [one, other] = refs;
            let found = common.git.words(&words).map_err(|_| {
                Error::refused(format!(
                    "Unable to determine merge base for {one} and {other}"
                ))
            })?;
            found.lines().next().unwrap_or_default().to_owned()
        }
    };
    let more = [base.as_str()].into_iter().chain(refs).map(str::to_owned);
    let more = more.collect();
    said(
        cx,
        &args.cwd,
        args.kwargs,
        &["merge-tree"],
        more,
        Stderr::Apart,
    )
}

fn rebase(cx: &Exec, args: Rebase) -> Result<Value, Error> {
    let opts = options(&args.opts)?;
    if opts
        .iter()
        .any(|word| word == "-i" || word == "--interactive")
    {
        return Err("Interactive rebases are not supported".into());
    }
    opted(
        cx,
        &args.cwd,
        args.kwargs,
        opts.into(),
        &["rebase"],
        shlex::split(&args.rev)?,
    )
}

fn reset(cx: &Exec, args: Reset) -> Result<Value, Error> {
    opted(
        cx,
        &args.cwd,
        args.kwargs,
        args.opts,
        &["reset"],
        Vec::new(),
    )
}

fn rev_parse(cx: &Exec, args: RevParse) -> Result<Value, Error> {
    opted(
        cx,
        &args.cwd,
        args.kwargs,
        args.opts,
        &["rev-parse"],
        named(args.rev)?,
    )
}

fn revision(cx: &Exec, args: Revision) -> Result<Value, Error> {
    let command: &[&str] = if args.short {
        &["rev-parse", "--short"]
    } else {
        &["rev-parse"]
    };
    said(
        cx,
        &args.cwd,
        args.kwargs,
        command,
        named(Some(args.rev))?,
        Stderr::Apart,
    )
}

fn rm(cx: &Exec, args: Rm) -> Result<Value, Error> {
    let more = vec!["--".to_owned(), args.filename];
    opted(cx, &args.cwd, args.kwargs, args.opts, &["rm"], more)
}

fn stash(cx: &Exec, args: Stash) -> Result<Value, Error> {
    opted(
        cx,
        &args.cwd,
        args.kwargs,
        args.opts,
        &["stash", &args.action],
        Vec::new(),
    )
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
    let out = common.git.git(&["status", "-z", "--porcelain"])?;
    let mut found = Map::new();
    for entry in out.split('\0') {
        let Some((state, name)) = entry.trim_start().split_once(' ') else {
            continue;
        };
        let state = match state {
            "M" => "modified",
            "A" => "new",
            "D" => "deleted",
            "??" => "untracked",
            other => other,
        };
        if let Some(list) = found.entry(state, || Value::list([])).as_list_mut() {
            list.push(name.trim_start().into());
        }
    }
    Ok(found.into())
}

fn symbolic_ref(cx: &Exec, args: SymbolicRef) -> Result<Value, Error> {
    let opts = options(&args.opts)?;
    if args.value.is_some() && opts.iter().any(|word| word == "-d" || word == "--delete") {
        return Err(
            "Value cannot be set for symbolic ref if -d/--delete is included in opts".into(),
        );
    }
    let mut more = named(Some(args.r#ref))?;
    more.extend(named(args.value)?);
    opted(
        cx,
        &args.cwd,
        args.kwargs,
        opts.into(),
        &["symbolic-ref"],
        more,
    )
}

fn tag(cx: &Exec, args: Tag) -> Result<Value, Error> {
    let mut opts = options(&args.opts)?;
    opts.retain(|word| word != "-a" && word != "--annotate");
    if opts
        .iter()
        .any(|word| word == "-m" || word.contains("--message"))
    {
        return Err("Tag messages must be passed in the \"message\" argument".into());
    }
    let removes = opts.iter().any(|word| word == "-d" || word == "--delete");
    let mut command = vec!["tag"];
    if let Some(message) = &args.message {
        command.extend(["-a", "-m", message]);
    }
    let mut more = named(Some(args.name))?;
    if !removes {
        more.extend(named(Some(args.r#ref))?);
    }
    said(
        cx,
        &args.cwd,
        args.kwargs.with("opts", opts),
        &command,
        more,
        Stderr::Merged,
    )
}
