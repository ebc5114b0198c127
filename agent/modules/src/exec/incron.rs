//! The `incron` execution module: commands that run when files change. Salt 3008 no longer has it;
//! the results are those of its last version.

use std::path::Path;

use machine::fs;
use machine::process::{Output, Process};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::tool;

state::exec_module! {
    /// Manage commands that run when files change (`incrontab`).
    mod incron;

    /// Install a file as the table of a user.
    ///
    ///     salt-call incron.write_incron_file root /srv/incrontab
    fn write_incron_file(WriteIncronFile {
        /// The user.
        user: String,
        /// The file.
        path: String,
    });

    /// Install a file as the table of a user, and return the output of `incrontab`.
    ///
    ///     salt-call incron.write_incron_file_verbose root /srv/incrontab
    fn write_incron_file_verbose(WriteIncronFileVerbose {
        /// The user.
        user: String,
        /// The file.
        path: String,
    });

    /// Return the system's table as text.
    ///
    ///     salt-call incron.raw_system_incron
    fn raw_system_incron(RawSystemIncron {});

    /// Return the table of a user as text.
    ///
    ///     salt-call incron.raw_incron root
    fn raw_incron(RawIncron {
        /// The user.
        user: String,
    });

    /// Return the entries of a user.
    ///
    ///     salt-call incron.list_tab root
    fn list_tab(ListTab {
        /// The user, or `system`.
        user: String,
    });

    /// Return the entries of a user.
    ///
    ///     salt-call incron.ls root
    fn ls(Ls {
        /// The user, or `system`.
        user: String,
    });

    /// Add or change an entry.
    ///
    ///     salt-call incron.set_job root /etc/app IN_CLOSE_WRITE 'systemctl reload app'
    fn set_job(SetJob {
        /// The user, or `system`.
        user: String,
        #[group] job: Job,
    });

    /// Remove an entry.
    ///
    ///     salt-call incron.rm_job root /etc/app IN_CLOSE_WRITE 'systemctl reload app'
    fn rm_job(RmJob {
        /// The user, or `system`.
        user: String,
        #[group] job: Job,
    });

    /// Remove an entry.
    ///
    ///     salt-call incron.rm root /etc/app IN_CLOSE_WRITE 'systemctl reload app'
    fn rm(Rm {
        /// The user, or `system`.
        user: String,
        #[group] job: Job,
    });
}

/// The system table that this module writes.
const SYSTEM: &str = "/etc/incron.d/salt";

const MASKS: [&str; 19] = [
    "IN_ACCESS",
    "IN_ATTRIB",
    "IN_CLOSE_WRITE",
    "IN_CLOSE_NOWRITE",
    "IN_CREATE",
    "IN_DELETE",
    "IN_DELETE_SELF",
    "IN_MODIFY",
    "IN_MOVE_SELF",
    "IN_MOVED_FROM",
    "IN_MOVED_TO",
    "IN_OPEN",
    "IN_ALL_EVENTS",
    "IN_MOVE",
    "IN_CLOSE",
    "IN_DONT_FOLLOW",
    "IN_ONESHOT",
    "IN_ONLYDIR",
    "IN_NO_LOOP",
];

state::argument_group! {
    /// An entry of a table.
    #[derive(PartialEq, Eq)]
    pub(crate) struct Job {
        /// The path that is watched.
        path: String,
        /// The events that are watched for, such as `IN_MODIFY`, with commas between them.
        mask: String,
        /// The command.
        cmd: String,
    }
}

/// The result of comparing an entry with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    Same,
    /// The path and the command are the same, the events differ.
    Changed,
    Other,
}

impl Job {
    /// Compares this entry with one of a table.
    pub(crate) fn likeness(&self, there: &Self) -> Likeness {
        if self.path != there.path || self.cmd != there.cmd {
            return Likeness::Other;
        }
        let parts = |mask: &str| {
            let mut parts: Vec<String> = mask.split(',').map(str::to_owned).collect();
            value::sorted::sort(&mut parts);
            parts
        };
        let (wanted, has) = (parts(&self.mask), parts(&there.mask));
        if wanted == has {
            Likeness::Same
        } else if wanted.iter().any(|part| has.contains(part)) {
            Likeness::Changed
        } else {
            Likeness::Other
        }
    }

    /// Returns the entry with its mask in capitals; an error if the mask has an unknown part.
    fn checked(self) -> Result<Self, String> {
        let mask = self.mask.to_uppercase();
        match mask.split(',').find(|part| !MASKS.contains(part)) {
            Some(part) => Err(format!("Invalid mask type: {part}")),
            None => Ok(Self { mask, ..self }),
        }
    }
}

/// The table of a user: its entries, and the lines that are not entries.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pre: Vec<String>,
    pub(crate) jobs: Vec<Job>,
}

impl Table {
    fn parsed(text: &str) -> Self {
        let mut table = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                // As in Salt, a line whose command is a single word is not an entry. It is kept
                // unchanged.
                [path, mask, cmd @ ..] if cmd.len() > 1 => table.jobs.push(Job {
                    path: (*path).to_owned(),
                    mask: (*mask).to_owned(),
                    cmd: cmd.join(" "),
                }),
                _ => table.pre.push(line.to_owned()),
            }
        }
        table
    }

    /// Returns the table of a user, or of the system.
    ///
    /// # Errors
    /// When the program is missing.
    pub(crate) fn read(cx: &Exec, user: &str) -> Result<Self, Error> {
        let text = match user {
            "system" => system()?,
            user => raw(cx, user)?,
        };
        Ok(Self::parsed(&text))
    }

    fn text(&self) -> String {
        let jobs = self.jobs.iter();
        let jobs = jobs.map(|job| format!("{} {} {}\n", job.path, job.mask, job.cmd));
        let pre = self.pre.iter().map(|line| format!("{line}\n"));
        pre.chain(jobs).collect()
    }

    /// Installs the table for its user. Returns the error message of the program if it fails.
    fn write(&self, cx: &Exec, user: &str) -> Result<Option<String>, Error> {
        if user == "system" {
            let path = Path::new(SYSTEM);
            fs::write(cx, path, self.text().as_bytes(), fs::Owner::default())?;
            return Ok(None);
        }
        let process = Process {
            stdin: Some(self.text()),
            runas: Some(user.to_owned()),
            ..Process::words(["incrontab", "-"])
        };
        let output = process.run(cx)?;
        Ok((!output.success()).then_some(output.stderr))
    }
}

