//! Work with remote repositories: clone, fetch, push, and list or change the configured ones.

use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::{Git, Options, User, keys, line, list_of, plain, redacted, refuse_others, with_login};

state::exec_module! {
    /// Remote repositories of a git repository.
    mod git;

    /// Clone a repository.
    ///
    ///     salt-call git.clone /srv/app https://git.example.com/app.git
    fn clone(Clone {
        /// The folder to clone to. If `name` is given, this is its parent folder.
        cwd: String,
        /// The address of the repository.
        url: Option<String> = None,
        /// The name of the new folder.
        name: Option<String> = None,
        #[group] options: Options,
        #[group] user: User,
        /// The ssh keys, which are tried one after the other: absolute paths, or files of the file
        /// roots.
        identity: Value = Value::Null,
        #[group] https: Https,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The environment of the file roots that contains the keys.
        saltenv: String = "base".into(),
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    });

    /// Fetch from a remote repository and return what was updated.
    ///
    ///     salt-call git.fetch /srv/app
    fn fetch(Fetch {
        /// The path of the local repository.
        cwd: String,
        /// The name of the remote repository.
        remote: Option<String> = None,
        /// Whether branches may be updated that are not fast-forwards.
        force: bool = false,
        /// The references to fetch: a list, or a text with commas between them.
        refspecs: Value = Value::Null,
        #[group] options: Options,
        #[group] server: Server,
        #[group] https: Https,
    });

    /// Fetch and merge.
    ///
    ///     salt-call git.pull /srv/app
    fn pull(Pull {
        /// The path of the local repository.
        cwd: String,
        #[group] options: Options,
        #[group] server: Server,
        #[group] https: Https,
    });

    /// Push to a remote repository.
    ///
    ///     salt-call git.push /srv/app origin main
    fn push(Push {
        /// The path of the local repository.
        cwd: String,
        /// The name of the remote repository.
        remote: Option<String> = None,
        /// The reference to push.
        r#ref: Option<String> = None,
        #[group] options: Options,
        #[group] server: Server,
        #[group] https: Https,
        ..kwargs
    });

    /// Return the references of a remote repository.
    ///
    ///     salt-call git.ls_remote remote=https://git.example.com/app.git
    fn ls_remote(LsRemote {
        /// The path of the local repository.
        cwd: Option<String> = None,
        /// The name or address of the remote repository.
        remote: String = "origin".into(),
        /// A pattern of the references to return. The default is all of them.
        r#ref: Option<String> = None,
        #[group] options: Options,
        #[group] server: Remote,
    });

    /// Return the references of the repository at an address.
    ///
    ///     salt-call git.remote_refs https://git.example.com/app.git
    fn remote_refs(RemoteRefs {
        /// The address of the repository.
        url: String,
        /// Whether to return only branches.
        heads: bool = false,
        /// Whether to return only tags.
        tags: bool = false,
        #[group] server: Remote,
        ..kwargs
    });

    /// Return the addresses that a remote repository is fetched from and pushed to.
    ///
    ///     salt-call git.remote_get /srv/app
    fn remote_get(RemoteGet {
        /// The path of the local repository.
        cwd: String,
        /// The name of the remote repository.
        remote: String = "origin".into(),
        #[group] user: User,
        /// Whether to remove passwords from the addresses.
        redact_auth: bool = true,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    });

    /// Set the address of a remote repository.
    ///
    ///     salt-call git.remote_set /srv/app https://git.example.com/app.git
    fn remote_set(RemoteSet {
        /// The path of the local repository.
        cwd: String,
        /// The address to fetch from.
        url: String,
        /// The name of the remote repository.
        remote: String = "origin".into(),
        #[group] user: User,
        #[group] https: Https,
        /// The address to push to. The default is `url`.
        push_url: Option<String> = None,
        /// The user of the https server to push to.
        push_https_user: Option<String> = None,
        /// The password of the https server to push to.
        push_https_pass: Option<String> = None,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    });

    /// Return all remote repositories that are configured.
    ///
    ///     salt-call git.remotes /srv/app
    fn remotes(Remotes {
        /// The path of the local repository.
        cwd: String,
        #[group] user: User,
        /// Whether to remove passwords from the addresses.
        redact_auth: bool = true,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    });

    /// Manage submodules.
    ///
    ///     salt-call git.submodule /srv/app update opts='--init'
    fn submodule(Submodule {
        /// The path of the repository.
        cwd: String,
        /// The command, such as `update`, `init` or `add`.
        command: String,
        #[group] options: Options,
        #[group] server: Server,
        #[group] https: Https,
        ..kwargs
    });
}

