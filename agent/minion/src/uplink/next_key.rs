//! Keeps the statements of masters about their next keys.

use link::Refused;
use link::pki::Pki;
use link::wait::unblock;
use state::opts::Opts;
use value::log;
use wire::NextKey;

use super::cluster::Cluster;
use super::connection::{Answerer, ConnectionError};
use super::settings::master_fingers;

/// Stores the statement, so that this minion accepts the master's next key, and answers.
pub(crate) async fn keep(
    opts: &Opts,
    next: NextKey,
    answerer: Answerer,
) -> Result<(), ConnectionError> {
    let opts = opts.clone();
    match unblock(move || stored(&opts, &next.statement)).await {
        Ok(()) => answerer.done(true).await,
        Err(error) => {
            log::error(format_args!("cannot accept the master's next key: {error}"));
            let reason = match error {
                Refused::Pki(_) => "failed",
                _ => "refused",
            };
            answerer.fail(reason, error.to_string()).await
        }
    }
}

fn stored(opts: &Opts, statement: &str) -> Result<(), Refused> {
    let mut fingers = master_fingers(opts);
    if let Some(list) = Cluster::open(opts, Vec::new()).any_list() {
        fingers.extend(list.fingers());
    }
    Pki::open(&opts.path("pki_dir"))?.keep_succession(&fingers, statement)
}
