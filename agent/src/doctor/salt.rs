//! Checks of Pinch's own needs: configuration, trees, a master, Python for custom modules,
//! services.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use machine::process::{self, Process};
use state::exec::Exec;
use state::opts::Opts;
use value::read::or_log;
use value::{Map, Value, channel};

use super::{Lines, Look};
use crate::call;

/// The maximum time to wait for the master.
const MASTER: Duration = Duration::from_secs(20);

/// The maximum run time of a program, in seconds.
const PROGRAM: i64 = 20;

/// The folders of a tree whose Python files run in a `python3`.
const CUSTOM: [&str; 7] = [
    "_modules",
    "_states",
    "_grains",
    "_runners",
    "_wheel",
    "_renderers",
    "_utils",
];

pub(super) fn configuration(look: &Look, lines: &mut Lines) {
    for warning in &look.loaded.warnings {
        lines.warning(
            warning.as_str(),
            "remove it, or check whether your states depend on it",
        );
    }
    let count = look.loaded.files.len();
    let shown = look.config_dir.display();
    match count {
        0 => lines.ok(format!("no configuration in {shown}; using defaults")),
        1 => lines.ok(format!("1 valid file in {shown}")),
        _ => lines.ok(format!("{count} valid files in {shown}")),
    }
}

fn is_local(opts: &Opts) -> bool {
    opts.text("file_client") == Some("local") || opts.text("master_type") == Some("disable")
}

/// Returns whether the configuration names no master and no daemon runs, so that only `--local` runs
/// work here.
fn is_without_master(look: &Look) -> bool {
    let daemon = look.opts.path("sock_dir").join("minion.sock");
    !look.loaded.given.iter().any(|name| name == "master") && !daemon.exists()
}

/// Returns the folders of `file_roots` or `pillar_roots`.
fn folders(opts: &Opts, key: &str) -> Vec<PathBuf> {
    let roots = opts.get(key).and_then(Value::as_map);
    let folders = roots.into_iter().flatten().flat_map(|(_, folders)| {
        let listed = folders.as_list().unwrap_or_default();
        listed.iter().map(|folder| PathBuf::from(folder.to_text()))
    });
    folders.collect()
}

pub(super) fn roots(look: &Look, lines: &mut Lines) {
    if !is_local(&look.opts) && !is_without_master(look) {
        return;
    }
    for (key, what) in [("file_roots", "states"), ("pillar_roots", "pillar")] {
        let all = folders(&look.opts, key);
        let there: Vec<&PathBuf> = all.iter().filter(|folder| folder.is_dir()).collect();
        for folder in &there {
            if let Err(error) = std::fs::read_dir(folder) {
                let shown = folder.display();
                lines.problem(
                    format!("cannot read {shown}: {error}"),
                    "run as root, or make it readable for this user",
                );
            }
        }
        let shown: Vec<String> = all
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        let shown = shown.join(", ");
        match there.first() {
            Some(folder) => lines.ok(format!("{what} found in {}", folder.display())),
            None if key == "pillar_roots" => lines.ok(format!("no pillar found in {shown}")),
            None => lines.warning(
                format!("no {what} found in {shown}"),
                format!("create the folder, or set {key} (or --file-root) to yours"),
            ),
        }
    }
}

pub(super) fn master(look: &Look, lines: &mut Lines) {
    if is_local(&look.opts) {
        lines.ok("not used: this minion is masterless (file_client, master_type)");
        return;
    }
    if is_without_master(look) {
        lines.ok("none configured; run states with --local, or set file_client: local");
        return;
    }
    let (opts, name) = (look.opts.clone(), masters(&look.opts));
    let (sender, receiver) = mpsc::channel();
    // A thread that hangs is not joined, because the program ends soon.
    std::thread::spawn(move || {
        let asked = call::context(opts, true)
            .map(|_| ())
            .map_err(|error| error.to_string());
        channel::if_open(sender.send(asked));
    });
    let todo = format!(
        "check that salt-master runs there, that {} can be reached, and that the key is accepted (salt-key on the master); use --local to run without a master",
        ports(&look.opts)
    );
    match receiver.recv_timeout(MASTER) {
        Ok(Ok(())) => lines.ok(format!("{name} answers")),
        Ok(Err(error)) => lines.problem(format!("{name}: {error}"), todo),
        Err(_) => lines.problem(
            format!("{name} does not answer within {} s", MASTER.as_secs()),
            todo,
        ),
    }
}

