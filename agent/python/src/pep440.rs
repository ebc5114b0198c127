//! Python's versions, the conditions on them, and requirements (PEP 440 and 508).

use value::pyre::{Flags, Regex};

/// A part of a local version. Text is lower than a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Local {
    Text(String),
    Number(u64),
}

/// The kind of a pre-release, or none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pre {
    /// A development version of the release itself.
    Dev,
    /// Alpha, beta or candidate, with its number.
    Of(u8, u64),
    /// The release.
    No,
}

/// A version. It is compared in the order of the fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    epoch: u64,
    /// The numbers of the release, without zeros at the end.
    release: Vec<u64>,
    pre: Pre,
    post: Option<u64>,
    /// The development version. One with a number is lower than none.
    dev: (bool, u64),
    local: Vec<Local>,
}

const VERSION: &str = r"^\s*v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?(\d*))?((?:-(\d+))|(?:[-_.]?(?:post|rev|r)[-_.]?(\d*)))?([-_.]?dev[-_.]?(\d*))?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*$";

impl Version {
    /// Parses a version; `None` when it is not valid in Python.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let found = Regex::new(VERSION, Flags::NONE).ok()?;
        let found = found.captures(&text, 0).ok()??;
        let group = |number| found.get(number).map(|part| part.as_str());
        let number = |number| group(number).map(|digits| digits.parse().unwrap_or(0u64));
        let mut release: Vec<u64> = group(2)?
            .split('.')
            .map(|part| part.parse().unwrap_or(u64::MAX))
            .collect();
        while release.last() == Some(&0) {
            release.pop();
        }
        let post = group(5).map(|_| number(6).or_else(|| number(7)).unwrap_or(0));
        let dev = group(8).map(|_| number(9).unwrap_or(0));
        let pre = match group(3).and_then(|word| word.bytes().next()) {
            Some(letter @ (b'a' | b'b')) => Pre::Of(letter, number(4).unwrap_or(0)),
            Some(_) => Pre::Of(b'c', number(4).unwrap_or(0)),
            None if post.is_none() && dev.is_some() => Pre::Dev,
            None => Pre::No,
        };
        let local = group(10).into_iter().flat_map(|local| {
            local.split(['-', '_', '.']).map(|part| match part.parse() {
                Ok(number) => Local::Number(number),
                Err(_) => Local::Text(part.to_owned()),
            })
        });
        Some(Self {
            epoch: number(1).unwrap_or(0),
            release,
            pre,
            post,
            dev: dev.map_or((true, 0), |dev| (false, dev)),
            local: local.collect(),
        })
    }

    fn is_prerelease(&self) -> bool {
        self.pre != Pre::No || !self.dev.0
    }

    fn base(&self) -> (u64, &[u64]) {
        (self.epoch, &self.release)
    }

    /// Returns the version without the local part.
    fn public(&self) -> Self {
        Self {
            local: Vec::new(),
            ..self.clone()
        }
    }
}

/// Returns true when the first version is not lower than the second. Returns false when one is
/// invalid.
pub fn at_least(version: &str, other: &str) -> bool {
    matches!((Version::parse(version), Version::parse(other)), (Some(one), Some(other)) if one >= other)
}

/// A condition: an operator and a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    operator: String,
    /// The version in its original notation.
    pub version: String,
}

impl Condition {
    /// Parses conditions separated by commas; `None` when they are invalid.
    fn all(text: &str) -> Option<Vec<Self>> {
        let text = text.trim();
        let text = text
            .strip_prefix('(')
            .and_then(|text| text.strip_suffix(')'))
            .unwrap_or(text);
        let parts = text.split(',').map(str::trim);
        parts
            .filter(|part| !part.is_empty())
            .map(Self::parse)
            .collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let operators = ["===", "==", "~=", "!=", "<=", ">=", "<", ">"];
        let operator = operators.iter().find(|op| text.starts_with(**op))?;
        let version = text.strip_prefix(operator)?.trim();
        let plain = version.strip_suffix(".*").unwrap_or(version);
        let known = *operator == "===" || Version::parse(plain).is_some();
        known.then(|| Self {
            operator: (*operator).to_owned(),
            version: version.to_owned(),
        })
    }

