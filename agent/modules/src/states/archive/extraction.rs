//! Decides whether an archive must be extracted, and extracts it.

use std::io::ErrorKind;
use std::path::Path;

use machine::fs;
use machine::process::{Process, which};
use python::{path, shlex};
use state::module::{Error, Ret};
use value::{Map, Value};

use super::{Job, call_state, checksum, ownership};
use crate::exec::archive::{Contents, Kind, Unpack, trimmed, untar, unzipped};

/// The result of comparing a folder with an archive.
#[derive(Default)]
struct Look {
    missing: bool,
    /// The paths that exist but are of another kind.
    wrong: Vec<String>,
}

/// Returns the reason for the extraction, for the comment.
fn why(triggered: bool, missing: bool) -> &'static str {
    match (triggered, missing) {
        (true, _) => ", due to source_hash update",
        (_, true) => ", due to absence of one or more files/dirs",
        _ => "",
    }
}

impl Job<'_> {
    pub(super) fn extract(
        &self,
        cached: &str,
        contents: &Contents,
        before: Option<&str>,
    ) -> Result<Ret, Error> {
        let mut ret = Ret::ok("");
        let look = self.look(contents)?;
        let mut needed = self.args.overwrite || look.missing;
        if !look.wrong.is_empty() {
            if let Some(done) = self.wrong_types(&look.wrong, &mut ret)? {
                return Ok(done);
            }
            needed |= self.args.force && !self.args.clean;
        }
        let now = checksum::read(self.cx, cached, None)?;
        let changed = |before: &str| now.as_deref() != Some(before);
        let triggered = !needed && self.args.source_hash_update && before.is_some_and(changed);
        if !needed && !triggered {
            ret.comment = "All files in archive are already present".to_owned();
            ownership::enforce(self, contents, &mut ret);
            if self.cx.test && ret.changes.is_true() {
                ret.result = None;
                ret.comment
                    .push_str(". Ownership would be updated on one or more files/directories.");
            }
            return Ok(ret);
        }
        self.check_hash()?;
        let reason = why(triggered, look.missing);
        let cleaning = if self.args.clean {
            ", after cleaning destination path(s)"
        } else {
            ""
        };
        let comment = format!(
            "Archive {} would be extracted to {}{cleaning}{reason}",
            self.redacted_source(),
            self.name
        );
        let would = Ret::would(comment).changes(ret.changes.clone());
        self.cx.apply(would, || {
            let ret = self.unpack(cached, contents, ret)?;
            Ok(self.finish(contents, ret, reason))
        })
    }

    /// Returns the result after the extraction, and sets the owners.
    fn finish(&self, contents: &Contents, mut ret: Ret, reason: &str) -> Ret {
        let (Some(true), Some(files)) = (ret.result, ret.changes.get("extracted_files")) else {
            return ret;
        };
        if files.is_true() {
            let trimmed = self
                .trim
                .map(|count| format!(". Output was trimmed to {count} number of lines"));
            ret.comment = format!(
                "{} extracted to {}{reason}{}",
                self.redacted_source(),
                self.name,
                trimmed.unwrap_or_default()
            );
        } else {
            ret = Ret::failed(format!(
                "No files were extracted from {}",
                self.redacted_source()
            ));
        }
        let files = ret
            .changes
            .as_map_mut()
            .and_then(|changes| changes.remove("extracted_files"));
        let created = ret
            .changes
            .as_map_mut()
            .and_then(|changes| changes.remove("directories_created"));
        ownership::enforce(self, contents, &mut ret);
        for (key, value) in [("directories_created", created), ("extracted_files", files)] {
            if let Some(value) = value {
                ret = ret.change(key, value);
            }
        }
        ret
    }

    fn look(&self, contents: &Contents) -> Result<Look, Error> {
        let mut look = Look::default();
        for wanted in [Kind::Folder, Kind::File, Kind::Link] {
            for name in contents.named(wanted) {
                let path = path::join(&self.name, &name);
                match std::fs::symlink_metadata(path.trim_end_matches('/')) {
                    Ok(found) => {
                        let kind = match found.file_type() {
                            kind if kind.is_dir() => Kind::Folder,
                            kind if kind.is_symlink() => Kind::Link,
                            _ => Kind::File,
                        };
                        if kind != wanted {
                            look.wrong.push(name);
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::NotFound => look.missing = true,
                    // The path is below a file that exists in place of a folder.
                    Err(error) if error.kind() == ErrorKind::NotADirectory => {}
                    Err(error) => return Err(Error::io(&path)(error)),
                }
            }
        }
        Ok(look)
    }

    /// Handles paths of the wrong kind. Returns a final result, or removes the paths and returns
    /// `None`.
    fn wrong_types(&self, wrong: &[String], ret: &mut Ret) -> Result<Option<Ret>, Error> {
        let test = self.cx.test;
        let list: Vec<String> = wrong.iter().map(|path| format!("- {path}")).collect();
        let list = format!("\n\n{}", list.join("\n"));
        let start = format!(
            "The below paths (relative to {}) exist, but are the incorrect type (file instead of directory, symlink instead \
             of file, etc.).",
            self.name
        );
        if test && self.args.clean {
            return Ok(Some(Ret::would(format!(
                "{start} Since the 'clean' option is enabled, the destination paths would be cleared and the archive would \
                 be extracted.{list}"
            ))));
        }
        if test && self.args.clean_parent {
            return Ok(Some(Ret::would(format!(
                "{start} Since the 'clean_parent' option is enabled, the destination parent directory would be removed \
                 first and then re-created and the archive would be extracted"
            ))));
        }
        if self.args.clean {
            return Ok(None);
        }
        if !self.args.force {
            return Err(format!(
                "{start} To proceed with extraction, set 'force' to True. Note that this will remove these paths before \
                 extracting.{list}"
            )
            .into());
        }
        let paths: Vec<String> = wrong
            .iter()
            .map(|path| path::join(&self.name, path))
            .collect();
        if test {
            *ret = std::mem::take(ret).change("removed", paths);
            return Ok(None);
        }
        self.remove(paths, ret, "One or more paths existed by were the incorrect type (i.e. file instead of directory or vice-versa), but could not be removed.")?;
        Ok(None)
    }

    /// Removes paths, and records them under `removed`.
    fn remove(&self, paths: Vec<String>, ret: &mut Ret, failed: &str) -> Result<(), Error> {
        let (mut removed, mut errors) = (Vec::new(), String::new());
        for path in paths {
            match fs::remove(self.cx, Path::new(path.trim_end_matches('/'))) {
                Ok(()) => removed.push(path),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => errors.push_str(&format!("\n- {path}: {error}")),
            }
        }
        if !errors.is_empty() {
            return Err(format!("{failed} The following errors were observed:\n{errors}").into());
        }
        if let Some(changes) = ret.changes.as_map_mut().filter(|_| !removed.is_empty()) {
            changes.insert("removed", removed);
        }
        Ok(())
    }

    fn check_hash(&self) -> Result<(), Error> {
        let Some(sum) = self
            .sum
            .as_ref()
            .filter(|_| self.local && !self.args.skip_verify)
        else {
            return Ok(());
        };
        if machine::hashes::of_file(&self.source, &sum.kind)? == sum.hash {
            return Ok(());
        }
        Err(format!(
            "{} does not match the desired source_hash {}",
            self.redacted_source(),
            sum.hash
        )
        .into())
    }

    fn unpack(&self, cached: &str, contents: &Contents, mut ret: Ret) -> Result<Ret, Error> {
        contents.check(&self.name)?;
        let folder = self.name.trim_end_matches('/');
        if self.args.clean_parent && path::lexists(folder) {
            fs::remove(self.cx, Path::new(folder))
                .map_err(|error| Error::refused(format!("Unable to remove the directory {}. The following errors were observed:\n\n- {error}", self.name)))?;
            if let Some(changes) = ret.changes.as_map_mut() {
                changes.entry("removed", || {
                    format!(
                        "Directory {} was removed prior to the extraction",
                        self.name
                    )
                    .into()
                });
            }
        }
        if self.args.clean {
            let verbose = contents.verbose();
            let top = ["top_level_dirs", "top_level_files"].into_iter();
            let top = top.filter_map(|key| verbose.get(key)?.as_list()).flatten();
            let paths = top
                .map(|name| path::join(&self.name, &name.to_text()))
                .collect();
            self.remove(paths, &mut ret, "One or more paths could not be cleaned.")?;
        }
        let created = !path::isdir(&self.name);
        if created {
            let kwargs = Map::new()
                .with("user", self.args.user.clone())
                .with("makedirs", true);
            let made = call_state(self.cx, "file.directory", &self.name, kwargs)?;
            if made.result != Some(true) {
                return Err(made.comment.into());
            }
        }
        let unpacked = self.files(cached, contents);
        for (_, name) in &contents.members {
            self.cx.changed(Path::new(&path::join(&self.name, name)));
        }
        match unpacked {
            Ok(Unpacked::Files(files)) => {
                if created {
                    ret = ret.change(
                        "directories_created",
                        Value::list([self.name.as_str().into()]),
                    );
                }
                Ok(ret.change("extracted_files", files))
            }
            Ok(Unpacked::Failed(result)) => {
                if created {
                    #[expect(
                        clippy::let_underscore_must_use,
                        reason = "this succeeds only if the folder is empty"
                    )]
                    let _ = fs::rmdir(self.cx, Path::new(folder));
                }
                let text = |key: &str| result.get(key).map(Value::to_text).unwrap_or_default();
                let comment = format!(
                    "tar failed with exit status {}: {}",
                    text("retcode"),
                    text("stderr")
                );
                Ok(Ret::failed(comment).changes(result))
            }
            Err(error) => Ok(Ret {
                changes: ret.changes,
                ..Ret::failed(error.to_string())
            }),
        }
    }

    fn files(&self, cached: &str, contents: &Contents) -> Result<Unpacked, Error> {
        let password = self
            .args
            .password
            .is_true()
            .then(|| self.args.password.to_text());
        let job = Unpack {
            file: cached.to_owned(),
            dest: self.name.clone(),
            excludes: Vec::new(),
            password,
            runas: None,
        };
        let trim = self.trim.map_or(Value::Bool(false), Value::from);
        match (self.format.as_str(), &self.options) {
            ("zip", options) if self.cmd_unzip => {
                let options = shlex::split(options.as_deref().unwrap_or_default())?;
                Ok(Unpacked::Files(trimmed(
                    job.unzip(self.cx, options)?,
                    &trim,
                )))
            }
            ("zip", _) => {
                let names = unzipped(self.cx, &job, self.args.extract_perms).map_err(|error| {
                    Error::refused(format!("Exception encountered unpacking zipfile: {error}"))
                })?;
                Ok(Unpacked::Files(trimmed(names, &trim)))
            }
            ("rar", _) => {
                let kwargs = Map::new().with("trim_output", trim);
                let args = vec![cached.into(), self.name.as_str().into()];
                self.cx
                    .call_internal("archive.unrar", args, kwargs)
                    .map(Unpacked::Files)
            }
            (_, Some(options)) => self.tar_with(cached, options),
            _ => {
                let failed = untar(self.cx, cached, &self.name)?;
                if let Value::Map(failed) = failed {
                    return Ok(Unpacked::Failed(failed));
                }
                let names = contents
                    .members
                    .iter()
                    .map(|(_, name)| name.trim_end_matches('/').into());
                Ok(Unpacked::Files(Value::list(
                    names.take(self.trim.unwrap_or(usize::MAX)),
                )))
            }
        }
    }

    /// Extracts with the program tar and the user's options. tar prints the names of the files.
    fn tar_with(&self, cached: &str, options: &str) -> Result<Unpacked, Error> {
        if which("tar").is_none() {
            return Err("tar command not available, it might not be installed on minion".into());
        }
        let process = Process {
            cwd: Some(self.name.clone()),
            ..Process::words(tar_words(options, cached)?)
        };
        let done = process.run(self.cx)?;
        if !done.success() {
            return Ok(Unpacked::Failed(done.to_map()));
        }
        let lines = done
            .stdout_regardless()
            .lines()
            .take(self.trim.unwrap_or(usize::MAX));
        let files = Value::list(lines.map(Value::from));
        Ok(Unpacked::Files(if files.is_true() {
            files
        } else {
            "no tar output so far".into()
        }))
    }
}

