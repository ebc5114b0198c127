//! The `svn` execution module: Subversion. Salt 3008 has it no more; answers are those of its last one.

use python::shlex;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::process::Process;

state::exec_module! {
    /// Subversion's working copies.
    mod svn;

    /// Return what is known of a working copy.
    fn info(Info {
        /// The folder.
        cwd: String,
        /// Files and folders in it.
        targets: Option<String> = None,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        /// `str`, `xml`, `list` or `dict`.
        fmt: String = "str".into(),
    });

    /// Make a working copy.
    fn checkout(Checkout {
        /// The folder above it.
        cwd: String,
        /// The repository.
        remote: String,
        /// Its name.
        target: Option<String> = None,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        *opts,
    });

    /// Make it a copy of another place.
    fn switch(Switch {
        /// The folder above it.
        cwd: String,
        /// The other place.
        remote: String,
        /// Its name.
        target: Option<String> = None,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        *opts,
    });

    /// Bring it up to date.
    fn update(Update {
        /// The folder.
        cwd: String,
        /// Files and folders in it.
        targets: Option<String> = None,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        *opts,
    });

    /// Return what was changed.
    fn diff(Diff {
        /// The folder.
        cwd: String,
        /// Files and folders in it.
        targets: Option<String> = None,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        *opts,
    });

    /// Send what was changed to the repository.
    fn commit(Commit {
        /// The folder.
        cwd: String,
        /// Files and folders in it.
        targets: Option<String> = None,
        /// What is said of it.
        msg: Option<String> = None,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        *opts,
    });

    /// Note that files are new.
    fn add(Add {
        /// The folder.
        cwd: String,
        /// Files and folders in it.
        targets: String,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        *opts,
    });

    /// Remove files.
    fn remove(Remove {
        /// The folder.
        cwd: String,
        /// Files and folders in it.
        targets: String,
        /// What is said of it.
        msg: Option<String> = None,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        *opts,
    });

    /// Return which files were changed.
    fn status(Status {
        /// The folder.
        cwd: String,
        /// Files and folders in it.
        targets: Option<String> = None,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        *opts,
    });

    /// Copy a tree without what makes it a working copy.
    fn export(Export {
        /// The folder above it.
        cwd: String,
        /// The repository.
        remote: String,
        /// Its name.
        target: Option<String> = None,
        /// The user who runs svn.
        user: Option<String> = None,
        /// The user of the repository.
        username: Option<String> = None,
        /// The password of the repository.
        password: Option<String> = None,
        /// The revision.
        revision: String = "HEAD".into(),
        *opts,
    });
}

/// svn for a user.
pub(crate) struct Svn<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) user: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

impl Svn<'_> {
    /// Runs a command of svn in a folder: options first, then what must not be one.
    ///
    /// # Errors
    /// What svn says against it.
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
        let output = process.run(self.cx)?;
        match output.success() {
            true => Ok(output.stdout),
            false => Err(Error::refused(format!("{}\n\n{shown}", output.stderr))),
        }
    }

    /// The same for files and folders as one text names them.
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

    /// What is known of a working copy; none where it is none.
    ///
    /// # Errors
    /// When svn cannot be started.
    pub(crate) fn revision(&self, cwd: &str, target: Option<&str>) -> Result<String, Error> {
        let targets: Vec<String> = target.map(str::to_owned).into_iter().collect();
        let info = self.run("info", cwd, &[], &targets)?;
        let first = parsed(&info).into_iter().next().unwrap_or_default();
        let revision = first.into_iter().find(|(key, _)| key == "Revision");
        revision
            .map(|(_, value)| value)
            .ok_or_else(|| Error::refused(format!("svn info names no revision of {cwd}")))
    }
}

/// What `svn info` writes: lines `key: value`, empty lines between files.
fn parsed(text: &str) -> Vec<Vec<(String, String)>> {
    let pair = |line: &str| {
        let (key, value) = line.split_once(':')?;
        let value = value.strip_prefix(char::is_whitespace)?.trim_start();
        (!value.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    let one = |part: &str| part.lines().filter_map(pair).collect();
    text.split("\n\n").map(one).collect()
}

/// svn for the arguments that all functions have.
macro_rules! svn {
    ($cx:expr, $args:expr) => {
        Svn {
            cx: $cx,
            user: $args.user,
            username: $args.username,
            password: $args.password,
        }
    };
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(Value::to_text).collect()
}

/// Options with what is said of a change.
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
    let text = svn!(cx, args).run_on("info", &args.cwd, &options, args.targets.as_deref())?;
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
    let said = svn!(cx, args).run("checkout", &args.cwd, &texts(&args.opts), &places)?;
    Ok(said.into())
}

fn switch(cx: &Exec, args: Switch) -> Result<Value, Error> {
    let places = places(args.remote, args.target);
    let said = svn!(cx, args).run("switch", &args.cwd, &texts(&args.opts), &places)?;
    Ok(said.into())
}

fn update(cx: &Exec, args: Update) -> Result<Value, Error> {
    let (options, targets) = (texts(&args.opts), args.targets.as_deref());
    Ok(svn!(cx, args)
        .run_on("update", &args.cwd, &options, targets)?
        .into())
}

fn diff(cx: &Exec, args: Diff) -> Result<Value, Error> {
    let (options, targets) = (texts(&args.opts), args.targets.as_deref());
    Ok(svn!(cx, args)
        .run_on("diff", &args.cwd, &options, targets)?
        .into())
}

fn commit(cx: &Exec, args: Commit) -> Result<Value, Error> {
    let options = with_message(&args.opts, args.msg);
    let said = svn!(cx, args).run_on("commit", &args.cwd, &options, args.targets.as_deref())?;
    Ok(said.into())
}

fn add(cx: &Exec, args: Add) -> Result<Value, Error> {
    let options = texts(&args.opts);
    Ok(svn!(cx, args)
        .run_on("add", &args.cwd, &options, Some(&args.targets))?
        .into())
}

fn remove(cx: &Exec, args: Remove) -> Result<Value, Error> {
    let options = with_message(&args.opts, args.msg);
    Ok(svn!(cx, args)
        .run_on("remove", &args.cwd, &options, Some(&args.targets))?
        .into())
}

fn status(cx: &Exec, args: Status) -> Result<Value, Error> {
    let (options, targets) = (texts(&args.opts), args.targets.as_deref());
    Ok(svn!(cx, args)
        .run_on("status", &args.cwd, &options, targets)?
        .into())
}

fn export(cx: &Exec, args: Export) -> Result<Value, Error> {
    let mut options = texts(&args.opts);
    options.extend(["-r".to_owned(), args.revision]);
    let places = places(args.remote, args.target);
    Ok(svn!(cx, args)
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
