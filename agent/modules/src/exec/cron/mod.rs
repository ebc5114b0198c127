//! The `cron` execution module: reads and changes the crontabs of users.

pub(crate) mod tab;

use machine::accounts;
use machine::fs;
use machine::fs::Temporary;
use machine::process::{self, Output, Process};
use python::text;
use state::exec::Exec;
use state::facts::Inverse;
use state::module::Error;
use value::Value;

use self::tab::{Job, Outcome, Tab, When};

state::exec_module! {
    /// Manage the crontabs of users.
    #[needs("crontab", "Cannot load cron module: crontab command not found", "cron")]
    #[module(inverses = [&CRONTAB])]
    mod cron;

    /// Return the text of a user's crontab.
    ///
    ///     salt-call cron.raw_cron root
    fn raw_cron(RawCron {
        /// The name of the user.
        user: String,
    });

    /// Return the contents of a user's crontab.
    ///
    ///     salt-call cron.list_tab root
    fn list_tab(ListTab {
        /// The name of the user.
        user: String,
    });

    /// Return the contents of a user's crontab.
    ///
    ///     salt-call cron.ls root
    fn ls(Ls {
        /// The name of the user.
        user: String,
    });

    /// Return a job of a user, or False if there is no such job.
    ///
    ///     salt-call cron.get_entry root identifier=backup
    fn get_entry(GetEntry {
        /// The name of the user.
        user: String,
        /// The identifier of the job.
        identifier: Option<String> = None,
        /// The command of the job, if no identifier is given.
        cmd: Option<String> = None,
    });

    /// Add or change a job.
    ///
    ///     salt-call cron.set_job root 15 3 '*' '*' '*' /usr/local/bin/backup
    fn set_job(SetJob {
        /// The name of the user.
        user: String,
        /// The minute, or `random`.
        minute: String,
        /// The hour, or `random`.
        hour: String,
        /// The day of the month, or `random`.
        daymonth: String,
        /// The month, or `random`.
        month: String,
        /// The day of the week, or `random`.
        dayweek: String,
        /// The command.
        cmd: String,
        /// True to add the job as a comment, so that it does not run.
        commented: bool = false,
        /// The comment above the job.
        comment: Option<String> = None,
        /// The identifier, which finds the job again after its command has changed.
        identifier: Option<String> = None,
    });

    /// Add or change a job that runs at a nickname such as `@daily`.
    ///
    ///     salt-call cron.set_special root @daily /usr/local/bin/backup
    fn set_special(SetSpecial {
        /// The name of the user.
        user: String,
        /// The nickname, such as `@daily`.
        special: String,
        /// The command.
        cmd: String,
        /// True to add the job as a comment, so that it does not run.
        commented: bool = false,
        /// The comment above the job.
        comment: Option<String> = None,
        /// The identifier, which finds the job again after its command has changed.
        identifier: Option<String> = None,
    });

    /// Remove a job.
    ///
    ///     salt-call cron.rm_job root /usr/local/bin/backup
    fn rm_job(RmJob {
        /// The name of the user.
        user: String,
        /// The command.
        cmd: String,
        /// The minute that the job must have.
        minute: Option<String> = None,
        /// The hour that the job must have.
        hour: Option<String> = None,
        /// The day of the month that the job must have.
        daymonth: Option<String> = None,
        /// The month that the job must have.
        month: Option<String> = None,
        /// The day of the week that the job must have.
        dayweek: Option<String> = None,
        /// The identifier of the job.
        identifier: Option<String> = None,
    });

    /// Remove a job.
    ///
    ///     salt-call cron.rm root /usr/local/bin/backup
    fn rm(Rm {
        /// The name of the user.
        user: String,
        /// The command.
        cmd: String,
        /// The minute that the job must have.
        minute: Option<String> = None,
        /// The hour that the job must have.
        hour: Option<String> = None,
        /// The day of the month that the job must have.
        daymonth: Option<String> = None,
        /// The month that the job must have.
        month: Option<String> = None,
        /// The day of the week that the job must have.
        dayweek: Option<String> = None,
        /// The identifier of the job.
        identifier: Option<String> = None,
    });

    /// Remove a job that runs at a nickname.
    ///
    ///     salt-call cron.rm_special root /usr/local/bin/backup
    fn rm_special(RmSpecial {
        /// The name of the user.
        user: String,
        /// The command.
        cmd: String,
        /// The nickname that the job must have.
        special: Option<String> = None,
        /// The identifier of the job.
        identifier: Option<String> = None,
    });

    /// Set a variable of a crontab.
    ///
    ///     salt-call cron.set_env root MAILTO admin@example.com
    fn set_env(SetEnv {
        /// The name of the user.
        user: String,
        /// The name of the variable.
        name: String,
        /// The value of the variable.
        value: Option<String> = None,
    });

    /// Remove a variable from a crontab.
    ///
    ///     salt-call cron.rm_env root MAILTO
    fn rm_env(RmEnv {
        /// The name of the user.
        user: String,
        /// The name of the variable.
        name: String,
    });

    /// Replace a user's crontab with a file. Return False if the program rejects the file.
    ///
    ///     salt-call cron.write_cron_file root /srv/crontab
    fn write_cron_file(WriteCronFile {
        /// The name of the user.
        user: String,
        /// The path of the file.
        path: String,
    });

    /// Replace a user's crontab with a file, and return the result of the program.
    ///
    ///     salt-call cron.write_cron_file_verbose root /srv/crontab
    fn write_cron_file_verbose(WriteCronFileVerbose {
        /// The name of the user.
        user: String,
        /// The path of the file.
        path: String,
    });
}

