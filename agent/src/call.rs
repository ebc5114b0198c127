//! `salt-call`: reads the options and the configuration, makes one call, prints its result and
//! returns the exit code.
#![expect(
    clippy::disallowed_methods,
    reason = "the id is written once, before there is a run"
)]

use std::io::IsTerminal;
use std::process::ExitCode;

use cli::binary::{self, PINCH};
use cli::config::{self, Loaded};
use cli::failure::{Exit, Failure, exit_of};
use cli::heap;
use cli::log::Logger;
use cli::options::{About, Action, SALT_CALL, SaltCall, parse_input, read_saltfile, saltfile_path};
use cli::output::{Output, Return, heed_no_color, print_return};
use cli::progress;
use modules::fileserver::roots::Roots;
use modules::loader::call::{docstring, mask_pillar, outputter, retcode, wrong_arguments};
use modules::loader::custom::CustomModules;
use modules::returners;
use modules::state_run::orchestrate::ThisMachine;
use modules::state_run::unknown_argument;
use state::custom::Signature;
use state::exec::Exec;
use state::module::{Arguments, Error, Extra};
use state::opts::Opts;
use value::{Map, Value, log, secret};

use render::yaml::SaltYaml;

use crate::setup;
use crate::uplink::{self, Connected, Error as UplinkError, Uplink, registry};

/// Runs `salt-call` with the arguments `words`.
///
/// # Errors
/// If the command line, the configuration or the call is wrong.
pub(crate) fn run(words: Vec<String>) -> Result<ExitCode, Failure> {
    heap::claim();
    #[cfg(feature = "daemon")]
    let command = words.clone();
    let usage = |error| Failure::usage(&SALT_CALL, error);
    let mut call = SaltCall::parse(words, stdin, env).map_err(usage)?;
    match &call.request {
        Action::Help => return Ok(PINCH.tell(&SALT_CALL, About::Help)),
        Action::Version => return Ok(PINCH.tell(&SALT_CALL, About::Version)),
        Action::VersionsReport => return Ok(PINCH.tell(&SALT_CALL, About::VersionsReport)),
        _ => {}
    }
    if let Some(path) = saltfile_path(&call.overrides, env) {
        call.merge_saltfile(&read_saltfile(&path, &SaltYaml).map_err(usage)?);
    }
    let loaded = config::load(&call.config_dir, call.overrides.clone(), &SaltYaml)
        .map_err(|error| Failure::new(Exit::Generic, error))?;
    config::obeyed(&loaded, &call.config_dir)?;
    let _first = Logger::from_opts(&loaded.opts).install();
    call.warnings
        .iter()
        .chain(&loaded.warnings)
        .for_each(log::warning);
    log_setup(&loaded);
    keep_id(&loaded);
    // Each collection of the grains reads the file again. This call only checks that it is valid
    // YAML.
    config::static_grains(&call.config_dir, &SaltYaml)
        .map_err(|error| Failure::new(Exit::Generic, error))?;
    let mut opts = loaded.opts;
    heed_no_color(&mut opts, env);
    let streams = progress::is_asked(&opts);
    let mut how = Output::from_opts(&opts, std::io::stdout().is_terminal());
    how.show_secrets |= asks_for_secret(&call.request);
    let passthrough = opts.get("retcode_passthrough").is_some_and(Value::is_true);
    let is_state = matches!(&call.request, Action::Call { fun, .. } if fun.starts_with("state."));
    if is_state || streams {
        progress::start(&opts, call.output_file.as_ref(), env)
            .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    }
    #[cfg(feature = "daemon")]
    if is_state {
        crate::interrupt::watch(&command, &call.config_dir);
    }
    let is_test =
        matches!(&call.request, Action::Call { fun, .. } if fun.starts_with("saltcheck."));
    let (cx, uplink) = connected(&call, Opts::new(opts), is_state || is_test)?;
    refuse_custom(&cx)?;
    let jid = value::jid::of_process();
    let answer = answer(&cx, &call, &jid);
    progress::end(answer.as_ref().ok());
    let answer = answer?;
    // The progress has counted the states that succeeded without changes.
    how.state.verbose &= !is_summed_up(&call);
    hand_out(&cx, &call, &jid, &answer);
    if let Some(uplink) = uplink.filter(|_| !cx.opts().flag("no_return_event")) {
        hand_over(&uplink, &call, &jid, &answer);
    }
    if !streams {
        print_return(&answer, &how, call.output_file.as_ref(), &SaltYaml)
            .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    }
    let code = exit_of(answer.retcode, passthrough);
    // The program ends here, so the memory of the return need not be freed value by value.
    std::mem::forget(answer);
    Ok(code)
}

