//! The `at` state module.

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Map, Value, python};

use crate::exec::at::{add, find, matching, remove};

state::state_module! {
    /// Manage commands that run once at a later time (`at`).
    #[needs("at", "at module could not be loaded")]
    #[facts(free_arguments = true)]
    mod at;

    /// Add a job. With `unique_tag` the job is not added if one with the same tag is waiting
    /// already.
    ///
    ///     /usr/local/bin/report:
    ///       at.present:
    ///         - timespec: 18:00 tomorrow
    ///         - tag: report
    fn present(Present {
        /// The command, if `job` is not given; otherwise any name.
        name: String,
        /// The time, in the syntax of the program `at`.
        timespec: Value,
        /// A tag by which the job can be found later.
        tag: Option<String> = None,
        /// The user that runs the job.
        user: Option<String> = None,
        /// The command.
        job: Option<String> = None,
        /// True to add the job only if no job with the same tag is waiting. Requires `tag`.
        unique_tag: bool = false,
    });

    /// Remove jobs: the one with a given number, those that match `tag`, `runas`, `hour`, `minute`,
    /// `day`, `month` and `year`, or all.
    ///
    ///     remove the report:
    ///       at.absent:
    ///         - tag: report
    fn absent(Absent {
        /// Any name.
        name: String,
        /// The number of a job.
        jobid: Value = Value::Null,
        ..kwargs
    });

    /// Add a job when a watched state changed something.
    ///
    ///     /usr/local/bin/report:
    ///       at.watch:
    ///         - timespec: now + 5 minutes
    ///         - watch:
    ///           - file: /etc/app.conf
    fn watch(Watch {
        /// The command, if `job` is not given; otherwise any name.
        name: String,
        /// The time, in the syntax of the program `at`.
        timespec: Value,
        /// A tag by which the job can be found later.
        tag: Option<String> = None,
        /// The user that runs the job.
        user: Option<String> = None,
        /// The command.
        job: Option<String> = None,
        /// True to add the job only if no job with the same tag is waiting. Requires `tag`.
        unique_tag: bool = false,
    });

    /// Add the job because a watched state changed something.
    ///
    ///     /usr/local/bin/report:
    ///       at.present:
    ///         - timespec: now + 5 minutes
    ///         - watch:
    ///           - file: /etc/app.conf
    fn mod_watch(ModWatch {
        /// The command, if `job` is not given; otherwise any name.
        name: String,
        ..kwargs
    });
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let when = python::str(&args.timespec);
    let job = args.job.filter(|job| !job.is_empty()).unwrap_or(args.name);
    let tag = args.tag.filter(|tag| !tag.is_empty());
    let would = Ret::would(format!("job {job} added and will run on {when}"));
    cx.apply(would, || {
        match &tag {
            None if args.unique_tag => {
                return Ok(Ret::failed("no tag provided and unique_tag is set to True"));
            }
            Some(tag) if args.unique_tag => {
                let wanted = Map::new().with("tag", tag.as_str());
                if !matching(cx, &wanted)?.is_empty() {
                    return Ok(Ret::ok(format!("atleast one job with tag {tag} exists.")));
                }
            }
            _ => {}
        }
        let user = args.user.filter(|user| !user.is_empty());
        if let Some(user) = &user
            && !cx
                .call_internal("user.info", vec![user.as_str().into()], Map::new())?
                .is_true()
        {
            return Ok(Ret::failed(format!("user {user} does not exists")));
        }
        // Without a tag, Salt writes the tag `None`.
        let tag = tag.as_deref().unwrap_or("None");
        let by = user
            .as_ref()
            .map_or_else(String::new, |user| format!(" as {user}"));
        Ok(match add(cx, &when, &job, Some(tag), user.as_deref())? {
            Ok(jobs) => {
                let new = jobs.into_iter().next().unwrap_or_default();
                Ret::ok(format!("job {job} added and will run{by} on {when}")).changes(new)
            }
            Err(why) => Ret::failed(why),
        })
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    if args.kwargs.contains("limit") {
        return Ok(Ret::failed(format!(
            "limit parameter not supported {}",
            args.name
        )));
    }
    cx.apply(Ret::would("removed ? job(s)"), || {
        let number = python::str(&args.jobid);
        if args.jobid.is_true() {
            let jobs = find(cx, &args.jobid)?;
            return Ok(match jobs.len() {
                0 => Ret::ok(format!("job with id {number} not present")),
                1 => {
                    let removed = remove(cx, &jobs)?;
                    Ret::ok(format!("job with id {number} was removed")).change("removed", removed)
                }
                _ => Ret::failed(format!(
                    "more than one job was return for job with id {number}"
                )),
            });
        }
        let jobs = match args.kwargs.is_empty() {
            true => find(cx, &Value::Null)?,
            false => matching(cx, &args.kwargs)?,
        };
        let removed = remove(cx, &jobs)?;
        let ret = Ret::ok(format!("removed {} job(s)", removed.len()));
        Ok(match removed.is_empty() {
            true => ret,
            false => ret.change("removed", removed),
        })
    })
}

fn watch(_cx: &Exec, _args: Watch) -> Result<Ret, Error> {
    Ok(Ret::ok(""))
}

fn mod_watch(cx: &Exec, args: ModWatch) -> Result<Ret, Error> {
    let text = |key: &str| {
        args.kwargs
            .get(key)
            .filter(|value| !value.is_null())
            .map(python::str)
    };
    if text("sfun").as_deref() != Some("watch") {
        return Ok(Ret::failed(""));
    }
    let timespec = args.kwargs.get("timespec").cloned();
    present(
        cx,
        Present {
            timespec: timespec.ok_or_else(|| Error::missing("timespec"))?,
            tag: text("tag"),
            user: text("user"),
            job: text("job"),
            unique_tag: args.kwargs.get("unique_tag").is_some_and(Value::is_true),
            name: args.name,
        },
    )
}
