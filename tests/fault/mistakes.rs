//! Mistakes that users make: the messages of `state.apply` on its standard error.
//!
//! `tests/corpus/faults/CASE/sls` is the only file of the tree, and `expected.err` holds the
//! messages about it.

use std::fs;
use std::path::PathBuf;

use tests::answer::{same_text, without_times};
use tests::corpus::{Case, Outcome, check_all};
use tests::program::salt_call;
use tests::scratch::{Scratch, corpus};

struct Mistake(PathBuf);

#[test]
fn mistakes_are_shown_where_they_were_made() {
    let folder = corpus().join("faults");
    let cases = folder.read_dir().unwrap();
    let mut cases: Vec<Mistake> = cases.map(|entry| Mistake(entry.unwrap().path())).collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(cases.len() >= 10);
    check_all("faults", &cases);
}

impl Mistake {
    fn case(&self) -> &str {
        self.0.file_name().unwrap().to_str().unwrap()
    }
}

impl Case for Mistake {
    fn name(&self) -> String {
        format!("faults/{}", self.case())
    }

    fn check(&self) -> Result<Outcome, String> {
        let scratch = Scratch::new();
        let sls = fs::read_to_string(self.0.join("sls")).unwrap();
        scratch.write(format!("srv/salt/{}.sls", self.case()), &sls);
        let words = ["state.apply", self.case()].map(str::to_owned);
        let answer = salt_call(scratch.path(), &words)?;
        if answer.rc != Some(1) {
            return Err(format!("exit code 1 / {:?}", answer.rc));
        }
        let said = fs::read_to_string(scratch.path().join("stderr")).unwrap();
        let said = scratch.masked(&without_times(&said));
        let expected = self.0.join("expected.err");
        if std::env::var_os("PINCH_RECORD").is_some() {
            fs::write(&expected, &said).unwrap();
        }
        same_text(&fs::read_to_string(expected).unwrap_or_default(), &said)?;
        Ok(Outcome::Agrees)
    }
}
