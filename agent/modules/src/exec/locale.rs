//! The `locale` execution module.

use std::path::Path;

use machine::process::{Process, which};
use machine::systemd::booted;
use state::exec::Exec;
use state::module::Error;
use value::{Map, Value, log, pyre};

state::exec_module! {
    /// Manage the locale of this machine and the available locales.
    mod locale;

    /// Return the available locales.
    ///
    ///     salt-call locale.list_avail
    fn list_avail(ListAvail {});

    /// Return the locale of the system.
    ///
    ///     salt-call locale.get_locale
    fn get_locale(GetLocale {});

    /// Set the locale of the system.
    ///
    ///     salt-call locale.set_locale en_US.UTF-8
    fn set_locale(SetLocale {
        /// The name of the locale, such as en_US.UTF-8.
        locale: String,
    });

    /// Return True if a locale is available, in any spelling of its name.
    ///
    ///     salt-call locale.avail en_US.UTF-8
    fn avail(Avail {
        /// The name of the locale.
        locale: String,
    });

    /// Generate a locale.
    ///
    ///     salt-call locale.gen_locale en_US.UTF-8
    fn gen_locale(GenLocale {
        /// The name of the locale, such as `en_IE.UTF-8 UTF-8`.
        locale: String,
        ..kwargs
    });
}

/// The parts of the name of a locale: `language_TERRITORY.codeset@modifier charmap`.
struct Parts<'a> {
    language: &'a str,
    territory: &'a str,
    codeset: &'a str,
    modifier: &'a str,
    charmap: &'a str,
}

impl<'a> Parts<'a> {
    fn parse(locale: &'a str) -> Self {
        let cut = |text: &'a str, sign: char| text.split_once(sign).unwrap_or((text, ""));
        let (rest, charmap) = cut(locale, ' ');
        let (rest, modifier) = cut(rest, '@');
        let (rest, codeset) = cut(rest, '.');
        let (language, territory) = cut(rest, '_');
        Self {
            language,
            territory,
            codeset,
            modifier,
            charmap,
        }
    }

    fn joined(&self) -> String {
        let mut joined = self.language.to_owned();
        let parts = [
            ('_', self.territory),
            ('.', self.codeset),
            ('@', self.modifier),
            (' ', self.charmap),
        ];
        for (sign, part) in parts.iter().filter(|(_, part)| !part.is_empty()) {
            joined.push(*sign);
            joined.push_str(part);
        }
        joined
    }
}

/// Returns the name in the spelling of `locale -a`.
fn normalized(locale: &str) -> String {
    let parts = Parts::parse(locale);
    let territory = parts.territory.to_uppercase();
    let codeset = parts.codeset.to_lowercase().replace('-', "");
    Parts {
        territory: &territory,
        codeset: &codeset,
        charmap: "",
        ..parts
    }
    .joined()
}

fn major(cx: &Exec) -> i64 {
    let release = cx.grains().get("osmajorrelease").cloned();
    release.and_then(|release| release.as_int()).unwrap_or(0)
}

fn check(locale: &str) -> Result<(), Error> {
    let is_word = |sign: char| sign.is_ascii_alphanumeric() || "_.@ -".contains(sign);
    if locale.is_empty() || locale.starts_with('-') || !locale.chars().all(is_word) {
        return Err(Error::refused(format!("invalid locale name '{locale}'")));
    }
    Ok(())
}

fn all(cx: &Exec) -> Result<Vec<String>, Error> {
    let out = Process::words(["locale", "-a"])
        .run(cx)?
        .stdout_of_success("locale -a")?;
    Ok(out.split('\n').map(str::to_owned).collect())
}

fn list_avail(cx: &Exec, _args: ListAvail) -> Result<Value, Error> {
    Ok(all(cx)?.into())
}

fn avail(cx: &Exec, args: Avail) -> Result<Value, Error> {
    let wanted = normalized(&args.locale);
    let has = all(cx)?
        .iter()
        .any(|each| normalized(each.trim()) == wanted);
    Ok(has.into())
}

/// Parses the variables of the system locale from the output of `localectl`.
fn variables(text: &str) -> Vec<(String, String)> {
    let (mut found, mut is_locale) = (Vec::new(), false);
    for line in text.lines() {
        let (key, value) = match line.split_once(": ") {
            Some((key, value)) => (Some(key.trim()), value),
            None => (None, line),
        };
        is_locale = key.map_or(is_locale, |key| key == "System Locale");
        if let (true, Some((name, value))) = (is_locale, value.trim().split_once('=')) {
            found.push((name.to_owned(), value.to_owned()));
        }
    }
    found
}

