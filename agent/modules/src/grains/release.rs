//! The distribution's files: os-release, lsb-release and the older ones, in Salt's order of
//! preference.

use fancy_regex::Regex;
use value::{Map, Value};

use super::files::Root;
use super::os;

/// The variables of a file of shell assignments, such as os-release.
type Variables = std::collections::BTreeMap<String, String>;

/// The state of the search. The grains found so far are all texts.
struct Found<'a> {
    root: &'a Root,
    release: Option<Variables>,
    grains: Map,
}

/// Returns `os`, `os_family`, `osfullname`, `osrelease`, `oscodename` and the `lsb_distrib_*`
/// grains.
pub(super) fn distribution(root: &Root) -> Map {
    let release = os_release(root);
    let mut found = Found {
        root,
        grains: lsb_release(root),
        release,
    };
    found.take_os_release();
    found.take_lsb();
    found.settle();
    found.grains
}

impl Found<'_> {
    fn text(&self, grain: &str) -> String {
        self.grains
            .get(grain)
            .map(Value::to_text)
            .unwrap_or_default()
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.release.as_ref()?.get(name).map(String::as_str)
    }

    fn set(&mut self, grain: &str, text: impl Into<Value>) {
        self.grains.insert(grain, text);
    }

    fn take_os_release(&mut self) {
        if self.release.is_none() {
            return;
        }
        let name = self.variable("NAME").unwrap_or("Linux").to_owned();
        let id = self.variable("ID").unwrap_or("linux");
        let os = os::os_of(&name, Some(id));
        self.set("os", os);
        self.set("osfullname", name.trim());
    }

    /// Fills the `lsb_distrib_*` grains where lsb-release has no id.
    fn take_lsb(&mut self) {
        let description = self.text("lsb_distrib_description").to_lowercase();
        if description.starts_with("antergos") {
            // Antergos has Arch in its lsb-release.
            self.set("osfullname", "Antergos Linux");
        } else if self.grains.contains("lsb_distrib_id") {
        } else if self.release.is_some() {
            self.lsb_of_os_release();
        } else if let Some(text) = self.root.read("etc/SuSE-release") {
            self.lsb_of_suse_release(&text);
        } else if let Some(text) = self.root.read("etc/altlinux-release") {
            self.lsb_of_alt_release(&text);
        } else if let Some(text) = self.root.read("etc/centos-release") {
            self.lsb_of_centos_release(&text);
        } else if self.root.is_file("etc.defaults/synoinfo.conf")
            && let Some(text) = self.root.read("etc.defaults/VERSION")
        {
            self.synology(&text);
        }
    }

    fn lsb_of_os_release(&mut self) {
        let variables = self.release.clone().unwrap_or_default();
        let get = |name: &str| variables.get(name).map(String::as_str);
        self.set("lsb_distrib_id", get("NAME").unwrap_or("Linux").trim());
        if let Some(version) = get("VERSION_ID") {
            self.set("lsb_distrib_release", version);
        }
        let codename = get("VERSION_CODENAME").or_else(|| get("PRETTY_NAME"));
        self.set("lsb_distrib_codename", codename.unwrap_or("Linux"));
        if let Some(cpe) = get("CPE_NAME") {
            self.suse_of_cpe(cpe, &variables);
        }
        if get("ID").is_some_and(|id| id.trim() == "mendel") {
            let pretty = get("PRETTY_NAME").unwrap_or_default();
            if let Some(version) = pretty.split_whitespace().nth(2) {
                self.set("lsb_distrib_release", version);
            }
        }
    }

    /// Reads SUSE's CPE name. It contains the vendor and, for openSUSE only, the version.
    fn suse_of_cpe(&mut self, cpe: &str, variables: &Variables) {
        let Some((vendor, version)) = parse_cpe(cpe) else {
            value::log::error("Broken CPE_NAME format in /etc/os-release!");
            return;
        };
        if !["suse", "opensuse"].contains(&vendor.to_lowercase().as_str()) {
            return;
        }
        self.set("os", "SUSE");
        let version_text = variables.get("VERSION").map(String::as_str);
        if variables
            .get("NAME")
            .is_some_and(|name| name == "openSUSE Leap")
        {
            self.set("osfullname", "Leap");
        } else if version_text == Some("Tumbleweed") {
            self.set("osfullname", "Tumbleweed");
        }
        if vendor == "opensuse" && !version.is_empty() {
            self.set("lsb_distrib_release", version);
        }
    }

    fn lsb_of_suse_release(&mut self, text: &str) {
        self.set("lsb_distrib_id", "SUSE");
        let digits = |line: &str| {
            line.chars()
                .filter(char::is_ascii_digit)
                .collect::<String>()
        };
        let (mut version, mut patch) = (String::new(), String::new());
        let mut codename = String::new();
        for line in text.lines() {
            let lower = line.to_lowercase();
            if lower.contains("enterprise") {
                self.set("lsb_distrib_id", "SLES");
                codename = without_brackets(line).trim().to_owned();
            } else if lower.contains("version") {
                version = digits(line);
            } else if lower.contains("patchlevel") {
                patch = digits(line);
            }
        }
        if !patch.is_empty() {
            version = format!("{version}.{patch}");
            let pack = format!("SP{patch}");
            if !codename.is_empty() && !codename.contains(&pack) {
                codename = format!("{codename} {pack}");
            }
        }
        if codename.is_empty() {
            codename = "n.a".to_owned();
        }
        self.set("lsb_distrib_release", version);
        self.set("lsb_distrib_codename", codename);
    }

    fn lsb_of_alt_release(&mut self, text: &str) {
        self.set("lsb_distrib_id", "altlinux");
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let ["ALT", _, release, codename, ..] = words.as_slice() {
                self.set("lsb_distrib_release", *release);
                self.set("lsb_distrib_codename", codename.replace(['(', ')'], ""));
            }
        }
    }

    fn lsb_of_centos_release(&mut self, text: &str) {
        self.set("lsb_distrib_id", "CentOS");
        for line in text.lines() {
            if let Some(release) = first_two_numbers(line) {
                self.set("lsb_distrib_release", release);
            }
            let inner = line
                .split_once('(')
                .and_then(|(_, rest)| rest.split_once(')'));
            if let Some((codename, _)) = inner {
                self.set("lsb_distrib_codename", codename);
            }
        }
    }

    fn synology(&mut self, text: &str) {
        self.set("osfullname", "Synology");
        let variables: Variables = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .filter(|(_, value)| !value.contains('='))
            .map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()))
            .collect();
        let get = |name: &str| variables.get(name);
        match (get("majorversion"), get("minorversion"), get("buildnumber")) {
            (Some(major), Some(minor), Some(build)) => {
                self.set("osrelease", format!("{major}.{minor}-{build}"));
            }
            _ => value::log::warning(
                "Unable to determine Synology version info. Please report this, as it is likely a bug.",
            ),
        }
    }

    /// Derives the `os*` grains from the data found. Salt's older logic, which Salt still applies
    /// last, decides.
    fn settle(&mut self) {
        if !self.grains.contains("osfullname") {
            let name = self.full_name();
            self.set("osfullname", name.trim());
        }
        if !self.grains.contains("osrelease") {
            self.settle_release();
        }
        self.settle_codename();
        if !self.grains.contains("os") {
            let os = os::os_of(&self.text("osfullname"), None);
            self.set("os", os);
        }
        self.micro();
        let os = self.text("os");
        self.set("os_family", os::family_of(&os));
    }

    fn full_name(&self) -> String {
        let id = self.text("lsb_distrib_id");
        if id.to_lowercase().starts_with("nilrt") {
            return "nilrt".to_owned();
        }
        if self.grains.contains("lsb_distrib_id") {
            return id;
        }
        unquoted(
            &release_file(self.root)
                .map(|file| file.name)
                .unwrap_or_default(),
        )
    }

    fn settle_release(&mut self) {
        // CentOS 7 and 8 have no minor release in os-release, but the release file has it.
        let codename = self.text("lsb_distrib_codename");
        if codename.contains("CentOS Linux 7") || codename.contains("CentOS Linux 8") {
            self.grains.remove("lsb_distrib_release");
        }
        let release = match self.grains.get("lsb_distrib_release") {
            Some(release) => release.to_text(),
            None => unquoted(&self.best_version()),
        };
        self.set("osrelease", release.trim());
    }

    fn settle_codename(&mut self) {
        let mut codename = self.text("lsb_distrib_codename");
        let os = self.text("os");
        let bracketed = ["Rocky", "AlmaLinux", "AstraLinuxSE"];
        if bracketed.iter().any(|name| os.contains(name))
            && let Some((_, rest)) = codename.split_once('(')
        {
            let inner = rest.split(')').next().unwrap_or_default();
            codename = match os.as_str() {
                "AstraLinuxSE" => inner
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_lowercase(),
                _ => inner.to_owned(),
            };
            self.set("lsb_distrib_codename", codename.as_str());
        }
        let mut codename = codename.trim().to_owned();
        if codename.is_empty() || codename.contains("Red Hat") {
            codename = unquoted(&self.codename());
        }
        self.set("oscodename", codename);
    }

    /// Recognizes SL Micro 6.2, which differs from SLES 16 only in these variables.
    fn micro(&mut self) {
        let Some(product) = self.variable("SUSE_SUPPORT_PRODUCT").map(str::to_owned) else {
            return;
        };
        let version = self
            .variable("SUSE_SUPPORT_PRODUCT_VERSION")
            .unwrap_or_default()
            .to_owned();
        let pretty = self.variable("SUSE_PRETTY_NAME").map(str::to_owned);
        self.set(
            "oscodename",
            pretty.unwrap_or_else(|| format!("{product} {version}")),
        );
        self.set("osrelease", version);
        if product == "SUSE Linux Micro" {
            self.set("osfullname", "SL-Micro");
        }
    }

    /// Returns the most precise version that any file contains.
    fn best_version(&self) -> String {
        let file = release_file(self.root).unwrap_or_default();
        let pretty = self.variable("PRETTY_NAME").map(parse_release_line);
        let like_debian = self.variable("ID") == Some("debian")
            || self
                .variable("ID_LIKE")
                .is_some_and(|like| like.split_whitespace().any(|id| id == "debian"));
        let debian = like_debian
            .then(|| self.root.read("etc/debian_version"))
            .flatten();
        let versions = [
            self.variable("VERSION_ID").unwrap_or_default().to_owned(),
            file.version,
            pretty.map(|line| line.version).unwrap_or_default(),
            debian
                .as_deref()
                .and_then(|text| text.lines().next())
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
        ];
        let dots = |text: &str| text.matches('.').count();
        versions.into_iter().fold(String::new(), |best, version| {
            if best.is_empty() || dots(&version) > dots(&best) {
                version
            } else {
                best
            }
        })
    }

    fn codename(&self) -> String {
        let named = self
            .variable("VERSION_CODENAME")
            .or_else(|| self.variable("UBUNTU_CODENAME"));
        if let Some(named) = named {
            return named.to_owned();
        }
        let version = self.variable("VERSION").and_then(codename_in_version);
        version.unwrap_or_else(|| {
            release_file(self.root)
                .map(|file| file.codename)
                .unwrap_or_default()
        })
    }
}

