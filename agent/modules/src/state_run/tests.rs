use state::exec::Exec;
use value::{Map, Value};

use super::{Request, retcode};
use crate::testing;

/// Returns a context with an SLS `web` that adds a file.
fn context(folder: &tempfile::TempDir, pillar: Map) -> Exec {
    let text = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    std::fs::create_dir(folder.path().join("srv")).unwrap();
    let sls = format!("made:\n  file.touch:\n    - name: {}\n", text("made"));
    std::fs::write(folder.path().join("srv/web.sls"), sls).unwrap();
    let opts = Map::new()
        .with("cachedir", text("cache"))
        .with("root_for_files", text("srv"));
    testing::exec_with(opts, pillar)
}

fn texts(value: &Value) -> String {
    value.split_input().join("\n")
}

#[test]
fn a_refusal_is_a_return_that_sets_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let cx = context(&folder, Map::new());
    let kwargs = Map::new().with("resume", true);
    let call = |mods: &str, kwargs: &Map| {
        cx.set_retcode(0);
        cx.call("state.sls", vec![mods.into()], kwargs.clone())
    };
    let ret = call("web", &kwargs).unwrap();
    assert_eq!(
        texts(&ret),
        "There is no run of state.sls web on record: nothing to resume"
    );
    assert_eq!(cx.retcode(), retcode::COMPILE);
    let ret = call("none", &Map::new()).unwrap();
    assert!(texts(&ret).contains("No matching sls found for 'none'"));
    assert_eq!(cx.retcode(), retcode::COMPILE);
    let error = call("web", &Map::new().with("redo", "made")).unwrap_err();
    assert!(error.to_string().contains("only valid with resume=True"));
    let ret = call("web", &Map::new()).unwrap();
    assert_eq!(ret.as_map().unwrap().len(), 1);
    assert_eq!(cx.retcode(), 0);
}

#[test]
fn a_second_run_is_refused_while_the_first_one_holds_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let cx = context(&folder, Map::new());
    let request = || Request::from_kwargs("state.sls", &Map::new());
    let first = request().lock(&cx).unwrap();
    let call = || {
        cx.call("state.sls", vec!["web".into()], Map::new())
            .unwrap()
    };
    assert!(texts(&call()).starts_with("The function \"state.sls\" is running as PID"));
    drop(first);
    assert!(call().as_map().is_some());
}

#[test]
fn only_high_data_runs_in_spite_of_a_pillar_that_does_not_render() {
    let folder = tempfile::tempdir().unwrap();
    let errors = Value::list(["Rendering SLS 'x' failed".into()]);
    let cx = context(&folder, Map::new().with("_errors", errors));
    let ret = cx.call("state.sls", vec!["web".into()], Map::new());
    assert!(texts(&ret.unwrap()).starts_with("Pillar failed to render"));
    assert_eq!(cx.retcode(), retcode::PILLAR);
    let chunk = Value::list(["nop".into()]);
    let high = Map::new().with("a", Map::new().with("test", chunk));
    let ret = cx.call("state.high", vec![high.into()], Map::new());
    assert!(ret.unwrap().as_map().is_some());
    let force = Map::new().with("force", true);
    let ret = cx.call("state.sls", vec!["web".into()], force);
    assert!(ret.unwrap().as_map().is_some());
}

#[test]
fn a_terse_return_has_only_what_failed_or_changed() {
    let folder = tempfile::tempdir().unwrap();
    let cx = context(&folder, Map::new());
    let mut data = Map::new();
    for (id, fun) in [("a", "nop"), ("b", "fail_without_changes")] {
        let chunk = Value::list([fun.into()]);
        data.insert(id, Map::new().with("test", chunk));
    }
    let kwargs = Map::new().with("terse", true);
    let ret = cx.call("state.high", vec![data.into()], kwargs).unwrap();
    let tags: Vec<String> = ret.as_map().unwrap().keys().map(Value::to_text).collect();
    assert_eq!(tags, ["test_|-b_|-b_|-fail_without_changes"]);
    assert_eq!(cx.retcode(), retcode::FAILED);
}

#[test]
fn test_mode_may_be_requested_in_any_case() {
    let folder = tempfile::tempdir().unwrap();
    let cx = context(&folder, Map::new());
    for (word, value) in [("TEST", "true"), ("Test", "True")] {
        let kwargs = Map::new().with(word, value);
        let request = Request::from_kwargs("state.sls", &kwargs);
        assert!(request.context(&cx).unwrap().test, "{word}={value}");
    }
    let request = Request::from_kwargs("state.sls", &Map::new().with("TEST", "no"));
    assert!(!request.context(&cx).unwrap().test);
}