/// Reports whether the user has seen the result of each state on this terminal.
fn is_summed_up(call: &SaltCall) -> bool {
    progress::has_shown()
        && std::io::stdout().is_terminal()
        && !call.overrides.contains("state_verbose")
}

/// Reports whether the called function returns one secret. A caller of `sdb.get` or of a function
/// that creates a key needs the value itself, because scripts read it, so the output must not mask
/// it.
fn asks_for_secret(asked: &Action) -> bool {
    let asking = [
        "sdb.get",
        "sdb.get_or_set_hash",
        "ssh_pki.create_private_key",
        "ssh_pki.encode_private_key",
    ];
    matches!(asked, Action::Call { fun, .. } if asking.contains(&fun.as_str()))
}

fn stdin() -> std::io::Result<String> {
    std::io::read_to_string(std::io::stdin())
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Logs the files of the configuration, and the folders of the trees.
fn log_setup(loaded: &Loaded) {
    for file in &loaded.files {
        log::debug(format_args!("read the configuration {}", file.display()));
    }
    let roots = |key: &'static str| {
        let environments = loaded.opts.get(key).and_then(Value::as_map);
        environments
            .into_iter()
            .flatten()
            .map(move |pair| (key, pair))
    };
    for (key, (env, folders)) in roots("file_roots").chain(roots("pillar_roots")) {
        let folders = folders.as_list().unwrap_or_default().iter();
        let folders: Vec<String> = folders.map(Value::to_text).collect();
        let (env, folders) = (env.to_text(), folders.join(", "));
        log::debug(format_args!("{key} of {env}: {folders}"));
    }
}

/// Writes a generated id to its file, so that the machine has the same id at the next start.
pub(crate) fn keep_id(loaded: &Loaded) {
    let Some(new) = &loaded.new_id else {
        return;
    };
    let written = new
        .file
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&new.file, &new.id));
    if let Err(error) = written {
        log::debug(format_args!(
            "cannot write the minion id to {}: {error}",
            new.file.display()
        ));
    }
}

/// Fails before anything runs if the options name a returner that does not exist, or a custom
/// outputter of the tree, which is not supported.
fn refuse_custom(cx: &Exec) -> Result<(), Failure> {
    let opts = cx.opts();
    let asked = opts.text("return").unwrap_or_default();
    if let Some(returner) = returners::missing(cx, asked) {
        let error = format!("The returner '{returner}' is not available");
        let hint = "omit it: results are printed, and state runs are recorded (see jobs.list_jobs)";
        return Err(Failure::new(Exit::Usage, error).hints([hint.to_owned()]));
    }
    let file = opts.text("output").map(|name| {
        let folder = opts.path("extension_modules").join("output");
        folder.join(format!("{name}.py"))
    });
    match file.filter(|file| file.is_file()) {
        Some(file) => {
            let error = format!("custom outputters are not supported: {}", file.display());
            let hint = "use --out=json and format its output";
            Err(Failure::new(Exit::Usage, error).hints([hint.to_owned()]))
        }
        None => Ok(()),
    }
}

/// Returns the context of a run on this machine. It uses either local trees, or the trees of the
/// master that this machine's daemon is connected to. For functions that compile states, the
/// options include those that the master decides.
///
/// # Errors
/// If the function compiles states and the master does not answer.
pub(crate) fn context(opts: Opts, is_state: bool) -> Result<(Exec, Option<Uplink>), UplinkError> {
    uplink::know_token(&opts);
    let custom = Box::new(CustomModules::new(&opts));
    if !has_master(&opts) {
        let roots = Box::new(Roots::states(&opts));
        let targets = uplink::with_hosts(Box::new(ThisMachine));
        let cx = Exec::with_custom(opts, registry(), roots, targets, custom);
        return Ok((cx, None));
    }
    let (opts, connected) = uplink::connect(opts, is_state)?;
    let (sources, targets) = (connected.sources, connected.targets);
    let cx = Exec::with_custom(opts, registry(), sources, targets, custom);
    Ok((cx, Some(connected.uplink)))
}

/// The functions of `--cached`.
const CACHED: [&str; 3] = ["state.apply", "state.highstate", "state.sls"];

