//! The `archive` execution module: tar, zip and rar archives, packed and unpacked by the machine's programs.

mod contents;
mod zipped;

use python::{path, shlex};
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value};

use super::file::paths::globbed;
use crate::process::{Output, Process, which};
use crate::source::{self, How};

pub(crate) use contents::{Contents, Kind, guessed, untar};
pub(crate) use zipped::unzipped;

state::exec_module! {
    /// Pack and unpack archives.
    mod archive;

    /// Return what an archive holds.
    fn list(List {
        /// Where it is: a path, `salt://…` or a URL.
        name: String,
        /// `tar`, `zip` or `rar`, where the name does not tell.
        archive_format: Value = Value::Null,
        /// For a tar that is compressed in an unusual way: the command that unpacks it to its standard output.
        options: Option<String> = None,
        /// How many leading folders to leave out of the names.
        strip_components: Value = Value::Null,
        /// Whether the cached archive is removed afterwards.
        clean: bool = false,
        /// Whether folders, files and links are told apart.
        verbose: bool = false,
        /// The environment.
        saltenv: String = "base".into(),
        /// The hash of the cached archive: what has it is not fetched again.
        source_hash: Option<String> = None,
        /// Ask a server whether the cached copy is still what it has.
        use_etag: bool = false,
    });

    /// Run tar.
    fn tar(Tar {
        /// Its options, such as `xzf`.
        options: String,
        /// The archive.
        tarfile: String,
        /// What to pack or to unpack: a list, or names with commas between them; globs are expanded.
        sources: Value = Value::Null,
        /// The folder to work in, for tar's `-C`.
        dest: Value = Value::Null,
        /// The folder that tar is started in.
        cwd: Value = Value::Null,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The user.
        runas: Value = Value::Null,
    });

    /// Run gzip.
    fn gzip(Gzip {
        /// The file.
        sourcefile: String,
        /// Accepted; nothing is left to render.
        template: Value = Value::Null,
        /// The user.
        runas: Value = Value::Null,
        /// An option.
        options: Option<String> = None,
    });

    /// Run gunzip.
    fn gunzip(Gunzip {
        /// The file.
        gzipfile: String,
        /// Accepted; nothing is left to render.
        template: Value = Value::Null,
        /// The user.
        runas: Value = Value::Null,
        /// An option.
        options: Option<String> = None,
    });

    /// Run zip.
    fn cmd_zip(CmdZip {
        /// The archive.
        zip_file: String,
        /// What to pack: a list, or names with commas between them; globs are expanded.
        sources: Value,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The folder to work in.
        cwd: Value = Value::Null,
        /// The user.
        runas: Value = Value::Null,
    });

    /// Make a zip archive and return what was put into it.
    fn zip(Zip {
        /// The archive.
        zip_file: String,
        /// What to pack, in absolute paths unless `cwd` is given.
        sources: Value,
        /// The template engine that renders the paths.
        template: Value = Value::Null,
        /// The folder to work in.
        cwd: Option<String> = None,
        /// The user.
        runas: Value = Value::Null,
        /// Accepted; zip makes large archives as they are needed.
        zip64: bool = false,
    });

    /// Run unzip.
    fn cmd_unzip(CmdUnzip {
        /// The archive.
        zip_file: String,
        /// The folder to unpack it to.
        dest: String,
        /// What to leave out: a list, or names with commas between them.
        excludes: Value = Value::Null,
        /// Options of unzip.
        options: Option<String> = None,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The user.
        runas: Value = Value::Null,
        /// How many lines to return; 100 when True.
        trim_output: Value = false.into(),
        /// The archive's password.
        password: Value = Value::Null,
    });

    /// Unpack a zip archive and return what was in it.
    fn unzip(Unzip {
        /// The archive.
        zip_file: String,
        /// The folder to unpack it to.
        dest: String,
        /// What to leave out: a list, or names with commas between them.
        excludes: Value = Value::Null,
        /// Accepted; Salt does not look at it either.
        options: Value = Value::Null,
        /// The template engine that renders the paths.
        template: Value = Value::Null,
        /// The user.
        runas: Value = Value::Null,
        /// How many names to return; 100 when True.
        trim_output: Value = false.into(),
        /// The archive's password.
        password: Value = Value::Null,
        /// Whether files get the modes that the archive has.
        extract_perms: bool = true,
    });

    /// True when a zip archive needs a password.
    fn is_encrypted(IsEncrypted {
        /// Where it is: a path, `salt://…` or a URL.
        name: String,
        /// Whether the cached archive is removed afterwards.
        clean: bool = false,
        /// The environment.
        saltenv: String = "base".into(),
        /// The hash of the cached archive: what has it is not fetched again.
        source_hash: Option<String> = None,
        /// Ask a server whether the cached copy is still what it has.
        use_etag: bool = false,
    });

    /// Run rar to pack.
    fn rar(Rar {
        /// The archive.
        rarfile: String,
        /// What to pack: a list, or names with commas between them; globs are expanded.
        sources: Value,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The folder to work in.
        cwd: Value = Value::Null,
        /// The user.
        runas: Value = Value::Null,
    });

    /// Run unrar, or rar, to unpack.
    fn unrar(Unrar {
        /// The archive.
        rarfile: String,
        /// The folder to unpack it to.
        dest: String,
        /// What to leave out: a list, or names with commas between them.
        excludes: Value = Value::Null,
        /// The template engine that renders `cwd`.
        template: Value = Value::Null,
        /// The user.
        runas: Value = Value::Null,
        /// How many lines to return; 100 when True.
        trim_output: Value = false.into(),
    });
}

