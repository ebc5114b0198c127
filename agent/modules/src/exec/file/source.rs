//! Selects one of several sources, and determines its expected hash.

use fancy_regex::Regex;
use machine::hashes;
use python::path;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use crate::exec::gpg::verify::{Signed, Signers};
use crate::fileserver::fetch;
use crate::fileserver::fetch::{How, Url, redacted};

state::exec_module! {
    /// Find the source of a managed file and its hash.
    mod file;

    /// Return the first source that exists, with its hash.
    ///
    ///     salt-call file.source_list salt://motd '' base
    fn source_list(SourceList {
        /// A source or a list of sources. An item `source: hash` contains its own hash.
        source: Value,
        /// The hash of the sources that have no own hash.
        source_hash: Value,
        /// The Salt environment.
        saltenv: String,
    });

    /// Return the hash and its type from a `source_hash` argument in any form.
    ///
    ///     salt-call file.get_source_sum /srv/app.tar.gz https://example.com/app.tar.gz source_hash=https://example.com/app.sha256
    fn get_source_sum(GetSourceSum {
        /// The path of the managed file. The hash file may contain its name.
        file_name: String = String::new(),
        /// The source. The hash file may contain its name.
        source: String = String::new(),
        /// The hash: a hash, `type=hash`, or the path or URL of a hash file.
        source_hash: Value = Value::Null,
        /// The name of the source in the hash file.
        source_hash_name: Option<String> = None,
        /// The Salt environment.
        saltenv: String = "base".into(),
        /// True to verify the TLS certificate of the server with the hash file.
        verify_ssl: bool = true,
        /// The signature of the hash file: True if the file itself contains it, or the URL of the
        /// signature.
        source_hash_sig: Value = Value::Null,
        #[group] signers: Signers,
    });

    /// Find a hash in a hash file.
    ///
    ///     salt-call file.extract_hash /srv/app.sha256 sha256 app.tar.gz
    fn extract_hash(ExtractHash {
        /// The path of the hash file.
        hash_fn: String,
        /// The type of hash to look for. Empty to accept any type.
        hash_type: String = "sha256".into(),
        /// The path of the managed file.
        file_name: String = String::new(),
        /// The source of the managed file.
        source: String = String::new(),
        /// The name of the source in the hash file.
        source_hash_name: Option<String> = None,
    });

    /// Return the hash of a file, or a message if the file does not exist.
    ///
    ///     salt-call file.get_sum /etc/hosts
    fn get_sum(GetSum {
        /// The path of the file.
        path: String,
        /// The type of hash.
        form: String = "sha256".into(),
    });

    /// Return the hash of a file.
    ///
    ///     salt-call file.get_hash /etc/hosts sha256
    fn get_hash(GetHash {
        /// The path of the file.
        path: String,
        /// The type of hash.
        form: String = "sha256".into(),
        /// Accepted and ignored: the function chooses its own buffer size.
        chunk_size: i64 = 65536,
    });

    /// Return whether a file has a hash.
    ///
    ///     salt-call file.check_hash /etc/hosts md5:d41d8cd98f00b204e9800998ecf8427e
    fn check_hash(CheckHash {
        /// The path of the file.
        path: String,
        /// The expected hash: `type:hash`, `type=hash` or a hash.
        file_hash: Value,
    });
}

/// A hash and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    /// The type of hash.
    pub(crate) kind: String,
    /// The hash, in lower case.
    pub(crate) hash: String,
}

impl Sum {
    fn to_map(&self) -> Map {
        Map::new()
            .with("hsum", self.hash.as_str())
            .with("hash_type", self.kind.as_str())
    }
}

