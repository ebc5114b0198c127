//! Compiles SLS trees, and compares the results with those of real Salt (`tests/corpus/compile`).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use state::compile::{self, Checked, Fault, Plan, Problem};
use state::exec::{Exec, Registry};
use state::module::{Arg, Error, Extra, Function, Module, Ret};
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use state::targets::{MinionReturn, Targets};
use value::{Map, Value, json};

/// A folder of SLS files.
struct Folder(PathBuf);

impl Sources for Folder {
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error> {
        let file = self.0.join(path);
        let found = saltenv == "base" && file.is_file();
        Ok(found.then(|| SourceFile {
            shown: Arc::from(path),
            path: file,
        }))
    }

    fn list(&self, _: &str) -> Result<Vec<String>, Error> {
        let mut paths = Vec::new();
        walk(&self.0, &self.0, &mut paths);
        paths.sort();
        Ok(paths)
    }

    fn environments(&self) -> Result<Vec<String>, Error> {
        Ok(vec!["base".into()])
    }

    fn pillar(&self, _: &Exec) -> Result<Map, Error> {
        Ok(Map::new())
    }
}

fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(root, &path, paths);
        } else {
            paths.push(path.strip_prefix(root).unwrap().display().to_string());
        }
    }
}

struct NoTargets;

impl Targets for NoTargets {
    fn resolve(&self, _: &Exec, _: &Value, _: &str) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    fn run(
        &self,
        _: &Exec,
        _: &[String],
        _: &str,
        _: Vec<Value>,
        _: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        Ok(Vec::new())
    }

    fn fire(&self, _: &Exec, _: &str, _: Map) -> Result<(), Error> {
        Ok(())
    }
}

const fn function(name: &'static str, args: &'static [Arg], extra: Extra) -> Function<Ret> {
    Function {
        name,
        doc: "",
        args,
        varargs: false,
        extra,
        facts: None,
        call: |_, _| Ok(Ret::ok("")),
    }
}

const fn arg(name: &'static str) -> Arg {
    Arg {
        name,
        doc: "",
        default: None,
    }
}

const fn optional(name: &'static str) -> Arg {
    Arg {
        name,
        doc: "",
        default: Some(|| Value::Null),
    }
}

const NAME: &[Arg] = &[arg("name")];

const WATCH: &[Function<Ret>] = &[function("mod_watch", NAME, Extra::Accept)];

/// A module of which the cases only need that it has `mod_watch`.
const fn watching(name: &'static str) -> Module<Ret> {
    Module {
        name,
        functions: WATCH,
        ..Module::BARE
    }
}

static REGISTRY: Registry = Registry {
    returners: Vec::new,
    pillars: &[],
    states: &[
        watching("at"),
        Module {
            name: "cmd",
            doc: "",
            functions: &[
                function("run", NAME, Extra::Accept),
                function("mod_watch", NAME, Extra::Accept),
            ],
            ..Module::BARE
        },
        Module {
            name: "file",
            doc: "",
            functions: &[
                function("symlink", &[arg("name"), arg("target")], Extra::Accept),
                function("managed", &[arg("name"), optional("source")], Extra::Accept),
            ],
            ..Module::BARE
        },
        watching("mount"),
        watching("pkg"),
        watching("service"),
        Module {
            name: "test",
            doc: "",
            functions: &[
                function("nop", NAME, Extra::Accept),
                function("mod_watch", NAME, Extra::Accept),
            ],
            ..Module::BARE
        },
        Module {
            name: "user",
            doc: "",
            functions: &[function(
                "absent",
                &[arg("name"), optional("purge"), optional("force")],
                Extra::Reject,
            )],
            ..Module::BARE
        },
    ],
    functions: &[],
    runners: &[],
    wheel: &[],
    // The programs that `user` needs are not installed.
    missing: |_, _, full| full.starts_with("user.").then(|| "no useradd".to_owned()),
    lacks: |_, _| None,
    grains: |_| Map::new(),
};

fn context(folder: &Path) -> Exec {
    let sources = Box::new(Folder(folder.to_path_buf()));
    Exec::new(Opts::default(), &REGISTRY, sources, Box::new(NoTargets))
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/compile")
}

fn main_sls(cx: &Exec) -> Result<compile::HighData, Vec<Fault>> {
    compile::high_data(cx, &["main".into()], "base")
}

/// Returns the text that a function of the `state` module prints.
fn printed<T>(result: Result<T, Vec<Fault>>, good: impl FnOnce(T) -> Value) -> Value {
    match result {
        Ok(value) => good(value),
        Err(faults) => Value::list(faults.into_iter().map(|fault| fault.text.into())),
    }
}

fn lowstate(plan: Plan) -> Value {
    Value::list(plan.lowstate().into_iter().map(Value::Map))
}