/// Returns the context of the call, with the master's files or, for `--cached`, those of the last
/// highstate. A state run that cannot reach the master hints at `--cached`.
fn connected(
    call: &SaltCall,
    opts: Opts,
    is_state: bool,
) -> Result<(Exec, Option<Uplink>), Failure> {
    let can_be_cached =
        matches!(&call.request, Action::Call { fun, .. } if CACHED.contains(&fun.as_str()));
    if !call.cached {
        let connected = context(opts.clone(), is_state);
        return connected.map_err(|error| {
            let hint = can_be_cached.then(|| uplink::kept_hint(&opts)).flatten();
            Failure::new(Exit::Generic, error).hints(hint)
        });
    }
    let wrong = |text: &str| Err(Failure::new(Exit::Usage, text.to_owned()));
    if !can_be_cached {
        return wrong("--cached works with state.apply, state.highstate and state.sls");
    }
    if !has_master(&opts) {
        return wrong(
            "--cached is for a minion with a master, but this call uses the files of this machine (--local or file_client: local)",
        );
    }
    uplink::know_token(&opts);
    let custom = Box::new(CustomModules::new(&opts));
    let kept = uplink::kept(opts).map_err(|error| Failure::new(Exit::Generic, error))?;
    let (
        opts,
        Connected {
            uplink,
            sources,
            targets,
        },
    ) = kept;
    let cx = Exec::with_custom(opts, registry(), sources, targets, custom);
    // Only a daemon accepts the return while the master is away.
    Ok((cx, Some(uplink).filter(Uplink::has_daemon)))
}

/// Returns whether the trees are those of a master.
pub(crate) fn has_master(opts: &Opts) -> bool {
    opts.text("file_client") == Some("remote") && opts.text("master_type") != Some("disable")
}

/// Returns the result of the call as the data of a job's return.
fn return_data(call: &SaltCall, jid: &str, answer: &Return) -> Option<Map> {
    let Action::Call { fun, words } = &call.request else {
        return None;
    };
    let words = words.iter().map(|word| word.as_str().into());
    let mut data = Map::new()
        .with("return", answer.value.clone())
        .with("retcode", answer.retcode)
        .with("jid", jid)
        .with("fun", fun.as_str())
        .with("fun_args", Value::list(words));
    if let Some(out) = &answer.out {
        data.insert("out", out.as_str());
    }
    Some(secret::map(data))
}

/// Sends the result of the call to the master. If that fails, the error is logged and the call
/// still succeeds.
fn hand_over(uplink: &Uplink, call: &SaltCall, jid: &str, answer: &Return) {
    if let Some(data) = return_data(call, jid, answer)
        && let Err(error) = uplink.hand_over(jid, data)
    {
        log::error(format_args!(
            "cannot send the result to the master: {error}"
        ));
    }
}

/// The first keys of a return in Salt.
const FIRST: [&str; 6] = ["jid", "return", "retcode", "id", "fun", "fun_args"];

/// Sends the result of the call to the returners that the options name.
fn hand_out(cx: &Exec, call: &SaltCall, jid: &str, answer: &Return) {
    let asked = cx.opts().text("return").unwrap_or_default();
    if asked.is_empty() {
        return;
    }
    if let Some(data) = return_data(call, jid, answer) {
        let data = data.with("id", cx.opts().id()).with("success", true);
        // Returners write it as text, in the order of Salt.
        let first = FIRST.iter().filter_map(|key| Some((*key, data.get(key)?)));
        let mut ret: Map = first
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect();
        ret.update(data);
        returners::hand(cx, asked, &ret);
        cx.barrier();
    }
}

/// Makes the call that the command line asks for.
fn answer(cx: &Exec, call: &SaltCall, jid: &str) -> Result<Return, Failure> {
    match &call.request {
        Action::Grains => Ok(Return {
            value: cx.grains().into(),
            out: Some("grains".into()),
            ..Return::default()
        }),
        Action::Doc(prefix) => {
            function(cx, "sys.doc", jid, vec![prefix.as_str().into()], Map::new())
        }
        Action::Call { fun, words } => {
            let input = parse_input(words, &call.no_parse, &SaltYaml);
            known_arguments(cx, fun, &input.kwargs)?;
            function(cx, fun, jid, input.args, input.kwargs)
        }
        Action::Help | Action::Version | Action::VersionsReport => Ok(Return::default()),
    }
}

/// Refuses keyword arguments of `state.*` that the function does not take.
///
/// # Errors
/// If there is one.
pub(crate) fn known_arguments(cx: &Exec, fun: &str, kwargs: &Map) -> Result<(), Failure> {
    match unknown_argument(cx.shared.registry.functions, fun, kwargs) {
        None => Ok(()),
        Some(unknown) => Err(Failure::new(Exit::Usage, unknown.text).hints(unknown.hint)),
    }
}