/// Returns the first source that exists, with its hash. A single source is returned without a
/// check.
pub(crate) fn first(
    cx: &Exec,
    source: &Value,
    source_hash: &Value,
    saltenv: &str,
) -> Result<(Value, Value), Error> {
    let Some(sources) = source.as_list() else {
        return Ok((source.clone(), source_hash.clone()));
    };
    for single in sources {
        let (name, hash) = match single {
            Value::Map(map) if map.len() != 1 => continue,
            Value::Map(map) => match map.first() {
                Some((name, hash)) if hash.is_true() => (name, hash),
                Some((name, _)) => (name, source_hash),
                None => continue,
            },
            other => (other, source_hash),
        };
        let text = name.as_str().unwrap_or_default();
        if exists(cx, text, saltenv)? {
            return Ok((name.clone(), hash.clone()));
        }
    }
    Err("none of the specified sources were found".into())
}

fn exists(cx: &Exec, url: &str, saltenv: &str) -> Result<bool, Error> {
    let parts = Url::parse(url);
    Ok(match parts.scheme.as_str() {
        "salt" => {
            fetch::salt_file(cx, url, saltenv)?.is_some()
                || crate::exec::cp::is_dir(cx, url, saltenv)?
        }
        "http" | "https" => fetch::answers(cx, url),
        "file" => path::exists(&parts.local_path()),
        _ => path::isabs(url) && path::exists(url),
    })
}

fn invalid(source_hash: &str) -> Error {
    let mut known = hashes::TYPES.to_vec();
    value::sorted::sort_by_key(&mut known, |kind| kind.1);
    let known: Vec<String> = known
        .iter()
        .map(|(kind, length)| format!("{kind} ({length})"))
        .collect();
    format!(
        "Source hash {} format is invalid. The supported formats are: 1) a hash, 2) an expression in the format \
         <hash_type>=<hash>, or 3) either a path to a local file containing hashes, or a URI of a remote hash file. \
         Supported protocols for remote hash files are: salt, file, http, https, ftp, swift, s3. The hash may also \
         not be of a valid length, the following are supported hash types and lengths: {}.",
        redacted(source_hash),
        known.join(", ")
    )
    .into()
}

/// A `source_hash` argument with its context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceHash<'a> {
    /// The path of the managed file. The hash file may contain its name.
    pub(crate) file_name: &'a str,
    /// The source. The hash file may contain its name.
    pub(crate) source: &'a str,
    /// The value of the argument.
    pub(crate) hash: &'a Value,
    /// The name of the source in the hash file.
    pub(crate) name: Option<&'a str>,
    /// The Salt environment.
    pub(crate) saltenv: &'a str,
    /// True to verify the TLS certificate of the server with the hash file.
    pub(crate) verify_ssl: bool,
    /// The required signature of the hash file, if any.
    pub(crate) signed: Option<Signed<'a>>,
}

/// Returns the hash from a `source_hash` argument in any form.
pub(crate) fn sum(cx: &Exec, argument: SourceHash<'_>) -> Result<Sum, Error> {
    let text = argument.hash.to_text();
    let parts = Url::parse(&text);
    let file = if path::isabs(&text) {
        Some(text.clone())
    } else if parts.scheme == "salt" || parts.scheme == "file" || parts.is_remote() {
        let how = How {
            verify_ssl: argument.verify_ssl,
            ..How::default()
        };
        let found = fetch::cached(cx, &text, argument.saltenv, how)?;
        let missing = || Error::refused(format!("Source hash file {} not found", redacted(&text)));
        let found = found.ok_or_else(missing)?;
        if let Some(signed) = argument.signed {
            signed.check(cx, (&text, &found), (argument.saltenv, argument.verify_ssl))?;
        }
        Some(found)
    } else if parts.scheme.is_empty() {
        None
    } else {
        return Err(invalid(&text));
    };
    match file {
        Some(file) => {
            let (file_name, source) = (argument.file_name, argument.source);
            extract(&file, "", file_name, source, argument.name)?.ok_or_else(|| invalid(&text))
        }
        None => written(&text),
    }
}

