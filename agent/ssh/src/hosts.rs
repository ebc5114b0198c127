//! [`Hosts`]: the hosts of rosters as the targets of an orchestration's steps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use state::ask::Ask;
use state::exec::Exec;
use state::module::Error;
use state::record::RecordCopy;
use state::targets::{HostTargets, MinionReturn, Sink, Subscription, Targets};
use value::{Map, Value};

use crate::group::Group;
use crate::journal::{self, Journal};

/// The hosts of rosters, in addition to other targets: this machine, or a master's minions.
pub struct Hosts {
    others: Arc<dyn Targets>,
    /// The connections that were needed so far, by the names of their rosters.
    groups: Mutex<BTreeMap<String, Arc<Group>>>,
}

impl Hosts {
    /// Adds the hosts of rosters to other targets. A roster is read when a step needs it.
    #[must_use]
    pub fn beside(others: Box<dyn Targets>) -> Self {
        Self {
            others: others.into(),
            groups: Mutex::default(),
        }
    }

    /// Returns the hosts of rosters, which are read once.
    fn group(&self, cx: &Exec, rosters: Option<&Value>) -> Result<Arc<Group>, Error> {
        let name = rosters.map(Value::to_text).unwrap_or_default();
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = groups.get(&name) {
            return Ok(group.clone());
        }
        if groups.is_empty() {
            journal::sweep(cx.opts());
        }
        let group = Group::load(cx, rosters, self.others.clone());
        let group = Arc::new(group.map_err(Error::refused)?);
        groups.insert(name, group.clone());
        Ok(group)
    }

    /// Returns the hosts that steps reach without `ssh: True`, in addition to this machine.
    fn plain(&self, cx: &Exec) -> Result<Option<Arc<Group>>, Error> {
        let rosters = cx.opts().get("masterless_roster");
        match rosters.filter(|rosters| rosters.is_true() && self.others.is_here()) {
            Some(rosters) => self.group(cx, Some(rosters)).map(Some),
            None => Ok(None),
        }
    }
}

impl Targets for Hosts {
    fn is_here(&self) -> bool {
        self.others.is_here()
    }

    fn has_others(&self, cx: &Exec) -> bool {
        // A roster that cannot be read has hosts, too.
        !matches!(self.plain(cx), Ok(None)) || self.others.has_others(cx)
    }

    fn is_elsewhere(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> bool {
        match self.plain(cx) {
            Ok(Some(_)) => match self.others.resolve(cx, tgt, tgt_type) {
                Ok(here) => here.is_empty(),
                Err(_) => false,
            },
            _ => self.others.is_elsewhere(cx, tgt, tgt_type),
        }
    }

    fn resolve(&self, cx: &Exec, tgt: &Value, tgt_type: &str) -> Result<Vec<String>, Error> {
        let mut ids = self.others.resolve(cx, tgt, tgt_type)?;
        if let Some(group) = self.plain(cx)? {
            let own = cx.opts().id();
            let hosts = group.matched(cx, tgt, tgt_type)?;
            ids.extend(hosts.into_iter().filter(|id| id != own));
        }
        Ok(ids)
    }

    fn run(
        &self,
        cx: &Exec,
        ids: &[String],
        fun: &str,
        args: Vec<Value>,
        kwargs: Map,
    ) -> Result<Vec<MinionReturn>, Error> {
        let Some(group) = self.plain(cx)? else {
            return self.others.run(cx, ids, fun, args, kwargs);
        };
        let own = cx.opts().id();
        let (here, hosts): (Vec<_>, Vec<_>) = ids.iter().cloned().partition(|id| id == own);
        let started = group.start(cx, &hosts, fun, (args.clone(), kwargs.clone()));
        let mut returns = match here.is_empty() {
            true => Vec::new(),
            false => self.others.run(cx, &here, fun, args, kwargs)?,
        };
        returns.extend(started.finished(cx));
        Ok(returns)
    }

    fn may_come_late(&self, id: &str) -> bool {
        self.others.may_come_late(id)
    }

    fn come_late(&self, missing: &MinionReturn) -> Result<Option<MinionReturn>, Error> {
        self.others.come_late(missing)
    }

    fn fire(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        self.others.fire(cx, tag, data)
    }

    fn announce(&self, cx: &Exec, tag: &str, data: Map) -> Result<(), Error> {
        self.others.announce(cx, tag, data)
    }

    fn subscribe(
        &self,
        cx: &Exec,
        from: Option<u64>,
        sink: Sink,
    ) -> Result<Box<dyn Subscription>, Error> {
        self.others.subscribe(cx, from, sink)
    }

    fn ask(&self, cx: &Exec, ask: Ask) -> Result<Option<Value>, Error> {
        self.others.ask(cx, ask)
    }

    fn record_copy(&self, jid: &str) -> Option<Arc<dyn RecordCopy>> {
        self.others.record_copy(jid)
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        self.others.as_any()
    }

    fn hosts(&self, cx: &Exec, rosters: Option<&Value>) -> Result<Arc<dyn HostTargets>, Error> {
        Ok(self.group(cx, rosters)?)
    }

    fn begun(&self, cx: &Exec) -> Result<Vec<String>, Error> {
        let journal = Journal::of_step(cx);
        let ids = journal.map_or(Ok(Vec::new()), |journal| journal.ids());
        ids.map_err(Error::refused)
    }

    fn step_ends(&self, cx: &Exec) {
        let has_hosts = !self
            .groups
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty();
        if let Some(journal) = Journal::of_step(cx).filter(|_| has_hosts) {
            journal.end();
        }
    }
}