state::argument_group! {
    /// The keys for the server.
    pub(crate) struct Server {
        #[group] user: User,
        /// The ssh keys, which are tried one after the other: absolute paths, or files of the file
        /// roots.
        identity: Value = Value::Null,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The environment of the file roots that contains the keys.
        saltenv: String = "base".into(),
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
    }
}

state::argument_group! {
    /// The login of an https server.
    pub(crate) struct Https {
        /// The user of the https server.
        https_user: Option<String> = None,
        /// The password of the https server.
        https_pass: Option<String> = None,
    }
}

state::argument_group! {
    /// The keys for the server, or its login.
    pub(crate) struct Remote {
        #[group] user: User,
        /// The ssh keys, which are tried one after the other: absolute paths, or files of the file
        /// roots.
        identity: Value = Value::Null,
        #[group] https: Https,
        /// Accepted for Salt's sake: a failure of git is never logged here.
        ignore_retcode: bool = false,
        /// The encoding of the output of git.
        output_encoding: Option<String> = None,
        /// The environment of the file roots that contains the keys.
        saltenv: String = "base".into(),
    }
}

impl Server {
    /// Returns git in a folder, as this user with these keys.
    fn git<'a>(self, cx: &'a Exec, cwd: Option<&str>) -> Git<'a> {
        Git {
            identity: keys(&self.identity),
            saltenv: self.saltenv,
            ..self.user.git(cx, cwd, self.output_encoding)
        }
    }
}

impl Remote {
    /// Returns git in a folder, as this user with these keys, and the login.
    fn git<'a>(self, cx: &'a Exec, cwd: Option<&str>) -> (Git<'a>, Https) {
        let git = Git {
            identity: keys(&self.identity),
            saltenv: self.saltenv,
            ..self.user.git(cx, cwd, self.output_encoding)
        };
        (git, self.https)
    }
}

impl Https {
    /// Returns a URL with its user, and stores the password for git.
    fn url(&self, git: &mut Git<'_>, url: &str) -> Result<String, Error> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (user, password) = (given(&self.https_user), given(&self.https_pass));
        let (url, login) = with_login(url, user.as_deref(), password.as_deref())?;
        git.login = login;
        Ok(url)
    }

    /// Uses the password for the server of a configured remote repository: the named one, or else
    /// the first.
    fn log_in(&self, git: &mut Git<'_>, remote: Option<&str>) -> Result<(), Error> {
        if self.https_pass.as_ref().is_none_or(String::is_empty) {
            return Ok(());
        }
        let remotes = git.remotes(false)?;
        let found = match remote {
            Some(name) => remotes.get(name),
            None => remotes.get("origin").or_else(|| remotes.values().next()),
        };
        let url = found
            .and_then(|remote| remote.get("fetch"))
            .map(Value::to_text);
        let url = url.or_else(|| remote.map(str::to_owned));
        self.url(
            git,
            &url.ok_or("No remote repository to use the password for")?,
        )?;
        Ok(())
    }
}

