//! The `rsync` state module. Salt 3008 has it no more; answers are those of its last one.

use std::path::Path;

use state::exec::Exec;
use state::module::{Error, Ret};
use value::{Value, sorted};

use crate::exec::rsync::{Rsync, run};
use crate::fs;

state::state_module! {
    /// Copies of trees (`rsync`).
    mod rsync;

    /// Make sure that a folder is a copy of another.
    fn synchronized(Synchronized {
        /// The copy.
        name: String,
        /// What is copied.
        source: String,
        /// Remove what the source does not have.
        delete: bool = false,
        /// Remove folders that are not empty.
        force: bool = false,
        /// Leave files that are newer.
        update: bool = false,
        /// A file with the password for a daemon of rsync.
        passwordfile: Option<String> = None,
        /// Patterns of what is left out.
        exclude: Value = Value::Null,
        /// A file with such patterns.
        excludefrom: Option<String> = None,
        /// Make the folder where it is not there.
        prepare: bool = false,
        /// Only say what would be done.
        dryrun: bool = false,
        /// More options of rsync.
        additional_opts: Value = Value::Null,
    });
}

/// The last paragraph, a line for each thing that it says.
fn summary(said: &str) -> String {
    let last = said.rsplit("\n\n").next().unwrap_or_default();
    let last = last.replace("  ", "\n");
    let parts: Vec<&str> = last.lines().filter(|part| !part.is_empty()).collect();
    format!("- {}", parts.join("\n- "))
}

/// What was copied and what was removed; nothing where nothing was.
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
    let comment = summary(&output.stdout);
    if dryrun {
        return Ok(Ret::would(comment));
    }
    if !output.success() {
        return Ok(Ret::failed(output.stderr));
    }
    Ok(match changes(&output.stdout) {
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
