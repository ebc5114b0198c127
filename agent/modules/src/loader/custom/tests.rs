mod kinds;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use state::exec::{Exec, Registry};
use state::opts::Opts;

use super::*;
use crate::fileserver::roots::Roots;
use crate::state_run::orchestrate::ThisMachine;

static REGISTRY: Registry = Registry {
    grains: |opts| Map::new().with("id", opts.id()).with("os", "Debian"),
    ..crate::REGISTRY
};

/// A test machine: a tree, a folder for the synced modules, a context.
struct Machine {
    folder: tempfile::TempDir,
    cx: Exec,
}

impl Machine {
    fn with(files: &[(&str, &str)]) -> Self {
        Self::with_opts(files, Map::new())
    }

    fn with_opts(files: &[(&str, &str)], more: Map) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let below = |name: &str| folder.path().join(name).display().to_string();
        let roots = |name: &str| Map::new().with("base", Value::list([below(name).into()]));
        let opts = Opts::new(
            more.with("id", "m1")
                .with("cachedir", below("cache"))
                .with("sock_dir", below("sock"))
                .with("extension_modules", below("extmods"))
                .with("file_roots", roots("srv"))
                .with("pillar_roots", roots("pillar"))
                .with("grains", Map::new().with("static", "configured"))
                .with("custom_module_timeout", 1),
        );
        let custom = Box::new(CustomModules::new(&opts));
        let sources = Box::new(Roots::states(&opts));
        let cx = Exec::with_custom(opts, &REGISTRY, sources, Box::new(ThisMachine), custom);
        let machine = Self { folder, cx };
        for (name, text) in files {
            machine.put(name, text);
        }
        machine
    }

    fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join("srv").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let mode = if name.contains('.') { 0o644 } else { 0o755 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn sync(&self) -> String {
        let kwargs = Map::new().with("saltenv", "base");
        let synced = self.cx.call("saltutil.sync_modules", Vec::new(), kwargs);
        value::python::repr(&synced.unwrap())
    }

    fn sync_kind(&self, kind: &str) {
        let full = format!("saltutil.sync_{kind}");
        let kwargs = Map::new().with("saltenv", "base");
        self.cx.call(&full, Vec::new(), kwargs).unwrap();
    }

    /// Applies an SLS and returns the result, or the error.
    fn apply(&self, sls: &str) -> Value {
        let ret = self.cx.call("state.apply", vec![sls.into()], Map::new());
        ret.unwrap_or_else(|error| error.to_string().into())
    }

    /// Calls a function and returns the result as Python shows it, or the error.
    fn call(&self, full: &str, args: &[Value]) -> String {
        match self.cx.call(full, args.to_vec(), Map::new()) {
            Ok(value) => value::python::repr(&value),
            Err(error) => error.to_string(),
        }
    }
}

#[test]
fn modules_are_there_once_they_are_synced_and_gone_with_their_files() {
    let machine = Machine::with(&[
        ("_modules/mymod.py", "def f():\n    return 1\n"),
        ("_modules/README.md", "not a module"),
    ]);
    assert_eq!(machine.call("mymod.f", &[]), "'mymod.f' is not available.");
    assert_eq!(machine.sync(), "['modules.mymod']");
    assert_eq!(machine.call("mymod.f", &[]), "1");
    assert_eq!(machine.sync(), "[]");
    let file = machine.put("_modules/mymod.py", "def f():\n    return 2\n");
    assert_eq!(machine.sync(), "['modules.mymod']");
    assert_eq!(machine.call("mymod.f", &[]), "2");
    fs::remove_file(file).unwrap();
    assert_eq!(machine.sync(), "[]");
    assert_eq!(machine.call("mymod.f", &[]), "'mymod.f' is not available.");
    assert!(!machine.folder.path().join("extmods/modules").exists());
}

