//! The `cp` execution module: copies files of the file roots and of the web.

pub(crate) mod recv;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use machine::fs;
use machine::hashes;
use python::path;
use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use value::glob::fnmatch;
use value::{Map, Value, log};

use crate::exec::file::makedirs;
use crate::fileserver::fetch;
use crate::fileserver::fetch::{How, Url, salt_path};
use crate::fileserver::patterns::included;
use crate::fileserver::roots::Roots;
use crate::fileserver::template;

state::exec_module! {
    /// Copy files from the file roots and from the web.
    mod cp;

    /// Copy a file of the file roots to a path.
    ///
    ///     salt-call cp.get_file salt://motd /etc/motd
    fn get_file(GetFile {
        /// The `salt://` URL.
        path: String,
        /// The target: a file or a folder.
        dest: String,
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// True to create the missing parent folders.
        makedirs: bool = false,
        /// The template engine that renders both paths.
        template: Option<String> = None,
        /// Accepted and ignored: no file is sent over a network.
        gzip: Value = Value::Null,
        ..kwargs
    });

    /// Return the contents of a file of the file roots or of the web.
    ///
    ///     salt-call cp.get_file_str salt://motd
    fn get_file_str(GetFileStr {
        /// The URL or path of the file.
        path: String,
        /// The Salt environment.
        saltenv: Option<String> = None,
    });

    /// Copy a file of the file roots or of the web to a path, or return its contents if `dest` is
    /// None.
    ///
    ///     salt-call cp.get_url https://example.com/app.tar.gz /srv/app.tar.gz
    fn get_url(GetUrl {
        /// The URL of the file.
        path: String,
        /// The target path. If it is empty, the file goes into the cache.
        dest: Value = "".into(),
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// True to create the missing parent folders.
        makedirs: bool = false,
        /// The hash of the file. A cached copy with this hash is not fetched again.
        source_hash: Option<String> = None,
    });

    /// Render a file of the file roots or of the web, and write the result to a path.
    ///
    ///     salt-call cp.get_template salt://app.conf.j2 /etc/app.conf
    fn get_template(GetTemplate {
        /// The URL of the file.
        path: String,
        /// The target path. If it is empty, the file goes into the cache.
        dest: String,
        /// The template engine.
        template: String = "jinja".into(),
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// True to create the missing parent folders.
        makedirs: bool = false,
        ..kwargs
    });

    /// Copy a folder of the file roots into a folder.
    ///
    ///     salt-call cp.get_dir salt://nginx /etc
    fn get_dir(GetDir {
        /// The `salt://` URL.
        path: String,
        /// The target folder.
        dest: String,
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// The template engine that renders both paths.
        template: Option<String> = None,
        /// Accepted and ignored: no file is sent over a network.
        gzip: Value = Value::Null,
        ..kwargs
    });

    /// Copy a file of the file roots or of the web to the cache.
    ///
    ///     salt-call cp.cache_file salt://motd
    fn cache_file(CacheFile {
        /// The URL of the file.
        path: String,
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// The hash of the file. A cached copy with this hash is not fetched again.
        source_hash: Option<String> = None,
        /// True to verify the TLS certificate of a server.
        verify_ssl: bool = true,
        /// True to check with the server, by its ETag, whether the cached copy is current.
        use_etag: bool = false,
    });

    /// Copy files of the file roots or of the web to the cache.
    ///
    ///     salt-call cp.cache_files salt://motd,salt://hosts
    fn cache_files(CacheFiles {
        /// The URLs: a list, or a text with commas.
        paths: Value,
        /// The Salt environment.
        saltenv: Option<String> = None,
    });

    /// Copy a folder of the file roots to the cache.
    ///
    ///     salt-call cp.cache_dir salt://nginx
    fn cache_dir(CacheDir {
        /// The `salt://` URL.
        path: String,
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// True to create folders that contain no files, too.
        include_empty: bool = false,
        /// The pattern of the files to include.
        include_pat: Value = Value::Null,
        /// The pattern of the files to exclude.
        exclude_pat: Value = Value::Null,
    });

    /// Copy all files of an environment to the cache.
    ///
    ///     salt-call cp.cache_master
    fn cache_master(CacheMaster {
        /// The Salt environment.
        saltenv: Option<String> = None,
    });

    /// Copy a file of this machine to the cache.
    ///
    ///     salt-call cp.cache_local_file /etc/hosts
    fn cache_local_file(CacheLocalFile {
        /// The path of the file.
        path: String,
    });

    /// Return the path in the cache that a URL would have.
    ///
    ///     salt-call cp.cache_dest salt://motd
    fn cache_dest(CacheDest {
        /// The URL.
        url: String,
        /// The Salt environment.
        saltenv: Option<String> = None,
    });

    /// Return the states of an environment.
    ///
    ///     salt-call cp.list_states
    #[facts(pure = true)]
    fn list_states(ListStates {
        /// The Salt environment.
        saltenv: Option<String> = None,
    });

    /// Return the paths of the files of an environment.
    ///
    ///     salt-call cp.list_master prefix=nginx
    #[facts(pure = true)]
    fn list_master(ListMaster {
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// The prefix that the returned paths have.
        prefix: String = String::new(),
    });

    /// Return the paths of the folders of an environment.
    ///
    ///     salt-call cp.list_master_dirs
    #[facts(pure = true)]
    fn list_master_dirs(ListMasterDirs {
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// The prefix that the returned paths have.
        prefix: String = String::new(),
    });

    /// Return the symbolic links of an environment.
    ///
    ///     salt-call cp.list_master_symlinks
    fn list_master_symlinks(ListMasterSymlinks {
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// The prefix that the returned paths have.
        prefix: String = String::new(),
    });

    /// Return the paths of the files in the cache.
    ///
    ///     salt-call cp.list_minion
    fn list_minion(ListMinion {
        /// The Salt environment.
        saltenv: Option<String> = None,
    });

    /// Return the path of a URL's copy in the cache, or an empty text if it is not cached.
    ///
    ///     salt-call cp.is_cached salt://motd
    fn is_cached(IsCached {
        /// The URL.
        path: String,
        /// The Salt environment.
        saltenv: Option<String> = None,
    });

    /// Return the hash, and the type of the hash, of a file of the file roots or of this machine.
    ///
    ///     salt-call cp.hash_file salt://motd
    fn hash_file(HashFile {
        /// The URL or path of the file.
        path: String,
        /// The Salt environment.
        saltenv: Option<String> = None,
    });

    /// Return the mode of a file of the file roots or of this machine.
    ///
    ///     salt-call cp.stat_file salt://motd
    fn stat_file(StatFile {
        /// The URL or path of the file.
        path: String,
        /// The Salt environment.
        saltenv: Option<String> = None,
        /// True to return the mode as octal text.
        octal: bool = true,
    });

    /// Return the environments of the file roots.
    ///
    ///     salt-call cp.envs
    #[facts(pure = true)]
    fn envs(Envs {});

    /// Send a file to the master.
    ///
    ///     salt-call cp.push /var/log/syslog
    fn push(Push {
        /// The path of the file.
        path: String,
        /// True to send the target of a symbolic link under the name of the link.
        keep_symlinks: bool = false,
        /// The path on the master.
        upload_path: Option<String> = None,
        /// True to remove the file afterwards.
        remove_source: bool = false,
    });

    /// Send a folder to the master.
    ///
    ///     salt-call cp.push_dir /var/log glob='*.log'
    fn push_dir(PushDir {
        /// The path of the folder.
        path: String,
        /// The glob that selects the files.
        glob: Option<String> = None,
        /// The path on the master.
        upload_path: Option<String> = None,
    });
}

