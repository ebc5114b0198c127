//! Commits, branches, tags and the files of a repository.

use machine::process::Stderr;
use python::shlex;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Caller, Git, Options, User, keys, line, list_of, options, plain, refuse_others};

state::exec_module! {
    /// Commits, branches and tags of a git repository.
    mod git;

    /// Add files to the index.
    ///
    ///     salt-call git.add /srv/app main.py
    fn add(Add {
        /// The path of the repository.
        cwd: String,
        /// The file or folder.
        filename: String,
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Manage branches.
    ///
    ///     salt-call git.branch /srv/app name=fix
    fn branch(Branch {
        /// The path of the repository.
        cwd: String,
        /// The branch.
        name: Option<String> = None,
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Check out a branch, a tag or a commit.
    ///
    ///     salt-call git.checkout /srv/app main
    fn checkout(Checkout {
        /// The path of the repository.
        cwd: String,
        /// The branch, tag or commit to check out.
        rev: Option<String> = None,
        /// Whether changes of files may be discarded.
        force: bool = false,
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Create a commit.
    ///
    ///     salt-call git.commit /srv/app 'Fix the port'
    fn commit(Commit {
        /// The path of the repository.
        cwd: String,
        /// The message of the commit.
        message: String,
        #[group] options: Options,
        #[group] user: User,
        /// The only file to commit. The default is everything that is in the index.
        filename: Option<String> = None,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    });

    /// Return the name of the branch that is checked out.
    ///
    ///     salt-call git.current_branch /srv/app
    fn current_branch(CurrentBranch {
        /// The path of the repository.
        cwd: String,
        #[group] caller: Caller,
    });

    /// Return a human-readable name of a commit, based on tags.
    ///
    ///     salt-call git.describe /srv/app
    fn describe(Describe {
        /// The path of the repository.
        cwd: String,
        /// The commit.
        rev: String = "HEAD".into(),
        #[group] caller: Caller,
    });

    /// Return the differences between commits, the index and the work tree.
    ///
    ///     salt-call git.diff /srv/app
    fn diff(Diff {
        /// The path of the repository.
        cwd: String,
        /// The first commit.
        item1: Option<String> = None,
        /// The second commit.
        item2: Option<String> = None,
        #[group] options: Options,
        #[group] user: User,
        /// Whether to compare two paths outside of a repository.
        no_index: bool = false,
        /// Whether to compare with the index.
        cached: bool = false,
        /// The only paths to compare. The default is all of them.
        paths: Value = Value::Null,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    });

    /// Discard the changes that were not added to the index.
    ///
    ///     salt-call git.discard_local_changes /srv/app
    fn discard_local_changes(Discard {
        /// The path of the repository.
        cwd: String,
        /// The path below which changes are discarded.
        path: String = ".".into(),
        #[group] caller: Caller,
    });

    /// Return the branches.
    ///
    ///     salt-call git.list_branches /srv/app
    fn list_branches(ListBranches {
        /// The path of the repository.
        cwd: String,
        /// Whether to return the remote branches instead of the local ones.
        remote: bool = false,
        #[group] caller: Caller,
    });

    /// Return the tags.
    ///
    ///     salt-call git.list_tags /srv/app
    fn list_tags(ListTags {
        /// The path of the repository.
        cwd: String,
        #[group] caller: Caller,
    });

    /// Merge a branch or a commit.
    ///
    ///     salt-call git.merge /srv/app rev=origin/main
    fn merge(Merge {
        /// The path of the repository.
        cwd: String,
        /// The branch or commit to merge.
        rev: Option<String> = None,
        #[group] options: Options,
        #[group] user: User,
        /// The ssh keys, which are tried one after the other: absolute paths, or files of the file
        /// roots.
        identity: Value = Value::Null,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
        ..kwargs
    });

    /// Return the common ancestor of commits, or with `is_ancestor` whether the first commit is an
    /// ancestor of the second.
    ///
    ///     salt-call git.merge_base /srv/app refs=main,fix
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
        #[group] options: Options,
        #[group] caller: Caller,
        ..kwargs
    });

    /// Return the result of merging two commits, without merging them.
    ///
    ///     salt-call git.merge_tree /srv/app main fix
    fn merge_tree(MergeTree {
        /// The path of the repository.
        cwd: String,
        /// The first commit.
        ref1: String,
        /// The second commit.
        ref2: String,
        /// The common ancestor. By default it is looked up.
        base: Option<String> = None,
        #[group] caller: Caller,
    });

    /// Rebase the current branch onto another commit.
    ///
    ///     salt-call git.rebase /srv/app rev=origin/main
    fn rebase(Rebase {
        /// The path of the repository.
        cwd: String,
        /// The branch or commit to rebase onto.
        rev: String = "master".into(),
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Reset the branch or the index.
    ///
    ///     salt-call git.reset /srv/app opts='--hard origin/main'
    fn reset(Reset {
        /// The path of the repository.
        cwd: String,
        #[group] options: Options,
        #[group] user: User,
        /// The ssh keys, which are tried one after the other: absolute paths, or files of the file
        /// roots.
        identity: Value = Value::Null,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    });

    /// Return the output of `git rev-parse`.
    ///
    ///     salt-call git.rev_parse /srv/app rev=HEAD
    fn rev_parse(RevParse {
        /// The path of the repository.
        cwd: String,
        /// The name of a commit, such as a branch or a tag.
        rev: Option<String> = None,
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Return a commit's hash.
    ///
    ///     salt-call git.revision /srv/app short=True
    fn revision(Revision {
        /// The path of the repository.
        cwd: String,
        /// The commit.
        rev: String = "HEAD".into(),
        /// Whether to return the abbreviated hash.
        short: bool = false,
        #[group] caller: Caller,
    });

    /// Remove files from the work tree and from the index.
    ///
    ///     salt-call git.rm /srv/app old.py
    fn rm(Rm {
        /// The path of the repository.
        cwd: String,
        /// The file.
        filename: String,
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Stash changes, or restore them.
    ///
    ///     salt-call git.stash /srv/app
    fn stash(Stash {
        /// The path of the repository.
        cwd: String,
        /// The action, such as `save`, `pop` or `list`.
        action: String = "save".into(),
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Return the changed files, grouped by the kind of change.
    ///
    ///     salt-call git.status /srv/app
    fn status(Status {
        /// The path of the repository.
        cwd: String,
        #[group] caller: Caller,
    });

    /// Read or write a symbolic reference.
    ///
    ///     salt-call git.symbolic_ref /srv/app HEAD
    fn symbolic_ref(SymbolicRef {
        /// The path of the repository.
        cwd: String,
        /// The reference.
        r#ref: String,
        /// The reference to point to.
        value: Option<String> = None,
        #[group] options: Options,
        #[group] caller: Caller,
    });

    /// Create or remove a tag.
    ///
    ///     salt-call git.tag /srv/app v2.1
    fn tag(Tag {
        /// The path of the repository.
        cwd: String,
        /// The tag.
        name: String,
        /// The commit that the tag points to.
        r#ref: String = "HEAD".into(),
        /// The message of an annotated tag.
        message: Option<String> = None,
        #[group] options: Options,
        #[group] caller: Caller,
    });
}

fn named(name: Option<&str>) -> Result<Option<&str>, Error> {
    name.map(plain).transpose()
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let words = args
        .options
        .words(&["add", "--verbose"], &["--", &args.filename])?;
    args.caller
        .git(cx, &args.cwd)
        .words(&words)
        .map(Value::from)
}

fn branch(cx: &Exec, args: Branch) -> Result<Value, Error> {
    let name = named(args.name.as_deref())?;
    let words = args.options.words(&["branch"], name.as_slice())?;
    args.caller.git(cx, &args.cwd).words(&words)?;
    Ok(true.into())
}

fn checkout(cx: &Exec, args: Checkout) -> Result<Value, Error> {
    let opts = options(&args.options.opts)?;
    if args.rev.is_none() && !opts.iter().any(|word| word == "-b" || word == "-B") {
        return Err("'rev' argument is required unless -b or -B in opts".into());
    }
    let command: &[&str] = if args.force {
        &["checkout", "--force"]
    } else {
        &["checkout"]
    };
    let rev = named(args.rev.as_deref())?;
    let words = args.options.words(command, rev.as_slice())?;
    args.caller
        .git(cx, &args.cwd)
        .merged(&words)
        .map(Value::from)
}

fn commit(cx: &Exec, args: Commit) -> Result<Value, Error> {
    let mut words = args.options.words(&["commit", "-m", &args.message], &[])?;
    if let Some(name) = args.filename {
        words.extend(["--".to_owned(), name]);
    }
    let git = args.user.git(cx, Some(&args.cwd), args.output_encoding);
    git.words(&words).map(Value::from)
}

fn current_branch(cx: &Exec, args: CurrentBranch) -> Result<Value, Error> {
    let git = args.caller.git(cx, &args.cwd);
    git.git(&["rev-parse", "--abbrev-ref", "HEAD"])
        .map(Value::from)
}

fn describe(cx: &Exec, args: Describe) -> Result<Value, Error> {
    let git = args.caller.git(cx, &args.cwd);
    git.git(&["describe", "--always", plain(&args.rev)?])
        .map(Value::from)
}

fn diff(cx: &Exec, args: Diff) -> Result<Value, Error> {
    if args.no_index && args.cached {
        return Err("The 'no_index' and 'cached' options cannot be used together".into());
    }
    let mut words = args.options.words(&["diff"], &[])?;
    if args.no_index {
        words.push("--no-index".into());
    } else {
        words.extend(args.cached.then(|| "--cached".to_owned()));
        for item in [args.item1, args.item2.filter(|_| !args.cached)]
            .iter()
            .flatten()
        {
            words.push(plain(item)?.to_owned());
        }
    }
    let paths = list_of(&args.paths);
    if !paths.is_empty() {
        words.push("--".into());
        words.extend(paths);
    }
    let git = args.user.git(cx, Some(&args.cwd), args.output_encoding);
    if args.no_index {
        // The command fails when there are differences, which is no error here.
        return Ok(git
            .run(&words, Stderr::Merged)?
            .into_stdout_regardless()
            .into());
    }
    git.merged(&words).map(Value::from)
}

fn discard_local_changes(cx: &Exec, args: Discard) -> Result<Value, Error> {
    let git = args.caller.git(cx, &args.cwd);
    git.merged(&line(&["checkout", "--", &args.path]))
        .map(Value::from)
}

impl Git<'_> {
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
    let git = args.caller.git(cx, &args.cwd);
    git.refs_below(below).map(Value::from)
}

fn list_tags(cx: &Exec, args: ListTags) -> Result<Value, Error> {
    let git = args.caller.git(cx, &args.cwd);
    git.refs_below("refs/tags/").map(Value::from)
}

fn merge(cx: &Exec, args: Merge) -> Result<Value, Error> {
    refuse_others(&args.kwargs)?;
    let rev = named(args.rev.as_deref())?;
    let words = args.options.words(&["merge"], rev.as_slice())?;
    let git = args.user.git(cx, Some(&args.cwd), args.output_encoding);
    let git = git.with_identity(&keys(&args.identity));
    git.words(&words).map(Value::from)
}

fn merge_base(cx: &Exec, mut args: MergeBase) -> Result<Value, Error> {
    let all = args.kwargs.remove("all").is_some_and(|all| all.is_true());
    refuse_others(&args.kwargs)?;
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
    let mut words = args.options.words(&["merge-base"], &[])?;
    let flags = [
        (all, "--all"),
        (args.octopus, "--octopus"),
        (args.is_ancestor, "--is-ancestor"),
        (args.independent, "--independent"),
        (args.fork_point.is_some(), "--fork-point"),
    ];
    let flags = flags.iter().filter(|(on, _)| *on);
    words.extend(flags.map(|(_, flag)| (*flag).to_owned()));
    for name in args.fork_point.iter().chain(&refs) {
        words.push(plain(name)?.to_owned());
    }
    let git = args.caller.git(cx, &args.cwd);
    if args.is_ancestor {
        return Ok(git.run(&words, Stderr::Apart)?.success().into());
    }
    let out = git.words(&words)?;
    let mut bases = out.lines().map(Value::from);
    Ok(if all {
        Value::list(bases)
    } else {
        bases.next().unwrap_or_default()
    })
}

fn merge_tree(cx: &Exec, args: MergeTree) -> Result<Value, Error> {
    let git = args.caller.git(cx, &args.cwd);
    let (one, other) = (plain(&args.ref1)?, plain(&args.ref2)?);
    let base = match args.base {
        Some(base) => plain(&base)?.to_owned(),
        None => {
            let found = git.git(&["merge-base", one, other]).map_err(|_| {
                Error::refused(format!(
                    "Unable to determine merge base for {one} and {other}"
                ))
            })?;
            found.lines().next().unwrap_or_default().to_owned()
        }
    };
    git.git(&["merge-tree", &base, one, other]).map(Value::from)
}

fn rebase(cx: &Exec, args: Rebase) -> Result<Value, Error> {
    let opts = options(&args.options.opts)?;
    if opts
        .iter()
        .any(|word| word == "-i" || word == "--interactive")
    {
        return Err("Interactive rebases are not supported".into());
    }
    let mut words = args.options.words(&["rebase"], &[])?;
    words.extend(shlex::split(&args.rev)?);
    args.caller
        .git(cx, &args.cwd)
        .words(&words)
        .map(Value::from)
}

fn reset(cx: &Exec, args: Reset) -> Result<Value, Error> {
    let words = args.options.words(&["reset"], &[])?;
    let git = args.user.git(cx, Some(&args.cwd), args.output_encoding);
    let git = git.with_identity(&keys(&args.identity));
    git.words(&words).map(Value::from)
}

fn rev_parse(cx: &Exec, args: RevParse) -> Result<Value, Error> {
    let rev = named(args.rev.as_deref())?;
    let words = args.options.words(&["rev-parse"], rev.as_slice())?;
    args.caller
        .git(cx, &args.cwd)
        .words(&words)
        .map(Value::from)
}

fn revision(cx: &Exec, args: Revision) -> Result<Value, Error> {
    let mut words = line(&["rev-parse"]);
    words.extend(args.short.then(|| "--short".to_owned()));
    words.push(plain(&args.rev)?.to_owned());
    args.caller
        .git(cx, &args.cwd)
        .words(&words)
        .map(Value::from)
}

fn rm(cx: &Exec, args: Rm) -> Result<Value, Error> {
    let words = args.options.words(&["rm"], &["--", &args.filename])?;
    args.caller
        .git(cx, &args.cwd)
        .words(&words)
        .map(Value::from)
}

fn stash(cx: &Exec, args: Stash) -> Result<Value, Error> {
    let words = args.options.words(&["stash", &args.action], &[])?;
    args.caller
        .git(cx, &args.cwd)
        .words(&words)
        .map(Value::from)
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let git = args.caller.git(cx, &args.cwd);
    let out = git.git(&["status", "-z", "--porcelain"])?;
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
    let opts = options(&args.options.opts)?;
    if args.value.is_some() && opts.iter().any(|word| word == "-d" || word == "--delete") {
        return Err(
            "Value cannot be set for symbolic ref if -d/--delete is included in opts".into(),
        );
    }
    let mut more = vec![plain(&args.r#ref)?];
    more.extend(named(args.value.as_deref())?);
    let words = args.options.words(&["symbolic-ref"], &more)?;
    args.caller
        .git(cx, &args.cwd)
        .words(&words)
        .map(Value::from)
}

fn tag(cx: &Exec, mut args: Tag) -> Result<Value, Error> {
    let mut opts = options(&args.options.opts)?;
    opts.retain(|word| word != "-a" && word != "--annotate");
    if opts
        .iter()
        .any(|word| word == "-m" || word.contains("--message"))
    {
        return Err("Tag messages must be passed in the \"message\" argument".into());
    }
    let removes = opts.iter().any(|word| word == "-d" || word == "--delete");
    args.options.opts = opts.into();
    let mut command = vec!["tag"];
    if let Some(message) = &args.message {
        command.extend(["-a", "-m", message]);
    }
    let mut more = vec![plain(&args.name)?];
    if !removes {
        more.push(plain(&args.r#ref)?);
    }
    let words = args.options.words(&command, &more)?;
    args.caller
        .git(cx, &args.cwd)
        .merged(&words)
        .map(Value::from)
}