/// Names the ports of the masters, by the protocol that they may speak.
fn ports(opts: &Opts) -> String {
    let port = opts.int("master_port").unwrap_or(4506);
    let publish = opts.int("publish_port").unwrap_or(4505);
    let pinch = format!("its UDP port {port}");
    let salt = format!("its TCP ports {publish} and {port}");
    match opts.text("master_protocol") {
        Some("pinch") => pinch,
        Some("salt") => salt,
        _ => format!("{pinch} (a Pinch master) or {salt} (a Salt master)"),
    }
}

fn masters(opts: &Opts) -> String {
    let names = opts.texts("master");
    match names.is_empty() {
        true => opts.text("master").unwrap_or("salt").to_owned(),
        false => names.join(", "),
    }
}

pub(super) fn python(look: &Look, lines: &mut Lines) {
    let Some(file) = custom_file(&look.opts) else {
        lines.ok("not needed: there are no custom modules in Python");
        return;
    };
    let file = file.display();
    let Some(program) = process::which("python3") else {
        let what = format!("python3 is not installed, and custom modules such as {file} need it");
        lines.problem(what, "install python3 (3.6 or later)");
        return;
    };
    let asks = "import sys; sys.exit(sys.version_info < (3, 6))";
    let process = Process {
        timeout: Some(PROGRAM.into()),
        ..Process::words([program.as_str(), "-c", asks]).quiet()
    };
    match process.run(&context(&look.opts)) {
        Ok(output) if output.success() => {
            lines.ok(format!("{program} runs custom modules such as {file}"));
        }
        Ok(output) if output.retcode == Some(1) && output.stderr.is_empty() => {
            lines.problem(
                format!("{program} is older than 3.6"),
                "install a later version: custom modules need it",
            );
        }
        Ok(output) => lines.problem(
            format!("{program} does not start: {}", output.stderr),
            "reinstall it",
        ),
        Err(error) => lines.problem(format!("{program}: {error}"), "reinstall it"),
    }
}

/// Returns a context of this machine for checks that need no master.
fn context(opts: &Opts) -> Exec {
    let sources = Box::new(modules::fileserver::roots::Roots::states(opts));
    Exec::new(
        opts.clone(),
        crate::uplink::registry(),
        sources,
        Box::new(modules::state_run::orchestrate::ThisMachine),
    )
}

/// Returns the path of one Python file of custom modules, either synced or in the tree.
fn custom_file(opts: &Opts) -> Option<PathBuf> {
    let synced = opts.path("extension_modules");
    let in_synced = CUSTOM
        .iter()
        .map(|name| synced.join(name.trim_start_matches('_')));
    let roots = if is_local(opts) {
        folders(opts, "file_roots")
    } else {
        Vec::new()
    };
    let in_roots = roots
        .iter()
        .flat_map(|root| CUSTOM.iter().map(|name| root.join(name)));
    in_synced
        .chain(in_roots)
        .find_map(|folder| python_file(&folder))
}

fn python_file(folder: &Path) -> Option<PathBuf> {
    let entries = or_log(folder, std::fs::read_dir(folder))?.flatten();
    let mut files = entries.map(|entry| entry.path());
    files.find(|path| path.extension().is_some_and(|end| end == "py"))
}

pub(super) fn services(look: &Look, lines: &mut Lines) {
    let cx = context(&look.opts);
    let enabled = |name: &str| {
        let known = cx.call("service.available", vec![name.into()], Map::new());
        let known = known.is_ok_and(|known| known.is_true());
        let enabled = || cx.call("service.enabled", vec![name.into()], Map::new());
        known.then(|| enabled().is_ok_and(|enabled| enabled.is_true()))
    };
    let (minion, salts) = (enabled("pinch-minion"), enabled("salt-minion"));
    if minion == Some(true) && salts == Some(true) {
        lines.warning(
            "both pinch-minion and Salt's salt-minion are enabled at boot",
            "disable one of them: otherwise both run the jobs of a master",
        );
    }
    match minion {
        Some(true) => lines.ok("pinch-minion is enabled at boot"),
        Some(false) if !is_local(&look.opts) && !is_without_master(look) => lines.warning(
            "pinch-minion is not enabled at boot, but a master is configured",
            "salt-call --local service.enable pinch-minion",
        ),
        Some(false) => {
            lines.ok("pinch-minion is not enabled at boot; it is not needed without a master");
        }
        None => lines.ok("the service pinch-minion is not installed"),
    }
}