/// Refuses to go on without a program.
pub(crate) fn needs(program: &str) -> Result<(), Error> {
    if which(program).is_some() {
        Ok(())
    } else {
        Err(format!("The '{program}' binary was not found in $PATH.").into())
    }
}

/// The environment in which programs show names as they are.
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

/// Names with globs expanded; a name without wildcards stands for itself.
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

/// Text lines as a list.
fn lines(text: &str) -> Value {
    Value::list(text.lines().map(Value::from))
}

/// Runs a program as `cmd.run` does: a return code that is not 0 becomes the exit code.
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
    // Before the operands: tar changes the folder for those that follow.
    if args.dest.is_true() {
        words.extend(["-C".to_owned(), args.dest.to_text()]);
    }
    words.extend(expanded(&args.sources));
    ran(cx, words, around(args.template, args.cwd, args.runas))
}

/// gzip and gunzip: a program, an option, a file.
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

/// A path that may be a template.
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

/// An archive that is to be unpacked.
pub(crate) struct Unpack {
    pub(crate) file: String,
    pub(crate) dest: String,
    pub(crate) excludes: Vec<String>,
    pub(crate) password: Option<String>,
    pub(crate) runas: Option<String>,
}

impl Unpack {
    /// Runs unzip with these options; what it says, in lines.
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
        process.stderr = crate::process::Stderr::Merged;
        // Without a password at hand it would ask the terminal.
        process.stdin = Some(String::new());
        if self.password.is_some() {
            process = process.quiet();
        }
        let done = process.run(cx)?;
        said(&done)?;
        Ok(done.stdout.lines().map(str::to_owned).collect())
    }
}

/// What a program says that has failed; unzip says nothing of a wrong password when it is to be quiet.
fn said(done: &Output) -> Result<(), Error> {
    match done.retcode {
        Some(0) => Ok(()),
        // 1 where it has made at least the folders.
        Some(code @ (1 | 82)) if done.stdout.is_empty() => {
            Err(format!("the password is wrong (exit status {code})").into())
        }
        code if done.stdout.is_empty() => {
            Err(format!("the program failed with exit status {}", code.unwrap_or(-1)).into())
        }
        _ => Err(Error::refused(done.stdout.clone())),
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

/// The first lines, and how many they are, where only so many are wanted.
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

/// The archive on this machine.
fn fetched(cx: &Exec, name: &str, saltenv: &str, how: How<'_>) -> Result<String, Error> {
    let cached = source::cached(cx, name, saltenv, how)?.filter(|path| path::exists(path));
    cached.ok_or_else(|| Error::refused(format!("Failed to cache {name}")))
}

/// Removes an archive from the cache, and nothing that lies elsewhere: Salt removes a local archive itself.
fn cleaned(cx: &Exec, cached: &str) {
    let path = std::path::Path::new(cached);
    if path.starts_with(cx.opts().cachedir())
        && let Err(error) = crate::fs::remove(cx, path)
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
    let contents = Contents::of(cx, &args.name, &cached, &format, args.options.as_deref());
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

/// An error with the place of the archive, so that its user can look at it.
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
