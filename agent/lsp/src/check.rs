//! [`Checker`]: checks the tree in a thread, always with the newest texts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use lint::{Report, Settings};
use lsp_types::Uri;
use lsp_types::notification::{Notification, PublishDiagnostics, ShowMessage};
use lsp_types::{MessageType, ShowMessageParams};

use crate::diagnostics;
use crate::documents::Documents;
use crate::output::Output;

/// The stack of the thread, which compiles nested data and templates: that of a main thread.
const STACK: usize = 8 << 20;

/// A check of the tree in a thread.
#[derive(Clone)]
pub(crate) struct Checker(Arc<Shared>);

struct Shared {
    next: Mutex<Option<Task>>,
    changed: Condvar,
    report: Mutex<Option<Arc<Report>>>,
    output: Output,
}

/// The state of the editor that is to be checked.
pub(crate) struct Task {
    pub(crate) settings: Settings,
    pub(crate) documents: Documents,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checker {
    /// Starts the thread.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start(output: Output) -> Result<Self, String> {
        let checker = Self(Arc::new(Shared {
            next: Mutex::default(),
            changed: Condvar::new(),
            report: Mutex::default(),
            output,
        }));
        let own = checker.clone();
        let thread = thread::Builder::new()
            .name("check".to_owned())
            .stack_size(STACK);
        thread
            .spawn(move || own.run())
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(checker)
    }

    /// Checks this state next. It replaces an older one that has not been checked yet.
    pub(crate) fn check(&self, task: Task) {
        *lock(&self.0.next) = Some(task);
        self.0.changed.notify_one();
    }

    /// Returns the last report.
    pub(crate) fn report(&self) -> Option<Arc<Report>> {
        lock(&self.0.report).clone()
    }

    fn run(&self) {
        let mut files = BTreeMap::new();
        loop {
            let task = self.next();
            self.step(task, &mut files);
        }
    }

    fn next(&self) -> Task {
        let mut next = lock(&self.0.next);
        loop {
            if let Some(task) = next.take() {
                return task;
            }
            // No deadline: the user may pause, and the thread ends with the program.
            next = self
                .0
                .changed
                .wait(next)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Checks a state, and publishes the result unless there is a newer state by then.
    fn step(&self, task: Task, files: &mut BTreeMap<PathBuf, Uri>) {
        let Task {
            mut settings,
            documents,
        } = task;
        settings.buffers = documents.buffers();
        let report = match lint::lint(&settings) {
            Ok(report) => Arc::new(report),
            Err(error) => return self.fail(error),
        };
        *lock(&self.0.report) = Some(Arc::clone(&report));
        if lock(&self.0.next).is_some() {
            return;
        }
        for of_file in diagnostics::of_report(&report, &documents, files) {
            self.0.output.notify(PublishDiagnostics::METHOD, &of_file);
        }
    }

    fn fail(&self, message: String) {
        let message = ShowMessageParams {
            typ: MessageType::ERROR,
            message,
        };
        self.0.output.notify(ShowMessage::METHOD, &message);
    }
}
