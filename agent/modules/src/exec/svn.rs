//! The `svn` execution module: Subversion. Salt 3008 no longer has this module; the answers are
//! those of the last version that had it.

use machine::process::Process;
use python::shlex;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

state::exec_module! {
    /// Manage working copies of Subversion.
    #[needs("svn", "The svn execution module cannot be loaded: svn unavailable.", "subversion")]
    mod svn;

    /// Return information about a working copy.
    ///
    ///     salt-call svn.info /srv/app
    fn info(Info {
        /// The path of the working copy.
        cwd: String,
        /// The files and folders in the working copy, separated by spaces.
        targets: Option<String> = None,
        #[group] account: Account,
        /// The format of the result: `str`, `xml`, `list` or `dict`.
        fmt: String = "str".into(),
    });

    /// Check a working copy out.
    ///
    ///     salt-call svn.checkout /srv https://svn.example.com/app/trunk app
    fn checkout(Checkout {
        /// The folder that contains the working copy.
        cwd: String,
        /// The URL of the repository.
        remote: String,
        /// The name of the working copy's folder.
        target: Option<String> = None,
        #[group] account: Account,
        *opts,
    });

    /// Switch a working copy to another URL.
    ///
    ///     salt-call svn.switch /srv https://svn.example.com/app/tags/2.1 app
    fn switch(Switch {
        /// The folder that contains the working copy.
        cwd: String,
        /// The new URL.
        remote: String,
        /// The name of the working copy's folder.
        target: Option<String> = None,
        #[group] account: Account,
        *opts,
    });

    /// Update a working copy.
    ///
    ///     salt-call svn.update /srv/app
    fn update(Update {
        /// The path of the working copy.
        cwd: String,
        /// The files and folders in the working copy, separated by spaces.
        targets: Option<String> = None,
        #[group] account: Account,
        *opts,
    });

    /// Return the changes in a working copy.
    ///
    ///     salt-call svn.diff /srv/app
    fn diff(Diff {
        /// The path of the working copy.
        cwd: String,
        /// The files and folders in the working copy, separated by spaces.
        targets: Option<String> = None,
        #[group] account: Account,
        *opts,
    });

    /// Commit the changes in a working copy.
    ///
    ///     salt-call svn.commit /srv/app msg='Fix the port'
    fn commit(Commit {
        /// The path of the working copy.
        cwd: String,
        /// The files and folders in the working copy, separated by spaces.
        targets: Option<String> = None,
        /// The commit message.
        msg: Option<String> = None,
        #[group] account: Account,
        *opts,
    });

    /// Add files to version control.
    ///
    ///     salt-call svn.add /srv/app main.py
    fn add(Add {
        /// The path of the working copy.
        cwd: String,
        /// The files and folders in the working copy, separated by spaces.
        targets: String,
        #[group] account: Account,
        *opts,
    });

    /// Remove files from version control.
    ///
    ///     salt-call svn.remove /srv/app old.py
    fn remove(Remove {
        /// The path of the working copy.
        cwd: String,
        /// The files and folders in the working copy, separated by spaces.
        targets: String,
        /// The commit message.
        msg: Option<String> = None,
        #[group] account: Account,
        *opts,
    });

    /// Return the status of changed files.
    ///
    ///     salt-call svn.status /srv/app
    fn status(Status {
        /// The path of the working copy.
        cwd: String,
        /// The files and folders in the working copy, separated by spaces.
        targets: Option<String> = None,
        #[group] account: Account,
        *opts,
    });

    /// Export a tree without version control.
    ///
    ///     salt-call svn.export /srv https://svn.example.com/app/tags/2.1 app
    fn export(Export {
        /// The folder that contains the working copy.
        cwd: String,
        /// The URL of the repository.
        remote: String,
        /// The name of the folder to export to.
        target: Option<String> = None,
        #[group] account: Account,
        /// The revision to export.
        revision: String = "HEAD".into(),
        *opts,
    });
}

/// The settings to run svn with.
pub(crate) struct Svn<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) user: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

impl Svn<'_> {
    /// Runs a command of svn in a folder. `options` are passed first. Words in `names` are never
    /// read as options.
    ///
    /// # Errors
    /// The error output of svn if it fails.
    pub(crate) fn run(
        &self,
        command: &str,
        cwd: &str,
        options: &[String],
        names: &[String],
    ) -> Result<String, Error> {
        let mut words: Vec<String> = ["svn", "--non-interactive", command]
            .map(str::to_owned)
            .into();
        words.extend(options.iter().cloned());
        let username = self.username.iter();
        words.extend(username.flat_map(|name| ["--username".to_owned(), name.clone()]));
        let shown = [&words[..], names].concat().join(" ");
        if self.password.is_some() {
            words.push("--password-from-stdin".to_owned());
        }
        words.push("--".to_owned());
        words.extend(names.iter().cloned());
        let process = Process {
            cwd: Some(cwd.to_owned()),
            runas: self.user.clone(),
            stdin: self.password.clone(),
            ..Process::words(words)
        };
        let output = process.run(self.cx)?.into_success();
        output.map_err(|failed| Error::refused(format!("{}\n\n{shown}", failed.stderr)))
    }

    /// Like [`Self::run`], for files and folders that one text names.
    fn run_on(
        &self,
        command: &str,
        cwd: &str,
        options: &[String],
        targets: Option<&str>,
    ) -> Result<String, Error> {
        let targets = shlex::parts(targets.unwrap_or_default())?;
        self.run(command, cwd, options, &targets)
    }

    /// Returns the revision of a working copy.
    ///
    /// # Errors
    /// When svn cannot be started, or the folder is no working copy.
    pub(crate) fn revision(&self, cwd: &str, target: Option<&str>) -> Result<String, Error> {
        let targets: Vec<String> = target.map(str::to_owned).into_iter().collect();
        let info = self.run("info", cwd, &[], &targets)?;
        let first = parsed(&info).into_iter().next().unwrap_or_default();
        let revision = first.into_iter().find(|(key, _)| key == "Revision");
        revision.map(|(_, value)| value).ok_or_else(|| {
            Error::refused(format!("no revision of {cwd} in the output of svn info"))
        })
    }
}