/// Returns the variables of `/etc/os-release`, or of the file below `/usr/lib`.
fn os_release(root: &Root) -> Option<Variables> {
    let text = root
        .read("etc/os-release")
        .or_else(|| root.read("usr/lib/os-release"))?;
    let mut variables = Variables::new();
    for name in ["NAME", "PRETTY_NAME"] {
        variables.insert(name.to_owned(), "Linux".to_owned());
    }
    variables.insert("ID".to_owned(), "linux".to_owned());
    variables.extend(text.lines().filter_map(assignment));
    Some(variables)
}

/// Parses `NAME=value`, `NAME="value"` or `NAME='value'`.
fn assignment(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_name) {
        return None;
    }
    let quoted = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    Some((name.to_owned(), unescaped(quoted.unwrap_or(value))))
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let escapes = signs.peek().is_some_and(|next| "\\$\"'`".contains(*next));
        if sign == '\\' && escapes {
            out.extend(signs.next());
        } else {
            out.push(sign);
        }
    }
    out
}

/// Returns `lsb_distrib_id`, `_release`, `_codename` and `_description` from `/etc/lsb-release`.
fn lsb_release(root: &Root) -> Map {
    let text = root.read("etc/lsb-release").unwrap_or_default();
    text.lines().filter_map(lsb_line).collect()
}

