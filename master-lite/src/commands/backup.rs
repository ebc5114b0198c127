//! `pinch backup` and `pinch restore`: the state of a master as one file.
//!
//! The file begins with [`MAGIC`]. Entries follow, each with a mark: a configuration file's path, a
//! file of `pki_dir`, a row of the store. The last entry is the SHA-256 of all bytes before it.

#![expect(
    clippy::disallowed_methods,
    reason = "these commands write outside of a state run: a new file that replaces the old one once it is complete, and a store that no daemon uses"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cli::binary::put;
use cli::config::{self, Loaded};
use cli::failure::{Exit, Failure};
use cli::options::{BACKUP, Parsed, Program, RESTORE};
use render::yaml::SaltYaml;
use ring::digest::{Context, SHA256};
use state::opts::Opts;
use value::{Map, Value, jid};
use wire::Backup;

use super::local_client::{AskError, Master, Socket};
use crate::daemon;
use crate::store::backup::{self as rows, Import, ROW};
use crate::store::{LOCK_MAX, Limits, Store};

/// The first bytes of a backup.
const MAGIC: &[u8] = b"pinch backup 1\n";
/// The marks of entries.
const CONFIG: u8 = b'c';
const FILE: u8 = b'f';
const END: u8 = b'e';
/// The maximum size of a file of `pki_dir`.
const FILE_MAX: usize = 1 << 20;
/// The maximum number of files of `pki_dir`, apart from the keys of minions, which the store has.
const FILES_MAX: usize = 100;
/// The maximum length of a path.
const PATH_LENGTH_MAX: usize = 4096;

fn failure(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::new(Exit::Generic, error)
}

fn at(path: &Path, error: &io::Error) -> Failure {
    failure(format!("{}: {error}", path.display()))
}

/// Runs `pinch backup` with these words.
///
/// # Errors
/// When the command line or the configuration is wrong, the store cannot be read, or the file
/// cannot be written.
pub fn backup(words: &[String]) -> Result<ExitCode, Failure> {
    let Some((parsed, target)) = parsed(&BACKUP, words)? else {
        return Ok(put(&BACKUP.help()));
    };
    let loaded = loaded(&parsed)?;
    let opts = Opts::new(loaded.opts.clone());
    let part = sibling(&target, "part");
    let written = write(&part, &opts, &loaded.files);
    let rows = match written {
        Ok(rows) => rows,
        Err(error) => {
            value::remove::or_log(&part, fs::remove_file(&part));
            return Err(error);
        }
    };
    fs::rename(&part, &target).map_err(|error| at(&target, &error))?;
    sync_folder(&target)?;
    let bytes = fs::metadata(&target)
        .map_err(|error| at(&target, &error))?
        .len();
    Ok(put(&format!(
        "{}: {rows} rows, {bytes} bytes\n",
        target.display()
    )))
}

/// Returns the path of a file in the same folder, with another suffix.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{suffix}"));
    name.into()
}

/// Reads the command line. Returns `None` if it asks for help.
fn parsed(program: &Program, words: &[String]) -> Result<Option<(Parsed, PathBuf)>, Failure> {
    let parsed = program.parse(words.to_vec());
    let parsed = parsed.map_err(|error| Failure::usage(program, error))?;
    if parsed.has("help") {
        return Ok(None);
    }
    let [file] = parsed.words.as_slice() else {
        let error = format!("{0} needs exactly one file: {0} FILE", program.name);
        return Err(Failure::new(Exit::Usage, error));
    };
    let file = std::path::absolute(file).map_err(failure)?;
    Ok(Some((parsed, file)))
}

/// Loads the configuration of the master.
fn loaded(parsed: &Parsed) -> Result<Loaded, Failure> {
    let given = parsed.text("config_dir").map(str::to_owned);
    let given = given.or_else(|| std::env::var("SALT_CONFIG_DIR").ok());
    let folder = given.map_or_else(|| config::DEFAULT_DIR.into(), PathBuf::from);
    let folder = std::path::absolute(folder).map_err(failure)?;
    config::load_master(&folder, "salt-master", Map::new(), &SaltYaml).map_err(failure)
}