#[test]
fn lists_say_what_is_synced() {
    let machine = Machine::with(&[("_modules/a.py", ""), ("_modules/sub/b.py", "")]);
    let kwargs = |key: &str, names: &str| Map::new().with("saltenv", "base").with(key, names);
    let sync = |kwargs| {
        let synced = machine
            .cx
            .call("saltutil.sync_modules", Vec::new(), kwargs)
            .unwrap();
        value::python::repr(&synced)
    };
    assert_eq!(
        sync(kwargs("extmod_whitelist", "x,sub.b")),
        "['modules.sub.b']"
    );
    assert_eq!(sync(kwargs("extmod_blacklist", "sub.b")), "['modules.a']");
    assert!(!machine.folder.path().join("extmods/modules/sub").exists());
}

#[test]
fn a_module_has_what_salt_gives_it() {
    let machine = Machine::with(&[
        (
            "_modules/mymod.py",
            r#"
__func_alias__ = {"list_": "list"}

def list_():
    return [1, (2,), {1: b"x"}, None, 1.5]

def data():
    return [__grains__["os"], __opts__["id"], __opts__["grains"]["id"], __pillar__]

def salt():
    return ["test.ping" in __salt__, "no.such" in __salt__, __salt__["test.echo"]("hi")]

def count():
    __context__["n"] = __context__.get("n", 0) + 1
    return __context__["n"]

def fails():
    __context__["retcode"] = 42
    return __salt__["other.f"](a=1)

def _private():
    return 1
"#,
        ),
        (
            "_modules/somefile.py",
            "__virtualname__ = 'other'\ndef __virtual__():\n    return True\ndef f(a):\n    return a\n",
        ),
    ]);
    machine.sync();
    assert_eq!(
        machine.call("mymod.list", &[]),
        "[1, (2,), {1: b'x'}, None, 1.5]"
    );
    assert_eq!(
        machine.call("mymod.data", &[]),
        "['Debian', 'm1', 'm1', {}]"
    );
    assert_eq!(machine.call("mymod.salt", &[]), "[True, False, 'hi']");
    assert_eq!(machine.call("mymod.count", &[]), "1");
    assert_eq!(machine.call("mymod.count", &[]), "2");
    assert_eq!(machine.cx.retcode(), 0);
    assert_eq!(machine.call("mymod.fails", &[]), "1");
    assert_eq!(machine.cx.retcode(), 42);
    assert!(!machine.cx.has_function("mymod._private"));
    assert!(!machine.cx.has_function("somefile.f"));
    let custom = &machine.cx.shared.custom;
    assert_eq!(custom.functions(&machine.cx, Kind::Module).len(), 6);
}

#[test]
fn what_cannot_be_loaded_says_why() {
    let machine = Machine::with(&[
        (
            "_modules/no.py",
            "def __virtual__():\n    return (False, 'not here')\n",
        ),
        ("_modules/imports.py", "import salt.utils.nosuchthing\n"),
        ("_modules/syntax.py", "def f(:\n"),
    ]);
    machine.sync();
    assert_eq!(
        machine.call("no.f", &[]),
        "'no' __virtual__ returned False: not here"
    );
    let imports = machine.call("imports.f", &[]);
    assert!(
        imports.contains("imports.py cannot be loaded: it imports 'salt.utils"),
        "{imports}"
    );
    assert!(machine.call("syntax.f", &[]).contains("SyntaxError"));
    assert!(!machine.cx.has_function("imports.f"));
}

