//! Checks a tree with each sample of grains.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use modules::state_run::orchestrate::ThisMachine;
use render::Place;
use render::jinja::Reached;
use state::compile::{Examined, Examiner, Fault, Problem};
use state::custom::Kind;
use state::exec::{Exec, Registry, find};
use state::host::Tree;
use state::opts::Opts;
use state::sources::Sources;
use state::top::{self, Request};
use value::{Map, Value};

use crate::buffers::{Buffers, Edited};
use crate::chunks::{self, StateIndex};
use crate::finding::Finding;
use crate::tree::{Files, Modules, NOT_ASKED};
use crate::{Report, Seen, pillar, reactor, senders, text_checks};

/// The grains of a machine, with which the tree is compiled.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The name in the report.
    pub name: String,
    /// The grains; `None` for those of this machine.
    pub grains: Option<Map>,
}

/// The settings of a check.
#[derive(Clone)]
pub struct Settings {
    /// The configuration, with the roots.
    pub opts: Opts,
    /// The built-in modules, from [`without_machine`].
    pub registry: &'static Registry,
    /// A folder below the file root that is not part of the tree.
    pub without: Option<String>,
    /// The machines to compile the tree for.
    pub samples: Vec<Sample>,
    /// Texts that replace those of files.
    pub buffers: Buffers,
}

/// Lines of a template that no sample reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreached {
    /// The template.
    pub file: String,
    /// The line of the tag that begins the branch.
    pub first: u32,
    /// The line of the tag that ends it.
    pub last: u32,
}

/// Reads the samples in a file: grains as a dictionary, or the output of a program for one or
/// several machines.
///
/// # Errors
/// When the text is neither.
pub fn samples(name: &str, text: &str) -> Result<Vec<Sample>, String> {
    let value = render::yaml::load(text).map_err(|error| format!("{name}: {error}"))?;
    let Some(map) = value.as_map().filter(|map| !map.is_empty()) else {
        return Err(format!("{name}: expected a dictionary of grains"));
    };
    let sample = |name: &str, grains: &Map| Sample {
        name: name.to_owned(),
        grains: Some(grains.clone()),
    };
    // In the output of `grains.items`, the grains are below the minion's id.
    let several: Option<Vec<Sample>> = map
        .iter()
        .map(|(id, grains)| {
            let grains = grains.as_map().filter(|grains| grains.contains("os"))?;
            Some(sample(&id.to_text(), grains))
        })
        .collect();
    Ok(several.unwrap_or_else(|| vec![sample(name, map)]))
}

/// Checks a tree.
///
/// # Errors
/// When its files cannot be listed.
pub fn lint(settings: &Settings) -> Result<Report, String> {
    let reached = Arc::new(Reached::default());
    let files = files(settings);
    let mut all = Found::default();
    let mut known = StateIndex::default();
    let texts = texts(&files);
    let parts = text_checks::included(&texts);
    for sample in &settings.samples {
        let cx = context(settings, sample);
        let mut look = Look {
            cx: &cx,
            settings,
            parts: &parts,
            examiner: Examiner::new(&cx, Arc::clone(&reached)),
            found: &mut all,
            known: &mut known,
        };
        look.all()?;
        all.pillars.extend(cx.pillar());
    }
    all.targets();
    for (shown, text) in &texts {
        text_checks::look(text, shown, &mut all.findings);
    }
    senders::look(&settings.opts, &files, &mut all.findings);
    let unreached = unreached(&files, &reached);
    let report = all.report(unreached, settings.samples.len());
    Ok(Report {
        states: known.states(),
        ..report
    })
}