/// Parses a hash in a state: `type=hash` or a hash.
fn written(text: &str) -> Result<Sum, Error> {
    let (kind, hash) = match text.split_once('=') {
        Some((kind, hash)) => (kind.trim(), hash.trim()),
        None => {
            let hexadecimal = !text.is_empty() && text.chars().all(|c| c.is_ascii_hexdigit());
            let kind = hashes::of_length(text.len()).filter(|_| hexadecimal);
            (kind.ok_or_else(|| invalid(text))?, text)
        }
    };
    let Some(length) = hashes::length(kind) else {
        let known: Vec<&str> = hashes::TYPES.iter().map(|known| known.0).collect();
        return Err(format!(
            "Invalid hash type '{kind}'. Supported hash types are: {}. Either remove the hash type and simply use \
             '{hash}' as the source_hash, or change the hash type to a supported type.",
            known.join(", ")
        )
        .into());
    };
    let Some(fitting) = hashes::of_length(hash.len()) else {
        return Err(invalid(text));
    };
    if hash.len() != length {
        return Err(format!(
            "Invalid length ({}) for hash type '{kind}'. Either remove the hash type and simply use '{hash}' as the \
             source_hash, or change the hash type to '{fitting}'",
            hash.len()
        )
        .into());
    }
    Ok(Sum {
        kind: kind.to_owned(),
        hash: hash.to_ascii_lowercase(),
    })
}

/// Finds a hash in a hash file by `source_hash_name`, by the name of the file or by the name of the
/// source. Otherwise returns the first hash.
fn extract(
    hash_file: &str,
    hash_type: &str,
    file_name: &str,
    source: &str,
    source_hash_name: Option<&str>,
) -> Result<Option<Sum>, Error> {
    let text = machine::fs::read(hash_file)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let digits = hashes::length(hash_type).map_or_else(|| "32,128".into(), |len| len.to_string());
    let pattern = format!("(?i)(?<![a-z0-9])([a-f0-9]{{{digits}}})(?![a-z0-9])");
    let pattern = Regex::new(&pattern).map_err(|error| Error::refused(error.to_string()))?;
    let parts = Url::parse(source);
    let path = if parts.path.is_empty() {
        &parts.netloc
    } else {
        &parts.path
    };
    let separators = " \t\n\r\u{b}\u{c}\\/*";
    let wanted = [
        (
            source_hash_name.unwrap_or_default(),
            "",
            " \t\n\r\u{b}\u{c}",
        ),
        (path::basename(file_name), file_name, separators),
        (path::basename(path), source, separators),
    ];
    let mut found: [Option<Sum>; 3] = [None, None, None];
    let mut partial = None;
    for line in text.lines().map(str::trim) {
        let Some(sum) = hash_in(&pattern, line) else {
            continue;
        };
        partial.get_or_insert_with(|| sum.clone());
        for (place, (base, full, before)) in found.iter_mut().zip(wanted) {
            if place.is_none() && !base.is_empty() && names(line, base, full, before) {
                *place = Some(sum.clone());
            }
        }
    }
    Ok(found.into_iter().flatten().next().or(partial))
}

fn hash_in(pattern: &Regex, line: &str) -> Option<Sum> {
    let found = pattern.captures(line).ok()??.get(1)?.as_str();
    Some(Sum {
        kind: hashes::of_length(found.len())?.to_owned(),
        hash: found.to_ascii_lowercase(),
    })
}

/// Returns true if a line ends with a name that is a separate word, or begins with it.
fn names(line: &str, base: &str, full: &str, before: &str) -> bool {
    if let Some(rest) = line.strip_suffix(base) {
        return rest.chars().next_back().is_some_and(|c| before.contains(c));
    }
    let full = if full.is_empty() { base } else { full };
    line.strip_prefix(full)
        .is_some_and(|rest| rest.starts_with(char::is_whitespace))
}

