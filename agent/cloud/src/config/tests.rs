use value::{Map, Value};

use super::*;
use crate::testing::Home;

fn load(home: &Home) -> Result<Config, Fault> {
    Config::load(home.path(), &Map::new(), &Map::new())
}

fn error(files: &[(&str, &str)]) -> String {
    let home = Home::new();
    for (name, text) in files {
        home.write(name, text);
    }
    let error = load(&home).unwrap_err().to_string();
    error.replace(&home.path().display().to_string(), "DIR")
}

#[test]
fn providers_and_profiles_are_read_from_all_files() {
    let home = Home::new();
    home.write("cloud", "minion: {master: salt.example.com}\n")
        .write("cloud.providers", "one: {driver: ec2, region: a}\n")
        .write(
            "cloud.providers.d/two.conf",
            "two:\n  - {provider: hetzner}\n  - {driver: ec2}\n",
        )
        .write(
            "cloud.profiles.d/web.conf",
            "web: {provider: one, size: small}\n",
        );
    let config = load(&home).unwrap();
    let names: Vec<String> = config.providers.iter().map(Provider::full).collect();
    assert_eq!(names, ["one:ec2", "two:hetzner", "two:ec2"]);
    let profile = config.profile("web").unwrap();
    assert_eq!(profile.settings.get("provider"), Some(&"one:ec2".into()));
    let master = config
        .main
        .get("minion")
        .and_then(|minion| minion.get("master"));
    assert_eq!(master, Some(&"salt.example.com".into()));
}

#[test]
fn a_profile_extends_another_and_a_provider_too() {
    let home = Home::new();
    home.write(
        "cloud.providers",
        "base: {driver: ec2, region: a, tag: {x: 1}}\nmine: {extends: 'base:ec2', tag: {y: 2}}\n",
    )
    .write(
        "cloud.profiles",
        "small: {provider: mine, size: s, image: i}\nlarge: {extends: small, size: l}\n",
    );
    let config = load(&home).unwrap();
    let mine = config.provider("mine", "ec2").unwrap();
    let tag = Map::new().with("x", 1).with("y", 2);
    assert_eq!(mine.settings.get("tag"), Some(&Value::Map(tag)));
    assert!(!mine.settings.contains("extends"));
    let large = config.profile("large").unwrap();
    assert_eq!(large.settings.get("size"), Some(&"l".into()));
    assert_eq!(large.settings.get("image"), Some(&"i".into()));
    assert_eq!(large.settings.get("profile"), Some(&"large".into()));
}

#[test]
fn errors_have_the_place_and_salts_sentence() {
    let broken = error(&[("cloud.providers", "a: {driver: ec2}\nb: [\n")]);
    assert!(broken.starts_with("DIR/cloud.providers:3:1: "), "{broken}");
    let twice = error(&[
        ("cloud.providers.d/a.conf", "mine: {driver: ec2}\n"),
        (
            "cloud.providers.d/b.conf",
            "x: {driver: ec2}\nmine: {driver: ec2}\n",
        ),
    ]);
    let text = "mine is defined twice: DIR/cloud.providers.d/a.conf:1:1 and DIR/cloud.providers.d/b.conf:2:1";
    assert_eq!(twice, text);
    let same = error(&[(
        "cloud.providers",
        "mine:\n  - {driver: ec2}\n  - {driver: ec2}\n",
    )]);
    let text = "DIR/cloud.providers:1:1: The cloud provider alias 'mine' has multiple entries for the 'ec2' driver.";
    assert_eq!(same, text);
    let missing = error(&[(
        "cloud.providers",
        "mine: {driver: ec2, extends: 'no:ec2'}\n",
    )]);
    let text = "DIR/cloud.providers:1:1: The 'ec2' cloud provider entry in 'mine' is trying to extend data from 'no' though 'no' is not defined in the salt cloud providers loaded data.";
    assert_eq!(missing, text);
    let own = error(&[(
        "cloud.providers",
        "a: {driver: x, extends: 'b:x'}\nb: {driver: x, extends: 'a:x'}\n",
    )]);
    assert!(own.contains("extends itself"), "{own}");
    let profile = error(&[("cloud.profiles", "web: 3\n")]);
    assert!(
        profile.contains("DIR/cloud.profiles:1:1: The VM profiles"),
        "{profile}"
    );
}

#[test]
fn a_profile_that_cannot_be_used_says_why_when_it_is_used() {
    let home = Home::new();
    home.write(
        "cloud.profiles",
        "web: {provider: none}\na: {extends: b}\nb: {extends: a}\n",
    );
    let config = load(&home).unwrap();
    let error = |name: &str| config.profile(name).unwrap_err().to_string();
    assert!(
        error("web").starts_with("Profile web is not defined: "),
        "{}",
        error("web")
    );
    assert!(error("web").ends_with("its provider 'none' is not configured"));
    assert!(error("a").ends_with("it extends itself"), "{}", error("a"));
    assert_eq!(error("nosuch"), "Profile nosuch is not defined");
}

#[test]
fn providers_that_do_not_match_are_listed_in_salts_words() {
    let home = Home::new();
    home.write(
        "cloud.providers",
        "one: {driver: ec2}\ntwo:\n  - {driver: ec2}\n  - {driver: gce}\n",
    );
    let config = load(&home).unwrap();
    let error = config.matching("no").unwrap_err().to_string();
    assert_eq!(
        error,
        "No cloud providers matched 'no'. Available selections: one, two:ec2, two:gce"
    );
    let error = config.matching("two:no").unwrap_err().to_string();
    assert_eq!(
        error,
        "No cloud providers matched 'two:no'. Available: one, two:ec2, two:gce"
    );
    assert_eq!(config.matching("ec2").unwrap().len(), 2);
    let none = load(&Home::new()).unwrap().matching("all").unwrap_err();
    assert_eq!(none.to_string(), "There are no cloud providers configured.");
}

#[test]
fn a_file_that_others_can_change_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.write("cloud.providers", "one: {driver: ec2}\n");
    let path = home.path().join("cloud.providers");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let error = load(&home).unwrap_err().to_string();
    assert!(error.contains("can be changed by"), "{error}");
}