fn lsb_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.strip_prefix("DISTRIB_")?.split_once('=')?;
    if !["ID", "RELEASE", "CODENAME", "DESCRIPTION"].contains(&name) {
        return None;
    }
    let value = value.strip_prefix(['\'', '"']).unwrap_or(value);
    let belongs =
        |sign: char| sign.is_alphanumeric() || sign.is_whitespace() || "_.-".contains(sign);
    let value: String = value.chars().take_while(|sign| belongs(*sign)).collect();
    if value.is_empty() {
        return None;
    }
    let name = format!("lsb_distrib_{}", name.to_lowercase());
    Some((name, value.trim_end().to_owned()))
}

/// Returns vendor and version of a CPE name, in any of its three lengths.
fn parse_cpe(cpe: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = cpe.split(':').collect();
    let star = |part: &str| {
        if part == "*" {
            String::new()
        } else {
            part.to_owned()
        }
    };
    match parts.as_slice() {
        ["cpe", kind, vendor, _, version, ..] if kind.starts_with('/') => {
            Some(((*vendor).to_owned(), (*version).to_owned()))
        }
        ["cpe", "2.3", _, vendor, _, version] => Some((star(vendor), star(version))),
        ["cpe", "2.3", _, vendor, _, version, _, _, ..] if parts.len() <= 13 => {
            Some((star(vendor), star(version)))
        }
        _ => None,
    }
}

