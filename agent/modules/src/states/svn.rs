//! The `svn` state module for Subversion. Salt 3008 no longer has it; the returns are those of
//! Salt's last version of it.

use std::path::Path;

use python::path;
use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::svn::{Account, Svn};

state::state_module! {
    /// Manage Subversion working copies.
    #[needs("svn", "Command not found: svn", "subversion")]
    mod svn;

    /// Make sure that a folder is an up-to-date working copy of a repository.
    ///
    ///     https://svn.example.com/app/trunk:
    ///       svn.latest:
    ///         - target: /srv/app
    fn latest(Latest {
        /// The repository.
        name: String,
        /// The folder.
        target: Option<String> = None,
        /// The revision.
        rev: Option<String> = None,
        #[group] account: Account,
        /// True to continue if other files exist at the paths to be created.
        force: bool = false,
        #[group] server: Trust,
    });

    /// Make sure that a folder contains an exported tree of a repository.
    ///
    ///     https://svn.example.com/app/tags/2.1:
    ///       svn.export:
    ///         - target: /srv/app
    fn export(Export {
        /// The repository.
        name: String,
        /// The folder.
        target: Option<String> = None,
        /// The revision.
        rev: Option<String> = None,
        #[group] account: Account,
        /// True to continue if other files exist at the paths to be created.
        force: bool = false,
        /// True to overwrite a file.
        overwrite: bool = false,
        #[group] server: Trust,
    });

    /// Check whether a working copy was changed. As in Salt, it only returns that it cannot
    /// determine this.
    ///
    ///     check the copy:
    ///       svn.dirty:
    ///         - target: /srv/app
    fn dirty(Dirty {
        /// The repository.
        name: String,
        /// The folder.
        target: String,
        #[group] account: Account,
        /// True if unversioned files do not count as changes.
        ignore_unversioned: bool = false,
    });
}

state::argument_group! {
    /// The servers to use.
    pub(crate) struct Trust {
        /// True to include other repositories that it refers to (externals).
        externals: bool = true,
        /// True to trust any server.
        trust: bool = false,
        /// The failures of the server's certificate to ignore.
        trust_failures: Option<String> = None,
    }
}

impl Trust {
    /// Returns the options that set the trust in a server.
    fn trusting(&self) -> Vec<String> {
        let trust = self.trust.then_some("--trust-server-cert").into_iter();
        let failures = self.trust_failures.iter();
        let failures = failures.flat_map(|one| ["--trust-server-cert-failures", one]);
        trust.chain(failures).map(str::to_owned).collect()
    }

    /// Returns the options that `latest` and `export` have in common.
    fn options(&self, force: bool) -> Vec<String> {
        let mut options = Vec::new();
        options.extend(force.then(|| "--force".to_owned()));
        options.extend((!self.externals).then(|| "--ignore-externals".to_owned()));
        options.extend(self.trusting());
        options
    }
}

/// Returns a failure if the path exists and is not a folder.
fn in_the_way(target: &str) -> Option<Ret> {
    let path = Path::new(target);
    (path.exists() && !path.is_dir()).then(|| {
        Ret::failed(format!(
            "The path \"{target}\" exists and is not a directory."
        ))
    })
}

fn latest(cx: &Exec, args: Latest) -> Result<Ret, Error> {
    let Some(target) = args.target.as_deref().filter(|target| !target.is_empty()) else {
        return Ok(Ret::failed("Target option is required"));
    };
    if let Some(ret) = in_the_way(target) {
        return Ok(ret);
    }
    let svn = args.account.clone().svn(cx);
    match cx.test {
        true => foretold(&svn, &args, target),
        false => brought(&svn, &args, target),
    }
}

fn foretold(svn: &Svn<'_>, args: &Latest, target: &str) -> Result<Ret, Error> {
    let rev = args.rev.as_deref().unwrap_or("HEAD");
    if !Path::new(target).exists() {
        return Ok(Ret::would(format!(
            "{target} doesn't exist and is set to be checked out at revision {rev}."
        )));
    }
    let cwd = path::dirname(target);
    let Ok(now) = svn.revision(cwd, Some(target)) else {
        let why = format!("{target} exists but is not a svn working copy.");
        return Ok(Ret::failed(why));
    };
    let mut options = vec!["-r".to_owned(), format!("{now}:{rev}")];
    options.extend(args.server.trusting());
    Ok(Ret::would(svn.run(
        "diff",
        cwd,
        &options,
        &[target.to_owned()],
    )?))
}

fn brought(svn: &Svn<'_>, args: &Latest, target: &str) -> Result<Ret, Error> {
    let (cwd, name) = path::split(target);
    let rev = args.rev.iter();
    let mut options: Vec<String> = rev.flat_map(|rev| ["-r".to_owned(), rev.clone()]).collect();
    options.extend(args.server.options(args.force));
    match svn.revision(cwd, Some(target)) {
        Ok(before) => {
            let said = svn.run("update", cwd, &options, &[name.to_owned()])?;
            let after = svn.revision(target, None)?;
            let ret = Ret::ok(said);
            Ok(match before == after {
                true => ret,
                false => ret.change("revision", format!("{before} => {after}")),
            })
        }
        Err(_) => {
            let places = [args.name.clone(), name.to_owned()];
            let said = svn.run("checkout", cwd, &options, &places)?;
            Ok(Ret::ok(said)
                .change("new", args.name.as_str())
                .change("revision", svn.revision(target, None)?))
        }
    }
}

fn export(cx: &Exec, args: Export) -> Result<Ret, Error> {
    let Some(target) = args.target.as_deref().filter(|target| !target.is_empty()) else {
        return Ok(Ret::failed("Target option is required"));
    };
    if let Some(ret) = in_the_way(target).filter(|_| !args.overwrite) {
        return Ok(ret);
    }
    let (cwd, name) = path::split(target);
    let svn = args.account.clone().svn(cx);
    let would = match Path::new(target).exists() {
        // Salt calls a list function here that its execution module does not have.
        true => format!("{target} exists and is set to be exported to."),
        false => format!("{target} doesn't exist and is set to be checked out."),
    };
    cx.apply(Ret::would(would), || {
        let mut options = args.server.options(args.force);
        let rev = args.rev.as_deref().unwrap_or("HEAD");
        options.extend(["-r", rev].map(str::to_owned));
        let remote = args.name.as_str();
        let places = [remote, name].map(str::to_owned);
        let said = svn.run("export", cwd, &options, &places)?;
        Ok(Ret::ok(said)
            .change("new", remote)
            .change("comment", format!("{remote} was Exported to {target}")))
    })
}

fn dirty(_: &Exec, _: Dirty) -> Result<Ret, Error> {
    Ok(Ret::failed("This function is not implemented yet."))
}