fn env(cx: &Exec, given: Option<String>) -> String {
    given
        .filter(|env| !env.is_empty())
        .unwrap_or_else(|| cx.opts().saltenv().to_owned())
}

/// Returns a path, rendered first if a template engine is given.
fn path_of(cx: &Exec, path: &str, engine: Option<&str>, saltenv: &str) -> Result<String, Error> {
    match engine {
        None => Ok(path.to_owned()),
        Some(engine) if template::is_supported(engine) => {
            template::render(cx, path, path, saltenv, Map::new())
        }
        Some(engine) => {
            Err(format!("Attempted to render file paths with unavailable engine {engine}").into())
        }
    }
}

/// Returns the target path of a copy. If `dest` is an existing folder or ends with a slash, the
/// file keeps its name in it. Returns `None` if the parent folder is missing and `makedirs` is
/// false.
fn target(cx: &Exec, url: &str, dest: &str, makedirs: bool) -> Result<Option<String>, Error> {
    let name = salt_path(url).0;
    let dest = if dest.ends_with('/') || path::isdir(dest) {
        path::join(dest, path::basename(&name))
    } else {
        dest.to_owned()
    };
    let folder = path::dirname(&dest);
    if path::isdir(folder) {
        return Ok(Some(dest));
    }
    if !makedirs {
        return Ok(None);
    }
    makedirs::all(cx, folder, &Value::Null, &Value::Null, None)?;
    Ok(Some(dest))
}