/// A backup that is being written.
struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    digest: Context,
}

impl Output {
    fn create(path: &Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(path).map_err(|error| at(path, &error))?;
        // An older file of this name may have another mode.
        file.set_permissions(fs::Permissions::from_mode(0o600))
            .map_err(|error| at(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::new(file),
            digest: Context::new(&SHA256),
        })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.digest.update(bytes);
        self.file
            .write_all(bytes)
            .map_err(|error| at(&self.path, &error))
    }

    /// Writes a text with its length.
    fn text(&mut self, text: &[u8]) -> Result<(), Failure> {
        let length = u32::try_from(text.len()).map_err(failure)?;
        self.put(&length.to_be_bytes())?;
        self.put(text)
    }

    /// Writes the checksum, and waits until everything is on the disk.
    fn finish(mut self) -> Result<(), Failure> {
        let digest = self.digest.finish();
        let written = self
            .file
            .write_all(&[END])
            .and_then(|()| self.file.write_all(digest.as_ref()))
            .and_then(|()| self.file.flush())
            .and_then(|()| self.file.get_ref().sync_all());
        written.map_err(|error| at(&self.path, &error))
    }
}

/// Writes a backup, and returns the number of rows of the store.
fn write(path: &Path, opts: &Opts, configuration: &[PathBuf]) -> Result<u64, Failure> {
    let mut out = Output::create(path)?;
    out.put(MAGIC)?;
    for file in configuration {
        out.put(&[CONFIG])?;
        out.text(file.as_os_str().as_encoded_bytes())?;
    }
    let pki = opts.path("pki_dir");
    for name in own_files(&pki)? {
        let file = pki.join(&name);
        let bytes = fs::read(&file).map_err(|error| at(&file, &error))?;
        out.put(&[FILE])?;
        out.text(name.as_bytes())?;
        out.text(&bytes)?;
    }
    let rows = store_rows(opts, &mut out)?;
    out.finish()?;
    Ok(rows)
}

/// Returns the names of the files of `pki_dir`: the keys of the master.
fn own_files(pki: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(pki).map_err(|error| at(pki, &error))? {
        let entry = entry.map_err(|error| at(pki, &error))?;
        let metadata = entry.metadata().map_err(|error| at(pki, &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_small = metadata.len() <= FILE_MAX as u64;
        let is_old = name.contains(".old-");
        if metadata.is_file() && is_small && !is_old && is_file_name(&name) {
            names.push(name);
        }
    }
    if names.len() > FILES_MAX {
        let text = format!("{}: more than {FILES_MAX} files", pki.display());
        return Err(failure(text));
    }
    names.sort();
    Ok(names)
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
}

/// Writes the rows of the store: those that a running master sends, or those of the files.
fn store_rows(opts: &Opts, out: &mut Output) -> Result<u64, Failure> {
    let mut problem = None;
    let mut each = |part: Value| match part {
        Value::Bytes(bytes) => match out.put(&bytes) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                problem = Some(error);
                ControlFlow::Break(())
            }
        },
        _ => ControlFlow::Continue(()),
    };
    let asked = Socket::from_opts(&opts.map).ask(Backup {}.into(), &mut each);
    if let Some(error) = problem {
        return Err(error);
    }
    match asked {
        Ok(rows) => {
            let rows = rows.as_int().and_then(|rows| u64::try_from(rows).ok());
            rows.ok_or_else(|| failure("the master did not send the whole store"))
        }
        Err(AskError::NotRunning(_)) => stopped_rows(opts, out),
        Err(error) => Err(failure(error)),
    }
}

/// Writes the rows of the store while no master runs.
fn stopped_rows(opts: &Opts, out: &mut Output) -> Result<u64, Failure> {
    let folder = daemon::store_folder(opts);
    if !folder.exists() {
        let text = format!("{}: there is no store of a master", folder.display());
        return Err(failure(text));
    }
    let limits = Limits {
        lock_wait: LOCK_MAX,
        ..Limits::default()
    };
    let store = Store::open(&folder, limits).map_err(failure)?;
    let mut problem = None;
    let mut take = |piece: Vec<u8>| {
        problem = out.put(&piece).err();
        problem.is_none()
    };
    let rows = store.export(&mut take).map_err(failure)?;
    match (rows, problem) {
        (Some(rows), None) => Ok(rows),
        (_, problem) => Err(problem.unwrap_or_else(|| failure("the store was not read"))),
    }
}