fn localectl(cx: &Exec) -> Result<Vec<(String, String)>, Error> {
    let program = which("localectl").ok_or("Unable to find \"localectl\"")?;
    let out = Process::words([&program, "status"]).run(cx)?;
    if out
        .stderr
        .contains("Failed to connect to bus: No such file or directory")
    {
        return Err("Command \"localectl\" is in a degraded state.".into());
    }
    if out.stdout_regardless().trim().is_empty() {
        return Err("Unable to parse result of \"localectl\"".into());
    }
    Ok(variables(out.stdout_regardless()))
}

/// Returns the file and the variable in which a distribution without systemd stores the locale.
fn kept_in(family: &str) -> Option<(&'static str, &'static str)> {
    match family {
        "Suse" => Some(("/etc/sysconfig/language", "RC_LANG")),
        "RedHat" => Some(("/etc/sysconfig/i18n", "LANG")),
        "Debian" => Some(("/etc/default/locale", "LANG")),
        _ => None,
    }
}

fn is_old_suse(cx: &Exec, family: &str) -> bool {
    family == "Suse" && major(cx) == 12
}

fn get_locale(cx: &Exec, _args: GetLocale) -> Result<Value, Error> {
    let family = cx.grain("os_family");
    if booted() && !is_old_suse(cx, &family) {
        let found = localectl(cx)?.into_iter().find(|(name, _)| name == "LANG");
        return Ok(found.map_or_else(String::new, |(_, value)| value).into());
    }
    if family == "Gentoo" {
        let out = Process::words(["eselect", "--brief", "locale", "show"]).run(cx)?;
        return Ok(out.stdout_regardless().trim().into());
    }
    let (file, key) = kept_in(&family).ok_or_else(|| {
        Error::refused(format!(
            "Error: \"{}\" is unsupported!",
            cx.grain("oscodename")
        ))
    })?;
    let text = machine::fs::text_or_none(file)?.unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name == key).then(|| value.replace('"', ""))
    });
    Ok(found.unwrap_or_default().into())
}

/// Writes a variable to a file. If the file does not have it yet, it is appended.
fn write(cx: &Exec, file: &str, key: &str, value: &str) -> Result<(), Error> {
    if !Path::new(file).exists() {
        cx.call_internal("file.touch", vec![file.into()], Map::new())?;
    }
    let given = [file, &format!("^{key}=.*"), &format!("{key}={value}")].map(Value::from);
    let append = Map::new().with("append_if_not_found", true);
    cx.call_internal("file.replace", given.into(), append)?;
    Ok(())
}

fn set_by_localectl(cx: &Exec, locale: &str) -> Result<(), Error> {
    let mut set = localectl(cx)?;
    match set.iter_mut().find(|(name, _)| name == "LANG") {
        Some((_, value)) => locale.clone_into(value),
        None => set.push(("LANG".to_owned(), locale.to_owned())),
    }
    let set = set
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"));
    let words = ["localectl", "set-locale"].map(str::to_owned);
    let out = Process::words(words.into_iter().chain(set)).run(cx)?;
    if out.success() {
        return Ok(());
    }
    // localed is not running, so the file that it would have written is written here.
    write(cx, "/etc/locale.conf", "LANG", locale)
}

fn set_locale(cx: &Exec, args: SetLocale) -> Result<Value, Error> {
    let locale = args.locale.as_str();
    check(locale)?;
    let family = cx.grain("os_family");
    let is_new_debian = family == "Debian" && major(cx) >= 13;
    if booted() && !is_old_suse(cx, &family) && !is_new_debian {
        set_by_localectl(cx, locale)?;
        return Ok(true.into());
    }
    if family == "Gentoo" {
        let words = ["eselect", "--brief", "locale", "set", locale];
        return Ok(Process::words(words).run(cx)?.success().into());
    }
    if family == "Debian" {
        let update =
            which("update-locale").ok_or("Cannot set locale: \"update-locale\" was not found.")?;
        Process::words([update]).run(cx)?;
    }
    let (file, key) = kept_in(&family).ok_or("Error: Unsupported platform!")?;
    write(cx, file, key, &format!("\"{locale}\""))?;
    Ok(true.into())
}

