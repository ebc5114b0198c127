//! Work with remote repositories: clone, fetch, push, and list or change the configured ones.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Common, Git, line, list_of, options, plain, redacted};

state::exec_module! {
    /// Remote repositories of a git repository.
    mod git;

    /// Clone a repository. As in the other functions, the arguments user, identity, https_user,
    /// https_pass, saltenv, ignore_retcode and output_encoding are passed by name.
    fn clone(Clone {
        /// The folder to clone to. If `name` is given, this is its parent folder.
        cwd: String,
        /// The address of the repository.
        url: String,
        /// The name of the new folder.
        name: Option<String> = None,
        /// Options of `git clone`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Fetch from a remote repository and return what was updated.
    fn fetch(Fetch {
        /// The path of the local repository.
        cwd: String,
        /// The name of the remote repository.
        remote: Option<String> = None,
        /// Whether branches may be updated that are not fast-forwards.
        force: bool = false,
        /// The references to fetch: a list, or a text with commas between them.
        refspecs: Value = Value::Null,
        /// Options of `git fetch`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Fetch and merge.
    fn pull(Pull {
        /// The path of the local repository.
        cwd: String,
        /// Options of `git pull`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Push to a remote repository.
    fn push(Push {
        /// The path of the local repository.
        cwd: String,
        /// The name of the remote repository.
        remote: String,
        /// The reference to push.
        r#ref: String,
        /// Options of `git push`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Return the references of a remote repository.
    fn ls_remote(LsRemote {
        /// The path of the local repository.
        cwd: Option<String> = None,
        /// The name or address of the remote repository.
        remote: String = "origin".into(),
        /// A pattern of the references to return. The default is all of them.
        r#ref: Option<String> = None,
        /// Options of `git ls-remote`.
        opts: Value = "".into(),
        ..kwargs
    });

    /// Return the references of the repository at an address.
    fn remote_refs(RemoteRefs {
        /// The address of the repository.
        url: String,
        /// Whether to return only branches.
        heads: bool = false,
        /// Whether to return only tags.
        tags: bool = false,
        ..kwargs
    });

    /// Return the addresses that a remote repository is fetched from and pushed to.
    fn remote_get(RemoteGet {
        /// The path of the local repository.
        cwd: String,
        /// The name of the remote repository.
        remote: String = "origin".into(),
        /// Whether to remove passwords from the addresses.
        redact_auth: bool = true,
        ..kwargs
    });

    /// Set the address of a remote repository.
    fn remote_set(RemoteSet {
        /// The path of the local repository.
        cwd: String,
        /// The address to fetch from.
        url: String,
        /// The name of the remote repository.
        remote: String = "origin".into(),
        /// The address to push to. The default is `url`.
        push_url: Option<String> = None,
        ..kwargs
    });

    /// Return all remote repositories that are configured.
    fn remotes(Remotes {
        /// The path of the local repository.
        cwd: String,
        /// Whether to remove passwords from the addresses.
        redact_auth: bool = true,
        ..kwargs
    });

    /// Manage submodules.
    fn submodule(Submodule {
        /// The path of the repository.
        cwd: String,
        /// The command, such as `update`, `init` or `add`.
        command: String,
        /// Options of the command.
        opts: Value = "".into(),
        ..kwargs
    });
}

fn with_opts(kwargs: Map, opts: Value) -> Map {
    kwargs.with("opts", opts)
}

fn clone(cx: &Exec, args: Clone) -> Result<Value, Error> {
    let kwargs = with_opts(args.kwargs, args.opts);
    let mut common = Common::of(cx, Some(&args.cwd), &kwargs, &[])?;
    if args.url.is_empty() {
        return Err("Missing 'url' argument".into());
    }
    let url = common.url(&args.url)?;
    let mut words = common.words(&["clone"]);
    words.extend(["--".to_owned(), url]);
    let mut git = common.git;
    let cwd = git.cwd.take().unwrap_or_default();
    match args.name {
        Some(name) => {
            let folder = format!("{cwd}/");
            cx.call_internal(
                "file.makedirs",
                vec![folder.into()],
                Map::new().with("user", git.user.clone()),
            )?;
            words.push(name);
            git.cwd = Some(cwd);
        }
        None => {
            words.push(cwd);
            git.cwd = Some("/tmp".into());
        }
    }
    git.words(&words)?;
    Ok(true.into())
}

fn fetch(cx: &Exec, args: Fetch) -> Result<Value, Error> {
    let kwargs = with_opts(args.kwargs, args.opts);
    let mut common = Common::of(cx, Some(&args.cwd), &kwargs, &[])?;
    common.log_in(args.remote.as_deref().filter(|remote| !remote.is_empty()))?;
    let mut words = common.words(if args.force {
        &["fetch", "--force"]
    } else {
        &["fetch"]
    });
    if let Some(remote) = args.remote.filter(|remote| !remote.is_empty()) {
        words.push(plain(&remote)?.to_owned());
    }
    words.extend(list_of(&args.refspecs));
    common.git.fetched(&words).map(Value::from)
}

impl Git<'_> {
    /// Fetches, and returns the references that changed.
    pub(crate) fn fetched(&self, words: &[String]) -> Result<Map, Error> {
        let out = self.merged(words)?;
        let mut updates = Map::new();
        for line in out.lines() {
            note_update(line, &mut updates);
        }
        Ok(updates)
    }

    /// Returns the references of a repository: a map from names to commits.
    pub(crate) fn refs(&self, words: &[String]) -> Result<Map, Error> {
        let out = self.words(words)?;
        let pairs = out
            .lines()
            .filter_map(|line| line.split_once(char::is_whitespace));
        Ok(pairs.map(|(commit, name)| (name.trim(), commit)).collect())
    }

    /// Returns the configured remote repositories: a map from names to their `fetch` and `push`
    /// addresses.
    pub(crate) fn remotes(&self, redact: bool) -> Result<Map, Error> {
        let mut remotes = Map::new();
        for line in self.lines(&["remote", "--verbose"])? {
            let Some((name, (url, action))) =
                line.split_once(char::is_whitespace)
                    .and_then(|(name, rest)| {
                        Some((name, rest.trim().rsplit_once(char::is_whitespace)?))
                    })
            else {
                continue;
            };
            let action = action.trim_matches(['(', ')']);
            if action != "fetch" && action != "push" {
                continue;
            }
            let url = if redact {
                redacted(url.trim())
            } else {
                url.trim().to_owned()
            };
            let entry = remotes.entry(name, || Map::new().into());
            if let Some(entry) = entry.as_map_mut() {
                entry.insert(action, url);
            }
        }
        Ok(remotes)
    }

    /// Replaces the address of a remote repository.
    pub(crate) fn set_remote(&self, remote: &str, url: &str) -> Result<(), Error> {
        if self.remotes(true)?.contains(remote) {
            self.git(&["remote", "rm", plain(remote)?])?;
        }
        self.git(&["remote", "add", plain(remote)?, plain(url)?])?;
        Ok(())
    }
}

/// Parses one line of the output of `git fetch`.
fn note_update(line: &str, updates: &mut Map) {
    let line = line.trim_start_matches([' ', '*', '\t', '+']);
    let Some((what, rest)) = line
        .split_once("->")
        .map(|(before, _)| before)
        .and_then(|before| {
            let end = if before.starts_with('[') {
                before.find(']')? + 1
            } else {
                before.find(char::is_whitespace)?
            };
            before.split_at_checked(end)
        })
    else {
        return;
    };
    let name = rest.trim();
    let list = match what {
        "[new tag]" => "new tags",
        "[new branch]" => "new branches",
        "[tag update]" => "updated tags",
        _ => {
            let Some((old, new)) = what.split_once("..") else {
                return;
            };
            let hexadecimal =
                |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            if hexadecimal(old) && hexadecimal(new) {
                let entry = updates.entry("updated branches", || Map::new().into());
                if let Some(entry) = entry.as_map_mut() {
                    entry.insert(name, Map::new().with("old", old).with("new", new));
                }
            }
            return;
        }
    };
    if let Some(list) = updates.entry(list, || Value::list([])).as_list_mut() {
        list.push(name.into());
    }
}

fn pull(cx: &Exec, args: Pull) -> Result<Value, Error> {
    let kwargs = with_opts(args.kwargs, args.opts);
    let mut common = Common::of(cx, Some(&args.cwd), &kwargs, &[])?;
    common.log_in(None)?;
    Ok(common.git.words(&common.words(&["pull"]))?.into())
}

fn push(cx: &Exec, args: Push) -> Result<Value, Error> {
    let kwargs = with_opts(args.kwargs, args.opts);
    let mut common = Common::of(cx, Some(&args.cwd), &kwargs, &[])?;
    common.log_in(Some(&args.remote))?;
    let mut words = common.words(&["push"]);
    words.extend([
        plain(&args.remote)?.to_owned(),
        plain(&args.r#ref)?.to_owned(),
    ]);
    Ok(common.git.words(&words)?.into())
}

fn ls_remote(cx: &Exec, args: LsRemote) -> Result<Value, Error> {
    let kwargs = with_opts(args.kwargs, args.opts);
    let mut common = Common::of(cx, args.cwd.as_deref(), &kwargs, &[])?;
    let mut words = common.words(&["ls-remote"]);
    words.push(plain(&common.url(&args.remote)?)?.to_owned());
    words.extend(args.r#ref.filter(|name| !name.is_empty()));
    common.git.refs(&words).map(Value::from)
}

fn remote_refs(cx: &Exec, args: RemoteRefs) -> Result<Value, Error> {
    let mut common = Common::of(cx, None, &args.kwargs, &["filter"])?;
    let mut words = line(&["ls-remote"]);
    words.extend(args.heads.then(|| "--heads".to_owned()));
    words.extend(args.tags.then(|| "--tags".to_owned()));
    words.push(plain(&common.url(&args.url)?)?.to_owned());
    words.extend(
        args.kwargs
            .get("filter")
            .filter(|filter| filter.is_true())
            .map(Value::to_text),
    );
    common.git.refs(&words).map(Value::from)
}

fn remote_of(git: &Git<'_>, remote: &str, redact: bool) -> Result<Value, Error> {
    let missing = || {
        let cwd = git.cwd.as_deref().unwrap_or_default();
        Error::refused(format!(
            "Remote '{remote}' not present in git checkout located at {cwd}"
        ))
    };
    git.remotes(redact)?.remove(remote).ok_or_else(missing)
}

fn remote_get(cx: &Exec, args: RemoteGet) -> Result<Value, Error> {
    let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
    remote_of(&common.git, &args.remote, args.redact_auth)
}

fn remote_set(cx: &Exec, args: RemoteSet) -> Result<Value, Error> {
    let mut common = Common::of(
        cx,
        Some(&args.cwd),
        &args.kwargs,
        &["push_https_user", "push_https_pass"],
    )?;
    let url = common.url(&args.url)?;
    common.git.set_remote(&args.remote, &url)?;
    if let Some(url) = args.push_url.filter(|url| !url.is_empty()) {
        let given = |name: &str| {
            args.kwargs
                .get(name)
                .filter(|value| value.is_true())
                .map(Value::to_text)
        };
        let (user, password) = (given("push_https_user"), given("push_https_pass"));
        let (url, _not_kept) = super::with_login(&url, user.as_deref(), password.as_deref())?;
        common
            .git
            .git(&["remote", "set-url", "--push", &args.remote, plain(&url)?])?;
    }
    remote_of(&common.git, &args.remote, true)
}

fn remotes(cx: &Exec, args: Remotes) -> Result<Value, Error> {
    let common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
    common.git.remotes(args.redact_auth).map(Value::from)
}

fn submodule(cx: &Exec, args: Submodule) -> Result<Value, Error> {
    let mut common = Common::of(cx, Some(&args.cwd), &args.kwargs, &[])?;
    common.log_in(None)?;
    let mut words = common.words(&["submodule", &args.command]);
    words.extend(options(&args.opts)?);
    Ok(common.git.words(&words)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fetch_has_updated_is_read() {
        let mut updates = Map::new();
        for line in [
            "From /srv/repo",
            "   1234abc..5678def  main       -> origin/main",
            " + 1234abc...5678def old      -> origin/old  (forced update)",
            " * [new branch]      dev        -> origin/dev",
            " * [new tag]         v1         -> v1",
        ] {
            note_update(line, &mut updates);
        }
        assert_eq!(
            value::python::repr(&updates.into()),
            "{'updated branches': {'main': {'old': '1234abc', 'new': '5678def'}}, 'new branches': ['dev'], 'new tags': ['v1']}"
        );
    }
}
