//! `pinch plan` and `pinch apply`: reads the arguments, builds the context, prints the result and
//! returns the exit code.

use std::io::{ErrorKind, IsTerminal, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use cli::binary::{self, PINCH};
use cli::config;
use cli::failure::{Exit, Failure, complain};
use cli::heap;
use cli::log::Logger;
use cli::options::{
    APPLY, About, Action as Words, PLAN, Program, SaltCall, parse_input, read_saltfile,
    saltfile_path,
};
use cli::output::{Output, Return, heed_no_color, print_return};
use cli::progress;
use machine::fs::{self, Owner};
use modules::fileserver::roots::Roots;
use modules::loader::call::outputter;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate::{self, ThisMachine};
use plan::{Document, Invocation, Preview, Seen, Watched};
use render::yaml::SaltYaml;
use state::boot::SSH_JOB;
use state::exec::Exec;
use state::module::Arguments;
use state::opts::Opts;
use state::sources::Sources;
use value::{Map, Value, log};

use crate::call;
use crate::confirm::is_confirmed;

/// The maximum size of a plan, in bytes.
const PLAN_BYTES_MAX: u64 = 64 << 20;

/// The exit code of a plan that has changes to make.
const CHANGES: u8 = 2;

/// Command-line options that do not become part of the plan.
const NOT_PLANNED: [&str; 10] = [
    "plan_file",
    "yes",
    "output",
    "output_file",
    "no_parse",
    "progress",
    "log_level",
    "log_file",
    "log_level_logfile",
    "force_color",
];

/// Runs `pinch plan` with the arguments `words`.
///
/// # Errors
/// If the command line, the configuration or the tree is wrong.
pub(crate) fn plan(words: &[String]) -> Result<ExitCode, Failure> {
    heap::claim();
    let mut call = match parsed(&PLAN, words)? {
        Ok(call) => call,
        Err(told) => return Ok(told),
    };
    merge_saltfile(&PLAN, &mut call)?;
    let asked = invocation(&call)?;
    let (cx, document) = planned(&asked, &call)?;
    if asked.has_secrets() && call.overrides.contains("plan_file") {
        let error =
            "cannot write a plan file: the command line has secrets, and plan files store none";
        let hint = "move the secrets to the pillar, or omit -o to only print the plan";
        return Err(Failure::new(Exit::Usage, error).hints([hint.to_owned()]));
    }
    let out = call.overrides.get("output").map(Value::to_text);
    if let Some(file) = call.overrides.get("plan_file") {
        keep(&cx, &file.to_text(), &document)?;
    }
    binary::put(&match out.as_deref() {
        Some("json") => document.text(),
        _ => plan::format_plan(&document),
    });
    Ok(match (document.failures(), document.changes()) {
        (0, false) => Exit::Ok.into(),
        (0, true) => CHANGES.into(),
        _ => Exit::Generic.into(),
    })
}

/// Runs `pinch apply` with the arguments `words`: the plan in a file, or a new plan that the user
/// confirms.
///
/// # Errors
/// If the command line is wrong, the file is not a plan, the user does not confirm, or something has
/// changed since the plan was made.
pub(crate) fn apply(words: &[String]) -> Result<ExitCode, Failure> {
    heap::claim();
    let mut call = match parsed(&APPLY, words)? {
        Ok(call) => call,
        Err(told) => return Ok(told),
    };
    match plan_file(&call) {
        Some(file) => apply_file(&call, &file),
        None => {
            merge_saltfile(&APPLY, &mut call)?;
            apply_now(&call)
        }
    }
}

/// Returns the file of a plan if the command line names one. All other words name what to run.
fn plan_file(call: &SaltCall) -> Option<String> {
    let Words::Call { fun: word, words } = &call.request else {
        return None;
    };
    let is_file = word.contains('/') || word.ends_with(".json") || Path::new(word).is_file();
    (words.is_empty() && is_file).then(|| word.clone())
}

/// Applies the plan in a file.
fn apply_file(call: &SaltCall, file: &str) -> Result<ExitCode, Failure> {
    let document = read(Path::new(file))?;
    let asked = document.invocation();
    let other = |key: &&Value| !key.as_str().is_some_and(|key| NOT_PLANNED.contains(&key));
    let folder = call.config_dir.display().to_string();
    if call.overrides.keys().any(|key| other(&key))
        || (folder != config::DEFAULT_DIR && folder != asked.config_dir)
    {
        let error = format!(
            "{file} was planned with its own options and with -c {}",
            asked.config_dir
        );
        let hint = "omit these options, or make a new plan with them".to_owned();
        return Err(Failure::new(Exit::Usage, error).hints([hint]));
    }
    carry_out(call, &asked, document, file)
}

/// Plans, prints the plan, asks for confirmation, and applies it.
fn apply_now(call: &SaltCall) -> Result<ExitCode, Failure> {
    let asked = invocation(call)?;
    let (_, document) = planned(&asked, call)?;
    complain(&plan::format_plan(&document));
    if document.failures() == 0 && !document.changes() {
        return Ok(Exit::Ok.into());
    }
    let is_asked = document.failures() == 0 && !call.overrides.contains("yes");
    if is_asked && !is_confirmed("Apply this?", "use --yes to apply without a question")? {
        return Err(Failure::new(Exit::Generic, "nothing was changed"));
    }
    carry_out(call, &asked, document, "this plan")
}

/// Applies a plan. `name` names it in errors.
fn carry_out(
    call: &SaltCall,
    asked: &Invocation,
    document: Document,
    name: &str,
) -> Result<ExitCode, Failure> {
    if document.failures() > 0 {
        let error = format!("{name}: the plan has states that would fail; nothing was changed");
        return Err(Failure::new(Exit::Generic, error)
            .hints(["fix these states and plan again".to_owned()]));
    }
    let (cx, foreseen) = context(asked, call, Some(document))?;
    let env = |name: &str| std::env::var(name).ok();
    progress::start(&cx.opts().map, call.output_file.as_ref(), env)
        .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    let returned = run(&cx, asked);
    cx.barrier();
    progress::end(None);
    let returned = returned?;
    let moved = foreseen.rejection();
    if foreseen.document().is_none() || !moved.is_empty() {
        return Err(refused(name, &foreseen, &moved, &returned));
    }
    finished(&cx, call, asked, &foreseen, returned)
}

/// Adds the options of the saltfile to the command line.
fn merge_saltfile(program: &Program, call: &mut SaltCall) -> Result<(), Failure> {
    if let Some(path) = saltfile_path(&call.overrides, |name| std::env::var(name).ok()) {
        let saltfile = read_saltfile(&path, &SaltYaml);
        call.merge_saltfile(&saltfile.map_err(|error| Failure::usage(program, error))?);
    }
    Ok(())
}

/// Returns the plan of a call, and the context in which it was made.
fn planned(asked: &Invocation, call: &SaltCall) -> Result<(Exec, Document), Failure> {
    let (cx, foreseen) = context(asked, call, None)?;
    let returned = run(&cx, asked)?;
    match foreseen.document() {
        Some(document) => Ok((cx, document.asked_as(asked))),
        None => Err(nothing(&foreseen, &returned)),
    }
}

/// Returns the parsed command line, or the exit code if it only asks for help or the version.
fn parsed(program: &Program, words: &[String]) -> Result<Result<SaltCall, ExitCode>, Failure> {
    let stdin = || std::io::read_to_string(std::io::stdin());
    let call = SaltCall::parse_as(program, words.to_vec(), stdin, |name| {
        std::env::var(name).ok()
    });
    let call = call.map_err(|error| Failure::usage(program, error))?;
    let about = match call.request {
        Words::Help => About::Help,
        Words::Version => About::Version,
        Words::VersionsReport => About::VersionsReport,
        _ => return Ok(Ok(call)),
    };
    Ok(Err(PINCH.tell(program, about)))
}

/// Returns the call to plan, with everything that is needed to repeat it later.
fn invocation(call: &SaltCall) -> Result<Invocation, Failure> {
    let Words::Call { fun: first, words } = &call.request else {
        return Err(Failure::new(
            Exit::Usage,
            "name what to run: highstate, SLS names or orchestrate ORCH",
        ));
    };
    let input = parse_input(words, &call.no_parse, &SaltYaml);
    let names = input.args.iter().map(Value::to_text);
    let (fun, mods): (&str, Vec<String>) = match first.as_str() {
        "highstate" => ("state.highstate", names.collect()),
        "orchestrate" => ("state.orchestrate", names.collect()),
        sls => (
            "state.sls",
            std::iter::once(sls.to_owned()).chain(names).collect(),
        ),
    };
    let args = match (fun, mods.as_slice()) {
        ("state.highstate", []) => Vec::new(),
        ("state.highstate", [word, ..]) => {
            return Err(Failure::new(
                Exit::Usage,
                format!("highstate takes no SLS names, found {word}"),
            ));
        }
        ("state.orchestrate", []) => {
            return Err(Failure::new(
                Exit::Usage,
                "missing orchestration name: orchestrate ORCH",
            ));
        }
        _ => vec![mods.join(",").into()],
    };
    if input.kwargs.contains("test") {
        return Err(Failure::new(
            Exit::Usage,
            "test= is not accepted here: pinch plan never changes anything",
        ));
    }
    let mut overrides = call.overrides.clone();
    overrides.retain(|key, _| !key.as_str().is_some_and(|key| NOT_PLANNED.contains(&key)));
    Ok(Invocation {
        fun: fun.to_owned(),
        args,
        kwargs: input.kwargs,
        config_dir: call.config_dir.display().to_string(),
        overrides,
    })
}

/// Returns the context of a run, and its [`Preview`], which observes the run.
fn context(
    asked: &Invocation,
    call: &SaltCall,
    planned: Option<Document>,
) -> Result<(Exec, Arc<Preview>), Failure> {
    let mut overrides = asked.overrides.clone();
    let shown = call.overrides.iter();
    let shown = shown.filter(|(key, _)| key.as_str().is_some_and(|key| NOT_PLANNED.contains(&key)));
    overrides.extend(shown.map(|(key, value)| (key.clone(), value.clone())));
    heed_no_color(&mut overrides, |name| std::env::var(name).ok());
    let folder = Path::new(&asked.config_dir);
    let loaded = config::load(folder, overrides, &SaltYaml)
        .map_err(|error| Failure::new(Exit::Generic, error))?;
    config::obeyed(&loaded, folder)?;
    let _first = Logger::from_opts(&loaded.opts).install();
    loaded.warnings.iter().for_each(log::warning);
    call::keep_id(&loaded);
    config::static_grains(folder, &SaltYaml).map_err(|error| Failure::new(Exit::Generic, error))?;
    let (opts, sources) = sources(loaded.opts)?;
    let seen = Arc::new(Seen::default());
    let sources = Watched::new(sources, Arc::clone(&seen));
    let custom = Box::new(CustomModules::new(&opts));
    let foreseen = Arc::new(Preview::new(seen, planned));
    let mut cx = Exec::with_custom(
        opts,
        crate::uplink::registry(),
        Box::new(sources),
        Box::new(ThisMachine),
        custom,
    );
    cx.previewer = Some(foreseen.clone());
    Ok((cx, foreseen))
}

/// Returns the trees that a plan is made of: those of this machine, or, on a host that is reached by
/// ssh, those of the caller.
fn sources(mut opts: Map) -> Result<(Opts, Box<dyn Sources>), Failure> {
    if !opts.contains(SSH_JOB) {
        opts.insert("file_client", "local");
    }
    let opts = Opts::new(opts);
    crate::uplink::know_token(&opts);
    if !call::has_master(&opts) {
        let roots = Box::new(Roots::states(&opts));
        return Ok((opts, roots));
    }
    let (opts, connected) =
        crate::uplink::connect(opts, true).map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok((opts, connected.sources))
}

/// Runs the planned function. The context's previewer decides how far it gets.
fn run(cx: &Exec, asked: &Invocation) -> Result<Value, Failure> {
    let failed = |error: String| Failure::plain(Exit::Generic, error);
    let fun = asked.fun.as_str();
    if !["state.sls", "state.highstate", "state.orchestrate"].contains(&fun) {
        return Err(failed(format!("cannot plan {fun}")));
    }
    let function = cx
        .function(fun)
        .ok_or_else(|| failed(format!("'{fun}' is not available.")))?;
    call::known_arguments(cx, fun, &asked.kwargs)?;
    let kwargs = asked.kwargs.clone().with("test", false);
    function
        .invoke(fun, cx, Arguments::new(asked.args.clone(), kwargs))
        .map_err(|error| failed(format!("Error running '{fun}': {error}")))
}

/// Returns the failure if the run made no plan. It contains what the run returned instead.
fn nothing(foreseen: &Preview, returned: &Value) -> Failure {
    let mut said = foreseen.rejection();
    said.extend(sentences(returned));
    Failure::plain(
        Exit::Generic,
        format!("cannot make a plan:\n{}", said.join("\n")),
    )
}

/// Returns the messages of a return that is a refusal.
fn sentences(returned: &Value) -> Vec<String> {
    match returned {
        Value::List(items) => items.iter().map(Value::to_text).collect(),
        Value::Map(map) => {
            let own = map.get("comment").map(Value::to_text);
            own.into_iter()
                .chain(map.values().flat_map(|value| match value {
                    Value::Map(_) | Value::List(_) => sentences(value),
                    _ => Vec::new(),
                }))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Writes a plan to a file that only its owner can read, because a plan describes a machine's
/// contents.
fn keep(cx: &Exec, file: &str, document: &Document) -> Result<(), Failure> {
    let owner = Owner {
        mode: Some(0o600),
        ..Owner::default()
    };
    fs::write(cx, Path::new(file), document.text().as_bytes(), owner)
        .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    cx.barrier();
    Ok(())
}

/// The hint if there is no file of a plan.
const NO_FILE: &str = "pinch plan -o FILE SLS writes a plan; pinch apply SLS needs none";

/// Reads a plan. It refuses a file that another user could have written, because a plan decides
/// which states run and with which configuration.
fn read(file: &Path) -> Result<Document, Failure> {
    let wrong = |text: String| Failure::new(Exit::Generic, format!("{}: {text}", file.display()));
    let io = |error: std::io::Error| wrong(error.to_string());
    let mut open = std::fs::File::open(file).map_err(|error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        let hint = is_missing.then(|| NO_FILE.to_owned());
        io(error).hints(hint)
    })?;
    let found = open.metadata().map_err(io)?;
    let own = rustix::process::geteuid().as_raw();
    if found.uid() != own && found.uid() != 0 || found.mode() & 0o022 != 0 {
        let error = wrong("other users can write to this plan; nothing was changed".into());
        return Err(error.hints(["make a new plan in a file that only you can write".to_owned()]));
    }
    if !found.is_file() || found.len() > PLAN_BYTES_MAX {
        return Err(wrong(format!(
            "not a regular file of at most {PLAN_BYTES_MAX} bytes"
        )));
    }
    let mut text = String::new();
    open.read_to_string(&mut text).map_err(io)?;
    Document::read(&text).map_err(|problem| wrong(problem.to_string()))
}

/// Returns the failure of a plan that is not applied. It lists the changes since the plan was made.
fn refused(file: &str, foreseen: &Preview, moved: &[String], returned: &Value) -> Failure {
    let mut lines = moved.to_vec();
    if foreseen.document().is_none() {
        lines.extend(sentences(returned));
    }
    let reason = if moved.is_empty() {
        ""
    } else {
        ": it is out of date"
    };
    let error = format!(
        "cannot apply {file}{reason}; nothing was changed:\n  {}",
        lines.join("\n  ")
    );
    Failure::new(Exit::Generic, error).hints(["plan again and review the new plan".to_owned()])
}

/// Prints the returns of an applied plan.
fn finished(
    cx: &Exec,
    call: &SaltCall,
    asked: &Invocation,
    foreseen: &Preview,
    returned: Value,
) -> Result<ExitCode, Failure> {
    let how = Output::from_opts(&cx.opts().map, std::io::stdout().is_terminal());
    let orchestration = returned.get("data").cloned();
    let good = orchestrate::check_result(orchestration.as_ref().unwrap_or(&returned));
    let answer = Return {
        value: returned,
        out: outputter(&asked.fun).map(str::to_owned),
        retcode: i64::from(!good),
        metadata: None,
    };
    if !progress::is_asked(&cx.opts().map) {
        print_return(&answer, &how, call.output_file.as_ref(), &SaltYaml)
            .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    }
    if let Some(why) = foreseen.broken() {
        let error = format!("the run differed from the plan and was stopped: {why}");
        return Err(Failure::new(Exit::Generic, error));
    }
    Ok(if good { Exit::Ok } else { Exit::Generic }.into())
}
