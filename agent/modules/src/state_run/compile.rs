//! The steps that compile the SLS to a plan, and compare it with the declared functions.

use state::compile::{self, Plan, Problem};
use state::exec::Exec;
use value::log;

use super::prepare::Prepared;
use super::{Request, Stop};

/// A run with its plan.
pub(super) struct Compiled {
    run: Prepared,
    plan: Plan,
}

/// A run whose plan names functions and arguments that exist.
pub(super) struct Checked {
    /// The run.
    pub(super) run: Prepared,
    /// Its plan.
    pub(super) plan: Plan,
}

impl Prepared {
    /// Compiles the plan in the context of the run.
    pub(super) fn compile(
        self,
        compile: impl FnOnce(&Exec, &Request) -> Result<Plan, Stop>,
    ) -> Result<Compiled, Stop> {
        let plan = compile(&self.cx, &self.request)?;
        Ok(Compiled { run: self, plan })
    }
}

impl Compiled {
    /// Checks the whole plan before its first chunk runs.
    pub(super) fn check(self) -> Result<Checked, Stop> {
        let Self { run, plan } = self;
        let mut stops = Vec::new();
        for checked in compile::check(&plan, &run.cx) {
            match checked.problem {
                Problem::Stops(fault) => stops.push(fault),
                Problem::Warning(fault) => log::warning(fault.to_text()),
                Problem::Fails(fault) => log::error(fault.to_text()),
            }
        }
        match stops.is_empty() {
            true => Ok(Checked { run, plan }),
            false => Err(Stop::faults(&run.cx, &stops)),
        }
    }
}