/// Returns the registry with every module available, whatever this machine lacks: a tree is for
/// other machines too. The result is never freed, so a program calls this once.
#[must_use]
pub fn without_machine(registry: &'static Registry) -> &'static Registry {
    Box::leak(Box::new(Registry {
        missing: |_, _, _| None,
        ..*registry
    }))
}

fn context(settings: &Settings, sample: &Sample) -> Exec {
    let mut opts = settings.opts.clone();
    if let Some(id) = sample.grains.as_ref().and_then(|grains| grains.get("id")) {
        opts.map.insert("id", id.clone());
    }
    let files = Files::new(&opts, settings.without.clone(), &settings.buffers);
    let modules = Modules::read(&files);
    let cx = Exec::with_custom(
        opts,
        settings.registry,
        Box::new(files),
        Box::new(ThisMachine),
        Box::new(modules),
    );
    if let Some(grains) = &sample.grains {
        cx.set_grains(grains.clone());
    }
    cx
}

/// Returns the files and the pillar of the tree, with the texts of the editor.
#[must_use]
pub fn sources(settings: &Settings) -> impl Sources + use<> {
    files(settings)
}

fn files(settings: &Settings) -> Files {
    Files::new(&settings.opts, settings.without.clone(), &settings.buffers)
}

/// Returns all SLS files of states that can be read: their texts by their names for the user.
fn texts(files: &Files) -> BTreeMap<String, Arc<str>> {
    let mut all = BTreeMap::new();
    for saltenv in files.environments().unwrap_or_default() {
        let paths = files.list(&saltenv).unwrap_or_default();
        let data = |path: &str| is_data(&path.trim_end_matches(".sls").replace('/', "."));
        for path in paths
            .iter()
            .filter(|path| path.ends_with(".sls") && !data(path))
        {
            if let Ok(Some(file)) = files.file(path, &saltenv)
                && let Ok(text) = files.text(&file)
            {
                all.insert(file.shown.to_string(), text);
            }
        }
    }
    all
}

fn unreached(files: &Files, reached: &Reached) -> Vec<Unreached> {
    let name = |template: &str| {
        let found = files.file(template, "base").ok().flatten();
        found.map_or_else(|| template.to_owned(), |file| file.shown.to_string())
    };
    let branches = reached.branches().into_iter();
    let mut all: Vec<Unreached> = branches
        .filter(|branch| !branch.reached)
        .map(|branch| Unreached {
            file: name(&branch.template),
            first: branch.line,
            last: branch.last,
        })
        .collect();
    all.sort();
    all.dedup();
    // A branch inside an unreached one is unreached as well, and is not reported separately.
    let mut outer: Vec<Unreached> = Vec::new();
    for branch in all {
        let inside = outer.last().is_some_and(|last| {
            last.file == branch.file && last.first <= branch.first && branch.last <= last.last
        });
        if !inside {
            outer.push(branch);
        }
    }
    outer
}

/// The results of all samples.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) findings: Vec<Finding>,
    files: HashSet<String>,
    sls: BTreeMap<String, Seen>,
    pillars: Vec<Map>,
    /// Targets of orchestrations, each with whether any sample matches it.
    pub(crate) targets: HashMap<String, (bool, Finding)>,
}

impl Found {
    fn targets(&mut self) {
        let unmatched = std::mem::take(&mut self.targets).into_values();
        let unmatched = unmatched.filter(|(matched, _)| !matched);
        self.findings.extend(unmatched.map(|(_, finding)| finding));
    }

    fn report(mut self, unreached: Vec<Unreached>, samples: usize) -> Report {
        self.findings.retain(|finding| !finding.is_allowed());
        self.findings.sort_by(|a, b| a.key().cmp(&b.key()));
        self.findings.dedup_by(|a, b| a.key() == b.key());
        // An argument with a new name is unknown too. The finding that names the new one suffices.
        let renamed = self
            .findings
            .iter()
            .filter(|found| found.code.code == "W804");
        let renamed: BTreeSet<_> = renamed
            .map(|found| (found.file.clone(), found.line))
            .collect();
        self.findings.retain(|found| {
            found.code.code != "W304" || !renamed.contains(&(found.file.clone(), found.line))
        });
        Report {
            findings: self.findings,
            unreached,
            files: self.files.len(),
            sls: self.sls,
            samples,
            pillars: self.pillars,
            ..Report::default()
        }
    }
}

/// The check of a tree with one sample.
struct Look<'a> {
    cx: &'a Exec,
    settings: &'a Settings,
    examiner: Examiner<'a>,
    /// The names of the files that templates include.
    parts: &'a HashSet<String>,
    found: &'a mut Found,
    known: &'a mut StateIndex,
}