/// A user's crontab: its text.
static CRONTAB: Inverse = Inverse {
    word: "crontab",
    owns_files: false,
    now: |cx, user| raw(cx, user).map(Value::from),
    can: Inverse::always,
    make: |cx, user, text| match install(cx, user, &text.to_text())? {
        done if done.success() => Ok(()),
        done => Err(Error::refused(done.stderr)),
    },
};

/// Returns a call of `crontab` for a user: run by root with `-u`, otherwise run as the user.
fn crontab(user: &str, word: &str) -> Result<Process, Error> {
    let program = process::which("crontab").ok_or("Command 'crontab' cannot be found")?;
    if user.starts_with('-') {
        return Err(Error::refused(format!(
            "invalid user name {user}: it starts with `-`"
        )));
    }
    let me = rustix::process::geteuid();
    let is_me = accounts::user(user).is_some_and(|user| user.uid == me.as_raw());
    let words: Vec<&str> = match me.is_root() && !is_me {
        true => vec![&program, "-u", user, word],
        false => vec![&program, word],
    };
    let mut process = Process::words(words);
    process.runas = (!is_me && !me.is_root()).then(|| user.to_owned());
    Ok(process)
}

/// Reports whether `crontab -l` says that there is no crontab, in the words of cron or of busybox.
fn has_none(stderr: &str) -> bool {
    let missing = stderr.contains("can't open") && stderr.contains("No such file");
    missing || stderr.contains("no crontab for")
}

/// Returns the text of a user's crontab, or an empty text if there is none.
pub(crate) fn raw(cx: &Exec, user: &str) -> Result<String, Error> {
    let process = Process {
        ignore_retcode: true,
        rstrip: false,
        ..crontab(user, "-l")?
    };
    let output = process.run(cx)?;
    // A user that does not exist has no crontab.
    let text = match has_none(&output.stderr) || accounts::user(user).is_none() {
        true => String::new(),
        false => output.stdout_of_success("crontab -l")?,
    };
    let mut lines = text::split_lines(&text);
    let header = "# DO NOT EDIT THIS FILE - edit the master and reinstall.";
    if lines.first().is_some_and(|line| line.starts_with(header)) {
        lines.drain(..lines.len().min(3));
    }
    Ok(lines.concat())
}

/// Returns a user's crontab, parsed.
pub(crate) fn tab(cx: &Exec, user: &str) -> Result<Tab, Error> {
    Ok(Tab::read(&raw(cx, user)?))
}

/// Replaces a user's crontab. The text is passed in a temporary file, since every version of
/// `crontab` accepts a file.
pub(crate) fn install(cx: &Exec, user: &str, text: &str) -> Result<Output, Error> {
    if let (true, Ok(was)) = (fs::is_noted(cx), raw(cx, user)) {
        fs::inverse(cx, &CRONTAB, user, was, text);
    }
    let file = Temporary::written("", text.as_bytes(), None)?;
    crontab(user, &file.path().to_string_lossy())?.run(cx)
}

/// Reads a user's crontab, changes it and writes it back. The inner error is the output of the
/// program if it rejects the new crontab.
pub(crate) fn change(
    cx: &Exec,
    user: &str,
    change: impl FnOnce(&mut Tab) -> Result<Outcome, Error>,
) -> Result<Result<Outcome, String>, Error> {
    let mut tab = tab(cx, user)?;
    let outcome = change(&mut tab)?;
    if matches!(outcome, Outcome::Present | Outcome::Absent) {
        return Ok(Ok(outcome));
    }
    let done = install(cx, user, &tab.write())?;
    Ok(if done.success() {
        Ok(outcome)
    } else {
        Err(done.stderr)
    })
}

/// Adds or changes a job.
///
/// # Errors
/// When the job would be longer than one line.
pub(crate) fn set(cx: &Exec, user: &str, job: Job) -> Result<Result<Outcome, String>, Error> {
    let name = job.identifier.as_deref().unwrap_or_default();
    if job.cmd.contains('\n') || name.contains('\n') {
        return Err("A cron job must be one line".into());
    }
    change(cx, user, |tab| tab.set(job))
}

/// Sets a variable.
pub(crate) fn set_variable(
    cx: &Exec,
    user: &str,
    name: &str,
    value: &str,
) -> Result<Result<Outcome, String>, Error> {
    if name.contains(['\n', '=']) || value.contains('\n') {
        return Err(
            "A crontab variable must be one line, and its name must not contain `=`".into(),
        );
    }
    change(cx, user, |tab| {
        let outcome = tab.variable(name, value);
        if outcome != Outcome::Present {
            tab.env.retain(|known| known.0 != name);
            tab.env.push((name.to_owned(), value.to_owned()));
        }
        Ok(outcome)
    })
}

