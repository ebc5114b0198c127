//! The names of the distribution: `os`, `os_family` and the grains derived from them.

use machine::fs;
use value::{Map, Value};

use super::files::{Root, ok_or_log};
use super::release;

/// Short forms of `osfullname` (lower case, no spaces, ten letters) with the `os` that Salt uses
/// for them.
const OS_NAMES: &[(&str, &str)] = &[
    ("redhatente", "RedHat"),
    ("gentoobase", "Gentoo"),
    ("archarm", "Arch ARM"),
    ("arch", "Arch"),
    ("debian", "Debian"),
    ("raspbian", "Raspbian"),
    ("fedoraremi", "Fedora"),
    ("chapeau", "Chapeau"),
    ("korora", "Korora"),
    ("amazonami", "Amazon"),
    ("alt", "ALT"),
    ("enterprise", "OEL"),
    ("oracleserv", "OEL"),
    ("cloudserve", "CloudLinux"),
    ("cloudlinux", "CloudLinux"),
    ("virtuozzo", "Virtuozzo"),
    ("almalinux", "AlmaLinux"),
    ("almalinuxk", "AlmaLinux"),
    ("pidora", "Fedora"),
    ("scientific", "ScientificLinux"),
    ("synology", "Synology"),
    ("nilrt", "NILinuxRT"),
    ("poky", "Poky"),
    ("manjaro", "Manjaro"),
    ("manjarolin", "Manjaro"),
    ("univention", "Univention"),
    ("antergos", "Antergos"),
    ("sles", "SUSE"),
    ("void", "Void"),
    ("slesexpand", "RES"),
    ("linuxmint", "Mint"),
    ("neon", "KDE neon"),
    ("pop", "Pop"),
    ("rocky", "Rocky"),
    ("alibabaclo", "Alinux"),
    ("mendel", "Mendel"),
    ("photon", "VMware Photon OS"),
];

/// The families by `os`. An `os` that is not listed is its own family.
const OS_FAMILIES: &[(&str, &[&str])] = &[
    (
        "Debian",
        &[
            "Ubuntu",
            "Mint",
            "Trisquel",
            "GCEL",
            "Linaro",
            "elementary OS",
            "elementary",
            "Univention",
            "Raspbian",
            "Devuan",
            "antiX",
            "Kali",
            "Parrot OS",
            "neon",
            "Cumulus",
            "Deepin",
            "KDE neon",
            "IDMS",
            "TurnKey",
            "Pop",
            "AstraLinuxCE",
            "AstraLinuxSE",
            "Mendel",
            "OSMC",
        ],
    ),
    (
        "RedHat",
        &[
            "Fedora",
            "Chapeau",
            "Korora",
            "FedBerry",
            "CentOS",
            "CentOS Stream",
            "GoOSe",
            "Scientific",
            "Amazon",
            "CloudLinux",
            "Virtuozzo",
            "AlmaLinux",
            "AlmaLinux Kitten",
            "OVS",
            "OEL",
            "XCP",
            "XCP-ng",
            "XenServer",
            "RES",
            "Sangoma",
            "VMware Photon OS",
            "AlterOS",
            "RED OS",
            "ALT",
            "ScientificLinux",
            "Rocky",
            "Alinux",
            "openEuler",
        ],
    ),
    (
        "Suse",
        &[
            "SLES",
            "SUSE Enterprise Server",
            "SUSE  Enterprise Server",
            "SLED",
            "openSUSE",
            "SUSE",
            "openSUSE Leap",
            "openSUSE Tumbleweed",
            "SLES_SAP",
            "alfaLinux",
            "alfaLinux Rise",
        ],
    ),
    (
        "Arch",
        &[
            "Arch ARM",
            "Manjaro",
            "Manjaro ARM",
            "Antergos",
            "EndeavourOS",
        ],
    ),
    ("Mandriva", &["Mandrake"]),
    ("VMware", &["VMwareESX"]),
    ("Bluewhite", &["Bluewhite64"]),
    ("Slackware", &["Slamd64"]),
    ("Gentoo", &["Funtoo"]),
];

/// Returns all grains that identify the distribution.
pub(super) fn grains(root: &Root) -> Map {
    let mut grains = release::distribution(root);
    let known = |name: &str| grains.get(name).map(Value::to_text).unwrap_or_default();
    let release = known("osrelease");
    if !release.is_empty() {
        grains.update(release_data(&known("os"), &known("osfullname"), &release));
    }
    grains
}