fn all_outputs(cx: &Exec) -> Map {
    let high = |high: compile::HighData| high.map().clone().into();
    let matches = vec![("base".to_owned(), vec!["main".to_owned()])];
    Map::new()
        .with("show_sls", printed(main_sls(cx), high))
        .with(
            "show_low_sls",
            printed(
                main_sls(cx).and_then(|high| high.plan_as_written(cx)),
                lowstate,
            ),
        )
        .with(
            "show_lowstate",
            printed(compile::lowstate_of(cx, &matches), lowstate),
        )
}

fn text(value: &Value) -> String {
    json::write(value, json::Layout::default())
}

#[test]
fn trees_compile_as_salt_compiles_them() {
    let mut failed = 0;
    let mut cases: Vec<_> = std::fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expected.json").is_file())
        .collect();
    cases.sort();
    assert!(cases.len() > 50);
    for case in cases {
        let expected = std::fs::read_to_string(case.join("expected.json")).unwrap();
        let expected = json::read(&expected).unwrap();
        let got = all_outputs(&context(&case));
        // A case that differs from Salt on purpose has a file with the reason. If the case no
        // longer differs, the file must be removed.
        if case.join("differs.txt").is_file() {
            assert_ne!(
                expected,
                Value::Map(got),
                "{} no longer differs",
                case.display()
            );
            continue;
        }
        for (key, wanted) in expected.as_map().unwrap() {
            let got = got.get_value(key).unwrap();
            if got != wanted && wanted.get("exception").is_none() {
                failed += 1;
                let name = case.file_name().unwrap().to_string_lossy().into_owned();
                let (wanted, got) = (text(wanted), text(got));
                eprintln!("{name} {}\n  Salt {wanted}\n  here {got}", key.to_text());
            }
        }
    }
    assert_eq!(failed, 0, "cases differ");
}

/// Returns a context with a scratch folder that contains one `main.sls`.
fn scratch(name: &str, main: &str) -> Exec {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("main.sls"), main).unwrap();
    context(&folder)
}

fn plan(cx: &Exec) -> Result<Plan, Vec<Fault>> {
    compile::sls(cx, &["main".into()], "base")?.plan(cx)
}

fn first_fault(name: &str, main: &str) -> Fault {
    plan(&scratch(name, main)).unwrap_err().remove(0)
}

fn place(fault: &Fault) -> (String, u32, u32) {
    let place = fault.place.clone().unwrap();
    (place.file.to_string(), place.line, place.column)
}

#[test]
fn a_missing_requisite_points_at_its_item_and_at_what_was_meant() {
    let main = "nginx:\n  test.nop: []\nsite:\n  test.nop:\n    - arg: 1\n    - require:\n      - test: nginx\n      - test: ngnix\n";
    let fault = first_fault("missing", main);
    assert_eq!(place(&fault), ("main.sls".into(), 8, 9));
    assert_eq!(fault.hint.as_deref(), Some("did you mean 'nginx'?"));
}

#[test]
fn a_requisite_of_the_wrong_module_is_told_the_right_one() {
    let main = "nginx:\n  test.nop: []\nsite:\n  test.nop:\n    - require:\n      - cmd: nginx\n";
    let fault = first_fault("module", main);
    assert_eq!(fault.hint.as_deref(), Some("did you mean 'test: nginx'?"));
}

#[test]
fn a_fault_below_a_loop_points_at_the_line_of_the_template() {
    let main = "{% for n in [1, 2, 3] %}\na{{ n }}:\n  test.nop: []\n{% endfor %}\nb:\n  test.nop:\n    - require: a1\n";
    let fault = first_fault("loop", main);
    assert_eq!(place(&fault), ("main.sls".into(), 7, 7));
}

#[test]
fn a_requisite_in_of_an_unknown_id_points_at_where_it_is_said() {
    let main = "a:\n  test.nop: []\nb:\n  test.nop:\n    - require_in:\n      - test: aa\n";
    let fault = first_fault("unknown_in", main);
    assert_eq!(place(&fault), ("main.sls".into(), 5, 7));
    assert_eq!(fault.hint.as_deref(), Some("did you mean 'a'?"));
}

#[test]
fn a_missing_include_points_at_the_include() {
    let main = "include:\n  - mian\na:\n  test.nop: []\n";
    let fault = first_fault("include", main);
    assert_eq!(place(&fault), ("main.sls".into(), 2, 5));
    assert_eq!(fault.hint.as_deref(), Some("did you mean 'main'?"));
}

fn checked(name: &str, main: &str) -> Vec<Checked> {
    let cx = scratch(name, main);
    compile::check(&plan(&cx).unwrap(), &cx)
}

