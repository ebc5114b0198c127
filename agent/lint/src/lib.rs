//! `pinch lint`: what is wrong with a tree, without running it.
//!
//! The tree is compiled by the engine's own compiler, once for each sample of grains, and what that says is kept with its place. Nothing
//! is run: a template that asks for what only a run knows is left at that point, and the report says so.
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        reason = "tests make what they need in folders of their own"
    )
)]

mod calls;
mod chunks;
mod codes;
mod finding;
mod format;
mod lines;
mod look;
mod migrate;
mod pillar;
mod reactor;
mod senders;
mod tree;

pub use codes::{CODES, Code, Severity, find as code};
pub use finding::Finding;
pub use format::formatted;
pub use look::{Sample, Settings, Unreached, lint, samples};
pub use migrate::{Seen, Verdict, migration};

/// What was found in a tree.
#[derive(Debug, Default)]
pub struct Report {
    /// What is wrong, by file and line.
    pub findings: Vec<Finding>,
    /// Branches of templates that no sample has reached.
    pub unreached: Vec<Unreached>,
    /// How many SLS files were looked at.
    pub files: usize,
    /// The SLS by name, for what becomes of them.
    pub sls: std::collections::BTreeMap<String, Seen>,
    /// How many samples of grains.
    pub samples: usize,
}

impl Report {
    /// How many findings have a severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        let findings = self.findings.iter();
        findings
            .filter(|found| found.severity() == severity)
            .count()
    }
}