fn placed(cx: &Exec, from: &str, to: &str) -> Result<(), Error> {
    let file = fs::open(from)?;
    fs::write_from(cx, Path::new(to), &mut &file, fs::Owner::default())
}

fn get_file(cx: &Exec, args: GetFile) -> Result<Value, Error> {
    let saltenv = env(cx, args.saltenv);
    let engine = args.template.as_deref();
    let path = path_of(cx, &args.path, engine, &saltenv)?;
    let dest = path_of(cx, &args.dest, engine, &saltenv)?;
    let Some(file) = fetch::salt_file(cx, &path, &saltenv)? else {
        return Ok("".into());
    };
    let Some(dest) = target(cx, &path, &dest, args.makedirs)? else {
        return Ok(false.into());
    };
    placed(cx, &file, &dest)?;
    Ok(dest.into())
}

fn get_file_str(cx: &Exec, args: GetFileStr) -> Result<Value, Error> {
    let saltenv = env(cx, args.saltenv);
    let Some(file) = fetch::cached(cx, &args.path, &saltenv, How::default())? else {
        return Ok(false.into());
    };
    Ok(match fs::read_or_none(&file)? {
        Some(data) => String::from_utf8_lossy(&data).into_owned().into(),
        None => false.into(),
    })
}

fn get_url(cx: &Exec, args: GetUrl) -> Result<Value, Error> {
    let saltenv = env(cx, args.saltenv);
    let parts = Url::parse(&args.path);
    let Some(dest) = args.dest.as_str() else {
        let data;
        if parts.is_remote() {
            data = fetch::content(cx, &args.path)?;
        } else if let Some(file) = fetch::cached(cx, &args.path, &saltenv, How::default())? {
            data = fs::read(&file)?;
        } else {
            return Ok(false.into());
        }
        return Ok(String::from_utf8_lossy(&data).into_owned().into());
    };
    if dest.is_empty() || parts.is_local() {
        let how = How {
            hash: args.source_hash.as_deref(),
            ..How::default()
        };
        return Ok(fetch::in_cache(cx, &args.path, &saltenv, how)?.into());
    }
    let found = if parts.is_remote() {
        None
    } else {
        let found = fetch::salt_file(cx, &args.path, &saltenv)?;
        if found.is_none() {
            return Ok(false.into());
        }
        found
    };
    let Some(dest) = target(cx, &args.path, dest, args.makedirs)? else {
        return Ok("".into());
    };
    match found {
        Some(file) => placed(cx, &file, &dest)?,
        None => fetch::download(cx, &args.path, Path::new(&dest), How::default())?,
    }
    Ok(dest.into())
}

fn get_template(cx: &Exec, args: GetTemplate) -> Result<Value, Error> {
    let saltenv = env(cx, args.saltenv);
    let Some(file) = fetch::cached(cx, &args.path, &saltenv, How::default())? else {
        return Ok("".into());
    };
    if !template::is_supported(&args.template) {
        return Err(template::unsupported(&args.template).into());
    }
    let text = fs::text(&file)?;
    let mut variables = args.kwargs;
    if let Some(context) = variables.remove("context").as_ref().and_then(Value::as_map) {
        variables.update(context.clone());
    }
    let text = template::render(cx, &file, &text, &saltenv, variables)?;
    let (dest, makedirs) = if args.dest.is_empty() {
        let place = fetch::external(cx, &args.path, &saltenv)?;
        (place.to_string_lossy().into_owned(), true)
    } else {
        (args.dest, args.makedirs)
    };
    let Some(dest) = target(cx, &args.path, &dest, makedirs)? else {
        return Ok("".into());
    };
    let private = fs::Owner {
        mode: Some(0o600),
        ..fs::Owner::default()
    };
    fs::write(cx, Path::new(&dest), text.as_bytes(), private)?;
    Ok(dest.into())
}

