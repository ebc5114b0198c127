//! Files with keys and certificates: `file.managed` places them.

use std::path::{Path, PathBuf};

use machine::fs::{self, Owner};
use state::exec::Exec;
use state::module::{Arguments, Error, Ret};
use value::{Map, Value};

use crate::exec::file::backup;
use crate::exec::x509::format::containers::Encoding;

/// The arguments that are passed to `file.managed`.
const OF_FILES: [&str; 20] = [
    "user",
    "group",
    "mode",
    "attrs",
    "makedirs",
    "dir_mode",
    "backup",
    "create",
    "follow_symlinks",
    "check_cmd",
    "tmp_dir",
    "tmp_ext",
    "selinux",
    "file_encoding",
    "encoding_errors",
    "win_owner",
    "win_perms",
    "win_deny_perms",
    "win_inheritance",
    "win_perms_reset",
];

/// A file with a key or a certificate, which `file.managed` places.
pub(in crate::states) struct File<'a> {
    cx: &'a Exec,
    name: &'a str,
    /// The kind of the file, for the comments.
    what: &'static str,
    pub(in crate::states) args: Map,
}

/// The planned change of a file.
pub(in crate::states) struct Plan<'a> {
    pub(in crate::states) changes: Map,
    /// True if a file of this kind exists already.
    pub(in crate::states) is_there: bool,
    pub(in crate::states) encoding: Encoding,
    /// True if an existing key is only encrypted.
    pub(in crate::states) encrypts: bool,
    pub(in crate::states) make: Box<dyn FnOnce() -> Result<Vec<u8>, Error> + 'a>,
}

impl<'a> File<'a> {
    /// Moves the arguments of `file.managed` out of `kwargs`, and removes those of the state
    /// engine.
    pub(in crate::states) fn from_kwargs(
        cx: &'a Exec,
        name: &'a str,
        what: &'static str,
        kwargs: &mut Map,
    ) -> Self {
        let mut args = Map::new().with("show_changes", false);
        for name in OF_FILES {
            if let Some(value) = kwargs.remove(name) {
                let name = if name == "file_encoding" {
                    "encoding"
                } else {
                    name
                };
                args.insert(name, value);
            }
        }
        kwargs.retain(|key, _| {
            let key = key.to_text();
            !key.starts_with("__")
                && !matches!(key.as_str(), "order" | "fun" | "state" | "sfun" | "sls")
        });
        Self {
            cx,
            name,
            what,
            args,
        }
    }

    /// Calls `file.managed` with the arguments of the file.
    ///
    /// # Errors
    /// When this machine has no such function.
    pub(in crate::states) fn managed(
        &self,
        cx: &Exec,
        replace: bool,
        contents: Option<&str>,
    ) -> Result<Ret, Error> {
        let function = cx
            .state_function("file.managed")
            .ok_or("file.managed is not available")?;
        let mut args = self.args.clone();
        args.insert("name", self.name);
        args.insert("replace", replace);
        if let Some(contents) = contents {
            args.insert("contents", contents);
        }
        let ret = function.invoke("file.managed", cx, Arguments::new(Vec::new(), args));
        error_as_failure(ret)
    }

    /// Adds the return of `file.managed` to this state's return, as a sub-state run.
    pub(in crate::states) fn with_part(&self, ret: Ret, part: Ret) -> Ret {
        let id = self
            .cx
            .chunk
            .as_ref()
            .map_or_else(|| self.name.to_owned(), |low| low.id.clone());
        let low = Map::new()
            .with("name", self.name)
            .with("state", "file")
            .with("__id__", id)
            .with("fun", "managed");
        let part = Map::new()
            .with("name", self.name)
            .with("result", part.result.map_or(Value::Null, Value::Bool))
            .with("changes", part.changes)
            .with("comment", part.comment)
            .with("low", low);
        ret.with("sub_state_run", Value::list([part.into()]))
    }

    /// Examines the file, decides what to do, and does it. `decide` receives the existing file, if
    /// there is one. A link that is not followed does not count as an existing file.
    ///
    /// # Errors
    /// Those of `decide`, and when the file cannot be written.
    pub(in crate::states) fn run(
        &self,
        decide: impl FnOnce(Option<&Path>) -> Result<Plan<'a>, Error>,
    ) -> Result<Ret, Error> {
        let what = self.what;
        let mut testing = self.cx.clone();
        testing.test = true;
        let ok = format!("The {what} is in the correct state");
        let test = self.managed(&testing, false, None)?;
        if test.result == Some(false) {
            let why = "Problem while testing file.managed changes, see its output";
            return Ok(self.with_part(Ret::failed(why), test));
        }
        if test
            .comment
            .contains("is not present and is not set for creation")
        {
            return Ok(self.with_part(Ret::ok(ok), test));
        }
        let path = PathBuf::from(self.name);
        let follows = self.args.get("follow_symlinks").is_none_or(Value::is_true);
        let is_replaced = path.is_symlink() && !follows;
        let real = match path.is_symlink() && follows {
            true => path.canonicalize().unwrap_or_else(|_| path.clone()),
            false => path,
        };
        let is_there = !is_replaced && real.is_file();
        let mut plan = decide(is_there.then_some(&*real))?;
        if is_replaced {
            plan.changes.insert("replaced", self.name);
        }
        if plan.changes.is_empty() && test.result == Some(true) && !test.changes.is_true() {
            return Ok(self.with_part(Ret::ok(ok), test));
        }
        let verb = if plan.is_there { "recreate" } else { "create" };
        if self.cx.test {
            let ret = match plan.changes.is_empty() {
                true => Ret::ok(ok),
                false => Ret::would(format!("The {what} would have been {verb}d")),
            };
            return Ok(self.with_part(ret.changes(plan.changes), test));
        }
        let verb = if plan.encrypts { "encrypte" } else { verb };
        self.placed(plan, &real, ok, format!("The {what} has been {verb}d"))
    }

    fn placed(&self, plan: Plan<'_>, real: &Path, ok: String, done: String) -> Result<Ret, Error> {
        let bytes = match plan.changes.is_empty() {
            true => None,
            false => Some((plan.make)()?),
        };
        // The new contents were created above, so the old link is removed only once they exist.
        if plan.changes.contains("replaced") && real.is_symlink() {
            fs::remove(self.cx, real).map_err(Error::io(real))?;
        }
        let text = bytes.as_ref().filter(|_| plan.encoding.is_text());
        let text = text.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let part = self.managed(self.cx, text.is_some(), text.as_deref())?;
        let verb = if plan.is_there { "update" } else { "create" };
        if part.result == Some(false) {
            let why = format!("Could not {verb} file, see file.managed output");
            return Ok(self.with_part(Ret::failed(why), part));
        }
        if let (Some(bytes), None) = (&bytes, &text) {
            let backup = self.args.get("backup").map(Value::to_text);
            let mode = backup::mode(self.cx, &backup.unwrap_or_default());
            backup::keep(self.cx, &real.to_string_lossy(), &mode)?;
            fs::write(self.cx, real, bytes, Owner::default())?;
        }
        let comment = if bytes.is_some() { done } else { ok };
        Ok(self.with_part(Ret::ok(comment).changes(plan.changes), part))
    }
}

/// Converts an error to a failed return without changes, as in Salt.
pub(in crate::states) fn error_as_failure(ret: Result<Ret, Error>) -> Result<Ret, Error> {
    ret.or_else(|error| Ok(Ret::failed(error.to_string())))
}
