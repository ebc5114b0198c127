//! `salt-ssh`: runs a function or a shell command on hosts of the roster, and prints the returns as
//! they arrive.

use std::path::Path;
use std::process::ExitCode;

use cli::binary::{self, PINCH};
use cli::config;
use cli::failure::{Exit, Failure};
use cli::log::Logger;
use cli::options::{SALT_SSH, SaltSsh, SaltSshOptions, read_saltfile, saltfile_path};
use cli::output::{Screen, heed_no_color};
use modules::fileserver::roots::Roots;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate::ThisMachine;
use render::yaml::SaltYaml;
use state::exec::Exec;
use state::opts::Opts;
use value::log;

use crate::calls::{Asked, Calls};
use crate::login::Login;
use crate::roster::Roster;

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Runs `salt-ssh` with the arguments `words`.
///
/// # Errors
/// When the command line, the configuration or the roster is wrong, or no host matches.
pub fn run(words: Vec<String>) -> Result<ExitCode, Failure> {
    let usage = |error| Failure::usage(&SALT_SSH, error);
    let mut line = SaltSsh::parse(words, env).map_err(usage)?;
    if let SaltSshOptions::About(about) = line.request {
        return Ok(PINCH.tell(&SALT_SSH, about));
    }
    if let Some(path) = saltfile_path(&line.settings.overrides, env) {
        let saltfile = read_saltfile(&path, &SaltYaml);
        line.settings.merge_saltfile(&saltfile.map_err(usage)?);
    }
    let cx = context(&line)?;
    let mut how = cx.opts().map.clone();
    heed_no_color(&mut how, env);
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let file = line.settings.output_file.as_ref();
    let mut screen = Screen::new(&mut out, &mut err, &how, file, &SaltYaml)
        .map_err(|error| Failure::new(Exit::CantCreate, error))?;
    let failed = |error: String| Failure::new(Exit::Generic, error);
    let target = match &line.request {
        SaltSshOptions::About(_) | SaltSshOptions::Hosts => {
            let roster = Roster::load(&cx).map_err(failed)?;
            let hosts = roster.by_source().map_err(failed)?;
            screen.show(&hosts.into(), Some("nested"), 0);
            return Ok(Exit::Ok.into());
        }
        SaltSshOptions::Call { target, .. }
        | SaltSshOptions::Command { target, .. }
        | SaltSshOptions::Raw { target, .. } => target,
    };
    let roster = Roster::load_for(&cx, &target.tgt).map_err(failed)?;
    let matched = roster.matched(&cx, &target.tgt, target.tgt_type, None);
    let mut hosts = matched.map_err(failed)?;
    if hosts.is_empty() && matches!(target.tgt_type, "glob" | "list") {
        hosts = Roster::by_hand(&cx, &target.tgt).map_err(failed)?;
        if cx.opts().flag("ssh_update_roster") && !hosts.is_empty() {
            Roster::add_by_hand(&cx, &hosts).map_err(failed)?;
        }
    }
    if hosts.is_empty() {
        return Err(failed("No matching targets found in roster.".to_owned()));
    }
    let asked = Asked::new(&line, target);
    if cx.opts().flag("verbose") {
        let line = format!("Executing job with jid {}", asked.job.jid);
        screen.say(&format!("{line}\n{}\n\n", "-".repeat(line.len())));
    }
    let login = Login::prepare(&cx, &mut hosts).map_err(failed)?;
    let calls = Calls {
        cx: &cx,
        asked: &asked,
        login: &login,
    };
    Ok(ExitCode::from(calls.run(hosts, &mut screen)?))
}

/// Returns the context with the configuration of the master, whose trees the hosts get.
fn context(line: &SaltSsh) -> Result<Exec, Failure> {
    let settings = &line.settings;
    let overrides = settings.overrides.clone();
    let loaded = config::load_master(&settings.config_dir, settings.program, overrides, &SaltYaml)
        .map_err(|error| Failure::new(Exit::Generic, error))?;
    config::obeyed(&loaded, &settings.config_dir)?;
    let _first = Logger::from_opts(&loaded.opts).install();
    loaded.warnings.iter().for_each(log::warning);
    let opts = Opts::new(loaded.opts);
    Ok(Exec::with_custom(
        opts.clone(),
        &modules::REGISTRY,
        Box::new(Roots::states(&opts)),
        Box::new(ThisMachine),
        Box::new(CustomModules::new(&opts)),
    ))
}

/// Runs the job of a connection on a host: `pinch ssh-job DIR`. `job` is the word that starts a
/// job's process.
///
/// # Errors
/// When no `salt-ssh` of another machine started this process.
pub fn job(words: &[String], job: &str) -> Result<ExitCode, Failure> {
    let [folder] = words else {
        return Err(Failure::new(
            Exit::Usage,
            "`ssh-job` is internal: only salt-ssh starts it",
        ));
    };
    let own = binary::own_program().map_err(|error| Failure::new(Exit::Software, error))?;
    let code = crate::on_host::run(Path::new(folder), vec![own.into(), job.into()]);
    let code = code.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}
