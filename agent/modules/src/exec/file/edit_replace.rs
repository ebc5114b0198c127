//! `file.replace` and `file.search`: replace and search with regular expressions.

use std::path::Path;

use machine::fs;
use python::encoding::Encoding;
use python::{difflib, path, text};
use state::exec::Exec;
use state::module::Error;
use value::Value;

use super::edit;
use value::pyre::{self, BytesSearch, Flags, Regex, Template};

state::exec_module! {
    /// Replace and search text in files with regular expressions.
    mod file;

    /// Replace occurrences of a pattern in a file. Return the diff, or whether there were changes.
    ///
    ///     salt-call file.replace /etc/ssh/sshd_config pattern='^#?Port .*' repl='Port 2222'
    fn replace(Replace {
        /// The path of the file.
        path: String,
        /// A regular expression in Python's syntax.
        pattern: String,
        /// The replacement. `\1` and `\g<name>` refer to groups.
        repl: Value,
        /// The maximum number of replacements. 0 replaces all occurrences.
        count: i64 = 0,
        /// The flags of Python's `re` module: a number, or a list of names.
        flags: Value = 8.into(),
        /// Accepted and ignored: the whole file is always read at once.
        bufsize: Value = 1.into(),
        /// True to append the replacement if the pattern is not found.
        append_if_not_found: bool = false,
        /// True to prepend the replacement if the pattern is not found.
        prepend_if_not_found: bool = false,
        /// The text that is appended or prepended instead of the replacement.
        not_found_content: Option<String> = None,
        /// The suffix of the backup's name. False makes no backup.
        backup: Value = ".bak".into(),
        /// True to change nothing and only return the changes.
        dry_run: bool = false,
        /// True to only return whether the pattern is found.
        search_only: bool = false,
        /// True to return a diff, False to return whether there were changes.
        show_changes: bool = true,
        /// True to ignore a missing file.
        ignore_if_missing: bool = false,
        /// Accepted and ignored: the file is always replaced as a whole.
        preserve_inode: bool = true,
        /// True to treat backslashes in the replacement as ordinary characters.
        backslash_literal: bool = false,
        /// The encoding of the file. Without it, the file is searched as bytes.
        encoding: Option<String> = None,
    });

    /// Return True if the pattern is found in the file.
    ///
    ///     salt-call file.search /etc/ssh/sshd_config '^Port'
    fn search(Search {
        /// The path of the file.
        path: String,
        /// A regular expression in Python's syntax.
        pattern: String,
        /// The flags of Python's `re` module: a number, or a list of names.
        flags: Value = 8.into(),
        /// Accepted and ignored: the whole file is always read at once.
        bufsize: Value = 1.into(),
        /// True to ignore a missing file.
        ignore_if_missing: bool = false,
        /// True if `^` and `$` match at every line.
        multiline: bool = false,
    });
}

/// The replacement to make, and its options.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) pattern: String,
    pub(crate) repl: String,
    pub(crate) count: usize,
    pub(crate) flags: Flags,
    pub(crate) append: bool,
    pub(crate) prepend: bool,
    pub(crate) not_found_content: Option<String>,
    pub(crate) backslash_literal: bool,
    pub(crate) encoding: Option<String>,
    pub(crate) backup: Value,
    pub(crate) dry_run: bool,
}

fn replace(cx: &Exec, args: Replace) -> Result<Value, Error> {
    let adds = args.append_if_not_found || args.prepend_if_not_found;
    let path = edit::real_path(&args.path);
    if !path.exists() {
        return missing(&path, args.ignore_if_missing);
    }
    refuse_binary(&path, args.encoding.as_deref())?;
    if args.search_only && adds {
        return Err("search_only cannot be used with append/prepend_if_not_found".into());
    }
    let flags = Flags::of_value(&args.flags)?;
    if args.search_only {
        return found(&path, &args.pattern, flags).map(Value::Bool);
    }
    let wanted = Wanted {
        pattern: args.pattern,
        repl: args.repl.to_text(),
        count: usize::try_from(args.count).unwrap_or_default(),
        flags,
        append: args.append_if_not_found,
        prepend: args.prepend_if_not_found,
        not_found_content: args.not_found_content,
        backslash_literal: args.backslash_literal,
        encoding: args.encoding,
        backup: args.backup,
        dry_run: args.dry_run,
    };
    let diff = run(cx, &args.path, &wanted)?;
    Ok(if args.show_changes {
        diff.into()
    } else {
        (!diff.is_empty()).into()
    })
}

fn search(_cx: &Exec, args: Search) -> Result<Value, Error> {
    let mut flags = Flags::of_value(&args.flags)?;
    if args.multiline {
        flags = flags.with(Flags::MULTILINE);
    }
    let path = edit::real_path(&args.path);
    if !path.exists() {
        return missing(&path, args.ignore_if_missing);
    }
    refuse_binary(&path, None)?;
    found(&path, &args.pattern, flags).map(Value::Bool)
}

fn missing(path: &Path, ignore: bool) -> Result<Value, Error> {
    if ignore {
        return Ok(false.into());
    }
    Err(Error::refused(format!(
        "File not found: {}",
        path.display()
    )))
}

fn refuse_binary(path: &Path, encoding: Option<&str>) -> Result<(), Error> {
    if encoding.is_some() || fs::is_text_file(path)? {
        return Ok(());
    }
    Err(Error::refused(format!(
        "Cannot perform string replacements on a binary file: {}",
        path.display()
    )))
}