/// Removes a variable.
pub(crate) fn remove_variable(
    cx: &Exec,
    user: &str,
    name: &str,
) -> Result<Result<Outcome, String>, Error> {
    change(cx, user, |tab| {
        let at = tab.env.iter().rposition(|known| known.0 == name);
        Ok(at.map_or(Outcome::Absent, |at| {
            tab.env.remove(at);
            Outcome::Removed
        }))
    })
}

fn answer(done: Result<Outcome, String>) -> Value {
    match done {
        Ok(outcome) => outcome.name().into(),
        Err(said) => said.into(),
    }
}

fn raw_cron(cx: &Exec, args: RawCron) -> Result<Value, Error> {
    Ok(raw(cx, &args.user)?.into())
}

fn list_tab(cx: &Exec, args: ListTab) -> Result<Value, Error> {
    Ok(tab(cx, &args.user)?.to_map().into())
}

fn ls(cx: &Exec, args: Ls) -> Result<Value, Error> {
    list_tab(cx, ListTab { user: args.user })
}

fn get_entry(cx: &Exec, args: GetEntry) -> Result<Value, Error> {
    let tab = tab(cx, &args.user)?;
    let found = tab.jobs.iter().find(|job| match &args.identifier {
        Some(identifier) => job.identifier.as_ref() == Some(identifier),
        None => args.cmd.as_ref() == Some(&job.cmd),
    });
    Ok(found.map_or_else(|| false.into(), |job| job.to_map().into()))
}

fn set_job(cx: &Exec, args: SetJob) -> Result<Value, Error> {
    let times = [
        args.minute,
        args.hour,
        args.daymonth,
        args.month,
        args.dayweek,
    ];
    let job = Job {
        when: When::Times(times.map(|time| time.to_lowercase())),
        cmd: args.cmd,
        identifier: args.identifier,
        comment: args.comment,
        commented: args.commented,
    };
    Ok(answer(set(cx, &args.user, job)?))
}

fn set_special(cx: &Exec, args: SetSpecial) -> Result<Value, Error> {
    let job = Job {
        when: When::Special(args.special),
        cmd: args.cmd,
        identifier: args.identifier,
        comment: args.comment,
        commented: args.commented,
    };
    Ok(answer(set(cx, &args.user, job)?))
}

/// Returns true if the job has all the given times.
fn times_match(when: &When, times: &[Option<String>; 5]) -> bool {
    let When::Times(now) = when else {
        return false;
    };
    let mut pairs = now.iter().zip(times);
    pairs.all(|(now, time)| match time {
        Some(time) if time.to_lowercase() == "random" => now != "*",
        Some(time) => now == time,
        None => true,
    })
}

fn rm_job(cx: &Exec, args: RmJob) -> Result<Value, Error> {
    let times = [
        args.minute,
        args.hour,
        args.daymonth,
        args.month,
        args.dayweek,
    ];
    let done = change(cx, &args.user, |tab| {
        let identifier = args.identifier.as_deref();
        Ok(tab.remove(&args.cmd, identifier, &|when| times_match(when, &times)))
    })?;
    Ok(answer(done))
}

fn rm(cx: &Exec, args: Rm) -> Result<Value, Error> {
    let args = RmJob {
        user: args.user,
        cmd: args.cmd,
        minute: args.minute,
        hour: args.hour,
        daymonth: args.daymonth,
        month: args.month,
        dayweek: args.dayweek,
        identifier: args.identifier,
    };
    rm_job(cx, args)
}

/// Returns true if the job runs at a nickname. If `wanted` is given, the nickname must be that one.
pub(crate) fn is_special(when: &When, wanted: Option<&str>) -> bool {
    let special = when.special();
    special.is_some_and(|special| wanted.is_none_or(|wanted| wanted == special))
}

fn rm_special(cx: &Exec, args: RmSpecial) -> Result<Value, Error> {
    let done = change(cx, &args.user, |tab| {
        let special = args.special.as_deref();
        let identifier = args.identifier.as_deref();
        Ok(tab.remove(&args.cmd, identifier, &|when| is_special(when, special)))
    })?;
    Ok(answer(done))
}

fn set_env(cx: &Exec, args: SetEnv) -> Result<Value, Error> {
    let value = args.value.unwrap_or_default();
    Ok(answer(set_variable(cx, &args.user, &args.name, &value)?))
}

fn rm_env(cx: &Exec, args: RmEnv) -> Result<Value, Error> {
    Ok(answer(remove_variable(cx, &args.user, &args.name)?))
}

fn write_cron_file(cx: &Exec, args: WriteCronFile) -> Result<Value, Error> {
    Ok(crontab(&args.user, &args.path)?.run(cx)?.success().into())
}

fn write_cron_file_verbose(cx: &Exec, args: WriteCronFileVerbose) -> Result<Value, Error> {
    let done = crontab(&args.user, &args.path)?.run(cx)?;
    Ok(done.to_map().into())
}