#[test]
fn what_fails_says_why() {
    let machine = Machine::with(&[(
        "_modules/bad.py",
        r#"
import os, time
from salt.exceptions import CommandExecutionError

def raises():
    raise CommandExecutionError("boom")

def callback():
    try:
        __salt__["test.exception"]("ours")
    except CommandExecutionError as error:
        return "caught " + str(error)

def two(a, b):
    return a

def dies():
    os._exit(3)

def sleeps():
    time.sleep(20)
"#,
    )]);
    machine.sync();
    assert_eq!(machine.call("bad.raises", &[]), "boom");
    assert_eq!(machine.call("bad.callback", &[]), "'caught ours'");
    assert_eq!(
        machine.call("bad.two", &[1.into()]),
        "two() missing 1 required positional argument: 'b'"
    );
    let died = machine.call("bad.dies", &[]);
    assert!(
        died.contains("ended unexpectedly (exit status: 3)"),
        "{died}"
    );
    let slow = machine.call("bad.sleeps", &[]);
    assert!(
        slow.contains("longer than 1 seconds (custom_module_timeout)"),
        "{slow}"
    );
    // A new child replaces the old one.
    assert_eq!(machine.call("bad.two", &[1.into(), 2.into()]), "1");
}

/// Returns one of the examples of the page about the protocol.
fn example(number: usize) -> &'static str {
    let page = include_str!("../../../../../packaging/docs/protocol.md");
    let block = page.split("\n```").skip(1).step_by(2).nth(number);
    block.unwrap().split_once('\n').unwrap().1
}

/// Returns a part of a chunk's return.
fn return_text(ret: &Value, tag: &str, key: &str) -> String {
    let found = ret.get(tag).and_then(|ret| ret.get(key));
    found.map_or_else(|| ret.to_text(), Value::to_text)
}

#[test]
fn both_examples_of_the_protocol_work() {
    let machine = Machine::with(&[
        ("_modules/greet", example(0)),
        ("_modules/shout.py", example(1)),
    ]);
    assert_eq!(machine.sync(), "['modules.greet', 'modules.shout']");
    for (full, answer) in [
        ("greet.hello", "'hello'"),
        ("greet.whoami", "'m1'"),
        ("shout.hello", "'HELLO, YOU!'"),
        ("shout.whoami", "'HELLO, M1!'"),
    ] {
        assert_eq!(machine.call(full, &[]), answer);
    }
    assert_eq!(
        machine.call("shout.hello", &["".into()]),
        "There is no one to greet"
    );
    let signature = machine
        .cx
        .shared
        .custom
        .signature(&machine.cx, "greet.hello");
    assert_eq!(
        signature.unwrap().args,
        [("name".into(), Some("you".into()))]
    );
}

#[test]
fn a_file_named_as_a_built_in_module_goes_before_it() {
    let machine = Machine::with(&[("_modules/test.py", "def ping():\n    return 'mine'\n")]);
    assert_eq!(machine.call("test.ping", &[]), "True");
    machine.sync();
    assert_eq!(machine.call("test.ping", &[]), "'mine'");
    assert_eq!(machine.call("test.echo", &["a".into()]), "'a'");
}

#[test]
fn a_program_that_talks_nonsense_is_ended() {
    let machine = Machine::with(&[(
        "_modules/nonsense",
        "#!/bin/sh\nread -r x; echo hello; read -r x\n",
    )]);
    machine.sync();
    let said = machine.call("nonsense.f", &[]);
    assert!(
        said.contains("wrote a line that is not a message"),
        "{said}"
    );
}

#[test]
fn a_function_that_calls_itself_for_ever_ends() {
    let machine = Machine::with(&[(
        "_modules/again",
        r#"#!/bin/sh
while read -r request; do
    case $request in
    '{"load"'*) echo '{"return": {"functions": {"f": {}}}}' ;;
    *)
        echo '{"call": "again.f", "args": [], "kwargs": {}}'
        read -r reply
        echo "$reply" ;;
    esac
done
"#,
    )]);
    machine.sync();
    let said = machine.call("again.f", &[]);
    assert!(said.contains("does one call itself"), "{said}");
}

