//! `pinch lint`: finds problems in a tree without running it.
//!
//! The engine's own compiler compiles the tree, once for each sample of grains, and its faults are
//! kept with their places. Nothing is run: a template that needs something only a run can know is
//! abandoned at that point, and the report says so.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

mod buffers;
mod calls;
mod chunks;
mod codes;
mod finding;
mod format;
mod migrate;
mod pillar;
mod reactor;
mod samples;
mod senders;
mod text_checks;
mod tree;

use std::collections::HashMap;

use value::Map;

pub use buffers::Buffers;
pub use codes::{CODES, Code, Severity, find as code};
pub use finding::Finding;
pub use format::formatted;
pub use migrate::{Seen, Verdict, migration};
pub use samples::{Sample, Settings, Unreached, lint, samples, sources, without_machine};

/// The result of checking a tree.
#[derive(Debug, Default)]
pub struct Report {
    /// The findings, by file and line.
    pub findings: Vec<Finding>,
    /// Branches of templates that no sample reached.
    pub unreached: Vec<Unreached>,
    /// The number of SLS files that were checked.
    pub files: usize,
    /// The SLS files by name, for the migration report.
    pub sls: std::collections::BTreeMap<String, Seen>,
    /// The number of samples of grains.
    pub samples: usize,
    /// The SLS of each state of the tree, by the module, `id` or `sls`, and by its name.
    pub states: HashMap<(String, String), String>,
    /// The pillar of each sample that has one.
    pub pillars: Vec<Map>,
}

impl Report {
    /// Returns the number of findings with a severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|found| found.severity() == severity)
            .count()
    }
}