/// Returns the `os` for a distribution's name: Salt's name for the pair of id and name or for the
/// short form, or else the name without `Linux`.
pub(super) fn os_of(full_name: &str, id: Option<&str>) -> String {
    match (id, full_name) {
        (Some("astra"), "Astra Linux (Orel)") => return "AstraLinuxCE".to_owned(),
        (Some("astra"), "Astra Linux (Smolensk)") => return "AstraLinuxSE".to_owned(),
        (Some("pop"), "Pop!_OS") => return "Pop".to_owned(),
        _ => {}
    }
    let name = without_linux(full_name);
    let name = name.trim();
    let short: String = name.replace(' ', "").to_lowercase();
    let short: String = short.chars().take(10).collect();
    OS_NAMES
        .iter()
        .find(|(known, _)| *known == short)
        .map_or(name, |(_, os)| os)
        .to_owned()
}

/// Returns the family of an `os`.
pub(super) fn family_of(os: &str) -> &str {
    OS_FAMILIES
        .iter()
        .find(|(_, members)| members.contains(&os))
        .map_or(os, |(family, _)| family)
}

/// Removes each `Linux` or `GNU/Linux` with the character before it, which must not be a letter,
/// digit or `_`.
fn without_linux(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let mut kept = String::new();
    let mut rest = 0;
    for (at, sign) in name.char_indices() {
        if at < rest {
            continue;
        }
        let after = at + sign.len_utf8();
        let tail = lower.get(after..).unwrap_or_default();
        let length = ["gnu/linux", "linux"]
            .iter()
            .find(|word| tail.starts_with(**word))
            .map(|word| word.len());
        match length {
            Some(length) if !sign.is_alphanumeric() && sign != '_' => rest = after + length,
            _ => kept.push(sign),
        }
    }
    kept
}

/// Returns `osrelease_info`, `osmajorrelease` and `osfinger`.
fn release_data(os: &str, full_name: &str, release: &str) -> Map {
    let parts: Vec<Value> = release.split('.').map(number_or_text).collect();
    let first = parts.first().cloned().unwrap_or_default();
    let mut grains = Map::new().with("osrelease_info", Value::Tuple(parts.into()));
    let major = first
        .as_int()
        .or_else(|| first.as_str()?.trim().parse().ok());
    if let Some(major) = major {
        grains.insert("osmajorrelease", major);
    }
    let name = match os {
        "Debian" | "Raspbian" | "AlmaLinux" => os,
        _ => full_name,
    };
    let version = match os {
        "Ubuntu" | "Pop" | "NixOS" => release.to_owned(),
        _ => first.to_text(),
    };
    grains.insert("osfinger", format!("{name}-{version}"));
    grains
}

fn number_or_text(part: &str) -> Value {
    let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match part.parse::<i64>() {
        Ok(number) if digits => number.into(),
        _ => part.into(),
    }
}

/// Returns the architecture of the packages.
pub(super) fn osarch(root: &Root, family: &str, cpuarch: &str) -> Value {
    match family {
        "Debian" => dpkg_arch(root, cpuarch).into(),
        "RedHat" | "Suse" => rpm_arch(root).unwrap_or_else(|| cpuarch.to_owned()).into(),
        "NILinuxRT" | "Poky" => opkg_archs(root),
        _ => cpuarch.into(),
    }
}

/// Returns dpkg's own architecture: the first listed one if foreign ones were added, else that of
/// the installed libc.
fn dpkg_arch(root: &Root, cpuarch: &str) -> String {
    let listed = root.read("var/lib/dpkg/arch");
    if let Some(first) = listed.as_deref().and_then(|text| text.lines().next()) {
        return first.trim().to_owned();
    }
    let possible = dpkg_archs(cpuarch);
    let installed = possible.iter().find(|arch| {
        ["libc6", "libc6.1", "musl"]
            .iter()
            .any(|libc| root.exists(&format!("var/lib/dpkg/info/{libc}:{arch}.list")))
    });
    let arch = installed.or_else(|| possible.first());
    arch.map_or_else(|| cpuarch.to_owned(), |arch| (*arch).to_owned())
}