#[test]
fn states_and_templates_call_them() {
    let machine = Machine::with(&[
        ("_modules/mymod.py", "def f(a=1):\n    return a\n"),
        (
            "x.sls",
            "{{ salt['mymod.f']('named') }}:\n  module.run:\n    - mymod.f:\n      - a: 7\nold:\n  module.run:\n    - name: mymod.f\n    - a: 8\n",
        ),
    ]);
    machine.sync();
    let ret = machine
        .cx
        .call("state.apply", vec!["x".into()], Map::new())
        .unwrap();
    let changes = |tag: &str| {
        ret.get(tag)
            .and_then(|ret| ret.get("changes"))
            .unwrap()
            .to_text()
    };
    assert_eq!(changes("module_|-named_|-named_|-run"), "{'mymod.f': 7}");
    assert_eq!(changes("module_|-old_|-mymod.f_|-run"), "{'ret': 8}");
}

#[test]
fn an_orchestration_syncs_first() {
    let step = "mymod.f:\n  salt.function:\n    - tgt: '*'\n";
    let machine = Machine::with(&[
        ("_modules/mymod.py", "def f():\n    return 'x'\n"),
        ("orch.sls", step),
    ]);
    let orchestrate = || machine.call("state.orchestrate", &["orch".into()]);
    assert!(
        orchestrate().contains("'ret': {'m1': 'x'}"),
        "{}",
        orchestrate()
    );
}

#[test]
fn custom_grains_are_added_and_the_configuration_stands_over_them() {
    let machine = Machine::with(&[(
        "_grains/mine.py",
        r#"
def roles():
    return {"roles": ["web"], "os": "Mine", "id": "not this one"}

def then(grains):
    return {"seen": grains["roles"], "asked": __grains__["id"], "static": "custom"}

def fails():
    raise ValueError("no")

def _private():
    return {"private": True}
"#,
    )]);
    assert_eq!(machine.cx.grains().get("roles"), None);
    let kwargs = Map::new().with("saltenv", "base");
    let synced = machine.cx.call("saltutil.sync_grains", Vec::new(), kwargs);
    assert_eq!(value::python::repr(&synced.unwrap()), "['grains.mine']");
    let grains = machine.cx.grains();
    let shown = |name: &str| grains.get(name).map(value::python::repr);
    assert_eq!(shown("roles").unwrap(), "['web']");
    assert_eq!(shown("seen").unwrap(), "['web']");
    assert_eq!(shown("asked").unwrap(), "'m1'");
    assert_eq!(shown("os").unwrap(), "'Mine'");
    assert_eq!(shown("static").unwrap(), "'configured'");
    assert_eq!(shown("private"), None);
}

#[test]
fn a_custom_state_runs_with_requisites_and_test_mode() {
    let machine = Machine::with(&[
        (
            "_states/mystate.py",
            r#"
def present(name, value=5, **kwargs):
    ret = {"name": name, "result": True, "changes": {"new": value}, "comment": ["one", "two"]}
    if __opts__["test"]:
        ret["result"] = None
    return ret

def mod_watch(name, sfun=None, **kwargs):
    return {"name": name, "result": True, "changes": {"sfun": sfun}, "comment": "watched"}

def quiet(name):
    return {"name": name, "result": True, "changes": {}, "comment": ""}

def wrong(name):
    return {"name": name}
"#,
        ),
        (
            "x.sls",
            "a:\n  mystate.present:\n    - value: 7\nb:\n  mystate.quiet:\n    - watch:\n      - mystate: a\nc:\n  mystate.wrong: []\nd:\n  mystate.nosuch: []\n",
        ),
    ]);
    let kwargs = Map::new().with("saltenv", "base");
    machine
        .cx
        .call("saltutil.sync_states", Vec::new(), kwargs)
        .unwrap();
    let run = |kwargs| {
        machine
            .cx
            .call("state.apply", vec!["x".into()], kwargs)
            .unwrap()
    };
    let ret = run(Map::new());
    let shown = |ret: &Value, tag: &str, key: &str| {
        let found = ret.get(tag).and_then(|ret| ret.get(key));
        found.map(Value::to_text).unwrap_or_else(|| ret.to_text())
    };
    let a = "mystate_|-a_|-a_|-present";
    assert_eq!(shown(&ret, a, "changes"), "{'new': 7}");
    assert_eq!(shown(&ret, a, "comment"), "one\ntwo");
    let watching = shown(&ret, "mystate_|-b_|-b_|-quiet", "changes");
    assert_eq!(watching, "{'sfun': 'quiet'}");
    let wrong = shown(&ret, "mystate_|-c_|-c_|-wrong", "comment");
    assert!(
        wrong.contains("not present in the state return: result,changes,comment"),
        "{wrong}"
    );
    let missing = shown(&ret, "mystate_|-d_|-d_|-nosuch", "comment");
    assert!(
        missing.contains("Reason: 'mystate.nosuch' is not available."),
        "{missing}"
    );
    let tested = run(Map::new().with("test", true));
    assert_eq!(shown(&tested, a, "result"), "None");
}

