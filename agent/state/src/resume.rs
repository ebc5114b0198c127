//! Resuming a run that was cut short: which recorded returns remain valid, what is done about the
//! steps that were under way, and what has changed since.

use std::collections::BTreeMap;

use value::{Map, Value, jid};

use crate::boot;
use crate::compile::{Plan, did_you_mean};
use crate::exec::Registry;
use crate::facts::StepKind;
use crate::low::{LowChunk, RequisiteKind, When, is_step};
use crate::record::{self, ReceivedEvents, Recorded, StartedStep};

/// The separator of the parts of a tag.
pub const SEPARATOR: &str = "_|-";

/// The action for a step that was under way when its run was cut short (`resume:`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The step is executed again.
    Redo,
    /// The user must decide; nothing runs before.
    Ask,
    /// The step is not executed again, and counts as failed.
    Never,
}

impl Policy {
    /// Returns the word of this policy in an SLS.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Redo => "redo",
            Self::Ask => "ask",
            Self::Never => "never",
        }
    }

    /// Returns the policy that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let mut all = [Self::Redo, Self::Ask, Self::Never].into_iter();
        all.find(|policy| policy.word() == word)
    }

    /// Returns the policy of a chunk. Without `resume:` it is `Redo` for states, and for
    /// orchestration steps that run states, because states converge. It is `Ask` for steps that run
    /// functions, because their effect is not known.
    #[must_use]
    pub fn for_chunk(registry: &Registry, low: &LowChunk) -> Self {
        let said = low.data.get("resume").and_then(Value::as_str);
        said.and_then(Self::from_word).unwrap_or_else(|| {
            let asks = match registry.step(low) {
                Some(StepKind::Function | StepKind::Wheel) => true,
                Some(StepKind::Runner) => !registry.continues(&low.name),
                Some(StepKind::ParallelRunners) => !all_continue(registry, low.data.get("runners")),
                Some(StepKind::State | StepKind::WaitForEvent) | None => false,
            };
            if asks { Self::Ask } else { Self::Redo }
        })
    }

    /// Returns what is wrong with the `resume` option of a chunk, if anything is.
    pub(crate) fn fault(data: &Map) -> Option<String> {
        let said = data.get("resume")?;
        let known = said.as_str().and_then(Self::from_word).is_some();
        (!known).then(|| format!("resume: {} is not one of redo, ask, never", said.to_text()))
    }
}

/// Returns whether all runners of a `salt.parallel_runners` step may be called again.
fn all_continue(registry: &Registry, runners: Option<&Value>) -> bool {
    let named = |(id, config): (&Value, &Value)| {
        let inner = config.as_list().unwrap_or_default().iter();
        let listed = inner.filter_map(|item| item.get("name")).next();
        let name = config.get("name").or(listed).unwrap_or(id);
        registry.continues(&name.to_text())
    };
    match runners {
        Some(Value::Map(runners)) => runners.iter().all(named),
        Some(Value::Str(name)) => registry.continues(name),
        _ => false,
    }
}

/// The user's decisions about the steps of a run that is resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResumeOptions {
    /// The steps to execute again.
    pub redo: Vec<String>,
    /// The steps to treat as done.
    pub skip: Vec<String>,
    /// The step from which on all steps are executed again, whatever their result was.
    pub from: Option<String>,
}

/// The state with which a resumed run starts.
#[derive(Clone, Debug, Default)]
pub struct Resumed {
    /// The recorded returns that remain valid.
    pub returns: Map,
    /// The valid returns of nested orchestrations, by part.
    pub parts: BTreeMap<String, Map>,
    /// The parts whose compensation had started. An empty name is the run itself.
    pub compensating: Vec<String>,
    /// The events that each part received for its steps that wait for events. An empty name is the
    /// run itself.
    pub heard: BTreeMap<String, ReceivedEvents>,
    /// The returns of steps that are not executed: they are skipped, or must never be repeated.
    pub settled: Vec<Settled>,
    /// The tags whose returns are no longer valid.
    pub forgotten: Vec<String>,
    /// Messages for the user.
    pub told: Vec<String>,
}

/// The return of a step that is not executed.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The part of the run that contains the step.
    pub part: String,
    /// Its tag.
    pub tag: String,
    /// Its return.
    pub ret: Map,
}