impl Look<'_> {
    fn all(&mut self) -> Result<(), String> {
        self.pillar();
        let all = self.cx.shared.sources.environments();
        for saltenv in all.map_err(|error| error.to_string())? {
            let names = self.examiner.all(&saltenv).map_err(|fault| fault.text)?;
            let names = names
                .into_iter()
                .filter(|name| self.is_named(name, &saltenv));
            let (data, states): (Vec<_>, Vec<_>) = names.partition(|name| is_data(name));
            self.data(&saltenv, &data);
            self.environment(&saltenv, &states);
        }
        Ok(())
    }

    /// True when an SLS can be named; one with a dot in its file name cannot.
    fn is_named(&self, name: &str, saltenv: &str) -> bool {
        let found = state::tree::find(self.cx, &Tree::State, name, saltenv);
        name != "top" && found.is_ok_and(|found| found.is_some())
    }

    /// Checks only that pillar and top files among the states can be read.
    fn data(&mut self, saltenv: &str, names: &[String]) {
        for name in names {
            self.found.files.insert(format!("{saltenv}:{name}"));
            if let Err(fault) = self.examiner.other(&Tree::State, name, saltenv) {
                let finding = not_asked(Finding::from_fault(fault, name));
                if finding.code.code.starts_with("E1") {
                    self.found.findings.push(finding);
                }
            }
        }
    }

    fn pillar(&mut self) {
        let pillar = Edited::pillar(&self.settings.opts, &self.settings.buffers);
        let tree = Tree::Other(Arc::new(pillar));
        pillar::look(self.cx, &self.examiner, &tree, &mut self.found.findings);
    }

    fn environment(&mut self, saltenv: &str, names: &[String]) {
        for name in names {
            self.found.files.insert(format!("{saltenv}:{name}"));
        }
        let (reactions, names): (Vec<String>, Vec<String>) = names
            .iter()
            .cloned()
            .partition(|name| reactor::is_reaction(self.cx.opts(), name));
        for name in &reactions {
            reactor::look(self.cx, &self.examiner, name, saltenv, self.found);
        }
        // Each result with the SLS that was applied alone; `None` is the result of the top files.
        let mut examined: Vec<(Option<&str>, Examined)> = Vec::new();
        let mut covered: HashSet<String> = HashSet::new();
        for name in &names {
            covered.extend(self.examiner.includes(name, saltenv));
        }
        if saltenv == "base" {
            examined.extend(
                self.highstate(&mut covered)
                    .map(|together| (None, together)),
            );
        }
        for name in names.iter().filter(|name| !covered.contains(*name)) {
            examined.push((Some(name), self.alone(name, saltenv)));
        }
        // SLS that only include each other in a circle have not been examined yet.
        let seen = examined.iter().flat_map(|(_, one)| sls_of(one));
        let seen: HashSet<String> = seen.collect();
        for name in names.iter().filter(|name| covered.contains(*name)) {
            if !seen.contains(name) {
                examined.push((Some(name), self.alone(name, saltenv)));
            }
        }
        for (_, one) in &examined {
            self.known.take_in(one);
            self.see(one, saltenv);
        }
        for name in &names {
            self.known.take_in_name(name);
            self.see_text(name, saltenv);
            if let Some(text) = self.unrendered(name, saltenv) {
                self.known.take_in_text(name, text);
            }
        }
        for (alone, one) in examined {
            self.keep(alone, one, saltenv);
        }
    }

    /// Examines an SLS with the SLS that it includes.
    fn alone(&self, name: &str, saltenv: &str) -> Examined {
        let alone = [(saltenv.to_owned(), vec![name.to_owned()])];
        self.examiner.examine(&alone)
    }

    /// Examines the SLS that the top files assign to this sample, as they run together.
    fn highstate(&mut self, covered: &mut HashSet<String>) -> Option<Examined> {
        let matched = match top::matched(self.cx, &Request::from_config(self.cx)) {
            Ok(matched) if matched.is_empty() => return None,
            Ok(matched) => matched,
            Err(faults) => {
                let file = self.top_file();
                for fault in faults {
                    let fault = self.named_in_top(fault, &file);
                    self.fault(fault, &file);
                }
                return None;
            }
        };
        let examined = self.examiner.examine(&matched);
        if examined.whole {
            covered.extend(matched.into_iter().flat_map(|(_, names)| names));
        }
        Some(examined)
    }

    fn seen(&mut self, name: &str, saltenv: &str) -> &mut Seen {
        let name = match saltenv {
            "base" => name.to_owned(),
            _ => format!("{saltenv}:{name}"),
        };
        self.found.sls.entry(name).or_default()
    }

    /// Records the functions that the chunks of each SLS use.
    fn see(&mut self, examined: &Examined, saltenv: &str) {
        let cx = self.cx;
        for low in examined.plan.chunks() {
            let full = low.function();
            let built_in = find(cx.shared.registry.states, &full).is_some();
            let custom = &cx.shared.custom;
            let is_custom = !built_in && custom.state_function(cx, &full, false).is_some();
            let seen = self.seen(&low.sls, saltenv);
            if is_custom {
                seen.custom.insert(full.clone());
            }
            seen.functions.insert(full);
        }
    }

    /// Records what the text of an SLS uses.
    fn see_text(&mut self, name: &str, saltenv: &str) {
        let found = state::tree::find(self.cx, &Tree::State, name, saltenv);
        let Some(file) = found.ok().flatten().map(|found| found.file) else {
            return;
        };
        let functions = self.cx.shared.custom.functions(self.cx, Kind::Module);
        let functions: Vec<String> = functions.into_iter().map(|(full, _)| full).collect();
        let text = self.cx.shared.sources.text(&file);
        let text = text.unwrap_or_else(|_| "".into());
        let seen = self.seen(name, saltenv);
        seen.file = file.shown.to_string();
        seen.read(&text, &functions);
    }

    /// Returns the text of an SLS that does not render.
    fn unrendered(&self, name: &str, saltenv: &str) -> Option<Arc<str>> {
        if self.examiner.renders(name, saltenv) {
            return None;
        }
        let found = state::tree::find(self.cx, &Tree::State, name, saltenv);
        self.cx.shared.sources.text(&found.ok()??.file).ok()
    }

    fn top_file(&self) -> String {
        let file = self.cx.shared.sources.file("top.sls", "base");
        let file = file.ok().flatten();
        file.map_or_else(|| "top.sls".to_owned(), |file| file.shown.to_string())
    }

    fn keep(&mut self, alone: Option<&str>, examined: Examined, saltenv: &str) {
        chunks::look(self.cx, &examined.plan, self.found);
        for checked in &examined.checked {
            let low = examined.plan.chunks().get(checked.chunk);
            let (Problem::Fails(fault) | Problem::Stops(fault) | Problem::Warning(fault)) =
                checked.problem.clone();
            let finding = Finding::from_fault(fault, "");
            if let Some(low) = low {
                let finding = chunks::judged(self.cx, low, finding);
                self.found.findings.extend(finding);
            }
        }
        let top = self.top_file();
        for fault in examined.faults.into_iter().filter(|fault| !fault.follows) {
            // The same problem has already been reported with its place, so it is not reported
            // again.
            let again = fault.text.starts_with("The type ") || fault.text.starts_with("Error when");
            if again && fault.place.is_none() {
                continue;
            }
            let fault = self.named_in_top(fault, &top);
            let file = self
                .file_in(&fault.text, saltenv)
                .unwrap_or_else(|| top.clone());
            let before = self.found.findings.len();
            self.fault(fault, &file);
            let of_alone = alone.and_then(|name| self.file_of(name, saltenv));
            for finding in self.found.findings.iter_mut().skip(before) {
                // A finding in another file may apply only when both are combined.
                if of_alone.as_ref().is_some_and(|own| *own != finding.file) {
                    finding.when = alone.map(str::to_owned);
                }
            }
        }
    }

    /// Returns the file of the SLS that a message is about.
    fn file_in(&self, sentence: &str, saltenv: &str) -> Option<String> {
        let after = |words| sentence.split_once(words).map(|(_, rest)| rest);
        let rest = after("in SLS ").or_else(|| after("SLS "));
        let rest = rest.or_else(|| after("' in '"))?;
        let word = |c: char| c.is_whitespace() || "[]'\"".contains(c);
        let sls = rest.split(word).find(|word| !word.is_empty())?;
        let sls = sls.rsplit(':').next().unwrap_or(sls).trim_end_matches('.');
        self.file_of(sls, saltenv)
    }

    /// Returns the file of an SLS, as the user knows it.
    fn file_of(&self, sls: &str, saltenv: &str) -> Option<String> {
        let found = state::tree::find(self.cx, &Tree::State, sls, saltenv);
        found.ok()?.map(|found| found.file.shown.to_string())
    }

    /// Adds a place to a fault that has none: the line of the top file that names the SLS.
    fn named_in_top(&self, fault: Fault, top: &str) -> Fault {
        if fault.place.is_some() {
            return fault;
        }
        let sources = &self.cx.shared.sources;
        let file = sources.file("top.sls", "base").ok().flatten();
        let text = file.and_then(|file| sources.text(&file).ok());
        let place = text.and_then(|text| text_checks::naming(&text, top, &fault.text));
        Fault { place, ..fault }
    }

    fn fault(&mut self, fault: Fault, file: &str) {
        let finding = Finding::from_fault(fault, file);
        let finding = part_of_another(self.real(finding), self.parts);
        let finding = self.known.judged(finding);
        self.found.findings.extend(finding);
    }

    /// Sets the path as the user knows it, and turns calls that linting does not make into I701.
    fn real(&self, mut finding: Finding) -> Finding {
        if let Ok(Some(file)) = self.cx.shared.sources.file(&finding.file, "base") {
            finding.file = file.shown.to_string();
        }
        chunks::function(self.cx, not_asked(finding))
    }
}