fn function(
    cx: &Exec,
    name: &str,
    jid: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> Result<Return, Failure> {
    let called = called(cx, name, jid, args, kwargs);
    cx.barrier();
    let value = called?;
    let retcode = if keeps_zero(cx, name) {
        0
    } else {
        retcode(cx, &value)
    };
    Ok(Return {
        value,
        out: outputter(name).map(str::to_owned),
        retcode,
        metadata: None,
    })
}

fn called(
    cx: &Exec,
    name: &str,
    jid: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> Result<Value, Failure> {
    if cx.is_custom(name) {
        return custom(cx, name, jid, args, kwargs);
    }
    let Some(function) = cx.function(name) else {
        return begun(cx, name).ok_or_else(|| unknown(cx, name));
    };
    let kwargs = if function.extra == Extra::Accept {
        published(name, jid, kwargs)
    } else {
        kwargs
    };
    mask_pillar(cx, name);
    function
        .invoke(name, cx, Arguments::new(args, kwargs))
        .map_err(|error| failed(name, &docstring(function.doc), error))
}

fn custom(
    cx: &Exec,
    name: &str,
    jid: &str,
    args: Vec<Value>,
    kwargs: Map,
) -> Result<Value, Failure> {
    let signature = cx.shared.custom.signature(cx, name).unwrap_or_default();
    let kwargs = if signature.kwargs {
        published(name, jid, kwargs)
    } else if let Some(refused) = not_taken(&signature, &kwargs) {
        return Err(Failure::plain(Exit::Generic, refused));
    } else {
        kwargs
    };
    cx.call(name, args, kwargs).map_err(|error| {
        let doc = Some(signature.doc.as_str()).filter(|doc| !doc.is_empty());
        failed(name, doc.unwrap_or("None"), error)
    })
}

/// Returns Salt's error message about keyword arguments that the function does not have.
fn not_taken(signature: &Signature, kwargs: &Map) -> Option<String> {
    let has = |key: &Value| {
        let names = signature.args.iter();
        names
            .map(|(name, _)| name.as_str())
            .any(|name| key.as_str() == Some(name))
    };
    let unknown: Vec<String> = kwargs
        .iter()
        .filter(|(key, _)| !has(key))
        .map(|(key, value)| format!("{}={}", key.to_text(), value.to_text()))
        .collect();
    (!unknown.is_empty()).then(|| {
        format!(
            "The following keyword arguments are not valid: {}",
            unknown.join(", ")
        )
    })
}

/// Returns the documentation of all functions whose names begin with `name`, if `name` itself is
/// not a function but, for example, a module. The call counts as failed.
fn begun(cx: &Exec, name: &str) -> Option<Value> {
    let pattern = vec![format!("{name}*").into()];
    let Ok(Value::Map(docs)) = cx.call("sys.doc", pattern, Map::new()) else {
        return None;
    };
    if docs.is_empty() {
        return None;
    }
    cx.set_retcode(1);
    let why = Error::not_available(name.to_owned()).to_string();
    Some(docs.with(name, why).into())
}

/// Returns the error for a function that does not exist. If a custom module of that name cannot be
/// loaded, the error has the reason.
fn unknown(cx: &Exec, name: &str) -> Failure {
    let error = match cx.call(name, Vec::new(), Map::new()) {
        Err(error) => error,
        Ok(_) => Error::not_available(name.to_owned()),
    };
    // A function that is known but does not work on this machine is not misspelt.
    let misspelt = error.is_not_available().then(|| cx.function_names());
    let near = misspelt
        .and_then(|known| state::compile::did_you_mean(name, known.iter().map(String::as_str)));
    Failure::plain(Exit::NoFunction, error).hints(near)
}

/// Reports whether a failed orchestration exits with 0. As in Salt, `retcode_compat: True` asks for
/// that.
fn keeps_zero(cx: &Exec, name: &str) -> bool {
    matches!(name, "state.orchestrate" | "state.orch") && cx.opts().flag("retcode_compat")
}

/// Adds the arguments that Salt passes to a function that accepts any keyword, which describe the
/// call.
fn published(name: &str, jid: &str, kwargs: Map) -> Map {
    kwargs
        .with("__pub_fun", name)
        .with("__pub_pid", std::process::id())
        .with("__pub_jid", jid)
        .with("__pub_tgt", "salt-call")
}

/// Returns the failure of a call. If the arguments are wrong, it also prints the function's
/// documentation to stdout, as Salt does.
fn failed(name: &str, doc: &str, error: Error) -> Failure {
    let Some(wrong) = wrong_arguments(name, &error) else {
        let hint = error.is_of_permission().then(setup::as_root).flatten();
        let error = format!("Error running '{name}': {error}");
        return Failure::plain(Exit::Generic, error).hints(hint);
    };
    binary::put(&format!("{doc}\n"));
    Failure::plain(
        Exit::Generic,
        format!("\nPassed invalid arguments: {wrong}.\n\nUsage:"),
    )
}
