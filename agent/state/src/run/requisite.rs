//! What the returns of a chunk's requisites mean for the chunk.

use std::sync::Arc;

use indexmap::IndexSet;

use super::engine::{Outcome, Run};
use crate::low::{Low, RequisiteKind};

/// What a chunk's requisites come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// One has not run.
    Unmet,
    /// One is under way, and the chunk need not be waited for.
    Pending,
    /// It may run.
    Met,
    /// One failed.
    Fail,
    /// Another state said that what depends on it is to be skipped.
    SkipReq,
    /// Another state said that `mod_watch` is to be skipped.
    SkipWatch,
    /// What its `prereq` names would change nothing.
    Pre,
    /// Nothing failed that it is there for.
    Onfail,
    /// Nothing changed that it waits for.
    Onchanges,
    /// Something that it watches changed.
    Change,
}

impl Status {
    /// What a chunk's return says that this keeps from running, for no fault of others.
    pub(super) fn skipped(self) -> Option<&'static str> {
        match self {
            Self::SkipReq => {
                Some("State was not run because requisites were skipped by another state")
            }
            Self::Pre => Some("No changes detected"),
            Self::Onfail => Some("State was not run because onfail req did not change"),
            Self::Onchanges => Some("State was not run because none of the onchanges reqs changed"),
            _ => None,
        }
    }
}

/// What was seen among the requisites of one kind, or of all.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    unmet: bool,
    fail: bool,
    skip_req: bool,
    onfail: bool,
    onchanges: bool,
    onchanges_met: bool,
    change: bool,
    pre: bool,
    pre_met: bool,
    met: bool,
}

impl Seen {
    /// Notes one requisite's return.
    fn note(&mut self, kind: RequisiteKind, outcome: Outcome) {
        use RequisiteKind::{
            Onchanges, OnchangesAny, Onfail, OnfailAll, OnfailAny, Prereq, Watch, WatchAny,
        };
        self.skip_req |= outcome.skip_req;
        match kind {
            Onfail | OnfailAny | OnfailAll if outcome.result == Some(true) => self.onfail = true,
            // A target that failed is taken for one that did not change.
            Onchanges | OnchangesAny => {
                let changed = outcome.result != Some(false) && outcome.changed;
                self.onchanges |= !changed;
                self.onchanges_met |= changed;
            }
            Onfail | OnfailAny | OnfailAll => self.met |= outcome.ran,
            _ if outcome.result == Some(false) => self.fail = true,
            Watch | WatchAny if outcome.changed => self.change = true,
            Prereq if outcome.result.is_none() => self.pre_met = true,
            Prereq => self.pre = true,
            _ => self.met |= outcome.ran,
        }
    }

    /// Applies what is particular to a kind once all of that kind are noted: that one of several is enough.
    fn settled(mut self, kind: RequisiteKind) -> Self {
        use RequisiteKind::{OnchangesAny, Onfail, OnfailAny, RequireAny, WatchAny};
        if matches!(
            kind,
            RequireAny | WatchAny | OnchangesAny | OnfailAny | Onfail
        ) {
            self.fail &= !(self.met || self.change || self.onchanges_met);
            self.onchanges &= !self.onchanges_met;
            self.onfail &= !self.met;
        }
        self
    }

    fn add(&mut self, other: Self) {
        self.unmet |= other.unmet;
        self.fail |= other.fail;
        self.skip_req |= other.skip_req;
        self.onfail |= other.onfail;
        self.onchanges |= other.onchanges;
        self.onchanges_met |= other.onchanges_met;
        self.change |= other.change;
        self.pre |= other.pre;
        self.pre_met |= other.pre_met;
        self.met |= other.met;
    }

