//! The compiler: a tree of SLS files to high data to a plan, checked against test states.
//!
//! The input is `main.sls`; a line `### NAME` begins another file.
#![no_main]

use std::os::fd::{AsRawFd as _, OwnedFd};

use libfuzzer_sys::fuzz_target;
use rustix::fs::MemfdFlags;
use state::compile::{self, Plan};
use state::exec::{Exec, Registry};
use state::module::{Arg, Error, Extra, Function, Module, Ret};
use state::opts::Opts;
use state::sources::{SourceFile, Sources};
use state::targets::{MinionReturn, Targets};
use value::{Map, Value};

/// Filters that wait for the machine's disks and network.
const SLOW: [&str; 2] = ["list_files", "dns_check"];

/// Files in memory.
struct Memory(Vec<(String, OwnedFd)>);

impl Memory {
    fn parse(text: &str) -> Self {
        let (main, rest) = text.split_once("\n### ").unwrap_or((text, ""));
        let others = rest
            .split("\n### ")
            .filter_map(|file| file.split_once('\n'));
        let files = std::iter::once(("main.sls", main)).chain(others);
        Self(
            files
                .map(|(name, text)| (name.to_owned(), file(text)))
                .collect(),
        )
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }
}

fn file(text: &str) -> OwnedFd {
    let file = rustix::fs::memfd_create("sls", MemfdFlags::CLOEXEC)
        .expect("cannot create a file in memory");
    let mut left = text.as_bytes();
    while !left.is_empty() {
        let written = rustix::io::write(&file, left).expect("cannot write to a file in memory");
        left = &left[written..];
    }
    file
}

impl Sources for Memory {
    fn file(&self, path: &str, saltenv: &str) -> Result<Option<SourceFile>, Error> {
        let found = self
            .0
            .iter()
            .find(|(name, _)| saltenv == "base" && name == path);
        Ok(found.map(|(name, file)| SourceFile {
            path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(),
            shown: name.as_str().into(),
        }))
    }

    fn list(&self, _: &str) -> Result<Vec<String>, Error> {
        let mut names: Vec<_> = self.0.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        Ok(names)
    }

    fn environments(&self) -> Result<Vec<String>, Error> {
        Ok(vec!["base".into()])
    }

    fn pillar(&self, _: &Exec) -> Result<Map, Error> {
        Ok(Map::new().with("users", vec!["a", "b"]).with("n", 3))
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

const fn state(name: &'static str, args: &'static [Arg], extra: Extra) -> Function<Ret> {
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

const fn module(name: &'static str, functions: &'static [Function<Ret>]) -> Module<Ret> {
    Module {
        name,
        doc: "",
        functions,
        ..Module::BARE
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

static REGISTRY: Registry = Registry {
    returners: Vec::new,
    pillars: &[],
    states: &[
        module(
            "cmd",
            &[
                state("run", NAME, Extra::Accept),
                state("mod_watch", NAME, Extra::Accept),
            ],
        ),
        module(
            "file",
            &[
                state("symlink", &[arg("name"), arg("target")], Extra::Accept),
                state("managed", &[arg("name"), optional("source")], Extra::Accept),
            ],
        ),
        module(
            "test",
            &[
                state("nop", NAME, Extra::Accept),
                state("mod_watch", NAME, Extra::Accept),
            ],
        ),
        module(
            "user",
            &[state(
                "absent",
                &[arg("name"), optional("purge"), optional("force")],
                Extra::Reject,
            )],
        ),
    ],
    functions: &[Module {
        name: "test",
        doc: "",
        functions: &[Function {
            name: "echo",
            doc: "",
            args: &[arg("text")],
            varargs: false,
            extra: Extra::Reject,
            facts: None,
            call: |_, given| Ok(given.rest().into_iter().next().unwrap_or_default()),
        }],
        ..Module::BARE
    }],
    runners: &[],
    wheel: &[],
    missing: |_, _, _| None,
    lacks: |_, _| None,
    grains: |_| Map::new().with("os", "Debian").with("id", "m1"),
};

fn checked(cx: &Exec, plan: &Plan) {
    let chunks = plan.chunks().len();
    for step in plan.steps() {
        assert!(step.chunk < chunks);
        assert!(step.needs.iter().all(|(_, chunk)| *chunk < chunks));
    }
    let _ = compile::check(plan, cx);
    let _ = plan.lowstate();
}

fuzz_target!(|text: &str| {
    if SLOW.iter().any(|name| text.contains(name)) {
        return;
    }
    let files = Memory::parse(text);
    let has_top = files.has("top.sls");
    let opts = Opts::new(Map::new().with("id", "m1"));
    let cx = Exec::new(opts, &REGISTRY, Box::new(files), Box::new(NoTargets));
    let main = ["main".to_owned()];
    if let Ok(plan) = compile::sls(&cx, &main, "base").and_then(|high| high.plan(&cx)) {
        checked(&cx, &plan);
    }
    if let Ok(plan) = compile::high_data(&cx, &main, "base").and_then(|high| high.plan_as_written(&cx))
    {
        checked(&cx, &plan);
    }
    let _ = compile::lowstate_of(&cx, &vec![("base".to_owned(), main.to_vec())]);
    let _ = compile::template_str(&cx, text);
    if has_top {
        let _ = compile::highstate(&cx);
    }
});