fn get_dir(cx: &Exec, args: GetDir) -> Result<Value, Error> {
    let saltenv = env(cx, args.saltenv);
    let engine = args.template.as_deref();
    let path = path_of(cx, &args.path, engine, &saltenv)?;
    let dest = path_of(cx, &args.dest, engine, &saltenv)?;
    let (path, named) = salt_path(path.trim_end_matches('/'));
    let saltenv = named.unwrap_or(saltenv);
    let above = path::dirname(&path);
    let below = format!("{path}/");
    let mut made = Vec::new();
    for file in cx.shared.sources.list_below(&path, &saltenv)? {
        if !file.starts_with(&below) {
            continue;
        }
        let relative = file.strip_prefix(above).unwrap_or(&file);
        let to = format!("{dest}/{}", relative.trim_start_matches('/'));
        let url = format!("salt://{file}");
        let found = fetch::salt_file(cx, &url, &saltenv)?;
        if let (Some(from), Some(to)) = (found, target(cx, &url, &to, true)?) {
            placed(cx, &from, &to)?;
            made.push(to);
        }
    }
    made.sort();
    Ok(made.into())
}

fn cache_one(cx: &Exec, url: &str, saltenv: &str) -> Result<Value, Error> {
    let found = fetch::in_cache(cx, url, saltenv, How::default())?;
    Ok(found.map_or_else(|| false.into(), Value::from))
}

fn cache_file(cx: &Exec, args: CacheFile) -> Result<Value, Error> {
    let saltenv = env(cx, args.saltenv);
    let how = How {
        hash: args.source_hash.as_deref(),
        verify_ssl: args.verify_ssl,
        use_etag: args.use_etag,
    };
    let found = fetch::in_cache(cx, &args.path, &saltenv, how)?;
    Ok(found.map_or_else(|| false.into(), Value::from))
}

fn cache_files(cx: &Exec, args: CacheFiles) -> Result<Value, Error> {
    let saltenv = env(cx, args.saltenv);
    let urls: Vec<String> = match args.paths.as_list() {
        Some(list) => list.iter().map(Value::to_text).collect(),
        None => args.paths.to_text().split(',').map(str::to_owned).collect(),
    };
    let cached: Result<Vec<Value>, Error> = urls
        .iter()
        .map(|url| cache_one(cx, url, &saltenv))
        .collect();
    Ok(cached?.into())
}

fn cache_dir(cx: &Exec, args: CacheDir) -> Result<Value, Error> {
    let (path, named) = salt_path(&args.path);
    let saltenv = named.unwrap_or_else(|| env(cx, args.saltenv));
    let below = format!("{}/", path.trim_end_matches('/'));
    let mut cached = Vec::new();
    for file in cx.shared.sources.list_below(&path, &saltenv)? {
        if file.starts_with(&below) && included(&file, &args.include_pat, &args.exclude_pat) {
            cached.push(cache_one(cx, &format!("salt://{file}"), &saltenv)?);
        }
    }
    if args.include_empty {
        let root = cx.opts().cachedir().join("files").join(&saltenv);
        for dir in dirs(cx, &saltenv)?
            .iter()
            .filter(|dir| dir.starts_with(&below))
        {
            let place = root.join(dir);
            fs::mkdirs_private(cx, &place).map_err(Error::io(&place))?;
            cached.push(place.to_string_lossy().into_owned().into());
        }
    }
    Ok(cached.into())
}

fn cache_master(cx: &Exec, args: CacheMaster) -> Result<Value, Error> {
    let saltenv = env(cx, args.saltenv);
    let files = cx.shared.sources.list(&saltenv)?;
    let urls = files.iter().map(|file| format!("salt://{file}"));
    let cached: Result<Vec<Value>, Error> = urls.map(|url| cache_one(cx, &url, &saltenv)).collect();
    Ok(cached?.into())
}