impl Resumed {
    /// Determines how a plan continues from a record.
    ///
    /// # Errors
    /// Sentences about decisions that the user must make first, or that make no sense.
    pub fn from_record(
        registry: &Registry,
        plan: &Plan,
        recorded: &Recorded,
        orders: &ResumeOptions,
    ) -> Result<Self, Vec<String>> {
        let mut work = Work {
            registry,
            plan,
            orders,
            recorded: recorded.clone(),
            taken: Self::default(),
            errors: Vec::new(),
        };
        work.taken.told = changes(plan, recorded);
        work.start_from();
        work.settle_skipped();
        work.settle_begun();
        work.refuse_unmeant();
        if !work.errors.is_empty() {
            return Err(work.errors);
        }
        let heard = std::mem::take(&mut work.recorded.heard).into_iter();
        let Recorded { returns, parts, .. } = &work.recorded;
        let of_part = |part: &str| match part {
            "" => Some(returns),
            part => parts.get(part),
        };
        let heard = heard.map(|(part, heard)| (part.clone(), heard.of_returns(of_part(&part))));
        Ok(Self {
            heard: heard.collect(),
            returns: work.recorded.returns,
            parts: work.recorded.parts,
            compensating: work.recorded.compensating,
            ..work.taken
        })
    }
}

/// Returns the id in a tag.
#[must_use]
pub fn id_of(tag: &str) -> &str {
    tag.split(SEPARATOR).nth(1).unwrap_or(tag)
}

/// Returns whether a tag is that of a call at the end of a run, for `listen` or `beacon`.
fn is_late(tag: &str) -> bool {
    let id = id_of(tag);
    id.starts_with("listener_") || id.starts_with("beacon_")
}

/// Returns whether a word names a step: it is the step's tag, id or name.
#[must_use]
pub fn means(word: &str, tag: &str) -> bool {
    tag == word
        || tag
            .split(SEPARATOR)
            .skip(1)
            .take(2)
            .any(|part| part == word)
}

struct Work<'a> {
    registry: &'a Registry,
    plan: &'a Plan,
    orders: &'a ResumeOptions,
    recorded: Recorded,
    taken: Resumed,
    errors: Vec<String>,
}

