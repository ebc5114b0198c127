//! The `cron` execution module.

pub(crate) mod tab;

use python::text;
use state::exec::Exec;
use state::module::Error;
use value::Value;

use self::tab::{Job, Outcome, Tab, When};
use crate::exec::cmd::Temporary;
use crate::process::{self, Output, Process};
use crate::{accounts, fs, inverses};

state::exec_module! {
    /// Work with cron.
    mod cron;

    /// Return a user's crontab as it is.
    fn raw_cron(RawCron {
        /// The user.
        user: String,
    });

    /// Return what a user's crontab holds.
    fn list_tab(ListTab {
        /// The user.
        user: String,
    });

    /// Return what a user's crontab holds.
    fn ls(Ls {
        /// The user.
        user: String,
    });

    /// Return a job of a user; False when there is none.
    fn get_entry(GetEntry {
        /// The user.
        user: String,
        /// The job's identifier.
        identifier: Option<String> = None,
        /// The job's command, where no identifier is given.
        cmd: Option<String> = None,
    });

    /// Set up a job.
    fn set_job(SetJob {
        /// The user.
        user: String,
        /// The minute, or `random`.
        minute: String,
        /// The hour.
        hour: String,
        /// The day of the month.
        daymonth: String,
        /// The month.
        month: String,
        /// The day of the week.
        dayweek: String,
        /// The command.
        cmd: String,
        /// Keep it without running it.
        commented: bool = false,
        /// A comment above it.
        comment: Option<String> = None,
        /// What it is known by when its command changes.
        identifier: Option<String> = None,
    });

    /// Set up a job with a nickname for its times.
    fn set_special(SetSpecial {
        /// The user.
        user: String,
        /// The nickname, such as `@daily`.
        special: String,
        /// The command.
        cmd: String,
        /// Keep it without running it.
        commented: bool = false,
        /// A comment above it.
        comment: Option<String> = None,
        /// What it is known by when its command changes.
        identifier: Option<String> = None,
    });

    /// Remove a job.
    fn rm_job(RmJob {
        /// The user.
        user: String,
        /// The command.
        cmd: String,
        /// Only where this is its minute.
        minute: Option<String> = None,
        /// Only where this is its hour.
        hour: Option<String> = None,
        /// Only where this is its day of the month.
        daymonth: Option<String> = None,
        /// Only where this is its month.
        month: Option<String> = None,
        /// Only where this is its day of the week.
        dayweek: Option<String> = None,
        /// What it is known by.
        identifier: Option<String> = None,
    });

    /// Remove a job.
    fn rm(Rm {
        /// The user.
        user: String,
        /// The command.
        cmd: String,
        /// Only where this is its minute.
        minute: Option<String> = None,
        /// Only where this is its hour.
        hour: Option<String> = None,
        /// Only where this is its day of the month.
        daymonth: Option<String> = None,
        /// Only where this is its month.
        month: Option<String> = None,
        /// Only where this is its day of the week.
        dayweek: Option<String> = None,
        /// What it is known by.
        identifier: Option<String> = None,
    });

    /// Remove a job with a nickname for its times.
    fn rm_special(RmSpecial {
        /// The user.
        user: String,
        /// The command.
        cmd: String,
        /// Only where this is its nickname.
        special: Option<String> = None,
        /// What it is known by.
        identifier: Option<String> = None,
    });

    /// Set up a variable.
    fn set_env(SetEnv {
        /// The user.
        user: String,
        /// The variable.
        name: String,
        /// Its value.
        value: Option<String> = None,
    });

    /// Remove a variable.
    fn rm_env(RmEnv {
        /// The user.
        user: String,
        /// The variable.
        name: String,
    });

    /// Put a file in the place of a user's crontab; false when it is not accepted.
    fn write_cron_file(WriteCronFile {
        /// The user.
        user: String,
        /// The file.
        path: String,
    });

    /// Put a file in the place of a user's crontab, and return what the program said.
    fn write_cron_file_verbose(WriteCronFileVerbose {
        /// The user.
        user: String,
        /// The file.
        path: String,
    });
}

/// A call of `crontab` for a user: as the user itself, or as root in its name.
fn crontab(user: &str, word: &str) -> Result<Process, Error> {
    let program = process::which("crontab").ok_or("Command 'crontab' cannot be found")?;
    if user.starts_with('-') {
        return Err(Error::refused(format!("{user} is no user")));
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

/// Whether `crontab -l` said that there is no crontab: in cron's words, or busybox's.
fn has_none(stderr: &str) -> bool {
    let missing = stderr.contains("can't open") && stderr.contains("No such file");
    missing || stderr.contains("no crontab for")
}

/// A user's crontab as it is; empty where there is none.
pub(crate) fn raw(cx: &Exec, user: &str) -> Result<String, Error> {
    let process = Process {
        ignore_retcode: true,
        rstrip: false,
        ..crontab(user, "-l")?
    };
    let output = process.run(cx)?;
    // A user that is not there has none.
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

/// A user's table.
pub(crate) fn tab(cx: &Exec, user: &str) -> Result<Tab, Error> {
    Ok(Tab::read(&raw(cx, user)?))
}

/// Puts a text in the place of a user's crontab. It is given by a file of ours alone, as every `crontab` takes it.
pub(crate) fn install(cx: &Exec, user: &str, text: &str) -> Result<Output, Error> {
    if let (true, Ok(was)) = (fs::is_noted(cx), raw(cx, user)) {
        inverses::note(cx, inverses::CRONTAB, user, was, text);
    }
    let file = Temporary::written("", text.as_bytes(), None)?;
    crontab(user, &file.path().to_string_lossy())?.run(cx)
}

/// Changes a user's table in one step. What the program says is the answer when it does not accept it.
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

/// Sets up a job.
///
/// # Errors
/// When it would be more than a line.
pub(crate) fn set(cx: &Exec, user: &str, job: Job) -> Result<Result<Outcome, String>, Error> {
    let name = job.identifier.as_deref().unwrap_or_default();
    if job.cmd.contains('\n') || name.contains('\n') {
        return Err("A job of a crontab is one line".into());
    }
    change(cx, user, |tab| tab.set(job))
}

/// Sets up a variable.
pub(crate) fn set_variable(
    cx: &Exec,
    user: &str,
    name: &str,
    value: &str,
) -> Result<Result<Outcome, String>, Error> {
    if name.contains(['\n', '=']) || value.contains('\n') {
        return Err("A variable of a crontab is one line".into());
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

/// True where each time that is given is the job's.
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

/// True for a nickname, and where one is named for no other.
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