    fn holds(&self, written: &str, version: &Version) -> bool {
        if self.operator == "===" {
            return written.eq_ignore_ascii_case(&self.version);
        }
        if let Some(start) = self.version.strip_suffix(".*") {
            return starts_with(version, start) != (self.operator == "!=");
        }
        let Some(wanted) = Version::parse(&self.version) else {
            return false;
        };
        let same_base = version.base() == wanted.base();
        let public = version.public();
        match self.operator.as_str() {
            "==" | "!=" => {
                let same = if wanted.local.is_empty() {
                    public == wanted
                } else {
                    *version == wanted
                };
                same == (self.operator == "==")
            }
            "<=" => public <= wanted,
            ">=" => public >= wanted,
            "~=" => {
                let plain = self.version.split_once(['a', 'b', 'c', 'r', 'd', 'p']);
                let plain = plain.map_or(self.version.as_str(), |(plain, _)| plain);
                let start = plain.trim_end_matches(['.', '-', '_']).rsplit_once('.');
                public >= wanted && start.is_some_and(|(start, _)| starts_with(version, start))
            }
            "<" => {
                *version < wanted
                    && (wanted.is_prerelease() || !version.is_prerelease() || !same_base)
            }
            _ => {
                let later = wanted.post.is_none() && version.post.is_some();
                *version > wanted && !(same_base && (later || !version.local.is_empty()))
            }
        }
    }
}

/// Returns true if a release starts with these numbers: `1.4` and `1.4.0` both start with `1.4.0`.
fn starts_with(version: &Version, start: &str) -> bool {
    let (epoch, start) = start.split_once('!').unwrap_or(("0", start));
    let numbers = start.trim().trim_start_matches('v').split('.').enumerate();
    let mut numbers = numbers.map(|(at, number)| (at, number.parse().ok()));
    epoch.parse() == Ok(version.epoch)
        && numbers.all(|(at, number)| Some(*version.release.get(at).unwrap_or(&0)) == number)
}

/// Returns true when a version fulfils all conditions. A pre-release does so only where a condition
/// names one.
pub fn fulfils(version: &str, conditions: &[Condition]) -> bool {
    if conditions.is_empty() {
        return true;
    }
    let Some(parsed) = Version::parse(version) else {
        return false;
    };
    let names_pre = conditions.iter().any(|condition| {
        !matches!(condition.operator.as_str(), "!=" | "<" | ">")
            && Version::parse(&condition.version).is_some_and(|wanted| wanted.is_prerelease())
    });
    (names_pre || !parsed.is_prerelease())
        && conditions.iter().all(|one| one.holds(version, &parsed))
}

/// Returns the name of a package in the form in which indexes compare names.
pub fn normalized(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if out.ends_with('-') => {}
            '-' | '_' | '.' => out.push('-'),
            other => out.extend(other.to_lowercase()),
        }
    }
    out
}

/// A requirement: the package's normalized name and conditions. A path or URL without a
/// recognizable name has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirement {
    /// The name of the package.
    pub name: Option<String>,
    /// The conditions on its version, all of which hold.
    pub conditions: Vec<Condition>,
}

const NAME: &str = r"^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*(.*)$";

impl Requirement {
    /// Parses a requirement as pip does.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(place) = place(text) {
            return Ok(Self::at(place));
        }
        let plain = text.split(';').next().unwrap_or_default().trim();
        let invalid = || format!("Invalid requirement: '{text}'");
        let pattern = Regex::new(NAME, Flags::NONE).map_err(|error| error.to_string())?;
        let found = pattern.captures(plain, 0).ok().flatten();
        let found = found.ok_or_else(invalid)?;
        let group = |number| found.get(number).map_or("", |part| part.as_str());
        let conditions = if group(2).starts_with('@') {
            Vec::new()
        } else {
            Condition::all(group(2)).ok_or_else(invalid)?
        };
        Ok(Self {
            name: Some(normalized(group(1))),
            conditions,
        })
    }

    /// Returns the requirement that a URL or path implies: by the name of a wheel, or `#egg=NAME`.
    fn at(place: &str) -> Self {
        let (path, fragment) = place.split_once('#').unwrap_or((place, ""));
        let egg = fragment
            .split('&')
            .find_map(|part| part.strip_prefix("egg="));
        let file = path.split('?').next().unwrap_or_default();
        let file = file.rsplit('/').next().unwrap_or_default();
        if let Some(wheel) = file.strip_suffix(".whl") {
            let mut parts = wheel.split('-');
            let (name, version) = (parts.next().unwrap_or_default(), parts.next());
            let condition = version.and_then(|version| Condition::parse(&format!("=={version}")));
            return Self {
                name: Some(normalized(name)),
                conditions: condition.into_iter().collect(),
            };
        }
        egg.and_then(|egg| Self::parse(egg).ok())
            .unwrap_or_default()
    }
}