fn clone(cx: &Exec, args: Clone) -> Result<Value, Error> {
    let mut git = Git {
        identity: keys(&args.identity),
        saltenv: args.saltenv,
        ..args.user.git(cx, Some(&args.cwd), args.output_encoding)
    };
    let url = args.url.filter(|url| !url.is_empty());
    let url = args
        .https
        .url(&mut git, &url.ok_or("Missing 'url' argument")?)?;
    let mut words = args.options.words(&["clone"], &["--", &url])?;
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
    let remote = args.remote.as_deref().filter(|remote| !remote.is_empty());
    let mut git = args.server.git(cx, Some(&args.cwd));
    args.https.log_in(&mut git, remote)?;
    let command: &[&str] = if args.force {
        &["fetch", "--force"]
    } else {
        &["fetch"]
    };
    let remote = remote.map(plain).transpose()?;
    let mut words = args.options.words(command, remote.as_slice())?;
    words.extend(list_of(&args.refspecs));
    git.fetched(&words).map(Value::from)
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
    let mut git = args.server.git(cx, Some(&args.cwd));
    args.https.log_in(&mut git, None)?;
    git.words(&args.options.words(&["pull"], &[])?)
        .map(Value::from)
}

fn push(cx: &Exec, args: Push) -> Result<Value, Error> {
    refuse_others(&args.kwargs)?;
    let mut git = args.server.git(cx, Some(&args.cwd));
    let (Some(remote), Some(name)) = (args.remote, args.r#ref) else {
        return Err("'remote' and 'ref' are required: git cannot push without them".into());
    };
    args.https.log_in(&mut git, Some(&remote))?;
    let more = [plain(&remote)?, plain(&name)?];
    git.words(&args.options.words(&["push"], &more)?)
        .map(Value::from)
}

fn ls_remote(cx: &Exec, args: LsRemote) -> Result<Value, Error> {
    let (mut git, https) = args.server.git(cx, args.cwd.as_deref());
    let url = https.url(&mut git, &args.remote)?;
    let mut words = args.options.words(&["ls-remote"], &[plain(&url)?])?;
    words.extend(args.r#ref.filter(|name| !name.is_empty()));
    git.refs(&words).map(Value::from)
}

fn remote_refs(cx: &Exec, mut args: RemoteRefs) -> Result<Value, Error> {
    let filter = args.kwargs.remove("filter").filter(Value::is_true);
    refuse_others(&args.kwargs)?;
    let (mut git, https) = args.server.git(cx, None);
    let mut words = line(&["ls-remote"]);
    words.extend(args.heads.then(|| "--heads".to_owned()));
    words.extend(args.tags.then(|| "--tags".to_owned()));
    words.push(plain(&https.url(&mut git, &args.url)?)?.to_owned());
    words.extend(filter.map(|filter| filter.to_text()));
    git.refs(&words).map(Value::from)
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
    let git = args.user.git(cx, Some(&args.cwd), args.output_encoding);
    remote_of(&git, &args.remote, args.redact_auth)
}

fn remote_set(cx: &Exec, args: RemoteSet) -> Result<Value, Error> {
    let mut git = args.user.git(cx, Some(&args.cwd), args.output_encoding);
    let url = args.https.url(&mut git, &args.url)?;
    git.set_remote(&args.remote, &url)?;
    if let Some(url) = args.push_url.filter(|url| !url.is_empty()) {
        let https = Https {
            https_user: args.push_https_user,
            https_pass: args.push_https_pass,
        };
        let url = https.url(&mut git.clone(), &url)?;
        git.git(&["remote", "set-url", "--push", &args.remote, plain(&url)?])?;
    }
    remote_of(&git, &args.remote, true)
}

fn remotes(cx: &Exec, args: Remotes) -> Result<Value, Error> {
    let git = args.user.git(cx, Some(&args.cwd), args.output_encoding);
    git.remotes(args.redact_auth).map(Value::from)
}

fn submodule(cx: &Exec, mut args: Submodule) -> Result<Value, Error> {
    let init = args.kwargs.remove("init");
    refuse_others(&args.kwargs)?;
    if init.is_some_and(|init| init.is_true()) {
        return Err("The 'init' argument is no longer supported. Either set 'command' to 'init', or include '--init' in the 'opts' argument and set 'command' to 'update'.".into());
    }
    let mut git = args.server.git(cx, Some(&args.cwd));
    args.https.log_in(&mut git, None)?;
    let words = args.options.words(&["submodule", &args.command], &[])?;
    git.words(&words).map(Value::from)
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