/// Returns whether the distribution can generate a locale.
fn can_make(cx: &Exec, locale: &str, short: &str) -> Result<bool, Error> {
    let by_file = cx.grain("os") == "Debian" || cx.grain("os_family") == "Gentoo";
    let path = match by_file {
        true => "/usr/share/i18n/SUPPORTED",
        false if cx.grain("os_family") == "Suse" => "/usr/share/locale",
        false => "/usr/share/i18n/locales",
    };
    let known = if by_file {
        let text = machine::fs::text(path)?;
        text.lines().any(|line| line == locale)
    } else if Path::new(path).is_dir() {
        Path::new(path).join(short).exists()
    } else {
        return Err(Error::refused(format!(
            "Locale \"{locale}\" is not available."
        )));
    };
    if !known {
        log::error(format_args!(
            "The provided locale \"{locale}\" is not found in {path}"
        ));
    }
    Ok(known)
}

/// Returns the command line that generates a locale.
fn words(cx: &Exec, locale: &str, parts: &Parts<'_>, verbose: bool) -> Result<Vec<String>, Error> {
    let short = format!("{}_{}", parts.language, parts.territory);
    if let Some(program) = which("locale-gen") {
        let mut words = vec![program];
        if cx.grain("os_family") == "Gentoo" {
            words.push("--generate".to_owned());
        }
        words.push(match cx.grain("os") == "Ubuntu" {
            true => normalized(locale),
            false => locale.to_owned(),
        });
        return Ok(words);
    }
    let program = which("localedef")
        .ok_or("Command 'locale-gen' or 'localedef' was not found on this system.")?;
    let name = format!("{short}.{}", parts.codeset);
    let loud = if verbose { "--verbose" } else { "--quiet" };
    let words = ["--force", "-i", &short, "-f", parts.codeset, &name, loud];
    let words = words.into_iter().map(str::to_owned);
    Ok(std::iter::once(program).chain(words).collect())
}

fn gen_locale(cx: &Exec, args: GenLocale) -> Result<Value, Error> {
    // An empty name is the value of LANG if it is not set. There is no such locale, and the
    // programs that generate locales accept it.
    let is_named = !args.locale.is_empty();
    if is_named {
        check(&args.locale)?;
    }
    let is_ubuntu = cx.grain("os") == "Ubuntu";
    let mut parts = Parts::parse(&args.locale);
    if parts.charmap.is_empty() && !is_ubuntu {
        parts.charmap = parts.codeset;
    }
    let locale = match is_ubuntu {
        true => args.locale.clone(),
        false => parts.joined(),
    };
    let short = format!("{}_{}", parts.language, parts.territory);
    if is_named {
        if !can_make(cx, &locale, &short)? {
            return Ok(false.into());
        }
        list(cx, &locale, parts.language, is_ubuntu)?;
    }
    let verbose = args.kwargs.get("verbose").is_some_and(Value::is_true);
    let out = Process::words(words(cx, &locale, &parts, verbose)?).run(cx)?;
    Ok(match verbose {
        true => out.to_map().into(),
        false => out.success().into(),
    })
}

/// Adds a locale to the list of locales to generate.
fn list(cx: &Exec, locale: &str, language: &str, is_ubuntu: bool) -> Result<(), Error> {
    let append = Map::new().with("append_if_not_found", true);
    let escaped = pyre::escape(locale);
    let file = "/etc/locale.gen";
    if Path::new(file).exists() {
        let pattern = format!(r"^\s*#\s*{escaped}\s*$");
        let given = [file, &pattern, &format!("{locale}\n")].map(Value::from);
        cx.call_internal("file.replace", given.into(), append)?;
    } else if is_ubuntu {
        let file = format!("/var/lib/locales/supported.d/{language}");
        cx.call_internal("file.touch", vec![file.as_str().into()], Map::new())?;
        let given = [file.as_str(), &escaped, locale].map(Value::from);
        cx.call_internal("file.replace", given.into(), append)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_locale_spells_them() {
        assert_eq!(normalized("en_us.UTF-8 UTF-8"), "en_US.utf8");
        assert_eq!(normalized("ca_ES.UTF-8@valencia"), "ca_ES.utf8@valencia");
        assert_eq!(normalized("C"), "C");
        assert_eq!(
            Parts::parse("de_DE@euro ISO-8859-15").joined(),
            "de_DE@euro ISO-8859-15"
        );
    }

    #[test]
    fn localectl_lists_the_variables_of_the_system() {
        let text = "   System Locale: LANG=en_US.UTF-8\n                  LC_TIME=de_DE.UTF-8\n       VC Keymap: n/a\n      X11 Model: a=b\n";
        let found = variables(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], ("LC_TIME".to_owned(), "de_DE.UTF-8".to_owned()));
    }
}
