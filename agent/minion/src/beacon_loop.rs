//! Runs the daemon's beacons when they are due or the kernel reports something, and turns what they
//! report into events.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::wait::{pause, unblock};
use modules::fileserver::roots::Roots;
use modules::loader::call;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate::ThisMachine;
use smol::Async;
use smol::channel::bounded;
use smol::future::FutureExt;
use state::exec::Exec;
use state::opts::Opts;
use value::{Map, Value, channel, log};

use crate::beacons::{Beacons, Fired, manage};
use crate::functions::registry;
use crate::jobs::Jobs;
use crate::reactor::tell_machine;
use crate::schedule::Now;
use crate::uplink::{Upstreams, event};
use crate::wakeup::Wakeup;

/// The beacons, the configuration that they are made from, and the parts of the daemon that run
/// them.
#[derive(Debug)]
pub(crate) struct BeaconLoop {
    opts: Opts,
    jobs: Arc<Jobs>,
    upstreams: Upstreams,
    beacons: Mutex<Beacons>,
    made_of: Mutex<MadeOf>,
    changed: Wakeup,
}

#[derive(Debug)]
struct MadeOf {
    /// The beacons as the configuration files had them. Changes at run time remain when the files
    /// are read again, unless their beacons differ from these.
    configured: Value,
    /// The configured beacons, including changes at run time.
    config: Value,
    pillar: Map,
}

fn of_config(opts: &Map) -> Value {
    opts.get("beacons")
        .cloned()
        .unwrap_or_else(|| Map::new().into())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BeaconLoop {
    pub(crate) fn new(opts: &Opts, jobs: Arc<Jobs>, upstreams: Upstreams) -> Self {
        let (config, pillar) = (of_config(&opts.map), Map::new());
        let beacons = Beacons::new(opts.id(), &config, &pillar, Now::read().running);
        tell_faults(&beacons);
        Self {
            opts: opts.clone(),
            jobs,
            upstreams,
            beacons: Mutex::new(beacons),
            made_of: Mutex::new(MadeOf {
                configured: config.clone(),
                config,
                pillar,
            }),
            changed: Wakeup::new(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut MadeOf)) {
        let mut made_of = locked(&self.made_of);
        change(&mut made_of);
        let mut beacons = locked(&self.beacons);
        beacons.update(&made_of.config, &made_of.pillar, Now::read().running);
        tell_faults(&beacons);
        self.changed.ring();
    }

    /// Applies a configuration that was read again.
    pub(crate) fn has_config(&self, opts: &Map) {
        let config = of_config(opts);
        self.change(|made_of| {
            if made_of.configured != config {
                made_of.configured = config.clone();
                made_of.config = config;
            }
        });
    }

    /// Applies a pillar that was compiled again.
    pub(crate) fn has_pillar(&self, pillar: &Map) {
        let beacons = pillar.get("beacons").cloned();
        let kept = beacons.map(|beacons| Map::new().with("beacons", beacons));
        self.change(|made_of| made_of.pillar = kept.unwrap_or_default());
    }

    /// Answers a request about the beacons.
    pub(crate) fn manage(&self, asked: &wire::Beacons) -> Map {
        let mut is_changed = false;
        // Only a change may restart beacons, so the request works on a copy.
        let made_of = locked(&self.made_of);
        let (mut config, pillar) = (made_of.config.clone(), made_of.pillar.clone());
        drop(made_of);
        let answer = manage::managed(asked, &mut config, &pillar, &mut is_changed);
        if is_changed {
            self.change(|made_of| made_of.config = config);
        }
        answer
    }

    /// Returns duplicates of the beacons' descriptors, through which the kernel reports changes.
    fn descriptors(&self) -> Vec<OwnedFd> {
        let beacons = locked(&self.beacons);
        let descriptors = beacons.descriptors();
        descriptors
            .filter_map(|descriptor| descriptor.try_clone_to_owned().ok())
            .collect()
    }
}

fn tell_faults(beacons: &Beacons) {
    for fault in beacons.faults() {
        log::error(format_args!(
            "cannot run the beacon {:?}: {}",
            fault.beacon, fault.text
        ));
    }
}

impl BeaconLoop {
    /// Runs the beacons for as long as the daemon runs.
    pub(crate) async fn run(self: &Arc<Self>) -> Infallible {
        loop {
            let this = self.clone();
            let (fired, next) = unblock(move || this.looked()).await;
            for Fired { tag, data } in fired {
                tell_machine(&self.opts, &tag, data.clone()).await;
                self.upstreams.keep(event(&tag, data)).await;
            }
            self.changed
                .rung()
                .or(wait_readable(self.descriptors()))
                .or(after(next))
                .await;
        }
    }

    /// Returns what the beacons report now, and when to look again.
    fn looked(&self) -> (Vec<Fired>, Option<Duration>) {
        let mut beacons = locked(&self.beacons);
        let now = Now::read().running;
        let is_due = beacons.next(now).is_some_and(|next| next.is_zero());
        let mut fired = Vec::new();
        if is_due || beacons.descriptors().next().is_some() {
            let cx = context(&self.opts);
            let ask = |fun: &str, args: Vec<Value>| {
                let (args, kwargs) = call::split(&args);
                let answer = cx.call(fun, args, kwargs);
                answer.map_err(|error| error.to_string())
            };
            fired = beacons.poll(now, self.jobs.has_state_run(), &ask);
        }
        (fired, beacons.next(Now::read().running))
    }
}

/// Returns the context in which beacons call functions.
pub(crate) fn context(opts: &Opts) -> Exec {
    Exec::with_custom(
        opts.clone(),
        registry(),
        Box::new(Roots::states(opts)),
        Box::new(ThisMachine),
        Box::new(CustomModules::new(opts)),
    )
}

/// Waits until the kernel reports something for a beacon.
async fn wait_readable(descriptors: Vec<OwnedFd>) {
    let (sender, first) = bounded(1);
    let mut waiting = Vec::new();
    for descriptor in descriptors {
        let sender = sender.clone();
        if let Ok(descriptor) = Async::new(descriptor) {
            waiting.push(smol::spawn(async move {
                // A descriptor that fails is polled too, and the beacon then reports the error.
                channel::or_closed(descriptor.readable().await);
                channel::if_open(sender.try_send(()));
            }));
        }
    }
    // No deadline: this future races with others.
    channel::or_closed(first.recv().await);
}

async fn after(next: Option<Duration>) {
    match next {
        Some(next) => {
            pause(next).await;
        }
        None => smol::future::pending().await,
    }
}
