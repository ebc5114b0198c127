//! The sizes of the static builds: `cross/bytes.toml` explains the limits of `cross/sizes.toml`.

use std::collections::BTreeMap;
use std::fs;

use toml::Table;

use super::none;
use super::source::workspace;

fn table(name: &str) -> Table {
    let text = fs::read_to_string(workspace().join("cross").join(name)).unwrap();
    text.parse().unwrap()
}

/// The limits by the name of the target and of the build. The builds are the keys with a number.
fn limits() -> BTreeMap<(String, String), i64> {
    let sizes = table("sizes.toml");
    let of_target = |about: &Table| -> Vec<_> {
        let name = about["name"].as_str().unwrap().to_owned();
        let builds = about.iter().filter_map(|(build, limit)| {
            Some(((name.clone(), build.clone()), limit.as_integer()?))
        });
        builds.collect()
    };
    let targets = sizes.values().map(|about| about.as_table().unwrap());
    targets.flat_map(of_target).collect()
}

#[test]
fn the_sizes_by_crate_belong_to_the_current_limits() {
    let limits = limits();
    let mut wrong = Vec::new();
    for (target, builds) in &table("bytes.toml") {
        for (build, sizes) in builds.as_table().unwrap() {
            let reported = sizes["limit"].as_integer();
            let limit = limits.get(&(target.clone(), build.clone())).copied();
            if reported != limit {
                wrong.push(format!(
                    "{target}.{build}: {reported:?} instead of {limit:?}"
                ));
            }
        }
    }
    none(
        &wrong,
        "a limit was changed without the sizes by crate (cross/build --report writes them)",
    );
}

#[test]
fn the_core_and_the_agent_have_sizes_by_crate() {
    let bytes = table("bytes.toml");
    let has = |target: &str, build: &str| bytes.get(target).is_some_and(|t| t.get(build).is_some());
    let missing: Vec<String> = ["armv7hf", "x86_64"]
        .into_iter()
        .flat_map(|target| ["pinch-core", "pinch"].map(|build| (target, build)))
        .filter(|(target, build)| !has(target, build))
        .map(|(target, build)| format!("{target} {build}"))
        .collect();
    none(&missing, "bytes.toml lacks these builds");
}
