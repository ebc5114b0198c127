//! The texts of `salt-cloud`, compared with those that Salt printed for the same calls and the same cloud.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fancy_regex::Regex;
use serde::Deserialize;
use tests::program::{in_recorded_environment, pinch_program};

use super::House;
use super::ec2::Moto;

/// The file that `record.py` has written.
#[derive(Deserialize)]
struct Recorded {
    /// Patterns of texts that differ each time, and their replacements.
    random: Vec<(String, String)>,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    words: Vec<String>,
    rc: i32,
    out: String,
    err: String,
    /// The exit code of ours, if it is another one.
    our_rc: Option<i32>,
    /// The output of `diff SALTS OURS`.
    #[serde(default)]
    diff_out: String,
    #[serde(default)]
    diff_err: String,
    /// The reason of a difference.
    why: Option<String>,
}

/// Returns the output of `diff` for the texts of Salt and of ours.
fn difference(house: &House, salts: &str, ours: &str) -> String {
    house.write("salts", salts);
    house.write("ours", ours);
    let output = Command::new("diff")
        .args([house.path("salts"), house.path("ours")])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_texts_are_those_of_salt_or_differ_for_a_reason() {
    let Some(moto) = Moto::start() else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/cloud/salt-cloud.toml");
    let recorded: Recorded = toml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let random: Vec<(Regex, &str)> = recorded
        .random
        .iter()
        .map(|(pattern, word)| (Regex::new(pattern).unwrap(), word.as_str()))
        .collect();
    let house = House::new();
    house.write("etc/cloud.providers", &moto.provider(moto.text("key")));
    let profile = moto.profile() + "  keyname: tests\n  deploy: False\n";
    house.write("etc/cloud.profiles.d/web.conf", &profile);
    house.write("map", "web:\n  - web1\n  - web3\n");
    let mut wrong = String::new();
    for case in &recorded.case {
        let output = in_recorded_environment(&mut Command::new(pinch_program()))
            .args(["salt-cloud", "-c"])
            .arg(house.path("etc"))
            .args(&case.words)
            .current_dir(house.path(""))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stable = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let replaced = |text: String, (pattern, word): &(Regex, &str)| {
                pattern.replace_all(&text, *word).into_owned()
            };
            random.iter().fold(text, replaced)
        };
        let out = difference(&house, &case.out, &stable(&output.stdout));
        let err = difference(&house, &case.err, &stable(&output.stderr));
        let rc = output.status.code().unwrap();
        let is_known = (&out, &err, rc)
            == (
                &case.diff_out,
                &case.diff_err,
                case.our_rc.unwrap_or(case.rc),
            );
        let is_same = out.is_empty() && err.is_empty() && rc == case.rc;
        if !is_known || is_same == case.why.is_some() {
            wrong += &format!(
                "## {:?}\nour_rc = {rc}\ndiff_out = '''\n{out}'''\ndiff_err = '''\n{err}'''\n",
                case.words
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
