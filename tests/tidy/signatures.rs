//! The signatures: every declared function takes the arguments that Salt's function takes. `tests/corpus/signatures.py` reads
//! Salt's, and `tests/corpus/differences.toml` lists the functions that differ and those that Salt lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde::Deserialize;
use serde_json::Value as Json;

use super::none;
use super::source::workspace;

mod declared;

/// The arguments that a function takes.
#[derive(Debug, Default, PartialEq)]
struct Signature {
    args: Vec<Argument>,
    varargs: bool,
    kwargs: bool,
}

#[derive(Debug, PartialEq)]
enum Argument {
    Required(String),
    Optional(String, Json),
    /// Its default is no literal in Salt, so that any default is right here.
    Computed(String),
}

/// A signature in `signatures.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Theirs {
    file: String,
    args: Vec<Vec<Json>>,
    #[serde(default)]
    varargs: bool,
    /// The arguments that Python takes by name only. Pinch finds them in its `kwargs`.
    #[serde(default)]
    keywords: Vec<Vec<Json>>,
    #[serde(default)]
    kwargs: bool,
}

#[derive(Deserialize)]
struct Exceptions {
    signature: Vec<Differing>,
    not_in_salt: Vec<Unknown>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Differing {
    reason: String,
    /// For each function the words of [`differences`].
    functions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unknown {
    reason: String,
    functions: Vec<String>,
}

impl Argument {
    fn name(&self) -> &str {
        let (Self::Required(name) | Self::Optional(name, _) | Self::Computed(name)) = self;
        name
    }

    /// Whether an argument of ours has the default of this one, which is Salt's.
    fn agrees(&self, ours: &Self) -> bool {
        match (self, ours) {
            (Self::Computed(_), _) => !matches!(ours, Self::Required(_)),
            // As in Python, 5 equals 5.0.
            (Self::Optional(_, Json::Number(theirs)), Self::Optional(_, Json::Number(ours))) => {
                theirs.as_f64() == ours.as_f64()
            }
            _ => self == ours,
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Required(name) => name.clone(),
            Self::Optional(name, default) => format!("{name}={default}"),
            Self::Computed(name) => format!("{name}=…"),
        }
    }
}

impl Signature {
    fn argument(&self, name: &str) -> Option<&Argument> {
        self.args.iter().find(|arg| arg.name() == name)
    }

    /// The names of the arguments that the other signature has too, in the order of this one.
    fn common(&self, other: &Self) -> Vec<&str> {
        let names = self.args.iter().map(Argument::name);
        names
            .filter(|name| other.argument(name).is_some())
            .collect()
    }

    fn to_text(&self) -> String {
        let mut words: Vec<String> = self.args.iter().map(Argument::to_text).collect();
        words.extend(self.varargs.then(|| "*args".to_owned()));
        words.extend(self.kwargs.then(|| "**kwargs".to_owned()));
        format!("({})", words.join(", "))
    }
}

impl Theirs {
    fn signature(&self) -> Signature {
        Signature {
            args: self.args.iter().map(|words| argument(words)).collect(),
            varargs: self.varargs,
            kwargs: self.kwargs || !self.keywords.is_empty(),
        }
    }
}

fn argument(words: &[Json]) -> Argument {
    let name = words[0].as_str().unwrap().to_owned();
    match words {
        [_] => Argument::Required(name),
        [_, default] => Argument::Optional(name, default.clone()),
        _ => Argument::Computed(name),
    }
}

/// One word for each difference: `-name` if we lack the argument, `+name` if we add it, `name` if its default differs, and `order`.
fn differences(ours: &Signature, theirs: &Signature) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for arg in &theirs.args {
        match ours.argument(arg.name()) {
            None => words.insert(format!("-{}", arg.name())),
            Some(ours) => !arg.agrees(ours) && words.insert(arg.name().to_owned()),
        };
    }
    let added = ours.args.iter().map(Argument::name);
    let added = added.filter(|name| theirs.argument(name).is_none());
    words.extend(added.map(|name| format!("+{name}")));
    if ours.common(theirs) != theirs.common(ours) {
        words.insert("order".to_owned());
    }
    let open = [
        ("*args", ours.varargs, theirs.varargs),
        ("**kwargs", ours.kwargs, theirs.kwargs),
    ];
    for (name, ours, theirs) in open {
        match (ours, theirs) {
            (true, false) => words.insert(format!("+{name}")),
            (false, true) => words.insert(format!("-{name}")),
            _ => false,
        };
    }
    words
}

/// The fewest differences to any of Salt's functions of one name, and a text that shows both.
fn nearest(ours: &Signature, theirs: &[Theirs]) -> (BTreeSet<String>, String) {
    let all = theirs.iter().map(|theirs| {
        let (file, theirs) = (&theirs.file, theirs.signature());
        let text = format!("{}\n    {file} {}", ours.to_text(), theirs.to_text());
        (differences(ours, &theirs), text)
    });
    all.min_by_key(|(words, _)| words.len()).unwrap()
}

fn corpus(name: &str) -> String {
    fs::read_to_string(workspace().join("tests/corpus").join(name)).unwrap()
}

fn of_salt() -> BTreeMap<String, Vec<Theirs>> {
    serde_json::from_str(&corpus("signatures.json")).unwrap()
}

fn exceptions() -> Exceptions {
    toml::from_str(&corpus("differences.toml")).unwrap()
}

/// The words that the exceptions have for each function. A function may be in several groups.
fn excepted(groups: &[Differing]) -> BTreeMap<&str, BTreeSet<String>> {
    let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, words) in groups.iter().flat_map(|group| &group.functions) {
        let words = words.split_whitespace().map(str::to_owned);
        all.entry(name).or_default().extend(words);
    }
    all
}