impl Work<'_> {
    fn low(&self, tag: &str) -> Option<&LowChunk> {
        let mut chunks = self.plan.chunks().iter();
        chunks.find(|low| low.tag() == tag).map(|low| &**low)
    }

    /// Drops the returns of the step `from` and of all later steps. Returns of steps that must
    /// never be repeated remain valid.
    fn start_from(&mut self) {
        let Some(word) = &self.orders.from else {
            return;
        };
        let chunks = self.plan.chunks();
        let Some(at) = chunks.iter().position(|low| means(word, &low.tag())) else {
            return self.unknown("from", word);
        };
        let at = self.first_undone().map_or(at, |undone| undone.min(at));
        self.recorded.compensating.retain(|part| !part.is_empty());
        let mut forgotten: Vec<String> = Vec::new();
        for low in chunks.iter().skip(at) {
            let tag = low.tag();
            let Some(ret) = self.recorded.returns.get(&tag) else {
                continue;
            };
            let ran = ret.get("__state_ran__").is_none_or(Value::is_true);
            if Policy::for_chunk(self.registry, low) == Policy::Never && ran {
                let told = format!(
                    "{} has already run and is marked resume: never; keeping its return",
                    low.id
                );
                self.taken.told.push(told);
            } else {
                forgotten.push(tag);
            }
        }
        // Compensating chunks, and those that run at the end, run again.
        let later = chunks.iter().filter(|low| low.when != When::Ordinary);
        forgotten.extend(later.map(|low| low.tag()));
        // They are called again for the changes of the resumed run.
        let returns = self.recorded.returns.keys().filter_map(Value::as_str);
        forgotten.extend(returns.filter(|tag| is_late(tag)).map(str::to_owned));
        forgotten.iter().for_each(|tag| self.recorded.forget(tag));
        self.taken.forgotten = forgotten;
    }

    /// Returns the first step that was compensated, if any: its effect was undone, so the run must
    /// continue from there.
    fn first_undone(&mut self) -> Option<usize> {
        let ran = |tag: &str| {
            let ret = self.recorded.returns.get(tag);
            let begun = self.recorded.begun.iter().any(|one| one.tag == tag);
            begun || ret.is_some_and(|ret| ret.get("__state_ran__").is_none_or(Value::is_true))
        };
        let chunks = self.plan.chunks();
        let compensated = |low: &LowChunk| {
            let all = low.requisites.iter();
            let mut all = all.filter(|one| one.kind == RequisiteKind::Compensate);
            let undoes = |at: &usize| chunks.get(*at).is_some_and(|low| ran(&low.tag()));
            all.any(|one| one.chunks.iter().any(undoes))
        };
        let undone = chunks.iter().position(|low| compensated(low))?;
        for low in chunks.iter().filter(|low| compensated(low)) {
            let id = &low.id;
            if Policy::for_chunk(self.registry, low) == Policy::Never {
                self.errors.push(format!(
                    "{id} is marked resume: never, but was compensated, so it is not known whether it may run again; start a new run"
                ));
            } else {
                let told = format!("{id} was compensated: resuming the run from there");
                self.taken.told.push(told);
            }
        }
        Some(undone)
    }

    fn unknown(&mut self, order: &str, word: &str) {
        let ids: Vec<&str> = self
            .plan
            .chunks()
            .iter()
            .map(|low| low.id.as_str())
            .collect();
        let hint = did_you_mean(word, ids).unwrap_or_default();
        let error = format!("{order}={word}: there is no such step; {hint}");
        self.errors.push(error.trim_end_matches("; ").to_owned());
    }

    /// Gives a return to the steps without one that the user treats as done.
    fn settle_skipped(&mut self) {
        for word in &self.orders.skip {
            let chunks = self.plan.chunks().iter().map(|low| low.tag());
            let open =
                chunks.filter(|tag| means(word, tag) && !self.recorded.returns.contains(tag));
            let mut steps: Vec<(String, String)> = open.map(|tag| (String::new(), tag)).collect();
            let nested = self
                .recorded
                .begun
                .iter()
                .filter(|one| !one.part.is_empty());
            let nested = nested.filter(|one| means(word, &one.tag));
            steps.extend(nested.map(|one| (one.part.clone(), one.tag.clone())));
            if steps.is_empty() {
                self.no_such("skip", word);
            }
            for (part, tag) in steps {
                let comment = "Skipped when the run was resumed: treated as done";
                self.settle(part, tag, true, comment);
            }
        }
    }

    /// Adds an error about a word that names a finished step, or no step at all.
    fn no_such(&mut self, order: &str, word: &str) {
        let returns = self.recorded.returns.iter();
        let done = returns.filter(|(tag, _)| tag.as_str().is_some_and(|tag| means(word, tag)));
        match done.count() > 0 {
            true => self.errors.push(format!(
                "{order}={word}: that step has already finished; use from={word} to run it and all steps after it again"
            )),
            false => self.unknown(order, word),
        }
    }

    fn settle(&mut self, part: String, tag: String, result: bool, comment: &str) {
        self.settle_with(part, tag, result, comment, Map::new());
    }

    fn settle_with(
        &mut self,
        part: String,
        tag: String,
        result: bool,
        comment: &str,
        changes: Map,
    ) {
        let low = self.low(&tag).filter(|_| part.is_empty());
        let mut parts = tag.split(SEPARATOR).skip(1);
        let (id, name) = (parts.next(), parts.next());
        let ret = Map::new()
            .with("name", name)
            .with("result", result)
            .with("changes", changes)
            .with("comment", comment)
            .with("__sls__", low.map(|low| low.sls.clone()))
            .with("__id__", id)
            .with("__run_num__", self.number(&part));
        let inner = [part.as_str(), &tag].concat();
        self.recorded.begun.retain(|one| {
            let itself = one.part == part && one.tag == tag;
            !itself && !one.part.starts_with(&inner)
        });
        let returns = match part.as_str() {
            "" => &mut self.recorded.returns,
            part => self.recorded.parts.entry(part.to_owned()).or_default(),
        };
        returns.insert(tag.as_str(), ret.clone());
        self.taken.settled.push(Settled { part, tag, ret });
    }

    /// Returns the next `__run_num__` of a part.
    fn number(&self, part: &str) -> i64 {
        let returns = match part {
            "" => Some(&self.recorded.returns),
            part => self.recorded.parts.get(part),
        };
        returns.map_or(0, next_number)
    }

    /// Decides about the steps that were under way, the outer ones first.
    fn settle_begun(&mut self) {
        let mut begun = self.recorded.begun.clone();
        begun.sort_by_key(|one| one.part.len());
        for one in begun {
            if self.recorded.begun.contains(&one) {
                self.settle_one(one);
            }
        }
    }

    fn settle_one(&mut self, one: StartedStep) {
        let now = self.low(&one.tag).filter(|_| one.part.is_empty());
        let policy = now.map_or(one.policy, |low| Policy::for_chunk(self.registry, low));
        let (id, word) = (id_of(&one.tag).to_owned(), function_of(&one.tag));
        let mut redo = self.orders.redo.iter().chain(&self.orders.from);
        let redone = redo.any(|word| means(word, &one.tag));
        let boot = one.boot.clone().filter(|_| !redone);
        if let Some((before, now)) = boot.zip(boot::id()).filter(|(before, now)| before != now) {
            let comment = format!(
                "The machine has rebooted; the run continued at {}",
                jid::to_time(&jid::new())
            );
            let boots = Map::new().with("old", before).with("new", now);
            let changes = Map::new().with("rebooted", boots);
            self.settle_with(one.part, one.tag, true, &comment, changes);
        } else if now.is_none() && one.part.is_empty() {
            let told = format!(
                "{id} ({word}) was under way when the run was cut short, and is no longer in the tree"
            );
            self.taken.told.push(told);
        } else if self.holds_reboot(&one) {
            // This step was not cut short: the run inside it has its own part of the record, and
            // continues there.
        } else if policy == Policy::Never && redone {
            self.errors.push(format!(
                "{id} ({word}) is marked resume: never and is not run again; use skip={id} to treat it as done, or change the mark"
            ));
        } else if policy == Policy::Never {
            let comment = "The run was cut short during this step. The step is marked resume: never, so it is not run again and counts as failed";
            self.settle(one.part, one.tag, false, comment);
        } else if policy == Policy::Ask && !redone {
            self.errors.push(format!(
                "{id} ({word}) was under way when the run was cut short; it is not known whether it took effect. Use resume=True redo={id} to run it again, or resume=True skip={id} to treat it as done"
            ));
        }
    }

    /// Returns whether a step inside this one took the machine down.
    fn holds_reboot(&self, one: &StartedStep) -> bool {
        let part = [&one.part, one.tag.as_str(), "\n"].concat();
        let mut begun = self.recorded.begun.iter();
        begun.any(|inner| inner.boot.is_some() && inner.part.starts_with(&part))
    }

    /// Refuses `redo` for words that name no step without a return.
    fn refuse_unmeant(&mut self) {
        for word in &self.orders.redo {
            let nested = self.recorded.begun.iter().any(|one| means(word, &one.tag));
            let mut chunks = self.plan.chunks().iter().map(|low| low.tag());
            let open = chunks.any(|tag| means(word, &tag) && !self.recorded.returns.contains(&tag));
            if !nested && !open {
                self.no_such("redo", word);
            }
        }
    }
}

