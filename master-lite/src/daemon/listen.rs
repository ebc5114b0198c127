//! The addresses at which peers, commands and other programs connect.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use link::unix::LocalListener;
use link::{KeyPair, Limits, Listener, PORT, PublicKey};
use smol::Task;
use state::opts::Opts;
use wire::Way;

use super::Error;
use crate::access::Access;
use crate::admit;
use crate::api::calls::Calls;
use crate::api::{self, Api};
use crate::hook::{self, Hook, Settings};
use crate::metrics::page::{Measured, Page};
use crate::store::{self, KeyState, Store};

/// Returns the path of the socket on which the master accepts commands.
fn socket_path(opts: &Opts) -> PathBuf {
    opts.path("sock_dir").join("master.sock")
}

/// Returns the address at which peers connect.
pub(super) fn address(opts: &Opts) -> Result<SocketAddr, Error> {
    let wrong = |option, problem| Error::Option { option, problem };
    let interface = opts.text("interface").unwrap_or("0.0.0.0");
    let ip: IpAddr = interface
        .trim_matches(['[', ']'])
        .parse()
        .map_err(|_| wrong("interface", format!("{interface} is not an IP address")))?;
    let port = match opts.get("ret_port") {
        None => PORT,
        Some(port) => port
            .to_text()
            .parse()
            .map_err(|_| wrong("ret_port", format!("{} is not a port", port.to_text())))?,
    };
    Ok((ip, port).into())
}

/// Binds the address at which peers connect. The accepted keys are known to the listener.
pub(super) fn peers(opts: &Opts, store: &Store, own: &KeyPair) -> Result<Listener, Error> {
    let (pending_max, pending_per_address) = admit::pending_limits(opts);
    let limits = Limits {
        pending_max,
        pending_per_address,
        ..Limits::default()
    };
    let listener = Listener::bind(address(opts)?, own, limits)?;
    let keys = store.keys(KeyState::Accepted)?;
    let keys = keys.map(|key| Ok(key?.key));
    listener.know(keys.collect::<Result<Vec<PublicKey>, store::Error>>()?);
    Ok(listener)
}

/// Binds the socket on which commands connect.
pub(super) fn commands(opts: &Opts, access: &Access) -> Result<LocalListener, Error> {
    let path = socket_path(opts);
    let socket = LocalListener::bind(&path, Way::ClientToMaster, Limits::default())?;
    match access.has_guests() || access.has_eauth() {
        true => Ok(socket.with_guests()?),
        false => Ok(socket),
    }
}

/// Starts the servers for `hook_listen`, `rest_cherrypy` and `metrics_listen`. They run until the
/// returned tasks are dropped.
pub(super) async fn http(
    opts: &Opts,
    hook: Option<Settings>,
    api: Option<(api::Settings, Calls)>,
    measured: Measured,
) -> Result<Vec<Task<()>>, Error> {
    let mut servers = Vec::new();
    if let Some((settings, calls)) = api {
        let server = Api::bind(settings, calls, measured.metrics.clone()).await;
        servers.push(smol::spawn(
            server.map_err(Error::option("rest_cherrypy"))?.run(),
        ));
    }
    if let Some(settings) = hook {
        let (store, metrics) = (measured.store.clone(), measured.metrics.clone());
        let server = Hook::bind(store, metrics, settings).await;
        servers.push(smol::spawn(
            server.map_err(Error::option("hook_listen"))?.run(),
        ));
    }
    if let Some(address) = hook::listen(opts, "metrics_listen")? {
        let server = Page::bind(measured, address).await;
        servers.push(smol::spawn(
            server.map_err(Error::option("metrics_listen"))?.run(),
        ));
    }
    Ok(servers)
}