fn cache_local_file(cx: &Exec, args: CacheLocalFile) -> Result<Value, Error> {
    if !path::exists(&args.path) {
        return Ok("".into());
    }
    let place = cx.opts().cachedir().join("localfiles");
    let place = place.join(args.path.trim_start_matches('/'));
    let folder = place.parent().unwrap_or(&place);
    fs::mkdirs_private(cx, folder).map_err(Error::io(folder))?;
    fs::copy_file(cx, Path::new(&args.path), &place).map_err(Error::io(&place))?;
    Ok(place.to_string_lossy().into_owned().into())
}

fn cache_dest(cx: &Exec, args: CacheDest) -> Result<Value, Error> {
    let saltenv = env(cx, args.saltenv);
    let place = match Url::parse(&args.url).scheme.as_str() {
        "salt" => {
            let (path, named) = salt_path(&args.url);
            let files = cx.opts().cachedir().join("files");
            files.join(named.unwrap_or(saltenv)).join(path)
        }
        "" | "file" => Url::parse(&args.url).local_path().into(),
        _ => fetch::external(cx, &args.url, &saltenv)?,
    };
    Ok(place.to_string_lossy().into_owned().into())
}

fn list_states(cx: &Exec, args: ListStates) -> Result<Value, Error> {
    let mut states = BTreeSet::new();
    for file in cx.shared.sources.list(&env(cx, args.saltenv))? {
        if let Some(path) = file.strip_suffix(".sls") {
            let path = path.strip_suffix("/init").unwrap_or(path);
            states.insert(path.replace('/', "."));
        }
    }
    Ok(states.into_iter().collect::<Vec<String>>().into())
}

fn list_master(cx: &Exec, args: ListMaster) -> Result<Value, Error> {
    let mut files = cx.shared.sources.list(&env(cx, args.saltenv))?;
    let prefix = args.prefix.trim_matches('/');
    files.retain(|file| file.starts_with(prefix));
    Ok(files.into())
}

fn list_master_dirs(cx: &Exec, args: ListMasterDirs) -> Result<Value, Error> {
    let found = dirs(cx, &env(cx, args.saltenv))?;
    let prefix = args.prefix.trim_matches('/');
    let found = found.into_iter().filter(|dir| dir.starts_with(prefix));
    Ok(found.collect::<Vec<String>>().into())
}

fn list_master_symlinks(cx: &Exec, args: ListMasterSymlinks) -> Result<Value, Error> {
    let found = symlinks(cx, &env(cx, args.saltenv), &args.prefix)?;
    Ok(found.into_iter().collect())
}

fn list_minion(cx: &Exec, args: ListMinion) -> Result<Value, Error> {
    let cachedir = cx.opts().cachedir();
    let mut files = BTreeSet::new();
    for folder in [
        cachedir.join("files").join(env(cx, args.saltenv)),
        cachedir.join("localfiles"),
    ] {
        for here in fs::walk_links(&folder.to_string_lossy())? {
            files.extend(here.files.iter().map(|name| path::join(&here.root, name)));
        }
    }
    Ok(files.into_iter().collect::<Vec<String>>().into())
}

fn is_cached(cx: &Exec, args: IsCached) -> Result<Value, Error> {
    let found = fetch::is_cached(cx, &args.path, &env(cx, args.saltenv));
    Ok(found.unwrap_or_default().into())
}

/// Returns the path on this machine of the file that a URL or path refers to.
fn local_file(cx: &Exec, url: &str, saltenv: &str) -> Result<Option<String>, Error> {
    let parts = Url::parse(url);
    if parts.is_local() {
        let path = parts.local_path();
        return Ok(Some(path).filter(|path| path::isfile(path)));
    }
    fetch::salt_file(cx, url, saltenv)
}

fn hash_file(cx: &Exec, args: HashFile) -> Result<Value, Error> {
    let Some(file) = local_file(cx, &args.path, &env(cx, args.saltenv))? else {
        return Ok("".into());
    };
    let kind = cx.opts().text("hash_type").unwrap_or("sha256");
    Ok(Map::new()
        .with("hsum", hashes::of_file(&file, kind)?)
        .with("hash_type", kind)
        .into())
}

fn stat_file(cx: &Exec, args: StatFile) -> Result<Value, Error> {
    use std::os::unix::fs::MetadataExt;
    let Some(file) = local_file(cx, &args.path, &env(cx, args.saltenv))? else {
        return Ok(Value::Null);
    };
    let found = Path::new(&file).metadata().map_err(Error::io(&file))?;
    Ok(if args.octal {
        format!("{:04o}", found.mode() & 0o7777).into()
    } else {
        found.mode().into()
    })
}