fn sync_folder(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or_else(|| Path::new("/"));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|error| at(folder, &error))
}

/// An entry of a backup.
enum Entry {
    Config(String),
    File(String, Vec<u8>),
    Row(rows::Row),
}

/// A backup that is being read.
struct Input {
    path: PathBuf,
    file: BufReader<File>,
    digest: Context,
}

impl Input {
    fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| at(path, &error))?;
        let mut input = Self {
            path: path.to_owned(),
            file: BufReader::new(file),
            digest: Context::new(&SHA256),
        };
        match input.take(MAGIC.len()) {
            Ok(magic) if magic == MAGIC => Ok(input),
            _ => {
                let text = format!(
                    "{}: not a backup that this release of pinch can read",
                    path.display()
                );
                Err(failure(text))
            }
        }
    }

    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let wanted = u64::try_from(count).map_err(io::Error::other)?;
        Read::by_ref(&mut self.file)
            .take(wanted)
            .read_to_end(&mut bytes)?;
        if bytes.len() < count {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.digest.update(&bytes);
        Ok(bytes)
    }

    fn text(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let length: [u8; 4] = self.take(4)?.try_into().map_err(|_| damage())?;
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
        if length > most {
            return Err(damage());
        }
        self.take(length)
    }

    fn name(&mut self) -> io::Result<String> {
        String::from_utf8(self.text(PATH_LENGTH_MAX)?).map_err(|_| damage())
    }

    /// Returns the next entry, or `None` at the end if the checksum is right.
    fn entry(&mut self) -> io::Result<Option<Entry>> {
        let before = self.digest.clone();
        match self.take(1)?.first() {
            Some(&CONFIG) => Ok(Some(Entry::Config(self.name()?))),
            Some(&FILE) => {
                let name = self.name()?;
                let bytes = self.text(FILE_MAX)?;
                match is_file_name(&name) {
                    true => Ok(Some(Entry::File(name, bytes))),
                    false => Err(damage()),
                }
            }
            Some(&ROW) => {
                let row = rows::read_row(&mut |count| self.take(count))?;
                Ok(Some(Entry::Row(row)))
            }
            Some(&END) => {
                let sum = self.take(32)?;
                let is_last = self.take(1).is_err();
                let is_right = is_last && before.finish().as_ref() == sum;
                is_right.then_some(None).ok_or_else(damage)
            }
            _ => Err(damage()),
        }
    }

    /// Passes every entry to `take`.
    fn entries(
        mut self,
        take: &mut dyn FnMut(Entry) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        loop {
            match self.entry() {
                Ok(Some(entry)) => take(entry)?,
                Ok(None) => return Ok(()),
                Err(error) => {
                    let text = format!(
                        "{}: the backup is damaged or incomplete ({error}); nothing was restored",
                        self.path.display()
                    );
                    return Err(failure(text));
                }
            }
        }
    }
}

fn damage() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "wrong length, mark or checksum")
}

/// Runs `pinch restore` with these words.
///
/// # Errors
/// When the command line or the configuration is wrong, the backup is damaged, a master exists
/// here, or a file cannot be written.
pub fn restore(words: &[String]) -> Result<ExitCode, Failure> {
    let Some((parsed, source)) = parsed(&RESTORE, words)? else {
        return Ok(put(&RESTORE.help()));
    };
    let opts = Opts::new(loaded(&parsed)?.opts);
    let place = Place {
        pki: opts.path("pki_dir"),
        store: daemon::store_folder(&opts),
    };
    // The whole file is checked before anything is changed.
    let mut configuration = Vec::new();
    Input::open(&source)?.entries(&mut |entry| {
        if let Entry::Config(path) = entry {
            configuration.push(path);
        }
        Ok(())
    })?;
    let _lock = rows::lock(&place.store).map_err(failure)?;
    if !parsed.has("force") {
        place.is_free()?;
    }
    let said = place.restore(&source)?;
    let mut text = format!("{said}\n");
    if !configuration.is_empty() {
        let files = configuration.join(", ");
        text.push_str(&format!(
            "The backup does not contain the configuration files: {files}\n"
        ));
    }
    Ok(put(&text))
}