/// Returns the text as a URL or path, if it is a URL, a folder or an archive.
fn place(text: &str) -> Option<&str> {
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    let is_url = scheme.is_some_and(|scheme| {
        let vcs = ["git+", "hg+", "svn+", "bzr+"].iter();
        let plain = ["http", "https", "file", "ftp", "git", "ssh"];
        plain.contains(&scheme) || vcs.into_iter().any(|vcs| scheme.starts_with(vcs))
    });
    let plain = text.split(['[', ';']).next().unwrap_or_default().trim();
    let looks_like = plain.contains('/') || plain.starts_with('.');
    let archives = [
        ".zip", ".whl", ".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tar.xz",
    ];
    let is_archive = archives.iter().any(|end| plain.ends_with(end)) && !plain.contains('@');
    (is_url || (looks_like && !text.contains(" @ ")) || is_archive).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_pep_440_says() {
        let order = [
            "1.0.dev1",
            "1.0a1.dev1",
            "1.0a1",
            "1.0b2",
            "1.0rc1",
            "1.0",
            "1.0+abc",
            "1.0+5",
            "1.0.post1",
            "1.1",
            "1!0.1",
        ];
        let versions: Vec<Version> = order.iter().map(|v| Version::parse(v).unwrap()).collect();
        assert!(versions.windows(2).all(|two| two[0] < two[1]));
        assert_eq!(Version::parse("v1.0-1"), Version::parse("1.0.post1"));
        assert_eq!(Version::parse("1.0.0"), Version::parse("1"));
        assert_eq!(Version::parse("one"), None);
    }

    #[test]
    fn conditions_hold_as_packaging_says() {
        let holds = |version: &str, text: &str| {
            let asked = Requirement::parse(&format!("x{text}")).unwrap();
            fulfils(version, &asked.conditions)
        };
        assert!(holds("1.4.2", "~=1.4") && !holds("2.0", "~=1.4") && !holds("1.5", "~=1.4.1"));
        assert!(holds("1.4", "==1.4.*") && holds("1.4.0", "==1.4") && !holds("1.4", "!=1.4.*"));
        assert!(holds("1.0+local", "==1.0") && !holds("1.0+local", ">1.0"));
        assert!(!holds("2.0a1", ">=1.0") && holds("2.0a1", ">=2.0a0") && !holds("2.0rc1", "<2.0"));
        assert!(!holds("1.0.post1", ">1.0") && holds("1.0.post1", ">=1.0"));
        assert!(holds("3", ">=1, <4,!=2") && holds("any.1", "") && holds("1", "===1"));
    }

    #[test]
    fn requirements_name_what_they_can() {
        let of = |text: &str| Requirement::parse(text).map(|asked| asked.name);
        assert_eq!(
            of("Foo_Bar.baz[a,b] >= 1 ; python_version > '3'"),
            Ok(Some("foo-bar-baz".into()))
        );
        assert_eq!(of("git+https://h/x.git#egg=Name"), Ok(Some("name".into())));
        assert_eq!(of("https://h/x.tar.gz"), Ok(None));
        assert_eq!(
            of("/wheels/a_b-1.2-py3-none-any.whl"),
            Ok(Some("a-b".into()))
        );
        assert_eq!(of("name @ https://h/x"), Ok(Some("name".into())));
        assert_eq!(of("./folder"), Ok(None));
        assert!(of("x=1").is_err() && of("x y").is_err());
    }
}
