//! Evaluates the requisites of a chunk from their returns.

use std::sync::Arc;

use indexmap::IndexSet;

use super::engine::{Outcome, Run};
use crate::low::{LowChunk, RequisiteKind};

/// The result of a chunk's requisites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// A requisite has not run.
    Unmet,
    /// A requisite is running in parallel, and the run need not wait for this chunk.
    Pending,
    /// The chunk may run.
    Met,
    /// A requisite failed.
    Fail,
    /// Another state requested that chunks depending on it are skipped (`skip_req`).
    SkipReq,
    /// Another state requested that `mod_watch` is skipped.
    SkipWatch,
    /// The targets of its `prereq` would change nothing.
    Pre,
    /// No target of its `onfail` failed.
    Onfail,
    /// No target of its `onchanges` changed.
    Onchanges,
    /// A target of its `watch` changed.
    Change,
}

impl Status {
    /// Returns the comment of a chunk that this status prevents from running, if the cause is not a
    /// failure.
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

/// The facts found among the requisites of one kind, or of all kinds.
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
    /// Adds the return of one requisite.
    fn note(&mut self, kind: RequisiteKind, outcome: Outcome) {
        use RequisiteKind::{
            Onchanges, OnchangesAny, Onfail, OnfailAll, OnfailAny, Prereq, Watch, WatchAny,
        };
        self.skip_req |= outcome.skip_req;
        match kind {
            Onfail | OnfailAny | OnfailAll if outcome.result == Some(true) => self.onfail = true,
            // As a target of `onchanges`, a failed chunk counts as unchanged.
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

    /// Applies the special rule of a kind after all requisites of that kind are added: for some
    /// kinds, one of several is enough.
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
    /// Returns the chunks that a chunk waits for. For its test-mode call, the targets of the
    /// chunk's `prereq` count with their test-mode returns, and the chunks that prerequire it do
    /// not count.
    pub(super) fn dependencies(
        &self,
        index: usize,
        low: &LowChunk,
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

    /// Returns the kind that applies. In a module without `mod_watch`, `watch` means `require`.
    fn reconciled(&self, low: &LowChunk, kind: RequisiteKind) -> RequisiteKind {
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

    /// Returns the result of a chunk's requisites. Waits for running requisites first, unless the
    /// chunk is itself parallel.
    pub(super) fn status(&mut self, index: usize, low: &Arc<LowChunk>, to_try: bool) -> Status {
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
            return self.tried.get(&target).map(Outcome::from_return);
        }
        self.has_return(target);
        self.outcome(target)
    }

    /// Returns Salt's sentence that names the failed requisites.
    pub(super) fn failure(&self, index: usize, low: &LowChunk) -> String {
        let mut names: Vec<String> = Vec::new();
        for (_, target) in self.dependencies(index, low, false) {
            let tried = self.tried.get(&target).map(Outcome::from_return);
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