fn source_list(cx: &Exec, args: SourceList) -> Result<Value, Error> {
    let (source, hash) = first(cx, &args.source, &args.source_hash, &args.saltenv)?;
    Ok(Value::list([source, hash]))
}

fn get_source_sum(cx: &Exec, args: GetSourceSum) -> Result<Value, Error> {
    let argument = SourceHash {
        file_name: &args.file_name,
        source: &args.source,
        hash: &args.source_hash,
        name: args.source_hash_name.as_deref(),
        saltenv: &args.saltenv,
        verify_ssl: args.verify_ssl,
        signed: Signed::by(&args.source_hash_sig, &args.signers),
    };
    let found = sum(cx, argument)?;
    Ok(found.to_map().into())
}

fn extract_hash(_cx: &Exec, args: ExtractHash) -> Result<Value, Error> {
    let found = extract(
        &args.hash_fn,
        &args.hash_type,
        &args.file_name,
        &args.source,
        args.source_hash_name.as_deref(),
    )?;
    Ok(found.map(|sum| sum.to_map()).into())
}

fn get_sum(_cx: &Exec, args: GetSum) -> Result<Value, Error> {
    let path = path::expanduser(&args.path);
    if path::isfile(&path) {
        Ok(hashes::of_file(&path, &args.form)?.into())
    } else {
        Ok("File not found".into())
    }
}

fn get_hash(_cx: &Exec, args: GetHash) -> Result<Value, Error> {
    Ok(hashes::of_file(&path::expanduser(&args.path), &args.form)?.into())
}

fn check_hash(_cx: &Exec, args: CheckHash) -> Result<Value, Error> {
    let Some(text) = args.file_hash.as_str() else {
        return Err("hash must be a string".into());
    };
    let (kind, hash) = match text.split_once(':').or_else(|| text.split_once('=')) {
        Some(both) => both,
        None => {
            let unknown = || {
                let mut known = hashes::TYPES.to_vec();
                value::sorted::sort_by_key(&mut known, |kind| kind.1);
                let known: Vec<String> = known.iter().map(|(k, n)| format!("{k} ({n})")).collect();
                Error::refused(format!(
                    "Hash {text} (length: {}) could not be matched to a supported hash type. The supported hash \
                     types and lengths are: {}",
                    text.len(),
                    known.join(", ")
                ))
            };
            (hashes::of_length(text.len()).ok_or_else(unknown)?, text)
        }
    };
    let path = path::expanduser(&args.path);
    Ok((hashes::of_file(&path, kind)? == hash).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_found_by_the_name_beside_it() -> Result<(), Error> {
        let folder = tempfile::tempdir().map_err(Error::io("tempdir"))?;
        let file = folder.path().join("SUMS");
        let (a, b) = ("a".repeat(32), "b".repeat(32));
        std::fs::write(&file, format!("{a}  other.tar\n{b} *x.tar\n")).map_err(Error::io(&file))?;
        let file = file.to_string_lossy();
        let found = |name: &str, source: &str, hash_name: Option<&str>| {
            extract(&file, "", name, source, hash_name).map(|sum| sum.map(|sum| sum.hash))
        };
        assert_eq!(found("/tmp/x.tar", "", None)?, Some(b.clone()));
        assert_eq!(found("/tmp/y", "http://h/x.tar", None)?, Some(b));
        assert_eq!(found("/tmp/y", "", None)?, Some(a.clone()));
        assert_eq!(found("/x.tar", "", Some("other.tar"))?, Some(a));
        Ok(())
    }

    #[test]
    fn written_hashes_must_fit_their_type() {
        assert!(written(&"a".repeat(32)).is_ok());
        assert!(
            written(&format!("md5={}", "A".repeat(32))).is_ok_and(|sum| sum.hash == "a".repeat(32))
        );
        assert!(written(&format!("sha1={}", "a".repeat(32))).is_err());
        assert!(written("xyz").is_err());
    }
}
