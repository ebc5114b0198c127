//! The files with tests of SLS files.

use std::collections::BTreeSet;

use state::exec::Exec;
use state::module::Error;
use value::json::{self, Layout};
use value::{Map, Value, log};

/// The files with tests that are found for SLS files.
pub(super) struct Suite {
    saltenv: String,
    /// The name of the folder of the files with tests.
    folder: String,
    /// All SLS files of the environment.
    states: Vec<String>,
    /// The paths of files whose tests are not loaded yet.
    files: BTreeSet<String>,
    /// The SLS files whose files with tests are found.
    pub(super) found: Vec<String>,
}

impl Suite {
    /// Creates an empty suite.
    ///
    /// # Errors
    /// When the tree or the pillar cannot be read.
    pub(super) fn new(cx: &Exec, saltenv: &str) -> Result<Self, Error> {
        let option = vec!["saltcheck_test_location".into(), "saltcheck-tests".into()];
        let folder = cx.call_internal("config.get", option, Map::new())?;
        let env = Map::new().with("saltenv", saltenv);
        let states = cx.call_internal("cp.list_states", Vec::new(), env)?;
        Ok(Self {
            saltenv: saltenv.to_owned(),
            folder: normal(&folder.to_text()),
            states: states.texts(),
            files: BTreeSet::new(),
            found: Vec::new(),
        })
    }

    /// Adds the files with tests of an SLS file and of those that it includes. With `check_all`,
    /// all files of their folders are added.
    ///
    /// # Errors
    /// When the pillar does not render, or a file cannot be copied to the cache.
    pub(super) fn add(&mut self, cx: &Exec, name: &str, check_all: bool) -> Result<(), Error> {
        let mut cached = BTreeSet::new();
        for sls in self.included(cx, name)? {
            for folder in folders(&sls, &self.folder) {
                cached.extend(self.cache(cx, &folder, &sls, check_all)?);
            }
            if !check_all {
                let names = names(&sls, &self.folder);
                let is_of_sls = |file: &&String| names.iter().any(|name| file.ends_with(name));
                self.files.extend(cached.iter().filter(is_of_sls).cloned());
            }
        }
        Ok(())
    }

    /// Returns the SLS files of the chunks of an SLS file, each once. A name that is no SLS file is
    /// that of a file with tests.
    fn included(&self, cx: &Exec, name: &str) -> Result<Vec<String>, Error> {
        if !self.states.iter().any(|known| known == name) {
            return Ok(vec![name.to_owned()]);
        }
        let kwargs = Map::new()
            .with("saltenv", self.saltenv.as_str())
            .with("test", true);
        let low = cx
            .apart()
            .call_internal("state.show_low_sls", vec![name.into()], kwargs)?;
        let mut all: Vec<String> = Vec::new();
        for chunk in low.as_list().unwrap_or_default() {
            let Value::Map(chunk) = chunk else {
                log::error(format_args!(
                    "saltcheck: the SLS file {name} does not compile: {}",
                    chunk.to_text()
                ));
                break;
            };
            let sls = chunk.get("__sls__").map(Value::to_text);
            if let Some(sls) = sls.filter(|sls| !all.contains(sls)) {
                all.push(sls);
            }
        }
        Ok(all)
    }

    /// Copies the files with tests of a folder to the cache and returns their paths. Unless all
    /// files are wanted, the first folder of an SLS file that has any is the only one.
    fn cache(
        &mut self,
        cx: &Exec,
        folder: &str,
        sls: &str,
        check_all: bool,
    ) -> Result<Vec<String>, Error> {
        if self.found.iter().any(|found| found == sls) {
            return Ok(Vec::new());
        }
        let kwargs = Map::new()
            .with("saltenv", self.saltenv.as_str())
            .with("include_pat", "*.tst");
        let cached = cx.call_internal("cp.cache_dir", vec![folder.into()], kwargs)?;
        let cached = cached.texts();
        if !cached.is_empty() {
            match check_all {
                true => self.files.extend(cached.iter().cloned()),
                false => self.found.push(sls.to_owned()),
            }
        }
        Ok(cached)
    }

    /// Returns the tests of the added files by their IDs, and forgets these files.
    ///
    /// # Errors
    /// When a file does not render, or is not a dictionary of tests.
    pub(super) fn load(&mut self, cx: &Exec) -> Result<Map, Error> {
        let mut tests = Map::new();
        for file in std::mem::take(&mut self.files) {
            let saltenv = Map::new().with("saltenv", self.saltenv.as_str());
            let rendered =
                cx.call_internal("slsutil.renderer", vec![file.as_str().into()], saltenv)?;
            match plain(&rendered)? {
                Value::Map(own) => tests.update(own),
                Value::Null => {}
                _ => {
                    return Err(Error::refused(format!(
                        "{file} does not contain a dictionary of tests"
                    )));
                }
            }
        }
        Ok(tests)
    }
}

/// Returns data as JSON transports it: all keys are texts.
fn plain(data: &Value) -> Result<Value, Error> {
    json::read(&json::write(data, Layout::default()))
        .map_err(|error| Error::refused(error.to_string()))
}

/// Returns a relative path without `.` and empty parts.
fn normal(path: &str) -> String {
    let parts = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/")
}

/// Joins parts of a path. Empty parts are left out.
fn joined(parts: &[&str]) -> String {
    let parts = parts.iter().filter(|part| !part.is_empty());
    parts.copied().collect::<Vec<_>>().join("/")
}

/// Returns the URLs of the folders in which an SLS file's tests can be, the longest first.
fn folders(sls: &str, folder: &str) -> Vec<String> {
    let parent = sls.rsplit_once('.').map_or("", |(parent, _)| parent);
    let first = sls.split('.').next().unwrap_or_default();
    let mut urls: Vec<String> = [sls, parent, first]
        .iter()
        .map(|name| format!("salt://{}", joined(&[&name.replace('.', "/"), folder])))
        .collect();
    value::sorted::sort_by_key(&mut urls, |url| std::cmp::Reverse(url.len()));
    urls.dedup();
    urls
}

/// Returns the ends of the paths of an SLS file's tests.
fn names(sls: &str, folder: &str) -> [String; 3] {
    let path = sls.replace('.', "/");
    let (parent, last) = path.rsplit_once('/').unwrap_or(("", &path));
    let (first, below) = parent.split_once('/').unwrap_or((parent, ""));
    let first = if parent.is_empty() { last } else { first };
    let file = format!("{last}.tst");
    [
        joined(&[&path, folder, "init.tst"]),
        joined(&[parent, folder, &file]),
        joined(&[first, folder, below, &file]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_an_sls_are_next_to_it_or_in_the_folder_of_its_first_part() {
        assert_eq!(
            folders("app.web.nginx", "saltcheck-tests"),
            [
                "salt://app/web/nginx/saltcheck-tests",
                "salt://app/web/saltcheck-tests",
                "salt://app/saltcheck-tests",
            ]
        );
        assert_eq!(
            folders("app", "tests/saltcheck"),
            ["salt://app/tests/saltcheck", "salt://tests/saltcheck"]
        );
        assert_eq!(
            names("app.web.nginx", "t"),
            [
                "app/web/nginx/t/init.tst",
                "app/web/t/nginx.tst",
                "app/t/web/nginx.tst"
            ]
        );
        assert_eq!(
            names("app", "t"),
            ["app/t/init.tst", "t/app.tst", "app/t/app.tst"]
        );
    }

    #[test]
    fn the_location_of_the_tests_is_a_plain_path() {
        assert_eq!(normal("./tests//saltcheck/"), "tests/saltcheck");
    }
}
