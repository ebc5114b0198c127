//! The `archive` execution module: packs and unpacks tar, zip and rar archives with the programs of
//! this machine.

mod contents;
mod zipped;

use machine::process::{Output, Process, which};
use python::{path, shlex};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::file::paths::globbed;
use crate::fileserver::fetch::{self, How};

pub(crate) use contents::{Contents, Kind, guessed, untar};
pub(crate) use zipped::unzipped;

state::exec_module! {
    /// Pack and unpack archives.
    mod archive;

    /// Return the contents of an archive.
    ///
    ///     salt-call archive.list /srv/app.tar.gz
    fn list(List {
        /// The location of the archive: a path, a `salt://` URL or another URL.
        name: String,
        /// The format: `tar`, `zip` or `rar`. By default, the name of the archive decides.
        archive_format: Value = Value::Null,
        /// The command that decompresses the archive to its standard output, for a tar archive with
        /// an unusual compression.
        options: Option<String> = None,
        /// The number of leading path components to remove from the names.
        strip_components: Value = Value::Null,
        /// True to remove the cached archive afterwards.
        clean: bool = false,
        /// True to list folders, files and links separately.
        verbose: bool = false,
        /// The Salt environment.
        saltenv: String = "base".into(),
        /// The hash of the cached archive. An archive with this hash is not fetched again.
        source_hash: Option<String> = None,
        /// True to check with the server, by its ETag, whether the cached copy is current.
        use_etag: bool = false,
    });

    /// Run tar.
    ///
    ///     salt-call archive.tar czf /srv/app.tar.gz /opt/app
    fn tar(Tar {
        /// The options of tar, such as `xzf`.
        options: String,
        /// The path of the archive.
        tarfile: String,
        /// The files to pack or unpack: a list, or names separated by commas. Globs are expanded.
        sources: Value = Value::Null,
        /// The folder to work in, passed to tar with `-C`.
        dest: Value = Value::Null,
        /// The folder in which tar starts.
        cwd: Value = Value::Null,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The user who runs the program.
        runas: Value = Value::Null,
    });

    /// Run gzip.
    ///
    ///     salt-call archive.gzip /srv/dump.sql
    fn gzip(Gzip {
        /// The path of the file to compress.
        sourcefile: String,
        /// Accepted and ignored: there is nothing to render.
        template: Value = Value::Null,
        /// The user who runs the program.
        runas: Value = Value::Null,
        /// An option of gzip.
        options: Option<String> = None,
    });

    /// Run gunzip.
    ///
    ///     salt-call archive.gunzip /srv/dump.sql.gz
    fn gunzip(Gunzip {
        /// The path of the file to decompress.
        gzipfile: String,
        /// Accepted and ignored: there is nothing to render.
        template: Value = Value::Null,
        /// The user who runs the program.
        runas: Value = Value::Null,
        /// An option of gunzip.
        options: Option<String> = None,
    });

    /// Run zip.
    ///
    ///     salt-call archive.cmd_zip /srv/app.zip /opt/app
    fn cmd_zip(CmdZip {
        /// The path of the archive.
        zip_file: String,
        /// The files to pack: a list, or names separated by commas. Globs are expanded.
        sources: Value,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The folder to work in.
        cwd: Value = Value::Null,
        /// The user who runs the program.
        runas: Value = Value::Null,
    });

    /// Create a zip archive and return the names of the packed files.
    ///
    ///     salt-call archive.zip /srv/app.zip /opt/app
    fn zip(Zip {
        /// The path of the archive.
        zip_file: String,
        /// The files to pack. The paths must be absolute unless `cwd` is given.
        sources: Value,
        /// The template engine that renders the paths.
        template: Value = Value::Null,
        /// The folder to work in.
        cwd: Option<String> = None,
        /// The user who runs the program.
        runas: Value = Value::Null,
        /// Accepted and ignored: zip switches to the large format by itself when it is needed.
        zip64: bool = false,
    });

    /// Run unzip.
    ///
    ///     salt-call archive.cmd_unzip /srv/app.zip /opt/app
    fn cmd_unzip(CmdUnzip {
        /// The path of the archive.
        zip_file: String,
        /// The folder to unpack to.
        dest: String,
        /// The names to exclude: a list, or names separated by commas.
        excludes: Value = Value::Null,
        /// The options of unzip.
        options: Option<String> = None,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The user who runs the program.
        runas: Value = Value::Null,
        /// The maximum number of lines to return; True means 100. All by default.
        trim_output: Value = false.into(),
        /// The password of the archive.
        password: Value = Value::Null,
    });

    /// Unpack a zip archive and return the names of its members.
    ///
    ///     salt-call archive.unzip /srv/app.zip /opt/app
    fn unzip(Unzip {
        /// The path of the archive.
        zip_file: String,
        /// The folder to unpack to.
        dest: String,
        /// The names to exclude: a list, or names separated by commas.
        excludes: Value = Value::Null,
        /// Accepted and ignored, as in Salt.
        options: Value = Value::Null,
        /// The template engine that renders the paths.
        template: Value = Value::Null,
        /// The user who runs the program.
        runas: Value = Value::Null,
        /// The maximum number of names to return; True means 100. All by default.
        trim_output: Value = false.into(),
        /// The password of the archive.
        password: Value = Value::Null,
        /// True to give the files the modes that are stored in the archive.
        extract_perms: bool = true,
    });

    /// Return True if a zip archive needs a password.
    ///
    ///     salt-call archive.is_encrypted /srv/app.zip
    fn is_encrypted(IsEncrypted {
        /// The location of the archive: a path, a `salt://` URL or another URL.
        name: String,
        /// True to remove the cached archive afterwards.
        clean: bool = false,
        /// The Salt environment.
        saltenv: String = "base".into(),
        /// The hash of the cached archive. An archive with this hash is not fetched again.
        source_hash: Option<String> = None,
        /// True to check with the server, by its ETag, whether the cached copy is current.
        use_etag: bool = false,
    });

    /// Run rar to pack files.
    ///
    ///     salt-call archive.rar /srv/app.rar /opt/app
    fn rar(Rar {
        /// The path of the archive.
        rarfile: String,
        /// The files to pack: a list, or names separated by commas. Globs are expanded.
        sources: Value,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The folder to work in.
        cwd: Value = Value::Null,
        /// The user who runs the program.
        runas: Value = Value::Null,
    });

    /// Run unrar, or rar, to unpack an archive.
    ///
    ///     salt-call archive.unrar /srv/app.rar /opt/app
    fn unrar(Unrar {
        /// The path of the archive.
        rarfile: String,
        /// The folder to unpack to.
        dest: String,
        /// The names to exclude: a list, or names separated by commas.
        excludes: Value = Value::Null,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The user who runs the program.
        runas: Value = Value::Null,
        /// The maximum number of lines to return; True means 100. All by default.
        trim_output: Value = false.into(),
    });
}