/// Returns true if a pattern is found in the bytes of a file.
pub(crate) fn found(path: &Path, pattern: &str, flags: Flags) -> Result<bool, Error> {
    let data = edit::read(path)?;
    Ok(BytesSearch::new(pattern, flags, &data)?.is_match()?)
}

/// Searches a file as `file.search` does with `multiline`. States use this function.
pub(crate) fn found_in_lines(path: &str, pattern: &str) -> Result<bool, Error> {
    let path = edit::real_path(path);
    refuse_binary(&path, None)?;
    found(&path, pattern, Flags::MULTILINE)
}

/// Replaces text in a file, and returns the diff.
pub(crate) fn run(cx: &Exec, given: &str, wanted: &Wanted) -> Result<String, Error> {
    let path = edit::real_path(given);
    refuse_binary(&path, wanted.encoding.as_deref())?;
    if wanted.append && wanted.prepend {
        return Err("Only one of append and prepend_if_not_found is permitted".into());
    }
    let old = edit::read(&path)?;
    let (old, new, diff) = match &wanted.encoding {
        Some(encoding) => in_text(encoding, old, wanted)?,
        None => {
            let new = in_bytes(&old, wanted)?;
            let diff = difflib::of_bytes(&old, &new);
            (old, new, diff)
        }
    };
    if old == new || wanted.dry_run {
        if old != new {
            fs::would_hold(cx, &path, || Ok(&new));
        }
        return Ok(diff);
    }
    if let Some(suffix) = edit::backup_suffix(&wanted.backup) {
        edit::keep_backup(cx, &path, &old, &suffix)?;
        link_backup(cx, given, &suffix)?;
    }
    fs::write(cx, &path, &new, fs::Owner::default())?;
    Ok(diff)
}

/// Creates a link to the backup if the file was reached through a symbolic link.
fn link_backup(cx: &Exec, given: &str, suffix: &str) -> Result<(), Error> {
    let given = path::expand_user(given);
    let Some(target) = fs::link_target_or_none(&given)? else {
        return Ok(());
    };
    let with_suffix = |path: &Path| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        std::path::PathBuf::from(name)
    };
    let (link, target) = (with_suffix(&given), with_suffix(&target));
    fs::replace_with_symlink(cx, &target, &link).map_err(Error::io(&link))
}

fn in_bytes(data: &[u8], wanted: &Wanted) -> Result<Vec<u8>, Error> {
    let search = BytesSearch::new(&wanted.pattern, wanted.flags, data)?;
    let (new, replaced) = search.subn(&wanted.repl, wanted.backslash_literal, wanted.count)?;
    if replaced > 0 || !(wanted.append || wanted.prepend) {
        return Ok(new);
    }
    if BytesSearch::new(&wanted.added_pattern(), wanted.flags, data)?.is_match()? {
        return Ok(new);
    }
    let line = wanted.added_line().as_bytes();
    Ok(if wanted.prepend {
        [line, b"\n", new.as_slice()].concat()
    } else if new.is_empty() || new.ends_with(b"\n") {
        [new.as_slice(), line, b"\n"].concat()
    } else {
        [new.as_slice(), b"\n", line, b"\n"].concat()
    })
}

/// Replaces text in a file with a known encoding. Returns the old bytes, the new bytes and the
/// diff.
fn in_text(
    encoding: &str,
    data: Vec<u8>,
    wanted: &Wanted,
) -> Result<(Vec<u8>, Vec<u8>, String), Error> {
    let encoding_of = Encoding::named(encoding)?;
    let old = encoding_of.decode(&data).ok_or_else(|| {
        Error::refused(format!(
            "the file is not encoded in {encoding}: set `encoding` to its encoding"
        ))
    })?;
    let new = in_str(&old, wanted)?;
    let diff = difflib::get_diff(
        &text::owned(text::split_lines(&old)),
        &text::owned(text::split_lines(&new)),
        "",
        "",
    );
    if old == new {
        return Ok((data.clone(), data, diff));
    }
    let bytes = encoding_of.encode(&new, encoding, "strict")?;
    Ok((data, bytes, diff))
}

fn in_str(data: &str, wanted: &Wanted) -> Result<String, Error> {
    let regex = Regex::new(&wanted.pattern, wanted.flags)?;
    let template = if wanted.backslash_literal {
        Template::literal(wanted.repl.clone())
    } else {
        regex.template(&wanted.repl)?
    };
    let (new, replaced) = regex.subn(&template, data, wanted.count)?;
    if replaced > 0 || !(wanted.append || wanted.prepend) {
        return Ok(new);
    }
    if Regex::new(&wanted.added_pattern(), wanted.flags)?.is_match(data)? {
        return Ok(new);
    }
    let line = wanted.added_line();
    Ok(if wanted.prepend {
        format!("{line}\n{new}")
    } else if new.is_empty() || new.ends_with('\n') {
        format!("{new}{line}\n")
    } else {
        format!("{new}\n{line}\n")
    })
}

impl Wanted {
    /// Returns the pattern of a line that an earlier run has added.
    fn added_pattern(&self) -> String {
        let given = self.not_found_content.as_deref();
        let content = given.filter(|text| !text.is_empty()).unwrap_or(&self.repl);
        format!("^{}($|(?=\r\n))", pyre::escape(content))
    }

    fn added_line(&self) -> &str {
        self.not_found_content.as_deref().unwrap_or(&self.repl)
    }
}
