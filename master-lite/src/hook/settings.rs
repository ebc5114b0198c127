//! [`Settings`]: the options that begin with `hook_`.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use state::opts::Opts;
use value::{Value, log};

use super::path;
use crate::http::{Connections, Limits, Rates};

/// The minimum length of a secret in bytes. An attacker who sees one signed request could find a
/// shorter one by trial.
const SECRET_MIN: usize = 16;
/// The maximum of `hook_max_body`. The event holds the body twice, and events have their own limit.
const BODY_MAX: i64 = 4 << 20;

/// The reason why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// An option that cannot be used.
    #[error("the option `{option}`: {problem}")]
    Option {
        option: &'static str,
        problem: String,
    },
    /// A file that cannot be read.
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// The settings of the hook.
pub(crate) struct Settings {
    pub(super) address: SocketAddr,
    /// The secrets, any of which may sign a request: while an administrator replaces one, both are
    /// valid.
    pub(super) secrets: Vec<Vec<u8>>,
    pub(super) tolerance_s: u64,
    /// The tags whose requests may be signed as GitHub signs them: see [`super::signature`].
    pub(super) hub_tags: Vec<String>,
    pub(super) limits: Limits,
}

fn wrong(option: &'static str, problem: impl Into<String>) -> Error {
    let problem = problem.into();
    Error::Option { option, problem }
}

/// Returns the address in an option. Its form was checked when the configuration was read.
pub(crate) fn listen(opts: &Opts, option: &'static str) -> Result<Option<SocketAddr>, Error> {
    let Some(text) = opts.text(option) else {
        return Ok(None);
    };
    let address = text.parse();
    let address =
        address.map_err(|_| wrong(option, format!("{text} is not an address with a port")));
    address.map(Some)
}

fn number(opts: &Opts, option: &str, default: f64) -> f64 {
    let given = opts.get(option).and_then(Value::as_float);
    given.unwrap_or(default)
}

/// Returns the time that a request may take: between a second and an hour.
fn timeout(seconds: f64) -> Duration {
    let time = Duration::try_from_secs_f64(seconds.clamp(1.0, 3600.0));
    time.unwrap_or(Duration::from_secs(10))
}

impl Settings {
    /// Takes the settings out of the options, or returns `None` if no hook is configured. The
    /// secret is removed from the options, since templates and runners can read those.
    ///
    /// # Errors
    /// When there is no usable secret, or a path of `hook_github_paths` is not one of the hook.
    pub(crate) fn take(opts: &mut Opts) -> Result<Option<Self>, Error> {
        let given = opts.map.remove("hook_secret");
        let Some(address) = listen(opts, "hook_listen")? else {
            return Ok(None);
        };
        let given = given.filter(|given| !given.is_null());
        let secrets = secrets(
            given.as_ref(),
            opts.text("hook_secret_file"),
            &opts.path("conf_file"),
        )?;
        let body_max = opts.int("hook_max_body").unwrap_or(1 << 20);
        if body_max > BODY_MAX {
            return Err(wrong("hook_max_body", format!("the maximum is {BODY_MAX}")));
        }
        let tolerance = opts.int("hook_tolerance").unwrap_or(300);
        let limits = Limits {
            body_max: usize::try_from(body_max).unwrap_or_default(),
            body_option: "hook_max_body",
            timeout: timeout(number(opts, "hook_timeout", 10.0)),
            rates: Rates {
                each: number(opts, "hook_rate", 20.0),
                all: number(opts, "hook_rate_all", 200.0),
                options: ["hook_rate", "hook_rate_all"],
            },
            connections: Connections::FEW,
        };
        Ok(Some(Self {
            address,
            secrets,
            tolerance_s: u64::try_from(tolerance).unwrap_or_default().min(86_400),
            hub_tags: hub_tags(opts)?,
            limits,
        }))
    }
}

/// Returns the tags of the paths in `hook_github_paths`.
fn hub_tags(opts: &Opts) -> Result<Vec<String>, Error> {
    let option = "hook_github_paths";
    let paths = match opts.get(option) {
        None | Some(Value::Null) => Vec::new(),
        Some(list @ Value::List(_)) => list.texts(),
        Some(one) => vec![one.to_text()],
    };
    let tag = |path: String| {
        let problem = |why: &str| wrong(option, format!("{path}: {why}"));
        let is_whole = path.starts_with("/hook") && !path.contains('?');
        let tag = path::tag(&path).map_err(|refusal| problem(&refusal.why))?;
        is_whole
            .then_some(tag)
            .ok_or_else(|| problem("expected only a path, such as /hook/github"))
    };
    paths.into_iter().map(tag).collect()
}

/// Warns if all users may read the configuration file with its secret. Users of `publisher_acl`
/// need to read it.
fn tell_of_readers(conf_file: &Path) {
    let mode = std::fs::metadata(conf_file).map(|found| found.mode());
    if mode.is_ok_and(|mode| mode & 0o004 != 0) {
        log::warning(format_args!(
            "hook_secret: every user can read {}: use hook_secret_file instead",
            conf_file.display()
        ));
    }
}

