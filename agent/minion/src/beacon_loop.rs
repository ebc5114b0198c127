//! Runs the daemon's beacons when they are due or the kernel reports something, and turns what they
//! report into events.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::wait::pause;
use modules::fileserver::roots::Roots;
use modules::loader::call;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate::ThisMachine;
use smol::Async;
use smol::channel::bounded;
use smol::future::FutureExt;
use state::exec::Exec;
use state::opts::Opts;
use value::{Map, Value, jid, log};
use wire::Event;

use crate::beacons::{Beacons, Fired, manage};
use crate::daemon::Shared;
use crate::functions::registry;
use crate::schedule::Now;
use crate::uplink::deliver::Wakeup;

/// The beacons, and the configuration that they are made from.
#[derive(Debug)]
pub(crate) struct Watch {
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

impl Watch {
    pub(crate) fn new(opts: &Opts) -> Self {
        let (config, pillar) = (of_config(&opts.map), Map::new());
        let beacons = Beacons::new(opts.id(), &config, &pillar, Now::read().running);
        tell_faults(&beacons);
        Self {
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

impl Shared {
    /// Runs the beacons for as long as the daemon runs.
    pub(crate) async fn watch(self: &Arc<Self>) {
        loop {
            let shared = self.clone();
            let (fired, next) = smol::unblock(move || shared.looked()).await;
            for Fired { tag, data } in fired {
                self.tell_machine(&tag, data.clone()).await;
                self.keep(Event {
                    sequence: 0,
                    tag,
                    stamp: jid::stamp(),
                    data,
                })
                .await;
            }
            self.watching()
                .changed
                .rung()
                .or(told(self))
                .or(after(next))
                .await;
        }
    }

    /// Returns what the beacons report now, and when to look again.
    fn looked(&self) -> (Vec<Fired>, Option<Duration>) {
        let mut beacons = locked(&self.watching().beacons);
        let now = Now::read().running;
        let is_due = beacons.next(now).is_some_and(|next| next.is_zero());
        let mut fired = Vec::new();
        if is_due || beacons.descriptors().next().is_some() {
            let cx = context(self.opts());
            let ask = |fun: &str, args: Vec<Value>| {
                let (args, kwargs) = call::split(&args);
                let answer = cx.call(fun, args, kwargs);
                answer.map_err(|error| error.to_string())
            };
            fired = beacons.poll(now, self.jobs().has_state_run(), &ask);
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
        Box::new(CustomModules::of(opts)),
    )
}

/// Waits until the kernel reports something for a beacon.
async fn told(shared: &Shared) {
    let (sender, first) = bounded(1);
    let mut waiting = Vec::new();
    for descriptor in shared.watching().descriptors() {
        let sender = sender.clone();
        if let Ok(descriptor) = Async::new(descriptor) {
            waiting.push(smol::spawn(async move {
                let _ = descriptor.readable().await;
                let _ = sender.try_send(());
            }));
        }
    }
    // No deadline: this future races with others.
    let _ = first.recv().await;
}

async fn after(next: Option<Duration>) {
    match next {
        Some(next) => {
            pause(next).await;
        }
        None => smol::future::pending().await,
    }
}
