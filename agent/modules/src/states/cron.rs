//! The `cron` state module.

use python::difflib;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use crate::exec::cron::tab::{Job, Outcome, When};
use crate::exec::cron::{self};
use crate::exec::file::body::Body;
use crate::exec::file::managed::{self, Request};
use crate::exec::file::source;
use crate::exec::user;

state::state_module! {
    /// Management of cron, the scheduler.
    #[needs("crontab", "cron module could not be loaded", "cron")]
    #[facts(effects = Effects::MoreThanFiles { files_suffice: true })]
    mod cron;

    /// Ensure that a job is in a user's crontab.
    ///
    ///     /usr/local/bin/backup:
    ///       cron.present:
    ///         - hour: 3
    ///         - minute: 15
    ///         - identifier: backup
    fn present(Present {
        /// The command.
        name: String,
        /// The user.
        user: String = "root".into(),
        /// The minute, or `random`.
        minute: String = "*".into(),
        /// The hour.
        hour: String = "*".into(),
        /// The day of the month.
        daymonth: String = "*".into(),
        /// The month.
        month: String = "*".into(),
        /// The day of the week.
        dayweek: String = "*".into(),
        /// A comment above the job.
        comment: Option<String> = None,
        /// True to write the job as a comment, so that cron does not run it.
        commented: Value = Value::Bool(false),
        /// An identifier that finds the job again when its command changes. Default: the command.
        identifier: Value = Value::Bool(false),
        /// A nickname such as `@daily`, instead of the times.
        special: Option<String> = None,
    });

    /// Ensure that a job is not in a user's crontab.
    ///
    ///     remove the backup:
    ///       cron.absent:
    ///         - identifier: backup
    fn absent(Absent {
        /// The command.
        name: String,
        /// The user.
        user: String = "root".into(),
        /// The identifier of the job. Default: the command.
        identifier: Value = Value::Bool(false),
        /// The nickname of the job, if it has one.
        special: Option<String> = None,
        ..kwargs
    });

    /// Ensure that a user's crontab has the contents of a file.
    ///
    ///     salt://crontab:
    ///       cron.file:
    ///         - user: deploy
    fn file(File {
        /// The source of the file.
        name: Value,
        /// The expected hash of the file, or a file of hashes.
        source_hash: Value = "".into(),
        /// The name to look up in the file of hashes.
        source_hash_name: Option<String> = None,
        /// The user.
        user: String = "root".into(),
        /// The template engine.
        template: Option<String> = None,
        /// Variables of the template.
        context: Option<Map> = None,
        /// False to keep an existing crontab.
        replace: bool = true,
        /// Default variables of the template; those in `context` take precedence.
        defaults: Option<Map> = None,
        /// Accepted but ignored: crontabs have no backups.
        backup: Value = "".into(),
        ..kwargs
    });

    /// Ensure that a variable is set in a user's crontab.
    ///
    ///     MAILTO:
    ///       cron.env_present:
    ///         - value: admin@example.com
    fn env_present(EnvPresent {
        /// The name of the variable.
        name: String,
        /// The value of the variable.
        value: Option<String> = None,
        /// The user.
        user: String = "root".into(),
    });

    /// Ensure that a variable is not set in a user's crontab.
    ///
    ///     MAILTO:
    ///       cron.env_absent
    fn env_absent(EnvAbsent {
        /// The name of the variable.
        name: String,
        /// The user.
        user: String = "root".into(),
    });
}

/// Returns the identifier in an argument; False means the command.
fn identifier(given: &Value, name: &str) -> Option<String> {
    match given {
        Value::Bool(false) => Some(name.to_owned()),
        Value::Null => None,
        given => Some(given.to_text()),
    }
}

/// The subject of a change, for the comments.
struct About<'a> {
    kind: &'a str,
    name: &'a str,
    user: &'a str,
}

impl About<'_> {
    /// Returns the result of test mode for a change.
    fn would(&self, outcome: Outcome) -> Ret {
        let Self { kind, name, .. } = self;
        let say = |what: &str| format!("{kind} {name} {what}");
        match outcome {
            Outcome::New => Ret::would(say("is set to be added")),
            Outcome::Updated => Ret::would(say("is set to be updated")),
            Outcome::Removed => Ret::would(say("is set to be removed")),
            Outcome::Present => Ret::ok(say("already present")),
            Outcome::Absent => Ret::ok(say("is absent")),
        }
    }

    /// Returns the result of a completed or failed change.
    fn done(&self, done: Result<Outcome, String>, between: &str) -> Ret {
        let Self { kind, name, user } = self;
        let say = |what: &str| Ret::ok(format!("{kind} {name} {what}"));
        match done {
            Ok(Outcome::Present) => say("already present"),
            Ok(Outcome::Absent) => say("already absent"),
            Ok(Outcome::New) => say(&format!("added to {user}'s crontab")).change(user, *name),
            Ok(Outcome::Updated) => say("updated").change(user, *name),
            Ok(Outcome::Removed) => {
                say(&format!("removed from {user}'s crontab")).change(user, *name)
            }
            Err(said) => Ret::failed(format!(
                "{kind} {name} for user {user} failed to commit with error {between}{said}"
            )),
        }
    }
}