fn secrets(
    given: Option<&Value>,
    file: Option<&str>,
    conf_file: &Path,
) -> Result<Vec<Vec<u8>>, Error> {
    let (option, secrets) = match (given, file) {
        (Some(_), Some(_)) => {
            let problem = "hook_secret_file is also set: set only one of them";
            return Err(wrong("hook_secret", problem));
        }
        (Some(given), None) => {
            tell_of_readers(conf_file);
            let texts = match given {
                Value::List(_) => given.texts(),
                one => vec![one.to_text()],
            };
            let secrets = texts.into_iter().map(String::into_bytes).collect();
            ("hook_secret", secrets)
        }
        (None, Some(file)) => ("hook_secret_file", of_file(Path::new(file))?),
        (None, None) => Default::default(),
    };
    if secrets.is_empty() {
        let problem = "requests must be signed with a secret: set hook_secret, or hook_secret_file to the path of a file that contains it";
        return Err(wrong("hook_listen", problem));
    }
    if secrets.iter().any(|secret| secret.len() < SECRET_MIN) {
        let problem = format!(
            "the secret is shorter than {SECRET_MIN} bytes (create one with `openssl rand -hex 32`)"
        );
        return Err(wrong(option, problem));
    }
    Ok(secrets)
}

/// Returns the secrets in a file, one per line. Refuses a file that other users may access.
fn of_file(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let io = |source| Error::Io {
        path: path.to_owned(),
        source,
    };
    let mode = std::fs::metadata(path).map_err(io)?.mode();
    if mode & 0o077 != 0 {
        let path = path.display();
        let problem = format!("other users can read {path}: run chmod 600 {path}");
        return Err(wrong("hook_secret_file", problem));
    }
    let bytes = std::fs::read(path).map_err(io)?;
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii_end);
    Ok(lines
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect())
}

#[expect(clippy::disallowed_methods, reason = "a test's own files")]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use value::Map;

    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn taken(map: Map) -> Result<Option<Settings>, String> {
        Settings::take(&mut Opts::new(map)).map_err(|error| error.to_string())
    }

    fn hook() -> Map {
        Map::new().with("hook_listen", "127.0.0.1:0")
    }

    fn refused(map: Map) -> String {
        taken(map).err().unwrap_or_default()
    }

    #[test]
    fn a_hook_without_a_good_secret_is_an_error_that_says_so() {
        assert!(taken(Map::new()).unwrap().is_none());
        assert!(refused(hook()).contains("`hook_listen`: requests must be signed"));
        let short = refused(hook().with("hook_secret", "short"));
        assert!(
            short.contains("`hook_secret`: the secret is shorter"),
            "{short}"
        );
        assert!(!short.contains("\"short\""), "{short}");
        let both = hook()
            .with("hook_secret", SECRET)
            .with("hook_secret_file", "/x");
        assert!(refused(both).contains("hook_secret_file is also set"));
        let large = hook()
            .with("hook_secret", SECRET)
            .with("hook_max_body", 5 << 20);
        assert!(refused(large).contains("`hook_max_body`: the maximum is"));
    }

    #[test]
    fn a_path_for_github_is_one_of_the_hooks() {
        let hook = || hook().with("hook_secret", SECRET);
        assert!(taken(hook()).unwrap().unwrap().hub_tags.is_empty());
        let settings = taken(hook().with("hook_github_paths", "/hook//git%68ub/"));
        let tags = settings.unwrap().unwrap().hub_tags;
        assert_eq!(tags, ["salt/netapi/hook/github"]);
        for bad in ["/github", "github", "/hook/a?b", ""] {
            let said = refused(hook().with("hook_github_paths", bad));
            assert!(said.contains("`hook_github_paths`: "), "{bad}: {said}");
        }
    }

    #[test]
    fn the_secret_is_not_among_the_options_afterwards() {
        let mut opts = Opts::new(hook().with("hook_secret", SECRET));
        let settings = Settings::take(&mut opts).ok().flatten().unwrap();
        assert_eq!(settings.secrets, [SECRET.as_bytes()]);
        assert_eq!(opts.get("hook_secret"), None);
    }

    #[test]
    fn one_secret_may_take_the_place_of_another() {
        let texts = |texts: &[&str]| Value::list(texts.iter().map(|text| (*text).into()));
        let given = |secrets: &[&str]| taken(hook().with("hook_secret", texts(secrets)));
        let new = "another that is good";
        let settings = given(&[new, SECRET]).unwrap().unwrap();
        assert_eq!(settings.secrets, [new.as_bytes(), SECRET.as_bytes()]);
        assert!(given(&[]).is_err_and(|error| error.contains("must be signed with a secret")));
        assert!(given(&[new, "short"]).is_err_and(|error| error.contains("is shorter")));
    }

    #[test]
    fn a_file_with_the_secret_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, format!("{SECRET}\n")).unwrap();
        let named = || hook().with("hook_secret_file", path.display().to_string());
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(refused(named()).contains("chmod 600"));
        mode(0o600);
        let settings = taken(named()).unwrap().unwrap();
        assert_eq!(settings.secrets, [SECRET.as_bytes()]);
        std::fs::write(&path, format!("another that is good\n\n{SECRET}")).unwrap();
        let settings = taken(named()).unwrap().unwrap();
        assert_eq!(settings.secrets.len(), 2);
        assert_eq!(settings.secrets[1], SECRET.as_bytes());
        std::fs::write(&path, "\n").unwrap();
        assert!(refused(named()).contains("must be signed with a secret"));
        let missing = hook().with("hook_secret_file", "/nowhere/secret");
        assert!(refused(missing).contains("/nowhere/secret: "));
    }
}