/// Returns the command line of tar. It always contains `xv`; a first word without a dash consists
/// of more such letters.
fn tar_words(options: &str, cached: &str) -> Result<Vec<String>, Error> {
    let options = shlex::split(options)?;
    let options = options
        .into_iter()
        .filter(|word| !["v", "-v", "--verbose"].contains(&word.as_str()));
    let (mut short, mut long) = ("xv".to_owned(), Vec::new());
    for (position, word) in options.enumerate() {
        if position == 0 && !word.starts_with('-') {
            short.push_str(&word.replace(['x', 'f'], ""));
        } else {
            long.push(word);
        }
    }
    let mut words = vec!["tar".to_owned(), short];
    words.extend(long);
    words.extend(["-f".to_owned(), cached.to_owned()]);
    Ok(words)
}

/// The result of an extraction.
enum Unpacked {
    /// The names of the files, or the output lines of a program.
    Files(Value),
    /// The output of a failed tar.
    Failed(Map),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_tar_are_letters_or_words() {
        let words = |options: &str| tar_words(options, "/a.tar").unwrap().join(" ");
        assert_eq!(words("zxvf"), "tar xvzv -f /a.tar");
        assert_eq!(
            words("--strip-components=1 -v"),
            "tar xv --strip-components=1 -f /a.tar"
        );
        assert_eq!(
            words("j --exclude 'a b'"),
            "tar xvj --exclude a b -f /a.tar"
        );
    }
}