/// Returns Debian's names of the architectures that a processor can run, most likely first.
fn dpkg_archs(cpuarch: &str) -> &'static [&'static str] {
    match cpuarch {
        "x86_64" => &["amd64", "i386", "x32"],
        "i386" | "i486" | "i586" | "i686" => &["i386"],
        "aarch64" => &["arm64", "armhf", "armel"],
        "armv7l" | "armv8l" => &["armhf", "armel"],
        "armv6l" => &["armel", "armhf"],
        "armv5tel" | "armv5tejl" => &["armel"],
        "ppc64le" => &["ppc64el"],
        "ppc64" => &["ppc64", "powerpc"],
        "ppc" => &["powerpc"],
        "mips64" => &["mips64el", "mipsel", "mips"],
        "mips" => &["mipsel", "mips"],
        "s390x" => &["s390x"],
        "riscv64" => &["riscv64"],
        "loongarch64" => &["loong64", "loongarch64"],
        "ia64" => &["ia64"],
        _ => &[],
    }
}

/// Returns the architecture that rpm was built for.
fn rpm_arch(root: &Root) -> Option<String> {
    let macros = root.read("usr/lib/rpm/macros")?;
    let line = macros.lines().find(|line| {
        line.strip_prefix("%_host_cpu")
            .is_some_and(|rest| rest.starts_with(char::is_whitespace))
    })?;
    line.split_whitespace().nth(1).map(str::to_owned)
}

/// Returns all architectures of opkg, the preferred first.
fn opkg_archs(root: &Root) -> Value {
    let mut archs: Vec<(String, i64)> = Vec::new();
    let folder = ok_or_log(fs::list_or_none(root.path("etc/opkg"))).unwrap_or_default();
    let files = folder.into_iter().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "conf"));
    for file in files.chain([root.path("etc/opkg.conf")]) {
        let text = ok_or_log(fs::text_or_none(file)).unwrap_or_default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let (Some("arch"), Some(arch), Some(priority)) =
                (words.next(), words.next(), words.next())
            {
                archs.push((arch.to_owned(), priority.parse().unwrap_or(0)));
            }
        }
    }
    value::sorted::sort_by_key(&mut archs, |(_, priority)| std::cmp::Reverse(*priority));
    Value::list(archs.into_iter().map(|(arch, _)| arch.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the files of a test case below a folder and returns the expected answer.
    fn lay_out(case: &str, folder: &std::path::Path) -> Map {
        let mut answer = String::new();
        for section in format!("\n{case}").split("\n== ").skip(1) {
            let (name, text) = section.split_once('\n').unwrap_or((section, ""));
            if name == "grains" {
                text.clone_into(&mut answer);
                continue;
            }
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        value::json::read(&answer)
            .unwrap()
            .as_map()
            .unwrap()
            .clone()
    }

    #[test]
    fn every_recorded_machine_has_the_grains_that_salt_gives_it() {
        let corpus = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/corpus/grains/os-release"
        );
        let mut wrong = Vec::new();
        let mut count = 0;
        for entry in std::fs::read_dir(corpus).unwrap() {
            let path = entry.unwrap().path();
            let folder = tempfile::tempdir().unwrap();
            let case = std::fs::read_to_string(&path).unwrap();
            let wanted = lay_out(&case, folder.path());
            let mut found = grains(&Root::new(folder.path()));
            if let Some(Value::Tuple(parts)) = found.get("osrelease_info").cloned() {
                found.insert("osrelease_info", Value::List(parts));
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            for key in wanted.keys().chain(found.keys()).map(Value::to_text) {
                if wanted.get(&key) != found.get(&key) {
                    wrong.push(format!(
                        "{name} {key}: {:?} {:?}",
                        wanted.get(&key),
                        found.get(&key)
                    ));
                }
            }
            count += 1;
        }
        assert!(count > 200, "{count} cases in {corpus}");
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }

    #[test]
    fn linux_is_taken_out_of_names_with_the_sign_before_it() {
        assert_eq!(without_linux("Debian GNU/Linux"), "Debian");
        assert_eq!(without_linux("AlmaLinux"), "AlmaLinux");
        assert_eq!(
            without_linux("SUSE Linux Enterprise Server"),
            "SUSE Enterprise Server"
        );
    }

    #[test]
    fn the_architecture_of_dpkg_is_read_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::new(folder.path());
        std::fs::create_dir_all(folder.path().join("var/lib/dpkg/info")).unwrap();
        assert_eq!(dpkg_arch(&root, "x86_64"), "amd64");
        std::fs::write(folder.path().join("var/lib/dpkg/info/libc6:i386.list"), "").unwrap();
        assert_eq!(dpkg_arch(&root, "x86_64"), "i386");
        std::fs::write(folder.path().join("var/lib/dpkg/arch"), "amd64\ni386\n").unwrap();
        assert_eq!(dpkg_arch(&root, "x86_64"), "amd64");
    }
}