/// The places of a master's state.
struct Place {
    pki: PathBuf,
    store: PathBuf,
}

impl Place {
    /// Returns an error if a master has state here.
    fn is_free(&self) -> Result<(), Failure> {
        let key = self.pki.join("master.pem");
        for path in [&key, &self.store] {
            if path.symlink_metadata().is_ok() {
                let text = format!(
                    "{} exists; nothing was restored. --force moves it away",
                    path.display()
                );
                return Err(failure(text));
            }
        }
        Ok(())
    }

    /// Writes the keys and the store. Existing ones are moved away. The store is put in place last.
    fn restore(&self, source: &Path) -> Result<String, Failure> {
        let stamp = jid::new();
        let new = sibling(&self.store, &format!("new-{stamp}"));
        for folder in [self.pki.as_path(), parent(&self.store)] {
            make_folder(folder)?;
        }
        let (rows, files) = match imported(source, &new) {
            Ok(imported) => imported,
            Err(error) => {
                value::remove::or_log(&new, fs::remove_dir_all(&new));
                return Err(error);
            }
        };
        self.move_away(&stamp)?;
        for (name, bytes) in &files {
            place_file(&self.pki.join(name), bytes)?;
        }
        fs::rename(&new, &self.store).map_err(|error| at(&self.store, &error))?;
        sync_folder(&self.store)?;
        Ok(format!(
            "Restored {rows} rows to {} and {} files to {}",
            self.store.display(),
            files.len(),
            self.pki.display()
        ))
    }

    /// Moves the existing state away: the master makes the files of the minions' keys again from
    /// the store.
    fn move_away(&self, stamp: &str) -> Result<(), Failure> {
        let old = format!("old-{stamp}");
        let entries = fs::read_dir(&self.pki).map_err(|error| at(&self.pki, &error))?;
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| at(&self.pki, &error))?.file_name();
            let text = name.to_string_lossy();
            let is_ours = text.starts_with("minions") || text.starts_with("master");
            if is_ours && !text.contains(".old-") {
                paths.push(self.pki.join(name));
            }
        }
        paths.push(self.store.clone());
        for path in paths {
            match fs::rename(&path, sibling(&path, &old)) {
                Ok(()) => value::log::info(format_args!(
                    "{} is now {}.{old}",
                    path.display(),
                    path.display()
                )),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(at(&path, &error)),
            }
        }
        Ok(())
    }
}

/// The names and contents of files of `pki_dir`.
type KeyFiles = Vec<(String, Vec<u8>)>;

/// Makes a new store of a backup. Returns the number of its rows, and the files of `pki_dir`.
fn imported(source: &Path, new: &Path) -> Result<(u64, KeyFiles), Failure> {
    let mut import = Import::create(new).map_err(failure)?;
    let (mut rows, mut files) = (0, Vec::new());
    Input::open(source)?.entries(&mut |entry| {
        match entry {
            Entry::Row(row) => {
                rows += 1;
                import.add(row).map_err(failure)?;
            }
            Entry::File(name, bytes) => files.push((name, bytes)),
            Entry::Config(_) => {}
        }
        Ok(())
    })?;
    import.finish().map_err(failure)?;
    Ok((rows, files))
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new("/"))
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(folder);
    made.map_err(|error| at(folder, &error))
}

/// Writes a file of `pki_dir` completely or not at all. A public key is readable by all, as the
/// master makes it.
fn place_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let part = sibling(path, "new");
    let is_public = path.extension().is_some_and(|suffix| suffix == "pub");
    let mode = if is_public { 0o644 } else { 0o600 };
    let written = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(mode);
        let mut file = options.open(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    written().map_err(|error| at(path, &error))?;
    sync_folder(path)
}
