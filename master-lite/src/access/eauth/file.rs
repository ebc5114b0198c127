//! The source `file`: a file of users and passwords.

use std::path::Path;

use machine::process::{Process, which};
use machine::{fs, hashes};
use state::module::Error;
use value::Value;

use super::source::Source;
use crate::cluster::tokens::is_equal;

/// The maximum run time of `htpasswd` in seconds.
const TIMEOUT_S: i64 = 10;
/// The exit codes of `htpasswd -v` for a wrong password, and for an unknown user.
const WRONG: [i64; 2] = [3, 6];
/// The digests of `hashutil.digest`.
const DIGESTS: [&str; 3] = ["md5", "sha256", "sha512"];

/// Checks a password with the file of `^filename`.
pub(super) fn check(source: &Source, name: &str, password: &str) -> Result<bool, Error> {
    let path = source.setting("filename").unwrap_or_default();
    if !Path::new(&path).is_absolute() {
        return Err("set ^filename to the absolute path of the file of users".into());
    }
    let kind = source
        .setting("filetype")
        .unwrap_or_else(|| "text".to_owned());
    match kind.as_str() {
        "text" => Fields::of(source)?.check(&path, name, password),
        "htdigest" => digest(source, &path, name, password),
        "htpasswd" => htpasswd(source, &path, name, password),
        other => Err(Error::refused(format!(
            "^filetype must be text, htpasswd or htdigest, but got {other}"
        ))),
    }
}

fn text_of(path: &str) -> Result<String, Error> {
    let text = String::from_utf8(fs::read(path)?);
    text.map_err(|_| Error::refused(format!("Cannot read {path}: it is not UTF-8")))
}

/// The form of a line of a text file.
struct Fields {
    separator: String,
    /// The places of name and password, from 0.
    name: usize,
    password: usize,
    /// The digest of the passwords; `None` if they are in plain text.
    digest: Option<&'static str>,
}

impl Fields {
    fn of(source: &Source) -> Result<Self, Error> {
        let separator = source.setting("field_separator");
        let place = |setting: &str, default: usize| match source.setting(setting) {
            None => Ok(default),
            Some(text) => {
                let place = text
                    .parse::<usize>()
                    .ok()
                    .and_then(|place| place.checked_sub(1));
                place.ok_or_else(|| {
                    Error::refused(format!(
                        "^{setting} must be a number from 1, but got {text}"
                    ))
                })
            }
        };
        let digest = match source.setting("hashtype") {
            None => None,
            Some(plain) if plain == "plaintext" => None,
            Some(name) => {
                let known = DIGESTS.iter().find(|known| **known == name);
                Some(*known.ok_or_else(|| {
                    Error::refused(format!(
                        "^hashtype must be plaintext, md5, sha256 or sha512, but got {name}"
                    ))
                })?)
            }
        };
        Ok(Self {
            separator: separator
                .filter(|text| !text.is_empty())
                .unwrap_or_else(|| ":".to_owned()),
            name: place("username_field", 0)?,
            password: place("password_field", 1)?,
            digest,
        })
    }

    fn check(&self, path: &str, name: &str, password: &str) -> Result<bool, Error> {
        self.is_in(&text_of(path)?, name, password)
            .map_err(|(line, what)| Error::refused(format!("{path}:{line} has no {what}")))
    }

    /// Returns whether the first line of a user has the password. As in Salt, a line before it that
    /// lacks a field is an error: its number and the name of the field.
    fn is_in(&self, text: &str, name: &str, password: &str) -> Result<bool, (usize, &'static str)> {
        for (number, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.trim().split(self.separator.as_str()).collect();
            let field = |place: usize, what| fields.get(place).ok_or((number + 1, what));
            let own = field(self.name, "user name")?;
            let known = field(self.password, "password")?;
            if *own == name {
                return Ok(match self.digest {
                    None => is_equal(known, password),
                    Some(kind) => hashes::of_bytes(password.as_bytes(), kind)
                        .is_ok_and(|digest| is_equal(known, &digest)),
                });
            }
        }
        Ok(false)
    }
}

/// Checks a password with a file of `htdigest`.
fn digest(source: &Source, path: &str, name: &str, password: &str) -> Result<bool, Error> {
    let realm = source.setting("realm").filter(|realm| !realm.is_empty());
    let realm = realm.ok_or("set ^realm, which a file of htdigest needs")?;
    let line = format!("{name}:{realm}:{password}");
    let wanted = hashes::of_bytes(line.as_bytes(), "md5")?;
    let start = format!("{name}:{realm}:");
    let text = text_of(path)?;
    let known = text.lines().find_map(|line| line.strip_prefix(&start));
    Ok(!name.contains(':') && known.is_some_and(|known| is_equal(known.trim(), &wanted)))
}

/// Checks a password with the program `htpasswd`, which knows all of its formats.
fn htpasswd(source: &Source, path: &str, name: &str, password: &str) -> Result<bool, Error> {
    // A file that is missing or cannot be read is an error, and not a wrong password.
    fs::read(path)?;
    let program =
        which("htpasswd").ok_or("the program htpasswd is missing: install apache2-utils")?;
    if password.contains('\n') {
        return Ok(false);
    }
    let process = Process {
        stdin: Some(password.to_owned()),
        timeout: Some(Value::from(TIMEOUT_S)),
        cwd: Some("/".to_owned()),
        ..Process::words([program.as_str(), "-vi", path, name]).quiet()
    };
    let done = process.run(&source.cx)?;
    match done.retcode {
        Some(0) if !done.timed_out => Ok(true),
        Some(code) if WRONG.contains(&code) => Ok(false),
        _ => Err(format!("htpasswd cannot read {path}: {}", done.stderr.trim()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(digest: Option<&'static str>) -> Fields {
        Fields {
            separator: ":".into(),
            name: 0,
            password: 1,
            digest,
        }
    }

    #[test]
    fn the_first_line_of_a_user_decides() {
        let text = "joe:x:1\nann:y\njoe:z\n";
        let is_in = |name: &str, password: &str| fields(None).is_in(text, name, password);
        assert_eq!(is_in("joe", "x"), Ok(true));
        assert_eq!(is_in("joe", "z"), Ok(false));
        assert_eq!(is_in("ann", "y"), Ok(true));
        assert_eq!(is_in("ann", ""), Ok(false));
        assert_eq!(is_in("bob", "x"), Ok(false));
        assert_eq!(
            fields(None).is_in("\njoe:x\n", "joe", "x"),
            Err((1, "password"))
        );
    }

    #[test]
    fn passwords_may_be_digests() {
        let text = format!("joe:{}\n", hashes::of_bytes(b"x", "sha256").unwrap());
        assert_eq!(fields(Some("sha256")).is_in(&text, "joe", "x"), Ok(true));
        assert_eq!(fields(Some("sha256")).is_in(&text, "joe", "y"), Ok(false));
        assert_eq!(fields(Some("md5")).is_in(&text, "joe", "x"), Ok(false));
        let itself = text.trim_end().strip_prefix("joe:").unwrap();
        assert_eq!(
            fields(Some("sha256")).is_in(&text, "joe", itself),
            Ok(false)
        );
    }
}
