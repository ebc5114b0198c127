//! The `incron` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use state::exec::Exec;
use state::module::{Error, Ret};

use crate::exec::incron::{Job, Likeness, Table, set, unset};

state::state_module! {
    /// Manage commands that run when files change (`incrontab`).
    mod incron;

    /// Make sure that an entry is in a user's table.
    ///
    ///     reload the app:
    ///       incron.present:
    ///         - path: /etc/app
    ///         - mask: [IN_CLOSE_WRITE]
    ///         - cmd: systemctl reload app
    fn present(Present {
        /// Any name. It appears in the return.
        name: String,
        /// The path to watch.
        path: String,
        /// The events to watch for, such as `IN_MODIFY`.
        mask: Vec<String>,
        /// The command.
        cmd: String,
        /// The user, or `system`.
        user: String = "root".into(),
    });

    /// Make sure that an entry is not in a user's table.
    ///
    ///     reload the app:
    ///       incron.absent:
    ///         - path: /etc/app
    ///         - mask: [IN_CLOSE_WRITE]
    ///         - cmd: systemctl reload app
    fn absent(Absent {
        /// Any name. It appears in the return.
        name: String,
        /// The path to watch.
        path: String,
        /// The events to watch for, such as `IN_MODIFY`.
        mask: Vec<String>,
        /// The command.
        cmd: String,
        /// The user, or `system`.
        user: String = "root".into(),
    });
}

/// Returns how similar an entry of the table is to a job. The first similar entry decides.
fn found(cx: &Exec, user: &str, job: &Job) -> Result<Likeness, Error> {
    let cmd = job.cmd.strip_suffix('\n').unwrap_or(&job.cmd).to_owned();
    let job = Job { cmd, ..job.clone() };
    let table = Table::read(cx, user)?;
    let mut all = table.jobs.iter().map(|there| job.likeness(there));
    let like = all.find(|likeness| *likeness != Likeness::Other);
    Ok(like.unwrap_or(Likeness::Other))
}

fn present(cx: &Exec, args: Present) -> Result<Ret, Error> {
    let (name, user) = (args.name.as_str(), args.user.as_str());
    let job = Job {
        path: args.path,
        mask: args.mask.join(","),
        cmd: args.cmd,
    };
    let already = || Ret::ok(format!("Incron {name} already present"));
    if cx.test {
        return Ok(match found(cx, user, &job)? {
            Likeness::Same => already(),
            Likeness::Changed => Ret::would(format!("Incron {name} is set to be updated")),
            Likeness::Other => Ret::would(format!("Incron {name} is set to be added")),
        });
    }
    let done = set(cx, user, job)?;
    let changed = |comment: String| Ret::ok(comment).change(user, name);
    Ok(match done.as_str() {
        "present" => already(),
        "new" => changed(format!("Incron {name} added to {user}'s incrontab")),
        "updated" => changed(format!("Incron {name} updated")),
        why => Ret::failed(format!(
            "Incron {name} for user {user} failed to commit with error \n{why}"
        )),
    })
}

fn absent(cx: &Exec, args: Absent) -> Result<Ret, Error> {
    let (name, user) = (args.name.as_str(), args.user.as_str());
    let job = Job {
        path: args.path,
        mask: args.mask.join(","),
        cmd: args.cmd,
    };
    if cx.test {
        return Ok(match found(cx, user, &job)? {
            Likeness::Other => Ret::ok(format!("Incron {name} is absent")),
            _ => Ret::would(format!("Incron {name} is set to be removed")),
        });
    }
    let done = unset(cx, user, job)?;
    Ok(match done.as_str() {
        "absent" => Ret::ok(format!("Incron {name} already absent")),
        "removed" => {
            Ret::ok(format!("Incron {name} removed from {user}'s crontab")).change(user, name)
        }
        why => Ret::failed(format!(
            "Incron {name} for user {user} failed to commit with error {why}"
        )),
    })
}
