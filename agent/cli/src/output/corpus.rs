//! Compares every outputter with the text that Salt's outputter printed for the same data and
//! options.

use std::fs;
use std::path::Path;

use value::{Value, json};

use super::{Output, display};
use value::yaml::{Yaml, YamlFault, YamlLayout};

pub(super) struct NoYaml;

impl Yaml for NoYaml {
    fn load(&self, _: &str) -> Result<Value, YamlFault> {
        unreachable!("no outputter reads YAML")
    }

    fn dump(&self, _: &Value, _: YamlLayout) -> String {
        unreachable!("the corpus has no YAML")
    }
}

#[test]
fn outputters_print_what_salt_prints() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/output");
    let (mut good, mut bad) = (0, Vec::new());
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let document = json::read(&fs::read_to_string(&path).unwrap()).unwrap();
        for case in document.get("cases").and_then(Value::as_list).unwrap() {
            let text = |key: &str| case.get(key).and_then(Value::as_str).unwrap();
            let opts = case.get("opts").and_then(Value::as_map).unwrap();
            let how = Output::from_opts(opts, false);
            let retcode = case.get("retcode").and_then(Value::as_int).unwrap();
            let got = display(
                document.get("data").unwrap(),
                Some(text("out")),
                &how,
                retcode,
                &NoYaml,
            );
            if got == text("text") {
                good += 1;
            } else {
                let pair = got.lines().zip(text("text").lines()).find(|(a, b)| a != b);
                bad.push(format!(
                    "{name} {} {}: {pair:?}",
                    text("out"),
                    Value::Map(opts.clone()).to_text()
                ));
            }
        }
    }
    assert!(good > 500, "only {good} cases were found");
    assert!(
        bad.is_empty(),
        "{good} good, {} bad:\n{}",
        bad.len(),
        bad.join("\n")
    );
}