/// Parses the output of `svn info`: lines `key: value`, with an empty line between files.
fn parsed(text: &str) -> Vec<Vec<(String, String)>> {
    let pair = |line: &str| {
        let (key, value) = line.split_once(':')?;
        let value = value.strip_prefix(char::is_whitespace)?.trim_start();
        (!value.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    let one = |part: &str| part.lines().filter_map(pair).collect();
    text.split("\n\n").map(one).collect()
}

state::argument_group! {
    /// The user who runs svn, and the user of the repository.
    pub(crate) struct Account {
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user name for the repository.
        username: Option<String> = None,
        /// The password for the repository.
        password: Option<String> = None,
    }
}

impl Account {
    /// Returns svn for this account.
    pub(crate) fn svn(self, cx: &Exec) -> Svn<'_> {
        Svn {
            cx,
            user: self.user,
            username: self.username,
            password: self.password,
        }
    }
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(Value::to_text).collect()
}

/// Returns the options with the commit message added.
fn with_message(options: &[Value], msg: Option<String>) -> Vec<String> {
    let mut options = texts(options);
    options.extend(msg.into_iter().flat_map(|msg| ["-m".to_owned(), msg]));
    options
}

fn places(remote: String, target: Option<String>) -> Vec<String> {
    [remote].into_iter().chain(target).collect()
}

fn info(cx: &Exec, args: Info) -> Result<Value, Error> {
    let xml = (args.fmt == "xml").then(|| "--xml".to_owned());
    let options: Vec<String> = xml.into_iter().collect();
    let text = args
        .account
        .svn(cx)
        .run_on("info", &args.cwd, &options, args.targets.as_deref())?;
    let list = args.fmt == "list";
    if !list && args.fmt != "dict" {
        return Ok(text.into());
    }
    let pair = |(key, value): (String, String)| Value::list([key.into(), value.into()]);
    let file = |pairs: Vec<(String, String)>| match list {
        true => Value::list(pairs.into_iter().map(pair)),
        false => pairs.into_iter().collect::<Map>().into(),
    };
    Ok(Value::list(parsed(&text).into_iter().map(file)))
}

fn checkout(cx: &Exec, args: Checkout) -> Result<Value, Error> {
    let places = places(args.remote, args.target);
    let said = args
        .account
        .svn(cx)
        .run("checkout", &args.cwd, &texts(&args.opts), &places)?;
    Ok(said.into())
}

fn switch(cx: &Exec, args: Switch) -> Result<Value, Error> {
    let places = places(args.remote, args.target);
    let said = args
        .account
        .svn(cx)
        .run("switch", &args.cwd, &texts(&args.opts), &places)?;
    Ok(said.into())
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let (options, targets) = (texts(&args.opts), args.targets.as_deref());
    Ok(args
        .account
        .svn(cx)
        .run_on("update", &args.cwd, &options, targets)?
        .into())
}

fn diff(cx: &Exec, args: Diff) -> Result<Value, Error> {
    let (options, targets) = (texts(&args.opts), args.targets.as_deref());
    Ok(args
        .account
        .svn(cx)
        .run_on("diff", &args.cwd, &options, targets)?
        .into())
}

fn commit(cx: &Exec, args: Commit) -> Result<Value, Error> {
    let options = with_message(&args.opts, args.msg);
    let said =
        args.account
            .svn(cx)
            .run_on("commit", &args.cwd, &options, args.targets.as_deref())?;
    Ok(said.into())
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let options = texts(&args.opts);
    Ok(args
        .account
        .svn(cx)
        .run_on("add", &args.cwd, &options, Some(&args.targets))?
        .into())
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    let options = with_message(&args.opts, args.msg);
    Ok(args
        .account
        .svn(cx)
        .run_on("remove", &args.cwd, &options, Some(&args.targets))?
        .into())
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let (options, targets) = (texts(&args.opts), args.targets.as_deref());
    Ok(args
        .account
        .svn(cx)
        .run_on("status", &args.cwd, &options, targets)?
        .into())
}

fn export(cx: &Exec, args: Export) -> Result<Value, Error> {
    let mut options = texts(&args.opts);
    options.extend(["-r".to_owned(), args.revision]);
    let places = places(args.remote, args.target);
    Ok(args
        .account
        .svn(cx)
        .run("export", &args.cwd, &options, &places)?
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_copy_is_read() {
        let text =
            "Path: .\nURL: file:///r\nRevision: 3\nLast Changed Author:\n\nPath: a\nRevision: 2\n";
        let files = parsed(text);
        assert_eq!(files.len(), 2);
        assert_eq!(files[0][1], ("URL".to_owned(), "file:///r".to_owned()));
        assert_eq!(files[0].len(), 3);
        assert_eq!(files[1][1].1, "2");
    }
}