#[test]
fn an_argument_that_is_refused_stops_the_run_before_it_starts() {
    let main = "a:\n  user.absent:\n    - purg: True\n    - runas: root\n";
    let [
        Checked {
            chunk: 0,
            problem: Problem::Stops(fault),
        },
    ] = &checked("refused", main)[..]
    else {
        panic!("it must stop the run");
    };
    assert_eq!(
        fault.text,
        "'purg' is an invalid keyword argument for 'user.absent'"
    );
    assert_eq!(place(fault), ("main.sls".into(), 3, 7));
    assert_eq!(fault.hint.as_deref(), Some("did you mean 'purge'?"));
}

#[test]
fn an_argument_that_is_swallowed_is_a_warning() {
    let main = "a:\n  file.managed:\n    - sorce: salt://x\n    - quite_another: 1\n";
    let [
        Checked {
            problem: Problem::Warning(fault),
            ..
        },
        Checked {
            problem: Problem::Warning(unlike),
            ..
        },
    ] = &checked("swallowed", main)[..]
    else {
        panic!("two warnings");
    };
    assert_eq!(
        fault.text,
        "file.managed does not know the argument 'sorce'"
    );
    assert_eq!(fault.hint.as_deref(), Some("did you mean 'source'?"));
    assert_eq!(
        unlike.text,
        "file.managed does not know the argument 'quite_another'"
    );
    assert_eq!(unlike.hint, None);
}

#[test]
fn a_missing_argument_and_an_unknown_function_fail_their_chunk_alone() {
    let main = "a:\n  file.symlink: []\nb:\n  file.symlnk: []\n";
    let [one, two] = &checked("fails", main)[..] else {
        panic!("two problems");
    };
    let (Problem::Fails(one), Problem::Fails(two)) = (&one.problem, &two.problem) else {
        panic!("both fail");
    };
    assert_eq!(one.text, "Missing parameter target for state file.symlink");
    assert_eq!(
        two.text,
        "State 'file.symlnk' was not found in SLS 'main'\nReason: 'file.symlnk' is not available."
    );
    assert_eq!(two.hint.as_deref(), Some("did you mean 'file.symlink'?"));
}

#[test]
fn what_the_machine_lacks_for_a_function_is_told_when_its_turn_comes() {
    let main = "a:\n  user.absent: []\n";
    assert!(checked("lacks", main).is_empty());
    let cx = scratch("lacks_later", main);
    let plan = plan(&cx).unwrap();
    let told = compile::verify(&plan.chunks()[0], &cx);
    assert_eq!(
        told,
        [
            "State 'user.absent' was not found in SLS 'main'",
            "Reason: no useradd"
        ]
    );
}

#[test]
fn a_listener_that_is_not_there_is_a_warning() {
    let main = "a:\n  test.nop:\n    - listen_in:\n      - test: gone\n";
    let [
        Checked {
            problem: Problem::Warning(fault),
            ..
        },
    ] = &checked("unheard", main)[..]
    else {
        panic!("one warning");
    };
    assert_eq!(fault.text, "Referenced state test: gone does not exist");
    assert_eq!(place(fault), ("main.sls".into(), 3, 7));
}

#[test]
fn listeners_are_known_from_both_sides() {
    let main = "a:\n  test.nop:\n    - listen_in:\n      - test: l\nl:\n  test.nop:\n    - listen:\n      - b\nb:\n  test.nop: []\n";
    let plan = plan(&scratch("listen", main)).unwrap();
    let listener = plan.chunks().iter().find(|low| low.id == "l").unwrap();
    let targets: Vec<_> = listener
        .requisites
        .iter()
        .flat_map(|r| r.chunks.clone())
        .collect();
    assert_eq!(targets, [0, 2]);
}

#[test]
fn a_prereq_gives_a_test_run_before_it_and_holds_its_target_back() {
    let main = "p:\n  test.nop:\n    - prereq:\n      - test: a\na:\n  test.nop: []\n";
    let plan = plan(&scratch("prereq", main)).unwrap();
    let steps: Vec<_> = plan
        .steps()
        .iter()
        .map(|s| (s.chunk, s.test, s.needs.clone()))
        .collect();
    use state::low::RequisiteKind::{Prereq, Require};
    let expected = [
        (1, true, vec![]),
        (0, false, vec![(Prereq, 1)]),
        (1, false, vec![(Require, 0)]),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn a_long_chain_compiles_in_no_time() {
    let main = "{% for n in range(3000) %}\ns{{ n }}:\n  test.nop:\n    - require_in:\n      - test: s{{ n + 1 }}\n{% if n %}\n    - require:\n      - test: s{{ n - 1 }}\n{% endif %}\n{% endfor %}\ns3000:\n  test.nop: []\n";
    let cx = scratch("chain", main);
    let high = compile::sls(&cx, &["main".into()], "base").unwrap();
    let start = Instant::now();
    let plan = high.plan(&cx).unwrap();
    let took = start.elapsed();
    assert_eq!(plan.chunks().len(), 3001);
    println!("{} chunks in {took:?}", plan.chunks().len());
    // A step with quadratic cost would take many seconds.
    assert!(took < Duration::from_secs(2), "{took:?}");
}