/// Returns the `__run_num__` that follows those of the given returns.
#[must_use]
pub fn next_number(returns: &Map) -> i64 {
    let numbers = returns.values().filter_map(|ret| ret.get("__run_num__"));
    numbers
        .filter_map(Value::as_int)
        .max()
        .map_or(0, |last| last + 1)
}

/// Returns the function in a tag. For a step of an orchestration, the name that it runs is
/// included.
#[must_use]
pub fn function_of(tag: &str) -> String {
    let parts: Vec<&str> = tag.split(SEPARATOR).collect();
    match parts.as_slice() {
        [state, _, name, fun] if is_step(state) => format!("{state}.{fun} {name}"),
        [state, .., fun] => format!("{state}.{fun}"),
        _ => tag.to_owned(),
    }
}

/// Returns sentences about the differences between a recorded plan and this one. Empty if there are
/// none.
#[must_use]
pub fn changes(plan: &Plan, recorded: &Recorded) -> Vec<String> {
    let known = |key| recorded.start.get(key).and_then(Value::as_str);
    let Some(hashes) = known("chunks") else {
        return vec![
            "the record was written by an older version: cannot tell whether the tree has changed since"
                .to_owned(),
        ];
    };
    if known("plan") == Some(record::plan_hash(plan).as_str()) {
        return Vec::new();
    }
    let before: Vec<u32> = hashes
        .as_bytes()
        .chunks(8)
        .filter_map(|digits| u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
        .collect();
    let mut told = vec!["the tree has changed since the run was cut short".to_owned()];
    for low in plan.chunks() {
        if !before.contains(&record::chunk_hash(&low.data)) {
            let (function, id, sls) = (low.function(), &low.id, &low.sls);
            told.push(match recorded.returns.contains(&low.tag()) {
                true => format!("changed: {id} ({function}) in {sls}; it has finished and is not run again; use from={id} to run it again"),
                false => format!("new or changed: {id} ({function}) in {sls}"),
            });
        }
    }
    let now: Vec<String> = plan.chunks().iter().map(|low| low.tag()).collect();
    for (tag, ret) in &recorded.returns {
        let tag = tag.as_str().unwrap_or_default();
        // A state with several parts returns one entry for each part, with the id of the state.
        let own = ret.get("__id__").and_then(Value::as_str) == Some(id_of(tag));
        if own && !is_late(tag) && !now.iter().any(|one| one == tag) {
            told.push(format!(
                "removed: {}, which had finished; keeping its return",
                id_of(tag)
            ));
        }
    }
    told
}