/// Removes the text between the first `(` and the last `)`, with the brackets.
fn without_brackets(line: &str) -> String {
    match (line.find('('), line.rfind(')')) {
        (Some(open), Some(close)) if open + 1 < close => {
            let before = line.get(..open).unwrap_or_default();
            let after = line.get(close + 1..).unwrap_or_default();
            format!("{before}{after}")
        }
        _ => line.to_owned(),
    }
}

/// Returns the first `number.number` of a line.
fn first_two_numbers(line: &str) -> Option<String> {
    let regex = Regex::new(r"\d+\.\d+").ok()?;
    let found = regex.find(line).ok()??;
    Some(found.as_str().to_owned())
}

/// Returns the name in brackets, or after the comma, in os-release's `VERSION`.
fn codename_in_version(version: &str) -> Option<String> {
    let regex = Regex::new(r"\((\D+)\)|,\s*(\D+)").ok()?;
    let found = regex.captures(version).ok()??;
    let name = found.get(1).or_else(|| found.get(2))?;
    Some(name.as_str().to_owned())
}

fn unquoted(text: &str) -> String {
    text.trim_matches('"').trim_matches('\'').to_owned()
}

/// The parts of the first line of a release file.
#[derive(Default)]
struct ReleaseLine {
    name: String,
    version: String,
    codename: String,
}

/// Release files that are not the distribution's own.
const IGNORED: &[&str] = &[
    "debian_version",
    "lsb-release",
    "oem-release",
    "os-release",
    "system-release",
    "plesk-release",
    "iredmail-release",
    "board-release",
    "ec2_version",
];

/// Returns the data of the first of `/etc/*-release` and `/etc/*-version`, by name, that has any.
fn release_file(root: &Root) -> Option<ReleaseLine> {
    let folder = super::files::ok_or_log(machine::fs::list_or_none(root.path("etc")))?;
    let mut names: Vec<String> = folder
        .into_iter()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_release_file(name))
        .collect();
    names.sort();
    names.iter().find_map(|name| {
        let text = root.read(&format!("etc/{name}"))?;
        let line = parse_release_line(text.lines().next()?);
        Some(line).filter(|line| !line.name.is_empty())
    })
}

fn is_release_file(name: &str) -> bool {
    let stem = ["release", "version"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending)?.strip_suffix(['-', '_']));
    let is_word = |stem: &str| {
        !stem.is_empty()
            && stem
                .chars()
                .all(|sign| sign.is_alphanumeric() || sign == '_')
    };
    stem.is_some_and(is_word) && !IGNORED.contains(&name)
}

/// Splits a line such as `CentOS Linux release 7.9.2009 (Core)` into name, version and codename. It
/// is matched backwards, as in Python's distro package, because only the end of such a line has a
/// fixed form.
fn parse_release_line(line: &str) -> ReleaseLine {
    const BACKWARDS: &str = r"^(?:[^)]*\)(.*)\()? *(?:STL )?([\d.+\-a-z]*\d) *(?:esaeler *)?(.+)";
    let reversed = |text: &str| text.chars().rev().collect::<String>();
    let line = line.trim();
    let backwards = reversed(line);
    let regex = Regex::new(BACKWARDS).ok();
    let found = regex
        .as_ref()
        .and_then(|regex| regex.captures(&backwards).ok()?);
    let Some(found) = found else {
        return ReleaseLine {
            name: line.to_owned(),
            ..ReleaseLine::default()
        };
    };
    let group = |number| {
        found
            .get(number)
            .map(|part| reversed(part.as_str()))
            .unwrap_or_default()
    };
    ReleaseLine {
        name: group(3),
        version: group(2),
        codename: group(1),
    }
}
