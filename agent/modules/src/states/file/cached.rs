//! `file.cached` and `file.not_cached`.

use std::path::Path;

use machine::fs;
use machine::hashes;
use python::path;
use state::exec::Exec;
use state::facts::Effects;
use state::module::{Error, Ret};
use value::{Map, Value};

use super::gate;
use crate::exec::file::source::{self as sums, Sum};
use crate::exec::gpg::verify::{Signed, Signers};
use crate::fileserver::fetch::{self, How, Url, redacted};

state::state_module! {
    /// Operations on regular files, special files, directories, and symlinks.
    #[facts(effects = Effects::Trees(&["name"]))]
    mod file;

    /// Fetch a file into the cache.
    ///
    ///     https://example.com/app.tar.gz:
    ///       file.cached:
    ///         - skip_verify: True
    fn cached(Cached {
        /// The URL or path.
        name: String,
        /// The hash of the file, in the forms that `file.managed` accepts.
        source_hash: Value = "".into(),
        /// The name to look up in the file of hashes.
        source_hash_name: Option<String> = None,
        /// True to accept a file from the web without a hash.
        skip_verify: bool = false,
        /// The environment.
        saltenv: String = "base".into(),
        /// True to fetch a file from the web again when its ETag has changed.
        use_etag: bool = false,
        /// A signature of the file of hashes: its address, or `True` if it is in the file itself.
        source_hash_sig: Value = Value::Null,
        #[group] signers: Signers,
    });

    /// Remove a file from the cache.
    ///
    ///     https://example.com/app.tar.gz:
    ///       file.not_cached
    fn not_cached(NotCached {
        /// The URL or path.
        name: String,
        /// The environment.
        saltenv: String = "base".into(),
    });
}

fn cached(cx: &Exec, args: Cached) -> Result<Ret, Error> {
    let name = &args.name;
    let parts = Url::parse(name);
    if !args.skip_verify && !args.source_hash.is_true() && !args.use_etag && parts.is_remote() {
        return Err(format!(
            "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify or use_etag to True",
            redacted(name)
        )
        .into());
    }
    let sum = if args.source_hash.is_true() {
        let asked = sums::SourceHash {
            file_name: "",
            source: name,
            hash: &args.source_hash,
            name: args.source_hash_name.as_deref(),
            saltenv: &args.saltenv,
            verify_ssl: true,
            signed: Signed::by(&args.source_hash_sig, &args.signers),
        };
        Some(sums::sum(cx, asked)?)
    } else {
        None
    };
    gate(
        cx,
        || Ok(Ret::would(would(cx, &args, sum.as_ref())?)),
        || {
            if parts.is_local() {
                local(cx, &parts, &args, sum.as_ref())
            } else {
                fetched(cx, &args, sum.as_ref())
            }
        },
    )
}

fn hash_type(cx: &Exec, sum: Option<&Sum>) -> String {
    let own = cx.opts().text("hash_type").unwrap_or("sha256");
    sum.map_or(own, |sum| &sum.kind).to_owned()
}

fn would(cx: &Exec, args: &Cached, sum: Option<&Sum>) -> Result<String, Error> {
    let name = &args.name;
    let Some(copy) = fetch::is_cached(cx, name, &args.saltenv) else {
        return Ok(format!("File will be cached: {name}"));
    };
    let Some(sum) = sum else {
        return Ok(format!("No hash found. File will be cached: {name}"));
    };
    if hashes::of_file(&copy, &hash_type(cx, None))? == sum.hash {
        Ok(format!("File already cached: {name}"))
    } else {
        Ok(format!("Hashes don't match.\nFile will be cached: {name}"))
    }
}

fn local(cx: &Exec, parts: &Url, args: &Cached, sum: Option<&Sum>) -> Result<Ret, Error> {
    let path = path::realpath(&path::expanduser(&parts.path));
    if !path::exists(&path) {
        return Err(format!("File {path} is not present on the minion").into());
    }
    let Some(sum) = sum.filter(|_| !args.skip_verify) else {
        return Ok(Ret::ok(format!("File {path} is present on the minion")));
    };
    let hash = hashes::of_file(&path, &hash_type(cx, Some(sum)))?;
    if hash == sum.hash {
        return Ok(Ret::ok(format!(
            "File {path} is present on the minion and has hash {hash}"
        )));
    }
    Err(format!(
        "File {path} is present on the minion, but the hash ({hash}) does not match the specified hash ({})",
        sum.hash
    )
    .into())
}

fn fetched(cx: &Exec, args: &Cached, sum: Option<&Sum>) -> Result<Ret, Error> {
    let name = &args.name;
    let kind = hash_type(cx, sum);
    let before = fetch::is_cached(cx, name, &args.saltenv);
    let before = before.and_then(|copy| hashes::of_file(&copy, &kind).ok());
    let how = How {
        hash: sum.map(|sum| sum.hash.as_str()),
        use_etag: args.use_etag,
        ..How::default()
    };
    let copy = fetch::in_cache(cx, name, &args.saltenv, how)?;
    let Some(copy) = copy else {
        let name = redacted(name);
        return Err(
            format!("Failed to cache {name}, check minion log for more information").into(),
        );
    };
    let after = hashes::of_file(&copy, &kind)?;
    let mut changes = Map::new();
    if before.as_ref() != Some(&after) {
        let hash = Map::new().with("old", before).with("new", after.as_str());
        changes.insert("hash", hash);
    }
    let ret = match sum.filter(|_| !args.skip_verify) {
        None => Ret::ok(format!("File is cached to {copy}")),
        Some(sum) if sum.hash == after => Ret::ok(format!(
            "File is already cached to {copy} with hash {after}"
        )),
        Some(sum) => Ret::failed(format!(
            "File is cached to {copy}, but the hash ({after}) does not match the specified hash ({})",
            sum.hash
        )),
    };
    Ok(ret.changes(changes))
}

fn not_cached(cx: &Exec, args: NotCached) -> Result<Ret, Error> {
    let name = &args.name;
    let parts = Url::parse(name);
    if parts.is_local() {
        let path = path::realpath(&path::expanduser(&parts.path));
        return Ok(Ret::ok(format!(
            "File {path} is a local path, no action taken"
        )));
    }
    let Some(copy) = fetch::is_cached(cx, name, &args.saltenv) else {
        return Ok(Ret::ok(format!("{name} is not cached")));
    };
    let would = Ret::would(format!("{copy} is set to be deleted")).change("deleted", true);
    cx.apply(would, || {
        fs::remove(cx, Path::new(&copy))
            .map_err(|error| Error::refused(format!("Failed to delete {copy}: {error}")))?;
        Ok(Ret::ok(format!("{copy} was deleted")).change("deleted", true))
    })
}
