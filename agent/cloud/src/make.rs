//! Makes machines: the intent, the cloud, the first start, and the events of these.

#[cfg(test)]
mod tests;

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use state::exec::{Exec, find};
use state::module::Arguments;
use state::targets::Subscription;
use value::{Map, Value, channel, log, random};

use crate::boot::{self, Deploy};
use crate::driver::{Boot, Driver, Machine, Wanted};
use crate::fault::Fault;
use crate::intent::{Intent, Intents};
use crate::plan::Listing;
use crate::spec::Spec;

/// The maximum time of the attempts to create a machine.
const CREATE_MAX: Duration = Duration::from_secs(600);
/// The maximum number of attempts after requests without an answer.
const UNANSWERED_MAX: u32 = 4;
/// The first and the maximum time between two attempts.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The default of `wait_for_ip_timeout`: the time until a new machine runs and has an address.
const ADDRESS_MAX: Duration = Duration::from_secs(600);
/// The default of `wait_for_ip_interval`: the time between two questions about it.
const ADDRESS_EVERY: Duration = Duration::from_secs(5);
/// The time between two looks for the minion of a machine that an earlier call has created.
const PRESENT_EVERY: Duration = Duration::from_secs(5);
/// The runner that lists the connected minions.
const PRESENT: &str = "manage.present";

/// Makes machines for one call.
pub struct Maker<'a> {
    /// The context of the call.
    pub cx: &'a Exec,
    /// The job id of the run that the call belongs to.
    pub run: String,
    /// True if the run is a step of an orchestration, which may be resumed.
    pub is_step: bool,
    /// The intents.
    pub intents: Intents,
}

/// The start of a machine's minion, which the bus reports.
struct Start {
    fired: Receiver<()>,
    _subscription: Box<dyn Subscription>,
}

/// A machine that the cloud has created.
struct Created {
    machine: Machine,
    /// True if an earlier call has created it.
    is_old: bool,
    /// True if more than one request for it may have been sent.
    is_repeated: bool,
}

/// Fires an event about a machine. One that cannot be fired is logged: no machine is lost for it.
pub(crate) fn fire(cx: &Exec, name: &str, word: &str, text: &str, data: Map) {
    let tag = format!("salt/cloud/{name}/{word}");
    let data = data.with("event", text);
    if let Err(error) = cx.shared.targets.fire(cx, &tag, data) {
        log::warning(format_args!("cannot fire event {tag}: {error}"));
    }
}

/// Returns the time before another attempt, with some randomness. It doubles each time.
pub(crate) fn pause(attempt: u32, after: Option<Duration>) -> Duration {
    let (first, most) = AGAIN;
    let doubled = first.saturating_mul(1 << attempt.min(10)).min(most);
    let jitter = u64::try_from(doubled.as_millis() / 4).unwrap_or_default();
    let own = doubled + Duration::from_millis(random::jitter(jitter));
    after.map_or(own, |after| after.min(CREATE_MAX).max(own))
}