fn envs(cx: &Exec, _args: Envs) -> Result<Value, Error> {
    Ok(cx.shared.sources.environments()?.into())
}

fn push(cx: &Exec, args: Push) -> Result<Value, Error> {
    let path = Path::new(&args.path);
    if !path.is_absolute() {
        log::debug(format_args!(
            "Path must not be relative to be sent: {}",
            args.path
        ));
        return Ok(false.into());
    }
    let found = match args.keep_symlinks {
        true => path.to_owned(),
        false => path.canonicalize().map_err(Error::io(path))?,
    };
    if !found.is_file() {
        return Ok(false.into());
    }
    let called = args
        .upload_path
        .unwrap_or_else(|| match args.keep_symlinks {
            true => args.path.clone(),
            false => found.to_string_lossy().into_owned(),
        });
    let pushed = pushed(cx, &found, called)?;
    if args.remove_source && pushed.is_true() {
        fs::remove(cx, path).map_err(Error::io(path))?;
    }
    Ok(pushed)
}

fn pushed(cx: &Exec, file: &Path, called: String) -> Result<Value, Error> {
    let ask = Ask::Push {
        file: file.to_owned(),
        path: called,
    };
    let answer = cx.ask(ask)?;
    answer.ok_or_else(|| {
        let file = file.display();
        format!("Cannot send {file} to the master: this call has no connection to a master").into()
    })
}

fn push_dir(cx: &Exec, args: PushDir) -> Result<Value, Error> {
    if !Path::new(&args.path).is_absolute() {
        return Ok(false.into());
    }
    let mut all = true;
    for folder in fs::walk_links(&args.path)? {
        for name in folder.files {
            if !args.glob.as_ref().is_none_or(|glob| fnmatch(glob, &name)) {
                continue;
            }
            let file = Path::new(&folder.root).join(&name);
            let shown = file.to_string_lossy().into_owned();
            let called = match (&args.upload_path, shown.strip_prefix(&args.path)) {
                (Some(upload), Some(rest)) => format!("{}{rest}", upload.trim_end_matches('/')),
                _ => shown,
            };
            all &= pushed(cx, &file, called)?.is_true();
        }
    }
    Ok(all.into())
}

/// Returns the folders of an environment, sorted. Includes folders without files.
pub(crate) fn dirs(cx: &Exec, saltenv: &str) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    for file in cx.shared.sources.list(saltenv)? {
        let mut here = path::dirname(&file);
        while !here.is_empty() && found.insert(here.to_owned()) {
            here = path::dirname(here);
        }
    }
    found.extend(Roots::states(cx.opts()).folders(saltenv)?);
    found.remove(".");
    Ok(found)
}

/// Returns true if a `salt://` URL refers to a folder.
pub(crate) fn is_dir(cx: &Exec, url: &str, saltenv: &str) -> Result<bool, Error> {
    let (path, named) = salt_path(url);
    let saltenv = named.as_deref().unwrap_or(saltenv);
    Ok(dirs(cx, saltenv)?.contains(path.trim_end_matches('/')))
}

/// Returns the octal mode of a source on this machine, as Salt's `cp.stat_file` returns it.
pub(crate) fn mode_of(cx: &Exec, url: &str, saltenv: &str) -> Result<Option<String>, Error> {
    use std::os::unix::fs::MetadataExt;
    let parts = Url::parse(url);
    let path = if parts.is_local() {
        Some(parts.local_path())
    } else {
        fetch::salt_file(cx, url, saltenv)?
    };
    let found = path.and_then(|path| Path::new(&path).metadata().ok());
    Ok(found.map(|found| format!("{:04o}", found.mode() & 0o7777)))
}

/// Returns the symbolic links of an environment below a prefix, with their targets.
pub(crate) fn symlinks(
    cx: &Exec,
    saltenv: &str,
    prefix: &str,
) -> Result<BTreeMap<String, String>, Error> {
    let prefix = prefix.trim_start_matches('/');
    let mut found = cx.shared.sources.links(saltenv)?;
    found.retain(|link, _| link.starts_with(prefix));
    Ok(found)
}