/// Replaces a finding about a call that linting does not make with I701, because this is not a
/// fault of the tree.
pub(crate) fn not_asked(finding: Finding) -> Finding {
    let Some((_, what)) = finding.message.split_once(NOT_ASKED) else {
        return finding;
    };
    Finding {
        message: format!("not checked beyond this point: it calls {}", what.trim()),
        ..finding
    }
    .code("I701")
}

/// True when the name of an SLS shows that it is not for states: it is pillar or a top file.
fn is_data(name: &str) -> bool {
    let mut words = name.split(['.', '_', '-']);
    let last = name.rsplit('.').next().unwrap_or_default();
    words.any(|word| word == "pillar" || word == "pillars")
        || last == "top"
        || last.ends_with("_top")
}

/// Turns an undefined variable into I701 if another template includes this file, because it may
/// come from there. It becomes W207 if the name is quoted in the line.
fn part_of_another(finding: Finding, parts: &HashSet<String>) -> Finding {
    let name = finding.message.split('\'').nth(1).unwrap_or_default();
    let quoted = || {
        let here = |mark: char| finding.source.contains(&format!("{mark}{name}"));
        here('\'') || here('"')
    };
    if finding.code.code != "E202" {
        return finding;
    }
    let file = finding.file.rsplit('/').next().unwrap_or_default();
    if parts.contains(file) {
        let message =
            format!("not checked: '{name}' is defined by the template that includes this one");
        let hint = None;
        return Finding {
            message,
            hint,
            ..finding
        }
        .code("I701");
    }
    // The undefined name is an argument, not the variable under the caret.
    match quoted() {
        true => Finding {
            hint: None,
            ..finding
        }
        .code("W207"),
        false => finding,
    }
}

fn sls_of(examined: &Examined) -> Vec<String> {
    let chunks = examined.plan.chunks().iter();
    let named = chunks.filter_map(|low| low.data.get("__sls__").map(Value::to_text));
    named.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns a place in a text whose line is known.
pub(crate) fn place(file: &str, line: usize, column: usize, source: &str) -> Place {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place {
        file: file.into(),
        line: number(line),
        column: number(column),
        source: source.to_owned(),
    }
}