/// Makes a change, or in test mode returns the result that it would have.
fn settle(
    cx: &Exec,
    about: &About<'_>,
    outcome: Outcome,
    between: &str,
    change: impl FnOnce() -> Result<Result<Outcome, String>, Error>,
) -> Result<Ret, Error> {
    if matches!(outcome, Outcome::Present | Outcome::Absent) {
        return Ok(if cx.test {
            about.would(outcome)
        } else {
            about.done(Ok(outcome), between)
        });
    }
    cx.apply(about.would(outcome), || Ok(about.done(change()?, between)))
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let name = args.name.trim();
    let times = [
        args.minute,
        args.hour,
        args.daymonth,
        args.month,
        args.dayweek,
    ];
    let when = match args.special {
        Some(special) => When::Special(special),
        None => When::Times(times.map(|time| time.to_lowercase())),
    };
    let job = Job {
        when,
        cmd: name.to_owned(),
        identifier: identifier(&args.identifier, name),
        comment: args.comment,
        commented: args.commented == Value::Bool(true),
    };
    let about = About {
        kind: "Cron",
        name,
        user: &args.user,
    };
    let outcome = cron::tab(cx, &args.user)?.set(job.clone())?;
    let ret = settle(cx, &about, outcome, "\n", || cron::set(cx, &args.user, job))?;
    Ok(named(ret, name))
}

/// Sets the name of the return to the given one, which has no spaces around it.
fn named(ret: Ret, name: &str) -> Ret {
    Ret {
        name: Some(name.to_owned()),
        ..ret
    }
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let name = args.name.trim();
    let identifier = identifier(&args.identifier, name);
    let special = args.special.as_deref();
    let meant = |when: &When| match special {
        Some(_) => cron::is_special(when, special),
        None => when.special().is_none(),
    };
    let about = About {
        kind: "Cron",
        name,
        user: &args.user,
    };
    let outcome = cron::tab(cx, &args.user)?.remove(name, identifier.as_deref(), &meant);
    let ret = settle(cx, &about, outcome, "", || {
        cron::change(cx, &args.user, |tab| {
            Ok(tab.remove(name, identifier.as_deref(), &meant))
        })
    })?;
    Ok(named(ret, name))
}

fn env_present(cx: &Exec, args: EnvPresent) -> Result<Ret, Error> {
    let (name, user) = (args.name.as_str(), args.user.as_str());
    let value = args.value.unwrap_or_default();
    let about = About {
        kind: "Cron env",
        name,
        user,
    };
    let outcome = cron::tab(cx, user)?.variable(name, &value);
    settle(cx, &about, outcome, "\n", || {
        cron::set_variable(cx, user, name, &value)
    })
}

fn env_absent(cx: &Exec, args: EnvAbsent) -> Result<Ret, Error> {
    let (name, user) = (args.name.trim(), args.user.as_str());
    let about = About {
        kind: "Cron env",
        name,
        user,
    };
    let tab = cron::tab(cx, user)?;
    let outcome = match tab.env.iter().any(|known| known.0 == name) {
        true => Outcome::Removed,
        false => Outcome::Absent,
    };
    let ret = settle(cx, &about, outcome, "", || {
        cron::remove_variable(cx, user, name)
    })?;
    Ok(named(ret, name))
}

fn file(cx: &Exec, args: File) -> Result<Ret, Error> {
    let user = &args.user;
    let groups = user::groups_of(user);
    let Some(group) = groups.first() else {
        return Ok(Ret::failed(format!(
            "Could not identify group for user {user}"
        )));
    };
    let mut now = cron::raw(cx, user)?;
    if !args.replace && !now.is_empty() {
        return Ok(Ret::ok(format!(
            "User {user} already has a crontab. No changes made"
        )));
    }
    if !now.ends_with('\n') {
        now.push('\n');
    }
    let wanted = match contents(cx, &args, group) {
        Ok(body) => body.bytes().map_err(Error::io("crontab"))?,
        Err(error) => return Ok(Ret::failed(error.to_string())),
    };
    let diff = difflib::of_files(now.as_bytes(), &wanted);
    if wanted == now.as_bytes() {
        return Ok(Ret::ok(format!(
            "Crontab for user {user} is in the correct state"
        )));
    }
    let would = format!("The following values are set to be changed:\ndiff: {diff}\n");
    cx.apply(Ret::would(would), || {
        let text =
            String::from_utf8(wanted).map_err(|_| "The crontab is not valid UTF-8".to_owned())?;
        let done = cron::install(cx, user, &text)?;
        Ok(if done.success() {
            Ret::ok(format!("Crontab for user {user} was updated")).change("diff", diff)
        } else {
            let said = done.stderr;
            Ret::failed(format!(
                "Unable to update user {user} crontab. Error: {said}"
            ))
        })
    })
}

fn contents(cx: &Exec, args: &File, group: &str) -> Result<Body, Error> {
    let (url, source_hash) = source::first(cx, &args.name, &args.source_hash, &cx.saltenv)?;
    let request = Request {
        source: Some(url.to_text()),
        source_hash,
        source_hash_name: args.source_hash_name.clone(),
        template: args.template.clone(),
        context: args.context.clone().unwrap_or_default(),
        defaults: args.defaults.clone().unwrap_or_default(),
        extra: args.kwargs.clone(),
        saltenv: cx.saltenv.clone(),
        user: args.user.as_str().into(),
        group: group.into(),
        mode: Some("0600".into()),
        ..Request::default()
    };
    let found = managed::find(cx, &request)?;
    managed::verify("crontab", &found, "")?;
    found
        .body
        .ok_or_else(|| Error::refused("The crontab has no source".into()))
}