    fn status(self, pending: bool) -> Status {
        match self {
            Self { unmet: true, .. } => Status::Unmet,
            _ if pending => Status::Pending,
            Self { fail: true, .. } => Status::Fail,
            Self {
                skip_req: true,
                onchanges_met,
                pre_met,
                ..
            } if onchanges_met || pre_met => Status::SkipReq,
            Self {
                skip_req: true,
                change: true,
                ..
            } => Status::SkipWatch,
            Self {
                pre: true,
                pre_met: true,
                ..
            } => Status::Met,
            Self { pre: true, .. } => Status::Pre,
            Self {
                onfail: true,
                onchanges_met: false,
                ..
            } => Status::Onfail,
            Self {
                onchanges: true,
                onchanges_met: false,
                ..
            } => Status::Onchanges,
            Self { change: true, .. } => Status::Change,
            Self { onfail: true, .. } => Status::Onfail,
            _ => Status::Met,
        }
    }
}

impl Run<'_> {
    /// The chunks that a chunk waits for. For its test run those of its own `prereq` count as they were tried,
    /// and those that prerequire it do not.
    pub(super) fn dependencies(
        &self,
        index: usize,
        low: &Low,
        to_try: bool,
    ) -> IndexSet<(RequisiteKind, usize)> {
        let mut found = IndexSet::new();
        let mut add = |kind, target| {
            found.insert((kind, target));
        };
        for requisite in &low.requisites {
            let kind = requisite.kind;
            let later = matches!(kind, RequisiteKind::Listen | RequisiteKind::Compensate);
            if later || self.disabled_requisites.contains(&kind) {
                continue;
            }
            let kind = self.reconciled(low, kind);
            requisite
                .chunks
                .iter()
                .for_each(|target| add(kind, *target));
        }
        if !to_try {
            let before = self.prerequired.get(&index);
            let before = before.map(Vec::as_slice).unwrap_or_default();
            before
                .iter()
                .for_each(|chunk| add(RequisiteKind::Require, *chunk));
        }
        found
    }

    /// A module that has no `mod_watch` can only require.
    fn reconciled(&self, low: &Low, kind: RequisiteKind) -> RequisiteKind {
        let plain = match kind {
            RequisiteKind::Watch => RequisiteKind::Require,
            RequisiteKind::WatchAny => RequisiteKind::RequireAny,
            other => return other,
        };
        match self.cx.state_function(&format!("{}.mod_watch", low.state)) {
            Some(_) => kind,
            None => plain,
        }
    }

    /// What the requisites of a chunk come to, once those under way are finished.
    pub(super) fn status(&mut self, index: usize, low: &Arc<Low>, to_try: bool) -> Status {
        let dependencies = self.dependencies(index, low, to_try);
        if dependencies.is_empty() {
            return Status::Met;
        }
        let mut pending = false;
        if low.options.parallel {
            self.collect_parallel();
            pending = dependencies
                .iter()
                .any(|(_, target)| self.parallel.holds(*target));
        } else {
            while dependencies
                .iter()
                .any(|(_, target)| self.parallel.holds(*target))
            {
                self.wait_for_one();
            }
        }
        let mut all = Seen::default();
        for kind in RequisiteKind::ALL {
            let mut seen = Seen::default();
            for (_, target) in dependencies.iter().filter(|(of, _)| *of == kind) {
                match self.requisite_outcome(kind, *target) {
                    Some(outcome) => seen.note(kind, outcome),
                    None => seen.unmet = true,
                }
            }
            all.add(seen.settled(kind));
        }
        all.status(pending)
    }

    fn requisite_outcome(&mut self, kind: RequisiteKind, target: usize) -> Option<Outcome> {
        if kind == RequisiteKind::Prereq {
            return self.tried.get(&target).map(Outcome::of);
        }
        self.has_return(target);
        self.outcome(target)
    }

    /// Which requisites failed, as Salt says it.
    pub(super) fn failure(&self, index: usize, low: &Low) -> String {
        let mut names: Vec<String> = Vec::new();
        for (_, target) in self.dependencies(index, low, false) {
            let tried = self.tried.get(&target).map(Outcome::of);
            let outcome = tried.or_else(|| self.outcome(target));
            if outcome.is_some_and(|outcome| outcome.result == Some(false))
                && let Some(low) = self.low(target)
            {
                let name = format!("{}.{}", low.sls, low.id);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        format!("One or more requisite failed: {}", names.join(", "))
    }
}