#[test]
fn a_program_serves_states_too() {
    let machine = Machine::with(&[("_states/marker", example(2))]);
    let file = machine.folder.path().join("marked").display().to_string();
    let sls = format!("{file}:\n  marker.present: []\nbad:\n  marker.present:\n    - what: 1\n");
    machine.put("x.sls", &sls);
    machine.sync_kind("states");
    let ret = machine.apply("x");
    let tag = format!("marker_|-{file}_|-{file}_|-present");
    assert_eq!(
        return_text(&ret, &tag, "changes"),
        format!("{{'new': '{file}'}}")
    );
    let bad = return_text(&ret, "marker_|-bad_|-bad_|-present", "comment");
    assert!(bad.contains("unexpected keyword argument 'what'"), "{bad}");
    assert_eq!(return_text(&machine.apply("x"), &tag, "changes"), "{}");
}

#[test]
fn utilities_states_and_what_salt_has_are_there() {
    let machine = Machine::with(&[
        (
            "_utils/mine.py",
            "def twice(x):\n    return 2 * x if __opts__['id'] == 'm1' else 0\n",
        ),
        (
            "_modules/mymod.py",
            r#"
import salt.utils.files, salt.utils.yaml, salt.utils.network, salt.utils.dictupdate
import salt.modules.cmdmod
import salt.loader
import mine
from salt.utils.odict import OrderedDict

def f():
    return [
        __utils__["mine.twice"](2),
        __utils__["dictupdate.merge"]({"a": 1}, {"b": 2}),
        salt.utils.yaml.safe_load("a: [1, b]"),
        salt.utils.network.get_net_size("255.255.252.0"),
        salt.loader.minion_mods(__opts__)["test.echo"]("x"),
        "no.such" in salt.loader.minion_mods(__opts__),
        __salt__.test.echo("y"),
        OrderedDict([(1, 2)]),
    ]
"#,
        ),
        (
            "_states/outer.py",
            r#"
def f(name):
    ret = __states__["test.succeed_with_changes"](name)
    ret["comment"] = __env__ + str("no.such" in __states__)
    return ret
"#,
        ),
        ("x.sls", "a:\n  outer.f: []\n"),
    ]);
    for kind in ["modules", "states", "utils"] {
        machine.sync_kind(kind);
    }
    assert_eq!(
        machine.call("mymod.f", &[]),
        "[4, {'a': 1, 'b': 2}, {'a': [1, 'b']}, 22, 'x', False, 'y', {1: 2}]"
    );
    let ret = machine.apply("x");
    assert_eq!(
        return_text(&ret, "outer_|-a_|-a_|-f", "comment"),
        "baseFalse"
    );
    assert!(return_text(&ret, "outer_|-a_|-a_|-f", "changes").contains("testing"));
}

