//! The grains about this process: its user, paths, language and versions.

use std::env;

use value::{Map, Value};

use super::files::Root;

/// The Salt version whose behaviour this program has. SLS trees check it.
const SALT_VERSION: (&str, [i64; 2]) = ("3008.5", [3008, 5]);

/// Returns `username`, `groupname`, `pid`, `gid` and `uid`.
pub(super) fn user(root: &Root) -> Map {
    let uid = rustix::process::geteuid().as_raw();
    let mut grains = Map::new();
    let passwd = root.read("etc/passwd").unwrap_or_default();
    if let Some((name, group)) = passwd.lines().find_map(|line| user_of(line, uid)) {
        grains.insert("username", name);
        grains.insert("groupname", group_name(root, group).unwrap_or_default());
    }
    grains.insert("pid", i64::from(std::process::id()));
    grains.insert("gid", i64::from(rustix::process::getegid().as_raw()));
    grains.insert("uid", i64::from(uid));
    grains
}

/// Returns the name and the primary group's number from a line of passwd if the line is that of
/// `uid`.
fn user_of(line: &str, uid: u32) -> Option<(&str, &str)> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let number: u32 = fields.nth(1)?.parse().ok()?;
    let group = fields.next()?;
    (number == uid).then_some((name, group))
}

fn group_name(root: &Root, number: &str) -> Option<String> {
    let text = root.read("etc/group")?;
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then_some(name)
    })?;
    Some(name.to_owned())
}

/// Returns `cwd`.
pub(super) fn cwd() -> Map {
    env::current_dir().map_or_else(
        |_| Map::new(),
        |folder| Map::new().with("cwd", folder.to_string_lossy().as_ref()),
    )
}

/// Returns `path` and `systempath`.
pub(super) fn path() -> Map {
    let path = variable("PATH").unwrap_or_default();
    let path = path.trim();
    let folders = path.split(':').map(Value::from);
    Map::new()
        .with("path", path)
        .with("systempath", Value::list(folders))
}

/// Returns `shell`.
pub(super) fn shell() -> Map {
    let shell = variable("SHELL").unwrap_or_else(|| "/bin/sh".to_owned());
    Map::new().with("shell", shell)
}

/// Returns the versions that templates ask for: Salt's, that of the Python whose semantics
/// templates have, and this program's.
pub(super) fn versions() -> Map {
    let python: [Value; 5] = [3.into(), 11.into(), 0.into(), "final".into(), 0.into()];
    Map::new()
        .with("pythonversion", Value::list(python))
        .with("saltversion", SALT_VERSION.0)
        .with(
            "saltversioninfo",
            Value::list(SALT_VERSION.1.map(Value::from)),
        )
        .with("pinchversion", env!("CARGO_PKG_VERSION"))
}

/// Returns `locale_info`.
pub(super) fn locale_info(root: &Root) -> Map {
    let (language, encoding) = language();
    let detected = encoding.to_lowercase();
    let timezone = super::timezone::name(root).unwrap_or_else(|| "unknown".to_owned());
    let info = Map::new()
        .with("defaultlanguage", language)
        .with("defaultencoding", encoding)
        .with("detectedencoding", detected)
        .with("timezone", timezone);
    Map::new().with("locale_info", info)
}

/// Returns language and encoding as Python reports them. Python treats the C locale as English in
/// UTF-8.
fn language() -> (String, String) {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|text| !text.is_empty())
        .unwrap_or_default();
    language_of(&named)
}

fn language_of(locale: &str) -> (String, String) {
    let locale = locale.split('@').next().unwrap_or_default();
    let (language, encoding) = locale.split_once('.').unwrap_or((locale, ""));
    match (language, encoding.to_lowercase().replace('-', "").as_str()) {
        ("" | "C" | "POSIX", _) => ("en_US".to_owned(), "UTF-8".to_owned()),
        (_, "utf8") => (language.to_owned(), "UTF-8".to_owned()),
        (_, "") => (language.to_owned(), "ISO8859-1".to_owned()),
        _ => (language.to_owned(), encoding.to_owned()),
    }
}

fn variable(name: &str) -> Option<String> {
    env::var_os(name).map(|text| text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_locale_is_english_as_python_has_it() {
        let pair = |language: &str, encoding: &str| (language.to_owned(), encoding.to_owned());
        assert_eq!(language_of("C.UTF-8"), pair("en_US", "UTF-8"));
        assert_eq!(language_of(""), pair("en_US", "UTF-8"));
        assert_eq!(language_of("de_DE.utf8@euro"), pair("de_DE", "UTF-8"));
    }

    #[test]
    fn a_user_is_found_by_number() {
        assert_eq!(user_of("bin:x:2:3:bin:/bin:/bin/sh", 2), Some(("bin", "3")));
        assert_eq!(user_of("bin:x:2:3:bin:/bin:/bin/sh", 3), None);
        assert_eq!(user_of("broken", 0), None);
    }
}
