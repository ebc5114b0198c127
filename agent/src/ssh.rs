//! `salt-ssh`, and the job's process on a host.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cli::binary;
use cli::failure::{Exit, Failure};
use modules::loader::call::joined;
use ::ssh::program::Settings;
use ::ssh::roster::Roster;
use ::ssh::session::Caller;
use value::{Map, Value, jid};
use wire::Job;

/// Runs the job of a connection: `pinch ssh-job DIR`.
///
/// # Errors
/// When no `salt-ssh` of another machine started this process.
pub(crate) fn job(words: &[String]) -> Result<ExitCode, Failure> {
    let [folder] = words else {
        return Err(Failure::new(
            Exit::Usage,
            "`ssh-job` is internal: only salt-ssh starts it",
        ));
    };
    let own = binary::own_program().map_err(|error| Failure::new(Exit::Software, error))?;
    let job = vec![own.into(), crate::minion::JOB.into()];
    let code = ::ssh::on_host::run(Path::new(folder), job);
    let code = code.map_err(|error| Failure::new(Exit::Generic, error))?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

pub(crate) fn trial(words: Vec<String>) -> Result<ExitCode, Failure> {
    let loaded = cli::config::load(Path::new(&words[0]), Map::new(), &render::yaml::SaltYaml)
        .map_err(|error| Failure::new(Exit::Generic, error))?;
    let opts = state::opts::Opts::new(loaded.opts.clone());
    let cx = state::exec::Exec::with_custom(
        opts.clone(),
        minion::registry(),
        Box::new(modules::fileserver::roots::Roots::states(&opts)),
        Box::new(modules::state_run::orchestrate::ThisMachine),
        Box::new(modules::loader::custom::CustomModules::new(&opts)),
    );
    let roster = Roster::load(&cx).map_err(|error| Failure::new(Exit::Generic, error))?;
    let settings = Settings {
        sockets: "/tmp/nt/socks".into(),
        persist: Duration::from_secs(60),
        timeout: Duration::from_secs(60),
        key: Some("/tmp/nt/key".into()),
        accepts_unknown: true,
        checks_no_keys: true,
    };
    let own = std::env::var("OWN").unwrap();
    let caller = Caller::new(state::opts::Opts::new(loaded.opts), settings, own.into()).unwrap();
    for host in roster.matched(&cx, &words[1].as_str().into(), "glob").unwrap() {
        let args: Vec<Value> = words[3..].iter().map(|word| word.as_str().into()).collect();
        let job = Job {
            jid: jid::new(),
            fun: words[2].as_str().into(),
            arg: joined(args, Map::new()),
            tgt: words[1].as_str().into(),
            tgt_type: "glob".into(),
            ret: String::new(),
            user: "root".into(),
            options: Map::new(),
        };
        let done = smol::block_on(caller.run(host, job, Arc::new(|event| eprintln!("{event:?}"))));
        eprintln!("{}: {done:#?}", host.id);
    }
    Ok(Exit::Ok.into())
}