/// Returns an error if a program is not installed.
pub(crate) fn needs(program: &str) -> Result<(), Error> {
    if which(program).is_some() {
        Ok(())
    } else {
        Err(format!("The '{program}' binary was not found in $PATH.").into())
    }
}

/// Returns the environment in which programs print file names unchanged.
pub(crate) fn plain_names() -> Map {
    Map::new().with("LC_ALL", "C.UTF-8")
}

fn items(given: &Value) -> Vec<String> {
    match given {
        Value::Null => Vec::new(),
        Value::Str(text) => text.split(',').map(|name| name.trim().to_owned()).collect(),
        Value::List(items) | Value::Tuple(items) => items.iter().map(Value::to_text).collect(),
        other => vec![other.to_text()],
    }
}

/// Expands the globs in names. A name without wildcards is kept, even if no such file exists.
fn expanded(sources: &Value) -> Vec<String> {
    let wild = |name: &String| name.contains(['*', '?', '[']);
    items(sources)
        .into_iter()
        .flat_map(|name| {
            if wild(&name) {
                globbed(&name)
            } else {
                vec![name]
            }
        })
        .collect()
}

/// Returns the lines of a text as a list.
fn lines(text: &str) -> Value {
    Value::list(text.lines().map(Value::from))
}

/// Runs a program as `cmd.run` does: a non-zero return code becomes the exit code of the call.
fn ran(cx: &Exec, words: Vec<String>, options: [(&str, Value); 3]) -> Result<Value, Error> {
    needs(words.first().map_or("", String::as_str))?;
    let options: Map = options.into_iter().collect();
    let options = options
        .with("python_shell", false)
        .with("redirect_stderr", true);
    let result = super::cmd::run_all_with(cx, &words.into(), &options)?;
    Ok(lines(
        result
            .get("stdout")
            .and_then(Value::as_str)
            .unwrap_or_default(),
    ))
}