#[test]
fn every_signature_is_salts() {
    let (theirs, exceptions) = (of_salt(), exceptions());
    let mut excepted = excepted(&exceptions.signature);
    let mut wrong = Vec::new();
    for (name, ours) in declared::all() {
        let listed = excepted.remove(name.as_str()).unwrap_or_default();
        let none = (BTreeSet::new(), "Salt has no such function".to_owned());
        let (words, text) = theirs.get(&name).map_or(none, |all| nearest(&ours, all));
        if words != listed {
            let words = Vec::from_iter(words).join(" ");
            wrong.push(format!("\"{name}\" = \"{words}\"\n    ours {text}"));
        }
    }
    wrong.extend(
        excepted
            .keys()
            .map(|name| format!("{name} is not declared")),
    );
    none(
        &wrong,
        "differences.toml has other differences of these (no words: they do not differ)",
    );
}

#[test]
fn no_argument_is_declared_twice() {
    let twice = |signature: &Signature| {
        let names: BTreeSet<&str> = signature.args.iter().map(Argument::name).collect();
        names.len() != signature.args.len()
    };
    let all = declared::all().into_iter();
    let wrong: Vec<String> = all
        .filter(|(_, signature)| twice(signature))
        .map(|(name, _)| name)
        .collect();
    none(
        &wrong,
        "an argument of these functions is also in one of their groups",
    );
}

#[test]
fn functions_that_salt_lacks_are_listed() {
    let theirs = of_salt();
    let groups = exceptions().not_in_salt;
    let listed: Vec<String> = groups
        .into_iter()
        .flat_map(|group| group.functions)
        .collect();
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len(), "a function is listed twice");
    let declared = declared::all().into_keys();
    let lacking: BTreeSet<String> = declared.filter(|name| !theirs.contains_key(name)).collect();
    let apart: Vec<String> = once.symmetric_difference(&lacking).cloned().collect();
    none(
        &apart,
        "these are listed as unknown to Salt but are not, or are not listed (run signatures.py after adding a module)",
    );
}

#[test]
fn every_exception_has_a_reason() {
    let Exceptions {
        signature,
        not_in_salt,
    } = exceptions();
    let reasons = signature.iter().map(|group| &group.reason);
    let mut reasons = reasons.chain(not_in_salt.iter().map(|group| &group.reason));
    assert!(reasons.all(|reason| !reason.trim().is_empty()));
}

#[test]
fn differences_are_found() {
    let words = |ours: &str, theirs: &str| {
        let read = |args| Theirs {
            args: serde_json::from_str(args).unwrap(),
            ..serde_json::from_str(r#"{"file": "x.py", "args": []}"#).unwrap()
        };
        let words = differences(&read(ours).signature(), &read(theirs).signature());
        Vec::from_iter(words).join(" ")
    };
    let theirs = r#"[["a"], ["b", 5], ["c", null, "d()"]]"#;
    assert_eq!(words(r#"[["a"], ["b", 5.0], ["c", 1]]"#, theirs), "");
    assert_eq!(words(r#"[["b", 5], ["a"], ["c", 1]]"#, theirs), "order");
    assert_eq!(words(r#"[["a", null], ["d"], ["c"]]"#, theirs), "+d -b a c");
}