impl Maker<'_> {
    /// Makes a machine, or finishes the one that an earlier call has begun. Returns what is known of
    /// it.
    ///
    /// # Errors
    /// When it exists already, the cloud refuses, or it does not start in time. A machine that was
    /// created then is one of the intents.
    pub fn make(&self, spec: &Spec, driver: &dyn Driver, listing: &Listing) -> Result<Map, Fault> {
        let _held = self.intents.hold(&spec.name)?;
        let name = spec.name.as_str();
        let mut earlier = self.intents.get(&spec.name)?;
        if let Some(intent) = earlier.take_if(|intent| intent.is_leaving) {
            match intent.done {
                Some(_) => self.intents.end(self.cx, &spec.name)?,
                None => {
                    self.is_gone(&intent, driver)?;
                    left(self.cx, &self.intents, &intent)?;
                }
            }
        }
        if let Some(done) = earlier.as_ref().and_then(|intent| intent.done.clone()) {
            // The step was cut short after it had completed this machine.
            let is_own = earlier
                .as_ref()
                .is_some_and(|intent| intent.run == self.run);
            if is_own && listing.find(name).is_some() {
                return Ok(done);
            }
            self.intents.end(self.cx, &spec.name)?;
            earlier = None;
        }
        if earlier.is_none() {
            self.is_new(spec, driver, listing)?;
        }
        let deploy = boot::deploy(spec, driver.boot())?;
        fire(self.cx, name, "creating", "starting create", spec.event());
        let start = self.start(spec, deploy)?;
        let mut intent = self.begun(spec, deploy, driver)?;
        let created = self.created(spec, driver, (&mut intent, earlier.is_none()))?;
        let machine = self.running(spec, driver, created.machine)?;
        if deploy == Deploy::By(Boot::Ssh) {
            fire(
                self.cx,
                name,
                "deploying",
                "executing deploy script",
                spec.event(),
            );
            boot::by_ssh(self.cx, &spec.without(driver.credentials()), &machine)?;
        }
        if let Some(start) = start {
            self.started(spec, &start, created.is_old)?;
            self.synced(spec);
        }
        if created.is_repeated {
            self.is_alone(&machine, driver)?;
        }
        let done = match driver.boot() {
            Boot::Driver => machine.full.clone(),
            _ => machine.details(),
        };
        let done = done.with("deployed", deploy != Deploy::None);
        let about = spec.event().with("instance_id", machine.id.as_str());
        fire(self.cx, name, "created", "created instance", about);
        match self.is_step {
            true => {
                intent.done = Some(done.clone());
                intent.user_data = None;
                self.intents.put(&intent)?;
            }
            false => self.intents.end(self.cx, &spec.name)?,
        }
        Ok(done)
    }

    /// Checks that no provider has a machine with this name. Its own provider lists its machines
    /// again, because another call may have made the machine since.
    fn is_new(&self, spec: &Spec, driver: &dyn Driver, listing: &Listing) -> Result<(), Fault> {
        let name = spec.name.as_str();
        let (alias, kind) = (&spec.provider.alias, &spec.provider.driver);
        let exists = |alias: &str, kind: &str| {
            Err(Fault::wrong(format!(
                "{name} already exists under {alias}:{kind}"
            )))
        };
        if let Some((listed, _)) = listing.find(name) {
            return exists(&listed.alias, &listed.driver);
        }
        let now = driver.list(self.cx).map_err(|fault| {
            Fault::wrong(format!(
                "the machines of {alias}:{kind} are not known, so that none is made: {fault}"
            ))
        })?;
        match now.iter().any(|machine| machine.name == name) {
            true => exists(alias, kind),
            false => Ok(()),
        }
    }

    /// Checks that a machine whose removal was cut short is gone.
    fn is_gone(&self, intent: &Intent, driver: &dyn Driver) -> Result<(), Fault> {
        match self.found(intent, driver)? {
            Some(_) => Err(Fault::wrong(format!(
                "a call that removes {} was cut short: finish it by cloud.destroy",
                intent.name
            ))),
            None => Ok(()),
        }
    }

    /// Returns the intent of a machine with its user data. One whose token is no longer valid, and
    /// that has made nothing, is begun anew.
    fn begun(&self, spec: &Spec, deploy: Deploy, driver: &dyn Driver) -> Result<Intent, Fault> {
        let mut intent = self.intents.begin(spec, &self.run)?;
        let valid = spec.time("deploy_timeout", boot::START_MAX).as_secs();
        let is_late = u64::try_from(intent.age_s()).unwrap_or_default() > valid / 2;
        if is_late && self.found(&intent, driver)?.is_none() {
            self.intents.end(self.cx, &spec.name)?;
            intent = self.intents.begin(spec, &self.run)?;
        }
        if deploy == Deploy::By(Boot::UserData) && intent.user_data.is_none() {
            intent.user_data = Some(boot::user_data(self.cx, spec)?);
            self.intents.put(&intent)?;
        }
        Ok(intent)
    }

    /// Returns the machine of an intent, if the cloud has it.
    fn found(&self, intent: &Intent, driver: &dyn Driver) -> Result<Option<Machine>, Fault> {
        let all = driver.list(self.cx)?;
        let is_it = |machine: &Machine| match (&intent.id, &machine.token) {
            (Some(id), _) if *id == machine.id => true,
            (_, Some(token)) => *token == intent.token,
            (_, None) => machine.name == intent.name.as_str(),
        };
        Ok(all.into_iter().find(is_it))
    }

    /// Checks that the cloud has made one machine for several requests. A cloud without client tokens
    /// makes another one if it carries out the first request after the second one was sent.
    fn is_alone(&self, machine: &Machine, driver: &dyn Driver) -> Result<(), Fault> {
        let all = driver.list(self.cx)?;
        let is_other = |other: &&Machine| {
            other.id != machine.id && other.token.is_some() && other.token == machine.token
        };
        match all.iter().find(is_other) {
            None => Ok(()),
            Some(other) => Err(Fault::wrong(format!(
                "the cloud has made two machines for {}: {} is used; remove {} in the cloud, and run this again",
                machine.name, machine.id, other.id
            ))),
        }
    }

    /// Returns the machine of an intent.
    fn created(
        &self,
        spec: &Spec,
        driver: &dyn Driver,
        (intent, is_new): (&mut Intent, bool),
    ) -> Result<Created, Fault> {
        let earlier = match is_new {
            true => None,
            false => self.found(intent, driver)?,
        };
        let wanted = Wanted {
            spec,
            token: &intent.token,
            user_data: intent.user_data.as_deref(),
        };
        if let Some(machine) = earlier {
            return Ok(Created {
                machine: driver.resume(self.cx, &wanted, machine)?,
                is_old: true,
                is_repeated: true,
            });
        }
        let name = spec.name.as_str();
        fire(
            self.cx,
            name,
            "requesting",
            "requesting instance",
            spec.event(),
        );
        let (machine, is_repeated) = match self.asked(driver, &wanted, intent) {
            Ok(asked) => asked,
            Err(fault) => {
                self.give_up(intent, driver, &fault);
                return Err(fault);
            }
        };
        intent.id = Some(machine.id.clone());
        self.intents.put(intent)?;
        Ok(Created {
            machine,
            is_old: false,
            is_repeated: is_repeated || !is_new,
        })
    }

    /// Removes the intent of a machine that the cloud has certainly not created.
    fn give_up(&self, intent: &Intent, driver: &dyn Driver, fault: &Fault) {
        let is_clear = matches!(fault, Fault::Refused { .. } | Fault::Wrong(_));
        if !is_clear || !matches!(self.found(intent, driver), Ok(None)) {
            return;
        }
        if let Err(error) = self.intents.end(self.cx, &intent.name) {
            log::error(error);
        }
    }

    /// Asks the cloud for a machine, again if it wants fewer requests or does not answer. Returns the
    /// machine, and whether a request had no answer.
    fn asked(
        &self,
        driver: &dyn Driver,
        wanted: &Wanted<'_>,
        intent: &Intent,
    ) -> Result<(Machine, bool), Fault> {
        let until = Instant::now() + CREATE_MAX;
        let (mut attempt, mut unanswered) = (0, 0);
        loop {
            let fault = match driver.create(self.cx, wanted) {
                Ok(machine) => return Ok((machine, unanswered > 0)),
                Err(fault) => fault,
            };
            let after = match &fault {
                Fault::Throttled { after, .. } => *after,
                Fault::Unanswered { .. } if unanswered < UNANSWERED_MAX => {
                    unanswered += 1;
                    None
                }
                _ => return Err(fault),
            };
            let pause = pause(attempt, after);
            if Instant::now() + pause >= until {
                return Err(fault);
            }
            log::warning(format_args!("{}: {fault}: trying again", wanted.spec.name));
            std::thread::sleep(pause);
            attempt += 1;
            // The request that was not answered may have been carried out.
            if unanswered > 0
                && let Ok(Some(machine)) = self.found(intent, driver)
            {
                return Ok((driver.resume(self.cx, wanted, machine)?, true));
            }
        }
    }

    /// Waits until a machine runs and has an address.
    fn running(&self, spec: &Spec, driver: &dyn Driver, first: Machine) -> Result<Machine, Fault> {
        let is_complete = |machine: &Machine| {
            driver.is_running(&machine.state)
                && (driver.needs_no_address() || machine.address().is_some())
        };
        if is_complete(&first) {
            return Ok(first);
        }
        let name = spec.name.as_str();
        let about = spec.event().with("instance_id", first.id.as_str());
        fire(self.cx, name, "querying", "querying instance", about);
        let most = spec.time("wait_for_ip_timeout", ADDRESS_MAX);
        let every = spec.time("wait_for_ip_interval", ADDRESS_EVERY);
        let every = every.max(Duration::from_millis(100));
        let (since, mut last) = (Instant::now(), format!("its state is {}", first.state));
        while since.elapsed() < most {
            std::thread::sleep(every.min(most.saturating_sub(since.elapsed())));
            match driver.list(self.cx) {
                Ok(all) => match all.into_iter().find(|machine| machine.id == first.id) {
                    Some(machine) if is_complete(&machine) => return Ok(machine),
                    Some(machine) if driver.has_failed(&machine.state) => {
                        return Err(Fault::wrong(format!(
                            "{name} ({}) does not run: {}; cloud.orphans lists it",
                            first.id, machine.state
                        )));
                    }
                    Some(machine) => last = format!("its state is {}", machine.state),
                    None => "the cloud does not list it".clone_into(&mut last),
                },
                Err(fault) => last = fault.to_string(),
            }
        }
        Err(Fault::wrong(format!(
            "{name} ({}) does not run or has no address after {} s: {last}; cloud.orphans lists it",
            first.id,
            most.as_secs()
        )))
    }

    /// Subscribes to the start of a machine's minion, if a master is there and the minion is
    /// installed.
    fn start(&self, spec: &Spec, deploy: Deploy) -> Result<Option<Start>, Fault> {
        let waits = match deploy {
            Deploy::None | Deploy::By(Boot::Driver) => false,
            Deploy::By(_) => spec.flag("wait_for_minion", true),
        };
        if !boot::is_master(self.cx) || !waits {
            return Ok(None);
        }
        let tag = format!("salt/minion/{}/start", spec.name);
        let (send, receive) = sync_channel(1);
        let sink = Box::new(move |_: Option<u64>, fired: String, _: Map| {
            if fired == tag {
                channel::if_open(send.try_send(()));
            }
        });
        let subscription = self.cx.shared.targets.subscribe(self.cx, None, sink)?;
        Ok(Some(Start {
            fired: receive,
            _subscription: subscription,
        }))
    }

    /// Waits for the start of a machine's minion.
    fn started(&self, spec: &Spec, start: &Start, is_old: bool) -> Result<(), Fault> {
        let most = spec.time("deploy_timeout", boot::START_MAX);
        let since = Instant::now();
        loop {
            let left = most.saturating_sub(since.elapsed());
            if start.fired.recv_timeout(left.min(PRESENT_EVERY)).is_ok() {
                return Ok(());
            }
            // A minion that has started during an earlier call sends no event again.
            if is_old && self.is_present(spec) {
                return Ok(());
            }
            if since.elapsed() >= most {
                return Err(Fault::wrong(format!(
                    "{}: its minion has not started after {} s (deploy_timeout); cloud.orphans lists it",
                    spec.name,
                    most.as_secs()
                )));
            }
        }
    }

    fn is_present(&self, spec: &Spec) -> bool {
        let Some(present) = find(self.cx.shared.registry.runners, PRESENT) else {
            return false;
        };
        let listed = present.invoke(PRESENT, self.cx, Arguments::default());
        let listed = listed.map(|ids| ids.texts()).unwrap_or_default();
        listed.iter().any(|id| id == spec.name.as_str())
    }

    /// Copies custom modules to a new minion: `sync_after_install`.
    fn synced(&self, spec: &Spec) {
        let Some(kind) = spec.text("sync_after_install") else {
            return;
        };
        let fun = format!("saltutil.sync_{kind}");
        let ids = [spec.name.to_string()];
        let targets = &self.cx.shared.targets;
        match targets.run(self.cx, &ids, &fun, Vec::new(), Map::new()) {
            Ok(returns) => {
                for ret in returns.iter().filter(|ret| ret.retcode != 0) {
                    log::warning(format_args!("{}: {fun}: {}", ret.id, ret.ret.to_text()));
                }
            }
            Err(error) => log::warning(format_args!("{}: {fun}: {error}", spec.name)),
        }
    }
}

/// Finishes the removal of a machine that is gone: deletes its key and its intent.
pub(crate) fn left(cx: &Exec, intents: &Intents, intent: &Intent) -> Result<(), Fault> {
    let name = intent.name.as_str();
    delete_key(cx, name)?;
    let about = Map::new()
        .with("name", name)
        .with("instance_id", intent.id.clone());
    fire(cx, name, "destroyed", "destroyed instance", about);
    intents.end(cx, &intent.name)
}

/// Deletes the key of a machine that is gone from the master.
pub(crate) fn delete_key(cx: &Exec, name: &str) -> Result<(), Fault> {
    if !boot::is_master(cx) {
        return Ok(());
    }
    let ask = state::ask::Ask::Wheel {
        fun: "key.delete".to_owned(),
        arg: vec![Value::from(name)],
    };
    cx.ask(ask)?;
    Ok(())
}
