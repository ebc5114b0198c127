//! The `rsync` state module. Salt 3008 no longer has it; the returns are those of Salt's last
//! version of it.

use std::path::Path;

use machine::fs;
use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Value, sorted};

use crate::exec::rsync::{Rsync, run};

state::state_module! {
    /// Copy directory trees (`rsync`).
    #[needs("rsync", "Command not found: rsync")]
    mod rsync;

    /// Make sure that a folder is a copy of another.
    ///
    ///     /srv/site:
    ///       rsync.synchronized:
    ///         - source: /srv/build/
    ///         - delete: True
    fn synchronized(Synchronized {
        /// The folder to copy to.
        name: String,
        /// The folder to copy from.
        source: String,
        /// True to remove files that the source does not contain.
        delete: bool = false,
        /// True to remove folders even if they are not empty.
        force: bool = false,
        /// True to keep files that are newer than those in the source.
        update: bool = false,
        /// A file with the password for an rsync daemon.
        passwordfile: Option<String> = None,
        /// Patterns of files to exclude.
        exclude: Value = Value::Null,
        /// A file with patterns of files to exclude.
        excludefrom: Option<String> = None,
        /// True to create the folder if it does not exist.
        prepare: bool = false,
        /// True to only report what would be done.
        dryrun: bool = false,
        /// More options of rsync.
        additional_opts: Value = Value::Null,
    });
}

/// Returns the last paragraph of rsync's output as a list with one line for each statement.
fn summary(said: &str) -> String {
    let last = said.rsplit("\n\n").next().unwrap_or_default();
    let last = last.replace("  ", "\n");
    let parts: Vec<&str> = last.lines().filter(|part| !part.is_empty()).collect();
    format!("- {}", parts.join("\n- "))
}

/// Returns the copied and the removed paths, or `None` if there are none.
fn changes(said: &str) -> Option<(String, String)> {
    let first = said.split("\n\n").next().unwrap_or_default();
    let (mut copied, mut deleted) = (Vec::new(), Vec::new());
    for line in first.split('\n').skip(1) {
        match line.strip_prefix("deleting ") {
            Some(path) => deleted.push(path),
            None => copied.push(line),
        }
    }
    let joined = |mut lines: Vec<&str>| {
        sorted::sort(&mut lines);
        let text = lines.join("\n");
        if text.is_empty() {
            "N/A".to_owned()
        } else {
            text
        }
    };
    let (copied, deleted) = (joined(copied), joined(deleted));
    (copied != "N/A" || deleted != "N/A").then_some((copied, deleted))
}

fn synchronized(cx: &Exec, args: Synchronized) -> Result<Ret, Error> {
    let path = Path::new(&args.name);
    let is_there = path.exists();
    if !is_there && !args.force && !args.prepare {
        return Ok(Ret::failed(format!(
            "Destination directory {} was not found.",
            args.name
        )));
    }
    if !is_there && args.prepare && !cx.test {
        fs::mkdirs(cx, path).map_err(Error::io(path))?;
    }
    let dryrun = cx.test || args.dryrun;
    let output = run(
        cx,
        Rsync {
            src: Some(args.source),
            dst: Some(args.name),
            delete: args.delete,
            force: args.force,
            update: args.update,
            passwordfile: args.passwordfile,
            exclude: args.exclude,
            excludefrom: args.excludefrom,
            dryrun,
            rsh: None,
            additional_opts: args.additional_opts,
            saltenv: "base".to_owned(),
        },
    )?;
    let comment = summary(output.stdout_regardless());
    if dryrun {
        return Ok(Ret::would(comment));
    }
    if !output.success() {
        return Ok(Ret::failed(output.stderr));
    }
    Ok(match changes(output.stdout_regardless()) {
        Some((copied, deleted)) => Ret::ok(comment)
            .change("copied", copied)
            .change("deleted", deleted),
        None => Ret::ok(comment),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rsync_says_is_read() {
        let said = "sending incremental file list\ndeleting old\n./\nb\na\n\nsent 10 bytes  received 2 bytes  24.00 bytes/sec\ntotal size is 2  speedup is 0.1";
        assert_eq!(
            summary(said),
            "- sent 10 bytes\n- received 2 bytes\n- 24.00 bytes/sec\n- total size is 2\n- speedup is 0.1"
        );
        let found = changes(said).unwrap();
        assert_eq!(found, ("./\na\nb".to_owned(), "old".to_owned()));
        assert_eq!(changes("sending incremental file list\n\nsent"), None);
    }
}