fn around(template: Value, cwd: Value, runas: Value) -> [(&'static str, Value); 3] {
    [("template", template), ("cwd", cwd), ("runas", runas)]
}

fn tar(cx: &Exec, args: Tar) -> Result<Value, Error> {
    if args.options.is_empty() {
        return Err("Tar options can not be empty".into());
    }
    let mut words = vec!["tar".to_owned()];
    words.extend(args.options.split_whitespace().map(str::to_owned));
    words.push(args.tarfile);
    // The option precedes the names because tar applies `-C` only to the names after it.
    if args.dest.is_true() {
        words.extend(["-C".to_owned(), args.dest.to_text()]);
    }
    words.extend(expanded(&args.sources));
    ran(cx, words, around(args.template, args.cwd, args.runas))
}

/// Runs gzip or gunzip with an option and a file.
fn packer(
    cx: &Exec,
    program: &str,
    options: Option<String>,
    file: String,
    runas: Value,
) -> Result<Value, Error> {
    let mut words = vec![program.to_owned()];
    words.extend(options.filter(|options| !options.is_empty()));
    words.push(file);
    ran(cx, words, around(Value::Null, Value::Null, runas))
}

fn gzip(cx: &Exec, args: Gzip) -> Result<Value, Error> {
    packer(cx, "gzip", args.options, args.sourcefile, args.runas)
}

fn gunzip(cx: &Exec, args: Gunzip) -> Result<Value, Error> {
    packer(cx, "gunzip", args.options, args.gzipfile, args.runas)
}

fn cmd_zip(cx: &Exec, args: CmdZip) -> Result<Value, Error> {
    let mut words: Vec<String> = vec!["zip".into(), "-r".into(), args.zip_file];
    words.extend(expanded(&args.sources));
    ran(cx, words, around(args.template, args.cwd, args.runas))
}

fn rar(cx: &Exec, args: Rar) -> Result<Value, Error> {
    let mut words: Vec<String> = vec!["rar".into(), "a".into(), "-idp".into(), args.rarfile];
    words.extend(expanded(&args.sources));
    ran(cx, words, around(args.template, args.cwd, args.runas))
}

fn zip(cx: &Exec, args: Zip) -> Result<Value, Error> {
    needs("zip")?;
    let zip_file = rendered(cx, args.zip_file, &args.template)?;
    let sources = match &args.sources {
        Value::Str(text) => rendered(cx, text.to_string(), &args.template)?.into(),
        other => other.clone(),
    };
    let sources = expanded(&sources);
    match &args.cwd {
        None if !sources.iter().all(|source| path::isabs(source)) => {
            return Err("Relative paths require the 'cwd' parameter".into());
        }
        Some(cwd) if !path::isabs(cwd) => return Err("cwd must be absolute".into()),
        _ => {}
    }
    let cwd = args.cwd.as_deref().unwrap_or("/");
    let names = zipped::to_pack(&sources, cwd)?;
    zipped::zip(cx, &zip_file, cwd, &names, &args.runas)?;
    Ok(Value::list(names.into_iter().map(Value::from)))
}

/// Returns a path, rendered first if a template engine is given.
fn rendered(cx: &Exec, path: String, template: &Value) -> Result<String, Error> {
    if !template.is_true() {
        return Ok(path);
    }
    super::cmd::rendered(cx, &path, &template.to_text(), &Map::new())
}

fn cmd_unzip(cx: &Exec, args: CmdUnzip) -> Result<Value, Error> {
    let options = shlex::split(args.options.as_deref().unwrap_or_default())?;
    let job = Unpack {
        file: args.zip_file,
        dest: args.dest,
        excludes: items(&args.excludes),
        password: args.password.is_true().then(|| args.password.to_text()),
        runas: args.runas.as_str().map(str::to_owned),
    };
    let files = job.unzip(cx, options)?;
    Ok(trimmed(files, &args.trim_output))
}

/// An archive to unpack with unzip.
pub(crate) struct Unpack {
    pub(crate) file: String,
    pub(crate) dest: String,
    pub(crate) excludes: Vec<String>,
    pub(crate) password: Option<String>,
    pub(crate) runas: Option<String>,
}

impl Unpack {
    /// Runs unzip with additional options, and returns the lines of its output.
    pub(crate) fn unzip(&self, cx: &Exec, options: Vec<String>) -> Result<Vec<String>, Error> {
        needs("unzip")?;
        let mut words = vec!["unzip".to_owned()];
        if let Some(password) = &self.password {
            words.extend(["-P".to_owned(), password.clone()]);
        }
        words.extend(options);
        words.extend([self.file.clone(), "-d".into(), self.dest.clone()]);
        if !self.excludes.is_empty() {
            words.push("-x".into());
            words.extend(self.excludes.iter().cloned());
        }
        let mut process = Process::words(words);
        process.env = plain_names();
        process.runas = self.runas.clone();
        process.stderr = machine::process::Stderr::Merged;
        // Without input, unzip fails instead of asking the terminal for a password.
        process.stdin = Some(String::new());
        if self.password.is_some() {
            process = process.quiet();
        }
        let done = process.run(cx)?;
        check_success(&done)?;
        Ok(done
            .stdout_regardless()
            .lines()
            .map(str::to_owned)
            .collect())
    }
}

/// Returns an error with the output of a program that failed. With `-q`, unzip prints nothing about
/// a wrong password, so its exit status decides.
fn check_success(done: &Output) -> Result<(), Error> {
    match done.retcode {
        Some(0) => Ok(()),
        // unzip exits with 1 instead of 82 if it has at least created the folders.
        Some(code @ (1 | 82)) if done.stdout_regardless().is_empty() => {
            Err(format!("the password is wrong (exit status {code})").into())
        }
        code if done.stdout_regardless().is_empty() => {
            Err(format!("the program failed with exit status {}", code.unwrap_or(-1)).into())
        }
        _ => Err(Error::refused(done.stdout_regardless().to_owned())),
    }
}

fn unzip(cx: &Exec, args: Unzip) -> Result<Value, Error> {
    let job = Unpack {
        file: rendered(cx, args.zip_file, &args.template)?,
        dest: rendered(cx, args.dest, &args.template)?,
        excludes: items(&args.excludes),
        password: args.password.is_true().then(|| args.password.to_text()),
        runas: args.runas.as_str().map(str::to_owned),
    };
    let names = unzipped(cx, &job, args.extract_perms).map_err(|error| {
        Error::refused(format!("Exception encountered unpacking zipfile: {error}"))
    })?;
    Ok(trimmed(names, &args.trim_output))
}

fn unrar(cx: &Exec, args: Unrar) -> Result<Value, Error> {
    let program = ["unrar", "rar"]
        .into_iter()
        .find(|name| which(name).is_some());
    let Some(program) = program else {
        let quoted = "[\"'unrar'\", \"'rar'\"]";
        return Err(format!("None of provided binaries({quoted}) were found in $PATH.").into());
    };
    let mut words: Vec<String> = vec![program.into(), "x".into(), "-idp".into(), args.rarfile];
    for exclude in items(&args.excludes) {
        words.extend(["-x".to_owned(), exclude]);
    }
    words.push(args.dest);
    let said = ran(cx, words, around(args.template, Value::Null, args.runas))?;
    let said = said
        .as_list()
        .unwrap_or_default()
        .iter()
        .map(Value::to_text);
    Ok(trimmed(said.collect(), &args.trim_output))
}

/// Returns the list, cut after the given number of names. A last line then names that number.
pub(crate) fn trimmed(mut files: Vec<String>, trim: &Value) -> Value {
    let count = match trim {
        Value::Bool(true) => 100,
        other => other
            .as_int()
            .and_then(|count| usize::try_from(count).ok())
            .unwrap_or(0),
    };
    if trim.is_true() && files.len() > count {
        files.truncate(count);
        files.push(format!("List trimmed after {count} files."));
    }
    files.into()
}

/// Returns the path of an archive on this machine. Fetches the archive if it is remote.
fn fetched(cx: &Exec, name: &str, saltenv: &str, how: How<'_>) -> Result<String, Error> {
    let cached = fetch::cached(cx, name, saltenv, how)?.filter(|path| path::exists(path));
    cached.ok_or_else(|| Error::refused(format!("Failed to cache {name}")))
}

/// Removes an archive if it is in the cache. Any other archive is kept, whereas Salt removes even a
/// local archive.
fn cleaned(cx: &Exec, cached: &str) {
    let path = std::path::Path::new(cached);
    if path.starts_with(cx.opts().cachedir())
        && let Err(error) = machine::fs::remove(cx, path)
    {
        value::log::warning(format_args!(
            "Failed to clean cached archive {cached}: {error}"
        ));
    }
}

fn list(cx: &Exec, args: List) -> Result<Value, Error> {
    let how = How {
        hash: args.source_hash.as_deref(),
        use_etag: args.use_etag,
        ..How::default()
    };
    let cached = fetched(cx, &args.name, &args.saltenv, how)?;
    let strip = stripped(&args.strip_components).map_err(located(&cached))?;
    let format = match args.archive_format.as_str() {
        Some(format) if !format.is_empty() => format.to_owned(),
        _ => guessed(&args.name)
            .ok_or("Unable to guess archive format, please pass an 'archive_format' argument.")
            .map_err(|text| located(&cached)(text.into()))?
            .to_owned(),
    };
    let contents = Contents::read(cx, &args.name, &cached, &format, args.options.as_deref());
    let contents = contents.map_err(located(&cached))?.stripped(strip);
    if args.clean {
        cleaned(cx, &cached);
    }
    Ok(if args.verbose {
        contents.verbose().into()
    } else {
        contents.all().into()
    })
}

fn stripped(given: &Value) -> Result<usize, Error> {
    if !given.is_true() {
        return Ok(0);
    }
    let count = match given {
        Value::Str(text) => text.trim().parse().ok(),
        other => other.as_int(),
    };
    let count = count
        .and_then(|count| usize::try_from(count).ok())
        .filter(|count| *count > 0);
    count.ok_or_else(|| "'strip_components' must be a positive integer".into())
}

/// Adds the location of the archive to an error, so that the user can inspect the archive.
pub(crate) fn located(cached: &str) -> impl Fn(Error) -> Error {
    move |error| {
        let text = error.to_string();
        let end = match text.ends_with(['.', '?', '!']) {
            true => "",
            false => ".",
        };
        format!("{text}{end} Additional info follows:\n\narchive location:\n    {cached}").into()
    }
}

fn is_encrypted(cx: &Exec, args: IsEncrypted) -> Result<Value, Error> {
    let how = How {
        hash: args.source_hash.as_deref(),
        use_etag: args.use_etag,
        ..How::default()
    };
    let cached = fetched(cx, &args.name, &args.saltenv, how)?;
    let members = zipped::members(&cached)
        .map_err(|_| located(&cached)(format!("{} is not a ZIP file", args.name).into()))?;
    if args.clean {
        cleaned(cx, &cached);
    }
    Ok(members.iter().any(|member| member.encrypted).into())
}
