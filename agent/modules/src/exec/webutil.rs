//! The `webutil` execution module: password files of web servers. Salt 3008 no longer has this
//! module; the answers are those of the last version that had it.

use std::path::Path;

use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::Value;

use crate::exec::tool;

state::exec_module! {
    /// Manage password files of web servers with `htpasswd`.
    #[needs(
        "htpasswd",
        "The htpasswd execution mdule cannot be loaded: htpasswd binary not in path.",
        "apache2-utils"
    )]
    mod webutil;

    /// Add a user, or change the password of a user.
    ///
    ///     salt-call webutil.useradd /etc/nginx/htpasswd alice S3cret
    fn useradd(Useradd {
        /// The path of the password file.
        pwfile: String,
        /// The user.
        user: String,
        /// The password.
        password: String,
        /// The options of `htpasswd`, one letter each.
        opts: String = String::new(),
        /// The user who runs `htpasswd`.
        runas: Option<String> = None,
    });

    /// Remove a user.
    ///
    ///     salt-call webutil.userdel /etc/nginx/htpasswd alice
    fn userdel(Userdel {
        /// The path of the password file.
        pwfile: String,
        /// The user.
        user: String,
        /// The user who runs `htpasswd`.
        runas: Option<String> = None,
        /// True to return all results of the command, False to return its output.
        all_results: bool = false,
    });

    /// Return True when a password is valid for a user.
    ///
    ///     salt-call webutil.verify /etc/nginx/htpasswd alice S3cret
    fn verify(Verify {
        /// The path of the password file.
        pwfile: String,
        /// The user.
        user: String,
        /// The password.
        password: String,
        /// The options of `htpasswd`, one letter each.
        opts: String = String::new(),
        /// The user who runs `htpasswd`.
        runas: Option<String> = None,
    });
}

/// A password file, and the user who changes it.
pub(crate) struct File<'a> {
    pub(crate) cx: &'a Exec,
    pub(crate) path: &'a str,
    pub(crate) opts: &'a str,
    pub(crate) runas: Option<&'a str>,
}

impl File<'_> {
    pub(crate) fn exists(&self) -> bool {
        Path::new(self.path).exists()
    }

    /// Runs `htpasswd`. The password is passed through standard input, where no other user can see
    /// it.
    fn run(&self, letters: &str, user: &str, password: Option<&str>) -> Result<Output, Error> {
        tool::is_name("file", self.path)?;
        tool::is_name("user", user)?;
        let process = Process {
            runas: self.runas.map(str::to_owned),
            stdin: password.map(|password| format!("{password}\n")),
            ignore_retcode: true,
            ..Process::words(["htpasswd", &format!("-{letters}"), self.path, user])
        };
        process.run(self.cx)
    }

    /// Adds a user, or changes the password of a user.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn add(&self, user: &str, password: &str) -> Result<Output, Error> {
        let new = if self.exists() { "" } else { "c" };
        self.run(&format!("i{}{new}", self.opts), user, Some(password))
    }

    /// Removes a user.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn remove(&self, user: &str) -> Result<Output, Error> {
        self.run("D", user, None)
    }

    /// Returns whether a password is valid for a user.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn verify(&self, user: &str, password: &str) -> Result<bool, Error> {
        let letters = format!("iv{}", self.opts);
        Ok(self.exists() && self.run(&letters, user, Some(password))?.success())
    }
}

fn useradd(cx: &Exec, args: Useradd) -> Result<Value, Error> {
    let file = File {
        cx,
        path: &args.pwfile,
        opts: &args.opts,
        runas: args.runas.as_deref(),
    };
    Ok(file.add(&args.user, &args.password)?.to_map().into())
}

fn userdel(cx: &Exec, args: Userdel) -> Result<Value, Error> {
    let file = File {
        cx,
        path: &args.pwfile,
        opts: "",
        runas: args.runas.as_deref(),
    };
    if !file.exists() {
        return Ok("Error: The specified htpasswd file does not exist".into());
    }
    let output = file.remove(&args.user)?;
    Ok(match args.all_results {
        true => output.to_map().into(),
        // As in `cmd.run`, the result contains both output streams.
        false => {
            let lines = output
                .stdout_regardless()
                .lines()
                .chain(output.stderr.lines());
            Value::list(lines.map(Value::from))
        }
    })
}

fn verify(cx: &Exec, args: Verify) -> Result<Value, Error> {
    let file = File {
        cx,
        path: &args.pwfile,
        opts: &args.opts,
        runas: args.runas.as_deref(),
    };
    Ok(file.verify(&args.user, &args.password)?.into())
}
