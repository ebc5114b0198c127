//! The package `salt` that this program contains: the parts of Salt that custom modules import, in
//! plain Python.

use std::path::Path;
use std::sync::OnceLock;

use state::module::Error;
use value::{Map, Value};

/// Includes a file of the package by its path.
macro_rules! carried {
    ($path:literal) => {
        ($path, include_str!($path))
    };
}

const FILES: &[(&str, &str)] = &[
    carried!("salt/__init__.py"),
    carried!("salt/_compat.py"),
    carried!("salt/_mako.py"),
    carried!("salt/_pinch.py"),
    carried!("salt/client.py"),
    carried!("salt/config.py"),
    carried!("salt/defaults.py"),
    carried!("salt/exceptions.py"),
    carried!("salt/ext/__init__.py"),
    carried!("salt/ext/six.py"),
    carried!("salt/fileclient.py"),
    carried!("salt/grains/__init__.py"),
    carried!("salt/grains/core.py"),
    carried!("salt/loader.py"),
    carried!("salt/modules/__init__.py"),
    carried!("salt/output/__init__.py"),
    carried!("salt/output/nested.py"),
    carried!("salt/pillar.py"),
    carried!("salt/returners/__init__.py"),
    carried!("salt/runner.py"),
    carried!("salt/runners/__init__.py"),
    carried!("salt/states/__init__.py"),
    carried!("salt/syspaths.py"),
    carried!("salt/template.py"),
    carried!("salt/utils/__init__.py"),
    carried!("salt/utils/args.py"),
    carried!("salt/utils/context.py"),
    carried!("salt/utils/data.py"),
    carried!("salt/utils/decorators/__init__.py"),
    carried!("salt/utils/decorators/jinja.py"),
    carried!("salt/utils/dictupdate.py"),
    carried!("salt/utils/event.py"),
    carried!("salt/utils/files.py"),
    carried!("salt/utils/functools.py"),
    carried!("salt/utils/hashutils.py"),
    carried!("salt/utils/http.py"),
    carried!("salt/utils/itertools.py"),
    carried!("salt/utils/jid.py"),
    carried!("salt/utils/jinja.py"),
    carried!("salt/utils/job.py"),
    carried!("salt/utils/json.py"),
    carried!("salt/utils/network.py"),
    carried!("salt/utils/odict.py"),
    carried!("salt/utils/path.py"),
    carried!("salt/utils/platform.py"),
    carried!("salt/utils/stringutils.py"),
    carried!("salt/utils/systemd.py"),
    carried!("salt/utils/templates.py"),
    carried!("salt/utils/url.py"),
    carried!("salt/utils/validate/__init__.py"),
    carried!("salt/utils/validate/net.py"),
    carried!("salt/utils/versions.py"),
    carried!("salt/utils/yaml.py"),
    carried!("salt/version.py"),
    carried!("salt/wheel.py"),
];

/// The files of the package that only some builds have. It is global since it is a part of the
/// program.
static MORE: OnceLock<&[(&str, &str)]> = OnceLock::new();

/// Adds files to the package, by their paths: those of a master. Only the first call has an effect.
pub fn carry(files: &'static [(&'static str, &'static str)]) {
    MORE.get_or_init(|| files);
}

fn files() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    FILES
        .iter()
        .chain(MORE.get().into_iter().copied().flatten())
}

/// Returns the files of the package by their paths.
pub(super) fn sources() -> Map {
    files()
        .map(|(path, text)| (Value::from(*path), Value::from(*text)))
        .collect()
}

/// Installs the package into a folder for other programs. Its calls are answered by `program`.
///
/// # Errors
/// When the folder does not exist, holds another Salt, or cannot be written.
pub fn install(folder: &Path, program: &Path) -> Result<(), Error> {
    let mark = folder.join("salt/_program");
    if folder.join("salt").exists() && !mark.exists() {
        return Err(Error::refused(format!(
            "cannot replace {}: it was not installed by this program",
            folder.join("salt").display()
        )));
    }
    for (path, text) in files() {
        put(&folder.join(path), text)?;
    }
    put(&mark, &program.display().to_string())
}

#[expect(
    clippy::disallowed_methods,
    reason = "an installation is not part of a run that records changes"
)]
fn put(path: &Path, text: &str) -> Result<(), Error> {
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above).map_err(Error::io(above))?;
    }
    std::fs::write(path, text).map_err(Error::io(path))
}