#[test]
fn templates_have_the_filters_of_custom_modules() {
    let machine = Machine::with(&[
        (
            "_modules/mymod.py",
            r#"
import salt.utils.decorators.jinja
from salt.utils.decorators.jinja import jinja_filter, jinja_test

@jinja_filter("shout")
def loud(text, mark="!"):
    return text.upper() + mark

@jinja_test()
def even_text(text):
    return len(text) % 2 == 0

@salt.utils.decorators.jinja.jinja_global("now")
def f():
    return __grains__["os"]

@jinja_filter()
def fails(x):
    raise ValueError("no filter")
"#,
        ),
        (
            "x.sls",
            "{% import 'm.jinja' as m %}{{ 'a'|shout }}{{ 'b'|shout(mark='?') }}{{ 'ab' is even_text }}{{ now() }}{{ ['c']|map('shout')|first }}{{ m.x }}:\n  test.nop\n",
        ),
        ("m.jinja", "{% set x = 'd'|shout %}"),
        ("y.sls", "{{ 1|fails }}"),
        ("z.sls", "{{ 1|nosuch }}"),
    ]);
    machine.sync();
    let ret = machine.apply("x").to_text();
    assert!(ret.contains("A!B?TrueDebianC!D!"), "{ret}");
    let failed = machine.apply("y").to_text();
    assert!(failed.contains("no filter"), "{failed}");
    assert!(failed.contains("mymod.py"), "{failed}");
    let unknown = machine.apply("z").to_text();
    assert!(unknown.contains("No filter named 'nosuch'"), "{unknown}");
}

#[test]
fn sls_may_be_python_and_renderers_custom() {
    let machine = Machine::with(&[
        (
            "py.sls",
            "#!py\ndef run():\n    return {sls + __env__ + __grains__['id']: {'test.nop': []}}\n",
        ),
        (
            "bad.sls",
            "#!py\ndef run():\n    raise ValueError('py no')\n",
        ),
        (
            "_renderers/loud.py",
            "def render(data, saltenv='base', sls='', argline='', **kws):\n    return data.read().replace('NAME', sls.upper() + argline)\n",
        ),
        ("own.sls", "#!loud x|yaml\nNAME:\n  test.nop\n"),
        (
            "tpl",
            "def run():\n    return __grains__['os'] + str(context['extra'])\n",
        ),
    ]);
    machine.sync_kind("renderers");
    for (sls, id) in [("py", "pybasem1"), ("own", "OWNx")] {
        let ret = machine.apply(sls).to_text();
        assert!(ret.contains(&format!("test_|-{id}_|-{id}_|-nop")), "{ret}");
    }
    let bad = machine.apply("bad").to_text();
    assert!(bad.contains("bad.sls\", line 3, in run"), "{bad}");
    let file = machine.folder.path().join("made");
    let sls = format!(
        "{}:\n  file.managed:\n    - source: salt://tpl\n    - template: py\n    - context: {{extra: 5}}\n",
        file.display()
    );
    machine.put("file.sls", &sls);
    let ret = machine.apply("file").to_text();
    assert_eq!(fs::read_to_string(file).unwrap_or(ret), "Debian5");
}

#[test]
fn runners_and_fail_functions_judge_the_steps_of_an_orchestration() {
    let machine = Machine::with(&[
        (
            "_runners/myrun.py",
            r#"
def ok(x):
    return [x, __salt__["test.arg"](1)["args"]]

def bad():
    __context__["retcode"] = 1
    return "bad"
"#,
        ),
        ("_wheel/mywheel.py", "def turn():\n    return 'turned'\n"),
        (
            "_modules/judge.py",
            "def check(ret):\n    return ret == 'good'\n",
        ),
        (
            "orch.sls",
            r#"
a: {salt.runner: [{name: myrun.ok}, {x: 5}]}
b: {salt.runner: [{name: myrun.bad}]}
c: {salt.wheel: [{name: mywheel.turn}]}
d: {salt.function: [{name: test.echo}, {arg: [good]}, {tgt: '*'}, {fail_function: judge.check}]}
e: {salt.function: [{name: test.echo}, {arg: [evil]}, {tgt: '*'}, {fail_function: judge.check}]}
"#,
        ),
    ]);
    let ret = machine
        .cx
        .call("state.orchestrate", vec!["orch".into()], Map::new())
        .unwrap();
    let data = ret.get("data").and_then(|data| data.get("m1")).unwrap();
    let states = data.as_map().unwrap().values();
    let results: Vec<String> = states
        .map(|ret| ret.get("result").unwrap().to_text())
        .collect();
    assert_eq!(
        results,
        ["True", "False", "True", "True", "False"],
        "{data:?}"
    );
    let listed = machine.call("sys.list_runner_functions", &["myrun".into()]);
    assert_eq!(listed, "['myrun.bad', 'myrun.ok']");
}