fn system() -> Result<String, Error> {
    Ok(fs::text_or_none(SYSTEM)?.unwrap_or_default())
}

fn raw(cx: &Exec, user: &str) -> Result<String, Error> {
    tool::is_name("user", user)?;
    let process = Process {
        runas: Some(user.to_owned()),
        rstrip: false,
        ..Process::words(["incrontab", "-l", user]).quiet()
    };
    let output = process.run(cx)?;
    match output.stderr.contains("no table for") {
        true => Ok(String::new()),
        false => output.stdout_of_success("incrontab -l"),
    }
}

/// Adds an entry. Returns `present`, `new`, `updated`, or an error message.
///
/// # Errors
/// When the program is missing.
pub(crate) fn set(cx: &Exec, user: &str, job: Job) -> Result<String, Error> {
    let job = match job.checked() {
        Ok(job) => job,
        Err(why) => return Ok(why),
    };
    let mut table = Table::read(cx, user)?;
    let like = |one: Likeness| table.jobs.iter().any(|there| job.likeness(there) == one);
    if like(Likeness::Same) {
        return Ok("present".to_owned());
    }
    let done = if like(Likeness::Changed) {
        "updated"
    } else {
        "new"
    };
    table
        .jobs
        .retain(|there| job.likeness(there) == Likeness::Other);
    table.jobs.push(job);
    let why = table.write(cx, user)?;
    Ok(why.unwrap_or_else(|| done.to_owned()))
}

/// Removes an entry. Returns `absent`, `removed`, or an error message.
///
/// # Errors
/// When the program is missing.
pub(crate) fn unset(cx: &Exec, user: &str, job: Job) -> Result<String, Error> {
    let job = match job.checked() {
        Ok(job) => job,
        Err(why) => return Ok(why),
    };
    let mut table = Table::read(cx, user)?;
    let Some(at) = table.jobs.iter().position(|there| *there == job) else {
        return Ok("absent".to_owned());
    };
    table.jobs.remove(at);
    let why = table.write(cx, user)?;
    Ok(why.unwrap_or_else(|| "removed".to_owned()))
}

fn written(cx: &Exec, user: String, path: &str) -> Result<Output, Error> {
    tool::is_name("file", path)?;
    tool::run(cx, &["incrontab", path], None, Some(&user))
}

fn write_incron_file(cx: &Exec, args: WriteIncronFile) -> Result<Value, Error> {
    Ok(written(cx, args.user, &args.path)?.success().into())
}

fn write_incron_file_verbose(cx: &Exec, args: WriteIncronFileVerbose) -> Result<Value, Error> {
    Ok(written(cx, args.user, &args.path)?.to_map().into())
}

fn raw_system_incron(_: &Exec, _: RawSystemIncron) -> Result<Value, Error> {
    Ok(system()?.into())
}

fn raw_incron(cx: &Exec, args: RawIncron) -> Result<Value, Error> {
    Ok(raw(cx, &args.user)?.into())
}

fn listed(cx: &Exec, user: &str) -> Result<Value, Error> {
    let table = Table::read(cx, user)?;
    let job = |job: &Job| {
        Map::new()
            .with("path", job.path.as_str())
            .with("mask", job.mask.as_str())
            .with("cmd", job.cmd.as_str())
            .into()
    };
    let crons = Value::list(table.jobs.iter().map(job));
    Ok(Map::new()
        .with("crons", crons)
        .with("pre", table.pre)
        .into())
}

fn list_tab(cx: &Exec, args: ListTab) -> Result<Value, Error> {
    listed(cx, &args.user)
}

fn ls(cx: &Exec, args: Ls) -> Result<Value, Error> {
    listed(cx, &args.user)
}

fn set_job(cx: &Exec, args: SetJob) -> Result<Value, Error> {
    Ok(set(cx, &args.user, args.job)?.into())
}

fn rm_job(cx: &Exec, args: RmJob) -> Result<Value, Error> {
    Ok(unset(cx, &args.user, args.job)?.into())
}

fn rm(cx: &Exec, args: Rm) -> Result<Value, Error> {
    Ok(unset(cx, &args.user, args.job)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_what_is_no_entry() {
        let text = "# mine\n/a IN_OPEN one\n/b IN_OPEN,IN_CLOSE two $@\n";
        let table = Table::parsed(text);
        assert_eq!(table.jobs.len(), 1);
        assert_eq!(table.text(), text);
        let job = |mask: &str| Job {
            path: "/b".into(),
            mask: mask.into(),
            cmd: "two $@".into(),
        };
        let there = &table.jobs[0];
        assert_eq!(job("IN_CLOSE,IN_OPEN").likeness(there), Likeness::Same);
        assert_eq!(job("IN_OPEN").likeness(there), Likeness::Changed);
        assert_eq!(job("IN_MOVE").likeness(there), Likeness::Other);
        assert!(job("IN_MOVE,no").checked().is_err());
    }
}