#[test]
fn custom_functions_are_described_with_the_others() {
    let module = "def f(a, b=2, *c, **d):\n    'Does f.'\n";
    let machine = Machine::with(&[("_modules/mymod.py", module), ("_states/st.py", module)]);
    machine.sync();
    machine.sync_kind("states");
    for (full, of, answer) in [
        ("sys.doc", "mymod.f", "{'mymod.f': 'Does f.'}"),
        (
            "sys.argspec",
            "mymod",
            "{'mymod.f': {'args': ['a', 'b'], 'defaults': [2], 'varargs': True, 'kwargs': True}}",
        ),
        ("sys.list_functions", "mymod", "['mymod.f']"),
        ("sys.list_modules", "mymod", "['mymod']"),
        ("sys.list_state_functions", "st", "['st.f']"),
        ("sys.state_doc", "st.f", "{'st.f': 'Does f.'}"),
    ] {
        assert_eq!(machine.call(full, &[of.into()]), answer, "{full}");
    }
}

#[test]
fn a_state_that_breaks_says_where() {
    let machine = Machine::with(&[
        (
            "_states/st.py",
            r#"
import os, time

def raises(name):
    raise ValueError("no value")

def hangs(name):
    time.sleep(20)

def dies(name):
    os.abort()

def nodict(name):
    return "x"

def changes(name):
    return {"name": name, "result": True, "changes": [], "comment": ""}
"#,
        ),
        (
            "_states/rubbish",
            "#!/bin/sh\nread -r x; echo '{\"return\": {\"functions\": {\"f\": {\"args\": [[\"name\"]]}}}}'\nread -r x; echo what is this\n",
        ),
        (
            "x.sls",
            "a: {st.raises: []}\nb: {st.hangs: []}\nc: {st.dies: []}\nd: {st.nodict: []}\ne: {st.changes: []}\nf: {rubbish.f: []}\n",
        ),
    ]);
    machine.sync_kind("states");
    let ret = machine.apply("x");
    let mut comments = ret
        .as_map()
        .unwrap()
        .values()
        .map(|ret| ret.get("comment").unwrap().to_text());
    for parts in [
        ["st.py\", line 5, in raises", "ValueError: no value"],
        ["custom_module_timeout", "line 8 in hangs"],
        ["ended unexpectedly", "line 11 in dies"],
        ["st.nodict of", "Data must be a dictionary type"],
        ["st.changes of", "'Changes' should be a dictionary"],
        [
            "states/rubbish wrote a line that is not a message",
            "what is this",
        ],
    ] {
        let comment = comments.next().unwrap();
        for part in parts {
            assert!(comment.contains(part), "{part}: {comment}");
        }
    }
}

#[test]
fn without_python_a_call_says_what_to_do() {
    let machine = Machine::with(&[("_modules/mymod.py", "")]);
    machine.sync();
    let custom = CustomModules::new(machine.cx.opts());
    custom.python.set(None).unwrap();
    let refused = custom.call(&machine.cx, "mymod.f", Vec::new(), Map::new());
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("extmods/modules/mymod.py is Python, and there is no python3"),
        "{text}"
    );
    assert!(text.contains("install python3"), "{text}");
}
